"""Commands on a saved model: predict, evaluate, explain, export, plot, state privacy; theorems."""

import argparse
import csv
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from msgspec import structs

import dpbt
from dpbt.common.progress import is_terminal, show_progress
from dpbt.common.storage import name_path_in_errors, remove_temporary_files_beside, write_atomically
from dpbt.data import blocks as folders
from dpbt.data import files
from dpbt.data.column_types import Nominal, Numeric, have_same_labels
from dpbt.data.domains import check_same_domain
from dpbt.models import measures
from dpbt.models.contributions import ROW_IS_SHOWN
from dpbt.models.model import Model, describe_constant_and_mean_error
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners.cli.inputs import (
    FORM_OPTIONS,
    MODEL_ARGUMENT,
    PROGRESS_OPTION,
    ROWS_HELP,
    check_parquet_dates_are_declared,
    read_domain_and_expand_column_patterns,
    text_form_from_options,
    warn_owner_of_suspect_columns,
)
from dpbt.owners.cli.outputs import (
    FORCE_OPTION,
    checked_output_path,
    out_and_force_options,
    print_note_on_output,
    say_on_interruption_which_files_were_written,
)
from dpbt.owners.cli.parsing import (
    InputError,
    as_command,
    as_input_error,
    option,
    whole_number_type,
)
from dpbt.owners.file_report import OwnerReportBuilder


def _load_model(path: str) -> Model:
    """Load a saved model from its file.

    Raises:
        InputError: if the file is not a complete saved model.
        OSError: if it cannot be read.
    """
    with as_input_error(path):
        return dpbt.load(path)


_ROW_OPTIONS = (
    option(
        "--row",
        "explain the prediction of row N, from 1, of this file: CSV, which may be packed (.gz, "
        ".zip), Parquet, or a folder that `convert` wrote",
        action="store",
        nargs=2,
        metavar=("N", "ROWS"),
    ),
    option(
        "--background SHARES",
        "where the other cells of the row are drawn from: %(choices)s (%(default)s); the second "
        "is what the model released of its rows",
        choices=("uniform", "released"),
        default="uniform",
    ),
    *FORM_OPTIONS,
)
"""The options that name one row of a file, and the layout of that file."""


@as_command(
    MODEL_ARGUMENT,
    *_ROW_OPTIONS,
    option("--class NAME", "of several classes, the one whose score is explained", dest="class_"),
    option("--trees N", "only the first N trees"),
)
def explain_model_or_row(options: argparse.Namespace) -> None:
    """Print a saved model in words, such as its trees as rules, or explain one prediction.

    With --row it prints what each column of that row adds to its score, exactly: the
    Shapley values of the model, where other cells are drawn from the domain with all bins equally
    likely, or of an additive model the curves themselves. It spends nothing. The output shows the
    row, so it is as private as the row. Of several classes it explains the predicted one.
    """
    model = _load_model(options.model)
    if options.row is None:
        if options.class_ is not None:
            raise InputError("--class is for one row, which --row names")
        with as_input_error():
            print(dpbt.explain(model, trees=options.trees))
        return
    if options.trees is not None:
        raise InputError("--trees is for the model in words, and not for one row")
    row = _read_row_to_explain(model, options)
    with as_input_error():
        class_ = _class_to_explain(model, row, options)
        contributions = model.contributions(row, background=options.background)
        explanation = contributions.of_row(class_=class_)
    prediction = _prediction_cells_by_column(model, row, per_class=False)
    prediction_text = ", ".join(f"{name} {of_row[0]}" for name, of_row in prediction.items())
    number, path = options.row
    print(f"row {number} of {path}: {prediction_text}\n{explanation}\n{ROW_IS_SHOWN}")


