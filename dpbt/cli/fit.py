"""Learn a private model of a file of rows, and write it to one file.

Each row of the file is read by itself, and no cell is an error. The domain says which column is the
label, and what it may hold: two classes, several, or a number in a range. It may name a column of
weights. A row with another label is absent. What is printed and written is covered by the
guarantee, up to the running time. A report that a terminal shows to the owner of the rows is not.
"""

import argparse
import contextlib
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import dpbt
from dpbt.cli import check, inputs, output
from dpbt.cli import options as kinds
from dpbt.cli.errors import InputError, of_input
from dpbt.data.domains import Domain, Label
from dpbt.release.scoring import BLOCK_ROWS

if TYPE_CHECKING:
    from dpbt.common.types import Recipe
    from dpbt.privacy.filter import Filter
    from dpbt.release.model import Model
    from dpbt.training.blocks import Progress
    from dpbt.training.checkpoint import Checkpoint


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header, a Parquet file, or a folder that `convert` wrote"
    parser.add_argument("file", metavar="ROWS", help=words)
    inputs.add_recipe(parser, inputs.TUNED)
    words = "for research alone: a seed in place of a fresh key; whoever knows it can subtract the "
    words += "noise"
    parser.add_argument("--seed", type=kinds.whole(0, kinds.LARGEST_SEED), help=words)
    words = "pay for the fit from this file of `filter new`, which has the same --rows; what it "
    words += "cannot pay is refused"
    parser.add_argument("--filter", metavar="FILE", help=words)
    check.add_yes(parser)
    words = "of a folder of blocks: a file that keeps what was released so far, and the keys until "
    words += "the model is written; run the same command again to go on after a stop"
    parser.add_argument("--checkpoint", metavar="FILE", help=words)
    words = "of a folder of blocks: how much memory the process may take (4096)"
    parser.add_argument("--memory-mb", type=kinds.whole(1), metavar="N", help=words)
    output.add_out(parser, "the file of the model", required=True)


def run(options: argparse.Namespace) -> None:
    """Read, learn, save, and print what it cost.

    Raises:
        InputError: for a file or an option that is not as expected. No cell is shown, and no number
            of rows.
    """
    if options.filter is not None and options.recipe == inputs.TUNED:
        raise InputError(
            f"--recipe {inputs.TUNED} cannot be paid from a filter: it costs an epsilon at a "
            "delta, and a filter adds up what single recipes cost"
        )
    in_blocks = _is_in_blocks(options)
    path = output.free(options)
    domain, label = inputs.declared(options.domain)
    budget = None if options.filter is None else inputs.filter_of(options.filter)
    with output.working("setting the noise"):
        recipes = inputs.candidates_of(options, domain, label)
    goes_on = options.checkpoint is not None and Path(options.checkpoint).exists()
    if budget is not None and not goes_on:
        with of_input():  # before a row is read, so that a refusal tells nothing of the rows
            budget.check(recipes[0])
    if in_blocks:
        with contextlib.ExitStack() as stack:
            model, kept = _of_blocks(options, domain, label, recipes[0], budget, stack)
            _finish(options, path, model, domain, label, budget, kept)
        return
    check.ask(options.file, domain, label, options.yes, "Learn and pay")
    with output.working(f"reading {options.file}"):
        columns = inputs.columns_of(options.file, (*domain, *label.columns))
        labels = columns.pop(label.column)
        weights = None if label.weight is None else columns.pop(label.weight.column)
    if len(labels) > options.rows:
        raise InputError(
            f"{options.file}: more rows than --rows {options.rows}, the stated bound on their "
            "number; lines that are blank or cannot be read count"
        )

    with output.working("making the table"):
        import jax

        from dpbt import tuning
        from dpbt.privacy import keys
        from dpbt.training import checks, fit

        private = dpbt.table(
            domain,
            columns,
            labels,
            **label.options,
            sample_weight=weights,
            capacity=options.rows if options.relation == "add_remove" else None,
        )
        key, public_key = keys.noise_and_public(options.seed)
        with of_input():
            checks.check_run(private, recipes[0])
            checks.check(key, private, recipes[0], public_key)

    if budget is not None:
        with of_input():
            budget.take(recipes[0], key)

    key = keys.noise_key(key, [private])
    if options.seed is not None:
        _warn_of_seed()
    with output.working("learning; this compiles first"):
        if options.recipe == inputs.TUNED:
            warnings.simplefilter("ignore", keys.ResearchKeyWarning)  # it is said above
            model = tuning.tune(key, private, recipes, tuning.selection(), public_key).model
        else:
            model = fit.learn(key, private, recipes[0], public_key)
        jax.block_until_ready(model.hypotheses)
    _finish(options, path, model, domain, label, budget)


