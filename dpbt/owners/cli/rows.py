"""Commands that read private rows: check how a domain reads them, convert them, and fit a model."""

import argparse
import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dpbt
from dpbt.common.progress import show_progress
from dpbt.data import files
from dpbt.data.convert import raw_rows_of_columns
from dpbt.data.domains import check_same_domain
from dpbt.models.file import encode_model_as_ascii_json
from dpbt.models.model import describe_constant_and_mean_error, without_training_parts
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners.cli import inputs, outputs
from dpbt.owners.cli.inputs import DOMAIN_HELP, PROGRESS_OPTION, ROWS_HELP
from dpbt.owners.cli.outputs import out_and_force_options
from dpbt.owners.cli.parsing import (
    InputError,
    as_command,
    as_input_error,
    option,
    say_on_interruption,
)

if TYPE_CHECKING:
    from dpbt.data.blocks import BlockTable
    from dpbt.models.model import Model
    from dpbt.owners.privacy_filter import Filter
    from dpbt.training.blocks.checkpoint import Checkpoint
    from dpbt.types import Array, Recipe, Table


@as_command(
    option("file ROWS", ROWS_HELP),
    option("--domain FILE", DOMAIN_HELP, required=True),
    *inputs.FORM_OPTIONS,
)
def print_owner_report(options: argparse.Namespace) -> None:
    """Show the owner of rows how a domain reads them, before a budget is spent on them.

    It counts rows whose label is not as declared, cells without a value, and columns whose values
    all lie in one bin. It says why cells have no value, such as a decimal comma, and which option
    of the domain reads them. A file without the label, such as one of rows to predict, is checked
    without it. The counts are private, so they are shown on a terminal alone: standard output that
    goes elsewhere is refused, and the exit status says nothing of the rows. Nothing is learned and
    nothing is paid. `fit` and `convert` run the same check on a terminal, and `predict` and
    `evaluate` show what is doubtful.
    """
    if not inputs.is_terminal(sys.stdout):
        raise InputError(
            "check prints exact counts of private rows, so it does so on a terminal alone"
        )
    try:
        print(inputs.make_owner_report_of_file(inputs.declared_rows_from_options(options)))
    except InputError as error:
        may_lack_header = any(text in str(error) for text in _ERROR_TEXTS_ON_HEADERS)
        if may_lack_header and options.no_header is None:
            _show_owner_header_and_later_candidates(options)
        raise


_ERROR_TEXTS_ON_HEADERS = ("is there a header", ": one cell,", "one cell is no header")
"""What an error contains if the line that was read as the header may not be one."""

_MAX_LINES_ABOVE_HEADER = 20


def _show_owner_header_and_later_candidates(options: argparse.Namespace) -> None:
    """Show the owner the line that was read as the header, and a later line that may be the header.

    The later line is the first, of the next 19, that names all columns of the domain.

    That is the first line, of the next 19, that names all columns of the domain.
    """
    with contextlib.suppress(ValueError, OSError, ImportError):  # there may be no line
        if options.file.lower().endswith(".parquet"):
            return
        path = options.file
        form = inputs.text_form_from_options(options, ())
        print(
            "private if there is no header: the names in the first line\n"
            f"  {files.column_names(path, form)}"
        )
        domain = inputs.read_domain_and_label(options.domain).domain
        for skip_lines in range(1, _MAX_LINES_ABOVE_HEADER):
            with contextlib.suppress(ValueError):
                names = files.column_names(path, form._replace(skip_lines=skip_lines))
                if set(domain) <= set(names):
                    print(f"line {skip_lines + 1} has all of them: --skip-lines {skip_lines}")
                    return


@as_command(
    option("domain DOMAIN", DOMAIN_HELP),
    option("file ROWS", ROWS_HELP),
    option("folder FOLDER", "the folder of the blocks; it must not exist"),
    option("--capacity N", "a public bound on the number of rows; without it that is public"),
    option("--rows-per-block K", "how many rows a block has (%(default)s)", default=2**20),
    inputs.YES_OPTION,
    PROGRESS_OPTION,
    *inputs.FORM_OPTIONS,
)
def convert_rows_to_blocks(options: argparse.Namespace) -> None:
    """Write a file of rows to a folder of blocks, for tables that are larger than memory.

    As in `fit`, each row is read on its own, and no cell causes an error. The folder is as private
    as the rows, and only its owner may read it. `fit` takes the folder instead of the file.
    """
    rows = inputs.declared_rows_from_options(options)
    inputs.ask_owner_about_suspect_columns(rows, skip_question=options.yes, action="Convert")
    folder_existed = Path(options.folder).exists()

    def describe_folder() -> str:
        if folder_existed or not Path(options.folder).exists():
            return f"{options.folder} was not written; the same command starts anew"
        if (Path(options.folder) / dpbt.blocks.MANIFEST).exists():
            return f"{options.folder} was written"
        return f"{options.folder} is not complete; delete it, and the same command starts anew"

    with (
        say_on_interruption(describe_folder),
        as_input_error(),
        show_progress(f"reading {options.file}", options.progress),
    ):
        dpbt.convert.convert_file(
            rows.path,
            rows.domain,
            rows.label,
            options.folder,
            rows.form,
            capacity=options.capacity,
            rows_per_block=options.rows_per_block,
        )
    print(f"wrote {options.folder}: private, as the rows are")


