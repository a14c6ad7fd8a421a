"""How programs are compiled: in full, or sooner for a run that is short."""

import importlib.metadata

import jax

OLDER_EMITTER = {"xla_cpu_use_fusion_emitters": False}
"""XLA's former way to turn loops into code for a processor: it compiles sooner and runs longer."""

_KNOWN_VERSIONS = (0, 8), (0, 10)
"""The versions of jaxlib whose compiler is known to take the options."""

SHORT_RUN = 2**23
"""A fit of at most so many rows times rounds is short."""


def may_choose(platform: str) -> bool:
    """Whether programs may be compiled in a way of our choice.

    They may not where the user set `JAX_DISABLE_MOST_OPTIMIZATIONS`, or on other versions.

    Args:
        platform: the platform of the devices, such as "cpu".
    """
    version = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
    known = _KNOWN_VERSIONS[0] <= version <= _KNOWN_VERSIONS[1]
    return platform == "cpu" and known and not jax.config.read("jax_disable_most_optimizations")


def is_short(rows: int, rounds: int) -> bool:
    """Whether a fit is over so soon that the older emitter saves time.

    With it a fit of oblivious trees compiles in about two thirds of the processor time, and takes
    1.3 to 1.8 times as long to run. That is at most 50 ms more for each fit, and about a second
    less for the first one. Random trees gain about a second, and take 1.1 times as long to run.

    Args:
        rows: m, the public bound on their number.
        rounds: that the program has room for.
    """
    return rows * rounds <= SHORT_RUN
