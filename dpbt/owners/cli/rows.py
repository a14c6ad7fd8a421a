"""Commands that read private rows: check how a domain reads them, convert them, and learn."""

import argparse
import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dpbt
from dpbt.common.watching import show_progress
from dpbt.data import files
from dpbt.data.convert import raw_rows_of_columns
from dpbt.data.domains import Domain, Label, check_same_domain
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners.cli import shared
from dpbt.owners.cli.shared import (
    DOMAIN,
    PROGRESS,
    ROWS,
    InputError,
    command,
    of_input,
    option,
    out,
)

if TYPE_CHECKING:
    from dpbt.data.blocks import BlockTable
    from dpbt.models.model import Model
    from dpbt.owners.filter import Filter
    from dpbt.training.checkpoint import Checkpoint
    from dpbt.types import Recipe, Table


@command(option("file ROWS", ROWS), option("--domain FILE", DOMAIN, required=True), *shared.FORM)
def check(options: argparse.Namespace) -> None:
    """Show the owner of rows how a domain reads them, before a budget is spent on them.

    It counts rows whose label is not as declared, cells without a value, and columns whose values
    all lie in one bin. The counts are private, so they are shown on a terminal alone: standard
    output that goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is
    learned and nothing is paid. `fit` and `convert` run the same check on a terminal.
    """
    if not shared.is_terminal(sys.stdout):
        raise InputError(
            "check prints exact counts of private rows, so it does so on a terminal alone"
        )
    try:
        domain, label = shared.declared(options.domain, options)
        form = shared.form_of(options, (*domain, *label.column_names))
        print(shared.report(options.file, domain, label, form))
    except InputError:
        with contextlib.suppress(ValueError, OSError):  # there may be no line
            names = [] if options.file.endswith(".parquet") else [*shared.names_in(options)]
            print(f"private if there is no header: the names in the first line\n  {names}")
        raise


@command(
    option("domain DOMAIN", DOMAIN),
    option("file ROWS", ROWS),
    option("folder FOLDER", "the folder of the blocks; it must not exist"),
    option("--capacity N", "a public bound on the number of rows; without it that is public"),
    option("--rows-per-block K", "how many rows a block has (%(default)s)", default=2**20),
    shared.YES,
    PROGRESS,
    *shared.FORM,
)
def convert(options: argparse.Namespace) -> None:
    """Write a file of rows to a folder of blocks, for tables that are larger than memory.

    Each row is read by itself, and no cell is an error, as in `fit`. The folder is as private as
    the rows, and only its owner may read it. `fit` then takes the folder in place of the file.
    """
    domain, label = shared.declared(options.domain, options)
    form = shared.form_of(options, (*domain, *label.column_names))
    shared.ask(options.file, domain, label, options.yes, "Convert", form)
    with of_input(), show_progress(f"reading {options.file}", options.progress):
        chosen = {"capacity": options.capacity, "rows_per_block": options.rows_per_block}
        dpbt.convert.convert_file(options.file, domain, label, options.folder, form, **chosen)
    print(f"wrote {options.folder}: private, as the rows are")


