"""Experiments, thin over the library: `python -m experiments NAME --help`."""
