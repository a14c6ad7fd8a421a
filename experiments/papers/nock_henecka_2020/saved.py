"""Fits of a folder as errors by setting; also of a run that is not finished."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbt.sweeps import plan, storage
from experiments.common import aggregated
from experiments.papers.nock_henecka_2020 import forests as of_forests
from experiments.papers.nock_henecka_2020.settings import CALIBRATIONS, FOLDS, GRID, NAME, grid

DEPTHS = GRID["depth"]
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


Fits = dict[Setting, np.ndarray]
"""Setting -> test errors by fold."""


class Grid(NamedTuple):
    """The fits of one v_q and M.

    Attributes:
        fits: domain -> its fits.
        about: what made them.
        whole: the number of private settings of a calibration, and of settings without privacy.
    """

    fits: dict[str, Fits]
    about: dict[str, Any]
    whole: tuple[int, int]

    def private(self, domain: str, calibration: str) -> Fits:
        """The fits of a domain in a calibration."""
        return {at: folds for at, folds in self.fits[domain].items() if at[0] == calibration}

    def complete(self, calibration: str) -> list[str]:
        """The domains that have all fits of the calibration."""
        whole = self.whole[calibration == NONE]
        return [name for name in self.fits if len(self.private(name, calibration)) == whole]

    @property
    def calibrations(self) -> list[str]:
        """The calibrations that there are private fits of."""
        found = {at.calibration for fits in self.fits.values() for at in fits}
        return [name for name in CALIBRATIONS if name in found]


def joined(one: Grid, other: Grid) -> Grid:
    """Both grids of one v_q and M; the second wins where both have a fit."""
    names = dict.fromkeys((*one.fits, *other.fits))
    fits = {name: one.fits.get(name, {}) | other.fits.get(name, {}) for name in names}
    return Grid(fits, one.about, one.whole)


def errors(folder: Path, sweep: plan.Sweep) -> dict[str, dict[int, np.ndarray]]:
    """Task -> number of a setting -> its test errors by fold, of settings with all folds.

    Args:
        folder: where `sweeps.run` writes, finished or not.
        sweep: what it runs.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    begun = json.loads((folder / "sweep.json").read_text())
    told = json.loads(json.dumps(sweep.definition()))
    if any(begun[key] != told[key] for key in ("name", "blocks")):
        raise ValueError(f"{folder} is of another sweep, {begun['name']}")
    place = {plan.setting_id(setting): k for k, setting in enumerate(sweep.settings)}
    found = {}
    for task in begun["tasks"]:
        parts = [folder / f"{task}.npz", *sorted((folder / "parts" / task).glob("[!.]*.npz"))]
        by_setting: dict[int, list[tuple[int, float]]] = {}
        for path in parts:
            with contextlib.suppress(OSError):  # a part may be joined meanwhile
                columns = storage.load_columns(path)[0]
                ids = columns["setting"]
                if ids.dtype.kind == "U":
                    ids = [place[one] for one in ids.tolist()]
                rows = zip(ids, columns["evaluation"], columns["test_error"], strict=True)
                for at, fold, error in rows:
                    by_setting.setdefault(int(at), []).append((int(fold), float(error)))
        whole = {at: dict(some) for at, some in by_setting.items()}
        found[task] = {
            at: np.asarray([by_fold[fold] for fold in sorted(by_fold)])
            for at, by_fold in sorted(whole.items())
            if len(by_fold) == FOLDS
        }
    return found


def grids(folder: Path) -> dict[tuple[int, float], Grid]:
    """(v_q, M) -> the fits of a folder that `run` writes.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    begun = json.loads((folder / "sweep.json").read_text())
    bins, block = int(begun["name"].rsplit("_", 1)[-1]), begun["blocks"][0]
    clips = tuple(block["clip"])
    smoke = len(block["rounds"]) < len(GRID["rounds"])
    sweep = grid(tuple(block["calibration"]), bins, clips, smoke)
    raw = errors(folder, sweep)

    words = " ".join(f"{clip:g}" for clip in clips)
    about = {
        **begun["about"],
        "command": f"python -m experiments {NAME} run --bins {bins} --clip {words}",
        "date": aggregated.date(folder / "sweep.json"),
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
            {name: own for name, own in fits.items() if own}, dict(about), whole
        )
    return found


def _fits(by_setting: Mapping[int, np.ndarray], sweep: plan.Sweep, clip: float) -> Fits:
    """The fits of one M; settings without privacy count for each M."""
    found = {}
    for at, folds in by_setting.items():
        setting: Any = sweep.settings[at]
        private = bool(np.isfinite(setting["epsilon"]))
        if private and setting["clip"] != clip:
            continue
        calibration = setting["calibration"] if private else NONE
        numbers = setting["epsilon"], str(setting["alpha"]), setting["beta_tree"]
        key = Setting(calibration, *numbers, setting["rounds"], setting["depth"])
        found[key] = folds
    return found


def lines(grid: Grid) -> list[aggregated.Line]:
    """A line for each domain, budget, alpha, beta_tree and T, with the mean error of each depth."""
    found = []
    for domain, fits in grid.fits.items():
        rows: dict[tuple, aggregated.Line] = {}
        for at, folds in sorted(fits.items()):
            head = {"domain": domain, **at._asdict()}
            depth = head.pop("depth")
            row = rows.setdefault(at[:-1], head | {f"d{d}": None for d in DEPTHS})
            row[f"d{depth}"] = round(float(folds.mean()), 4)
        found += rows.values()
    return found


def forests(folder: Path) -> dict[str, dict[tuple, np.ndarray]]:
    """Domain -> (kind, epsilon, depth, calibration) -> test errors by fold.

    Raises:
        ValueError: if the folder is of another sweep.
    """
    blocks = json.loads((folder / "sweep.json").read_text())["blocks"][0]
    sweep = of_forests.sweep(smoke=len(blocks["depth"]) == 1)
    axes = ("kind", "epsilon", "depth", "calibration")
    return {
        name: {
            tuple(sweep.settings[at][axis] for axis in axes): folds
            for at, folds in by_setting.items()
        }
        for name, by_setting in errors(folder, sweep).items()
    }


def commit(folder: Path) -> str:
    """The commit of the code that fitted what a folder has."""
    return json.loads((folder / "sweep.json").read_text())["about"]["commit"]
