"""Attacks by an independent attacker: keys of own numbers, tags, classes of rows, callbacks."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes, weighting
from dpbt.data import domains
from dpbt.data.domains import Numeric
from dpbt.privacy import boundary, dependencies, draw_specs
from dpbt.training import run_keys
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE, Noise
from tests.support.attacks import table_of_one_split
from tests.support.hostile_learners import (
    KEYS,
    NOISE,
    ONE_ROW,
    SCALED,
    count_positive_rows,
    counting_epilogue,
    counting_prologue,
    draw_count,
    hostile_recipe,
    shapes_of_run,
    tree_of_count,
    with_new_identity,
)

# Recipes that differ have independent noise under one key.


class Optional(NamedTuple):
    """Numbers of which an author gives some."""

    noise: Any
    step: Any = None
    rate: Any = None


def words_of_recipe_key(recipe):
    return tuple(jax.random.key_data(run_keys.derive_recipe_key(KEYS[0], recipe)).tolist())


def draw_count_by_rate(draw, table, weights, params, public):
    """One key for both kinds gave the exact number of rows, by a difference of two releases."""
    value = count_positive_rows(table)
    if params.rate is not None:
        value = value + jnp.sum(table.present).astype(jnp.int32)
    draw("n", NOISE, value, sensitivity=2.0, moved_outputs=1, theorem="")


def test_numbers_that_are_left_out_make_another_key():
    """The numbers in a row are the same: (1, 2) in each of them."""
    noise, one, two = {"n": np.float32(1)}, np.float32(1), np.float32(2)

    class Rate(NamedTuple):
        rate: Any = None
        clip: Any = None

    update = weighting.WeightUpdate(
        identity="own", coupled=False, weigh=weighting.uniform.weigh, params_type=Rate
    )
    differing_recipes = [
        hostile_recipe(draw_count_by_rate, params=params)
        for params in (
            Optional(noise, step=two),
            Optional(noise, rate=two),
            Optional(noise, step=np.float32(2).view(np.int32)),
        )
    ]
    learner = differing_recipes[0].learner
    differing_recipes += [
        recipes.custom(
            learner,
            params=params,
            rows=400,
            rounds=2,
            weight_update=update,
            weighting=numbers,
        )
        for params, numbers in (
            (Optional(noise), Rate(two)),
            (Optional(noise), Rate(clip=two)),
            (Optional(noise, rate=one), Rate(two)),
            (Optional(noise, step=one), Rate(two)),
        )
    ]
    differing_recipes = [
        dataclasses.replace(recipe, learner=learner) for recipe in differing_recipes
    ]
    assert len({words_of_recipe_key(recipe) for recipe in differing_recipes}) == len(
        differing_recipes
    )
    releases = [
        dpbt.boost(KEYS[0], table_of_one_split(), one).transcript.rounds["n"]
        for one in differing_recipes[:2]
    ]
    assert not np.all(releases[1] - releases[0] == 300)  # the exact number of rows


def test_fractions_of_other_names_make_another_key():
    """One key would draw one noise at two scales on one count."""

    def program(draw, table, weights, params, public):
        for site in ("leaf_0", "leaf_1"):
            draw(site, NOISE, count_positive_rows(table), **ONE_ROW)

    learner = boundary.weak_learner(
        name="two leaves",
        program=program,
        hypothesis=lambda release, params, public: tree_of_count(
            {"n": release["leaf_0"]}, params, public
        ),
        kind=SCALED,
        fractions={"leaf": 1.0},
        relation=ADD_REMOVE,
    )
    two_recipes = [
        recipes.custom(learner, epsilon=1.0, rows=400, rounds=1, fractions={"leaf": 0.8, own: 0.2})
        for own in ("leaf_0", "leaf_1")
    ]
    assert words_of_recipe_key(two_recipes[0]) != words_of_recipe_key(two_recipes[1])


def test_a_part_with_the_tag_of_another_makes_another_key():
    base = hostile_recipe()
    learner, update = base.learner, base.weight_update

    def tagged(first, second):
        named = dataclasses.replace(learner, name=first)
        renamed = dataclasses.replace(update, identity=second)
        return words_of_recipe_key(dataclasses.replace(base, learner=named, weight_update=renamed))

    def with_part(**parts):
        return words_of_recipe_key(
            dataclasses.replace(base, learner=dataclasses.replace(learner, **parts))
        )

    first = dataclasses.replace(counting_prologue(), identity="same")
    last = dataclasses.replace(counting_epilogue(), identity="same")
    assert with_part(prologue=first) != with_part(epilogue=last)
    assert tagged("a | b", "c") != tagged("a", "b | c")


# Learners of one name, whose functions differ.


def wrapper_of_sum(factor):
    """A wrapper that has the name of what it wraps."""
    source = "@functools.wraps(jnp.sum)\ndef total(x):\n    return FACTOR * jnp.sum(x)"
    around = {"functools": functools, "jnp": jnp, "FACTOR": factor, "__name__": "authors"}
    exec(source, around)
    return around["total"]


RATE = 1


def rate_of_a_class():
    class Held:
        rate = RATE

    return Held.rate


def rate_by_attribute():
    return rate_by_attribute.rate


def key_of_program_with(factor):
    """The key of a learner whose count is multiplied by what a function gives."""

    def program(draw, table, weights, params, public):
        draw("n", NOISE, factor(table) * count_positive_rows(table), **ONE_ROW)

    return words_of_recipe_key(hostile_recipe(program))


def test_a_function_with_the_name_of_a_librarys_is_told_apart_by_what_it_does():
    one, other = (
        key_of_program_with(lambda table, total=total: total(table.target).astype(jnp.int32))
        for total in map(wrapper_of_sum, (2, 3))
    )
    assert one != other


def test_what_code_reads_in_a_class_or_by_an_attribute_is_in_its_key(monkeypatch):
    monkeypatch.setattr(rate_by_attribute, "rate", 1, raising=False)
    rates = (lambda table: rate_of_a_class()), (lambda table: rate_by_attribute())
    before = [key_of_program_with(rate) for rate in rates]
    assert [key_of_program_with(rate) for rate in rates] == before
    monkeypatch.setitem(globals(), "RATE", 2)
    monkeypatch.setattr(rate_by_attribute, "rate", 2)
    after = [key_of_program_with(rate) for rate in rates]
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_a_hypothesis_or_a_bound_of_another_kind_makes_another_key():
    """Later rounds weigh rows by what they say, so one noise would give a difference of sums."""
    kind = SCALED.with_training(bound=lambda tree: 2 * jnp.max(jnp.abs(tree.leaf)))
    same_as_uniform = weighting.WeightUpdate(
        identity="uniform",
        coupled=False,
        weigh=lambda *read: weighting.uniform.weigh(*read),
    )
    recipes_of_one_name = [
        hostile_recipe(),
        hostile_recipe(kind=kind),
        hostile_recipe(hypothesis=lambda *read: tree_of_count(*read)._replace(leaf=jnp.ones(2))),
        hostile_recipe(weigh=same_as_uniform),
    ]
    assert (
        len({words_of_recipe_key(recipe) for recipe in recipes_of_one_name}) == 3
    )  # the last is the first


def test_a_weight_update_of_the_library_under_the_identity_of_another_makes_another_key():
    """All functions are the library's, and so is the config of the learner."""
    recipe = dpbt.recipes.oblivious_boost(
        epsilon=1.0, rows=40, domain={"x": Numeric(0, 1, bins=4)}, rounds=2, depth=1
    )
    renamed = dataclasses.replace(
        weighting.mirror("matsushita"), identity=recipe.weight_update.identity
    )
    other = dataclasses.replace(recipe, weight_update=renamed)
    assert words_of_recipe_key(recipe) != words_of_recipe_key(other)
    assert words_of_recipe_key(other) == words_of_recipe_key(other)


