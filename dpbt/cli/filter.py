"""Open a budget for many fits of the same rows, or show what is left of it."""

import argparse

import dpbt
from dpbt.cli.shared import BOUND, PEOPLE, command, of_input, option
from dpbt.privacy.accounting import MEASURES


@command(
    option("filter FILE", "the file of the filter; it must not exist"),
    option("--epsilon EPSILON", "the budget of all fits together, such as 2"),
    option("--delta DELTA", "of all fits together; 0 for a pure guarantee (%(default)s)"),
    option("--rows N", f"{BOUND}; every fit must have it", required=True),
    *PEOPLE,
    option("--measure NAME", "what is added up: one of %(choices)s", choices=[*MEASURES]),
)
def new(options: argparse.Namespace) -> None:
    """Open a budget for many fits of the same rows, in a file that `fit --filter` spends from.

    The file is the budget. Do not copy it, and keep it where no backup puts an old one in its
    place: what an old copy says was not spent could be spent again. What is added up is epsilon
    without a delta; rho with one, for all recipes; mu for fits of auto with a delta alone, of which
    it allows more.
    """
    names = ("epsilon", "delta", "rows", "relation", "max_rows_per_user", "measure")
    with of_input():
        print(dpbt.Filter(**{name: getattr(options, name) for name in names}, path=options.filter))
    print(f"wrote {options.filter}")


@command(
    option("filter FILE", "a file that `filter new` wrote"),
    option("--ledger", "print the ledger of all fits, too"),
)
def show(options: argparse.Namespace) -> None:
    """Show what a budget was spent on, and what is left; --ledger adds every draw that was paid."""
    with of_input():
        opened = dpbt.Filter.open(options.filter)
        print(opened)
        if options.ledger:
            print(f"\n{opened.ledger}")


PROGRAMS = {"new": new, "show": show}
