"""Templates of domains: names and declared kinds, never values."""

import json

import pytest

from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric, template


class Schema:
    names = ("age", "job", "member", "code", "day")
    types = ("int64", "string", "bool", "dictionary<values=string, indices=int32>", "date32[day]")


def test_a_template_holds_names_and_what_is_to_be_filled_in():
    content = json.loads(template(["age", "größe", 'a "b"'], label="age"))
    assert list(content["columns"]) == ["größe", 'a "b"']
    assert content["label"] == {"column": "age", "positive": None, "negative": None}
    assert json.loads(template(name for name in "ab"))["label"]["column"] is None


def test_kinds_are_those_that_a_schema_declares(tmp_path):
    content = json.loads(template(Schema, label="day"))
    kinds = {name: entry["type"] for name, entry in content["columns"].items()}
    assert kinds == {"age": "numeric", "job": "nominal", "member": "boolean", "code": "nominal"}

    # Filled in, it is a domain.
    content["columns"]["age"] |= {"low": 0, "high": 100}
    content["columns"]["job"]["values"] = ["clerk"]
    content["columns"]["code"]["values"] = ["a", "b"]
    content["label"] |= {"positive": "2020-01-01", "negative": "2021-01-01"}
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(content))
    domain, label = domains.read_domain(path)
    assert domain == {
        "age": Numeric(0, 100, bins=64),
        "job": Nominal(("clerk",)),
        "member": Boolean(),
        "code": Nominal(("a", "b")),
    }
    assert label.column == "day"


@pytest.mark.parametrize("names", [["age"], Schema])
def test_a_template_is_no_domain_before_it_is_filled_in(names, tmp_path):
    path = tmp_path / "domain.json"
    path.write_text(template(names))
    with pytest.raises(ValueError, match="column 'age'"):
        domains.read_domain(path)


def test_types_that_were_guessed_from_values_are_not_read():
    class Guessed(Schema):
        column_names = Schema.names
        schema = Schema
        names = property(lambda self: self.missing)

        def __getitem__(self, name):
            raise AssertionError("a value was read")

    content = json.loads(template(Guessed()))
    assert {entry["type"] for entry in content["columns"].values()} == {
        "numeric, nominal or boolean?"
    }


@pytest.mark.parametrize(
    ("columns", "label", "words"),
    [
        ([], None, "at least one column"),
        (["a"], "a", "at least one column"),
        (["a"], "b", "label must be one of the columns"),
        (["a", "a"], None, "must not repeat"),
        (["a", 1], None, "must be text, got int"),
        (3, None, "must be names of columns, got int"),
        ("rows.csv", None, "rows.csv: only Parquet and Arrow files declare types"),
    ],
)
def test_what_is_refused(columns, label, words):
    with pytest.raises(ValueError, match=words):
        template(columns, label)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_schemas_of_files(name, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    rows = arrow.table({"age": [1.5, 2.5], "member": [True, False], "job": ["a", "b"]})
    path = tmp_path / name
    (parquet.write_table if name.endswith("parquet") else feather.write_feather)(rows, str(path))
    entries = json.loads(template(path))["columns"]
    assert [entry["type"] for entry in entries.values()] == ["numeric", "boolean", "nominal"]
    assert template(path) == template(rows.schema)

    broken = tmp_path / f"broken{path.suffix}"
    broken.write_text("x")
    with pytest.raises(ValueError, match="no schema can be read"):
        template(broken)
