"""Commands about a saved model: its predictions, words, statement, picture, and the theorems."""

import argparse
import csv
import functools
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import dpbt
from dpbt.common.storage import name_in_errors, remove_leftover, write_whole
from dpbt.common.watching import is_terminal, show_progress
from dpbt.data import blocks as folders
from dpbt.data import files
from dpbt.data.domains import check_same_domain
from dpbt.data.kinds import Numeric, have_same_labels
from dpbt.models.model import Model
from dpbt.models.scoring import BLOCK_ROWS
from dpbt.owners.cli.shared import (
    FORCE,
    FORM,
    MODEL,
    PROGRESS,
    ROWS,
    InputError,
    command,
    declared,
    form_of,
    of_input,
    option,
    out,
    path_to_write,
)


def _saved(path: str) -> Model:
    """The model of a file.

    Raises:
        InputError: if the file is no whole saved model.
        OSError: if it cannot be read.
    """
    with of_input(path):
        return dpbt.load(path)


@command(MODEL, option("--trees N", "only the first N trees"))
def explain(options: argparse.Namespace) -> None:
    """Print a saved model in words, such as its trees as rules."""
    model = _saved(options.model)
    with of_input():
        print(dpbt.explain(model, trees=options.trees))


_TITLE = option("--data NAME", "what the rows are, in a few public words")

_FACTS = {"data": "Data", "date": "Date of the data", "owner": "Owner of the data"}
"""What a statement calls what options say."""


@command(
    MODEL,
    option("--max-rows-per-user K", "say what the same noise means for people with up to K rows"),
    option("--ledger", "print the ledger, too"),
    _TITLE,
    option("--date DATE", "of the rows, such as 2026-09"),
    option("--owner NAME", "who answers for the rows"),
    option("--filter FILE", "the file that paid for the model: name the other releases, too"),
    option("--html FILE", "write it as a page of HTML"),
    option("--pdf FILE", "write it as a page of PDF, by the extra `figures`"),
    FORCE,
)
def statement(options: argparse.Namespace) -> None:
    """Print the privacy statement of a saved model; --ledger adds what it cost line by line.

    It is Markdown, on what the guarantee means for whom it protects. --data, --date and --owner
    are put in as they are given, and must be public.
    """
    names = [name for name in ("html", "pdf") if getattr(options, name) is not None]
    paths = {name: path_to_write(options, name) for name in names}
    model, budget = _saved(options.model), None
    if options.filter is not None:
        with of_input():
            budget = dpbt.Filter.open(options.filter)
    given = {words: getattr(options, name) for name, words in _FACTS.items()}
    digest = hashlib.sha256(Path(options.model).read_bytes()).hexdigest()
    given |= {"File of the model": Path(options.model).name, "Its SHA-256": digest}
    facts = {words: value for words, value in given.items() if value is not None}
    with of_input():
        people = options.max_rows_per_user
        found = dpbt.statement(model, max_rows_per_user=people, facts=facts, filter=budget)

    # What is written, or else printed.
    def write(name: str, part: Path) -> None:
        if name == "pdf":
            found.pdf(part)
        else:
            part.write_text(found.page(), encoding="utf-8")

    for name, path in paths.items():
        with of_input():
            write_whole(path, functools.partial(write, name))
        print(f"wrote {path}")
    if not paths:
        print(found)
    if options.ledger:
        print(f"\n{model.about.ledger}")


@command(option("points POINT", "as a ledger names them: O1, or 1-3; without any, all", nargs="*"))
def theorem(options: argparse.Namespace) -> None:
    """Print theorems that ledgers name, with their proofs, such as `dpbt theorem O1`."""
    page = resources.files("dpbt.privacy").joinpath("theorems.md").read_text("utf-8")
    section = page.partition("\n## The theorems\n")[2].partition("\n## ")[0]
    parts = re.split(r"\n(?=#|\d+\. |\*\*[A-Z]\d+\. )", section)
    named = ((re.match(r"\W*([A-Z]?\d+)\. ", part), part) for part in parts)
    found = {name[1]: part.strip() for name, part in named if name}
    names, chosen = [*found], []
    for word in " ".join(options.points).replace(",", " ").split():
        first, _, last = word.partition("-")
        if first not in found or (last or first) not in found:
            raise InputError(f"{word}: no theorem; there are {', '.join(names)}")
        chosen += names[names.index(first) : names.index(last or first) + 1]
    print("\n\n".join(found[name] for name in chosen or names))


