"""Classes that the type of the labels cannot hold, or that no file can keep, are refused."""

import array
import functools
import types

import numpy as np
import pytest

import dpbt
from dpbt.data.domains import Nominal, Numeric
from dpbt.data.label_types import label_type

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (60, 2))
LABELS = (X[:, 0] > 0.5).astype(int)
DOMAIN = {"a": Numeric(0, 1, bins=4), "b": Numeric(0, 1, bins=4)}
COLUMNS = {"a": X[:, 0], "b": X[:, 1]}


class FitBegunError(Exception):
    """Stands in for a fit that was begun."""


class TypedColumn:
    """Stands in for a column of Arrow or polars, which states a type and has cells."""

    def __init__(self, name, attribute="type"):
        setattr(self, attribute, name)
        self._cells = LABELS.tolist()

    def __len__(self):
        return len(self._cells)

    def __iter__(self):
        return iter(self._cells)

    def __getitem__(self, row):
        return self._cells[row]


class CategoricalColumn(TypedColumn):
    """Stands in for a categorical column of pandas."""

    def __init__(self, dtype):
        type_ = types.SimpleNamespace(kind="O", categories=types.SimpleNamespace(dtype=dtype))
        super().__init__(type_, "dtype")


class DictionaryColumn(TypedColumn):
    """Stands in for a dictionary of Arrow."""

    def __init__(self, name):
        super().__init__(types.SimpleNamespace(value_type=name))


TYPES = {
    np.dtype(bool): ("boolean", 0, 0),
    np.dtype("int8"): ("whole", -128, 127),
    np.dtype("uint16"): ("whole", 0, 2**16 - 1),
    np.dtype(">i8"): ("whole", -(2**63), 2**63 - 1),
    np.dtype("float32"): ("number", 0, 0),
    np.dtype("U5"): ("text", 0, 0),
    np.dtype("S5"): ("text", 0, 0),
    "int64": ("whole", -(2**63), 2**63 - 1),
    "UInt8": ("whole", 0, 255),
    "bool": ("boolean", 0, 0),
    "Boolean": ("boolean", 0, 0),
    "double": ("number", 0, 0),
    "halffloat": ("number", 0, 0),
    "Float32": ("number", 0, 0),
    "large_string": ("text", 0, 0),
    "String": ("text", 0, 0),
}


@pytest.mark.parametrize("stated_type", TYPES, ids=str)
def test_the_type_that_a_column_states_is_read_and_no_cell(stated_type):
    if isinstance(stated_type, np.dtype):
        parsed_type = label_type(np.empty(0, stated_type))
    else:
        parsed_type = label_type(TypedColumn(stated_type))
        assert label_type(TypedColumn(stated_type, "dtype")) == parsed_type
    assert parsed_type is not None
    assert (parsed_type.family, parsed_type.low, parsed_type.high) == TYPES[stated_type]


@pytest.mark.parametrize(
    "column",
    [
        LABELS.tolist(),
        LABELS.astype(object),
        TypedColumn("dictionary<values=string>"),
        TypedColumn("null"),
        (),
    ],
    ids=["list", "objects", "dictionary of text", "null", "nothing"],
)
def test_a_column_that_states_no_type_may_hold_any_labels(column):
    assert label_type(column) is None


IMPOSSIBLE = {
    "Booleans, whole numbers": ((False, True), LABELS),
    "Booleans, small numbers": ((False, True), LABELS.astype(np.uint8)),
    "Booleans, floats": ((False, True), LABELS.astype(np.float32)),
    "Booleans, Arrow": ((False, True), TypedColumn("int64")),
    "Booleans, polars": ((False, True), TypedColumn("Float64", "dtype")),
    "words, Arrow": (("no", "yes"), TypedColumn("int64")),
    "negative, unsigned": ((-1, 1), LABELS.astype(np.uint8)),
    "too large": ((0, 300), LABELS.astype(np.int8)),
    "fractions": ((0.5, 1.5), LABELS),
    "dates": ((0, 1), LABELS.astype("datetime64[s]")),
    "leading zeros, whole numbers": (("01", "02"), LABELS),
    "leading zeros, floats": (("01", "02"), LABELS.astype(float)),
    "zeros at the end, floats": (("0.50", "1.50"), LABELS.astype(float)),
    "Booleans, memory": ((False, True), memoryview(LABELS.astype(np.uint8))),
    "too large, array": ((0, 300), array.array("b", LABELS.tolist())),
    "Booleans, categories": ((False, True), CategoricalColumn(np.dtype("int64"))),
    "too large, dictionary": ((0, 300), DictionaryColumn("int8")),
    "dates in categories": ((0, 1), CategoricalColumn(np.dtype("datetime64[s]"))),
    "intervals": ((0, 1), CategoricalColumn("interval[int64, right]")),
    "several, Booleans": ((0, 1, 2), LABELS > 0),
    "several, unsigned": ((-1, 0, 1), LABELS.astype(np.uint64)),
}
POSSIBLE = {
    "Booleans": ((False, True), LABELS > 0),
    "Booleans as text": ((False, True), (LABELS > 0).astype(str)),
    "numbers, Booleans": ((0, 1), LABELS > 0),
    "words, Booleans": (("no", "yes"), LABELS > 0),
    "numbers": ((0, 1), LABELS.astype(np.int8)),
    "floats": ((0.0, 1.0), LABELS),
    "numbers, floats": ((0, 1), LABELS.astype(np.float16)),
    "numbers as text": (("0", "1"), LABELS),
    "zeros after the point": (("0.0", "1.0"), LABELS),
    "float32": ((0.1, 0.7), LABELS.astype(np.float32)),
    "memory": ((0, 1), memoryview(LABELS.astype(np.uint8))),
    "array": ((0, 1), array.array("b", LABELS.tolist())),
    "categories": ((0, 1), CategoricalColumn(np.dtype("int64"))),
    "categories of objects": ((False, True), CategoricalColumn(np.dtype(object))),
    "a list": ((False, True), LABELS.tolist()),
    "objects": ((False, True), LABELS.astype(object)),
    "several": ((0, 1, 2), LABELS),
}