def _read_row_to_explain(model: Model, options: argparse.Namespace) -> np.ndarray:
    """Read and encode the row that the option --row names: u8[1, F].

    Raises:
        InputError: for a row that is not in the file or is absent, for a model without a domain,
            and as `_iter_encoded_blocks`.
        OSError: if the file cannot be read.
    """
    number_text, options.file = options.row
    try:
        number = whole_number_type(1)(number_text)
    except (ValueError, argparse.ArgumentTypeError):
        raise InputError(
            f"--row must be a number from 1 and a file, got {number_text!r} first"
        ) from None
    if model.about.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    first = 0
    for block in _iter_encoded_blocks(model, options):
        index = number - 1 - first
        if index < len(block.rows):
            if not block.present[index]:
                raise InputError(f"{options.file}: row {number} is absent")
            return block.rows[index : index + 1]
        first += len(block.rows)
    raise InputError(f"{options.file}: there is no row {number}")


def _class_to_explain(model: Model, row: np.ndarray, options: argparse.Namespace) -> Any:
    """The class whose score is explained: that of --class, or else the predicted one.

    It is None for models of two classes and of numbers, which have one score.
    """
    classes = model.about.classes
    if not isinstance(model.about.target, Nominal):
        if options.class_ is not None:
            raise InputError("--class is for models of several classes")
        return None
    if options.class_ is None:
        return model.predict(row)[0]
    by_text = {str(word): word for word in classes or model.about.target.values}
    if options.class_ not in by_text:
        raise InputError(f"--class must be one of {', '.join(by_text)}, got {options.class_}")
    return by_text[options.class_]


_DATA_OPTION = option("--data NAME", "what the rows are, in a few public words")

_FACT_NAMES = {"data": "Data", "date": "Date of the data", "owner": "Owner of the data"}
"""The names of facts in a statement, by the options that state them."""


@as_command(
    MODEL_ARGUMENT,
    option("--max-rows-per-user K", "say what the same noise means for people with up to K rows"),
    option("--ledger", "print the ledger, too"),
    _DATA_OPTION,
    option("--date DATE", "of the rows, such as 2026-09"),
    option("--owner NAME", "who answers for the rows"),
    option("--filter FILE", "the file that paid for the model: name the other releases, too"),
    option("--html FILE", "write it as a page of HTML"),
    option("--pdf FILE", "write it as a page of PDF, by the extra `figures`"),
    FORCE_OPTION,
)
def print_privacy_statement(options: argparse.Namespace) -> None:
    """Print the privacy statement of a saved model; --ledger adds what it cost line by line.

    It is Markdown, on what the guarantee means for whom it protects. --data, --date and --owner
    are put in as they are given, and must be public.
    """
    formats = [name for name in ("html", "pdf") if getattr(options, name) is not None]
    paths = {name: checked_output_path(options, name) for name in formats}
    model = _load_model(options.model)
    budget = None
    if options.filter is not None:
        with as_input_error():
            budget = dpbt.Filter.open(options.filter)
    optional_facts = {name: getattr(options, key) for key, name in _FACT_NAMES.items()}
    facts = {name: fact for name, fact in optional_facts.items() if fact is not None}
    facts["File of the model"] = Path(options.model).name
    facts["Its SHA-256"] = hashlib.sha256(Path(options.model).read_bytes()).hexdigest()
    with as_input_error():
        page = dpbt.statement(
            model, max_rows_per_user=options.max_rows_per_user, facts=facts, filter=budget
        )

    writers = {
        "html": lambda part: part.write_bytes(page.page().encode("utf-8", "backslashreplace")),
        "pdf": page.pdf,
    }
    with say_on_interruption_which_files_were_written(*paths.values()):
        for name, path in paths.items():
            with as_input_error():
                write_atomically(path, writers[name])
            print_note_on_output(path, f"wrote {path}")
    if not paths:
        print(page)
    if options.ledger:
        print(f"\n{model.about.ledger}")


