"""What a run refuses, its keys, and its steps, written once: weigh, place, draw, learn, add.

A run has three parts: a prologue, rounds and an epilogue. Each has a private program, which reads a
`View` of the rows. `boosting` runs them on a table in memory, and `blocks` on one in parts.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common.validate import is_traced, show_value
from dpbt.data import domains, kinds
from dpbt.data.blocks import BlockTable
from dpbt.data.splits import as_device_array, check_array
from dpbt.privacy import boundary, keys, pricing
from dpbt.privacy.apart import trace_apart, trace_of_public
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.flags import check_flags
from dpbt.privacy.sensitivity import weights_on_grid
from dpbt.public_types import redacted_repr
from dpbt.types import Array, Prepared, Public, Recipe, Release, Table, Transcript, View
from dpbt.types import TableForm as TableForm

Domained = TypeVar("Domained", Table, Recipe)

# What a fit refuses before anything runs. Public arguments are refused by name. Of private ones
# only the number of rows is refused, and it is not shown.


def table_on_device(table: Table) -> Table:
    """The table's fields as device arrays.

    Raises:
        ValueError: as `as_device_array`.
    """
    return _with_arrays(table, as_device_array)


_ARRAYS = ("bins", "target", "present", "weight", "declared")
"""The fields of a table that are arrays."""


def _with_arrays(table: Table, change: Callable[[str, Any], Any]) -> Table:
    """The table with other arrays, of its splits, too; `change` is given the name of each."""
    splits = table.splits
    if splits is not None:
        asked = {name: each for name, each in splits._asdict().items() if each is not None}
        splits = splits._replace(**{n: change(f"splits.{n}", each) for n, each in asked.items()})
    held = {name: getattr(table, name) for name in _ARRAYS}
    changed = {n: change(f"table.{n}", each) for n, each in held.items() if each is not None}
    return table._replace(**changed, splits=splits)


def without_domain(parts: Domained) -> Domained:
    """A table or a recipe that does not carry its domain, for programs that are compiled.

    The entries compare domains before, and a program that carried one would be compiled anew for
    each domain.
    """
    if isinstance(parts, Table):
        return parts._replace(domain=None)
    return dataclasses.replace(parts, domain=None)


def check_table(table: object) -> None:
    """Check that an argument is a table, whose arrays have the same rows; no length is shown.

    Raises:
        ValueError: saying what it is instead, or that they have not.
    """
    if isinstance(table, BlockTable):
        raise ValueError("a table in blocks is learned from by dpbt.fit alone")
    if not isinstance(table, Table):
        raise ValueError(f"expected a table, as dpbt.table makes it, got {type(table).__name__}")
    weight = () if table.weight is None else (table.weight,)
    if len({np.shape(array)[:1] for array in (*table[:3], *weight)}) > 1:
        raise ValueError("bins, target, present and weight must have the same rows, and do not")
    shape, domain = np.shape(table.bins), table.domain
    if domain is None or len(shape) != 2 or not hasattr(table.bins, "dtype"):
        return  # what reads the table refuses it, if it is none
    exact = table.splits is None and table.bins.dtype == np.float32
    width = len(domains.splits(domain).attribute) if exact else len(domain)
    if shape[1] != width:
        raise ValueError(
            f"table.bins must have {width} columns, as the table's domain says, got {shape[1]}"
        )


def check_run(table: object, recipe: object) -> None:
    """Check all that is static of what a run reads, and that the recipe holds one setting.

    Every entry calls it, under tracing too: shapes, dtypes and domains are known there. What public
    arrays hold, such as splits, is checked where they are not traced.

    Raises:
        ValueError: saying what was expected, or as `check_flags`, `check_table` and the check
            of the hypotheses. Also for a table of another domain or target than the recipe's, for a
            site that two parts of the run draw, and for a recipe of fewer rows of a user than the
            table has.
    """
    check_flags()
    check_table(table)
    assert isinstance(table, Table)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"expected a recipe of dpbt.recipes, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError("a run takes one setting; vmap dpbt.boost, or take one by recipes.setting")
    parts = recipe.learner.parts
    if len(parts) > 1:
        drawn = {
            part: [draw.site for draw in pricing.draw_specs_of_phase(recipe, part)]
            for part in parts
        }
        boundary.check_sites(**drawn)

    # The domains, and the arrays of the table.
    domains.check_same_domain(table.domain, recipe.domain, "the table", "the recipe")
    table = _with_arrays(table, check_array)
    with contextlib.suppress(*_NEEDS_VALUES):  # of a user's check that reads traced splits
        recipe.learner.hypotheses.check(_without_rows(table))
    response = recipe.learner.hypotheses.response
    dtypes = {"target": response.dtype, "present": "bool", "weight": "float32"}
    for name, dtype in dtypes.items():
        array = getattr(table, name)
        if array is not None and (array.dtype != dtype or array.ndim != 1):
            raise ValueError(
                f"table.{name} must be {dtype} of rank 1, got {types.dtype_and_rank(array)}; "
                f"{recipe.name} predicts {response.words}, so give both the same target="
            )
    told, target = table.declared, recipe.target
    known = None if target is None or is_traced(told) else kinds.target_fingerprint(target)
    if not (told is None or known is None or np.array_equal(np.asarray(told), known)):
        words = show_value(target)
        raise ValueError(f"the table was made with another target than the recipe's, {words}")
    if (table.rows_per_user or 0) > recipe.max_rows_per_user:
        raise ValueError(
            f"the table has up to {table.rows_per_user} rows of a user, so give the recipe "
            f"max_rows_per_user={table.rows_per_user}; it was made for {recipe.max_rows_per_user}"
        )
    if table.weight is not None and recipe.weight_update.coupled:
        raise ValueError(f"{recipe.name}: rows have no weights of their own there")


_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a function reads the values of a traced array."""


