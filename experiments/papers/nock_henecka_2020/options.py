"""The readings of Nock & Henecka (2020): what its text leaves open, as options with names.

A `Reading` has a field for each open choice. `READINGS` names those that have been measured, and
`boosted` is the recipe of one, so that the name of a reading can be an axis of a sweep. A name is
part of the key of a fit, so it must stay what it is. `reading_product` makes the readings of a grid
of choices, with a name for each.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpbt import losses, recipes
from dpbt.data.domains import Numeric
from dpbt.learners.trees.leaf_values import default_tree_settings_with_alpha_one
from dpbt.privacy import mechanisms
from dpbt.privacy.mechanism_types import Allowance, divide_rounding_up
from dpbt.recipes import custom
from dpbt.types import Recipe
from dpbt.weighting import MirrorNumbers, mirror
from experiments.common import data
from experiments.papers.nock_henecka_2020 import unprotected_trees

Option = Literal["first", "second", "tight"]
StepBound = Literal["public", "tree", "observed"]
LeafScale = Literal["2M", "M", "2M/m", "1/m on q"]
LeafDivisor = Literal["T 2^D", "T", "1"]
Clamp = Literal["before and after", "after", "before, to the link"]
Cuts = Literal["declared", "data", "quantiles"]
SplitDivisor = Literal["T d 2^depth", "T d", "T", "1"]
SplitBound = Literal["Theorem 3", "1"]
CalibratedBy = Literal["level", "own leaf", "tree so far"]
Weights = Literal["sum", "steps"]

PAPER_CLIP = 10.0
"""The M of every reading with noise."""

ALMOST_NOISELESS = 9e5
"""The budget of the library's splits that have hardly any noise."""

FINEST = 2.0**-24
"""The grid of beta_t, over its largest value."""

MAX_SCALE_IN_STEPS = 2.0**31
"""The largest scale of a leaf's noise, in steps of its grid."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read what the paper's text leaves open; the defaults are section 6's words.

    Attributes:
        words: what it does, for tables.
        option: how beta_t is protected. By "first" it is folded into the leaves before the noise,
            and by "second" it is computed from the private rows on the noisy tree, which protects
            nothing. "tight" is the library's own calibration.
        noisy_splits: whether splits have noise; if not, every node takes the best one.
        noisy_leaves: whether leaves have noise.
        leaf_scale: the scale of a leaf's noise times the leaf's budget. M is `clip`, and m is the
            number of rows. By "1/m on q" a leaf's share of class 1 has the noise, before the link.
        leaf_divisor: what (1 - beta_tree) epsilon is divided by for one leaf.
        clamp: when leaf values are clamped to [-M, M], with regard to the noise. By "before, to the
            link" they are clamped to the link at 1 - zeta alone, and never to M.
        clip: M; None for the link at 1 - zeta.
        step_bound: the M of the step a = alpha / M^2: the public `clip`, the largest value of the
            tree whose beta_t it is ("tree"), or the largest link before the noise ("observed").
        cuts: how numeric columns are cut: evenly in the declared range, evenly between the smallest
            and the largest number of the data, or at quantiles of the data. Only the first is
            public.
        split_divisor: what beta_tree epsilon is divided by for one split (17).
        split_bound: Delta* of equation (15).
        calibrated_by: whose errors alpha of equation (16) follows from: those of the tree before
            the level, those of the leaf alone, or those of the tree before the split.
        weights: by equation (13), from the sum of all trees ("sum"), or in steps from the link of
            the last weight. The link of the weight 1/2 is then 2 (1 - alpha).

    The last four have other values than the usual ones in `simulation` alone.

    Raises:
        ValueError: for a value that is not one of a choice, and for choices that no program has.
    """

    words: str = ""
    option: Option = "first"
    noisy_splits: bool = True
    noisy_leaves: bool = True
    leaf_scale: LeafScale = "2M"
    leaf_divisor: LeafDivisor = "T 2^D"
    clamp: Clamp = "before and after"
    clip: float | None = PAPER_CLIP
    step_bound: StepBound = "public"
    cuts: Cuts = "declared"
    split_divisor: SplitDivisor = "T d 2^depth"
    split_bound: SplitBound = "Theorem 3"
    calibrated_by: CalibratedBy = "level"
    weights: Weights = "sum"

    def __post_init__(self) -> None:
        for field, choice in CHOICES.items():
            if getattr(self, field) not in get_args(choice):
                names = ", ".join(get_args(choice))
                raise ValueError(f"{field} must be one of {names}, got {getattr(self, field)!r}")
        by_library = self.option != "second" and not self.is_noise_on_shares
        if by_library and not (self.noisy_leaves and self.clamp == "before and after"):
            raise ValueError(f"leaves of option {self.option!r} have noise, and are clamped twice")
        if by_library and self.clip is None:
            raise ValueError(f"option {self.option!r} has a number for its clip")
        usual = self.leaf_scale == "2M" and self.leaf_divisor == "T 2^D"
        if self.option == "tight" and not usual:
            raise ValueError("the tight option has a leaf noise of its own")

    @property
    def has_noise(self) -> bool:
        """Whether anything has noise."""
        return self.noisy_splits or self.noisy_leaves

    @property
    def is_noise_on_shares(self) -> bool:
        """Whether a leaf's share of class 1 has the noise, and not its link."""
        return self.leaf_scale == "1/m on q"

    @property
    def is_simulated_only(self) -> bool:
        """Whether `simulation` alone has it."""
        usual = ("T d 2^depth", "Theorem 3", "level", "sum")
        return usual != (self.split_divisor, self.split_bound, self.calibrated_by, self.weights)


