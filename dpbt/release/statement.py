"""Statements of ledgers: what the guarantee means, for who must decide."""

import dataclasses
import math
from statistics import NormalDist

from dpbt.privacy import accounting
from dpbt.privacy.accounting import ChoiceLedger, Ledger
from dpbt.public import ADD_REMOVE

FALSE_POSITIVES = (0.01, 0.1)
"""The rates of false alarms that a statement tells of."""

_DELTAS = tuple(10.0**power for power in range(-12, 0))
"""The deltas at which a ledger bounds an attacker. Each bound holds, and so does the least."""


def of_ledger(book: Ledger, name: str | None, version: str) -> str:
    """The statement, as `dpbt.statement` says.

    Args:
        book: what is stated.
        name: of the algorithm; None for the sum of several releases.
        version: of dpbt, that made what is released.
    """
    releases = len(book.parts) or 1
    several = "one release" if releases == 1 else f"{releases} releases together"
    subject = several if name is None else f"a model by {name}"
    paragraphs = [
        [f"Privacy statement: {subject}, dpbt {version}"],
        _protected(book),
        _guarantee(book),
        _attacker(book),
        _released(book),
        _not_covered(book),
        _machinery(book),
    ]
    return "\n\n".join("\n".join(paragraph) for paragraph in paragraphs)


def of_people(book: Ledger, max_rows_per_user: int) -> Ledger:
    """The ledger of the same draws, for people with up to `max_rows_per_user` rows.

    Sensitivities grow before anything is composed; a finished epsilon and delta are never used.

    Args:
        book: a ledger; it may be for people already. The parts of a sum are changed one by one.
        max_rows_per_user: k, at least 1.

    Raises:
        ValueError: for the ledger of a choice, whose other candidates it does not hold.
    """
    if book.parts:
        parts = [of_people(part, max_rows_per_user) for part in book.parts]
        return accounting.composed(parts, book.delta)
    if isinstance(book, ChoiceLedger):
        raise ValueError(
            "the ledger of a choice is for as many rows per person as its candidates were made for"
        )

    def line(of_now: accounting.Line) -> accounting.Line:
        event, now = of_now.event, book.max_rows_per_user
        moved = None if event.moved is None else event.moved // now
        one = dataclasses.replace(event, sensitivity=event.sensitivity / now, moved=moved)
        person = accounting.of_people(one, max_rows_per_user)
        gap, tail = accounting.bits_of(person)
        bits = gap * of_now.times, float(tail) * of_now.times
        return dataclasses.replace(of_now, event=person, gap=bits[0], tail=bits[1])

    lines = tuple(line(each) for each in book.lines)
    return dataclasses.replace(book, lines=lines, max_rows_per_user=max_rows_per_user)


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
    return min(_detected(epsilon, delta, false_positives) for epsilon, delta in bounds)


