"""Mutants: each takes one protection away on a copy of the repository, and a test must see it.

Run by `make mutants`, outside the suite. It prints a line for each mutant and exits with status 1
if one survives, or if the text that a mutant changes is not found exactly once.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support import ROOT
from tests.support.mutant_list import MUTANTS, Mutant

WORKERS = 2
LIMIT = 300
"""Seconds that one test run may take."""


def copied(folder: Path) -> Path:
    """The tracked files of the working tree, in a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def tested(folder: Path, tests: tuple[str, ...]) -> int:
    """The status of pytest in a folder."""
    # Bytecode is not kept: two sources of one size within a second would be taken for one.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    # All copies keep their compiled programs in one place.
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    quiet = ("-n", "0", "-x", "-m", "", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *quiet, *tests]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False
    )
    return done.returncode


def judged(mutant: Mutant) -> tuple[str, float]:
    """(verdict, seconds) of one mutant: "caught", "SURVIVED", or what is wrong with it."""
    start = time.perf_counter()
    text = (ROOT / mutant.path).read_text()
    if text.count(mutant.old) != 1:
        return f"NOT FOUND ONCE ({text.count(mutant.old)} times)", 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = copied(Path(name))
        (folder / mutant.path).write_text(text.replace(mutant.old, mutant.new))
        try:
            status = tested(folder, mutant.tests)
        except subprocess.TimeoutExpired:
            status = None
    words = {0: "SURVIVED", 1: "caught", None: "TOO LONG"}
    return words.get(status, f"NOT RUN (pytest {status})"), time.perf_counter() - start


def unchanged() -> bool:
    """Whether all tests pass on a copy that nothing was changed in."""
    nodes = sorted({test for mutant in MUTANTS for test in mutant.tests})
    with tempfile.TemporaryDirectory() as name:
        return tested(copied(Path(name)), tuple(nodes)) == 0


def main(words: list[str]) -> int:
    """Judge the mutants whose names hold one of the words; all of them without words."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    if not words:
        passing = unchanged()
        print("unchanged: " + ("all tests pass" if passing else "TESTS FAIL"), flush=True)
        if not passing:
            return 1
    bad = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        found = pool.map(judged, chosen)
        for mutant, (verdict, seconds) in zip(chosen, found, strict=True):
            bad += verdict != "caught"
            print(f"{verdict:10} {seconds:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} caught")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