CHOICES: dict[str, Any] = {
    "option": Option,
    "leaf_scale": LeafScale,
    "leaf_divisor": LeafDivisor,
    "clamp": Clamp,
    "step_bound": StepBound,
    "cuts": Cuts,
    "split_divisor": SplitDivisor,
    "split_bound": SplitBound,
    "calibrated_by": CalibratedBy,
    "weights": Weights,
}
"""The fields of `Reading` that are one of a few words."""

PRINTED = "printed"
"""The reading whose fits are the published ones of `run`."""

NOISE_READINGS = {
    PRINTED: Reading(words="beta_t is folded into the leaves before the noise"),
    "second option": Reading(
        words="beta_t from the private rows on the noisy tree", option="second"
    ),
    "clamped after": Reading(
        words="second option; links up to 100 get noise for [-M, M], and are clamped afterwards "
        "(17.2)",
        option="second",
        clamp="after",
    ),
    "leaf budgets whole": Reading(
        words="second option; each leaf of a tree has the tree's whole budget for leaves",
        option="second",
        leaf_divisor="T",
    ),
    "both": Reading(
        words="second option; clamped after, and leaf budgets whole",
        option="second",
        clamp="after",
        leaf_divisor="T",
    ),
    "splits without noise": Reading(
        words="second option; the best split of every node", option="second", noisy_splits=False
    ),
    "leaves without noise": Reading(
        words="second option; exact leaves", option="second", noisy_leaves=False
    ),
    "no noise": Reading(
        words="no privacy", option="second", noisy_splits=False, noisy_leaves=False
    ),
}
"""Readings of where noise is, and of how much of it."""

NO_NOISE = Reading(option="second", noisy_splits=False, noisy_leaves=False)
STEP_READINGS = {
    "first, public": Reading(),
    "first, observed": Reading(step_bound="observed"),
    "first, observed, best splits": Reading(step_bound="observed", noisy_splits=False),
    "second, public": Reading(option="second"),
    "second, tree": Reading(option="second", step_bound="tree"),
    "second, observed": Reading(option="second", step_bound="observed"),
    "second, public, best splits": Reading(option="second", noisy_splits=False),
    "tight, public": Reading(option="tight"),
    "tight, tree": Reading(option="tight", step_bound="tree"),
    "none, public: link": dataclasses.replace(NO_NOISE, clip=None),
    "none, tree": dataclasses.replace(NO_NOISE, clip=None, step_bound="tree"),
    "none, public: 10": NO_NOISE,
    "none, public: 10, not clamped": dataclasses.replace(NO_NOISE, clamp="before, to the link"),
}
"""Readings of the M of the step. A name starts with the option, or "none" if nothing has noise."""


