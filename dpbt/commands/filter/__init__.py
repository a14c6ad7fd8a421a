"""Open a budget for many fits of the same rows, or show what is left of it."""

PROGRAMS = ("new", "show")
