"""Data sets and budgets of both tasks."""

SETTLED_CLASSES = ("yeast", "cardiotocography", "page-blocks")
"""Data sets on which rules for several classes were studied."""

UNTOUCHED_CLASSES = ("covertype", "firmteacher")
"""Data sets that were listed before such rules were run on them."""

SETTLED_NUMBERS = ("abalone", "wine-white", "wine-red")
"""Data sets on which rules for numbers were studied."""

UNTOUCHED_NUMBERS = ("credit-limit", "adult-age")
"""Data sets that were listed before such rules were run on them."""

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DELTAS = (0.0, 5e-8)
SPLITS = 5

BINS = 64
"""Intervals of every number."""

SMOKE = {"epsilon": (0.5, 2.0), "delta": (0.0,), "splits": 1}
