"""Statements of ledgers: the meaning of a guarantee, for people who decide about a release.

A statement is Markdown of headings, paragraphs and lists alone, so that HTML and PDF can be made
line by line.
"""

import html
import math
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from dpbt.common.storage import write_atomically
from dpbt.common.validate import as_path
from dpbt.data.column_types import Numeric
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger
from dpbt.public_types import ADD_REMOVE, REPLACE_ONE

FALSE_POSITIVES = (0.01, 0.1)
"""The rates of false alarms that a statement reports."""

_DELTAS = tuple(10.0**power for power in range(-12, 0))
"""The deltas at which a ledger bounds an attacker. Each bound holds, so the smallest does too."""

_PAGE = """\
# Privacy statement: {subject}, dpbt {version}

## How much
{guarantee}

## What is protected
Protected is {protected}.{bound} {people}

## What that means
Take the best possible attacker, who knows every other row and all that is public, and wants to \
tell {aim}.
{attacks}

## What is released
The {models} made of. These are {values}. Whatever is computed from them reveals no more. The \
settings, the declared columns, classes and ranges, and this statement are public.{chosen}

## What is not covered
- {choices}
- Anything that was fitted on the rows before, such as a scaler or an encoder, and any evaluation \
on the rows afterwards.
- The running time and the memory of the training, and access to the machine.
- What the model says about people in general. It may tell something about a person whose rows \
were never in the table.

## How noise is drawn
The noise is drawn {samplers} {key} Each line of the ledger names the theorem that it rests on, \
which `dpbt theorem` prints with its proof."""


_ROW, _PERSON = (
    {
        ADD_REMOVE: "whether one row is in the table or not, and all that it says",
        REPLACE_ONE: "what one row says, where it could have said anything else",
        "people": "A person who has several rows is protected for each row alone, and less as a "
        "whole.",
    },
    {
        ADD_REMOVE: "whether a person's rows, up to {0}, are there or not, and all they say",
        REPLACE_ONE: "what a person's rows, up to {0}, say, where they could have said all else",
        "people": "That nobody has more than {0} rows is the owner's promise. dpbt does not check "
        "it, and a person with more rows is protected less.",
    },
)
_USER = {
    ADD_REMOVE: "whether the rows of a user are there or not, however many, and all they say",
    REPLACE_ONE: "what the rows of a user say, however many, where they could have said all else",
    "people": "An id in the table says whose a row is. Of the rows with one id the first that have "
    "a label count, up to {0}, and rows without an id do not. A person with several ids is "
    "protected for each of them alone, and less as a whole.",
}
"""The words for what is protected: one row, all rows of a person, or all rows with one id."""

_AIM = {
    ADD_REMOVE: "whether one {0} is in the table",
    REPLACE_ONE: "two versions of one {0} apart",
}
"""The words for the aim of the attacker."""

_ATTACK = {
    ADD_REMOVE: "If {0:g} % of {2} that are not in the table may be taken for members of it, at "
    "most {1:g} % of its {2} are recognised. A blind guess recognises {0:g} %.",
    REPLACE_ONE: "If {0:g} % of first versions may be taken for the second, at most {1:g} % of "
    "second versions are recognised. A blind guess recognises {0:g} %.",
}
"""The words for the success of the attacker."""

_TIERS = (1.0, "strong"), (10.0, "reasonable"), (math.inf, "weak")
"""The largest epsilon of each of the three tiers of Ponomareva et al., "How to DP-fy ML" (2023)."""


class Statement(str):
    """The Markdown text of a statement on a guarantee.

    Jupyter shows it as HTML.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The headings, paragraphs and lists of the statement as HTML."""
        lines = [f"<{line.tag}>{html.escape(line.words)}</{line.tag}>" for line in self._lines()]
        text = "\n".join(lines).replace("<li>", "<ul><li>").replace("</li>", "</li></ul>")
        return text.replace("</ul>\n<ul>", "\n")

    def _lines(self) -> Iterator["_Line"]:
        """The lines of the statement that are not empty."""
        tag_of_mark = {"#": "h1", "##": "h2", "-": "li"}
        for text in filter(None, self.splitlines()):
            mark, _, words = text.partition(" ")
            yield _Line(tag_of_mark[mark], words) if mark in tag_of_mark else _Line("p", text)

    def page(self) -> str:
        """The statement as a complete page of HTML.

        It prints on one page of A4.
        """
        title = html.escape(next(self._lines()).words)
        return _HTML.format(title=title, style=_STYLE, body=self._repr_html_())

    def pdf(self, path: str | Path) -> None:
        """Write the statement as a PDF of one page of A4.

        Its letters are as large as fit. The file is written whole or not at all.

        Raises:
            ImportError: without matplotlib.
            OSError: if the file cannot be written.
        """
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "a PDF needs matplotlib, which the extra `figures` installs: "
                "pip install 'dpbt[figures]'; a page of HTML can be printed without it"
            ) from error
        figure = Figure(figsize=(_A4_WIDTH / 72, _A4_HEIGHT / 72))
        for line in _place_on_one_page(list(self._lines())):
            style: Any = {"fontsize": line.size, "weight": "bold" if line.is_bold else "normal"}
            x, y = line.x / _A4_WIDTH, line.y / _A4_HEIGHT
            figure.text(x, y, _escape_invalid_unicode(line.text), parse_math=False, **style)
        with rc_context({"pdf.fonttype": 42}):  # its words can be searched and copied
            title = _escape_invalid_unicode(next(self._lines()).words)
            details = {"Title": title, "CreationDate": None}
            write_atomically(
                as_path("path", path),
                lambda part: figure.savefig(part, format="pdf", metadata=details),
            )


