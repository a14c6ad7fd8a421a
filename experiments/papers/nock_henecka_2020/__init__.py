"""Nock & Henecka (2020): boosted trees on 19 domains, and Table 1."""

PROGRAMS = ("run", "readings", "forests", "auto", "table", "aggregate")
