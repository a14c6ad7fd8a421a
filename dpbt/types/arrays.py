"""Arrays, numbers and releases, and how they are described without their values."""

from typing import Any

import jax
import numpy as np

from dpbt.public_types import AnyArray as AnyArray
from dpbt.public_types import Numbers as Numbers
from dpbt.public_types import Site

Array = jax.Array

Release = dict[Site, Array]
"""Everything that leaves one run of a weak learner: one array for each site."""


def compilation_signature(tree: Any) -> tuple[Any, ...]:
    """The structure of a pytree, and the shape and dtype of each of its arrays.

    The result is hashable. It is all that a compiled program depends on in a pytree of numbers.
    """
    arrays = map(np.asarray, jax.tree.leaves(tree))
    return jax.tree.structure(tree), *((array.shape, str(array.dtype)) for array in arrays)


def describe_dtype_and_rank(array: AnyArray) -> str:
    """Describe an array's dtype and rank for errors, such as "float32 of rank 2".

    The text shows neither the lengths of axes nor those of texts, because both may be private.
    """
    is_numeric = isinstance(array, jax.Array) or array.dtype.kind in "biufc"
    return f"{array.dtype if is_numeric else 'text or objects'} of rank {array.ndim}"
