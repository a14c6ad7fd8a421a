"""Predictions of a model: one interface for all hypotheses. All of it is post-processing.

Rows are of the kind that the model was trained on:

- cells u8[N, F] (`domains.encode`) or exact numbers f32[N, F] (`domains.positions`);
- a Table of either, whose absent rows are predicted, too;
- splits bool[N, S], if the model was trained on a table of raw splits (`questions.of_splits`).

There may be no rows: N may be 0. Rows of another type or of another number of features are refused,
and so is a table with other questions.

A table in chunks is predicted a block at a time (`blocks`).
"""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import shapes
from dpbt.base import (
    AnyArray,
    Array,
    Hypotheses,
    Hypothesis,
    HypothesisClass,
    Model,
    Recipe,
    Table,
)
from dpbt.checks import hypotheses_of, rows_for
from dpbt.data.chunks import ChunkedTable
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target, in_units
from dpbt.privacy import keys
from dpbt.reader import BLOCK_ROWS, SavedModel
from dpbt.validate import shown, whole

VOTINGS = ("majority", "threshold", "probabilistic")
"""The voting rules of hypotheses that state shares of the positive class."""


def score(hypotheses: Hypotheses, table: Table, kind: HypothesisClass) -> Array:
    """f32[N], or f32[K, N]: the summed predictions of hypotheses, with leading axis T, on all rows.

    It is f32[K, N] with several classes.
    """
    prepared = kind.prepare(table)

    def add(total: Array, hypothesis: Hypothesis) -> tuple[Array, None]:
        return total + kind.predict(hypothesis, prepared), None

    start = jnp.zeros((*kind.response.axes, table.cells.shape[0]), jnp.float32)
    return jax.lax.scan(add, start, hypotheses)[0]


def vote(shares: Array, voting: str, key: Array | None = None) -> Array:
    """bool[...]: the answers of trees that state shares f32[k, ...] of the positive class.

    The rules are those of Bojarski et al. (2014), Algorithm 1:

    - "majority": positive if more than half of the trees state more than 1/2;
    - "threshold": positive if the mean share is above 1/2;
    - "probabilistic": positive with probability equal to the mean share, by independent coins.

    Ties are negative. Trees whose share is NaN do not count.

    Args:
        shares: of the trees, on the first axis.
        voting: the rule.
        key: of the coins of a probabilistic vote. It must be independent of the noise's key,
            because votes are published.

    Raises:
        ValueError: for another rule, or a probabilistic vote without a key.
    """
    if voting == "majority":
        return 2 * jnp.sum(shares > 0.5, axis=0) > jnp.sum(~jnp.isnan(shares), axis=0)
    mean = jnp.nanmean(shares, axis=0)
    if voting == "threshold":
        return mean > 0.5
    if voting == "probabilistic":
        if key is None:
            raise ValueError("a probabilistic vote needs a key")
        keys.check(key)
        return jax.random.uniform(key, mean.shape, mean.dtype) < mean
    raise ValueError(f"voting must be one of {VOTINGS}, got {shown(voting)}")


_score = jax.jit(score, static_argnums=2)


@jax.jit
def _shares(model: Model, table: Table) -> Array:
    """f32[k, N]: `shares` of a padded table."""
    kind = model.recipe.learner.hypotheses
    assert kind.shares is not None
    return kind.shares(model.hypotheses, kind.prepare(table))


def _read(model: Model, rows: AnyArray | Table) -> tuple[Table, int]:
    """The rows as a padded table that the hypotheses can read, and the number of rows."""
    table = rows_for(model, rows)
    padded = shapes.padded(table)  # so there is a row to check even where none is given
    hypotheses_of(model).check(padded)
    return padded, table.cells.shape[0]


def _encoded(model: SavedModel, rows: AnyArray | Table) -> np.ndarray:
    """Encoded rows, as a saved model reads them."""
    return np.asarray(rows_for(model, rows).cells)


def blocks(table: ChunkedTable, rows: int = BLOCK_ROWS) -> Iterator[Table]:
    """The rows of a table in chunks, in blocks that `predict` and its like take.

        for block in prediction.blocks(table):
            answers = np.asarray(dpbt.predict(model, block))[np.asarray(block.present)]

    Absent rows are in the blocks, too, so that row n of all blocks is row n of the table.

    Args:
        table: from `chunks.open_folder` or `conversion`.
        rows: how many rows a block has at most.

    Raises:
        ValueError: for anything else, and naming a damaged chunk when it is reached.
        OSError: if a chunk cannot be read.
    """
    if not isinstance(table, ChunkedTable):
        raise ValueError(
            f"expected a table in chunks, as dpbt.chunks.open_folder finds it, got "
            f"{type(table).__name__}"
        )
    most, questions = whole("rows", rows), jax.tree.map(jnp.asarray, table.questions)

    def copied(array: np.ndarray) -> Array:
        return jax.device_put(array.copy())  # the next block is read to where this one is

    found = table.blocks(most)
    return (
        Table(
            copied(block.cells.T),
            copied(block.target),
            copied(block.present),
            questions,
            None if block.weight is None else copied(block.weight),
        )
        for block in found
    )


