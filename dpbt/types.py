"""The types of the library: bundles of arrays and tuples of pure functions.

Every docstring uses these letters for axes:

- N rows of a table (its public capacity)
- F features: columns of a table
- S public splits; A public attributes
- D depth of a tree; L = 2^D leaves
- T rounds of boosting (trees)
- G settings of a sweep

An axis of rounds is as long as the recipe's capacity. That is T, unless settings of different T
share a program.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from dpbt.common.validate import is_traced
from dpbt.hypothesis_kind import HypothesisKind as HypothesisKind
from dpbt.hypothesis_kind import Training as Training
from dpbt.public_types import ADD_REMOVE as ADD_REMOVE
from dpbt.public_types import BINARY as BINARY
from dpbt.public_types import GRID as GRID
from dpbt.public_types import MAX_BINS as MAX_BINS
from dpbt.public_types import MAX_ROWS as MAX_ROWS
from dpbt.public_types import MAX_ROWS_IN_BLOCKS as MAX_ROWS_IN_BLOCKS
from dpbt.public_types import NUMBER as NUMBER
from dpbt.public_types import REPLACE_ONE as REPLACE_ONE
from dpbt.public_types import UNSPLIT as UNSPLIT
from dpbt.public_types import DeclaredDomain as DeclaredDomain
from dpbt.public_types import HoldsFunctions, redacted_repr
from dpbt.public_types import Relation as Relation
from dpbt.public_types import Response as Response
from dpbt.public_types import Splits as Splits
from dpbt.public_types import Tree as Tree
from dpbt.public_types import as_relation as as_relation

Array = jax.Array
AnyArray = jax.Array | np.ndarray

Numbers = Any
"""A number, or an array with axes of settings, of NumPy or JAX and perhaps traced."""

Release = dict[str, Array]
"""Everything that leaves one run of a weak learner: one array for each named site."""

Hypothesis = PyTree
"""What a weak learner makes of one release: any pytree of arrays, such as a `Tree`.

Only the learner's `HypothesisKind` reads it; a run stacks, adds and stores its leaves.
"""

Hypotheses = PyTree
"""Hypotheses of all rounds: the pytree of one, its arrays stacked along a leading axis."""

Structure = PyTree
"""What is public in a round before its draw: any pytree of arrays, such as the splits of a tree.

Only the learner that makes it reads it (`Partition.structure`).
"""

Weighting = PyTree
"""The numbers of a weight update: any NamedTuple of arrays, `()` if it has none.

Only the weight update reads it, but for `link_alpha`: where it has `WeightUpdate.loss`, a model
reads the alpha of the loss off that field.
"""


Target = Any
"""Declared classes or the declared range of a number: `data.kinds.Target`, of a room above.

