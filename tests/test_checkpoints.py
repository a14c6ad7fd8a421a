"""Checkpoints: a run that was stopped resumes to the same model, and is paid for once."""

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt.training.blocks.checkpoint import Checkpoint
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
    """Stands for the end of a process."""


RECIPE = worker_process.oblivious_recipe(worker_process.random_rows(5, 1)[0])


def open_begun_checkpoint(path, key=KEY, has_own_keys=False):
    """A checkpoint of a run that has begun, under a given key or under its own keys."""
    checkpoint = Checkpoint(path)
    keys = checkpoint.stored_or_fresh_keys() if has_own_keys else (key, None)
    checkpoint.begin_or_resume(
        key=keys[0],
        public_key=keys[1],
        recipe=RECIPE,
        table_identities=TABLES,
        process_index=0,
    )
    return checkpoint


def key_words(key):
    return np.asarray(jax.random.key_data(key)).tobytes()


def change_database(path, command):
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
    with open_begun_checkpoint(path) as checkpoint:
        checkpoint.discard_new_run()
    assert not path.exists()
    with open_begun_checkpoint(path) as checkpoint:
        checkpoint.add_release("0", ROUND, 2.0)
    with open_begun_checkpoint(path) as checkpoint:
        release, cap = checkpoint.recorded_release("0")
        np.testing.assert_array_equal(release["sums"], ROUND["sums"])
        assert (checkpoint.num_recorded_rounds, cap, checkpoint.recorded_release("1")) == (
            1,
            2.0,
            None,
        )
        checkpoint.discard_new_run()  # of a run that began before
    assert os.listdir(path.parent) == ["run"]


def test_the_keys_are_in_the_file_until_the_run_is_finished(tmp_path):
    with open_begun_checkpoint(tmp_path / "run", has_own_keys=True) as checkpoint:
        keys = checkpoint.stored_or_fresh_keys()
        assert all(key_words(key) in checkpoint.path.read_bytes() for key in keys)
        checkpoint.add_release("0", ROUND, 1.0)
    with Checkpoint(tmp_path / "run") as checkpoint:
        assert [key_words(key) for key in checkpoint.stored_or_fresh_keys()] == [
            key_words(key) for key in keys
        ]
        checkpoint.delete_keys()
        for path in tmp_path.iterdir():
            assert not any(key_words(key) in path.read_bytes() for key in keys)
        with pytest.raises(ValueError, match="of a run that is finished, or whose keys"):
            checkpoint.stored_or_fresh_keys()


def test_a_checkpoint_is_of_the_tables_of_all_processes(tmp_path):
    """Otherwise the noise of a round would be drawn again, over other rows."""
    for _ in range(2):
        with open_begun_checkpoint(tmp_path / "run"):
            pass
    for tables, process in ((TABLES[:1], 0), (TABLES[::-1], 0), (TABLES, 1)):
        with (
            pytest.raises(ValueError, match="of a run with another table"),
            Checkpoint(tmp_path / "run") as checkpoint,
        ):
            checkpoint.begin_or_resume(
                key=KEY,
                public_key=None,
                recipe=RECIPE,
                table_identities=tables,
                process_index=process,
            )


def test_a_checkpoint_says_nothing_of_the_table_without_the_key(tmp_path):
    """It says nothing of the key that a caller passed either."""
    stored_names = []
    for index, key in enumerate((KEY, KEY, jax.random.key(6))):
        with open_begun_checkpoint(tmp_path / str(index), key=key) as checkpoint:
            changed_salt = {"salt": "00"} if index else {}
            stored_names.append(dict(checkpoint._run_entries()) | changed_salt)
        content = checkpoint.path.read_bytes()
        assert not any(table.encode() in content for table in TABLES)
        assert key_words(key) not in content
        assert key_words(key).hex().encode() not in content
    assert len({names["table"] for names in stored_names}) == 3
    assert len({names["key"] for names in stored_names}) == 3


def test_one_round_is_released_once(tmp_path):
    with open_begun_checkpoint(tmp_path / "run") as checkpoint:
        checkpoint.add_release("0", ROUND, 1.0)
        checkpoint.add_release("0", ROUND, 1.0)
        assert checkpoint.num_recorded_rounds == 1
        with pytest.raises(ValueError, match="two releases of one round under one key"):
            checkpoint.add_release("0", {"sums": np.arange(1, 4)}, 1.0)


def truncate_to_share(share):
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


