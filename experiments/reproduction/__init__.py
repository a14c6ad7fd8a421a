"""Set the papers' claims and numbers beside ours, or run them again."""

PROGRAMS = ("page", "results")
