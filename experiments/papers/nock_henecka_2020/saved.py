"""Saved fits as errors by setting: of the grid, of other programs, and of the readings.

A run that is not finished is read, too.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbt import sweeps
from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.common.data import NOCK_HENECKA
from experiments.papers.nock_henecka_2020 import criterion as criterion_program
from experiments.papers.nock_henecka_2020 import forests as forests_program
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
        settings = sorted(by_setting, key=lambda setting: setting[::-1])
        return cls(settings, np.asarray([by_setting[setting] for setting in settings]))

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
        conditions = [self.axes[axis] == value for axis, value in values.items()]
        return np.flatnonzero(np.all([np.full(len(self.settings), True), *conditions], axis=0))


class NumSettings(NamedTuple):
    """The number of private settings of a calibration, and of settings without privacy."""

    private: int
    without: int


class Grid(NamedTuple):
    """The fits of one v_q and M.

    Attributes:
        fits: domain -> calibration -> its fits; there are no empty ones.
        origin: what made them.
        num_settings: how many settings there are if all are fitted.
    """

    fits: dict[str, dict[str, Fits]]
    origin: dict[str, Any]
    num_settings: NumSettings

    def complete_domains(self, calibration: str) -> list[str]:
        """The domains that have all fits of the calibration."""
        is_private = calibration != NONE
        num_settings = self.num_settings.private if is_private else self.num_settings.without
        return [
            name
            for name, by_calibration in self.fits.items()
            if calibration in by_calibration
            and len(by_calibration[calibration].settings) == num_settings
        ]

    @property
    def calibrations(self) -> list[str]:
        """The calibrations that there are private fits of."""
        names = set().union(*self.fits.values())
        return [name for name in CALIBRATIONS if name in names]


def join_grids(first: Grid, second: Grid) -> Grid:
    """Both grids of one v_q and M; the second wins where both have a fit."""
    joined: dict[str, dict[str, Fits]] = {}
    for source in (first, second):
        for name, by_calibration in source.fits.items():
            of_domain = joined.setdefault(name, {})
            for calibration, fits in by_calibration.items():
                earlier = of_domain.get(calibration)
                of_domain[calibration] = fits if earlier is None else _join_fits(earlier, fits)
    return Grid(joined, first.origin, first.num_settings)


def _join_fits(first: Fits, second: Fits) -> Fits:
    """All settings of both; the second wins where both have one."""
    errors = dict(zip(first.settings, first.folds, strict=True))
    return Fits.from_errors(errors | dict(zip(second.settings, second.folds, strict=True)))


def fit_files(folder: Path) -> dict[str, Path]:
    """Domain -> the file that `sweeps.run` writes, finished or not."""
    paths = (
        (name, folder / f"{name}{end}") for name in NOCK_HENECKA for end in (".part", ".jsonl")
    )
    return {name: path for name, path in paths if path.exists()}


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a folder of fits: its sweep, and what made it.

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
        columns, header = sweeps.load_columns(path)
        if any(header[key] != sweep.definition()[key] for key in ("name", "blocks")):
            raise ValueError(f"{path} is of another sweep, {header['name']}")
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
        int(number): errors[order][start : start + FOLDS]
        for number, start, num_folds in zip(settings, first, count, strict=True)
        if num_folds == FOLDS
    }


def read_grids(folder: Path) -> dict[tuple[int, float], Grid]:
    """(v_q, M) -> the fits of a folder that `run` writes.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    header = read_header(folder)
    bins, block = int(header["name"].rsplit("_", 1)[-1]), header["blocks"][0]
    clips = tuple(block["clip"])
    smoke = len(block["rounds"]) < len(GRID["rounds"])
    sweep = grid(tuple(block["calibration"]), bins, clips, smoke)
    errors = errors_by_setting(folder, sweep)

    words = " ".join(f"{clip:g}" for clip in clips)
    origin = {
        **header["about"],
        "command": f"python -m experiments {NAME} run --bins {bins} --clip {words}",
        "date": aggregated.date_written(next(iter(fit_files(folder).values()))),
        "seed": header["seed"],
        "folds": FOLDS,
        "bins": bins,
    }
    without = sum(setting["epsilon"] == float("inf") for setting in sweep.settings)
    private = len(sweep.settings) - without
    num_settings = NumSettings(private // (len(clips) * len(block["calibration"])), without)
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
    for number, folds in by_setting.items():
        setting = settings[number]
        is_private = bool(np.isfinite(setting["epsilon"]))
        if is_private and setting["clip"] != clip:
            continue
        calibration = setting["calibration"] if is_private else NONE
        key = Setting(
            calibration=calibration,
            epsilon=setting["epsilon"],
            alpha=str(setting["alpha"]),
            beta_tree=setting["beta_tree"],
            rounds=setting["rounds"],
            depth=setting["depth"],
        )
        by_calibration.setdefault(calibration, {})[key] = folds
    return {name: Fits.from_errors(errors) for name, errors in by_calibration.items()}


def grid_lines(grid: Grid) -> list[aggregated.Line]:
    """A line for each domain, budget, alpha, beta_tree and T, with the mean error of each depth."""
    lines = []
    for domain, by_calibration in grid.fits.items():
        mean: dict[Setting, float] = {}
        for fits in by_calibration.values():
            mean |= dict(zip(fits.settings, fits.mean.tolist(), strict=True))
        rows: dict[tuple, aggregated.Line] = {}
        for setting in sorted(mean):
            head = {"domain": domain, **setting._asdict()}
            depth = head.pop("depth")
            row = rows.setdefault(setting[:-1], head | {f"d{d}": None for d in DEPTHS})
            row[f"d{depth}"] = mean[setting]
        lines += rows.values()
    return lines


class ProgramFits(NamedTuple):
    """The fits of one domain by another program than `run`.

    Attributes:
        settings: those with all folds.
        folds: the test errors by fold of each setting.
        num_settings: how many settings there are if all are fitted.
    """

    settings: list[Any]
    folds: list[np.ndarray]
    num_settings: int


def _read_program(
    folder: Path, make_sweep: Callable[[bool], sweeps.Sweep]
) -> dict[str, ProgramFits]:
    """Domain -> its fits by another program.

    Args:
        folder: its results.
        make_sweep: from whether it is the smallest run to the program's sweep.
    """
    block = read_header(folder)["blocks"][0]
    smoke = len(block["depth"]) < len(make_sweep(False).blocks[0]["depth"])
    sweep = make_sweep(smoke)
    settings: Any = sweep.settings
    return {
        name: ProgramFits(
            [settings[number] for number in by_setting], [*by_setting.values()], len(settings)
        )
        for name, by_setting in errors_by_setting(folder, sweep).items()
    }


def read_forests(folder: Path) -> dict[str, dict[tuple, np.ndarray]]:
    """Domain -> (kind, epsilon, depth, calibration) -> test errors by fold.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    axes = ("kind", "epsilon", "depth", "calibration")
    return {
        name: {
            tuple(setting[axis] for axis in axes): folds
            for setting, folds in zip(fits.settings, fits.folds, strict=True)
        }
        for name, fits in _read_program(folder, forests_program.sweep).items()
    }


def read_criterion(folder: Path) -> dict[str, Fits]:
    """Domain -> its fits with alpha in the criterion alone, of the domains that are finished.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    by_domain = {}
    for name, fits in _read_program(folder, criterion_program.sweep).items():
        by_setting = {
            Setting(
                calibration="tight",
                epsilon=setting["epsilon"],
                alpha=str(criterion_program.ALPHA),
                beta_tree=setting["beta_tree"],
                rounds=setting["rounds"],
                depth=setting["depth"],
            ): folds
            for setting, folds in zip(fits.settings, fits.folds, strict=True)
        }
        if len(by_setting) == fits.num_settings:
            by_domain[name] = Fits.from_errors(by_setting)
    return by_domain


def fit_commit(folder: Path) -> str:
    """The commit of the code that fitted a folder."""
    return read_header(folder)["about"]["commit"]


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
        commits: the commits of the code that fitted.
    """

    errors: dict[str, np.ndarray]
    axes: dict[str, np.ndarray]
    forests: dict[str, np.ndarray]
    forest_depths: np.ndarray
    commits: tuple[str, ...]


class RivalErrors(NamedTuple):
    """Test errors f64[alpha, epsilon, beta_tree, depth, fold] of boosting and of forests."""

    boosted: np.ndarray
    forest: np.ndarray


def boosting_and_forest_errors(
    fits: ReadingFits, reading: str, *, rounds: int, forest: str, depths: ArrayLike
) -> RivalErrors | None:
    """The errors of boosting and of forests of its depths.

    None if one of them lacks a depth, or boosting the number of trees.
    """
    t = np.flatnonzero(fits.axes["rounds"] == rounds)
    boosted_places, forest_places = (
        np.flatnonzero(np.isin(fitted_depths, np.asarray(depths)))
        for fitted_depths in (fits.axes["depth"], fits.forest_depths)
    )
    if not len(t) or not len(forest_places) or len(boosted_places) != len(forest_places):
        return None
    boosted = fits.errors[reading][:, :, :, t[0]][:, :, :, boosted_places]
    forest_errors = fits.forests[forest][:, forest_places]
    return RivalErrors(boosted, np.broadcast_to(forest_errors[None, :, None], boosted.shape))


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
        by_file = [_read_reading_file(path) for path in reading_files(folder, name)]
        by_file += [printed[name]] if name in printed else []
        if not by_file:
            continue
        of_domain = _join_reading_fits(by_file)
        forest = forest_errors.get(name)
        commits = (*of_domain.commits, *((forest.commit,) if forest else ()))
        fits[name] = of_domain._replace(
            forests=forest.errors if forest else {},
            forest_depths=np.asarray(FOREST_DEPTHS),
            commits=tuple(dict.fromkeys(commits)),
        )
    if not fits:
        raise InputError(f"no fits in {folder}; run: python -m experiments {NAME} readings")
    return fits


def reading_files(folder: Path, name: str) -> list[Path]:
    """The finished files of a domain; each has the readings that were fitted together."""
    return sorted(folder.glob(f"boosted*/{name}/{name}.jsonl"))


def _join_reading_fits(files: Sequence[ReadingFits]) -> ReadingFits:
    """The fits of one domain under the readings of all files; the last file wins."""
    joined = files[0]
    for fits in files[1:]:
        if any(not np.array_equal(fits.axes[axis], joined.axes[axis]) for axis in AXES):
            raise ValueError("the readings and the grid have different axes")
        commits = tuple(dict.fromkeys((*joined.commits, *fits.commits)))
        joined = joined._replace(errors=joined.errors | fits.errors, commits=commits)
    return joined


def _read_reading_file(path: Path) -> ReadingFits:
    """The fits of one file of a study of readings."""
    columns, header = sweeps.load_columns(path)
    errors = {}
    for reading in dict.fromkeys(columns["reading"].tolist()):
        is_of_reading = columns["reading"] == reading
        errors[reading] = _error_cube(
            {name: column[is_of_reading] for name, column in columns.items()}
        )
    axes = {name: np.unique(columns[name]) for name in AXES}
    return ReadingFits(errors, axes, {}, np.array([]), (header["about"]["commit"],))


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
        errors, commits = {PRINTED: _error_cube(columns)}, (grid.origin["commit"],)
        by_domain[name] = ReadingFits(errors, axes, {}, np.array([]), commits)
    return by_domain


class ForestErrors(NamedTuple):
    """The errors of the forests of a domain, as `ReadingFits.forests`, and their commit."""

    errors: dict[str, np.ndarray]
    commit: str


def _read_forest_errors(folder: Path) -> dict[str, ForestErrors]:
    """Domain -> the errors of its forests, of the domains that are finished."""
    if not fit_files(folder):
        return {}
    by_domain = {}
    for name, fits in read_forests(folder).items():
        epsilons = sorted(
            {epsilon for _, epsilon, _, calibration in fits if calibration == CALIBRATION}
        )
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
            by_domain[name] = ForestErrors(errors, fit_commit(folder))
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