def _escape_invalid_unicode(text: str) -> str:
    """Replace what is no valid Unicode in a text by escapes.

    Such are the bytes of a file's name that are no UTF-8, which no letter shows.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class _Line(NamedTuple):
    """A line of a statement: its HTML element, and its words.

    The mark of Markdown is not in the words.
    """

    tag: str
    words: str


class _PlacedText(NamedTuple):
    """A line of text with its place and its letters on a page of A4.

    Attributes:
        x: the distance from the left edge, in points.
        y: the distance from the lower edge, in points.
        text: the words.
        size: the size of the letters, in points.
        is_bold: whether the letters are bold.
    """

    x: float
    y: float
    text: str
    size: float
    is_bold: bool


_A4_WIDTH, _A4_HEIGHT = 595, 842
"""The size of a page, in points."""


class _PlacedPage(NamedTuple):
    """The placed texts of a page, and the height in points that they fill."""

    texts: list[_PlacedText]
    height: float


def _place_on_one_page(lines: list[_Line]) -> list[_PlacedText]:
    """Place the lines of a statement on one page, in letters as large as fit.

    They are of at most 9.75 points.
    """
    size = 10.0
    while True:
        size -= 0.25
        page = _place_lines(lines, size)
        if page.height <= 760:
            return page.texts


def _place_lines(lines: list[_Line], size: float) -> _PlacedPage:
    """Wrap lines in letters of a size in points, and place them on a page."""
    texts = []
    height = 0.0
    for tag, words in lines:
        layout = _LAYOUTS[tag]
        letter_size = size * layout.scale
        width = int((_A4_WIDTH - 100 - layout.indent) / (0.53 * letter_size))
        mark = "\N{BULLET} " if tag == "li" else ""
        height += layout.space_above * size
        for text in textwrap.wrap(mark + words, width, subsequent_indent="  " * bool(mark)):
            height += 1.3 * letter_size
            y = _A4_HEIGHT - 40 - height
            texts.append(_PlacedText(50 + layout.indent, y, text, letter_size, tag[0] == "h"))
    return _PlacedPage(texts, height)


class _Layout(NamedTuple):
    """The layout of an element of a statement: size, space and indent.

    Attributes:
        scale: the size of its letters, in units of the size of ordinary ones.
        space_above: the free space above it, in units of the size of ordinary letters.
        indent: the indent of its lines, in points.
    """

    scale: float
    space_above: float
    indent: int


_LAYOUTS = {
    "h1": _Layout(1.4, 0.0, 0),
    "h2": _Layout(1.1, 0.7, 0),
    "p": _Layout(1.0, 0.15, 0),
    "li": _Layout(1.0, 0.1, 8),
}
"""The layout of each element of HTML."""

_STYLE = (
    "body{font:10.5pt/1.35 sans-serif;max-width:46em;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin:.8em 0 .2em}p,ul{margin:.2em 0}"
    "li,p{overflow-wrap:anywhere}"
    "@page{size:A4;margin:14mm}@media print{body{font-size:9pt;margin:0;max-width:none}}"
)

_HTML = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>
{body}
</body>
</html>
"""


