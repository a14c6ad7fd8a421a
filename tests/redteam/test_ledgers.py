"""Attacks on ledgers: lines that lie, budgets that are tampered with, parts that do not fit."""

import dataclasses
import math
import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import boosting, losses, recipes, reweighting
from dpbt.base import ADD_REMOVE
from dpbt.data.questions import of_splits
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.accounting import Event, Ledger, Line
from dpbt.privacy.mechanisms.prices import FREE
from dpbt.reweighting import MirrorNumbers
from tests.redteam.attacks import GRID, one_split


class Numbers(NamedTuple):
    """A budget of one scale."""

    leaf_scale: Any


HONEST = np.float32(GRID)


def sides(table, weights):
    """The class weights of the two sides of split 0."""
    levels = trees.weights_by_class(table, weights)
    everywhere = jnp.zeros(table.target.shape, jnp.int32)
    products = trees.node_products(table, levels, everywhere, 1, None)
    return trees.child_totals(products, trees.node_totals(levels), jnp.zeros(1, jnp.int32))


def line(site="leaf", mechanism=mechanisms.discrete_laplace, **changes):
    return Event(
        **{
            "site": site,
            "mechanism": mechanism,
            "releases": "class weights",
            "scale": float(HONEST),
            "sensitivity": float(GRID),
            "theorem": "a row is on one side",
            "moved": 1,
            **changes,
        }
    )


def recipe_of(program, *events, rounds=2, scale=HONEST):
    """A recipe of a stump whose program and lines are one's own."""
    base = recipes.bdpe(epsilon=1.0, rows=400, rounds=rounds, depth=1, alpha=1.0)

    def hypothesis(release, budget, public):
        return dpbt.Tree(jnp.zeros(1, jnp.int32), jnp.ones(2, jnp.float32))

    learner = boundary.weak_learner(
        program,
        hypothesis,
        lambda budget, public: list(events),
        trees.TREES,
        ADD_REMOVE,
        tag="a stump",
    )
    return dataclasses.replace(
        base,
        learner=learner,
        budget=Numbers(np.float32(scale)),
        reweighter=reweighting.uniform,
        reweighting=(),
        loss=None,
    )


def drawing(mechanism=mechanisms.discrete_laplace, scale=None, unit=1.0, site="leaf"):
    """A program of one draw; `scale` is a function of budget, weights and public cap."""

    def program(draw, table, weights, budget, public):
        own = budget.leaf_scale if scale is None else scale(budget, weights, public.cap)
        draw(site, mechanism, sides(table, weights), own, unit)

    return program


def own_mechanism(name, **changes):
    """A mechanism that publishes the value, and says that it is discrete Laplace noise."""
    return mechanisms.discrete_laplace._replace(
        name=name, sample=lambda key, value, scale: value, **changes
    )


def test_an_honest_stump_has_a_ledger():
    assert dpbt.ledger(recipe_of(drawing(), line())).pure_epsilon == pytest.approx(2.0)


def in_all_entries_but_one(budget, weights, cap):
    return jnp.full((1, 2, 2), budget.leaf_scale).at[0, 1, 1].set(1e-3)


def test_a_sampler_without_a_bound_marks_its_ledger():
    own = own_mechanism("of my own", sampler=None)
    book = dpbt.ledger(recipe_of(drawing(own), line(mechanism=own)))
    assert not book.exact
    assert "FLOAT" in str(book)


TWIN = own_mechanism("discrete laplace")
PUBLIC_TWIN = own_mechanism("uniform")
FREE_TWIN = own_mechanism("uniform", price=FREE)
FREE_OWN = own_mechanism("of my own", price=FREE)
LIES = {
    "another mechanism": (
        drawing(),
        line(mechanism=mechanisms.rounded_gaussian, scale=1e9, sensitivity=1.0),
    ),
    "public": (drawing(), line(mechanism=mechanisms.uniform, sensitivity=0.0)),
    "the library's for one's own of its name": (drawing(TWIN), line()),
    "one's own under a known name": (drawing(TWIN), line(mechanism=TWIN)),
    "one's own under a public name": (drawing(PUBLIC_TWIN), line(mechanism=PUBLIC_TWIN)),
    "one's own under a public name, free": (
        drawing(FREE_TWIN),
        line(mechanism=FREE_TWIN, sensitivity=0.0),
    ),
    "one's own, free": (drawing(FREE_OWN), line(mechanism=FREE_OWN, sensitivity=0.0)),
    "less noise": (drawing(scale=lambda b, w, cap: b.leaf_scale * np.float32(0.999)), line()),
    "less noise in one entry": (drawing(scale=in_all_entries_but_one), line()),
    "no number": (drawing(scale=lambda b, w, cap: b.leaf_scale * np.float32("nan")), line()),
    "negative": (drawing(scale=lambda b, w, cap: -b.leaf_scale), line()),
    "no noise in a negative unit": (
        drawing(scale=lambda b, w, cap: -b.leaf_scale, unit=np.float32(-1)),
        line(),
    ),
    "less noise in later rounds": (
        drawing(scale=lambda b, w, cap: b.leaf_scale * cap),
        line(),
    ),
    "no line": (drawing(), line("other")),
    "two lines": (drawing(), line(), line()),
    "no draw": (lambda draw, table, weights, budget, public: None, line()),
}


