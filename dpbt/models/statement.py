"""Statements of ledgers: what the guarantee means, for who must decide.

A statement is Markdown of headings, paragraphs and lists alone, so that a page of HTML and a PDF
follow from its lines.
"""

import html
import math
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

from dpbt.data.kinds import Numeric
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger
from dpbt.public_types import ADD_REMOVE, REPLACE_ONE

FALSE_POSITIVES = (0.01, 0.1)
"""The rates of false alarms that a statement tells of."""

_DELTAS = tuple(10.0**power for power in range(-12, 0))
"""The deltas at which a ledger bounds an attacker. Each bound holds, and so does the least."""

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
"""What is protected: one row, all rows of a person, or all rows with one id."""

_AIM = {
    ADD_REMOVE: "whether one {0} is in the table",
    REPLACE_ONE: "two versions of one {0} apart",
}
"""What the attacker wants to tell."""

_ATTACK = {
    ADD_REMOVE: "If {0:g} % of {2} that are not in the table may be taken for members of it, at "
    "most {1:g} % of its {2} are recognised. A blind guess recognises {0:g} %.",
    REPLACE_ONE: "If {0:g} % of first versions may be taken for the second, at most {1:g} % of "
    "second versions are recognised. A blind guess recognises {0:g} %.",
}
"""What the attacker attains."""

_TIERS = (1.0, "strong"), (10.0, "reasonable"), (math.inf, "weak")
"""The largest epsilon of each of the three tiers of Ponomareva et al., "How to DP-fy ML" (2023)."""


