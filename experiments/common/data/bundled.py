"""The data sets that ship with scikit-learn; they need no download."""

from typing import Any

import numpy as np

from dpbt.data.domains import Columns, Domain, Nominal, Numeric
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


def iris(bins: int) -> tuple[Domain, Columns, Nominal, np.ndarray]:
    """Iris, 150 x 4, of three classes.

    Args:
        bins: intervals of each column, from 0 to 10 cm.

    Returns:
        The domain, its columns, the declared classes, and the words of the rows' classes.
    """
    from sklearn.datasets import load_iris

    bunch: Any = load_iris()
    names = [str(name) for name in bunch.feature_names]
    domain = {name: Numeric(0.0, 10.0, bins=bins) for name in names}
    columns = {name: bunch.data[:, k] for k, name in enumerate(names)}
    kind = Nominal(("setosa", "versicolor", "virginica"))
    return domain, columns, kind, np.asarray(bunch.target_names)[bunch.target].astype(str)


# Measurements in their own units: years, kg/m^2, mm Hg, and blood serum.
_DIABETES_BOUNDS = {
    "age": (15, 85),
    "sex": (1, 2),
    "bmi": (15, 45),
    "bp": (50, 150),
    "s1": (50, 350),
    "s2": (20, 280),
    "s3": (10, 110),
    "s4": (1, 10),
    "s5": (3, 7),
    "s6": (50, 150),
}


def diabetes(bins: int) -> tuple[Domain, Columns, Numeric, np.ndarray]:
    """Diabetes, 442 x 10, with a score of the illness after a year.

    Args:
        bins: intervals of each column, within round bounds.

    Returns:
        The domain, its columns, the declared range of the score, and the scores.
    """
    from sklearn.datasets import load_diabetes

    bunch: Any = load_diabetes(scaled=False)
    domain = {
        name: Numeric(float(low), float(high), bins=bins)
        for name, (low, high) in _DIABETES_BOUNDS.items()
    }
    columns = {name: bunch.data[:, k] for k, name in enumerate(_DIABETES_BOUNDS)}
    return domain, columns, Numeric(0, 400), np.asarray(bunch.target, np.float64)
