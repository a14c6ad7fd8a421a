"""The command, and the tables that it writes into docs/audits.md."""

import argparse
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


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "what is audited (museum levels)"
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:2], help=words)
    words = f"compare the levels at {max(RUNS)} runs, too"
    parser.add_argument("--long", action="store_true", help=words)
    shared: dict[str, Any] = {"doc": True, "smoke": True, "json": "print the lines as a JSON list"}
    commands.add_shared(parser, out=results.results_folder("audits"), **shared)


def run(options: argparse.Namespace) -> None:
    """Audit what was asked for, and save it beside saved lines of other parts; or write a page."""
    path = commands.out_folder(options) / "audits.csv"
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return
    lines = []
    for part in options.parts:
        lines += list(_MEASURED[part](options))
    old = results.read_csv(path, "audits") if path.exists() else []
    other_lines = [line for line in old if line["part"] not in options.parts]
    results.write_csv(path, [*other_lines, *lines], {})
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    print(tables.align_lines(lines, KEYS))
    print(f"wrote {path}")


def _audit_line(audit: Callable[[], Bound], **about: Any) -> Line:
    """The line of one audit; seconds are those of the processor."""
    start = time.process_time()
    bound = audit()
    seconds, (claim, delta) = time.process_time() - start, bound.claim
    line = dict.fromkeys(COLUMNS[:-1]) | about
    found = {"claim": claim, "delta": delta, "epsilon": bound.epsilon, "found": bound.broken}
    more = {"level": bound.level, "runs": bound.runs, "seconds": seconds, "where": bound.where}
    return line | found | more


def visited(shown: Exhibit, wrong: bool, runs: int = BLACK_RUNS) -> Iterator[Line]:
    """What the grey box and the black box say of an exhibit, or of its twin."""
    pair, claim = (shown.table, shown.neighbour), shown.claim
    about = {"part": "museum", "name": shown.name, "source": shown.source, "why": shown.why}
    about["twin"] = "wrong" if wrong else "mended"

    def learn(rows: Any, hooks: dpbt.audit.Hooks) -> Any:
        return shown.learn(rows, hooks, wrong)

    def fit(rows: Any, seed: int) -> Any:
        return learn(rows, dpbt.audit.Hooks(seed))

    # No exhibit with a delta has a draw that follows earlier outputs.
    common = {"claim": claim, "fixed": claim[1] > 0, "runs": shown.runs}
    yield _audit_line(lambda: dpbt.audit.grey(learn, *pair, **common), **about)
    yield _audit_line(lambda: dpbt.audit.black(fit, *pair, claim=claim, runs=runs), **about)


def _museum(options: argparse.Namespace) -> Iterator[Line]:
    chosen = list(EXHIBITS.values())[: 2 if options.smoke else None]
    for shown in chosen:
        for wrong in (True, False):
            yield from visited(shown, wrong, 200 if options.smoke else BLACK_RUNS)


def _levels(options: argparse.Namespace) -> Iterator[Line]:
    asked = {runs: RUNS[runs] for runs in RUNS if options.long or runs < max(RUNS)}
    for level in levels():
        for runs, repeats in ({200: 2} if options.smoke else asked).items():
            yield _mean_of_repeats(level, runs, repeats)


