"""Most of the suite's time is compiling, so it is done quickly, and every program is kept;
`make test-all` compiles in full.
"""

import importlib.metadata
import os

# A command that a test runs in its process would else keep only programs that compile slowly.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:  # JAX reads it when it is imported
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    known = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
    if (
        (0, 7) <= known <= (0, 10)
    ):  # XLA refuses flags that it does not know; the flag halves the time to compile
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false".strip()
