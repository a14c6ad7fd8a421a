"""Declared forms of cells: decimal marks, signs, dates, spellings and capitals, in every container.

Each is a map of one cell alone, is kept in files, and changes nothing where it is not declared.
"""

import datetime
import importlib
import json
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbt
from dpbt.data import cell_forms, convert, declarations, domains, files
from dpbt.data.domains import Boolean, Label, Nominal, Numeric
from tests.support import odd_inputs

DAY = datetime.date(2020, 3, 1)
DAYS = {"date": "iso", "unit": "days"}
MILLION = Numeric(0, 1_000_000, bins=100, missing=True)


def with_options(kind, **options):
    return msgspec.structs.replace(kind, **options)


QUIRKS = {
    # options of a number, and the numbers of texts
    "decimal comma": (
        {"decimal": ","},
        {"12,5": 12.5, "-0,5": -0.5, "12.5": None, "1e3": 1000, "1,2,3": None},
    ),
    "euro": (
        {"decimal": ",", "strip": ["€", "."]},
        {"1.000,50 €": 1000.5, "€ 7": 7, "1.000": 1000, "1.00": None},
    ),
    "thousands": (
        {"strip": ","},
        {"1,234": 1234, "12,34,567": 1234567, "1,5": None, "1,2345": None, "1234,567": None},
    ),
    "percent": ({"strip": ["%"]}, {"50 %": 50, "7.5%": 7.5, "%": None, "5%5": None}),
    "blanks": (
        {"strip": [" "]},
        {"1 000": 1000, "1\u00a0000": 1000, "1\u202f000": 1000, "1 00": None},
    ),
    "currency code": (
        {"strip": ["CHF", "'"]},
        {"CHF 1'234.50": 1234.5, "CHF-3": -3, "CH 3": None},
    ),
    "two amounts": ({"strip": ["€", " "]}, {"5 € 30": None, "5 €": 5}),
    "dollars": ({"strip": ["$", ","]}, {"$1,234.50": 1234.5, "-$5": -5, "$": None}),
}


@pytest.mark.parametrize("name", QUIRKS)
def test_signs_and_marks_are_read(name):
    options, numbers = QUIRKS[name]
    kind = with_options(MILLION, **options)
    for text, number in numbers.items():
        read = kind.form.read_number(text)
        assert (None if np.isnan(read) else read) == number, text
    expected = domains.encode({"x": MILLION}, {"x": list(numbers.values())})[:, 0]
    assert_read_alike(kind, list(numbers), expected)


def containers():
    """How a column of cells is held, by name, of the packages that are installed."""
    held = {"list": list, "tuple": tuple, "objects": lambda cells: np.array(cells, object)}
    for package, hold in (
        ("pandas", lambda package, cells: package.Series(cells)),
        ("polars", lambda package, cells: package.Series(cells)),
        ("pyarrow", lambda package, cells: package.array(cells)),
    ):
        try:
            module = __import__(package)
        except ImportError:
            continue
        held[package] = lambda cells, hold=hold, module=module: hold(module, cells)
    return held


def assert_read_alike(kind, cells, bins):
    """The bins of cells, however they are held, and in a file of text."""
    held = containers()
    if all(type(cell) is str for cell in cells):
        held["text"] = np.array
    for name, hold in held.items():
        found = domains.encode({"x": kind}, {"x": hold(cells)})[:, 0]
        assert found.tolist() == list(bins), name


DATES = [
    # a format, a unit, text, and the number
    ("iso", "days", "2020-03-01", 18322),
    ("iso", "days", "2020-03-01T12:00:00", 18322.5),
    ("iso", "hours", "2020-03-01T12:00:00+01:00", 18322 * 24 + 11),
    ("%d.%m.%Y", "days", "1.3.2020", 18322),
    ("%m/%d/%Y", "days", "3/1/2020", 18322),
    ("%d/%b/%y", "month", "01/MAR/20", 3),
    ("%d.%m.%Y %H:%M", "hour", "01.03.2020 18:30", 18.5),
    ("%m/%d/%Y %I:%M %p", "hour", "3/1/2020 12:05 AM", 5 / 60),
    ("%Y%m%d", "year", "20200301", 2020),
    ("unix", "days", "1583020800", 18322),
    ("unix ms", "weekday", "1583020800000", 7),
    ("%Y-%m-%dT%H:%M:%S.%f%z", "seconds", "2020-03-01T00:00:00.5Z", 18322 * 86400 + 0.5),
]


