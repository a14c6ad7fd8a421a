"""The registry: its reader on made-up files, whole and broken, and on the real ones."""

import dataclasses
import gzip
import re

import numpy as np
import pytest

from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric, predicates
from experiments.common import data
from experiments.common.data import registry
from experiments.common.data.command import file_status
from experiments.common.data.entry import Entry
from experiments.common.data.reading import read_rows

# m and n of Nock & Henecka (2020), Table 2, in its order; yeast has 8 features, the table says 7.
TABLE_2 = (
    *("748x4", "1372x4", "699x9", "351x33", "208x60", "1484x8", "1599x11", "2126x9", "1000x23"),
    *("4177x8", "1055x41", "4898x11", "5473x10", "1080x77", "1212x100", "1212x100"),
    *("10800x16", "19020x10", "14980x14"),
)
# Columns whose documented bounds leave all rows on one side of every split at ten bins.
CONSTANT = {"sonar": 10, "mushroom": 1, "covertype": 1}


def cell(entry: Entry, domain: domains.Domain, name: str, row: int) -> str:
    """A valid cell: rows take turns through classes and categories."""
    layout, column = entry.layout, domain.get(name)
    if name == layout.label:
        return list(layout.classes)[row % len(layout.classes)]
    match column:
        case Numeric():
            return repr(column.low + (column.high - column.low) * row / 10)
        case Nominal():
            return column.values[row % len(column.values)]
        case _:
            return str(row % 2)


def line(entry: Entry, cells: list[str]) -> str:
    """The line of a file that the entry's layout reads as these cells."""
    pairs = " ".join(f"{k}:{value}" for k, value in enumerate(cells[1:], start=1))
    for candidate in (",".join(cells), ";".join(cells), " ".join(cells), f"{cells[0]} {pairs}"):
        try:
            if entry.layout.split(candidate) == cells:
                return candidate
        except ValueError:
            continue
    raise AssertionError(f"no line of {entry.name} holds {cells}")


def rows(entry: Entry, count: int = 6) -> list[list[str]]:
    domain = entry.domain(10)
    return [[cell(entry, domain, name, row) for name in entry.layout.names] for row in range(count)]


def write(path, entry: Entry, content: list[list[str]]):
    """A file with the header, if there is one; returns the number of the first row's line."""
    head = [list(entry.layout.names)] if entry.layout.header else []
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\r\n".join([*(line(entry, cells) for cells in [*head, *content]), "", ""])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return 1 + len(head)


@pytest.fixture(params=data.ENTRIES)
def entry(request) -> Entry:
    return data.ENTRIES[request.param]


def test_a_reader_reads_its_layout_and_names_a_broken_line(tmp_path, entry):
    path, domain, layout = tmp_path / entry.files[0].name, entry.domain(10), entry.layout
    content = rows(entry)
    first = write(path, entry, content)
    rows_read = read_rows(path, layout, domain)
    assert list(rows_read.columns) == list(domain)
    position = {name: layout.names.index(name) for name in (*domain, layout.label)}
    label = [layout.classes[cells[position[layout.label]]] for cells in content]
    assert rows_read.label.tolist() == label
    kinds = {Numeric: float, Nominal: str, Boolean: lambda text: text == "1"}
    for name, column in domain.items():
        values = [kinds[type(column)](cells[position[name]]) for cells in content]
        assert rows_read.columns[name].tolist() == values

    reasons = {Numeric: "not a number", Nominal: "not one of", Boolean: "neither 0 nor 1"}
    strict = {name: c for name, c in domain.items() if not (isinstance(c, Nominal) and c.other)}
    feature = list(strict)[-1]
    broken = {feature: reasons[type(strict[feature])], layout.label: "the label must be one of"}
    for column, message in broken.items():
        content = rows(entry)
        content[3][position[column]] = "bad"
        write(path, entry, content)
        expected = re.escape(f"{path}, line {first + 3}, column {column!r}: {message}")
        with pytest.raises(ValueError, match=f"{expected}.*, got 'bad'$"):
            read_rows(path, layout, domain)

    write(path, entry, rows(entry))
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    lines = text.decode().splitlines()
    last = first + 5
    lines[last - 1] = lines[last - 1][: len(lines[last - 1]) // 2]
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line {last}: ") + r".*expected"):
        read_rows(path, layout, domain)


def test_the_registry_has_every_data_set_of_the_papers():
    sizes = (data.ENTRIES[name] for name in data.NOCK_HENECKA)
    assert tuple(f"{entry.rows}x{len(entry.domain(10))}" for entry in sizes) == TABLE_2
    for name, entry in data.ENTRIES.items():
        assert entry.name == name
        assert entry.rule.startswith("positive: ")
        assert set(entry.layout.classes.values()) == {True, False}
        assert set(entry.domain(10)) < set(entry.layout.names)
        assert entry.layout.label not in entry.domain(10)
        for file in entry.files:
            assert file.url or entry.unavailable
            hashes = (*file.hashes.values(), file.download_sha256)
            assert all(re.fullmatch("[0-9a-f]{64}|", text) for text in hashes)


def test_data_sets_are_looked_for_in_order(tmp_path, monkeypatch):
    voting = dataclasses.replace(data.ENTRIES["voting"], rows=6)
    monkeypatch.setitem(data.ENTRIES, "voting", voting)
    monkeypatch.setenv("DPBT_DATA", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folders = [tmp_path / "given", tmp_path / "environment", tmp_path / "cache" / "dpbt" / "data"]
    assert registry.search_folders(folders[0]) == folders
    message = r"no house-votes-84.data in .*given.*environment.*cache.*data fetch voting"
    with pytest.raises(ValueError, match=message):
        data.load("voting", folder=folders[0])
    for folder in reversed(folders):
        path = folder / "voting" / "house-votes-84.data"
        write(path, voting, rows(voting))
        assert registry.find_file(voting, voting.files[0], folders[0]) == path
    dataset = data.load("voting", folder=folders[0])
    assert dataset.splits.shape == (6, 48)
    write(path, voting, rows(voting, 5))
    with pytest.raises(ValueError, match=r"house-votes-84.data: 5 rows, the data set has 6"):
        data.load("voting", folder=folders[0])
    with pytest.raises(ValueError, match="no data set is called 'iris'; there are breast-cancer"):
        data.load("iris")


@pytest.mark.slow
def test_every_downloaded_file_has_the_checksum_of_the_registry(data_folder, entry):
    """Rows, classes, splits and bytes of each data set that is there."""
    status, where = file_status(entry, str(data_folder))
    if status == "absent":
        pytest.skip(f"{entry.name} is not in {data_folder}; the test of its files is skipped")
    assert status == "ok", f"{entry.name} in {where}: {status}"
    dataset = data.load(entry.name, folder=data_folder)
    assert len(dataset.label) == entry.rows
    assert 0.1 < dataset.label.mean() < 0.9
    assert dataset.label.dtype == dataset.splits.dtype == bool
    owners = [predicate.column for predicate in predicates(dataset.domain)]
    share = dataset.splits.mean(axis=0)
    separated = {owner for owner, mean in zip(owners, share, strict=True) if 0 < mean < 1}
    assert len(set(owners) - separated) == CONSTANT.get(entry.name, 0)
    for name, column in dataset.domain.items():
        if isinstance(column, Numeric):
            values = dataset.columns[name]
            clipped = np.mean((values < column.low) | (values > column.high))
            assert clipped < 0.6, f"{name}: {clipped:.0%} of the rows are outside of the bounds"
