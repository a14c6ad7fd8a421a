"""Which claims of Nock & Henecka (2020) depend on the kind of significance test.

The paper has "a Student's t test" with p < 0.01, and does not say what its samples are. A
comparison has errors of two sides in the same runs (settings) and folds. So the samples may be the
folds of one run, the runs, or runs and folds together, in pairs or not. Tests over folds have one
outcome for each run, and the others one for all runs of a comparison. A claim about the best result
compares the best run of each side by folds, and all runs by the others.

The fits are those of `scan --whole`. Whether a test keeps its level of 1 % is tried on the same
comparisons with the gain taken off: run means are shifted, so that both sides have one mean, and
what a fold is off the mean of its run is exchanged between the sides in folds at random.
"""

import argparse
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special

from experiments.common import aggregated, commands, pages, results
from experiments.common.data import NOCK_HENECKA
from experiments.common.estimates import Estimate, mean_with_error
from experiments.common.results import Line, distinct, where
from experiments.common.tables import markdown_table
from experiments.papers.nock_henecka_2020 import scan_tables
from experiments.papers.nock_henecka_2020.options import LEAF_READINGS
from experiments.papers.nock_henecka_2020.reading_tables import LARGE_DEPTH, LARGE_ROUNDS
from experiments.papers.nock_henecka_2020.scan_tables import (
    BUDGETS,
    LEFT_OUT,
    LEVEL,
    folder_of_bins,
    path_of_reading,
)
from experiments.papers.nock_henecka_2020.settings import (
    ALPHA_NAMES,
    EPSILONS,
    FOLDS,
    FOREST_DEPTHS,
    GRID,
    NAME,
    PAPER_BINS,
    SEED,
)
from experiments.papers.nock_henecka_2020.whole_grid import printed_cells

FOLDS_PAIRED, FOLDS_UNPAIRED, ROWS = "folds, paired", "folds, unpaired", "rows, z-test"
RUNS_PAIRED, RUNS_UNPAIRED = "runs, paired", "runs, unpaired"
BOTH_PAIRED, BOTH_UNPAIRED = "runs x folds, paired", "runs x folds, unpaired"
KINDS = (
    *(FOLDS_PAIRED, FOLDS_UNPAIRED, ROWS),
    *(RUNS_PAIRED, RUNS_UNPAIRED, BOTH_PAIRED, BOTH_UNPAIRED),
)
"""The samples of a test, and whether they are pairs."""

OF_EACH_RUN = KINDS[:3]
"""The tests that have one outcome for each run."""

FEWEST_SIGNIFICANT = 5
"""A share of the outcomes of fewer domains decides nothing; five of five are 1 of 32 by chance."""

SWAPS = 10
"""How often a comparison is tried without its gain."""

