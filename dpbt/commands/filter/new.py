"""Open a budget for many fits of the same rows, in a file that `fit --filter` spends from.

The file is the budget. Do not copy it, and keep it where no backup puts an old one in its place:
what an old copy says was not spent could be spent again.
"""

import argparse

from dpbt.commands import inputs
from dpbt.commands import options as kinds
from dpbt.commands.errors import of_input
from dpbt.privacy.measures import MEASURES


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("filter", metavar="FILE", help="the file of the filter; it must not exist")
    words = "the budget of all fits together, such as 2"
    parser.add_argument("--epsilon", type=kinds.finite, required=True, help=words)
    words = "of all fits together; 0 for a pure guarantee (%(default)s)"
    parser.add_argument("--delta", type=kinds.share, default=0.0, help=words)
    words = "a public bound on the number of rows of the file of rows, which every fit must have; "
    words += "under replace_one their public number"
    parser.add_argument("--rows", type=kinds.whole(1), required=True, metavar="N", help=words)
    inputs.add_relation(parser)
    words = "what is added up: epsilon without a delta; rho with one, for all recipes; mu for fits "
    words += "of auto with a delta alone, of which it allows more"
    parser.add_argument("--measure", choices=tuple(MEASURES), help=words)


def run(options: argparse.Namespace) -> None:
    """Write the file, and print the filter.

    Raises:
        InputError: for numbers out of range, or a file that exists.
    """
    from dpbt.privacy.filter import Filter  # needs JAX

    with of_input():
        opened = Filter(
            options.epsilon,
            options.delta,
            rows=options.rows,
            relation=options.relation,
            rows_per_person=options.rows_per_person,
            measure=options.measure,
            path=options.filter,
        )
    print(opened)
    print(f"wrote {options.filter}")
