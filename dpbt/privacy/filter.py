"""Privacy filters: a budget for all fits on the same rows, which refuses what would exceed it.

    budget = dpbt.Filter(epsilon=2, delta=1e-6, rows=50_000)
    recipe = budget.recipe(recipes.auto, share=0.25, domain=domain)
    model = dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)
    print(budget)

What is fitted next, and whether anything is, may follow from the models before. What is added up,
and why it may be, is in `charges`.
"""

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import jax
import msgspec
import numpy as np

from dpbt.base import ADD_REMOVE, MOST_CHUNKED_ROWS, Array, Recipe, Relation, relation_name
from dpbt.base import relation as to_relation
from dpbt.formats import Digits, LedgerRecord, Number, Rows, RowsOfPerson, decode
from dpbt.formats import Fraction as Share
from dpbt.privacy import accounting, charges, keys, pricing
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.charges import Charge
from dpbt.privacy.measures import MEASURES
from dpbt.validate import as_path, floats, positive, shown, warn_of_delta, whole

TABLES = (
    "CREATE TABLE filter (terms TEXT NOT NULL, salt TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE release (number INTEGER PRIMARY KEY, record TEXT NOT NULL)",
)
"""The tables of a filter's file: its terms, and what it paid for.

The salt is 256 random bits, under which keys are hashed. The seal is the SHA-256 of all else. It
finds accidents and is no signature: whoever edits a file can compute another one.
"""

VERSION = 1
"""Of the tables, in `PRAGMA user_version`."""

RESTORE = (
    "bring back a copy that has every release, or open a filter of what the releases left of the "
    "budget"
)
"""What to do about a file that is damaged."""

_WAIT = 60
"""How many seconds to wait until no other process holds the file."""

_CLOSE = 1e-6
"""How far below the cost that was asked for a recipe may cost, as a share of it."""

_STEPS = 12
"""Most recipes that are built in search of one of a cost."""


class Terms(msgspec.Struct, frozen=True):
    """What a filter is for; fixed when it is opened.

    Attributes:
        epsilon: of all releases together.
        delta: of all releases together.
        rows: the public bound on the number of rows, or under replace_one their public number.
        relation: the name of the neighbouring relation.
        rows_per_person: the most rows that one person has.
        measure: one of `MEASURES`.
    """

    epsilon: Number
    delta: Share
    rows: Rows
    relation: Literal["add_remove", "replace_one"]
    rows_per_person: RowsOfPerson
    measure: Literal["epsilon", "rho", "mu"]

    @property
    def unit(self) -> str:
        """The name of what is added up."""
        return "mu^2" if self.measure == "mu" else self.measure


class Release(msgspec.Struct, frozen=True):
    """One release that a filter paid for.

    Attributes:
        name: of the recipe.
        charge: what it costs.
        key_id: the salted hash of its key; None if the filter was not given the key.
        run_id: that of the run of a checkpoint that it pays for; None if there is none.
        ledger: of the recipe.
    """

    name: str
    charge: Charge
    key_id: Digits | None
    run_id: Digits | None
    ledger: LedgerRecord


