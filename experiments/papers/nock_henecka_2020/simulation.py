"""A simulation of Nock & Henecka (2020) in C, which is fast enough to scan their readings.

It shares no code with dpbt and has no guarantee: use it to learn what a reading does to the errors,
and nothing else. Without noise its scores are those of `options.recipe_of`, and its noise has the
laws that the readings name (`tests/experiments/test_simulation.py`). A C compiler is needed.
"""

import ctypes
import dataclasses
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.owners.cli.parsing import InputError
from experiments.common import data, protocols
from experiments.papers.nock_henecka_2020 import settings
from experiments.papers.nock_henecka_2020.options import (
    Reading,
    leaf_budget_divisor,
    leaf_noise_scale,
    link_bound,
)

SOURCE = Path(__file__).with_name("simulation.c")
MAX_DEPTH = 6

SETTING = np.dtype(
    [
        *((name, "f8") for name in ("alpha", "link_alpha", "clip", "max_value", "leaf_noise")),
        ("split_epsilon", "f8", (MAX_DEPTH,)),
        *((name, "f8") for name in ("sensitivity", "first_link")),
        *((name, "i4") for name in ("rounds", "depth", "calibration", "noise_on")),
        *((name, "i4") for name in ("is_beta_before_noise", "is_step_of_tree", "rows", "unused")),
    ]
)
"""A setting as the program reads it:

- `alpha`: of the criterion, where it is not calibrated;
- `link_alpha`: of the link, the weights and the step;
- `clip`: M, and `max_value`: links are clamped to [-max_value, max_value] before the noise;
- `leaf_noise`: the Laplace scale of what has the noise (`noise_on`);
- `split_epsilon`: the budget of a node of each depth, infinite for its best split;
- `sensitivity`: Delta* of equation (15), 0 for that of Theorem 3 with `rows` = m;
- `first_link`: psi(1/2) of the step form of the weights, NaN for the sum of scores.
"""

FOREST = np.dtype([("leaf_epsilon", "f8"), ("depth", "i4"), ("is_exponential", "i4")])
"""A forest as the program reads it; the budget is that of one leaf."""

_CALIBRATIONS = ("level", "own leaf", "tree so far")
_NOISE_ON_VALUE, _NOISE_ON_SHARE, _NOISE_ON_LEVERAGED_VALUE = range(3)


class _Table(ctypes.Structure):
    """`Table` of the program."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("rows", "columns", "bins", "splits")),
        *((name, ctypes.c_void_p) for name in ("cells", "label", "column", "low", "high")),
    ]


class _Release(ctypes.Structure):
    """`Release` of the program."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("splits", "values", "beta")]


@functools.cache
def _program() -> ctypes.CDLL:
    """The compiled program; compiled once for each version of the source.

    Raises:
        InputError: without a C compiler.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise InputError("the simulation needs a C compiler: install one, or set CC")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"dpbt-simulation-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / "simulation.so"
    if not library.exists():
        made = folder / f"{os.getpid()}.so"
        flags = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made), "-lm"], check=True)
        made.replace(library)
    return ctypes.CDLL(str(library))


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Forests(NamedTuple):
    """What random trees read beside the cells.

    Attributes:
        column: i32[A], the column of each attribute.
        position: f32[A, 256], the position of each bin.
    """

    column: np.ndarray
    position: np.ndarray


class Release(NamedTuple):
    """What a fit releases.

    Attributes:
        splits: i32[T, 2^D - 1], in heap order.
        values: f64[T, 2^D], leaf values with noise; leveraged ones by the first option.
        beta: f64[T].
        scores: f32[N], of all rows.
    """

    splits: np.ndarray
    values: np.ndarray
    beta: np.ndarray
    scores: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A table as the program reads it.

    Attributes:
        bins: u8[N, C].
        label: u8[N].
        fold: i32[N].
        column, low, high: i32[S], a row satisfies a split if its bin in the column is in low..high.
        forests: what random trees read.
    """

    bins: np.ndarray
    label: np.ndarray
    fold: np.ndarray
    column: np.ndarray
    low: np.ndarray
    high: np.ndarray
    forests: Forests

    @classmethod
    def of_dataset(cls, dataset: data.Dataset) -> "Simulation":
        """The table of a data set, with the folds of the grid."""
        table = dataset.table
        splits: Any = table.splits
        fold = protocols.stratified_folds(dataset.label, settings.FOLDS, settings.SEED)
        return cls(
            bins=np.ascontiguousarray(table.bins, np.uint8),
            label=np.ascontiguousarray(dataset.label, np.uint8),
            fold=np.ascontiguousarray(fold, np.int32),
            column=np.ascontiguousarray(splits.feature, np.int32),
            low=np.ascontiguousarray(splits.low, np.int32),
            high=np.ascontiguousarray(splits.high, np.int32),
            forests=Forests(
                np.ascontiguousarray(splits.attribute, np.int32),
                np.ascontiguousarray(splits.position, np.float32),
            ),
        )

    @property
    def _table(self) -> _Table:
        num_bins = 1 + max(int(self.bins.max()), int(self.high.max()))
        arrays = (self.bins, self.label, self.column, self.low, self.high)
        shape = (*self.bins.shape, num_bins, len(self.column))
        return _Table(*shape, *(array.ctypes.data for array in arrays))

    def boosted_errors(self, fits: np.ndarray, *, folds: int, seed: int) -> np.ndarray:
        """f32[setting, fold]: test errors in the first folds.

        Args:
            fits: SETTING[setting].
            folds: how many of the ten folds.
            seed: of the noise.
        """
        fits = np.ascontiguousarray(fits, SETTING)
        errors = np.empty((len(fits), folds), np.float32)
        table, arguments = self._table, (_pointer(self.fold), folds, _pointer(fits), len(fits))
        _program().boost(ctypes.byref(table), *arguments, ctypes.c_uint64(seed), _pointer(errors))
        return errors

    def forest_errors(
        self, forests: np.ndarray, *, trees: int, folds: int, seed: int
    ) -> np.ndarray:
        """f32[forest, fold]: test errors of random forests in the first folds.

        Args:
            forests: FOREST[forest].
            trees: how many trees a forest has.
            folds: how many of the ten folds.
            seed: of trees and noise.
        """
        forests = np.ascontiguousarray(forests, FOREST)
        errors = np.empty((len(forests), folds), np.float32)
        table, num_attributes = self._table, len(self.forests.column)
        _program().forests(
            ctypes.byref(table),
            _pointer(self.fold),
            folds,
            *map(_pointer, self.forests),
            num_attributes,
            trees,
            _pointer(forests),
            len(forests),
            ctypes.c_uint64(seed),
            _pointer(errors),
        )
        return errors

    def boost_once(self, fit: np.ndarray, train: np.ndarray, *, seed: int) -> Release:
        """One fit.

        Args:
            fit: SETTING[], one setting.
            train: bool[N], the rows that train.
            seed: of the noise.
        """
        fit = np.ascontiguousarray(fit, SETTING).reshape(1)
        rounds, leaves = int(fit["rounds"][0]), 2 ** int(fit["depth"][0])
        release = Release(
            np.empty((rounds, leaves - 1), np.int32),
            np.empty((rounds, leaves)),
            np.empty(rounds),
            np.empty(len(self.label), np.float32),
        )
        rows = [np.flatnonzero(mask).astype(np.int32) for mask in (train, ~train)]
        table, arguments = self._table, (part for of in rows for part in (_pointer(of), len(of)))
        released = _Release(*(array.ctypes.data for array in release[:3]))
        program = _program()
        program.boost_once(
            ctypes.byref(table),
            _pointer(fit),
            *arguments,
            ctypes.c_uint64(seed),
            released,
            _pointer(release.scores),
        )
        return release


