"""Files of purses, and purses of threads and processes."""

import copy
import hashlib
import json
import multiprocessing
import os
import pickle
import queue
import re
import stat
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import dpbt
from dpbt.privacy import accounting, filters, mechanisms, pursefiles
from tests.purses import ROWS, book, line, pooled, purse_of


def test_a_purse_has_no_copy():
    purse = dpbt.Purse(1.0, rows=ROWS)
    assert copy.copy(purse) is copy.deepcopy(purse) is purse
    with pytest.raises(TypeError, match="twice"):
        pickle.dumps(purse)


def spends(purse, recipe, tries):
    taken = 0
    for _ in range(tries):
        try:
            purse.take(recipe)
            taken += 1
        except ValueError:
            continue
    return taken


def test_threads_share_a_budget():
    purse, recipe = dpbt.Purse(1.0, rows=ROWS), pooled(0, 0.1)
    taken = []
    threads = [
        threading.Thread(target=lambda: taken.append(spends(purse, recipe, 5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 10
    assert len(purse.ledger.parts) == 10


def test_purses_of_one_file_share_a_budget(tmp_path):
    path = tmp_path / "folder" / "purse.json"
    first = purse_of("rho", 1.0)
    first.take(pooled(3, 0.3))
    first.save(path)
    first.save(path)
    second = dpbt.Purse.load(path)
    assert repr(second) == repr(first)
    second.take(pooled(3, 0.3))
    first.take(pooled(3, 0.3))
    assert first.spent == second.spent == pytest.approx(3 * first.ledger.parts[0].rho, rel=1e-5)
    assert first.ledger == second.ledger
    assert str(first) == str(second)
    assert spends(first, pooled(3, 0.3), 20) + spends(second, pooled(3, 0.3), 20) > 1
    third = dpbt.Purse.load(path)
    assert third.spent <= third.budget
    assert third.ledger.epsilon <= 1


def test_what_is_written_is_paid_before_it_is_handed_out(tmp_path, monkeypatch):
    """If the file cannot be written, nothing is handed out and nothing is spent."""
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(tmp_path / "purse.json")

    def full(*arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(pursefiles, "write", full)
        with pytest.raises(OSError, match="no space"):
            purse.take(pooled(0, 0.1))
    assert purse.spent == 0


def test_files_are_never_overwritten_and_never_doubled(tmp_path):
    purse, path = dpbt.Purse(1.0, rows=ROWS), tmp_path / "purse.json"
    path.write_text("mine")
    with pytest.raises(ValueError, match="the file exists"):
        purse.save(path)
    assert path.read_text() == "mine"
    purse.save(tmp_path / "other.json")
    with pytest.raises(ValueError, match="spend twice"):
        purse.save(tmp_path / "third.json")


def test_links_to_a_file_lead_to_one_budget(tmp_path):
    """A link is not replaced, whether it leads to the file or to its folder."""
    path, link = tmp_path / "here" / "purse.json", tmp_path / "link.json"
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(path)
    link.symlink_to(path)
    (tmp_path / "there").symlink_to(path.parent)
    taken = pooled(0, 0.7)
    dpbt.Purse.load(link).take(taken)
    assert link.is_symlink()
    for name in (path, link, tmp_path / "there" / "purse.json"):
        again = dpbt.Purse.load(name)
        assert again.spent == purse.spent > 0.6
        with pytest.raises(ValueError, match="is left"):
            again.take(taken)
    assert not link.with_name("link.json.lock").exists()
    with pytest.raises(ValueError, match="the file exists"):
        dpbt.Purse(1.0, rows=ROWS).save(link)
    purse.save(link)  # the file that it has

    # A file that was moved while a purse spends from it, with a link in its old place.
    moved = tmp_path / "moved.json"
    path.rename(moved)
    path.symlink_to(moved)
    purse.take(pooled(0, 0.1))
    assert path.is_symlink()
    assert dpbt.Purse.load(moved).spent == purse.spent

    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(OSError, match="circle"):
        dpbt.Purse.load(circle)


def test_a_file_with_a_second_name_is_refused(tmp_path):
    path, second = tmp_path / "purse.json", tmp_path / "second.json"
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(path)
    os.link(path, second)
    with pytest.raises(ValueError, match="hard link"):
        purse.take(pooled(0, 0.1))
    for name in (path, second):
        with pytest.raises(ValueError, match="hard link"):
            dpbt.Purse.load(name)
    second.unlink()
    purse.take(pooled(0, 0.1))
    assert purse.spent > 0


def test_a_file_keeps_its_permissions_and_one_that_is_not_to_be_written_is_not(tmp_path):
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(path)
    for mode in (0o600, 0o640):
        if mode != 0o600:
            path.chmod(mode)
        purse.take(pooled(0, 0.1))
        assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o444)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="may not be written"):
        purse.take(pooled(0, 0.1))
    assert path.read_bytes() == before
    assert len(dpbt.Purse.load(path).ledger.parts) == 2


def test_a_charge_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    """The new file is, before it takes the place of the old one; then the name in the folder is."""
    path, steps = tmp_path / "purse.json", []
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(path)
    sync, replace = os.fsync, os.replace

    def noted_sync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def noted_replace(*names):
        steps.append("replace")
        replace(*names)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    purse.take(pooled(0, 0.1))
    assert steps == ["file", "replace", "folder"]


LOCKS = Path("/proc/locks")


@pytest.mark.skipif(not LOCKS.exists(), reason="the system does not list its locks")
def test_a_lock_whose_file_was_removed_is_taken_again(tmp_path):
    """Somebody waits for the lock, and its file is removed before it is free."""
    path = tmp_path / "purse.json"
    lock, seen = path.with_name("purse.json.lock"), []

    def waits():
        with pursefiles.locked(path):
            seen.append(lock.exists())

    with pursefiles.locked(path):
        waiting = threading.Thread(target=waits)
        waiting.start()
        until = time.monotonic() + 30
        while not _is_waited_for(lock) and time.monotonic() < until:
            time.sleep(0.01)
        lock.unlink()
    waiting.join(timeout=30)
    assert seen == [True]


def _is_waited_for(lock):
    """Whether the system knows of somebody who waits for a lock of the file."""
    waiting = [each for each in LOCKS.read_text().splitlines() if "->" in each]
    return any(f":{lock.stat().st_ino} " in each for each in waiting)


def test_a_file_knows_the_keys_of_its_releases(tmp_path):
    path, key = tmp_path / "purse.json", jax.random.key(7)
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.take(pooled(0, 0.1), key)
    purse.save(path)
    other = dpbt.Purse.load(path)
    with pytest.raises(ValueError, match="a key of its own"):
        other.take(pooled(0, 0.1), key)
    other.take(pooled(0, 0.1), jax.random.key(8))
    with pytest.raises(ValueError, match="a key of its own"):
        purse.take(pooled(0, 0.1), jax.random.key(8))
    text = path.read_text()
    plain = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes()).hexdigest()
    marks = [each["key"] for each in json.loads(text)["spent"]]
    assert plain not in text  # it is salted
    assert len(set(marks)) == 2


def test_an_old_copy_and_another_purse_are_noticed(tmp_path):
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.save(path)
    old = path.read_bytes()
    purse.take(pooled(0, 0.1))
    path.write_bytes(old)
    with pytest.raises(ValueError, match="less was spent"):
        purse.take(pooled(0, 0.1))
    path.unlink()
    with pytest.raises(FileNotFoundError, match="purse"):
        purse.take(pooled(0, 0.1))
    dpbt.Purse(1.0, rows=ROWS).save(path)
    with pytest.raises(ValueError, match="another purse"):
        _ = purse.remaining


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-40], "not a purse, or cut off"),
        (lambda text: text.replace("1.0", "Infinity", 1), "not a purse, or cut off"),
        (lambda text: "[]", "not the file of a purse"),
        (lambda text: text.replace('"dpbt purse"', '"dpbt model"'), "not the file of a purse"),
        (lambda text: text.replace('"format_version": 1', '"format_version": 2'), "another format"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": 9.0', 1), "changed or damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, words):
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0, rows=ROWS)
    purse.take(pooled(0, 0.1))
    purse.save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=words) as refused:
        dpbt.Purse.load(path)
    assert str(path) in str(refused.value)


