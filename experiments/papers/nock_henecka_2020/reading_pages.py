"""The tables of the readings in a page, from the saved lines; nothing of them is typed.

`experiments.common.pages` says where they stand.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from experiments.common import aggregated, pages, results
from experiments.common.results import distinct, where
from experiments.common.tables import markdown as table
from experiments.papers.nock_henecka_2020.reading_fits import ALPHA_NAMES
from experiments.papers.nock_henecka_2020.reading_settings import READINGS
from experiments.papers.nock_henecka_2020.reading_tables import COUNTED, FLAT, NEAR, NEIGHBOURS
from experiments.papers.nock_henecka_2020.settings import EPSILONS, NAME

Line = results.Line

SUMMARY = (
    *("kind", "reading", "alpha", "epsilon", "domain", "axis", "trees", "forest", "domains"),
    *("settings", "share", "share_of_fits", "best", "median", "spread", "last"),
    *(f"{word} {alpha}" for word in ("count", "best", "wins", "paper") for alpha in ALPHA_NAMES),
    *(f"error {epsilon:g}" for epsilon in EPSILONS),
    *("significant", "depth", "rounds", "both", "larger_class", "at", "below", "above"),
    *("test", "left_out", "cells", "difference", "near"),
    *("trials", *NEIGHBOURS, "v_q", "clip", "folds", "seed", "fitted", "commit", "jax", "device"),
)
"""The columns of the lines in short."""


def _of(lines: Sequence[Line], kind: str) -> list[Line]:
    return where(lines, kind=kind)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _origin(lines: Sequence[Line]) -> str:
    rows = [
        ("seed", str(lines[0]["seed"])),
        ("folds", str(lines[0]["folds"])),
        ("commit of the fits", str(lines[0]["fitted"])),
        ("JAX", "; ".join(sorted({str(line["jax"]) for line in lines}))),
        ("device", "; ".join(sorted({str(line["device"]) for line in lines}))),
    ]
    for reading in distinct(_of(lines, "larger class"), "reading"):
        own = [line["domain"] for line in where(lines, kind="larger class", reading=reading)]
        rows.append((f"domains of *{reading}*", f"{len(own)}: {', '.join(own)}"))
    return table(("of the saved fits", ""), rows)


def _words(lines: Sequence[Line]) -> str:
    known = distinct(_of(lines, "accurate"), "reading")
    return table(("reading", "what it does"), [(name, READINGS[name].words) for name in known])


def _accurate(lines: Sequence[Line]) -> str:
    """Banknote: settings with an error of at most 20 %, and the smallest error, by alpha."""
    own = _of(lines, "accurate")
    rows = []
    for reading in distinct(own, "reading"):
        by_alpha = {str(line["alpha"]): line for line in where(own, reading=reading)}
        of = [by_alpha[alpha] for alpha in ALPHA_NAMES]
        shares = [f"{_percent(line['share'])} ({_percent(line['share_of_fits'])})" for line in of]
        rows.append((reading, *shares, *(f"{line['best']:.3f}" for line in of)))
    head = [f"{alpha}: {word}" for word in ("at most 20 %", "best") for alpha in ALPHA_HEADS]
    return table(("reading", *head), rows)


ALPHA_HEADS = ("O.C.", "alpha 0.1", "alpha 1")


def _table_1(lines: Sequence[Line]) -> str:
    own = _of(lines, "table 1")
    readings, rows, away = distinct(own, "reading"), [], Counter()
    printed = aggregated.printed(NAME, "table-1")
    for epsilon in distinct(own, "epsilon"):
        theirs = [int(number) for at, number in printed if at["epsilon"] == epsilon]
        cells = []
        for reading in readings:
            (line,) = where(own, reading=reading, epsilon=epsilon)
            counts = [line[f"count {alpha}"] for alpha in ALPHA_NAMES]
            away[reading] += sum(abs(a - b) for a, b in zip(counts, theirs, strict=True))
            cells.append(", ".join(map(str, counts)))
        rows.append((f"{epsilon:g}", ", ".join(map(str, theirs)), *cells))
    number = {line["reading"]: line["domains"] for line in own}
    most = max(number.values(), default=0)
    every = (str(away[reading]) if number[reading] == most else "-" for reading in readings)
    rows.append(("all differences, absolute", "0", *every))
    head = [f"{reading} ({number[reading]})" for reading in readings]
    return table(("epsilon", "the paper's (19)", *head), rows)


def _flatness(lines: Sequence[Line]) -> str:
    own = _of(lines, "flatness")
    rows = []
    for reading in distinct(own, "reading"):
        by_axis = {line["axis"]: line for line in where(own, reading=reading)}
        spreads = [f"{100 * by_axis[axis]['spread']:.1f}" for axis in FLAT]
        change = [f"{100 * by_axis[axis]['last']:+.1f}" for axis in ("rounds", "depth")]
        rows.append((reading, str(by_axis["rounds"]["domains"]), *spreads, *change))
    head = ("reading", "domains", "beta_tree", "T", "depth", "T = 20 less T = 2", "depth 6 less 1")
    return table(head, rows)


def _table_3(lines: Sequence[Line]) -> str:
    rows = [
        (
            line["reading"],
            *(f"{line[key]} of {line['domains']}" for key in ("depth", "rounds", "both")),
        )
        for line in _of(lines, "table 3")
    ]
    return table(("reading", "depth agrees", "number of trees agrees", "both agree"), rows)


def _table_4(lines: Sequence[Line]) -> str:
    own = _of(lines, "table 4")
    pairs = distinct([{"pair": (line["trees"], line["forest"])} for line in own], "pair")
    rows: list[tuple[str, ...]] = []
    first = (where(own, trees=trees, forest=forest)[0] for trees, forest in pairs)
    printed = [_numbers(line, "paper") for line in first]
    rows.append(("the paper's", "19", *printed, "96 % and more"))
    for reading in distinct(own, "reading"):
        of = where(own, reading=reading)
        cells = [_numbers(line, "wins") for line in of]
        significant = sum(line["significant"] for line in of) / len(of)
        rows.append((reading, str(of[0]["domains"]), *cells, _percent(significant)))
    heads = [f"T = {trees}, {forest}" for trees, forest in pairs]
    return table(("reading", "domains", *heads, "significant"), rows)


def _numbers(line: Line, word: str) -> str:
    """The percentages for each alpha; a dash where no difference is significant."""
    values = (line[f"{word} {alpha}"] for alpha in ALPHA_NAMES)
    return ", ".join("-" if value is None else f"{value:.0f}" for value in values)


def _counted(lines: Sequence[Line]) -> str:
    """How near Table 4 comes under other tests, and without an epsilon."""
    rows = []
    for line in _of(lines, COUNTED):
        if line["difference"] is None:
            continue
        left_out = "none" if line["left_out"] is None else f"{line['left_out']:g}"
        shares = (_percent(line[key]) for key in ("near", "significant"))
        head = (line["reading"], line["test"], left_out, str(line["cells"]))
        rows.append((*head, f"{line['difference']:.0f}", *shares))
    heads = ("reading", "test", "epsilon left out", "cells", "mean difference, points")
    return table((*heads, f"within {NEAR:g} points", "significant"), rows)


def _larger_class(lines: Sequence[Line]) -> str:
    """Of unbalanced domains: how the errors of all private settings lie to the larger class's."""
    own = [line for line in _of(lines, "larger class") if line["larger_class"] <= MAX_UNBALANCED]
    rows = []
    for line in sorted(own, key=lambda line: line["domain"]):
        shares = [_percent(line[key]) for key in ("below", "at", "above")]
        errors = [f"{line[key]:.3f}" for key in ("larger_class", "median")]
        rows.append((line["domain"], line["reading"], *errors, *shares))
    head = ("domain", "reading", "larger class", "median", "below", "within a point", "above")
    return table(head, rows)