@pytest.fixture
def begun_fits(monkeypatch):
    """A list with an entry for each fit that was begun; no fit is run."""
    from dpbt.owners import estimators

    calls = []

    def fit(*_, **__):
        calls.append(True)
        raise FitBegunError

    monkeypatch.setattr(estimators, "fit", fit)
    return calls


@pytest.mark.parametrize("name", [*IMPOSSIBLE, *POSSIBLE])
def test_classes_that_the_type_of_y_cannot_hold_are_refused_before_a_fit(name, begun_fits):
    sklearn = pytest.importorskip("dpbt.sklearn")
    classes, labels = {**IMPOSSIBLE, **POSSIBLE}[name]
    estimator = sklearn.PrivateBoostingClassifier(
        epsilon=1.0, rows=100, domain=DOMAIN, classes=classes
    )
    if name in IMPOSSIBLE:
        with pytest.raises(
            ValueError, match=r"labels (of|is of the) type|words and y holds numbers"
        ):
            estimator.fit(X, labels)
        assert not begun_fits
    else:
        with pytest.raises(FitBegunError):
            estimator.fit(X, labels)
        assert begun_fits


@pytest.mark.parametrize("name", [*IMPOSSIBLE, *POSSIBLE])
def test_a_table_whose_labels_cannot_be_its_classes_is_refused(name):
    classes, labels = {**IMPOSSIBLE, **POSSIBLE}[name]
    options = {"negative": classes[0], "positive": classes[1]}
    if len(classes) > 2:
        options = {"target": Nominal(classes)}
    if name in IMPOSSIBLE:
        with pytest.raises(ValueError, match=r"labels (of type|is of the type)"):
            dpbt.table(DOMAIN, COLUMNS, labels, **options)
    else:
        dpbt.table(DOMAIN, COLUMNS, labels, **options)


def test_a_class_for_all_other_labels_needs_another_class_that_can_occur():
    rest = Nominal((0, 1, "rest"), other="rest")
    table = dpbt.table(DOMAIN, COLUMNS, LABELS, target=rest)
    assert table.present.all()
    with pytest.raises(ValueError, match=r"labels (of type|is of the type)"):
        dpbt.table(DOMAIN, COLUMNS, LABELS, target=Nominal(("a", "b", "rest"), other="rest"))


def test_a_class_is_accepted_if_one_of_its_spellings_can_occur():
    options = {"negative": ["no", 0], "positive": ["yes", 1]}
    assert dpbt.table(DOMAIN, COLUMNS, LABELS, **options).present.all()
    with pytest.raises(ValueError, match=r"labels of type int64 are never 'yes'"):
        dpbt.table(DOMAIN, COLUMNS, LABELS, negative=["no", 0], positive=["yes", "y"])


def test_a_refusal_shows_no_length_of_private_text():
    """A dtype of text has the length of the longest label."""
    for labels in (np.array(["a" * 37] * 60), np.array([b"a" * 37] * 60)):
        table = dpbt.table(DOMAIN, COLUMNS, labels, negative=0, positive=1)
        assert not table.present.any()


NAMES = {
    "numbers": (0, 1),
    "bytes": (b"a", b"b"),
    "NumPy": (np.int64(3), np.float32(2)),
    "tuples": (("a", 1), ("b", 2)),
    "None": (None, 1.5),
    "odd text": ("", "a\udcff"),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_model_with_any_names_of_columns_is_saved_and_reads_columns_by_them(names, tmp_path):
    sklearn = pytest.importorskip("dpbt.sklearn")
    domain = {name: Numeric(0, 1, bins=4) for name in names}
    recipe = functools.partial(dpbt.recipes.oblivious_boost, rounds=2, depth=1)
    estimator = sklearn.PrivateBoostingClassifier(
        epsilon=5.0, rows=100, domain=domain, recipe=recipe, random_state=0, classes=(0, 1)
    )
    estimator.fit(X, LABELS).save(tmp_path / "model.json")
    loaded = dpbt.load(tmp_path / "model.json")
    assert [*loaded.about.domain] == [str(name) for name in names]
    expected = estimator.predict(X)
    for columns in (
        dict(zip(names, X.T, strict=True)),
        {str(name): column for name, column in zip(names, X.T, strict=True)},
    ):
        np.testing.assert_array_equal(loaded.predict(columns), expected)
    dpbt.save(estimator.model_, tmp_path / "other.json", domain=domain)


@pytest.mark.parametrize("classes", [(0, float("inf")), (float("nan"), 1.0), (-np.inf, 0, 1)])
def test_classes_that_no_file_keeps_are_refused_before_a_fit(classes, begun_fits):
    sklearn = pytest.importorskip("dpbt.sklearn")
    estimator = sklearn.PrivateBoostingClassifier(
        epsilon=1.0, rows=100, domain=DOMAIN, classes=classes
    )
    with pytest.raises(ValueError, match="classes must state all labels"):
        estimator.fit(X, LABELS.astype(float))
    assert not begun_fits
