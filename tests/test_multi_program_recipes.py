"""Recipes whose settings run several programs: `auto` and `additive` over arrays of numbers."""

import dataclasses
import functools

import chex
import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes, sweeps
from dpbt.data.domains import Nominal, Numeric
from dpbt.training.boost import num_compiled_programs
from dpbt.tuning import check_and_list_single_settings
from tests.support.slow_cases import mark_slow_cases, mark_slow_cases_except

DOMAIN = {f"x{number}": Numeric(0, 1, bins=64) for number in range(3)}

EPSILONS = [0.1, 1.0, 10.0]

NUM_ROWS = 2000

OPTIONS = {"rows": NUM_ROWS, "domain": DOMAIN}

MAKERS = [recipes.auto, recipes.additive]


def by_name(make):
    return make.__name__


def bdpe_of_depths(epsilon=1.0):
    """Three settings of the depths 1, 2 and 1."""
    settings = {"depth": [1, 2, 1], "epsilon": epsilon}
    return recipes.multi_program_recipe(recipes.bdpe, settings, rows=50, rounds=3)


@pytest.fixture(scope="module")
def table():
    """300 rows of the three columns, whose class follows from two of them."""
    x = np.random.default_rng(0).random((3, 300))
    return dpbt.table(DOMAIN, dict(zip(DOMAIN, x, strict=True)), x[0] + x[1] > 1)


# Recipes.


CASES = [(make, delta) for make in MAKERS for delta in (0.0, 1e-9)]


@pytest.mark.parametrize(
    "case", mark_slow_cases_except(CASES, fast=[(recipes.auto, 0.0), (recipes.additive, 1e-9)])
)
def test_each_setting_of_an_array_is_the_recipe_alone_with_its_ledger(case):
    make, delta = case
    together = make(epsilon=EPSILONS, delta=delta, **OPTIONS)
    for place, epsilon in enumerate(EPSILONS):
        alone = make(epsilon=epsilon, delta=delta, **OPTIONS)
        of_array = recipes.setting(together, place)
        assert dataclasses.replace(of_array, max_rounds=alone.max_rounds) == alone
        assert dpbt.ledger(of_array) == dpbt.ledger(alone)
        assert dpbt.ledger(of_array).epsilon <= epsilon


@pytest.mark.parametrize("make", mark_slow_cases(MAKERS, slow=[recipes.additive]), ids=by_name)
def test_arrays_of_several_axes_are_one_recipe_in_their_order(make):
    rows = [100, 10**6]
    together = make(epsilon=[[0.1], [10.0], [0.1]], rows=rows, delta=1e-9, domain=DOMAIN)
    assert together.shape == (3, 2)
    assert len(together.programs) > 1
    for i, epsilon in enumerate([0.1, 10.0, 0.1]):
        for j in range(2):
            alone = make(epsilon=epsilon, rows=rows[j], delta=1e-9, domain=DOMAIN)
            of_array = recipes.setting(together, (i, j))
            assert dataclasses.replace(of_array, max_rounds=alone.max_rounds) == alone


def test_settings_of_one_program_are_a_recipe():
    assert isinstance(recipes.auto(epsilon=[0.1, 0.11], **OPTIONS), dpbt.Recipe)
    # Curves of fixed resolutions have no depth that changes with epsilon.
    assert isinstance(recipes.additive(epsilon=[1.0, 10.0], **OPTIONS), dpbt.Recipe)
    assert isinstance(recipes.auto(epsilon=[1.0, 10.0], **OPTIONS), recipes.MultiProgramRecipe)


def test_rounds_of_one_column_and_of_all_are_settings_of_two_programs():
    together = recipes.additive(epsilon=[1.0, 10.0], delta=1e-9, marginals_fraction=0.1, **OPTIONS)
    assert [program.options_text for program in together.programs] == [
        "one column a round",
        "4 resolutions",
    ]


@pytest.mark.slow
def test_other_arguments_reach_every_setting():
    target = Numeric(0, 10, bins=64)
    options = {"target": target, "objective": "poisson", "monotone": {"x0": 1}, **OPTIONS}
    together = recipes.auto(
        epsilon=EPSILONS, seed=[3, 4, 5], relation="replace_one", max_rows_per_user=2, **options
    )
    for place, epsilon in enumerate(EPSILONS):
        alone = recipes.auto(
            epsilon=epsilon,
            seed=3 + place,
            relation="replace_one",
            max_rows_per_user=2,
            **options,
        )
        of_array = recipes.setting(together, place)
        assert dataclasses.replace(of_array, max_rounds=alone.max_rounds) == alone


