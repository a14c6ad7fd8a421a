"""The words of the library: bundles of arrays and tuples of pure functions.

Axis letters, used in every docstring:

    N rows of a table (its public capacity)      D depth of a tree
    F features: columns of a table               L = 2**D leaves
    S public splits                              T rounds of boosting (trees)
    A public attributes                          G settings of a sweep

Axes of rounds are as long as the recipe's capacity, which is T unless settings of different T share a program.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from dp_accounting import NeighboringRelation

Array = jax.Array
AnyArray = jax.Array | np.ndarray
Relation = NeighboringRelation
Release = dict[str, Array]
"""Everything that leaves one run of a weak learner: one array for each named site."""

UNSPLIT = -1
"""The split of a node that is not split; it routes every row left."""

GRID = 127
"""Weights that depend on their own row alone are integers in 0..GRID, in units of `Weights.unit` / GRID.

The largest grid that fits eight signed bits, whose exact products are the fastest a CPU has.
"""

MAX_ROWS = 2**24
"""Most rows: float32 holds their number, and int32 their weights with noise; 16.8 million."""

ADD_REMOVE = Relation.ADD_OR_REMOVE_ONE
REPLACE_ONE = Relation.REPLACE_ONE
_RELATIONS = {"add_remove": ADD_REMOVE, "replace_one": REPLACE_ONE}


def relation(name: str | Relation) -> Relation:
    """The neighbouring relation called `name`: "add_remove" or "replace_one".

    Raises:
        ValueError: for any other name.
    """
    found = _RELATIONS.get(name) if isinstance(name, str) else name
    if found is None or found not in _RELATIONS.values():
        raise ValueError(f"relation must be one of {sorted(_RELATIONS)}, got {name!r}")
    return found


def relation_name(value: Relation) -> str:
    """The short name of a relation, as `relation` takes it."""
    return next(name for name, known in _RELATIONS.items() if known is value)


CELLS = 256
"""Most cells of a feature: as many as a uint8 tells apart."""


class Questions(NamedTuple):
    """What may be asked of the cells of a row: splits, and places in a range. Public.

    A cell that no question knows satisfies no split and is at place 0 of every attribute.
    `dpbt.questions` has what follows from questions and cells.

    Attributes:
        feature: i32[S]: the feature that split s reads.
        low: u8[S]: a row satisfies split s if low[s] <= its cell of that feature <= high[s].
        high: u8[S]: see `low`.
        attribute: i32[A]: the feature that attribute a reads. Attributes are for learners that draw
            thresholds or read numbers.
        position: f32[A, CELLS]: the place in [0, 1] of each cell of the attribute's feature.
        allowed: bool[S] or None: the splits that may be chosen; None for all. It pads tables of
            different domains to a common shape.
    """

    feature: AnyArray
    low: AnyArray
    high: AnyArray
    attribute: AnyArray
    position: AnyArray
    allowed: AnyArray | None = None


class Table(NamedTuple):
    """Private rows, as all learners read them.

    Attributes:
        cells: u8[N, F]: the public cell that each feature of a row lies in, which `questions` are
            asked of. Or f32[N, F]: exact numbers, for learners that read places or numbers only;
            then there are no questions. What a cell holds is private, and none is an error.
        target: bool[N]: the row is of the positive class.
        present: bool[N]: the row is there. Removing a row, choosing a fold and padding to a common
            capacity change this mask only. What an absent row holds never matters.
        questions: of the cells; None with exact numbers.
    """

    cells: Array
    target: Array
    present: Array
    questions: Questions | None = None


class Tree(NamedTuple):
    """A complete binary tree of depth D.

    Attributes:
        split: i32[2**D - 1], heap order: the children of node i are 2i+1 (split false) and 2i+2 (true).
            `UNSPLIT` routes every row left.
        leaf: f32[2**D]: the value added to the score of a row that ends there.
    """

    split: Array
    leaf: Array


class Weights(NamedTuple):
    """Weights of the rows in one round.

    Attributes:
        level: f32[N]: for a re-weighting of a row by itself, an integer 0..GRID; the row's weight is
            level * unit / GRID.
        unit: f32[]: a public upper bound on every weight of every possible row, a function of what
            has been released before.
    """

    level: Array
    unit: Array


class Sampler(NamedTuple):
    """How far a sampler of finitely many bits can be from the law of its mechanism.

    Attributes:
        gap: g: each outcome has a probability within a factor of e**(+-g) of the law's, but for
            outcomes far from the value.
        tail: (shift) -> t, the mass of outcomes that are so far from one of two values that lie
            `shift` scales apart.
        most: the largest scale for which this holds.

    For each draw that a row moves, neighbours whose laws satisfy epsilon have samplers that satisfy
    epsilon + 2 g, with t of delta (`accounting.Ledger`).
    """

    gap: float
    tail: Callable[[float], float]
    most: float = math.inf


class Mechanism(NamedTuple):
    """A randomised map from a private value to an output that may be published.

    Attributes:
        name: what the ledger calls it.
        sample: (key, value, scale) -> output.
        log_prob: (output, value, scale) -> the exact log density (or probability) of each draw, one
            for each independent draw.
        divergence: (value, scale, other_value, other_scale) -> f32[]: the largest absolute log ratio
            of the two densities over all outputs (the max-divergence, both directions).
        rho: the same arguments -> f32[]: the zCDP cost of telling the two values apart.
        sampler: how far `sample` can be from `log_prob`; None if no bound is proved, which marks a
            ledger FLOAT.
        public: whether the output is public randomness, drawn with the public key.
    """

    name: str
    sample: Callable[[Array, Array, Array], Array]
    log_prob: Callable[[Array, Array, Array], Array]
    divergence: Callable[[Array, Array, Array, Array], Array]
    rho: Callable[[Array, Array, Array, Array], Array]
    sampler: Sampler | None = None
    public: bool = False


class StepLoss(NamedTuple):
    """What one draw costs between two tables, in the worst case over its outputs.

    Attributes:
        pure: f32[]: the max-divergence.
        rho: f32[]: the zCDP cost.
    """

    pure: Array
    rho: Array


class ProperLoss(NamedTuple):
    """A symmetric proper loss with Bayes risk L, L(0) = L(1) = 0 and L(1/2) = 1.

    Attributes:
        name: its name in tables.
        bayes_risk: u in [0, 1] -> L(u).
        link: u in (0, 1) -> -L'(u), the canonical link.
        inverse_link: z -> the u in [0, 1] that attains the conjugate of -L at z.
        surrogate: z -> (-L)*(-z), the convex loss of a margin z.
        perspective: (w1, w0) -> (w1 + w0) L(w1 / (w1 + w0)), and 0 at (0, 0).
        smoothness: the supremum of surrogate''; infinite where the surrogate has a kink.
    """

    name: str
    bayes_risk: Callable[[Any], Array]
    link: Callable[[Any], Array]
    inverse_link: Callable[[Any], Array]
    surrogate: Callable[[Any], Array]
    perspective: Callable[[Any, Any], Array]
    smoothness: Any


LossFamily = Callable[[Any], ProperLoss]
"""A family of losses indexed by alpha in [0, 1]; alpha may be traced."""


class HypothesisClass(NamedTuple):
    """What boosting needs to know of the hypotheses of a weak learner, whatever they are.

    Attributes:
        example: () -> a table of one absent row that they can read.
        check: (table) -> None: raises ValueError, on the host, if the table is not of the kind they read.
        prepare: (table) -> the same rows laid out for the loops, with attributes `target` and
            `present`.
        predict: (hypothesis, prepared) -> f32[N], what the hypothesis adds to the score of each row.
        bound: (hypothesis) -> f32[]: no possible row's |prediction| exceeds it.
    """

    example: Callable[[], Table]
    check: Callable[[Table], None]
    prepare: Callable[[Table], Any]
    predict: Callable[[Any, Any], Array]
    bound: Callable[[Any], Array]


class WeakLearner(NamedTuple):
    """Three pure functions around the privacy boundary, and the ledger's lines for them.

    Build one with `boundary.weak_learner`, which derives `release`, `log_prob` and `divergence` from
    a single program.

    Attributes:
        tag: names the learner and every static part of it, so that two learners under one key have
            independent noise (`boosting.boost`).
        release: (key, public_key, table, weights, budget) -> Release: the only door from private to
            public. The public key is None where nothing public is drawn.
        log_prob: (release, table, weights, budget) -> dict of f32[]: exact log density by site.
        divergence: (release, budget, table, weights, other_table, other_weights) -> dict of StepLoss:
            for each site, the worst case over its outputs, given the earlier sites of `release`.
        hypothesis: (release, budget, unit) -> a hypothesis, a Tree say: post-processing, never sees the table.
        hypotheses: the class that it belongs to.
        events: (budget) -> list of accounting.Event, one for each site of the release.
        relation: the neighbouring relation that `events` speak of; None if they hold under both.
        slick: whether `events` hold where all rows' weights depend on each other, moving as `slickness` says
            (`reweighting.lazy_bregman`). If not, they count on weights that depend on each row alone.
        unprotected: what the calibration reads off the private data without any mechanism.
        draws: (table, weights, budget) -> dict of site -> Drawn: what the program asks for, without
            drawing it; the ledger compares it with `events`.
        total: whether `events` count on a total weight of kappa rows, as `reweighting.lazy_bregman`
            has it.
        withheld: the sites that `fit` leaves out of the model, as their length or their order
            follows the private rows (the tree of each row, for example).
    """

    tag: str
    release: Callable[..., Release]
    log_prob: Callable[..., dict[str, Array]]
    divergence: Callable[..., dict[str, StepLoss]]
    hypothesis: Callable[..., Any]
    hypotheses: HypothesisClass
    events: Callable[..., list[Any]]
    relation: Relation | None
    slick: bool
    unprotected: tuple[str, ...]
    draws: Callable[..., dict[str, Any]]
    total: bool = False
    withheld: tuple[str, ...] = ()


class Reweighter(NamedTuple):
    """From the released scores of the rows to their weights in the next round.

    Attributes:
        tag: names the re-weighter and every static part of it.
        joint: whether every weight depends on all rows (`reweighting.lazy_bregman`). If not, it
            depends on its own row alone, and on what has been released.
        weights: (score f32[N], bound f32[], prepared table, budget) -> Weights. `bound` is public:
            no row's |score| exceeds it.
    """

    tag: str
    joint: bool
    weights: Callable[[Array, Array, Any, Any], Weights]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Recipe:
    """An algorithm: static parts, and a budget whose leaves are arrays.

    Two recipes with equal static fields run the same compiled program; `jax.vmap` over a recipe maps
    over its budget. Build one with `dpbt.recipes`.

    Attributes:
        budget: a pytree of arrays of 32 bits: noise scales and every other traced number, with a field
            `rows`, and what the re-weighter reads (`link_alpha` for `mirror`; `density` and
            `learning_rate` for `lazy_bregman`). Leading axes, if any, are axes of settings.
        delta: f32[], the delta of the guarantee; 0 for a pure one.
        learner: the weak learner.
        reweighter: how scores become the next round's weights.
        loss: the loss family of the link, and `predict_proba`.
        rounds: i32[], T. Traced, so that settings with different T share a program.
        capacity: the most rounds that the program has room for; releases and trees beyond T are zeros.
        relation: the neighbouring relation of the guarantee.
        name, calibration, setting: words for tables.

    Raises:
        ValueError: if the learner's events speak of another relation, if weights that depend on all
            rows go to a learner whose events do not count on that, or the other way round, or if
            rounds are not whole numbers from 1 to the capacity.
    """

    budget: Any
    delta: AnyArray
    rounds: AnyArray
    learner: WeakLearner = dataclasses.field(metadata={"static": True})
    reweighter: Reweighter = dataclasses.field(metadata={"static": True})
    loss: LossFamily | None = dataclasses.field(metadata={"static": True})
    capacity: int = dataclasses.field(metadata={"static": True})
    relation: Relation = dataclasses.field(metadata={"static": True})
    name: str = dataclasses.field(metadata={"static": True})
    calibration: str = dataclasses.field(metadata={"static": True})
    setting: str = dataclasses.field(metadata={"static": True})

    def __post_init__(self):
        if self.learner.relation not in (None, self.relation):
            words = f"the learner's sensitivities are under {self.learner.relation.name}, the recipe says"
            raise ValueError(f"{words} {self.relation.name}")
        if self.reweighter.joint and not self.learner.slick:
            raise ValueError(
                f"{self.reweighter.tag} moves the weights of all rows at once, and the sensitivities "
                f"of {self.learner.tag} are for weights of each row's own"
            )
        if self.learner.total and not self.reweighter.joint:
            raise ValueError(
                f"{self.learner.tag} counts on a total weight of kappa rows, and {self.reweighter.tag} has another"
            )
        _check_rounds(self.rounds, self.capacity)


def _check_rounds(rounds: Any, capacity: int) -> None:
    """Refuse rounds that are no whole numbers in 1..capacity, where they are numbers at all.

    A recipe is a pytree, so `rounds` may be anything that stands for a leaf: a tracer, an axis.
    """
    if not isinstance(rounds, float | np.ndarray | np.generic):
        return
    values = np.asarray(rounds)
    if values.dtype.kind == "f":
        raise ValueError(f"rounds must be whole numbers, got {rounds!r}")
    if values.dtype.kind in "iu" and not np.all((values >= 1) & (values <= capacity)):
        raise ValueError(f"rounds must be in 1..{capacity}, the recipe's capacity, got {rounds!r}")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model:
    """An ensemble: all that was released, and what follows from it.

    Attributes:
        trees: the hypotheses, a Tree say, with a leading axis for rounds; the score of a row is the sum of their
            predictions.
        releases: the stacked releases of all rounds, with a leading axis for rounds. The sites that
            the learner withholds are not among them, unless `fit` was asked for them.
        recipe: the recipe that made it.
        questions: of the cells that it reads, as its table had them; None if it reads numbers.
        features: F, how many features the rows have that it reads.
        dtype: of these rows: "uint8" for cells, "float32" for numbers.
    """

    trees: Any
    releases: Mapping[str, Array]
    recipe: Recipe
    questions: Questions | None
    features: int = dataclasses.field(metadata={"static": True})
    dtype: str = dataclasses.field(metadata={"static": True})


def dtype_and_rank(array: AnyArray) -> str:
    """The dtype and the rank of an array, in words for errors.

    Its lengths are not shown, and neither are those of its texts: they may be private.
    """
    numbers = isinstance(array, jax.Array) or array.dtype.kind in "biufc"
    return f"{array.dtype if numbers else 'text or objects'} of rank {array.ndim}"


def positive(name: str, value: Any, *, below: float | None = None, finite: bool = False) -> np.ndarray:
    """`value` as float64, if every entry is above 0 (and below `below`; and finite, if so asked).

    Raises:
        ValueError: naming the parameter, what was expected and what was given.
    """
    array = np.asarray(value, np.float64)
    good = array > 0
    words = "greater than 0"
    if below is not None:
        good &= array < below
        words += f" and less than {below:g}"
    if finite:
        good &= np.isfinite(array)
        words += " and finite"
    if not good.all():
        raise ValueError(f"{name} must be {words}, got {value!r}")
    return array