def reading_product(**choices: Sequence[Any]) -> dict[str, Reading]:
    """Name -> reading, for each combination of the values of some fields of `Reading`.

    A name has every value, so that it is that of one reading alone.
    """
    readings = {}
    for values in itertools.product(*choices.values()):
        fields = dict(zip(choices, values, strict=True))
        name = "; ".join(f"{field} {value}" for field, value in fields.items())
        readings[name] = Reading(words=name, **fields)
    return readings


LEAF_READINGS = reading_product(
    option=("first", "second"),
    leaf_scale=get_args(LeafScale),
    leaf_divisor=get_args(LeafDivisor),
    cuts=get_args(Cuts),
)
"""Readings of the noise of a leaf, and of the cuts."""

_UNDIVIDED = Reading(option="second", leaf_scale="2M/m", leaf_divisor="1")
FURTHER_READINGS = {
    "2M, T 2^D; Delta* = 1": Reading(option="second", split_bound="1"),
    "2M, T 2^D; splits undivided, Delta* = 1": Reading(
        option="second", split_divisor="1", split_bound="1"
    ),
    "2M, 1; splits undivided, Delta* = 1": Reading(
        option="second", leaf_divisor="1", split_divisor="1", split_bound="1"
    ),
    "2M/m, 1; splits by T d": dataclasses.replace(_UNDIVIDED, split_divisor="T d"),
    "2M/m, 1; splits undivided": dataclasses.replace(_UNDIVIDED, split_divisor="1"),
    "2M/m, 1; Delta* = 1": dataclasses.replace(_UNDIVIDED, split_bound="1"),
    "2M/m, 1; alpha by the leaf": dataclasses.replace(_UNDIVIDED, calibrated_by="own leaf"),
    "2M/m, 1; alpha split by split": dataclasses.replace(_UNDIVIDED, calibrated_by="tree so far"),
    "2M/m, 1; weights in steps": dataclasses.replace(_UNDIVIDED, weights="steps"),
    "2M/m, 1; M of the tree": dataclasses.replace(_UNDIVIDED, step_bound="tree"),
    "2M/m, 1; clamped after": dataclasses.replace(_UNDIVIDED, clamp="after"),
}
"""One further choice each, beside a reading of the grid; `simulation` alone has most of them."""

READINGS = {**NOISE_READINGS, **STEP_READINGS, **LEAF_READINGS}
"""Name -> reading, of all that can be fitted."""


def boosted(*, reading: str, **setting: Any) -> Recipe:
    """The ensemble of a reading.

    Args:
        reading: its name.
        setting: the arguments of `recipe_of`.
    """
    return recipe_of(READINGS[reading], **setting)


def recipe_of(
    reading: Reading,
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    depth: int,
    alpha: ArrayLike | str,
    beta_tree: ArrayLike,
) -> Recipe:
    """Boosted trees under a reading. The cuts are those of the table.

    Guarantee: that of the ledger, which is infinite by the second option and with noise on shares.

    Args:
        reading: the open choices.
        epsilon: what the paper claims.
        rows: m.
        rounds: T.
        depth: D.
        alpha: "objective" for equation (16), or a number.
        beta_tree: the share of epsilon for splits.

    Raises:
        ValueError: for a reading that is simulated only.
    """
    if reading.is_simulated_only:
        raise ValueError("no recipe has this reading; `simulation` has it")
    setting: dict[str, Any] = {"epsilon": epsilon, "rows": rows, "rounds": rounds, "depth": depth}
    setting |= {"alpha": alpha, "beta_tree": beta_tree}
    if reading.option == "second" or reading.is_noise_on_shares:
        return _unprotected_recipe(reading, **setting)
    return _library_recipe(reading, **setting)


