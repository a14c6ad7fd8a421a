"""What chance scores in a row of many numbers, and whether ours are nearer to the print.

A row of more than four numbers names its baseline, which is judged by the same rule as our numbers:

- `{"coin": AXIS}`: every trial falls on one of the values of AXIS, each as likely as the others;
- `{"constant": AXIS}`: one number stands in all cells, with the error that it would have as ours.
  It is the printed number that agrees with most cells;
- `{"shuffled": AXIS}`: our numbers of each value of AXIS stand beside those printed of another one.

A coin and a shuffle have a spread of their own. That of a constant is over the values of AXIS, of
what ours score more. All of them are exact: nothing is drawn.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multinomial

from experiments.reproduction import claims
from experiments.reproduction.claims import AGREES, Cell, Measurement

MIN_STANDARD_ERRORS = 2
"""By how many standard errors ours must score more than chance."""


class Chance(NamedTuple):
    """What a baseline scores.

    Attributes:
        words: the baseline, in words.
        agreeing: how many cells agree with it, in expectation.
        error: the standard error of what ours score more.
    """

    words: str
    agreeing: float
    error: float

    def is_beaten_by(self, agreeing: int) -> bool:
        """Whether so many cells that agree are more than chance."""
        return agreeing - self.agreeing > MIN_STANDARD_ERRORS * self.error


def chance_of_row(row: Mapping[str, Any], cells: Sequence[Cell], name: str) -> Chance | None:
    """The baseline of a row; None without one, or without results.

    Args:
        row: the row of claims.
        cells: its cells.
        name: the calibration.
    """
    if "chance" not in row or all(cell.agrees[name] is None for cell in cells):
        return None
    ((kind, axis),) = row["chance"].items()
    return {
        "coin": _chance_of_coin,
        "constant": _chance_of_constant,
        "shuffled": _chance_of_shuffle,
    }[kind](row, cells, name, axis)


def _is_agreeing(measured: Measurement, cell: Cell, row: Mapping[str, Any]) -> bool:
    return claims.judge_agreement(measured, cell.printed_texts, row) == AGREES


def _groups_by_axis(cells: Sequence[Cell], axis: str) -> Iterator[tuple[Any, list[Cell]]]:
    """The values of an axis, each with its cells."""
    for value in dict.fromkeys(cell.setting[axis] for cell in cells):
        yield value, [cell for cell in cells if cell.setting[axis] == value]


def _other_axes(cell: Cell, axis: str) -> tuple:
    """What a cell stands for but an axis."""
    return tuple(pair for pair in cell.setting.items() if pair[0] != axis)


def _chance_of_coin(row: Mapping[str, Any], cells: Sequence[Cell], name: str, axis: str) -> Chance:
    """The trials of a line are tossed; lines are independent."""
    trials, ways = row["error"]["binomial"], len(list(_groups_by_axis(cells, axis)))
    all_counts = itertools.product(range(trials + 1), repeat=ways)
    counts = np.asarray([tosses for tosses in all_counts if sum(tosses) == trials])
    chance = multinomial.pmf(counts, trials, [1 / ways] * ways)
    mean = square = 0.0
    for rest in dict.fromkeys(_other_axes(cell, axis) for cell in cells):
        cells_of_line = [cell for cell in cells if _other_axes(cell, axis) == rest]
        is_agreeing = [
            [
                _is_agreeing(claims.measurement_in_line({}, row, name, float(n)), cell, row)
                for n in range(trials + 1)
            ]
            for cell in cells_of_line
        ]
        score = sum(np.asarray(by_count)[counts[:, k]] for k, by_count in enumerate(is_agreeing))
        mean += float(chance @ score)
        square += float(chance @ score**2 - (chance @ score) ** 2)
    return Chance("coin", mean, math.sqrt(square))


def _chance_of_constant(
    row: Mapping[str, Any], cells: Sequence[Cell], name: str, axis: str
) -> Chance:
    """The best of the printed numbers in all cells that have one of ours."""
    cells_with_results = [cell for cell in cells if cell.agrees[name] is not None]
    groups = [group for _, group in _groups_by_axis(cells_with_results, axis)]

    def scores(text: str) -> np.ndarray:
        return np.asarray(
            [
                sum(
                    _is_agreeing(
                        claims.measurement_in_line(cell.lines[name], row, name, float(text)),
                        cell,
                        row,
                    )
                    for cell in group
                )
                for group in groups
            ]
        )

    best = max(
        sorted({cell.printed for cell in cells_with_results}), key=lambda text: scores(text).sum()
    )
    num_agreeing = [sum(cell.agrees[name] == AGREES for cell in group) for group in groups]
    gains = np.asarray(num_agreeing) - scores(best)
    spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else 0.0
    return Chance(f"constant {best}", float(scores(best).sum()), math.sqrt(len(gains)) * spread)


def _chance_of_shuffle(
    row: Mapping[str, Any], cells: Sequence[Cell], name: str, axis: str
) -> Chance:
    """All permutations of the values of an axis, by the mean and variance of a random one.

    Values of which no cell has a result are left out.
    """
    groups = [
        {_other_axes(cell, axis): cell for cell in group}
        for _, group in _groups_by_axis(cells, axis)
        if any(cell.agrees[name] is not None for cell in group)
    ]
    score = np.asarray(
        [
            [
                sum(
                    _is_agreeing(source[rest].measured[name], cell, row)
                    for rest, cell in group.items()
                    if rest in source
                )
                for source in groups
            ]
            for group in groups
        ],
        float,
    )
    centred = score - score.mean(axis=0) - score.mean(axis=1, keepdims=True) + score.mean()
    variance = (centred**2).sum() / (len(groups) - 1)
    words = {"dataset": "data set"}.get(axis, axis)
    return Chance(f"shuffled {words}s", float(score.sum() / len(groups)), math.sqrt(variance))
