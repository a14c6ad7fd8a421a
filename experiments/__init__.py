"""Experiments that use the library; `python -m experiments` lists them.

They run from the root of the checkout and are not installed.
"""
