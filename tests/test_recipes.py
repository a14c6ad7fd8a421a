"""Recipes: bad settings are refused by name, ledgers add up to the request."""

import inspect

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dpbt
from dpbt import losses, recipes, weighting
from dpbt.data.domains import Boolean
from dpbt.learners.trees import greedy, rule
from dpbt.learners.trees.growth import GreedyTreeConfig
from dpbt.learners.trees.published import alpha_from_exact_errors
from dpbt.types import ADD_REMOVE, Noise
from tests.support.recipe_noise import draw_specs_by_site, noise_multiplier, scale_by_site

GOOD = {"epsilon": 1.0, "rows": 100}


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("calibration", ["tight", "published"])
@pytest.mark.parametrize("make", [recipes.bdpe, recipes.lazybb_rules, recipes.lazybb_trees])
def test_the_ledger_adds_up_to_the_request(make, calibration, delta):
    if make is recipes.bdpe and calibration == "published" and delta > 0:
        return  # refused
    for epsilon, rounds, relation in ((0.05, 5, "add_remove"), (3.0, 39, "replace_one")):
        settings = {"rounds": rounds, "calibration": calibration, "relation": relation}
        recipe = make(epsilon=epsilon, rows=2000, delta=delta, **settings)
        recipe_ledger = dpbt.ledger(recipe)
        claim = recipe_ledger.epsilon
        if calibration == "published" and delta > 0:
            assert claim <= epsilon * (1 + 1e-6)
            claim = min(recipe_ledger.epsilon_at(delta, "advanced"), recipe_ledger.pure_epsilon)
        assert epsilon * (1 - 1e-5) <= claim <= epsilon * (1 + 1e-9)
        assert all(
            word in str(recipe_ledger)
            for word in (relation, *(line.site for line in recipe_ledger.lines))
        )
        assert bool(recipe_ledger.unprotected) == (
            make is recipes.bdpe and calibration == "published"
        )


def test_the_fractions_of_a_recipe_share_its_budget():
    """The published ones are equation 17. A ledger has every draw in the program's order."""
    settings = {"epsilon": 2, "rows": 500, "rounds": 5, "depth": 3, "beta_tree": 0.6}
    tight = recipes.bdpe(**settings, error_fraction=0.25)
    published = recipes.bdpe(**settings, calibration="published", alpha=0.5)
    cost = {line.site: line.count * line.epsilon for line in dpbt.ledger(tight).lines}
    assert set(cost) == set(draw_specs_by_site(tight, "rounds"))
    assert [*cost][:4] == ["error_0", "split_0", "error_1", "split_1"]
    assert cost["leaf"] == pytest.approx(0.8, rel=1e-5)
    assert sum(cost[f"error_{k}"] for k in range(3)) == pytest.approx(0.3, rel=1e-5)
    assert cost["split_2"] == pytest.approx(0.9 / 3, rel=1e-5)
    expected = [0.6 * 2 / (5 * 3 * 2**k) for k in range(3)]
    noise_shares = [1 / noise_multiplier(published, f"split_{k}") for k in range(3)]
    np.testing.assert_allclose(noise_shares, expected, rtol=1e-6)


def test_published_exponents_are_equation_15():
    """The exponent of a node is its epsilon over twice the bound of Corollary 7 or Lemma 5."""
    for criterion, bound in (({"alpha": 0.5}, 3 + (500**0.5 - 1)), ({"criterion": "error"}, 3)):
        recipe = recipes.bdpe(
            epsilon=2, rows=500, rounds=5, depth=3, calibration="published", **criterion
        )
        split_scales = [scale_by_site(recipe)[f"split_{k}"] for k in range(3)]
        expected = [2 * bound / (0.5 * 2 / (5 * 3 * 2**k)) for k in range(3)]
        np.testing.assert_allclose(split_scales, expected, rtol=1e-5)


