"""DP-Bag of Jordon et al. (2019), a rival of Table 2 of Asadi et al. (2022).

It follows what their public code does. The training rows are in two halves: one is private, and
the other counts as public rows without labels. The private half is divided into teachers, several
times over, and each teacher is a logistic regression. A public row gets the label that wins the
noisy vote of all teachers. A student, a logistic regression, learns those labels until the budget
is spent.

**The budget is read off the rows.** A vote costs the moment 2 l (l + 1) (lambda m)^2, where m is
the largest share, over private rows, of the teachers of one row that agree. So epsilon itself
depends on the rows, and no ledger of this library can state it. It is NumPy, for comparison alone.
"""

import math
from collections.abc import Sequence

import numpy as np

TEACHERS = 250
VOTE = 2.0
"""The lambda of the votes, times the number of teachers, as in the script."""

MOMENTS = np.arange(1, 81)
LABELLED = 2000
"""At most so many public rows are labelled."""


def bagging_accuracies(
    features: np.ndarray,
    label: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    epsilons: Sequence[float],
    delta: float,
    partitions: int,
    seed: int,
) -> list[tuple[float, int]]:
    """For each epsilon, the student's test accuracy and the number of labels that it learned from.

    Args:
        features: f[N, A], in [0, 1].
        label: bool[N].
        train: bool[N], the rows that are halved.
        test: bool[N].
        epsilons: increasing budgets.
        delta: of all of them.
        partitions: how many times the private half is divided into teachers.
        seed: of all draws.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(train))
    private, public = rows[: len(rows) // 2], rows[len(rows) // 2 :][:LABELLED]
    counts, largest = _partition_votes(features, label, private, public, partitions, rng)

    scale = TEACHERS / VOTE
    noisy = counts + rng.laplace(scale=scale, size=counts.shape)
    stated = noisy[1] > noisy[0]
    per_row = 2 * (largest / scale) ** 2
    spent = np.cumsum(per_row, axis=1).max(axis=0)
    costs = MOMENTS[:, None] * (MOMENTS[:, None] + 1) * spent[None]
    paid = ((costs + math.log(1 / delta)) / MOMENTS[:, None]).min(axis=0)

    accuracies = []
    for epsilon in epsilons:
        count = int(np.sum(paid < epsilon))
        if len(np.unique(stated[:count])) < 2:
            accuracies.append(
                (float(np.mean(label[test] == np.mean(stated[:count] or [0]))), count)
            )
            continue
        student = _fit_logistic(features[public[:count]], stated[:count])
        accuracies.append((float(np.mean(student.predict(features[test]) == label[test])), count))
    return accuracies


def _partition_votes(
    features: np.ndarray,
    label: np.ndarray,
    private: np.ndarray,
    public: np.ndarray,
    partitions: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The votes of all teachers, and how far one private row can move them.

    Returns:
        f[2, public], the votes for each label over the number of partitions; and
        f[private, public], the largest share of a private row's teachers that agree.
    """
    positive = np.zeros(len(public))
    of_row = np.zeros((len(private), len(public)), np.float32)
    size = len(private) // TEACHERS
    for _ in range(partitions):
        order = rng.permutation(len(private))
        for k in range(TEACHERS):
            partition = order[k * size : (k + 1) * size]
            if len(np.unique(label[private[partition]])) < 2:
                stated = np.full(len(public), float(label[private[partition[0]]]))
            else:
                teacher = _fit_logistic(features[private[partition]], label[private[partition]])
                stated = teacher.predict(features[public]).astype(float)
            positive += stated
            of_row[partition] += stated.astype(np.float32)
    positive, of_row = positive / partitions, of_row / partitions
    return np.stack([TEACHERS - positive, positive]), np.maximum(of_row, 1 - of_row)


def _fit_logistic(features: np.ndarray, label: np.ndarray):
    """scikit-learn's logistic regression at its defaults."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(features, label)
