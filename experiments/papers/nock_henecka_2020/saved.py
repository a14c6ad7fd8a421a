"""Fits of a folder as errors by setting; also of a run that is not finished."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dpbt import sweeps
from experiments.common import aggregated
from experiments.common.data import NOCK_HENECKA
from experiments.papers.nock_henecka_2020 import criterion as of_criterion
from experiments.papers.nock_henecka_2020 import forests as of_forests
from experiments.papers.nock_henecka_2020.settings import CALIBRATIONS, FOLDS, GRID, NAME, grid

DEPTHS = GRID["depth"]
SIZES = ("beta_tree", "rounds", "depth")
NONE = "none"
"""The calibration of settings without privacy."""


class Setting(NamedTuple):
    """One setting of a grid; `calibration` is NONE and `epsilon` infinite without privacy."""

    calibration: str
    epsilon: float
    alpha: str
    beta_tree: float
    rounds: int
    depth: int


@dataclasses.dataclass(frozen=True, eq=False)
class Fits:
    """The fits of one domain in one calibration.

    Attributes:
        settings: all different; by depth, then T, beta_tree, alpha and epsilon.
        folds: f64[setting, fold], test errors.
    """

    settings: list[Setting]
    folds: np.ndarray

    @classmethod
    def of(cls, by_setting: Mapping[Setting, np.ndarray]) -> Self:
        """The fits of a mapping from settings to test errors by fold."""
        settings = sorted(by_setting, key=lambda at: at[::-1])
        return cls(settings, np.asarray([by_setting[at] for at in settings]))

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """f64[setting], the mean test error over folds."""
        return self.folds.mean(axis=1)

    @functools.cached_property
    def axes(self) -> dict[str, np.ndarray]:
        """Name of an axis -> its value in each setting."""
        columns = zip(*self.settings, strict=True)
        return {
            name: np.asarray(column) for name, column in zip(Setting._fields, columns, strict=True)
        }

    def chosen(self, **values: Any) -> np.ndarray:
        """i64[...], the places of the settings that have these values of these axes."""
        same = [self.axes[axis] == value for axis, value in values.items()]
        return np.flatnonzero(np.all([np.full(len(self.settings), True), *same], axis=0))


class Grid(NamedTuple):
    """The fits of one v_q and M.

    Attributes:
        fits: domain -> calibration -> its fits; there are no empty ones.
        about: what made them.
        whole: the number of private settings of a calibration, and of settings without privacy.
    """

    fits: dict[str, dict[str, Fits]]
    about: dict[str, Any]
    whole: tuple[int, int]

    def complete(self, calibration: str) -> list[str]:
        """The domains that have all fits of the calibration."""
        whole = self.whole[calibration == NONE]
        return [
            name
            for name, own in self.fits.items()
            if calibration in own and len(own[calibration].settings) == whole
        ]

    @property
    def calibrations(self) -> list[str]:
        """The calibrations that there are private fits of."""
        found = {calibration for own in self.fits.values() for calibration in own}
        return [name for name in CALIBRATIONS if name in found]


def joined(one: Grid, other: Grid) -> Grid:
    """Both grids of one v_q and M; the second wins where both have a fit."""
    fits: dict[str, dict[str, Fits]] = {}
    for part in (one, other):
        for name, own in part.fits.items():
            both = fits.setdefault(name, {})
            for calibration, found in own.items():
                before = both.get(calibration)
                both[calibration] = found if before is None else _both(before, found)
    return Grid(fits, one.about, one.whole)


def _both(one: Fits, other: Fits) -> Fits:
    """All settings of two; the second wins where both have one."""
    every = dict(zip(one.settings, one.folds, strict=True))
    return Fits.of(every | dict(zip(other.settings, other.folds, strict=True)))


def files(folder: Path) -> dict[str, Path]:
    """Domain -> the file that `sweeps.run` writes, finished or not."""
    paths = (
        (name, folder / f"{name}{end}") for name in NOCK_HENECKA for end in (".part", ".jsonl")
    )
    return {name: path for name, path in paths if path.exists()}


def about(folder: Path) -> dict[str, Any]:
    """What a folder of fits is of, and what made it.

    Raises:
        ValueError: if it has none.
    """
    for path in files(folder).values():
        return sweeps.load_columns(path)[1]
    raise ValueError(f"{folder} has no fits")


def errors(folder: Path, sweep: sweeps.Sweep) -> dict[str, dict[int, np.ndarray]]:
    """Domain -> number of a setting -> its test errors by fold, of settings with all folds.

    Args:
        folder: where `sweeps.run` writes, finished or not.
        sweep: what it runs.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    place = {sweeps.setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    found: dict[str, dict[int, np.ndarray]] = {}
    for name, path in files(folder).items():
        columns, begun = sweeps.load_columns(path)
        if any(begun[key] != sweep.definition()[key] for key in ("name", "blocks")):
            raise ValueError(f"{path} is of another sweep, {begun['name']}")
        names, inverse = np.unique(columns["setting"], return_inverse=True)
        ids = np.asarray([place[setting] for setting in names.tolist()])[inverse]
        found[name] = _whole(ids, columns["evaluation"], columns["test_error"])
    return found


def _whole(ids: np.ndarray, folds: np.ndarray, errors: np.ndarray) -> dict[int, np.ndarray]:
    """Number of a setting -> its errors by fold, of the settings with all folds."""
    order = np.lexsort((folds, ids))
    settings, first, count = np.unique(ids[order], return_index=True, return_counts=True)
    return {
        int(at): errors[order][start : start + FOLDS]
        for at, start, folds_of in zip(settings, first, count, strict=True)
        if folds_of == FOLDS
    }


def grids(folder: Path) -> dict[tuple[int, float], Grid]:
    """(v_q, M) -> the fits of a folder that `run` writes.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    begun = about(folder)
    bins, block = int(begun["name"].rsplit("_", 1)[-1]), begun["blocks"][0]
    clips = tuple(block["clip"])
    smoke = len(block["rounds"]) < len(GRID["rounds"])
    sweep = grid(tuple(block["calibration"]), bins, clips, smoke)
    raw = errors(folder, sweep)

    words = " ".join(f"{clip:g}" for clip in clips)
    made = {
        **begun["about"],
        "command": f"python -m experiments {NAME} run --bins {bins} --clip {words}",
        "date": aggregated.date(next(iter(files(folder).values()))),
        "seed": begun["seed"],
        "folds": FOLDS,
        "bins": bins,
    }
    without = sum(setting["epsilon"] == float("inf") for setting in sweep.settings)
    private = len(sweep.settings) - without
    whole = private // (len(clips) * len(block["calibration"])), without
    found = {}
    for clip in clips:
        fits = {name: _fits(by_setting, sweep, clip) for name, by_setting in raw.items()}
        found[bins, clip] = Grid(
            {name: own for name, own in fits.items() if own}, dict(made), whole
        )
    return found


def _fits(
    by_setting: Mapping[int, np.ndarray], sweep: sweeps.Sweep, clip: float
) -> dict[str, Fits]:
    """Calibration -> the fits of one M; settings without privacy count for each M."""
    found: dict[str, dict[Setting, np.ndarray]] = {}
    settings: Any = sweep.settings
    for at, folds in by_setting.items():
        setting = settings[at]
        private = bool(np.isfinite(setting["epsilon"]))
        if private and setting["clip"] != clip:
            continue
        calibration = setting["calibration"] if private else NONE
        numbers = setting["epsilon"], str(setting["alpha"]), setting["beta_tree"]
        key = Setting(calibration, *numbers, setting["rounds"], setting["depth"])
        found.setdefault(calibration, {})[key] = folds
    return {calibration: Fits.of(own) for calibration, own in found.items()}


def lines(grid: Grid) -> list[aggregated.Line]:
    """A line for each domain, budget, alpha, beta_tree and T, with the mean error of each depth."""
    found = []
    for domain, own in grid.fits.items():
        mean = {at: error for fits in own.values() for at, error in _means(fits)}
        rows: dict[tuple, aggregated.Line] = {}
        for at in sorted(mean):
            head = {"domain": domain, **at._asdict()}
            depth = head.pop("depth")
            row = rows.setdefault(at[:-1], head | {f"d{d}": None for d in DEPTHS})
            row[f"d{depth}"] = mean[at]
        found += rows.values()
    return found


def _means(fits: Fits) -> Iterator[tuple[Setting, float]]:
    return zip(fits.settings, fits.mean.tolist(), strict=True)


def _other(
    folder: Path, sweep: Callable[[bool], sweeps.Sweep]
) -> Iterator[tuple[str, list[tuple[Any, np.ndarray]], int]]:
    """The fits of another program: domain, (setting, test errors by fold), number of all settings.

    Args:
        folder: its results.
        sweep: from whether it is the smallest one to what it runs.
    """
    begun = about(folder)["blocks"][0]
    smoke = len(begun["depth"]) < len(sweep(False).blocks[0]["depth"])
    settings: Any = sweep(smoke).settings
    for name, by_setting in errors(folder, sweep(smoke)).items():
        pairs = [(settings[at], folds) for at, folds in by_setting.items()]
        yield name, pairs, len(settings)


def forests(folder: Path) -> dict[str, dict[tuple, np.ndarray]]:
    """Domain -> (kind, epsilon, depth, calibration) -> test errors by fold.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    axes = ("kind", "epsilon", "depth", "calibration")
    return {
        name: {tuple(at[axis] for axis in axes): folds for at, folds in pairs}
        for name, pairs, _ in _other(folder, of_forests.sweep)
    }


def criterion(folder: Path) -> dict[str, Fits]:
    """Domain -> its fits with alpha in the criterion alone, of the domains that are finished.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    alpha, found = str(of_criterion.ALPHA), {}
    for name, pairs, whole in _other(folder, of_criterion.sweep):
        by_setting = {
            Setting(
                "tight", at["epsilon"], alpha, at["beta_tree"], at["rounds"], at["depth"]
            ): folds
            for at, folds in pairs
        }
        if len(pairs) == whole:
            found[name] = Fits.of(by_setting)
    return found


def commit(folder: Path) -> str:
    """The commit of the code that fitted what a folder has."""
    return about(folder)["about"]["commit"]