def test_equal_recipes_of_several_programs_have_one_hash_and_one_line():
    recipe, equal, other = bdpe_of_depths(), bdpe_of_depths(), bdpe_of_depths(epsilon=2.0)
    assert recipe == equal
    assert hash(recipe) == hash(equal)
    assert recipe != other
    assert repr(recipe).startswith("MultiProgramRecipe(3 settings of 2 programs: ")
    assert "\n" not in repr(recipe)


def test_choices_try_every_setting():
    singles = check_and_list_single_settings(bdpe_of_depths())
    assert singles == [recipes.setting(bdpe_of_depths(), place) for place in range(3)]


def test_what_takes_one_setting_names_the_way_to_it(table):
    recipe, key = recipes.auto(epsilon=EPSILONS, **OPTIONS), jax.random.key(0)
    boosted = dpbt.boost(key, table, recipes.oblivious_boost(epsilon=1.0, rounds=1, **OPTIONS))
    for words, use in {
        "recipes.setting": lambda: dpbt.fit(key, table, recipe),
        r"recipes.setting\(recipe, index\) has": lambda: dpbt.replay(
            boosted.transcript, table, recipe
        ),
        "vmap dpbt.boost": lambda: dpbt.boost(key, table, recipe),
        "choose one with recipes.setting": lambda: dpbt.ledger(recipe),
        "a ledger is of one setting; choose": lambda: dpbt.statement(recipe),
        r"index must be a place in settings of shape \(3,\), got 3": lambda: recipes.setting(
            recipe, 3
        ),
    }.items():
        with pytest.raises(ValueError, match=words):
            use()


# Runs.


def check_is_run_alone(of_setting, alone):
    """All results of a setting are those of the run alone; rounds beyond its own are zeros."""
    for (path, expected), array in zip(
        jax.tree.leaves_with_path(alone), jax.tree.leaves(of_setting), strict=True
    ):
        name, expected, array = jax.tree_util.keystr(path), np.asarray(expected), np.asarray(array)
        if array.shape != expected.shape:
            assert not np.any(array[len(expected) :]), name
            array = array[: len(expected)]
        np.testing.assert_array_equal(array, expected, name)


def check_settings_are_runs_alone(make, settings, table, public_key=None):
    """A vmap over all settings has the run of each alone, and nothing of any other program.

    Args:
        make: from the values of a setting to its recipe, alone.
        settings: the recipe of all settings.
        table: of the runs.
        public_key: of public structure.
    """
    keys = jax.random.split(jax.random.key(7), settings.shape[0])
    run = functools.partial(dpbt.boost, table=table, public_key=public_key)
    boosted = jax.vmap(lambda key, recipe: run(key=key, recipe=recipe))(keys, settings)
    for place, key in enumerate(keys):
        alone = run(key=key, recipe=make(place))
        check_is_run_alone(boosted.setting(place), alone)
        np.testing.assert_array_equal(boosted.scores[place], alone.scores)
        for program, other in enumerate(boosted.runs):
            if program != settings.program[place]:
                assert not any(np.any(array[place]) for array in jax.tree.leaves(other))


@pytest.mark.slow
def test_each_setting_releases_what_it_releases_alone(small_table):
    recipe = bdpe_of_depths()
    check_settings_are_runs_alone(
        lambda place: recipes.bdpe(epsilon=1.0, rows=50, rounds=3, depth=[1, 2, 1][place]),
        recipe,
        small_table,
    )


LABELS = {
    "two classes": lambda x: x[0] + x[1] > 1,
    "three classes": lambda x: np.digitize(x[0], [0.3, 0.7]).astype(str),
    "number": lambda x: np.clip(6 * x[0] + 3 * x[1], 0, 10),
}

TARGETS = {
    "two classes": None,
    "three classes": Nominal(("0", "1", "2")),
    "number": Numeric(0, 10, bins=64),
}


