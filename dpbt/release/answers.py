"""What scores and shares of rows say: classes, numbers, probabilities and votes. No JAX is needed.

All functions take arrays of NumPy or of JAX.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpbt import arithmetic
from dpbt.arithmetic import Array, namespace
from dpbt.data.kinds import Nominal
from dpbt.data.targets import Target, in_units
from dpbt.validate import shown

VOTINGS = ("majority", "threshold", "probabilistic")
"""The voting rules of hypotheses that state shares of the positive class."""

PROBABILITIES: dict[str, Callable[[Array], Array]] = {
    "matsushita": arithmetic.matsushita_probability,
    "log": arithmetic.log_probability,
    "square": arithmetic.square_probability,
}
"""Score f32[N] -> probability f32[N], by the names of files."""


NO_CLASSES = "the model predicts a number, and no probabilities of classes"
"""Why a model of a number gives no probabilities."""


def no_link(name: str) -> str:
    """Why a recipe without a loss gives no probabilities."""
    return f"{name} is a vote without a link, so a score defines no probability"


def kinks(name: str) -> str:
    """Why a loss whose surrogate has kinks gives no probabilities."""
    return f"the surrogate of {name} has kinks, so a score defines no probability"


def probability_of(about: Any, scores: Array) -> Array:
    """f32[...]: the probability of the positive class that scores give; f32[N, K] of several.

    Args:
        about: the `About` of a model whose hypotheses state scores, such as `model.about(recipe)`.
        scores: as `decision_function` gives them, or `boosting.boost` of two classes.

    Raises:
        ValueError: if scores define no probability.
    """
    if about.probability is None:
        raise ValueError(about.reason)
    if about.probability == "softmax":
        return arithmetic.softmax(scores.T).T
    return about.probability(scores)


def answer(target: Target | None, scores: Array) -> Array:
    """What scores predict: bool[N], i32[N] or f[N], as `predict` says.

    Args:
        target: the declared classes or range; None for two classes.
        scores: as `decision_function` gives them.
    """
    if target is None:
        return scores > 0
    if isinstance(target, Nominal):
        return namespace(scores).argmax(scores, axis=1).astype(np.int32)
    return in_units(target, scores)


def vote(stated: Array, voting: str, key: Any = None) -> Array:
    """bool[...]: the answers of trees that state shares f32[k, ...] of the positive class.

    The rules are those of Bojarski et al. (2014), Algorithm 1:

    - "majority": positive if more than half of the trees state more than 1/2;
    - "threshold": positive if the mean share is above 1/2;
    - "probabilistic": positive with probability equal to the mean share, by independent coins.

    Ties are negative. Trees whose share is NaN do not count.

    Args:
        stated: the shares of the trees, on the first axis.
        voting: the rule.
        key: of the coins of a probabilistic vote. It must be independent of the noise's key,
            because votes are published.

    Raises:
        ValueError: for another rule, or a probabilistic vote without a key.
    """
    xp = namespace(stated)
    if voting == "majority":
        return 2 * xp.sum(stated > 0.5, axis=0) > xp.sum(~xp.isnan(stated), axis=0)
    mean = xp.nanmean(stated, axis=0)
    if voting == "threshold":
        return mean > 0.5
    if voting != "probabilistic":
        raise ValueError(f"voting must be one of {VOTINGS}, got {shown(voting)}")
    if key is None:
        raise ValueError("a probabilistic vote needs a key")
    import jax

    from dpbt.privacy import keys

    keys.check(key)
    return jax.random.uniform(key, mean.shape, mean.dtype) < mean
