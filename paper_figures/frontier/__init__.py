"""Figures of `auto` beside other private classifiers."""
