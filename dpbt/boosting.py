"""Boosting: each round re-weights the rows, learns a hypothesis, and adds it to the scores.

The only state between rounds is what has been released. `boost` and `replay` are pure and
traceable: vmap them over keys, `present` masks and recipes. `fit` checks its input on the host,
pads it to one of few shapes (`shapes`), then runs `boost` under jit.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt import compiling, shapes
from dpbt.base import (
    NUMBER,
    Array,
    Hypotheses,
    Prepared,
    Public,
    Recipe,
    Release,
    Table,
    Transcript,
    View,
    WeakLearner,
)
from dpbt.checks import (
    check,
    check_run,
    check_transcript,
    on_device,
    refuse_sample_weight,
)
from dpbt.privacy import boundary, keys, pricing
from dpbt.privacy.mechanism import StepLoss
from dpbt.public import without_values
from dpbt.release.model import Model
from dpbt.rounds import (
    after_rounds,
    before_rounds,
    line_of,
    prepared_table,
    run_rounds,
    scaled,
    start_of,
)
from dpbt.validate import flag


def own_key(key: Array, recipe: Recipe) -> Array:
    """The key of a recipe's noise: a function of the key, of every budget number and of the parts.

    So one key gives independent noise to two recipes that differ in any scale, share, learner or
    declared target.
    If they shared their noise at two scales, their two releases would reveal the private statistic.
    Rounds and capacity are left out, because the first T rounds do not depend on how many follow.
    The epilogue does, so its own key also depends on the number of rounds.

    Args:
        key: a typed key.
        recipe: one setting; its budget may be traced.
    """
    learner = recipe.learner
    once = [part.tag for part in (learner.prologue, learner.epilogue) if part is not None]
    target = [] if recipe.target is None else [repr(recipe.target)]
    tag = keys.text_words(" | ".join([learner.tag, recipe.reweighter.tag, *once, *target]))
    numbers = (recipe.budget, recipe.reweighting, recipe.rows)
    return keys.fold_words(key, jnp.concatenate([jnp.asarray(tag), *_bits_of(numbers)]))


def _bits_of(numbers: Any) -> list[Array]:
    """u32[K] of K numbers in all: the bits of the leaves of a budget, in their order."""
    leaves = [jnp.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(numbers)]
    for leaf in leaves:
        if leaf.dtype not in (jnp.float32, jnp.int32, jnp.uint32):
            raise ValueError(
                "a budget holds numbers of 32 bits, so that none is lost in the key; "
                f"got {leaf.dtype}"
            )
    return [
        jax.lax.bitcast_convert_type(jnp.concatenate([*of_one_type]), jnp.uint32)
        for _, of_one_type in itertools.groupby(leaves, lambda leaf: leaf.dtype)
    ]


def round_keys(key: Array, capacity: int) -> Array:
    """A key for each round; the first T do not depend on the capacity."""
    return _children(key, np.arange(capacity, dtype=np.uint32))


def _children(key: Array, numbers: np.ndarray) -> Array:
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.asarray(numbers))


class RunKeys(NamedTuple):
    """The keys of a run.

    Attributes:
        opening: of the prologue.
        rounds: of each round, as `round_keys` makes them.
        closing: of the epilogue.
    """

    opening: Array
    rounds: Array
    closing: Array

    __repr__ = without_values


def _run_keys(key: Array, recipe: Recipe) -> RunKeys:
    """The keys of a run from one key, with a single place that folds in the numbers of parts."""
    numbers = np.arange(recipe.capacity, dtype=np.uint32)
    children = _children(key, np.concatenate([numbers, [_PROLOGUE, _EPILOGUE]]))
    closing = jax.random.fold_in(children[-1], jnp.asarray(recipe.rounds).astype(jnp.uint32))
    return RunKeys(children[-2], children[: recipe.capacity], closing)


def noise_keys(key: Array, recipe: Recipe) -> RunKeys:
    """The keys of the noise of a run, from the key that `boost` takes."""
    return _run_keys(own_key(key, recipe), recipe)


def structure_keys(public_key: Array | None, recipe: Recipe) -> RunKeys | None:
    """The keys of the public structure of a run, from the public key that `boost` takes."""
    return None if public_key is None else _run_keys(public_key, recipe)


class Boosted(NamedTuple):
    """What `boost` returns; its `model` predicts other rows.

    Attributes:
        transcript: all that left the private side, with the sites that the learner withholds from a
            model.
        hypotheses: what follows from it, such as trees, with a leading axis for rounds. They are
            those of the model, after the epilogue.
        scores: f32[N], or f32[K, N] with several classes, of every row, absent ones too (such as a
            test fold): the model applied to private rows. They are for evaluation and are not part
            of the release.
    """

    transcript: Transcript
    hypotheses: Hypotheses
    scores: Array

    __repr__ = without_values

    def model(self, table: Table, recipe: Recipe) -> Model:
        """The model, which predicts other rows. It is pure, so it can be jitted and vmapped.

        Args:
            table: as `boost` was given it; its public questions are kept.
            recipe: as `boost` was given it.
        """
        _, intercept = line_of(recipe, self.transcript.prologue, self.transcript.epilogue)
        return Model(
            self.hypotheses,
            intercept,
            without_withheld(self.transcript, recipe.learner),
            recipe,
            table.questions,
            features=table.cells.shape[1],
            dtype=str(table.cells.dtype),
        )


class Replayed(NamedTuple):
    """What `replay` returns.

    Attributes:
        log_prob: site -> f32[T], exact log densities given all earlier releases; f32[] for a site
            of the prologue or of the epilogue.
        hypotheses: what follows from the transcript alone.
    """

    log_prob: dict[str, Array]
    hypotheses: Hypotheses


_PROLOGUE, _EPILOGUE = np.uint32(2**32 - 1), np.uint32(2**32 - 2)
"""The numbers that are folded into a key for what takes place once. Rounds fold in smaller ones."""


def boost(key: Array, table: Table, recipe: Recipe, public_key: Array | None = None) -> Boosted:
    """Run T rounds of a recipe. The first T rounds are the same whatever the recipe's capacity.

    The guarantee is that of `ledger(recipe)`, for tables of at most `rows` rows. Of a larger table
    only the first `rows` present rows count (`admitted`). The key is a secret of the release. Use
    it on one table only. On two tables it makes the same noise, even if one is an update of the
    other. The same rows under another domain, with other weights or with exchanged classes are
    another table.

    Args:
        key: a typed key; see `keys`. Recipes that differ in any number have independent noise
            under it (`own_key`).
        table: N rows.
        recipe: one setting (no leading axes).
        public_key: of public structure, such as a random tree's questions; needed if the learner
            draws any. It must be independent of `key`, because what it draws is published.

    Raises:
        ValueError: for public structure without a public key, and as `prepared_table`.
    """
    prepared, learner = prepared_table(table, recipe), recipe.learner
    noise = noise_keys(key, recipe)
    structure = structure_keys(public_key, recipe)

    # The prologue.
    prologue: Release = {}
    if learner.prologue is not None:
        drawing = noise.opening, None if structure is None else structure.opening
        prologue = boundary.sample(
            learner.prologue.program, *drawing, before_rounds(prepared, recipe)
        )

    # The rounds.
    def learn(
        entry: Any, tables: Sequence[Prepared], weights: list[Array], public: Public
    ) -> tuple[Release, Release]:
        noise_key, structure_key = entry
        view = View(tables[0], weights[0], recipe.budget, public)
        release = boundary.sample(learner.program, noise_key, structure_key, view)
        return release, release

    entries = noise.rounds, None if structure is None else structure.rounds
    (scores,), rounds, hypotheses = run_rounds(recipe, prologue, [prepared], learn, entries)

    # The epilogue.
    epilogue: Release = {}
    if learner.epilogue is not None:
        drawing = noise.closing, None if structure is None else structure.closing
        read = after_rounds(prepared, scores, recipe, prologue)
        epilogue = boundary.sample(learner.epilogue.program, *drawing, read)
    transcript = Transcript(prologue, rounds, epilogue)
    check_transcript(transcript)

    # The line that it maps all scores by.
    if learner.epilogue is not None:
        slope, intercept = line_of(recipe, prologue, epilogue)
        start = start_of(recipe, prologue)
        scores = intercept[..., None] + slope * (scores - start[..., None])
        hypotheses = scaled(recipe, hypotheses, slope)
    return Boosted(transcript, hypotheses, scores)


def key_pairs(key: Array, public_key: Array | None, recipe: Recipe) -> tuple[Array, Array | None]:
    """The keys of the noise and of the public structure, one of each for every round."""
    public = None if public_key is None else round_keys(public_key, recipe.capacity)
    return round_keys(own_key(key, recipe), recipe.capacity), public


def replay(transcript: Transcript, table: Table, recipe: Recipe) -> Replayed:
    """Score a recorded transcript on a table, and rebuild the model from it.

    Args:
        transcript: as `boost` returns it.
        table: any table with the same questions: the recorded one, or a neighbour.
        recipe: the recipe.

    Raises:
        ValueError: for what is no transcript, and as `prepared_table`.
    """
    check_transcript(transcript)
    prepared, learner = prepared_table(table, recipe), recipe.learner

    prologue, recorded, epilogue = transcript
    log_prob: dict[str, Array] = {}
    if learner.prologue is not None:
        read = before_rounds(prepared, recipe)
        log_prob |= boundary.log_prob(learner.prologue.program, prologue, read)

    def judge(
        release: Release, tables: Sequence[Prepared], weights: list[Array], public: Public
    ) -> tuple[Release, Any]:
        view = View(tables[0], weights[0], recipe.budget, public)
        judged = boundary.log_prob(learner.program, release, view)
        return release, judged

    (scores,), judged, hypotheses = run_rounds(recipe, prologue, [prepared], judge, recorded)
    log_prob |= judged

    if learner.epilogue is not None:
        read = after_rounds(prepared, scores, recipe, prologue)
        log_prob |= boundary.log_prob(learner.epilogue.program, epilogue, read)
    slope, _ = line_of(recipe, prologue, epilogue)
    return Replayed(log_prob, scaled(recipe, hypotheses, slope))


def hypotheses_of(transcript: Transcript, nobody: Table, recipe: Recipe) -> Hypotheses:
    """The hypotheses that follow from a transcript alone, as `replay` has them.

    Args:
        transcript: as `boost` returns it.
        nobody: as `without_rows` makes it of the recorded table; no row is read.
        recipe: the recipe.

    Raises:
        ValueError: as `replay`.
    """
    check_transcript(transcript)
    prologue, recorded, epilogue = transcript

    def as_recorded(
        release: Release, tables: Sequence[Prepared], weights: list[Array], public: Public
    ) -> tuple[Release, None]:
        del tables, weights, public
        return release, None

    rows = [prepared_table(nobody, recipe)]
    _, _, hypotheses = run_rounds(recipe, prologue, rows, as_recorded, recorded)
    slope, _ = line_of(recipe, prologue, epilogue)
    return scaled(recipe, hypotheses, slope)


def without_rows(table: Table) -> Table:
    """A table of one absent row of zeros, with the public questions of a table."""

    def one(array: Any) -> Array:
        return jnp.zeros((1, *np.shape(array)[1:]), array.dtype)

    weight = None if table.weight is None else one(table.weight)
    cells, target, present = (one(array) for array in table[:3])
    return table._replace(cells=cells, target=target, present=present, weight=weight)


def transcript_log_prob(transcript: Transcript, table: Table, recipe: Recipe) -> dict[str, Array]:
    """Site -> f32[T]: exact log density of each round's release on a table, given all earlier ones.

    A site of the prologue or of the epilogue has f32[].
    """
    return replay(transcript, table, recipe).log_prob


def step_divergences(
    transcript: Transcript, table: Table, neighbour: Table, recipe: Recipe
) -> dict[str, StepLoss]:
    """Site -> StepLoss of f32[T]: the worst case of each draw over all its outputs, between tables.

    Everything released before the draw is as recorded. The draw itself takes the output that tells
    the two tables apart best. By adaptive composition the sum over sites and rounds bounds any
    transcript's loss. A site of the prologue or of the epilogue has a StepLoss of f32[].

    Args:
        transcript: as `boost` returns it.
        table: a table.
        neighbour: another of the same shape.
        recipe: the recipe.

    Raises:
        ValueError: as `replay`.
    """
    check_transcript(transcript)
    tables = [prepared_table(each, recipe) for each in (table, neighbour)]
    learner = recipe.learner

    prologue, recorded, epilogue = transcript
    losses: dict[str, StepLoss] = {}
    if learner.prologue is not None:
        views = (before_rounds(table, recipe) for table in tables)
        losses |= boundary.divergence(learner.prologue.program, prologue, *views)

    def compare(
        release: Release, tables: Sequence[Prepared], weights: list[Array], public: Public
    ) -> tuple[Release, Any]:
        views = (View(*own, recipe.budget, public) for own in zip(tables, weights, strict=True))
        return release, boundary.divergence(learner.program, release, *views)

    scores, in_rounds, _ = run_rounds(recipe, prologue, tables, compare, recorded)
    losses |= in_rounds

    if learner.epilogue is not None:
        pairs = zip(tables, scores, strict=True)
        views = (after_rounds(*own, recipe, prologue) for own in pairs)
        losses |= boundary.divergence(learner.epilogue.program, epilogue, *views)
    return losses


_Run = tuple[Transcript, Hypotheses, Array]
"""(transcript, hypotheses, intercept) of `boost`: all that a model reads."""


def _run(key: Array, table: Table, recipe: Recipe, public_key: Array | None) -> _Run:
    """`boost` and its intercept in one program."""
    transcript, hypotheses, _ = boost(key, table, recipe, public_key)
    _, intercept = line_of(recipe, transcript.prologue, transcript.epilogue)
    return transcript, hypotheses, intercept


_boost, _line_of = jax.jit(_run), jax.jit(line_of)
_boost_sooner = jax.jit(_run, compiler_options=compiling.OLDER_EMITTER)


def without_withheld(
    transcript: Transcript, learner: WeakLearner, unseen: Collection[str] = ()
) -> Transcript:
    """The transcript without the sites that the learner withholds.

    Args:
        transcript: of a run.
        learner: of its recipe.
        unseen: sites that the learner drew and that the transcript does not have.

    Raises:
        ValueError: if the learner withholds a site that it does not draw.
    """
    sites = {site for release in transcript for site in release} | set(unseen)
    if unknown := set(learner.withheld) - sites:
        raise ValueError(f"the learner withholds {sorted(unknown)}, its sites are {sorted(sites)}")

    def kept(release: Release) -> Release:
        return {site: array for site, array in release.items() if site not in learner.withheld}

    return Transcript(*(kept(release) for release in transcript))


def fit(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    sample_weight: Any = None,
    keep_withheld: bool = False,
) -> Model:
    """Learn an ensemble: a function of noisy releases alone, with the guarantee of its ledger.

    Args:
        key: one typed key, a secret: whoever has it can subtract the noise. `keys.fresh_key()`
            makes one for a release. A key of a seed is for research, and a warning says so once.
            Use it on one table only.
        table: from `dpbt.table`: cells u8[N, F], present bool[N], and target bool[N], or u8[N] or
            f32[N] as its declared target says, which must be the recipe's. At most the recipe's
            `rows` rows may be present. Under replace-one `rows` is their public number,
            and N must be at least `rows`.
        recipe: one setting.
        public_key: one typed key that is independent of `key`, if the recipe draws public
            structure.
        sample_weight: refused; `dpbt.table` takes it, with its public bound.
        keep_withheld: leave the sites that the learner withholds in `Model.releases`, for `replay`
            and audits. The site "part" of disjoint forests is i32[T, N]: its length is the private
            number of rows. Publish such a model only if the places of the rows are public.

    Raises:
        ValueError: if any of these does not hold. Of what is private only the number of present
            rows is refused (`check`). No cell and no length of the table is shown.
    """
    refuse_sample_weight(sample_weight)
    model = learn(key, table, recipe, public_key, keep_withheld=keep_withheld)
    keys.warn_of_research(key)
    return model


def learn(
    key: Array,
    table: Table,
    recipe: Recipe,
    public_key: Array | None = None,
    *,
    keep_withheld: bool = False,
) -> Model:
    """`fit` without its warning of a research key, for callers that warn in their own words.

    Args: as `fit`.

    Raises:
        ValueError: as `fit`.
    """
    flag("keep_withheld", keep_withheld)
    check_run(table, recipe)
    table = on_device(table)
    check(key, table, recipe, public_key)

    room = dataclasses.replace(recipe, capacity=shapes.bucket(recipe.capacity))
    run = _compiled_for(padded := shapes.padded(table), room)
    transcript, hypotheses, intercept = run(key, padded, room, public_key)
    kind = keys.kind(key)
    return model_of(hypotheses, transcript, recipe, table, keep_withheld, kind, intercept)


def _compiled_for(table: Table, recipe: Recipe) -> Callable[..., _Run]:
    """The program that runs a recipe on a table, compiled sooner where the run is short.

    Only oblivious and random trees are compiled sooner, and 1-rules on weights of their own row.
    Their releases are the same, bit for bit, as they are draws from exact sums. Those of a number
    are not, as the start and the unit that follow from its histogram round in another way. So do
    scores of greedy trees, and programs of LazyBB take longer to compile. The choice follows from
    what is public.
    """
    device = next(iter(table.cells.devices()))
    short = compiling.is_short(int(recipe.rows), recipe.capacity)
    learner = recipe.learner
    exact = pricing.in_one_pass(recipe)
    same_bits = exact and learner.hypotheses.response != NUMBER
    sooner = short and same_bits and compiling.may_choose(device.platform)
    return _boost_sooner if sooner else _boost


def model_of(
    hypotheses: Hypotheses,
    transcript: Transcript,
    recipe: Recipe,
    table: Table,
    keep_withheld: bool,
    key: str | None = None,
    intercept: Array | None = None,
) -> Model:
    """The model of a run on a padded table, with room for more rounds than the recipe has.

    Of the table it keeps the public questions and the kind of its rows; of the key, its kind. An
    intercept of None is computed from the transcript.
    """
    rows = table.cells.shape[0]
    found = intercept
    if found is None:
        _, found = _line_of(recipe, transcript.prologue, transcript.epilogue)

    def of_rows(release: Release, axis: int) -> Release:
        """The release. Arrays of withheld sites lose the places of padded rows on the axis."""
        padded = shapes.row_bucket(rows)
        return {
            site: jnp.take(array, jnp.arange(rows), axis=axis)
            if site in recipe.learner.withheld and array.shape[axis : axis + 1] == (padded,)
            else array
            for site, array in release.items()
        }

    rounds = shapes.first(of_rows(transcript.rounds, 1), recipe.capacity)
    opening, closing = (of_rows(once, 0) for once in (transcript.prologue, transcript.epilogue))
    transcript = Transcript(opening, rounds, closing)
    if not keep_withheld:
        transcript = without_withheld(transcript, recipe.learner)
    return Model(
        shapes.first(hypotheses, recipe.capacity),
        found,
        transcript,
        recipe,
        table.questions,
        features=table.cells.shape[1],
        dtype=str(table.cells.dtype),
        key=key,
    )
