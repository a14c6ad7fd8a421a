"""Write docs/reproduction.md from the papers' claims and our aggregated results.

The page has a row for each table and figure, and for each claim in words that we found.
docs/reproduction.csv has every number. Nothing of ours is typed in either. The tables of the
papers' own pages are written, too.
"""

import argparse
import csv
import io
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpbt.common.storage import write_atomically
from experiments.common import aggregated, results, tables
from experiments.reproduction import chance, claims, doc_tables

TITLES = {
    "nock_henecka_2020": "Nock & Henecka (2020)",
    "asadi_2022": "Asadi et al. (2022)",
    "bun_2020": "Bun et al. (2020)",
    "bojarski_2014": "Bojarski et al. (2014)",
}
COLUMNS = {"bojarski_2014": ("as printed", "negative counts as 0")}
"""Paper -> its two columns, where they are not the calibrations."""

VERDICT_WORDS = (
    *("agrees", "undecided", "differs", "drawn", "input", "cannot be run", "not counted"),
    "not run",
)
SUMMARY = """\
How many rows have each verdict (first / second column, where they differ). Below a paper stands
what the verdicts would be without chance, by the share of numbers that agree, where they differ:
"""
VERDICT_PLACE = 5
"""The place of the verdict in a row."""

SAME_NUMBERS = "the same"
"""What stands in the second column for the numbers of the first one."""

INTRODUCTION = """\
# The papers' tables, figures and claims beside ours

This page has a row for every table and figure of the papers, and for the claims in words that we
found in them. It is for readers who want to know what holds up. `make reproduction` writes it from
[reproduction/](../reproduction/README.md), and a test says that it is up to date.
[reproduction.csv](reproduction.csv) has every printed number beside ours.
[Gallery](gallery.md) has the figures.

- *published* and *tight* are our two calibrations of the noise. Bojarski et al. have one noise and
  two readings of a leaf with a negative count.
- A number of ours stands with twice its standard error, where it has one: over keys, folds, test
  rows, or domains. Of a row with many numbers, the columns say how many of ours agree. Numbers that
  both columns share stand once.
- *agrees*: ours differs by at most half a unit of the printed number's last digit, plus twice the
  standard error of the difference. Where a row has another unit, its words say so. A claim of
  "more" or "less" agrees if ours is, by more than twice that standard error. Without a standard
  error, any difference counts. A row agrees if nine tenths of its numbers do. If it has more than
  four, they must also be more than chance scores, by two standard errors. A table below those of
  each paper says what chance scores.
- *undecided*: a claim of "more" or "less" holds or fails by at most twice the standard error. A row
  is undecided if it does not agree, but would if its undecided numbers did. So is one that agrees
  no more than chance, one whose words have two readings of which one agrees, and one with a
  threshold that a null passes, too: its test could not have failed. A table has the nulls.
- *in part*: some of the row's numbers have none of ours beside them. They were not run yet, or no
  number comes of the runs, such as a share of no differences.
- *drawn*: the paper shows curves and prints no numbers, and the figure is drawn from our results.
- *reading*: the paper gives no number, and the threshold is our reading of its words.
- *input*: the numbers are settings, and our runs take them.
- *not counted*: no result of ours says whether the claim holds. The last column says why.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "the folder of the page (%(default)s)"
    parser.add_argument("--out", metavar="FOLDER", default="docs", help=words)


def run_command(options: argparse.Namespace) -> None:
    """Write the page and its numbers, and the tables of the papers' pages that are there."""
    texts = page_texts()
    for name in doc_tables.TABLES:
        path = Path(options.out) / name
        if path.exists():
            texts[name] = doc_tables.fill_page(name, path.read_text())
    for name, text in texts.items():
        path = Path(options.out) / name
        write_atomically(path, lambda part, text=text: part.write_text(text))
        print(path)


class JudgedRow(NamedTuple):
    """A row of claims beside our results.

    Attributes:
        row: as it is typed.
        cells: its numbers.
        chance: calibration -> the baseline, or None.
        nulls: calibration -> the null of a row with a threshold, or None.
        verdicts: calibration -> the verdict.
    """

    row: dict[str, Any]
    cells: list[claims.Cell]
    chance: dict[str, chance.Chance | None]
    nulls: dict[str, claims.Null | None]
    verdicts: dict[str, claims.Verdict]