Of it a recipe reads `response`, the kind of answer that it declares, and its `repr`.
"""


class Params(Protocol):
    """The numbers of a learner: a NamedTuple of arrays, a pytree, with a field `noise`.

    A run reads and replaces the field `noise`, and leaves the others to the learner. The functions
    of the learner get its own class, so theirs is `LearnerParams`.
    """

    @property
    def noise(self) -> Mapping[str, Numbers]:
        """Site -> f32[...], the multiplier of the sensitivity of its draw."""
        ...

    def _replace(self, **changes: Any) -> Self: ...


LearnerParams = Any
"""The `Params` of one learner, as its own functions get it: its class, with all of its fields."""


class Prepared(Protocol):
    """The rows of a table, or of a block of it, laid out by `Training.prepare`; a NamedTuple.

    A run reads and replaces these fields. If rows have weights there is a field `weight`, f32[N] or
    None, as in `Table`. If the learner has a `Partition` there is a field `leaf`, which a run fills
    for each round. How rows lie in the others is known to the learner alone. The functions of the
    learner get its own class, so theirs is `LearnerRows`.
    """

    @property
    def target(self) -> Array:
        """[N], as in `Table`."""
        ...

    @property
    def present(self) -> Array:
        """bool[N], as in `Table`."""
        ...

    def _replace(self, **changes: Any) -> Self: ...


LearnerRows = Any
"""The `Prepared` rows of one learner, as its own functions get them, with all of their fields."""


@jax.tree_util.register_static
class RowsPerUser(int):
    """How many rows of each user a table has at most; static where programs are traced."""


jax.tree_util.register_static(DeclaredDomain)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class TableForm:
    """What is public and static of a table that was learned from, so that another one is told.

    Attributes:
        features: F, the number of columns of its bins, or of its exact numbers.
        dtype: of these, "uint8" or "float32".
        splits: S, the number of splits; None without splits.
        attributes: A, the number of attributes; None without splits.
        domain: the domain that encoded it; None if it was made without one.
    """

    features: int
    dtype: str
    splits: int | None
    attributes: int | None
    domain: DeclaredDomain | None

    @classmethod
    def of(cls, table: "Table") -> "TableForm":
        """The form of a table, which may be traced."""
        splits = table.splits
        return cls(
            features=np.shape(table.bins)[-1],
            dtype=str(table.bins.dtype),
            splits=None if splits is None else np.shape(splits.feature)[-1],
            attributes=None if splits is None else np.shape(splits.attribute)[-1],
            domain=table.domain,
        )


class Table(NamedTuple):
    """Private rows, as all learners read them.

    Attributes:
        bins: u8[N, F]: the public bin that each feature of a row lies in; `splits` are asked
            of it. Or f32[N, F]: exact numbers, without splits, for learners that read positions
            or numbers only. What a bin holds is private, and no content is an error.
        target: bool[N]: the row is of the positive class. u8[N], its class, with several classes,
            and f32[N], the position of its number in the declared range, in regression.
        present: bool[N]: the row is there. Removing a row, choosing a fold and padding to a common
            capacity change this mask only. What an absent row holds never matters.
        splits: what may be asked of the bins; None with exact numbers.
        weight: f32[N]: the weight of each row, in units of the largest that any row may have. It is
            clipped to [0, 1], and a weight that is no number is 0. None if all rows weigh the same.
        declared: u32[2]: what the targets were declared as (`kinds.target_fingerprint`), which is
            public and compared with the recipe's. None if undeclared.
        rows_per_user: how many rows of each user are present at most, as ids told users apart; the
            recipe must be for as many. None for rows without ids.
        domain: the public domain that encoded the rows. Entries compare it with that of the recipe
            and of the model. It is static where programs are traced, so a program of your own is
            traced anew for another domain; `table._replace(domain=None)` shares one. None for rows
            that were encoded without one: then splits alone are compared.
    """

    bins: Array
    target: Array
    present: Array
    splits: Splits | None = None
    weight: Array | None = None
    declared: Array | None = None
    rows_per_user: RowsPerUser | None = None
    domain: DeclaredDomain | None = None
    __repr__ = redacted_repr


class Weighted(NamedTuple):
    """Weights of the rows in one round.

    Attributes:
        weight: f32[N], integers 0..GRID; the weight of a row is weight * cap / GRID. A weight
            update of several classes or of numbers gives residuals instead: f32[K, N] or f32[N],
            integers in -GRID..GRID.
        cap: f32[]: a public upper bound on the weight of every possible row; it is a function of
            what has been released before.
    """

    weight: Array
    cap: Array
    __repr__ = redacted_repr


class Public(NamedTuple):
    """What is public in a round, besides the learner's own budget.

    Attributes:
        rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        cap: f32[], the public upper bound on the weights of the round; 1 outside of rounds.
        weighting: the numbers of the weight update.
        prologue: what the learner's prologue released; empty where there is none.
        round: i32[], the number of the round, from 0; 0 where no round is meant.
        structure: what `Partition.structure` says of the round; None outside of rounds.
        unit: f32[], the unit of residuals of a number, as the prologue says (`Prologue.unit`); 1
            for classes.
        estimated_rows: f32[], how many rows there seem to be, as the prologue says
            (`Prologue.estimated_rows`). None where it does not say, and outside of runs.
        initial_score: f32[] or f32[K], the score that every row starts from; 0 outside of runs.
    """

    rows: Numbers
    cap: Numbers
    weighting: Weighting
    prologue: Release
    round: Numbers = np.int32(0)
    structure: Structure | None = None
    unit: Numbers = np.float32(1)
    estimated_rows: Array | None = None
    initial_score: Numbers = np.float32(0)


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
        probability: z -> a number in [0, 1] that increases with the score z, which `predict_proba`
            states. None stands for `inverse_link`, where that increases.
    """

    name: str
    bayes_risk: Callable[[Numbers], Array]
    link: Callable[[Numbers], Array]
    inverse_link: Callable[[Numbers], Array]
    surrogate: Callable[[Numbers], Array]
    perspective: Callable[[Numbers, Numbers], Array]
    smoothness: Numbers
    probability: Callable[[Numbers], Array] | None = None


