"""Checkpoints: a run that was stopped goes on to the same model, and is paid for once."""

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt.training.checkpoint import Checkpoint
from tests.support import block_tables, worker_process
from tests.support.block_commands import (
    FIT_OPTIONS,
    FOREST_OPTIONS,
    checkpoint_holds_keys,
    convert_rows,
    raise_keyboard_interrupt,
    refusal_line,
    releases_in_checkpoint,
    run_command,
)
from tests.support.block_tables import KEY, PUBLIC

pytestmark = pytest.mark.filterwarnings("ignore:research key")

TABLES = ["ab" * 32, "cd" * 32]
ROUND = {"sums": np.arange(3)}


class KilledError(Exception):
    pass


RECIPE = worker_process.oblivious_recipe(worker_process.random_rows(5, 1)[0])


def begun(path, key=KEY, own=False):
    """A checkpoint of a run."""
    kept = Checkpoint(path)
    keys = kept.held_keys() if own else (key, None)
    kept.begin(keys[0], RECIPE, TABLES, 0, keys[1])
    return kept


def words_of(key):
    return np.asarray(jax.random.key_data(key)).tobytes()


def changed(path, command):
    """Change the database of a checkpoint that nobody holds."""
    with sqlite3.connect(path) as database:
        database.execute(command)
    database.close()


# The file.