def decision_function(model: Model | SavedModel, rows: AnyArray | Table) -> Array:
    """f32[N]: the score H of each row; above 0 means the positive class.

    With several classes it is f32[N, K], and the largest score of a row is its class. For a number
    it is its predicted position in the declared range, which may lie outside of [0, 1].

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: cells u8[N, F], numbers f32[N, F], splits bool[N, S] or a Table, of the kind that the
            model was trained on. `domains.encode` makes cells of raw columns, and
            `domains.positions` makes numbers of them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads (`checks.rows_for`), or
            `model` is no model.
    """
    if isinstance(model, SavedModel):
        return jnp.asarray(model.scores_of(_encoded(model, rows)))
    kind = hypotheses_of(model)
    table, count = _read(model, rows)
    scores = model.intercept[..., None] + _score(model.hypotheses, table, kind)
    return shapes.first(jnp.moveaxis(scores, -1, 0), count)


def shares(model: Model | SavedModel, rows: AnyArray | Table) -> Array:
    """f32[k, N]: the share of the positive class that each tree states for each row.

    Args:
        model: of hypotheses that state shares, such as a random forest.
        rows: as `decision_function`.

    Returns:
        The shares, with NaN for rounds beyond the recipe's number of rounds.

    Raises:
        ValueError: for a model of other hypotheses, and as `decision_function`.
    """
    if isinstance(model, SavedModel):
        return jnp.asarray(model.shares_of(_encoded(model, rows)))
    if hypotheses_of(model).shares is None:
        raise ValueError(
            f"the hypotheses of {model.recipe.name} state scores, and no shares to vote with"
        )
    table, count = _read(model, rows)
    return jnp.asarray(np.asarray(_shares(model, table))[:, :count])


def predict(
    model: Model | SavedModel,
    rows: AnyArray | Table,
    voting: str | None = None,
    key: Array | None = None,
) -> Array:
    """bool[N]: whether each row is of the positive class: H > 0, or a vote. A tie is negative.

    With several classes it is i32[N], the number of the class with the largest score, the first of
    equal ones. For a number it is f32[N], in its units and inside the declared range.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.
        voting: a rule of `vote`, for hypotheses that state shares. The default is H > 0, which for
            these is the majority. Other hypotheses take no rule.
        key: of the coins of a probabilistic vote.

    Raises:
        ValueError: as `decision_function` and `vote`.
    """
    if voting is None:
        return answer(target_of(model), decision_function(model, rows))
    return vote(shares(model, rows), voting, key)


def predict_proba(model: Model | SavedModel, rows: AnyArray | Table) -> Array:
    """f32[N]: the probability of the positive class.

    Probabilities of few boosted trees are close to 1/2, because each tree adds a small step to the
    score. They order rows as the score does.

    It is the mean share of hypotheses that state shares. Of those that state scores it is the
    probability that the recipe's loss gives the score H (`ProperLoss.probability`). With several
    classes it is f32[N, K], the softmax of the scores.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.

    Raises:
        ValueError: as `decision_function`; and if the recipe has no link, or one whose surrogate
            has kinks (the 0/1 loss), where the inverse link is not a function. Also for a model
            that predicts a number.
    """
    target = target_of(model)
    if isinstance(target, Nominal):
        return softmax(decision_function(model, rows))
    if isinstance(target, Numeric):
        raise ValueError(NO_CLASSES)
    if isinstance(model, SavedModel) and model.probability != "shares":
        return jnp.asarray(model.probability_of(model.scores_of(_encoded(model, rows))))
    if isinstance(model, SavedModel) or hypotheses_of(model).shares is not None:
        return jnp.nanmean(shares(model, rows), axis=0)
    return probability_of(model.recipe, decision_function(model, rows))


def target_of(model: Model | SavedModel) -> Target | None:
    """The declared classes or range of a model's target; None for two classes.

    Raises:
        ValueError: for anything that is no model.
    """
    if isinstance(model, SavedModel):
        return model.target
    hypotheses_of(model)
    return model.recipe.target


def answer(target: Target | None, scores: Array) -> Array:
    """What scores predict: bool[N], i32[N] or f32[N], as `predict` says.

    Args:
        target: the declared classes or range; None for two classes.
        scores: as `decision_function` gives them.
    """
    if target is None:
        return scores > 0
    if isinstance(target, Nominal):
        return jnp.argmax(scores, axis=1).astype(jnp.int32)
    return jnp.asarray(in_units(target, np.asarray(scores)), jnp.float32)


def softmax(scores: Array) -> Array:
    """f32[N, K]: the probability of each class, for scores in bits."""
    return jax.nn.softmax(scores * np.float32(math.log(2)), axis=1)


NO_CLASSES = "the model predicts a number, and no probabilities of classes"
"""Why a model of a number gives no probabilities."""


def no_link(name: str) -> str:
    """Why a recipe without a loss gives no probabilities."""
    return f"{name} is a vote without a link, so a score defines no probability"


def kinks(name: str) -> str:
    """Why a loss whose surrogate has kinks gives no probabilities."""
    return f"the surrogate of {name} has kinks, so a score defines no probability"


def probability_of(recipe: Recipe, score: Array) -> Array:
    """f32[...]: the probability of the positive class that the loss of a recipe gives a score.

    Args:
        recipe: one setting.
        score: f32[...], such as `decision_function` of a model, or the scores of `boosting.boost`.

    Raises:
        ValueError: if the recipe has no link, or one whose surrogate has kinks.
    """
    if recipe.loss is None:
        raise ValueError(no_link(recipe.name))
    loss = recipe.loss(np.float32(recipe.reweighting.link_alpha))
    if not np.isfinite(loss.smoothness):
        raise ValueError(kinks(loss.name))
    return (loss.probability or loss.inverse_link)(score)
