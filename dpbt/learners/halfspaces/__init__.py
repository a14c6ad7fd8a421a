"""Halfspaces: noisy centres of the examples on the unit ball."""
