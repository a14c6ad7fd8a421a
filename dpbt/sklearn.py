"""Private trees as estimators of scikit-learn: `pip install 'dpbt[sklearn]'`."""

from dpbt.owners.estimators import PrivateBoostingClassifier as PrivateBoostingClassifier
from dpbt.owners.estimators import PrivateBoostingRegressor as PrivateBoostingRegressor
from dpbt.owners.estimators import PrivateEstimator as PrivateEstimator
from dpbt.owners.estimators import PrivateForestClassifier as PrivateForestClassifier
from dpbt.owners.estimators import RepeatedReleaseWarning as RepeatedReleaseWarning
