"""Released models: predictions, files, words, statements and ONNX graphs, without JAX."""
