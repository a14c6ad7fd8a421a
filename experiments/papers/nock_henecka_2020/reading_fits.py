"""The saved fits that the readings are compared on: theirs, those of `run`, and the forests."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import sweeps
from dpbt.owners.cli.shared import InputError
from experiments.common import data
from experiments.papers.nock_henecka_2020 import saved
from experiments.papers.nock_henecka_2020.reading_settings import FORESTS, PRINTED
from experiments.papers.nock_henecka_2020.settings import ALPHAS, FOREST_DEPTHS, NAME

ALPHA_NAMES = tuple(str(alpha) for alpha in ALPHAS)
AXES = ("epsilon", "beta_tree", "rounds", "depth", "evaluation")
CALIBRATION = "published"


class Fits(NamedTuple):
    """The fits of one domain.

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


def rivals(
    fits: Fits, reading: str, rounds: int, forest: str, depths: ArrayLike
) -> tuple[np.ndarray, np.ndarray] | None:
    """Test errors of boosting and of forests of its depths.

    Both are f64[alpha, epsilon, beta_tree, depth, fold]. None if one of them lacks a depth, or
    boosting the number of trees.
    """
    t = np.flatnonzero(fits.axes["rounds"] == rounds)
    own, rival = (
        np.flatnonzero(np.isin(there, np.asarray(depths)))
        for there in (fits.axes["depth"], fits.forest_depths)
    )
    if not len(t) or not len(rival) or len(own) != len(rival):
        return None
    boosted = fits.errors[reading][:, :, :, t[0]][:, :, :, own]
    against = np.broadcast_to(fits.forests[forest][:, rival][None, :, None], boosted.shape)
    return boosted, against


def domains(folder: Path, grid: Path, forests: Path) -> dict[str, Fits]:
    """Domain -> its fits, of every domain with complete fits of a reading, in the paper's order.

    Args:
        folder: the results of `readings`.
        grid: the results of `run`; its published calibration is the reading PRINTED.
        forests: the results of `forests`.

    Raises:
        InputError: if there is no domain.
        ValueError: for a file that is not one of fits, and for fits of unlike grids.
    """
    printed, theirs = _printed(grid), _forests(forests)
    found = {}
    for name in data.NOCK_HENECKA:
        parts = [_fitted(path) for path in _files(folder, name)]
        parts += [printed[name]] if name in printed else []
        if parts:
            rivals, commit = theirs.get(name, ({}, ""))
            depths = np.asarray(FOREST_DEPTHS)
            found[name] = _joined(parts)._replace(forests=rivals, forest_depths=depths)
            commits = dict.fromkeys((*found[name].commits, commit))
            found[name] = found[name]._replace(commits=tuple(one for one in commits if one))
    if not found:
        raise InputError(f"no fits in {folder}; run: python -m experiments {NAME} readings")
    return found


def _files(folder: Path, name: str) -> list[Path]:
    """The files of a domain; each has the readings that were added together."""
    return sorted(folder.glob(f"boosted*/{name}/{name}.jsonl"))


def readings(folder: Path, name: str) -> set[str]:
    """The readings that a domain is fitted under.

    Raises:
        ValueError: for a file that is not one of fits.
    """
    columns = (sweeps.load_columns(path)[0] for path in _files(folder, name))
    return {reading for own in columns for reading in own["reading"].tolist()}


def unfinished(folder: Path, name: str) -> Path:
    """The folder where the next readings of a domain are fitted."""
    every = (folder / f"boosted{number or ''}" / name for number in itertools.count())
    return next(one for one in every if not (one / f"{name}.jsonl").exists())


def _joined(parts: Sequence[Fits]) -> Fits:
    """The fits of one domain under the readings of all parts; the last part wins."""
    first = parts[0]
    for other in parts[1:]:
        if any(not np.array_equal(other.axes[axis], first.axes[axis]) for axis in AXES):
            raise ValueError("the readings and the grid have different axes")
        commits = tuple(dict.fromkeys((*first.commits, *other.commits)))
        first = first._replace(errors=first.errors | other.errors, commits=commits)
    return first


def _fitted(path: Path) -> Fits:
    """The fits of one file of `readings`."""
    columns, about = sweeps.load_columns(path)
    errors = {}
    for reading in dict.fromkeys(columns["reading"].tolist()):
        own = {name: column[columns["reading"] == reading] for name, column in columns.items()}
        errors[reading] = _cube([_place(own["alpha"]), *(own[name] for name in AXES)], own)
    axes = {name: np.unique(columns[name]) for name in AXES}
    return Fits(errors, axes, {}, np.array([]), (about["about"]["commit"],))


def _printed(folder: Path) -> dict[str, Fits]:
    """Domain -> its published fits in a folder of `run`, for v_q = 10 and M = 10."""
    grid = saved.grids(folder).get((10, 10.0)) if saved.files(folder) else None
    if grid is None:
        return {}
    found = {}
    for name in grid.complete(CALIBRATION):
        fits = grid.fits[name][CALIBRATION]
        settings, count = fits.folds.shape
        own = {axis: np.repeat(fits.axes[axis], count) for axis in ("alpha", *AXES[:-1])}
        own |= {"evaluation": np.tile(np.arange(count), settings)}
        own |= {"test_error": fits.folds.ravel()}
        cube = _cube([_place(own["alpha"]), *(own[axis] for axis in AXES)], own)
        axes = {axis: np.unique(own[axis]) for axis in AXES}
        found[name] = Fits({PRINTED: cube}, axes, {}, np.array([]), (grid.about["commit"],))
    return found


def _forests(folder: Path) -> dict[str, tuple[dict[str, np.ndarray], str]]:
    """Domain -> (its forests, the commit), of the domains that are finished in `forests`."""
    if not saved.files(folder):
        return {}
    found = {}
    for name, fits in saved.forests(folder).items():
        own = {key: folds for key, folds in fits.items() if key[-1] == CALIBRATION}
        epsilons = sorted({key[1] for key in own})
        wanted = [
            (kind, e, d) for kind in FORESTS.values() for e in epsilons for d in FOREST_DEPTHS
        ]
        if not epsilons or any((*key, CALIBRATION) not in own for key in wanted):
            continue
        cubes = {
            forest: np.asarray(
                [[own[kind, e, d, CALIBRATION] for d in FOREST_DEPTHS] for e in epsilons]
            )
            for forest, kind in FORESTS.items()
        }
        found[name] = cubes, saved.commit(folder)
    return found


def _place(alphas: np.ndarray) -> np.ndarray:
    """The place of each alpha in `ALPHAS`."""
    return np.asarray([ALPHA_NAMES.index(str(alpha)) for alpha in alphas])


def _cube(axes: Sequence[np.ndarray], own: Mapping[str, np.ndarray]) -> np.ndarray:
    """Test errors with one axis for each of the given columns, whose values increase.

    Raises:
        ValueError: unless there is one value for each combination.
    """
    places = [np.unique(column, return_inverse=True)[1] for column in axes]
    shape, values = tuple(int(place.max()) + 1 for place in places), own["test_error"]
    if len(values) != np.prod(shape) or len(np.unique(np.stack(places), axis=1).T) != len(values):
        raise ValueError("the fits are not a product of their axes")
    cube = np.empty(shape)
    cube[tuple(places)] = values
    return cube
