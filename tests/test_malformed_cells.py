"""Odd cells and rows are read as missing by every entry, and nothing says that they are there."""

import functools
import json
import tracemalloc
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt.data import convert
from dpbt.data.declarations import rows_by_column
from dpbt.data.domains import Boolean, Nominal, Numeric, encode
from dpbt.sklearn import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateForestClassifier,
)
from tests.support import file_neighbours, odd_inputs
from tests.support.block_tables import rows_in_blocks as rows_in_chunks
from tests.support.leak_watch import BOUND, NUM_ROWS, Watch, find_private_words

pytestmark = [
    pytest.mark.unoptimized,
    pytest.mark.filterwarnings("ignore:research key", "ignore:X does not have valid"),
]

DOMAIN = {
    "n": Numeric(0, 4, bins=4, missing=True),
    "c": Nominal(("a", "b")),
    "o": Nominal(("a", "rest"), other="rest"),
    "b": Boolean("yes", "no", missing=True),
}
USUAL_PAIRS = {"n": (0.5, 3.5), "c": ("a", "b"), "o": ("a", "c"), "b": ("yes", "no")}
RNG = np.random.default_rng(0)
USUAL_COLUMNS = {
    name: [pair[k] for k in RNG.integers(0, 2, NUM_ROWS)] for name, pair in USUAL_PAIRS.items()
}
LABELS = ["yes" if value > 2 else "no" for value in USUAL_COLUMNS["n"]]
WEIGHTS = RNG.uniform(0, 4, NUM_ROWS).tolist()
CLASSES_OF_LABEL = {"negative": "no", "positive": "yes"}


class OddRows(NamedTuple):
    """Columns by name, and for each row a label, a number to predict and a weight."""

    columns: dict[str, Any]
    labels: Any
    numbers: Any
    weights: Any


def rows_with_odd_cells(odd_cells, make_container=list, as_read=False):
    """Rows with odd cells in some of them, no two in one row.

    Args:
        odd_cells: odd cells and their numbers.
        make_container: makes the container of a column.
        as_read: put what the odd cells are read as in place of them.
    """
    cells = [cell for cell, _ in odd_cells]
    numbers = [None if x != x else x for _, x in odd_cells] if as_read else cells
    classes = [None for _ in odd_cells] if as_read else cells
    columns = {
        name: make_container(
            odd_inputs.mix_in(USUAL_COLUMNS[name], numbers if name == "n" else classes, first)
        )
        for first, name in enumerate(DOMAIN)
    }
    labels = make_container(odd_inputs.mix_in(LABELS, classes, 4))
    target = make_container(odd_inputs.mix_in(USUAL_COLUMNS["n"], numbers, 5))
    weights = make_container(odd_inputs.mix_in(WEIGHTS, numbers, 6))
    return OddRows(columns=columns, labels=labels, numbers=target, weights=weights)


def convert_to_blocks(model, columns, labels, numbers, weights, folder):
    options = {
        **CLASSES_OF_LABEL,
        "sample_weight": weights,
        "max_weight": 3.0,
        "rows_per_block": 500,
    }
    return rows_in_chunks(convert.convert_columns(DOMAIN, columns, labels, folder, **options))


def read_tables(model, columns, labels, numbers, weights, folder, **options):
    label_options = {
        **CLASSES_OF_LABEL,
        "sample_weight": weights,
        "max_weight": 1,
        "capacity": BOUND,
        **options,
    }
    labels_and_targets = (labels, Nominal(("yes", "no", "c"))), (numbers, Numeric(0, 4))
    tables_of_targets = [
        dpbt.table(DOMAIN, columns, target_labels, target=target)
        for target_labels, target in labels_and_targets
    ]
    table_of_classes = dpbt.table(DOMAIN, columns, labels, **label_options)
    return [(*table[:3], table.weight) for table in (table_of_classes, *tables_of_targets)]


