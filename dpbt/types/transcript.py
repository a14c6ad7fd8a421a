"""Transcripts: the releases of one run."""

from typing import NamedTuple

from dpbt.types.arrays import Release
from dpbt.types.table import TableForm


class Transcript(NamedTuple):
    """All releases of one run.

    Attributes:
        prologue: the release of the prologue; empty for a learner without one.
        rounds: the stacked releases of all rounds, with a leading axis for rounds.
        epilogue: the release of the epilogue; empty for a learner without one.
        recorded_on: the form of the table, which `replay` compares with another one; None if it is
            unknown.
    """

    prologue: Release
    rounds: Release
    epilogue: Release
    recorded_on: TableForm | None = None

    @property
    def releases(self) -> dict[str, Release]:
        """The releases of the run by the name of their phase."""
        return {"prologue": self.prologue, "rounds": self.rounds, "epilogue": self.epilogue}
