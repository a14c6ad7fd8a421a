"""The flags of JAX that could change what is drawn, and what is done about each of them.

A key that draws noise for two runs that differ in a flag alone must not add one noise to two sums,
since their difference would be exact. So a run is refused under another value of a flag that moves
public structure or sums, and no other flag moves what the library draws.
"""

from typing import Any, NamedTuple

import jax


class Flag(NamedTuple):
    """A flag of JAX.

    Attributes:
        needed: the value that a run needs, which is JAX's default; None if any value will do.
        advice: what to do where it is another one.
        reason: why it is refused, or why it has no effect.
    """

    needed: Any
    advice: str
    reason: str


def _harmless(reason: str) -> Flag:
    return Flag(None, "", reason)


_PROGRAMS = "the words of a key and the noise are integers, whatever a program is compiled to"

FLAGS: dict[str, Flag] = {
    # Refused.
    "jax_enable_x64": Flag(
        False,
        "jax_enable_x64 is on; run within `with jax.enable_x64(False):`",
        "some sums would round otherwise, under the same noise",
    ),
    "jax_threefry_partitionable": Flag(
        True,
        "jax_threefry_partitionable is off; turn it on",
        "public structure of a research key would be another, under the same noise",
    ),
    # Of keys and random words.
    "jax_random_seed_offset": _harmless("the library makes keys of seeds by `keys.research_key`"),
    "jax_default_prng_impl": _harmless(
        "every key that the library makes names its implementation; one of yours of another "
        "implementation is refused"
    ),
    "jax_enable_custom_prng": _harmless("the library makes no raw keys"),
    "jax_legacy_prng_key": _harmless("the library makes no raw keys"),
    "jax_debug_key_reuse": _harmless("it raises errors and draws nothing"),
    "jax_threefry_gpu_kernel_lowering": _harmless("both ways give the words of threefry2x32"),
    "jax_high_dynamic_range_gumbel": _harmless("no draw is by Gumbel noise"),
    # Of numbers.
    "jax_default_matmul_precision": _harmless(
        "products of rows are of integers, and the product of leaves names its precision"
    ),
    "jax_numpy_dtype_promotion": _harmless("nothing is promoted between dtypes"),
    "jax_numpy_rank_promotion": _harmless("it raises errors and changes no number"),
    "jax_explicit_x64_dtypes": _harmless("samplers ask for 64 bits within a context of their own"),
    "jax_softmax_custom_jvp": _harmless("nothing is differentiated"),
    "jax_allow_f16_reductions": _harmless("nothing has 16 bits"),
    # Of how programs are made.
    "jax_disable_jit": _harmless(_PROGRAMS),
    "jax_disable_most_optimizations": _harmless(_PROGRAMS),
    "jax_optimization_level": _harmless(_PROGRAMS),
    "jax_exec_time_optimization_effort": _harmless(_PROGRAMS),
    "jax_memory_fitting_effort": _harmless(_PROGRAMS),
    "jax_memory_fitting_level": _harmless(_PROGRAMS),
    "jax_use_simplified_jaxpr_constants": _harmless(_PROGRAMS),
}
"""Name of a flag -> what is done about it.

They were found by going through all flags of JAX 0.10.2 (`jax.config.values`) and by fitting three
recipes under another value of each. Flags that are not here say where programs run, what is logged,
checked, kept on disk or differentiated. How a program is compiled may round the last bit of a score
otherwise, as another processor may (docs/scaling.md).
"""


def check_flags() -> None:
    """Refuse runs under other flags of JAX than their own.

    Raises:
        ValueError: if a flag is not as it should be, for the process or in this context.
    """
    for name, flag in FLAGS.items():
        if flag.needed is not None and getattr(jax.config, name) != flag.needed:
            raise ValueError(flag.advice)
