"""Set the papers' tables, figures and claims beside our results, or run them again."""

PROGRAMS = ("page", "results")
