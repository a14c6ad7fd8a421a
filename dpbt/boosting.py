"""Boosting: re-weight, learn, add; the only state between rounds is what has been released.

`boost`, `replay` and `trees_of` are pure and traceable: vmap them over keys, `present` masks and recipes.
`fit` checks its input on the host, then runs `boost` under jit.
"""

import secrets
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import accounting
from dpbt.base import (
    Array,
    HypothesisClass,
    Model,
    Recipe,
    Release,
    StepLoss,
    Table,
    WeakLearner,
    kind,
)


def _absorb(recipe: Recipe, hypothesis, table, score: Array, bound: Array) -> tuple[Array, Array]:
    hypotheses = recipe.learner.hypotheses
    return score + hypotheses.predict(hypothesis, table), bound + hypotheses.bound(hypothesis)


@jax.custom_batching.custom_vmap
def _anywhere(flag: Array) -> Array:
    """The flag, or under vmap whether any lane has it: one for all lanes, so that a cond on it stays a cond."""
    return flag


@_anywhere.def_vmap
def _anywhere_in_a_batch(axis_size, in_batched, flag):
    del axis_size
    return (_anywhere(jnp.any(flag, axis=0)) if in_batched[0] else flag), False


def scan_rounds(recipe: Recipe, one_round: Callable, state: Any, entries: Any) -> tuple[Any, Any]:
    """`lax.scan` of `one_round` over the first T of `capacity` entries; the others give zeros.

    They cost nothing where no other lane of a vmap needs them. (A cond on a batched flag would run both branches and
    copy the table for every lane.)
    """

    def skip(state, entry):
        _, out = jax.eval_shape(one_round, state, entry)
        return state, jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), out)

    def step(state, counted):
        t, entry = counted
        active = t < recipe.rounds

        def run(state, entry):
            new, out = one_round(state, entry)
            kept = jax.tree.map(lambda a, b: jnp.where(active, a, b), new, state)
            return kept, jax.tree.map(lambda array: jnp.where(active, array, jnp.zeros_like(array)), out)

        return jax.lax.cond(_anywhere(active), run, skip, state, entry)

    return jax.lax.scan(step, state, (jnp.arange(recipe.capacity, dtype=jnp.int32), entries))


def start(table) -> tuple[Array, Array]:
    """The score of every row, and the bound on it, before the first round."""
    return jnp.zeros(table.label.shape[0], jnp.float32), jnp.float32(0)


def boost(key: Array, table: Table, recipe: Recipe) -> tuple[Release, Any, Array]:
    """Run T rounds of a recipe. The first T rounds are the same whatever the recipe's capacity.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows: `fit` checks that, this traceable
    function cannot. The key is a secret of the release.

    Args:
        key: a typed threefry key.
        table: N rows.
        recipe: one setting (no leading axes).

    Returns:
        The stacked releases of all rounds (with the sites that the learner withholds from a model),
        and the hypotheses (trees) that follow from them, with leading axes T; and
        f32[N], the score of every row, absent ones too (a test fold, say). The scores are the model applied to private
        rows: they are for evaluation and are not part of the release.
    """
    prepared = recipe.learner.hypotheses.prepare(table)

    def one_round(state, round_key):
        score, bound = state
        weights = recipe.reweighter(score, bound, prepared, recipe.budget)
        release = recipe.learner.release(round_key, prepared, weights, recipe.budget)
        tree = recipe.learner.hypothesis(release, recipe.budget, weights.unit)
        return _absorb(recipe, tree, prepared, score, bound), (release, tree)

    keys = jax.random.split(key, recipe.capacity)
    (score, _), (releases, ensemble) = scan_rounds(recipe, one_round, start(prepared), keys)
    return releases, ensemble, score


def replay(releases: Release, table: Table, recipe: Recipe) -> tuple[dict[str, Array], Any]:
    """Score a recorded transcript on a table, and rebuild the model from it.

    Args:
        releases: as `boost` returns them.
        table: any table with the same splits: the recorded one, or a neighbour.
        recipe: the recipe.

    Returns:
        f32[T] exact log densities by site, given all earlier releases; and the trees, which depend on the
        releases alone.
    """
    prepared = recipe.learner.hypotheses.prepare(table)

    def one_round(state, release):
        score, bound = state
        weights = recipe.reweighter(score, bound, prepared, recipe.budget)
        log_prob = recipe.learner.log_prob(release, prepared, weights, recipe.budget)
        tree = recipe.learner.hypothesis(release, recipe.budget, weights.unit)
        return _absorb(recipe, tree, prepared, score, bound), (log_prob, tree)

    _, out = scan_rounds(recipe, one_round, start(prepared), releases)
    return out