def judge_claim(paper: str, row: dict[str, Any], folder: Path | None = None) -> JudgedRow:
    """A row with its numbers, its baseline and its verdicts, of the calibrations that it is of."""
    cells = list(claims.cells_of_row(paper, row, folder))
    calibrations = row.get("of", claims.CALIBRATIONS) if cells else ()
    baselines = {name: chance.chance_of_row(row, cells, name) for name in calibrations}
    verdicts = {name: claims.judge_row(row, cells, name) for name in calibrations}
    for name, baseline in baselines.items():
        if baseline is not None:
            is_beaten = baseline.is_beaten_by(verdicts[name].agreeing)
            verdicts[name] = verdicts[name]._replace(is_above_chance=is_beaten)
    nulls = {name: claims.null_of_row(row, cells, name, folder) for name in calibrations}
    for name, null in nulls.items():
        if null is not None and claims.is_null_agreeing(null, row, cells, name):
            verdicts[name] = verdicts[name]._replace(is_above_chance=False)
    return JudgedRow(row, cells, baselines, nulls, verdicts)


def page_texts(folder: Path | None = None) -> dict[str, str]:
    """The files that the command writes: name -> text."""
    sections, lines, tallies = [], [], []
    for paper in claims.PAPERS:
        rows = [judge_claim(paper, row, folder) for row in claims.rows_of_paper(paper)]
        page_rows, tally, tally_by_share = [], Counter(), Counter()
        for judged_row in rows:
            lines += [_csv_line(cell) for cell in judged_row.cells]
            page_row = _page_row(judged_row, aggregated.result_names(paper, folder))
            tally.update(_verdict_words(judged_row, page_row[VERDICT_PLACE]))
            verdicts_by_share = {
                name: verdict._replace(is_above_chance=True)
                for name, verdict in judged_row.verdicts.items()
            }
            tally_by_share.update(
                _verdict_words(
                    judged_row._replace(verdicts=verdicts_by_share), page_row[VERDICT_PLACE]
                )
            )
            page_rows.append(page_row)
        columns = COLUMNS.get(paper, claims.CALIBRATIONS)
        head = ("place", "what it says", "paper", *columns, "verdict", "why")
        tallies.append(
            (
                TITLES[paper],
                str(len(page_rows)),
                *(_join_columns(tally, word) for word in VERDICT_WORDS),
            )
        )
        if tally_by_share != tally:
            tallies.append(
                (
                    "by the share alone",
                    "",
                    *(_join_columns(tally_by_share, word) for word in VERDICT_WORDS),
                )
            )
        chance_section = _chance_table(
            [judged_row for judged_row in rows if "chance" in judged_row.row], columns
        )
        sections.append(
            f"## {TITLES[paper]}\n\n{tables.markdown_table(head, page_rows)}\n\n"
            f"{chance_section}{_null_table(rows, columns)}{_origin_table(paper, folder)}"
        )
    summary = f"{SUMMARY}\n{tables.markdown_table(('paper', 'rows', *VERDICT_WORDS), tallies)}\n"
    page = "\n".join((INTRODUCTION, summary, *sections))
    return {"reproduction.md": page, "reproduction.csv": _csv_text(lines)}


CHANCE_INTRODUCTION = """\
Rows of many numbers beside chance. *chance* is how many would agree with a coin, with the best
single number in all cells, or with our numbers shuffled; twice the standard error of the
difference stands with it. The last columns are in the unit of the row: the mean and the standard
deviation of ours less the print, what the rule allows in the median, and how far the farthest
number is that agrees.
"""


def _chance_table(rows: Sequence[JudgedRow], columns: Sequence[str]) -> str:
    """The table of rows that have a baseline; empty without one."""
    lines = []
    for judged_row in rows:
        baselines = {
            name: baseline for name, baseline in judged_row.chance.items() if baseline is not None
        }
        is_shared = len(baselines) > 1 and _is_shared(judged_row.cells)
        for name, baseline in list(baselines.items())[: 1 if is_shared else None]:
            verdict = judged_row.verdicts[name]
            score = f"{baseline.agreeing:.1f} ± {2 * baseline.error:.1f}"
            column = "both" if is_shared else columns[claims.CALIBRATIONS.index(name)]
            line = (
                judged_row.row["place"],
                column,
                f"{verdict.agreeing} of {verdict.known}",
                baseline.words,
            )
            lines.append(
                (
                    *line,
                    score,
                    "yes" if verdict.is_above_chance else "no",
                    *_spread_words(judged_row, name),
                )
            )
    if not lines:
        return ""
    head = ("place", "column", "agree", "baseline", "chance", "more than chance")
    head = (*head, "ours less the print", "allowed, farthest")
    return f"{CHANCE_INTRODUCTION}\n{tables.markdown_table(head, lines)}\n\n"