PAID = {
    **{"name": "x", "cost": 0.1, "gap": 0.0, "tail": 0.0, "key": None},
    "ledger": accounting.to_json(book(line(0.05))),
}


def with_content(path, change):
    """Change what the file of a purse says, under a checksum of its own."""
    content = {**json.loads(path.read_text()), **change}
    content["checksum"] = pursefiles.checksum(content)
    path.write_text(json.dumps(content))


def test_content_with_a_checksum_is_read(tmp_path):
    """So the changes of the next test are what is refused."""
    path = tmp_path / "purse.json"
    dpbt.Purse(1.0, rows=ROWS).save(path)
    with_content(path, {"spent": [PAID]})
    assert dpbt.Purse.load(path).spent == 0.1


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": "1"},
        {"delta": 1.5, "measure": "rho"},
        {"delta": "0"},
        {"relation": "near"},
        {"measure": "renyi"},
        {"measure": "rho"},
        {"rows": 0},
        {"rows": "1000"},
        {"rows_per_person": 0},
        {"salt": "00"},
        {"salt": 3},
        {"spent": [{"name": "x"}]},
        {"spent": [{**PAID, "cost": -1.0}]},
        {"spent": [{**PAID, "cost": "nan"}]},
        {"spent": [{**PAID, "key": 3}]},
        {"spent": [{name: PAID[name] for name in PAID if name != "key"}]},
        {"spent": 3},
    ],
)
def test_bad_content_with_a_checksum_is_refused(tmp_path, change):
    path = tmp_path / "purse.json"
    dpbt.Purse(1.0, rows=ROWS).save(path)
    with_content(path, change)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        dpbt.Purse.load(path)


