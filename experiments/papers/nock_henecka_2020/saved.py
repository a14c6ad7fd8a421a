"""Saved fits as errors by setting: of the grid, of other programs, and of the readings.

A run that is not finished is read, too.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbt import sweeps
from dpbt.owners.cli.shared import InputError
from experiments.common import aggregated
from experiments.common.data import NOCK_HENECKA
from experiments.papers.nock_henecka_2020 import criterion as of_criterion
from experiments.papers.nock_henecka_2020 import forests as of_forests
from experiments.papers.nock_henecka_2020.options import PRINTED
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    CALIBRATIONS,
    FOLDS,
    FOREST_DEPTHS,
    FORESTS,
    GRID,
    NAME,
    grid,
)

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
    def from_errors(cls, by_setting: Mapping[Setting, np.ndarray]) -> Self:
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

    def find_settings(self, **values: Any) -> np.ndarray:
        """i64[...], the places of the settings that have these values of these axes."""
        same = [self.axes[axis] == value for axis, value in values.items()]
        return np.flatnonzero(np.all([np.full(len(self.settings), True), *same], axis=0))


class Grid(NamedTuple):
    """The fits of one v_q and M.

    Attributes:
        fits: domain -> calibration -> its fits; there are no empty ones.
        about: what made them.
        num_settings: the number of private settings of a calibration, and of those without
            privacy.
    """

    fits: dict[str, dict[str, Fits]]
    about: dict[str, Any]
    num_settings: tuple[int, int]

    def complete_domains(self, calibration: str) -> list[str]:
        """The domains that have all fits of the calibration."""
        num_settings = self.num_settings[calibration == NONE]
        return [
            name
            for name, by_calibration in self.fits.items()
            if calibration in by_calibration
            and len(by_calibration[calibration].settings) == num_settings
        ]

    @property
    def calibrations(self) -> list[str]:
        """The calibrations that there are private fits of."""
        fitted = set().union(*self.fits.values())
        return [name for name in CALIBRATIONS if name in fitted]


def join_grids(one: Grid, other: Grid) -> Grid:
    """Both grids of one v_q and M; the second wins where both have a fit."""
    fits: dict[str, dict[str, Fits]] = {}
    for part in (one, other):
        for name, by_calibration in part.fits.items():
            joined = fits.setdefault(name, {})
            for calibration, more in by_calibration.items():
                before = joined.get(calibration)
                joined[calibration] = more if before is None else _join_fits(before, more)
    return Grid(fits, one.about, one.num_settings)


def _join_fits(one: Fits, other: Fits) -> Fits:
    """All settings of two; the second wins where both have one."""
    every = dict(zip(one.settings, one.folds, strict=True))
    return Fits.from_errors(every | dict(zip(other.settings, other.folds, strict=True)))


def fit_files(folder: Path) -> dict[str, Path]:
    """Domain -> the file that `sweeps.run` writes, finished or not."""
    paths = (
        (name, folder / f"{name}{end}") for name in NOCK_HENECKA for end in (".part", ".jsonl")
    )
    return {name: path for name, path in paths if path.exists()}


def read_about(folder: Path) -> dict[str, Any]:
    """What a folder of fits is of, and what made it.

    Raises:
        ValueError: if it has none.
    """
    for path in fit_files(folder).values():
        return sweeps.load_columns(path)[1]
    raise ValueError(f"{folder} has no fits")


def errors_by_setting(folder: Path, sweep: sweeps.Sweep) -> dict[str, dict[int, np.ndarray]]:
    """Domain -> number of a setting -> its test errors by fold, of settings with all folds.

    Args:
        folder: where `sweeps.run` writes, finished or not.
        sweep: what it runs.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    place = {sweeps.setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    errors: dict[str, dict[int, np.ndarray]] = {}
    for name, path in fit_files(folder).items():
        columns, about = sweeps.load_columns(path)
        if any(about[key] != sweep.definition()[key] for key in ("name", "blocks")):
            raise ValueError(f"{path} is of another sweep, {about['name']}")
        names, inverse = np.unique(columns["setting"], return_inverse=True)
        ids = np.asarray([place[setting] for setting in names.tolist()])[inverse]
        errors[name] = _complete_settings(ids, columns["evaluation"], columns["test_error"])
    return errors


def _complete_settings(
    ids: np.ndarray, folds: np.ndarray, errors: np.ndarray
) -> dict[int, np.ndarray]:
    """Number of a setting -> its errors by fold, of the settings with all folds."""
    order = np.lexsort((folds, ids))
    settings, first, count = np.unique(ids[order], return_index=True, return_counts=True)
    return {
        int(at): errors[order][start : start + FOLDS]
        for at, start, num_folds in zip(settings, first, count, strict=True)
        if num_folds == FOLDS
    }


def read_grids(folder: Path) -> dict[tuple[int, float], Grid]:
    """(v_q, M) -> the fits of a folder that `run` writes.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    about = read_about(folder)
    bins, block = int(about["name"].rsplit("_", 1)[-1]), about["blocks"][0]
    clips = tuple(block["clip"])
    smoke = len(block["rounds"]) < len(GRID["rounds"])
    sweep = grid(tuple(block["calibration"]), bins, clips, smoke)
    errors = errors_by_setting(folder, sweep)

    words = " ".join(f"{clip:g}" for clip in clips)
    origin = {
        **about["about"],
        "command": f"python -m experiments {NAME} run --bins {bins} --clip {words}",
        "date": aggregated.date_written(next(iter(fit_files(folder).values()))),
        "seed": about["seed"],
        "folds": FOLDS,
        "bins": bins,
    }
    without = sum(setting["epsilon"] == float("inf") for setting in sweep.settings)
    private = len(sweep.settings) - without
    num_settings = private // (len(clips) * len(block["calibration"])), without
    grids = {}
    for clip in clips:
        fits = {name: _fits_of_clip(by_setting, sweep, clip) for name, by_setting in errors.items()}
        nonempty = {name: by_calibration for name, by_calibration in fits.items() if by_calibration}
        grids[bins, clip] = Grid(nonempty, dict(origin), num_settings)
    return grids


def _fits_of_clip(
    by_setting: Mapping[int, np.ndarray], sweep: sweeps.Sweep, clip: float
) -> dict[str, Fits]:
    """Calibration -> the fits of one M; settings without privacy count for each M."""
    by_calibration: dict[str, dict[Setting, np.ndarray]] = {}
    settings: Any = sweep.settings
    for at, folds in by_setting.items():
        setting = settings[at]
        private = bool(np.isfinite(setting["epsilon"]))
        if private and setting["clip"] != clip:
            continue
        calibration = setting["calibration"] if private else NONE
        numbers = setting["epsilon"], str(setting["alpha"]), setting["beta_tree"]
        key = Setting(calibration, *numbers, setting["rounds"], setting["depth"])
        by_calibration.setdefault(calibration, {})[key] = folds
    return {name: Fits.from_errors(errors) for name, errors in by_calibration.items()}


def grid_lines(grid: Grid) -> list[aggregated.Line]:
    """A line for each domain, budget, alpha, beta_tree and T, with the mean error of each depth."""
    lines = []
    for domain, by_calibration in grid.fits.items():
        mean = {at: error for fits in by_calibration.values() for at, error in _mean_errors(fits)}
        rows: dict[tuple, aggregated.Line] = {}
        for at in sorted(mean):
            head = {"domain": domain, **at._asdict()}
            depth = head.pop("depth")
            row = rows.setdefault(at[:-1], head | {f"d{d}": None for d in DEPTHS})
            row[f"d{depth}"] = mean[at]
        lines += rows.values()
    return lines


def _mean_errors(fits: Fits) -> Iterator[tuple[Setting, float]]:
    return zip(fits.settings, fits.mean.tolist(), strict=True)


def _read_program(
    folder: Path, sweep: Callable[[bool], sweeps.Sweep]
) -> Iterator[tuple[str, list[tuple[Any, np.ndarray]], int]]:
    """The fits of another program: domain, (setting, test errors by fold), number of all settings.

    Args:
        folder: its results.
        sweep: from whether it is the smallest one to what it runs.
    """
    block = read_about(folder)["blocks"][0]
    smoke = len(block["depth"]) < len(sweep(False).blocks[0]["depth"])
    settings: Any = sweep(smoke).settings
    for name, by_setting in errors_by_setting(folder, sweep(smoke)).items():
        pairs = [(settings[at], folds) for at, folds in by_setting.items()]
        yield name, pairs, len(settings)


def read_forests(folder: Path) -> dict[str, dict[tuple, np.ndarray]]:
    """Domain -> (kind, epsilon, depth, calibration) -> test errors by fold.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    axes = ("kind", "epsilon", "depth", "calibration")
    return {
        name: {tuple(at[axis] for axis in axes): folds for at, folds in pairs}
        for name, pairs, _ in _read_program(folder, of_forests.sweep)
    }


def read_criterion(folder: Path) -> dict[str, Fits]:
    """Domain -> its fits with alpha in the criterion alone, of the domains that are finished.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    alpha, fits = str(of_criterion.ALPHA), {}
    for name, pairs, num_settings in _read_program(folder, of_criterion.sweep):
        by_setting = {
            Setting(
                "tight", at["epsilon"], alpha, at["beta_tree"], at["rounds"], at["depth"]
            ): folds
            for at, folds in pairs
        }
        if len(pairs) == num_settings:
            fits[name] = Fits.from_errors(by_setting)
    return fits


def fit_commit(folder: Path) -> str:
    """The commit of the code that fitted what a folder has."""
    return read_about(folder)["about"]["commit"]


# The fits of the readings.

AXES = ("epsilon", "beta_tree", "rounds", "depth", "evaluation")
CALIBRATION = "published"
"""The calibration of the fits of `run` and `forests` that stand beside the readings."""


class ReadingFits(NamedTuple):
    """The fits of one domain under some readings.

    Attributes:
        errors: reading -> f64[alpha, epsilon, beta_tree, rounds, depth, fold], test errors; with
            one epsilon and one beta_tree where there is no noise.
        axes: axis -> its values, increasing; of alpha, as `ALPHAS` has them.
        forests: forest -> f64[epsilon, depth, fold], test errors; empty if they are not saved.
        forest_depths: the depths of the forests.
        commits: of the code that fitted.
    """

    errors: dict[str, np.ndarray]
    axes: dict[str, np.ndarray]
    forests: dict[str, np.ndarray]
    forest_depths: np.ndarray
    commits: tuple[str, ...]


def boosting_and_forest_errors(
    fits: ReadingFits, reading: str, *, rounds: int, forest: str, depths: ArrayLike
) -> tuple[np.ndarray, np.ndarray] | None:
    """Test errors of boosting and of forests of its depths.

    Both are f64[alpha, epsilon, beta_tree, depth, fold]. None if one of them lacks a depth, or
    boosting the number of trees.
    """
    t = np.flatnonzero(fits.axes["rounds"] == rounds)
    boosted_places, forest_places = (
        np.flatnonzero(np.isin(fitted, np.asarray(depths)))
        for fitted in (fits.axes["depth"], fits.forest_depths)
    )
    if not len(t) or not len(forest_places) or len(boosted_places) != len(forest_places):
        return None
    boosted = fits.errors[reading][:, :, :, t[0]][:, :, :, boosted_places]
    rival = fits.forests[forest][:, forest_places]
    return boosted, np.broadcast_to(rival[None, :, None], boosted.shape)


def read_reading_fits(folder: Path, grid: Path, forests: Path) -> dict[str, ReadingFits]:
    """Domain -> its fits, of every domain with complete fits of a reading, in the paper's order.

    Args:
        folder: the results of a study of readings.
        grid: the results of `run`; its published calibration is the reading PRINTED.
        forests: the results of `forests`.

    Raises:
        InputError: if there is no domain.
        ValueError: for a file that is not one of fits, and for fits of unlike grids.
    """
    printed, forest_errors = _read_printed(grid), _read_forest_errors(forests)
    fits = {}
    for name in NOCK_HENECKA:
        parts = [_read_reading_file(path) for path in reading_files(folder, name)]
        parts += [printed[name]] if name in printed else []
        if not parts:
            continue
        joined = _join_reading_fits(parts)
        errors, commit = forest_errors.get(name, ({}, ""))
        commits = (*joined.commits, *((commit,) if commit else ()))
        fits[name] = joined._replace(
            forests=errors,
            forest_depths=np.asarray(FOREST_DEPTHS),
            commits=tuple(dict.fromkeys(commits)),
        )
    if not fits:
        raise InputError(f"no fits in {folder}; run: python -m experiments {NAME} readings")
    return fits


def reading_files(folder: Path, name: str) -> list[Path]:
    """The finished files of a domain; each has the readings that were fitted together."""
    return sorted(folder.glob(f"boosted*/{name}/{name}.jsonl"))


def _join_reading_fits(parts: Sequence[ReadingFits]) -> ReadingFits:
    """The fits of one domain under the readings of all parts; the last part wins."""
    first = parts[0]
    for other in parts[1:]:
        if any(not np.array_equal(other.axes[axis], first.axes[axis]) for axis in AXES):
            raise ValueError("the readings and the grid have different axes")
        commits = tuple(dict.fromkeys((*first.commits, *other.commits)))
        first = first._replace(errors=first.errors | other.errors, commits=commits)
    return first


def _read_reading_file(path: Path) -> ReadingFits:
    """The fits of one file of a study of readings."""
    columns, about = sweeps.load_columns(path)
    errors = {}
    for reading in dict.fromkeys(columns["reading"].tolist()):
        here = columns["reading"] == reading
        errors[reading] = _error_cube({name: column[here] for name, column in columns.items()})
    axes = {name: np.unique(columns[name]) for name in AXES}
    return ReadingFits(errors, axes, {}, np.array([]), (about["about"]["commit"],))


def _read_printed(folder: Path) -> dict[str, ReadingFits]:
    """Domain -> its published fits in a folder of `run`, for v_q = 10 and M = 10."""
    grid = read_grids(folder).get((10, 10.0)) if fit_files(folder) else None
    if grid is None:
        return {}
    by_domain = {}
    for name in grid.complete_domains(CALIBRATION):
        fits = grid.fits[name][CALIBRATION]
        num_settings, num_folds = fits.folds.shape
        columns = {axis: np.repeat(fits.axes[axis], num_folds) for axis in ("alpha", *AXES[:-1])}
        columns["evaluation"] = np.tile(np.arange(num_folds), num_settings)
        columns["test_error"] = fits.folds.ravel()
        axes = {axis: np.unique(columns[axis]) for axis in AXES}
        errors, commits = {PRINTED: _error_cube(columns)}, (grid.about["commit"],)
        by_domain[name] = ReadingFits(errors, axes, {}, np.array([]), commits)
    return by_domain


def _read_forest_errors(folder: Path) -> dict[str, tuple[dict[str, np.ndarray], str]]:
    """Domain -> (the errors of its forests, the commit), of the domains that are finished."""
    if not fit_files(folder):
        return {}
    by_domain = {}
    for name, fits in read_forests(folder).items():
        epsilons = sorted({epsilon for _, epsilon, _, named in fits if named == CALIBRATION})
        try:
            errors = {
                forest: np.asarray(
                    [[fits[kind, e, d, CALIBRATION] for d in FOREST_DEPTHS] for e in epsilons]
                )
                for forest, kind in FORESTS.items()
            }
        except KeyError:  # a run that goes on
            continue
        if epsilons:
            by_domain[name] = errors, fit_commit(folder)
    return by_domain


def _error_cube(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """f64[alpha, *AXES]: test errors by the values of the axes, which increase.

    Raises:
        ValueError: unless there is one value for each combination.
    """
    alpha = np.asarray([ALPHA_NAMES.index(str(alpha)) for alpha in columns["alpha"]])
    axes, values = (alpha, *(columns[name] for name in AXES)), columns["test_error"]
    places = [np.unique(column, return_inverse=True)[1] for column in axes]
    shape = tuple(int(place.max()) + 1 for place in places)
    if len(values) != np.prod(shape) or len(np.unique(np.stack(places), axis=1).T) != len(values):
        raise ValueError("the fits are not a product of their axes")
    cube = np.empty(shape)
    cube[tuple(places)] = values
    return cube
