"""Oblivious trees over public questions: one draw a tree, of signed sums of clipped weights.

All nodes of a level ask the same question, so a tree of depth D partitions the rows by D bits. The
questions are public: they follow from the domain, from a seed, and from what a prologue released.
The only statistic of a round is, for each leaf, the sum of y w over its rows. With several classes,
and for a number, it is the sum of the clipped residuals.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.arithmetic import rounded
from dpbt.base import (
    BINARY,
    CELLS,
    GRID,
    NUMBER,
    AnyArray,
    Array,
    Public,
    Relation,
    Release,
    Response,
    WeakLearner,
    relation_name,
)
from dpbt.base import Prologue as LearnerPrologue
from dpbt.learners import oblivious_leaves, oblivious_questions, score_line, target_histogram
from dpbt.learners.oblivious_hypotheses import (
    ObliviousTree,
    Rows,
    cells_of,
    hypothesis_class,
    leaves_in,
)
from dpbt.learners.oblivious_questions import Attribute
from dpbt.privacy import boundary, sensitivity
from dpbt.privacy.mechanism import Mechanism, Numbers, Sensitivity
from dpbt.privacy.sensitivity import moved_rows, whole_rows
from dpbt.validate import shown, whole, wholes, within

MAX_DEPTH = 10
"""Trees have at most 2^10 leaves."""


class Params(NamedTuple):
    """The traced numbers of oblivious trees; each may have leading axes of settings.

    Attributes:
        noise: f32[], the noise multiplier of "sums", and of "histogram", "target" and "scores"
            where they are drawn.
        step: f32[], s: the step of a leaf whose sum is as large as its noise, in nats, or in
            spreads of a number.
        limit: f32[], v: no leaf moves a score by more, in nats or in spreads.
        curvature: f32[], h: how much a leaf's public share of the rows adds to its denominator.
        seed: f32[], a whole number below 2^24 from which the public questions follow.
    """

    noise: Mapping[str, AnyArray]
    step: AnyArray
    limit: AnyArray
    curvature: AnyArray
    seed: AnyArray


def params(
    noise: Mapping[str, Numbers],
    public: Public,
    step: Numbers = 0.2,
    limit: Numbers = 0.6,
    curvature: Numbers = 0.0,
    seed: Numbers = 0.0,
) -> Params:
    """The learner's numbers."""
    del public
    return Params(dict(noise), step, limit, curvature, seed)


class Kind(NamedTuple):
    """What is static in an oblivious tree.

    Attributes:
        attributes: of the public domain, one for each feature.
        depth: D, the number of questions.
        attributes_per_tree: how many attributes a tree asks; the trees take these numbers in turn.
        marginals: whether a prologue releases the class histogram of every attribute.
        scores: whether an epilogue releases the final scores by class (`score_line`).
        smoothing: the weight of a leaf's neighbour, which differs in one bit, in its sum; a leaf
            that differs in b bits has this to the power of b.
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.rounded_gaussian` or `mechanisms.discrete_laplace`.
        response: what is predicted.
        monotone: for each attribute 1 if scores must not fall with its cells, -1 if they must not
            rise, and 0 otherwise; empty if there are no constraints.
        target_bins: how many bins the histogram of a number has.
    """

    attributes: tuple[Attribute, ...]
    depth: int
    attributes_per_tree: tuple[int, ...]
    marginals: bool
    scores: bool
    smoothing: float
    relation: Relation
    noise: Mechanism
    response: Response = BINARY
    monotone: tuple[int, ...] = ()
    target_bins: int = 32

    @property
    def widest(self) -> int:
        """C, the most cells of a feature."""
        return max(attribute.cells for attribute in self.attributes)

    @property
    def tag(self) -> str:
        """Names every static part."""
        cells = " ".join(f"{each.cells}{'o' if each.ordered else 'n'}" for each in self.attributes)
        once = f"{self.marginals}, {self.scores}"
        static = f"{self.depth}, {self.attributes_per_tree}, {once}, {self.smoothing!r}"
        more = "" if self.response == BINARY else f", {self.response.words}"
        if self.response == NUMBER:
            more += f" in {self.target_bins} bins"
        if any(self.monotone):
            more += f", {self.monotone}"
        return f"{cells}, {static}, {relation_name(self.relation)}, {self.noise.name}{more}"

    @property
    def deviation(self) -> float:
        """The standard deviation of noise of scale 1."""
        return score_line.deviation_of(self.noise)

    @property
    def columns(self) -> int:
        """How many counts the histogram has for each cell: one for each class."""
        return max(self.response.classes, 1)