def test_published_alpha_is_equation_16():
    """Errors at depth k over those of the root: 1, then 5 / 8, then 2 / 8."""
    alpha = alpha_from_exact_errors()
    levels = [[[8, 20]], [[3, 8], [12, 2]], [[0, 8], [3, 0], [1, 11], [1, 4]]]
    alphas = [float(alpha(k, np.array(level, np.int32))) for k, level in enumerate(levels)]
    assert alphas == [1, 5 / 8, 2 / 8]


def test_alpha_of_noisy_errors_is_their_ratio_and_never_rises():
    """Errors as released are 8, 5, 7 and -1; alpha is at most that of the level above."""
    released = {"error_0": 8, "error_1": 5, "error_2": 7, "error_3": -1}
    config = GreedyTreeConfig(
        depth=4,
        criterion=losses.m_alpha,
        link=losses.m_alpha,
        calibrates_alpha=True,
        relation=ADD_REMOVE,
    )
    alpha = greedy.alpha_from_noisy_errors(lambda site, *_, **__: jnp.int32(released[site]), config)
    assert [float(alpha(k, jnp.zeros((2**k, 2)))) for k in range(4)] == [1, 5 / 8, 5 / 8, 0]


def test_schedules_give_alpha_by_depth():
    recipe = recipes.bdpe(epsilon=1, rows=50, depth=3, alpha=optax.linear_schedule(1.0, 0.0, 2))
    np.testing.assert_allclose(recipe.params.settings.alpha, [1.0, 0.5, 0.0], atol=1e-6)
    assert float(recipe.params.settings.link_alpha) == 1
    bounds = [
        event.sensitivity for event in dpbt.ledger(recipe).lines if event.site.startswith("split")
    ]
    np.testing.assert_allclose(bounds, [2 * np.sqrt(50), 2 + (np.sqrt(50) - 1), 2], rtol=2e-4)


SEVERAL = recipes.bdpe(epsilon=[1.0, 2.0], rows=50)


def test_settings_that_a_recipe_does_not_hold_are_refused():
    single_setting, two_by_one_settings = (
        recipes.setting(SEVERAL, 0),
        recipes.bdpe(epsilon=[[1.0, 2.0]], rows=50),
    )
    for recipe, index in (
        (single_setting, 0),
        (two_by_one_settings, 0),
        (3, 0),
        *((SEVERAL, bad) for bad in (2, "a", True)),
    ):
        with pytest.raises(ValueError, match=r"index must be a place in settings of shape .*, got"):
            recipes.setting(recipe, index)
    with pytest.raises(ValueError, match="one setting"):
        dpbt.ledger(SEVERAL)


# Recipes of any learner

RULE = rule.one_rule(ADD_REMOVE)


def test_a_recipe_of_any_learner_is_calibrated_to_the_request():
    for epsilon, delta in ((0.5, 0.0), (2.0, 1e-6)):
        recipe = recipes.custom(RULE, rows=200, rounds=9, epsilon=epsilon, delta=delta)
        assert epsilon * (1 - 1e-5) <= dpbt.ledger(recipe).epsilon <= epsilon
        assert recipe.relation is ADD_REMOVE


def test_a_custom_recipe_has_the_budget_or_the_fractions_that_it_is_given():
    noise = Noise({"rule": np.float32(5000 / 254)})
    recipe = recipes.custom(RULE, rows=200, rounds=9, params=noise)
    assert recipe.params == noise
    assert dpbt.ledger(recipe).epsilon == pytest.approx(9 * 2 * 127 / 5000, rel=1e-6)
    recipe = recipes.custom(RULE, rows=200, rounds=9, epsilon=1.0, fractions={"rule": 0.5})
    assert dpbt.ledger(recipe).epsilon == pytest.approx(0.5, rel=1e-4)


MIRROR = {
    "weight_update": weighting.mirror(losses.m_alpha),
    "weighting": weighting.MirrorNumbers(np.float32(1)),
}


# Arguments that all recipes share, and criteria by name

