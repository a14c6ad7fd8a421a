"""How the tests compile, set before JAX is imported.

Most of the suite's time is compiling. So `make test` compiles without most optimizations, and keeps
every compiled program on disk; `make test-all` compiles in full.
"""

import importlib.metadata
import os

# Commands that tests run in their process would otherwise keep only programs that compile slowly.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:  # JAX reads it when it is imported
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jaxlib = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
    if (0, 7) <= jaxlib <= (0, 10):  # XLA refuses flags that it does not know
        flags = os.environ.get("XLA_FLAGS", "")
        # XLA's former way to turn loops into code compiles in half the time.
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false".strip()
