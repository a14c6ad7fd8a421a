"""What is static is checked in every entry, under tracing too, and named with what was expected."""

import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes, sweeps, tuning
from dpbt.data import splits
from dpbt.data.convert import convert_columns
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.training import row_scores, table_entry
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE
from tests.support import attacks, hostile_learners

ROWS = 60
DOMAIN = {"x": Numeric(0, 1, bins=6), "on": Boolean()}
KEY = jax.random.key(0)
PURE = {"epsilon": 3.0, "rows": ROWS}


def columns():
    rng = np.random.default_rng(0)
    return {"x": rng.random(ROWS), "on": rng.random(ROWS) < 0.5}, rng.random(ROWS) < 0.5


def table_of(**options):
    return dpbt.table(DOMAIN, *columns(), **options)


def raw():
    return table_of()._replace(domain=None)


def oblivious(**options):
    settings = {**PURE, "domain": DOMAIN, "depth": 2, "rounds": 3, **options}
    return recipes.oblivious_boost(**settings)


def greedy(**options):
    return recipes.bdpe(**PURE, criterion="gini", **{"rounds": 2, "depth": 2, **options})


RECIPES = {"oblivious": oblivious(), "greedy": greedy()}


def mapped(key, table, recipe, public_key=None):
    """Boosting under vmap over keys."""
    keys = jax.random.split(key, 2)
    return jax.vmap(dpbt.boost, in_axes=(0, None, None, None))(keys, table, recipe, public_key)


def swept(key, table, recipe):
    masks = np.ones((1, *np.shape(table.target)), bool)
    task = sweeps.Task("task", table, masks, masks, {"recipe": recipe})
    sweeps.group_settings(sweeps.Sweep("sweep", given, ({"axis": (1,)},)), task)


def given(axis, recipe):
    del axis
    return recipe


@functools.cache
def recorded(recipe):
    return dpbt.boost(KEY, table_of(), recipe).transcript


def replayed(key, table, recipe):
    dpbt.replay(recorded(recipe), table, recipe)


def compared(key, table, recipe):
    log_ratios_by_site(recorded(recipe), table_of(), table, recipe)


def audited(key, table, recipe):
    near = audit.neighbours(table_of(), ADD_REMOVE)._replace(table=table)
    audit.audit_transcripts(key, near, recipe, 1)


def tuned(key, table, recipe):
    dpbt.tune(key, table, recipe, tuning.selection())


ENTRIES = {
    "fit": dpbt.fit,
    "boost": dpbt.boost,
    "jit": jax.jit(dpbt.boost),
    "vmap": mapped,
    "replay": replayed,
    "compared": compared,
    "sweep": swept,
    "audit": audited,
    "tune": tuned,
}

FAULTS = {
    "int32": (lambda t: t._replace(bins=t.bins.astype(jnp.int32)), "uint8.*got int32 of rank 2"),
    "float32": (lambda t: t._replace(bins=t.bins.astype(jnp.float32)), "has float32 bins and its"),
    "no splits": (lambda t: t._replace(splits=None), "this one has uint8 bins and no splits"),
    "one column": (lambda t: t._replace(bins=t.bins[:, 0]), "of rank 2; got uint8 of rank 1"),
    "a target of numbers": (
        lambda t: t._replace(target=jnp.zeros(ROWS, jnp.float32)),
        "table.target must be bool of rank 1, got float32",
    ),
    "int64 splits": (
        lambda t: t._replace(splits=t.splits._replace(low=t.splits.low.astype(jnp.int32))),
        "splits.low must be uint8",
    ),
    "an allowed split more": (
        lambda t: t._replace(splits=t.splits._replace(allowed=jnp.ones(9, bool))),
        r"splits.allowed must be bool\[6\]",
    ),
}


