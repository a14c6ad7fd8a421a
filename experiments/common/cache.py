"""A cache of compiled programs, which later processes reuse."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
FOLDER = ROOT / ".cache" / "jax"
NOTE = f"""Compiled programs are kept in .cache/jax of the checkout, or in the folder that
{VARIABLE} names."""


def use_compilation_cache(least_seconds: float = 0.5) -> None:
    """Keep compiled programs in $JAX_COMPILATION_CACHE_DIR, or in `.cache/jax` of the checkout.

    Args:
        least_seconds: programs that compile faster than this are not kept.
    """
    import jax

    jax.config.update("jax_compilation_cache_dir", os.environ.get(VARIABLE) or str(FOLDER))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)