@pytest.mark.parametrize("name", LIES)
def test_lines_that_lie_are_refused(name):
    program, *events = LIES[name]
    recipe = recipe_of(program, *events)
    if "later" in name:
        mirror = reweighting.mirror(losses.m_alpha, bounded=True)
        recipe = _later(recipe, mirror)
    with pytest.raises(ValueError, match=r"prices|of your own|does not match"):
        dpbt.ledger(recipe)


def _later(recipe, mirror):
    """With weights whose cap is 1 / 2 at first and grows; its inverse is the lie."""
    program = drawing(scale=lambda b, w, cap: b.leaf_scale * jnp.float32(0.5) / cap)
    learner = boundary.weak_learner(
        program,
        recipe.learner.hypothesis,
        recipe.learner.events,
        trees.TREES,
        ADD_REMOVE,
        tag="a later stump",
    )
    numbers = MirrorNumbers(np.float32(1))
    return dataclasses.replace(recipe, learner=learner, reweighter=mirror, reweighting=numbers)


BAD_EVENTS = {
    "count 0": {"count": 0},
    "count negative": {"count": -1},
    "count 1.5": {"count": 1.5},
    "count true": {"count": True},
    "moved 0": {"moved": 0},
    "moved true": {"moved": True},
    "moved 1.5": {"moved": 1.5},
    "scale nan": {"scale": math.nan},
    "scale negative": {"scale": -1.0},
    "one scale negative": {"scale": np.array([1.0, -1.0])},
    "sensitivity nan": {"sensitivity": math.nan},
    "sensitivity negative": {"sensitivity": -1.0},
    "unit negative": {"scale_unit": -1.0},
    "unit zero": {"scale_unit": 0.0},
    "public, a sensitivity": {"mechanism": mechanisms.uniform},
    "withheld, a sensitivity": {"mechanism": mechanisms.assignment},
    "public, a sensitivity in one setting": {
        "mechanism": mechanisms.uniform,
        "sensitivity": np.array([0.0, 1.0]),
    },
}


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_lines_that_mean_nothing_are_refused(name):
    with pytest.raises(ValueError, match="the draw 'leaf'"):
        line(**BAD_EVENTS[name])


def test_a_line_cannot_say_what_it_costs():
    """The price follows from mechanism, sensitivity and scale, and no line says another."""
    for cheaper in ({"epsilon": 0.5}, {"rho": 0.1}, {"mu": 0.1}, {"cost": None}):
        with pytest.raises(TypeError, match=next(iter(cheaper))):
            line(**cheaper)
    quiet, gaussian = line(scale=0.0), line(mechanism=mechanisms.rounded_gaussian)
    assert tuple(quiet.cost) == (math.inf, math.inf, math.inf)
    assert (gaussian.cost.epsilon, gaussian.cost.rho, gaussian.cost.mu) == (math.inf, 0.5, 1.0)
    assert (line().cost.epsilon, line().cost.rho) == (1.0, 0.5)