# Rows have no values for the classes that an author lays them out in.


SEEN_VALUES: list[Any] = []


def note_values(array):
    if isinstance(array, np.ndarray | jax.Array) and not isinstance(array, jax.core.Tracer):
        SEEN_VALUES.extend([np.asarray(array)] if np.size(array) > 1 else [])


class Bundle(NamedTuple):
    present: Any
    target: Any
    weight: Any = None


class Tuple(Bundle):
    """JAX makes a tuple with names anew by its class."""

    def __new__(cls, *fields, **named):
        made = Bundle.__new__(cls, *fields, **named)
        note_values(made.target)
        return made


@jax.tree_util.register_pytree_node_class
class Node:
    """JAX makes an object anew by a function of its class."""

    def __init__(self, present, target, weight=None):
        self.present, self.target, self.weight = present, target, weight

    def _replace(self, **fields):
        return Node(**{**vars(self), **fields})

    def tree_flatten(self):
        return tuple(vars(self).values()), None

    @classmethod
    def tree_unflatten(cls, static, children):
        made = cls(*children)
        note_values(made.target)
        return made


def tree_of_seen_values(release, params, public):
    tree = tree_of_count(release, params, public)
    return (
        tree._replace(leaf=tree.leaf * 0 + np.float32(SEEN_VALUES[0].sum()))
        if SEEN_VALUES
        else tree
    )


