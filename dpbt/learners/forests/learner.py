"""Random decision trees: a structure drawn without the rows, and private leaves.

Bojarski et al. (2014), Algorithm 1. A group is P complete trees of height D. An inner node asks
"position of attribute a > t", with a uniform over the attributes and t uniform in [0, 1). Rows are
read as positions in [0, 1] in the attributes' public ranges: the positions of their bins, or exact
ones (`domains.encode_positions`).

With P = 1 every tree sees all rows, and trees compose in sequence. With P above 1 a draw that never
reads the rows gives each row to one of the P trees, and these compose in parallel.

Only the leaves read the rows. They state noisy class weights (RF-L and the paper's Algorithm 2), or
a label drawn by the exponential mechanism (RF-E of Nock & Henecka, 2020, section 17.2).
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int32

from dpbt import types
from dpbt.data import splits
from dpbt.learners.forests import model
from dpbt.learners.forests.model import TreeGroup, assign_leaves_by_position
from dpbt.privacy import accounting, boundary, mechanisms, sensitivity
from dpbt.privacy.boundary import Draw
from dpbt.privacy.mechanism_types import Mechanism
from dpbt.public_types import redacted_repr
from dpbt.types import GRID, Array

MAX_DEPTH = 20
"""The largest depth of a random tree."""

NEGATIVE_WEIGHT_RULES = ("zero", "uniform")
"""The rules for leaves with a negative noisy weight; see `positive_shares_or_fallback`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomTreeConfig:
    """The static configuration of a learner of groups of random trees.

    Attributes:
        depth: D, in 1..20.
        relation: the neighbouring relation of the ledger.
        noise: `mechanisms.discrete_laplace` or `rounded_gaussian` on class weights, or
            `exponential` for labels.
        parts: P. Above 1, each row is given to one of the P trees.
        per_leaf: the ledger adds up leaves in sequence (published) instead of in parallel (tight).
        negative: "zero" or "uniform", see `positive_shares_or_fallback`.
    """

    depth: int
    relation: types.Relation
    noise: Mechanism
    parts: int = 1
    per_leaf: bool = False
    negative: str = "zero"

    @property
    def releases_labels(self) -> bool:
        """Whether leaves release labels instead of class weights."""
        return self.noise is mechanisms.exponential

    @property
    def identity(self) -> str:
        """A text of all static settings, from which noise keys are derived."""
        under = types.as_relation(self.relation).value
        leaves = f"{self.noise.name}, {self.parts}, {self.per_leaf}, {self.negative}"
        return f"{self.depth}, {under}, {leaves}"


class PositionRows(NamedTuple):
    """The rows of a table as positions in the ranges of attributes, as the rounds read them.

    Attributes:
        position: f32[N, A].
        target, present, weight: as in `Table`.
    """

    position: Array
    target: Array
    present: Array
    weight: Array | None = None

    __repr__ = redacted_repr


def attribute_positions_of_rows(table: types.Table) -> PositionRows:
    """Lay out the rows of a table as positions in the ranges of the attributes.

    All splits of the table must be allowed.

    Raises:
        ValueError: if the table allows some of its splits only.
    """
    if table.splits is not None and table.splits.allowed is not None:
        raise ValueError("random trees ask for every attribute alike: splits.allowed must be None")
    return PositionRows(
        splits.attribute_positions(table), table.target, table.present, table.weight
    )


def sum_class_weights_by_leaf(
    leaf_of_row: Int32[Array, "N"],
    target: Bool[Array, "N"],
    weights: Int32[Array, "N"],
    num_leaves: int,
) -> Int32[Array, "num_leaves 2"]:
    """i32[num_leaves, 2]: the exact weight of the rows of each leaf and class, in grid units.

    The classes are negative and positive.

    Args:
        leaf_of_row: i32[N], the leaf of each row.
        target: bool[N].
        weights: i32[N], the row's weight; 0 for absent rows.
        num_leaves: the number of leaves.
    """
    segment = 2 * leaf_of_row + target.astype(jnp.int32)
    return jax.ops.segment_sum(weights, segment, num_segments=2 * num_leaves).reshape(num_leaves, 2)


