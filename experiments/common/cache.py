"""A cache of compiled programs, which later processes reuse."""

import os
from pathlib import Path

from dpbt.owners.cli import compilation_cache

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
MIN_SECONDS_VARIABLE = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
FOLDER = ROOT / ".cache" / "jax"
NOTE = f"""Compiled programs are kept in .cache/jax of the checkout, or in the folder that
{VARIABLE} names. Checkouts and machines can share it."""


def use_compilation_cache(min_seconds: float = 0.5) -> None:
    """Keep compiled programs in $JAX_COMPILATION_CACHE_DIR, or in `.cache/jax` of the checkout.

    Each kind of machine has a folder of its own there (`compilation_cache.machine_kind_name`). A
    program has the instructions of the processor that it was compiled on, and another processor may
    lack them.

    Args:
        min_seconds: programs that compile faster than this are not kept; the environment's
            `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` goes first.
    """
    min_compile_seconds = float(os.environ.get(MIN_SECONDS_VARIABLE) or min_seconds)
    compilation_cache.cache_compiled_programs(
        Path(os.environ.get(VARIABLE) or FOLDER), min_compile_seconds
    )
