"""Choices among recipes for tests, and the exact law of the best of a random number of runs.

The learner releases one count, so that its runs can be enumerated.
"""

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes, tuning
from dpbt.data.domains import Numeric
from dpbt.data.splits import table_of_splits
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.types import ADD_REMOVE, Noise

NOISE = mechanisms.discrete_laplace


def draw_majority(draw, table, weights, params, public):
    """Positive rows less negative rows."""
    del weights, params, public
    signed = jnp.where(table.present, jnp.where(table.target, 1, -1), 0)
    value = jnp.sum(signed).astype(jnp.int32)[None]
    draw(
        "n",
        NOISE,
        value,
        sensitivity=1.0,
        moved_outputs=1,
        theorem="a row",
        releases="the majority",
    )


def tree_of_majority(release, params, public):
    """The noisy majority, for every row."""
    del params, public
    value = release["n"][0].astype(jnp.float32)
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


LEARNER = boundary.weak_learner(
    name="majority",
    program=draw_majority,
    hypothesis=tree_of_majority,
    kind=trees.TREES,
    fractions={"n": 1.0},
    relation=ADD_REMOVE,
)


def voter_recipes(*epsilons, rows=40):
    """Candidates that release the majority of the rows at these epsilons."""
    scales = np.float32(1) / np.asarray(epsilons, np.float32)
    recipe_of_settings = recipes.custom(LEARNER, params=Noise({"n": scales}), rows=rows, rounds=1)
    return [recipes.setting(recipe_of_settings, index) for index in range(len(epsilons))]


def _errors(rows, scores, public, loss):
    """i32[]: how many present rows are predicted wrongly."""
    del public, loss
    return jnp.sum(rows.present & ((scores > 0) != rows.target)).astype(jnp.int32)


ERRORS = tuning.Score(
    name="errors",
    statistic=_errors,
    max_per_row=1,
    value=lambda draw: -float(draw),
    releases="errors of the scored rows",
    unit="row",
    required_loss=lambda recipe: None,
)
"""A score of few outputs, whose law can be enumerated. It is none of the library's."""


def table_of_ballots(positive, negative, capacity=40):
    """A table with given numbers of rows of each class, in which all rows have different bins."""
    num_present = positive + negative
    bits = (np.arange(capacity)[:, None] >> np.arange(6)) & 1
    label, present = np.arange(capacity) < positive, np.arange(capacity) < num_present
    return table_of_splits(bits.astype(bool), label, present)


def generating_function(count, x):
    """E[x^K]."""
    x = np.asarray(x, np.float64)
    if count.gamma == 1:
        return x
    inner = 1 - (1 - count.gamma) * x
    if count.eta == 0:
        return np.log(inner) / np.log(count.gamma)
    return (inner**-count.eta - 1) / (count.gamma**-count.eta - 1)


WIDTH = 1e-7
"""Differences of probabilities below it lose their digits, so a derivative takes their place."""


def probabilities_of_best(pmf, value, generating_function_of_count):
    """The law of the best of K runs, where ties go to each of the tied runs alike.

    Args:
        pmf: the probabilities of one run, over outputs.
        value: the value of each output; a larger one is better.
        of_count: x -> E[x^K].
    """
    order, index = np.unique(value, return_inverse=True)
    mass = np.bincount(index, pmf, len(order))
    below = np.concatenate([[0.0], np.cumsum(mass)])
    middle, half_width = (below[1:] + below[:-1]) / 2, np.maximum(mass, WIDTH) / 2
    middle = np.clip(middle, WIDTH, 1 - WIDTH)
    low, high = np.clip(middle - half_width, 0, 1), np.clip(middle + half_width, 0, 1)
    return (
        pmf
        * ((generating_function_of_count(high) - generating_function_of_count(low)) / (high - low))[
            index
        ]
    )


def discrete_laplace_pmf(value, scale, reach):
    """The pmf of discrete Laplace noise around a value, over -reach..reach."""
    distance = np.abs(np.arange(-reach, reach + 1) - value)
    return np.tanh(0.5 / scale) * np.exp(-distance / scale)


def largest_log_ratio(first, second):
    """The largest log ratio of two laws, both ways."""
    is_possible = (first > 0) | (second > 0)
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(np.log(first[is_possible]) - np.log(second[is_possible]))))


KEY = jax.random.key(20)
DOMAIN = {"age": Numeric(0, 100, bins=8), "pay": Numeric(0, 10, bins=8)}


def table_of_people(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"age": rng.uniform(0, 100, rows), "pay": rng.uniform(0, 10, rows)}
    label = ((columns["age"] > 50) ^ (rng.random(rows) < 0.1)).astype(int)
    return dpbt.table(DOMAIN, columns, label, negative=0, positive=1)


GRID_OF_OPTIONS = {"step": [0.1, 0.4], "rounds": [3, 6]}


def candidate_recipes(selection, **changes):
    options = {
        "epsilon": 1.0,
        "rows": 300,
        "domain": DOMAIN,
        "attributes_per_tree": (1,),
        "depth": 2,
    }
    return tuning.candidates(
        recipes.oblivious_boost, selection, grid=GRID_OF_OPTIONS, **{**options, **changes}
    )
