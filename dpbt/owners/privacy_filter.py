"""Privacy filters: a budget for all fits on the same rows, which refuses releases beyond it.

    budget = dpbt.Filter(epsilon=2, delta=1e-6, rows=50_000)
    recipe = budget.recipe(recipes.auto, fraction=0.25, domain=domain)
    model = dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)
    print(budget)

A *filter* (Rogers et al., 2016) admits releases as long as their costs add up to at most a limit
that was set before the first. Each next release, its cost, and whether there is one, may depend on
all earlier releases. For three measures, the costs add up as they do for fixed releases:

- `"epsilon"` of pure differential privacy (Rogers, Roth, Ullman & Vadhan, 2016);
- `"rho"` of zCDP, whose Renyi divergences add up (Feldman & Zrnic, 2021);
- `"mu"` of Gaussian differential privacy, whose squares add up (Smith & Thakurta, 2022; Koskela,
  Tobaben & Honkela, 2023).

docs/composition.md proves all three, including the cost of the samplers' finite bits.

The file of a filter is an SQLite database with its terms and its payments. Only its owner can read
it, and each payment is on the disk before it counts. Its *seal* is the SHA-256 of all of its
entries. The seal detects accidental changes. It is not a signature: anyone who edits a file can
compute another seal.
"""

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import hmac
import html
import math
import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import msgspec

from dpbt.common import storage
from dpbt.common.storage import Digits, convert_json_content
from dpbt.common.validate import (
    as_path,
    check_choice,
    check_delta_below_inverse_rows,
    check_interval,
    check_positive_integer,
)
from dpbt.privacy import accounting, conversions, ledger_lines
from dpbt.privacy.accounting import MEASURES, Ledger, Line
from dpbt.privacy.external_events import ledger_lines_of_event
from dpbt.public_types import ADD_REMOVE, MAX_ROWS_IN_BLOCKS, Relation, num_changed_rows
from dpbt.public_types import as_relation as to_relation

if TYPE_CHECKING:  # a filter is opened and shown without JAX
    from dpbt.types import Array, Recipe

MAX_TAIL_OF_PURE_BUDGET = 1e-9
"""The most delta that finite bits may cost all releases of a pure budget. They cost below 1e-15."""

TAIL_SHARE = 1e-4
"""The share of delta that is kept for the finite bits of samplers."""

BITS_SHARE = 2e-3
"""The share of epsilon that a budget of mu keeps for the finite bits of samplers."""

_ROUNDING_UP = 1 + 2.0**-49
"""More than the roundings to float64 of a cost, at most 12 of 2^-53 each."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CostLimits:
    """The largest total cost of all releases that a filter pays for.

    All numbers are exact.

    Attributes:
        cost: in the measure.
        gap: G, half of what finite bits may add to epsilon; infinite where the cost has them.
        tail: t, what finite bits may add to delta.
        order: alpha, the Renyi order at which a budget of rho is set; 0 for other measures.
    """

    cost: Fraction
    gap: float
    tail: float
    order: float = 0.0


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What one release costs in each number of `CostLimits`, rounded up.

    It is a record of the filter's file.
    """

    cost: storage.Number
    gap: storage.Number
    tail: storage.Number


class FilterTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a `Filter`, which never change.

    They are a record of its file.
    """

    epsilon: storage.Number
    delta: storage.Fraction
    rows: storage.Rows
    relation: Literal["add_remove", "replace_one"]
    max_rows_per_user: storage.RowsOfPerson
    measure: Literal["epsilon", "rho", "mu"]

    @property
    def cost_unit(self) -> str:
        """The unit of the costs that are added up: "epsilon", "rho" or "mu^2"."""
        return "mu^2" if self.measure == "mu" else self.measure

    @property
    def limits(self) -> CostLimits:
        """The cost limits that keep all releases together (epsilon, delta)-DP."""
        return cost_limits(self.measure, epsilon=self.epsilon, delta=self.delta)

    def charge_of_ledger(self, ledger: Ledger) -> Charge:
        """Compute what a release with this ledger costs.

        Raises:
            ValueError: for another relation, or another number of rows or of rows a person. In
                words, for a ledger that has no proved and finite cost in the measure.
        """
        for name in ("relation", "rows", "max_rows_per_user"):
            term = getattr(self, name)
            value = getattr(ledger, name)
            value = to_relation(value).value if name == "relation" else value
            if value != term:
                raise ValueError(
                    f"the filter is for {name}={term}, and the recipe for {value}; all recipes of "
                    f"a filter have its {name}"
                )
        if ledger.choice is not None:
            raise ValueError("a filter adds up single releases, and no best of several runs")
        if ledger.unprotected:
            raise ValueError(f"the release is UNPROTECTED, so no filter pays: {ledger.unprotected}")
        unpayable = [line.site for line in ledger.lines if not self._has_proved_finite_cost(line)]
        if unpayable:
            raise ValueError(
                f"the draws {unpayable} have no proved and finite cost in "
                f"{MEASURES[self.measure]}: no filter pays for draws without noise, or with "
                "samplers that state no distance from their laws (FLOAT); one of epsilon "
                "takes pure draws, one of mu Gaussian draws, one of rho both"
            )

        law_cost = ledger.run_cost()
        sampler_cost = ledger.sampler_cost()
        if self.measure == "epsilon":
            cost = law_cost.epsilon + 2 * sampler_cost.gap
        elif self.measure == "rho":  # at the one order: docs/composition.md, point 4
            order = self.limits.order
            cost = law_cost.rho + sampler_cost.gap * (2 * order - 1) / (order * (order - 1))
        else:
            cost = law_cost.mu**2
        return Charge(
            cost=cost * _ROUNDING_UP,
            gap=sampler_cost.gap * _ROUNDING_UP,
            tail=sampler_cost.tail * _ROUNDING_UP,
        )

    def _has_proved_finite_cost(self, line: Line) -> bool:
        """Whether the draws of a line have a proved, finite cost in the measure of the filter."""
        if not line.exact or not math.isfinite(getattr(line, self.measure)):
            return False
        return self.measure != "mu" or line.gaussian or line.mu == 0


@functools.cache
def cost_limits(measure: str, *, epsilon: float, delta: float) -> CostLimits:
    """The costs up to which all releases together are (epsilon, delta)-DP, in a measure.

    Raises:
        ValueError: for another measure than those of `MEASURES`, or a delta that is not its.
    """
    check_choice("measure", measure, MEASURES)
    if (measure == "epsilon") != (delta == 0):
        raise ValueError(
            f"a budget of {MEASURES[measure]} needs a delta "
            f"{'of 0' if measure == 'epsilon' else 'above 0'}, got {delta:g}"
        )
    if measure == "epsilon":
        return CostLimits(cost=Fraction(epsilon), gap=math.inf, tail=MAX_TAIL_OF_PURE_BUDGET)
    tail = delta * TAIL_SHARE
    if measure == "rho":
        largest = conversions.max_rho_and_order(epsilon, delta - tail)
        rho = float(largest.rho)
        order = float(largest.order)
        if not rho > 0:
            raise ValueError(f"epsilon is too small for a budget of rho, got {epsilon:g}")
        return CostLimits(cost=Fraction(rho), gap=math.inf, tail=tail, order=order)
    gap = epsilon * BITS_SHARE / 2
    mu = float(conversions.gdp_mu(epsilon - 2 * gap, (delta - tail) * math.exp(-gap)))
    return CostLimits(cost=Fraction(mu) ** 2, gap=gap, tail=tail)


def round_up_to_float(number: Fraction) -> float:
    """The least float that is not below an exact number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def round_down_to_float(number: Fraction) -> float:
    """The largest float that is not above an exact number."""
    return -round_up_to_float(-number)


_MAX_RECIPE_BUILDS = 12
"""How many recipes `Filter.recipe` builds to find one that costs its fraction."""

_SQL_TABLES = (
    "CREATE TABLE filter (terms TEXT NOT NULL, salt TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE release (number INTEGER PRIMARY KEY, record TEXT NOT NULL)",
)
"""The tables of the file. The salt is 256 random bits, under which keys are hashed."""

_LOCK_SECONDS = 60
"""How many seconds to wait until no other process holds the file."""


class PaidRelease(msgspec.Struct, frozen=True, kw_only=True):
    """One release that a filter paid for.

    It is a record of the filter's file.

    Attributes:
        name: of the recipe, or of a release that dpbt did not make.
        charge: what it costs.
        ledger: its ledger, as JSON.
        key_id: the salted hash of its key; None if the filter was not given the key.
        run_id: the salted hash of the run of a checkpoint that it pays for, if there is one.
        date: the day of a release that dpbt did not make.
    """

    name: str
    charge: Charge
    key_id: Digits | None
    run_id: Digits | None
    ledger: dict[str, Any]
    date: str = ""