@as_command(
    option("points POINT", "as a ledger names them: O1, or 1-3; without any, all", nargs="*")
)
def print_theorems(options: argparse.Namespace) -> None:
    """Print theorems that ledgers name, with their proofs, such as `dpbt theorem O1`."""
    page = resources.files("dpbt.privacy").joinpath("theorems.md").read_text("utf-8")
    section = page.partition("\n## The theorems\n")[2].partition("\n## ")[0]
    paragraphs = re.split(r"\n(?=#|\d+\. |\*\*[A-Z]\d+\. )", section)
    matches = ((re.match(r"\W*([A-Z]?\d+)\. ", text), text) for text in paragraphs)
    text_of_theorem = {match[1]: text.strip() for match, text in matches if match}
    all_names = [*text_of_theorem]
    names = []
    for word in " ".join(options.points).replace(",", " ").split():
        first, _, last = word.partition("-")
        if first not in text_of_theorem or (last or first) not in text_of_theorem:
            raise InputError(f"{word}: no theorem; there are {', '.join(all_names)}")
        names += all_names[all_names.index(first) : all_names.index(last or first) + 1]
    print("\n\n".join(text_of_theorem[name] for name in names or all_names))


@as_command(
    MODEL_ARGUMENT,
    option("--format FORMAT", "onnx or treelite", choices=("onnx", "treelite"), required=True),
    *out_and_force_options("the file", required=True),
)
def export_model(options: argparse.Namespace) -> None:
    """Write a saved model for other libraries: as an ONNX graph, or as treelite's trees.

    The file reads encoded rows, as `Model.encode` makes them. It needs the extra of that name.
    """
    path = checked_output_path(options)
    model = _load_model(options.model)
    with say_on_interruption_which_files_were_written(path), as_input_error():
        getattr(dpbt, options.format).export(model, path)
    print_note_on_output(path, f"wrote {path}")


@as_command(
    MODEL_ARGUMENT,
    *_ROW_OPTIONS,
    option("--shape NAME", "draw the mean score by this column, or its own curve"),
    option("--shapes", "draw the shapes of the 12 columns that move the score most"),
    option("--class NAME", "of several classes, the one whose scores are drawn", dest="class_"),
    _DATA_OPTION,
    *out_and_force_options("the picture, such as age.png", required=True),
)
def plot_model(options: argparse.Namespace) -> None:
    """Draw how much a saved model depends on each column, or with --shape on the bins of one.

    With --shapes it draws those of all columns in one picture. The suffix of --out is the format
    of the picture; without one that is PNG. A picture follows from what was
    released and what is public, so it costs no privacy. It needs the extra `figures`.

    With --row it draws what each column of that row adds to its score, as `explain` says
    it. That picture shows the row, so it is as private as the row, and only the owner can read a
    new file of it (mode 0600).
    """
    path = checked_output_path(options)
    column = options.shape
    model = _load_model(options.model)
    data = options.data or ""
    is_of_row = options.row is not None
    if sum((is_of_row, options.shapes, column is not None)) > 1:
        raise InputError("give one of --shape, --shapes and --row")
    row = _read_row_to_explain(model, options) if is_of_row else None
    with say_on_interruption_which_files_were_written(path), as_input_error():
        if row is not None:
            class_ = _class_to_explain(model, row, options)
            panel = dpbt.plot.contributions(
                model, row, class_=class_, data=data, background=options.background
            )
        elif options.shapes:
            panel = dpbt.plot.shapes(model, class_=options.class_, data=data)[0]
        elif column is None:
            panel = dpbt.plot.attributes(model, data=data)
        else:
            panel = dpbt.plot.shape(model, attribute=column, class_=options.class_, data=data)
        figure: Any = panel.get_figure()
        if is_of_row:
            remove_temporary_files_beside(path)  # it is private
        mode = 0o600 if is_of_row else 0o666
        # By its name matplotlib would choose another file, if the name has no suffix.
        picture_format = path.suffix[1:].lower() or "png"
        write_atomically(
            path, lambda part: figure.savefig(part, dpi=150, format=picture_format), mode=mode
        )
    print_note_on_output(path, f"wrote {path}")