@pytest.mark.parametrize(("change", "words"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("act", ENTRIES.values(), ids=ENTRIES)
def test_a_table_that_no_learner_reads_is_refused_by_every_entry(act, recipe, change, words):
    with pytest.raises(ValueError, match=words):
        act(KEY, change(raw()), recipe)


def test_learners_of_bins_say_which_bins_they_read():
    """Additive models read the same bins as oblivious trees, and neither is called the other."""
    domain = table_of().domain
    exact = raw()._replace(bins=jnp.zeros((ROWS, 2), jnp.float32), splits=None)
    words = "the recipe reads uint8 bins, got float32 of rank 2"
    for make in (recipes.oblivious_boost, recipes.additive):
        recipe = make(epsilon=1.0, rows=ROWS, domain=domain)
        with pytest.raises(ValueError, match=words):
            dpbt.fit(KEY, exact, recipe)


def test_a_list_in_place_of_an_array_is_refused_by_name():
    for act in (dpbt.fit, dpbt.boost, mapped, swept, tuned):
        with pytest.raises(ValueError, match=r"table.present must be an array, got list"):
            act(KEY, raw()._replace(present=[True] * ROWS), RECIPES["greedy"])


@pytest.mark.parametrize("act", ENTRIES.values(), ids=ENTRIES)
def test_other_numbers_of_columns_are_refused_by_every_entry(act):
    """Of a table with a domain for every recipe, and of one without for those of a domain."""
    wide, narrow = jnp.zeros((ROWS, 3), jnp.uint8), jnp.zeros((ROWS, 1), jnp.uint8)
    for bins in (wide, narrow):
        for recipe in RECIPES.values():
            with pytest.raises(ValueError, match=r"must have 2 columns, as the table's domain"):
                act(KEY, table_of()._replace(bins=bins), recipe)
    with pytest.raises(ValueError, match="domain has 2 columns, and the table has 3"):
        act(KEY, raw()._replace(bins=wide), RECIPES["oblivious"])


def test_splits_of_columns_that_a_table_lacks_are_refused_where_they_are_known():
    """So are too few columns of a raw table. Where splits are traced, a recipe's domain tells."""
    narrow = raw()._replace(bins=jnp.zeros((ROWS, 1), jnp.uint8))
    for act in (dpbt.fit, dpbt.boost, mapped):
        with pytest.raises(ValueError, match=r"splits.feature must number features of the table"):
            act(KEY, narrow, RECIPES["greedy"])


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_public_key_that_is_the_secret_one_is_refused(recipe):
    for act in (dpbt.fit, dpbt.boost):
        with pytest.raises(ValueError, match="public_key must be independent of key"):
            act(KEY, table_of(), recipe, KEY)
        with pytest.raises(ValueError, match="public_key must be one"):
            act(KEY, table_of(), recipe, jax.random.split(KEY, 2))
        with pytest.raises(ValueError, match="key must be one key"):
            act(jax.random.split(KEY, 2), table_of(), recipe)


def test_a_table_of_another_target_is_refused_by_every_entry():
    """And the error says which target the recipe has."""
    target, other = Nominal(("a", "b", "c")), Nominal(("a", "b", "d"))
    labels = np.array(["a", "b", "d"])[np.arange(ROWS) % 3]
    table = dpbt.table(DOMAIN, columns()[0], labels, target=other)
    recipe = oblivious(target=target)
    for act in (dpbt.fit, dpbt.boost, mapped):
        with pytest.raises(ValueError, match=r"another target than the recipe's.*'c'"):
            act(KEY, table, recipe)


def test_a_check_of_ones_own_may_read_splits_on_the_host():
    """Where they are traced, it is left out."""
    recipe, seen = greedy(), []

    def check(table):
        seen.append(np.asarray(table.splits.feature).sum())
        if table.bins.shape[1] != 2:
            raise ValueError("two columns")

    kind = recipe.learner.kind.with_training(check_table=check)
    learner = dataclasses.replace(recipe.learner, kind=kind)
    recipe = dataclasses.replace(recipe, learner=learner)
    found = jax.jit(dpbt.boost)(KEY, raw(), recipe).scores
    np.testing.assert_array_equal(found, dpbt.boost(KEY, raw(), recipe).scores)
    assert len(seen) == 1
    with pytest.raises(ValueError, match="two columns"):
        dpbt.boost(KEY, raw()._replace(bins=jnp.zeros((ROWS, 3), jnp.uint8)), recipe)


# Transcripts.


WRONG_PREDICTIONS = {
    "a column": (lambda tree: tree.leaf[:1, None], "float32[1, 1] for N = 1"),
    "one number": (lambda tree: tree.leaf[0], "float32[] for N = 1"),
    "two numbers": (lambda tree: tree.leaf, "float32[2] for N = 1"),
    "complex": (lambda tree: tree.leaf[:1].astype(jnp.complex64), "complex64[1] for N = 1"),
}


@pytest.mark.parametrize("name", WRONG_PREDICTIONS)
def test_predictions_of_another_shape_are_refused_by_the_name_of_the_function(name):
    predict, returned = WRONG_PREDICTIONS[name]
    kind = dataclasses.replace(
        hostile_learners.SCALED, predict=lambda tree, rows: predict(tree), name=""
    )
    kind = kind.with_training(predict_prepared=None)
    recipe = hostile_learners.hostile_recipe(kind=kind)
    with pytest.raises(
        ValueError, match=r"HypothesisKind.predict must return float32\[N\]"
    ) as error:
        hostile_learners.shapes_of_run(recipe)
    assert returned in str(error.value)


def test_predictions_of_another_shape_show_no_number_of_rows():
    table = attacks.table_of_one_split()
    rows = table_entry.prepare_table(table, greedy())
    with pytest.raises(ValueError, match="it returned float32 of rank 2") as error:
        row_scores.check_predictions(jnp.zeros((len(table.present), 1)), greedy(), rows)
    assert str(len(table.present)) not in str(error.value)


def test_a_bound_of_another_shape_is_refused_by_the_name_of_the_function():
    kind = hostile_learners.SCALED.with_training(bound=lambda tree: jnp.abs(tree.leaf))
    with pytest.raises(ValueError, match=r"Training.bound must return float32\[\].*float32\[2\]"):
        hostile_learners.shapes_of_run(hostile_learners.hostile_recipe(kind=kind))


def test_a_transcript_of_another_recipe_is_refused():
    table = table_of()
    transcript = dpbt.boost(KEY, table, greedy()).transcript
    for recipe, words in (
        (greedy(rounds=3), "has 2 rounds, and the recipe has room for 3"),
        (greedy(depth=3), r"sites \['leaf', 'split_0', 'split_1'\] of its rounds, where bdpe"),
        (oblivious(rounds=2), "where oblivious_boost draws"),
        (oblivious(rounds=2, marginals_fraction=0.1), "of its prologue"),
    ):
        for act in (dpbt.replay, jax.jit(dpbt.replay)):
            with pytest.raises(ValueError, match=f"another recipe: .*{words}"):
                act(transcript, table, recipe)
    leaves = dpbt.boost(KEY, table, oblivious(depth=3)).transcript
    with pytest.raises(ValueError, match=r"at 'sums' has shape \(8,\).*draws \(4,\)"):
        dpbt.replay(leaves, table, oblivious(depth=2))
    with pytest.raises(ValueError, match="expected a transcript"):
        dpbt.replay(transcript[:3], table, greedy())


def test_a_transcript_without_withheld_sites_is_refused_with_what_to_do():
    recipe = recipes.random_forest(**PURE, rounds=3, depth=2, disjoint=True)
    model = dpbt.fit(KEY, table_of(), recipe, jax.random.key(1))
    with pytest.raises(ValueError, match=r"leaves out \['part'\], and dpbt.boost returns all"):
        dpbt.replay(model.transcript, table_of(), recipe)


# Axes of settings.


def axes_of(make):
    """The arguments of a recipe that may have axes of settings."""
    parameters = inspect.signature(make).parameters.values()
    return [each.name for each in parameters if "ArrayLike" in str(each.annotation)]


_GOOD = {
    "oblivious_boost": {"domain": DOMAIN, "marginals_fraction": 0.1},
    "additive": {"domain": DOMAIN, "resolutions": (2, 4)},
    "auto": {"domain": DOMAIN},
    "halfspace_boost": {"epsilon": None, "noise_scale": 1.0, "delta": 1e-6},
}
MAKERS = [
    "additive",
    "auto",
    "oblivious_boost",
    "bdpe",
    "random_forest",
    "lazybb_rules",
    "lazybb_trees",
    "halfspace_boost",
]
AXES = [(name, axis) for name in MAKERS for axis in axes_of(getattr(recipes, name))]


@pytest.mark.parametrize(("name", "axis"), AXES, ids=map("-".join, AXES))
def test_axes_that_do_not_go_together_are_named(name, axis):
    usual = {"pi": 0.0, "delta": 1e-7, "seed": 0, "rounds": 3, "learning_rate": 0.1, "rows": 1000}
    values = {"epsilon": 1.0, "clip": 0.2, **usual}
    given = {"epsilon": 1.0, "rows": 1000, **_GOOD.get(name, {})}
    if name == "halfspace_boost" and axis == "epsilon":
        given |= {"noise_scale": None}
    beside = "rows" if axis != "rows" else "delta"
    made = {**given, beside: [values[beside]] * 2, axis: [values.get(axis, 0.1)] * 3}
    with pytest.raises(ValueError, match=f"^({axis} and {beside}|{beside} and {axis}) must have"):
        getattr(recipes, name)(**made)


def test_axes_of_a_recipe_of_ones_own_are_named():
    from dpbt.weighting import MirrorNumbers, clipped_mirror

    made = oblivious()
    numbers = MirrorNumbers(np.ones(()), np.full(3, 0.2))
    update = clipped_mirror(dpbt.losses.log)
    with pytest.raises(ValueError, match="weighting clip and epsilon must have axes"):
        recipes.custom(
            made.learner,
            rows=ROWS,
            rounds=3,
            epsilon=[1.0, 2.0],
            weight_update=update,
            weighting=numbers,
            fractions={"sums": 1.0},
        )


# Equality.


def test_recipes_are_equal_by_value_and_have_the_hash_of_their_value():
    one, two = greedy(), greedy()
    assert one == two
    assert hash(one) == hash(two)
    assert one == jax.tree.map(jnp.asarray, two)
    assert hash(one) == hash(jax.tree.map(jnp.asarray, two))
    several = greedy(zeta=[0.1, 0.2])
    assert several == greedy(zeta=[0.1, 0.2])
    assert len({one, two, several, oblivious(), oblivious()}) == 3
    for other in (greedy(depth=3), greedy(rounds=3), greedy(pi=0.1), several, oblivious(), None, 1):
        assert one != other
    assert several != greedy(zeta=[0.1, 0.3])
    ranges = [{**DOMAIN, "x": Numeric(0, high, bins=6)} for high in (1, 2)]
    first, second = (recipes.oblivious_boost(**PURE, domain=domain) for domain in ranges)
    assert first != second


def test_a_recipe_may_be_static_and_may_be_traced():
    compiled = []

    def rounds(recipe):
        compiled.append(recipe)
        return jnp.asarray(recipe.rounds) + 1

    static = jax.jit(rounds, static_argnums=0)
    assert static(greedy()) == static(greedy()) == 3
    assert len(compiled) == 1
    assert static(greedy(rounds=4)) == 5

    def alike(recipe, other):
        assert recipe == recipe
        assert recipe != other
        assert isinstance(hash(recipe), int)
        return recipe.rounds

    assert jax.jit(alike)(greedy(), greedy()) == 2
    assert jax.vmap(lambda recipe: recipe.rounds)(greedy(zeta=[0.1, 0.2])).tolist() == [2, 2]
    assert jax.tree.structure(greedy()) == jax.tree.structure(greedy(pi=0.2))


# Predictions under tracing.


@pytest.fixture(scope="module")
def model():
    return dpbt.fit(KEY, table_of(), oblivious(scores_fraction=0.1))


SAID = {
    "predict": dpbt.predict,
    "predict_proba": dpbt.predict_proba,
    "decision_function": dpbt.decision_function,
    "Model.predict_proba": lambda model, rows: model.predict_proba(rows),
    "Model.decision_function": lambda model, rows: model.decision_function(rows),
}


@pytest.mark.parametrize("say", SAID.values(), ids=SAID)
def test_tables_and_models_may_be_traced(model, say, tmp_path):
    table, expected = table_of(), say(model, table_of())
    np.testing.assert_array_equal(jax.jit(say)(model, table), expected)
    np.testing.assert_array_equal(jax.jit(lambda rows: say(model, rows))(table), expected)
    np.testing.assert_array_equal(jax.jit(lambda model: say(model, table))(model), expected)
    np.testing.assert_array_equal(jax.jit(say)(model, table.bins), expected)
    dpbt.save(model, tmp_path / "m.json")
    loaded = dpbt.load(tmp_path / "m.json")
    np.testing.assert_allclose(jax.jit(say)(loaded, table), expected, rtol=1e-6)

    tables = jax.tree.map(lambda array: jnp.stack([array, array]), table)
    models = jax.tree.map(lambda array: jnp.stack([array, array]), model)
    for found in (
        jax.vmap(say, in_axes=(None, 0))(model, tables),
        jax.vmap(say, in_axes=(0, None))(models, table),
        jax.jit(jax.vmap(say))(models, tables),
    ):
        for each in found:
            np.testing.assert_array_equal(each, expected)


def test_scores_of_a_table_have_gradients_by_the_model(model):
    table = table_of()

    def total(model):
        return dpbt.decision_function(model, table).sum()

    assert float(jax.grad(total, allow_int=True)(model).intercept) == ROWS
    assert float(jax.jit(jax.grad(total, allow_int=True))(model).intercept) == ROWS


def test_traced_forests_vote_and_state_shares():
    recipe = recipes.random_forest(**PURE, rounds=3, depth=2)
    model, table = dpbt.fit(KEY, table_of(), recipe, jax.random.key(1)), table_of()
    for voting in ("majority", "threshold"):
        vote = jax.jit(lambda model, table, voting=voting: dpbt.predict(model, table, voting))
        np.testing.assert_array_equal(vote(model, table), dpbt.predict(model, table, voting))
    shares = jax.jit(dpbt.predict_proba)(model, table)
    np.testing.assert_array_equal(shares, dpbt.predict_proba(model, table))


def test_a_refusal_under_jit_says_which_call_may_be_traced(model, tmp_path):
    table = table_of()
    for name in ("predict", "predict_all"):
        with pytest.raises(ValueError, match=r"outside of jit.*dpbt.predict"):
            jax.jit(lambda model, name=name: getattr(model, name)(table))(model)
    blocks = convert_columns(DOMAIN, *columns(), tmp_path / "blocks")
    with pytest.raises(ValueError, match=r"in blocks.*outside of jit"):
        jax.jit(lambda model: dpbt.predict(model, blocks))(model)


def test_traced_tables_of_other_shapes_are_refused(model):
    """Of traced splits, the shapes are known; and Booleans are bins of splits alone."""
    splits_of = splits.table_of_splits(np.zeros((4, 2), bool), np.zeros(4, bool), np.ones(4, bool))
    for act in (dpbt.predict, jax.jit(dpbt.predict)):
        with pytest.raises(ValueError, match="other splits"):
            act(model, splits_of)
        with pytest.raises(ValueError, match="reads rows of uint8"):
            act(model, np.zeros((4, 2), bool))
    own = dpbt.fit(KEY, splits_of, recipes.bdpe(epsilon=3.0, rows=4, criterion="gini", rounds=2))
    bits = np.array([[True, False]])
    np.testing.assert_array_equal(jax.jit(dpbt.predict)(own, bits), dpbt.predict(own, bits))