MAX_UNBALANCED = 0.35
"""A domain whose smaller class has at most this share is called unbalanced."""


def _told_apart(lines: Sequence[Line]) -> str:
    rows = []
    for line in _of(lines, "told apart"):
        shares = (_percent(line[kind]) for kind in NEIGHBOURS)
        rows.append((f"{line['epsilon']:g}", str(line["trials"]), *shares))
    return table(("epsilon", "trials", *NEIGHBOURS.values()), rows)


def _banknote(lines: Sequence[Line]) -> str:
    """Wins on banknote by depth, of each reading and as printed."""
    own = _of(lines, "table 4 of banknote")
    readings = distinct(own, "reading")
    cells: dict[tuple, dict[str, str]] = {}
    for line in own:
        place = (line["trees"], line["forest"], line["depth"])
        at = cells.setdefault(place, {"paper": _numbers(line, "paper")})
        at[line["reading"]] = _numbers(line, "wins")
    rows = [
        (*map(str, place), at["paper"], *(at[reading] for reading in readings))
        for place, at in cells.items()
    ]
    return table(("T", "forest", "depth", "the paper's", *readings), rows)


def _forests(lines: Sequence[Line]) -> str:
    """Errors of the forests with the published noise, by epsilon; means over depths."""
    own, rows = _of(lines, "forests"), []
    for name, forest in dict.fromkeys((line["domain"], line["forest"]) for line in own):
        here = where(own, domain=name, forest=forest)
        means = (statistics.fmean(line[f"error {e:g}"] for line in here) for e in EPSILONS)
        constant = f"{here[0]['larger_class']:.3f}"
        rows.append((name, forest, constant, *(f"{mean:.3f}" for mean in means)))
    head = ("domain", "forest", "larger class", *(f"{epsilon:g}" for epsilon in EPSILONS))
    return table(head, rows)


TABLES: dict[str, Callable[[Sequence[Line]], str]] = {
    "origin": _origin,
    "readings": _words,
    "accurate": _accurate,
    "table-1": _table_1,
    "flatness": _flatness,
    "table-3": _table_3,
    "table-4": _table_4,
    "table-4-counted": _counted,
    "banknote": _banknote,
    "forests": _forests,
    "larger-class": _larger_class,
    "told-apart": _told_apart,
}
"""The name of a mark -> what stands there."""

KINDS = (
    *("accurate", "table 1", "flatness", "table 3", "table 4", "table 4 of banknote"),
    COUNTED,
    *("forests", "larger class", "told apart"),
)


def _order(line: Line) -> tuple:
    """By kind and reading; the order of the file decides among those."""
    reading = list(READINGS).index(line["reading"]) if line["reading"] in READINGS else -1
    return KINDS.index(line["kind"]), reading


PAGES = pages.Pages(f"{NAME} readings", TABLES, SUMMARY, "nock_readings.csv", _order)
