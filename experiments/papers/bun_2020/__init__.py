"""Bun et al. (2020): private boosting of halfspaces."""
