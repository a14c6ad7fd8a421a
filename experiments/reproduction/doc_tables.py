"""Tables of the papers' pages in docs/, made of our aggregated results; nothing of them is typed.

A table stands between `<!-- reproduction page: NAME -->` and `<!-- reproduction page: end -->`.
"""

import functools
import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.common import aggregated, pages
from experiments.common.results import Line, distinct, where
from experiments.common.tables import markdown_table as table

NOCK_HENECKA, ASADI = "nock_henecka_2020", "asadi_2022"
BUN, BOJARSKI = "bun_2020", "bojarski_2014"
CALIBRATIONS = ("published", "tight")


def _only_line(lines: Iterable[Line], **values) -> Line:
    """The one line that has these values."""
    (line,) = where(lines, **values)
    return line


def _best_alpha_table(folder: Path | None) -> str:
    """Table 1 of Nock & Henecka: domains on which each alpha is best, and mean best errors."""
    lines = aggregated.read_result(NOCK_HENECKA, "table_1", folder)
    paper = aggregated.printed_numbers(NOCK_HENECKA, "table-1")
    rows = []
    for epsilon in distinct(lines, "epsilon"):
        by_calibration = {
            name: where(lines, epsilon=epsilon, calibration=name) for name in CALIBRATIONS
        }
        counts = (
            ", ".join(str(line["count"]) for line in by_calibration[name]) for name in CALIBRATIONS
        )
        errors = (
            ", ".join(f"{line['best_error_mean']:.3f}"[1:] for line in by_calibration[name])
            for name in CALIBRATIONS
        )
        printed = ", ".join(
            f"{count:g}" for setting, count in paper if setting["epsilon"] == epsilon
        )
        rows.append((f"{epsilon:g}", printed, *counts, *errors))
    errors = (f"mean best error, {name}" for name in CALIBRATIONS)
    return table(("epsilon", "the paper's (O.C., 0.1, 1)", *CALIBRATIONS, *errors), rows)


def _criterion_table(folder: Path | None) -> str:
    """Mean best errors with an alpha in the criterion alone, and in criterion and link."""
    lines = aggregated.read_result(NOCK_HENECKA, "criterion", folder)
    rows = []
    for column, words in (("alone", "the criterion only"), ("and_link", "criterion and link")):
        errors = (f"{line[f'criterion_{column}']:.3f}"[1:] for line in lines)
        rows.append((f"alpha = {lines[0]['alpha']:g} sets {words}", *errors))
    epsilons = (f"{line['epsilon']:g}" for line in lines)
    return table(("mean best error at epsilon =", *epsilons), rows)


GRIDS = tuple(itertools.product((10, 50), (1, 10, 100)))
"""(v_q, M) of the grids of Nock & Henecka."""


def _setting_table(folder: Path | None) -> str:
    """What v_q and M change: mean best published errors over domains, by epsilon."""
    rows, epsilons = [], []
    for bins, clip in GRIDS:
        lines = aggregated.read_result(NOCK_HENECKA, f"grid_{bins}_{clip}", folder)
        best: dict[float, dict[str, float]] = {}
        for line in where(lines, calibration="published"):
            errors = [line[name] for name in line if re.fullmatch(r"d\d", name)]
            by_domain = best.setdefault(line["epsilon"], {})
            smallest = min(error for error in errors if error is not None)
            by_domain[line["domain"]] = min(by_domain.get(line["domain"], 1.0), smallest)
        epsilons = sorted(best)
        domains = {len(by_domain) for by_domain in best.values()}
        means = (f"{statistics.fmean(best[epsilon].values()):.3f}"[1:] for epsilon in epsilons)
        rows.append((str(bins), str(clip), ", ".join(map(str, domains)), *means))
    heads = (f"epsilon = {epsilon:g}" for epsilon in epsilons)
    return table(("v_q", "M", "domains", *heads), rows)


