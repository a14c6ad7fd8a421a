"""How many clones of one estimator are fitted: every fit on private rows is a release."""

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any


class RepeatedReleaseWarning(UserWarning):
    """Clones of one estimator are fitted, as cross-validation and grid search do."""


class CloneNumbers:
    """Which clone of its original an estimator is: the first, the second, ...

    Cross-validation, grid search and bagging fit several clones of one estimator. They make them by
    `sklearn.base.clone`. Other uses make one.
    """

    def __init__(self):
        self._counts: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def cloned(self, original: Any, clone: Any) -> None:
        """Number a clone."""
        with self._lock:
            count = self._counts.setdefault(original, itertools.count(1))
            self._numbers[clone] = next(count)

    def get(self, estimator: Any) -> int:
        """The number of a clone; 0 for an estimator that is none."""
        with self._lock:
            return self._numbers.get(estimator, 0)

    def put(self, estimator: Any, number: int) -> None:
        """Remember a number, such as that of an estimator that another process has made."""
        with self._lock:
            self._numbers[estimator] = number


CLONES = CloneNumbers()
"""The clones of this process."""
