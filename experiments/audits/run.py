"""The command, and the tables that it writes into docs/audits.md."""

import argparse
import functools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpbt
from dpbt.privacy.bounds import Bound
from experiments.audits.adapters import ADAPTERS, PAIRS
from experiments.audits.levels import Level, levels
from experiments.audits.museum import EXHIBITS, Exhibit
from experiments.common import commands, pages, peers, results, tables
from experiments.common.results import Line, distinct, where

BLACK_RUNS = 4000
RUNS = {200: 10, 2000: 10, 20000: 5}
"""Runs at which the levels are compared -> how often, each time with other seeds."""

KEYS = ("part", "name", "twin", "level", "claim", "delta", "epsilon", "found", "runs", "seconds")
COLUMNS = (*KEYS, "source", "why", "truth", "error", "repeats", "where", "library", "jax")
PARTS = ("museum", "levels", "peers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "what is audited (museum levels)"
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:2], help=words)
    words = f"compare the levels at {max(RUNS)} runs, too"
    parser.add_argument("--long", action="store_true", help=words)
    options: dict[str, Any] = {"doc": True, "smoke": True, "json": "print the lines as a JSON list"}
    commands.add_shared(parser, out=results.results_folder("audits"), **options)


def run_command(options: argparse.Namespace) -> None:
    """Audit the requested parts, and save lines beside those of other parts; or write a page."""
    path = commands.out_folder(options) / "audits.csv"
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return
    lines = []
    for part in options.parts:
        lines += list(_AUDITS[part](options))
    old = results.read_csv(path, "audits") if path.exists() else []
    other_lines = [line for line in old if line["part"] not in options.parts]
    results.write_csv(path, [*other_lines, *lines], {})
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    print(tables.align_lines(lines, KEYS))
    print(f"wrote {path}")


def _audit_line(audit: Callable[[], Bound], **columns: Any) -> Line:
    """The line of one audit, with these other columns; seconds are those of the processor."""
    start = time.process_time()
    bound = audit()
    seconds, (claim, delta) = time.process_time() - start, bound.claim
    return {
        **dict.fromkeys(COLUMNS[:-1]),
        **columns,
        "claim": claim,
        "delta": delta,
        "epsilon": bound.epsilon,
        "found": bound.broken,
        "level": bound.level,
        "runs": bound.runs,
        "seconds": seconds,
        "where": bound.where,
    }


def audit_exhibit(exhibit: Exhibit, *, wrong: bool, black_runs: int = BLACK_RUNS) -> Iterator[Line]:
    """The lines of the grey box and of the black box on an exhibit, or on its mended twin."""
    tables, claim = (exhibit.table, exhibit.neighbour), exhibit.claim
    columns = {
        "part": "museum",
        "name": exhibit.name,
        "source": exhibit.source,
        "why": exhibit.why,
        "twin": "wrong" if wrong else "mended",
    }

    def learn(rows: Any, hooks: dpbt.audit.Hooks) -> Any:
        return exhibit.learn(rows, hooks, wrong)

    def fit(rows: Any, seed: int) -> Any:
        return learn(rows, dpbt.audit.Hooks(seed))

    # No exhibit with a delta has a draw that follows earlier outputs.
    grey_options = {"claim": claim, "nonadaptive": claim[1] > 0, "num_runs": exhibit.runs}
    black_options = {"claim": claim, "num_runs": black_runs}
    yield _audit_line(
        lambda: dpbt.audit.grey_box_lower_bound(learn, *tables, **grey_options), **columns
    )
    yield _audit_line(
        lambda: dpbt.audit.black_box_lower_bound(fit, *tables, **black_options), **columns
    )


def _audit_museum(options: argparse.Namespace) -> Iterator[Line]:
    for exhibit in list(EXHIBITS.values())[: 2 if options.smoke else None]:
        for wrong in (True, False):
            black_runs = 200 if options.smoke else BLACK_RUNS
            yield from audit_exhibit(exhibit, wrong=wrong, black_runs=black_runs)


def _audit_levels(options: argparse.Namespace) -> Iterator[Line]:
    repeats_by_runs = {runs: RUNS[runs] for runs in RUNS if options.long or runs < max(RUNS)}
    if options.smoke:
        repeats_by_runs = {200: 2}
    for level in levels():
        for runs, repeats in repeats_by_runs.items():
            yield _mean_of_repeats(level, runs, repeats)