READERS = {
    "encode": lambda model, columns, *_: encode(DOMAIN, columns),
    "table": read_tables,
    "exact table": functools.partial(read_tables, exact=True, class_weight={"yes": 1, "no": 2}),
    "convert_columns": convert_to_blocks,
    "saved, frame": lambda model, columns, *_: model.decision_function(odd_inputs.Frame(columns)),
}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model, and what it was saved from."""
    columns, labels, *_ = rows_with_odd_cells([])
    path = tmp_path_factory.mktemp("model") / "model.json"
    make_estimator(PrivateBoostingClassifier).fit(odd_inputs.Frame(columns), labels).save(path)
    return dpbt.load(path)


def assert_equal_arrays(actual, expected):
    for actual_part, expected_part in zip(actual, expected, strict=True):
        if isinstance(expected_part, tuple | list):
            assert_equal_arrays(actual_part, expected_part)
        elif expected_part is None:
            assert actual_part is None
        else:
            np.testing.assert_array_equal(np.asarray(actual_part), np.asarray(expected_part))


def assert_silent(watch):
    assert watch.error is None, type(watch.error)
    assert find_private_words(watch.said) == []


@pytest.mark.parametrize("container", odd_inputs.CONTAINERS)
@pytest.mark.parametrize("reader", READERS)
def test_odd_cells_are_missing_in_every_container(reader, container, model, watch, tmp_path):
    expected = READERS[reader](
        model, *rows_with_odd_cells(odd_inputs.CELLS_AND_NUMBERS, as_read=True), tmp_path / "plain"
    )
    odd_rows = rows_with_odd_cells(odd_inputs.CELLS_AND_NUMBERS, odd_inputs.CONTAINERS[container])
    actual = watch(lambda: READERS[reader](model, *odd_rows, tmp_path / "odd"))
    assert_silent(watch)
    assert_equal_arrays(actual, expected)


def test_an_odd_cell_alone_is_missing(watch):
    """NumPy makes an array of another type from one odd cell than from several."""
    for pair in odd_inputs.CELLS_AND_NUMBERS:
        expected = encode(DOMAIN, rows_with_odd_cells([pair], as_read=True).columns)
        odd_columns = rows_with_odd_cells([pair]).columns
        actual = watch(lambda odd_columns=odd_columns: encode(DOMAIN, odd_columns))
        assert_silent(watch)
        assert_equal_arrays([actual], [expected])


def test_a_long_text_takes_no_room_in_other_rows(tmp_path):
    odd_rows = rows_with_odd_cells([(odd_inputs.LONG, None)])
    tracemalloc.start()
    try:
        convert_to_blocks(None, *odd_rows, tmp_path / "t")
        assert tracemalloc.get_traced_memory()[1] < 100 * len(odd_inputs.LONG)
    finally:
        tracemalloc.stop()


# Estimators.

BOOSTED = functools.partial(dpbt.recipes.oblivious_boost, rounds=2, depth=2)
TREE_GROUP = functools.partial(dpbt.recipes.random_forest, rounds=2, depth=2)


def make_estimator(kind):
    options = {
        "epsilon": 20.0,
        "rows": BOUND,
        "domain": DOMAIN,
        "random_state": 1,
        "recipe": TREE_GROUP if kind is PrivateForestClassifier else BOOSTED,
    }
    if kind is PrivateBoostingRegressor:
        return kind(**options, max_weight=1, target_range=(0, 4))
    bound = {} if kind is PrivateForestClassifier else {"max_weight": 1}
    return kind(**options, **bound, classes=("no", "yes"))


def as_array(columns):
    array = np.empty((NUM_ROWS, len(columns)), object)
    for j, cells in enumerate(columns.values()):
        array[:, j] = odd_inputs.object_array(cells)
    return array


def frame_of_pandas(columns):
    pandas = pytest.importorskip("pandas", reason="no pandas; its frames are not tested")
    return pandas.DataFrame(
        {name: odd_inputs.pandas_series(cells) for name, cells in columns.items()}
    )


def frame_of_polars(columns):
    polars = pytest.importorskip("polars", reason="no polars; its frames are not tested")
    return polars.DataFrame(
        [odd_inputs.polars_series(cells).alias(name) for name, cells in columns.items()]
    )


FRAMES = {
    "deque": lambda columns: odd_inputs.deque(zip(*columns.values(), strict=True)),
    "array": as_array,
    "frame": odd_inputs.Frame,
    "pandas": frame_of_pandas,
    "polars": frame_of_polars,
}


def learn_and_predict(kind, X, labels, numbers, weights):
    """What an estimator learns in words, and what it predicts."""
    estimator = make_estimator(kind)
    weighted = {} if kind is PrivateForestClassifier else {"sample_weight": weights}
    y = numbers if kind is PrivateBoostingRegressor else labels
    estimator.fit(X, y, **weighted)
    predictions = [estimator.predict(X)]
    if kind is not PrivateBoostingRegressor:
        predictions += [estimator.predict_proba(X), estimator.decision_function(X)]
    return estimator.explain(), *predictions


@functools.cache
def expected_predictions(kind):
    columns, *labels_and_weights = rows_with_odd_cells(odd_inputs.CELLS_AND_NUMBERS, as_read=True)
    return learn_and_predict(kind, odd_inputs.Frame(columns), *labels_and_weights)


@pytest.mark.parametrize(
    ("kind", "frame"),
    [
        *((PrivateBoostingClassifier, frame) for frame in FRAMES),
        pytest.param(PrivateForestClassifier, "frame", marks=pytest.mark.slow),
        pytest.param(PrivateBoostingRegressor, "frame", marks=pytest.mark.slow),
    ],
)
def test_estimators_read_odd_cells_as_missing(kind, frame, watch):
    X = FRAMES[frame](rows_with_odd_cells(odd_inputs.CELLS_AND_NUMBERS).columns)
    labels_and_weights = rows_with_odd_cells(
        odd_inputs.CELLS_AND_NUMBERS, odd_inputs.CONTAINERS.get(frame, list)
    )[1:]
    expected = expected_predictions(kind)
    actual = watch(lambda: learn_and_predict(kind, X, *labels_and_weights))
    assert_silent(watch)
    assert_equal_arrays(actual, expected)


# Rows of a list.


def test_an_odd_row_has_no_values_and_other_rows_are_read_by_position(watch):
    for width in (2, None):
        columns = rows_by_column(odd_inputs.GOOD_ROWS, width)
        assert [columns.column(j) for j in (0, 1)] == [[0.5] * 4, [0.25] * 4]

    usual = [(x, 0.25) for x in np.linspace(0, 1, NUM_ROWS)]
    for row in odd_inputs.ODD_ROWS.values():
        rows_with_odd_row, rows_as_read = (
            odd_inputs.mix_in(usual, [mixed_in], 7) for mixed_in in (row, (None, None))
        )
        columns = watch(lambda odd=rows_with_odd_row: rows_by_column(odd, 2))
        assert_silent(watch)
        assert columns.num_rows == NUM_ROWS
        assert [columns.column(j) for j in (0, 1)] == [
            [row[j] for row in rows_as_read] for j in (0, 1)
        ]
        watch(lambda odd=rows_with_odd_row: rows_by_column(odd))  # the width is undeclared
        assert watch.error is None or "one width" in str(watch.error)
        assert find_private_words(watch.said) == []


# Files.

DECLARED = {
    "columns": {name: msgspec.to_builtins(kind) for name, kind in DOMAIN.items()},
    "label": {"column": "y", **CLASSES_OF_LABEL},
    "weight": {"column": "w", "most": 3},
}


def file_content(as_read):
    """The bytes of a file whose last lines are malformed, or empty as malformed lines are read.

    A blank line is blank in both files, since it has no prediction.
    """
    columns = [*rows_with_odd_cells([]).columns.values(), LABELS, WEIGHTS]
    lines = [",".join(map(str, cells)).encode() for cells in zip(*columns, strict=True)]
    odd_lines = file_neighbours.ODD_LINES[:12]
    lines[-12:] = (
        [b",,,,," if line.strip() else b"" for line in odd_lines] if as_read else odd_lines
    )
    return b"\n".join([b"n,c,o,b,y,w", *lines, b""])


def run_commands(folder, as_read):
    """The model and the predictions that the commands write from a file."""
    names = ("rows.csv", "domain.json", "model.json", "rows.chunks")
    rows_file, domain_file, model_file, blocks_folder = (str(folder / name) for name in names)
    folder.mkdir()
    (folder / "rows.csv").write_bytes(file_content(as_read))
    (folder / "domain.json").write_text(json.dumps(DECLARED))
    recipe = ("--epsilon", "5", "--recipe", "bdpe", "--rounds", "2", "--depth", "2", "--seed", "3")
    fit_options = ("--domain", domain_file, "--rows", str(BOUND), "--out", model_file)
    convert_options = ("--capacity", str(BOUND), "--rows-per-block", "500")
    for arguments in (
        ("fit", rows_file, *fit_options, *recipe),
        ("convert", domain_file, rows_file, blocks_folder, *convert_options),
        ("predict", model_file, rows_file, "--out", f"{model_file}.csv"),
        ("predict", model_file, blocks_folder, "--out", f"{blocks_folder}.csv"),
    ):
        assert command_line.main(list(arguments)) == 0
    files_written = ("model.json", "model.json.csv", "rows.chunks.csv")
    return [(folder / name).read_text() for name in files_written]


def test_commands_read_odd_lines_as_missing(watch, tmp_path):
    expected = run_commands(tmp_path / "plain", as_read=True)
    actual = watch(lambda: run_commands(tmp_path / "odd", as_read=False))
    assert_silent(watch)
    assert actual == expected
