"""Weak learners: a folder for each family.

Of a family, `model` has the hypotheses as arrays: how they predict, what a file keeps of them,
their words and their ONNX nodes, without JAX. `learner` has the configs, the private programs, and
how training reads rows.
"""
