"""Trees over public splits, and the learners that grow them.

Names for a learner of your own are imported from `learner` when they are first used, so that a
loaded model, which reads `model`, needs no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbt.learners.trees.learner import (
        TREES,
        TreeRows,
        check_tree_table,
        child_totals,
        class_weights_of_nodes,
        node_products,
        node_totals,
        prepare_tree_rows,
        weights_by_class,
    )

__all__ = [
    "TREES",
    "TreeRows",
    "check_tree_table",
    "child_totals",
    "class_weights_of_nodes",
    "node_products",
    "node_totals",
    "prepare_tree_rows",
    "weights_by_class",
]


def __getattr__(name: str) -> Any:
    """The class, function or kind of hypotheses, imported when it is first used."""
    if name in __all__:
        return getattr(import_module("dpbt.learners.trees.learner"), name)
    raise AttributeError(f"module 'dpbt.learners.trees' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
