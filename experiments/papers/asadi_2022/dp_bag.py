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
from typing import NamedTuple

import numpy as np

from experiments.common.protocols import Split

TEACHERS = 250
VOTE_RATE = 2.0
"""The lambda of the votes, times the number of teachers, as in the script."""

MOMENTS = np.arange(1, 81)
MAX_LABELLED = 2000
"""At most so many public rows are labelled."""


class Student(NamedTuple):
    """What a student reaches: its test accuracy, and from how many labels it learned."""

    accuracy: float
    num_labels: int


def student_accuracies(
    features: np.ndarray,
    label: np.ndarray,
    split: Split,
    *,
    epsilons: Sequence[float],
    delta: float,
    partitions: int,
    seed: int,
) -> list[Student]:
    """The student of each epsilon.

    Args:
        features: f[N, A], in [0, 1].
        label: bool[N].
        split: the rows that are halved, and those that test.
        epsilons: increasing budgets.
        delta: the delta of all of them.
        partitions: how many times the private half is divided into teachers.
        seed: the seed of all draws.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(split.train))
    private, public = rows[: len(rows) // 2], rows[len(rows) // 2 :][:MAX_LABELLED]
    votes = _partition_votes(
        features, label, private=private, public=public, partitions=partitions, rng=rng
    )

    scale = TEACHERS / VOTE_RATE
    noisy = votes.counts + rng.laplace(scale=scale, size=votes.counts.shape)
    winners = noisy[1] > noisy[0]
    costs_by_row = 2 * (votes.largest_shares / scale) ** 2
    largest_costs = np.cumsum(costs_by_row, axis=1).max(axis=0)
    moments = MOMENTS[:, None] * (MOMENTS[:, None] + 1) * largest_costs[None]
    spent_epsilon = ((moments + math.log(1 / delta)) / MOMENTS[:, None]).min(axis=0)

    test, students = split.test, []
    for epsilon in epsilons:
        count = int(np.sum(spent_epsilon < epsilon))
        labels = winners[:count]
        if len(np.unique(labels)) < 2:
            constant = bool(count) and bool(labels[0])
            students.append(Student(float(np.mean(label[test] == constant)), count))
            continue
        student = _fit_logistic(features[public[:count]], labels)
        accuracy = float(np.mean(student.predict(features[test]) == label[test]))
        students.append(Student(accuracy, count))
    return students


class Votes(NamedTuple):
    """The votes of all teachers, and how far one private row can move them.

    Attributes:
        counts: f[2, public], the votes for each label over the number of partitions.
        largest_shares: f[private, public], the largest share of a private row's teachers that
            agree.
    """

    counts: np.ndarray
    largest_shares: np.ndarray


def _partition_votes(
    features: np.ndarray,
    label: np.ndarray,
    *,
    private: np.ndarray,
    public: np.ndarray,
    partitions: int,
    rng: np.random.Generator,
) -> Votes:
    """The votes of the teachers of all partitions of the private rows."""
    positive = np.zeros(len(public))
    positive_of_row = np.zeros((len(private), len(public)), np.float32)
    size = len(private) // TEACHERS
    for _ in range(partitions):
        order = rng.permutation(len(private))
        for k in range(TEACHERS):
            partition = order[k * size : (k + 1) * size]
            if len(np.unique(label[private[partition]])) < 2:
                vote = np.full(len(public), float(label[private[partition[0]]]))
            else:
                teacher = _fit_logistic(features[private[partition]], label[private[partition]])
                vote = teacher.predict(features[public]).astype(float)
            positive += vote
            positive_of_row[partition] += vote.astype(np.float32)
    positive, positive_of_row = positive / partitions, positive_of_row / partitions
    return Votes(
        counts=np.stack([TEACHERS - positive, positive]),
        largest_shares=np.maximum(positive_of_row, 1 - positive_of_row),
    )


def _fit_logistic(features: np.ndarray, label: np.ndarray):
    """scikit-learn's logistic regression at its defaults."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(features, label)
