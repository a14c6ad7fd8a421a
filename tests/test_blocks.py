"""Folders of blocks have the rows of tables in memory, and their damage is noticed."""

import json
import os
import shutil

import numpy as np
import pytest
from msgspec import structs

import dpbt
from dpbt.common.storage import sha256_of_json_without_checksum
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


@pytest.mark.parametrize(
    ("kind", "rows_per_block"), [("two", 1), ("classes", 100), ("number", 701)]
)
def test_blocks_have_the_rows_of_the_table(tmp_path, kind, rows_per_block, monkeypatch):
    monkeypatch.setattr(convert, "READ_ROWS", 37)
    rows = 30 if rows_per_block == 1 else 700
    table, block_table = table_and_blocks(
        tmp_path / "t",
        kind,
        rows=rows,
        capacity=rows + 7,
        rows_per_block=rows_per_block,
        weights=kind != "two",
    )
    assert_same_rows(table, block_table)
    assert block_table.capacity == rows + 7
    assert "700" not in repr(block_table) + repr(block_table.manifest)
    present_by_piece = [piece.present.copy() for piece in block_table.iter_rows(64)]
    np.testing.assert_array_equal(np.concatenate(present_by_piece), table.present)
    assert max(map(len, present_by_piece)) <= 64
    assert block_table.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in block_table.folder.iterdir()} == {0o600}


def test_a_capacity_that_the_disk_has_no_room_for_is_refused_before_a_row_is_read(
    tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)._replace(free=10**5)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    def no_parts():
        raise AssertionError("a row was read")
        yield

    message = r"room for 100000 rows take .* GiB left: state a smaller capacity"
    with pytest.raises(ValueError, match=message):
        convert.convert_rows(
            no_parts(), DOMAIN, tmp_path / "t", **TARGET_OPTIONS["two"], capacity=10**5
        )
    assert not (tmp_path / "t").exists()


LABEL = Label("label", "yes", "no", weight=WeightColumn("weight", 3.0))


