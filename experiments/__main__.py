"""Experiments: `python -m experiments COMMAND --help` says what each one has.

A paper is a command of programs: `run` computes and saves, `table` prints what was saved, and
`python -m paper_figures` draws it.
"""

import sys

from experiments.common.cache import use_compilation_cache
from experiments.common.commands import Parser, add_commands

PAPERS = ("nock_henecka_2020", "asadi_2022", "bun_2020", "bojarski_2014")
COMMANDS = {
    "demo": "experiments.demo",
    "audit": "experiments.audit",
    "bench": "experiments.bench",
    "data": "experiments.common.data.command",
    **{name: f"experiments.papers.{name}" for name in PAPERS},
}


def main(arguments: list[str] | None = None) -> int:
    """Run one experiment; bad input ends in one line on standard error and exit status 2."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = Parser(prog="python -m experiments", description=__doc__)
    add_commands(parser, COMMANDS)
    if not given:
        parser.print_help()
        return 0

    use_compilation_cache()
    try:
        options = parser.parse_args(given)
        options.program(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
