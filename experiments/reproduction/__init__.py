"""Set the papers' tables, figures and claims beside our results, or run all of them again."""

PROGRAMS = ("page", "results")