def write_csv(path, bins, labels, weight):
    lines = ["age,label,income,work,weight"]
    columns = (bins["age"], labels, bins["income"], bins["work"], weight)
    lines += [",".join(map(str, cells)) for cells in zip(*columns, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, bins, labels, weight):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table = arrow.table({**bins, "label": labels, "weight": weight})
    parquet.write_table(table, path, row_group_size=90)


@pytest.mark.parametrize(("write", "name"), [(write_csv, "a.csv"), (write_parquet, "a.parquet")])
def test_files_are_converted_to_the_rows_of_a_table_in_memory(tmp_path, monkeypatch, write, name):
    monkeypatch.setattr(convert, "READ_ROWS", 37)
    bins = random_columns(300)
    labels, weight = random_labels(bins, "two"), (np.arange(300) % 5).astype(float)
    write(tmp_path / name, bins=bins, labels=labels, weight=weight)
    options = {"max_weight": 3.0, **LABEL.options}
    table = dpbt.table(DOMAIN, bins, labels, sample_weight=weight, **options, capacity=310)
    block_table = convert.convert_file(
        tmp_path / name, DOMAIN, LABEL, tmp_path / "t", rows_per_block=64, capacity=310
    )
    assert_same_rows(table, block_table)


def test_a_conversion_that_fails_leaves_nothing_and_one_that_was_killed_no_table(tmp_path):
    bins = random_columns(100)
    labels = random_labels(bins, "two")
    folder, options = tmp_path / "t", dict(TARGET_OPTIONS["two"], rows_per_block=64)

    def parts(num_parts):
        for _ in range(num_parts):
            yield convert.RawRows(bins, labels)
        if num_parts > 1:
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
    block_table = convert.convert_rows(parts(1), DOMAIN, folder, **options, capacity=110)
    assert_same_rows(
        dpbt.table(DOMAIN, bins, labels, capacity=110, **TARGET_OPTIONS["two"]), block_table
    )


def test_a_conversion_refuses_rows_and_folders_that_it_cannot_take(tmp_path):
    bins = random_columns(51)
    labels = random_labels(bins, "two")

    def convert_to_folder(folder="t", rows=None, **options):
        rows = [convert.RawRows(bins, labels)] if rows is None else rows
        return convert.convert_rows(
            rows, DOMAIN, tmp_path / folder, **{**TARGET_OPTIONS["two"], **options}
        )

    weighted_and_unweighted = [
        convert.RawRows(bins, labels),
        convert.RawRows(bins, labels, [1.0] * 51),
    ]
    for message, changes in (
        ("more rows than the capacity of 50", {"capacity": 50}),
        ("capacity must be", {"capacity": 0}),
        ("must have weights, or none", {"rows": weighted_and_unweighted, "max_weight": 2}),
        ("must have the same length", {"rows": [convert.RawRows(bins, labels[:50])]}),
    ):
        with pytest.raises(ValueError, match=message) as error:
            convert_to_folder(**changes)
        assert "51" not in str(error.value)
    assert convert_to_folder(rows=[], capacity=3).capacity == 3


@pytest.mark.parametrize("name", ["manifest.json", "block-000001"])
@pytest.mark.parametrize("position", [0.3, 1])
@pytest.mark.parametrize("damage", ["flip", "cut", "grow"])
def test_damage_of_a_folder_is_noticed_when_it_is_read(tmp_path_factory, name, position, damage):
    if not (undamaged_folder := tmp_path_factory.getbasetemp() / "whole").exists():
        table_and_blocks(undamaged_folder, "classes", 300, rows_per_block=100, weights=True)
    folder = shutil.copytree(undamaged_folder, tmp_path_factory.mktemp("damage") / "t")
    content = bytearray((folder / name).read_bytes())
    offset = int(position * (len(content) - 1))
    if damage == "flip":
        content[offset] ^= 1
    (folder / name).write_bytes(
        content[:offset] if damage == "cut" else content + b"0" * (damage == "grow")
    )
    with pytest.raises(ValueError, match=f"{name}: .*convert the same rows again, to a new folder"):
        list(blocks.open_folder(folder).iter_rows(64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 1}, "not a table in blocks in format 2"),
        ({"capacity": 301}, "the blocks are not those of its capacity"),
        ({"domain": {}}, "at least one column"),
        ({"domain": {"x": {"type": "number"}}}, r"malformed entry: .*domain\[...\]"),
        ({"blocks": [[100, 7, "zqxbin"]]}, r"malformed entry: .*blocks\[0\]\[2\]"),
    ],
)
def test_a_manifest_with_wrong_content_is_refused_though_its_checksum_is_right(
    tmp_path, change, message
):
    _, block_table = table_and_blocks(tmp_path / "t", "classes", 300, rows_per_block=100)
    content = json.loads((block_table.folder / blocks.MANIFEST).read_text()) | change
    content["checksum"] = sha256_of_json_without_checksum(content)
    (block_table.folder / blocks.MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"manifest\.json: .*{message}") as error:
        blocks.open_folder(block_table.folder)
    assert "zqxbin" not in str(error.value)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    bins = random_columns(100)
    path = tmp_path / "rows.csv"
    write_csv(path, bins=bins, labels=random_labels(bins, "two"), weight=np.ones(100))
    read = convert.iter_column_blocks

    def changing(*arguments):
        yield from read(*arguments)
        os.utime(path, (1, 1))

    monkeypatch.setattr(convert, "iter_column_blocks", changing)
    with pytest.raises(ValueError, match=r"rows\.csv: changed while it was read; convert it again"):
        convert.convert_file(path, DOMAIN, LABEL, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_the_identity_of_a_table_is_that_of_its_rows_and_declarations(tmp_path):
    """The identity depends on each declaration and not on where the rows come from."""
    domain, columns, labels = worker_process.random_rows(5, 60)

    def identity(name, labels=labels, domain=domain, **options):
        rows = convert.RawRows(columns, labels, options.pop("weights", None))
        return convert.convert_rows([rows], domain, tmp_path / name, **options).identity

    first = next(iter(domain))
    wider = {**domain, first: structs.replace(domain[first], high=domain[first].high + 1)}
    flipped = [not labels[0], *labels[1:]]
    identities = [
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
    assert len(set(identities)) == len(identities)
    assert identity("again") == identities[0]
