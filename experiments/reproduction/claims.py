"""What the papers print, and whether our results agree with it.

`reproduction/claims/PAPER.json` holds a row for each table, figure, and claim in words that we
found. A row with numbers names a result of ours and one of its columns. Each of its cells says
which line of the result stands beside a printed number, and has that number as it is printed.

Our number agrees with a printed one if they differ by at most half a unit of its last digit, and
twice the standard error of the difference. That error has our part and the paper's, where it is
known. A claim that something is above or below a number agrees if ours is, and differs if ours is
not. It is undecided if ours is within twice that standard error of the number, on either side.

A claim that something is above or below a threshold has a `null`: what the number would be if the
claim had nothing to it, such as 0 for a difference, 50 for a share of wins, or that of shuffled
settings. A row whose null agrees, too, is undecided: its test could not have failed. `null_of_row`
says what it is.

A row agrees if nine tenths of its cells do, and more than of a baseline (`chance`). It is undecided
if it does not agree, and would if its undecided cells did or if it beat chance. The cells of a row
with `readings` are readings of one claim, and it is undecided if only some of them agree.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.common.results import Line

PAPERS = ("nock_henecka_2020", "asadi_2022", "bun_2020", "bojarski_2014")
CALIBRATIONS = ("published", "tight")
AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
MIN_AGREEING_SHARE = 0.9
"""The share of cells that agree in a row that agrees."""

KEYS = {
    *("id", "place", "words", "result", "column", "columns", "error", "relation", "cells"),
    *("printed_error", "unit", "figure", "run", "why", "cannot", "input", "reading", "domains"),
    *("uncounted", "of", "captions", "chance", "readings", "null"),
}
"""The keys of a row. `of` names the calibrations that its numbers are of, if it is not all. A
figure's `captions` are the domains that the print names, by the number of the figure."""

RELATIONS = {
    ">": lambda ours, printed: ours > printed,
    ">=": lambda ours, printed: ours >= printed,
    "<": lambda ours, printed: ours < printed,
    "<=": lambda ours, printed: ours <= printed,
}


class Measurement(NamedTuple):
    """Our value of a cell, and its standard error; both are None without a result."""

    value: float | str | None
    error: float | None


class Cell(NamedTuple):
    """One number of the paper beside ours.

    Attributes:
        paper: the paper.
        row: the id of the row.
        place: the table, figure or section.
        setting: column -> value of what the number is of; the line of our result has these values.
        printed_texts: the number as it is printed; and its spread, if there is one.
        lines: the line of our result by calibration, or None.
        measured: our value by calibration.
        agrees: AGREES, DIFFERS or UNDECIDED by calibration; None without a result.
        domains: on how many domains our value is, where the result says so.
    """

    paper: str
    row: str
    place: str
    setting: Mapping[str, Any]
    printed_texts: Sequence[str]
    lines: Mapping[str, Line | None]
    measured: Mapping[str, Measurement]
    agrees: Mapping[str, str | None]
    domains: int | None = None

    @property
    def printed(self) -> str:
        """The number as it is printed."""
        return self.printed_texts[0]


def rows_of_paper(paper: str) -> list[dict[str, Any]]:
    """The rows of a paper, as they are typed.

    Raises:
        InputError: for a row with an unknown key or without a place or words.
    """
    claim_rows = aggregated.read_claims(paper)
    for row in claim_rows:
        if set(row) - KEYS or not {"id", "place", "words"} <= set(row):
            raise InputError(f"claims of {paper}: bad row {row.get('id', row)}")
    return claim_rows


def cells_of_row(paper: str, row: Mapping[str, Any], folder: Path | None = None) -> Iterator[Cell]:
    """The cells of a row beside our results."""
    if not row.get("cells"):
        return
    try:
        lines = aggregated.read_result(paper, row["result"], folder)
    except InputError:
        lines = []
    for setting, *printed in row["cells"]:
        texts = [str(text) for text in printed]
        if texts[0].startswith("="):
            texts[0] = _evaluate_formula(lines, setting, texts[0][1:])
        line_by_calibration = {name: _find_line(lines, setting, name) for name in CALIBRATIONS}
        measured = {
            name: measurement_in_line(line, row, name) for name, line in line_by_calibration.items()
        }
        agrees = {name: judge_agreement(measured[name], texts, row) for name in CALIBRATIONS}
        counts = [
            line["domains"] for line in line_by_calibration.values() if line and line.get("domains")
        ]
        min_domains = min(counts, default=None)
        yield Cell(
            paper=paper,
            row=row["id"],
            place=row["place"],
            setting=setting,
            printed_texts=texts,
            lines=line_by_calibration,
            measured=measured,
            agrees=agrees,
            domains=min_domains,
        )