def _is_in_blocks(options: argparse.Namespace) -> bool:
    """Whether the rows are in a folder of blocks.

    Raises:
        InputError: for options that go with blocks alone, and for a recipe that reads none.
    """
    if Path(options.file).is_dir():
        if options.recipe == inputs.TUNED:
            raise InputError(f"--recipe {inputs.TUNED} learns from no blocks; auto does")
        return True
    if options.checkpoint is not None or options.memory_mb is not None:
        raise InputError(
            "--checkpoint and --memory-mb need a folder of blocks, which `convert` writes"
        )
    return False


def _of_blocks(
    options: argparse.Namespace,
    domain: Domain,
    label: Label,
    recipe: "Recipe",
    budget: "Filter | None",
    stack: contextlib.ExitStack,
) -> "tuple[Model, Checkpoint | None]":
    """Learn from a folder, and show how far it is on a terminal.

    A filter pays once, also if the run was stopped and goes on from the checkpoint, which the stack
    holds.

    Raises:
        InputError: for a folder that is not of the domain, and for what a fit refuses.
    """
    from dpbt.privacy import keys
    from dpbt.training import fit
    from dpbt.training.checkpoint import Checkpoint

    shown = output.is_terminal(sys.stderr)

    def progress(state: "Progress") -> None:
        if shown:
            words = f"\r\033[K{state.stage}: {state.done} of {state.all}"
            print(words, end="", file=sys.stderr, flush=True)

    with of_input():
        table = inputs.opened(options.file, domain, label)
        if table.capacity > options.rows:
            raise InputError(
                f"{options.file}: has room for {table.capacity} rows, more than --rows "
                f"{options.rows}, the stated bound on their number"
            )
        kept = None
        if options.checkpoint is not None:
            kept = stack.enter_context(Checkpoint(Path(options.checkpoint)))
        if kept is not None and options.seed is None:
            key, public_key = kept.own_keys()
        else:
            key, public_key = keys.noise_and_public(options.seed)
        blocks = (block._replace(bins=block.bins.T) for block in table.pieces(BLOCK_ROWS))
        noise = keys.noise_key(key, blocks)
        if options.seed is not None:
            _warn_of_seed()
        try:
            model = fit.learn(
                noise,
                table,
                recipe,
                public_key,
                memory=(options.memory_mb or 4096) * 2**20,
                checkpoint=kept,
                progress=progress,
                pay=None if budget is None else budget.paying(recipe, key),
            )
        finally:
            if shown:
                print("\r\033[K", end="", file=sys.stderr, flush=True)
    return model, kept


def _warn_of_seed() -> None:
    words = "--seed makes the noise, and whoever knows it can subtract it; release private rows"
    print(f"warning: research key: {words} without it", file=sys.stderr)


def _finish(
    options: argparse.Namespace,
    path: Path,
    model: "Model",
    domain: Domain,
    label: Label,
    budget: "Filter | None",
    kept: "Checkpoint | None" = None,
) -> None:
    """Save the model, forget the keys of its run, and print what it cost."""
    path = output.keep(
        path, lambda file: dpbt.save(model, file, domain=domain, classes=label.classes)
    )
    if kept is not None:
        kept.finish()
    lines = str(dpbt.ledger(model)).splitlines()
    print(next(line for line in lines if line.startswith("total:")))
    if budget is not None:
        print(f"{options.filter}: {budget.words()}")
    print(f"wrote {path}")