def test_a_checkpoint_is_one_private_file_that_one_run_holds(tmp_path):
    path = tmp_path / "new" / "run"
    with Checkpoint(path):
        with pytest.raises(ValueError, match="another run is at work in"):
            Checkpoint(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()  # no run has begun
    with begun(path) as kept:
        kept.give_up()
    assert not path.exists()
    with begun(path) as kept:
        kept.add_release("0", ROUND, 2.0)
    with begun(path) as kept:
        release, cap = kept.recorded_release("0")
        np.testing.assert_array_equal(release["sums"], ROUND["sums"])
        assert (kept.num_rounds, cap, kept.recorded_release("1")) == (1, 2.0, None)
        kept.give_up()  # of a run that began before
    assert os.listdir(path.parent) == ["run"]


def test_the_keys_are_in_the_file_until_the_run_is_finished(tmp_path):
    with begun(tmp_path / "run", own=True) as kept:
        keys = kept.held_keys()
        assert all(words_of(key) in kept.path.read_bytes() for key in keys)
        kept.add_release("0", ROUND, 1.0)
    with Checkpoint(tmp_path / "run") as kept:
        assert [words_of(key) for key in kept.held_keys()] == [words_of(key) for key in keys]
        kept.delete_keys()
        for path in tmp_path.iterdir():
            assert not any(words_of(key) in path.read_bytes() for key in keys)
        with pytest.raises(ValueError, match="of a run that is finished, or whose keys"):
            kept.held_keys()


def test_a_checkpoint_is_of_the_tables_of_all_processes(tmp_path):
    """Else the noise of a round would be drawn again, over other rows."""
    for _ in range(2):
        with begun(tmp_path / "run"):
            pass
    for tables, process in ((TABLES[:1], 0), (TABLES[::-1], 0), (TABLES, 1)):
        with (
            pytest.raises(ValueError, match="of a run with another table"),
            Checkpoint(tmp_path / "run") as kept,
        ):
            kept.begin(KEY, RECIPE, tables, process)


def test_a_checkpoint_says_nothing_of_the_table_without_the_key(tmp_path):
    """And nothing of the key that a caller gave."""
    texts = []
    for number, key in enumerate((KEY, KEY, jax.random.key(6))):
        with begun(tmp_path / str(number), key=key) as kept:
            changed_salt = {"salt": "00"} if number else {}
            texts.append(dict(kept._names()) | changed_salt)
        content = kept.path.read_bytes()
        assert not any(table.encode() in content for table in TABLES)
        assert words_of(key) not in content
        assert words_of(key).hex().encode() not in content
    assert len({text["table"] for text in texts}) == 3
    assert len({text["key"] for text in texts}) == 3


def test_one_round_is_released_once(tmp_path):
    with begun(tmp_path / "run") as kept:
        kept.add_release("0", ROUND, 1.0)
        kept.add_release("0", ROUND, 1.0)
        assert kept.num_rounds == 1
        with pytest.raises(ValueError, match="two releases of one round under one key"):
            kept.add_release("0", {"sums": np.arange(1, 4)}, 1.0)


def cut(where):
    return lambda path: os.truncate(path, int(where * path.stat().st_size))


BROKEN = {
    "half": (cut(0.5), "no checkpoint, or damaged .*; its run cannot go on"),
    "a release": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"sums", b"sumz", 1)),
        "a release was changed or damaged",
    ),
    "others": (lambda path: path.chmod(0o640), "that others may read"),
    "a link": (lambda path: path.symlink_to(path.rename(f"{path}.other")), "a link or a folder"),
    "a folder": (lambda path: path.unlink() or path.mkdir(), "a link or a folder"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_is_none_or_damaged_is_refused_by_name(tmp_path, what):
    change, words = BROKEN[what]
    path = tmp_path / "run"
    with begun(path) as kept:
        kept.add_release("0", ROUND, 1.0)
    change(path)
    with pytest.raises(ValueError, match=f"run: .*{words}"), begun(path) as kept:
        kept.recorded_release("0")
    assert path.exists()


# Runs in Python.


def stopped_at(stage):
    def stop(state):
        if (state.stage, state.done) == stage:
            raise KilledError

    return stop


@pytest.mark.slow
@pytest.mark.parametrize("stage", [("rounds", 3), ("epilogue", 0)])
def test_a_run_that_was_stopped_gives_the_same_model(tmp_path, stage):
    _, found = block_tables.table_and_blocks(tmp_path / "t", "two")
    recipe, kept = block_tables.oblivious_recipe("two", 700), tmp_path / "kept"
    with pytest.raises(KilledError):
        dpbt.fit(KEY, found, recipe, checkpoint=kept, progress=stopped_at(stage))
    before = releases_in_checkpoint(kept)
    again = dpbt.fit(KEY, found, recipe, checkpoint=kept)
    block_tables.assert_same_fit(dpbt.fit(KEY, found, recipe), again)
    assert before.items() <= releases_in_checkpoint(kept).items()
    # The checkpoint has every release, so nothing is drawn a second time.
    block_tables.assert_same_fit(again, dpbt.fit(KEY, found, recipe, checkpoint=kept))


@pytest.mark.slow
def test_a_run_of_a_forest_goes_on_with_both_keys_and_is_paid_for_once(tmp_path, monkeypatch):
    """Two passes of two trees; it is stopped after the first one."""
    _, found = block_tables.table_and_blocks(tmp_path / "t", "two")
    recipe, kept = block_tables.forest_recipe(rounds=4), tmp_path / "kept"
    block_tables.shorten_passes(monkeypatch)
    budget = dpbt.Filter(5, rows=700)

    def fit(public=PUBLIC, checkpoint=kept, table=found, recipe=recipe, progress=None):
        options = {"checkpoint": checkpoint, "progress": progress, "filter": budget}
        return dpbt.fit(KEY, table, recipe, public, **options)

    whole = found.block_path(1).read_bytes()
    found.block_path(1).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ValueError, match="changed or damaged"):
        fit()
    assert budget.spent == 0
    assert not kept.exists()
    found.block_path(1).write_bytes(whole)
    with pytest.raises(KilledError):
        fit(progress=stopped_at(("rounds", 2)))
    assert len(releases_in_checkpoint(kept)) == 2
    assert budget.spent == pytest.approx(2, rel=1e-5)

    # Other trees, another recipe, other rows and another file are other runs.
    other = jax.random.key(7)
    _, others = block_tables.table_and_blocks(tmp_path / "u", "two", 650)
    for words, changes in {
        "another public key": {"public": other},
        "another recipe": {"recipe": block_tables.forest_recipe(rounds=4, depth=2)},
        "another table": {"table": others},
    }.items():
        with pytest.raises(ValueError, match=words):
            fit(**changes)
        with pytest.raises(ValueError, match="a key of its own"):
            fit(**changes, checkpoint=tmp_path / "other")
        assert not (tmp_path / "other").exists()  # a refused run is no proof of a payment
    with pytest.raises(ValueError, match="another key"):
        dpbt.fit(other, found, recipe, PUBLIC, checkpoint=kept)
    again = fit()
    block_tables.assert_same_fit(dpbt.fit(KEY, found, recipe, PUBLIC), again)
    assert budget.spent == pytest.approx(2, rel=1e-5)


def flip(path):
    """Change a bin; the size stays."""
    whole = bytearray(path.read_bytes())
    whole[3] ^= 1
    path.write_bytes(whole)