def _without_rows(table: Table) -> Table:
    """The table with one absent row in place of its rows, for checks that an author wrote.

    Arrays of rows may be private, or traced; a check reads their dtypes and widths.
    """
    arrays = {name: getattr(table, name) for name in ("bins", "target", "present", "weight")}
    absent = {
        name: np.zeros((1, *array.shape[1:]), array.dtype)
        for name, array in arrays.items()
        if array is not None
    }
    return table._replace(**absent)


def check_independent(recipe: Recipe) -> None:
    """Refuse a weight update that declares `reads_scores=False` and reads scores or their bound.

    Its rounds would be made side by side, from other scores than those of one after the other.

    Raises:
        ValueError: saying so.
    """
    weight_update, hypotheses = recipe.weight_update, recipe.learner.hypotheses
    rows, public = hypotheses.prepare(hypotheses.example()), recipe.public()
    scores = jnp.zeros((*weight_update.response.axes, *rows.present.shape), jnp.float32)

    def weigh(scores: Array, bound: Array) -> object:
        return weight_update.weigh(scores, bound, rows, public)

    traced = jax.make_jaxpr(weigh)(scores, jnp.float32(0)).jaxpr
    read = [entry for step in traced.eqns for entry in step.invars] + traced.outvars
    if {id(entry) for entry in read} & {id(entry) for entry in traced.invars}:
        raise ValueError(f"{weight_update.tag} declares reads_scores=False, and reads scores")