LINK = weighting.MirrorNumbers
MAKERS = {
    "bdpe": (recipes.bdpe, GOOD),
    "oblivious_boost": (recipes.oblivious_boost, {**GOOD, "domain": {"x": Boolean()}}),
    "auto": (recipes.auto, {**GOOD, "domain": {"x": Boolean(), "y": Boolean()}}),
    "lazybb_rules": (recipes.lazybb_rules, GOOD),
    "lazybb_trees": (recipes.lazybb_trees, GOOD),
    "halfspace_boost": (recipes.halfspace_boost, GOOD),
    "random_forest": (recipes.random_forest, GOOD),
    "custom": (recipes.custom, {"learner": RULE, "rounds": 2, **GOOD}),
}
BUDGET = {"epsilon": None, "params": Noise({"rule": np.float32(9)})}
FOREST = [
    ({"disjoint": 1}, "disjoint must be True or False, got 1"),
    ({"negative": "ignore"}, "negative must be one of"),
    ({"depth": 21}, "at most 20"),
    ({"calibration": "published", "delta": 1e-6}, "delta must be 0, as the published"),
    ({"calibration": "published", "disjoint": True}, "not in the papers"),
    ({"rounds": 2**20, "depth": 11, "disjoint": True}, "at most 2.30 leaves"),
    ({"rounds": [3, 8], "disjoint": True}, "one integer"),
    ({"epsilon": 1e-44}, "epsilon is too small"),
]
REFUSED = {
    "bdpe": [
        ({"epsilon": [1, -1]}, "epsilon must be in"),
        ({"epsilon": float("nan")}, "epsilon must be in"),
        ({"epsilon": [1.0, 2.0], "rounds": [1, 2, 3]}, "rounds and epsilon must have axes"),
        ({"rows": 0}, r"rows must be a whole number in \[1, "),
        ({"rows": 2**24 + 1}, "use 16777218 in place of 16777217"),
        ({"delta": [0, 1e-5]}, r"delta must be 0, or in"),
        ({"depth": 13}, "at most 12"),
        ({"alpha": "o.c."}, 'alpha must be "objective"'),
        ({"alpha": optax.constant_schedule(2.0)}, r"alpha must be in \[0, 1\]"),
        ({"criterion": losses.square, "alpha": "objective"}, "with a family"),
        ({"criterion": "gini", "alpha": [1.0, 0.5]}, r"the single loss square, .*\[1.0, 0.5\]$"),
        ({"loss": "error"}, "zero_one has kinks"),
        ({"delta": 1e-6, "calibration": "published"}, "delta must be 0, as the published"),
        *(({name: -1}, f"{name} must be") for name in ("pi", "zeta", "step_clip", "smoothing")),
        *(({name: 1.0}, f"{name} must be") for name in ("beta_tree", "error_fraction")),
    ],
    "oblivious_boost": [
        ({"depth": 11}, "depth must be at most 10, got 11"),
        ({"attributes_per_tree": 11}, "attributes_per_tree must be"),
        ({"smoothing": np.nan}, "smoothing must be"),
        ({"step": 1e300}, r"step must be in \[0, 1e30\], got 1e.300"),
        ({"clip": 1.01}, r"clip must be in \(0, 1\]"),
        ({"marginals_fraction": [0, 0.1]}, "marginals_fraction must be"),
        ({"scores_fraction": -0.1}, "scores_fraction must be"),
        ({"marginals_fraction": 0.5, "scores_fraction": 0.5}, "add up to less than 1, got 1"),
        ({"seed": 2**24}, "seed must be"),
        ({"monotone": {"y": 1}}, r"monotone must map columns .*\['x'\], to 1"),
    ],
    "auto": [({"delta": [0.0, 1e-6]}, r"delta must be 0, or in \(0, 1\) for every setting")],
    "random_forest": FOREST,
    "lazybb_rules": [
        ({"density": 1.0}, r"density must be in \(0, 1\)"),
        ({"density": 0.005}, "density times rows must be at least 1"),
        ({"rows": 16_909_320}, "rows must be a whole number in .1, 16777216.,"),
        ({"learning_rate": 0}, "learning_rate must be in"),
    ],
    "lazybb_trees": [
        ({"splits": 8, "depth": 3}, "splits must be at most"),
        ({"leaf_fraction": 1.0}, "leaf_fraction must be"),
        ({"leaf_fraction": 0.4, "calibration": "published"}, "published calibration"),
        ({"criterion": losses.log, "calibration": "published"}, "Gini"),
        ({"criterion": "m_alpha"}, "criterion must be a single loss here"),
    ],
    "halfspace_boost": [
        ({"normalized": 2}, "normalized must be True or False, got 2"),
        ({"delta": 0}, "delta must be in"),
        ({"noise_scale": 1}, "either epsilon or noise_scale"),
        ({"epsilon": None}, "either epsilon or noise_scale"),
    ],
    "custom": [
        ({"epsilon": None}, "give either epsilon"),
        ({**BUDGET, "epsilon": 1.0}, "give either epsilon"),
        ({**BUDGET, "fractions": {"rule": 1.0}}, "give either epsilon"),
        ({"relation": "replace_one"}, "sensitivities are under"),
        ({"learner": recipes.bdpe}, "learner must be a weak learner"),
        ({"weight_update": "mirror"}, "weight_update must be a weight update, got str"),
        ({"weight_update": weighting.lazy_bregman()}, "needs weighting=LazyNumbers"),
        ({**MIRROR, "weighting": LINK("1")}, "link_alpha must be a number"),
        ({"loss": losses.log}, "needs weighting with link_alpha"),
        ({**BUDGET, "params": Noise({"rule": np.nan})}, "noise rule must be a float32 of at least"),
        ({**BUDGET, "params": Noise({"leaf": 9.0})}, "the draw 'rule' has no fraction of the"),
    ],
}


