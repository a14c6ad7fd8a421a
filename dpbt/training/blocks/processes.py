"""Several processes that learn from one table: what they send each other.

`jax.distributed` starts the processes and carries the messages. Rows stay where they are. What
travels is exact sums over the rows of a process, so the network between the processes must be as
private as the rows. With one process nothing is sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from dpbt.privacy.draws_from_sums import SumsBySite
from dpbt.types import Array


def gather_from_processes(numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """int64[P, n]: the numbers of every process, in the order of the processes.

    Args:
        numbers: int64[n], of this process; n is the same on all.
    """
    sent_numbers = np.ascontiguousarray(numbers, np.int64).reshape(-1)
    if jax.process_count() == 1:
        return sent_numbers[None]
    words = multihost_utils.process_allgather(sent_numbers.view(np.int32))
    words = np.ascontiguousarray(words, np.int32).reshape(jax.process_count(), -1)
    return words.view(np.int64)


def sum_over_processes(totals: SumsBySite) -> SumsBySite:
    """The sums over the rows of all processes, in one message.

    Args:
        totals: site -> int64[...], or a pytree of such arrays, of the rows of this process.
    """
    if jax.process_count() == 1:
        return totals
    leaves, structure = jax.tree.flatten(totals)  # in the order of the names of the sites
    flat_leaves = [leaf.reshape(-1) for leaf in leaves]
    flat_sums = gather_from_processes(np.concatenate(flat_leaves)).sum(axis=0)
    ends_of_leaves = np.cumsum([leaf.size for leaf in leaves])
    sums_of_leaves = np.split(flat_sums, ends_of_leaves[:-1])
    sums = [
        sums_of_leaf.reshape(leaf.shape)
        for leaf, sums_of_leaf in zip(leaves, sums_of_leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, sums)


class RowsOfAllProcesses(NamedTuple):
    """The rows of all processes, and where those of one process begin among them.

    Attributes:
        total_present: how many rows are present in all processes; private.
        total_capacity: how many rows they have room for.
        first_row: the index of the first row of this process; the processes before it have room for
            as many rows.
    """

    total_present: int
    total_capacity: int
    first_row: int


def count_rows_of_all_processes(*, num_present: int, capacity: int) -> RowsOfAllProcesses:
    """Count the rows of all processes, and those of the processes before this one.

    Args:
        num_present: how many rows of this process are present; private.
        capacity: how many it has room for.
    """
    rows_of_processes = gather_from_processes([num_present, capacity])
    num_before = jax.process_index() if jax.process_count() > 1 else 0
    before = rows_of_processes[:num_before]
    total_present, total_capacity = rows_of_processes.sum(axis=0).tolist()
    return RowsOfAllProcesses(total_present, total_capacity, int(before[:, 1].sum()))


def min_over_processes(number: int) -> int:
    """The smallest of the processes' numbers."""
    return int(gather_from_processes([number]).min())


def shared_key(key: Array) -> Array:
    """Send the key of the first process to all processes, which return it.

    See `keys.fresh_key`.

    It is a secret of the release, so the network between the processes must keep it.

    Args:
        key: a typed key; all processes have one of the same kind, and only the first one's counts.
    """
    if jax.process_count() == 1:
        return key
    words = np.asarray(jax.random.key_data(key))
    first_words = multihost_utils.broadcast_one_to_all(words.view(np.int32))
    first_words = np.ascontiguousarray(first_words, np.int32).reshape(words.shape)
    return jax.random.wrap_key_data(
        jnp.asarray(first_words.view(np.uint32)), impl=jax.random.key_impl(key)
    )


def gather_digests_from_processes(digest: str) -> list[str]:
    """Gather the digest of every process, in the order of the processes.

    Each has 64 hexadecimal digits.
    """
    digests = gather_from_processes(np.frombuffer(bytes.fromhex(digest), np.int64))
    return [np.ascontiguousarray(words).tobytes().hex() for words in digests]