@pytest.mark.parametrize(("date", "unit", "text", "number"), DATES)
def test_dates_are_read_as_numbers(date, unit, text, number):
    form = cell_forms.DateForm(format=date, unit=unit)
    assert form.read_number(text) == pytest.approx(number, abs=1e-12)
    assert form.read_number(f" {text} ") == form.read_number(text)
    for other in ("", "NA", "2020-13-01", "30.02.2020", "x", None, True, 1e300, text + "x"):
        number_of_other = form.read_number(other)
        assert np.isnan(number_of_other) or (other == 1e300 and date.startswith("unix"))


def test_cells_of_dates_are_themselves_whatever_the_format():
    moment = datetime.datetime(2020, 3, 1, 6)
    zone = datetime.timezone(datetime.timedelta(hours=6))
    form = cell_forms.DateForm(format="%d.%m.%Y", unit="days")
    for cell, number in (
        (DAY, 18322),
        (moment, 18322.25),
        (moment.replace(tzinfo=zone), 18322),
        (np.datetime64("2020-03-01"), 18322),
        (np.datetime64("2020-03"), 18322),
        (np.datetime64("2020-03-01T06", "h"), 18322.25),
        (np.datetime64(moment, "ns"), 18322.25),
    ):
        assert form.read_number(cell) == number, cell
    for cell in (np.datetime64("NaT"), datetime.time(1), datetime.timedelta(1), 2020.5):
        assert np.isnan(form.read_number(cell)), cell


def test_columns_of_dates_are_read_in_every_container():
    kind = Numeric("2020-01-01", "2021-01-01", bins=100, missing=True, **DAYS)
    moments = [datetime.datetime(2020, 3, 1, 5), None, datetime.datetime(2020, 12, 30)]
    bins = [16, 100, 99]
    assert_read_alike(kind, moments, bins)
    texts = [None if moment is None else moment.isoformat() for moment in moments]
    assert_read_alike(kind, texts, bins)
    for unit in ("s", "us", "ns"):
        array = np.array(moments, f"datetime64[{unit}]")
        for column in (array, np.ma.MaskedArray(array, [False, True, False])):
            assert domains.encode({"x": kind}, {"x": column})[:, 0].tolist() == bins
    if "pandas" in containers():
        series = containers()["pandas"](moments)
        for zone in ("UTC", "America/New_York"):
            localized = series.dt.tz_localize("UTC").dt.tz_convert(zone)
            assert domains.encode({"x": kind}, {"x": localized})[:, 0].tolist() == bins


def test_bounds_and_words_of_dates_are_dates():
    kind = Numeric("2020-01-01", "2020-01-05", bins=4, **DAYS)
    assert (kind.low, kind.high) == (18262, 18266)
    assert [split.yes for split in kind.splits("x")] == [f"x > 2020-01-0{day}" for day in (2, 3, 4)]
    assert kind == Numeric(18262, 18266, bins=4, **DAYS)
    assert kind.bin_words[-1] == "> 2020-01-04"
    cut = Numeric("2020-01-01", "2020-01-05", cuts=("2020-01-02T06:30",), **DAYS)
    assert cut.splits("x")[0].yes == "x > 2020-01-02 06:30"
    assert Numeric(2010, 2020, date="iso", unit="year").splits("x")[0].yes == "x > 2011"


def test_spellings_and_capitals_are_read():
    for kind, cells, bins in (
        (Boolean(["Ja", "J"], ["Nein", "0"]), ["Ja", "J", "ja", "0", True], [1, 1, 0, 0, 1]),
        (Boolean("Ja", "Nein", True, ignore_case=True), ["JA", "nein", "x", "NA"], [1, 0, 2, 2]),
        (Nominal(("Köln", "Bonn"), ignore_case=True), ["KÖLN", "bonn", "x", ""], [0, 1, 2, 2]),
        (Nominal(("a", "b"), spellings={"b": ["B", 2]}), ["B", "2", "A", "b"], [1, 1, 2, 1]),
        (Nominal(("NA", "b"), ignore_case=True), ["na", "NA", "nan"], [0, 0, 2]),
        (Nominal(("a", "b"), "b", spellings={"a": "A"}), ["A", "z"], [0, 1]),
    ):
        found = domains.encode({"x": kind}, {"x": cells})[:, 0]
        assert found.tolist() == bins, kind
    assert Boolean(["Ja", "J"], "Nein").bin_words == ["Nein", "Ja"]
    assert Boolean(["Ja"], "Nein") == Boolean("Ja", "Nein")


