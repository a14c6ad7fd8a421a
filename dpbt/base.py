"""The types of the library: bundles of arrays and tuples of pure functions.

Axis letters, used in every docstring:

    N rows of a table (its public capacity)      D depth of a tree
    F features: columns of a table               L = 2**D leaves
    S public splits                              T rounds of boosting (trees)
    A public attributes                          G settings of a sweep

Axes of rounds have the recipe's capacity: T, unless settings of different T share a program.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from dp_accounting import NeighboringRelation

from dpbt.privacy.mechanism import Allowance, DrawRequest, Numbers, StepLoss

Array = jax.Array
AnyArray = jax.Array | np.ndarray
Relation = NeighboringRelation
Release = dict[str, Array]
"""Everything that leaves one run of a weak learner: one array for each named site."""

Budget = Any
"""A learner's own NamedTuple of numbers: noise scales and settings."""

Reweighting = Any
"""A re-weighter's own NamedTuple of numbers."""

Prepared = Any
"""A table laid out by its hypothesis class, with attributes `target` and `present`."""

Hypothesis = Any
"""What a weak learner makes of one release: a Tree, for example."""

Hypotheses = Any
"""Hypotheses that are stacked, with a leading axis for rounds."""

LedgerEvent = Any
"""An `accounting.Event`: what a learner declares of one draw."""

UNSPLIT = -1
"""The split of a node that is not split; it routes every row left."""

