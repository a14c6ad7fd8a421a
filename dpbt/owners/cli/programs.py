"""A cache of compiled programs, so that a command compiles once and later ones start at once.

A program depends only on public facts: the recipe, and the shape of a table, whose rows are padded
to their public bound. It contains no cell, key or release, since all of these are its arguments.
"""

import contextlib
import hashlib
import os
import platform
from pathlib import Path

from dpbt.common.extras import package_version

FOLDER_VARIABLE = "DPBT_CACHE"
"""The environment variable that names the folder of programs.

If it is empty, no programs are cached. By default the folder is in the user's cache folder.
"""


def machine_kind() -> str:
    """The name of the kind of this machine. A compiled program runs on all machines of a kind.

    It follows from the architecture, the processor's model and instructions, and jaxlib's version.
    """
    features = [platform.processor(), package_version("jaxlib")]
    processors = Path("/proc/cpuinfo")
    if processors.exists():
        lines = processors.read_text("utf-8", "replace").splitlines()
        features += sorted(
            {line for line in lines if line.startswith(("flags", "Features", "model"))}
        )
    digest = hashlib.sha256("\n".join(features).encode()).hexdigest()
    return f"{platform.machine()}-{digest[:12]}"


def cache_compiled_programs(folder: Path, min_seconds: float = 0.0) -> None:
    """Make JAX write compiled programs to the folder of this kind of machine, and read them there.

    Args:
        folder: has a folder for each kind of machine.
        min_seconds: programs that compile faster than this are not cached. With 0 all are, so the
            content of the folder does not depend on running times.
    """
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder / machine_kind()))
    # XLA's own caches, of GPUs, would put the folder's path into the name of every program.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", min_seconds)


def cache_compiled_programs_for_user() -> None:
    """Cache programs in a folder of the user, unless JAX has a folder already.

    The folder is `$DPBT_CACHE`, or else `dpbt/programs` in `$XDG_CACHE_HOME` or `~/.cache`. Anyone
    who can write there can run code, so a new folder is the user's alone (mode 0700). If none can
    be made, or the folder belongs to another user, or others can write there, nothing is cached.
    """
    import jax

    user_caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = os.environ.get(FOLDER_VARIABLE, f"{user_caches}/dpbt/programs")
    if not path or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    with contextlib.suppress(OSError, RuntimeError):  # such as a folder without a home
        folder = Path(path).expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = folder.stat()
        if os.name != "posix" or (stat.st_uid == os.getuid() and not stat.st_mode & 0o022):
            cache_compiled_programs(folder)
