"""Learners as careless or hostile authors write them."""

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.types import ADD_REMOVE, Epilogue, Noise, Prologue
from tests.support.attacks import table_of_one_split

NOISE = mechanisms.discrete_laplace
KEYS = jax.random.split(jax.random.key(0))
ONE_ROW = {"sensitivity": 1.0, "moved_outputs": 1, "theorem": "a row"}


def count_positive_rows(table):
    return jnp.sum(table.present & table.target).astype(jnp.int32)[None]


def draw_count(draw, table, weights, params, public):
    draw("n", NOISE, count_positive_rows(table), **ONE_ROW)


def tree_of_count(release, params, public):
    value = release["n"][0].astype(jnp.float32)
    return dpbt.Tree(jnp.full(1, -1, jnp.int32), jnp.full(2, value))


SCALED = trees.TREES.with_training(
    scale=lambda hypotheses, slope: hypotheses._replace(leaf=hypotheses.leaf * slope),
)


def hostile_recipe(
    program=draw_count,
    hypothesis=tree_of_count,
    kind=SCALED,
    params=None,
    rounds=2,
    weigh=None,
    **options,
):
    learner = boundary.weak_learner(
        name="an attack",
        program=program,
        hypothesis=hypothesis,
        kind=kind,
        fractions={},
        relation=ADD_REMOVE,
        **options,
    )
    params = Noise({"n": np.float32(1)}) if params is None else params
    update = {} if weigh is None else {"weight_update": weigh}
    return recipes.custom(learner, params=params, rows=400, rounds=rounds, **update)


def shapes_of_run(recipe, public_key=None):
    """What a run traces, without compiling it."""
    return jax.eval_shape(
        lambda table: dpbt.boost(KEYS[0], table, recipe, public_key), table_of_one_split()
    )


def counting_epilogue(program=None, line=None):
    def plain(draw, table, scores, params, public):
        draw("last", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)

    return Epilogue(
        program=program or plain,
        score_line=line or (lambda *_: (jnp.float32(1), jnp.float32(0))),
        identity="end",
    )


def counting_prologue(program=None, **options):
    def plain(draw, table, weights, params, public):
        draw("first", NOISE, count_positive_rows(table), **ONE_ROW, scale=2.0)

    numbers = {"initial_score": lambda release, params: jnp.float32(0), **options}
    return Prologue(program=program or plain, identity="open", **numbers)


def with_new_identity(function):
    """The function under an identity of its own, as JAX keeps traces by identity."""
    return lambda *arguments: function(*arguments)