RECIPE = recipes.bdpe(epsilon=1.0, rows=400, rounds=3, depth=2)
SMOOTH = recipes.lazybb_rules(epsilon=1.0, rows=400, rounds=3)
LAZY = reweighting.LazyNumbers(np.float32(0.4), np.float32(0.3))
TAMPERED = {
    "rounds 2.9": lambda: dataclasses.replace(RECIPE, rounds=2.9),
    "rounds 2.9, numpy": lambda: dataclasses.replace(RECIPE, rounds=np.float32(2.9)),
    "rounds 2.9, jax": lambda: dataclasses.replace(RECIPE, rounds=jnp.float32(2.9)),
    "rounds 0": lambda: dataclasses.replace(RECIPE, rounds=np.int32(0)),
    "rounds -1": lambda: dataclasses.replace(RECIPE, rounds=-1),
    "rounds true": lambda: dataclasses.replace(RECIPE, rounds=True),
    "rounds beyond": lambda: dataclasses.replace(RECIPE, rounds=np.int32(4)),
    "delta 2": lambda: dataclasses.replace(RECIPE, delta=np.float32(2)),
    "delta negative": lambda: dataclasses.replace(RECIPE, delta=np.float32(-1e-6)),
    "delta nan": lambda: dataclasses.replace(RECIPE, delta=np.float32("nan")),
    "no sampler pays": lambda: _with(RECIPE, leaf_scale=np.float32("nan")),
    "negated noise": lambda: _with(RECIPE, leaf_scale=-RECIPE.budget.leaf_scale),
    "negated errors": lambda: _with(RECIPE, error_scale=-RECIPE.budget.error_scale),
    "negated splits": lambda: _with(RECIPE, split_epsilon=-RECIPE.budget.split_epsilon),
    "smooth weights": lambda: dataclasses.replace(
        RECIPE, reweighter=reweighting.lazy_bregman(True), reweighting=LAZY
    ),
    "smooth weights, forest": lambda: dataclasses.replace(
        recipes.random_forest(epsilon=1.0, rows=400),
        reweighter=reweighting.lazy_bregman(False),
        reweighting=LAZY,
    ),
}


def _with(recipe, **numbers):
    return dataclasses.replace(recipe, budget=recipe.budget._replace(**numbers))


@pytest.mark.parametrize("name", TAMPERED)
def test_recipes_that_are_tampered_with_are_refused(name):
    with pytest.raises(ValueError):  # noqa: PT011
        dpbt.ledger(TAMPERED[name]())


TWINS = ("leaf_3985819", "leaf_4420602")
"""Two names of one checksum of 31 bits."""


def test_two_sites_of_one_key_are_refused():
    first, second = TWINS
    assert len({zlib.crc32(name.encode()) & 0x7FFFFFFF for name in TWINS}) == 1

    def program(draw, table, weights, budget, public):
        for site in (first, second):
            draw(site, mechanisms.discrete_laplace, sides(table, weights), budget.leaf_scale)

    recipe = recipe_of(program, line(first), line(second))
    with pytest.raises(ValueError, match="would have one key"):
        dpbt.ledger(recipe)
    with pytest.raises(ValueError, match="would have one key"):
        dpbt.boost(jax.random.key(0), one_split(), recipe)


INFINITE = {
    "bdpe": recipes.bdpe(epsilon=np.inf, rows=80),
    "bdpe, delta": recipes.bdpe(epsilon=np.inf, rows=80, delta=1e-6),
    "lazybb": recipes.lazybb_rules(epsilon=np.inf, rows=80),
    "forest": recipes.random_forest(epsilon=np.inf, rows=80),
    "rf_e": recipes.rf_e(epsilon=np.inf, rows=80),
    "halfspaces": recipes.halfspace_boost(epsilon=np.inf, rows=80),
}


@pytest.mark.parametrize("accountant", ["pure", "advanced", "zcdp", "gdp", "rdp", "pld"])
@pytest.mark.parametrize("name", INFINITE)
def test_no_noise_has_an_infinite_epsilon_by_every_accountant(name, accountant):
    assert dpbt.ledger(INFINITE[name]).epsilon_at(1e-6, accountant) == math.inf


def test_a_mechanism_without_pure_price_has_none_by_every_accountant():
    draw = line(mechanism=mechanisms.rounded_gaussian, sensitivity=1.0, scale=1.0)
    book = Ledger(ADD_REMOVE, (Line(draw),))
    assert book.epsilon == book.epsilon_at(1e-6, "pure") == math.inf
    assert book.epsilon_at(1e-6, "advanced") == math.inf
    assert book.epsilon_at(1e-6, "gdp") < book.epsilon_at(1e-6, "zcdp") < math.inf


