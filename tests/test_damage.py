"""Full disks, files that are cut off, and sources that change: conversions, runs, filters."""

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import dpbt
from dpbt.__main__ import main
from dpbt.data import convert
from dpbt.training import blocks as in_blocks
from dpbt.training import checkpoint
from dpbt.training.checkpoint import RELEASES
from dpbt.training.memory import MemoryPlan
from tests import moments, worker
from tests.test_block_commands import ROOT, files, fill, refused
from tests.test_stops import interrupted
from tests.test_stops import spent as spent_of

__all__ = ["files"]  # a fixture


def content(folder):
    """Name -> bytes, of all files of a folder."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def spent():
    return pytest.approx(spent_of(), rel=1e-6)


@pytest.fixture
def table(files, capsys):
    """A folder of chunks, and a filter of 20."""
    assert moments.run("convert", 0) == 0
    dpbt.Filter(epsilon=20, rows=400, path="filter.db")
    capsys.readouterr()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(folder, model): a run that was stopped when all was released, and what it goes on to."""
    folder = tmp_path_factory.mktemp("kept")
    fill(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert moments.run("convert", 0) == 0
        dpbt.Filter(epsilon=20, rows=400, path="filter.db")
        with pytest.MonkeyPatch.context() as stop:
            stop.setattr(dpbt.Model, "save", interrupted)
            assert moments.run("fit", 0) == 130
        patch.chdir(shutil.copytree(folder, folder.with_name("gone on")))
        assert moments.run("fit", 1) == 0
        return folder, Path("model.json").read_bytes()


@pytest.fixture
def stopped(kept, tmp_path, monkeypatch):
    """The model of a run that was stopped in the current folder."""
    monkeypatch.chdir(shutil.copytree(kept[0], tmp_path / "here"))
    return kept[1]


# Full disks.

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from dpbt.__main__ import program
sys.argv[:] = ["dpbt", *sys.argv[2:]]
program()
"""


def with_room_for(size, command, *more):
    """Run a command that can write files of so many bytes; what it says on standard error."""
    words = [sys.executable, "-c", LIMITED, str(size), *command, *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 2, found.stderr
    return found.stderr


def too_large(path):
    return f"error: {path}: {os.strerror(errno.EFBIG)}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows_per_block", "name"), [("300", "block-000000"), ("30", "manifest.json")]
)
def test_a_conversion_on_a_full_disk_is_one_line_and_leaves_nothing(files, rows_per_block, name):
    words = [*moments.CONVERT[:-1], rows_per_block]
    assert with_room_for(1100, words) == too_large(f"rows.chunks/{name}")
    assert not Path("rows.chunks").exists()
    assert main(words) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "path", "paid"),
    [
        (50, "run.key", 0),
        (400, "run/run.json", 0),
        (700, "filter.db", 0),
        (20_000, "run/releases.jsonl", 4),
        (100_000, "model.json", 4),
    ],
)
def test_a_fit_on_a_full_disk_is_one_line_and_paid_for_once(table, size, path, paid):
    words = too_large(Path(path).resolve() if path == "run.key" else path)
    if path == "filter.db":
        words = f"error: {Path(path).absolute()}: disk I/O error\n"
    assert with_room_for(size, moments.FIT, *MORE) == words
    assert spent() == paid
    lines = Path("run", RELEASES).read_bytes() if paid else b""
    assert moments.run("fit", 1, *MORE) == 0
    assert spent() == 4
    assert dpbt.load("model.json").features == 2
    assert sorted(os.listdir("run")) == ["releases.jsonl", "run.json"]
    assert Path("run", RELEASES).read_bytes().startswith(lines)
    assert bool(lines) == bool(paid)
    assert not list(Path().glob("*.key"))


MORE = ("--rounds", "100")
"""With so many rounds the file of the releases is larger than that of the filter."""


@pytest.mark.parametrize("written", [0, 2])
def test_a_disk_without_room_for_scores_is_one_line_and_paid_for_once(
    table, capsys, monkeypatch, written
):
    """Scores that memory does not hold lie in a file of the checkpoint's folder."""
    monkeypatch.setattr(in_blocks, "plan_for", lambda *_: MemoryPlan(64, 1, True))
    left = [written]

    def write(handle, view, place, pwrite=os.pwrite):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(handle, view, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write)
        assert refused(capsys, *moments.FIT) == f"error: run: {os.strerror(errno.ENOSPC)}"
    assert not Path("model.json").exists()
    assert moments.run("fit", 1) == 0
    assert spent() == 4
    assert sorted(os.listdir("run")) == ["releases.jsonl", "run.json"]


# Files that are cut off.

CUTS = (0, 0.5, -3)


def cut(path, where):
    """Keep the beginning: so many bytes, that share of them, or all but so many."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(where * len(whole)) if 0 < where < 1 else where])


def another_run_is_paid_for(stopped):
    """With a checkpoint of its own; it draws other noise than the run that was stopped."""
    assert spent() == 4
    assert moments.run("fit", 1, "--checkpoint", "second") == 0
    assert spent() == 8
    assert Path("model.json").read_bytes() != stopped


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("manifest.json", 0, "not a table in blocks, or cut off; convert the same rows"),
        ("manifest.json", 0.5, "not a table in blocks, or cut off; convert the same rows"),
        ("manifest.json", None, "no table in blocks, as it has no manifest.json"),
        ("block-000001", 0.5, "block-000001: the file was changed or damaged; convert the same"),
        ("block-000001", None, "block-000001: the file is missing; convert the same rows again"),
    ],
)
def test_a_run_goes_on_with_rows_that_were_cut_off_or_lost(stopped, capsys, name, where, words):
    """Also if the file of the rows has another time and another name by now: nothing is lost."""
    path = Path("rows.chunks", name)
    path.unlink() if where is None else cut(path, where)
    assert words in refused(capsys, *moments.FIT)
    Path("rows.csv").rename("moved.csv")
    os.utime("moved.csv", (0, 0))
    elsewhere = {"rows.chunks": "other", "rows.csv": "moved.csv"}
    for command in (moments.CONVERT, moments.FIT):
        assert main([elsewhere.get(word, word) for word in command]) == 0
    assert Path("model.json").read_bytes() == stopped
    assert spent() == 4


@pytest.mark.parametrize("where", CUTS)
def test_a_checkpoint_whose_name_is_cut_off_does_not_go_on(stopped, capsys, where):
    """Nor does its key make noise for another folder: that is a run which is paid for."""
    cut(Path("run/run.json"), where)
    line = refused(capsys, *moments.FIT)
    assert "run.json: cut off or damaged; its run cannot go on; begin one with a new key" in line
    Path("run").rename("away")
    line = refused(capsys, *moments.FIT)
    assert "run.key: the key of a run whose folder run is gone or empty; bring it back, or" in line
    another_run_is_paid_for(stopped)


@pytest.mark.parametrize(
    ("path", "version", "words"),
    [
        ("run/run.json", 3, "no checkpoint that this dpbt reads; go on with"),
        ("run.key", 2, "run.key: no key that this dpbt reads; go on with the dpbt that the run"),
    ],
)
def test_another_format_is_not_called_damaged(stopped, capsys, path, version, words):
    """Its own dpbt goes on with it, so nobody has to pay again."""
    found = json.loads(Path(path).read_text()) | {"format_version": version}
    found.pop("public key", None)
    Path(path).write_text(json.dumps(found))
    assert words in refused(capsys, *moments.FIT)
    assert Path(path).exists()
    assert spent() == 4


@pytest.mark.parametrize("lost", [("run.key", "run/run.json"), ("run/run.json",)])
def test_releases_without_a_name_are_of_no_further_run(stopped, capsys, lost):
    """With the key, without it, and after a run that ended: no new noise is drawn there."""
    for path in lost:
        Path(path).unlink()
    before = content("run")
    line = refused(capsys, *moments.FIT)
    assert "run" in line
    assert "--checkpoint" in line or "another folder" in line
    assert content("run") == before
    assert Path("run.key").exists() == ("run.key" not in lost)
    assert spent() == 4


@pytest.mark.parametrize("where", CUTS)
def test_releases_that_are_cut_off_are_drawn_again_bit_for_bit(stopped, where):
    before = Path("run", RELEASES).read_bytes()
    cut(Path("run", RELEASES), where)
    assert moments.run("fit", 1) == 0
    assert Path("model.json").read_bytes() == stopped
    assert Path("run", RELEASES).read_bytes() == before
    assert spent() == 4


@pytest.mark.parametrize("where", CUTS)
def test_a_key_that_is_cut_off_draws_nothing_and_another_run_is_paid_for(stopped, capsys, where):
    cut(Path("run.key"), where)
    line = refused(capsys, *moments.FIT)
    assert "run.key: no key, or cut off, and its run cannot go on without it; give another" in line
    Path("run.key").unlink()
    assert "whose key is gone; give another" in refused(capsys, *moments.FIT)
    another_run_is_paid_for(stopped)


@pytest.mark.parametrize("where", CUTS)
def test_a_filter_that_is_cut_off_pays_for_nothing(stopped, capsys, where):
    cut(Path("filter.db"), where)
    before = Path("filter.db").read_bytes(), content("run")
    line = refused(capsys, *moments.FIT)
    assert (Path("filter.db").read_bytes(), content("run")) == before
    assert not Path("model.json").exists()
    assert "filter.db: not a filter, or changed or damaged" in line
    assert "bring back a copy that has every release" in line


# Sources that change.


def test_a_file_that_changes_while_it_is_read_is_refused(files, capsys, monkeypatch):
    read = convert.blocks_of_file

    def changing(*given):
        yield from read(*given)
        os.utime("rows.csv", (1, 1))

    words = [*moments.CONVERT[:-1], "30"]
    with monkeypatch.context() as patch:
        patch.setattr(convert, "blocks_of_file", changing)
        patch.setattr(convert, "READ_ROWS", 10)
        line = refused(capsys, *words)
    assert "rows.csv: changed while it was read; convert it again" in line
    assert not Path("rows.chunks").exists()
    assert main(words) == 0


def test_the_identity_of_a_table_is_that_of_its_rows_and_declarations(tmp_path):
    """Not of their source; and each declaration counts."""
    domain, columns, labels = worker.random_cells(5, 60)

    def identity(name, labels=labels, domain=domain, **options):
        rows = convert.RawRows(columns, labels, options.pop("weights", None))
        return convert.convert([rows], domain, tmp_path / name, **options).identity

    first = next(iter(domain))
    wider = {**domain, first: dataclasses.replace(domain[first], high=domain[first].high + 1)}
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


# Chunks that change while a run reads them.


@pytest.fixture
def some_chunks(tmp_path):
    """(domain, table): 600 rows in chunks of 200."""
    domain, columns, labels = worker.random_cells(3, 600)
    folder = tmp_path / "table"
    return domain, convert.convert_columns(domain, columns, labels, folder, rows_per_block=200)


def flip(path):
    """Change a cell; the size stays."""
    whole = bytearray(path.read_bytes())
    whole[3] ^= 1
    path.write_bytes(whole)


CHANGES = {
    "a cell": flip,
    "the end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "another file": lambda path: os.replace(shutil.copyfile(path, f"{path}.new"), path),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_chunk_that_changes_during_a_run_stops_it_and_what_was_paid_stays_spent(
    some_chunks, tmp_path, change
):
    """With the chunk as it was, the run goes on and is paid for once."""
    domain, table = some_chunks
    key, recipe, path = jax.random.key(2), worker.rounds_of(domain), table.path(1)
    budget, kept = dpbt.Filter(9, 1e-4, rows=1200), path.read_bytes()

    def fit(progress=None):
        checkpoint = tmp_path / "kept"
        return dpbt.fit(key, table, recipe, checkpoint=checkpoint, progress=progress, filter=budget)

    def meanwhile(state):
        if (state.stage, state.done) == ("rounds", 3):
            CHANGES[change](path)

    with pytest.raises(ValueError, match="block-000001: the file ") as stopped:
        fit(meanwhile)
    assert "200" not in str(stopped.value)
    paid = budget.spent
    assert paid > 0
    assert len((tmp_path / "kept" / RELEASES).read_text().splitlines()) < 12
    if path.read_bytes() != kept:
        with pytest.raises(ValueError, match="block-000001: the file was changed or damaged"):
            fit()
    path.write_bytes(kept)
    fit()
    assert budget.spent == paid


def test_a_chunk_that_changes_between_its_blocks_is_not_predicted(some_chunks):
    _, table = some_chunks
    pieces = table.pieces(90)
    next(pieces)
    flip(table.path(0))
    with pytest.raises(ValueError, match="block-000000: the file changed while it was read"):
        next(pieces)


@pytest.mark.parametrize(
    "body",
    ['["0", 3, 1.0]', '["0", {"a": {"values": [1]}}, 1]', '["0"]', "3", '["0", {}, null]', "{"],
)
def test_a_line_that_is_no_release_is_refused_though_it_has_its_hash(tmp_path, body):
    path = tmp_path / RELEASES
    path.write_text(f"{checkpoint._digest(body)} {body}\n")
    with pytest.raises(ValueError, match=r"releases.jsonl, line 1: the line was changed"):
        checkpoint._read_releases(path)