def _detected(epsilon: float, delta: float, false_positives: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    rising = math.exp(min(epsilon, 700)) * false_positives + delta
    return min(rising, 1 - math.exp(-epsilon) * (1 - delta - false_positives), 1.0)


def _protected(book: Ledger) -> list[str]:
    people, bound = book.max_rows_per_user, _bound(book)
    if book.relation is ADD_REMOVE:
        one = "whether one row is in the table or not, and all that it says"
        several = f"whether a person's rows, up to {people}, are there or not, and all they say"
    else:
        one = "what one row says, where it could have said anything else"
        several = f"what a person's rows, up to {people}, say, where they could have said all else"
    words = one if people == 1 else several
    lines = [f"What is protected: {words}.{bound}"]
    if people == 1:
        lines.append(
            "A person who has several rows is protected for each row alone, and less as a whole."
        )
    else:
        lines.append(
            f"That nobody has more than {people} rows is the owner's promise. dpbt does not check "
            "it, and a person with more rows is protected less."
        )
    return lines


def _bound(book: Ledger) -> str:
    """What is declared of the number of rows, in all releases of a sum or in each."""
    counted = "are at most" if book.relation is ADD_REMOVE else "are"
    if book.rows is not None:
        return f" By public declaration there {counted} {book.rows:,} rows in the table."
    each = [
        f"{part.rows:,} rows in release {number}"
        for number, part in enumerate(book.parts, 1)
        if part.rows is not None
    ]
    return f" By public declaration there {counted} {', '.join(each)}." if each else ""


def _guarantee(book: Ledger) -> list[str]:
    delta = book.delta or book.sampler_delta
    if not math.isfinite(book.epsilon):
        return ["How much: nothing is protected. Some private value was released without noise."]
    lines = [f"How much: epsilon = {book.epsilon:.6g} and delta = {delta:.2g}.", *_of_delta(book)]
    if book.unprotected:
        lines.append(
            "This is the claim of a paper and not a proof, as the calibration reads private data "
            f"without noise: {'; '.join(book.unprotected)}. Do not release the model."
        )
    return lines


def _of_delta(book: Ledger) -> list[str]:
    """What the owner's delta means for as many rows as were declared, if anybody declared some."""
    rows = book.rows or max((part.rows or 0 for part in book.parts), default=0)
    if not (book.delta and rows):
        return []
    exposed = book.delta * rows
    lines = [
        f"What delta means: publishing each of {rows:,} rows with probability delta would keep "
        f"this guarantee. On average {exposed:.2g} rows would be exposed."
    ]
    if exposed >= 1:
        lines.append(
            f"Such a delta is unfit: it must be far below 1 / rows = {1 / rows:.2g}, or the "
            "guarantee protects nobody."
        )
    return lines


def _attacker(book: Ledger) -> list[str]:
    unit = "row" if book.max_rows_per_user == 1 else "person"
    lines = [
        "What that means: take the best possible attacker, who knows every other row and all that "
        f"is public, and wants to tell whether one {unit} is in the table."
        if book.relation is ADD_REMOVE
        else "What that means: take the best possible attacker, who knows every other row and all "
        f"that is public, and wants to tell two versions of one {unit} apart."
    ]
    for alarms in FALSE_POSITIVES:
        found = _percent(true_positives(book, alarms))
        lines.append(
            f"- With {100 * alarms:g} % false alarms, the attacker is right in at most {found} % "
            f"of the true cases. Guessing blindly would reach {100 * alarms:g} %."
        )
    return lines


def _percent(share: float) -> str:
    """A share in percent, rounded up so that it stays a bound."""
    return f"{min(math.ceil(round(share * 1000, 6)) / 10, 100):g}"


def _released(book: Ledger) -> list[str]:
    noisy = [line for line in book.lines if line.mechanism.price.reads_rows]
    named = dict.fromkeys(_line_words(line, bool(book.parts)) for line in noisy)
    model, it_is = ("models", "they are") if book.parts else ("model", "it is")
    chosen = [
        f"{which} is the best of a random number of such models, of {choice.candidates} "
        "candidates. The number and the other models are not released, and are paid for."
        for which, choice in _choices(book).items()
    ]
    return [
        f"What is released: the {model}, and the noisy values that {it_is} made of. These are "
        + "; ".join(named)
        + ". Whatever is computed from them reveals no more. The settings, the declared columns, "
        "classes and ranges, and this statement are public.",
        *chosen,
    ]


def _choices(book: Ledger) -> dict[str, accounting.Choice]:
    """What is called the best of several models -> its choice, in all releases of a sum."""
    if isinstance(book, ChoiceLedger):
        return {"It": book.choice}
    return {
        f"Release {number}" if which == "It" else f"{which} in release {number}": choice
        for number, part in enumerate(book.parts, 1)
        for which, choice in _choices(part).items()
    }


def _line_words(line: accounting.Line, numbered: bool) -> str:
    """What a line releases; in a sum after the number of its release."""
    words = f"{line.event.releases} ({line.count} draws)"
    return f"{line.site.split('.')[0]}. {words}" if numbered else words


def _not_covered(book: Ledger) -> list[str]:
    choices = (
        "- Choices made by looking at the rows, such as tuning, selecting columns, declaring a "
        "range that just fits, or keeping the best of several models. Every model that was fitted "
        "is a release, and their costs add up."
    )
    if chosen := _choices(book):
        which = "" if "It" in chosen else f" in {', '.join(chosen).lower()}"
        choices = (
            "- Other choices made by looking at the rows, such as selecting columns or declaring a "
            f"range that just fits. The choice of the settings{which} is covered, and its running "
            "time is not."
        )
    return [
        "What is not covered:",
        choices,
        "- Anything that was fitted on the rows before, such as a scaler or an encoder, and any "
        "evaluation on the rows afterwards.",
        "- The running time and the memory of the training, and access to the machine.",
        "- What the model says about people in general. It may tell something about a person whose "
        "rows were never in the table.",
    ]


def _machinery(book: Ledger) -> list[str]:
    samplers = accounting.EXACT_WORDS if book.exact else f"FLOAT: {accounting.FLOAT_WORDS}"
    lines = [f"How noise is drawn: samplers of {samplers}."]
    if book.exact:
        lines = [f"How noise is drawn: by {samplers}. Their cost is in epsilon and delta."]
    key = accounting.KEY_WORDS.get(book.key or "")
    if key is None:
        key = "key: not known here; the statement of a fitted model names its kind"
    lines.append(f"{key[0].upper()}{key[1:]}.")
    if book.key == "release":
        lines.append(
            "Whoever has the key can subtract the noise, so it must stay secret or be lost."
        )
    return lines
