"""Claims of the paper that need no run: its theorems, and what the saved grids and readings say.

The grids are those of `aggregate`, and the readings of the step those of `readings steps`. These
have depth 2, beta_tree = 1/2, and T of 2 and 20.
"""

import argparse
import datetime
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dpbt import sweeps
from experiments.common import aggregated, results
from experiments.common.estimates import mean_with_error
from experiments.common.results import Line, distinct, where
from experiments.papers.nock_henecka_2020 import reading_tables, theorems
from experiments.papers.nock_henecka_2020.options import READINGS
from experiments.papers.nock_henecka_2020.reading_tables import CLAIMED_ERROR
from experiments.papers.nock_henecka_2020.saved import DEPTHS, NONE
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    CALIBRATIONS,
    EPSILONS,
    FORESTS,
    NAME,
    PAPER_BINS,
    PAPER_CLIPS,
)

SHOWN_READINGS = ("second, tree", "first, public")
"""The reading of the step that is nearest to Table 4, and that of the text."""

MAX_SHALLOW = 3
"""The depths above are those of rather deep trees; the paper does not say."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    aggregated.add_out(parser)
    words = "the errors of the readings of the step (%(default)s)"
    parser.add_argument("--steps", metavar="FILE", default="docs/nock_steps.csv", help=words)
    parser.set_defaults(reduced=None)


def run_command(options: argparse.Namespace) -> None:
    """Write the claims beside the other aggregated results."""
    out = Path(options.out)
    steps = results.read_csv(
        Path(options.steps), f"{NAME} readings steps --doc docs/nock_henecka.md"
    )
    claims = {
        "theorems": theorems.claim_lines(),
        "words": [*_compromise_lines(out), *_banknote_lines(out)],
        "steps": list(_step_claim_lines(steps)),
        "steps_table_1": list(_table_1_lines(steps)),
        "steps_table_4": list(_table_4_lines(steps)),
    }
    origin = {**sweeps.provenance(), "command": f"python -m experiments {NAME} claims"}
    origin["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name, lines in claims.items():
        aggregated.write_result(options, NAME, name, lines=lines, origin=origin)


def _mean_line(name: str, values: Sequence[float] | np.ndarray, **head: str) -> Line:
    """The mean of values over domains or settings, and its standard error."""
    value, error = mean_with_error(values)
    return {"name": name, **head, "value": value, "error": error}


def _depth_errors(line: Line) -> list[float]:
    """The mean errors of a line of a grid, by depth."""
    return [line[f"d{depth}"] for depth in DEPTHS]


def _compromise_lines(out: Path) -> Iterator[Line]:
    """What v_q = 10 and M = 10 lose to the best of all six, in points."""
    best = {}
    for bins, clip in itertools.product(PAPER_BINS, PAPER_CLIPS):
        grid = where(
            aggregated.read_result(NAME, f"grid_{bins}_{clip:g}", out), calibration=CALIBRATIONS[0]
        )
        smallest: dict[tuple, float] = {}
        for line in grid:
            place = line["domain"], line["epsilon"]
            smallest[place] = min(smallest.get(place, 1.0), *_depth_errors(line))
        errors = np.array([smallest[place] for place in sorted(smallest)])
        best[bins, clip] = errors.reshape(-1, len(EPSILONS))
    winner = min(best.values(), key=np.mean)
    lost = 100 * (best[10, 10.0] - winner).mean(1)
    name = "best error at v_q = 10 and M = 10 above that of the best of six, points"
    yield _mean_line(name, lost, calibration=CALIBRATIONS[0])


def _banknote_lines(out: Path) -> Iterator[Line]:
    """The private panes of Figure 2: the ways to set alpha, and the depths of the best runs."""
    grid = where(aggregated.read_result(NAME, "grid_10_10", out), domain="banknote")
    for calibration in distinct(grid, "calibration"):
        if calibration == NONE:
            continue
        sizes = ("epsilon", "beta_tree", "rounds")
        lines = sorted(
            where(grid, calibration=calibration), key=lambda line: [line[name] for name in sizes]
        )
        by_way = [
            np.array([_depth_errors(line) for line in lines if str(line["alpha"]) == way])
            for way in ALPHA_NAMES
        ]
        objective, alpha_tenth, alpha_1 = by_way
        better = min((alpha_tenth, alpha_1), key=np.mean)
        head = {"calibration": calibration}
        name = "banknote, private runs: alpha 1 less 0.1, points"
        yield _mean_line(name, 100 * (alpha_1 - alpha_tenth).ravel(), **head)
        name = "banknote, private runs: O.C. less the better constant, points"
        yield _mean_line(name, 100 * (objective - better).ravel(), **head)
        errors = np.stack(by_way)
        is_deep = np.broadcast_to(np.array(DEPTHS) > MAX_SHALLOW, errors.shape)
        best_tenth = np.argsort(errors, axis=None, kind="stable")[: errors.size // 10]
        name = "banknote, best tenth of private runs: deep trees, percent"
        yield {
            "name": name,
            **head,
            "value": 100 * float(is_deep.ravel()[best_tenth].mean()),
            "error": None,
        }


def _step_claim_lines(steps: Sequence[Line]) -> Iterator[Line]:
    """The claims in words under each reading of the step."""
    for reading in distinct(steps, "reading"):
        lines, head = where(steps, reading=reading), {"reading": reading}
        errors = reading_tables.mean_errors(lines)
        objective, alpha_tenth, alpha_1 = np.moveaxis(errors, 3, 0)
        smallest = [of_way.min((1, 2, 3)) for of_way in (objective, alpha_tenth, alpha_1)]
        above = 100 * (smallest[0] - np.minimum(smallest[1], smallest[2]))
        yield _mean_line("best O.C. above the better constant, points", above, **head)
        share = reading_tables.win_shares(alpha_1, alpha_tenth)
        yield _mean_line("alpha 1 beats 0.1, percent of settings", share, **head)
        banknote = errors[distinct(lines, "domain").index("banknote")]
        for k, way in enumerate(ALPHA_NAMES):
            within = 100 * float(np.mean(banknote[..., k, :] <= CLAIMED_ERROR))
            name = f"banknote runs of at most 20 %, {way}, percent"
            yield {"name": name, **head, "value": within, "error": None}
        if not READINGS[reading].has_noise:
            continue
        signs = reading_tables.win_signs(lines)
        percent = np.nan_to_num(reading_tables.win_percentages(signs, (0, 1, 2)))
        few, many = percent[..., 0], percent[:, [0, 2], 1]  # of [forest, alpha, T]
        for name, percentages in (("T = 2", few), ("T = 20, O.C. and 1", many)):
            words = f"wins against forests, {name}, percent at least"
            yield {"name": words, **head, "value": float(percentages.min()), "error": None}


def _table_1_lines(steps: Sequence[Line]) -> Iterator[Line]:
    """Table 1 under the readings of SHOWN_READINGS."""
    for reading in SHOWN_READINGS:
        errors = reading_tables.mean_errors(where(steps, reading=reading)).min((2, 4))
        counts = reading_tables.count_best_alphas(errors)
        for (e, epsilon), (k, way) in itertools.product(
            enumerate(EPSILONS), enumerate(ALPHA_NAMES)
        ):
            line: Line = {"reading": reading, "epsilon": epsilon, "alpha": way}
            yield line | {"count": int(counts[e, k]), "domains": len(errors)}


def _table_4_lines(steps: Sequence[Line]) -> Iterator[Line]:
    """Table 4 at depth 2 under the readings of SHOWN_READINGS."""
    for reading in SHOWN_READINGS:
        lines = where(steps, reading=reading)
        signs = reading_tables.win_signs(lines)[:, :, distinct(lines, "depth").index(2)]
        wins, losses = (np.sum(signs == sign, axis=1) for sign in (-1, 1))
        axes = distinct(lines, "domain"), FORESTS.values(), ALPHA_NAMES, reading_tables.ROUNDS
        for place, (domain, forest, way, rounds) in zip(
            np.ndindex(wins.shape), itertools.product(*axes), strict=True
        ):
            won, lost = int(wins[place]), int(losses[place])
            line: Line = {"reading": reading, "domain": domain, "depth": 2, "rounds": rounds}
            line |= {"alpha": way, "forest": forest, "wins": won, "losses": lost}
            yield line | {"percent": 100 * won / (won + lost) if won + lost else None}