def statement_of_ledger(ledger: Ledger, name: str | None, version: str) -> str:
    """Write the text of the statement on the guarantee of a ledger.

    Args:
        ledger: the ledger of a model, or the sum of several ledgers.
        name: the name of the algorithm; None for the sum of several releases.
        version: the version of dpbt that made the release.
    """
    num_releases = len(ledger.parts) or 1
    releases = "one release" if num_releases == 1 else f"{num_releases} releases together"
    max_rows_per_user = ledger.max_rows_per_user
    relation = ledger.relation
    if ledger.limits_users:
        protected = _USER
        unit = "user"
        units = "users"
    elif max_rows_per_user == 1:
        protected = _ROW
        unit = "row"
        units = "rows"
    else:
        protected = _PERSON
        unit = "person"
        units = "people"
    choice = _ONE_MODEL if ledger.choice is None else _BEST_MODEL
    num_candidates = ledger.choice and ledger.choice.candidates
    unknown_key = "key: not known here; the statement of a fitted model names its kind"
    key = accounting.KEY_PURPOSE_TEXTS.get(ledger.key_purpose or "", unknown_key)
    secret = " Whoever has the key can subtract the noise, so it must stay secret or be lost."
    samplers = f"by samplers of FLOAT: {accounting.FLOAT_SAMPLERS_TEXT}."
    if ledger.has_bounded_samplers:
        samplers = f"by {accounting.BOUNDED_SAMPLERS_TEXT}. Their cost is in epsilon and delta."
    return _PAGE.format(
        subject=releases if name is None else f"a model by {name}",
        version=version,
        protected=protected[relation].format(max_rows_per_user),
        people=protected["people"].format(max_rows_per_user),
        aim=_AIM[relation].format(unit),
        bound=_declared_rows_in_words(ledger),
        guarantee="\n".join(_lines_on_epsilon_and_delta(ledger)),
        attacks="\n".join(_lines_on_best_attacker(ledger, units)),
        models=f"model{'s' * bool(ledger.parts)}, and the noisy values that "
        f"{'they are' if ledger.parts else 'it is'}",
        values="; ".join(dict.fromkeys(_lines_on_released_values(ledger))),
        chosen=choice["chosen"].format(num_candidates),
        choices=choice["choices"].format(num_candidates),
        samplers=samplers,
        key=f"{key[0].upper()}{key[1:]}.{secret if ledger.key_purpose == 'release' else ''}",
    )


def _declared_rows_in_words(ledger: Ledger) -> str:
    """A sentence on the declared number of rows of each table.

    It is empty if none is declared.
    """
    declared = [(part.rows, f"release {number}") for number, part in enumerate(ledger.parts, 1)]
    rows_of_tables = [
        f"{rows:,} rows in {table}"
        for rows, table in declared or [(ledger.rows, "the table")]
        if rows
    ]
    counted = "are at most" if ledger.relation is ADD_REMOVE else "are"
    if not rows_of_tables:
        return ""
    return f" By public declaration there {counted} {', '.join(rows_of_tables)}."


def _lines_on_best_attacker(ledger: Ledger, units: str) -> list[str]:
    """Lines on the largest true positive rate of an attacker, at each rate of false alarms.

    The bounds are rounded up.
    """
    lines = []
    for rate in FALSE_POSITIVES:
        max_percent = math.ceil(round(max_true_positive_rate(ledger, rate) * 1000, 6)) / 10
        words = _ATTACK[ledger.relation].format(100 * rate, min(max_percent, 100), units)
        lines.append(f"- {words}")
    return lines


def _lines_on_released_values(ledger: Ledger) -> list[str]:
    """A line on each kind of values that a ledger releases.

    It says how often they are drawn.
    """
    return [
        f"{line.site.split('.')[0]}. " * bool(ledger.parts)
        + f"{line.releases} (drawn {'once' if line.count == 1 else f'{line.count:,} times'})"
        for line in ledger.lines
        if line.moved_outputs is not None
    ]


def statement_of_facts(facts: Mapping[str, Any]) -> Statement:
    """Make a statement of a list of facts alone.

    It has a line `name: fact` for each.
    """
    lines = (f"- {name}: {' '.join(str(fact).split())}" for name, fact in facts.items())
    return Statement("\n".join(lines))


def add_facts(text: str, facts: Mapping[str, Any]) -> str:
    """Insert a list of facts after the title of a statement."""
    return text.replace("\n\n", f"\n\n{statement_of_facts(facts)}\n\n", 1) if facts else text


def facts_on_columns_and_answers(about: Any) -> dict[str, str]:
    """Facts on the columns that a model reads and the answers that it predicts.

    They are empty for a model without a domain.

    Args:
        about: the `PublicFacts` of the model.
    """
    if about.domain is None:
        return {}
    target = about.target
    answers = " or ".join(map(str, about.classes or ()))
    if isinstance(target, Numeric):
        answers = f"{target.response.description} from {target.low:g} to {target.high:g}"
    facts = {"Columns read": f"{', '.join(about.domain)} ({len(about.domain)})"}
    if answers:
        facts["Predicts"] = answers
    return facts


