"""Diagnostics of boosted votes: advantages, margins, tables of votes, complexity.

`advantages`, `margins` and `rademacher_complexity` are computed from private rows. They are for
research: they are not private, and no ledger covers them. `count_votes` is computed from a model
alone and is post-processing.
"""

import collections
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.validate import check_positive_integer
from dpbt.data.domains import Domain, predicates
from dpbt.data.splits import as_device_array
from dpbt.learners.trees.class_weights import integer_product_over_rows
from dpbt.models.model import Model, checked_model, decision_function
from dpbt.privacy import keys
from dpbt.privacy.accounting import align_columns
from dpbt.training.checks import check_transcript
from dpbt.training.phases import PhaseValues
from dpbt.training.scan import InterpretedPhase, run_in_memory
from dpbt.training.table_preparation import prepare_table
from dpbt.types import (
    UNSPLIT,
    AnyArray,
    Array,
    Phase,
    Recipe,
    Release,
    Table,
    Transcript,
    Tree,
    View,
    describe_dtype_and_rank,
)
from experiments.common.estimates import Estimate


def advantages(transcript: Transcript, table: Table, recipe: Recipe) -> Array:
    """f32[T]: the advantage of each round's hypothesis, 1/2 - error under that round's measure.

    The result is as long as the recipe's `max_rounds`, with 0 beyond its number of rounds.
    Traceable: vmap it over keys.

    The error of a real-valued hypothesis h is the sum of measure times |h - y| / 2, with h clipped
    to [-1, 1]. That is the error of Bun et al. (2020), Definition 11, and of Asadi et al. (2022),
    Figure 1.

    Args:
        transcript: as `boost` returns it, or `model.transcript`.
        table: the rows that were learned from, or others.
        recipe: the recipe.

    Raises:
        ValueError: as `dpbt.replay`.
    """
    prepared, learner = prepare_table(table, recipe), recipe.learner
    check_transcript(transcript, table, recipe)
    if prepared.target.dtype != bool:
        raise ValueError("edges are of two classes, and the table has another target")
    sign = jnp.where(prepared.target, 1.0, -1.0)

    def measure_edge(phase: Phase, release: Release, views: Sequence[View]) -> InterpretedPhase:
        if not phase.repeats:
            return InterpretedPhase(release=release, record=None)
        rows, weights, _, public = views[0]
        hypothesis = learner.round.hypothesis(release, recipe.params, public)
        predicted = jnp.clip(learner.kind.predict_prepared(hypothesis, rows), -1, 1)
        measure = jnp.where(prepared.present, weights, 0)
        edge = jnp.sum(measure * sign * predicted) / jnp.maximum(jnp.sum(measure), 1)
        return InterpretedPhase(release=release, record=edge / 2)

    run_result = run_in_memory(
        recipe,
        [prepared],
        interpret_phase=measure_edge,
        phase_inputs=PhaseValues(**transcript.releases),
    )
    return run_result.records.rounds


def margins(model: Model, rows: Array | Table, target: AnyArray) -> np.ndarray:
    """f32[N]: y H / T of each row, in [-1, 1] for hypotheses in [-1, 1].

    Args:
        model: from `fit`.
        rows: as `dpbt.decision_function` takes them.
        target: bool[N].

    Raises:
        ValueError: as `dpbt.decision_function`; and if `target` does not have one entry for
            each row. No length is shown.
    """
    scores, labels = np.asarray(decision_function(model, rows)), np.asarray(target)
    if labels.shape != scores.shape:
        raise ValueError("target must have an entry for each row, and has another shape")
    return scores * np.where(labels, 1, -1) / len(model.host_hypotheses_of_run_rounds()[0])


class Histogram(NamedTuple):
    """The share of rows in each bin f[bins], and the edges f[bins + 1]."""

    shares: np.ndarray
    edges: np.ndarray


def margin_histogram(values: np.ndarray, bins: int = 40) -> Histogram:
    """The histogram of margins over equal bins of [-1, 1]; values outside count in the end bins.

    Raises:
        ValueError: if `bins` is not an integer of at least 1.
    """
    check_positive_integer("bins", bins)
    counts, edges = np.histogram(np.clip(values, -1, 1), bins=bins, range=(-1, 1))
    return Histogram(counts / max(len(values), 1), edges)


