"""What the models of all families share: encoded rows, checks of arrays, and words.

Functions take arrays of NumPy or of JAX alike (`arithmetic.array_namespace`), and nothing here
imports JAX.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from dpbt.common.arithmetic import array_namespace
from dpbt.data.column_types import Boolean, Column, Nominal
from dpbt.public_types import Splits, redacted_repr

Domain = Mapping[str, Column]
"""The public columns by name."""

Hypotheses = Any
"""Hypotheses of all rounds, stacked along a leading axis: a NamedTuple of arrays."""


class EncodedRows(NamedTuple):
    """Encoded rows of a table: bins with the splits that are asked of them, or numbers alone.

    Bins are u8[N, F] and numbers are f32[N, F].
    """

    bins: Any
    splits: Splits | None

    __repr__ = redacted_repr

    @property
    def attribute_positions(self) -> Float32[Any, "N A"]:
        """f32[N, A]: the position of each row in the range of each attribute.

        Rows without splits hold exact numbers, and are returned as they are.
        """
        if self.splits is None:
            return self.bins
        attribute, position = self.splits.attribute, self.splits.position
        bin = self.bins[:, attribute].astype(np.int32)
        return position[array_namespace(bin).arange(len(attribute))[None], bin]


class LeafBoxes(NamedTuple):
    """The L leaves of a tree as boxes: each is a product over the D conditions on its path.

    A row is in a leaf if each condition lets its bin of that feature through. No feature has two
    conditions on one path, but for conditions that let all bins through.

    Attributes:
        feature: i[L, D], the feature of each condition.
        holds: bool[L, D, B], whether a bin of it is let through.
        value: f[L], what the leaf adds to the score, or f[K, L] with several classes.
        noise: of the same shape, the deviation of the noise in it; None if it is not known.
        correlation: that of the noise of two leaves whose numbers differ in one bit; of leaves that
            differ in b bits it is this to the power of b. It is 0 unless L is a power of two.
        leaf_part: i[D, B], for a tree of which all leaves ask the same features: what each
            bin adds to the number of the leaf; None for other trees.
    """

    feature: np.ndarray
    holds: np.ndarray
    value: np.ndarray
    noise: np.ndarray | None = None
    correlation: float = 0.0
    leaf_part: np.ndarray | None = None


def check_indices_in_range(name: str, indices: Any, first: int, end: int) -> None:
    """Refuse indices outside of first..end - 1.

    With these a model would read beyond its arrays.

    Raises:
        ValueError: with the name of the indices, their range and the least and largest of them.
    """
    indices = np.asarray(indices)
    if indices.size and not (indices.min() >= first and indices.max() < end):
        raise ValueError(
            f"{name} must hold indices in {first}..{end - 1}, got {indices.min()}..{indices.max()}"
        )


DIGITS = 4
"""Decimals that are shown of a score, and digits of a number in its units."""


def describe_bins_as_condition(name: str, column: Column, bin_mask: np.ndarray) -> str:
    """Describe the bins of a mask as a condition on their column, such as "age > 37.5".

    A column without an order is described as "job in {a, b}".
    """
    splits = column.splits(name)
    bins = np.flatnonzero(bin_mask[: column.n_bins]).tolist()
    names = column.values if isinstance(column, Nominal) else ()
    if column.num_thresholds:
        above = [split for split in splits[: column.num_thresholds] if bin_mask[split.low]]
        single_bins = [split for split in splits[column.num_thresholds :] if bin_mask[split.low]]
        conditions = [split.yes for split in above[:1] + single_bins]
        unlisted = len(names) in bins if names else False
        return " or ".join([*conditions, *[f"{name} is not listed"] * unlisted])
    for split in splits:
        if bins == [split.low]:
            return split.yes
    value_names = [*column.bin_words[:2], "missing"] if isinstance(column, Boolean) else [*names]
    return f"{name} in {{{', '.join([*value_names, 'not listed'][bin] for bin in bins)}}}"


class ModelHeading(NamedTuple):
    """The first line of the description of a model.

    Attributes:
        text: what the parts of the model add up to.
        score_scale: how large a score of 1 is in the units of a predicted number; 1 for classes.
    """

    text: str
    score_scale: float


def model_heading_and_score_scale(
    target: Any, has_several_classes: bool, parts_noun: str
) -> ModelHeading:
    """The first line of a description of a model, and the size of a score of 1 in target units.

    Args:
        target: the declared number that it predicts; None for classes.
        has_several_classes: whether it has a score for each class.
        parts_noun: the word for its parts, such as "trees".
    """
    if has_several_classes:
        heading = f"scores of a row: for each class the sum of what the {parts_noun} add; "
        return ModelHeading(f"{heading}the class of the largest is predicted", 1.0)
    if target is not None:
        scale, _, scale_noun = target.score_units
        scale_noun = {"prediction": "number"}.get(scale_noun, scale_noun)
        heading = f"{scale_noun} of a row: the sum of what the {parts_noun} add, clipped to "
        return ModelHeading(f"{heading}{target.low:g}..{target.high:g}", scale)
    heading = f"score of a row: the sum of what the {parts_noun} add; positive above 0"
    return ModelHeading(heading, 1.0)


def indent_lines(lines: list[str]) -> list[str]:
    """Indent each line by two spaces."""
    return [f"  {line}" for line in lines]