def _accuracy_table(folder: Path | None) -> str:
    """Accuracies of LazyBB beside all that the paper prints."""
    lines, rows = aggregated.read_result(ASADI, "table2", folder), []
    for setting, printed in (
        cell for row in ACCURACIES for cell in aggregated.printed_numbers(ASADI, row)
    ):
        of_calibrations = [_only_line(lines, **setting, calibration=name) for name in CALIBRATIONS]
        cells = (
            f"{line['accuracy_mean']:.3f} ± {line['accuracy_sd']:.3f}" for line in of_calibrations
        )
        rows.append((setting["dataset"], f"{setting['epsilon']:g}", *cells, str(printed)))
    return table(("data", "epsilon", *CALIBRATIONS, "paper"), rows)


ACCURACIES = ("table-4", "table-11")
"""The rows of claims whose numbers are accuracies."""


class FeatureCounts(NamedTuple):
    """A row of claims whose numbers of features are compared over a range of epsilons."""

    row: str
    words: str
    min_epsilon: float
    max_epsilon: float


COUNTED_ROWS = (
    FeatureCounts("table-7", "all 13", 0, 5),
    FeatureCounts("table-6", "up to 0.5", 0, 0.5),
    FeatureCounts("table-6", "1, 3, 5", 1, 5),
    FeatureCounts("table-5", "all 13", 0, 5),
)

DELTA = 1e-5


def _exponent_table(folder: Path | None) -> str:
    """How far our numbers of features are from the printed ones, by exponent."""
    lines, rows = aggregated.read_result(ASADI, "sparsity", folder), []
    for row, words, min_epsilon, max_epsilon in COUNTED_ROWS:
        printed = [
            cell
            for cell in aggregated.printed_numbers(ASADI, row)
            if min_epsilon <= cell.setting["epsilon"] <= max_epsilon
        ]
        cells = []
        for exponent in ("published", "doubled"):
            ratios = (_only_line(lines, **setting)[exponent] / count for setting, count in printed)
            cells.append(
                f"{100 * statistics.fmean(abs(math.log(ratio)) for ratio in ratios):.0f} %"
            )
        rows.append((printed[0].setting["dataset"], words, *cells))
    return table(("data", "epsilons", "published exponent", "twice that exponent"), rows)


def _delta_table(folder: Path | None) -> str:
    """Accuracies with and without a delta, at one setting for all epsilons."""
    lines, rows = aggregated.read_result(ASADI, "fig2", folder), []
    for epsilon in (1, 0.1):
        cells = []
        for name in CALIBRATIONS:
            pure_and_delta = (
                _only_line(lines, epsilon=epsilon, calibration=name, delta=delta)
                for delta in (0, DELTA)
            )
            cells.append(", ".join(f"{line['accuracy_mean']:.3f}" for line in pure_and_delta))
        rows.append((f"{epsilon:g}", *cells))
    heads = (
        "published (advanced composition): pure, with delta",
        "tight (bounded-range zCDP): pure, with delta",
    )
    return table(("epsilon", *heads), rows)


HALFSPACES = (
    ("n = 1000, 2000, 4000", "rows", (1000, 2000, 4000)),
    ("epsilon = 0.1, 0.3, 3", "epsilon", (0.1, 0.3, 3)),
    ("label noise = 1, 4, 16 alpha tau (alpha = 0.1)", "noise", (0.01, 0.04, 0.16)),
    ("tau = 0.05, 0.07, 0.14", "tau", (0.05, 0.07, 0.14)),
    ("n = 8000, the base", "rows", (8000,)),
)
"""(words, axis, values) of the rows of the table of halfspaces."""


def _halfspace_table(folder: Path | None) -> str:
    """Test errors of private halfspaces along four axes."""
    lines, rows = aggregated.read_result(BUN, "errors", folder), []
    for words, axis, values in HALFSPACES:
        cells = []
        for name in (*CALIBRATIONS, None):
            candidates = where(lines, axis=axis, calibration=name or CALIBRATIONS[0])
            candidates = [
                line for line in candidates if math.isinf(line["epsilon"]) == (name is None)
            ]
            any_epsilon = axis == "epsilon" and name is None
            of_values = (
                candidates[0] if any_epsilon else where(candidates, **{axis: value})[0]
                for value in values
            )
            cells.append(", ".join(f"{line['test_error_mean']:.3f}" for line in of_values))
        rows.append((words, *cells))
    return table(("", *CALIBRATIONS, "no privacy"), rows)