GRID = 127
"""Weights of rows are integers in 0..GRID, in units of `Weighted.cap` / GRID.

It is the largest grid that fits eight signed bits, whose exact products are the fastest a CPU has.
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
    value = _RELATIONS.get(name) if isinstance(name, str) else name
    if value is None or value not in _RELATIONS.values():
        raise ValueError(f"relation must be one of {sorted(_RELATIONS)}, got {name!r}")
    return value


def relation_name(value: Relation) -> str:
    """The short name of a relation, as `relation` takes it."""
    return next(name for name, known in _RELATIONS.items() if known is value)


CELLS = 256
"""Most cells of a feature: as many as a uint8 tells apart."""


class Questions(NamedTuple):
    """What may be asked of the cells of a row: splits, and positions in a range. Public.

    A cell that no question knows satisfies no split and is at position 0 of every attribute.
    `dpbt.questions` has what follows from questions and cells.

    Attributes:
        feature: i32[S]: the feature that split s reads.
        low: u8[S]: a row satisfies split s if low[s] <= its cell of that feature <= high[s].
        high: u8[S]: see `low`.
        attribute: i32[A]: the feature that attribute a reads. Attributes are for learners that draw
            thresholds or read numbers.
        position: f32[A, CELLS]: the position in [0, 1] of each cell of the attribute's feature.
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
            asked of. Or f32[N, F]: exact numbers, for learners that read positions or numbers only;
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
        split: i32[2**D - 1], heap order: the children of node i are 2i+1 (split false) and 2i+2
            (true). `UNSPLIT` routes every row left.
        leaf: f32[2**D]: the value added to the score of a row that ends there.
    """

    split: Array
    leaf: Array


class Weighted(NamedTuple):
    """Weights of the rows in one round.

    Attributes:
        weight: f32[N], integers 0..GRID; the weight of a row is weight * cap / GRID.
        cap: f32[]: a public upper bound on every weight of every possible row, a function of what
            has been released before.
    """

    weight: Array
    cap: Array


class Public(NamedTuple):
    """What is public in a round, beside the learner's own budget.

    Attributes:
        rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        cap: f32[], the public upper bound on the weights of the round; 1 where no round is meant.
        reweighting: the numbers of the re-weighter.
        prologue: what the learner's prologue released; empty where there is none.
        round: i32[], the number of the round, from 0; 0 where no round is meant.
    """

    rows: Numbers
    cap: Numbers
    reweighting: Reweighting
    prologue: Release
    round: Numbers = np.int32(0)


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
    bayes_risk: Callable[[Numbers], Array]
    link: Callable[[Numbers], Array]
    inverse_link: Callable[[Numbers], Array]
    surrogate: Callable[[Numbers], Array]
    perspective: Callable[[Numbers, Numbers], Array]
    smoothness: Numbers


LossFamily = Callable[[Numbers], ProperLoss]
"""A family of losses indexed by alpha in [0, 1]; alpha may be traced."""


class HypothesisClass(NamedTuple):
    """What boosting needs to know of the hypotheses of a weak learner, whatever they are.

    Attributes:
        example: () -> a table of one absent row that they can read.
        check: (table) -> None: raises ValueError, on the host, if the table is not of the kind they
            read.
        prepare: (table) -> the same rows laid out for the loops, with attributes `target` and
            `present`.
        predict: (hypothesis, prepared) -> f32[N], what the hypothesis adds to the score of each
            row.
        bound: (hypothesis) -> f32[]: no possible row's |prediction| exceeds it.
        explain: (hypotheses of T rounds on the host, domain) -> the model in words.
        shares: (hypotheses, prepared) -> f32[k, N], for hypotheses that state shares of the
            positive class instead of scores: what each says of each row, NaN for rounds beyond T.
    """

    example: Callable[[], Table]
    check: Callable[[Table], None]
    prepare: Callable[[Table], Prepared]
    predict: Callable[[Hypothesis, Prepared], Array]
    bound: Callable[[Hypothesis], Array]
    explain: Callable[[Hypotheses, Mapping[str, Any]], str] | None = None
    shares: Callable[[Hypotheses, Prepared], Array] | None = None


Sampling = Callable[[Array, Array | None, Prepared, Array, Budget, Public], Release]
"""(key, public key, table, weights, budget, public) -> what fresh draws release."""

LogDensities = Callable[[Release, Prepared, Array, Budget, Public], dict[str, Array]]
"""(release, table, weights, budget, public) -> f32[] for each site."""

Divergences = Callable[
    [Release, Prepared, Array, Prepared, Array, Budget, Public], dict[str, StepLoss]
]
"""(release, table, weights, other table, its weights, budget, public) -> the loss of each site."""

Requests = Callable[[Prepared, Array, Budget, Public], Mapping[str, DrawRequest]]
"""(table, weights, budget, public) -> what the program asks for at each site."""


class PrivateProgram(NamedTuple):
    """A private program, read in four ways, and the ledger's lines for it.

    `boundary.private_program` derives the four from one program. `table` and `weights` are private;
    `public` is a `Public`.

    Attributes:
        release: (key, public_key, table, weights, budget, public) -> Release: the only door from
            private to public. The public key is None where nothing public is drawn.
        log_prob: (release, table, weights, budget, public) -> dict of f32[]: exact log density by
            site.
        divergence: (release, table, weights, other_table, other_weights, budget, public) -> dict of
            StepLoss: for each site, the worst case over its outputs, given the earlier sites.
        draws: (table, weights, budget, public) -> dict of site -> what the program asks for there,
            without drawing it; the ledger compares it with `events`.
        events: (budget, public) -> one accounting.Event for each site. Their numbers have the axes
            of settings that the budget has.
    """

    release: Sampling
    log_prob: LogDensities
    divergence: Divergences
    draws: Requests
    events: Callable[[Budget, Public], list[LedgerEvent]]


class Prologue(NamedTuple):
    """What a learner does once, before the first round; round 0 for audits and ledgers.

    Attributes:
        program: its private program. The weights that it reads are those of `uniform` re-weighting.
        intercept: (its release, budget) -> f32[], the score that every row starts from.
        tag: names the prologue and every static part of it, for a learner that is given another
            prologue under its own tag.
    """

    program: PrivateProgram
    intercept: Callable[[Release, Budget], Array]
    tag: str = "prologue"


class WeakLearner(NamedTuple):
    """Private programs, and what is made of their releases. Build one with `boundary.weak_learner`.

    Attributes:
        tag: names the learner and every static part of it, so that two learners under one key have
            independent noise (`boosting.boost`).
        program: of one round.
        hypothesis: (release, budget, public) -> a hypothesis, a Tree say: post-processing, never
            sees the table.
        hypotheses: the class that it belongs to.
        relation: the neighbouring relation that the events speak of; None if they hold under both.
        coupled: whether the events hold where all rows' weights depend on each other, moving as
            `slickness` says (`reweighting.lazy_bregman`). If not, they count on weights that depend
            on each row alone.
        unprotected: what the calibration reads off the private data without any mechanism.
        total: whether the events count on a total weight of kappa rows, as
            `reweighting.lazy_bregman` has it.
        withheld: the sites that `fit` leaves out of the model, as their length or their order
            follows the private rows (the tree of each row, for example).
        prologue: what is done once before the first round, if anything.
        by_depth: the fields of its budget that have an entry for each depth on their last axis.
        calibrate: (allowance of all rounds, rounds, public) -> budget, for `recipes.custom`; None
            for a learner whose recipe says how its budget is shared.
    """

    tag: str
    program: PrivateProgram
    hypothesis: Callable[[Release, Budget, Public], Hypothesis]
    hypotheses: HypothesisClass
    relation: Relation | None
    coupled: bool
    unprotected: tuple[str, ...]
    total: bool = False
    withheld: tuple[str, ...] = ()
    prologue: Prologue | None = None
    by_depth: tuple[str, ...] = ()
    calibrate: Callable[[Allowance, Numbers, Public], Budget] | None = None


class Reweighter(NamedTuple):
    """From the released scores of the rows to their weights in the next round.

    Attributes:
        tag: names the re-weighter and every static part of it.
        coupled: whether every weight depends on all rows (`reweighting.lazy_bregman`). If not, it
            depends on its own row alone, and on what has been released.
        weigh: (score f32[N], bound f32[], prepared table, public) -> Weighted. `bound` is public:
            no row's |score| exceeds it.
        numbers: the class of its numbers, `Recipe.reweighting`; an empty tuple has none.
    """

    tag: str
    coupled: bool
    weigh: Callable[[Array, Array, Prepared, Public], Weighted]
    numbers: type[tuple] = tuple


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Recipe:
    """An algorithm: static parts, and numbers that are traced.

    Two recipes with equal static fields run the same compiled program; `jax.vmap` over a recipe
    maps over its numbers. Build one with `dpbt.recipes`.

    Attributes:
        budget: the learner's numbers: noise scales and settings, a pytree of arrays of 32 bits.
            Leading axes, if any, are axes of settings; so have all numbers below.
        reweighting: the re-weighter's numbers, likewise.
        rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        delta: f32[], the delta of the guarantee; 0 for a pure one.
        rounds: i32[], T. Traced, so that settings with different T share a program.
        learner: the weak learner.
        reweighter: how scores become the next round's weights.
        loss: the loss of the link of `predict_proba`, a function of `reweighting`; None without
            one.
        capacity: the most rounds that the program has room for; releases and hypotheses beyond T
            are zeros.
        relation: the neighbouring relation of the guarantee.
        name, calibration, setting: words for tables.

    Raises:
        ValueError: if the learner's events speak of another relation, if weights that depend on all
            rows go to a learner whose events do not count on that, or the other way round, or if
            rounds are not whole numbers from 1 to the capacity.
    """

    budget: Budget
    reweighting: Reweighting
    rows: AnyArray
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
        check_parts(self.learner, self.reweighter, self.relation)
        _check_rounds(self.rounds, self.capacity)

    def public(self, prologue: Release | None = None) -> Public:
        """What is public in every round: with a cap of 1, and the prologue's release."""
        return Public(self.rows, np.float32(1), self.reweighting, prologue or {})