def charges(path, number, taken):
    """Spend by raw charges of a twentieth, which need no recipe, from a purse of one's own."""
    purse = dpbt.Purse.load(path)
    content = accounting.to_json(book(line(0.05)))
    count = 0
    for _ in range(number):
        try:
            purse._pay(pursefiles.Spent("x", filters.Charge(0.05, 0.0, 0.0), content))
        except ValueError:
            break
        count += 1
    taken.put(count)


def shared(tmp_path, start, queue):
    """Two workers try 30 charges of a twentieth each; exactly 20 of these fit."""
    path = tmp_path / "purse.json"
    purse = dpbt.Purse(1.0 + 1e-12, rows=ROWS)
    purse.save(path)
    workers = [start(target=charges, args=(path, 30, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    taken = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 20
    assert len(purse._current()) == 20
    assert purse.remaining < 1e-11


def test_two_purses_of_one_file_in_two_threads_share_a_budget(tmp_path):
    shared(tmp_path, threading.Thread, queue.Queue())


@pytest.mark.slow
def test_processes_share_a_budget(tmp_path):
    context = multiprocessing.get_context("spawn")
    shared(tmp_path, context.Process, context.Queue())


def test_two_purses_that_trust_their_memory_spend_twice(tmp_path, monkeypatch):
    """A planted mistake: a purse that decides by what it saw before, and not by its file."""
    path = tmp_path / "purse.json"
    dpbt.Purse(1.0, rows=ROWS).save(path)
    first, second = dpbt.Purse.load(path), dpbt.Purse.load(path)
    monkeypatch.setattr(dpbt.Purse, "_read", lambda purse, path: purse._spent)
    half = pooled(0, 0.7)
    first.take(half)
    second.take(half)
    assert first.spent + second.spent > 1


def test_a_purse_without_a_file_is_of_one_process(monkeypatch):
    purse = dpbt.Purse(1.0, rows=ROWS)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ValueError, match="another process"):
        purse.take(pooled(0, 0.1))


def test_a_purse_of_draws_by_a_mechanism_of_ones_own_still_counts(tmp_path):
    """Its costs are in the file; its ledger cannot be."""
    purse, path = dpbt.Purse(1.0, rows=ROWS), tmp_path / "purse.json"
    own = mechanisms.discrete_laplace._replace(name="my own")
    event = accounting.Event("x", own, "counts", 1.0, 2.0, "none", moved=1)
    mine = book(accounting.Line(event), rows=ROWS)
    purse._pay(pursefiles.Spent("x", purse._charge(mine), accounting.to_json(mine), None, mine))
    assert purse.ledger.epsilon == 0.5
    purse.save(path)
    loaded = dpbt.Purse.load(path)
    assert loaded.spent == purse.spent
    with pytest.raises(ValueError, match="own"):
        _ = loaded.ledger
    assert purse.ledger.epsilon == 0.5