def check_transcript(transcript: object, table: Table, recipe: Recipe) -> None:
    """Check that an argument is a transcript of such a recipe on a table of such a form.

    Args:
        transcript: what may be one.
        table: that it is scored on, as `check_run` takes it.
        recipe: one setting.

    Raises:
        ValueError: saying what it is instead, naming the sites that it lacks or has besides, or the
            first difference of the tables.
    """
    if not isinstance(transcript, Transcript):
        raise ValueError(f"expected a transcript of a run, got {type(transcript).__name__}")
    parts = PhaseValues._make(transcript.parts)._asdict()
    boundary.check_sites(**parts)

    # The sites, and how many rounds there are.
    for part, release in parts.items():
        known = part in recipe.learner.parts
        drawn = (
            {draw.site for draw in pricing.draw_specs_of_phase(recipe, part)} if known else set()
        )
        if set(release) != drawn:
            words = f"sites {sorted(release)} of its {part}, where {recipe.name} draws"
            left_out = drawn & set(recipe.learner.traits.withheld) - set(release)
            more = f"; a model leaves out {sorted(left_out)}, and dpbt.boost returns all"
            raise ValueError(
                f"the transcript is of another recipe: {words} {sorted(drawn)}"
                f"{more if left_out else ''}"
            )
    for site, array in transcript.rounds.items():
        if np.shape(array)[:1] != (recipe.capacity,):
            rounds = np.shape(array)[:1]
            raise ValueError(
                f"the transcript is of another recipe: {site!r} has {rounds[0] if rounds else 'no'}"
                f" rounds, and the recipe has room for {recipe.capacity}"
            )

    # The table.
    before, here = transcript.recorded_on, TableForm.of(table)
    if before is None:
        return
    domains.check_same_domain(here.domain, before.domain, "the table", "the transcript")
    for field, words in (
        ("features", "columns"),
        ("dtype", "as the dtype of bins"),
        ("splits", "splits"),
        ("attributes", "attributes"),
    ):
        ours, theirs = getattr(here, field), getattr(before, field)
        if ours != theirs:
            raise ValueError(
                f"the transcript was recorded on another table: this one has {ours} {words}, and "
                f"that one had {theirs}"
            )


def check_fit(key: Array, recipe: Recipe, public_key: Array | None) -> Array | None:
    """Refuse what one fit cannot take, besides `check_run`, as far as that reads no private row.

    Args:
        key: one typed key.
        recipe: one setting.
        public_key: another typed key, or None.

    Returns:
        The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: as `check_keys` and `check_independent`.
    """
    public_key = check_keys(key, recipe, public_key)
    if not recipe.weight_update.reads_scores and recipe.learner.prologue is None:
        check_independent(recipe)  # after a prologue, weights may follow from its release
    return public_key


def check_keys(key: Array, recipe: Recipe, public_key: Array | None) -> Array | None:
    """Check the keys of a run; traceable, and what traced keys hold is not compared.

    Args:
        key: one typed key.
        recipe: one setting.
        public_key: another typed key that is independent of `key`, or None.

    Returns:
        The public key, if the recipe draws public structure; None if it draws none.

    Raises:
        ValueError: if one of these does not hold, and for a site that is withheld and not drawn.
    """
    keys.check(key)
    if public_key is not None:
        keys.check(public_key, "public_key")
        same_kind = keys.kind_of_key(key) == keys.kind_of_key(public_key)
        if (
            same_kind
            and not is_traced(key, public_key)
            and np.array_equal(jax.random.key_data(key), jax.random.key_data(public_key))
        ):
            raise ValueError("public_key must be independent of key: what it says is published")
    draws = [
        draw for part in recipe.learner.parts for draw in pricing.draw_specs_of_phase(recipe, part)
    ]
    names = {draw.site for draw in draws}
    if unknown := set(recipe.learner.traits.withheld) - names:
        raise ValueError(f"the learner withholds {sorted(unknown)}, its sites are {sorted(names)}")
    public = [draw.site for draw in draws if draw.mechanism.public]
    if public and public_key is None:
        raise boundary.missing_public_key_error(public[0])
    return public_key if public else None


