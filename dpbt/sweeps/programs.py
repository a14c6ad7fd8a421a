"""The compiled programs of a sweep: how each is compiled, and what a run has done so far."""

import dataclasses
import threading
import time
from typing import Any

import numpy as np
from jax.stages import Compiled, Wrapped

from dpbt import compiling
from dpbt.sweeps.meshes import gathered

QUICK_BYTES = 2.0**34
"""Programs that pass over less memory than this in a run are compiled quickly; see `options`."""

_QUICKLY = compiling.OLDER_EMITTER | {"xla_backend_optimization_level": 1}


@dataclasses.dataclass
class Tally:
    """What a run has done so far; the fields of `runner.Report`. Threads may share it."""

    fits: int = 0
    reused: int = 0
    programs: int = 0
    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    memory_mb: float = 0.0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def add(self, memory_mb: float = 0.0, **amounts: float) -> None:
        """Add to the fields; of `memory_mb` the largest counts."""
        with self._lock:
            self.memory_mb = max(self.memory_mb, memory_mb)
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


def options(platform: str, passed_bytes: float) -> dict[str, Any] | None:
    """The compiler's options for a program; None for its defaults.

    XLA's older emitter and its first level of optimization compile a program of a greedy tree in
    half the processor time. The program then takes 1.2 to 2 times as long, so this pays for short
    runs. Measured with lanes of 0.3 and 0.9 MB, a program loses in 15 to 24 GB what it saves in
    compiling.

    The choice follows from the plan alone, so a run that is resumed compiles as it did before.

    Args:
        platform: the platform of the devices, such as "cpu".
        passed_bytes: the bytes of a lane times the rounds of all fits of the program.
    """
    quick = passed_bytes < QUICK_BYTES and compiling.may_choose(platform)
    return _QUICKLY if quick else None


@dataclasses.dataclass
class Programs:
    """The compiled programs of one structure for tables of one shape. Threads may share them.

    Attributes:
        evaluate: the program of one batch.
        tally: what the run has done so far.
        options: the compiler's, from `options`.
        compiled: the programs by signature: all that a program depends on besides the shape.
    """

    evaluate: Wrapped
    tally: Tally
    options: dict[str, Any] | None = None
    compiled: dict[Any, Compiled] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def run(self, signature: Any, arguments: tuple) -> dict[str, np.ndarray]:
        """The columns of a batch; its program is compiled if there is none yet."""
        with self._lock:
            if signature not in self.compiled:
                self.compiled[signature] = self._compile(arguments)

        start = time.perf_counter()
        columns = self.compiled[signature](*arguments)
        columns = {name: gathered(column) for name, column in columns.items()}
        self.tally.add(run_seconds=time.perf_counter() - start)
        return columns

    def _compile(self, arguments: tuple) -> Compiled:
        start = time.perf_counter()
        program = self.evaluate.lower(*arguments).compile(compiler_options=self.options)
        planned = program.memory_analysis()
        assert planned is not None
        self.tally.add(
            programs=1,
            compile_seconds=time.perf_counter() - start,
            memory_mb=planned.temp_size_in_bytes / 2**20,
        )
        return program
