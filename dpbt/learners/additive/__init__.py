"""Additive models: a curve for each column, and a table for each declared pair."""
