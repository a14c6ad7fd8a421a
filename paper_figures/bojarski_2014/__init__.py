"""Figures and tables of Bojarski et al. (2014)."""