def check_rows(present: int, capacity: int, recipe: Recipe) -> None:
    """Refuse a table that the noise was not set for, without showing any number of its rows.

    Under replace-one the capacity of the table is public, and is compared too. The number of
    present rows may be smaller: a row whose label is neither class is absent by itself.

    Raises:
        ValueError: saying so.
    """
    rows = int(recipe.rows)
    if present > rows:
        raise ValueError(
            f"the recipe's noise was set for at most rows={rows}, the table has more rows present"
        )
    if recipe.relation is types.REPLACE_ONE and capacity < rows:
        raise ValueError(
            f"under replace_one the table has room for fewer than rows={rows}; set rows to their "
            "number, or choose relation='add_remove' for a bound on it"
        )


# The keys of a run.


def derive_recipe_key(key: Array, recipe: Recipe) -> Array:
    """The key of a recipe's noise: a function of the key, of every budget number and of the parts.

    So one key gives independent noise to two recipes that differ in any scale, share, learner or
    declared target.
    If they shared their noise at two scales, their two releases would reveal the private statistic.
    Rounds and capacity are left out, because the first T rounds do not depend on how many follow.
    A step that is a schedule has a number for each round, though, and these are in the key.
    The epilogue does, so its own key also depends on the number of rounds.

    Args:
        key: a typed key.
        recipe: one setting; its budget may be traced.
    """
    target = [] if recipe.target is None else [repr(recipe.target)]
    target += _layout(recipe)
    numbers = jax.tree.leaves((recipe.params, recipe.weighting, recipe.rows))
    leaves = [jnp.asarray(leaf).reshape(-1) for leaf in numbers]
    for leaf in leaves:
        if leaf.dtype not in (jnp.float32, jnp.int32, jnp.uint32):
            raise ValueError(f"a budget holds numbers of 32 bits, got {leaf.dtype}")
    bits = [
        jax.lax.bitcast_convert_type(jnp.concatenate([*of_one_type]), jnp.uint32)
        for _, of_one_type in itertools.groupby(leaves, lambda leaf: leaf.dtype)
    ]
    return keys.fold_words(key, jnp.concatenate(bits), " | ".join([*recipe.tags, *target]))


def _is_of_library(part: Any) -> bool:
    return getattr(part, "__module__", "").split(".")[0] in ("dpbt", "builtins")


def _layout(recipe: Recipe) -> list[str]:
    """What numbers and tags in a row do not tell apart, in words; nothing where the tags say it.

    It is the names of noise that are not those that the learner declares, as `fractions` may have
    them. Of an author's own classes it is the fields that are None, of any length, or no float32.
    """
    found, names = [], sorted(getattr(recipe.params, "noise", ()))
    declared = sorted(dict(recipe.learner.fractions))
    if names != declared and recipe.calibration != "published":  # a paper has its own numbers
        found.append(f"noise of {names}")
    if any(" | " in tag for tag in recipe.tags):
        found.append(f"tags of lengths {[*map(len, recipe.tags)]}")
    once, last = recipe.learner.prologue, recipe.learner.epilogue
    if once is None and last is not None and not _is_of_library(last.program):
        found.append("an epilogue alone")  # a prologue might have its tag
    for numbers in (recipe.params, recipe.weighting):
        if _is_of_library(type(numbers)):
            continue
        leaves, _ = jax.tree_util.tree_flatten_with_path(numbers, is_leaf=lambda each: each is None)
        for path, leaf in leaves:
            array = None if leaf is None else jnp.asarray(leaf)
            if array is None or array.shape or array.dtype != jnp.float32:
                kind = None if array is None else f"{array.dtype}{list(array.shape)}"
                found.append(f"{jax.tree_util.keystr(path)} is {kind}")
    return found


class PhaseValues(NamedTuple):
    """Something for each part of a run, such as its keys or its recorded release.

    Attributes:
        prologue: for the prologue.
        rounds: for the rounds, with a leading axis.
        epilogue: for the epilogue.
    """

    prologue: Any
    rounds: Any
    epilogue: Any

    __repr__ = redacted_repr


_PROLOGUE, _EPILOGUE = np.uint32(2**32 - 1), np.uint32(2**32 - 2)
"""The numbers that are folded into a key for what takes place once. Rounds fold in smaller ones."""