TEN_TIMES_FEWER, MANY = 2, 20
OBJECTIVE, TENTH, ONE = range(len(ALPHA_NAMES))
V_Q_POINTS = 0.02
"""What v_q = 50 buys on two domains, by the paper."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    folder = results.results_folder(NAME) / "scan"
    words = "the fits of `scan --whole` (%(default)s)"
    parser.add_argument("--fits", metavar="FOLDER", default=str(folder), help=words)
    commands.add_shared(parser, doc=True, out=results.results_folder(NAME))


def run_command(options: argparse.Namespace) -> None:
    """Test the claims of all readings that have the whole grid, or write the page."""
    path = commands.out_folder(options) / "significance.csv"
    if options.doc is not None:
        pages.write_page(PAGE, Path(options.doc), path)
        return
    lines = list(significance_lines(Path(options.fits)))
    results.write_csv(path, lines, {"seed": SEED})
    print(f"Wrote {path}")


# The tests.


class Comparison(NamedTuple):
    """The errors of two sides.

    Attributes:
        own, other: f64[run, fold]; a run has the same setting on both sides.
        test_rows: how many rows test in all these folds.
        is_of_best: whether the claim is about the best run of each side.
    """

    own: np.ndarray
    other: np.ndarray
    test_rows: float
    is_of_best: bool = False

    def best_runs(self) -> "Comparison":
        """The best run of each side alone."""
        sides = (side[[np.argmin(side.mean(1))]] for side in (self.own, self.other))
        return Comparison(*sides, test_rows=self.test_rows)

    def without_gain(self, is_swapped: np.ndarray, *, of_each_run: bool) -> "Comparison":
        """Both sides equally good: run means are shifted, and some folds' residuals exchanged.

        Args:
            is_swapped: bool[fold], where what a fold is off the mean of its run is exchanged.
            of_each_run: whether no run has a gain, and not only the mean of all.
        """
        means = [side.mean(1, keepdims=True) for side in (self.own, self.other)]
        residuals = [side - mean for side, mean in zip((self.own, self.other), means, strict=True)]
        own_mean = means[1] if of_each_run else means[0] - np.mean(means[0] - means[1])
        own = own_mean + np.where(is_swapped, residuals[1], residuals[0])
        other = means[1] + np.where(is_swapped, residuals[0], residuals[1])
        return self._replace(own=own, other=other)


def outcomes(comparison: Comparison, kind: str) -> np.ndarray:
    """i64[outcome]: 1 where the own error is significantly smaller at 0.01, -1 where it is larger.

    Args:
        comparison: both sides.
        kind: the test, one of `KINDS`.
    """
    if kind in OF_EACH_RUN and comparison.is_of_best:
        comparison = comparison.best_runs()
    own, other = comparison.own, comparison.other
    if kind == ROWS:
        a, b = own.mean(1), other.mean(1)
        deviation = np.sqrt((a * (1 - a) + b * (1 - b)) / comparison.test_rows)
        p = 2 * special.ndtr(-_ratio(np.abs(b - a), deviation))
        return _signs(b - a, p)
    if kind in (RUNS_PAIRED, RUNS_UNPAIRED):
        own, other = own.mean(1)[None], other.mean(1)[None]
    elif kind in (BOTH_PAIRED, BOTH_UNPAIRED):
        own, other = own.reshape(1, -1), other.reshape(1, -1)
    is_paired = kind in (FOLDS_PAIRED, RUNS_PAIRED, BOTH_PAIRED)
    return _signs(other.mean(1) - own.mean(1), t_test(own, other, is_paired=is_paired))


def t_test(own: np.ndarray, other: np.ndarray, *, is_paired: bool) -> np.ndarray:
    """f64[test]: p-values of equal means, of Student's or of Welch's test; 1 for equal samples.

    Args:
        own: f64[test, sample].
        other: f64[test, sample].
        is_paired: whether samples are pairs.
    """
    samples = own.shape[1]
    if is_paired:
        difference = own - other
        mean, variance = difference.mean(1), difference.var(1, ddof=1) / samples
        freedom = np.full(len(own), samples - 1.0)
    else:
        mean = own.mean(1) - other.mean(1)
        first, second = (side.var(1, ddof=1) / samples for side in (own, other))
        variance = first + second
        freedom = (samples - 1) * _ratio(variance**2, first**2 + second**2)
    t = _ratio(np.abs(mean), np.sqrt(variance))
    return 2 * special.stdtr(np.maximum(freedom, 1.0), -t)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The ratio; without anything below it is 0 of nothing, and infinite of what is above 1e-9."""
    without = np.where(above > 1e-9, np.inf, 0.0)
    return np.where(below > 1e-12, above / np.maximum(below, 1e-12), without)


