"""Write a domain to fill in."""

PROGRAMS = ("template",)