def _round_table(folder: Path | None) -> str:
    """The rounds and rows of HS-StL's theorems beside what was measured."""
    lines, rows = aggregated.read_result(BUN, "rounds", folder), []
    for line in where(lines, rate="tau / 8"):
        slower = _only_line(lines, tau=line["tau"], rate="tau / 32")
        rows.append(
            (
                f"{line['tau']:g}",
                f"{line['theorem_rounds']:,}",
                _format_rounds(line, "rounds_to_error"),
                *(_format_rounds(of_rate, "rounds_to_margin") for of_rate in (line, slower)),
                f"{line['claimed_advantage']:.4f}, {line['smallest_advantage']:.4f}",
                f"{line['theorem_rows']:,}",
                ", ".join(f"{line[f'rows_for_{name}'] / 1e6:.0f} million" for name in CALIBRATIONS),
            )
        )
    heads = (
        *("tau", "HS-StL's T", "error <= alpha after", "margins after", "at lambda = tau / 32"),
        *("advantage claimed, smallest", "rows, Theorem 30 without constants"),
        "rows for its sigma, published, tight",
    )
    return table(heads, rows)


def _format_rounds(line: Line, column: str) -> str:
    """After how many rounds the training error or the margins held, in the slowest sample."""
    rounds = line[column]
    return f"not in {line['rounds_run']:,}" if rounds is None else f"{rounds:,}"


SIZES = (
    ("d = 2", {"axis": "dimension", "dimension": 2}),
    ("d = 20, the base", {"axis": "dimension", "dimension": 20}),
    ("d = 20, clipped to [-1, 1]", {"axis": "clipped", "dimension": 20}),
    ("d = 200", {"axis": "dimension", "dimension": 200}),
    ("d = 2,000", {"axis": "dimension", "dimension": 2000}),
    ("tau = 0.1", {"axis": "tau", "tau": 0.1}),
    ("tau = 0.3", {"axis": "tau", "tau": 0.3}),
    ("epsilon = 0.3", {"axis": "epsilon", "epsilon": 0.3}),
    ("epsilon = 3", {"axis": "epsilon", "epsilon": 3}),
)
"""(words, values) of the rows of the table of sizes."""


def _size_table(folder: Path | None) -> str:
    """The rows that an error of 0.1 needs, as geometric means over samples."""
    lines, rows = aggregated.read_result(BUN, "sizes", folder), []
    for words, point in SIZES:
        cells = []
        of_point = where(lines, alpha=0.1, **point)
        for name in (*CALIBRATIONS, None):
            of_calibration = [
                line
                for line in where(of_point, calibration=name or CALIBRATIONS[1])
                if math.isinf(line["epsilon"]) == (name is None)
            ]
            needed_rows = [line["rows"] for line in of_calibration]
            is_known = needed_rows and None not in needed_rows
            cells.append(f"{statistics.geometric_mean(needed_rows):,.0f}" if is_known else "-")
        rows.append((words, *cells))
    return table(("rows for an error of 0.1", *CALIBRATIONS, "no privacy"), rows)