def section_on_other_releases(filter_that_paid: Any, ledger: Ledger) -> str:
    """The section of a statement on the other releases that the same filter paid for.

    It names the budget of the filter, too.

    Args:
        filter_that_paid: a `dpbt.Filter`.
        ledger: the ledger of the release.

    Raises:
        ValueError: for a filter that paid for no release with this ledger.
    """
    total = filter_that_paid.ledger
    terms = filter_that_paid.terms
    parts = total.parts or (total,)
    if not any((part.lines, part.delta) == (ledger.lines, ledger.delta) for part in parts):
        raise ValueError("the filter paid for no release with the ledger of this model")
    count = f"one of {len(parts)} releases" if parts[1:] else "the only release"
    return (
        f"## Other releases of the same rows\nThis model is {count} that one budget paid for: "
        f"epsilon = {terms.epsilon:g} and delta = {terms.delta:g} hold for all of them together. "
        f"So far they cost epsilon = {total.epsilon:.6g}; {filter_that_paid.describe_remaining()}. "
        "Releases that the budget did not pay for are not in it, and add to this."
    )


def max_true_positive_rate(ledger: Ledger, false_positive_rate: float) -> float:
    """Bound the true positive rate of any test of a release, at a false positive rate.

    The test tells two neighbouring tables apart. With Gaussian draws alone the bound is
    Phi(Phi^-1(FPR) + mu) (Dong, Roth & Su, 2022). Otherwise it is the smallest of
    min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR)) (Kairouz, Oh & Viswanath, 2015)
    over several deltas. It includes the cost of finite bits.

    Args:
        ledger: the ledger of the release.
        false_positive_rate: FPR, in (0, 1).
    """
    if ledger.gaussian and math.isfinite(ledger.mu):
        # Samplers are within e^g and t of their laws, for both rates.
        factor = math.exp(min(ledger.sampler_epsilon / 2, 700))
        tail = ledger.sampler_delta
        alarms = min(factor * false_positive_rate + tail, 1.0)
        if alarms == 1.0:
            return 1.0
        normal = NormalDist()
        return min(factor * normal.cdf(normal.inv_cdf(alarms) + ledger.mu) + tail, 1.0)

    bounds = [(ledger.pure_epsilon + ledger.sampler_epsilon, ledger.sampler_delta)]
    bounds += [
        (ledger.epsilon_at(delta, ledger.accountant), delta)
        for delta in (*_DELTAS, ledger.delta)
        if delta
    ]
    bounds.append((ledger.epsilon, ledger.delta or ledger.sampler_delta))
    max_rate = 1.0
    for epsilon, delta in bounds:
        if not math.isinf(epsilon):
            rising = math.exp(min(epsilon, 700)) * false_positive_rate + delta
            falling = 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate)
            max_rate = min(max_rate, rising, falling)
    return max_rate


def claim_in_words(ledger: Ledger) -> str:
    """The epsilon and the delta of a ledger in words."""
    return f"epsilon = {ledger.epsilon:.6g} and delta = {ledger.delta or ledger.sampler_delta:.2g}"


def _lines_on_epsilon_and_delta(ledger: Ledger) -> list[str]:
    """Lines on epsilon and delta, and on how to judge them."""
    epsilon, delta = ledger.epsilon, ledger.delta or ledger.sampler_delta
    if not math.isfinite(epsilon):
        return ["nothing is protected. Some private value was released without noise."]
    tier = next(words for largest, words in _TIERS if epsilon <= largest * (1 + 1e-6))
    lines = [
        f"{claim_in_words(ledger)}.",
        f"- This epsilon is '{tier}' on the scale of Ponomareva et al. (How to DP-fy ML, 2023) for "
        "models: up to 1 strong, up to 10 reasonable, above that weak. NIST SP 800-226 (2025) sets "
        "no number that suits all data, so the owner must judge it by what the data hold.",
    ]
    rows = ledger.rows or max((part.rows or 0 for part in ledger.parts), default=0)
    if rows:
        exposed_rows = delta * rows
        unfit = " Such a delta is unfit: the guarantee protects nobody." * (exposed_rows >= 1)
        verdict = (
            "far below" if exposed_rows <= 0.1 else "below" if exposed_rows < 1 else "not below"
        )
        lines.append(
            f"- This delta is {verdict} 1/rows, the usual bound: publishing each of {rows:,} rows "
            f"with probability delta would keep this guarantee, and on average expose "
            f"{exposed_rows:.2g} rows.{unfit}"
        )
    if ledger.unprotected:
        lines.append(
            "- This is the claim of a paper and not a proof, as the calibration reads private data "
            f"without noise: {'; '.join(ledger.unprotected)}. Do not release the model."
        )
    return lines


_ONE_MODEL = {
    "chosen": "",
    "choices": "Choices made by looking at the rows, such as tuning, selecting columns, declaring "
    "a range that just fits, or keeping the best of several models. Every model that was fitted is "
    "a release, and their costs add up.",
}
_BEST_MODEL = {
    "chosen": " It is the best of a random number of such models, of {0} candidates. The number "
    "and the other models are not released, and are paid for.",
    "choices": "Other choices made by looking at the rows, such as selecting columns or declaring "
    "a range that just fits. The choice of the settings is covered, and its running time is not.",
}
"""The words on a choice among several models, and on choices that are not covered."""