REQUESTS = {
    "bdpe": recipes.bdpe,
    "bdpe, published": lambda **s: recipes.bdpe(calibration="published", **s),
    "bdpe, delta": lambda **s: recipes.bdpe(delta=1e-6, **s),
    "forest": recipes.random_forest,
    "forest, delta": lambda **s: recipes.random_forest(delta=1e-6, **s),
    "rf_l, published": lambda **s: recipes.rf_l(calibration="published", **s),
    "rf_e": recipes.rf_e,
    "lazybb": recipes.lazybb_rules,
    "lazybb, top-down": recipes.lazybb_trees,
    "lazybb, noisy max": lambda **s: recipes.lazybb_rules(selection="noisy_max", **s),
    "halfspaces": recipes.halfspace_boost,
}


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
@pytest.mark.parametrize("name", REQUESTS)
def test_no_ledger_is_above_its_request(name, epsilon):
    """Summed up here anew, with what finite bits cost."""
    recipe = REQUESTS[name](epsilon=epsilon, rows=300, rounds=7)
    book = dpbt.ledger(recipe)
    assert book.epsilon <= epsilon
    assert book.epsilon >= 0.8 * epsilon
    assert book.sampler_epsilon > 0
    if book.delta == 0:
        pure = math.fsum(e.count * e.epsilon + 2 * e.gap for e in book.lines)
        assert pure <= epsilon
        assert book.sampler_delta < 1e-9


def test_the_grid_of_published_leaves_is_in_their_sensitivity():
    """Leaves at the two ends of their range, once they are on the grid, by an own computation."""
    clip = np.linspace(1.0, 10.0, 40)
    recipe = recipes.bdpe(
        epsilon=1.0, rows=300, rounds=2, depth=2, calibration="published", clip=clip
    )
    numbers = jax.tree.map(lambda x: np.asarray(x, np.float64), recipe.budget)
    steps = numbers.step * numbers.clip**2 / numbers.leaf_step
    assert np.any(np.round(steps) > steps)  # where rounding moves the ends apart
    loss = 2 * np.round(steps) * numbers.leaf_step / numbers.leaf_scale
    share = 1.0 * 0.5 / 2 / 4  # of a tree's leaves, of one leaf
    assert np.all(loss <= share)


def two_tables():
    """One split and a row more or less."""
    table = one_split()
    return table, table._replace(present=table.present.at[0].set(False))


TRUSTED = {
    "a unit that the program chooses": drawing(
        scale=lambda b, w, cap: np.float32(1.0), unit=np.float32(1e-3)
    ),
    "less noise between the rounds that are read": drawing(
        scale=lambda b, w, cap: jnp.where(w.shape[0] > 1, np.float32(1), b.leaf_scale)
    ),
}


@pytest.mark.parametrize("name", TRUSTED)
def test_what_passes_the_ledger_does_not_pass_the_audit(name):
    """A program is trusted: it may name a unit, or read the public shape of its table."""
    recipe = recipe_of(TRUSTED[name], line(), rounds=1)
    claim = dpbt.ledger(recipe).epsilon
    table, other = two_tables()
    release = dpbt.boost(jax.random.key(0), table, recipe).transcript
    found = boosting.step_divergences(release, table, other, recipe)["leaf"].pure
    assert float(found.max()) > 10 * claim


def lone_row_leaves(rows=400, splits=301):
    """The only row of class 1, set apart by all splits but one; and without it."""
    satisfied = np.zeros((rows + 1, splits), bool)
    satisfied[0, 1:] = True
    satisfied[rows, 0] = True
    label = np.zeros(rows + 1, bool)
    label[[0, rows]] = True
    here = np.arange(rows + 1)
    table = of_splits(satisfied, label, here < rows)
    return table, table._replace(present=jnp.asarray(here > 0))


def test_a_smooth_learner_with_weights_of_another_total_is_refused_or_priced():
    """Top-down trees are priced for a total weight of kappa m."""
    recipe = recipes.lazybb_trees(
        epsilon=1.0,
        rows=400,
        rounds=1,
        density=0.01,
        splits=1,
        depth=1,
        criterion=losses.matsushita,
    )
    table, other = lone_row_leaves()
    try:
        recipe = dataclasses.replace(recipe, reweighter=reweighting.uniform)
        claim = dpbt.ledger(recipe).epsilon
    except ValueError:
        return
    release = dpbt.boost(jax.random.key(0), table, recipe).transcript
    steps = boosting.step_divergences(release, table, other, recipe)
    assert sum(float(step.pure.max()) for step in steps.values()) <= claim * 1.002


def test_a_coarser_grid_of_sums_is_refused_or_priced():
    recipe = recipes.halfspace_boost(rows=400, epsilon=1.0, features=4)
    coarse = _with(recipe, step=np.float32(2.0**22))
    try:
        claim = dpbt.ledger(coarse).epsilon
    except ValueError:
        return
    assert claim > dpbt.ledger(recipe).epsilon