class Vote(NamedTuple):
    """One line of a table of votes.

    Attributes:
        votes: the net number of votes.
        split: the number of the split, or `UNSPLIT` for the constant rule.
        words: the split in words, such as "age > 37.5"; "(always)" for the constant rule, and
            "split 3" where no domain is given.
    """

    votes: int
    split: int
    words: str


def count_votes(model: Model, domain: Domain | None = None) -> list[Vote]:
    """The model as integer votes on splits, largest first (Asadi et al. (2022), Table 4).

    A 1-rule x votes +1 on x, and its negation votes -1. Votes on one split add up, and votes that
    cancel are left out. Each split adds its votes to the score of a row that satisfies it, and
    subtracts them from the score of any other row. The constant rule adds its votes to every row.

    Args:
        model: a model of trees of depth one with leaves +-1.
        domain: for the words; without it, splits are numbered.

    Raises:
        ValueError: if the model is no sum of 1-rules, or uses a split that is not in the domain.
    """
    split, leaf = _host_trees(model)
    if split.shape[1] != 1 or not np.all(np.abs(leaf) == 1):
        raise ValueError("a table of votes needs trees of depth one with leaves +-1")
    questions = None if domain is None else predicates(domain)
    if questions is not None and split.max() >= len(questions):
        raise ValueError(
            f"the model uses split {split.max()}, the domain has {len(questions)} splits"
        )

    net_votes: collections.Counter[int] = collections.Counter()
    for (s,), (no, yes) in zip(split, leaf, strict=True):
        if s == UNSPLIT:
            net_votes[UNSPLIT] += int(no)
        else:
            net_votes[int(s)] += int(yes)

    def describe_split(s: int) -> str:
        if s == UNSPLIT:
            return "(always)"
        return f"split {s}" if questions is None else questions[s].yes

    lines = [Vote(count, s, describe_split(s)) for s, count in net_votes.items() if count != 0]
    return sorted(lines, key=lambda vote: (-abs(vote.votes), vote.split))


def format_votes(lines: list[Vote]) -> str:
    """Votes as aligned text."""
    bins = [(f"{vote.votes:+d}", vote.words) for vote in lines]
    return align_columns([("votes", "for a row with (against it without)"), *bins])


def _host_trees(model: Model) -> Tree:
    """The splits i32[T, 2^D - 1] and leaves f32[T, 2^D] of a model of trees."""
    if checked_model(model).about.kind.name != "trees":
        raise ValueError(f"this diagnostic is of trees, and {model.about.name} has none")
    return model.host_hypotheses_of_run_rounds()


@functools.partial(jax.jit, static_argnums=2)
def _max_correlations(key: Array, splits: Array, draws: int) -> Array:
    """f32[draws]: the largest |average of sign times rule| over all 1-rules, by random signs."""

    def signed_sums(key: Array) -> tuple[Array, Array]:
        sign = jax.random.rademacher(key, splits.shape[:1], jnp.int8)
        return integer_product_over_rows(sign, splits.T), jnp.sum(sign.astype(jnp.int32))

    satisfied, total = jax.lax.map(signed_sums, jax.random.split(key, draws), batch_size=16)
    literals = jnp.abs(2 * satisfied - total[:, None])
    return jnp.maximum(jnp.max(literals, axis=1), jnp.abs(total)) / splits.shape[0]


def rademacher_complexity(key: Array, splits: Array, draws: int = 200) -> Estimate:
    """The empirical Rademacher complexity of 1-rules on rows.

    The complexity is the mean over random signs of the largest |average of sign times rule|, over
    literals and constants. It is estimated by `draws` draws, as behind Asadi et al. (2022),
    Table 11.

    Args:
        key: one typed key.
        splits: bool[N, S], such as `splits.satisfied_splits` gives of a table, with at least one
            row.
        draws: at least 2.

    Raises:
        ValueError: for anything else; no number of rows is shown.
    """
    keys.check_single_key(key)
    splits = as_device_array("splits", splits)
    if splits.ndim != 2 or splits.dtype != bool or 0 in splits.shape:
        raise ValueError(
            "splits must be bool of rank 2, with a row and a split, got "
            f"{describe_dtype_and_rank(splits)}"
        )
    if check_positive_integer("draws", draws) < 2:
        raise ValueError(f"draws must be at least 2 for a standard error, got {draws}")

    largest = _max_correlations(key, jnp.asarray(splits).astype(jnp.int8), draws)
    largest = np.asarray(largest, np.float64)
    return Estimate(float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(draws)))