LossFamily = Callable[[Numbers], ProperLoss]
"""A family of losses indexed by alpha in [0, 1]; alpha may be traced."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partition:
    """How what is public in a round parts the rows, before the program reads them.

    Attributes:
        structure: (params, public) -> what is public in a round and the program, the hypothesis and
            its predictions all read, such as its splits. The loop asks for it once a round.
        assign_rows: (structure of a round, prepared) -> [N], what the structure says of each row
            by itself, such as its leaf. The prepared rows have it in their field `leaf`.
        reads: (structure of a round) -> i32[k]: the features whose bins `assign_rows` reads.
            Nothing else reads bins in a round.
        cycle: after how many rounds the structures come again; 0 for never.
    """

    structure: Callable[[LearnerParams, "Public"], Structure]
    assign_rows: Callable[[Structure, LearnerRows], Array]
    reads: Callable[[Structure], Array]
    cycle: int = 0


Program = Callable[..., None]
"""(draw, table, weights, params, public): asks `draw` for every output of a private statistic.

- draw: the only way out (`boundary.Draw`).
- table: the prepared rows; private.
- weights: f32[N], integers 0..GRID, in units of `public.cap` / GRID; private. The program of an
  epilogue is given the scores f32[N] of the rows instead.
- params: the learner's numbers.
- public: what is public in the round.
"""


class Noise(NamedTuple):
    """The numbers of a learner that has no others than its noise.

    Attributes:
        noise: site -> f32[...], the multiplier of its sensitivity (`boundary.Draw`).
    """

    noise: dict[str, Numbers]


class View(NamedTuple):
    """What a program reads: rows and weights are private, params and public are not.

    Attributes:
        rows: prepared rows.
        weights: of the rows; of an epilogue their scores.
        params: the learner's numbers.
        public: what is public in the round.
    """

    rows: LearnerRows
    weights: Array
    params: LearnerParams
    public: "Public"
    __repr__ = redacted_repr


class Given(NamedTuple):
    """What the sums of a program over some rows follow from, besides the rows and what is public.

    Attributes:
        sites: the program's public randomness, and what its earlier stages released.
        key: the key of the program's noise, for what is drawn for each place of the table; private.
        place: u32[2], (high, low): the first of these rows has the place 2^32 high + low in the
            whole table.
    """

    sites: Release
    key: Array
    place: Array
    __repr__ = redacted_repr


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase(HoldsFunctions):
    """A part of a run that has a private program.

    Attributes:
        name: the name of the phase in transcripts, ledgers and checkpoints.
        repeats: whether it takes place in every round, and not once.
        program: its private program, which asks `draw` for everything that leaves it.
    """

    name: ClassVar[str]
    repeats: ClassVar[bool] = False
    program: Program

    _keep = "the function that made its learner"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prologue(Phase):
    """What a learner does once, before the first round. Audits and ledgers call it round 0.

    Its program reads the weights of `uniform` weighting.

    Attributes:
        initial_score: (its release, params) -> f32[], the score that every row starts from; f32[K]
            with several classes.
        identity: names the prologue and every static part of it, since a learner may be given
            another prologue under its own name.
        unit: (its release, params) -> f32[], the unit in which residuals of a number are measured
            (`Public.unit`); None for 1.
        estimated_rows: (its release, params) -> f32[], how many rows there seem to be
            (`Public.estimated_rows`), worked out once, before the first round. None if the release
            does not tell.
    """

    name: ClassVar[str] = "prologue"
    initial_score: Callable[[Release, LearnerParams], Array]
    identity: str
    unit: Callable[[Release, LearnerParams], Array] | None = None
    estimated_rows: Callable[[Release, LearnerParams], Array] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round(Phase):
    """What a learner does in every round. Its program reads the weights of the weight update.

    Attributes:
        hypothesis: (release, params, public) -> a hypothesis, such as a `Tree`. It is
            post-processing and never sees the table.
    """

    name: ClassVar[str] = "rounds"
    repeats: ClassVar[bool] = True
    hypothesis: Callable[[Release, LearnerParams, Public], Hypothesis]


class ScoreLine(NamedTuple):
    """The line that maps scores after the last round to intercept + slope (score - start).

    Attributes:
        slope: f32[].
        intercept: f32[], or f32[K] with several classes.
    """

    slope: Array
    intercept: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue(Phase):
    """What a learner does once, after the last round. It maps all scores by one line.

    In place of weights its program reads the scores of the rows, f32[N] or f32[K, N]. Given the
    earlier releases, the score of a row is a function of that row alone.

    Attributes:
        score_line: (its release, params, f32[] start) -> the line that maps the score of each row,
            with `start` where scores started; f32[K] with several classes.
        identity: names the epilogue and every static part of it, since a learner may be given
            another epilogue under its own name.
    """

    name: ClassVar[str] = "epilogue"
    score_line: Callable[[Release, LearnerParams, Array], ScoreLine]
    identity: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What the sensitivities of a learner's draws assume; recipes that break it are refused.

    Attributes:
        relation: the neighbouring relation that the sensitivities hold under; None if they hold
            under both.
        coupled: whether the sensitivities hold where the weights of all rows depend on each other
            and move as `sensitivity` says (`weighting.lazy_bregman`). If not, each weight must
            depend on its own row alone.
        total_weight: whether the sensitivities assume a total weight of kappa rows, which
            `weighting.lazy_bregman` gives.
    """

    relation: Relation | None
    coupled: bool = False
    total_weight: bool = False