BROKEN_FILES = {
    "half": (truncate_to_share(0.5), "no checkpoint, or damaged .*; its run cannot be resumed"),
    "a release": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"sums", b"sumz", 1)),
        "a release was changed or damaged",
    ),
    "others": (lambda path: path.chmod(0o640), "that others may read"),
    "a link": (lambda path: path.symlink_to(path.rename(f"{path}.other")), "a link or a folder"),
    "a folder": (lambda path: path.unlink() or path.mkdir(), "a link or a folder"),
}


@pytest.mark.parametrize("damage", BROKEN_FILES)
def test_a_file_that_is_none_or_damaged_is_refused_by_name(tmp_path, damage):
    change, message = BROKEN_FILES[damage]
    path = tmp_path / "run"
    with open_begun_checkpoint(path) as checkpoint:
        checkpoint.add_release("0", ROUND, 1.0)
    change(path)
    with (
        pytest.raises(ValueError, match=f"run: .*{message}"),
        open_begun_checkpoint(path) as checkpoint,
    ):
        checkpoint.recorded_release("0")
    assert path.exists()


# Runs in Python.


def stop_at_stage(stage_and_rounds):
    def stop(state):
        if (state.stage, state.done) == stage_and_rounds:
            raise KilledError

    return stop


@pytest.mark.slow
@pytest.mark.parametrize("stage", [("rounds", 3), ("epilogue", 0)], ids=["rounds", "epilogue"])
def test_a_run_that_was_stopped_gives_the_same_model(tmp_path, stage):
    _, block_table = block_tables.table_and_blocks(tmp_path / "t", "two")
    recipe, checkpoint = block_tables.oblivious_recipe("two", 700), tmp_path / "kept"
    with pytest.raises(KilledError):
        dpbt.fit(KEY, block_table, recipe, checkpoint=checkpoint, progress=stop_at_stage(stage))
    releases_before = releases_in_checkpoint(checkpoint)
    resumed = dpbt.fit(KEY, block_table, recipe, checkpoint=checkpoint)
    block_tables.assert_same_fit(dpbt.fit(KEY, block_table, recipe), resumed)
    assert releases_before.items() <= releases_in_checkpoint(checkpoint).items()
    # The checkpoint has every release, so nothing is drawn a second time.
    block_tables.assert_same_fit(resumed, dpbt.fit(KEY, block_table, recipe, checkpoint=checkpoint))


@pytest.mark.slow
def test_a_run_of_a_forest_goes_on_with_both_keys_and_is_paid_for_once(tmp_path, monkeypatch):
    """The run has two passes of two trees, and is stopped after the first pass."""
    _, block_table = block_tables.table_and_blocks(tmp_path / "t", "two")
    recipe, checkpoint_file = block_tables.forest_recipe(rounds=4), tmp_path / "kept"
    block_tables.shorten_passes(monkeypatch)
    budget = dpbt.Filter(5, rows=700)

    def fit(
        public=PUBLIC, checkpoint=checkpoint_file, table=block_table, recipe=recipe, progress=None
    ):
        options = {"checkpoint": checkpoint, "progress": progress, "filter": budget}
        return dpbt.fit(KEY, table, recipe, public, **options)

    content = block_table.block_path(1).read_bytes()
    block_table.block_path(1).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ValueError, match="changed or damaged"):
        fit()
    assert budget.spent == 0
    assert not checkpoint_file.exists()
    block_table.block_path(1).write_bytes(content)
    with pytest.raises(KilledError):
        fit(progress=stop_at_stage(("rounds", 2)))
    assert len(releases_in_checkpoint(checkpoint_file)) == 2
    assert budget.spent == pytest.approx(2, rel=1e-5)

    # Other trees, another recipe, other rows and another file are other runs.
    other_key = jax.random.key(7)
    _, other_table = block_tables.table_and_blocks(tmp_path / "u", "two", 650)
    for message, changes in {
        "another public key": {"public": other_key},
        "another recipe": {"recipe": block_tables.forest_recipe(rounds=4, depth=2)},
        "another table": {"table": other_table},
    }.items():
        with pytest.raises(ValueError, match=message):
            fit(**changes)
        with pytest.raises(ValueError, match="a key of its own"):
            fit(**changes, checkpoint=tmp_path / "other")
        assert not (tmp_path / "other").exists()  # a refused run is no proof of a payment
    with pytest.raises(ValueError, match="another key"):
        dpbt.fit(other_key, block_table, recipe, PUBLIC, checkpoint=checkpoint_file)
    resumed = fit()
    block_tables.assert_same_fit(dpbt.fit(KEY, block_table, recipe, PUBLIC), resumed)
    assert budget.spent == pytest.approx(2, rel=1e-5)


def flip_bit_of_file(path):
    """Change a bin; the size stays."""
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


