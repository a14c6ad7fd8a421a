"""Figures and tables of Asadi et al. (2022)."""
