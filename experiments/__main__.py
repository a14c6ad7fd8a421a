"""Run the experiments. `python -m experiments COMMAND --help` describes a command.

The command of a paper has programs: `run` computes and saves results, `tables` prints them, and
`aggregate` keeps them in short. `python -m paper_figures` draws the latter. Exit status 2 means
bad input, and 130 an interruption.
"""

import sys

from dpbt.owners.cli.parsing import run_command_line
from experiments.common.cache import use_compilation_cache
from experiments.common.commands import Parser

PAPERS = ("nock_henecka_2020", "asadi_2022", "bun_2020", "bojarski_2014")
COMMANDS = {
    "demo": "experiments.demo",
    "audit": "experiments.audit",
    "audits": "experiments.audits",
    "reconstruction": "experiments.audits.reconstruction",
    "frontier": "experiments.comparisons.frontier",
    "classes": "experiments.comparisons.classes",
    "regression": "experiments.comparisons.regression",
    "numbers": "experiments.comparisons.numbers",
    "tuning": "experiments.comparisons.tuning",
    "sampling": "experiments.comparisons.sampling",
    "bench": "experiments.bench",
    "data": "experiments.common.data.command",
    "reproduction": "experiments.reproduction",
    **{name: f"experiments.papers.{name}" for name in PAPERS},
}


def main(words: list[str] | None = None) -> int:
    """Run one command and return its exit status; bad input ends in one line and status 2."""
    words = sys.argv[1:] if words is None else words
    parser = Parser(prog="python -m experiments", description=__doc__)
    parser.add_commands(COMMANDS)
    use_compilation_cache()
    kept = "what was saved stays; the same command goes on with a sweep, and begins all else anew"
    return run_command_line(parser, words, default_interruption_text=kept)


if __name__ == "__main__":
    sys.exit(main())