# Sensitivities.


def sum_sensitivity(kind: Kind) -> float:
    """How far one row moves the leaf sums of a tree, in grid units, in the mechanism's norm.

    Proof. Given the released scores and the public questions, a row is in one leaf and adds y w
    there, with |w| at most GRID. Under add/remove one sum moves by at most GRID: L1 = L2 = GRID.
    Under replace-one the removed row moves one sum by GRID and the row that comes in moves one by
    GRID. Both may move the same sum the same way, if their labels differ: L1 = L2 = 2 GRID. All
    other rows keep their weights, as each depends on the row itself and on released trees.

    A number is the same, with a residual in -GRID..GRID in place of y w. With several classes a row
    adds its K residuals to the K sums of its leaf. `_residuals` keeps their norm at most GRID: the
    L1 norm for noise that is priced by L1, else the L2 norm. So the same bounds hold for all K sums
    together.
    """
    moved = GRID * moved_rows(kind.relation)
    return kind.noise.bound(Sensitivity(moved, moved))


def histogram_sensitivity(kind: Kind) -> float:
    """How far one row moves all class histograms together, in rows, in the mechanism's norm.

    Proof. A row is in one cell of each of F histograms, in the column of its class. It adds at most
    1 to that count, by its own weight, before counts are rounded to whole rows. Two numbers that
    differ by at most 1 are at most 1 apart once they are rounded. Under add/remove F counts move by
    at most 1: L1 = F and L2 = sqrt(F). Under replace-one at most 2 F counts move by 1: L1 = 2 F and
    L2 = sqrt(2 F).
    """
    return kind.noise.bound(sensitivity.histograms(kind.relation, len(kind.attributes)))


# The prologue: class histograms.


def _histograms(kind: Kind, cells: Array, target: Array, weights: Array) -> Array:
    """i32[F, C, K]: how many rows of each class have each cell, in 1 / GRID of a row.

    C is the most cells of a feature. For a number K is 1. A row counts by its weight. A cell that
    its feature does not have is beyond C, or has a count that nothing reads.
    """
    columns = kind.columns
    part = weights.astype(jnp.int32)
    label = jnp.zeros(part.shape, jnp.int32)
    if kind.response != NUMBER:
        label = target.astype(jnp.int32)
        part = jnp.where(label < columns, part, 0)

    def of_feature(cell: Array) -> Array:
        place = columns * cell.astype(jnp.int32) + jnp.minimum(label, columns - 1)
        counts = jax.ops.segment_sum(part, place, columns * kind.widest)
        return counts.reshape(kind.widest, columns)

    return jax.lax.map(of_feature, cells)


def _known_cells(kind: Kind) -> np.ndarray:
    """bool[F, C]: the cells that each feature has."""
    return np.stack([np.arange(kind.widest) < attribute.cells for attribute in kind.attributes])


def _opening(
    kind: Kind,
    draw: boundary.Draw,
    rows: Rows,
    weights: Array,
    params: Params,
    public: Public,
) -> None:
    """The class histograms of all attributes, and the histogram of a number."""
    del params, public
    if kind.marginals:
        histograms = _histograms(kind, cells_of(kind.attributes, rows), rows.target, weights)
        draw(
            "histogram",
            kind.noise,
            boundary.Total(histograms, whole_rows),
            sensitivity=histogram_sensitivity(kind),
            moves=len(kind.attributes) * moved_rows(kind.relation),
            theorem="docs/privacy.md O1",
            releases=f"{'' if kind.response == NUMBER else 'class '}histogram of every attribute",
        )
    if kind.response == NUMBER:
        counts = target_histogram.counts(rows.target, weights.astype(jnp.int32), kind.target_bins)
        draw(
            target_histogram.SITE,
            kind.noise,
            boundary.Total(counts, whole_rows),
            sensitivity=sensitivity.histograms(kind.relation),
            moves=moved_rows(kind.relation),
            theorem="docs/privacy.md O1",
            releases="histogram of the target",
        )


def _fitted_target(kind: Kind, release: Release, params: Params) -> tuple[Array, Array, Array]:
    """(centre, spread, rows) of a number, as its released histogram says."""
    moved = kind.noise.bound(sensitivity.histograms(kind.relation))
    deviation = _deviation(kind, moved, params, target_histogram.SITE)
    return target_histogram.fitted(release[target_histogram.SITE], deviation)


def _deviation(kind: Kind, moved: float, params: Params, site: str) -> Array:
    """f32[]: the standard deviation of the noise at a site, of a sensitivity."""
    return rounded(np.float32(kind.deviation * moved) * params.noise[site])


