"""Data sets, budgets and the few rows that are left out."""

SETTLED = ("adult", "magic", "mushroom", "cod-rna", "banknote", "breast-wisc")
"""Data sets on which the rule of `auto` was settled."""

UNTOUCHED = ("qsar", "page-blocks", "mammographic", "creditcard", "eeg", "covertype")
"""Data sets that were listed before the rule was first run on them."""

DATASETS = (*SETTLED, *UNTOUCHED)

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DELTAS = (0.0, 5e-8)
SPLITS = 10

BINS = 64
"""Intervals of every number."""

FIRST = {"cod-rna": 59_535}
"""Data set -> how many of its first rows are used: the training file of Asadi et al. (2022)."""

OWN_TEST = ("adult",)
"""Data sets whose own test rows are used. Their splits differ in keys and questions alone."""

ABLATION_EPSILONS = (0.1, 1.0)

TUNING = {
    "dataset": (*SETTLED, "qsar", "page-blocks", "mammographic", "eeg"),
    "epsilon": (0.5, 1.0, 2.0, 5.0),
    "delta": DELTAS,
    "methods": ("auto", "tuned", "tuned-logarithmic", "hindsight"),
    "splits": 3,
}
"""What `python -m experiments tuning` measures."""

TUNING_SMOKE = {
    "dataset": ("breast-cancer",),
    "epsilon": (1.0,),
    "delta": (0.0,),
    "methods": ("auto", "tuned"),
    "splits": 1,
}

SMOKE = {
    "dataset": ("breast-cancer",),
    "epsilon": (0.5, 2.0),
    "delta": (0.0,),
    "methods": ("auto", "diffprivlib-forest", "larger-class"),
    "splits": 1,
}
