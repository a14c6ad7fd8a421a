"""Folders of blocks: the rows of memory, and damage that is found."""

import json
import os
import shutil

import numpy as np
import pytest
from msgspec import structs

import dpbt
from dpbt.common.storage import checksum_of_json
from dpbt.data import blocks, convert
from dpbt.data.domains import Label, WeightColumn
from tests.support import worker_process
from tests.support.block_tables import (
    DOMAIN,
    TARGET_OPTIONS,
    assert_same_rows,
    random_columns,
    random_labels,
    table_and_blocks,
)


@pytest.mark.parametrize(("kind", "each"), [("two", 1), ("classes", 100), ("number", 701)])
def test_blocks_have_the_rows_of_the_table(tmp_path, kind, each, monkeypatch):
    monkeypatch.setattr(convert, "READ_ROWS", 37)
    rows = 30 if each == 1 else 700
    table, found = table_and_blocks(
        tmp_path / "t", kind, rows, rows + 7, each, weights=kind != "two"
    )
    assert_same_rows(table, found)
    assert found.capacity == rows + 7
    assert "700" not in repr(found) + repr(found.manifest)
    joined = [piece.present.copy() for piece in found.iter_rows(64)]
    np.testing.assert_array_equal(np.concatenate(joined), table.present)
    assert max(map(len, joined)) <= 64
    assert found.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in found.folder.iterdir()} == {0o600}


def test_a_capacity_that_the_disk_has_no_room_for_is_refused_before_a_row_is_read(
    tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)._replace(free=10**5)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    def no_parts():
        raise AssertionError("a row was read")
        yield

    words = r"room for 100000 rows take .* GiB left: state a smaller capacity"
    with pytest.raises(ValueError, match=words):
        convert.convert_rows(
            no_parts(), DOMAIN, tmp_path / "t", **TARGET_OPTIONS["two"], capacity=10**5
        )
    assert not (tmp_path / "t").exists()


LABEL = Label("label", "yes", "no", weight=WeightColumn("weight", 3.0))


def write_csv(path, bins, given, weight):
    lines = ["age,label,income,work,weight"]
    for k, one in enumerate(given):
        lines.append(f"{bins['age'][k]},{one},{bins['income'][k]},{bins['work'][k]},{weight[k]}")
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, bins, given, weight):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    held = arrow.table({**bins, "label": given, "weight": weight})
    parquet.write_table(held, path, row_group_size=90)


@pytest.mark.parametrize(("write", "name"), [(write_csv, "a.csv"), (write_parquet, "a.parquet")])
def test_files_give_the_rows_of_memory(tmp_path, monkeypatch, write, name):
    monkeypatch.setattr(convert, "READ_ROWS", 37)
    bins = random_columns(300)
    given, weight = random_labels(bins, "two"), (np.arange(300) % 5).astype(float)
    write(tmp_path / name, bins, given, weight)
    options = {"max_weight": 3.0, **LABEL.options}
    table = dpbt.table(DOMAIN, bins, given, sample_weight=weight, **options, capacity=310)
    found = convert.convert_file(
        tmp_path / name, DOMAIN, LABEL, tmp_path / "t", rows_per_block=64, capacity=310
    )
    assert_same_rows(table, found)


def test_a_conversion_that_fails_leaves_nothing_and_one_that_was_killed_no_table(tmp_path):
    bins = random_columns(100)
    given = random_labels(bins, "two")
    folder, options = tmp_path / "t", dict(TARGET_OPTIONS["two"], rows_per_block=64)

    def parts(many):
        for _ in range(many):
            yield convert.RawRows(bins, given)
        if many > 1:
            assert len(list(folder.iterdir())) > 1
            with pytest.raises(ValueError, match="t: exists; give a new folder"):
                convert.convert_rows(parts(1), DOMAIN, folder, **options)
            shutil.copytree(folder, tmp_path / "killed")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert.convert_rows(parts(50), DOMAIN, folder, **options)
    assert not folder.exists()
    with pytest.raises(ValueError, match=r"no table in blocks, as it has no manifest\.json"):
        blocks.open_folder(tmp_path / "killed")
    found = convert.convert_rows(parts(1), DOMAIN, folder, **options, capacity=110)
    assert_same_rows(dpbt.table(DOMAIN, bins, given, capacity=110, **TARGET_OPTIONS["two"]), found)


