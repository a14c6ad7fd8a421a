"""The blocks of README and docs, and their commands, which are parsed as programs parse them."""

import argparse
import contextlib
import functools
import io
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import dpbt.__main__
import experiments.__main__
from dpbt.owners.cli.parsing import Parser
from paper_figures.__main__ import NAMES as FIGURES
from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"dpbt": dpbt.__main__, "experiments": experiments.__main__}

NOT_RUN = {
    "make": "it sets up an environment, and runs what other tests run",
    "venv": "it makes an environment",
    "pip": "it reads the network",
    "paper_figures": "all figures take minutes; `tests/experiments` draws small ones",
    "experiments data fetch": "it reads the network",
    "experiments demo": "it trains thousands of models",
    "experiments audit": "it takes a data set, and minutes",
    "experiments audits": "it takes minutes; `tests/experiments/test_audits.py` runs some of it",
    "experiments reconstruction": "it takes data sets, and minutes",
    "experiments asadi_2022": "it takes data sets, and hours",
    "experiments bun_2020": "it takes minutes, and writes into the checkout",
    "python docs/examples/income.py": "`tests/experiments/test_tutorial.py` runs it",
    "python docs/examples/sweep.py": "`test_every_example_runs_and_prints_its_results` runs it",
    "dpbt check": "it prints on a terminal alone; see `tests/test_owner_output.py`",
    "dpbt convert domain.json rows.parquet": "it reads a hundred million rows",
    "dpbt fit rows.blocks": "it reads a hundred million rows",
    "dpbt predict model.json more.parquet": "it reads the model of a hundred million rows",
}
"""Commands by how they begin, and why a test reads their arguments and does not run them."""

_BLOCK = re.compile(
    r"^```(\w*)\n(.*?)^```$(?:\n\n(?=```\n)```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A fenced block, and the block in no language right below it, which is its output."""

    language: str
    text: str
    shown: str | None


def blocks_with_outputs(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [Block(*blocks.groups()) for blocks in _BLOCK.finditer(page)]


def blocks_in_language(page: str, language: str) -> list[str]:
    """The blocks of one language, outputs among them if that is no language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def inline_code(page: str) -> list[str]:
    """What stands between backticks in the prose, each on one line."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(text.split()) for text in re.findall(r"`([^`]+)`", prose)]


def commands_of_block(block: str) -> list[list[str]]:
    """The words of each command of a block, without comments; `python -m dpbt` is `dpbt`."""
    lines = block.replace("\\\n", " ").splitlines()
    return [
        command_without_folder(command)
        for line in lines
        if (command := shlex.split(line, comments=True))
    ]


def command_without_folder(command: list[str]) -> list[str]:
    """A command without the folder of its program, and without `python -m`."""
    program, *rest = command
    program = re.sub(r"^\.venv.*/|(?<=python)3$", "", program)
    return rest[1:] if program == "python" and rest[:1] == ["-m"] else [program, *rest]


def reason_not_to_run(command: list[str]) -> str | None:
    """The entry of `NOT_RUN` for a command; None for one that is run."""
    text = " ".join(command)
    return next((start for start in NOT_RUN if f"{text} ".startswith(f"{start} ")), None)


def is_known_command(command: list[str]) -> bool:
    """Whether a command is of a program whose arguments `check` reads; all else is the shell's."""
    return command[0] in (*PROGRAMS, "paper_figures", "make", "pip", "venv", "python")


def check_command(command: list[str]) -> None:
    """Read the arguments of a command as its program does.

    Raises:
        InputError: if the program would refuse them.
        AssertionError: for a name that does not exist.
    """
    program, *rest = command
    match program:
        case "dpbt" | "experiments":
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                _parser(program).parse_args(rest or ["--help"])  # which exits
        case "paper_figures":
            figure_names = {*FIGURES, *(name.split("/")[0] for name in FIGURES)}
            options = argparse.ArgumentParser()
            for option in ("--results", "--out", "--gallery"):
                options.add_argument(option)
            named = options.parse_known_args(rest)[1]  # an option that is not known stays
            assert set(named) <= figure_names, command
        case "make":
            text = (ROOT / "Makefile").read_text()
            targets = re.findall(r"^([a-z-]+(?: [a-z-]+)*):(?!=)", text, re.MULTILINE)
            names = {name for line in targets for name in line.split()}
            for word in rest:
                variable, value, _ = word.partition("=")
                assert f"$({variable})" in text if value else word in names, command
        case "python":
            assert (ROOT / rest[0]).is_file(), command
        case "venv" | "pip":
            pass
        case _:
            raise AssertionError(f"no program {program!r}")


@functools.cache
def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(prog=program)
    parser.add_commands(PROGRAMS[program].COMMANDS)
    return parser


def run_block(block: str, folder: Path) -> str | None:
    """What the commands of a block print in the current folder; None if one is not run.

    Args:
        block: the text.
        folder: the current folder, which stands for the root of a checkout.
    """
    commands = commands_of_block(block)
    if not any(is_known_command(command) for command in commands):
        subprocess.run(["bash", "-ec", block], cwd=folder, check=True)
        return ""
    printed = io.StringIO()
    for command in commands:
        check_command(command)
        if reason_not_to_run(command) is None:
            program, *rest = command
            with contextlib.redirect_stdout(printed):
                assert PROGRAMS[program].main(rest) == 0, command
    return None if any(map(reason_not_to_run, commands)) else printed.getvalue()


def without_numbers(text: str) -> str:
    """A text without its numbers and without the classes of its rows, which are noise."""
    return re.sub(r"[<>]=?50K|[-+]?\d+(\.\d+)?(e[-+]\d+)?", "#", text).strip()