class WorkBytes(NamedTuple):
    """How much memory a round takes beside the rows.

    Attributes:
        of_row: bytes for each row.
        of_all_rows: bytes for all rows together, however many they are.
    """

    of_row: int
    of_all_rows: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeakLearner(HoldsFunctions):
    """A private program, and the hypothesis that its release is turned into.

    Build one with `boundary.weak_learner`. The loops ask for its `phases`, and for nothing else
    that reads rows.

    Attributes:
        name: of the algorithm.
        config: its static choices, hashable; None if it has none. Name and config are the identity
            of the learner: two learners that differ must differ in these, so that they have
            independent noise under one key (`dpbt.boost`).
        round: what it does in every round.
        kind: the kind of its hypotheses, with its `training`.
        fractions: (site, fraction of the budget), for each site of all of its phases; a recipe may
            have its own.
        make_params: (noise multipliers by site, public) -> the learner's numbers.
        assumptions: what the sensitivities of its draws assume.
        response: what it predicts of a row.
        partition: how what is public in a round parts the rows, if anything does.
        prologue: what is done once before the first round, if anything.
        epilogue: what is done once after the last round, if anything.
        optimizer: (params) -> an `optax.GradientTransformation`, or any other pair of `init` and
            `update`, that turns the hypothesis of each release into the one that is added, as for
            momentum. It is post-processing. None if they are the same.
        unprotected: what the program reads off private data without a mechanism, and lets influence
            a draw in a way that its sensitivities do not count; empty for a proved calibration.
        withheld: the sites that `fit` leaves out of the model, because their length or their order
            follows the private rows. The tree of each row is an example.
        work_bytes: (shapes of prepared rows) -> how much memory a round takes. None for the bytes
            of prepared rows.
    """

    name: str
    config: Hashable = None
    round: Round
    kind: HypothesisKind
    fractions: tuple[tuple[str, float], ...]
    make_params: Callable[[Mapping[str, Numbers], Public], LearnerParams]
    assumptions: Assumptions
    response: Response = BINARY
    partition: Partition | None = None
    prologue: Prologue | None = None
    epilogue: Epilogue | None = None
    optimizer: Callable[[LearnerParams], Any] | None = None
    unprotected: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    work_bytes: Callable[[LearnerRows], WorkBytes] | None = None

    _keep = "the function that made it"

    def __post_init__(self):
        if self.kind.training is None:
            raise ValueError(f"{self.name}: the kind of its hypotheses says nothing of training")
        if self.epilogue is not None and self.training.scale is None:
            raise ValueError("an epilogue needs hypotheses that can be scaled: declare scale=")
        identity_of_config(self.config)

    def __hash__(self) -> int:
        """Of the identity and the functions; equal learners have one hash."""
        return hash((self.name, self.round, self.kind))

    @property
    def training(self) -> Training:
        """How the loops train with its hypotheses."""
        training = self.kind.training
        assert training is not None  # as the constructor says
        return training

    @property
    def identity(self) -> str:
        """Name and config as text, which enters the keys of its noise."""
        words = identity_of_config(self.config)
        return f"{self.name}({words})" if words else self.name

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of a run that have a program, in their order."""
        in_order = (self.prologue, self.round, self.epilogue)
        return tuple(phase for phase in in_order if phase is not None)


def identity_of_config(config: Hashable) -> str:
    """A config as text: its property `identity` where it has one, and else its `repr`.

    Raises:
        ValueError: for a config whose `repr` shows an address of memory, as that of a function
            does. It does not say what the config is, and differs from process to process.
    """
    if config is None:
        return ""
    words = getattr(config, "identity", None)
    words = words if isinstance(words, str) else repr(config)
    if " at 0x" in words:
        raise ValueError(
            f"the config of a learner must say what it is, and its text has an address of memory: "
            f"{words}; give it a property `identity`, or names in place of functions"
        )
    return words


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightUpdate(HoldsFunctions):
    """A map from the released scores of the rows to their weights in the next round.

    Attributes:
        identity: names the weight update and every static part of it.
        coupled: whether every weight depends on all rows (`weighting.lazy_bregman`). If not, it
            depends on its own row alone, and on what has been released.
        weigh: (score f32[N], bound f32[], prepared table, public) -> Weighted. `bound` is a public
            upper bound on |score| for every possible row.
        numbers: the class of its numbers, `Recipe.weighting`; `tuple` for a weight update without
            numbers.
        response: what the learner predicts. For two classes the weight update gives weights, and
            for anything else residuals (`Weighted`).
        reads_scores: whether weights or their cap follow from scores or from their bound. False is
            checked where rounds are made side by side.
        loss: the family of losses whose inverse link makes probabilities of scores, at the
            `link_alpha` of the numbers; None for scores that are no links.
    """

    identity: str
    coupled: bool
    weigh: Callable[[Array, Array, Prepared, Public], Weighted]
    numbers: type[tuple] = tuple
    response: Response = BINARY
    reads_scores: bool = True
    loss: LossFamily | None = None

    _keep = "the function that made it"


def _ones(score: Array, bound: Array, table: Prepared, public: Public) -> Weighted:
    return Weighted(jnp.full(table.present.shape, float(GRID), jnp.float32), jnp.float32(1))


uniform = WeightUpdate(identity="uniform", coupled=False, weigh=_ones, reads_scores=False)
"""Weight 1 for every row in every round."""


_NUMBERS = ("params", "weighting", "rows", "delta", "rounds")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Recipe(HoldsFunctions):
    """An algorithm: static parts, and numbers that are traced.

    Two recipes with equal static fields run the same compiled program. `jax.vmap` over a recipe
    maps over its numbers. Build one with `dpbt.recipes`.

    Two recipes are equal if their static fields are and their numbers have the same shapes and
    values, and equal recipes have one hash. A number that is traced equals itself alone.

    Attributes:
        rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        delta: f32[], the delta of the guarantee; 0 for a pure one.
        relation: the neighbouring relation of the guarantee.
        max_rows_per_user: the most rows that one person has. The guarantee is for all rows of a
            person together.
        limited: whether the table that is learned from limits the rows of its users (`on`); else
            their number is the owner's promise.
        target: the declared classes or range, if the learner does not tell two classes apart.
        domain: the public domain that it was made for, which a table's must be; None if it is for
            any domain.
        name, calibration, options_text: the algorithm, its calibration and its options, for tables.
        params: the learner's noise scales and settings, a pytree of arrays of 32 bits. Leading
            axes, if any, are axes of settings, for these numbers and for all numbers below.
        weighting: the weight update's numbers.
        rounds: i32[], T. Traced, so that settings with different T share a program.
        learner: the weak learner.
        weight_update: how scores become the next round's weights.
        capacity: the most rounds that the program has room for; releases and hypotheses beyond T
            are zeros.

    Raises:
        ValueError: if rounds are not whole numbers from 1 to the capacity. Also if the learner's
            sensitivities hold under another relation only. Also if the weight update makes weights
            that depend on all rows and they do not hold for these. Also if they assume a total
            weight that the weight update does not keep. Also if learner, weight update and target
            are not for the same response.
    """

    rows: AnyArray
    delta: AnyArray
    relation: Relation
    max_rows_per_user: int = 1
    limited: bool = False
    target: Target | None = None
    domain: DeclaredDomain | None = None
    name: str
    calibration: str
    options_text: str
    params: LearnerParams
    weighting: Weighting
    rounds: AnyArray
    learner: WeakLearner
    weight_update: WeightUpdate
    capacity: int

    _alternative = "the arguments that made it"

    def __repr__(self) -> str:
        """What it is, its rounds and rows, without the other numbers."""
        axes = np.broadcast_shapes(*map(np.shape, (self.rows, self.rounds)))
        many = f"{math.prod(axes)} settings, " if axes else f"{self.rounds} rounds, "
        about = f"{self.name}, {self.options_text}: {many}rows = {self.rows}, {self.relation.value}"
        return f"Recipe({about}, {self.calibration}; see dpbt.ledger)"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Recipe):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        """What makes two recipes equal: static fields, and the shapes and values of numbers."""
        leaves, static = jax.tree.flatten(self)
        return static, tuple(map(_value_of, leaves))

    def __post_init__(self):
        # A learner, a weight update, a relation and a target that fit together.
        learner, update, rounds = self.learner, self.weight_update, self.rounds
        under = learner.assumptions.relation
        if under not in (None, self.relation):
            raise ValueError(
                f"the learner's sensitivities are under {as_relation(under).value}, "
                f"the recipe says {as_relation(self.relation).value}"
            )
        response = learner.response
        declared = BINARY if self.target is None else self.target.response
        for what, other in (
            (f"{update.identity} weighs rows for", update.response),
            ("the target declares", declared),
        ):
            if other != response:
                raise ValueError(
                    f"{learner.identity} predicts {response.words}, and {what} {other.words}"
                )
        if update.coupled and not learner.assumptions.coupled:
            raise ValueError(
                f"{update.identity} moves the weights of all rows at once, but the sensitivities "
                f"of {learner.identity} assume that each weight depends on its own row alone"
            )
        if learner.assumptions.total_weight and not update.coupled:
            raise ValueError(
                f"the sensitivities of {learner.identity} assume a total weight of kappa rows, "
                f"which {update.identity} does not keep"
            )

        # A recipe is a pytree, so rounds may be anything that stands for a leaf: a tracer, an axis.
        if isinstance(rounds, float | np.ndarray | np.generic):
            values = np.asarray(rounds)
            wrong = values.dtype.kind in "iu" and not np.all(
                (values >= 1) & (values <= self.capacity)
            )
            if values.dtype.kind == "f" or wrong:
                raise ValueError(
                    f"rounds must be whole numbers in 1..{self.capacity}, the recipe's capacity, "
                    f"got {values.tolist()}"
                )

    @property
    def identities(self) -> list[str]:
        """What its learner, its weight update, its prologue and its epilogue are, as text."""
        once = (self.learner.prologue, self.learner.epilogue)
        return [
            self.learner.identity,
            self.weight_update.identity,
            *(phase.identity for phase in once if phase is not None),
        ]

    @property
    def independent(self) -> bool:
        """Whether no round reads what others released, so that many are made in one pass."""
        learner = self.learner
        alone = learner.epilogue is None and learner.optimizer is None
        return alone and not self.weight_update.reads_scores

    def on(self, table: Any) -> "Recipe":
        """The recipe as a ledger of a fit of this table has it: are rows of users limited?"""
        limited = table.rows_per_user is not None
        return self if self.limited == limited else dataclasses.replace(self, limited=limited)

    def public(self, prologue: Release | None = None) -> Public:
        """What is public in every round, with a cap of 1 and the prologue's release."""
        return Public(
            rows=self.rows, cap=np.float32(1), weighting=self.weighting, prologue=prologue or {}
        )