def _evaluate_formula(lines: Sequence[Line], setting: Mapping[str, Any], column: str) -> str:
    """A formula of the paper, evaluated in a column of the result."""
    line = _find_line(lines, setting, None)
    return "" if line is None or line.get(column) is None else f"{line[column]:g}"


def _find_line(
    lines: Sequence[Line], setting: Mapping[str, Any], calibration: str | None
) -> Line | None:
    """The first line that has these values, and the calibration or none."""
    for line in lines:
        if calibration and line.get("calibration", calibration) not in (calibration, "none"):
            continue
        if all(str(line.get(key)) == str(value) for key, value in setting.items()):
            return line
    return None


def measurement_in_line(
    line: Line | None, row: Mapping[str, Any], calibration: str, value: float | None = None
) -> Measurement:
    """Our value and its error in a line, or a given value and the error that it would have."""
    if line is None or calibration not in row.get("of", CALIBRATIONS):
        return Measurement(None, None)
    if value is None:
        column = row.get("columns", {}).get(calibration) or row.get("column")
        value = line.get(column) if column else None
        if value is None and "column" in row:
            value = line.get(row["column"])
    if value is None or isinstance(value, str):
        return Measurement(value, None)
    return Measurement(float(value), _error_by_rule(line, row, calibration, float(value)))


def _error_by_rule(line: Line, row: Mapping[str, Any], calibration: str, value: float) -> float:
    """Our standard error, by the row's rule.

    A rule has one of these keys:

    - `column`: the column of the error itself;
    - `binomial`: the number of trials, or the columns whose sum it is;
    - `half_width`: a column with half a 95 % interval;
    - `sd`: a column with a standard deviation, whose number of draws is in the column `count`;
    - `of_sd`: the value is itself a standard deviation of that many draws.
    """
    rule = row.get("error", {})
    if "binomial" in rule:
        trials = rule["binomial"]
        if isinstance(trials, list):
            trials = sum(float(line[name]) for name in trials)
        return _binomial_error(value, trials, rule.get("of", trials))
    if "of_sd" in rule:
        return _error_from_sd(value, float(line[rule["count"]]))
    spread = rule.get("column") or rule.get("half_width") or rule.get("sd")
    if isinstance(spread, dict):
        spread = spread[calibration]
    if spread is None or line.get(spread) is None:
        return 0.0
    if "column" in rule:
        return float(line[spread])
    if "half_width" in rule:
        return float(line[spread]) / 1.96
    return float(line[spread]) / math.sqrt(float(line[rule["count"]]))


def _error_from_sd(value: float, count: float) -> float:
    """The standard error of a standard deviation of `count` normal draws."""
    return value / math.sqrt(2 * (count - 1))


def _binomial_error(value: float, trials: float, scale: float) -> float:
    """The standard error of a count in `trials`, printed as a number up to `scale`.

    Four imagined trials, of which two succeed, keep it above 0.
    """
    share = (value / scale * trials + 2) / (trials + 4)
    return scale * math.sqrt(share * (1 - share) / (trials + 4))


def judge_agreement(measured: Measurement, printed: Sequence, row: Mapping[str, Any]) -> str | None:
    """Whether our value agrees with what is printed; None without a result.

    Args:
        measured: our value.
        printed: the number as it is printed; and its spread, if there is one.
        row: has the relation and the rules of the errors.
    """
    if measured.value is None or not printed[0]:
        return None
    if isinstance(measured.value, str):
        return AGREES if measured.value == printed[0] else DIFFERS
    number, relation = float(printed[0]), row.get("relation", "=")
    width = allowed_difference(measured, printed, row)
    if relation != "=":
        if width and abs(measured.value - number) <= width:
            return UNDECIDED
        return AGREES if RELATIONS[relation](measured.value, number) else DIFFERS
    return AGREES if abs(measured.value - number) <= width + 1e-9 else DIFFERS


def allowed_difference(measured: Measurement, printed: Sequence, row: Mapping[str, Any]) -> float:
    """How far a number of ours may be from a printed one."""
    printed_error = _printed_error(float(printed[0]), printed, row)
    width = 2 * math.hypot(measured.error or 0.0, printed_error)
    if row.get("relation", "=") != "=":
        return width
    return width + row.get("unit", unit_of_last_digit(str(printed[0]))) / 2


