"""Trees over public splits, and the learners that grow them.

Names for a learner of your own are imported from their modules when they are first used, so that a
loaded model, which reads `model`, needs no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt.learners.trees.class_weights import (
        child_totals,
        class_weights_of_nodes,
        root_class_weights,
        split_weights_of_nodes,
        weights_by_class,
    )
    from dpbt.learners.trees.rows import (
        TREES,
        TreeRows,
        check_table_has_uint8_bins_and_splits,
        evaluate_splits_of_rows,
    )

__all__ = [
    "TREES",
    "TreeRows",
    "check_table_has_uint8_bins_and_splits",
    "child_totals",
    "class_weights_of_nodes",
    "evaluate_splits_of_rows",
    "root_class_weights",
    "split_weights_of_nodes",
    "weights_by_class",
]

_NAMES_OF_ROWS = (
    "TREES",
    "TreeRows",
    "check_table_has_uint8_bins_and_splits",
    "evaluate_splits_of_rows",
)


def __getattr__(name: str) -> Any:
    """Import a class, a function or the kind of trees when it is first used."""
    if name in __all__:
        module = "rows" if name in _NAMES_OF_ROWS else "class_weights"
        return getattr(import_module(f"dpbt.learners.trees.{module}"), name)
    raise AttributeError(f"module 'dpbt.learners.trees' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
