"""What a run that was stopped may be mistaken for, and who pays for it."""

import json
import os
import stat
from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt.data.convert import convert_columns
from dpbt.training import blocks as in_blocks
from dpbt.training import processes
from dpbt.training.checkpoint import RUN, Checkpoint, under_key
from tests import test_block_fits as fits
from tests import worker
from tests.test_block_commands import FIT, convert, files, interrupted, refused, run

__all__ = ["files"]  # a fixture

KEY = jax.random.key(4)
TABLES = ["ab" * 32, "cd" * 32]


def checkpoint(folder, tables=TABLES, process=0, key=KEY):
    return Checkpoint(folder, key, worker.rounds_of(worker.random_cells(5, 1)[0]), tables, process)


@pytest.mark.parametrize(
    ("tables", "process"),
    [(TABLES[:1], 0), (TABLES[::-1], 0), (TABLES, 1), (["ab" * 32, "ef" * 32], 0)],
)
def test_a_checkpoint_is_of_the_tables_of_all_processes(tmp_path, tables, process):
    """Else the noise of a round would be drawn again, over other rows."""
    checkpoint(tmp_path)
    checkpoint(tmp_path)
    with pytest.raises(ValueError, match="of a run with another table"):
        checkpoint(tmp_path, tables, process)


def test_a_checkpoint_says_nothing_of_the_table_without_the_key(tmp_path):
    checkpoint(tmp_path)
    content = json.loads((tmp_path / RUN).read_text())
    assert not any(table in json.dumps(content) for table in TABLES)
    salted = content["salt"], *TABLES, "process 0"
    assert content["table"] == under_key(KEY, *salted)
    assert content["table"] != under_key(jax.random.key(5), *salted)


def test_one_round_is_released_once(tmp_path):
    kept = checkpoint(tmp_path)
    kept.add("0", {"sums": np.arange(3)}, 1.0)
    kept.add("0", {"sums": np.arange(3)}, 1.0)
    path = tmp_path / "releases.jsonl"
    assert path.read_bytes().count(b"\n") == 1
    with pytest.raises(ValueError, match="two releases of one round under one key"):
        kept.add("0", {"sums": np.arange(1, 4)}, 1.0)

    # Nor is it read from a file that two runs wrote.
    other = checkpoint(tmp_path / "other")
    other.add("0", {"sums": np.arange(1, 4)}, 1.0)
    path.write_bytes(path.read_bytes() + (tmp_path / "other" / "releases.jsonl").read_bytes())
    with pytest.raises(ValueError, match="two releases of one round under one key"):
        checkpoint(tmp_path)


def test_two_processes_with_one_table_are_refused(tmp_path, monkeypatch):
    domain, columns, labels = worker.random_cells(5, 300)
    table = convert_columns(domain, columns, labels, tmp_path / "t")
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(processes, "gathered", lambda own: np.stack([np.asarray(own)] * 2))
    with pytest.raises(ValueError, match="two processes were given the same table"):
        in_blocks.check(KEY, table, worker.rounds_of(domain))


# The command line.


@pytest.fixture
def stopped(files, monkeypatch, capsys):
    """A run whose filter paid 0.1 of 2, and whose model was not written."""
    assert convert() == 0
    assert run("filter", "new", "filter.db", "--epsilon", 2, "--rows", 400) == 0
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Model, "save", interrupted)
        assert run(*fit(0.1), "--out", "model.json") == 130
    capsys.readouterr()


def fit(epsilon, budget="filter.db", **more):
    words = list(FIT)
    words[words.index("--epsilon") + 1] = str(epsilon)
    options = {"--filter": budget, "--checkpoint": "run", **more}
    return ("fit", "rows.chunks", *words, *(word for pair in options.items() for word in pair))


def spent(budget="filter.db"):
    return dpbt.Filter.open(budget).spent


def test_a_key_makes_noise_for_one_recipe_and_one_table(stopped, capsys):
    assert spent() == pytest.approx(0.1, rel=1e-5)
    out = ("--out", "model.json")
    assert "another recipe or table" in refused(capsys, *fit(1.5), *out)
    Path("run/run.json").unlink()
    Path("run/releases.jsonl").unlink()
    assert "another recipe or table" in refused(capsys, *fit(1.5), *out)
    assert run("convert", "domain.json", "rows.csv", "other", "--capacity", 399) == 0
    moved = [word if word != "rows.chunks" else "other" for word in fit(0.1)]
    assert "another recipe or table" in refused(capsys, *moved, *out)
    assert "folder run is gone or empty" in refused(capsys, *fit(0.1), *out)
    assert spent() == pytest.approx(0.1, rel=1e-5)


