"""Compare `auto` with `dpbt.tune` among candidates around it.

Both have the same total epsilon and delta. `tuned` pays for its choice: its fits have less, and it
learns from three quarters of the rows. `hindsight` is the candidate that is best on the test rows,
and pays nothing: it says how much there is to gain, and is no private method.

Results are in `tuning.csv`. A cell that is there with the same setting, splits and rows is not
measured again. `--doc` measures nothing.
"""

import argparse
import json
from pathlib import Path

from experiments.common import commands, results, tables
from experiments.common.cells import Store
from experiments.frontier import settings, tuned_tables
from experiments.frontier.cells import KEYS
from experiments.frontier.methods import TUNED
from experiments.frontier.run import measured_lines


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    usual = settings.TUNING
    parser.add_argument("--dataset", metavar="NAME", nargs="+", help="data sets (ten)")
    words = f"total budgets ({' '.join(f'{each:g}' for each in usual['epsilon'])})"
    parser.add_argument("--epsilon", type=commands.positive, nargs="+", help=words)
    words = "0 for a pure guarantee (0 5e-08)"
    parser.add_argument("--delta", type=commands.share, nargs="+", help=words)
    words = f"methods ({', '.join(('auto', *TUNED))})"
    parser.add_argument(
        "--methods", metavar="NAME", nargs="+", choices=("auto", *TUNED), help=words
    )
    words = f"splits into training and test rows ({usual['splits']})"
    parser.add_argument("--splits", type=commands.whole(1), help=words)
    words = "write the tables of the saved results into this page, and a summary beside it as CSV"
    parser.add_argument("--doc", metavar="PAGE", help=words)
    commands.add_out(parser, results.folder("tuning"))
    commands.add_data(parser)
    commands.add_smoke(parser)
    commands.add_json(parser, "print the lines as a JSON list")


def run(options: argparse.Namespace) -> None:
    """Measure what is missing, and print all lines that were asked for; or write the page."""
    path = commands.out_folder(options) / "tuning.csv"
    if options.doc is not None:
        for written in tuned_tables.write(Path(options.doc), path):
            print(f"wrote {written}")
        return

    usual = settings.TUNING_SMOKE if options.smoke else settings.TUNING
    given = {name: getattr(options, name) for name in usual}
    chosen = {name: usual[name] if each is None else each for name, each in given.items()}
    options.bound = 1.0
    lines = list(measured_lines(argparse.Namespace(**chosen), options, Store(path, "tuning")))
    if options.json:
        print(json.dumps([{key: line[key] for key in KEYS} for line in lines], indent=1))
        return
    print(tables.of_lines(lines, KEYS[:-1], ".3g") if lines else "nothing was measured")
    print(f"wrote {path}")
