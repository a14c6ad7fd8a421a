"""Boosting: re-weight, learn, add; the only state between rounds is what has been released.

`boost`, `replay` and `trees_of` are pure and traceable: vmap them over keys, `present` masks and recipes.
`fit` checks its input on the host, then runs `boost` under jit.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import keys
from dpbt.base import (
    Array,
    HypothesisClass,
    Model,
    Recipe,
    Release,
    StepLoss,
    Table,
    WeakLearner,
)
from dpbt.checks import check, on_device, refuse_sample_weight, rows_for


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
    return jnp.zeros(table.target.shape[0], jnp.float32), jnp.float32(0)


def own_key(key: Array, recipe: Recipe) -> Array:
    """The key of a recipe's noise: a function of the key, of every number of the budget and of the parts.

    So one key gives independent noise to two recipes that differ in any scale, share or learner.
    If they shared their noise at two scales, two releases would give the private statistic away.
    Rounds and capacity are left out: the first T rounds do not depend on how many follow.

    Args:
        key: a typed key.
        recipe: one setting; its budget may be traced.
    """
    tag = keys.text_words(f"{recipe.learner.tag} | {recipe.reweighter.tag}")
    budget = [_words_of(leaf) for leaf in jax.tree.leaves(recipe.budget)]
    return keys.fold_words(key, jnp.concatenate([jnp.asarray(tag), *budget]))


def _words_of(leaf: Any) -> Array:
    """u32[K]: the bits of a leaf of a budget."""
    leaf = jnp.asarray(leaf).reshape(-1)
    if leaf.dtype not in (jnp.float32, jnp.int32, jnp.uint32):
        raise ValueError(f"a budget holds numbers of 32 bits, so that none is lost in the key; got {leaf.dtype}")
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32)


def round_keys(key: Array, capacity: int) -> Array:
    """A key for each round; the first T do not depend on the capacity."""
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(capacity, dtype=jnp.uint32))


def admitted(present: Array, recipe: Recipe) -> Array:
    """bool[N]: the first `rows` of the present rows, in order.

    The noise was set for `rows` rows. A row more or less then moves at most one other row out or
    in, so a table beyond the bound costs what two rows cost: 2 epsilon, or 4 rho.
    """
    place = jnp.cumsum(present.astype(jnp.int32))
    return present & (place <= jnp.asarray(recipe.budget.rows).astype(jnp.int32))


def prepared_table(table: Table, recipe: Recipe) -> Any:
    """The table laid out for the loops, with the rows that count."""
    prepared = recipe.learner.hypotheses.prepare(table)
    return prepared._replace(present=admitted(prepared.present, recipe))


def boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> tuple[Release, Any, Array]:
    """Run T rounds of a recipe. The first T rounds are the same whatever the recipe's capacity.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows; of a larger one
    only the first `rows` present rows count (`admitted`). The key is a secret of the release.
    Use it on one table only: on two, a table and its update or the same rows under another domain,
    it makes the same noise.

    Args:
        key: a typed key; see `keys`. Recipes that differ in any number have independent noise
            under it (`own_key`).
        table: N rows.
        recipe: one setting (no leading axes).
        public_key: of public structure, such as a random tree's questions; needed if the learner
            draws any. Independent of `key`, as what it says is published.

    Returns:
        The stacked releases of all rounds (with the sites that the learner withholds from a model),
        and the hypotheses (trees) that follow from them, with leading axes T; and
        f32[N], the score of every row, absent ones too (a test fold, say). The scores are the model applied to private
        rows: they are for evaluation and are not part of the release.

    Raises:
        ValueError: for public structure without a public key.
    """
    prepared = prepared_table(table, recipe)

    def one_round(state, entry):
        score, bound = state
        round_key, public_round_key = entry
        weights = recipe.reweighter.weights(score, bound, prepared, recipe.budget)
        release = recipe.learner.release(round_key, public_round_key, prepared, weights, recipe.budget)
        tree = recipe.learner.hypothesis(release, recipe.budget, weights.unit)
        return _absorb(recipe, tree, prepared, score, bound), (release, tree)

    entries = key_pairs(key, public_key, recipe)
    (score, _), (releases, ensemble) = scan_rounds(recipe, one_round, start(prepared), entries)
    return releases, ensemble, score


def key_pairs(key: Array, public_key: Array | None, recipe: Recipe) -> tuple[Array, Array | None]:
    """The keys of the noise and of the public structure, one of each for every round."""
    public = None if public_key is None else round_keys(public_key, recipe.capacity)
    return round_keys(own_key(key, recipe), recipe.capacity), public


def replay(releases: Release, table: Table, recipe: Recipe) -> tuple[dict[str, Array], Any]:
    """Score a recorded transcript on a table, and rebuild the model from it.

    Args:
        releases: as `boost` returns them.
        table: any table with the same questions: the recorded one, or a neighbour.
        recipe: the recipe.

    Returns:
        f32[T] exact log densities by site, given all earlier releases; and the trees, which depend on the
        releases alone.
    """
    prepared = prepared_table(table, recipe)

    def one_round(state, release):
        score, bound = state
        weights = recipe.reweighter.weights(score, bound, prepared, recipe.budget)
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
    mine, theirs = prepared_table(table, recipe), prepared_table(other, recipe)

    def one_round(state, release):
        scores, bound = state
        here, there = (
            recipe.reweighter.weights(score, bound, prepared, recipe.budget)
            for score, prepared in zip(scores, (mine, theirs), strict=True)
        )
        divergence = recipe.learner.divergence(release, recipe.budget, mine, here, theirs, there)
        tree = recipe.learner.hypothesis(release, recipe.budget, here.unit)
        after = [_absorb(recipe, tree, rows, score, bound) for score, rows in zip(scores, (mine, theirs), strict=True)]
        return ((after[0][0], after[1][0]), after[0][1]), divergence

    score, bound = start(mine)
    _, out = scan_rounds(recipe, one_round, ((score, score), bound), releases)
    return out


_boost = jax.jit(boost)


def published(releases: Release, learner: WeakLearner) -> Release:
    """The releases without the sites that the learner withholds.

    Raises:
        ValueError: if the learner withholds a site that it does not draw.
    """
    if unknown := set(learner.withheld) - set(releases):
        words = f"its sites are {sorted(releases)}"
        raise ValueError(f"the learner withholds {sorted(unknown)}, {words}")
    return {site: array for site, array in releases.items() if site not in learner.withheld}


def fit(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    sample_weight: Any = None,
    keep_withheld: bool = False,
) -> Model:
    """Learn an ensemble. The model is a function of noisy releases alone; see `ledger(recipe)` for its guarantee.

    Args:
        key: one typed key, a secret: who has it can subtract the noise. `keys.fresh_key()` makes
            one for a release; a key of a seed is for research, and a warning says so once. Use it
            on one table only.
        table: from `dpbt.table`; cells u8[N, F], target bool[N], present bool[N], with at most the
            recipe's `rows` rows present; under replace-one `rows` is their public number, and N at
            least that.
        recipe: one setting.
        public_key: one typed key that is independent of `key`, if the recipe draws public structure.
        sample_weight: not supported.
        keep_withheld: leave the sites that the learner withholds in `Model.releases`, for `replay`
            and audits. The site "part" of disjoint forests is i32[T, N]: its length is the private
            number of rows. Publish such a model only if the places of the rows are public.

    Raises:
        ValueError: if any of these is not so. Of private things only the number of present rows is
            raised on (`check`); no cell and no length of the table is shown.
    """
    refuse_sample_weight(sample_weight)
    table = on_device(table)
    check(key, table, recipe, public_key)
    keys.warn_of_research(key)
    releases, ensemble, _ = _boost(key, table, recipe, public_key)
    if not keep_withheld:
        releases = published(releases, recipe.learner)
    return model_of(ensemble, releases, recipe, table)


def model_of(ensemble: Any, releases: Release, recipe: Recipe, table: Table) -> Model:
    """The model, with what it keeps of the table: the public questions and the kind of its rows."""
    features, dtype = table.cells.shape[1], str(table.cells.dtype)
    return Model(ensemble, releases, recipe, table.questions, features, dtype)


def score(ensemble: Any, table: Table, hypotheses: HypothesisClass) -> Array:
    """f32[N]: the summed predictions of hypotheses [T, ...] on all rows of a table."""
    prepared = hypotheses.prepare(table)

    def add(total, hypothesis):
        return total + hypotheses.predict(hypothesis, prepared), None

    nothing = jnp.zeros(table.cells.shape[0], jnp.float32)
    return jax.lax.scan(add, nothing, ensemble)[0]


_score = jax.jit(score, static_argnums=2)


def decision_function(model: Model, rows: Array | Table) -> Array:
    """f32[N]: the score H of each row; above 0 means the positive class.

    Args:
        model: from `fit`.
        rows: cells u8[N, F] (`domains.encode`) or exact numbers f32[N, F], as the model was trained
            on; a Table of either, whose absent rows have a score, too; or splits bool[N, S], if the
            model was trained on a table of raw splits (`questions.of_splits`).

    Raises:
        ValueError: if the rows are of another type than the model reads, or of another number of
            features, or are a table with other questions (`checks.rows_for`).
    """
    table = rows_for(model, rows)
    hypotheses = model.recipe.learner.hypotheses
    hypotheses.check(table)
    return _score(model.trees, table, hypotheses)


def predict(model: Model, rows: Array | Table) -> Array:
    """bool[N]: H > 0, for rows as `decision_function` takes them.

    A score of exactly 0 is the negative class.
    """
    return decision_function(model, rows) > 0


def predict_proba(model: Model, rows: Array | Table) -> Array:
    """f32[N]: inverse_link(H), the probability of the positive class that the loss reads off the score.

    Rows are as `decision_function` takes them.

    Raises:
        ValueError: as `decision_function`; if the recipe has no link, or one whose surrogate has
            kinks (the 0/1 loss), where the inverse link is not a function.
    """
    if model.recipe.loss is None:
        raise ValueError(f"{model.recipe.name} is a vote without a link, so a score defines no probability")
    loss = model.recipe.loss(np.float32(model.recipe.budget.link_alpha))
    if not np.isfinite(loss.smoothness):
        raise ValueError(f"the surrogate of {loss.name} has kinks, so a score defines no probability")
    return loss.inverse_link(decision_function(model, rows))
