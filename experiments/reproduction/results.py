"""Compute the papers' results again, and aggregate them.

Without --all this is meant to take at most four hours on two cores. Results lie in `results/`, and
runs that were stopped resume there. Aggregated results replace those of `reproduction/`, which are
kept with the code. Every step is a command that can be run alone. --list prints them with the
seconds that each took on a machine of two cores that did other work, too. Data sets that are
missing end the run with the name of the first.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from dpbt.owners.cli.parsing import InputError
from experiments.common import aggregated
from experiments.reproduction.claims import PAPERS

SMOKE_FOLDER = "results/smoke"


class Step(NamedTuple):
    """A command.

    Attributes:
        paper: the paper's name.
        words: the program and its options.
        smoke: the options of its smallest setting; None if there is none.
        long: whether only --all runs it.
        seconds: its measured seconds; None if it was not measured as a whole.
    """

    paper: str
    words: str
    smoke: str | None = None
    long: bool = False
    seconds: int | None = None


BANKNOTE, MUSHROOM = "--smoke --datasets banknote", "--smoke --dataset mushroom"
SMALL_KEYS = "--dataset mushroom --keys 1"
SMALL_FOLDS = f"{SMALL_KEYS} --folds 2"
STEPS = (
    Step("bun_2020", "run", "--smoke --samples 1 --keys 1", seconds=136),
    Step("bun_2020", "rates", "--smoke --samples 1 --keys 1", seconds=18),
    Step("bun_2020", "sizes --samples 20 --keys 2", "--smoke --samples 1 --keys 1"),
    Step("bojarski_2014", "run --eta", "--smoke --dataset banknote", seconds=1578),
    Step("bojarski_2014", "points", "--smoke"),
    Step("bojarski_2014", "draft", "--smoke --dataset voting --repeats 2"),
    Step("asadi_2022", "sparsity", SMALL_KEYS, seconds=388),
    Step("asadi_2022", "series table2 --keys 5", SMALL_FOLDS, seconds=299),
    Step("asadi_2022", "series fig2 --keys 5", SMALL_FOLDS, seconds=311),
    Step("asadi_2022", "series fig3 --keys 5", SMALL_FOLDS, seconds=138),
    Step("asadi_2022", "series trees --keys 5", SMALL_FOLDS, seconds=16),
    Step("asadi_2022", "series rounds --keys 2", SMALL_FOLDS),
    Step("asadi_2022", "grid --learner top_down --printed --folds 2 --keys 3", long=True),
    Step("asadi_2022", "margins", MUSHROOM, seconds=222),
    Step("asadi_2022", "shared_budget"),
    Step("asadi_2022", "baselines", MUSHROOM, seconds=950),
    Step("asadi_2022", "rivals"),
    Step("nock_henecka_2020", "forests", BANKNOTE, seconds=1651),
    Step("nock_henecka_2020", "auto", BANKNOTE, seconds=628),
    Step("nock_henecka_2020", "criterion", BANKNOTE, seconds=515),
    Step("nock_henecka_2020", "run", BANKNOTE, seconds=1673),
    Step("nock_henecka_2020", "readings noise", long=True),
    Step("nock_henecka_2020", "run --clip 1 100 --out results/nock_henecka_2020_M", long=True),
    Step("nock_henecka_2020", "run --bins 50 --out results/nock_henecka_2020_50", long=True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "only these papers (all)"
    parser.add_argument("--paper", nargs="+", choices=PAPERS, metavar="NAME", help=words)
    words = "also what takes longer than four hours: the grids with other M and v_q"
    parser.add_argument("--all", action="store_true", help=words)
    words = "print the commands and run nothing"
    parser.add_argument("--list", action="store_true", help=words)
    words = "run the smallest setting of each command that has one, below results/smoke"
    parser.add_argument("--smoke", action="store_true", help=words)


def run_command(options: argparse.Namespace) -> None:
    """Run the steps in turn, each in its own process.

    Raises:
        InputError: naming the first command that failed.
    """
    for words, seconds in command_lines(options):
        note = () if seconds is None else (f" # {seconds} s",)
        print("python -m experiments", *words, *note, flush=True)
        if options.list:
            continue
        completed = subprocess.run([sys.executable, "-m", "experiments", *words], check=False)
        if completed.returncode:
            raise InputError(f"python -m experiments {' '.join(words)} ended with an error")


class Command(NamedTuple):
    """The arguments of `python -m experiments`, and the measured seconds of a step."""

    words: list[str]
    seconds: int | None = None


def command_lines(options: argparse.Namespace) -> Iterator[Command]:
    """Each step, and then the aggregation of each paper."""
    papers = options.paper or PAPERS
    for step in STEPS:
        left_out = step.paper not in papers or (step.long and not options.all)
        if left_out or (options.smoke and step.smoke is None):
            continue
        words = [step.paper, *step.words.split()]
        if options.smoke and step.smoke is not None:
            folder_suffixes = {"forests": "_forests", "criterion": "_criterion"}
            folder = step.paper + folder_suffixes.get(step.words, "")
            words += [*step.smoke.split(), "--out", os.path.join(SMOKE_FOLDER, folder)]
        yield Command(words, None if options.smoke else step.seconds)
    for paper in papers:
        out_words = ["--out", str(aggregated.FOLDER)]
        words = [paper, "aggregate", *([] if options.smoke else out_words)]
        if options.smoke:
            words += ["--results", os.path.join(SMOKE_FOLDER, paper)]
            words += ["--out", os.path.join(SMOKE_FOLDER, "reproduction"), "--reduced", "smoke"]
        if paper == "nock_henecka_2020":
            base = SMOKE_FOLDER if options.smoke else "results"
            for kind in ("forests", "criterion"):
                words += [f"--{kind}", os.path.join(base, f"{paper}_{kind}")]
            other_grids = ["results/nock_henecka_2020_M", "results/nock_henecka_2020_50"]
            words += ["--more", *other_grids] if options.all and not options.smoke else []
        yield Command(words)
        if paper == "nock_henecka_2020" and options.all and not options.smoke:
            yield Command([paper, "claims", *out_words])
            yield Command([paper, "nulls", *out_words])
