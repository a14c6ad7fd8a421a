"""Nock & Henecka (2020): private boosted decision trees, on 19 domains."""
