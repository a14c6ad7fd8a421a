"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`.

The guarantee starts at the X that is given to `fit`. A transformer that was fitted on private rows
before, such as a scaler or an imputer, is outside of it, and so is every reader that made X.
"""

try:
    from sklearn.utils.validation import validate_data as _validate_data  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dpbt.sklearn needs scikit-learn 1.6 or newer: pip install 'dpbt[sklearn]'"
    ) from error

from dpbt.sklearn.base import RepeatedReleaseWarning
from dpbt.sklearn.estimators import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateForestClassifier,
)

__all__ = [
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateForestClassifier",
    "RepeatedReleaseWarning",
]