@as_command(
    MODEL_ARGUMENT,
    option("file ROWS", f"{ROWS_HELP}, or a folder that `convert` wrote"),
    option("--proba", "a column for the probability of each class"),
    option("--id COLUMN", "a column of the rows, such as an id, to write before the predictions"),
    PROGRESS_OPTION,
    *FORM_OPTIONS,
    *out_and_force_options("the file of the predictions, instead of standard output"),
)
def write_predictions_of_rows(options: argparse.Namespace) -> None:
    """Predict with a saved model: a line `class,probability` for each row, or `number`.

    For two classes the probability is that of the positive class, whichever class is predicted. For
    several classes it is that of the predicted class. --proba prints a column for each class.
    Models that vote state no probabilities, and print a column `score` instead. The command needs
    no JAX. Predictions reveal the content of their rows, so they are as private as the rows. Only
    the owner can read a new file (mode 0600); a file that --force replaces keeps its mode.

    Rows need no label. Predictions have their order, and a blank line has none. --id writes a
    column of the rows before the predictions, by which they can be joined. On a terminal the
    command says which columns of the rows are doubtful, as `check` does. Rows are read in blocks,
    so they may be more than memory holds. A row that is absent from a folder of blocks has a line
    of empty cells. Rows without a label are absent there, so give their file.
    """
    path = None if options.out is None else checked_output_path(options)
    model = _load_model(options.model)
    if model.about.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    if options.proba and model.about.probability is None:
        raise InputError(f"{options.model}: {model.about.reason}")
    if options.id is not None and Path(options.file).is_dir():
        raise InputError("--id needs a file of rows; a folder of blocks keeps no other columns")
    if path is None:
        if sys.stdout is None:
            raise InputError("standard output is closed; give --out FILE")
        _write_predictions_as_csv(sys.stdout, model, options)
        return

    def write(part: Path) -> None:
        with open(part, "w", encoding="utf-8", newline="") as file:
            _write_predictions_as_csv(file, model, options)

    remove_temporary_files_beside(path)  # it holds predictions, which are private
    with (
        say_on_interruption_which_files_were_written(path),
        show_progress(f"predicting {options.file}", options.progress),
    ):
        write_atomically(path, write, mode=0o600)
    print_note_on_output(path, f"wrote {path}")


@as_command(
    MODEL_ARGUMENT,
    option("file ROWS", ROWS_HELP),
    option("--domain FILE", "its label says what the label's column holds", required=True),
    *FORM_OPTIONS,
)
def evaluate_model_on_labelled_rows(options: argparse.Namespace) -> None:
    """Measure a saved model on rows with labels: accuracy, AUROC, log loss and calibration.

    The numbers are exact, so they are a release of these rows that no ledger covers. Use public
    rows, or keep the output as private as the rows. The bias is that of the probabilities, or that
    of the predicted numbers. For a number the command measures the root of the mean squared error,
    the mean absolute error, R^2, bias and calibration; for a count also the Poisson deviance; for a
    quantile also the pinball loss and the coverage. Rows without a declared label do not count, and
    the first line says how many rows do. On a terminal the command says which columns are doubtful,
    as `check` does.
    """
    model = _load_model(options.model)
    domain, label = read_domain_and_expand_column_patterns(options)
    model_domain = model.about.domain
    about = model.about
    have_one_label = about.classes == label.classes
    have_one_label = have_one_label and have_same_labels(about.target, label.target)
    if model_domain is None or not have_one_label:
        raise InputError(f"{options.model}: of another label than that of {options.domain}")
    with as_input_error():
        check_same_domain(domain, model_domain, options.domain, options.model)
    check_parquet_dates_are_declared(options.file, {**dict.fromkeys(label.columns), **domain})
    faults: Counter[str] = Counter()
    with show_progress(f"predicting {options.file}"), as_input_error(options.file):
        form = text_form_from_options(options, (*model_domain, *label.columns))
        names = (*model_domain, label.column)
        columns: dict[str, Any] = {name: [] for name in names}
        for block in files.iter_column_blocks(
            options.file, names, None, form, faults, skip_blank_lines=True
        ):
            columns = block
        rows = model.encode(columns)
        target, present, _ = label.read_labels(columns[label.column], num_rows=len(rows))
    if is_terminal(sys.stderr):
        without_others = structs.replace(label, weight=None, user=None)
        builder = OwnerReportBuilder(model_domain, without_others)
        builder.add_rows(columns)
        warn_owner_of_suspect_columns(builder.build_report(faults))
    num_rows = len(rows)
    rows = rows[present]
    target = target[present]
    if not len(rows):
        raise InputError(f"{options.file}: no row has a declared label")

    evaluation = _measure_predictions(model, rows, target)
    labelled = f"{len(rows)} rows"
    if len(rows) < num_rows:
        labelled = f"{len(rows)} of {num_rows} rows have a declared label, and only these count"
    print(f"{labelled}; these numbers are a release of them, unless they are public")
    for name, value in evaluation.values.items():
        print(f"{name}: {'none' if value is None else format(value, '.4g')}")
    for line in evaluation.calibration:
        print(f"  {line}")
    for line in describe_constant_and_mean_error(model):
        print(line)