def settings_of_reading(
    reading: Reading, grid: Sequence[tuple[str | float, float, float, int, int]], rows: int
) -> np.ndarray:
    """SETTING[setting]: the settings of a grid under a reading.

    Args:
        reading: the open choices; not those of the tight option, nor an observed M of the step.
        grid: alpha ("objective" or a number), epsilon, beta_tree, T and D of each setting.
        rows: m.

    Raises:
        ValueError: for a reading that the program does not have.
    """
    if reading.option == "tight" or reading.step_bound == "observed":
        raise ValueError("neither the tight option nor an observed M of the step is simulated")
    fits = np.zeros(len(grid), SETTING)
    for fit, (alpha, epsilon, beta_tree, rounds, depth) in zip(fits, grid, strict=True):
        objective = isinstance(alpha, str)
        link_alpha = 1.0 if objective else float(alpha)
        widest = link_bound(link_alpha)
        clip = widest if reading.clip is None else reading.clip

        # The budgets and the noise.
        level = np.arange(MAX_DEPTH)
        divisor = {"T d 2^depth": rounds * depth * 2.0**level, "T d": rounds * depth, "T": rounds}
        split_epsilon = beta_tree * epsilon / divisor.get(reading.split_divisor, 1)
        leaf_epsilon = (1 - beta_tree) * epsilon / leaf_budget_divisor(reading, rounds, depth)
        leaf_noise = float(leaf_noise_scale(reading, rows, clip) / leaf_epsilon)
        if reading.is_noise_on_shares:
            noise_on = _NOISE_ON_SHARE
        elif reading.option == "second":
            noise_on = _NOISE_ON_VALUE
        else:  # the leveraged leaf has a range of 2 a M^2, and the value one of 2 M
            noise_on, leaf_noise = _NOISE_ON_LEVERAGED_VALUE, leaf_noise * link_alpha / clip

        is_unclamped = reading.clamp == "before, to the link"
        fit["alpha"], fit["link_alpha"] = link_alpha, link_alpha
        fit["clip"] = max(clip, widest) if is_unclamped else clip
        fit["max_value"] = min(clip, widest) if reading.clamp == "before and after" else widest
        fit["leaf_noise"] = leaf_noise if reading.noisy_leaves else 0
        fit["split_epsilon"] = split_epsilon if reading.noisy_splits else np.inf
        fit["sensitivity"] = {"Theorem 3": 0.0, "1": 1.0}[reading.split_bound]
        is_step_form = reading.weights == "steps"
        fit["first_link"] = 2 * (1 - link_alpha) if is_step_form else np.nan
        fit["rounds"], fit["depth"], fit["rows"] = rounds, depth, rows
        fit["calibration"] = 1 + _CALIBRATIONS.index(reading.calibrated_by) if objective else 0
        fit["noise_on"], fit["is_step_of_tree"] = noise_on, reading.step_bound == "tree"
        fit["is_beta_before_noise"] = reading.option == "first"
    return fits
