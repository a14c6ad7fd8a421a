"""A cache of compiled programs, which later processes reuse."""

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
FOLDER = ROOT / ".cache" / "jax"
NOTE = f"""Compiled programs are kept in .cache/jax of the checkout, or in the folder that
{VARIABLE} names. Checkouts and machines can share it."""


def machine() -> str:
    """The name of a kind of machine, on all of which a compiled program runs.

    It follows from the architecture, the processor's model and instructions, and jaxlib's version.
    """
    told = [platform.processor(), importlib.metadata.version("jaxlib")]
    processors = Path("/proc/cpuinfo")
    if processors.exists():
        lines = processors.read_text().splitlines()
        told += sorted({line for line in lines if line.startswith(("flags", "Features", "model"))})
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()
    return f"{platform.machine()}-{digest[:12]}"


def use_compilation_cache(min_seconds: float = 0.5) -> None:
    """Keep compiled programs in $JAX_COMPILATION_CACHE_DIR, or in `.cache/jax` of the checkout.

    Each kind of machine has a folder of its own there (`machine`). A program has the instructions
    of the processor that it was compiled on, and another processor may lack them.

    Args:
        min_seconds: programs that compile faster than this are not kept; the environment's
            `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` goes first.
    """
    import jax

    folder = Path(os.environ.get(VARIABLE) or FOLDER) / machine()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # XLA's own caches, of GPUs, would put the folder's path into the name of every program.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    least = float(os.environ.get(LEAST) or min_seconds)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
