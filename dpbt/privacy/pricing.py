"""Pricing: the ledger of a recipe, as its own programs describe their draws."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import (
    Array,
    Params,
    Program,
    Public,
    Recipe,
    Table,
    View,
    WeakLearner,
    WeightUpdate,
    uniform,
)
from dpbt.privacy import accounting, boundary, keys, mechanisms, tracing
from dpbt.privacy.boundary import DrawSpec
from dpbt.privacy.draws import group_of
from dpbt.privacy.mechanism import ROUNDING, Numbers
from dpbt.privacy.tracing import Stages


@jax.enable_x64(False)  # so it is the same wherever it is asked for, and prices what runs
def ledger(recipe: Recipe, key: Array | None = None) -> accounting.Ledger:
    """The ledger of one setting: what each draw costs over all rounds, and the total.

    The lines are what the programs ask for on one absent row. Draws of a round count T times, and
    those of a prologue and of an epilogue once.

    Args:
        recipe: one setting.
        key: the key of a release; the ledger then names its kind.

    Raises:
        ValueError: for anything else than a recipe of one setting and a whole number of rounds.
            Also for a draw whose price follows from rows or from what was released
            (`tracing.check_prices`), and for one beyond the range of its sampler.
    """
    kind = None if key is None else keys.kind(key)
    rounds, delta = _checked(recipe)
    numbers = recipe.params.noise, recipe.max_rows_per_user
    lines: dict[str, list[accounting.Line]] = {}
    for part in recipe.learner.parts:
        specs, times = drawn(recipe, part), rounds if part == "rounds" else 1
        lines[part] = [
            line_of(specs[ask.site], *numbers, times=times) for ask in sites(recipe, part)
        ]
    boundary.check_sites(**{part: [line.site for line in own] for part, own in lines.items()})
    return accounting.Ledger(
        recipe.relation,
        tuple(itertools.chain.from_iterable(lines.values())),
        delta,
        recipe.learner.traits.unprotected,
        kind,
        int(recipe.rows),
        recipe.max_rows_per_user,
    )


_BELOW = 1 + 2.0**-50
"""Takes the roundings of float64 from a price; `ROUNDING` leaves more than that."""


def line_of(
    spec: DrawSpec, noise: Mapping[str, Any], max_rows_per_user: int = 1, *, times: int = 1
) -> accounting.Line:
    """The line of a draw, for all rows of one person.

    Args:
        spec: the draw.
        noise: the multipliers that it runs with.
        max_rows_per_user: the most rows that one person has.
        times: how often the draw takes place.

    Raises:
        ValueError: for a scale beyond the range of the draw's sampler.
    """
    ask, sensitivity = spec.request, spec.sensitivity
    if not ask.mechanism.price.reads_rows:
        words = ask.releases, 0.0, float(ask.scale or 0), ask.theorem
        return accounting.line_of(ask.site, ask.mechanism, *words, times=times)
    if np.size(sensitivity) != 1 or np.size(spec.own_scale) != 1:
        raise _no_number(ask.site)
    if ask.own_scale:
        scale = spec.own_scale
        if ask.scale is None or ask.at_most is None:  # float32 may round one of them
            scale = scale / ROUNDING
    else:
        multiplier = _multiplier(noise, ask.site)
        scale = sensitivity * multiplier / ROUNDING * _BELOW
    most = ask.mechanism.price.most
    if not scale <= most:
        raise ValueError(
            f"the draw {ask.site!r} must have a scale of at most {most:g}, beyond which nothing is "
            f"proved of its sampler, got {scale:g}"
        )
    words = ask.releases, float(sensitivity), float(scale), ask.theorem
    counts = {"pays": ask.pays, "times": times, "moved": ask.moves, "unit": ask.unit}
    return accounting.line_of(ask.site, ask.mechanism, *words, people=max_rows_per_user, **counts)


def _checked(recipe: Recipe) -> tuple[int, float]:
    """(rounds, delta) of one setting.

    Raises:
        ValueError: naming the one that is out of its range, or for anything else than a recipe of
            one setting.
    """
    if not isinstance(recipe, Recipe):
        raise ValueError(f"a ledger needs a recipe or a model, got {type(recipe).__name__}")
    if np.ndim(recipe.rows) > 0:
        raise ValueError(
            "a ledger is of one setting; choose one with recipes.setting(recipe, index)"
        )
    rounds, delta = np.asarray(recipe.rounds), float(recipe.delta)
    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:
        raise ValueError(
            f"rounds must be a whole number in 1..{recipe.capacity}, got {rounds.tolist()}"
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    return int(rounds), delta


def drawn(recipe: Recipe, part: str, bound: float = 0.0) -> Mapping[str, DrawSpec]:
    """The draws that a part of a run asks for on a table of one row, by site.

    Args:
        recipe: one setting.
        part: "prologue", "rounds" or "epilogue".
        bound: on the scores that the weights follow from.

    Raises:
        ValueError: as `ledger`.
    """
    _read(recipe, part)
    described = _described(recipe.learner, part, recipe.weight_update)
    return described(recipe.params, recipe.public(), np.float32(bound))


def sites(recipe: Recipe, part: str) -> tuple[boundary.Request, ...]:
    """The draws of a part of a run, without numbers that are traced; they follow from no number.

    Raises:
        ValueError: as `ledger`.
    """
    return _read(recipe, part).sites


def scales(recipe: Recipe) -> Iterator[tuple[str, float, np.ndarray]]:
    """(site, largest scale of its sampler, scale f64[...]) of each draw that reads rows.

    Where a sampler takes every scale, the multiplier of the sensitivity stands for the scale.

    Args:
        recipe: with any axes of settings.
    """
    shape = np.shape(recipe.rows)
    flat = jax.tree.map(lambda leaf: np.reshape(leaf, -1), recipe)
    single = jax.tree.map(lambda leaf: leaf[0], flat)
    for part in recipe.learner.parts:
        for ask in sites(single, part):
            if not ask.mechanism.price.reads_rows:
                continue
            most = ask.mechanism.price.most
            scale = ask.scale
            if not ask.own_scale:
                scale = _multiplier(recipe.params.noise, ask.site)
                if ask.at_most is not None:
                    scale = scale * ask.at_most
            if scale is None or (ask.at_most is None and np.isfinite(most)):
                scale = _evaluated(flat, part, ask.site).reshape(shape)
            yield ask.site, most, np.asarray(scale, np.float64)


def _multiplier(noise: Mapping[str, Any], site: str) -> np.ndarray:
    """f64[...]: the multiplier of a site."""
    return np.asarray(noise[group_of(site, noise)], np.float64)


@jax.enable_x64(False)
def _evaluated(flat: Recipe, part: str, site: str) -> np.ndarray:
    """f64[G]: the scale of a draw in each of G settings, where its program works it out."""
    settings = len(flat.rows)
    room = 2 ** (settings - 1).bit_length()  # few shapes, so that few programs are compiled
    places = np.minimum(np.arange(room), settings - 1)
    padded = jax.tree.map(lambda leaf: leaf[places], flat)
    found = _scales_of(flat.learner, part, flat.weight_update)
    of_sites = found(padded.params, padded.rows, padded.weighting)
    if np.ndim(of_sites[site]) != 1:
        raise _no_number(site)
    return np.asarray(of_sites[site], np.float64)[:settings]


def _no_number(site: str) -> ValueError:
    return ValueError(f"the sensitivity and the scale of the draw {site!r} must be numbers")


@functools.cache
def _described(
    learner: WeakLearner, part: str, weight_update: WeightUpdate
) -> Callable[[Params, Public, Numbers], Mapping[str, DrawSpec]]:
    """(budget, public, bound) -> the draws that a part asks for; compiled once."""

    def on_a_row(params: Params, public: Public, bound: Numbers) -> Mapping[str, DrawSpec]:
        view = _row(learner, part, weight_update, params, public, bound)
        return boundary.describe(program_of(learner, part), view)

    return jax.jit(on_a_row)


@functools.cache
def _scales_of(
    learner: WeakLearner, part: str, weight_update: WeightUpdate
) -> Callable[[Params, Array, Any], dict[str, Array]]:
    """(budgets, rows, numbers of the weight update) of G settings -> f32[G] scales, by site."""
    described = _described(learner, part, weight_update)

    def of_one(params: Params, rows: Array, weighting: Any) -> dict[str, Array]:
        public = Public(rows, np.float32(1), weighting, {})
        specs = described(params, public, np.float32(0))
        return {site: spec.scale for site, spec in specs.items()}

    return jax.jit(jax.vmap(of_one))


def program_of(learner: WeakLearner, part: str) -> Program:
    """The program of a part of a run that the learner has."""
    return (learner if part == "rounds" else getattr(learner, part)).program


_PRIVATE = ("cells", "target", "present", "weight")
"""The fields of a table that are of its rows."""


def _row(
    learner: WeakLearner,
    part: str,
    weight_update: WeightUpdate,
    params: Params,
    public: Public,
    bound: Numbers,
    private: Mapping[str, Array] | None = None,
) -> View:
    """What a part of a run reads of one row; `private` has what the row holds."""
    # What follows a prologue reads its release; zeros stand for it here.
    if learner.prologue is not None and part != "prologue":
        specs = _described(learner, "prologue", weight_update)(params, public, np.float32(0))
        zeros = {site: jnp.zeros(spec.shape, spec.dtype) for site, spec in specs.items()}
        public = public._replace(prologue=zeros)

    # Weights on the one row.
    weigher = weight_update if part == "rounds" else uniform
    table: Table = learner.hypotheses.example()
    prepared = learner.hypotheses.prepare(table._replace(**(private or {})))
    axes = weigher.response.axes
    score = jnp.zeros((*axes, prepared.present.shape[0]), jnp.float32)
    weighted = weigher.weigh(score, bound, prepared, public)
    return View(prepared, weighted.weight, params, public._replace(cap=weighted.cap))


class _Read(NamedTuple):
    """What is read off a traced program.

    Attributes:
        sites: its draws, without numbers that are traced.
        stages: as `tracing.stages`, or why there are none.
    """

    sites: tuple[boundary.Request, ...]
    stages: Stages | str


_READ: dict[tuple[WeakLearner, str, WeightUpdate], _Read] = {}
"""What was read, by the static parts of recipes, from which alone it follows."""


@jax.enable_x64(False)
def _read(recipe: Recipe, part: str) -> _Read:
    """What is read off the program of a part of a run, once for the static parts of recipes.

    Raises:
        ValueError: as `tracing.check_prices`, and for a mechanism of the user's own that has the
            name of one of the library's, or that claims never to read the rows.
    """
    learner = recipe.learner
    key = learner, part, recipe.weight_update
    if key not in _READ:
        table = learner.hypotheses.example()
        fields = {name: getattr(table, name) for name in _PRIVATE}
        known = {name: array for name, array in fields.items() if array is not None}
        # All numbers are traced, because what is read counts for other recipes, too.
        numbers = recipe.params, recipe.public(), np.float32(0)

        def make(private: Any, params: Params, public: Public, bound: Numbers) -> View:
            rows, weights = private
            return _row(*key, params, public, bound, rows)._replace(weights=weights)

        weights = jax.eval_shape(functools.partial(_row, *key), *numbers).weights
        found = tracing.follows(program_of(learner, part), make, (known, weights), numbers)
        tracing.check_prices(found, protected=not learner.traits.unprotected)
        for each in found:
            _check_mechanism(each.ask)
        try:
            stages: Stages | str = tracing.stages(found)
        except ValueError as error:
            stages = str(error)
        _READ[key] = _Read(tuple(boundary.static(each.ask) for each in found), stages)
    return _READ[key]


def _check_mechanism(ask: boundary.Request) -> None:
    """Refuse a mechanism of the user's own that a ledger would take for another one, or for free.

    Raises:
        ValueError: as `_read`.
    """
    own = ask.mechanism
    library = mechanisms.BY_NAME.get(own.name)
    if library is not None and library is not own:
        raise ValueError(
            f"the draw {ask.site!r} is by a mechanism of your own that is called {own.name!r}; "
            "give it a name of its own"
        )
    if library is None and not own.price.reads_rows:
        raise ValueError(
            f"the draw {ask.site!r} is by a mechanism of your own that costs nothing; only the "
            "library's uniform draws are free"
        )


def stages(recipe: Recipe, part: str) -> Stages:
    """Which draws of a part of a run one pass over a table in parts can serve (`tracing.stages`).

    Raises:
        ValueError: for a part that reads all rows at once.
    """
    found = _read(recipe, part).stages
    if isinstance(found, str):
        raise ValueError(found)
    return found


def check_in_parts(recipe: Recipe) -> None:
    """Refuse a recipe whose table cannot be read in parts.

    Raises:
        ValueError: saying which draw reads all rows at once.
    """
    if recipe.weight_update.coupled:
        raise ValueError(f"{recipe.weight_update.tag} makes weights that depend on all rows")
    for part in recipe.learner.parts:
        found = stages(recipe, part)
        if part != "rounds" and len(found) > 1:
            raise ValueError(f"the {part} has sums that follow from its own draws: {found}")


def in_one_pass(recipe: Recipe) -> bool:
    """Whether a table could be read in parts, with one pass for each round."""
    try:
        check_in_parts(recipe)
    except ValueError:
        return False
    return len(stages(recipe, "rounds")) == 1