@as_command(
    option("file ROWS", f"{ROWS_HELP}, or a folder that `convert` wrote"),
    *inputs.RECIPE_OPTIONS,
    option("--seed SEED", "for research alone: whoever knows it can subtract the noise"),
    option("--filter FILE", "pay from this file of `filter new`, which has the same --rows"),
    inputs.YES_OPTION,
    PROGRESS_OPTION,
    *inputs.FORM_OPTIONS,
    option("--checkpoint FILE", "of a folder of blocks: goes on from it after a stop"),
    option("--memory-mb N", "what the process may take (4096)"),
    *out_and_force_options("the file of the model", required=True),
)
def fit_model(options: argparse.Namespace) -> None:
    """Learn a private model of a file of rows, and write it to one file.

    Each row of the file is read on its own, and no cell causes an error. The domain names the
    column of the label and declares its values: two classes, several classes, or a number in a
    range. It may name a column of weights. A row with any other label counts as absent. The
    guarantee covers all output except for the running time. It does not cover the report that a
    terminal shows to the owner of the rows.

    The recipe bdpe makes models that a person can read. A filter refuses a release that it cannot
    pay for, and pays once, even if a stopped run resumes. A checkpoint keeps the releases so far,
    and the keys until the model is written; the same command resumes from it.
    """
    in_blocks = Path(options.file).is_dir()
    if not in_blocks and options.checkpoint is not None:
        raise InputError("--checkpoint needs a folder of blocks, which `convert` writes")
    path = outputs.checked_output_path(options)
    progress = _FitProgress(options, path)
    with say_on_interruption(progress.describe_interruption):
        _fit_and_write_model(options, progress, in_blocks=in_blocks)


def _fit_and_write_model(
    options: argparse.Namespace, progress: "_FitProgress", *, in_blocks: bool
) -> None:
    """Fit the model that the options ask for, and write it to a file.

    Args:
        options: the parsed options of `fit_model`.
        progress: records how far the run is.
        in_blocks: whether the rows are a folder of blocks.
    """
    rows = inputs.declared_rows_from_options(options)
    with as_input_error():
        privacy_filter = None if options.filter is None else dpbt.Filter.open(options.filter)
    progress.privacy_filter = privacy_filter
    with show_progress("setting the noise", options.progress):
        recipe = inputs.recipe_from_options(options, rows.domain, rows.label)
    _check_memory_and_budget(
        options, rows, recipe, privacy_filter=privacy_filter, in_blocks=in_blocks
    )

    with contextlib.ExitStack() as stack:
        checkpoint = None
        if in_blocks:
            table = _open_table_of_folder(rows, options)
        else:
            inputs.ask_owner_about_suspect_columns(
                rows, skip_question=options.yes, action="Learn and pay"
            )
            table = _read_table_of_file(rows, options)
        if options.checkpoint is not None:
            from dpbt.training.blocks.checkpoint import Checkpoint

            with as_input_error():
                checkpoint = stack.enter_context(Checkpoint(Path(options.checkpoint)))
            progress.checkpoint = checkpoint
        with as_input_error() if in_blocks else contextlib.nullcontext():  # a block may be damaged
            model = _pay_and_fit(
                options,
                table,
                recipe,
                privacy_filter=privacy_filter,
                checkpoint=checkpoint,
                progress=progress,
            )
        path = progress.model_path = _save_or_print_paid_model(model, rows, progress.path)
        if checkpoint is not None:
            checkpoint.delete_keys()
            progress.holds_keys = False
    ledger_lines = str(dpbt.ledger(model)).splitlines()
    print_note = functools.partial(outputs.print_note_on_output, path)
    print_note(next(line for line in ledger_lines if line.startswith("total:")))
    for line in describe_constant_and_mean_error(model):
        print_note(line)
    if privacy_filter is not None:
        print_note(f"{options.filter}: {privacy_filter.describe_remaining()}")
    print_note(f"wrote {path}")