class Filter:
    """A budget of privacy for many fits on the same rows: a privacy filter.

    Guarantee. All models that a filter paid for are together (epsilon, delta)-DP under `relation`.
    It holds although every recipe, and whether there is another one, may be chosen after the models
    before were seen (docs/composition.md). It covers what the filter paid for and nothing else.
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
    - Threads may share a filter, and processes may share one by its file. Each charge is on the
      disk before the recipe is handed out. A filter without a file is of one process.

    A filter of rho keeps 1/10,000 of delta for the samplers' finite bits, and one of mu also 0.2 %
    of epsilon. So a recipe of exactly the filter's epsilon and delta does not fit into it;
    `recipe(make, share=1)` does.

    The file is the budget: a database of SQLite, which only its owner can read. Whoever puts an old
    copy back has what it says once more. A filter that is in use notices, and a new one cannot. So
    keep it where no backup overwrites it.

    Args:
        epsilon: of all releases together, above 0 and finite.
        delta: of all releases together. 0 for a pure guarantee, else in (0, 1).
        rows: the public bound on the number of rows of the table; under replace_one their public
            number, in 1..2^40. All recipes must have it. Choose a bound that is surely large
            enough.
        relation: "add_remove" or "replace_one". All recipes must have it.
        rows_per_person: the most rows that one person has. All recipes must have it.
        measure: what is added up, of `measures.MEASURES`. Without a delta it must be epsilon. With
            one it is rho or mu, and rho by default. A filter of mu takes only recipes whose draws
            are all Gaussian. For epsilon of 0.1 to 8 and delta of 1e-9 to 1e-5, it allows them 8
            to 22 % more than rho. Choose it for fits of `auto` alone, and rho to mix recipes.
        path: of a new file that keeps the filter, for `open`; None for one that ends with this
            process.

    Attributes:
        terms: the arguments, as `Terms`.

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
        rows_per_person: int = 1,
        measure: str | None = None,
        path: str | Path | None = None,
    ):
        epsilon = _one("epsilon", positive("epsilon", epsilon, finite=True))
        delta = _one("delta", floats("delta", delta))
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be at least 0 and less than 1, got {delta:g}")
        bound = whole("rows", rows, MOST_CHUNKED_ROWS)
        people = whole("rows_per_person", rows_per_person)
        near: Any = relation_name(to_relation(relation))
        chosen: Any = measure or ("rho" if delta else "epsilon")
        self._begin(path)
        self.terms = Terms(epsilon, delta, bound, near, people, chosen)
        self._limits = charges.limits(chosen, epsilon, delta)
        warn_of_delta(delta, bound)

        with contextlib.ExitStack() as undone:
            if self._path is not None:
                _create(self._path)
                undone.callback(self._path.unlink)
            known = (_json(self.terms), secrets.token_hex(32))
            with self._transaction(write=True) as database:
                for table in TABLES:
                    database.execute(table)
                database.execute(f"PRAGMA user_version = {VERSION}")
                database.execute("INSERT INTO filter VALUES (?, ?, ?)", (*known, _seal(known)))
            undone.pop_all()
        self._known = known

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The filter of a file, which it spends from.

        Raises:
            ValueError: naming the path, for a file that is no whole filter.
            OSError: if the file cannot be read.
        """
        opened = cls.__new__(cls)
        opened._begin(path)
        opened._current()
        return opened

    def _begin(self, path: str | Path | None) -> None:
        """A filter of which nothing is known but where it is."""
        self._path = None if path is None else as_path("path", path).absolute()
        self._lock, self._process = threading.RLock(), os.getpid()
        self._known: tuple[str, ...] = ()  # terms, salt and releases, as last seen
        self._ledgers: dict[str, Ledger] = {}  # of releases that this process paid for
        if self._path is None:
            self._memory = _connect(":memory:")
            weakref.finalize(self, self._memory.close)

    @property
    def budget(self) -> float:
        """What all releases together may cost: epsilon, rho or mu^2."""
        return charges.float_below(self._limits.cost)

    @property
    def spent(self) -> float:
        """What the releases so far cost, rounded up: epsilon, rho or mu^2."""
        return charges.float_above(self._limits.cost - self._left(self._current()))

    @property
    def remaining(self) -> float:
        """What is left of the budget, rounded down: epsilon, rho or mu^2."""
        return charges.float_below(self._left(self._current()))

    @property
    def ledger(self) -> Ledger:
        """The ledger of all releases so far, at the delta of the filter.

        Its epsilon is at most that of the filter. It is what was spent, and no guarantee of its
        own: where choices followed from releases, the filter's epsilon is the claim.

        Raises:
            ValueError: for draws by a mechanism of its user's own that another process paid for.
                No file keeps their price.
        """
        terms = self.terms
        with self._lock:
            releases = list(zip(self._current(), self._known[2:], strict=True))
        if releases:
            ledgers = [
                self._ledgers.get(record) or accounting.of_record(release.ledger)
                for release, record in releases
            ]
            return accounting.composed(ledgers, terms.delta)
        relation = to_relation(terms.relation)
        people = terms.rows_per_person
        return Ledger(relation, (), terms.delta, rows=terms.rows, rows_per_person=people)

    def words(self) -> str:
        """What is left, in words."""
        return self._words(self._current())

    def has_paid_for(self, key: Array, run: str | None = None) -> bool:
        """Whether it paid for a release under a key: for any, or for the run that is named."""
        key_id, run_id = self._id(_words(key)), None if run is None else self._id(run.encode())
        of_key = [each for each in self._current() if each.key_id == key_id]
        return any(run_id in (None, each.run_id) for each in of_key)

    def check(self, recipe: Recipe) -> None:
        """Refuse a recipe that the filter does not pay for now. It costs nothing and reads no row.

        Raises:
            ValueError: as `take`.
            OSError: as `take`.
        """
        charge = self._charge(_ledger(recipe))
        with self._transaction(write=True) as database:
            self._check_left(self._read(database), charge)

    def take(self, recipe: Recipe, key: Array | None = None, run: str | None = None) -> Recipe:
        """Pay for one fit of a recipe, and return it. A second fit needs a second payment.

        Give the key of the fit. A filter cannot see a key that is handed to another function alone,
        and two fits under one key may cost more than was paid, without a bound.

        Args:
            recipe: one setting, of the filter's rows, relation and rows_per_person.
            key: the key of the fit, which no payment before had. The ledger then names its kind.
            run: the name of a run of a checkpoint, for which `has_paid_for` asks.

        Raises:
            ValueError: with what is left, if the recipe costs more. In words, if its draws have no
                finite cost in the measure, or no proved one. For a key that was paid for before.
                Also as `dpbt.ledger`, and for a file that was changed or damaged.
            OSError: if the file cannot be written. Then nothing is handed out.
        """
        ledger = _ledger(recipe, key)
        self._pay(recipe.name, self._charge(ledger), ledger, key, run)
        return recipe

    def _pay(
        self,
        name: str,
        charge: Charge,
        ledger: Ledger,
        key: Array | None = None,
        run: str | None = None,
    ) -> None:
        """Add a release to what was spent.

        Raises:
            ValueError: if it is too much, or its key is one of a release before.
        """
        key_id = None if key is None else self._id(_words(key))
        run_id = None if run is None else self._id(run.encode())
        release = Release(name, charge, key_id, run_id, accounting.to_record(ledger))
        record = _json(release)
        with self._lock:
            with self._transaction(write=True) as database:
                spent = self._read(database)
                self._check_left(spent, charge)
                if key_id is not None and key_id in {each.key_id for each in spent}:
                    raise ValueError(
                        "the filter paid for a release under this key before, and two under one "
                        "key share their noise; give each fit a key of its own"
                    )
                known = (*self._known, record)
                database.execute("INSERT INTO release (record) VALUES (?)", [record])
                database.execute("UPDATE filter SET seal = ?", [_seal(known)])
            self._known, self._ledgers[record] = known, ledger

    def paying(self, recipe: Recipe, key: Array) -> Callable[[str | None], None]:
        """What a fit in blocks calls before it draws: it pays, and once for a run that goes on.

        A payment counts for the run that it names, of two keys, a recipe and a table in one folder.
        For all else a key that was paid for is refused, as its noise would be on other sums.
        """

        def ready(run: str | None) -> None:
            if run is None or not self.has_paid_for(key, run):
                self.take(recipe, key, run)

        return ready

    def recipe(self, make: Callable[..., Recipe], *, share: float = 1.0, **options: Any) -> Recipe:
        """A recipe that costs a share of what is left, to within a millionth and never above.

        It is not paid for yet: `dpbt.fit` or `take` does that. Alone, it is (some epsilon,
        delta)-DP at the delta of the filter; `dpbt.ledger(recipe)` says which.

        Args:
            make: a function of `dpbt.recipes`, such as `recipes.auto`.
            share: of what is left, in (0, 1]. 1 takes all of it.
            **options: other arguments of `make`, such as domain. epsilon, delta, rows, relation
                and rows_per_person come from the filter.

        Raises:
            ValueError: for an option that comes from the filter, for a share that `make` cannot
                meet, and as `make` and `take`.
        """
        # What is asked for.
        part, terms = _one("share", positive("share", share)), self.terms
        if part > 1:
            raise ValueError(f"share must be at most 1, got {part:g}")
        own = {
            "delta": terms.delta,
            "rows": terms.rows,
            "relation": terms.relation,
            "rows_per_person": terms.rows_per_person,
        }
        if given := sorted(options.keys() & {"epsilon", *own}):
            raise ValueError(f"{', '.join(given)} of a recipe comes from the filter; leave it out")
        target = charges.float_below(self._left(self._current()) * Fraction(part))
        if target <= 0:
            raise ValueError(f"nothing is left in the filter: {self.words()}")

        # The search. A cost is about proportional to epsilon, and in rho or mu^2 to its square.
        power = 1 if terms.measure == "epsilon" else 2
        epsilon = charges.epsilon_of(terms.measure, target, terms.delta)
        best, most = None, 0.0
        for _ in range(_STEPS):
            made = make(epsilon=epsilon, **own, **options)
            cost = self._charge(pricing.ledger(made)).cost
            if most < cost <= target:
                best, most = made, cost
            if target * (1 - _CLOSE) <= cost <= target:
                break
            epsilon *= (target * (1 - _CLOSE / 4) / cost) ** (1 / power)
        if best is None:
            raise ValueError("no recipe was found that costs as little as the share")
        return best

    def _charge(self, ledger: Ledger) -> Charge:
        """What a ledger costs in this filter; ValueError as `take`."""
        found = {
            "relation": relation_name(ledger.relation),
            "rows": ledger.rows,
            "rows_per_person": ledger.rows_per_person,
        }
        for name, value in found.items():
            own = getattr(self.terms, name)
            if value != own:
                raise ValueError(
                    f"the filter is for {name}={own}, and the recipe for {value}; all recipes of a "
                    f"filter have its {name}"
                )
        return charges.charge(self.terms.measure, self._limits, ledger)

    def _check_left(self, spent: list[Release], charge: Charge) -> None:
        """Refuse a release that costs more than is left; ValueError, with what is left."""
        cost, gap, tail = charges.total([*(each.charge for each in spent), charge])
        unit, delta = self.terms.unit, self.terms.delta
        if cost > self._limits.cost:
            words = f"the recipe costs {unit} = {charge.cost:.6g}, and {self._words(spent)}"
            if delta:
                words += (
                    f"; with a delta a filter adds up {unit} and not epsilon, so a recipe of its "
                    "own epsilon costs too much, and recipe(make, share=1) takes what is left"
                )
            raise ValueError(words)
        if gap > self._limits.gap or tail > self._limits.tail:
            raise ValueError(
                "the finite bits of the samplers of so many draws cost more than the filter "
                "keeps for them; use fewer rounds or fewer recipes"
            )

    def _left(self, spent: list[Release]) -> Fraction:
        return self._limits.cost - charges.total(each.charge for each in spent)[0]

    def _words(self, spent: list[Release]) -> str:
        left = charges.float_below(self._left(spent))
        return f"{self.terms.unit} = {left:.6g} of {self.budget:.6g} is left"

    def _id(self, words: bytes) -> str:
        """The HMAC-SHA256 of the words of a key or of a run, by which they are known again.

        It does not tell a key of 256 bits. A research key has at most 64 bits, so a search finds it
        from the hash and the salt, as from what was released.
        """
        return hmac.new(self._known[1].encode(), words, hashlib.sha256).hexdigest()

    def _current(self) -> list[Release]:
        """What was paid for so far, by other processes too."""
        with self._transaction() as database:
            return self._read(database)

    @contextlib.contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """The database, to which nobody else writes meanwhile. An error undoes what was written.

        Raises:
            ValueError: naming the file, if it is no whole database. For a filter without a file in
                a process that was forked from its own.
            OSError: naming the file, if it cannot be opened or written.
        """
        with self._lock, contextlib.ExitStack() as stack:
            if self._path is None:
                if os.getpid() != self._process:
                    raise ValueError(
                        "a filter without a file is of the process that made it; give it a path, "
                        "and open that here"
                    )
                database = self._memory
            else:
                self._path.stat()  # its error says that there is no such file
                if write and not os.access(self._path, os.W_OK):
                    raise PermissionError(errno.EACCES, "may not be written", str(self._path))
                stack.enter_context(_naming(self._path))
                database = _connect(f"{self._path.as_uri()}?mode=rw")
                stack.callback(database.close)
                database.execute("PRAGMA synchronous = EXTRA")  # a crash undoes no charge
            stack.enter_context(database)  # commits, or rolls back
            database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield database

    def _read(self, database: sqlite3.Connection) -> list[Release]:
        """What was paid for, by the database; it becomes what is known.

        Raises:
            ValueError: naming the file, if its content is not that of a filter, or not of this one,
                or says that less was spent than was.
        """
        try:
            [(version,)] = database.execute("PRAGMA user_version")
            if version != VERSION:
                raise ValueError(f"tables of version {version}, and this dpbt reads {VERSION}")
            [(terms, salt, seal)] = database.execute("SELECT terms, salt, seal FROM filter")
            records = database.execute("SELECT record FROM release ORDER BY number")
            known = (str(terms), str(salt), *(str(record) for (record,) in records))
            if seal != _seal(known):
                raise ValueError("it lacks its own checksum")
            if known[: len(self._known)] != self._known:
                raise ValueError("another filter, or less was spent than was: is it an old copy?")
            releases = [decode(Release, each.encode(), "a release") for each in known[2:]]
            if not self._known:
                self.terms = terms = decode(Terms, known[0].encode(), "the filter")
                self._limits = charges.limits(terms.measure, terms.epsilon, terms.delta)
        except (ValueError, ArithmeticError) as error:
            raise _damaged(self._path, error) from None
        self._known = known
        return releases

    def __str__(self) -> str:
        terms, spent = self.terms, self._current()
        what = f"{terms.epsilon:g}, {terms.delta:g}" if terms.delta else f"{terms.epsilon:g}"
        rows = [("release", "recipe", terms.unit, "of the budget")]
        costs = [(str(number), each.name, each.charge.cost) for number, each in enumerate(spent, 1)]
        for number, name, cost in [*costs, ("(left)", "", float(self._left(spent)))]:
            rows.append((number, name, f"{cost:.6g}", f"{cost / self.budget:.2%}"))
        bound = "at most " if to_relation(terms.relation) is ADD_REMOVE else ""
        lines = [
            f"filter: {'(epsilon, delta)' if terms.delta else 'epsilon'} = {what} for all releases "
            f"together, under {terms.relation}",
            f"table: {bound}{terms.rows} rows",
            f"adds up: {MEASURES[terms.measure]}, of {self.budget:.6g} in all",
            accounting.align(rows),
        ]
        if terms.rows_per_person > 1:
            lines.append(accounting.people_words(terms.rows_per_person))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return repr(self.terms).replace("Terms", "Filter", 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a copy of a filter would spend its budget twice; give it a path, and open")


def _connect(database: str) -> sqlite3.Connection:
    """A connection whose transactions begin and end as they are told."""
    return sqlite3.connect(
        database, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
    )


def _create(path: Path) -> None:
    """Make a new and empty file that only its owner can read.

    Raises:
        ValueError: naming the file, if it exists.
        OSError: if it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise ValueError(f"{path}: the file exists, and a filter may spend from it") from None


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of SQLite as ValueError for a damaged file, and as OSError for all else."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise OSError(f"{path}: {error}") from error
        raise _damaged(path, error) from error


def _damaged(path: Path | None, error: Exception) -> ValueError:
    """The refusal of a file that is no whole filter."""
    return ValueError(f"{path}: not a filter, or changed or damaged ({error}); {RESTORE}")


def _json(record: Terms | Release) -> str:
    """A record as the file keeps it."""
    return msgspec.json.encode(record).decode()


def _seal(known: tuple[str, ...]) -> str:
    """The checksum of terms, salt and releases."""
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _words(key: Array) -> bytes:
    """The random bits of a key."""
    return np.asarray(jax.random.key_data(key)).astype("<u4").tobytes()


def _ledger(recipe: Recipe, key: Array | None = None) -> Ledger:
    """The ledger of a recipe; ValueError for anything else, or for several keys."""
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a filter pays for recipes, got {type(recipe).__name__}")
    if key is not None:
        keys.check(key)
    return pricing.ledger(recipe, key)


def _one(name: str, number: Any) -> float:
    """One number of an array of them; ValueError naming it, if there are several."""
    if number.ndim:
        raise ValueError(f"{name} must be one number, got {shown(number)}")
    return float(number)