def transcript_log_prob(releases: Release, table: Table, recipe: Recipe) -> dict[str, Array]:
    """Site -> f32[T]: exact log density of each round's release on a table, given all earlier ones."""
    return replay(releases, table, recipe)[0]


def step_divergences(releases: Release, table: Table, other: Table, recipe: Recipe) -> dict[str, StepLoss]:
    """Site -> StepLoss of f32[T]: the worst case of each draw over all its outputs, between two tables.

    Everything released before the draw is as recorded; the draw itself takes the output that tells the two tables
    apart best. By adaptive composition the sum over sites and rounds bounds any transcript's loss.

    Args:
        releases: a transcript, as `boost` returns it.
        table: a table.
        other: another of the same shape.
        recipe: the recipe.
    """
    prepare = recipe.learner.hypotheses.prepare
    mine, theirs = prepare(table), prepare(other)

    def one_round(state, release):
        scores, bound = state
        here, there = (
            recipe.reweighter(score, bound, prepared, recipe.budget)
            for score, prepared in zip(scores, (mine, theirs), strict=True)
        )
        divergence = recipe.learner.divergence(release, recipe.budget, mine, here, theirs, there)
        tree = recipe.learner.hypothesis(release, recipe.budget, here.unit)
        after = [_absorb(recipe, tree, rows, score, bound) for score, rows in zip(scores, (mine, theirs), strict=True)]
        return ((after[0][0], after[1][0]), after[0][1]), divergence

    score, bound = start(mine)
    _, out = scan_rounds(recipe, one_round, ((score, score), bound), releases)
    return out


def ledger(recipe: Recipe) -> accounting.Ledger:
    """The ledger of one setting: the learner's events, T times each.

    Raises:
        ValueError: if the recipe holds several settings, or its release has a site that no event covers.
    """
    if np.ndim(recipe.budget.rows) > 0:
        raise ValueError("a ledger is of one setting; take one with recipes.setting(recipe, index)")
    events = recipe.learner.events(recipe.budget)
    accounting.cover(events, release_sites(recipe))
    repeated = tuple(accounting.repeat(event, int(recipe.rounds)) for event in events)
    return accounting.Ledger(recipe.relation, repeated, float(recipe.delta), recipe.learner.unprotected)


def release_sites(recipe: Recipe) -> list[str]:
    """The sites of one round's release, found by abstract evaluation on a one-row table."""
    hypotheses = recipe.learner.hypotheses

    def one(budget):
        prepared = hypotheses.prepare(hypotheses.example())
        weights = recipe.reweighter(*start(prepared), prepared, budget)
        return recipe.learner.release(jax.random.key(0), prepared, weights, budget)

    return list(jax.eval_shape(one, recipe.budget))


def check(key: Array, table: Table, recipe: Recipe) -> None:
    """Refuse what one fit cannot take; nothing private is looked at.

    Raises:
        ValueError: unless there are one typed threefry key, one setting, and a table that its hypotheses read, of at
            most as many rows as the setting's bound.
    """
    splits, label, present = table[:3]
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0):
        raise ValueError("key must be one typed key, as jax.random.key(seed) or dpbt.fresh_key() makes it")
    if jax.random.key_impl(key) != "threefry2x32":
        raise ValueError(f"key must be a threefry2x32 key, got {jax.random.key_impl(key)}")
    for name, array in (("label", label), ("present", present)):
        if array.dtype != bool or array.ndim != 1:
            raise ValueError(f"table.{name} must be bool of rank 1, got {kind(array)}")
    recipe.learner.hypotheses.check(table)
    rows = splits.shape[0]
    if label.shape[0] != rows or present.shape[0] != rows:
        raise ValueError("splits, label and present must have the same rows, and do not")
    if np.ndim(recipe.budget.rows) > 0:
        raise ValueError("fit takes one setting; vmap dpbt.boost over a recipe with several")
    if rows > float(recipe.budget.rows):
        words = f"the recipe's noise was set for at most rows={float(recipe.budget.rows):g}"
        raise ValueError(f"{words}, the table has room for more")


_boost = jax.jit(boost)


