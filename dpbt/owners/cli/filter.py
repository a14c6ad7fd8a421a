"""Open a budget for many fits of the same rows, or show what remains of it."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpbt
from dpbt.owners.cli.inputs import BOUND_HELP, DELTA_ANYWAY_OPTION, NEIGHBOUR_OPTIONS
from dpbt.owners.cli.outputs import say_on_interruption_which_files_were_written
from dpbt.owners.cli.parsing import (
    InputError,
    as_command,
    as_input_error,
    option,
    positive_number,
    say_on_interruption,
)
from dpbt.privacy.accounting import MEASURES

_TWO_NUMBERS: Any = {"nargs": 2, "metavar": ("EPSILON", "DELTA"), "type": float, "action": "store"}


@as_command(
    option("filter FILE", "the file of the filter; it must not exist"),
    option("--epsilon EPSILON", "the budget of all fits together, such as 2"),
    option("--delta DELTA", "of all fits together; 0 for a pure guarantee (%(default)s)"),
    DELTA_ANYWAY_OPTION,
    option("--rows N", f"{BOUND_HELP}; every fit must have it", required=True),
    *NEIGHBOUR_OPTIONS,
    option("--measure NAME", "what is added up: one of %(choices)s", choices=[*MEASURES]),
)
def create_privacy_filter(options: argparse.Namespace) -> None:
    """Open a budget for many fits of the same rows, in a file that `fit --filter` spends from.

    The file is the budget. Do not copy it, and keep it where no backup puts an old one in its
    place: what an old copy says was not spent could be spent again. What is added up is epsilon
    without a delta; rho with one, for all recipes; mu for fits of auto with a delta alone, of which
    it allows more.
    """
    names = ("epsilon", "delta", "rows", "relation", "max_rows_per_user", "measure", "delta_anyway")
    with say_on_interruption_which_files_were_written(Path(options.filter)), as_input_error():
        print(dpbt.Filter(**{name: getattr(options, name) for name in names}, path=options.filter))
    print(f"wrote {options.filter}")


@as_command(
    option("filter FILE", "a file that `filter new` wrote"),
    option("--ledger", "print the ledger of all fits, too"),
)
def print_privacy_filter(options: argparse.Namespace) -> None:
    """Show the releases that a budget paid for, and the rest; --ledger adds every paid draw."""
    with as_input_error():
        opened = dpbt.Filter.open(options.filter)
        print(opened)
        if options.ledger:
            print(f"\n{opened.ledger}")


@as_command(
    option("filter FILE", "a file that `filter new` wrote"),
    option("--name TEXT", "what was released; it is kept in the file", required=True),
    option(
        "--gaussian NOISE",
        "the deviation of Gaussian noise, over the most that a row moves the value (L2)",
        type=positive_number,
    ),
    option(
        "--laplace NOISE",
        "the scale of Laplace noise, over that (L1); it costs epsilon = 1 / NOISE",
        type=positive_number,
    ),
    option("--pure EPSILON", "pure differential privacy", required=False),
    option("--zcdp RHO", "zero-concentrated differential privacy", type=positive_number),
    option("--epsilon-delta", "an epsilon and a delta, and no more known", **_TWO_NUMBERS),
    option("--count N", "how often (1)", default=1),
    option("--date DAY", "of the release, as 2026-11-26; by default today"),
)
def charge_privacy_filter(options: argparse.Namespace) -> None:
    """Pay from a budget for a release of the same rows that dpbt did not make, before it is made.

    Noise is stated for one row, and costs as all rows of a person under the relation of the filter.
    State an epsilon, a delta and a rho for these together. A budget that cannot pay refuses. One of
    rho or mu keeps little for a delta of others, so state the noise or a rho where you know them.
    """
    from dp_accounting import dp_event

    from dpbt.privacy.external_events import EpsilonDeltaDpEvent

    event_makers: dict[str, Callable[..., Any]] = {
        "gaussian": dp_event.GaussianDpEvent,
        "laplace": dp_event.LaplaceDpEvent,
        "pure": EpsilonDeltaDpEvent,
        "zcdp": dp_event.ZCDpEvent,
        "epsilon_delta": lambda both: EpsilonDeltaDpEvent(*both),
    }
    values = {name: getattr(options, name) for name in event_makers}
    stated_costs = {name: value for name, value in values.items() if value is not None}
    if len(stated_costs) != 1:
        raise InputError("state one of --gaussian, --laplace, --pure, --zcdp and --epsilon-delta")
    [(name, value)] = stated_costs.items()

    def describe_payment() -> str:
        return f"`dpbt filter show {options.filter}` says whether it was paid for"

    with say_on_interruption(describe_payment), as_input_error():
        opened = dpbt.Filter.open(options.filter)
        event = dp_event.SelfComposedDpEvent(event_makers[name](value), options.count)
        opened.charge(event, options.name, date=options.date)
    print(f"{options.filter}: {opened.describe_remaining()}")


PROGRAMS = {
    "new": create_privacy_filter,
    "show": print_privacy_filter,
    "charge": charge_privacy_filter,
}