def _rival_table(folder: Path | None) -> str:
    """Accuracies of 1-rules beside the rivals of Table 2."""
    lines, rows = aggregated.read_result(ASADI, "rivals", folder), []
    rules = aggregated.read_result(ASADI, "table2", folder)
    methods = ("dp-lr", "dp-boost", "dp-bag")
    for dataset in distinct(lines, "dataset"):
        for epsilon in sorted(set(distinct(where(lines, dataset=dataset), "epsilon"))):
            setting = {"dataset": dataset, "epsilon": epsilon}
            of_calibrations = (
                _only_line(rules, **setting, calibration=name) for name in CALIBRATIONS
            )
            cells = [f"{line['accuracy_mean']:.3f}" for line in of_calibrations]
            for method in methods:
                of_method = where(lines, **setting, method=method)
                cells.append(f"{of_method[0]['accuracy_mean']:.3f}" if of_method else "")
            rows.append((dataset, f"{epsilon:g}", *cells))
    heads = (f"1-rules, {name}" for name in CALIBRATIONS)
    return table(("data", "epsilon", *heads, "DP-LR, tuned", "DP-Boost", "DP-Bag"), rows)


def _rate_table(folder: Path | None) -> str:
    """Test errors of private halfspaces at small margins, by rate."""
    lines, rows = aggregated.read_result(BUN, "rates", folder), []
    margins = distinct(lines, "tau")
    for normalized in (False, True):
        for rate in distinct(where(lines, normalized=normalized), "learning_rate"):
            cells = []
            for name in CALIBRATIONS:
                setting = {"normalized": normalized, "learning_rate": rate, "calibration": name}
                errors = (
                    _only_line(lines, tau=tau, **setting)["test_error_mean"] for tau in margins
                )
                cells.append(", ".join(f"{error:.3f}" for error in errors))
            words = "normalized" if normalized else "as printed"
            rows.append((words, f"{rate:g}", *cells))
    heads = (f"{name}, tau = {', '.join(map(str, margins))}" for name in CALIBRATIONS)
    return table(("centre", "rate", *heads), rows)


def _forest_table(folder: Path | None) -> str:
    """Table 1 of Bojarski et al. beside the paper's."""
    lines, rows = aggregated.read_result(BOJARSKI, "table_1", folder), []
    for dataset in distinct(lines, "dataset"):
        cells = []
        for private in (False, True):
            for voting in ("majority", "threshold"):
                line = _only_line(lines, dataset=dataset, private=private, voting=voting)
                cells.append(_format_with_interval(line["error"], line["interval"]))
                cells.append(_format_with_interval(line["paper_error"], line["paper_interval"]))
        cart = _only_line(lines, dataset=dataset, private=False, voting="cart")
        rows.append((dataset, *cells, f"{cart['error']:.2f}", f"{cart['paper_error']:.2f}"))
    heads = [name for name in ("MV", "TA", "private MV", "private TA") for name in (name, "paper")]
    return table(("data", *heads, "CART", "rpart"), rows)


def _format_with_interval(error: float, interval: float) -> str:
    return f"{error:.2f} ± {interval:.2f}"


def _draft_table(folder: Path | None) -> str:
    """The repeats of Table 1 by the draft's words: mean and deviation of each error."""
    lines, rows = aggregated.read_result(BOJARSKI, "draft", folder), []
    for dataset, private in itertools.product(distinct(lines, "dataset"), (False, True)):
        of_set = where(lines, dataset=dataset, private=private)
        cells = []
        for noise, prefix in DRAFT_READINGS if private else DRAFT_READINGS[:1]:
            of_noise = [line for line in of_set if not private or line["noise"] == noise]
            cells.append(
                " / ".join(
                    f"{line[f'{prefix}error']:.2f} ± {2 * line[f'{prefix}one_table_sd']:.2f}"
                    f"{_star_within_two_deviations(line, prefix)}"
                    for line in of_noise
                )
            )
        paper = " / ".join(f"{line['paper_error']:.2f}" for line in of_set[:2])
        cells += [""] * (len(DRAFT_READINGS) - len(cells))
        rows.append((dataset, "with" if private else "without", paper, *cells))
    heads = ("scale k / eta", "deviation k / eta", "scale, as printed", "deviation, as printed")
    return table(("data", "privacy", "paper", *heads), rows)


DRAFT_READINGS = ((1, ""), (0.7071, ""), (1, "as_printed_"), (0.7071, "as_printed_"))
"""(noise over k / eta, prefix of the columns) of the columns of the table of the draft."""