@functools.lru_cache(maxsize=4096)
def _parse_paid_release(json_text: str) -> PaidRelease:
    """Parse the JSON text of a record of a filter's file into a paid release.

    Raises:
        ValueError: for text that is no such record.
    """
    release = convert_json_content(PaidRelease, json_text.encode(), "a release")
    accounting.from_json(release.ledger)
    return release


def seal_of_file_texts(file_texts: Sequence[str]) -> str:
    """The SHA-256 that seals a filter's file: of its terms, salt and records of releases."""
    return hashlib.sha256(repr(["3", *file_texts]).encode()).hexdigest()


def _damaged_file_error(path: Path, error: Exception) -> ValueError:
    """The error for a file that is not a complete filter."""
    return ValueError(
        f"{path}: not a filter, or changed or damaged ({error}); bring back a copy that has every "
        "release, or open a filter of what the releases left of the budget"
    )


def _remove_folder_in_same_process(folder: str, process_id: int) -> None:
    """Remove the temporary folder of a filter, if this process is the one that made it."""
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)


class Filter:
    """A budget of privacy for many fits on the same rows: a privacy filter.

    Guarantee. All releases that a filter paid for are together (epsilon, delta)-DP under
    `relation`. It holds although every recipe, and whether there is another one, may be chosen
    after the models before were seen (docs/composition.md). It covers what the filter paid for and
    nothing else: `charge` pays for what dpbt did not release.
    With a delta of 0 the samplers' finite bits add a delta of at most 1e-9, and mostly below 1e-15.

    - A release is paid for before it is made, and stays paid for if it fails. A failure may come
      after noise was drawn, and whether it came could say something about the rows.
    - What would exceed the budget is refused with a ValueError. A refusal costs nothing. All but
      one follow from public numbers alone, so they tell nothing private.
    - The one is that a table has more rows than `rows`. All recipes must have the `rows` of the
      filter, so every fit asks the same question. That is one bit, which is outside the guarantee.
    - A key pays for one fit. Two fits under one key would share noise, and no finite cost is proved
      of that. The filter keeps a salted hash of each key that it was given, and refuses it later.
    - Costs are rounded up and added exactly, so that no sum exceeds the budget by rounding.
    - Threads may share a filter, and processes may share one by its file.

    A filter of rho keeps 1/10,000 of delta for the samplers' finite bits, and one of mu also 0.2 %
    of epsilon. So a recipe of exactly the filter's epsilon and delta does not fit into it;
    `recipe(make, fraction=1)` does.

    The file is the budget: a database of SQLite, which only its owner can read. Anyone who puts an
    old copy back can spend once more what it says is left. A filter that is in use notices this,
    and one that is opened later cannot. So keep the file where no backup overwrites it.

    Args:
        epsilon: the epsilon of all releases together, above 0 and finite.
        delta: the delta of all releases together. 0 for a pure guarantee, else in (0, 1).
        rows: the public bound on the number of rows of the table; under replace_one their public
            number, in 1..2^40. All recipes must have it. Choose a bound that is surely large
            enough.
        relation: "add_remove" or "replace_one". All recipes must have it.
        max_rows_per_user: the most rows that one person has. All recipes must have it.
        delta_anyway: whether to accept a delta of 1 / rows or more, which protects nobody.
        measure: what is added up, of `MEASURES`. Without a delta it must be epsilon. With one it is
            rho or mu, and rho by default. A filter of mu takes only recipes whose draws are all
            Gaussian. For epsilon of 0.1 to 8 and delta of 1e-9 to 1e-5, it allows them 8 to 22 %
            more than rho. Choose it for fits of `auto` alone, and rho to mix recipes.
        path: the path of a new file that keeps the filter, for `open`; None for a temporary one
            that ends with this process.

    Attributes:
        terms: the arguments, as `FilterTerms`.

    Raises:
        ValueError: for a value outside these ranges, named with what was given. Also if the file
            exists, as another filter may spend from it.
        OSError: if the file cannot be written.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        rows: int,
        relation: str | Relation = ADD_REMOVE,
        max_rows_per_user: int = 1,
        delta_anyway: bool = False,
        measure: str | None = None,
        path: str | Path | None = None,
    ):
        epsilon = float(check_interval("epsilon", epsilon, "(0, inf)"))
        delta = float(check_interval("delta", delta, "[0, 1)"))
        rows = check_positive_integer("rows", rows, MAX_ROWS_IN_BLOCKS)
        max_rows_per_user = check_positive_integer("max_rows_per_user", max_rows_per_user)
        relation_name: Any = to_relation(relation).value
        measure_name: Any = measure or ("rho" if delta else "epsilon")
        terms = FilterTerms(
            epsilon=epsilon,
            delta=delta,
            rows=rows,
            relation=relation_name,
            max_rows_per_user=max_rows_per_user,
            measure=measure_name,
        )
        _ = terms.limits  # raises for a measure that does not go with the delta
        check_delta_below_inverse_rows(delta, rows, delta_anyway=delta_anyway)
        if path is None:
            folder = tempfile.mkdtemp(prefix="dpbt-filter-")
            weakref.finalize(self, _remove_folder_in_same_process, folder, os.getpid())
            path = Path(folder) / "filter.db"
        self._set_path_and_lock(path)
        self._create_database(terms)
        self._read_releases_of_all_processes()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the filter of a file, and spend from it from now on.

        Raises:
            ValueError: for a file that is not a complete filter.
            OSError: if the file cannot be read.
        """
        opened = cls.__new__(cls)
        opened._set_path_and_lock(path)
        opened._read_releases_of_all_processes()
        return opened

    def _set_path_and_lock(self, path: str | Path) -> None:
        """Set the path and the lock of the file.

        This comes before anything is read from it.
        """
        self._path = as_path("path", path).absolute()
        self._lock = threading.RLock()
        self._texts: list[str] = []  # the terms, the salt and the releases, as last read

    def _create_database(self, terms: FilterTerms) -> None:
        """Write the terms to a new database that only its owner can read.

        An error removes the database.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise ValueError(
                f"{self._path}: the file exists, and a filter may spend from it"
            ) from None
        texts = [msgspec.json.encode(terms).decode(), secrets.token_hex(32)]
        try:
            with self._open_transaction(write=True) as database:
                for table in _SQL_TABLES:
                    database.execute(table)
                row = (*texts, seal_of_file_texts(texts))
                database.execute("INSERT INTO filter VALUES (?, ?, ?)", row)
        except BaseException:
            self._path.unlink()
            raise

    @contextlib.contextmanager
    def _open_transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the database in a transaction.

        Other writers wait, and an error undoes all of it.
        """
        self._path.stat()  # its error says that there is no such file
        uri = f"{self._path.as_uri()}?mode=rw"
        # Without an isolation level the module begins no transaction of its own.
        options = {"uri": True, "timeout": _LOCK_SECONDS, "isolation_level": None}
        with (
            storage.translate_database_errors(self._path, _damaged_file_error),
            self._lock,
            contextlib.closing(sqlite3.connect(uri, **options)) as database,
        ):
            database.execute("PRAGMA synchronous = EXTRA")  # a crash undoes no charge
            with database:  # commits, or rolls back
                database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield database

    def _read_releases_of_all_processes(self) -> list[PaidRelease]:
        """Read all releases that were paid for by any process that shares the file.

        Raises:
            ValueError: as `_read_checked_releases_of_database`.
        """
        with self._open_transaction() as database:
            return self._read_checked_releases_of_database(database)

    def _read_checked_releases_of_database(self, database: sqlite3.Connection) -> list[PaidRelease]:
        """Read the terms and all releases from the database, and check that nothing is missing.

        Raises:
            ValueError: if the seal is wrong, or the file has other terms or fewer releases than
                when it was last read.
        """
        try:
            [(terms, salt, seal)] = database.execute("SELECT terms, salt, seal FROM filter")
            records = database.execute("SELECT record FROM release ORDER BY number")
            texts = [str(terms), str(salt), *(str(record) for (record,) in records)]
            if seal != seal_of_file_texts(texts):
                raise ValueError("it lacks its own seal")
            if self._texts != texts[: len(self._texts)]:
                raise ValueError("another filter, or less was spent than was: is it an old copy?")
            self.terms = convert_json_content(FilterTerms, texts[0].encode(), "the filter")
            _ = self.terms.limits
            releases = [_parse_paid_release(text) for text in texts[2:]]
        except (ValueError, ArithmeticError) as error:
            raise _damaged_file_error(self._path, error) from None
        self._texts = texts
        return releases

    @property
    def budget(self) -> float:
        """What all releases together may cost, in epsilon, rho or mu^2."""
        return round_down_to_float(self.terms.limits.cost)

    @property
    def spent(self) -> float:
        """What the releases so far cost, in epsilon, rho or mu^2, rounded up."""
        return round_up_to_float(self.terms.limits.cost - self._exact_remaining())

    @property
    def remaining(self) -> float:
        """What is left of the budget, in epsilon, rho or mu^2, rounded down."""
        return round_down_to_float(self._exact_remaining())

    def _exact_remaining(self) -> Fraction:
        """What is left of the budget, as an exact number."""
        spent = sum(
            Fraction(release.charge.cost) for release in self._read_releases_of_all_processes()
        )
        return self.terms.limits.cost - spent

    @property
    def ledger(self) -> Ledger:
        """The ledger of all releases so far, at the delta of the filter.

        Its epsilon is at most that of the filter. It is what was spent, and no guarantee of its
        own: where choices followed from releases, the filter's epsilon is the claim.
        """
        ledgers = [
            ledger_lines.recompute_ledger_costs(accounting.from_json(release.ledger))
            for release in self._read_releases_of_all_processes()
        ]
        if ledgers:
            return accounting.compose_ledgers(ledgers, self.terms.delta)
        return self._ledger_with_lines_and_filter_terms(())

    def _ledger_with_lines_and_filter_terms(self, lines: tuple[Line, ...]) -> Ledger:
        """The ledger that has these lines, and the relation, rows and delta of the filter."""
        return Ledger(
            relation=to_relation(self.terms.relation),
            lines=lines,
            delta=self.terms.delta,
            rows=self.terms.rows,
            max_rows_per_user=self.terms.max_rows_per_user,
        )

    def describe_remaining(self) -> str:
        """A text that says how much of the budget is left."""
        return f"{self.terms.cost_unit} = {self.remaining:.6g} of {self.budget:.6g} is left"

    def has_paid_for(self, key: "Array", run: str | None = None) -> bool:
        """Whether the filter paid for a release under a key, or for this run of a checkpoint."""
        key_id = self._salted_hash(key)
        run_id = self._salted_hash(run)
        return any(
            release.key_id == key_id and (run is None or release.run_id == run_id)
            for release in self._read_releases_of_all_processes()
        )

    def check(self, recipe: "Recipe", key: "Array | None" = None) -> None:
        """Refuse a recipe that the filter would not pay for now.

        It costs nothing, and raises what `take` does. It also tries whether the file can be
        written.

        Args:
            recipe: one setting.
            key: the key of a run that may go on from a checkpoint. If it was paid for, only the
                terms of the recipe are compared, such as its rows.
        """
        from dpbt.privacy import recipe_ledger

        charge = self.terms.charge_of_ledger(recipe_ledger.ledger(recipe))
        if key is None or not self.has_paid_for(key):
            with self._open_transaction(write=True) as database:
                self._check_affordable(self._read_checked_releases_of_database(database), charge)
                # What a payment needs, such as the journal, is tried, and undone.
                database.execute("UPDATE filter SET seal = seal")
                database.execute("ROLLBACK")

    def take(
        self, recipe: "Recipe", key: "Array | None" = None, run: str | None = None
    ) -> "Recipe":
        """Pay for one fit of a recipe, and return the recipe.

        A second fit needs a second payment. Give the key of the fit. A filter cannot see a key that
        is handed to another function alone, and two fits under one key may cost more than was paid,
        without a bound.

        Args:
            recipe: one setting, of the filter's rows, relation and max_rows_per_user.
            key: the key of the fit, which no payment before had. The ledger then names its kind.
            run: the name of a run of a checkpoint, for which `has_paid_for` asks.

        Raises:
            ValueError: with what is left, if the recipe costs more. In words, if its draws have no
                finite cost in the measure, or no proved one. For a key that was paid for before.
                Also as `dpbt.ledger`, and for a file that was changed or damaged.
            OSError: if the file cannot be written. Then nothing is handed out.
        """
        from dpbt.privacy import keys, recipe_ledger

        if key is not None:
            keys.check_single_key(key)
        ledger = recipe_ledger.ledger(recipe, key)
        self._record_payment(
            recipe.name, self.terms.charge_of_ledger(ledger), ledger, key=key, run=run
        )
        return recipe

    def charge(self, event: Any, name: str, *, date: str | None = None) -> None:
        """Pay for a release of the same rows that another library makes.

        One budget then covers all releases of the rows, also those that dpbt did not make. The
        filter computes the cost from an event of dp_accounting. Call this before the release is
        made: if the cost exceeds what is left, the filter refuses it, and nothing may be released.
        docs/composition.md has the proof.

        Args:
            event: an event of dp_accounting: Gaussian, Laplace or discrete Laplace noise, of zCDP,
                of an epsilon and a delta, composed and repeated. Noise is measured by the norm of
                one row's value, and costs as neighbours of the filter move: twice that under
                replace_one, and `max_rows_per_user` times. A rho, an epsilon and a delta must be
                for these neighbours.
            name: what it is, for anyone who reads the filter; it is kept.
            date: its day, as 2026-11-26; None for today.

        Raises:
            ValueError: as `take`. Also for another event, whose cost is not proved here, and for
                numbers out of their range.
            OSError: if the file cannot be written.
        """
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError("the name of an outside release must be a line of text")
        day = datetime.date.today() if date is None else datetime.date.fromisoformat(date)
        terms = self.terms
        changed_rows = num_changed_rows(to_relation(terms.relation)) * terms.max_rows_per_user
        ledger = self._ledger_with_lines_and_filter_terms(
            ledger_lines_of_event(
                event, num_changed_rows=changed_rows, filter_epsilon=terms.epsilon
            )
        )
        if terms.delta == 0 and ledger.sampler_cost().tail:
            raise ValueError("a filter without a delta pays for no event with one")
        self._record_payment(
            name.strip(), terms.charge_of_ledger(ledger), ledger, date=day.isoformat()
        )

    def _record_payment(
        self,
        name: str,
        charge: Charge,
        ledger: Ledger,
        *,
        key: "Array | None" = None,
        run: str | None = None,
        date: str = "",
    ) -> None:
        """Pay for a release if the budget affords it, by writing its record.

        The check and the record are one transaction.

        Raises:
            ValueError: as `take`.
            OSError: as `take`.
        """
        release = PaidRelease(
            name=name,
            charge=charge,
            key_id=self._salted_hash(key),
            run_id=self._salted_hash(run),
            ledger=accounting.to_json(ledger),
            date=date,
        )
        with self._lock:
            with self._open_transaction(write=True) as database:
                releases = self._read_checked_releases_of_database(database)
                self._check_affordable(releases, charge)
                if key is not None and release.key_id in {paid.key_id for paid in releases}:
                    raise ValueError(
                        "the filter paid for a release under this key before, and two under one "
                        "key share their noise; give each fit a key of its own"
                    )
                texts = [*self._texts, msgspec.json.encode(release).decode()]
                database.execute("INSERT INTO release (record) VALUES (?)", texts[-1:])
                database.execute("UPDATE filter SET seal = ?", [seal_of_file_texts(texts)])
            self._texts = texts

    def _salted_hash(self, key_or_run: "Array | str | None") -> str | None:
        """The salted hash that the file stores in place of a key or of the name of a run.

        A search finds a research key, of at most 64 bits, as from what was released.
        """
        if key_or_run is None:
            return None
        if isinstance(key_or_run, str):
            content = key_or_run.encode()
        else:
            from dpbt.privacy import keys

            content = keys.key_as_bytes(key_or_run)
        return hmac.new(self._texts[1].encode(), content, hashlib.sha256).hexdigest()

    def payment_callback(self, recipe: "Recipe", key: "Array") -> Callable[[str | None], None]:
        """Make a callback that pays for a fit before it draws noise.

        A run that resumes pays only once. For all else a key that was paid for is refused, as its
        noise would be on other sums.
        """

        def pay_for_run(run: str | None) -> None:
            if run is None or not self.has_paid_for(key, run):
                self.take(recipe, key, run)

        return pay_for_run

    def recipe(
        self, make: "Callable[..., Recipe]", *, fraction: float = 1.0, **options: Any
    ) -> "Recipe":
        """Build a recipe that costs a fraction of what is left in the budget.

        It costs that to within a millionth, and never more. It is not paid for yet: `dpbt.fit` or
        `take` does that. Alone, it is (some epsilon, delta)-DP at the delta of the filter;
        `dpbt.ledger(recipe)` says which.

        Args:
            make: a function of `dpbt.recipes`, such as `recipes.auto`.
            fraction: the fraction of what is left, in (0, 1]. 1 takes all of it.
            **options: other arguments of `make`, such as domain. epsilon, delta, rows, relation
                and max_rows_per_user come from the filter.

        Raises:
            TypeError: for an option that comes from the filter.
            ValueError: for a fraction that `make` cannot meet, and as `make` and `take`.
        """
        from dpbt.privacy import recipe_ledger

        terms = self.terms
        fraction = float(check_interval("fraction", fraction, "(0, 1]"))
        max_cost = round_down_to_float(self._exact_remaining() * Fraction(fraction))
        if max_cost <= 0:
            raise ValueError(f"nothing is left in the filter: {self.describe_remaining()}")

        def build(epsilon: float) -> "Recipe":
            return make(
                epsilon=epsilon,
                delta=terms.delta,
                rows=terms.rows,
                relation=terms.relation,
                max_rows_per_user=terms.max_rows_per_user,
                **options,
            )

        # A cost is about proportional to epsilon, and in rho or mu^2 to its square.
        cost_power = 1 if terms.measure == "epsilon" else 2
        search = conversions.build_within_cost(
            build,
            lambda recipe: terms.charge_of_ledger(recipe_ledger.ledger(recipe)).cost,
            max_cost=max_cost,
            first_epsilon=terms.epsilon * (max_cost / self.budget) ** (1 / cost_power),
            cost_power=cost_power,
            max_builds=_MAX_RECIPE_BUILDS,
        )
        if not search.is_close or search.built is None:
            raise ValueError(
                "no recipe was found that costs as little as the fraction, and no less"
            )
        return search.built

    def _check_affordable(self, releases: Sequence[PaidRelease], charge: Charge) -> None:
        """Refuse a release that costs more than is left.

        Raises:
            ValueError: saying what is left.
        """
        charges = [*(release.charge for release in releases), charge]
        cost = sum(Fraction(past_charge.cost) for past_charge in charges)
        gap = sum(Fraction(past_charge.gap) for past_charge in charges)
        tail = sum(Fraction(past_charge.tail) for past_charge in charges)
        unit = self.terms.cost_unit
        limits = self.terms.limits
        if cost > limits.cost:
            remaining = round_down_to_float(limits.cost - cost + Fraction(charge.cost))
            raise ValueError(
                f"the recipe costs {unit} = {charge.cost:.6g}, and {unit} = {remaining:.6g} of "
                f"{self.budget:.6g} is left; what is added up is {MEASURES[self.terms.measure]}, "
                "and recipe(make, fraction=1) takes what is left"
            )
        if gap > limits.gap or tail > limits.tail:
            raise ValueError(
                "the finite bits of the samplers of so many draws, and the deltas of outside "
                "releases, cost more than the filter keeps for them; use fewer rounds or recipes"
            )

    def __str__(self) -> str:
        releases = self._read_releases_of_all_processes()
        terms = self.terms
        remaining = self.terms.limits.cost
        rows = [("release", "recipe", terms.cost_unit, "of the budget")]
        for number, release in enumerate(releases, 1):
            cost = release.charge.cost
            remaining = remaining - Fraction(release.charge.cost)
            name = f"{release.name} (outside, {release.date})" if release.date else release.name
            rows.append((str(number), name, f"{cost:.6g}", f"{cost / self.budget:.2%}"))
        left = float(remaining)
        rows.append(("(left)", "", f"{left:.6g}", f"{left / self.budget:.2%}"))
        lines = [
            f"filter: epsilon = {terms.epsilon:g} and delta = {terms.delta:g} for all releases "
            f"together, under {terms.relation}",
            f"table: {'at most ' if terms.relation == 'add_remove' else ''}{terms.rows} rows",
            f"adds up: {MEASURES[terms.measure]}, of {self.budget:.6g} in all",
            accounting.align_columns(rows),
        ]
        limits_users = bool(releases) and all(release.ledger.get("limited") for release in releases)
        lines += accounting.describe_rows_per_user(
            terms.max_rows_per_user, limits_users=limits_users
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return repr(self.terms).replace("FilterTerms", "Filter", 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a copy of a filter would spend its budget twice; give it a path, and open")