def _value_of(leaf: Any) -> Any:
    """A leaf of a recipe as a value to compare; what is traced, or no number, is itself alone."""
    if is_traced(leaf):
        return id(leaf)
    array = np.asarray(leaf)
    return id(leaf) if array.dtype == object else (array.shape, tuple(array.reshape(-1).tolist()))


_FIELDS = [field.name for field in dataclasses.fields(Recipe)]
jax.tree_util.register_dataclass(
    Recipe, list(_NUMBERS), [name for name in _FIELDS if name not in _NUMBERS]
)


class Transcript(NamedTuple):
    """Everything that is released in one run.

    Attributes:
        prologue: the release of the learner's prologue; empty where there is none.
        rounds: the stacked releases of all rounds, with a leading axis for rounds.
        epilogue: the release of the learner's epilogue; empty where there is none.
        recorded_on: what is static of the table, which `replay` compares; None if it is not known.
    """

    prologue: Release
    rounds: Release
    epilogue: Release
    recorded_on: TableForm | None = None

    @property
    def releases(self) -> dict[str, Release]:
        """The releases of prologue, rounds and epilogue, by the names of the phases."""
        return {"prologue": self.prologue, "rounds": self.rounds, "epilogue": self.epilogue}


def program_of_numbers(tree: Any) -> tuple[Any, ...]:
    """What a program depends on in a pytree: its structure, and shapes and dtypes of arrays."""
    arrays = map(np.asarray, jax.tree.leaves(tree))
    return jax.tree.structure(tree), *((array.shape, str(array.dtype)) for array in arrays)


def dtype_and_rank(array: AnyArray) -> str:
    """The dtype and the rank of an array, in words for errors.

    Neither its lengths nor those of its texts are shown, because they may be private.
    """
    numbers = isinstance(array, jax.Array) or array.dtype.kind in "biufc"
    return f"{array.dtype if numbers else 'text or objects'} of rank {array.ndim}"