def phase_keys(key: Array | None, recipe: Recipe) -> PhaseValues:
    """The keys of all parts of a run; None where it has no key.

    Those of its noise are made of its `derive_recipe_key`, and those of its public structure of the
    public key. Those of the first T rounds do not depend on the capacity.
    """
    if key is None:
        return PhaseValues(None, None, None)
    numbers = np.arange(recipe.capacity, dtype=np.uint32)
    every = jnp.asarray(np.concatenate([numbers, [_PROLOGUE, _EPILOGUE]]))
    children = jax.vmap(lambda number: jax.random.fold_in(key, number))(every)
    epilogue = jax.random.fold_in(children[-1], jnp.asarray(recipe.rounds).astype(jnp.uint32))
    return PhaseValues(children[-2], children[: recipe.capacity], epilogue)


# The steps.


class Context(NamedTuple):
    """What is public when a part of a run begins.

    Attributes:
        public: what is public in the part, with a cap of 1; of a prologue without a release.
        bound: f32[], an upper bound on |score| for every possible row.
    """

    public: Public
    bound: Any


def after_prologue(recipe: Recipe, prologue: Release) -> tuple[Public, Array, Any]:
    """What is public in all rounds after the prologue, where scores start, and the optimizer.

    The score that every row starts from is f32[], or f32[K] with several classes. The optimizer's
    state is a list of that before the first round, and None without one.
    """
    learner, params = recipe.learner, recipe.params
    public = pricing.after_prologue(learner, params, recipe.public(prologue))
    start = public.start
    if learner.traits.optimizer is None:
        return public, start, None

    zeros = {
        s.site: jnp.zeros_like(s.output) for s in pricing.draw_specs_of_phase(recipe, "rounds")
    }
    first = round_context(recipe, public, jnp.float32(0), public.round).public
    like = jax.eval_shape(lambda: _hypothesis_of_release(learner, zeros, params, first))

    def init(params: types.Params, like: types.Hypothesis) -> Any:
        assert learner.traits.optimizer is not None
        return jax.tree.map(jnp.asarray, learner.traits.optimizer(params).init(like))

    state = trace_of_public("the optimizer", init, params, jax.tree.map(jnp.zeros_like, like))
    return public, start, [state]


def _hypothesis_of_release(
    learner: types.WeakLearner, release: Release, params: types.Params, public: Public
) -> types.Hypothesis:
    """The hypothesis of a release, from what is public alone."""
    return trace_of_public("the hypothesis", learner.hypothesis, release, params, public)


def round_context(
    recipe: Recipe, public: Public, bound: Array, number: Array, structure: Any = None
) -> Context:
    """What is public when a round begins: its structure, which follows from no row, is made.

    It is not made if it is given.
    """
    public = public._replace(round=number)
    if structure is None:
        structure = pricing.round_structure(recipe.learner, recipe.params, public)
    return Context(public._replace(structure=structure), bound)


def assign_leaves(recipe: Recipe, structure: Any, rows: Prepared) -> Prepared:
    """The rows with what the structure of a round says of each, if one parts them."""
    partition = recipe.learner.hypotheses.partition
    if partition is None or rows.leaf is not None:
        return rows
    return rows._replace(leaf=trace_apart(partition.place, structure, rows))


def predict_rows(recipe: Recipe, hypothesis: types.Hypothesis, rows: Prepared) -> Array:
    """What a hypothesis adds to the score of each row; of the rows nothing is kept."""
    return trace_apart(recipe.learner.hypotheses.predict, hypothesis, rows)


MAX_TURN_BYTES = 2**28
"""The most memory for what all structures that come again say of the rows."""


def num_cached_structures(recipe: Recipe, rows: int) -> int:
    """How many structures come again in later rounds and are worked out once; 0 for none."""
    partition = recipe.learner.hypotheses.partition
    count = 0 if partition is None else partition.cycle
    return count if count < recipe.capacity and 2 * count * rows <= MAX_TURN_BYTES else 0


