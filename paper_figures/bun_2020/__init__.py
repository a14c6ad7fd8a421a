"""Figures and tables of Bun et al. (2020)."""
