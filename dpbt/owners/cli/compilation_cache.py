"""A cache of compiled programs, so that a command compiles once and later ones start at once.

A program depends only on public facts: the recipe, and the shape of a table, whose rows are padded
to their public bound. It contains no cell, key or release, since all of these are its arguments.
Nor does it contain the numbers of a recipe, such as the noise: another epsilon has the same one.

The folder has a largest size, beyond which the programs that were used longest ago are deleted. A
program that cannot be read is deleted, and written anew.
"""

import contextlib
import hashlib
import os
import platform
import re
import warnings
from pathlib import Path
from typing import Any

from dpbt.common.extras import package_version

FOLDER_VARIABLE = "DPBT_CACHE"
"""The environment variable that names the folder of programs.

If it is empty, no programs are cached. By default the folder is in the user's cache folder.
"""


MAX_FOLDER_BYTES = 2**28
"""The largest size of the folder of programs; one program has about 2^18 bytes."""


def machine_kind_name() -> str:
    """The name of this kind of machine.

    All machines of a kind can run one compiled program. The name has a digest of the architecture,
    the processor's model and instructions, and the version of jaxlib.
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
    """Make JAX keep compiled programs in a folder.

    Each kind of machine has a folder of its own below it.

    Args:
        folder: has a folder for each kind of machine.
        min_seconds: programs that compile faster than this are not cached. With 0 all are, so the
            content of the folder does not depend on running times.
    """
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder / machine_kind_name()))
    # XLA's own caches, of GPUs, would put the folder's path into the name of every program.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", min_seconds)


def cache_compiled_programs_for_user() -> None:
    """Make JAX keep compiled programs in a folder of the user, unless it has a folder already.

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
            delete_least_recently_used_programs(folder)
            cache_compiled_programs(folder)
            delete_damaged_programs_when_jax_warns(folder)


def delete_least_recently_used_programs(folder: Path, max_bytes: int = MAX_FOLDER_BYTES) -> None:
    """Delete the least recently used programs until a folder is at most this large.

    Another process may read a program or delete it at the same time. It then compiles it again.

    Args:
        folder: has a folder for each kind of machine.
        max_bytes: the largest size of all programs together.
    """
    stats = {}
    for path in folder.glob("*/*-cache"):
        with contextlib.suppress(OSError):
            stats[path] = path.stat()
    latest_first = sorted(stats, key=lambda path: -max(stats[path].st_atime, stats[path].st_mtime))
    size = 0
    for path in latest_first:
        size += stats[path].st_size
        if size > max_bytes:
            with contextlib.suppress(OSError):
                path.unlink()


def _delete_programs_of_name(folder: Path, name: str) -> bool:
    """Delete the compiled programs of a name, and return whether all could be deleted."""
    try:
        for path in folder.glob(f"{name}-*"):
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


_WARNING_OF_DAMAGED_PROGRAM = re.compile(
    r"Error reading persistent compilation cache entry for '(\w+)'"
)
"""JAX's warning of a program that it cannot read. The group is how the name of its file begins."""


def delete_damaged_programs_when_jax_warns(folder: Path) -> None:
    """From now on delete each compiled program that JAX warns it cannot read.

    The warning is not shown. Without this JAX would warn of it in every run.

    JAX never replaces a file. It compiles the program after the warning, and then writes it anew.

    Args:
        folder: has a folder for each kind of machine.
    """
    show_warning = warnings.showwarning

    def delete_or_show(message: Warning | str, *details: Any, **more: Any) -> None:
        damaged = _WARNING_OF_DAMAGED_PROGRAM.match(str(message))
        if damaged is None or not _delete_programs_of_name(
            folder / machine_kind_name(), damaged[1]
        ):
            show_warning(message, *details, **more)

    warnings.showwarning = delete_or_show