@pytest.mark.slow
@pytest.mark.parametrize("response", LABELS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", MAKERS, ids=by_name)
def test_each_epsilon_of_a_whole_recipe_releases_what_it_releases_alone(make, delta, response):
    x = np.random.default_rng(0).random((3, 830))
    columns, target = dict(zip(DOMAIN, x, strict=True)), TARGETS[response]
    table = dpbt.table(DOMAIN, columns, LABELS[response](x), target=target)
    options = {"rows": NUM_ROWS, "domain": DOMAIN, "delta": delta, "target": target}
    together = make(epsilon=EPSILONS, **options)
    assert isinstance(together, recipes.MultiProgramRecipe)
    num_compiled = num_compiled_programs()
    check_settings_are_runs_alone(
        lambda place: make(epsilon=EPSILONS[place], **options), together, table
    )
    assert num_compiled_programs() == num_compiled + 1 + len(EPSILONS)  # together, and each alone


@pytest.mark.slow
def test_other_numbers_of_the_same_programs_compile_nothing(small_table):
    run = jax.vmap(dpbt.boost, in_axes=(0, None, 0))
    keys = jax.random.split(jax.random.key(0), 3)
    first = run(keys, small_table, bdpe_of_depths())
    num_compiled = num_compiled_programs()
    second = run(keys, small_table, bdpe_of_depths(epsilon=2.0))
    assert num_compiled_programs() == num_compiled
    assert not np.array_equal(first.scores, second.scores)


@pytest.mark.slow
def test_axes_of_keys_and_of_settings_go_together_and_slices_keep_their_programs(small_table):
    recipe, keys = bdpe_of_depths(), jax.random.split(jax.random.key(0), 2)
    of_keys = jax.vmap(dpbt.boost, in_axes=(0, None, None))
    of_both = jax.vmap(of_keys, in_axes=(None, None, 0))(keys, small_table, recipe)
    assert of_both.scores.shape == (3, 2, 80)
    backwards = jax.tree.map(lambda leaf: leaf[::-1][:2], recipe)  # the depths 1 and 2
    reversed_runs = jax.jit(jax.vmap(dpbt.boost, in_axes=(None, None, 0)))(
        keys[1], small_table, backwards
    )
    for place in (0, 1):
        alone = dpbt.boost(keys[1], small_table, recipes.setting(recipe, 2 - place))
        chex.assert_trees_all_equal(of_both.setting((2 - place, 1)), alone)
        chex.assert_trees_all_equal(reversed_runs.setting(place), alone)
    of_place = of_both.setting(1)  # the runs of one setting under both keys
    chex.assert_trees_all_equal(
        jax.tree.map(lambda array: array[1], of_place), of_both.setting((1, 1))
    )
    with pytest.raises(ValueError, match=r"index must lead to one setting .* got \(\)"):
        of_both.setting()
    with pytest.raises(ValueError, match="call it outside of jit"):
        jax.jit(lambda boosted: boosted.setting(0))(of_both)


@pytest.mark.slow
def test_the_model_of_a_setting_has_its_ledger_and_predicts(table):
    recipe = recipes.auto(epsilon=[0.1, 10.0], **OPTIONS)
    keys = jax.random.split(jax.random.key(0), 2)
    boosted = jax.vmap(dpbt.boost, in_axes=(0, None, 0))(keys, table, recipe)
    for place in (0, 1):
        single = recipes.setting(recipe, place)
        model = boosted.setting(place).model(table, single)
        assert dpbt.ledger(model).epsilon == dpbt.ledger(single).epsilon
        scores = dpbt.decision_function(model, table)
        np.testing.assert_allclose(scores, boosted.scores[place], rtol=1e-5, atol=1e-5)


def make_auto(epsilon, rows, domain):
    return recipes.auto(epsilon=epsilon, rows=rows, domain=domain)


def first_score(score, target, trained, tested):
    return {"first_score": score[0]}


@pytest.mark.slow
def test_a_sweep_has_the_scores_of_the_settings_in_one_recipe(table, tmp_path):
    present = np.asarray(table.present)[None]
    task = sweeps.Task("t", table, present, present, OPTIONS)
    sweep = sweeps.Sweep("s", make_auto, ({"epsilon": tuple(EPSILONS)},))
    sweeps.run(sweep, [task], tmp_path, measure=first_score)
    columns, _ = sweeps.load_columns(tmp_path / "t.jsonl")
    np.testing.assert_array_equal(columns["epsilon"], EPSILONS)

    keys = [sweeps.key(sweep, task, {"epsilon": each}, evaluation=0) for each in EPSILONS]
    noise_keys = jax.numpy.stack([dpbt.keys.pair(key).noise for key in keys])
    together = make_auto(EPSILONS, **OPTIONS)
    boosted = jax.vmap(dpbt.boost, in_axes=(0, None, 0))(noise_keys, table, together)
    np.testing.assert_array_equal(columns["first_score"], np.asarray(boosted.scores)[:, 0])