def check_parts(learner: WeakLearner, reweighter: Reweighter, relation: Relation) -> None:
    """Refuse parts that do not fit: the learner's events would not hold.

    Raises:
        ValueError: if they speak of another relation, if weights that depend on all rows go to a
            learner whose events do not count on that, or the other way round.
    """
    if learner.relation not in (None, relation):
        raise ValueError(
            f"the learner's sensitivities are under {relation_name(learner.relation)}, "
            f"the recipe says {relation_name(relation)}"
        )
    if reweighter.coupled and not learner.coupled:
        raise ValueError(
            f"{reweighter.tag} moves the weights of all rows at once, and the sensitivities "
            f"of {learner.tag} are for weights of each row's own"
        )
    if learner.total and not reweighter.coupled:
        raise ValueError(
            f"{learner.tag} counts on a total weight of kappa rows, "
            f"and {reweighter.tag} has another"
        )


def _check_rounds(rounds: object, capacity: int) -> None:
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


class Transcript(NamedTuple):
    """All that leaves one run.

    Attributes:
        prologue: the release of the learner's prologue; empty where there is none.
        rounds: the stacked releases of all rounds, with a leading axis for rounds.
    """

    prologue: Release
    rounds: Release


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model:
    """An ensemble: all that was released, and what follows from it.

    Attributes:
        hypotheses: trees, say, with a leading axis for rounds; the score of a row is
            `intercept` and the sum of their predictions.
        intercept: f32[], where every score starts; 0 for a learner without a prologue.
        transcript: what was released. The sites that the learner withholds are not in it, unless
            `fit` was asked for them.
        recipe: the recipe that made it.
        questions: of the cells that it reads, as its table had them; None if it reads numbers.
        features: F, how many features the rows have that it reads.
        dtype: of these rows: "uint8" for cells, "float32" for numbers.
    """

    hypotheses: Hypotheses
    intercept: Array
    transcript: Transcript
    recipe: Recipe
    questions: Questions | None
    features: int = dataclasses.field(metadata={"static": True})
    dtype: str = dataclasses.field(metadata={"static": True})

    @property
    def releases(self) -> Release:
        """The stacked releases of all rounds."""
        return self.transcript.rounds


def dtype_and_rank(array: AnyArray) -> str:
    """The dtype and the rank of an array, in words for errors.

    Its lengths are not shown, and neither are those of its texts: they may be private.
    """
    numbers = isinstance(array, jax.Array) or array.dtype.kind in "biufc"
    return f"{array.dtype if numbers else 'text or objects'} of rank {array.ndim}"
