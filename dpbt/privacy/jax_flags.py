"""The flags of JAX that could change what is drawn, and how the library treats each of them.

A key that draws noise for two runs that differ in a flag alone must not add one noise to two sums,
since their difference would be exact. So a run is refused under another value of a flag that
changes public structure or sums, and no other flag changes what the library draws.
"""

from typing import Any, NamedTuple

import jax


class Flag(NamedTuple):
    """The value of a flag of JAX that a run needs, and the advice on it.

    Attributes:
        required_value: the value that a run needs, which is JAX's default; None if any will do.
        advice: what a user should do where the flag has another value.
        reason: why another value is refused, or why the flag has no effect.
    """

    required_value: Any
    advice: str
    reason: str


def _flag_without_effect(reason: str) -> Flag:
    """The entry of a flag that may have any value, with the reason."""
    return Flag(required_value=None, advice="", reason=reason)


_COMPILATION_REASON = (
    "the words of a key and the noise are integers, whatever a program is compiled to"
)

FLAGS: dict[str, Flag] = {
    # Refused.
    "jax_enable_x64": Flag(
        required_value=False,
        advice="jax_enable_x64 is on; run within `with jax.enable_x64(False):`",
        reason="some sums would round otherwise, under the same noise",
    ),
    "jax_threefry_partitionable": Flag(
        required_value=True,
        advice="jax_threefry_partitionable is off; turn it on",
        reason="public structure of a research key would be another, under the same noise",
    ),
    # Of keys and random words.
    "jax_random_seed_offset": _flag_without_effect(
        "the library makes keys of seeds by `keys.research_key`"
    ),
    "jax_default_prng_impl": _flag_without_effect(
        "every key that the library makes names its implementation; one of yours of another "
        "implementation is refused"
    ),
    "jax_enable_custom_prng": _flag_without_effect("the library makes no raw keys"),
    "jax_legacy_prng_key": _flag_without_effect("the library makes no raw keys"),
    "jax_debug_key_reuse": _flag_without_effect("it raises errors and draws nothing"),
    "jax_threefry_gpu_kernel_lowering": _flag_without_effect(
        "both ways give the words of threefry2x32"
    ),
    "jax_high_dynamic_range_gumbel": _flag_without_effect("no draw is by Gumbel noise"),
    # Of numbers.
    "jax_default_matmul_precision": _flag_without_effect(
        "products of rows are of integers, and the product of leaves names its precision"
    ),
    "jax_numpy_dtype_promotion": _flag_without_effect("nothing is promoted between dtypes"),
    "jax_numpy_rank_promotion": _flag_without_effect("it raises errors and changes no number"),
    "jax_explicit_x64_dtypes": _flag_without_effect(
        "samplers ask for 64 bits within a context of their own"
    ),
    "jax_softmax_custom_jvp": _flag_without_effect("nothing is differentiated"),
    "jax_allow_f16_reductions": _flag_without_effect("nothing has 16 bits"),
    # Of how programs are compiled.
    "jax_disable_jit": _flag_without_effect(_COMPILATION_REASON),
    "jax_disable_most_optimizations": _flag_without_effect(_COMPILATION_REASON),
    "jax_optimization_level": _flag_without_effect(_COMPILATION_REASON),
    "jax_exec_time_optimization_effort": _flag_without_effect(_COMPILATION_REASON),
    "jax_memory_fitting_effort": _flag_without_effect(_COMPILATION_REASON),
    "jax_memory_fitting_level": _flag_without_effect(_COMPILATION_REASON),
    "jax_use_simplified_jaxpr_constants": _flag_without_effect(_COMPILATION_REASON),
}
"""Name of a flag -> how the library treats it.

The list comes from a reading of all flags of JAX 0.10.2 (`jax.config.values`), and from fits of
three recipes under another value of each. Flags that are not here say where programs run, and what
is logged, checked, cached on disk or differentiated. How a program is compiled may round the last
bit of a score otherwise, as another processor may (docs/scaling.md).
"""


def check_jax_flags() -> None:
    """Refuse to run where a flag of JAX has another value than the required one.

    Raises:
        ValueError: if a flag has another value, for the process or in this context.
    """
    for name, flag in FLAGS.items():
        if flag.required_value is not None and getattr(jax.config, name) != flag.required_value:
            raise ValueError(flag.advice)