class _MeasuresAndCalibration(NamedTuple):
    """Measures of a model's predictions, and lines of text on its calibration.

    The accuracy is such a measure. There are no lines on the calibration for several classes and
    for quantiles.
    """

    values: measures.Measures
    calibration: list[str]


def _measure_predictions(
    model: Model, rows: np.ndarray, target: np.ndarray
) -> _MeasuresAndCalibration:
    """Predict encoded rows with a model, and measure the predictions against their labels.

    Args:
        model: the model.
        rows: u8[N, F] or f32[N, F].
        target: the classes or the positions in the range, as a table has them.
    """
    about = model.about
    if isinstance(about.target, Numeric):
        numbers = about.target.low + target * (about.target.high - about.target.low)
        predicted = np.asarray(model.predict(rows))
        of_objective = measures.measure_objective(numbers, predicted, about.target.response)
        lines = []
        if about.target.response.objective != "quantile":
            lines = [
                f"prediction {group.mean_prediction:.4g}: mean {group.mean_number:.4g} of "
                f"{group.num_rows} rows"
                for group in measures.quantile_calibration_bins_of_numbers(numbers, predicted)
            ]
        values = {**measures.measure_numbers(numbers, predicted), **of_objective}
        return _MeasuresAndCalibration(values, lines)

    scores, _, probabilities = model.predict_all(rows)
    calibration = []
    if about.target is not None:
        predicted = scores.argmax(axis=1)
        measured = measures.measure_classes(target.astype(int), predicted, probabilities)
    else:
        positive = None if probabilities is None else probabilities[:, 1]
        measured = measures.measure_two_classes(target, scores, positive)
        if positive is not None:
            positive_class = "" if about.classes is None else about.classes[-1]
            calibration = [
                f"probability {group.mean_probability:.3f}: {group.positive_share:.3f} of "
                f"{group.num_rows} rows are {positive_class}"
                for group in measures.calibration_bins(target, positive)
            ]
    most_frequent = measures.share_of_most_frequent_class(target)
    return _MeasuresAndCalibration(
        {**measured, "accuracy of the most frequent class": most_frequent}, calibration
    )


def _write_predictions_as_csv(file: TextIO, model: Model, options: argparse.Namespace) -> None:
    """Predict the rows of the file that the options name, and write a line of CSV for each."""
    writer = csv.writer(file, lineterminator="\n")
    blocks = _iter_encoded_blocks(
        model, options, id_column=options.id, warn_of_suspect_columns=True
    )
    for number, block in enumerate(blocks):
        columns = _prediction_cells_by_column(model, block.rows, per_class=options.proba)
        if options.id is not None:
            name = options.id if options.id not in columns else f"{options.id} of the row"
            columns = {name: block.ids, **columns}
        if number == 0:  # the first block is read before a line is written: it may be refused
            writer.writerow(columns)
        lines = zip(block.present.tolist(), *columns.values(), strict=True)
        writer.writerows(line if is_present else [""] * len(columns) for is_present, *line in lines)