def _mean_of_repeats(level: Level, runs: int, repeats: int) -> Line:
    """The mean of several audits with other seeds, and its standard error."""
    columns = {"part": "levels", "name": level.mechanism, "truth": level.truth, "repeats": repeats}
    lines = [
        _audit_line(lambda seed=seed: level.bound(runs, seed), **columns) for seed in range(repeats)
    ]
    epsilons = [line["epsilon"] for line in lines]
    seconds = sorted(line["seconds"] for line in lines)[repeats // 2]  # a first one compiles
    error = float(np.std(epsilons, ddof=1) / math.sqrt(repeats))
    mean = {"epsilon": float(np.mean(epsilons)), "error": error, "seconds": seconds, "runs": runs}
    return lines[0] | mean | {"found": any(line["found"] for line in lines)}


def _audit_peers(options: argparse.Namespace) -> Iterator[Line]:
    pairs = dpbt.audit.make_worst_table_pairs([0.0, 0.0], [1.0, 1.0])
    for name, learner in ADAPTERS.items():
        peers.check_installed(learner.library)
        runs = 80 if options.smoke else learner.runs
        for pair in PAIRS:
            audit = functools.partial(
                dpbt.audit.black_box_lower_bound,
                learner,
                *pairs[pair],
                claim=learner.claim,
                num_runs=runs,
            )
            library = peers.name_with_version(learner.library)
            yield _audit_line(audit, part="peers", name=name, source=pair, library=library)


_AUDITS = {"museum": _audit_museum, "levels": _audit_levels, "peers": _audit_peers}
"""Part -> the lines of its audits."""


# The tables.


def _format_epsilon(line: Line) -> str:
    """The lower bound on epsilon; bold if the claim is broken."""
    words = "any" if math.isinf(line["epsilon"]) else f"{line['epsilon']:.2f}"
    return f"**{words}**" if line["found"] else words


def _museum_table(lines: Sequence[Line]) -> str:
    lines, rows = where(lines, part="museum"), []
    for name in distinct(lines, "name"):
        of_exhibit = where(lines, name=name)
        cells = [_format_epsilon(line) for line in of_exhibit]
        seconds = sum(line["seconds"] for line in of_exhibit)
        first = of_exhibit[0]
        rows.append((name, first["source"], _format_claim(first), *cells, f"{seconds:.1f}"))
    head = ("mistake", "seen in", "claim", "grey", "black", "grey, mended", "black, mended", "s")
    return tables.markdown_table(head, rows)


def _format_claim(line: Line) -> str:
    return f"{line['claim']:.3g}" + (f", {line['delta']:.0e}" if line["delta"] else "")


def _missed_table(lines: Sequence[Line]) -> str:
    """What some level misses, and why."""
    wrong, rows = where(lines, part="museum", twin="wrong"), []
    grey_lines, black_lines = where(wrong, level="grey box"), where(wrong, level="black box")
    pairs = list(zip(grey_lines, black_lines, strict=True))
    for pair in pairs:
        missed = [line["level"] for line in pair if not line["found"]]
        if missed:
            rows.append((pair[0]["name"], " and ".join(missed), pair[0]["why"] or FEW_RUNS))
    num_grey, num_black = (
        sum(line["found"] for line in of_level) for of_level in (grey_lines, black_lines)
    )
    num_either = sum(grey["found"] or black["found"] for grey, black in pairs)
    words = f"Of {len(pairs)} mistakes the grey box finds {num_grey}, the black box "
    words += f"{num_black}, and one of them {num_either}."
    return words + "\n\n" + tables.markdown_table(("mistake", "missed by", "why"), rows)


FEW_RUNS = "a black box of so few runs says less than the claim"
"""Why the black box misses a mistake that has no reason of its own."""


def _levels_table(lines: Sequence[Line]) -> str:
    lines, rows = where(lines, part="levels"), []
    counts = sorted(distinct(lines, "runs"))
    for name in distinct(lines, "name"):
        for level in distinct(where(lines, name=name), "level"):
            of_level = where(lines, name=name, level=level)
            cells = [
                f"{line['epsilon'] / line['truth']:.2f} ± {line['error'] / line['truth']:.2f}"
                for line in of_level
            ]
            seconds = f"{of_level[-1]['seconds']:.1f}"
            rows.append((name, level, f"{of_level[0]['truth']:.2f}", *cells, seconds))
    head = ("mechanism", "level", "truth", *(f"{count:,} runs" for count in counts))
    return tables.markdown_table((*head, f"s of {max(counts):,}"), rows)


def _peers_table(lines: Sequence[Line]) -> str:
    rows = [
        (
            line["library"],
            line["name"],
            line["source"],
            _format_claim(line),
            _format_epsilon(line),
            line["where"],
            str(line["runs"]),
            f"{line['seconds']:.0f}",
        )
        for line in where(lines, part="peers")
    ]
    head = ("library", "learner", "pair", "claim", "found", "by", "runs", "s")
    return tables.markdown_table(head, rows)


def _minutes_in_words(lines: Sequence[Line]) -> str:
    """Minutes of the processor by part, without those of `--long` alone."""
    fast = [line for line in lines if line["runs"] < max(RUNS)]
    minutes_by_part = {
        part: sum(line["seconds"] * (line["repeats"] or 1) for line in where(fast, part=part)) / 60
        for part in PARTS
    }
    texts = (f"{part} {minutes:.1f}" for part, minutes in minutes_by_part.items() if minutes)
    return f"Minutes of one core: {', '.join(texts)}."


PAGES = pages.Pages(
    "audits",
    {
        "museum": _museum_table,
        "missed": _missed_table,
        "levels": _levels_table,
        "peers": _peers_table,
        "minutes": _minutes_in_words,
    },
    COLUMNS,
    "audits.csv",
    lambda line: (PARTS.index(line["part"]),),
)
"""What `--doc` writes."""