def _mean_of_repeats(level: Level, runs: int, repeats: int) -> Line:
    """The mean of several audits with other seeds, and its standard error."""
    about = {"part": "levels", "name": level.mechanism, "truth": level.truth, "repeats": repeats}
    lines = [
        _audit_line(lambda seed=seed: level.bound(runs, seed), **about) for seed in range(repeats)
    ]
    epsilons = [line["epsilon"] for line in lines]
    seconds = sorted(line["seconds"] for line in lines)[repeats // 2]  # a first one compiles
    error = float(np.std(epsilons, ddof=1) / math.sqrt(repeats))
    mean = {"epsilon": float(np.mean(epsilons)), "error": error, "seconds": seconds, "runs": runs}
    return lines[0] | mean | {"found": any(line["found"] for line in lines)}


def _peers(options: argparse.Namespace) -> Iterator[Line]:
    pairs = dpbt.audit.worst_pairs([0.0, 0.0], [1.0, 1.0])
    for name, learner in ADAPTERS.items():
        peers.check_installed(learner.library)
        runs = 80 if options.smoke else learner.runs
        for pair in PAIRS:
            about = {"part": "peers", "name": name, "source": pair}
            about["library"] = peers.name_with_version(learner.library)
            audit = lambda of=learner, at=pairs[pair], runs=runs: dpbt.audit.black(  # noqa: E731
                of, *at, claim=of.claim, runs=runs
            )
            yield _audit_line(audit, **about)


_MEASURED = {"museum": _museum, "levels": _levels, "peers": _peers}


# The tables.


def _cell(line: Line) -> str:
    words = "any" if math.isinf(line["epsilon"]) else f"{line['epsilon']:.2f}"
    return f"**{words}**" if line["found"] else words


def _museum_table(lines: Sequence[Line]) -> str:
    lines, rows = where(lines, part="museum"), []
    for name in distinct(lines, "name"):
        own_lines = where(lines, name=name)
        cells = [_cell(line) for line in own_lines]
        seconds = sum(line["seconds"] for line in own_lines)
        first = own_lines[0]
        rows.append((name, first["source"], _claim(first), *cells, f"{seconds:.1f}"))
    head = ("mistake", "seen in", "claim", "grey", "black", "grey, mended", "black, mended", "s")
    return tables.markdown_table(head, rows)


def _claim(line: Line) -> str:
    return f"{line['claim']:.3g}" + (f", {line['delta']:.0e}" if line["delta"] else "")


def _missed_table(lines: Sequence[Line]) -> str:
    """What some level misses, and why."""
    wrong, rows = where(lines, part="museum", twin="wrong"), []
    by = {level: where(wrong, level=level) for level in ("grey box", "black box")}
    count = {level: sum(line["found"] for line in own) for level, own in by.items()}
    pairs = list(zip(*by.values(), strict=True))
    some = sum(grey["found"] or black["found"] for grey, black in pairs)
    for both in pairs:
        missed = [line["level"] for line in both if not line["found"]]
        if missed:
            rows.append((both[0]["name"], " and ".join(missed), both[0]["why"] or LOW))
    words = f"Of {len(pairs)} mistakes the grey box finds {count['grey box']}, the black box "
    words += f"{count['black box']}, and one of them {some}."
    return words + "\n\n" + tables.markdown_table(("mistake", "missed by", "why"), rows)


LOW = "a black box of so few runs says less than the claim"


def _levels_table(lines: Sequence[Line]) -> str:
    lines, rows = where(lines, part="levels"), []
    counts = sorted(distinct(lines, "runs"))
    for name in distinct(lines, "name"):
        for level in distinct(where(lines, name=name), "level"):
            own_lines = where(lines, name=name, level=level)
            cells = [
                f"{line['epsilon'] / line['truth']:.2f} ± {line['error'] / line['truth']:.2f}"
                for line in own_lines
            ]
            seconds = f"{own_lines[-1]['seconds']:.1f}"
            rows.append((name, level, f"{own_lines[0]['truth']:.2f}", *cells, seconds))
    head = ("mechanism", "level", "truth", *(f"{count:,} runs" for count in counts))
    return tables.markdown_table((*head, f"s of {max(counts):,}"), rows)


def _peers_table(lines: Sequence[Line]) -> str:
    rows = [
        (line["library"], line["name"], line["source"], _claim(line), _cell(line), line["where"],
         str(line["runs"]), f"{line['seconds']:.0f}")
        for line in where(lines, part="peers")
    ]  # fmt: skip
    head = ("library", "learner", "pair", "claim", "found", "by", "runs", "s")
    return tables.markdown_table(head, rows)


def _minutes(lines: Sequence[Line]) -> str:
    """Minutes of the processor by part, without what is for `--long` alone."""
    fast = [line for line in lines if line["runs"] < max(RUNS)]
    parts = {
        part: sum(line["seconds"] * (line["repeats"] or 1) for line in where(fast, part=part)) / 60
        for part in PARTS
    }
    texts = (f"{part} {minutes:.1f}" for part, minutes in parts.items() if minutes)
    return f"Minutes of one core: {', '.join(texts)}."


PAGES = pages.Pages(
    "audits",
    {
        "museum": _museum_table,
        "missed": _missed_table,
        "levels": _levels_table,
        "peers": _peers_table,
        "minutes": _minutes,
    },
    COLUMNS,
    "audits.csv",
    lambda line: (PARTS.index(line["part"]),),
)
"""What `--doc` writes."""