class _EncodedBlock(NamedTuple):
    """A block of encoded rows.

    Attributes:
        rows: u8[n, F] or f32[n, F].
        present: bool[n]: which of them are present.
        ids: the cells of the column --id, of n rows; empty without it.
    """

    rows: np.ndarray
    present: np.ndarray
    ids: Sequence[Any] = ()


def _iter_encoded_blocks(
    model: Model,
    options: argparse.Namespace,
    *,
    id_column: str | None = None,
    warn_of_suspect_columns: bool = False,
) -> Iterator[_EncodedBlock]:
    """Yield the rows of a file, or of a folder of blocks, in encoded blocks.

    Blank lines of a file are no rows. The last block has no rows, so that there is always one.

    Args:
        model: the model.
        options: the parsed options, on the file and its layout.
        id_column: a column of the file whose cells the blocks have, too.
        warn_of_suspect_columns: whether to tell the owner on a terminal, after all rows, which
            columns the domain may not read as meant.

    Raises:
        InputError: for a path that is neither, for one that is damaged, for a folder of another
            domain, and for a folder where the model reads exact numbers.
        OSError: if it cannot be read.
    """
    domain = model.about.domain or {}
    with as_input_error(options.file), name_path_in_errors(Path(options.file)):
        if Path(options.file).is_dir():
            table = folders.open_folder(options.file)
            with as_input_error():
                check_same_domain(table.domain, domain, options.file, options.model)
            if model.dtype != "uint8":
                raise InputError(
                    f"{options.model}: reads exact numbers, and blocks have bins of them"
                )
            for block in table.iter_rows(BLOCK_ROWS):
                yield _EncodedBlock(block.bins.T, block.present)
        else:
            form = text_form_from_options(options, domain)
            check_parquet_dates_are_declared(options.file, domain)
            faults: Counter[str] = Counter()
            names = tuple(domain)
            if id_column is not None:
                names = tuple(dict.fromkeys((*domain, id_column)))
            is_shown = warn_of_suspect_columns and is_terminal(sys.stderr)
            builder = OwnerReportBuilder(domain, None) if is_shown else None
            for columns in files.iter_column_blocks(
                options.file, names, BLOCK_ROWS, form, faults, skip_blank_lines=True
            ):
                rows = model.encode(columns)
                ids = [] if id_column is None else _cells_as_list(columns[id_column])
                if builder is not None:
                    builder.add_rows(columns)
                yield _EncodedBlock(rows, np.ones(len(rows), bool), ids)
            if builder is not None:
                warn_owner_of_suspect_columns(builder.build_report(faults))
        yield _EncodedBlock(np.zeros((0, model.features), model.dtype), np.ones(0, bool))


def _cells_as_list(cells: Any) -> list[Any]:
    """The cells of a column as a list.

    The column was read from a file of text, or from a Parquet file.
    """
    return cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)


def _prediction_cells_by_column(
    model: Model, rows: np.ndarray, *, per_class: bool
) -> dict[str, list]:
    """Predict encoded rows, and return columns to print: name -> a cell for each row.

    Args:
        model: the model.
        rows: encoded rows.
        per_class: a column for the probability of each class, instead of one.
    """
    about, (scores, answers, probabilities) = model.about, model.predict_all(rows)
    if isinstance(about.target, Numeric):
        return {"number": _format_with_six_digits(answers)}
    columns = {"class": answers.tolist()}
    if probabilities is None:
        return {**columns, "score": _format_with_six_digits(scores)}
    if per_class:
        classes = about.classes or range(probabilities.shape[1])
        for word, of_class in zip(classes, probabilities.T, strict=True):
            columns[f"probability of {word}"] = _format_with_six_digits(of_class)
        return columns
    of_two = about.target is None
    shown = probabilities[:, 1] if of_two else probabilities.max(axis=1)
    return {**columns, "probability": _format_with_six_digits(shown)}


def _format_with_six_digits(numbers: np.ndarray) -> list[str]:
    """Format each number as text of six significant digits."""
    return [f"{number:.6g}" for number in np.asarray(numbers).tolist()]