LABELS = ["Ja", "JA", "nein", "Nein", "x", None]


def test_labels_have_spellings_capitals_and_forms_too():
    columns = {"x": [1] * 6}
    domain = {"x": Numeric(0, 2)}
    for options, present, target in (
        ({"negative": "Nein", "positive": "Ja"}, [1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]),
        (
            {"negative": ["Nein", "nein"], "positive": ["Ja", "JA"]},
            [1, 1, 1, 1, 0, 0],
            [1, 1, 0, 0, 0, 0],
        ),
        (
            {"negative": "Nein", "positive": "Ja", "ignore_label_case": True},
            [1, 1, 1, 1, 0, 0],
            [1, 1, 0, 0, 0, 0],
        ),
    ):
        table = dpbt.table(domain, columns, LABELS, **options)
        assert table.present.tolist() == list(map(bool, present))
        assert table.target.tolist() == list(map(bool, target))
    assert Label("y", ["Ja", "J"], "Nein").classes == ("Nein", "Ja")
    target = Numeric(0, 10, decimal=",")
    table = dpbt.table(domain, columns, ["2,5", "5", "x", "7.5", 5.0, ""], target=target)
    assert table.present.tolist() == [True, True, False, False, True, False]
    np.testing.assert_array_equal(table.target, np.float32([0.25, 0.5, 0, 0, 0.5, 0]))


OPTIONS = [
    with_options(MILLION, decimal=","),
    with_options(MILLION, decimal=",", strip=("€", ".", " ")),
    with_options(MILLION, strip=("%", ",", "kg")),
    Numeric(0, 20_000, bins=50, missing=True, date="iso", unit="days"),
    Numeric(0, 24, bins=24, missing=True, date="%d.%m.%Y %H:%M", unit="hour"),
    Numeric(0, 20_000, bins=50, missing=True, date="unix", unit="days"),
    Boolean(["Ja", "1"], ["Nein"], missing=True, ignore_case=True),
    Nominal(("a", "ß"), spellings={"a": ["1,5"]}, ignore_case=True),
]


class Place(NamedTuple):
    """The place of a cell in `ODD_CELLS`, which hypothesis could not show."""

    number: int


ODD_CELLS = [
    cell for cell, _ in odd_inputs.CELLS_AND_NUMBERS if type(cell) is not str or len(cell) < 1000
]
SIGNS = st.sampled_from(
    ["€", "%", ",", ".", " ", "kg", "-", "1", "23", "000", "\u00a0", "\0", "e", "Ja"]
)
CELL = st.one_of(
    st.lists(SIGNS, max_size=6).map("".join),
    st.text(max_size=8),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.datetimes(),
    st.dates(),
    st.floats(),
    st.integers(),
    st.binary(max_size=6),
    st.none(),
    st.booleans(),
    st.integers(0, len(ODD_CELLS) - 1).map(Place),
)


@settings(max_examples=60)
@given(st.lists(CELL, min_size=1, max_size=6), st.sampled_from(OPTIONS))
def test_each_form_is_a_map_of_one_cell_alone(drawn, kind):
    """No cell is an error, and none changes how another is read."""
    cells = [ODD_CELLS[cell.number] if type(cell) is Place else cell for cell in drawn]
    alone = [int(kind.read_bins([cell]).bins[0]) for cell in cells]
    assert kind.read_bins(cells).bins.tolist() == alone
    held = np.empty(len(cells), object)
    held[:] = cells
    assert domains.encode({"x": kind}, {"x": held})[:, 0].tolist() == alone
    texts = [cell for cell in cells if type(cell) is str and not cell.endswith("\0")]
    if texts:
        expected = [int(kind.read_bins([cell]).bins[0]) for cell in texts]
        assert kind.read_bins(np.array(texts)).bins.tolist() == expected
    moments = [cell for cell in cells if type(cell) is datetime.datetime]
    if moments:
        expected = [int(kind.read_bins([cell]).bins[0]) for cell in moments]
        assert kind.read_bins(np.array(moments, "datetime64[us]")).bins.tolist() == expected


