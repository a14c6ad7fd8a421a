"""Attacks on ledgers: lines that lie, budgets that are tampered with, parts that do not fit."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from msgspec import structs

import dpbt
from dpbt import recipes, weighting
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.accounting import Ledger
from dpbt.privacy.mechanism_prices import FREE, Price
from dpbt.privacy.noise_scales import scales_of_draws_from_rows
from dpbt.privacy.recipe_ledger import DrawTerms, ledger_line
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, Noise
from tests.support.attacks import GRID, table_of_one_split
from tests.support.slow_cases import mark_slow_cases

pytestmark = pytest.mark.unoptimized


def class_weights_of_sides(table, weights):
    """The class weights of the two sides of split 0."""
    levels = trees.weights_by_class(table, weights)
    everywhere = jnp.zeros(table.target.shape, jnp.int32)
    products = trees.split_weights_of_nodes(table, levels, everywhere, num_nodes=1)
    return trees.child_totals(products, trees.root_class_weights(levels), jnp.zeros(1, jnp.int32))


def ledger_line_with(mechanism=mechanisms.discrete_laplace, **changes):
    numbers = {"scale": float(GRID), "sensitivity": float(GRID), "moved_outputs": 1, **changes}
    terms = DrawTerms(
        site="leaf",
        mechanism=mechanism,
        releases="class weights",
        theorem="a row is on one side",
        **numbers,
    )
    return ledger_line(terms)


def stump_of_ones(release, params, public):
    return dpbt.Tree(jnp.zeros(1, jnp.int32), jnp.ones(2, jnp.float32))


def recipe_of_program(program, rounds=2, sites=("leaf",), **changes):
    """A recipe of a stump whose program is one's own, at epsilon 1 a round."""
    learner = boundary.weak_learner(
        name="a stump",
        program=program,
        hypothesis=stump_of_ones,
        kind=trees.TREES,
        fractions=dict.fromkeys(sites, 1 / len(sites)),
        relation=ADD_REMOVE,
    )
    noise = Noise(dict.fromkeys(sites, np.float32(1)))
    return recipes.custom(learner, rows=400, rounds=rounds, params=noise, **changes)


def program_of_one_draw(site="leaf", mechanism=mechanisms.discrete_laplace, value=None, **changes):
    """A program of one draw; what is callable is a function of (table, weights, params, public)."""

    def program(draw, table, weights, params, public):
        context = table, weights, params, public
        arguments = {
            "sensitivity": GRID,
            "moved_outputs": 1,
            "theorem": "a row is on one side",
            **changes,
        }
        arguments = {
            name: argument(*context) if callable(argument) else argument
            for name, argument in arguments.items()
        }
        draw(
            site,
            mechanism,
            class_weights_of_sides(table, weights) if value is None else value(*context),
            **arguments,
        )

    return program


def mechanism_without_noise(name, **changes):
    """A mechanism that publishes the value, and says that it is discrete Laplace noise."""
    return mechanisms.discrete_laplace._replace(
        name=name, sample=lambda key, value, scale: value, **changes
    )


def test_an_honest_stump_has_a_ledger():
    assert dpbt.ledger(recipe_of_program(program_of_one_draw())).pure_epsilon == pytest.approx(
        2.0, rel=1e-6
    )
    price = mechanisms.discrete_laplace.price._replace(sampler=None)
    recipe_ledger = dpbt.ledger(
        recipe_of_program(
            program_of_one_draw(mechanism=mechanism_without_noise("of my own", price=price))
        )
    )
    assert not recipe_ledger.has_bounded_samplers
    assert "FLOAT" in str(recipe_ledger)


def test_an_own_scale_is_priced_as_the_float32_that_is_drawn():
    """As float32, 0.7 is smaller."""
    (line_of_own_scale,) = dpbt.ledger(
        recipe_of_program(program_of_one_draw(sensitivity=1.0, scale=0.7))
    ).lines
    assert line_of_own_scale.scale == float(np.float32(0.7)) < 0.7
    assert line_of_own_scale.epsilon > 1 / 0.7


def smallest_weight(table, weights, params, public):
    """f32[], a number that follows from the rows."""
    return jnp.min(weights)


def program_with_second_draw(numbers_of_second):
    """A program whose second draw has terms that follow from its first release."""

    def program(draw, table, weights, params, public):
        proof = {"moved_outputs": 1, "theorem": "one side"}
        noise = mechanisms.discrete_laplace
        first = draw(
            "leaf", noise, class_weights_of_sides(table, weights), sensitivity=GRID, **proof
        )
        draw(
            "more",
            noise,
            class_weights_of_sides(table, weights),
            **numbers_of_second(first),
            **proof,
        )

    return program


