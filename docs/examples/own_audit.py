"""A learner of one's own on the bench, with labels counted in two groups of age.

Run it with `dpbt audit --module docs/examples/own_audit.py`.
"""

import numpy as np

import dpbt

claim = (1.0, 0.0)  # epsilon and delta
worst = dpbt.audit.make_worst_table_pairs(low=[18.0], high=[90.0])  # rows are an age and a label
pairs = {name: worst[name] for name in ("the only row", "a cell that is no number")}


def learn(table, hooks):
    """Noisy counts of both labels in both groups."""
    counts = np.zeros((2, 2))
    for age, label in table:
        counts[int(age > 50), int(label)] += 1
    return hooks.laplace(counts, sensitivity=1.0, scale=1.0)


def fit(table, seed):
    """The same, for a black box."""
    return learn(table, dpbt.audit.Hooks(seed))