def test_a_column_of_dates_that_is_declared_as_none_is_refused_by_its_type():
    dates = np.array(["2020-03-01", "2020-03-02"], "datetime64[ns]")
    for kind in (Numeric(0, 1), Nominal(("a", "b")), Boolean()):
        with pytest.raises(ValueError, match=r"column 'x' is of the type datetime64\[ns\].* date="):
            domains.encode({"x": kind}, {"x": dates})
        assert domains.encode({"x": kind}, {"x": list(dates)}).shape == (2, 1)  # cells are private
    dated = Numeric(0, 1, **DAYS)
    with pytest.raises(ValueError, match="of the type timedelta64"):
        domains.encode({"x": dated}, {"x": dates - dates})
    for name in ("labels", "sample_weight", "users"):
        arguments = {"labels": [1, 0], "sample_weight": [1, 1], "users": [1, 2], name: dates}
        with pytest.raises(ValueError, match=f"{name} is of the type datetime64"):
            dpbt.table({"x": dated}, {"x": dates}, **arguments, max_weight=1, max_rows_per_user=1)


def test_estimators_refuse_a_column_of_dates_or_read_it():
    sklearn = pytest.importorskip("dpbt.sklearn")
    estimators = importlib.import_module("dpbt.owners.estimators")
    dates = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]")
    y = dates > np.datetime64("2020-02-01")
    frame = odd_inputs.Frame({"when": dates, "n": np.arange(len(dates))})
    plain = {"when": Numeric(0, 1), "n": Numeric(0, 100)}
    model = sklearn.PrivateBoostingClassifier(epsilon=5.0, rows=100, recipe="bdpe", domain=plain)
    with pytest.raises(ValueError, match="column 'when' is of the type datetime64"):
        model.fit(frame, y)
    dated = {**plain, "when": Numeric("2020-01-01", "2020-03-01", **DAYS)}
    rows = declarations.rows_by_column(frame)
    order = declarations.ColumnOrder.of_fit(dated, rows)
    table, report = estimators.make_table_and_report(
        order,
        rows,
        labels=y,
        table_options={"negative": False, "positive": True},
        capacity=None,
    )
    assert report.unread["when"] == 0
    assert len(set(table.bins[:, 0].tolist())) == 10


@pytest.mark.parametrize(
    "label",
    [
        {"column": "y", "positive": ["Ja", "J"], "negative": "Nein", "ignore_case": True},
        {"column": "y", "type": "nominal", "values": ["Nein", "Ja"], "ignore_case": True}
        | {"spellings": {"Ja": ["J"]}},
        {"column": "y", "type": "nominal", "values": ["Nein", "Ja", "offen"]}
        | {"spellings": {"Ja": ["J", "JA"], "Nein": ["NEIN"]}},
    ],
)
def test_labels_of_files_with_spellings_reach_estimators(label, tmp_path):
    columns = {"x": {"type": "numeric", "low": 0, "high": 9, "decimal": ","}}
    (tmp_path / "domain.json").write_text(json.dumps({"columns": columns, "label": label}))
    domain, file_label = declarations.read_declaration(tmp_path / "domain.json")
    y = ["JA", "J", "NEIN", "Nein", "x"]
    answers = declarations.declared_classes(None, file_label, y)
    table = dpbt.table(domain, {"x": ["1,5", "2", "3", "4", "5"]}, y, **answers.table_options)
    assert table.present.tolist() == [True] * 4 + [False]
    assert answers.classes[table.target[:4].astype(int)].tolist() == ["Ja", "Ja", "Nein", "Nein"]


# Files.