def without_jit(table, recipe):
    with jax.disable_jit():
        return dpbt.boost(KEYS[0], table, recipe).hypotheses


WAYS_TO_RUN = {
    "vmap": lambda table, recipe: jax.vmap(lambda key: dpbt.boost(key, table, recipe))(KEYS),
    "without jit": without_jit,
    "replay": lambda table, recipe: dpbt.replay(
        dpbt.boost(KEYS[0], table, recipe).transcript, table, recipe
    ),
    "compared": lambda table, recipe: log_ratios_by_site(
        dpbt.boost(KEYS[0], table, recipe).transcript, table, table, recipe
    ),
}


@pytest.mark.parametrize("way", WAYS_TO_RUN)
@pytest.mark.parametrize("kind", [Tuple, Node])
def test_a_class_of_rows_is_never_given_their_values(kind, way):
    """Op by op it was, and a hypothesis put the exact number of positive rows into the model."""
    SEEN_VALUES.clear()
    laid_out = SCALED.with_training(
        prepare=lambda table: kind(table.present, table.target, table.weight),
        predict_prepared=lambda found, rows: (
            jnp.zeros(rows.present.shape, jnp.float32) + found.leaf[0]
        ),
    )
    WAYS_TO_RUN[way](
        table_of_one_split(60),
        hostile_recipe(draw_count, with_new_identity(tree_of_seen_values), kind=laid_out),
    )
    assert not SEEN_VALUES


# Prices, domains and the grey box.


@pytest.mark.parametrize("where", ["sensitivity", "scale"])
def test_a_price_may_not_be_read_from_python_when_the_program_runs(where):
    """It was 1 when it was priced, and next to nothing when it ran: a count without noise."""

    def held():
        return jax.pure_callback(lambda: np.float32(1), jax.ShapeDtypeStruct((), jnp.float32))

    def program(draw, table, weights, params, public):
        draw("n", NOISE, count_positive_rows(table), **{**ONE_ROW, where: jax.jit(held)()})

    with pytest.raises(ValueError, match="reads what Python holds by a callback"):
        shapes_of_run(hostile_recipe(program, params=Noise({"n": np.float32(1000)})))


class PythonState:
    """What an author's module holds, and changes between two looks at the ledger."""

    scale = 1.0


def draw_at_python_scale(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, scale=PythonState.scale)