ONE = np.float32(1)


def sensitivity_of_cap(table, weights, params, public):
    return GRID * public.cap


def scale_of_round(table, weights, params, public):
    return GRID / (jnp.asarray(public.round) + 1).astype(jnp.float32)


def program_that_reads_first_draw(entry):
    """A program whose second draw has a number of the first one's release."""
    return program_with_second_draw(
        lambda first: {"sensitivity": GRID, entry: jnp.abs(first[0, 0]).astype(jnp.float32)}
    )


FALSE_CLAIMS = {
    "a sensitivity of the rows": (program_of_one_draw(sensitivity=smallest_weight), "follows from"),
    "a sensitivity of a release": (
        program_that_reads_first_draw("sensitivity"),
        "state max_sensitivity",
    ),
    "a sensitivity of the cap": (
        program_of_one_draw(sensitivity=sensitivity_of_cap),
        "state max_sensitivity",
    ),
    "a bound of a release": (
        program_that_reads_first_draw("max_sensitivity"),
        "state max_sensitivity",
    ),
    "a scale of the rows": (program_of_one_draw(scale=smallest_weight), "follows from"),
    "a scale of the rows below a bound": (
        program_of_one_draw(sensitivity=smallest_weight, max_sensitivity=GRID),
        "rows",
    ),
    "a scale of a release": (program_that_reads_first_draw("scale"), "nothing says what it costs"),
    "a scale of the cap": (
        program_of_one_draw(scale=sensitivity_of_cap),
        "nothing says what it costs",
    ),
    "a scale of the round": (
        program_of_one_draw(scale=scale_of_round),
        "nothing says what it costs",
    ),
    "public randomness of the rows": (
        program_of_one_draw(mechanism=mechanisms.uniform, scale=smallest_weight, sensitivity=0.0),
        "costs nothing",
    ),
    "no word on what a row moves": (
        program_of_one_draw(moved_outputs=None),
        "moved_outputs of the draw",
    ),
    "a price of no known norm": (
        program_of_one_draw(mechanism=mechanism_without_noise("of my own", price=Price("linf"))),
        "l1, l2 or range",
    ),
    "less noise in one entry": (
        program_of_one_draw(scale=jnp.ones((2, 2)).at[0, 1].set(1e-3)),
        "must be numbers",
    ),
    "a sensitivity for each entry": (
        program_of_one_draw(sensitivity=jnp.ones((2, 2))),
        "must be numbers",
    ),
    "no number": (program_of_one_draw(scale=np.float32("nan")), "at most|must be in"),
    "a negative scale": (program_of_one_draw(scale=-ONE), "must be in"),
    "a negative sensitivity": (program_of_one_draw(sensitivity=-1.0), "must be in"),
    "an infinite sensitivity": (
        program_of_one_draw(sensitivity=math.inf),
        "scale of at most|finite",
    ),
    "a site without noise": (program_of_one_draw("other"), "no fraction of the budget"),
    "one's own of a known name": (
        program_of_one_draw(mechanism=mechanism_without_noise("discrete laplace")),
        "your own",
    ),
    "one's own of a public name": (
        program_of_one_draw(mechanism=mechanism_without_noise("uniform")),
        "your own",
    ),
    "one's own, free": (
        program_of_one_draw(
            mechanism=mechanism_without_noise("of my own", price=FREE), sensitivity=0.0
        ),
        "costs nothing",
    ),
}


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_draws_whose_claims_are_false_are_refused(name):
    program, message = FALSE_CLAIMS[name]
    sites = ("leaf", "more") if "of a release" in name else ("leaf",)
    with pytest.raises(ValueError, match=message):
        dpbt.ledger(recipe_of_program(program, sites=sites))


def test_a_sensitivity_below_a_public_bound_is_priced_by_the_multiplier():
    """The noise follows the sensitivity, so what a draw costs does not follow from the release."""
    bounded = program_with_second_draw(
        lambda first: {
            "sensitivity": jnp.where(first[0, 0] > 0, 1, GRID) * ONE,
            "max_sensitivity": GRID,
        }
    )
    recipe_ledger = dpbt.ledger(recipe_of_program(bounded, sites=("leaf", "more")))
    leaf, more = recipe_ledger.lines
    assert (leaf.epsilon, leaf.sensitivity) == (more.epsilon, more.sensitivity)


INVALID_FRACTIONS = {
    "too much": ({"leaf": 0.7, "more": 0.7}, "at most 1"),
    "nothing": ({"leaf": 0.0}, "fraction of 'leaf' must be in"),
    "no number": ({"leaf": math.nan}, "fraction of 'leaf' must be in"),
    "no such site": ({"leaf": 0.5, "other": 0.5}, "draws nothing at"),
    "a site left out": ({"other": 1.0}, "no fraction"),
}


