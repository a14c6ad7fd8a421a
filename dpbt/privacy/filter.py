"""Privacy filters: a budget for all fits on the same rows, which refuses what would exceed it.

    budget = dpbt.Filter(epsilon=2, delta=1e-6, rows=50_000)
    recipe = budget.recipe(recipes.auto, fraction=0.25, domain=domain)
    model = dpbt.fit(dpbt.fresh_key(), table, recipe, filter=budget)
    print(budget)

What is fitted next, and whether anything is, may follow from the models before. What is added up,
and why it may be, is in `charges`.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, Self

import jax
import numpy as np

from dpbt.base import ADD_REMOVE, MAX_ROWS_IN_BLOCKS, Array, Recipe, Relation, relation_name
from dpbt.base import relation as to_relation
from dpbt.privacy import accounting, charges, keys, pricing
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.charges import Charge, Terms
from dpbt.privacy.filter_file import FilterFile, Release
from dpbt.privacy.measures import MEASURES
from dpbt.validate import as_path, floats, positive, shown, warn_of_delta, whole

_CLOSE = 1e-6
"""How far below the cost that was asked for a recipe may cost, as a share of it."""

_STEPS = 12
"""Most recipes that are built in search of one of a cost."""


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
    `recipe(make, fraction=1)` does.

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
        max_rows_per_user: the most rows that one person has. All recipes must have it.
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
        max_rows_per_user: int = 1,
        measure: str | None = None,
        path: str | Path | None = None,
    ):
        epsilon = _one("epsilon", positive("epsilon", epsilon, finite=True))
        delta = _one("delta", floats("delta", delta))
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be at least 0 and less than 1, got {delta:g}")
        bound = whole("rows", rows, MAX_ROWS_IN_BLOCKS)
        people = whole("max_rows_per_user", max_rows_per_user)
        near: Any = relation_name(to_relation(relation))
        chosen: Any = measure or ("rho" if delta else "epsilon")
        terms = Terms(epsilon, delta, bound, near, people, chosen)
        _ = terms.limits  # for a measure that does not go with the delta
        warn_of_delta(delta, bound)
        self._keep(FilterFile(None if path is None else _absolute(path), terms))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The filter of a file, which it spends from.

        Raises:
            ValueError: naming the path, for a file that is no whole filter.
            OSError: if the file cannot be read.
        """
        opened = cls.__new__(cls)
        opened._keep(FilterFile(_absolute(path)))
        return opened

    def _keep(self, file: FilterFile) -> None:
        self._file, self.terms = file, file.terms
        self._ledgers: dict[str, Ledger] = {}  # of releases that this process paid for, by seal

    @property
    def budget(self) -> float:
        """What all releases together may cost: epsilon, rho or mu^2."""
        return charges.float_below(self.terms.limits.cost)

    @property
    def spent(self) -> float:
        """What the releases so far cost, rounded up: epsilon, rho or mu^2."""
        return charges.float_above(self.terms.limits.cost - self._left())

    @property
    def remaining(self) -> float:
        """What is left of the budget, rounded down: epsilon, rho or mu^2."""
        return charges.float_below(self._left())

    @property
    def ledger(self) -> Ledger:
        """The ledger of all releases so far, at the delta of the filter.

        Its epsilon is at most that of the filter. It is what was spent, and no guarantee of its
        own: where choices followed from releases, the filter's epsilon is the claim.

        Raises:
            ValueError: for draws by a mechanism of its user's own that another process paid for.
                No file keeps their price.
        """
        releases = [
            self._ledgers.get(seal) or accounting.of_record(release.ledger)
            for seal, release in self._file.read().items()
        ]
        terms = self.terms
        if releases:
            return accounting.composed(releases, terms.delta)
        relation, people = to_relation(terms.relation), terms.max_rows_per_user
        return Ledger(relation, (), terms.delta, rows=terms.rows, max_rows_per_user=people)

    def words(self) -> str:
        """What is left, in words."""
        return self._words(self._left())

    def has_paid_for(self, key: Array, run: str | None = None) -> bool:
        """Whether it paid for a release under a key: for any, or for the run that is named."""
        key_id, run_id = self._ids(key, run)
        of_key = [each for each in self._file.read().values() if each.key_id == key_id]
        return any(run_id in (None, each.run_id) for each in of_key)

    def check(self, recipe: Recipe, key: Array | None = None) -> None:
        """Refuse a recipe that the filter does not pay for now. It costs nothing and reads no row.

        Args:
            recipe: one setting.
            key: of a run that may go on from a checkpoint. If it was paid for, only the terms of
                the recipe are compared, such as its rows.

        Raises:
            ValueError: as `take`.
            OSError: as `take`.
        """
        charge = self.terms.charge(_ledger(recipe))
        if key is None or not self.has_paid_for(key):
            with self._file.paying() as (spent, _):
                self._check_left(spent, charge)

    def take(self, recipe: Recipe, key: Array | None = None, run: str | None = None) -> Recipe:
        """Pay for one fit of a recipe, and return it. A second fit needs a second payment.

        Give the key of the fit. A filter cannot see a key that is handed to another function alone,
        and two fits under one key may cost more than was paid, without a bound.

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
        ledger = _ledger(recipe, key)
        self._pay(recipe.name, self.terms.charge(ledger), ledger, key, run)
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
        ids = self._ids(key, run)
        release = Release(name, charge, *ids, accounting.to_record(ledger))
        with self._file.paying() as (spent, add):
            self._check_left(spent, charge)
            if key is not None and release.key_id in {each.key_id for each in spent}:
                raise ValueError(
                    "the filter paid for a release under this key before, and two under one key "
                    "share their noise; give each fit a key of its own"
                )
            seal = add(release)
        self._ledgers[seal] = ledger

    def _ids(self, key: Array | None, run: str | None) -> tuple[str | None, str | None]:
        """The salted hashes of a key and of the name of a run; None for None."""
        words = None if key is None else np.asarray(jax.random.key_data(key)).astype("<u4")
        return (
            None if words is None else self._file.id_of(words.tobytes()),
            None if run is None else self._file.id_of(run.encode()),
        )

    def paying(self, recipe: Recipe, key: Array) -> Callable[[str | None], None]:
        """What a fit in blocks calls before it draws: it pays, and once for a run that goes on.

        A payment counts for the run that it names, of two keys, a recipe and a table in one folder.
        For all else a key that was paid for is refused, as its noise would be on other sums.
        """

        def ready(run: str | None) -> None:
            if run is None or not self.has_paid_for(key, run):
                self.take(recipe, key, run)

        return ready

    def recipe(
        self, make: Callable[..., Recipe], *, fraction: float = 1.0, **options: Any
    ) -> Recipe:
        """A recipe that costs a share of what is left, to within a millionth and never above.

        It is not paid for yet: `dpbt.fit` or `take` does that. Alone, it is (some epsilon,
        delta)-DP at the delta of the filter; `dpbt.ledger(recipe)` says which.

        Args:
            make: a function of `dpbt.recipes`, such as `recipes.auto`.
            fraction: of what is left, in (0, 1]. 1 takes all of it.
            **options: other arguments of `make`, such as domain. epsilon, delta, rows, relation
                and max_rows_per_user come from the filter.

        Raises:
            ValueError: for an option that comes from the filter, for a fraction that `make` cannot
                meet, and as `make` and `take`.
        """
        # What is asked for.
        part, terms = _one("fraction", positive("fraction", fraction)), self.terms
        if part > 1:
            raise ValueError(f"fraction must be at most 1, got {part:g}")
        own = {
            "delta": terms.delta,
            "rows": terms.rows,
            "relation": terms.relation,
            "max_rows_per_user": terms.max_rows_per_user,
        }
        if given := sorted(options.keys() & {"epsilon", *own}):
            raise ValueError(f"{', '.join(given)} of a recipe comes from the filter; leave it out")
        target = charges.float_below(self._left() * Fraction(part))
        if target <= 0:
            raise ValueError(f"nothing is left in the filter: {self.words()}")

        # The search. A cost is about proportional to epsilon, and in rho or mu^2 to its square.
        power = 1 if terms.measure == "epsilon" else 2
        epsilon = charges.epsilon_of(terms.measure, target, terms.delta)
        best, most = None, 0.0
        for _ in range(_STEPS):
            made = make(epsilon=epsilon, **own, **options)
            cost = terms.charge(pricing.ledger(made)).cost
            if most < cost <= target:
                best, most = made, cost
            if target * (1 - _CLOSE) <= cost <= target:
                break
            epsilon *= (target * (1 - _CLOSE / 4) / cost) ** (1 / power)
        if best is None:
            raise ValueError("no recipe was found that costs as little as the fraction")
        return best

    def _check_left(self, spent: list[Release], charge: Charge) -> None:
        """Refuse a release that costs more than is left; ValueError, with what is left."""
        before = [each.charge for each in spent]
        cost, gap, tail = charges.total([*before, charge])
        unit, delta, limits = self.terms.unit, self.terms.delta, self.terms.limits
        if cost > limits.cost:
            left = self._words(limits.cost - charges.total(before).cost)
            words = f"the recipe costs {unit} = {charge.cost:.6g}, and {left}"
            if delta:
                words += (
                    f"; with a delta a filter adds up {unit} and not epsilon, so a recipe of its "
                    "own epsilon costs too much, and recipe(make, fraction=1) takes what is left"
                )
            raise ValueError(words)
        if gap > limits.gap or tail > limits.tail:
            raise ValueError(
                "the finite bits of the samplers of so many draws cost more than the filter "
                "keeps for them; use fewer rounds or fewer recipes"
            )

    def _left(self) -> Fraction:
        spent = charges.total(each.charge for each in self._file.read().values())
        return self.terms.limits.cost - spent.cost

    def _words(self, left: Fraction) -> str:
        rest = charges.float_below(left)
        return f"{self.terms.unit} = {rest:.6g} of {self.budget:.6g} is left"

    def __str__(self) -> str:
        terms, spent = self.terms, [*self._file.read().values()]
        what = f"{terms.epsilon:g}, {terms.delta:g}" if terms.delta else f"{terms.epsilon:g}"
        rows = [("release", "recipe", terms.unit, "of the budget")]
        costs = [(str(number), each.name, each.charge.cost) for number, each in enumerate(spent, 1)]
        left = terms.limits.cost - charges.total(each.charge for each in spent).cost
        for number, name, cost in [*costs, ("(left)", "", float(left))]:
            rows.append((number, name, f"{cost:.6g}", f"{cost / self.budget:.2%}"))
        bound = "at most " if to_relation(terms.relation) is ADD_REMOVE else ""
        lines = [
            f"filter: {'(epsilon, delta)' if terms.delta else 'epsilon'} = {what} for all releases "
            f"together, under {terms.relation}",
            f"table: {bound}{terms.rows} rows",
            f"adds up: {MEASURES[terms.measure]}, of {self.budget:.6g} in all",
            accounting.align(rows),
        ]
        if terms.max_rows_per_user > 1:
            lines.append(accounting.people_words(terms.max_rows_per_user))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return repr(self.terms).replace("Terms", "Filter", 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a copy of a filter would spend its budget twice; give it a path, and open")


def _absolute(path: str | Path) -> Path:
    return as_path("path", path).absolute()


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