def as_array(name: str, value: Any) -> Array:
    """`value` as a device array.

    Raises:
        ValueError: naming the argument, unless it is an array of numbers or Booleans. What it holds
            is not shown, and neither are its lengths: JAX's own errors may show both.
    """
    if not isinstance(value, jax.Array):
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if not isinstance(value, np.ndarray | np.generic):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")
        if value.dtype.kind not in "biufcV":  # V: bfloat16 and the like
            raise ValueError(f"{name} must hold numbers or Booleans, got {kind(np.asarray(value))}")
    return jnp.asarray(value)


def on_device(table: Table) -> Table:
    """The table's fields as device arrays; ValueError as `as_array`."""
    offered = None if table.offered is None else as_array("table.offered", table.offered)
    return Table(
        as_array("table.splits", table.splits),
        as_array("table.label", table.label),
        as_array("table.present", table.present),
        offered,
    )


def published(releases: Release, learner: WeakLearner) -> Release:
    """The releases without the sites that the learner withholds.

    Raises:
        ValueError: if the learner withholds a site that it does not draw.
    """
    if unknown := set(learner.withheld) - set(releases):
        words = f"its sites are {sorted(releases)}"
        raise ValueError(f"the learner withholds {sorted(unknown)}, {words}")
    return {site: array for site, array in releases.items() if site not in learner.withheld}


def fit(key: Array, table: Table, recipe: Recipe, *, keep_withheld: bool = False) -> Model:
    """Learn an ensemble. The model is a function of noisy releases alone; see `ledger(recipe)` for its guarantee.

    Args:
        key: one typed threefry key; who has it can subtract the noise. `fresh_key()` makes one.
        table: splits bool[N, S], label bool[N], present bool[N], with N at most the recipe's `rows`.
        recipe: one setting.
        keep_withheld: leave the sites that the learner withholds in `Model.releases`, for `replay`
            and audits. The site "part" of disjoint forests is i32[T, N]: its length is the private
            number of rows. Publish such a model only if the places of the rows are public.

    Raises:
        ValueError: if any of these is not so. Nothing private is raised on; no cell and no length
            of the table is shown.
    """
    table = on_device(table)
    check(key, table, recipe)
    releases, ensemble, _ = _boost(key, table, recipe)
    if not keep_withheld:
        releases = published(releases, recipe.learner)
    return Model(ensemble, releases, recipe)


def score(ensemble, rows: Array, hypotheses: HypothesisClass) -> Array:
    """f32[N]: the summed predictions of hypotheses with a leading axis T, on rows such as splits bool[N, S]."""
    unlabelled = jnp.zeros(rows.shape[0], bool)
    table = hypotheses.prepare(Table(rows, unlabelled, unlabelled))

    def add(total, hypothesis):
        return total + hypotheses.predict(hypothesis, table), None

    total, _ = jax.lax.scan(add, jnp.zeros(rows.shape[0], jnp.float32), ensemble)
    return total


_score = jax.jit(score, static_argnums=2)


def decision_function(model: Model, splits: Array) -> Array:
    """f32[N]: the score H of each row of splits bool[N, S]; above 0 means the positive class.

    Raises:
        ValueError: if the rows are not of the kind that the model reads.
    """
    splits = as_array("splits", splits)
    hypotheses = model.recipe.learner.hypotheses
    hypotheses.check(Table(splits, jnp.zeros(splits.shape[:1], bool), jnp.zeros(splits.shape[:1], bool)))
    return _score(model.trees, splits, hypotheses)


def predict(model: Model, splits: Array) -> Array:
    """bool[N]: H > 0. A score of exactly 0 is the negative class."""
    return decision_function(model, splits) > 0


def predict_proba(model: Model, splits: Array) -> Array:
    """f32[N]: inverse_link(H), the probability of the positive class that the loss reads off the score.

    Raises:
        ValueError: if the recipe has no link, or one whose surrogate has kinks (the 0/1 loss), where the inverse
            link is not a function.
    """
    if model.recipe.loss is None:
        raise ValueError(f"{model.recipe.name} is a vote without a link, so a score defines no probability")
    loss = model.recipe.loss(np.float32(model.recipe.budget.link_alpha))
    if not np.isfinite(loss.smoothness):
        raise ValueError(f"the surrogate of {loss.name} has kinks, so a score defines no probability")
    return loss.inverse_link(decision_function(model, splits))


def fresh_key() -> Array:
    """A typed threefry key from the system's entropy. Keep it secret, or forget it."""
    return jax.random.wrap_key_data(
        jnp.asarray([secrets.randbits(32), secrets.randbits(32)], jnp.uint32), impl="threefry2x32"
    )