@command(
    MODEL,
    option("--format FORMAT", "onnx or treelite", choices=("onnx", "treelite"), required=True),
    *out("the file", required=True),
)
def export(options: argparse.Namespace) -> None:
    """Write a saved model for other libraries: as an ONNX graph, or as treelite's trees.

    The file reads encoded rows, as `Model.encode` makes them. It needs the extra of that name.
    """
    path, model = path_to_write(options), _saved(options.model)
    with of_input():
        getattr(dpbt, options.format).export(model, path)
    print(f"wrote {path}")


@command(
    MODEL,
    option("--shape NAME", "draw the mean score by this column, or its own curve"),
    option("--shapes", "draw the shapes of the 12 columns that move the score most"),
    option("--class NAME", "of several classes, the one whose shapes are drawn", dest="class_"),
    _TITLE,
    *out("the picture, such as age.png", required=True),
)
def plot(options: argparse.Namespace) -> None:
    """Draw how much a saved model depends on each column, or with --shape on the bins of one.

    With --shapes it draws those of all columns in one picture. A picture follows from what was
    released and what is public, so it costs no privacy. It needs the extra `figures`.
    """
    path, model, name = path_to_write(options), _saved(options.model), options.shape
    data = options.data or ""
    with of_input():
        if options.shapes and name is not None:
            raise ValueError("give either --shape or --shapes")
        if options.shapes:
            ax = dpbt.plot.shapes(model, class_=options.class_, data=data)[0]
        elif name is None:
            ax = dpbt.plot.attributes(model, data=data)
        else:
            ax = dpbt.plot.shape(model, attribute=name, class_=options.class_, data=data)
        figure: Any = ax.get_figure()
        write_whole(path, lambda part: figure.savefig(part, dpi=150))
    print(f"wrote {path}")


@command(
    MODEL,
    option("file ROWS", f"{ROWS}, or a folder that `convert` wrote"),
    option("--proba", "a column for the probability of each class"),
    PROGRESS,
    *FORM,
    *out("the file of the predictions, in place of standard output"),
)
def predict(options: argparse.Namespace) -> None:
    """Predict with a saved model: a line `class,probability` for each row, or `number`.

    Of two classes the probability is that of the positive class, whichever class is predicted. Of
    several it is that of the predicted class. --proba prints a column for each class. Models that
    vote state no probabilities, and then there is a column `score`. This needs no JAX. Predictions
    about a row show what it holds, so they are as private as the rows. A new file is its owner's
    alone (mode 0600), and one that --force replaces keeps its mode.

    Rows need no label. They are read in blocks, so they may be more than memory holds. A row that
    is absent from a folder of blocks has a line of empty cells. Rows without a label are absent
    there, so give their file.
    """
    path = None if options.out is None else path_to_write(options)
    model = _saved(options.model)
    if model.about.domain is None:
        raise InputError(f"{options.model}: saved without a domain, so it reads no files")
    if options.proba and model.about.probability is None:
        raise InputError(f"{options.model}: {model.about.reason}")
    if path is None:
        _write(sys.stdout, model, options)
        return

    def write(part: Path) -> None:
        with open(part, "w", encoding="utf-8", newline="") as file:
            _write(file, model, options)

    remove_leftover(path)  # it holds predictions, which are private
    with show_progress(f"predicting {options.file}", options.progress):
        write_whole(path, write, mode=0o600)
    print(f"wrote {path}")