def test_a_block_that_changes_during_a_run_stops_it(tmp_path):
    """With the block as it was, the run goes on."""
    _, found = block_tables.table_and_blocks(tmp_path / "t", "two")
    path, checkpoint = found.block_path(1), tmp_path / "kept"
    whole = path.read_bytes()

    def fit(progress=None):
        recipe = block_tables.oblivious_recipe("two", 700)
        return dpbt.fit(KEY, found, recipe, checkpoint=checkpoint, progress=progress)

    def meanwhile(state):
        if (state.stage, state.done) == ("rounds", 3):
            flip(path)

    with pytest.raises(ValueError, match="block-000001: the file ") as stopped:
        fit(meanwhile)
    assert "700" not in str(stopped.value)
    path.write_bytes(whole)
    fit()


def test_a_block_that_changes_between_its_pieces_is_not_predicted(tmp_path):
    _, table = block_tables.table_and_blocks(tmp_path / "t", "two")
    pieces = table.iter_rows(90)
    next(pieces)
    flip(table.block_path(0))
    with pytest.raises(ValueError, match="block-000000: the file changed while it was read"):
        next(pieces)


# The command line.


@pytest.fixture
def table(rows_folder, capsys):
    """A folder of blocks, and a filter of 2."""
    assert convert_rows() == 0
    assert run_command("filter", "new", "filter.db", "--epsilon", 2, "--rows", 400) == 0
    capsys.readouterr()


@pytest.fixture
def stopped(table, monkeypatch, capsys):
    """A run whose filter paid 0.1 of 2, and whose model was not written."""
    with monkeypatch.context() as patch:
        patch.setattr(dpbt, "save", raise_keyboard_interrupt)
        assert run_command(*fit(0.1)) == 130
    capsys.readouterr()


def fit(epsilon, *more, out="model.json", **options):
    words = list(FIT_OPTIONS)
    words[words.index("--epsilon") + 1] = str(epsilon)
    options = {"filter": "filter.db", "checkpoint": "run", "out": out, **options}
    named = [word for name, value in options.items() for word in (f"--{name}", value)]
    return ("fit", "rows.chunks", *words, *FOREST_OPTIONS, *named, *more)


def spent(budget="filter.db"):
    return pytest.approx(dpbt.Filter.open(budget).spent, rel=1e-5)


def test_the_keys_are_kept_until_the_model_is_written_and_the_run_is_paid_for_once(stopped, capsys):
    """The release that is gone is drawn again under both of them."""
    assert checkpoint_holds_keys()
    before = releases_in_checkpoint("run")
    changed("run", "DELETE FROM release WHERE part = '2'")
    assert run_command(*fit(0.1)) == 0
    assert releases_in_checkpoint("run") == before
    assert not checkpoint_holds_keys()
    assert sorted(os.listdir()) == sorted(
        ["domain.json", "filter.db", "model.json", "rows.chunks", "rows.csv", "run"]
    )
    assert spent() == 0.1
    assert "of a run that is finished" in refusal_line(capsys, *fit(0.1, out="again.json"))
    assert spent() == 0.1


def test_the_keys_make_noise_for_one_run(stopped, capsys):
    assert "another recipe" in refusal_line(capsys, *fit(1.5))
    assert run_command(*fit(0.1, "--seed", 3)) == 2
    assert "another key" in capsys.readouterr().err
    held = Path("run").read_bytes()
    with contextlib.closing(sqlite3.connect("run")) as database, database:
        [(words,)] = database.execute("SELECT words FROM keys")
        database.execute("UPDATE keys SET words = ?", [words[:32] + bytes(32)])
    assert "another public key" in refusal_line(capsys, *fit(0.1))
    assert spent() == 0.1

    # Another filter pays for itself.
    Path("run").write_bytes(held)
    assert run_command("filter", "new", "other.db", "--epsilon", 1, "--rows", 400) == 0
    assert run_command(*fit(0.1, filter="other.db")) == 0
    assert (spent("other.db"), spent()) == (0.1, 0.1)


def test_a_refused_run_is_not_paid_for_and_leaves_no_checkpoint(table, monkeypatch, capsys):
    assert "memory must be at least" in refusal_line(capsys, *fit(0.2, "--memory-mb", 1))
    path = Path("rows.chunks/block-000000")
    whole = path.read_bytes()
    path.write_bytes(whole[::-1])
    assert "changed or damaged" in refusal_line(capsys, *fit(0.2))
    path.write_bytes(whole)
    with monkeypatch.context() as patch:  # another run spends after the first check
        patch.setattr("dpbt.owners.privacy_filter.Filter.check", lambda *_: None)
        assert "epsilon = 2 of 2 is left" in refusal_line(capsys, *fit(3))
    assert not Path("run").exists()
    assert run_command(*fit(1)) == 0
    assert spent() == 1
