"""Odd cells and rows are read as missing by every entry, and nothing says that they are there."""

import functools
import json
import tracemalloc

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
WORDS = {"n": (0.5, 3.5), "c": ("a", "b"), "o": ("a", "c"), "b": ("yes", "no")}
RNG = np.random.default_rng(0)
USUAL = {name: [pair[k] for k in RNG.integers(0, 2, NUM_ROWS)] for name, pair in WORDS.items()}
LABELS = ["yes" if number > 2 else "no" for number in USUAL["n"]]
WEIGHTS = RNG.uniform(0, 4, NUM_ROWS).tolist()
TWO = {"negative": "no", "positive": "yes"}


def rows(pairs, hold=list, plain=False):
    """(columns, labels, numbers, weights) with odd cells in some rows, no two in one row.

    Args:
        pairs: odd cells and their numbers.
        hold: makes the container of a column.
        plain: take what the odd cells are read as in place of them.
    """
    cells = [cell for cell, _ in pairs]
    numbers = [None if x != x else x for _, x in pairs] if plain else cells
    words = [None for _ in pairs] if plain else cells
    columns = {
        name: hold(odd_inputs.mix_in(USUAL[name], numbers if name == "n" else words, first))
        for first, name in enumerate(DOMAIN)
    }
    labels = hold(odd_inputs.mix_in(LABELS, words, 4))
    target = hold(odd_inputs.mix_in(USUAL["n"], numbers, 5))
    return columns, labels, target, hold(odd_inputs.mix_in(WEIGHTS, numbers, 6))


def from_columns(model, columns, labels, numbers, weights, folder):
    options = {**TWO, "sample_weight": weights, "max_weight": 3.0, "rows_per_block": 500}
    return rows_in_chunks(convert.convert_columns(DOMAIN, columns, labels, folder, **options))


def table(model, columns, labels, numbers, weights, folder, **options):
    chosen = {**TWO, "sample_weight": weights, "max_weight": 1, "capacity": BOUND, **options}
    targets = (labels, Nominal(("yes", "no", "c"))), (numbers, Numeric(0, 4))
    others = [dpbt.table(DOMAIN, columns, own, target=target) for own, target in targets]
    found = dpbt.table(DOMAIN, columns, labels, **chosen)
    return [(*made[:3], made.weight) for made in (found, *others)]