def positive_shares_or_fallback(
    class_weights: Array, fallback: Array, negative_weight_rule: str
) -> Float32[Array, "..."]:
    """f32[...]: the share of the positive class by noisy class weights, or a given fallback.

    The share is theta = n+ / (n+ + n-) of weights [..., 2]. The fallback replaces it where the
    weights give none.

    There are two rules, and both are post-processing of a release. `fallback` is uniform in [0, 1].

    - "uniform" is Algorithm 2 as printed: the fallback is used if a weight is negative or both are
      0. That throws the other weight away, and with it half of all pure leaves.
    - "zero" counts negative weights as 0, and uses the fallback if both are 0.
    """
    noisy = class_weights.astype(jnp.float32)
    if negative_weight_rule == "zero":
        noisy = jnp.maximum(noisy, 0)
    total = noisy[..., 0] + noisy[..., 1]
    is_usable = total > 0
    if negative_weight_rule == "uniform":
        is_usable &= jnp.all(noisy >= 0, axis=-1)
    return jnp.where(is_usable, noisy[..., 1] / jnp.where(is_usable, total, 1), fallback)


TREE_GROUPS = model.TREE_GROUPS.with_training(
    example_table=splits.absent_row_table,
    check_table=splits.check_bins_and_splits,
    prepare=attribute_positions_of_rows,
    prediction_input=lambda rows: rows.position,
    bound=lambda group: jnp.sum(group.grown),
)
"""Groups over positions. Their sum is a majority vote; `dpbt.predict` has all voting rules."""


def draw_structure_and_leaves(
    draw: Draw, table: PositionRows, weights: Array, *_: Any, config: RandomTreeConfig
) -> None:
    """Draw the structures of a group of trees without reading rows, and then its noisy leaves."""
    num_rows, num_attributes = table.position.shape
    structure = _draw_structure_and_fallback_shares(config, draw, num_attributes)
    tree_of_row = _assign_rows_to_trees_at_random(config, draw, num_rows)
    class_weights = _class_weights_by_tree_and_leaf(
        config, table, weights, structure=structure, tree_of_row=tree_of_row
    )
    _draw_leaf_class_weights_or_labels(config, draw, class_weights)


class _DrawnStructure(NamedTuple):
    """The public splits of a group of trees.

    Attributes:
        attribute: i32[parts, 2^D - 1], the attribute of every inner node.
        threshold: f32[parts, 2^D - 1], its threshold.
    """

    attribute: Array
    threshold: Array


def _draw_structure_and_fallback_shares(
    config: RandomTreeConfig, draw: Draw, num_attributes: int
) -> _DrawnStructure:
    """Draw the public splits of a group of trees, and a public fallback share for each leaf.

    The fallback is for leaves whose noisy class weights are not usable.
    """
    leaves, end = 2**config.depth, np.float32(1)

    def draw_uniform(site: str, num_places: int, end: Any, releases: str) -> Array:
        return draw(
            site,
            mechanisms.uniform,
            jnp.zeros((config.parts, num_places), end.dtype),  # which is not read
            theorem="dpbt theorem F1",
            scale=end,
            releases=releases,
        )

    attribute = draw_uniform(
        "attribute", leaves - 1, jnp.int32(num_attributes), "attributes of inner nodes"
    )
    threshold = draw_uniform("threshold", leaves - 1, end, "thresholds of inner nodes")
    if not config.releases_labels:
        draw_uniform("fallback", leaves, end, "shares stated by leaves without a usable weight")
    return _DrawnStructure(attribute, threshold)


def _assign_rows_to_trees_at_random(
    config: RandomTreeConfig, draw: Draw, num_rows: int
) -> Int32[Array, "N"]:
    """i32[N]: draw for each place of a row the tree of the group that it is given to.

    No row is read. With one tree it is zeros.
    """
    first_tree = jnp.zeros(num_rows, jnp.int32)
    if config.parts == 1:
        return first_tree
    return draw(
        "part",
        mechanisms.assignment,
        first_tree,
        scale=np.int32(config.parts),
        theorem="dpbt theorem F3",
        releases="tree of each row, withheld unless asked for",
    )


def _class_weights_by_tree_and_leaf(
    config: RandomTreeConfig,
    table: PositionRows,
    weights: Array,
    *,
    structure: _DrawnStructure,
    tree_of_row: Int32[Array, "N"],
) -> Int32[Array, "parts leaves 2"]:
    """i32[parts, 2^D, 2]: the exact class weights of each leaf of each tree, in grid units."""
    parts, leaves = config.parts, 2**config.depth
    leaf = tree_of_row * leaves + assign_leaves_by_position(
        structure.attribute, structure.threshold, table.position, tree_of_row
    )
    weights = jnp.where(table.present, weights, 0).astype(jnp.int32)
    return sum_class_weights_by_leaf(leaf, table.target, weights, parts * leaves).reshape(
        parts, leaves, 2
    )


