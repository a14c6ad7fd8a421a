"""How a fit runs, as opposed to what it learns: its payment, checkpoint, memory and threads."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpbt.common.progress import ReportProgress, ignore_progress
from dpbt.common.validate import check_interval, check_positive_integer
from dpbt.data.tables import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    from dpbt.training.blocks.checkpoint import Checkpoint


Pay = Callable[[str | None], None]
"""Called before anything is drawn, with the name of the run in a checkpoint, if there is one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a fit runs: its payment, checkpoint, memory, threads and progress.

    None of these options changes what it releases or learns.

    Attributes:
        pay: called when all that can be refused has been, before anything is drawn; None if
            nothing pays.
        checkpoint: a file that keeps what was released so far, of a table in blocks, or one that
            the caller has open; None for no such file.
        memory: bytes that the process may take, above 0, and finite for a table in blocks.
        threads: how many slices of rows are worked on at once; None for one for each processor.
        progress: called with a `progress.Progress` as the run advances; None for no reports.

    Raises:
        ValueError: for a memory or a number of threads outside its range.
    """

    pay: Pay | None = None
    checkpoint: "str | Path | Checkpoint | None" = None
    memory: float = DEFAULT_MEMORY_BYTES
    threads: int | None = None
    progress: ReportProgress | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", float(check_interval("memory", self.memory, "(0, inf]")))
        if self.threads is not None:
            check_positive_integer("threads", self.threads)

    @property
    def num_threads(self) -> int:
        """How many slices of rows are worked on at once."""
        return os.cpu_count() or 1 if self.threads is None else int(self.threads)

    @property
    def report_progress(self) -> ReportProgress:
        """The progress callback, or `ignore_progress` if the caller gave none."""
        return ignore_progress if self.progress is None else self.progress


DEFAULT_OPTIONS = FitOptions()
"""The options of a fit whose caller states none."""
