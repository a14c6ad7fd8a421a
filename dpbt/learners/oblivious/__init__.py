"""Boosted oblivious trees over public splits."""
