"""Measure first fits: what a new process takes, with and without compiled programs on disk.

`python -m experiments bench` prints the section. Run as a module with the name of a case and a
number of rows, this file is one process that makes a table and fits once.
"""

import importlib
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.common import tables
from experiments.common.results import Line

ROWS, QUICK_ROWS, NUM_COLUMNS = 50_000, 2_000, 10


class Data(NamedTuple):
    """Random rows.

    Attributes:
        numbers: f64[N, F], most of them in [-4, 4].
        label: bool[N].
    """

    numbers: np.ndarray
    label: np.ndarray


def random_rows(num_rows: int) -> Data:
    """Rows whose label depends on the first three columns."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(num_rows, NUM_COLUMNS))
    score = numbers[:, 0] + numbers[:, 1] * numbers[:, 2]
    return Data(numbers, score + rng.normal(size=num_rows) > 0)


class RecipeOptions(NamedTuple):
    """A recipe of the library by its name, and its options beside rows, domain and epsilon."""

    name: str
    options: Mapping[str, Any]


RECIPES = {
    "auto": RecipeOptions("auto", {}),
    "auto, delta": RecipeOptions("auto", {"delta": 1e-6}),
    "additive": RecipeOptions("additive", {}),
    "additive, delta": RecipeOptions("additive", {"delta": 1e-6}),
    "random_forest": RecipeOptions("random_forest", {"rounds": 20, "depth": 5}),
    "bdpe": RecipeOptions("bdpe", {"rounds": 20, "depth": 3}),
}
"""Name of a case -> its recipe."""


def _fit_recipe(name: str, data: Data) -> None:
    import dpbt
    from dpbt import recipes
    from dpbt.data.column_types import Numeric

    recipe_name, options = RECIPES[name]
    domain = {f"x{place}": Numeric(-4, 4, bins=64) for place in range(NUM_COLUMNS)}
    columns = {name: data.numbers[:, place] for place, name in enumerate(domain)}
    table = dpbt.table(domain, columns, data.label)
    make_recipe = getattr(recipes, recipe_name)
    if recipe_name in ("auto", "additive"):
        options = {**options, "domain": domain}
    recipe = make_recipe(epsilon=1.0, rows=len(data.label), **options)
    dpbt.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key())


def _fit_dp_ebm(data: Data) -> None:
    from experiments.common import peers

    peer_rows = peers.Rows(
        numbers=data.numbers,
        bounds=np.tile([-4.0, 4.0], (NUM_COLUMNS, 1)),
        nominal=np.zeros(NUM_COLUMNS, bool),
        unit=np.clip(data.numbers / 8 + 0.5, 0, 1),
        label=data.label.astype(int),
    )
    peers.private_ebm(peer_rows)()


def _fit_lightgbm(data: Data) -> None:
    lightgbm = importlib.import_module("lightgbm")
    lightgbm.LGBMClassifier(verbose=-1).fit(data.numbers, data.label)


PEERS: dict[str, tuple[str, Callable[[Data], None]]] = {
    "DP-EBM": ("interpret.privacy", _fit_dp_ebm),
    "LightGBM, without privacy": ("lightgbm", _fit_lightgbm),
}
"""Name of a case -> the module that it needs, and its fit."""


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


class _ProcessSeconds(NamedTuple):
    """The seconds of a process: of all processors, and by the clock."""

    cpu: float
    wall: float


def _time_process(case: str, num_rows: int, programs: str) -> _ProcessSeconds:
    """The seconds of a new process for one case, whose compiled programs are in a folder."""
    command = [sys.executable, "-m", "experiments.common.cold_start", case, str(num_rows)]
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": programs}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return _ProcessSeconds(user + system, wall)


def measure_case(case: str, num_rows: int) -> Line:
    """The line of a case: a first process, whose folder of programs is empty, and a second one."""
    with tempfile.TemporaryDirectory() as programs:
        first = _time_process(case, num_rows, programs)
        second = _time_process(case, num_rows, programs)
    return {
        "case": case,
        "rows": num_rows,
        "first_cpu_seconds": first.cpu,
        "first_seconds": first.wall,
        "second_cpu_seconds": second.cpu,
        "second_seconds": second.wall,
    }


def measure_all(*, quick: bool) -> list[Line]:
    """The lines of all recipes, and of the other libraries that are installed."""
    num_rows = QUICK_ROWS if quick else ROWS
    own_cases = ["auto"] if quick else list(RECIPES)
    peer_cases = [case for case, (module, _) in PEERS.items() if _is_installed(module)]
    return [measure_case(case, num_rows) for case in own_cases + peer_cases]


COLUMNS = {
    "first fit of a process": "{case}",
    "rows": "{rows}",
    "first process, CPU s": "{first_cpu_seconds:.2f}",
    "by the clock, s": "{first_seconds:.2f}",
    "second process, CPU s": "{second_cpu_seconds:.2f}",
    "by the clock again, s": "{second_seconds:.2f}",
}


def format_report(lines: Sequence[Line]) -> str:
    """The section in words."""
    return tables.format_table(lines, COLUMNS)


def main(arguments: Sequence[str]) -> None:
    """Fit one case once."""
    case, num_rows = arguments
    data = random_rows(int(num_rows))
    if case in RECIPES:
        _fit_recipe(case, data)
    else:
        PEERS[case][1](data)


if __name__ == "__main__":
    main(sys.argv[1:])