NULL_INTRODUCTION = """\
Claims with a threshold beside a null: what the number would be without the claim. Where it passes,
too, the row is undecided. Rows that compare with a formula of the paper have none.
"""


def _null_table(rows: Sequence[JudgedRow], columns: Sequence[str]) -> str:
    """The table of rows that have a null; empty without one."""
    lines = []
    for judged_row in rows:
        row, cells = judged_row.row, judged_row.cells
        nulls = {name: null for name, null in judged_row.nulls.items() if null is not None}
        is_shared = len(set(nulls.values())) == 1 and _is_shared(cells)
        for name, null in list(nulls.items())[: 1 if is_shared else None]:
            is_passing = claims.is_null_agreeing(null, row, cells, name)
            column = "both" if is_shared else columns[claims.CALIBRATIONS.index(name)]
            ours = _measured_cell(cells, name, judged_row.verdicts[name])
            threshold = _paper_cell(row, cells)
            line = (row["place"], row["id"], column, threshold, ours, null.words)
            lines.append((*line, f"{null.value:.4g}", "yes" if is_passing else "no"))
    if not lines:
        return ""
    head = ("place", "row", "column", "threshold", "ours", "null", "its number", "passes")
    return f"{NULL_INTRODUCTION}\n{tables.markdown_table(head, lines)}\n\n"


def _spread_words(judged_row: JudgedRow, name: str) -> tuple[str, str]:
    """Mean and deviation of ours less the print; the allowance, and the farthest that agrees."""
    cells_with_numbers = [
        cell for cell in judged_row.cells if isinstance(cell.measured[name].value, float)
    ]
    if not cells_with_numbers:
        return "", ""
    gaps = [
        float(cell.measured[name].value or 0.0) - float(cell.printed) for cell in cells_with_numbers
    ]
    agree = [cell.agrees[name] == claims.AGREES for cell in cells_with_numbers]
    farthest = max((abs(gap) for gap, agrees in zip(gaps, agree, strict=True) if agrees), default=0)
    allowed = statistics.median(
        claims.allowed_difference(cell.measured[name], cell.printed_texts, judged_row.row)
        for cell in cells_with_numbers
    )
    spread = f"{statistics.fmean(gaps):.3g}, {statistics.stdev(gaps):.2g}"
    return spread, f"{allowed:.2g}, {farthest:.2g}"


def _verdict_words(judged_row: JudgedRow, page_verdict: str) -> Iterator[tuple[str, str]]:
    """(calibration, verdict) of a row."""
    for name in claims.CALIBRATIONS:
        verdict = judged_row.verdicts.get(name) or next(iter(judged_row.verdicts.values()), None)
        yield name, verdict.word if verdict else page_verdict


def _join_columns(tally: Counter, word: str) -> str:
    """How many rows have a verdict: one number, or published and tight."""
    counts = [tally[name, word] for name in claims.CALIBRATIONS]
    return str(counts[0]) if counts[0] == counts[1] else " / ".join(map(str, counts))


