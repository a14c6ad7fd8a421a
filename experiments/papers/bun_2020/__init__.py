"""Bun et al. (2020): private halfspaces by rows, margin, noise and epsilon."""

PROGRAMS = ("run", "rates", "sizes", "tables", "aggregate")
