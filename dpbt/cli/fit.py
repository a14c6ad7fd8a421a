"""Learn a private model of a file of rows, and write it to one file.

Each row of the file is read by itself, and no cell is an error. The domain says which column is the
label, and what it may hold: two classes, several, or a number in a range. It may name a column of
weights. A row with another label is absent. What is printed and written is covered by the
guarantee, up to the running time. A report that a terminal shows to the owner of the rows is not.
"""

import argparse
import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dpbt
from dpbt.cli import shared
from dpbt.cli.shared import (
    LARGEST_SEED,
    InputError,
    add_out,
    add_yes,
    ask,
    free,
    is_terminal,
    keep,
    of_input,
    whole,
    working,
)
from dpbt.data import files
from dpbt.data.domains import Domain, Label
from dpbt.release.scoring import BLOCK_ROWS

if TYPE_CHECKING:
    from dpbt.common.types import Recipe, Table
    from dpbt.data.blocks import BlockTable
    from dpbt.privacy.filter import Filter
    from dpbt.release.model import Model
    from dpbt.training.blocks import Progress
    from dpbt.training.checkpoint import Checkpoint


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header, a Parquet file, or a folder that `convert` wrote"
    parser.add_argument("file", metavar="ROWS", help=words)
    shared.add_recipe(parser)
    words = "for research alone: a seed in place of a fresh key; whoever knows it can subtract the "
    words += "noise"
    parser.add_argument("--seed", type=whole(0, LARGEST_SEED), help=words)
    words = "pay for the fit from this file of `filter new`, which has the same --rows; what it "
    words += "cannot pay is refused"
    parser.add_argument("--filter", metavar="FILE", help=words)
    add_yes(parser)
    words = "of a folder of blocks: a file that keeps what was released so far, and the keys until "
    words += "the model is written; run the same command again to go on after a stop"
    parser.add_argument("--checkpoint", metavar="FILE", help=words)
    words = "of a folder of blocks: how much memory the process may take (4096)"
    parser.add_argument("--memory-mb", type=whole(1), metavar="N", help=words)
    add_out(parser, "the file of the model", required=True)


def run(options: argparse.Namespace) -> None:
    """Read, learn, save, and print what it cost.

    A filter pays once, also if a run was stopped and goes on from its checkpoint.

    Raises:
        InputError: for a file or an option that is not as expected. No cell is shown, and no number
            of rows.
    """
    in_blocks = Path(options.file).is_dir()
    if not in_blocks and (options.checkpoint is not None or options.memory_mb is not None):
        raise InputError(
            "--checkpoint and --memory-mb need a folder of blocks, which `convert` writes"
        )
    path = free(options)
    domain, label = shared.declared(options.domain)
    budget = None if options.filter is None else shared.filter_of(options.filter)
    with working("setting the noise"):
        recipe = shared.recipe_of(options, domain, label)
    goes_on = options.checkpoint is not None and Path(options.checkpoint).exists()
    if budget is not None and not goes_on:
        with of_input():  # before a row is read, so that a refusal tells nothing of the rows
            budget.check(recipe)

    with contextlib.ExitStack() as stack:
        kept = None
        if in_blocks:
            table = shared.opened(options.file, domain, label, options.rows)
        else:
            ask(options.file, domain, label, options.yes, "Learn and pay")
            table = _table_of_file(options, domain, label)
        if options.checkpoint is not None:
            from dpbt.training.checkpoint import Checkpoint

            with of_input():
                kept = stack.enter_context(Checkpoint(Path(options.checkpoint)))
        with of_input() if in_blocks else contextlib.nullcontext():  # a block may be damaged
            model = _learned(options, table, recipe, budget, kept)
        save = functools.partial(dpbt.save, model, domain=domain, classes=label.classes)
        path = keep(path, save)
        if kept is not None:
            kept.finish()
    lines = str(dpbt.ledger(model)).splitlines()
    print(next(line for line in lines if line.startswith("total:")))
    if budget is not None:
        print(f"{options.filter}: {budget.words()}")
    print(f"wrote {path}")


def _table_of_file(options: argparse.Namespace, domain: Domain, label: Label) -> "Table":
    """The rows of a file in memory.

    Raises:
        InputError: for a file that is no table or lacks a column, and for more rows than --rows.
        OSError: if it cannot be read.
    """
    with working(f"reading {options.file}"), of_input(options.file):
        columns = files.read_columns(options.file, (*domain, *label.columns))
        labels = columns.pop(label.column)
        weights = None if label.weight is None else columns.pop(label.weight.column)
    if len(labels) > options.rows:
        raise InputError(
            f"{options.file}: more rows than --rows {options.rows}, the stated bound on their "
            "number; lines that are blank or cannot be read count"
        )
    with working("making the table"):
        return dpbt.table(
            domain,
            columns,
            labels,
            **label.options,
            sample_weight=weights,
            capacity=options.rows if options.relation == "add_remove" else None,
        )


def _learned(
    options: argparse.Namespace,
    table: "Table | BlockTable",
    recipe: "Recipe",
    budget: "Filter | None",
    kept: "Checkpoint | None",
) -> "Model":
    """What is learned of a table, which may be in blocks; a filter pays before anything is drawn.

    Raises:
        InputError: for what a fit refuses, and what the filter does not pay.
    """
    import jax

    from dpbt.data.blocks import BlockTable
    from dpbt.privacy import keys
    from dpbt.training import fit

    if kept is not None and options.seed is None:
        key, public_key = kept.own_keys()
    else:
        key, public_key = keys.noise_and_public(options.seed)
    rows, more = [table], {}
    if isinstance(table, BlockTable):
        rows = (block._replace(bins=block.bins.T) for block in table.pieces(BLOCK_ROWS))
        more = {"memory": (options.memory_mb or 4096) * 2**20, "checkpoint": kept}
        more["progress"] = _progress
    noise = keys.noise_key(key, rows)

    with working("learning; this compiles first"), contextlib.ExitStack() as refused:
        refused.enter_context(of_input())

        def pay(run: str | None) -> None:
            if budget is not None:
                budget.paying(recipe, key)(run)
            refused.pop_all()  # what can be refused has been, and any other error is a bug

        model = fit.learn(noise, table, recipe, public_key, pay=pay, **more)
        jax.block_until_ready(model)
    if options.seed is not None:
        words = "--seed makes the noise, and whoever knows it can subtract it; release private rows"
        print(f"warning: research key: {words} without it", file=sys.stderr)
    return model


def _progress(state: "Progress") -> None:
    """Show on a terminal how far a fit of a folder is."""
    if is_terminal(sys.stderr):
        words = f"\r\033[K{state.stage}: {state.done} of {state.all}"
        print(words, end="", file=sys.stderr, flush=True)
