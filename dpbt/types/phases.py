"""The phases of a run, and what their private programs read."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from jaxtyping import PyTree

from dpbt.public_types import HoldsFunctions, Site, redacted_repr
from dpbt.types.arrays import Array, Numbers, Release

Hypothesis = PyTree
"""What a weak learner derives from one release: any pytree of arrays, such as a `Tree`.

Only the learner's `HypothesisKind` reads it; a run stacks, adds and stores its leaves.
"""

Hypotheses = PyTree
"""The hypotheses of all rounds: one pytree, whose arrays are stacked along a leading axis."""

Structure = PyTree
"""The public structure of a round before its draws: any pytree of arrays, such as a tree's splits.

Only the learner that makes it reads it (`Partition.structure`).
"""

WeightParams = PyTree
"""The numbers of a weight update: a NamedTuple of arrays; `()` for an update without numbers.

Only the weight update reads them, with one exception: a model of an update with a
`WeightUpdate.loss` reads the alpha of that loss in the field `link_alpha`.
"""


class Params(Protocol):
    """The numbers of a learner: a NamedTuple of arrays with a field `noise`.

    A run reads and replaces the field `noise` alone. The other fields are for the learner, whose
    functions get its own class and annotate it as `LearnerParams`.
    """

    @property
    def noise(self) -> Mapping[Site, Numbers]:
        """The noise multipliers by site: site -> f32[...].

        Each multiplies the sensitivity of its draw.
        """
        ...

    def _replace(self, **changes: Any) -> Self: ...


LearnerParams = Any
"""The `Params` of one learner, with all the fields of its own class."""


class PreparedRows(Protocol):
    """The rows of a table, laid out as a learner reads them.

    They are a NamedTuple. They may be those of a block of the table, and `Training.prepare` lays
    them out. A run reads and replaces the fields below. If rows have weights, there is also a field
    `weight`, f32[N] or None, as in `Table`. If the learner has a `Partition`, there is also a field
    `leaf`, which a run fills for each round. All other fields are for the learner, whose functions
    get its own class and annotate it as `LearnerRows`.
    """

    @property
    def target(self) -> Array:
        """[N]: the targets of the rows, as in `Table.target`."""
        ...

    @property
    def present(self) -> Array:
        """bool[N]: which of the rows are present, as in `Table.present`."""
        ...

    def _replace(self, **changes: Any) -> Self: ...


LearnerRows = Any
"""The `PreparedRows` of one learner, with all the fields of its own class."""


class Public(NamedTuple):
    """The public information in a round, besides the numbers of the learner.

    Attributes:
        max_rows: f32[], m: the public bound on the number of rows (add/remove), or their number
            (replace-one).
        cap: f32[], the public upper bound on the weights of the round; 1 outside of rounds.
        weight_params: the numbers of the weight update.
        prologue: the release of the learner's prologue; empty for a learner without one.
        round: i32[], the number of the round, from 0; 0 outside of rounds.
        structure: the structure of the round, from `Partition.structure`; None outside of rounds
            and for a learner without a partition.
        unit: f32[], the unit of the residuals of a number, from `Prologue.unit`; 1 for classes.
        estimated_rows: f32[], the estimated number of rows, from `Prologue.estimated_rows`. None
            without such an estimate, and outside of runs.
        initial_score: f32[] or f32[K], the score that every row starts from; 0 outside of runs.
    """

    max_rows: Numbers
    cap: Numbers
    weight_params: WeightParams
    prologue: Release
    round: Numbers = np.int32(0)
    structure: Structure | None = None
    unit: Numbers = np.float32(1)
    estimated_rows: Array | None = None
    initial_score: Numbers = np.float32(0)


Program = Callable[..., None]
"""(draw, table, weights, params, public) -> None: requests each output of a private statistic.

- draw: `boundary.Draw`, the only way in which anything leaves the program.
- table: the prepared rows; private.
- weights: f32[N], integers 0..GRID, in units of `public.cap` / GRID; private. The program of an
  epilogue gets the scores f32[N] of the rows instead.
