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
from typing import NamedTuple

from tests.support import ROOT
from tests.support.mutant_list import MUTANTS, Mutant

WORKERS = 2
LIMIT = 300
"""Seconds that one test run may take."""


def copy_repository(folder: Path) -> Path:
    """The tracked files of the working tree, in a folder."""
    file_names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, file_names.split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def run_pytest(folder: Path, tests: tuple[str, ...]) -> int:
    """The status of pytest in a folder."""
    # Bytecode is not kept: two sources of one size within a second would be taken for one.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    # All copies keep their compiled programs in one place.
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    options = ("-n", "0", "-x", "-m", "", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False
    )
    return process.returncode


class Judgement(NamedTuple):
    """What the tests made of a mutant.

    Attributes:
        verdict: "caught", "SURVIVED", or what is wrong with the mutant.
        seconds: the time that the tests took.
    """

    verdict: str
    seconds: float


def judge_mutant(mutant: Mutant) -> Judgement:
    """Run the tests of a mutant."""
    start = time.perf_counter()
    text = (ROOT / mutant.path).read_text()
    if text.count(mutant.old) != 1:
        return Judgement(f"NOT FOUND ONCE ({text.count(mutant.old)} times)", 0.0)
    with tempfile.TemporaryDirectory() as name:
        folder = copy_repository(Path(name))
        (folder / mutant.path).write_text(text.replace(mutant.old, mutant.new))
        try:
            status = run_pytest(folder, mutant.tests)
        except subprocess.TimeoutExpired:
            status = None
    verdicts = {0: "SURVIVED", 1: "caught", None: "TOO LONG"}
    verdict = verdicts.get(status, f"NOT RUN (pytest {status})")
    return Judgement(verdict, time.perf_counter() - start)


def all_tests_pass_unchanged() -> bool:
    """Whether all tests pass on a copy that nothing was changed in."""
    nodes = sorted({test for mutant in MUTANTS for test in mutant.tests})
    with tempfile.TemporaryDirectory() as name:
        return run_pytest(copy_repository(Path(name)), tuple(nodes)) == 0


def main(words_of_names: list[str]) -> int:
    """Judge the mutants whose names contain one of the words, or all mutants without words."""
    mutants = [
        mutant
        for mutant in MUTANTS
        if not words_of_names or any(word in mutant.name for word in words_of_names)
    ]
    if not words_of_names:
        passing = all_tests_pass_unchanged()
        print("unchanged: " + ("all tests pass" if passing else "TESTS FAIL"), flush=True)
        if not passing:
            return 1
    num_uncaught = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        judgements = pool.map(judge_mutant, mutants)
        for mutant, (verdict, seconds) in zip(mutants, judgements, strict=True):
            num_uncaught += verdict != "caught"
            print(f"{verdict:10} {seconds:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(mutants) - num_uncaught} of {len(mutants)} caught")
    return int(num_uncaught > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