@pytest.mark.parametrize("maker", REFUSED)
def test_bad_arguments_are_refused_by_name(maker):
    make, good = MAKERS[maker]
    for changes, message in REFUSED[maker]:
        with pytest.raises(ValueError, match=message):
            make(**{**good, **changes})


BAD_OF_ALL = [
    ("epsilon", True),
    ("epsilon", [[1.0], [1.0, 2.0]]),
    ("delta", "0"),
    ("delta", 1.5),
    ("rows", 10.5),
    ("max_rows_per_user", 1.5),
    ("rounds", 2.5),
    ("depth", [[1], [1, 2]]),
    ("calibration", ["tight"]),
    ("relation", "x"),
    ("criterion", lambda alpha: alpha),
    ("loss", "x"),
    ("noise_scale", -1.0),
]


@pytest.mark.parametrize("maker", MAKERS)
def test_every_recipe_has_a_name_and_refuses_a_bad_argument_in_one_line(maker):
    make, good = MAKERS[maker]
    recipe = make(**good)
    assert recipe.relation is ADD_REMOVE
    assert recipe.name == maker or maker == "auto"
    takes = set(inspect.signature(make).parameters)
    for name, value in BAD_OF_ALL:
        if name not in takes:
            continue
        arguments = {**good, name: value}
        if name == "noise_scale":
            del arguments["epsilon"]
        with pytest.raises(ValueError, match=rf"{name} must be .*, got") as refused:
            make(**arguments)
        assert "\n" not in str(refused.value)


def test_a_criterion_may_be_given_by_its_name():
    """A single loss pays for no errors: the whole share of the structure goes to splits."""
    assert recipes.bdpe(**GOOD).options_text == "objective"
    named = recipes.bdpe(loss="information_gain", **GOOD)
    assert named.weight_update.loss is losses.constant_loss_family(losses.log)
    recipe = recipes.bdpe(criterion="gini", loss="m_alpha", alpha=[0.0, 0.5], **GOOD)
    np.testing.assert_array_equal(recipe.params.settings.link_alpha, [1.0, 0.5])
    recipe = recipes.bdpe(criterion="gini", **GOOD)
    assert {line.site[:5] for line in dpbt.ledger(recipe).lines} == {"split", "leaf"}