def test_another_filter_pays_for_itself(stopped, capsys):
    assert run("filter", "new", "other.db", "--epsilon", 1, "--rows", 400) == 0
    assert run(*fit(0.1, "other.db"), "--out", "model.json") == 0
    assert spent("other.db") == pytest.approx(0.1, rel=1e-5)
    assert spent() == pytest.approx(0.1, rel=1e-5)


def test_a_finished_run_is_not_paid_for_again(stopped, capsys):
    assert run(*fit(0.1), "--out", "model.json") == 0
    assert "whose key is gone" in refused(capsys, *fit(0.1), "--out", "again.json")
    assert spent() == pytest.approx(0.1, rel=1e-5)
    assert not [name for name in os.listdir() if name.endswith(".key")]


def test_what_can_be_refused_is_refused_before_the_filter_pays(stopped, capsys):
    more = {"--checkpoint": "new", "--memory-mb": "1"}
    assert "memory must be at least" in refused(capsys, *fit(0.2, **more), "--out", "model.json")
    assert not Path("new.key").exists()  # so another recipe can have the folder
    path = Path("rows.chunks/block-000000")
    path.write_bytes(path.read_bytes()[::-1])
    del more["--memory-mb"]
    assert "changed or damaged" in refused(capsys, *fit(0.2, **more), "--out", "model.json")
    assert spent() == pytest.approx(0.1, rel=1e-5)


def test_a_refused_payment_leaves_the_folder_to_another_run(files, monkeypatch, capsys):
    """As in Python: neither a run in the folder, nor a key beside it."""
    assert convert() == 0
    assert run("filter", "new", "filter.db", "--epsilon", 2, "--rows", 400) == 0
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(
            "dpbt.privacy.filter.Filter.check", lambda *_: None
        )  # another run spends after it
        line = refused(capsys, *fit(3), "--out", "model.json")
    assert "epsilon = 2 of 2 is left" in line
    assert os.listdir("run") == []
    assert not [name for name in os.listdir() if "run.key" in name]
    assert run(*fit(1), "--out", "model.json") == 0
    assert spent() == pytest.approx(1, rel=1e-5)


def test_a_key_that_others_could_have_written_is_refused(stopped, capsys):
    path = Path("run.key")
    path.chmod(0o644)
    assert "that others may read" in refused(capsys, *fit(0.1), "--out", "model.json")
    path.chmod(0o600)
    path.rename("elsewhere")
    path.symlink_to("elsewhere")
    assert "run.key" in refused(capsys, *fit(0.1), "--out", "model.json")
    path.unlink()
    Path("elsewhere").rename(path)
    assert run(*fit(0.1), "--out", "model.json") == 0
    assert stat.S_IMODE(os.stat("run").st_mode) == 0o700


def test_a_filter_pays_once_for_a_run_that_goes_on(tmp_path):
    """And nothing for what is refused."""
    key = fits.KEY
    _, found = fits.pair(tmp_path / "t", "two")
    recipe, kept = fits.recipe_for("two", 700), tmp_path / "kept"
    budget = dpbt.Filter(9, 1e-5, rows=700)
    whole = found.path(1).read_bytes()
    found.path(1).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ValueError, match="changed or damaged"):
        dpbt.fit(key, found, recipe, checkpoint=kept, filter=budget)
    with pytest.raises(ValueError, match="recipe for 1000"):
        dpbt.fit(key, found, fits.recipe_for("two", 1000), filter=budget)
    assert budget.spent == 0
    found.path(1).write_bytes(whole)

    def stop(state):
        if (state.stage, state.done) == ("rounds", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dpbt.fit(key, found, recipe, checkpoint=kept, progress=stop, filter=budget)
    spent = budget.spent
    assert spent > 0
    _, others = fits.pair(tmp_path / "u", "two", 650)
    for table, other in (
        (found, recipe),
        (others, recipe),
        (found, fits.recipe_for("two", 700, seed=3)),
    ):
        for again in range(2):  # the folder of a refused run is no proof of a payment
            with pytest.raises(ValueError, match="a key of its own"):
                dpbt.fit(key, table, other, checkpoint=tmp_path / "other", filter=budget)
            assert not list((tmp_path / "other").iterdir()), again
    again = dpbt.fit(key, found, recipe, checkpoint=kept, filter=budget)
    fits.assert_same(dpbt.fit(key, found, recipe), again)
    assert budget.spent == spent
