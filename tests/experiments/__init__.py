"""Tests of experiments, figures and documents, which `make test-experiments` and CI run."""