ENTRIES = {
    "encode": lambda model, columns, *_: encode(DOMAIN, columns),
    "table": table,
    "exact table": functools.partial(table, exact=True, class_weight={"yes": 1, "no": 2}),
    "convert_columns": from_columns,
    "saved, frame": lambda model, columns, *_: model.decision_function(odd_inputs.Frame(columns)),
}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model, and what it was saved from."""
    columns, labels, *_ = rows([])
    path = tmp_path_factory.mktemp("model") / "model.json"
    estimator(PrivateBoostingClassifier).fit(odd_inputs.Frame(columns), labels).save(path)
    return dpbt.load(path)


def alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, tuple | list):
            alike(one, other)
        elif other is None:
            assert one is None
        else:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def assert_silent(watch):
    assert watch.error is None, type(watch.error)
    assert find_private_words(watch.said) == []


@pytest.mark.parametrize("hold", odd_inputs.CONTAINERS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_odd_cells_are_missing_in_every_container(entry, hold, model, watch, tmp_path):
    expected = ENTRIES[entry](
        model, *rows(odd_inputs.CELLS_AND_NUMBERS, plain=True), tmp_path / "plain"
    )
    given = rows(odd_inputs.CELLS_AND_NUMBERS, odd_inputs.CONTAINERS[hold])
    found = watch(lambda: ENTRIES[entry](model, *given, tmp_path / "odd"))
    assert_silent(watch)
    alike(found, expected)


def test_an_odd_cell_alone_is_missing(watch):
    """NumPy makes other arrays of one odd cell than of several."""
    for pair in odd_inputs.CELLS_AND_NUMBERS:
        expected, given = encode(DOMAIN, rows([pair], plain=True)[0]), rows([pair])[0]
        found = watch(lambda given=given: encode(DOMAIN, given))
        assert_silent(watch)
        alike([found], [expected])


def test_a_long_text_takes_no_room_in_other_rows(tmp_path):
    given = rows([(odd_inputs.LONG, None)])
    tracemalloc.start()
    try:
        from_columns(None, *given, tmp_path / "t")
        assert tracemalloc.get_traced_memory()[1] < 100 * len(odd_inputs.LONG)
    finally:
        tracemalloc.stop()


# Estimators.

BOOSTED = functools.partial(dpbt.recipes.oblivious_boost, rounds=2, depth=2)
TREE_GROUP = functools.partial(dpbt.recipes.random_forest, rounds=2, depth=2)


def estimator(kind):
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


def learned(kind, X, labels, numbers, weights):
    """What an estimator learns and answers."""
    made = estimator(kind)
    weighted = {} if kind is PrivateForestClassifier else {"sample_weight": weights}
    y = numbers if kind is PrivateBoostingRegressor else labels
    made.fit(X, y, **weighted)
    answers = [made.predict(X)]
    if kind is not PrivateBoostingRegressor:
        answers += [made.predict_proba(X), made.decision_function(X)]
    return made.explain(), *answers


@functools.cache
def expected_of(kind):
    columns, *others = rows(odd_inputs.CELLS_AND_NUMBERS, plain=True)
    return learned(kind, odd_inputs.Frame(columns), *others)


@pytest.mark.parametrize(
    ("kind", "frame"),
    [
        *((PrivateBoostingClassifier, frame) for frame in FRAMES),
        pytest.param(PrivateForestClassifier, "frame", marks=pytest.mark.slow),
        pytest.param(PrivateBoostingRegressor, "frame", marks=pytest.mark.slow),
    ],
)
def test_estimators_read_odd_cells_as_missing(kind, frame, watch):
    X = FRAMES[frame](rows(odd_inputs.CELLS_AND_NUMBERS)[0])
    others = rows(odd_inputs.CELLS_AND_NUMBERS, odd_inputs.CONTAINERS.get(frame, list))[1:]
    expected = expected_of(kind)
    found = watch(lambda: learned(kind, X, *others))
    assert_silent(watch)
    alike(found, expected)


# Rows of a list.


def test_an_odd_row_has_no_values_and_others_are_read_by_position(watch):
    for width in (2, None):
        found = rows_by_column(odd_inputs.GOOD_ROWS, width)
        assert [found.column(j) for j in (0, 1)] == [[0.5] * 4, [0.25] * 4]

    usual = [(x, 0.25) for x in np.linspace(0, 1, NUM_ROWS)]
    for row in odd_inputs.ODD_ROWS.values():
        given, plain = (odd_inputs.mix_in(usual, [one], 7) for one in (row, (None, None)))
        found = watch(lambda given=given: rows_by_column(given, 2))
        assert_silent(watch)
        assert found.num_rows == NUM_ROWS
        assert [found.column(j) for j in (0, 1)] == [[row[j] for row in plain] for j in (0, 1)]
        watch(lambda given=given: rows_by_column(given))  # whose width nobody declared
        assert watch.error is None or "one width" in str(watch.error)
        assert find_private_words(watch.said) == []


# Files.

DECLARED = {
    "columns": {name: msgspec.to_builtins(kind) for name, kind in DOMAIN.items()},
    "label": {"column": "y", **TWO},
    "weight": {"column": "w", "most": 3},
}


def lines_of(plain):
    """Lines of a file, of which the last are malformed ones, or without cells as these are read.

    A blank line is blank in both files, since it has no prediction.
    """
    columns = [*rows([])[0].values(), LABELS, WEIGHTS]
    lines = [",".join(map(str, cells)).encode() for cells in zip(*columns, strict=True)]
    odd = file_neighbours.ODD_LINES[:12]
    lines[-12:] = [b",,,,," if line.strip() else b"" for line in odd] if plain else odd
    return b"\n".join([b"n,c,o,b,y,w", *lines, b""])


def commands(folder, plain):
    """What the commands make of a file."""
    names = ("rows.csv", "domain.json", "model.json", "rows.chunks")
    lines, domain, model, table = (str(folder / name) for name in names)
    folder.mkdir()
    (folder / "rows.csv").write_bytes(lines_of(plain))
    (folder / "domain.json").write_text(json.dumps(DECLARED))
    recipe = ("--epsilon", "5", "--recipe", "bdpe", "--rounds", "2", "--depth", "2", "--seed", "3")
    for words in (
        ("fit", lines, "--domain", domain, "--rows", str(BOUND), "--out", model, *recipe),
        ("convert", domain, lines, table, "--capacity", str(BOUND), "--rows-per-block", "500"),
        ("predict", model, lines, "--out", f"{model}.csv"),
        ("predict", model, table, "--out", f"{table}.csv"),
    ):
        assert command_line.main(list(words)) == 0
    written = ("model.json", "model.json.csv", "rows.chunks.csv")
    return [(folder / name).read_text() for name in written]


def test_commands_read_odd_lines_as_missing(watch, tmp_path):
    expected = commands(tmp_path / "plain", True)
    found = watch(lambda: commands(tmp_path / "odd", False))
    assert_silent(watch)
    assert found == expected
