"""The privacy boundary: one private program, read in three ways.

A weak learner is written once, as a program that asks for its random draws:

    def program(draw, table, weights, budget):
        statistic = ...                                            # reads private rows
        output = draw("leaf", mechanisms.laplace, statistic, scale)  # the only way out

`weak_learner` runs it with a `draw` that samples (the release), with one that looks the outputs up in a
recorded release and scores them (the exact log density), and twice side by side (the worst case over outputs).
So an audit exercises the very code that ran. What the program returns is ignored.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from dpbt.base import Array, HypothesisClass, Mechanism, Relation, Release, StepLoss, Table, WeakLearner, Weights

Draw = Callable[[str, Mechanism, Array, Any], Array]
Program = Callable[[Draw, Table, Weights, Any], None]


class Site(NamedTuple):
    """What one draw saw: its mechanism, its private value and its scale."""

    mechanism: Mechanism
    value: Array
    scale: Array


def site_key(key: Array, site: str) -> Array:
    """The key of the draw called `site`: it depends on the round's key and on the name alone."""
    return jax.random.fold_in(key, zlib.crc32(site.encode()) & 0x7FFFFFFF)


def sample(program: Program, key: Array, table: Table, weights: Weights, budget) -> Release:
    """Run the program with fresh draws; the release holds every one of them by name."""
    outputs: Release = {}

    def draw(site: str, mechanism: Mechanism, value: Array, scale) -> Array:
        if site in outputs:
            raise ValueError(f"two draws are called {site!r}")
        outputs[site] = mechanism.sample(site_key(key, site), value, scale)
        return outputs[site]

    program(draw, table, weights, budget)
    return outputs


def replay(program: Program, release: Release, table: Table, weights: Weights, budget) -> dict[str, Site]:
    """Run the program on recorded outputs; returns what each draw saw on this table.

    Raises:
        ValueError: if the recorded release and the program do not have the same sites.
    """
    sites: dict[str, Site] = {}

    def draw(site: str, mechanism: Mechanism, value: Array, scale) -> Array:
        if site not in release:
            raise ValueError(f"the release has no site {site!r}; it has {sorted(release)}")
        sites[site] = Site(mechanism, value, scale)
        return release[site]

    program(draw, table, weights, budget)
    if set(sites) != set(release):
        raise ValueError(f"the release has sites {sorted(release)}, the program draws {sorted(sites)}")
    return sites


def weak_learner(
    program: Program,
    hypothesis: Callable[..., Any],
    events: Callable[..., list],
    hypotheses: HypothesisClass,
    relation: Relation | None,
    *,
    slick: bool = False,
    unprotected: tuple[str, ...] = (),
    withheld: tuple[str, ...] = (),
) -> WeakLearner:
    """The weak learner of a private program.

    Args:
        program: (draw, table, weights, budget); every output of a private statistic goes through `draw`.
        hypothesis: (release, budget, unit) -> a hypothesis; sees no private data.
        events: (budget) -> one `accounting.Event` for each site.
        hypotheses: the class of the hypotheses; `trees.TREES`, or one of your own.
        relation: the neighbouring relation that the events' sensitivities hold under; None if under both.
        slick: whether they hold for weights that all move at once, as `slickness` says. If not, no recipe lets the
            learner have `reweighting.lazy_bregman`'s.
        unprotected: what the program reads off private data without a mechanism and lets influence a draw in
            a way its sensitivities do not count; empty for a calibration that is proved.
        withheld: sites that `fit` leaves out of the model, because their length is the number of
            private rows, for example.
    """

    def release(key, table, weights, budget):
        return sample(program, key, table, weights, budget)

    def log_prob(release, table, weights, budget):
        sites = replay(program, release, table, weights, budget)
        return {name: s.mechanism.log_prob(release[name], s.value, s.scale).sum() for name, s in sites.items()}

    def divergence(release, budget, table, weights, other_table, other_weights):
        mine = replay(program, release, table, weights, budget)
        other = replay(program, release, other_table, other_weights, budget)
        steps = {}
        for name, site in mine.items():
            pair = (site.value, site.scale, other[name].value, other[name].scale)
            steps[name] = StepLoss(site.mechanism.divergence(*pair), site.mechanism.rho(*pair))
        return steps

    return WeakLearner(
        release,
        log_prob,
        divergence,
        hypothesis,
        hypotheses,
        events,
        relation,
        slick,
        unprotected,
        withheld=withheld,
    )
