"""Figures of `auto` for several classes and for numbers, beside other private learners."""
