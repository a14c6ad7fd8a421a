"""Whether JAX can run in this process.

A fork copies no thread but the one that calls it. JAX has threads as soon as it has run, so in a
forked process every computation of JAX would wait forever for threads that are not there. There,
predictions use NumPy, and what needs JAX is refused.
"""

import os
import sys


class _Process:
    """Whether JAX can run in this process.

    Attributes:
        was_forked_from_jax: whether JAX had run in a process that this one was forked from.
    """

    was_forked_from_jax = False


def _note_fork() -> None:
    """Note in a forked process whether JAX had run before the fork."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    # A version of JAX without that function may have run, and then nothing waits for it.
    has_run = getattr(bridge, "backends_are_initialized", lambda: True)
    if bridge is not None and has_run():
        _Process.was_forked_from_jax = True


if hasattr(os, "register_at_fork"):  # Windows forks no process
    os.register_at_fork(after_in_child=_note_fork)


def was_forked_from_jax() -> bool:
    """Whether this process was forked after JAX had run.

    Then JAX cannot run here.
    """
    return _Process.was_forked_from_jax


def check_jax_can_run() -> None:
    """Refuse a process that was forked after JAX had run.

    JAX would wait forever there.

    Raises:
        RuntimeError: saying how to start processes instead.
    """
    if was_forked_from_jax():
        raise RuntimeError(
            "JAX does not run in a process that was forked after JAX had run: start processes by "
            "'spawn' or 'forkserver' of multiprocessing, or use threads; predictions run here"
        )
