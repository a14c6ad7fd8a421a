"""Nock & Henecka (2020): boosted trees on 19 domains, and Table 1."""

PROGRAMS = (
    "run",
    "readings",
    "criterion",
    "forests",
    "auto",
    "tables",
    "aggregate",
    "claims",
    "nulls",
    "times",
    "scan",
    "significance",
)
