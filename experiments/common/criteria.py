"""The splitting criteria that the demo and the audit compare, by name."""

from dpbt import losses

CRITERIA = {
    "objective": {"alpha": "objective", "criterion": losses.m_alpha},
    "alpha-1": {"alpha": 1.0, "criterion": losses.m_alpha},
    "gini": {"alpha": 1.0, "criterion": losses.square},
}
"""Name -> the arguments of `recipes.bdpe`."""

LABELS = {
    "objective": "M-alpha, objective calibration",
    "alpha-1": "M-alpha, alpha = 1",
    "gini": "Gini",
}
"""Name -> the label in a figure."""