def _star_within_two_deviations(line: Line, prefix: str) -> str:
    gap = abs(line[f"{prefix}error"] - line["paper_error"])
    return " *" if gap <= 2 * line[f"{prefix}one_table_sd"] else ""


def _joint_table(folder: Path | None) -> str:
    """How far the print is from the repeats, all errors of a data set together."""
    lines, rows = aggregated.read_result(BOJARSKI, "draft_joint", folder), []
    for dataset in distinct(lines, "dataset"):
        cells = []
        for noise, negative in ((1, "zero"), (0.7071, "zero"), (1, "uniform"), (0.7071, "uniform")):
            line = _only_line(lines, dataset=dataset, noise=noise, negative=negative)
            words = f"{line['distance']:.1f} ({line['mean_distance']:.1f})"
            cells.append(f"{words}, {line['percent']:.0f} %")
        rows.append((dataset, *cells))
    heads = ("scale k / eta", "deviation k / eta", "scale, as printed", "deviation, as printed")
    return table(("data", *heads), rows)


def _shared_budget_table(folder: Path | None) -> str:
    """When the advantage of 1-rules fails, by the rounds that share the budget."""
    lines, rows = aggregated.read_result(ASADI, "shared_budget", folder), []
    for rounds in distinct(where(lines, calibration="published"), "rounds"):
        cells = []
        for name in CALIBRATIONS:
            line = _only_line(lines, calibration=name, rounds=rounds)
            cells += [_format_failure(line, "first"), _format_failure(line, "lasting")]
        rows.append((f"{rounds:,}", *cells))
    heads = (f"{words}, {name}" for name in CALIBRATIONS for words in ("first", "for good"))
    return table(("rounds that share epsilon", *heads), rows)


def _format_failure(line: Line, column: str) -> str:
    """The round, or that no round is below."""
    return "none" if line[column] is None else str(line[column])


def _negative_count_table(folder: Path | None) -> str:
    """Private errors with leaves as printed, and with negative counts as 0."""
    lines, rows = aggregated.read_result(BOJARSKI, "table_1", folder), []
    for dataset in distinct(lines, "dataset"):
        by_voting = [
            _only_line(lines, dataset=dataset, private=True, voting=voting)
            for voting in ("majority", "threshold")
        ]
        cells = (
            " / ".join(f"{line[column]:.2f}" for line in by_voting)
            for column in ("as_printed", "error", "paper_error")
        )
        rows.append((dataset, *cells))
    return table(("private error, MV / TA", "as printed", "negative counts as 0", "paper"), rows)


TABLES: dict[str, dict[str, Callable[[Path | None], str]]] = {
    "nock_henecka.md": {
        "best-alphas": _best_alpha_table,
        "criterion": _criterion_table,
        "settings": _setting_table,
    },
    "smooth_boosting.md": {
        "accuracies": _accuracy_table,
        "exponents": _exponent_table,
        "deltas": _delta_table,
        "halfspaces": _halfspace_table,
        "rates": _rate_table,
        "rounds": _round_table,
        "sizes": _size_table,
        "rivals": _rival_table,
        "shared-budget": _shared_budget_table,
    },
    "random_forests.md": {
        "forests": _forest_table,
        "negative-counts": _negative_count_table,
        "draft": _draft_table,
        "draft-joint": _joint_table,
    },
}
"""Page -> the name of a mark -> its table."""


def fill_page(page: str, text: str, folder: Path | None = None) -> str:
    """The text of a page with its tables made of the aggregated results in a folder.

    Raises:
        InputError: if a result or a mark is missing, or a mark names no table.
    """
    page_tables = {
        name: functools.partial(_make_table_of_folder, make, folder)
        for name, make in TABLES[page].items()
    }
    page_marks = pages.Pages("reproduction page", page_tables)
    return pages.fill_tables(page_marks, text, [], page)


def _make_table_of_folder(
    make: Callable[[Path | None], str], folder: Path | None, _: Sequence[Line]
) -> str:
    return make(folder)
