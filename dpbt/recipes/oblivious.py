"""Boosting with oblivious trees over public splits, and a rule that sets all of its numbers."""

from __future__ import annotations  # so that help() shows ArrayLike by its name

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses
from dpbt.common import types
from dpbt.common.types import relation as to_relation
from dpbt.common.validate import floats, shown, whole, within
from dpbt.data import domains, kinds
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Target
from dpbt.learners.oblivious_splits import MAX_DEPTH, Attribute, Config
from dpbt.learners.oblivious_tree import SCORES_SITE, TARGET_SITE, Params, oblivious_tree
from dpbt.privacy import conversions, mechanisms
from dpbt.recipes.building import Request, build, checked_request, zeros_or_shares
from dpbt.weighting import MirrorNumbers, ResidualNumbers, clipped_mirror, residuals

MAX_SEED = 2**24
"""Seeds are whole numbers below this, which float32 holds."""


def attributes_of(domain: Domain) -> tuple[Attribute, ...]:
    """What trees may ask of each column of a domain.

    Raises:
        ValueError: as `domains.check`.
    """
    domains.check(domain)
    return tuple(
        Attribute(column.n_bins, not isinstance(column, Nominal) or column.ordered)
        for column in domain.values()
    )


def oblivious_boost(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    rounds: ArrayLike = 64,
    depth: int = 6,
    attributes_per_tree: Sequence[int] = (1, 2, 3),
    step: ArrayLike | Callable[[int], ArrayLike] = 0.2,
    limit: ArrayLike = 0.6,
    clip: ArrayLike | None = None,
    marginals_fraction: ArrayLike = 0.0,
    target_fraction: ArrayLike = 0.1,
    target_bins: int = 32,
    scores_fraction: ArrayLike = 0.0,
    curvature: ArrayLike | None = None,
    smoothing: float = 0.1,
    structures: int = 0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> types.Recipe:
    """Boosted oblivious trees over public splits, with one noisy draw a tree.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP, under `relation`, with the lines of
    `dpbt.ledger`. A round releases the signed sums of the clipped weights in each leaf; with
    several classes, or a number, the sums of the clipped residuals. All of its splits are
    public. With a delta every draw is a rounded Gaussian, and GDP composes them
    exactly. `auto` sets all numbers from public quantities.

    Arguments of type ArrayLike may be arrays. They broadcast to settings, and none of their values
    causes a recompile.

    Args:
        epsilon: the total budget, above 0. Infinite means no privacy.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number.
        domain: the public domain of the table.
        delta: 0 for a pure guarantee, with discrete Laplace noise; else in (0, 1).
        rounds: T, the number of trees.
        depth: D, the number of splits of a tree, in 1..10.
        attributes_per_tree: how many attributes a tree asks. The trees take these numbers in turn.
        step: s, how far a leaf moves scores if its sum is as large as its noise, in nats, or in
            spreads of a number. Or a schedule of the round, from 0, such as any `optax.Schedule`.
            It is evaluated here, once a round, and each number of rounds has its own program.
        limit: v, the furthest that a leaf moves a score, in nats or in spreads.
        clip: c. No row has a larger weight than c, in (0, 1]; by default 0.3. With several classes
            the L2 norm of a row's residuals is at most sqrt(2) c. With pure epsilon their L1 norm
            is at most 2 c. For two classes these are the same. The residual of a number is at most
            c spreads, by default 0.5, and that of a count 1. The larger residual of a quantile
            counts as c spreads.
        marginals_fraction: the share of the budget (of epsilon, or of mu^2) for class histograms of
            all attributes before the first tree, in [0, 1). All settings have them or none does.
        target_fraction: the share of the budget for the histogram of a number, in (0, 1). It says
            where scores start, and the spread in units of which residuals are clipped.
        target_bins: how many bins of equal width that histogram has. Fewer bins stand out of more
            noise, and more bins tell a number of small spread in a wide range.
        scores_fraction: the share of the budget for the final scores by class, after the last tree,
            in [0, 1). They make probabilities true. All settings have them or none does.
        curvature: h, how much a leaf's estimated share of the rows adds to its denominator, which
            makes the step a Newton step where noise is small. For classes it is 0.05 by default,
            and counts with histograms only. For a number it is 6 s by default (6 times the first
            step of a schedule), so that without noise a leaf moves half as far as the mean of its
            residuals.
        smoothing: the weight of a leaf's neighbours in its sum, in [0, 1).
        structures: after how many trees their splits repeat; 0 for never. The model has one tree
            for each, so fewer of them make it smaller and faster.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: for names of columns 1 if scores must not fall as the column rises, or -1 if they
            must not rise. It costs nothing. A bin for missing values counts as the largest. It is
            not for several classes, nor for columns without an order.
        seed: of the public splits, a whole number in 0..2^24 - 1. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.

    Raises:
        ValueError: for a value outside these ranges, named with what was given.
    """
    # Check the arguments; numbers are in ranges that float32 holds.
    common = epsilon, delta, rows, rounds, "tight", relation, max_rows_per_user
    beside: dict[str, Any] = {
        "limit": limit,
        "clip": clip,
        "marginals_fraction": marginals_fraction,
        "target_fraction": target_fraction,
        "scores_fraction": scores_fraction,
        "curvature": curvature,
        "seed": seed,
        **({} if callable(step) else {"step": step}),
    }
    request = checked_request(*common, max_rows=types.MAX_ROWS_IN_BLOCKS, beside=beside)
    target = kinds.with_objective(target, objective, quantile)
    response = kinds.response_of(target)
    number = response.is_number
    steps = [step(k) for k in range(int(np.max(request.rounds)))] if callable(step) else [step]
    steps, limit = [within("step", s, _POSITIVE) for s in steps], within("limit", limit, _POSITIVE)
    if curvature is None:
        curvature = 6 * steps[0] if number else 0.05
    curvature = within("curvature", curvature, "[0, 1e30]")
    seed = within("seed", seed, f"[0, {MAX_SEED - 1}]", whole=True)

    # Put the parts together.
    counts = within("attributes_per_tree", attributes_per_tree, f"[1, {MAX_DEPTH}]", whole=True)
    smooth = within("smoothing", smoothing, "[0, 1)")
    if smooth.ndim:
        raise ValueError(f"smoothing must be one number, got {shown(smoothing)}")
    repeat = int(within("structures", structures, f"[0, {types.MAX_ROWS}]", whole=True))
    trees = whole("depth", depth, MAX_DEPTH), tuple(map(int, counts.flat)), float(smooth), repeat
    once = Once(marginals_fraction, target_fraction, target_bins, scores_fraction, clip)
    known = number or bool(np.any(floats("marginals_fraction", marginals_fraction) > 0))
    moves = tuple(steps) if callable(step) else steps[0]
    numbers = Params({}, moves, limit, curvature * known, seed)  # of known rows of a leaf

    parts = "sums", oblivious_tree, numbers
    described = "oblivious_boost", f"{trees[0]} splits a tree"
    return assembled(request, domain, target, monotone, once, trees, parts, described)


_POSITIVE = "[1e-30, 1e30]"


class Once(NamedTuple):
    """What learners over the bins of a domain draw once, and the clip of their weights.

    Attributes:
        marginals_fraction, target_fraction, target_bins, scores_fraction, clip: as
            `oblivious_boost`.
    """

    marginals_fraction: ArrayLike
    target_fraction: ArrayLike
    target_bins: int
    scores_fraction: ArrayLike
    clip: ArrayLike | None


def assembled(
    request: Request,
    domain: Domain,
    target: Target | None,
    monotone: Mapping[str, int] | None,
    once: Once,
    trees: tuple[int, tuple[int, ...], float, int],
    parts: tuple[str, Callable[[Config], types.WeakLearner], types.Params],
    described: tuple[str, str],
) -> types.Recipe:
    """The recipe of a learner over the bins of a domain, with clipped weights.

    Args:
        request: the checked arguments.
        domain: as `oblivious_boost`.
        target: as `oblivious_boost`.
        monotone: as `oblivious_boost`.
        once: what is drawn once.
        trees: depth, attributes_per_tree, smoothing and structures of `oblivious_splits.Config`.
        parts: the site of the rounds, the learner of a config, and its numbers without noise.
        described: name and setting.

    Raises:
        ValueError: as `oblivious_boost`.
    """
    # Share the budget.
    (site, learner, numbers), response = parts, kinds.response_of(target)
    number = response.is_number
    marginals = zeros_or_shares("marginals_fraction", once.marginals_fraction)
    scores = zeros_or_shares("scores_fraction", once.scores_fraction)
    shares = {site: 1 - marginals - scores, "histogram": marginals, SCORES_SITE: scores}
    if number and np.any(scores > 0):
        raise ValueError("scores by class need classes: a number has no scores_fraction")
    if number:
        shares[TARGET_SITE] = within("target_fraction", once.target_fraction, "(0, 1)")
        shares[site] = shares[site] - shares[TARGET_SITE]
    total = 1 - np.min(shares[site])
    if total >= 1:
        raise ValueError(f"all fractions must add up to less than 1, got {total:g}")

    # The learner.
    directions = _directions(domain, monotone)
    if directions and response.axes:
        raise ValueError("monotone constraints need one score, and several classes have one each")
    bins = within("target_bins", once.target_bins, f"[2, {types.MAX_BINS}]", whole=True)
    noise = mechanisms.rounded_gaussian if request.approximate else mechanisms.discrete_laplace
    depth, counts, smooth, structures = trees
    drawn = bool(np.any(marginals > 0)), bool(np.any(scores > 0)), smooth
    more = request.relation, noise, response, directions, int(bins)
    config = Config(attributes_of(domain), depth, counts, *drawn, *more, structures)

    # The weights.
    usual = _clip_of(response) if number else 0.3
    clip = within("clip", usual if once.clip is None else once.clip, _POSITIVE)
    if not number:
        within("clip", clip, "(0, 1]")
    if response == types.BINARY:
        update, weighting = clipped_mirror(losses.log), MirrorNumbers(np.ones(()), clip)
    else:
        update = residuals(response, noise.price.norm)
        norm = 1 if number else 2 if noise.price.norm == "l1" else math.sqrt(2)
        weighting = ResidualNumbers(clip * norm)
    name, setting = described
    return build(
        request,
        learner(config),
        update,
        weighting,
        fractions={site: share for site, share in shares.items() if np.any(share > 0)},
        params=lambda noise, _: numbers._replace(noise=dict(noise)),
        name=name,
        setting=setting,
        target=target,
        domain=domains.declare(domain),
    )


def _clip_of(response: types.Response) -> float:
    """By default, the largest residual of a number in spreads.

    Of a quantile it is the Newton step where numbers follow a logistic law, whose density at level
    q is q (1 - q) pi / sqrt(3) in a spread.
    """
    if response.objective == "quantile":
        q = response.level
        return max(q, 1 - q) * math.sqrt(3) / (math.pi * q * (1 - q))
    return 0.5 if response.objective == "squared" else 1.0


def _directions(domain: Domain, monotone: Mapping[str, int] | None) -> tuple[int, ...]:
    """The direction of each column of the domain; none if there are no constraints.

    Raises:
        ValueError: naming a column that is not in the domain or has no order, or a direction.
    """
    given = {} if monotone is None else monotone
    asked = zip(domain, attributes_of(domain), strict=True)
    ordered = [name for name, attribute in asked if attribute.ordered]
    if not isinstance(given, Mapping) or not all(
        name in ordered and direction in (-1, 0, 1) for name, direction in given.items()
    ):
        raise ValueError(f"monotone must map columns that have an order, of {ordered}, to 1 or -1")
    found = tuple(int(given.get(name, 0)) for name in domain)
    return found if any(found) else ()


_MIXES = (2, 3, 4)
"""How many attributes the trees of `auto` ask, in turn."""

_DEEP = 10
"""How many splits the trees of `auto` have where noise is small; else they have 6."""

_SCORES = 0.03
"""The share of the budget that `auto` spends on scores by class."""

_TARGET = (0.03, 0.2)
"""The least and the largest share of the budget for the histogram of a number."""


class Rule(NamedTuple):
    """The numbers that `auto` chooses; see `oblivious_boost`."""

    rounds: int
    step: float
    limit: float
    depth: int
    structures: int
    attributes_per_tree: tuple[int, ...]
    marginals_fraction: float
    scores_fraction: float
    target_fraction: float
    target_bins: int


def rule(
    epsilon: float,
    rows: float,
    attributes: int,
    delta: float = 0.0,
    relation: types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
    response: types.Response = types.BINARY,
) -> Rule:
    """The numbers of oblivious trees, from public quantities alone.

    What decides is the strength of the signal: n eps for Laplace noise, n mu for Gaussian noise. A
    replaced row is two rows, so both are halved under replace-one.

    - *Rounds.* The noise of a score is that of one tree, whatever T is, as long as noise dominates
      each leaf. More trees average over more partitions, so T grows with the signal. Laplace noise
      grows with T where Gaussian noise grows with its root, so pure recipes have fewer trees.
    - *Step.* The noise of a score has variance T step^2, so step falls with the root of T.
    - *Histograms.* They say where rows are, give scores a start and leaves a denominator. They pay
      where their noise, F / (n eps) or sqrt(F) / (n mu), is small.
    - *Depth.* Where rows are many for the noise, and histograms put splits at their quantiles,
      trees of 10 splits see more than trees of 6. On twelve data sets AUROC is 0.003 to 0.006
      higher from epsilon = 0.5 on. Their 256 structures are used in turn, so that a model stays
      small. Several classes and numbers keep 6: firmteacher, of 16 Boolean columns and 4 classes,
      loses 0.15 of AUROC to deeper trees, and wine-white 0.03 of R^2.
    - *Scores by class.* Three hundredths of the budget make probabilities true. That costs about
      0.001 of AUROC.
    - *Several classes.* A row's residuals are shared by K scores, so steps are two thirds of those
      above, and pure recipes have (2 / K)^0.42 times as many trees.
    - *Numbers.* Squared error counts the noise of a score, where ranking only counts its order. So
      steps are a quarter to a third of those above. The histogram of the number gets what it needs
      to stand out, from 3 to 20 hundredths of the budget.

    Args:
        epsilon: above 0.
        rows: m.
        attributes: F, the number of columns.
        delta: 0, or in (0, 1).
        relation: the neighbouring relation.
        max_rows_per_user: k; the signal is k times smaller.
        response: what is predicted.
    """
    moved = (2 if to_relation(relation) is types.REPLACE_ONE else 1) * max_rows_per_user
    number = response.is_number
    scores = 0.0 if number else _SCORES
    if np.isinf(epsilon):
        two = response == types.BINARY
        sizes = (_DEEP, 0, (3, 4, 5, 6)) if two else (6, 0, _MIXES)
        rounds = 1536 if two else 1024
        return Rule(rounds, 0.1, 0.2, *sizes, 0.1, scores, _TARGET[0], 64)

    if delta > 0:
        signal = rows * float(conversions.gdp_mu(epsilon, delta)) / moved
        rounds = int(np.clip(round(64 * (signal / 8.9) ** 0.42), 8, 1024))
        step = (0.3 if number else 1.3 if response == types.BINARY else 0.9) / math.sqrt(rounds)
        histograms, power = math.sqrt(attributes) / signal < 0.016, 2
    else:
        signal = rows * epsilon / moved
        rounds = int(np.clip(round(64 / 11 * (signal / 43) ** 0.42), 4, 128))
        if response.classes > 2:
            rounds = int(np.clip(round(rounds * (2 / response.classes) ** 0.42), 4, 128))
        step = (0.5 if number else 1.6 if response == types.BINARY else 0.9) / math.sqrt(rounds)
        histograms, power = attributes / signal < 0.008, 1

    deep = histograms and response == types.BINARY and signal >= (1200 if delta > 0 else 10_000)
    sizes = (_DEEP, 256, _MIXES) if deep else (6, 0, _MIXES)

    # Rows of a number stand 60 times above the noise of a bin, within bounds. Bins are a power of 2
    # near three times the root of that ratio.
    target, bins = 0.1, 32
    if number:
        target = float(np.clip((60 / signal) ** power, *_TARGET))
        ratio = signal * math.sqrt(target) if delta > 0 else signal * target / math.sqrt(2)
        bins = int(np.clip(2 ** round(math.log2(3 * math.sqrt(ratio))), 8, 64))
    share = 0.1 if histograms else 0.0
    return Rule(rounds, step, min(4 * step, 0.6), *sizes, share, scores, target, bins)


def auto(
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    domain: Domain,
    delta: ArrayLike = 0.0,
    target: Target | None = None,
    objective: str | None = None,
    quantile: float | None = None,
    monotone: Mapping[str, int] | None = None,
    seed: ArrayLike = 0,
    relation: str | types.Relation = types.ADD_REMOVE,
    max_rows_per_user: int = 1,
) -> types.Recipe:
    """The most accurate recipe known, with every number set from public quantities.

    Guarantee: as `oblivious_boost`. Nothing is tuned, so nothing else is released. `rule` has the
    choices and their reasons.

    Arguments of type ArrayLike may be arrays. They broadcast to settings with room for the most
    rounds of any of them, if the rule has histograms for all of them or for none.

    Args:
        epsilon: the total budget, above 0.
        rows: m. Under add/remove a public bound on the number of rows, under replace-one their
            public number. A bound of twice the truth costs little.
        domain: the public domain of the table. Numbers are best cut into many bins, such as
            `bins=64`, because finer splits cost nothing here.
        delta: 0 for a pure guarantee; else in (0, 1), and best far below 1 / rows. It buys much
            less noise.
        target: what is predicted: `domains.Nominal` for several classes, `domains.Numeric` for a
            number in a declared range, None for two classes. Give `dpbt.table` the same.
        objective: of a number: "squared" by default, "poisson" for a count, or "quantile".
        quantile: the level of a quantile, in [0.01, 0.99].
        monotone: as `oblivious_boost`.
        seed: of the public splits. It is not a secret.
        relation: "add_remove" or "replace_one".
        max_rows_per_user: the most rows of one person: a limit if the table has ids of users, else
            the owner's promise. The guarantee is for all rows of a person together.

    Raises:
        ValueError: for a value outside these ranges, named with what was given. Also for settings
            whose programs would differ.
    """
    domains.check(domain)
    target = kinds.with_objective(target, objective, quantile)
    response = kinds.response_of(target)
    asked = epsilon, delta, rows, 1, "tight", relation, max_rows_per_user
    request = checked_request(*asked, max_rows=types.MAX_ROWS_IN_BLOCKS, beside={"seed": seed})
    common: dict[str, Any] = {"domain": domain, "target": target, "monotone": monotone}
    shared = ("epsilon", "rows", "delta", "relation", "max_rows_per_user")
    common |= {name: getattr(request, name) for name in shared}
    return oblivious_boost(**common, seed=seed, **rules(request, domain, response))


def rules(request: Request, domain: Domain, response: types.Response) -> dict[str, Any]:
    """What `rule` says of every setting, as arrays with their axes.

    Raises:
        ValueError: for settings whose programs would differ.
    """
    settings = np.broadcast(request.epsilon, request.rows, request.delta)
    common = request.relation, request.max_rows_per_user, response
    chosen = [rule(float(e), float(m), len(domain), float(d), *common) for e, m, d in settings]

    # What is static is one for all settings; the rest has their axes.
    static = {(each.marginals_fraction > 0, each.depth, each.target_bins) for each in chosen}
    if len(static) > 1:
        given = shown(request.epsilon)
        raise ValueError(f"no program serves all of these: make a recipe for each of {given}")
    arrays = {
        name: np.reshape([getattr(each, name) for each in chosen], settings.shape)
        for name in ("rounds", "step", "limit", "marginals_fraction", "target_fraction")
    }
    return {**chosen[0]._asdict(), **arrays}