def _page_row(judged_row: JudgedRow, results_of_paper: Sequence[str]) -> tuple[str, ...]:
    """The cells of the page for one row; `results_of_paper` are the paper's results."""
    row, cells, verdicts = judged_row.row, judged_row.cells, judged_row.verdicts
    why = row.get("cannot") or row.get("uncounted") or row.get("why", "")
    place = f"[{row['place']}](gallery.md)" if "figure" in row else row["place"]
    head = (place, row["words"])
    kinds = {"cannot": "cannot be run", "uncounted": "not counted", "input": "input"}
    word = next((word for key, word in kinds.items() if row.get(key)), "")
    if not word and not cells:
        is_drawn = "figure" in row and ("result" not in row or row["result"] in results_of_paper)
        word = "drawn" if is_drawn else "not run"
    if word:
        return (*head, "", "", "", word, why)
    calibrations = claims.CALIBRATIONS
    measured_cells = [
        _measured_cell(cells, name, verdicts[name]) if name in verdicts else ""
        for name in calibrations
    ]
    if measured_cells[0] and _is_shared(cells):
        measured_cells[1] = SAME_NUMBERS
    words = list(dict.fromkeys(count.word for count in verdicts.values()))
    verdict = words[0] if len(words) == 1 else ", ".join(words)
    if "not run" in words and "run" in row:
        why = f"`python -m experiments {row['run']}` {why}".strip()
    if any(0 < count.known < count.cells for count in verdicts.values()):
        verdict += " in part"
    domains = min((cell.domains for cell in cells if cell.domains), default=None)
    if "domains" in row and domains and domains < row["domains"]:
        verdict += f", on {domains} of {row['domains']} domains"
    if row.get("reading"):
        verdict += " (reading)"
    return (*head, _paper_cell(row, cells), *measured_cells, verdict, why)


def _paper_cell(row: dict[str, Any], cells: Sequence[claims.Cell]) -> str:
    """What is printed: one number, few numbers, or how many."""
    relation = row.get("relation", "=")
    sign = "" if relation == "=" else f"{relation} "
    numbers = list(dict.fromkeys(cell.printed for cell in cells))
    if len(cells) > 4 and len(numbers) > 1:
        return f"{len(cells)} numbers"
    return ", ".join(f"{sign}{number}" for number in numbers)


def _measured_cell(cells: Sequence[claims.Cell], name: str, verdict: claims.Verdict) -> str:
    """Our numbers: up to four, or how many agree."""
    if not verdict.known:
        return ""
    if verdict.cells <= 4:
        return ", ".join(_format_number(cell.measured[name]) for cell in cells)
    undecided_words = f", {verdict.undecided} undecided" if verdict.undecided else ""
    missing_words = (
        "" if verdict.known == verdict.cells else f" ({verdict.cells - verdict.known} without ours)"
    )
    return f"{verdict.agreeing} of {verdict.known} agree{undecided_words}{missing_words}"


def _is_shared(cells: Sequence[claims.Cell]) -> bool:
    """Whether both columns have the same numbers."""
    first, second = claims.CALIBRATIONS
    return all(cell.measured[first] == cell.measured[second] for cell in cells)


def _format_number(measured: claims.Measurement) -> str:
    if measured.value is None:
        return "-"
    if isinstance(measured.value, str):
        return measured.value
    error = f" ± {2 * measured.error:.2g}" if measured.error else ""
    is_whole = float(measured.value).is_integer()
    return f"{measured.value:.0f}{error}" if is_whole else f"{measured.value:.4g}{error}"


def _csv_line(cell: claims.Cell) -> results.Line:
    """A line of the file of all numbers."""
    line: results.Line = {"paper": cell.paper, "row": cell.row, "place": cell.place}
    where = " ".join(f"{key}={value}" for key, value in cell.setting.items())
    line |= {"where": where, "printed": cell.printed}
    for name in claims.CALIBRATIONS:
        value, error = cell.measured[name]
        line[name] = f"{value:.4g}" if isinstance(value, float) else value
        line[f"{name} standard error"] = f"{error:.2g}" if error else None
        line[f"{name} verdict"] = cell.agrees[name]
    return line


def _csv_text(lines: Sequence[results.Line]) -> str:
    """The lines as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _shorten_commits(commits: str) -> str:
    """The first ten digits of each commit."""
    return ", ".join(commit[:10] for commit in commits.split(aggregated.COMMIT_SEPARATOR))


def _origin_table(paper: str, folder: Path | None) -> str:
    """What made the results of a paper."""
    names_by_origin = {}
    for name in aggregated.result_names(paper, folder):
        origin = aggregated.read_origin(paper, name, folder)
        key = tuple(str(origin.get(key, "")) for key in ("command", "commit", "date", "reduced"))
        names_by_origin.setdefault(key, []).append(f"`{name}`")
    rows = [
        (", ".join(names), f"`{command}`", _shorten_commits(commit), date, reduced)
        for (command, commit, date, reduced), names in names_by_origin.items()
    ]
    if not rows:
        return ""
    return tables.markdown_table(("results", "command", "commit", "day", "reduced"), rows) + "\n"
