"""Figures of the papers, one folder for each paper; they only read saved results.

Each module has `draw()`, which returns one figure, or figures by name. They run from the root of
the checkout and are not installed.
"""