def weigh_rows(
    part: str, recipe: Recipe, rows: Prepared, scores: Array, context: Context
) -> tuple[Array, Array]:
    """What a program reads of the rows besides their content, and the public bound on it.

    It is f32[N] weights or f32[K, N] residuals, in units of bound / GRID; of an epilogue it is the
    scores, whose bound does not count. A weight update does not know the round, because rounds
    that share a pass are weighed once.
    """
    if part == "epilogue":
        return scores, context.public.cap
    update = types.uniform if part == "prologue" else recipe.weight_update
    public = context.public._replace(round=np.int32(0), structure=None)
    weighted = pricing.weigh_rows(update, scores, context.bound, rows, public)
    return weights_on_grid(weighted.weight, rows, update.response), weighted.cap


def program_view(
    part: str, recipe: Recipe, rows: Prepared, weighed: tuple[Array, Array], context: Context
) -> View:
    """What the program of a part reads, with what the structure of a round says of each row."""
    weights, cap = weighed
    if part == "rounds":
        rows = assign_leaves(recipe, context.public.structure, rows)
    return View(rows, weights, recipe.params, context.public._replace(cap=cap))


# What follows from no row: a program runs on one absent row in place of them.


def absent_row(table: BlockTable) -> Table:
    """One absent row of the kind of the table's."""
    room = table.new_absent_rows(1)
    return Table(
        jnp.asarray(room.bins.T),
        jnp.asarray(room.target),
        jnp.asarray(room.present),
        jax.tree.map(jnp.asarray, table.splits),
        None if room.weight is None else jnp.asarray(room.weight),
        None if table.target is None else jnp.asarray(kinds.target_fingerprint(table.target)),
        None if table.rows_per_user is None else types.RowsPerUser(table.rows_per_user),
        domains.as_declared_domain(table.domain),
    )


def draw_specs(
    part: str, recipe: Recipe, dummy: Table, context: Context, release: Release
) -> dict[str, DrawSpec]:
    """What the draws of a part ask for, after the draws that `release` has; traceable."""
    read = _view_of_absent_row(part, recipe, dummy, context)
    asked = boundary.describe(pricing.program_of_phase(recipe.learner, part), read, release)
    boundary.check_as_priced(asked, pricing.priced_draws(recipe, part))
    return asked


def first_round_draw_specs(recipe: Recipe, table: Table) -> tuple[Context, dict[str, DrawSpec]]:
    """A round after a prologue of zeros, and what its draws ask for; traceable."""
    once = (
        () if recipe.learner.prologue is None else pricing.draw_specs_of_phase(recipe, "prologue")
    )
    public, *_ = after_prologue(recipe, {spec.site: jnp.zeros_like(spec.output) for spec in once})
    context = round_context(recipe, public, jnp.float32(0), jnp.int32(0))
    return context, draw_specs("rounds", recipe, table, context, {})


def public_draws(part: str, recipe: Recipe, dummy: Table, context: Context, key: Array) -> Release:
    """The public randomness of a part; traceable."""
    read = _view_of_absent_row(part, recipe, dummy, context)
    return boundary.public_draws(pricing.program_of_phase(recipe.learner, part), key, read)


def _view_of_absent_row(part: str, recipe: Recipe, dummy: Table, context: Context) -> View:
    """What a part of a run reads of one absent row."""
    rows = recipe.learner.hypotheses.prepare(dummy)
    shape = *recipe.learner.hypotheses.response.axes, *rows.present.shape
    scores = jnp.zeros(shape, jnp.float32)
    return program_view(
        part, recipe, rows, weigh_rows(part, recipe, rows, scores, context), context
    )


# What follows from a release.