def _library_recipe(
    reading: Reading,
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    depth: int,
    alpha: ArrayLike | str,
    beta_tree: ArrayLike,
) -> Recipe:
    """`recipes.bdpe`, with the leaf noise of the reading."""
    assert reading.clip is not None
    splits = np.asarray(beta_tree) * epsilon if reading.noisy_splits else ALMOST_NOISELESS
    leaves = (1 - np.asarray(beta_tree)) * epsilon
    recipe = recipes.bdpe(
        epsilon=splits + leaves,
        rows=rows,
        rounds=rounds,
        depth=depth,
        alpha=alpha,
        beta_tree=splits / (splits + leaves),
        clip=reading.clip,
        step_clip=np.inf if reading.step_bound == "public" else reading.clip / 100,
        calibration="tight" if reading.option == "tight" else "published",
    )
    usual = Reading()
    if (reading.leaf_scale, reading.leaf_divisor) == (usual.leaf_scale, usual.leaf_divisor):
        return recipe

    # The published noise is that of the usual reading. Its grid follows from its scale.
    factor = leaf_noise_scale(reading, rows, reading.clip)
    factor /= leaf_noise_scale(usual, rows, reading.clip)
    factor *= leaf_budget_divisor(reading, rounds, depth)
    factor /= leaf_budget_divisor(usual, rounds, depth)
    noise = dict(recipe.params.noise)
    noise["leaf"] = np.asarray(noise["leaf"], np.float64) * factor
    params = recipe.learner.make_params(noise, recipe.public())
    rescaled = params._replace(
        settings=recipe.params.settings,
        noise={site: np.asarray(one, np.float32) for site, one in noise.items()},
        leaf_step=np.asarray(params.leaf_step, np.float32),
    )
    return dataclasses.replace(recipe, params=rescaled)


def link_bound(alpha: float) -> float:
    """The largest link of M-alpha, at 1 - zeta."""
    zeta = default_tree_settings_with_alpha_one(losses.m_alpha, 1).zeta
    return float(losses.m_alpha(alpha).link(1 - zeta))


def leaf_noise_scale(reading: Reading, rows: ArrayLike, clip: ArrayLike) -> Any:
    """The scale of a leaf's noise times the leaf's budget."""
    clip, rows = np.asarray(clip, np.float64), np.asarray(rows, np.float64)
    scales = {"2M": 2 * clip, "M": clip, "2M/m": 2 * clip / rows, "1/m on q": 1 / rows}
    return scales[reading.leaf_scale]


def leaf_budget_divisor(reading: Reading, rounds: ArrayLike, depth: int) -> Any:
    """What the budget of all leaves is divided by for one leaf."""
    rounds = np.asarray(rounds)
    divisors = {"T 2^D": rounds * 2.0**depth, "T": rounds, "1": np.ones(())}
    return divisors[reading.leaf_divisor]