def _check_memory_and_budget(
    options: argparse.Namespace,
    rows: inputs.DeclaredRows,
    recipe: "Recipe",
    *,
    privacy_filter: "Filter | None",
    in_blocks: bool,
) -> None:
    """Refuse a table that exceeds the memory, and a recipe that the filter cannot pay for.

    No row is read yet, so a refusal tells nothing of the rows. A run that resumes from a checkpoint
    may have been paid for, so it is checked later.

    Raises:
        InputError: saying what is too large.
    """
    if not in_blocks and options.relation == "add_remove":
        from dpbt.data import tables  # the recipe has brought JAX

        with as_input_error():
            tables.check_table_fits_memory(rows.domain, options.rows, _max_memory_bytes(options))
    resumes = options.checkpoint is not None and Path(options.checkpoint).exists()
    if privacy_filter is not None and not resumes:
        with as_input_error():
            privacy_filter.check(recipe)


def _save_or_print_paid_model(model: "Model", rows: inputs.DeclaredRows, path: Path) -> Path:
    """Save a model that was paid for, or print it if no disk takes it.

    It is printed as the last line of standard output.

    Returns:
        The path of the file, which is in a temporary folder if the stated path cannot be written.

    Raises:
        InputError: after the model was printed.
    """
    save = functools.partial(dpbt.save, model, domain=rows.domain, classes=rows.label.classes)
    try:
        return outputs.save_there_or_in_temporary_folder(path, save)
    except OSError as error:
        encoded = encode_model_as_ascii_json(
            without_training_parts(model), domain=rows.domain, classes=rows.label.classes
        )
        print(encoded.decode("ascii"), flush=True)
        raise InputError(
            f"{path}: {error.strerror or error}; the last line of standard output is the model, "
            "which was paid for: save that line as a file"
        ) from error


class _FitProgress:
    """How far a run of `fit` is, from which an interruption is described.

    Attributes:
        path: where the model is to be written.
        model_path: where the model was written; None before that.
        privacy_filter: the filter that pays; None without one, or before it was opened.
        checkpoint: the checkpoint of the run; None without one, or before it was opened.
        holds_keys: whether the checkpoint holds the keys.
        key: the key that is paid for; None before it was drawn.
    """

    def __init__(self, options: argparse.Namespace, path: Path):
        self.path = path
        self.model_path: Path | None = None
        self.privacy_filter: Filter | None = None
        self.checkpoint: Checkpoint | None = None
        self.holds_keys = options.seed is None
        self.key: Array | None = None
        self._filter_file = options.filter
        self._output = outputs.OutputFileState(path)

    def describe_interruption(self) -> str:
        """Say what an interruption at this moment leaves behind: the model, the payment, the keys.

        It also says whether the same command resumes the run, and whether it pays again.
        """
        model_path = self.model_path or (self.path if self._output.is_written else None)
        has_run = self.checkpoint is not None and self.checkpoint.begun
        if model_path is not None:
            text = f"{model_path} was written"
            if has_run and self.holds_keys:
                assert self.checkpoint is not None
                text += f"; keep {self.checkpoint.path} secret: it may still hold the keys, and "
                text += "the same command with --force deletes them"
            return text
        is_paid = self._is_paid()
        if has_run:
            assert self.checkpoint is not None
            payment_text = {True: ", and does not pay again", False: ", and pays then", None: ""}
            next_step = f"the same command goes on from {self.checkpoint.path}"
            return f"no model was written; {next_step}{payment_text[is_paid]}"
        if self._filter_file is None:
            return "no model was written, and nothing was released; the same command starts anew"
        if is_paid:
            assert self.privacy_filter is not None
            with contextlib.suppress(ValueError, OSError):
                remaining = f": {self._filter_file}: {self.privacy_filter.describe_remaining()}"
                return f"no model was written, and {_BUDGET_IS_SPENT}{remaining}"
            return f"no model was written, and {_BUDGET_IS_SPENT}"
        if is_paid is None:
            show = f"`dpbt filter show {self._filter_file}` says whether it was paid for"
            return f"no model was written; {show}"
        return "no model was written, and nothing was paid; the same command starts anew"

    def _is_paid(self) -> bool | None:
        """Whether the filter paid for the key.

        It is None if that cannot be read, or without a filter.
        """
        if self.key is None or self.privacy_filter is None:
            return None if self._filter_file is None else False
        try:
            return self.privacy_filter.has_paid_for(self.key)
        except (ValueError, OSError):
            return None