def draw_at_python_array_scale(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW, scale=jnp.float32(PythonState.scale))


def draw_at_python_sensitivity(draw, table, weights, params, public):
    most = jnp.float32(1 / PythonState.scale)
    draw(
        "n",
        NOISE,
        count_positive_rows(table),
        sensitivity=most,
        moved_outputs=1,
        theorem="",
        scale=1.0,
    )


@pytest.mark.parametrize(
    "program", [draw_at_python_scale, draw_at_python_sensitivity, draw_at_python_array_scale]
)
def test_a_ledger_is_refused_if_python_changed_a_number_after_the_run(program, monkeypatch):
    """Other recipes may have taken the place of the program that works out the lines."""
    recipe = hostile_recipe(with_new_identity(program), params=Noise({}))
    dpbt.boost(KEYS[0], table_of_one_split(), recipe)
    monkeypatch.setattr(PythonState, "scale", 100.0)
    draw_specs.describe_draws.clear()
    with pytest.raises(ValueError, match="than the ledger prices"):
        dpbt.ledger(recipe)


@pytest.mark.parametrize(
    "program", [draw_at_python_scale, draw_at_python_sensitivity, draw_at_python_array_scale]
)
@pytest.mark.parametrize("learn", [dpbt.boost, dpbt.fit])
def test_a_run_has_the_noise_of_the_ledger_after_python_changed_a_number(
    program, learn, monkeypatch
):
    """The compiled run was kept, and its prices were worked out anew."""
    recipe = hostile_recipe(with_new_identity(program), params=Noise({}))
    learn(KEYS[0], table_of_one_split(), recipe)
    monkeypatch.setattr(PythonState, "scale", 100.0)
    draw_specs.describe_draws.clear()
    dependencies._traced_dependencies.cache_clear()
    (line,) = dpbt.ledger(recipe).lines
    assert line.sensitivity / line.scale == pytest.approx(0.01)
    releases = [
        np.asarray(learn(KEYS[0], table_of_one_split(), other).transcript.rounds["n"])
        for other in (recipe, hostile_recipe(with_new_identity(program), params=Noise({})))
    ]
    np.testing.assert_array_equal(*releases)


def test_columns_whose_names_have_one_text_are_refused():
    """Two domains of exchanged columns would be equal."""
    kind = Numeric(0, 1)
    with pytest.raises(ValueError, match="names of one text"):
        domains.as_declared_domain({0: kind, "0": kind})


ROWS = np.random.default_rng(0).random((50, 3))


def by_address(table, hooks):
    return id(table), hooks.laplace(len(table), 1.0, 1.0)


def shuffling(table, hooks):
    order, threshold = hooks.public.permutation(len(table)), hooks.public.random()
    return threshold, hooks.laplace(np.sum(table[order][:, 0] > 2), 1.0, 1.0)


def sampling(table, hooks):
    some = table[hooks.public.permutation(len(table))[: len(table) // 2]]
    return hooks.laplace(np.sum(some[:, 0] > 0.5), 1.0, 1.0)


@pytest.mark.parametrize("learn", [by_address, shuffling, sampling])
def test_an_honest_learner_gets_no_certificate(learn):
    report = audit.grey_box_lower_bound(learn, ROWS, ROWS[1:], claim=(1.0, 0.0), num_runs=40)
    assert not report.broken
    assert report.uncompared


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e12])
def test_a_custom_draw_is_not_refuted_by_rounding(scale):
    def learn(table, hooks):
        count = float(len(table))
        return hooks.custom(
            count,
            lambda noise: count + noise.laplace(0, scale),
            lambda out: -abs(out - count) / scale - np.log(2 * scale),
            1.0,
        )

    found = audit.grey_box_lower_bound(learn, ROWS, ROWS[1:], claim=(1 / scale, 0.0), num_runs=40)
    assert not found.broken
    assert found.epsilon > 0.9 / scale