def _class_totals(kind: Kind, histogram: Array) -> Array:
    """f32[K]: the classes' numbers of rows, each the median over attributes; at least 10."""
    known = jnp.asarray(_known_cells(kind))[..., None]
    totals = jnp.sum(jnp.where(known, histogram, 0), axis=1).astype(jnp.float32)
    return jnp.maximum(jnp.median(totals, axis=0), 10.0)


def _start(kind: Kind, release: Release, params: Params) -> Array:
    """The score that rows start from.

    Of two classes it is f32[], the log ratio in bits, shrunk by noise. Of several classes it is
    f32[K], the logarithms of their shares, with mean 0. Of a number it is f32[], its centre.
    """
    if kind.response == NUMBER:
        return _fitted_target(kind, release, params)[0]
    totals = _class_totals(kind, release["histogram"])
    cells = float(_known_cells(kind).sum(axis=1).mean())
    columns = cells / len(kind.attributes)
    moved = histogram_sensitivity(kind) * math.sqrt(columns)
    deviation = _deviation(kind, moved, params, "histogram")
    shrunk = totals + rounded(3 * deviation)
    if kind.response == BINARY:
        return jnp.log2(shrunk[1] / shrunk[0])
    logs = rounded(jnp.log2(shrunk))
    return logs - rounded(jnp.mean(logs))


def _prologue(kind: Kind) -> LearnerPrologue:
    program = functools.partial(_opening, kind)
    start, tag = functools.partial(_start, kind), f"histograms({kind.tag})"
    if kind.response == NUMBER:
        fitted = functools.partial(_fitted_target, kind)
        unit, seen = (lambda *read: fitted(*read)[1]), (lambda *read: fitted(*read)[2])
        return LearnerPrologue(program, start, tag, unit, seen)

    def members(release: Release, params: Params) -> Array:
        del params
        return jnp.sum(_class_totals(kind, release["histogram"]))

    return LearnerPrologue(program, start, tag, seen=members)


def _masses(kind: Kind, params: Params, public: Public) -> tuple[Array, Array]:
    """f32[F, C], the estimated share of rows in each cell, and f32[], how many rows there are.

    Uniform over the cells of a feature without histograms.
    """
    known = _known_cells(kind)
    uniform = jnp.asarray(known / known.sum(axis=1, keepdims=True), jnp.float32)
    if not kind.marginals:
        rows = jnp.asarray(public.rows, jnp.float32)
        if public.seen is not None:
            rows = public.seen
        elif kind.response == NUMBER:
            rows = _fitted_target(kind, public.prologue, params)[2]
        return uniform, rows

    # What stands above the noise, and a tenth of uniform.
    histogram = public.prologue["histogram"]
    moved = histogram_sensitivity(kind) * math.sqrt(kind.columns)
    noise = _deviation(kind, moved, params, "histogram")
    rows = jnp.sum(histogram, axis=2).astype(jnp.float32)
    above = jnp.where(jnp.asarray(known), jnp.maximum(rows - noise, 0), 0)
    total = jnp.sum(above, axis=1, keepdims=True)
    measured = jnp.where(total > 0, above / jnp.where(total > 0, total, 1), uniform)
    mass = rounded(0.9 * measured) + rounded(0.1 * uniform)
    if public.seen is None or kind.response == NUMBER:
        return mass, jnp.sum(_class_totals(kind, histogram))
    return mass, public.seen


# One round.


def structure(kind: Kind, params: Params, public: Public) -> tuple[ObliviousTree, Array]:
    """The round's tree, with leaves of 0, and f32[2^D]: the estimated rows of each leaf."""
    mass, rows = _masses(kind, params, public)
    mass = jnp.pad(mass, ((0, 0), (0, CELLS - kind.widest)))
    seed = jnp.asarray(params.seed).astype(jnp.uint32)
    asked = oblivious_questions.draw(
        kind.attributes, kind.depth, kind.attributes_per_tree, seed, jnp.asarray(public.round), mass
    )
    leaves = jnp.zeros((*kind.response.axes, 2**kind.depth), jnp.float32)
    return ObliviousTree(asked.feature, asked.right, leaves), rounded(rows * asked.share)


def _known(kind: Kind, params: Params, public: Public) -> tuple[ObliviousTree, Array]:
    """The round's `structure`, as the loop gives it, or worked out here outside of rounds."""
    if public.structure is not None:
        return public.structure
    return structure(kind, params, public)


