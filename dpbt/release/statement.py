"""Statements of ledgers: what the guarantee means, for who must decide."""

import math
from statistics import NormalDist

from dpbt.common.public import ADD_REMOVE, REPLACE_ONE
from dpbt.privacy import accounting
from dpbt.privacy.accounting import Ledger

FALSE_POSITIVES = (0.01, 0.1)
"""The rates of false alarms that a statement tells of."""

_DELTAS = tuple(10.0**power for power in range(-12, 0))
"""The deltas at which a ledger bounds an attacker. Each bound holds, and so does the least."""

_PAGE = """\
Privacy statement: {subject}, dpbt {version}

What is protected: {protected}.{bound}
{people}

How much: {guarantee}

What that means: take the best possible attacker, who knows every other row and all that is \
public, and wants to tell {aim}.
{attacks}

What is released: the {models} made of. These are {values}. Whatever is computed from them reveals \
no more. The settings, the declared columns, classes and ranges, and this statement are \
public.{chosen}

What is not covered:
- {choices}
- Anything that was fitted on the rows before, such as a scaler or an encoder, and any evaluation \
on the rows afterwards.
- The running time and the memory of the training, and access to the machine.
- What the model says about people in general. It may tell something about a person whose rows \
were never in the table.

How noise is drawn: {samplers}
{key}"""


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


def of_ledger(book: Ledger, name: str | None, version: str) -> str:
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
        f"{line.site.split('.')[0]}. " * bool(book.parts) + f"{line.releases} ({line.count} draws)"
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
    attacks = []
    for alarms in FALSE_POSITIVES:  # the rate found is rounded up, as it is a bound
        found = min(math.ceil(round(true_positives(book, alarms) * 1000, 6)) / 10, 100)
        attacks.append(
            f"- With {100 * alarms:g} % false alarms, the attacker is right in at most {found:g} % "
            f"of the true cases. Guessing blindly would reach {100 * alarms:g} %."
        )
    samplers = f"samplers of FLOAT: {accounting.FLOAT_WORDS}."
    if book.exact:
        samplers = f"by {accounting.EXACT_WORDS}. Their cost is in epsilon and delta."
    unknown = "key: not known here; the statement of a fitted model names its kind"
    key = accounting.KEY_WORDS.get(book.key or "", unknown)
    secret = "\nWhoever has the key can subtract the noise, so it must stay secret or be lost."
    return _PAGE.format(
        subject=several if name is None else f"a model by {name}",
        version=version,
        protected=words[relation].format(people),
        people=words["people"].format(people),
        aim=_AIM[relation].format("user" if book.limited else "row" if people == 1 else "person"),
        bound=f" By public declaration there {counted} {', '.join(each)}." if each else "",
        guarantee="\n".join(_guarantee(book)),
        attacks="\n".join(attacks),
        models=f"model{'s' * bool(book.parts)}, and the noisy values that "
        f"{'they are' if book.parts else 'it is'}",
        values="; ".join(dict.fromkeys(values)),
        **{name: said.format(candidates) for name, said in choice.items()},
        samplers=samplers,
        key=f"{key[0].upper()}{key[1:]}.{secret if book.key == 'release' else ''}",
    )


def true_positives(book: Ledger, false_positives: float) -> float:
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


def _guarantee(book: Ledger) -> list[str]:
    """Epsilon and delta, and what delta means for as many rows as were declared."""
    if not math.isfinite(book.epsilon):
        return ["nothing is protected. Some private value was released without noise."]
    lines = [f"epsilon = {book.epsilon:.6g} and delta = {book.delta or book.sampler_delta:.2g}."]
    rows = book.rows or max((part.rows or 0 for part in book.parts), default=0)
    if exposed := book.delta * rows:
        lines.append(
            f"What delta means: publishing each of {rows:,} rows with probability delta would keep "
            f"this guarantee. On average {exposed:.2g} rows would be exposed."
        )
    if exposed >= 1:
        lines.append("Such a delta is unfit: the guarantee protects nobody.")
    if book.unprotected:
        lines.append(
            "This is the claim of a paper and not a proof, as the calibration reads private data "
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
    "chosen": "\nIt is the best of a random number of such models, of {0} candidates. The number "
    "and the other models are not released, and are paid for.",
    "choices": "Other choices made by looking at the rows, such as selecting columns or declaring "
    "a range that just fits. The choice of the settings is covered, and its running time is not.",
}
"""What is said of a choice among several models, and of choices that are not covered."""