def _signs(gain: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.where(p < LEVEL, np.sign(gain), 0).astype(int)


# The claims.


class Errors(NamedTuple):
    """The errors of a domain under a reading.

    Attributes:
        boosted: f64[alpha, epsilon, beta_tree, T, D, fold].
        forests: f64[kind, budget, depth, epsilon, fold].
        test_rows: how many rows test in all these folds.
        of_50: as `boosted` with v_q = 50, or None without such fits.
    """

    boosted: np.ndarray
    forests: np.ndarray
    test_rows: float
    of_50: np.ndarray | None = None


class Count(NamedTuple):
    """Of a domain, how many outcomes are won, lost and open."""

    won: int
    lost: int
    open: int


class Claim(NamedTuple):
    """A claim as comparisons.

    Attributes:
        words: for tables.
        comparisons: those of a domain, by its name and errors; none if it is not about it.
        measure: from the counts of the domains to a number.
        paper: the paper's number, in words.
        limit: the number is above it if the claim holds, or at most it if `is_at_most`.
        fewest_domains: a reading with fits of fewer of them has no number.
    """

    words: str
    comparisons: Callable[[str, Errors], Sequence[Comparison]]
    measure: Callable[[Sequence[Count]], float]
    paper: str
    limit: float
    is_at_most: bool = False
    fewest_domains: int = 1


def percent_won(counts: Sequence[Count]) -> float:
    """Of the outcomes that one side wins; NaN without any."""
    won, lost = (sum(getattr(one, name) for one in counts) for name in ("won", "lost"))
    return 100 * won / (won + lost) if won + lost else np.nan


def percent_open(counts: Sequence[Count]) -> float:
    """Of all outcomes, those that neither side wins."""
    return 100 * sum(one.open for one in counts) / sum(map(sum, counts))


def percent_lost(counts: Sequence[Count]) -> float:
    """Of all outcomes, those that the other side wins."""
    return 100 * sum(one.lost for one in counts) / sum(map(sum, counts))


def percent_of_all_won(counts: Sequence[Count]) -> float:
    """Of all outcomes."""
    return 100 * sum(one.won for one in counts) / sum(map(sum, counts))


def sign_of_all(counts: Sequence[Count]) -> float:
    """1 if every outcome is won, -1 if one is lost, and 0 otherwise."""
    if any(one.lost for one in counts):
        return -1.0
    return 0.0 if any(one.open for one in counts) else 1.0


def domains_ahead(counts: Sequence[Count]) -> float:
    """The domains where every outcome is won, less those where one is lost."""
    ahead = sum(one.won > 0 and not (one.lost or one.open) for one in counts)
    return float(ahead - sum(one.lost > 0 for one in counts))


def _forest_claim(words: str, alphas: Sequence[int], rounds: int, budget: int, **how) -> Claim:
    """A claim about cells of Table 4, which lack an epsilon."""
    t = GRID["rounds"].index(rounds)
    kept = [e for e, epsilon in enumerate(EPSILONS) if epsilon != LEFT_OUT]

    def comparisons(name: str, errors: Errors) -> list[Comparison]:
        return [
            _against_forests(errors, alpha, kept, t, depth, kind, budget)
            for alpha in alphas
            for depth in FOREST_DEPTHS
            for kind in range(len(errors.forests))
        ]

    return Claim(words, comparisons, **how)


def _against_forests(
    errors: Errors,
    alpha: int,
    epsilons: Sequence[int],
    t: int,
    depth: int,
    kind: int,
    budget: int,
) -> Comparison:
    """The runs of a cell of Table 4: some epsilons, and all beta_tree."""
    own = errors.boosted[alpha][list(epsilons), :, t, GRID["depth"].index(depth)]
    other = errors.forests[kind, budget, FOREST_DEPTHS.index(depth)][list(epsilons), None]
    own, other = np.broadcast_arrays(own, other)
    folds = own.shape[-1]
    return Comparison(own.reshape(-1, folds), other.reshape(-1, folds), errors.test_rows)


def _runs(errors: np.ndarray) -> np.ndarray:
    return errors.reshape(-1, errors.shape[-1])


def _table_1_claim(epsilon: float) -> Claim:
    """Objective calibration against both constants at an epsilon."""
    e = EPSILONS.index(epsilon)

    def comparisons(name: str, errors: Errors) -> list[Comparison]:
        sides = [_runs(of_alpha[e]) for of_alpha in errors.boosted]
        return [
            Comparison(sides[OBJECTIVE], sides[k], errors.test_rows, is_of_best=True)
            for k in (TENTH, ONE)
        ]

    words = f"Table 1: O.C. is ahead at epsilon = {epsilon:g}, domains less those of a constant"
    counts = scan_tables.printed_table_1()[e]
    printed = int(counts[OBJECTIVE] - max(counts[TENTH], counts[ONE]))
    return Claim(words, comparisons, domains_ahead, f"{printed} without a test", 0.0)


def _of_alphas(name: str, errors: Errors) -> list[Comparison]:
    return [Comparison(_runs(errors.boosted[ONE]), _runs(errors.boosted[TENTH]), errors.test_rows)]


def _of_better_constant(name: str, errors: Errors) -> list[Comparison]:
    sides = [_runs(of_alpha) for of_alpha in errors.boosted]
    better = min(sides[TENTH], sides[ONE], key=lambda side: float(side.mean(1).min()))
    return [Comparison(sides[OBJECTIVE], better, errors.test_rows, is_of_best=True)]


def _of_beta_tree(name: str, errors: Errors) -> list[Comparison]:
    """The worst beta_tree against the best one."""
    sides = [_runs(side) for side in np.moveaxis(errors.boosted, 2, 0)]
    sides.sort(key=lambda side: float(side.mean(1).min()))
    return [Comparison(sides[-1], sides[0], errors.test_rows, is_of_best=True)]


def _of_size(axis: int, least: float, word: str) -> Callable[[str, Errors], list[Comparison]]:
    """The sizes that Table 3 has against the others, on an axis of the errors."""
    values = GRID["depth"] if word == "d" else GRID["rounds"]
    is_big = np.array(values) >= least
    printed = {
        at["domain"]: f"big {word}" in text
        for at, text in aggregated.printed_texts(NAME, "table-3")
    }

    def comparisons(name: str, errors: Errors) -> list[Comparison]:
        if name not in printed:
            return []
        big, small = (
            _runs(np.compress(chosen, errors.boosted, axis)) for chosen in (is_big, ~is_big)
        )
        own, other = (big, small) if printed[name] else (small, big)
        return [Comparison(own, other, errors.test_rows, is_of_best=True)]

    return comparisons


def _of_v_q(
    domains: Sequence[str], alphas: Sequence[int], points: float
) -> Callable[[str, Errors], list[Comparison]]:
    """v_q = 50 against 10, which has this much taken off."""

    def comparisons(name: str, errors: Errors) -> list[Comparison]:
        if name not in domains or errors.of_50 is None:
            return []
        own, other = (_runs(of_bins[list(alphas)]) for of_bins in (errors.of_50, errors.boosted))
        return [Comparison(own, other - points, errors.test_rows, is_of_best=True)]

    return comparisons


def claims() -> list[Claim]:
    """The claims that a test decides."""
    every, strong = range(len(ALPHA_NAMES)), (OBJECTIVE, ONE)
    of_forests = []
    for words, budget in (("", 0), (", forests at epsilon / 21", 2)):
        many = f"Table 4: T = 20 wins{words}, O.C. and 1, percent"
        few = f"Table 4: T = 2 wins{words}, percent"
        of_forests += [
            _forest_claim(
                many, strong, MANY, budget, measure=percent_won, paper="> 80", limit=80.0
            ),
            _forest_claim(
                few, every, TEN_TIMES_FEWER, budget, measure=percent_won, paper="> 50", limit=50.0
            ),
        ]
    is_open = _forest_claim(
        "Table 4: not significant at T = 20, O.C. and 1, percent",
        *(strong, MANY, 0),
        measure=percent_open,
        paper="< 4",
        limit=4.0,
        is_at_most=True,
    )
    of_sizes = [
        Claim(
            f"Table 3: {name} as printed, percent of the significant domains",
            _of_size(axis, least, word),
            percent_won,
            "100",
            50.0,
        )
        for name, axis, least, word in (
            ("depth", 4, LARGE_DEPTH, "d"),
            ("number of trees", 3, LARGE_ROUNDS, "T"),
        )
    ]
    return [
        *of_forests,
        is_open,
        *map(_table_1_claim, EPSILONS[:2]),
        *of_sizes,
        Claim("alpha = 1 beats 0.1, percent", _of_alphas, percent_won, "> 50", 50.0),
        Claim(
            "O.C. is behind the better constant, percent of domains",
            *(_of_better_constant, percent_lost, "0", 5.0, True),
        ),
        Claim(
            "beta_tree matters for the best result, percent of domains",
            *(_of_beta_tree, percent_lost, "0", 5.0, True),
        ),
        Claim(
            "v_q = 50 gains over 2 points with O.C. on qsar and wine-white: 1; if not, -1",
            *(_of_v_q(("qsar", "wine-white"), (OBJECTIVE,), V_Q_POINTS), sign_of_all, "1", 0.0),
            fewest_domains=2,
        ),
        Claim(
            "v_q = 50 improves the best result on wine-red, percent",
            *(_of_v_q(("wine-red",), every, 0.0), percent_of_all_won, "0", 5.0, True),
        ),
    ]


# The lines.


def read_errors(folder: Path, name: str, reading: str) -> Errors | None:
    """The whole grid of a domain under a reading, or None without it."""
    own, forests, of_50 = (
        folder_of_bins(folder, bins) / name / "whole"
        for bins in (PAPER_BINS[0], PAPER_BINS[0], PAPER_BINS[1])
    )
    path, path_50 = path_of_reading(own, reading), path_of_reading(of_50, reading)
    if not (path.exists() and (forests / "forests.npz").exists()):
        return None
    with np.load(path) as fits, np.load(forests / "forests.npz") as forest_fits:
        boosted, rows = fits["errors"].astype(float), int(fits["rows"])
        with_forests = boosted, forest_fits["errors"].astype(float)
    more = None
    if path_50.exists():
        with np.load(path_50) as fits:
            more = fits["errors"].astype(float)
    return Errors(*with_forests, rows * boosted.shape[-1] / FOLDS, more)


def significance_lines(folder: Path) -> Iterator[Line]:
    """A line for each reading with the whole grid, claim and kind of test."""
    for reading in LEAF_READINGS:
        errors = {name: read_errors(folder, name, reading) for name in NOCK_HENECKA}
        complete = {name: one for name, one in errors.items() if one is not None}
        if len(complete) < len(errors):
            continue
        for claim in claims():
            yield from _claim_lines(reading, claim, complete)
        yield from _distance_lines(reading, complete)
        yield from gain_lines(reading, complete)


def _claim_lines(reading: str, claim: Claim, errors: Mapping[str, Errors]) -> Iterator[Line]:
    """The number of a claim by each kind of test, and what is significant of equals."""
    compared = {name: claim.comparisons(name, one) for name, one in errors.items()}
    compared = {name: comparisons for name, comparisons in compared.items() if comparisons}
    if len(compared) < claim.fewest_domains:
        return
    rng = np.random.default_rng(SEED)
    for kind in KINDS:
        counts = []
        for comparisons in compared.values():
            signs = np.concatenate([outcomes(one, kind) for one in comparisons])
            counts.append(Count(*(int(np.sum(signs == sign)) for sign in (1, -1, 0))))
        value, error = with_jackknife_error(claim.measure, counts)
        decided = sum(one.won + one.lost > 0 for one in counts)
        is_too_few = claim.measure is percent_won and decided < FEWEST_SIGNIFICANT
        words = verdict(Estimate(value, error), claim.limit, is_at_most=claim.is_at_most)
        yield {
            "kind": "claim",
            "reading": reading,
            "claim": claim.words,
            "test": kind,
            "paper": claim.paper,
            "value": _finite_or_none(value),
            "error": _finite_or_none(error),
            "verdict": "open" if is_too_few else words,
            "outcomes": sum(map(sum, counts)),
            "significant": 100 - percent_open(counts),
            "of equals": _percent_of_equals(compared, kind, rng),
        }


def _finite_or_none(number: float | None) -> float | None:
    return None if number is None or np.isnan(number) else number


def _percent_of_equals(
    compared: Mapping[str, Sequence[Comparison]], kind: str, rng: np.random.Generator
) -> float:
    """What is significant where both sides are equally good, in percent.

    Domains of fewer than ten folds are left out.
    """
    is_significant = []
    for comparison in (one for comparisons in compared.values() for one in comparisons):
        if comparison.own.shape[1] < FOLDS:
            continue
        if kind in OF_EACH_RUN and comparison.is_of_best:
            comparison = comparison.best_runs()
        for _ in range(SWAPS):
            equal = comparison.without_gain(
                rng.random(FOLDS) < 0.5, of_each_run=kind in OF_EACH_RUN
            )
            is_significant.append(outcomes(equal, kind) != 0)
    return 100 * float(np.mean(np.concatenate(is_significant)))


def with_jackknife_error(
    measure: Callable[[Sequence[Count]], float], counts: Sequence[Count]
) -> Estimate:
    """A measure of the counts of domains, and its jackknife error; None for fewer than three."""
    value, number = measure(counts), len(counts)
    if number < 3:
        return Estimate(value)
    without = np.array([measure([*counts[:k], *counts[k + 1 :]]) for k in range(number)])
    spread = np.sum((without - without.mean()) ** 2)
    return Estimate(value, float(np.sqrt((number - 1) / number * spread)))


def verdict(number: Estimate, limit: float, *, is_at_most: bool) -> str:
    """Whether a claim holds, by two standard errors: "holds", "fails" or "open".

    Args:
        number: what a reading has; NaN is open.
        limit: what the number is above, if the claim holds.
        is_at_most: the number is at most the limit instead.
    """
    beyond = (limit - number.value) if is_at_most else (number.value - limit)
    margin = 2 * (number.error or 0.0)
    if beyond > margin:
        return "holds"
    return "fails" if beyond < -margin else "open"


def _distance_lines(reading: str, errors: Mapping[str, Errors]) -> Iterator[Line]:
    """How far Table 4 is by each kind of test, in points, as a mean over domains."""
    printed = printed_cells()
    constant = np.nanmean(np.abs(printed - np.nanmedian(printed)), axis=(1, 2, 3, 4))
    kept = [e for e, epsilon in enumerate(EPSILONS) if epsilon != LEFT_OUT]
    for budget in (0, 2):
        for kind in KINDS:
            cells = np.full(printed.shape, np.nan)
            for place in np.argwhere(~np.isnan(printed)):
                domain, forest, d, alpha, t = (int(number) for number in place)
                comparison = _against_forests(
                    errors[NOCK_HENECKA[domain]],
                    *(alpha, kept, GRID["rounds"].index((TEN_TIMES_FEWER, MANY)[t])),
                    *(FOREST_DEPTHS[d], forest, budget),
                )
                signs = outcomes(comparison, kind)
                won, lost = int(np.sum(signs > 0)), int(np.sum(signs < 0))
                cells[tuple(place)] = 100 * won / (won + lost) if won + lost else 50.0
            away = np.nanmean(np.abs(cells - printed), axis=(1, 2, 3, 4))
            value, error = mean_with_error(away)
            nearer = mean_with_error(away - constant)
            yield {
                "kind": "distance",
                "reading": reading,
                "claim": f"Table 4: points away, forests at {list(BUDGETS)[budget]}",
                "test": kind,
                "paper": f"0; a constant {constant.mean():.1f}",
                "value": value,
                "error": error,
                "verdict": verdict(nearer, 0.0, is_at_most=True),
            }


def gain_lines(reading: str, errors: Mapping[str, Errors]) -> Iterator[Line]:
    """What v_q = 50 takes off the best error of each alpha, in points, by domain with such fits.

    The error is that over folds, in pairs of the best runs.
    """
    for name, one in errors.items():
        if one.of_50 is None:
            continue
        for k, alpha in enumerate(ALPHA_NAMES):
            compared = Comparison(_runs(one.of_50[k]), _runs(one.boosted[k]), one.test_rows)
            best = compared.best_runs()
            value, error = mean_with_error(100 * (best.other - best.own)[0])
            yield {
                "kind": "gain",
                "reading": reading,
                "claim": name,
                "test": alpha,
                "paper": PRINTED_GAINS[name] if k == OBJECTIVE else None,
                "value": value,
                "error": error,
            }


PRINTED_GAINS = {"qsar": "> 2", "wine-white": "> 2", "wine-red": "none"}
"""What v_q = 50 gains with objective calibration, by the paper's section 7."""


# The tables.

MARKS = {"holds": "+", "fails": "-", "open": "?"}


def _claim_table(lines: Sequence[Line], reading: str) -> str:
    """A claim in each row, and the kinds of test as columns."""
    of_reading = [line for line in lines if line["reading"] == reading and line["kind"] != "gain"]
    rows = []
    for claim in distinct(of_reading, "claim"):
        of_claim = where(of_reading, claim=claim)
        cells = []
        for kind in KINDS:
            (line,) = where(of_claim, test=kind)
            value = "none" if line["value"] is None else f"{line['value']:.0f}"
            error = "" if line["error"] is None else f" ± {line['error']:.0f}"
            cells.append(f"{value}{error} {MARKS[line['verdict']]}")
        changes = len(set(distinct(of_claim, "verdict"))) > 1
        rows.append((claim, str(of_claim[0]["paper"]), *cells, "yes" if changes else "no"))
    return markdown_table(("claim", "the paper's", *KINDS, "the verdict changes"), rows)


def _gain_table(lines: Sequence[Line]) -> str:
    """What v_q = 50 gains, by domain, reading and alpha."""
    gains, rows = where(lines, kind="gain"), []
    for name in distinct(gains, "claim"):
        cells = []
        for reading in SHOWN.values():
            by_alpha = where(gains, claim=name, reading=reading)
            cells.append(", ".join(f"{one['value']:+.1f} ± {one['error']:.1f}" for one in by_alpha))
        rows.append((name, where(gains, claim=name)[0]["paper"], *cells))
    words = ("2M, over T 2^D; declared", "2M/m, undivided; data")
    return markdown_table(("domain", "the paper's, O.C.", *words), rows)


def _level_table(lines: Sequence[Line]) -> str:
    """What is significant, and what would be of equals, by kind of test."""
    of_forests = [line for line in lines if line["claim"].startswith("Table 4: T =")]
    others = [
        line
        for line in where(lines, kind="claim")
        if not line["claim"].startswith(("Table 4", "v_q"))
    ]
    rows = []
    for kind in KINDS:
        cells = []
        for part in (of_forests, others):
            of_kind = where(part, test=kind)
            weights = [line["outcomes"] for line in of_kind]
            for column in ("significant", "of equals"):
                mean = np.average([line[column] for line in of_kind], weights=weights)
                cells.append(f"{mean:.0f} %" if mean >= 10 else f"{mean:.1f} %")
        rows.append((kind, *cells))
    head = ("test", "Table 4", "of equals", "other claims", "of equals")
    return markdown_table(head, rows)


SHOWN = {
    "printed-noise": "option second; leaf_scale 2M; leaf_divisor T 2^D; cuts declared",
    "two-thirds": "option second; leaf_scale 2M/m; leaf_divisor 1; cuts data",
}
"""A table's name -> the reading of it."""

COLUMNS = (
    *("kind", "reading", "claim", "test", "paper", "value", "error", "verdict"),
    *("outcomes", "significant", "of equals", "seed", "commit"),
)
"""The columns of the lines in short."""

PAGE = pages.Pages(
    f"{NAME} significance",
    {name: functools.partial(_claim_table, reading=reading) for name, reading in SHOWN.items()}
    | {"gains": _gain_table, "levels": _level_table},
    summary=COLUMNS,
    file="nock_tests.csv",
)