@pytest.mark.parametrize("name", INVALID_FRACTIONS)
def test_fractions_that_do_not_share_a_budget_are_refused(name):
    fractions, message = INVALID_FRACTIONS[name]
    learner = recipe_of_program(program_of_one_draw()).learner
    with pytest.raises(ValueError, match=message):
        recipes.custom(learner, rows=400, rounds=2, epsilon=1.0, fractions=fractions)


def test_a_site_has_its_own_noise_before_that_of_its_group():
    noise, sites = {"leaf": 1, "leaf_2": 2}, ("leaf", "leaf_1", "leaf_2")
    assert [boundary.budget_group_of_site(site, noise) for site in sites] == [
        "leaf",
        "leaf",
        "leaf_2",
    ]
    for site in ("leaf_x", "leaf_", "x_leaf", "leaf_1_2"):
        with pytest.raises(ValueError, match="no fraction"):
            boundary.budget_group_of_site(site, noise)


IMPOSSIBLE_NUMBERS = [
    *(("num_payments", value) for value in (0, -1, 1.5, True)),
    *(("times", 0), ("moved_outputs", 0), ("moved_outputs", True), ("moved_outputs", None)),
    *((name, value) for name in ("scale", "sensitivity") for value in (math.nan, -1.0)),
    ("sensitivity", math.inf),
    ("mechanism", mechanisms.uniform),  # it has a sensitivity
    ("mechanism", mechanisms.assignment),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE_NUMBERS)
def test_ledger_lines_with_impossible_numbers_are_refused(name, value):
    with pytest.raises(ValueError, match="the draw 'leaf'"):
        ledger_line_with(**{name: value})
    for field, wrong in (("rho", -1.0), ("tail", math.nan)):
        with pytest.raises(ValueError, match=f"{field} of the draw 'leaf'"):
            structs.replace(ledger_line_with(), **{field: wrong})


RECIPE = recipes.bdpe(epsilon=1.0, rows=400, rounds=3, depth=2)
LAZY = weighting.LazyNumbers(np.float32(0.4), np.float32(0.3))
TAMPERED = {
    **{
        f"rounds {value!r}": functools.partial(dataclasses.replace, RECIPE, rounds=value)
        for value in (2.9, np.float32(2.9), jnp.float32(2.9), np.int32(0), -1, True, np.int32(4))
    },
    **{
        f"delta {value}": functools.partial(dataclasses.replace, RECIPE, delta=np.float32(value))
        for value in (2, -1e-6, math.nan)
    },
    "no sampler pays": lambda: with_noise_factor(RECIPE, "leaf", np.nan),
    "negated noise": lambda: with_noise_factor(RECIPE, "leaf", -1),
    "negated errors": lambda: with_noise_factor(RECIPE, "error", -1),
    "negated splits": lambda: with_noise_factor(RECIPE, "split", -1),
    "no noise at all": lambda: with_params(RECIPE, noise={}),
    "smooth weights": lambda: dataclasses.replace(
        RECIPE, weight_update=weighting.lazy_bregman(True), weight_params=LAZY
    ),
    "smooth weights, forest": lambda: dataclasses.replace(
        recipes.random_forest(epsilon=1.0, rows=400),
        weight_update=weighting.lazy_bregman(False),
        weight_params=LAZY,
    ),
    "weights of another total": lambda: dataclasses.replace(
        recipes.lazybb_trees(epsilon=1.0, rows=400), weight_update=weighting.uniform
    ),
}


def with_params(recipe, **numbers):
    return dataclasses.replace(recipe, params=recipe.params._replace(**numbers))


def with_noise_factor(recipe, site, factor):
    noise = recipe.params.noise
    return with_params(recipe, noise={**noise, site: noise[site] * np.float32(factor)})


@pytest.mark.parametrize("name", TAMPERED)
def test_recipes_that_are_tampered_with_are_refused(name):
    with pytest.raises(ValueError):  # noqa: PT011
        dpbt.ledger(TAMPERED[name]())


@pytest.mark.parametrize(
    ("make_recipe", "delta_option"),
    [
        *((recipes.bdpe, {}), (recipes.bdpe, {"delta": 1e-6}), (recipes.lazybb_rules, {})),
        *((recipes.random_forest, {}), (recipes.rf_e, {}), (recipes.halfspace_boost, {})),
    ],
    ids=["bdpe", "bdpe, delta", "lazybb_rules", "random_forest", "rf_e", "halfspace_boost"],
)
def test_no_noise_has_an_infinite_epsilon_by_every_accountant(make_recipe, delta_option):
    recipe_ledger = dpbt.ledger(make_recipe(epsilon=np.inf, rows=80, **delta_option))
    for accountant in ("pure", "advanced", "zcdp", "gdp"):
        assert recipe_ledger.epsilon_at(1e-6, accountant) == math.inf


