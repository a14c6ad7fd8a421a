"""Algorithm 3 of Bun et al. (2020): a learner whose training labels are flipped at random.

The mechanism M_eta flips each label with probability eta, runs a private learner M on the flipped
rows, and returns the *test error query* of its model: the function that says of a clean example
whether the model errs on it. Flips do not depend on the rows. For fixed flips neighbours stay
neighbours, so M_eta has the guarantee of M under `replace_one`, and a mixture over flips has no
larger loss. So Theorem 19 holds of the query, whose rows are clean, although M saw noisy ones.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt.types import Array, Recipe, Table


def flip_labels(key: Array, table: Table, noise: float) -> Table:
    """The table with each label flipped with probability eta.

    A flip depends on the key and the row's place alone, so two tables that differ in one row differ
    in that row alone afterwards.

    Args:
        key: a key of its own.
        table: rows of two classes.
        noise: eta, in [0, 1/2).

    Raises:
        ValueError: for a noise outside this range.
    """
    if not 0 <= noise < 0.5:
        raise ValueError(f"noise must be in [0, 1/2), got {noise}")
    is_flipped = jax.random.bernoulli(key, noise, table.target.shape)
    return table._replace(target=table.target ^ is_flipped)


def fit_with_label_noise(
    key: Array, table: Table, recipe: Recipe, noise: float
) -> Callable[[Table], np.ndarray]:
    """Algorithm 3: the test error query of a model that is fitted to flipped labels.

    Guarantee: as the recipe's ledger under `replace_one`, for the returned function. What a caller
    evaluates it on is released by the caller.

    Args:
        key: flips and learner have keys of their own, derived from it.
        table: the clean training rows S.
        recipe: the learner M.
        noise: eta, in [0, 1/2).

    Returns:
        err_H: (rows with labels) -> bool[N], whether the model errs on each.

    Raises:
        ValueError: as `flip_labels`.
    """
    flip_key, learner_key = jax.random.split(key)
    model = dpbt.fit(learner_key, flip_labels(flip_key, table, noise), recipe)
    return error_query(model)


def error_query(model: dpbt.Model) -> Callable[[Table], np.ndarray]:
    """err_H: (rows with labels) -> bool[N], whether y H(x) is at most 0, as section 3.3 has it."""

    def errors_of_rows(rows: Table) -> np.ndarray:
        score = dpbt.decision_function(model, rows)
        return np.asarray(jnp.where(rows.target, score, -score) <= 0)

    return errors_of_rows
