"""Weak learners: a private program, and how its releases become hypotheses."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from dpbt.hypothesis_kind import HypothesisKind, Training
from dpbt.public_types import BINARY, HoldsFunctions, Relation, Response, Site
from dpbt.types.arrays import Array, Numbers
from dpbt.types.phases import (
    Epilogue,
    LearnerParams,
    LearnerRows,
    Phase,
    Prologue,
    Public,
    Round,
    Structure,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partition:
    """How public structure assigns each row to a leaf.

    It does so before the program of a round reads the row.

    Attributes:
        structure: (params, public) -> the public structure of a round, such as the splits of its
            tree, which the program and the hypothesis read. A run computes it once a round.
        assign_rows: (structure, prepared rows) -> [N], such as the leaf of each row; an entry
            depends on its own row alone. Prepared rows hold it in their field `leaf`.
        reads: (structure) -> i32[k]: the features whose bins `assign_rows` reads. Nothing else
            reads bins in a round.
        cycle: the number of rounds after which structures repeat; 0 if they never do.
    """

    structure: Callable[[LearnerParams, Public], Structure]
    assign_rows: Callable[[Structure, LearnerRows], Array]
    reads: Callable[[Structure], Array]
    cycle: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What the sensitivities of a learner's draws assume.

    Recipes that break it are refused.

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
    """The memory that a round takes besides the rows, in bytes.

    Attributes:
        of_row: for each row.
        of_all_rows: for all rows together, whatever their number.
    """

    of_row: int
    of_all_rows: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeakLearner(HoldsFunctions):
    """A private program, and the map from its release to a hypothesis.

    Build one with `boundary.weak_learner`. Only the programs of its `phases`, its `kind` and the
    `assign_rows` of its `partition` read rows.

    Attributes:
        name: of the algorithm.
        config: its static choices, hashable, such as a frozen dataclass; None if it has none. Name
            and config are the identity of the learner: two learners that differ must differ in one
            of them, so that they have independent noise under one key (`dpbt.boost`).
        round: its private program, and its hypothesis.
        kind: the kind of its hypotheses, with its `training`, such as `trees.TREES`.
        fractions: (site, fraction of the budget) for each site of all of its phases; they add up to
            at most 1. The sites "leaf_0" and "leaf_1" share the fraction of "leaf". A recipe may
            have other fractions.
        make_params: (noise multipliers by site, public) -> the learner's numbers.
        assumptions: what the sensitivities of its draws assume.
        response: the kind of answer that it predicts.
        partition: how public structure assigns rows to leaves; None if it does not.
        prologue: the phase before the first round; None without one.
        epilogue: the phase after the last round; None without one. It needs a kind whose hypotheses
            can be scaled.
        optimizer: (params) -> an `optax.GradientTransformation`, or any other pair of `init` and
            `update`, that turns the hypothesis of each release into the one that is added, as for
            momentum. It is post-processing. None if they are the same.
        unprotected: in words, the private statistics that the program uses without a mechanism and
            that its sensitivities do not cover; empty for a proved calibration.
        withheld: the sites that `fit` leaves out of the model, because their length or their order
            follows the private rows. The tree of each row is an example.
        work_bytes: (shapes of prepared rows) -> the memory that a round takes. None for as many
            bytes as the prepared rows have.
    """

    name: str
    config: Hashable = None
    round: Round
    kind: HypothesisKind
    fractions: tuple[tuple[Site, float], ...]
    make_params: Callable[[Mapping[Site, Numbers], Public], LearnerParams]
    assumptions: Assumptions
    response: Response = BINARY
    partition: Partition | None = None
    prologue: Prologue | None = None
    epilogue: Epilogue | None = None
    optimizer: Callable[[LearnerParams], Any] | None = None
    unprotected: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    work_bytes: Callable[[LearnerRows], WorkBytes] | None = None

    _alternative = "the function that made it"

    def __post_init__(self):
        if self.kind.training is None:
            raise ValueError(f"{self.name}: the kind of its hypotheses says nothing of training")
        if self.epilogue is not None and self.training.scale is None:
            raise ValueError("an epilogue needs hypotheses that can be scaled: declare scale=")
        identity_of_config(self.config)

    def __hash__(self) -> int:
        """A hash of the learner by its name, round and kind.

        Equal learners have one hash.
        """
        return hash((self.name, self.round, self.kind))

    @property
    def training(self) -> Training:
        """The functions of its kind of hypothesis by which a run trains.

        They prepare, predict, bound and scale.
        """
        training = self.kind.training
        assert training is not None  # the constructor refuses such a kind
        return training

    @property
    def identity(self) -> str:
        """The text of the learner's name and config.

        It enters the keys of its noise.
        """
        config_text = identity_of_config(self.config)
        return f"{self.name}({config_text})" if config_text else self.name

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of a run that have a program, in their order."""
        in_order = (self.prologue, self.round, self.epilogue)
        return tuple(phase for phase in in_order if phase is not None)


def identity_of_config(config: Hashable) -> str:
    """The text that identifies a config.

    It is the config's property `identity` if it has one, else its `repr`.

    Raises:
        ValueError: for a config whose `repr` shows a memory address, as that of a function does.
            Such a text does not identify the config, and differs between processes.
    """
    if config is None:
        return ""
    text = getattr(config, "identity", None)
    text = text if isinstance(text, str) else repr(config)
    if " at 0x" in text:
        raise ValueError(
            f"the config of a learner must say what it is, and its text has an address of memory: "
            f"{text}; give it a property `identity`, or names in place of functions"
        )
    return text