def test_a_mechanism_without_pure_price_has_none_by_every_accountant():
    ledger_of_gaussian = Ledger(
        relation=ADD_REMOVE, lines=(ledger_line_with(mechanisms.rounded_gaussian),)
    )
    assert ledger_of_gaussian.epsilon == ledger_of_gaussian.epsilon_at(1e-6, "pure") == math.inf
    assert ledger_of_gaussian.epsilon_at(1e-6, "advanced") == math.inf
    assert (
        ledger_of_gaussian.epsilon_at(1e-6, "gdp")
        < ledger_of_gaussian.epsilon_at(1e-6, "zcdp")
        < math.inf
    )


REQUESTS = {
    "bdpe": recipes.bdpe,
    "bdpe, published": lambda **s: recipes.bdpe(calibration="published", **s),
    "bdpe, delta": lambda **s: recipes.bdpe(delta=1e-6, **s),
    "forest, delta": lambda **s: recipes.random_forest(delta=1e-6, **s),
    "rf_l, published": lambda **s: recipes.rf_l(calibration="published", **s),
    "rf_e": recipes.rf_e,
    "lazybb": recipes.lazybb_rules,
    "lazybb, top-down": recipes.lazybb_trees,
    "halfspaces": recipes.halfspace_boost,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_ledger_is_above_its_request(name):
    """The lines are summed anew, with the cost of finite bits."""
    for epsilon in (0.1, 3.0):
        recipe_ledger = dpbt.ledger(REQUESTS[name](epsilon=epsilon, rows=300, rounds=7))
        assert 0.8 * epsilon <= recipe_ledger.epsilon <= epsilon
        assert recipe_ledger.sampler_epsilon > 0
        if recipe_ledger.delta == 0:
            assert (
                math.fsum(line.count * line.epsilon + 2 * line.gap for line in recipe_ledger.lines)
                <= epsilon
            )
            assert recipe_ledger.sampler_delta < 1e-9


def test_the_grid_of_published_leaves_is_in_their_sensitivity():
    """The distance of the two ends of the range on the grid is computed independently."""
    clip = np.linspace(1.0, 10.0, 40)
    recipe = recipes.bdpe(
        epsilon=1.0, rows=300, rounds=2, depth=2, calibration="published", clip=clip
    )
    numbers = jax.tree.map(lambda x: np.asarray(x, np.float64), recipe.params)
    steps = numbers.settings.step * numbers.settings.clip**2 / numbers.leaf_step
    assert np.any(np.round(steps) > steps)  # where rounding moves the ends apart
    scale = {site: site_scale for site, _, site_scale in scales_of_draws_from_rows(recipe)}["leaf"]
    share = 1.0 * 0.5 / 2 / 4  # of a tree's leaves, of one leaf
    assert np.all(2 * np.round(steps) / scale <= share)


def value_from_table_shape(table, weights, params, public):
    return class_weights_of_sides(table, weights) * weights.shape[0]


UNCHECKED_CLAIMS = {
    "a sensitivity that is wrong": program_of_one_draw(sensitivity=1.0, scale=ONE),
    "a value that follows from the shape of the table": program_of_one_draw(
        value=value_from_table_shape
    ),
}


@pytest.mark.parametrize(
    "name",
    mark_slow_cases(UNCHECKED_CLAIMS, slow=["a value that follows from the shape of the table"]),
)
def test_an_audit_catches_a_learner_whose_false_claim_the_ledger_takes(name):
    """A program is trusted to state its sensitivity, whatever the public shape of its table is."""
    recipe = recipe_of_program(UNCHECKED_CLAIMS[name], rounds=1)
    claim = dpbt.ledger(recipe).epsilon
    table = table_of_one_split()
    neighbour = table._replace(present=table.present.at[0].set(False))
    release = dpbt.boost(jax.random.key(0), table, recipe).transcript
    losses = log_ratios_by_site(release, table, neighbour, recipe)["leaf"][1].pure
    assert float(losses.max()) > 10 * claim


def test_a_coarser_grid_of_sums_costs_more():
    recipe = recipes.halfspace_boost(rows=400, epsilon=1.0, features=4)
    coarse = with_params(recipe, step=np.float32(2.0**22))
    assert dpbt.ledger(coarse).epsilon > dpbt.ledger(recipe).epsilon
