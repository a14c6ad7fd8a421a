"""Files: what they may hold, and who may read them, by one rule for all writers."""

import contextlib
import os
import stat
from typing import Literal

import msgspec
import pytest

import dpbt
from dpbt.common import storage
from dpbt.common.storage import convert_json_content
from tests.support.block_commands import (
    FIT_OPTIONS,
    FOREST_OPTIONS,
    raise_keyboard_interrupt,
    run_command,
)


@contextlib.contextmanager
def under(umask):
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def stop_a_fit_in_blocks(model):
    """Convert rows into blocks, and stop a fit on them that has a checkpoint."""
    assert run_command("convert", "domain.json", "rows.csv", "chunks", "--capacity", 400) == 0
    with pytest.MonkeyPatch.context() as stop:
        stop.setattr(dpbt, "save", raise_keyboard_interrupt)
        arguments = (
            "fit",
            "chunks",
            *FIT_OPTIONS,
            *FOREST_OPTIONS,
            "--checkpoint",
            "run",
            "--out",
            "m.json",
        )
        assert run_command(*arguments) == 130


def predict(model, *options):
    assert run_command("predict", model, "rows.csv", "--out", "predicted.csv", *options) == 0


PRIVATE = {
    "predictions": (predict, ["predicted.csv"]),
    "a filter": (lambda _: dpbt.Filter(1.0, rows=9, path="filter.db"), ["filter.db"]),
    "chunks and a checkpoint": (stop_a_fit_in_blocks, ["chunks/*", "run"]),
}


@pytest.mark.parametrize("what", PRIVATE)
def test_private_files_are_readable_by_their_owner_alone(rows_folder, forest_model_file, what):
    write, patterns = PRIVATE[what]
    with under(0o022):
        write(forest_model_file)
    for pattern in patterns:
        private_paths = list(rows_folder.glob(pattern))
        assert private_paths
        assert {mode(path) for path in private_paths} == {0o600}


@pytest.mark.parametrize("umask", [0o022, 0o277])
@pytest.mark.parametrize(("requested_mode", "kept"), [(0o600, None), (0o666, None), (0o666, 0o400)])
def test_a_part_is_never_wider_than_the_file(tmp_path, umask, requested_mode, kept):
    """A file that its writer may not write is replaced by name."""
    path, modes = tmp_path / "file", []
    if kept is not None:
        path.touch()
        path.chmod(kept)

    def write(part):
        modes.append(mode(part))
        part.write_text("all of it")

    with under(umask):
        storage.write_atomically(path, write, mode=requested_mode)
    final = requested_mode & ~umask if kept is None else kept
    assert mode(path) == final
    assert path.read_text() == "all of it"
    assert all(part & 0o077 & ~final == 0 for part in modes)
    assert os.listdir(tmp_path) == ["file"]


# What they may hold.


class Inner(msgspec.Struct):
    cost: storage.Number
    count: storage.Count = 1
    word: Literal["a", "b"] = "a"


class Outer(msgspec.Struct):
    inner: list[Inner]
    named: dict[str, storage.Fraction] = {}
    digits: storage.Digits | None = None
    parts: list["Outer"] = []


def outer(**fields):
    return {"inner": [fields]}


WRONG = {
    "no number": (outer(cost="SECRET"), "Expected float, got str at $.inner[0].cost"),
    "below": (outer(cost=-41), "Expected float >= 0.0 at $.inner[0].cost"),
    "not whole": (outer(cost=1, count=41.0), "Expected int, got float at $.inner[0].count"),
    "another word": (outer(cost=1, word="SECRET"), "Invalid value at $.inner[0].word"),
    "in a mapping": ({"inner": [], "named": {"SECRET": 41}}, "<= 1.0 at $.named[...]"),
    "no digits": ({"inner": [], "digits": "SECRET"}, "at $.digits"),
}


def test_errors_name_the_place_and_never_the_value():
    for content, message in WRONG.values():
        with pytest.raises(ValueError, match=r"^the file has a malformed entry: ") as caught:
            convert_json_content(Outer, content, "the file")
        text = str(caught.value)
        assert message in text
        assert "SECRET" not in text
        assert "41" not in text
    content = b'{"inner": [{"cost": 1, "more": 3}, {"cost": 2}], "other": []}'
    assert convert_json_content(Outer, content, "the file") == Outer([Inner(1.0), Inner(2.0)])


DEEP: dict = {"inner": []}
for _ in range(50_000):
    DEEP = {"inner": [], "parts": [DEEP]}


def test_text_that_is_not_of_the_type_is_refused():
    for text, message in (
        (b'{"inner": [], "inner": []}', "'inner' occurs twice in one object"),
        (b'{"inner": [{"cost": NaN}]}', "NaN is no JSON number"),
        (b'{"inner": [', "no JSON, or cut off: .* line 1"),
        (b'{"inner": ["\xff"]}', "no text"),
        (b"[" * 100_000, "recursion"),
        (b'{"inner": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b'{"inner": [{"cost": 1e999}]}', "cost"),
        (DEEP, "malformed entry"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            convert_json_content(Outer, text, "the file")
        assert "\n" not in str(error.value)
