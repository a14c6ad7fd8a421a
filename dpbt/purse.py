"""Purses: a budget for all fits on the same rows, which refuses what would exceed it.

    purse = dpbt.Purse(epsilon=2, delta=1e-6, rows=50_000)
    recipe = purse.recipe(recipes.auto, share=0.25, domain=domain)
    model = purse.fit(dpbt.fresh_key(), table, recipe)
    print(purse)

What is fitted next, and whether anything is, may follow from the models before.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, Self

import jax
import numpy as np

from dpbt import boosting, checks, chunked, forests
from dpbt.base import (
    ADD_REMOVE,
    MOST_CHUNKED_ROWS,
    Array,
    Model,
    Recipe,
    Relation,
    Table,
    relation_name,
)
from dpbt.base import relation as to_relation
from dpbt.data.chunks import ChunkedTable
from dpbt.learners.random_tree import GROVES
from dpbt.privacy import accounting, filters, keys, pursefiles
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.measures import MEASURES
from dpbt.privacy.pricing import ledger
from dpbt.privacy.pursefiles import Identity, Spent, Terms
from dpbt.recipes import costing
from dpbt.recipes.building import checked_rows
from dpbt.recipes.limits import warn_of_delta
from dpbt.validate import as_path, flag, floats, positive, shown, whole


class Purse:
    """A budget of privacy for many fits on the same rows: a privacy filter.

    Guarantee. All models that a purse paid for are together (epsilon, delta)-DP under `relation`.
    It holds although every recipe, and whether there is another one, may be chosen after the models
    before were seen (docs/composition.md). It covers what the purse paid for and nothing else. With
    a delta of 0 the samplers' finite bits add a delta of at most 1e-9, and mostly below 1e-15.

    - A release is paid for before it is made, and stays paid for if it fails. A failure may come
      after noise was drawn, and whether it came could say something about the rows.
    - What would exceed the budget is refused with a ValueError. A refusal costs nothing. All but
      one follow from public numbers alone, so they tell nothing private.
    - The one is that a table has more rows than `rows`. All recipes must have the `rows` of the
      purse, so every fit asks the same question. That is one bit, which is outside the guarantee.
    - A key pays for one fit. Two fits under one key would share noise, and no finite cost is proved
      of that. The purse keeps a salted hash of each key that it was given, and refuses it later.
    - Costs are rounded up and added exactly, so that no sum exceeds the budget by rounding.
    - Threads may share a purse. Processes may share one by its file (`save`, `load`). Each
      charge is written under a lock before the recipe is handed out.

    A purse of rho keeps 1/10,000 of delta for the samplers' finite bits, and one of mu also 0.2 %
    of epsilon. So a recipe of exactly the purse's epsilon and delta does not fit into it;
    `recipe(make, share=1)` does.

    Args:
        epsilon: of all releases together, above 0 and finite.
        delta: of all releases together. 0 for a pure guarantee, else in (0, 1).
        rows: the public bound on the number of rows of the table; under replace_one their public
            number, in 1..2^40. All recipes must have it. Choose a bound that is surely large
            enough. Above 2^24 it must be a number that float32 holds.
        relation: "add_remove" or "replace_one". All recipes must have it.
        rows_per_person: the most rows that one person has. All recipes must have it.
        measure: what is added up, of `measures.MEASURES`. Without a delta it must be epsilon. With
            one it is rho or mu, and rho by default. A purse of mu takes only recipes whose draws
            are all Gaussian. For epsilon of 0.1 to 8 and delta of 1e-9 to 1e-5, it allows them 8
            to 22 % more than rho. Choose it for fits of `auto` alone, and rho to mix recipes.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
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
    ):
        epsilon = _one("epsilon", positive("epsilon", epsilon, finite=True))
        delta = _one("delta", floats("delta", delta))
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be at least 0 and less than 1, got {delta:g}")
        bound = whole("rows", rows, MOST_CHUNKED_ROWS)
        checked_rows(bound, MOST_CHUNKED_ROWS)
        people = whole("rows_per_person", rows_per_person)
        warn_of_delta(delta, bound)
        chosen = measure or ("rho" if delta else "epsilon")
        near = relation_name(to_relation(relation))
        terms = Terms(epsilon, delta, bound, near, people, chosen)
        self._open(terms, Identity.new(), (), None)

    def _open(
        self, terms: Terms, identity: Identity, spent: tuple[Spent, ...], path: Path | None
    ) -> None:
        self._terms, self._identity, self._spent, self._path = terms, identity, spent, path
        self._limits = filters.limits(terms.measure, terms.epsilon, terms.delta)
        self._lock, self._process = threading.RLock(), os.getpid()

    @property
    def epsilon(self) -> float:
        """The epsilon of all releases together."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """The delta of all releases together."""
        return self._terms.delta

    @property
    def rows(self) -> int:
        """The public bound on the number of rows; under replace_one their public number."""
        return self._terms.rows

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return to_relation(self._terms.relation)

    @property
    def rows_per_person(self) -> int:
        """The most rows that one person has, by the owner's promise."""
        return self._terms.rows_per_person

    @property
    def measure(self) -> str:
        """What is added up: "epsilon", "rho" or "mu" (whose squares are)."""
        return self._terms.measure

    @property
    def budget(self) -> float:
        """What all releases together may cost: epsilon, rho or mu^2."""
        return filters.float_below(self._limits.cost)

    @property
    def spent(self) -> float:
        """What the releases so far cost, rounded up: epsilon, rho or mu^2."""
        return filters.float_above(self._total()[0])

    @property
    def remaining(self) -> float:
        """What is left of the budget, rounded down: epsilon, rho or mu^2."""
        return filters.float_below(self._left())

    @property
    def ledger(self) -> Ledger:
        """The ledger of all releases so far, at the delta of the purse.

        Its epsilon is at most that of the purse. It is what was spent, and no guarantee of its own:
        where choices followed from releases, the purse's epsilon is the claim.

        Raises:
            ValueError: for a purse from a file with draws by a mechanism of its user's own, whose
                price no file keeps.
        """
        books = [each.ledger() for each in self._current()]
        if books:
            return accounting.composed(books, self.delta)
        people = self.rows_per_person
        return Ledger(self.relation, (), self.delta, rows=self.rows, rows_per_person=people)

    def take(self, recipe: Recipe, key: Array | None = None) -> Recipe:
        """Pay for one fit of a recipe, and return it. A second fit needs a second payment.

        Give the key of the fit. A purse cannot see a key that is handed to another function alone,
        and two fits under one key may cost more than was paid, without a bound.

        Args:
            recipe: one setting, of the purse's rows, relation and rows_per_person.
            key: the key of the fit, which no payment before had. The ledger then names its kind.

        Raises:
            ValueError: with what is left, if the recipe costs more. In words, if its draws have no
                finite cost in the measure, or no proved one. For a key that was paid for before.
                Also as `dpbt.ledger`.
        """
        self._take(recipe, key, None)
        return recipe

    def _take(self, recipe: Recipe, key: Array | None, run: str | None) -> None:
        """`take`, for one run of a checkpoint if `run` names it."""
        book = self._book(recipe, key)
        charge, content = self._charge(book), accounting.to_json(book)
        mark = None if run is None else self._identity.mark(run.encode())
        self._pay(Spent(recipe.name, charge, content, self._mark(key), book, mark))

    def _has_paid_for(self, key: Array, run: str | None = None) -> bool:
        """Whether it paid for a release under a key: for any, or for a run that is named."""
        mark = self._mark(key)
        with self._lock:
            of_key = [each for each in self._current() if each.mark == mark]
        named = None if run is None else self._identity.mark(run.encode())
        return any(named in (None, each.run) for each in of_key)

    def check(self, recipe: Recipe) -> None:
        """Refuse a recipe that the purse does not pay for now. It costs nothing and reads no row.

        Raises:
            ValueError: as `take`.
        """
        book = self._book(recipe)
        with self._held() as spent:
            self._check_left(spent, Spent(recipe.name, self._charge(book), {}))

    def fit(
        self,
        key: Array,
        table: Table,
        recipe: Recipe,
        public_key: Array | None = None,
        *,
        keep_withheld: bool = False,
    ) -> Model:
        """Pay for a recipe and fit it: `dpbt.fit`, or `forests.fit` for random trees.

        What the purse does not pay for is refused before the table is read. What a fit refuses of
        its arguments costs nothing. Of private things that is one bit: whether the table has more
        rows than the purse's `rows`.

        Args:
            key: as `dpbt.fit`; a key of its own for each fit, also after one that failed.
            table: as `dpbt.fit`.
            recipe: as `take`.
            public_key: as `dpbt.fit`.
            keep_withheld: as `dpbt.fit`.

        Raises:
            ValueError: as `take` and as the function that fits.
        """
        flag("keep_withheld", keep_withheld)
        checks.check_run(table, recipe)
        self.check(recipe)
        checks.check(key, checks.on_device(table), recipe, public_key)
        public = [line.site for line in ledger(recipe).lines if line.mechanism.public]
        if public and public_key is None:
            raise ValueError(f"the recipe draws public structure ({public[0]}): give a public_key")
        self.take(recipe, key)
        return _fit_of(recipe)(key, table, recipe, public_key, keep_withheld=keep_withheld)

    def fit_chunks(
        self,
        key: Array,
        table: ChunkedTable,
        recipe: Recipe,
        public_key: Array | None = None,
        *,
        memory: float = 4 * 2**30,
        checkpoint: str | Path | None = None,
        progress: chunked.Report | None = None,
        threads: int | None = None,
    ) -> Model:
        """Pay for a recipe and fit it to a table in chunks: `dpbt.fit_chunks`.

        The purse pays when all that can be refused has been, damaged chunks among it. A run that
        was stopped goes on with the same keys and the same checkpoint, and was paid for once.

        Args: as `dpbt.fit_chunks`, and as `fit`.

        Raises:
            ValueError: as `take` and as `dpbt.fit_chunks`. Also where several processes learn
                together, as each would pay.
            OSError: as `dpbt.fit_chunks`.
        """
        if jax.process_count() > 1:
            raise ValueError(
                "several processes would each pay for the same fit; let the first one take() the "
                "recipe with the key, and call dpbt.fit_chunks in all"
            )
        if not self._has_paid_for(key):  # else the run goes on, or is refused in `paying`
            self.check(recipe)  # before a row is counted
        run = key, table, recipe, public_key
        model = chunked.learn(
            *run,
            memory=memory,
            checkpoint=checkpoint,
            progress=progress,
            threads=threads,
            ready=self.paying(recipe, key),
        )
        keys.warn_of_research(key)
        return model

    def paying(self, recipe: Recipe, key: Array) -> Callable[[str | None], None]:
        """What `chunked.learn` calls before it draws: it pays, and for a run that goes on once.

        A payment counts for the run that it names, of two keys, a recipe and a table in one folder.
        For all else a key that was paid for is refused, as its noise would be on other sums.
        """

        def ready(run: str | None) -> None:
            if run is None or not self._has_paid_for(key, run):
                self._take(recipe, key, run)

        return ready

    def recipe(self, make: Callable[..., Recipe], *, share: float = 1.0, **options: Any) -> Recipe:
        """A recipe that costs a share of what is left, to within a millionth and never above.

        It is not paid for yet: `fit` or `take` does that. Alone, it is (some epsilon, delta)-DP at
        the delta of the purse; `dpbt.ledger(recipe)` says which.

        Args:
            make: a function of `dpbt.recipes`, such as `recipes.auto`.
            share: of what is left, in (0, 1]. 1 takes all of it.
            **options: other arguments of `make`, such as domain. epsilon, delta, rows, relation
                and rows_per_person come from the purse.

        Raises:
            ValueError: for an option that comes from the purse, for a share that `make` cannot
                meet, and as `make` and `take`.
        """
        part = _one("share", positive("share", share))
        if part > 1:
            raise ValueError(f"share must be at most 1, got {part:g}")
        fixed = {
            "delta": self.delta,
            "rows": self.rows,
            "relation": self.relation,
            "rows_per_person": self.rows_per_person,
        }
        if own := sorted(options.keys() & {"epsilon", *fixed}):
            raise ValueError(f"{', '.join(own)} of a recipe comes from the purse; leave it out")
        target = filters.float_below(self._left() * Fraction(part))
        if target <= 0:
            raise ValueError(f"nothing is left in the purse: {self.words()}")

        def priced(epsilon: float) -> tuple[Recipe, float]:
            made = make(epsilon=epsilon, **fixed, **options)
            return made, self._charge(ledger(made)).cost

        first = filters.request(self.measure, target, self.delta)
        return costing.of_cost(priced, first, target, 1 if self.measure == "epsilon" else 2)

    def save(self, path: str | Path) -> None:
        """Write the purse to a new file, which it spends from until it ends.

        From then on each charge is in the file before a recipe is handed out. Purses of other
        processes that `load` the file spend from the same budget, and see what this one spent. A
        lock keeps two of them from spending at once (`flock` of POSIX systems, on PATH.lock).
        Symbolic links are followed. Each charge is on the disk before it counts. Only the owner can
        read a new file. Its permissions may be changed, and then stay.

        The file is the budget. Whoever puts an old copy back has what it says once more. A purse
        that is in use notices, and a new one cannot. So keep it where no backup overwrites it.

        Args:
            path: of a file that does not exist.

        Raises:
            ValueError: if the file exists, as another purse may spend from it. Also if this purse
                has another file, because two files would spend the budget twice.
            OSError: if the file cannot be written.
        """
        path = pursefiles.real(as_path("path", path))
        with self._lock:
            if self._path is not None and self._path != path:
                raise ValueError(f"the purse has a file, {self._path}; a second would spend twice")
            if self._path is not None:
                return
            self._check_process()
            _check_new(path)
            with pursefiles.locked(path):
                _check_new(path)
                pursefiles.write(path, self._identity, self._terms, self._spent)
            self._path = path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The purse of a file that `save` wrote; it spends from the file.

        Raises:
            ValueError: naming the path, for a file that is no whole purse, or that has a second
                name by a hard link.
            OSError: if the file cannot be read.
        """
        path = pursefiles.real(as_path("path", path))
        identity, terms, spent = pursefiles.read(path)
        purse = cls.__new__(cls)
        purse._open(terms, identity, spent, path)
        return purse

    def __str__(self) -> str:
        terms, spent = self._terms, self._current()
        what = f"{terms.epsilon:g}" if not terms.delta else f"{terms.epsilon:g}, {terms.delta:g}"
        rows = [("release", "recipe", terms.unit, "of the budget")]
        for number, each in enumerate(spent, 1):
            cost = each.charge.cost
            rows.append((str(number), each.name, f"{cost:.6g}", f"{cost / self.budget:.2%}"))
        rows.append(("(left)", "", f"{self.remaining:.6g}", f"{self.remaining / self.budget:.2%}"))
        people = accounting.people_words(terms.rows_per_person)
        bound = "at most " if self.relation is ADD_REMOVE else ""
        lines = [
            f"purse: {'epsilon' if not terms.delta else '(epsilon, delta)'} = {what} for all "
            f"releases together, under {terms.relation}",
            f"table: {bound}{terms.rows} rows",
            f"adds up: {MEASURES[terms.measure]}, of {self.budget:.6g} in all",
            accounting.align(rows),
        ]
        return "\n".join([*lines, people] if terms.rows_per_person > 1 else lines)

    def __repr__(self) -> str:
        terms = self._terms
        return (
            f"Purse(epsilon={terms.epsilon!r}, delta={terms.delta!r}, rows={terms.rows}, "
            f"relation={terms.relation!r}, rows_per_person={terms.rows_per_person}, "
            f"measure={terms.measure!r})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a copy of a purse would spend its budget twice; use save and load")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self

    def _book(self, recipe: Recipe, key: Array | None = None) -> Ledger:
        """The ledger of a recipe; ValueError for anything else, or for several keys."""
        if not isinstance(recipe, Recipe):
            raise ValueError(f"a purse pays for recipes, got {type(recipe).__name__}")
        if key is not None:
            keys.check(key)
        return ledger(recipe, key)

    def _mark(self, key: Array | None) -> str | None:
        """What a key is known by in this purse."""
        if key is None:
            return None
        words = np.asarray(jax.random.key_data(key)).astype("<u4").tobytes()
        return self._identity.mark(words)

    def _charge(self, book: Ledger) -> filters.Charge:
        """What a ledger costs in this purse; ValueError as `take`."""
        if book.relation is not self.relation:
            raise ValueError(
                f"the purse is under {self._terms.relation}, and the recipe under "
                f"{relation_name(book.relation)}"
            )
        if book.rows != self.rows:
            raise ValueError(
                f"the purse is for a table of rows={self.rows}, and the recipe for {book.rows}; "
                "all recipes of a purse have its rows"
            )
        if book.rows_per_person != self.rows_per_person:
            raise ValueError(
                f"the purse is for rows_per_person={self.rows_per_person}, and the recipe for "
                f"{book.rows_per_person}"
            )
        return filters.charge(self.measure, self._limits, book)

    def _pay(self, release: Spent) -> None:
        """Add a release to what was spent, in the file first.

        Raises:
            ValueError: if it is too much, or its key is one of a release before.
        """
        with self._held() as spent:
            self._check_left(spent, release)
            if release.mark is not None and release.mark in {each.mark for each in spent}:
                raise ValueError(
                    "the purse paid for a release under this key before, and two under one key "
                    "share their noise; give each fit a key of its own"
                )
            now = (*spent, release)
            if self._path is not None:
                pursefiles.write(self._path, self._identity, self._terms, now)
            self._spent = now

    def _check_left(self, spent: tuple[Spent, ...], release: Spent) -> None:
        """Refuse a release that costs more than is left.

        Raises:
            ValueError: with what is left.
        """
        cost, gap, tail = filters.total(each.charge for each in (*spent, release))
        if cost > self._limits.cost:
            raise ValueError(
                f"the recipe costs {self._terms.unit} = {release.charge.cost:.6g}, and "
                f"{self.words()}"
                f"{filters.instead(self.measure, self._terms.unit, cost, self.delta)}"
            )
        if gap > self._limits.gap or tail > self._limits.tail:
            raise ValueError(
                "the finite bits of the samplers of so many draws cost more than the purse "
                "keeps for them; use fewer rounds or fewer recipes"
            )

    @contextlib.contextmanager
    def _held(self) -> Iterator[tuple[Spent, ...]]:
        """What was spent so far, while no thread and no process can spend more."""
        with self._lock:
            if self._path is None:
                self._check_process()
                yield self._spent
                return
            self._path = pursefiles.real(self._path)
            with pursefiles.locked(self._path):
                spent = self._read(self._path)
                pursefiles.check_writable(self._path)
                yield spent

    def _current(self) -> tuple[Spent, ...]:
        """What was spent so far, by other processes too."""
        with self._lock:
            return self._spent if self._path is None else self._read(self._path)

    def _read(self, path: Path) -> tuple[Spent, ...]:
        """What the file says was spent.

        Raises:
            ValueError: if the file is of another purse, or says less than was spent. Also as
                `pursefiles.read`.
        """
        identity, terms, spent = pursefiles.read(path)
        if (identity, terms) != (self._identity, self._terms):
            raise ValueError(f"{path}: the file of another purse was put in this place")
        known = len(self._spent)
        if spent[:known] != self._spent:
            raise ValueError(f"{path}: the file says less was spent than was; is it an old copy?")
        self._spent = (*self._spent, *spent[known:])
        return self._spent

    def _check_process(self) -> None:
        """Refuse to spend from a purse without a file in a process that was forked from its own."""
        if os.getpid() != self._process:
            raise ValueError("a purse of another process; save it to a file, and load it here")

    def _total(self) -> tuple[Fraction, Fraction, Fraction]:
        return filters.total(each.charge for each in self._current())

    def _left(self) -> Fraction:
        return self._limits.cost - self._total()[0]

    def words(self) -> str:
        """What is left, in words."""
        return f"{self._terms.unit} = {self.remaining:.6g} of {self.budget:.6g} is left"


def _check_new(path: Path) -> None:
    """Refuse a file that exists.

    Raises:
        ValueError: naming it.
    """
    if path.exists():
        raise ValueError(f"{path}: the file exists, and a purse may spend from it")


def _one(name: str, number: Any) -> float:
    """One number of an array of them.

    Raises:
        ValueError: naming it, if there are several.
    """
    if number.ndim:
        raise ValueError(f"{name} must be one number, got {shown(number)}")
    return float(number)


def _fit_of(recipe: Recipe) -> Callable[..., Model]:
    """The function that fits a recipe."""
    return forests.fit if recipe.learner.hypotheses is GROVES else boosting.fit
