"""Weak learners: a folder for each family.

Of a family, `model` has the hypotheses as arrays: how they predict, what a file keeps of them,
their words and their ONNX nodes, without JAX. `learner` puts the weak learner together: its config,
its private programs, and how training reads rows, which have modules of their own where they are
long. The learners of `trees` are `greedy`, `published`, `rule` and `top_down`.
"""