def test_a_block_that_changes_during_a_run_stops_it(tmp_path):
    """With the block as it was, the run goes on."""
    _, block_table = block_tables.table_and_blocks(tmp_path / "t", "two")
    path, checkpoint = block_table.block_path(1), tmp_path / "kept"
    content = path.read_bytes()

    def fit(progress=None):
        recipe = block_tables.oblivious_recipe("two", 700)
        return dpbt.fit(KEY, block_table, recipe, checkpoint=checkpoint, progress=progress)

    def flip_after_three_rounds(state):
        if (state.stage, state.done) == ("rounds", 3):
            flip_bit_of_file(path)

    with pytest.raises(ValueError, match="block-000001: the file ") as error:
        fit(flip_after_three_rounds)
    assert "700" not in str(error.value)
    path.write_bytes(content)
    fit()


def test_a_block_that_changes_between_its_pieces_is_not_predicted(tmp_path):
    _, table = block_tables.table_and_blocks(tmp_path / "t", "two")
    pieces = table.iter_rows(90)
    next(pieces)
    flip_bit_of_file(table.block_path(0))
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
def stopped_run(table, monkeypatch, capsys):
    """A run for which the filter paid 0.1 of 2, and whose model was not written."""
    with monkeypatch.context() as patch:
        patch.setattr(dpbt, "save", raise_keyboard_interrupt)
        assert run_command(*fit_command(0.1)) == 130
    capsys.readouterr()


def fit_command(epsilon, *extra_arguments, out="model.json", **options):
    fit_options = list(FIT_OPTIONS)
    fit_options[fit_options.index("--epsilon") + 1] = str(epsilon)
    options = {"filter": "filter.db", "checkpoint": "run", "out": out, **options}
    named_options = [
        argument for name, value in options.items() for argument in (f"--{name}", value)
    ]
    fixed_options = (*fit_options, *FOREST_OPTIONS)
    return ("fit", "rows.chunks", *fixed_options, *named_options, *extra_arguments)


def approximately_spent(budget="filter.db"):
    return pytest.approx(dpbt.Filter.open(budget).spent, rel=1e-5)


def test_the_keys_are_kept_until_the_model_is_written_and_the_run_is_paid_for_once(
    stopped_run, capsys
):
    """A release that was deleted is drawn again under both keys."""
    assert checkpoint_holds_keys()
    releases_before = releases_in_checkpoint("run")
    change_database("run", "DELETE FROM release WHERE part = '2'")
    assert run_command(*fit_command(0.1)) == 0
    assert releases_in_checkpoint("run") == releases_before
    assert not checkpoint_holds_keys()
    assert sorted(os.listdir()) == sorted(
        ["domain.json", "filter.db", "model.json", "rows.chunks", "rows.csv", "run"]
    )
    assert approximately_spent() == 0.1
    assert "of a run that is finished" in refusal_line(capsys, *fit_command(0.1, out="again.json"))
    assert approximately_spent() == 0.1


def test_the_keys_of_a_checkpoint_make_noise_for_one_run(stopped_run, capsys):
    assert "another recipe" in refusal_line(capsys, *fit_command(1.5))
    assert run_command(*fit_command(0.1, "--seed", 3)) == 2
    assert "another key" in capsys.readouterr().err
    content = Path("run").read_bytes()
    with contextlib.closing(sqlite3.connect("run")) as database, database:
        [(stored_words,)] = database.execute("SELECT words FROM keys")
        database.execute("UPDATE keys SET words = ?", [stored_words[:32] + bytes(32)])
    assert "another public key" in refusal_line(capsys, *fit_command(0.1))
    assert approximately_spent() == 0.1

    # Another filter pays for itself.
    Path("run").write_bytes(content)
    assert run_command("filter", "new", "other.db", "--epsilon", 1, "--rows", 400) == 0
    assert run_command(*fit_command(0.1, filter="other.db")) == 0
    assert (approximately_spent("other.db"), approximately_spent()) == (0.1, 0.1)


def test_a_refused_run_is_not_paid_for_and_leaves_no_checkpoint(table, monkeypatch, capsys):
    assert "memory must be at least" in refusal_line(capsys, *fit_command(0.2, "--memory-mb", 1))
    path = Path("rows.chunks/block-000000")
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    assert "changed or damaged" in refusal_line(capsys, *fit_command(0.2))
    path.write_bytes(content)
    with monkeypatch.context() as patch:  # another run spends after the first check
        patch.setattr("dpbt.owners.privacy_filter.Filter.check", lambda *_: None)
        assert "epsilon = 2 of 2 is left" in refusal_line(capsys, *fit_command(3))
    assert not Path("run").exists()
    assert run_command(*fit_command(1)) == 0
    assert approximately_spent() == 1
