"""Figures of the papers, one module for each paper; they only read saved results.

A function draws one figure, or figures by name. They run from the root of
the checkout and are not installed.
"""