@functools.cache
def _leaf_sums(leaves: int) -> Callable[[Array, Array], Array]:
    """(i32[N] values, i32[N] leaves) -> i32[leaves]: the sum of the values in each leaf.

    Under vmap the leaves of all lanes are numbered through, so that it stays one sum over a flat
    array. XLA's own batched sum takes twice the time.
    """

    @jax.custom_batching.custom_vmap
    def sums(values: Array, leaf: Array) -> Array:
        return jnp.zeros(leaves, jnp.int32).at[leaf].add(values, mode="promise_in_bounds")

    @sums.def_vmap
    def of_lanes(
        lanes: int, in_batched: Sequence[bool], values: Array, leaf: Array
    ) -> tuple[Array, bool]:
        values, leaf = (
            array if batched else jnp.broadcast_to(array, (lanes, *array.shape))
            for array, batched in zip((values, leaf), in_batched, strict=True)
        )
        first = leaves * jnp.arange(lanes, dtype=jnp.int32)
        flat = _leaf_sums(lanes * leaves)(values.reshape(-1), (leaf + first[:, None]).reshape(-1))
        return flat.reshape(lanes, leaves), True

    return sums


def program(
    kind: Kind,
    draw: boundary.Draw,
    rows: Rows,
    weights: Array,
    params: Params,
    public: Public,
) -> None:
    """One draw: for each leaf the sums of residuals over its rows, in grid units, exact integers.

    The residual of two classes is y w.
    """
    tree, _ = _known(kind, params, public)
    leaf = leaves_in(kind.attributes, tree, rows).astype(jnp.int32)
    residuals, sums = _residuals(kind, rows, weights), _leaf_sums(2**kind.depth)
    if kind.response.axes:  # one class at a time: as one flat sum, XLA makes residuals many times
        total = jax.lax.map(lambda residual: sums(residual, leaf), residuals)
    else:
        total = sums(residuals, leaf)
    draw(
        "sums",
        kind.noise,
        boundary.Total(total),
        sensitivity=sum_sensitivity(kind),
        moves=moved_rows(kind.relation) * _sums_of_a_row(kind),
        theorem="docs/privacy.md O2",
        releases="signed weights, all leaves"
        if kind.response == BINARY
        else "residuals, all leaves",
    )


def _residuals(kind: Kind, rows: Rows, weights: Array) -> Array:
    """i32[N], or i32[K, N] with several classes: what each row adds to the sums of its leaf.

    The norm of a row's residuals is at most GRID, whatever the weights are. A row beyond it, which
    no weight update of the library gives, adds nothing.
    """
    whole = jnp.clip(weights, -GRID, GRID).astype(jnp.int32)
    if kind.response == BINARY:
        return jnp.where(rows.target, whole, -whole)
    if kind.response == NUMBER:
        return whole
    if kind.noise.price.norm == "l1":
        within = jnp.sum(jnp.abs(whole), axis=0) <= GRID
    else:
        within = jnp.sum(whole**2, axis=0) <= GRID**2
    return jnp.where(within[None], whole, 0)


def hypothesis(kind: Kind, release: Release, params: Params, public: Public) -> ObliviousTree:
    """The tree: each leaf moves as far as its sum stands above the noise.

    `oblivious_leaves.steps` has the formula.
    """
    tree, rows = _known(kind, params, public)
    deviation = _deviation(kind, sum_sensitivity(kind), params, "sums")
    numbers = deviation, params.step, params.limit, params.curvature
    leaf = oblivious_leaves.steps(
        release["sums"], rows, kind.smoothing, kind.response, *numbers, public
    )
    if any(kind.monotone):
        direction = jnp.asarray(kind.monotone, jnp.int32)[tree.feature]
        leaf = oblivious_leaves.monotone(leaf, direction)
    return tree._replace(leaf=leaf)


def _sums_of_a_row(kind: Kind) -> int:
    """How many sums a row may add to: one for each residual that is not 0."""
    if not kind.response.axes:
        return 1
    most = GRID if kind.noise.price.norm == "l1" else GRID**2
    return min(kind.response.classes, most)


def default_fractions(kind: Kind) -> dict[str, float]:
    """A tenth of the budget for each of what is drawn once, and the rest for the trees."""
    once = {
        "histogram": kind.marginals,
        target_histogram.SITE: kind.response == NUMBER,
        score_line.SITE: kind.scores,
    }
    drawn = [site for site, is_drawn in once.items() if is_drawn]
    return {"sums": 1 - 0.1 * len(drawn), **dict.fromkeys(drawn, 0.1)}