DOMAIN = {
    "amount": Numeric(0, 10_000, bins=20, decimal=",", strip=("€", "."), missing=True),
    "since": Numeric("2010-01-01", "2021-01-01", bins=11, date="%d.%m.%Y", unit="days"),
    "member": Boolean(["Ja", "J"], ["Nein"], ignore_case=True),
    "town": Nominal(("Köln", "Bonn"), spellings={"Bonn": ("BN",)}),
}
ROWS = {
    "amount": ["1.000,50 €", "7", "", "9.999,00", "x"],
    "since": ["1.3.2020", "31.12.2012", "2012-12-31", "", "01.01.2015"],
    "member": ["JA", "nein", "j", "", "x"],
    "town": ["Köln", "BN", "bonn", "Bonn", ""],
}
ENTRIES = {name: msgspec.to_builtins(kind) for name, kind in DOMAIN.items()}
LABEL = Label("y", ["Ja", "J"], "Nein", ignore_case=True)


def test_options_are_kept_in_the_files_of_domains_models_and_blocks(tmp_path):
    entry = {"column": "y", "positive": ["Ja", "J"], "negative": "Nein", "ignore_case": True}
    path = tmp_path / "domain.json"
    path.write_text(json.dumps({"columns": ENTRIES, "label": entry}))
    assert domains.read_domain(path) == (DOMAIN, LABEL)

    labels = ["Ja", "J", "NEIN", "x", "ja"]
    bins = domains.encode(DOMAIN, ROWS)
    folder = tmp_path / "blocks"
    blocks = convert.convert_columns(DOMAIN, ROWS, labels, folder, **LABEL.options)
    assert blocks.has_domain(DOMAIN)
    assert blocks.manifest.label.options == LABEL.options
    [block] = list(blocks.iter_rows(10))
    np.testing.assert_array_equal(block.bins.T, bins)
    assert block.present.tolist() == [True, True, True, False, True]

    table = dpbt.table(DOMAIN, ROWS, labels, **LABEL.options)
    np.testing.assert_array_equal(table.bins, bins)
    recipe = dpbt.recipes.bdpe(epsilon=5.0, rows=5, rounds=1, depth=1, relation="replace_one")
    model = dpbt.fit(dpbt.fresh_key(), table, recipe)
    dpbt.save(model, tmp_path / "model.json", classes=LABEL.classes)
    loaded = dpbt.load(tmp_path / "model.json")
    assert dict(loaded.domain) == DOMAIN
    np.testing.assert_array_equal(loaded.encode(ROWS), bins)
    np.testing.assert_array_equal(
        loaded.decision_function(ROWS), dpbt.decision_function(model, table)
    )
    other = {**DOMAIN, "amount": with_options(DOMAIN["amount"], decimal=None, strip=())}
    words = r"column 'amount' has decimal None in the table and ',' in the model"
    with pytest.raises(ValueError, match=words):
        dpbt.predict(loaded, dpbt.table(other, ROWS, labels, **LABEL.options))


def test_what_declares_no_option_has_the_words_and_the_bytes_that_it_had():
    """Files of models and noise of keys hold these texts."""
    for kind, text, entry in (
        (
            Numeric(0, 1),
            "Numeric(low=0, high=1, bins=10, missing=False, cuts=None, scale='linear')",
            {"type": "numeric", "low": 0, "high": 1, "bins": 10, "missing": False}
            | {"cuts": None, "scale": "linear"},
        ),
        (
            Nominal(("a", "b")),
            "Nominal(values=('a', 'b'), other=None, ordered=False)",
            {"type": "nominal", "values": ("a", "b"), "other": None, "ordered": False},
        ),
        (
            Boolean(),
            "Boolean(true='1', false='0', missing=False)",
            {"type": "boolean", "true": "1", "false": "0", "missing": False},
        ),
    ):
        assert repr(kind) == text
        assert list(msgspec.to_builtins(kind).items()) == list(entry.items())
    empty = {"target": None, "weight": None, "user": None}
    label = {"column": "y", "positive": "1", "negative": "0", **empty}
    assert list(msgspec.to_builtins(Label("y", "1", "0")).items()) == list(label.items())


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("container", ["csv", "parquet"])
def test_files_are_read_as_columns_are(container, blocked, tmp_path):
    expected = domains.encode(DOMAIN, ROWS)
    path = tmp_path / f"rows.{container}"
    if container == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({**ROWS, "y": ["Ja"] * 5}), path)
    else:
        rows = zip(*ROWS.values(), strict=True)
        lines = [";".join([*ROWS, "y"]), *(";".join([*row, "Ja"]) for row in rows)]
        path.write_text("\n".join(lines), "utf-8")
    if blocked:
        table = convert.convert_file(path, DOMAIN, LABEL, tmp_path / "folder")
        [block] = list(table.iter_rows(10))
        found = block.bins.T
    else:
        found = domains.encode(DOMAIN, files.read_columns(path, DOMAIN))
    np.testing.assert_array_equal(found, expected)


