"""The command line: one sub-command for each experiment."""

import argparse
import importlib
import os
import sys
from pathlib import Path

MODULES = {
    "demo": "experiments.demo",
    "audit": "experiments.audit",
    "bench": "experiments.bench",
    "data": "experiments.common.data",
    "nock_henecka": "experiments.papers.nock_henecka_2020.run",
    "smooth_boosting": "experiments.papers.asadi_2022.run",
    "halfspaces": "experiments.papers.bun_2020.run",
    "random_forests": "experiments.papers.bojarski_2014.run",
}
NAMES = tuple(MODULES)


def use_compilation_cache(least_seconds: float = 0.5) -> None:
    """Keep compiled programs in $DPBT_CACHE, or the user's cache folder, across processes."""
    import jax

    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    jax.config.update("jax_compilation_cache_dir", os.environ.get("DPBT_CACHE", str(home / "dpbt" / "jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)


def main(arguments: list[str] | None = None) -> int:
    """Run one experiment; bad input ends in one line on standard error and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(dest="name", required=True, metavar="{" + ",".join(NAMES) + "}")
    for name in NAMES:
        module = importlib.import_module(MODULES[name])
        summary = (module.__doc__ or "").splitlines()[0]
        module.arguments(commands.add_parser(name, help=summary, description=summary))
    options = parser.parse_args(arguments)
    use_compilation_cache()
    try:
        importlib.import_module(MODULES[options.name]).run(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