def hypothesis_and_bound_of_round(
    recipe: Recipe, release: Release, public: Public, state: Any
) -> tuple[types.Hypothesis, Array, Any]:
    """The hypothesis of a round, the bound on what it adds to a score, and the optimizer's state.

    The state is as `after_prologue` gives it; with None the hypothesis is that of the release.
    """
    learner = recipe.learner
    hypothesis = _hypothesis_of_release(learner, release, recipe.params, public)
    if state is not None:

        def update(params: types.Params, hypothesis: types.Hypothesis, *state: Any) -> Any:
            assert learner.traits.optimizer is not None  # as `after_prologue` says
            return learner.traits.optimizer(params).update(hypothesis, *state)

        hypothesis, *state = trace_of_public(
            "the optimizer", update, recipe.params, hypothesis, *state
        )
    bound = trace_of_public("the bound of hypotheses", learner.hypotheses.bound, hypothesis)
    return hypothesis, bound, state


def model_hypotheses(
    recipe: Recipe, public: Public, hypotheses: types.Hypotheses, slope: Array
) -> types.Hypotheses:
    """The hypotheses of the model, from those of all rounds."""
    kind, last = recipe.learner.hypotheses, jnp.asarray(recipe.rounds, jnp.int32)
    if kind.merged is not None:
        told = hypotheses, recipe.params, public._replace(round=last)
        hypotheses = trace_of_public("the merger of hypotheses", kind.merged, *told)
    if recipe.learner.epilogue is not None:
        assert kind.scaled is not None  # as `boundary.weak_learner` says
        hypotheses = trace_of_public("the scaling of hypotheses", kind.scaled, hypotheses, slope)
    return hypotheses


def score_line(recipe: Recipe, prologue: Release, epilogue: Release) -> tuple[Array, Array]:
    """(f32[] slope, intercept): scores become intercept + slope (score - start).

    The intercept is f32[], or f32[K] with several classes.
    """
    _, start, _ = after_prologue(recipe, prologue)
    if recipe.learner.epilogue is None:
        return jnp.float32(1), start
    line, told = recipe.learner.epilogue.line, (epilogue, recipe.params, start)
    slope, intercept = trace_of_public("the line of an epilogue", line, *told)
    return jnp.asarray(slope, jnp.float32), jnp.asarray(intercept, jnp.float32)


def mask_beyond_rows(present: Array, recipe: Recipe) -> Array:
    """bool[N]: the first `rows` of the present rows, in order.

    The noise was set for `rows` rows. Beyond that bound, a row more or less moves at most one other
    row out or in. So a larger table costs what two rows cost: 2 epsilon, or 4 rho.
    """
    rank = jnp.cumsum(present.astype(jnp.int32))
    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))


def prepare_table(table: Table, recipe: Recipe) -> Prepared:
    """The table laid out for the loops, with the rows that count.

    Raises:
        ValueError: as `check_run`; and if the hypotheses leave weights of rows out.
    """
    check_run(table, recipe)
    prepared = trace_apart(recipe.learner.hypotheses.prepare, table)
    if table.weight is not None and getattr(prepared, "weight", None) is None:
        raise ValueError("rows have weights, and prepare leaves them out: lay out `weight`")
    return prepared._replace(present=mask_beyond_rows(prepared.present, recipe))


class FittedParts(NamedTuple):
    """What follows from a run, and is in its model.

    Attributes:
        transcript: without the sites that the learner withholds, which may be of many rows.
        hypotheses: after the epilogue, with a leading axis for rounds.
        intercept: where every score starts.
    """

    transcript: Transcript
    hypotheses: types.Hypotheses
    intercept: Array


def fitted_parts(
    releases: Iterable[Release], hypotheses: types.Hypotheses, intercept: Array, recipe: Recipe
) -> FittedParts:
    """What is in the model of a run, by the releases of its three parts."""
    withheld = recipe.learner.traits.withheld
    prologue, rounds, epilogue = (
        {site: array for site, array in release.items() if site not in withheld}
        for release in releases
    )
    return FittedParts(Transcript(prologue, rounds, epilogue), hypotheses, intercept)