def test_parquet_files_of_dates_are_read_or_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moments = [datetime.datetime(2020, 3, 1, 5), None, datetime.datetime(2020, 12, 30)]
    kind = Numeric("2020-01-01", "2021-01-01", bins=100, missing=True, **DAYS)
    for arrow_type in (arrow.timestamp("ns"), arrow.timestamp("ms", "UTC"), arrow.date32()):
        parquet.write_table(
            arrow.table({"x": arrow.array(moments, arrow.timestamp("us")).cast(arrow_type, False)}),
            tmp_path / "rows.parquet",
        )
        columns = files.read_columns(tmp_path / "rows.parquet", ["x"])
        assert domains.encode({"x": kind}, columns)[:, 0].tolist() == [16, 100, 99]
        with pytest.raises(ValueError, match="column 'x' is of the type"):
            domains.encode({"x": Numeric(0, 1)}, columns)


BAD = [
    (lambda: Numeric(0, 1, decimal=";"), 'decimal must be "." or ","'),
    (lambda: Numeric(0, 1, strip=["."]), "strip has the decimal mark"),
    (lambda: Numeric(0, 1, strip=["1"]), "texts without digits"),
    (lambda: Numeric(0, 1, strip=[""]), "texts without digits"),
    (lambda: Numeric(0, 1, strip=3), "strip must be a list of texts"),
    (lambda: Numeric(0, 1, strip=[["%"]]), "strip must be a list of texts"),
    (lambda: Numeric(0, 1, decimal=[","]), "decimal must be text"),
    (lambda: Numeric(0, 1, date=["iso"], unit="days"), "date must be text"),
    (lambda: Numeric(0, 1, date="iso"), "date and unit go together"),
    (lambda: Numeric(0, 1, unit="days"), "date and unit go together"),
    (lambda: Numeric(0, 1, date="%d.%m", unit="days"), "a format with %Y or %y"),
    (lambda: Numeric(0, 1, date="%Y %Y", unit="days"), "each once"),
    (lambda: Numeric(0, 1, date="%Q%Y", unit="days"), "of the directives"),
    (lambda: Numeric(0, 1, date="iso", unit="weeks"), "the unit of a date must be one of"),
    (lambda: Numeric(0, 1, date="iso", unit="days", decimal=","), "and not for dates"),
    (lambda: Numeric("a", "b", **DAYS), "must be an ISO date such as 2015-01-31"),
    (lambda: Numeric("2020-01-01", 3), "low must be a number"),
    (lambda: Numeric("2020-01-01", "2021-01-01", date="iso", unit="year"), "a part of a date"),
    (lambda: Nominal(("a", "A"), ignore_case=True), "distinct, whatever their capitals"),
    (lambda: Nominal(("a",), spellings={"b": ["c"]}), "'b' has spellings and is none"),
    (lambda: Nominal(("a", "b"), spellings={"a": ["b"]}), "must be distinct, got 'b' twice"),
    (lambda: Nominal(("a", "b"), spellings=["b"]), "spellings must map values"),
    (lambda: Boolean(["a", "b"], ["B"], ignore_case=True), "must be distinct"),
    (lambda: Boolean([], ["B"]), "a word or a list of words"),
    (lambda: Boolean("a", "b", ignore_case="yes"), "ignore_case must be True or False"),
    (lambda: Label("y", target=Numeric(0, 1, **DAYS)), "low and high alone"),
    (lambda: Label("y", target=Numeric(0, 1), ignore_case=True), "for its two classes"),
]


@pytest.mark.parametrize(("declare", "words"), BAD)
def test_bad_options_are_refused(declare, words):
    with pytest.raises(ValueError, match=words) as refused:
        declare()
    assert "\n" not in str(refused.value)