def _draw_leaf_class_weights_or_labels(
    config: RandomTreeConfig, draw: Draw, class_weights: Array
) -> None:
    """Draw the noisy class weights of all leaves, or their labels by the exponential mechanism."""
    released_noun = "labels" if config.releases_labels else "class weights"
    where = "all leaves" if config.parts == 1 else "all leaves of all trees"
    proof = "dpbt theorem F2" if config.releases_labels else "dpbt theorem F1"
    draw(
        "leaf",
        config.noise,
        boundary.RowSum(class_weights, mechanisms.behind_best)
        if config.releases_labels
        else boundary.RowSum(class_weights),
        sensitivity=_leaf_draw_sensitivity(config),
        moved_outputs=sensitivity.num_changed_rows(config.relation),
        theorem="Nock & Henecka (2020), section 17.2" if config.per_leaf else proof,
        num_payments=2**config.depth if config.per_leaf else 1,
        releases=f"{released_noun}, {'each leaf paid for' if config.per_leaf else where}",
        unit=accounting.ROW_STEP,
    )


def _leaf_draw_sensitivity(config: RandomTreeConfig) -> float:
    """The sensitivity of the draw of all leaves together.

    It is that of their class weights, or of the scores of their labels.

    A row that comes or goes moves a label's scores one way. The published exponent, leaf by leaf,
    allows for both ways.
    """
    if config.releases_labels:
        return GRID * (
            2 if config.per_leaf else sensitivity.num_split_score_changes(config.relation)
        )
    return config.noise.sensitivity_in_norm(
        sensitivity.class_weights_sensitivity(config.relation).times(GRID)
    )


def tree_group_of_release(config: RandomTreeConfig, release: types.Release, *_: Any) -> TreeGroup:
    """Build the trees of a group from a release.

    Leaves state noisy shares of the positive class, or labels.
    """
    leaf, grown = release["leaf"], jnp.ones(config.parts, jnp.float32)
    if config.releases_labels:
        leaf_values = leaf.astype(jnp.float32)
    else:
        leaf_values = positive_shares_or_fallback(leaf, release["fallback"], config.negative)
    return TreeGroup(release["attribute"], release["threshold"], leaf_values, grown)


@functools.cache
def random_tree(config: RandomTreeConfig) -> types.WeakLearner:
    """A weak learner of groups of random trees, with public structures and private leaves.

    A group has `parts` trees, whose structures are drawn from public randomness.

    Guarantee, under `relation`, for all leaves of all trees of the group together. With noise on
    class weights it is sensitivity / scale, with the L1 (or L2) sensitivity of
    `sensitivity.class_weights_sensitivity`. With labels it is `sensitivity.num_split_score_changes`
    GRID / scale. Structure and fallbacks cost nothing, as they never read the rows.

    Proof for class weights. Given the structure, and the tree that each row is given to, a row is
    in one leaf of one tree. Adding it raises one class weight by at most 1 row, so the weights of
    all leaves move by 1 in L1 and L2 norm. Replacing a row is a removal and an addition: 2 in L1
    and at most sqrt(2) in L2 norm. []

    Proof for labels. The added row raises one score of one leaf by at most 1 row. Scores move one
    way, so the leaf's draw costs 1 / scale (`sensitivity.max_split_score_change`), and all others
    cost nothing. Replace-one pays twice, in two leaves or twice in one. []

    Which tree a row is given to is a function of its place in the table, so neighbours must agree
    on the places of the rows they share. Tables with a `present` mask do, because a removed row
    leaves its place empty. If rows have no public places, the site "part" must not be published.
    Trees are given uniformly and independently. So two neighbours' releases without "part" are
    mixtures, with the same weights, of releases that satisfy the guarantee, in any order of the
    rows. The length of "part" is N, too. So the learner withholds it, and `fit` leaves it out of
    the model.

    Class weights are sums over rows, so a table may be read in blocks. Each part knows
    the places of its rows, so a row is given to the same tree. The scores of labels are worked out
    from the sums over all rows.

    With `per_leaf` the ledger counts every leaf of a tree, as RF-L and RF-E do, which split the
    budget evenly among leaves. The noise is that of `budget` either way.
    """
    return boundary.weak_learner(
        name="random_tree",
        config=config,
        program=functools.partial(draw_structure_and_leaves, config=config),
        hypothesis=functools.partial(tree_group_of_release, config),
        kind=TREE_GROUPS,
        fractions={"leaf": 1.0},
        relation=config.relation,
        withheld=("part",) if config.parts > 1 else (),
    )