def checked_kind(
    attributes: Sequence[Attribute],
    depth: int,
    relation: Relation,
    noise: Mechanism,
    attributes_per_tree: Sequence[int],
    marginals: bool,
    scores: bool,
    smoothing: float,
    response: Response = BINARY,
    monotone: Sequence[int] = (),
    target_bins: int = 32,
) -> Kind:
    """The static part of a tree, checked.

    Args:
        attributes: of the public domain, one for each feature. `recipes.oblivious.attributes_of`
            makes them of a domain.
        depth: D, in 1..MAX_DEPTH.
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.rounded_gaussian` or `mechanisms.discrete_laplace`.
        attributes_per_tree: how many attributes a tree asks; the trees take these numbers in turn.
        marginals: whether a prologue releases the class histogram of every attribute. Thresholds
            then follow the released histograms instead of being evenly spaced, scores start
            from the released log odds, and steps know how many rows a leaf has.
        scores: whether an epilogue releases the final scores by class, and maps scores by a line
            that makes probabilities true (`score_line`).
        smoothing: the weight of a leaf's neighbour in its sum, in [0, 1); post-processing.
        response: what is predicted. A number always has a prologue, which releases its histogram.
        monotone: for each attribute 1 if scores must not fall with its cells, -1 if they must not
            rise, and 0 otherwise; post-processing. It is not for several classes.
        target_bins: how many bins of equal width the histogram of a number has.

    Raises:
        ValueError: naming the argument that is out of its range.
    """
    depth = whole("depth", depth, MAX_DEPTH)
    counts = wholes("attributes_per_tree", attributes_per_tree).reshape(-1)
    if counts.max() > MAX_DEPTH:
        raise ValueError(
            f"attributes_per_tree must be one or more numbers in 1..{MAX_DEPTH}, "
            f"got {shown(attributes_per_tree)}"
        )
    near = within("smoothing", smoothing, "[0, 1)")
    if near.ndim:
        raise ValueError(f"smoothing must be one number, got {shown(smoothing)}")
    if scores and response == NUMBER:
        raise ValueError("scores by class need classes: a number has no scores_fraction")
    _check_monotone(attributes, monotone, response)
    bins = within("target_bins", target_bins, f"[2, {target_histogram.MAX_BINS}]", whole=True)
    numbers, once = tuple(counts.tolist()), (marginals, scores)
    static = tuple(attributes), depth, numbers, *once, float(near), relation, noise
    return Kind(*static, response, tuple(monotone), int(bins))


def _check_monotone(
    attributes: Sequence[Attribute], monotone: Sequence[int], response: Response
) -> None:
    """Refuse constraints that leaves cannot keep.

    Raises:
        ValueError: saying which.
    """
    if not any(monotone):
        return
    if response.axes:
        raise ValueError("monotone constraints need one score, and several classes have one each")
    if len(monotone) != len(attributes) or not set(monotone) <= {-1, 0, 1}:
        got = shown(list(monotone))
        raise ValueError(f"monotone must hold -1, 0 or 1 for each attribute, got {got}")
    for number, (attribute, direction) in enumerate(zip(attributes, monotone, strict=True)):
        if direction and not attribute.ordered:
            raise ValueError(f"attribute {number} has no order, so nothing is monotone in it")


@functools.cache
def oblivious_tree(kind: Kind) -> WeakLearner:
    """Oblivious trees over public questions, for boosting with clipped weights.

    Guarantee, under `relation`, with weights of each row's own (`weighting.clipped_mirror`, or
    `weighting.residuals` where the response is not one of two classes): a round costs what the
    mechanism costs at `sum_sensitivity`. The prologue costs what it costs at
    `histogram_sensitivity`, and for a number at that of one histogram. All
    statistics are exact integers. The questions cost nothing: they follow from the domain, the
    seed, the number of the round and the released histograms. With rounded Gaussian noise, T rounds
    are exactly sqrt(T) shift-GDP.

    Args:
        kind: the static parts, as `checked_kind` makes them.
    """
    of_round = functools.partial(structure, kind)
    hypotheses = hypothesis_class(kind.attributes, of_round, kind.response)
    return boundary.weak_learner(
        functools.partial(program, kind),
        functools.partial(hypothesis, kind),
        default_fractions(kind),
        hypotheses,
        kind.relation,
        prologue=_prologue(kind) if kind.marginals or kind.response == NUMBER else None,
        epilogue=score_line.epilogue(kind.relation, kind.noise, kind.response)
        if kind.scores
        else None,
        params=params,
        tag=f"oblivious_tree({kind.tag})",
    )