@command(
    option("file ROWS", f"{ROWS}, or a folder that `convert` wrote"),
    *shared.RECIPE,
    option("--seed SEED", "for research alone: whoever knows it can subtract the noise"),
    option("--filter FILE", "pay from this file of `filter new`, which has the same --rows"),
    shared.YES,
    PROGRESS,
    *shared.FORM,
    option("--checkpoint FILE", "of a folder of blocks: goes on from it after a stop"),
    option("--memory-mb N", "of a folder of blocks: what the process may take (4096)"),
    *out("the file of the model", required=True),
)
def fit(options: argparse.Namespace) -> None:
    """Learn a private model of a file of rows, and write it to one file.

    Each row of the file is read by itself, and no cell is an error. The domain says which column is
    the label, and what it may hold: two classes, several, or a number in a range. It may name a
    column of weights. A row with another label is absent. What is printed and written is covered by
    the guarantee, up to the running time. A report that a terminal shows to the owner of the rows
    is not.

    The recipe bdpe makes models that a person can read. A filter refuses what it cannot pay, and
    pays once, also if a run was stopped and goes on. A checkpoint keeps what was released so far,
    and the keys until the model is written; the same command goes on from it.
    """
    in_blocks = Path(options.file).is_dir()
    if not in_blocks and (options.checkpoint is not None or options.memory_mb is not None):
        raise InputError(
            "--checkpoint and --memory-mb need a folder of blocks, which `convert` writes"
        )
    path = shared.path_to_write(options)
    domain, label = shared.declared(options.domain, options)
    with of_input():
        budget = None if options.filter is None else dpbt.Filter.open(options.filter)
    with show_progress("setting the noise", options.progress):
        recipe = shared.recipe_of(options, domain, label)
    goes_on = options.checkpoint is not None and Path(options.checkpoint).exists()
    if budget is not None and not goes_on:
        with of_input():  # before a row is read, so that a refusal tells nothing of the rows
            budget.check(recipe)

    with contextlib.ExitStack() as stack:
        kept = None
        if in_blocks:
            table = _table_of_folder(options, domain, label)
        else:
            form = shared.form_of(options, (*domain, *label.column_names))
            shared.ask(options.file, domain, label, options.yes, "Learn and pay", form)
            table = _table_of_file(options, domain, label, form)
        if options.checkpoint is not None:
            from dpbt.training.checkpoint import Checkpoint

            with of_input():
                kept = stack.enter_context(Checkpoint(Path(options.checkpoint)))
        with of_input() if in_blocks else contextlib.nullcontext():  # a block may be damaged
            model = _learned(options, table, recipe, budget, kept)
        save = functools.partial(dpbt.save, model, domain=domain, classes=label.classes)
        path = shared.keep(path, save)
        if kept is not None:
            kept.finish()
    lines = str(dpbt.ledger(model)).splitlines()
    print(next(line for line in lines if line.startswith("total:")))
    if budget is not None:
        print(f"{options.filter}: {budget.words()}")
    print(f"wrote {path}")


def _table_of_folder(options: argparse.Namespace, domain: Domain, label: Label) -> "BlockTable":
    """The table of a folder of blocks.

    Raises:
        InputError: for a folder that is none, or of another domain or label, or with room for more
            rows than --rows.
        OSError: if it cannot be read.
    """
    path = options.file
    with of_input():
        table = dpbt.blocks.open_folder(path)
        check_same_domain(table.domain, domain, path, options.domain)
    if table.manifest.label.table_options != label.table_options:
        words = "converted with another label, or bound on weights or on rows of a user"
        raise InputError(f"{path}: {words}")
    if table.capacity > options.rows:
        raise InputError(
            f"{path}: has room for {table.capacity} rows, more than --rows {options.rows}, the "
            "stated bound on their number"
        )
    return table


def _table_of_file(
    options: argparse.Namespace, domain: Domain, label: Label, form: files.TextForm
) -> "Table":
    """The rows of a file in memory.

    Raises:
        InputError: for a file that is no table or lacks a column, and for more rows than --rows.
        OSError: if it cannot be read.
    """
    with show_progress(f"reading {options.file}", options.progress), of_input(options.file):
        columns = files.read_columns(options.file, (*domain, *label.column_names), form)
        rows = raw_rows_of_columns(label, columns)
    if rows.users is None and len(rows.labels) > options.rows:
        raise InputError(
            f"{options.file}: more rows than --rows {options.rows}, the stated bound on their "
            "number; lines that are blank or cannot be read count"
        )
    with show_progress("making the table", options.progress), of_input():
        return dpbt.table(
            domain,
            **rows._asdict(),
            **label.table_options,
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
    from dpbt.training import fit

    if kept is not None and options.seed is None:
        key, public_key = kept.own_keys()
    else:
        key, public_key = dpbt.keys.noise_and_public_keys(options.seed)
    rows, more = [table], {}
    if isinstance(table, BlockTable):
        rows = (block._replace(bins=block.bins.T) for block in table.iter_rows(BLOCK_ROWS))
        more = {"memory": (options.memory_mb or 4096) * 2**20, "checkpoint": kept}
    noise = dpbt.keys.noise_key(key, rows)

    words = "learning; this may compile first"
    with show_progress(words, options.progress) as report, contextlib.ExitStack() as refused:
        refused.enter_context(of_input())

        def pay(run: str | None) -> None:
            if budget is not None:
                budget.payment_callback(recipe.on(table), key)(run)
            refused.pop_all()  # what can be refused has been, and any other error is a bug

        model = fit.fit_unwarned(noise, table, recipe, public_key, pay=pay, progress=report, **more)
        dpbt.keys.warn_of_research(noise)
        jax.block_until_ready(model)
    return model
