"""The rows of a table as learners over bins read them, and which tables these can read."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpbt import types
from dpbt.common.validate import is_traced
from dpbt.data import splits
from dpbt.learners.bins.config import Attribute, BinsConfig
from dpbt.public_types import redacted_repr
from dpbt.types import Array


class BinnedRows(NamedTuple):
    """The rows of a table, feature by feature, as the rounds of a learner read them.

    Attributes:
        bins: u8[F, N].
        target: bool[N]; u8[N] with several classes, and f32[N] in regression.
        present: bool[N].
        weight: f32[N] or None, as in `Table`.
        leaf: u8[N] or u16[N]: the leaf of each row in the tree of the round; None outside of
            rounds.
    """

    bins: Array
    target: Array
    present: Array
    weight: Array | None = None
    leaf: Array | None = None

    __repr__ = redacted_repr


def lay_out_rows_by_feature(attributes: tuple[Attribute, ...], table: types.Table) -> BinnedRows:
    """Lay out the rows of a table feature by feature, for the features that the domain has.

    Further features, of a padded table, are left out.

    Raises:
        ValueError: for fewer features.
    """
    num_features = len(attributes)
    bins = jnp.asarray(table.bins)
    if bins.shape[1] < num_features:
        raise ValueError(f"the recipe's domain has {num_features} columns, and the table has fewer")
    return BinnedRows(
        bins=bins.T[:num_features],
        target=table.target,
        present=table.present,
        weight=table.weight,
    )


def one_absent_row_table(config: BinsConfig) -> types.Table:
    """An example table of one absent row, with the columns and the target type of a config."""
    num_columns = len(config.attributes)
    absent = jnp.zeros(1, bool)
    return types.Table(
        bins=jnp.zeros((1, num_columns), jnp.uint8),
        target=absent.astype(config.response.target_dtype),
        present=absent,
        splits=splits.splits_of_boolean_features(num_columns),
    )


def check_table_matches_attributes(attributes: tuple[Attribute, ...], table: types.Table) -> None:
    """Refuse a table whose columns and bins are not those of the attributes, as uint8.

    Of the table the check reads the dtype and rank of the bins, the number of features, and the
    public splits.

    Raises:
        ValueError: saying what is expected.
    """
    splits.check_bins_and_splits(table)
    if table.bins.dtype != jnp.uint8:
        raise ValueError(
            f"the recipe reads uint8 bins, got {types.describe_dtype_and_rank(table.bins)}"
        )
    columns = len(attributes)
    if table.bins.shape[1] != columns:
        raise ValueError(
            f"the recipe's domain has {columns} columns, and the table has {table.bins.shape[1]}"
        )

    # A column has a bin for each of its splits, and at most one that no split knows.
    table_splits = table.splits
    assert table_splits is not None  # as `splits.check_bins_and_splits` says
    if is_traced(*table_splits):
        return
    num_bins_of_features = np.ones(columns, int)
    np.maximum.at(
        num_bins_of_features,
        np.asarray(table_splits.feature),
        np.asarray(table_splits.high).astype(int) + 1,
    )
    for number, (attribute, bins) in enumerate(
        zip(attributes, num_bins_of_features.tolist(), strict=True)
    ):
        if not bins <= attribute.n_bins <= bins + 1:
            of_domain = f"column {number} of the recipe's domain has {attribute.n_bins} bins"
            raise ValueError(f"{of_domain}, and the splits of the table know {bins}")