_BUDGET_IS_SPENT = (
    "its budget is spent: without --checkpoint nothing goes on, and another fit pays again"
)
"""What is true of a fit in memory that was paid for and interrupted."""


def _open_table_of_folder(rows: inputs.DeclaredRows, options: argparse.Namespace) -> "BlockTable":
    """Open the table of a folder of blocks, and check that it is of the domain and the label.

    Raises:
        InputError: for a folder that holds no table, or one of another domain or label, or of more
            rows than --rows.
        OSError: if it cannot be read.
    """
    path = rows.path
    with as_input_error():
        table = dpbt.blocks.open_folder(path)
        check_same_domain(table.domain, rows.domain, path, options.domain)
    if table.manifest.label.options != rows.label.options:
        raise InputError(
            f"{path}: converted with another label, or bound on weights or on rows of a user"
        )
    if table.capacity > options.rows:
        raise InputError(
            f"{path}: has room for {table.capacity} rows, more than --rows {options.rows}, the "
            "stated bound on their number"
        )
    return table


def _read_table_of_file(rows: inputs.DeclaredRows, options: argparse.Namespace) -> "Table":
    """Read a file of rows into a table in memory.

    Raises:
        InputError: for a file that is not a table or lacks a column, and for more rows than --rows.
        OSError: if it cannot be read.
    """
    with show_progress(f"reading {options.file}", options.progress), as_input_error(options.file):
        columns = files.read_columns(rows.path, rows.column_names, rows.form)
        raw_rows = raw_rows_of_columns(rows.label, columns)
    if raw_rows.users is None and len(raw_rows.labels) > options.rows:
        raise InputError(
            f"{options.file}: more rows than --rows {options.rows}, the stated bound on their "
            "number; lines that are blank or cannot be read count"
        )
    with show_progress("making the table", options.progress), as_input_error():
        return dpbt.table(
            rows.domain,
            **raw_rows._asdict(),
            **rows.label.options,
            capacity=options.rows if options.relation == "add_remove" else None,
            memory=_max_memory_bytes(options),
        )


def _max_memory_bytes(options: argparse.Namespace) -> int:
    """The largest memory that the process may take, in bytes, by --memory-mb."""
    return (options.memory_mb or 4096) * 2**20


def _pay_and_fit(
    options: argparse.Namespace,
    table: "Table | BlockTable",
    recipe: "Recipe",
    *,
    privacy_filter: "Filter | None",
    checkpoint: "Checkpoint | None",
    progress: _FitProgress,
) -> "Model":
    """Fit the model of a table, after the filter has paid for it.

    Args:
        options: the parsed options.
        table: the table, in memory or in blocks.
        recipe: the recipe.
        privacy_filter: the filter that pays; None without one.
        checkpoint: where a fit of a table in blocks goes on from; None without one.
        progress: notes the key.

    Raises:
        InputError: for a fit that is refused, and for one that the filter cannot pay.
    """
    import jax

    from dpbt.data.blocks import BlockTable
    from dpbt.training import fit

    if checkpoint is not None and options.seed is None:
        key, public_key = checkpoint.stored_or_fresh_keys()
    else:
        key, public_key = dpbt.keys.noise_and_public_keys(options.seed)
    progress.key = key
    tables_of_rows = [table]
    if isinstance(table, BlockTable):
        tables_of_rows = (
            block._replace(bins=block.bins.T) for block in table.iter_rows(BLOCK_ROWS)
        )
    noise_key = dpbt.keys.mix_rows_into_research_key(key, tables_of_rows)

    stage = "learning; this may compile first"
    with show_progress(stage, options.progress) as report, contextlib.ExitStack() as refusals:
        refusals.enter_context(as_input_error())

        def pay(run_name: str | None) -> None:
            if privacy_filter is not None:
                privacy_filter.payment_callback(recipe.with_user_limit_of(table), key)(run_name)
            refusals.pop_all()  # the fit is accepted, so any later error is a bug

        model = fit.fit_without_key_warning(
            key=noise_key,
            table=table,
            recipe=recipe,
            public_key=public_key,
            options=fit.FitOptions(
                pay=pay, checkpoint=checkpoint, memory=_max_memory_bytes(options), progress=report
            ),
        )
        dpbt.keys.warn_if_research_key(noise_key)
        jax.block_until_ready(model)
    return model