class Statement(str):
    """A statement as Markdown, which Jupyter shows as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Its headings, paragraphs and lists as HTML."""
        lines = [f"<{tag}>{html.escape(words)}</{tag}>" for tag, words in self._lines()]
        text = "\n".join(lines).replace("<li>", "<ul><li>").replace("</li>", "</li></ul>")
        return text.replace("</ul>\n<ul>", "\n")

    def _lines(self) -> Iterator[tuple[str, str]]:
        """(the element of HTML that it is, the words) of each line."""
        marks = {"#": "h1", "##": "h2", "-": "li"}
        for line in filter(None, self.splitlines()):
            mark, _, words = line.partition(" ")
            yield (marks[mark], words) if mark in marks else ("p", line)

    def page(self) -> str:
        """A whole page of HTML, which is one page of A4 in print."""
        title = html.escape(next(self._lines())[1])
        return _HTML.format(title=title, style=_STYLE, body=self._repr_html_())

    def pdf(self, path: str | Path) -> None:
        """Write it as a PDF of one page of A4, in letters as large as fit.

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
        lines, size, down = [], 10.0, 800.0
        while down > 760:  # in points, as A4 is 595 times 842
            lines, down, size = [], 0.0, size - 0.25
            for tag, words in self._lines():
                large, above, indent = _LETTERS[tag]
                width = int((595 - 100 - indent) / (0.53 * size * large))
                mark = "\N{BULLET} " if tag == "li" else ""
                down += above * size
                for line in textwrap.wrap(mark + words, width, subsequent_indent="  " * bool(mark)):
                    down += 1.3 * size * large
                    lines.append((50 + indent, 842 - 40 - down, line, size * large, tag[0] == "h"))
        figure = Figure(figsize=(595 / 72, 842 / 72))
        for across, place, line, letters, bold in lines:
            style: Any = {"fontsize": letters, "weight": "bold" if bold else "normal"}
            figure.text(across / 595, place / 842, line, parse_math=False, **style)
        with rc_context({"pdf.fonttype": 42}):  # its words can be searched and copied
            title = next(self._lines())[1]
            figure.savefig(path, format="pdf", metadata={"Title": title, "CreationDate": None})


_LETTERS = {"h1": (1.4, 0.0, 0), "h2": (1.1, 0.7, 0), "p": (1.0, 0.15, 0), "li": (1.0, 0.1, 8)}
"""How large letters are, what is free above in letters, and how far in lines begin in points."""

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


def statement_of_ledger(book: Ledger, name: str | None, version: str) -> str:
    """The statement, as `dpbt.statement` says.

    Args:
        book: what is stated.
        name: of the algorithm; None for the sum of several releases.
        version: of dpbt, that made what is released.
    """
    releases = len(book.parts) or 1
    several = "one release" if releases == 1 else f"{releases} releases together"
    people, relation = book.max_rows_per_user, book.relation
    words = _USER if book.limited else _ROW if people == 1 else _PERSON
    values = [
        f"{line.site.split('.')[0]}. " * bool(book.parts)
        + f"{line.releases} (drawn {'once' if line.count == 1 else f'{line.count:,} times'})"
        for line in book.lines
        if line.moved is not None
    ]
    choice = _ONE_MODEL if book.choice is None else _BEST_MODEL
    declared = [(part.rows, f"release {number}") for number, part in enumerate(book.parts, 1)]
    each = [
        f"{rows:,} rows in {where}"
        for rows, where in declared or [(book.rows, "the table")]
        if rows
    ]
    counted = "are at most" if relation is ADD_REMOVE else "are"
    candidates = book.choice and book.choice.candidates
    attacks, one = [], "user" if book.limited else "row" if people == 1 else "person"
    of_all = {"user": "users", "row": "rows", "person": "people"}[one]
    for alarms in FALSE_POSITIVES:  # the rate found is rounded up, as it is a bound
        found = min(math.ceil(round(max_true_positive_rate(book, alarms) * 1000, 6)) / 10, 100)
        attacks.append(f"- {_ATTACK[relation].format(100 * alarms, found, of_all)}")
    samplers = f"by samplers of FLOAT: {accounting.FLOAT_WORDS}."
    if book.exact:
        samplers = f"by {accounting.EXACT_WORDS}. Their cost is in epsilon and delta."
    unknown = "key: not known here; the statement of a fitted model names its kind"
    key = accounting.KEY_WORDS.get(book.key or "", unknown)
    secret = " Whoever has the key can subtract the noise, so it must stay secret or be lost."
    return _PAGE.format(
        subject=several if name is None else f"a model by {name}",
        version=version,
        protected=words[relation].format(people),
        people=words["people"].format(people),
        aim=_AIM[relation].format(one),
        bound=f" By public declaration there {counted} {', '.join(each)}." if each else "",
        guarantee="\n".join(_guarantee_lines(book)),
        attacks="\n".join(attacks),
        models=f"model{'s' * bool(book.parts)}, and the noisy values that "
        f"{'they are' if book.parts else 'it is'}",
        values="; ".join(dict.fromkeys(values)),
        **{name: said.format(candidates) for name, said in choice.items()},
        samplers=samplers,
        key=f"{key[0].upper()}{key[1:]}.{secret if book.key == 'release' else ''}",
    )


def list_of_facts(facts: Mapping[str, Any]) -> Statement:
    """Facts by name, a line each."""
    lines = (f"- {name}: {' '.join(str(fact).split())}" for name, fact in facts.items())
    return Statement("\n".join(lines))


def add_facts(text: str, facts: Mapping[str, Any]) -> str:
    """A statement with further lines after its title."""
    return text.replace("\n\n", f"\n\n{list_of_facts(facts)}\n\n", 1) if facts else text


def facts_of_model(about: Any) -> dict[str, str]:
    """What is public about the data of a model that was saved with its domain, by name."""
    if about.domain is None:
        return {}
    target, said = about.target, " or ".join(map(str, about.classes or ()))
    if isinstance(target, Numeric):
        said = f"{target.response.words} from {target.low:g} to {target.high:g}"
    columns = {"Columns read": f"{', '.join(about.domain)} ({len(about.domain)})"}
    return {**columns, **({"Predicts": said} if said else {})}


def section_on_other_releases(budget: Any, own: Ledger) -> str:
    """What a statement says of the filter that paid for a release, and of its other releases.

    Args:
        budget: a `dpbt.Filter`.
        own: the ledger of the release.

    Raises:
        ValueError: for a filter that paid for no release with this ledger.
    """
    whole, terms = budget.ledger, budget.terms
    parts = whole.parts or (whole,)
    if not any((part.lines, part.delta) == (own.lines, own.delta) for part in parts):
        raise ValueError("the filter paid for no release with the ledger of this model")
    count = f"one of {len(parts)} releases" if parts[1:] else "the only release"
    return (
        f"## Other releases of the same rows\nThis model is {count} that one budget paid for: "
        f"epsilon = {terms.epsilon:g} and delta = {terms.delta:g} hold for all of them together. "
        f"So far they cost epsilon = {whole.epsilon:.6g}; {budget.words()}. "
        "Releases that the budget did not pay for are not in it, and add to this."
    )


def max_true_positive_rate(book: Ledger, false_positives: float) -> float:
    """The largest share of cases that any test of the release detects, at a rate of false alarms.

    The test tells two neighbouring tables apart. With Gaussian draws alone it is
    Phi(Phi^-1(FPR) + mu) (Dong, Roth & Su, 2022). Otherwise it is
    min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR)) (Kairouz, Oh & Viswanath, 2015),
    at the best of several deltas. What finite bits cost is in it.

    Args:
        book: a ledger.
        false_positives: FPR, in (0, 1).
    """
    if book.gaussian and math.isfinite(book.mu):
        # Samplers are within e^g and t of their laws, for both rates.
        factor = math.exp(min(book.sampler_epsilon / 2, 700))
        tail = book.sampler_delta
        alarms = min(factor * false_positives + tail, 1.0)
        if alarms == 1.0:
            return 1.0
        normal = NormalDist()
        return min(factor * normal.cdf(normal.inv_cdf(alarms) + book.mu) + tail, 1.0)

    bounds = [(book.pure_epsilon + book.sampler_epsilon, book.sampler_delta)]
    bounds += [
        (book.epsilon_at(delta, book.accountant), delta)
        for delta in (*_DELTAS, book.delta)
        if delta
    ]
    bounds.append((book.epsilon, book.delta or book.sampler_delta))
    found = 1.0
    for epsilon, delta in bounds:
        if not math.isinf(epsilon):
            rising = math.exp(min(epsilon, 700)) * false_positives + delta
            found = min(found, rising, 1 - math.exp(-epsilon) * (1 - delta - false_positives))
    return found


def claim_in_words(book: Ledger) -> str:
    """Epsilon and delta."""
    return f"epsilon = {book.epsilon:.6g} and delta = {book.delta or book.sampler_delta:.2g}"


def _guarantee_lines(book: Ledger) -> list[str]:
    """Epsilon and delta, and what to think of them."""
    epsilon, delta = book.epsilon, book.delta or book.sampler_delta
    if not math.isfinite(epsilon):
        return ["nothing is protected. Some private value was released without noise."]
    tier = next(words for most, words in _TIERS if epsilon <= most * (1 + 1e-6))
    lines = [
        f"{claim_in_words(book)}.",
        f"- This epsilon is '{tier}' on the scale of Ponomareva et al. (How to DP-fy ML, 2023) for "
        "models: up to 1 strong, up to 10 reasonable, above that weak. NIST SP 800-226 (2025) sets "
        "no number that suits all data, so the owner must judge it by what the data hold.",
    ]
    rows = book.rows or max((part.rows or 0 for part in book.parts), default=0)
    if rows:
        exposed = delta * rows
        verdict = "far below" if exposed <= 0.1 else "below" if exposed < 1 else "not below"
        lines.append(
            f"- This delta is {verdict} 1/rows, the usual bound: publishing each of {rows:,} rows "
            f"with probability delta would keep this guarantee, and on average expose {exposed:.2g}"
            f" rows.{' Such a delta is unfit: the guarantee protects nobody.' * (exposed >= 1)}"
        )
    if book.unprotected:
        lines.append(
            "- This is the claim of a paper and not a proof, as the calibration reads private data "
            f"without noise: {'; '.join(book.unprotected)}. Do not release the model."
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
"""What is said of a choice among several models, and of choices that are not covered."""