def _unprotected_recipe(
    reading: Reading,
    *,
    epsilon: ArrayLike,
    rows: ArrayLike,
    rounds: ArrayLike,
    depth: int,
    alpha: ArrayLike | str,
    beta_tree: ArrayLike,
) -> Recipe:
    """Boosting with trees whose beta_t is read off the rows; its ledger is infinite.

    The weights are at most 1, as published. With objective calibration, link, weights and a have
    alpha = 1, as in `recipes.bdpe`. The least M of a step that is no public one is a hundredth of
    the clip, or a tenth where it is observed, because beta_t lies on a grid.
    """
    objective = isinstance(alpha, str)
    link_alpha = np.asarray(1.0 if objective else alpha, np.float64)
    epsilon, share = np.asarray(epsilon, np.float64), np.asarray(beta_tree, np.float64)
    rounds = np.asarray(rounds)
    usual = default_tree_settings_with_alpha_one(losses.m_alpha, depth)
    clip = reading.clip
    if clip is None:
        clip = float(losses.m_alpha(float(link_alpha)).link(1 - usual.zeta))
    clip = np.asarray(clip, np.float64)
    min_step_bounds = {"public": np.inf, "tree": clip / 100, "observed": clip / 10}

    # The shares of equation (17), and of one leaf.
    level_epsilon = share * epsilon / rounds / depth
    selection = mechanisms.exponential
    noisy_splits = {
        f"split_{level}": selection.noise_multiplier(
            Allowance(
                np.where(reading.noisy_splits, level_epsilon / 2.0**level, np.inf), np.zeros(())
            )
        )
        for level in range(depth)
    }
    leaf_epsilon = (1 - share) * epsilon / leaf_budget_divisor(reading, rounds, depth)
    leaf_scale = leaf_noise_scale(reading, rows, clip) / leaf_epsilon
    leaf_scale = np.where(reading.noisy_leaves, leaf_scale, 0.0)

    # Leaf values lie on a grid that is far finer than M and the noise; noise beyond int32 is
    # clamped anyway.
    is_clamped_before = reading.clamp == "before and after"
    widest = np.abs(np.asarray(losses.m_alpha(link_alpha).link(1 - usual.zeta), np.float64))
    max_value = np.where(is_clamped_before, np.minimum(clip, widest), widest)
    is_unclamped = reading.clamp == "before, to the link"
    final_clip = np.where(is_unclamped, np.maximum(clip, widest), clip)
    max_drawn = np.ones(()) if reading.is_noise_on_shares else max_value
    finest = max_drawn * 2.0**-16
    finest = np.where(leaf_scale > 0, np.minimum(finest, leaf_scale * 2.0**-4), finest)
    finest = np.maximum(finest, max_drawn * 2.0**-29)
    leaf_step = 2.0 ** np.ceil(np.log2(np.maximum(finest, leaf_scale / MAX_SCALE_IN_STEPS)))
    smoothness = np.asarray(losses.m_alpha(link_alpha).smoothness, np.float64)
    step = 1 / (4 * smoothness * clip**2)

    params = unprotected_trees.TreeParams(
        noise=noisy_splits,
        settings=usual._replace(
            alpha=(link_alpha,) * depth,
            link_alpha=link_alpha,
            clip=final_clip,
            step=step,
            step_clip=np.minimum(min_step_bounds[reading.step_bound], final_clip),
        ),
        max_value=max_value,
        is_step_observed=np.asarray(reading.step_bound == "observed", np.float64),
        leaf_scale=divide_rounding_up(leaf_scale, 1.0),
        leaf_step=leaf_step,
        beta_step=2.0 ** np.ceil(np.log2(step * clip * FINEST)),
    )
    return custom(
        unprotected_trees.learner(
            depth=depth,
            objective=objective,
            is_noise_on_shares=reading.is_noise_on_shares,
            is_beta_exact=reading.option == "first",
        ),
        rows=rows,
        rounds=rounds,
        params=params,
        weight_update=mirror(losses.m_alpha, bounded=False),
        weighting=MirrorNumbers(link_alpha),
        loss=losses.m_alpha,
        name="bdpe, beta_t unprotected",
    )


def cut_dataset(dataset: data.Dataset, cuts: Cuts, bins: int) -> data.Dataset:
    """A data set whose numeric columns are cut as a reading has it, into at most v_q intervals.

    Cuts that follow from the data are no public ones. A column of one number stays as it is.
    """
    if cuts == "declared":
        return dataset
    domain = dict(dataset.domain)
    for column, kind in domain.items():
        if not isinstance(kind, Numeric):
            continue
        numbers = np.asarray(dataset.columns[column], np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers) and numbers.min() < numbers.max():
            domain[column] = _cut_numeric(kind, numbers, cuts, bins)
    return dataclasses.replace(dataset, domain=domain)


def _cut_numeric(kind: Numeric, numbers: np.ndarray, cuts: Cuts, bins: int) -> Numeric:
    """A column's declaration with other cuts."""
    low, high = float(numbers.min()), float(numbers.max())
    if cuts == "data":
        return Numeric(low, high, bins=bins, missing=kind.missing)
    quantiles = np.unique(np.quantile(numbers, np.arange(1, bins) / bins))
    inside = quantiles[(quantiles > low) & (quantiles < high)]
    if not len(inside):
        return Numeric(low, high, bins=2, missing=kind.missing)
    return Numeric(low, high, missing=kind.missing, cuts=tuple(inside.tolist()))
