"""Words of ledgers: what they say of relations, samplers and keys, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpbt.common.public import ADD_REMOVE, GRID, REPLACE_ONE, relation_name

if TYPE_CHECKING:
    from dpbt.privacy.accounting import Ledger, Line

MEASURES = {
    "epsilon": "epsilon of pure differential privacy",
    "rho": "rho of zCDP",
    "mu": "mu^2 of Gaussian differential privacy",
}
"""What costs of releases add up in, by the name of the measure."""

RELATION_WORDS = {
    ADD_REMOVE: "one row is there or not, and rows is a public bound on their number",
    REPLACE_ONE: "one row is exchanged, and rows is their public number",
}
"""What a neighbour is and what `rows` means; README and docs/threats.md use the same words."""

EXACT_WORDS = "finitely many bits, within a stated factor of their laws"
FLOAT_WORDS = (
    "lines marked FLOAT state no distance of their samplers from their laws; the values that such "
    "noise can reach may name a neighbour, so release nothing"
)
KEY_WORDS = {
    "release": (
        "key: 256 bits of ChaCha20; the guarantee is against adversaries of bounded computation"
    ),
    "research": (
        "RESEARCH KEY: whoever finds it by search can subtract the noise; release nothing"
    ),
}
"""What a ledger says about the key that the noise came from."""

PARTS_WORDS = (
    "sum: a site begins with the number of its release; the total is for one neighbour in all of "
    "them, and each has its own rows"
)

ROW = "row"
"""The unit of numbers that are measured in weights of rows."""

ROW_STEP = f"1/{GRID} row"
"""The unit of weights that are integers, 0..GRID."""

_LEGEND = (
    "count: how often the draw is paid for, over all rounds; epsilon and rho (zCDP) add these up",
    "scale: the noise; sensitivity: what one row moves; both are in the unit of their line",
)
_UNITS = (
    f"unit: a row is the largest weight that one row may have in its round; {ROW_STEP} is the step "
    "in which weights are counted"
)
_NO_PURE = "inf: the draw has no pure epsilon, like Gaussian noise; rho gives the total"
_HEAD = (
    *("site", "mechanism", "releases", "count", "scale"),
    *("sensitivity", "unit", "epsilon", "rho", "theorem"),
)


def people_words(max_rows_per_user: int) -> str:
    """What a ledger says about people who have several rows."""
    return (
        f"people: all rows of one person together, up to {max_rows_per_user}; that nobody has more "
        "is the owner's promise"
    )


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of bins as lines with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(bin.ljust(width) for bin, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def printed(book: Ledger) -> str:
    """The ledger as a person reads it: a table of its lines, and what they add up to."""
    bits = ("(bits)", "samplers", "nothing; the cost of finitely many bits", "", "", "", "")
    bits += (f"{book.sampler_epsilon:.4g}", "")
    bits += (f"delta {book.sampler_delta:.2g}; docs/privacy.md 14",)
    return "\n".join([align([_HEAD, *map(_bins, book.lines), bits]), *_footers(book)])


def _bins(line: Line) -> tuple[str, ...]:
    """A line of a ledger as bins of its table."""
    return (
        line.site,
        line.mechanism,
        line.releases,
        str(line.count),
        "" if line.moved is None else f"{line.scale:.4g}",
        f"{line.sensitivity:.4g}",
        line.unit,
        f"{line.count * line.epsilon:.4g}",
        f"{line.count * line.rho:.4g}",
        line.theorem if line.exact else f"FLOAT {line.theorem}",
    )


def _footers(book: Ledger) -> list[str]:
    """The total, the guarantee in words, and the meaning of columns and units."""
    words = RELATION_WORDS[book.relation]
    if book.rows is not None:
        words = words.replace("rows is", f"rows = {book.rows} is")
    return [
        *_total(book),
        *(_part_words(number, part) for number, part in enumerate(book.parts, 1)),
        *([PARTS_WORDS] if book.parts else []),
        f"neighbours: {words}",
        *([people_words(book.max_rows_per_user)] if book.max_rows_per_user > 1 else []),
        f"samplers: {EXACT_WORDS if book.exact else FLOAT_WORDS}",
        *(
            f"UNPROTECTED: {reading}; epsilon is the paper's claim and not a proof"
            for reading in book.unprotected
        ),
        *([KEY_WORDS[book.key]] if book.key else []),
        *_LEGEND,
        *([_UNITS] if {ROW, ROW_STEP} & {line.unit for line in book.lines} else []),
        *([_NO_PURE] if any(map(math.isinf, (line.epsilon for line in book.lines))) else []),
    ]


def _total(book: Ledger) -> list[str]:
    """The total, and what a choice is made of."""
    choice, (epsilon, rho, mu) = book.choice, book.run()
    by = f"mu = {mu:.6g} GDP" if book.gaussian else f"rho = {rho:.6g} zCDP"
    if book.basic_epsilon == book.epsilon < math.inf:
        by = "the sum of the parts"
    at = f"{book.delta:g} ({by})" if book.delta else f"{book.sampler_delta:.2g}"
    total = f"total: epsilon = {'' if book.exact else 'FLOAT '}{book.epsilon:.6g}"
    if book.delta or book.sampler_delta:
        total += f", delta = {at}"
    total += f" under {relation_name(book.relation)}"
    if choice is None:
        return [total]

    one = f"epsilon = {epsilon:.6g}" if math.isfinite(epsilon) else by
    how = "the dearer of fit and score" if choice.disjoint else "fit and score"
    law = {0.0: "logarithmic", 1.0: "geometric"}.get(choice.eta, "negative binomial")
    return [
        f"lines are of one run of a candidate; it costs {how}: {one}",
        f"choice: the best {choice.score} of a random number of runs, {law}, "
        f"eta = {choice.eta:g}, gamma = {choice.gamma:.6g}, mean {choice.law.mean:.4g}, "
        f"of {choice.candidates} candidates; docs/privacy.md T1-T5",
        total,
    ]


def _part_words(number: int, part: Ledger) -> str:
    """One release of a sum in one line."""
    words = f"release {number}: epsilon = {part.epsilon:.6g}"
    if part.delta:
        words += f", delta = {part.delta:g}"
    if part.rows is not None:
        words += f", rows = {part.rows}"
    return words if part.key is None else f"{words}, {part.key} key"