def test_a_conversion_refuses_rows_and_folders_that_it_cannot_take(tmp_path):
    bins = random_columns(51)
    given = random_labels(bins, "two")

    def made(folder="t", rows=None, **more):
        rows = [convert.RawRows(bins, given)] if rows is None else rows
        return convert.convert_rows(
            rows, DOMAIN, tmp_path / folder, **{**TARGET_OPTIONS["two"], **more}
        )

    mixed = [convert.RawRows(bins, given), convert.RawRows(bins, given, [1.0] * 51)]
    for words, changes in (
        ("more rows than the capacity of 50", {"capacity": 50}),
        ("capacity must be", {"capacity": 0}),
        ("must have weights, or none", {"rows": mixed, "max_weight": 2}),
        ("must have the same length", {"rows": [convert.RawRows(bins, given[:50])]}),
    ):
        with pytest.raises(ValueError, match=words) as told:
            made(**changes)
        assert "51" not in str(told.value)
    assert made(rows=[], capacity=3).capacity == 3


@pytest.mark.parametrize("name", ["manifest.json", "block-000001"])
@pytest.mark.parametrize("place", [0.3, 1])
@pytest.mark.parametrize("what", ["flip", "cut", "grow"])
def test_damage_is_found_when_it_is_read(tmp_path_factory, name, place, what):
    if not (whole := tmp_path_factory.getbasetemp() / "whole").exists():
        table_and_blocks(whole, "classes", 300, rows_per_block=100, weights=True)
    folder = shutil.copytree(whole, tmp_path_factory.mktemp("damage") / "t")
    content = bytearray((folder / name).read_bytes())
    at = int(place * (len(content) - 1))
    if what == "flip":
        content[at] ^= 1
    (folder / name).write_bytes(
        content[:at] if what == "cut" else content + b"0" * (what == "grow")
    )
    with pytest.raises(ValueError, match=f"{name}: .*convert the same rows again, to a new folder"):
        list(blocks.open_folder(folder).iter_rows(64))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 1}, "not a table in blocks in format 2"),
        ({"capacity": 301}, "the blocks are not those of its capacity"),
        ({"domain": {}}, "at least one column"),
        ({"domain": {"x": {"type": "number"}}}, r"malformed entry: .*domain\[...\]"),
        ({"blocks": [[100, 7, "zqxbin"]]}, r"malformed entry: .*blocks\[0\]\[2\]"),
    ],
)
def test_another_manifest_that_is_signed_is_refused(tmp_path, change, words):
    _, found = table_and_blocks(tmp_path / "t", "classes", 300, rows_per_block=100)
    content = json.loads((found.folder / blocks.MANIFEST).read_text()) | change
    content["checksum"] = checksum_of_json(content)
    (found.folder / blocks.MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"manifest\.json: .*{words}") as told:
        blocks.open_folder(found.folder)
    assert "zqxbin" not in str(told.value)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    bins = random_columns(100)
    path = tmp_path / "rows.csv"
    write_csv(path, bins, random_labels(bins, "two"), np.ones(100))
    read = convert.iter_column_blocks

    def changing(*given):
        yield from read(*given)
        os.utime(path, (1, 1))

    monkeypatch.setattr(convert, "iter_column_blocks", changing)
    with pytest.raises(ValueError, match=r"rows\.csv: changed while it was read; convert it again"):
        convert.convert_file(path, DOMAIN, LABEL, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_the_identity_of_a_table_is_that_of_its_rows_and_declarations(tmp_path):
    """Not of their source; and each declaration counts."""
    domain, columns, labels = worker_process.random_rows(5, 60)

    def identity(name, labels=labels, domain=domain, **options):
        rows = convert.RawRows(columns, labels, options.pop("weights", None))
        return convert.convert_rows([rows], domain, tmp_path / name, **options).identity

    first = next(iter(domain))
    wider = {**domain, first: structs.replace(domain[first], high=domain[first].high + 1)}
    flipped = [not labels[0], *labels[1:]]
    found = [
        identity("a"),
        identity("b", labels=flipped),
        identity("c", domain=wider),
        identity("d", capacity=61),
        identity("e", weights=[1.0] * 60, max_weight=2.0),
        identity("f", rows_per_block=30),
        identity("g", domain=dict(reversed(domain.items()))),
        identity("h", labels=["no", "yes", *["no"] * 58], negative="no", positive="yes"),
        identity("i", labels=["0", "1", *["0"] * 58], negative="0", positive="1"),
    ]
    assert len(set(found)) == len(found)
    assert identity("again") == found[0]