def _printed_error(number: float, printed: Sequence, row: Mapping[str, Any]) -> float:
    """The standard error of a printed number, where it is known."""
    rule = row.get("printed_error", {})
    if "binomial" in rule:
        return _binomial_error(number, rule["binomial"], rule.get("of", rule["binomial"]))
    if "of_sd" in rule:
        return _error_from_sd(number, rule["count"])
    if len(printed) < 2 or not rule:
        return 0.0
    spread = float(printed[1])
    if "percent_of" in rule:
        spread *= 100 / rule["percent_of"]
    return spread / 1.96 if rule.get("half_width") else spread / math.sqrt(rule["count"])


def unit_of_last_digit(text: str) -> float:
    """One unit of the last digit of a number as it is printed: 0.01 for "0.83"."""
    _, _, decimals = text.partition(".")
    return 10.0 ** -len(decimals)


class Null(NamedTuple):
    """What a number above or below a threshold would be without the claim.

    Attributes:
        words: what it is of.
        value: the number.
    """

    words: str
    value: float


_NULLS_BY_THRESHOLD = {"0": Null("no difference", 0.0), "50": Null("a fair coin", 50.0)}
"""The nulls of rows that name none, by their only threshold."""


def null_of_row(
    row: Mapping[str, Any], cells: Sequence[Cell], calibration: str, folder: Path | None = None
) -> Null | None:
    """The null of a row; None without one, or without the result that it is in.

    A row states `{"words", "value"}`; or `{"words", "name"}` if a line of that name has the number
    in its column `value`, in its own result or in that of the key `result`.
    """
    if row.get("relation", "=") == "=" or not cells:
        return None
    if "null" not in row:
        thresholds = {text for _, text, *_ in row["cells"]}
        return _NULLS_BY_THRESHOLD.get(thresholds.pop()) if len(thresholds) == 1 else None
    null = row["null"]
    if "value" in null:
        return Null(null["words"], float(null["value"]))
    lines = aggregated.read_result(cells[0].paper, null.get("result", row["result"]), folder)
    line = _find_line(lines, {"name": null["name"]}, calibration)
    return None if line is None else Null(null["words"], float(line["value"]))


def is_null_agreeing(
    null: Null, row: Mapping[str, Any], cells: Sequence[Cell], calibration: str
) -> bool:
    """Whether the null agrees with all printed numbers, with the errors that ours have."""
    measured_cells = [cell for cell in cells if cell.measured[calibration].value is not None]
    return bool(measured_cells) and all(
        judge_agreement(
            Measurement(null.value, cell.measured[calibration].error), cell.printed_texts, row
        )
        == AGREES
        for cell in measured_cells
    )


class Verdict(NamedTuple):
    """What a row says of one calibration.

    Attributes:
        agreeing: how many cells agree.
        undecided: how many are undecided.
        known: how many have a result.
        cells: how many there are.
        min_agreeing: how many must agree.
        is_above_chance: whether more agree than by chance, and no null agrees.
    """

    agreeing: int
    undecided: int
    known: int
    cells: int
    min_agreeing: float
    is_above_chance: bool = True

    @property
    def word(self) -> str:
        """agrees, undecided, differs, or not run."""
        if not self.known:
            return "not run"
        if self.agreeing >= self.min_agreeing:
            return AGREES if self.is_above_chance else UNDECIDED
        return UNDECIDED if self.agreeing + self.undecided >= self.min_agreeing else DIFFERS


def judge_row(row: Mapping[str, Any], cells: Sequence[Cell], calibration: str) -> Verdict:
    """Count the cells that agree, and those that are undecided, without regard to chance."""
    marks = [cell.agrees[calibration] for cell in cells]
    agreeing, num_measured = marks.count(AGREES), len(marks) - marks.count(None)
    if row.get("readings"):
        undecided = num_measured - agreeing if agreeing else marks.count(UNDECIDED)
        min_agreeing = float(num_measured)
    else:
        undecided, min_agreeing = marks.count(UNDECIDED), MIN_AGREEING_SHARE * num_measured
    return Verdict(
        agreeing=agreeing,
        undecided=undecided,
        known=num_measured,
        cells=len(marks),
        min_agreeing=min_agreeing,
    )
