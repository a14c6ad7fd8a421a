"""The data set that ships with scikit-learn; it needs no download."""

from typing import Any

import numpy as np

from dpbt.data.domains import Numeric
from experiments.common.data.dataset import Dataset

# Feature -> bounds of its (mean, standard error, worst): round numbers around the ranges that
# scikit-learn's description of the data set prints.
_CANCER_BOUNDS = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4500)),
    "smoothness": ((0.05, 0.2), (0, 0.04), (0.05, 0.25)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.2)),
    "concavity": ((0, 0.5), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.25), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.35), (0, 0.08), (0.1, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.25)),
}


def breast_cancer(bins: int = 10) -> Dataset:
    """Breast Cancer Wisconsin (Diagnostic), 569 x 30; the positive class is malignant.

    Args:
        bins: intervals of each column, within round bounds.
    """
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer()
    domain: dict[str, Numeric] = {}
    for kind, place in (("mean", 0), ("error", 1), ("worst", 2)):
        for feature, bounds in _CANCER_BOUNDS.items():
            name = f"{feature} error" if kind == "error" else f"{kind} {feature}"
            domain[name] = Numeric(*(float(bound) for bound in bounds[place]), bins=bins)
    columns = {str(name): bunch.data[:, k] for k, name in enumerate(bunch.feature_names)}
    return Dataset("breast cancer", domain, columns, np.asarray(bunch.target == 0))
