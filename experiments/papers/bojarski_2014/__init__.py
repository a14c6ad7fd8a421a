"""Bojarski et al. (2014): random decision forests, Table 1 and Figures 1 to 14."""

PROGRAMS = ("run", "tables", "readings", "draft", "points", "aggregate")
