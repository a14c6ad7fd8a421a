"""The blocks of docs/tutorial.md: run them, and write what a run prints into the page.

`python -m tests.tutorial_page` runs all of them on Adult, whose files are below `DPBT_DATA`, and
writes every output into the page.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
EXAMPLES = ROOT / "docs" / "examples"
ARGUMENTS = ("adult.csv", "adult_test.csv", "adult.json", "people.csv", "40000")

_STEP = re.compile(r"^```python\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    """A block of code, and the output that the page shows; None for none."""

    code: str
    shown: str | None

    @property
    def own_program(self) -> bool:
        """Whether the block is a program of its own, which then has a docstring."""
        return self.code.startswith('"""')


def steps(page: str) -> list[Step]:
    """The Python blocks of a page; the block right below one, in no language, is its output."""
    return [Step(*found.groups()) for found in _STEP.finditer(page)]


def make_files(page: str, adult: Path, folder: Path) -> None:
    """Make the files of the program by the page's own shell command.

    Args:
        page: the text.
        adult: the folder of UCI's files.
        folder: where the steps will run.
    """
    (folder / "data").mkdir()
    (folder / "data" / "adult").symlink_to(adult)
    shutil.copytree(EXAMPLES, folder / "docs" / "examples")
    (command,) = re.findall(r"^```sh\n(names=.*?)^```$", page, re.DOTALL | re.MULTILINE)
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True)


def run(
    page: str, folder: Path, arguments: tuple[str, ...], without: str | None = None
) -> list[str]:
    """What each step prints. Steps share one scope and run in `folder`, as a person would.

    Args:
        page: the text.
        folder: the current folder of the steps.
        arguments: of `income.py`.
        without: leave out the steps whose code has this pattern. They count as printing nothing.
    """
    printed, scope, before = [], {}, sys.argv
    with contextlib.chdir(folder):
        sys.argv = ["income.py", *arguments]
        try:
            for number, step in enumerate(steps(page)):
                if without is not None and re.search(without, step.code):
                    printed.append("")
                    continue
                if step.own_program:
                    printed.append(_run_alone(step.code, arguments[3]))
                    continue
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(step.code, f"step {number}", "exec"), scope)
                printed.append(out.getvalue())
        finally:
            sys.argv = before
    return printed


def _run_alone(code: str, argument: str) -> str:
    """What a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, argument]
    return subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def with_outputs(page: str, printed: list[str]) -> str:
    """The page with these outputs, one for each step, in place of those that it shows."""
    outputs = iter(printed)

    def step(found: re.Match) -> str:
        output = next(outputs).rstrip("\n")
        block = f"```python\n{found[1]}```"
        return f"{block}\n\n```\n{output}\n```" if output else block

    return _STEP.sub(step, page)


def main() -> None:
    """Write the outputs of one run on Adult into the page."""
    adult = Path(os.environ["DPBT_DATA"]).resolve() / "adult"
    with tempfile.TemporaryDirectory() as folder:
        page = PAGE.read_text()
        make_files(page, adult, Path(folder))
        PAGE.write_text(with_outputs(page, run(page, Path(folder), ARGUMENTS)))


if __name__ == "__main__":
    main()
