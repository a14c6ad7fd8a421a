"""Private models of a table, from the command line. `dpbt COMMAND --help` describes a command.

Exit status 2 means bad input, and 130 Ctrl-C. A file is written whole or not at all.
"""

import contextlib
import gc
import os
import sys

import dpbt
from dpbt.owners.cli.parsing import Parser, is_status_of_interruption, run_command_line

COMMANDS = {
    "check": "dpbt.owners.cli.rows:print_owner_report",
    "convert": "dpbt.owners.cli.rows:convert_rows_to_blocks",
    "fit": "dpbt.owners.cli.rows:fit_model",
    "preview": "dpbt.owners.cli.audit:preview_recipe",
    "predict": "dpbt.owners.cli.models:write_predictions_of_rows",
    "evaluate": "dpbt.owners.cli.models:evaluate_model_on_labelled_rows",
    "explain": "dpbt.owners.cli.models:explain_model_or_row",
    "export": "dpbt.owners.cli.models:export_model",
    "statement": "dpbt.owners.cli.models:print_privacy_statement",
    "plot": "dpbt.owners.cli.models:plot_model",
    "theorem": "dpbt.owners.cli.models:print_theorems",
    "audit": "dpbt.owners.cli.audit:audit_recipe",
    "domain": "dpbt.owners.cli.domains",
    "filter": "dpbt.owners.cli.filter",
}
"""The commands by their names. A command is imported when it is run."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command of the command line, and return its exit status.

    Bad input ends in one line and status 2.

    Args:
        arguments: those of the command line; None for those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = Parser(prog="dpbt", description=__doc__)
    parser.add_argument("--version", action="version", version=f"dpbt {dpbt.__version__}")
    parser.add_commands(COMMANDS)
    return run_command_line(parser, arguments)


def program() -> None:
    """Run the command of this process and end the process.

    After an interruption it ends at once: threads of JAX that still compile may crash an orderly
    exit, and then the exit status would be another.
    """
    gc.set_threshold(200_000, 20, 100)  # tracing makes many objects, and few of them are garbage
    status = main()
    if is_status_of_interruption(status):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    program()