@command(
    MODEL,
    option("file ROWS", ROWS),
    option("--domain FILE", "its label says what the label's column holds", required=True),
    *FORM,
)
def evaluate(options: argparse.Namespace) -> None:
    """Measure a saved model on rows with labels: accuracy, AUROC, log loss and calibration.

    The numbers are exact, so they are a release of these rows that no ledger covers. Use rows that
    are public, or keep what is printed as private as they are. Of a number it measures the root of
    the mean squared error, the mean absolute error and R^2; of a count the Poisson deviance, too,
    and of a quantile the pinball loss and the coverage. Rows without a label do not count.
    """
    from dpbt.models import measures

    model, (stated, label) = _saved(options.model), declared(options.domain, options)
    domain, about = model.about.domain, model.about
    alike = about.classes == label.classes and have_same_labels(about.target, label.target)
    if domain is None or not alike:
        raise InputError(f"{options.model}: of another label than that of {options.domain}")
    with of_input():
        check_same_domain(stated, domain, options.domain, options.model)
    with show_progress(f"predicting {options.file}"), of_input(options.file):
        names = (*domain, label.column)
        columns = files.read_columns(
            options.file, names, form_of(options, (*domain, *label.column_names))
        )
        rows = model.encode(columns)
        target, there, _ = label.read_labels(columns[label.column], None, len(rows))
    rows, target = rows[there], target[there]
    if not len(rows):
        raise InputError(f"{options.file}: no row has a label")

    curve, words = [], "" if label.classes is None else label.classes[-1]
    if isinstance(about.target, Numeric):
        target = about.target.low + target * (about.target.high - about.target.low)
        predicted = np.asarray(model.predict(rows))
        more = measures.measure_objective(target, predicted, about.target.response)
        found = {**measures.measure_numbers(target, predicted), **more}
    else:
        scores, _, shares = model.predict_all(rows)
        if about.target is not None:
            found = measures.measure_classes(target.astype(int), scores.argmax(axis=1), shares)
        else:
            positive = None if shares is None else shares[:, 1]
            found = measures.measure_two_classes(target, scores, positive)
            curve = [] if positive is None else measures.calibration_bins(target, positive)
        alone = {"accuracy of the most frequent class": measures.share_of_most_frequent(target)}
        found = {**found, **alone}
    print(f"{len(rows)} rows; these numbers are a release of them, unless they are public")
    for name, value in found.items():
        print(f"{name}: {'none' if value is None else format(value, '.4g')}")
    for count, stated, share in curve:
        print(f"  probability {stated:.3f}: {share:.3f} of {count} rows are {words}")


def _write(file: TextIO, model: Model, options: argparse.Namespace) -> None:
    """Write the predictions as CSV, a block at a time."""
    writer = csv.writer(file, lineterminator="\n")
    for number, (rows, present) in enumerate(_blocks(model, options)):
        names, columns = zip(*_predictions(model, rows, options.proba), strict=True)
        if number == 0:  # what is no table is refused before a line is written
            writer.writerow(names)
        lines = zip(present.tolist(), *columns, strict=True)
        writer.writerows(line if there else [""] * len(names) for there, *line in lines)


def _blocks(model: Model, options: argparse.Namespace) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of a file or of a folder of blocks: (encoded rows, bool[n] which are present).

    The last block is of no rows.

    Raises:
        InputError: for what is neither, for one that is damaged, for a folder of another domain,
            and for one where the model reads no cells.
        OSError: if it cannot be read.
    """
    domain = model.about.domain or {}
    with of_input(options.file), name_in_errors(Path(options.file)):
        if Path(options.file).is_dir():
            table = folders.open_folder(options.file)
            with of_input():
                check_same_domain(table.domain, domain, options.file, options.model)
            if model.dtype != "uint8":
                words = "reads exact numbers, and blocks have bins of them"
                raise InputError(f"{options.model}: {words}")
            yield from ((block.bins.T, block.present) for block in table.iter_rows(BLOCK_ROWS))
        else:
            form = form_of(options, domain)
            faults: Counter[str] = Counter()
            source = options.file, tuple(domain), BLOCK_ROWS, form, faults
            for columns in files.iter_column_blocks(*source):
                rows = model.encode(columns)
                yield rows, np.ones(len(rows), bool)
            for fault, count in faults.items() if is_terminal(sys.stderr) else ():
                print(
                    f"\r\033[Kwarning: {count} lines have {fault}, and no values", file=sys.stderr
                )
        yield np.zeros((0, model.features), model.dtype), np.ones(0, bool)


def _predictions(model: Model, rows: np.ndarray, proba: bool) -> list[tuple[str, list]]:
    """(name, cells) of each column."""

    def words(numbers: Any) -> list[str]:
        return [f"{number:.6g}" for number in np.asarray(numbers).tolist()]

    about, (scores, found, shares) = model.about, model.predict_all(rows)
    answers = found.tolist()
    if isinstance(about.target, Numeric):
        return [("number", words(answers))]
    if shares is None:
        return [("class", answers), ("score", words(scores))]
    if proba:
        classes = about.classes or range(shares.shape[1])
        named = zip(classes, shares.T, strict=True)
        return [("class", answers), *((f"probability of {c}", words(of)) for c, of in named)]
    of_predicted = shares[:, 1] if about.target is None else shares.max(axis=1)
    return [("class", answers), ("probability", words(of_predicted))]
