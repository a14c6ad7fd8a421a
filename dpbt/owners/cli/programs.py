"""A cache of compiled programs, so that a command compiles once and later ones start at once.

A program follows from what is public: the recipe, and the shape of a table, whose rows are padded
to their public bound. No cell, key or release is in it, since all of them are its arguments.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

VARIABLE = "DPBT_CACHE"
"""Names the folder of programs; empty for none. By default it is in the user's cache folder."""


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


def keep(folder: Path, min_seconds: float = 0.0) -> None:
    """Let JAX keep what it compiles in a folder of this kind of machine, and read it there.

    Args:
        folder: of all machines.
        min_seconds: programs that compile faster than this are not kept. With 0 all are, so what
            is there does not depend on the time that anything took.
    """
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder / machine()))
    # XLA's own caches, of GPUs, would put the folder's path into the name of every program.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", min_seconds)


def keep_for_user() -> None:
    """Keep programs in the user's own folder, unless JAX has a folder already.

    It is `$DPBT_CACHE`, or else `dpbt/programs` in `$XDG_CACHE_HOME` or `~/.cache`. Whoever can
    write there can run code, so a new folder is the user's alone (mode 0700). Where none can be
    made, or it is another's or others may write there, nothing is kept or read.
    """
    import jax

    above = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    chosen = os.environ.get(VARIABLE, f"{above}/dpbt/programs")
    if not chosen or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    with contextlib.suppress(OSError, RuntimeError):  # such as a folder without a home
        folder = Path(chosen).expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = folder.stat()
        if os.name != "posix" or (told.st_uid == os.getuid() and not told.st_mode & 0o022):
            keep(folder)