- params: the learner's numbers.
- public: the `Public` of the round.
"""


class Noise(NamedTuple):
    """The numbers of a learner whose only numbers are its noise multipliers.

    Attributes:
        noise: site -> f32[...], the multiplier of the sensitivity of its draw (`boundary.Draw`).
    """

    noise: dict[Site, Numbers]


class View(NamedTuple):
    """The inputs of a program: rows, weights, params and public information.

    Rows and weights are private, and params and public are not.

    Attributes:
        rows: prepared rows.
        weights: the weights of the rows; for an epilogue their scores.
        params: the learner's numbers.
        public: the public information of the round.
    """

    rows: LearnerRows
    weights: Array
    params: LearnerParams
    public: Public
    __repr__ = redacted_repr


class StageInputs(NamedTuple):
    """The inputs of the sums of one stage, besides a `View` of some rows.

    `program_interpreters.sum_rows_of_stage` computes these sums.

    Attributes:
        outputs: site -> the output of the program's public draws and of its earlier stages.
        key: the key of the program's noise, for draws that have one output for each place of the
            table; private.
        first_row_index: u32[2], (high, low): the first of these rows has the place 2^32 high + low
            in the whole table.
    """

    outputs: Release
    key: Array
    first_row_index: Array
    __repr__ = redacted_repr


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase(HoldsFunctions):
    """A part of a run that has a private program.

    Attributes:
        name: the name of the phase in transcripts, ledgers and checkpoints.
        repeats: whether it runs in every round; if not, it runs once.
        program: its private program, which draws everything that leaves it by `draw`.
    """

    name: ClassVar[str]
    repeats: ClassVar[bool] = False
    program: Program

    _alternative = "the function that made its learner"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prologue(Phase):
    """The phase before the first round.

    Its program reads the weights of `uniform`.

    Attributes:
        initial_score: (release, params) -> f32[], the score that every row starts from; f32[K]
            with several classes.
        identity: names the prologue and every static part of it, since a learner may be given
            another prologue under its own name.
        unit: (release, params) -> f32[], the unit of the residuals of a number (`Public.unit`);
            None for 1.
        estimated_rows: (release, params) -> f32[], the estimated number of rows
            (`Public.estimated_rows`), which a run works out once, before the first round. None if
            the release holds no such estimate.
    """

    name: ClassVar[str] = "prologue"
    initial_score: Callable[[Release, LearnerParams], Array]
    identity: str
    unit: Callable[[Release, LearnerParams], Array] | None = None
    estimated_rows: Callable[[Release, LearnerParams], Array] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round(Phase):
    """The phase that runs in every round.

    Its program reads the weights of the weight update.

    Attributes:
        hypothesis: (release, params, public) -> a hypothesis, such as a `Tree`. It is
            post-processing, and reads no private row.
    """

    name: ClassVar[str] = "rounds"
    repeats: ClassVar[bool] = True
    hypothesis: Callable[[Release, LearnerParams, Public], Hypothesis]


class ScoreLine(NamedTuple):
    """The line by which an epilogue maps scores.

    A score after the last round becomes intercept + slope (score - initial score).

    Attributes:
        slope: f32[].
        intercept: f32[], or f32[K] with several classes.
    """

    slope: Array
    intercept: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue(Phase):
    """The phase after the last round, which maps all scores by one line.

    In place of weights its program reads the scores of the rows, f32[N] or f32[K, N]. Given the
    earlier releases, the score of a row is a function of that row alone.

    Attributes:
        score_line: (release, params, public) -> the line that maps the score of each row, with
            what is public in all rounds, such as the initial score.
            The initial score is f32[], or f32[K] with several classes.
        identity: names the epilogue and every static part of it, since a learner may be given
            another epilogue under its own name.
    """

    name: ClassVar[str] = "epilogue"
    score_line: Callable[[Release, LearnerParams, Public], ScoreLine]
    identity: str
