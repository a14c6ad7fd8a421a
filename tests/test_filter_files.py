"""Files of filters, and filters of threads and processes."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import pickle
import queue
import re
import resource
import signal
import sqlite3
import stat
import threading

import jax
import msgspec
import numpy as np
import pytest

import dpbt
from dpbt.owners import privacy_filter as filters
from tests.support.budget_examples import (
    ROWS,
    ledger_line,
    ledger_of,
    new_filter,
    recipe_of_pool,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "filter.db"


def opened(path, epsilon=1.0):
    """A new filter of a file."""
    return dpbt.Filter(epsilon, rows=ROWS, path=path)


def pay(budget, cost=0.05):
    """A raw charge, which needs no recipe."""
    budget._record_payment(
        "x", filters.Charge(cost=cost, gap=0.0, tail=0.0), ledger_of(ledger_line(0.05))
    )


def edited(path, *statements):
    """Change the tables, under a seal of their own."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(*statement)
        [(terms, salt)] = database.execute("SELECT terms, salt FROM filter LIMIT 1")
        records = [each for (each,) in database.execute("SELECT record FROM release")]
        seal = filters.seal_of_file_texts([str(terms), str(salt), *records])
        database.execute("UPDATE filter SET seal = ?", [seal])


def test_a_filter_has_no_copy():
    with pytest.raises(TypeError, match="twice"):
        pickle.dumps(dpbt.Filter(1.0, rows=ROWS))


def test_filters_of_one_file_share_a_budget(path):
    path = path.parent / "folder" / path.name
    first = new_filter("rho", 1.0, path=path)
    second = dpbt.Filter.open(path)
    assert repr(second) == repr(first)
    second.take(recipe_of_pool(3, 0.3))
    first.take(recipe_of_pool(3, 0.3))
    assert first.spent == second.spent == pytest.approx(2 * first.ledger.parts[0].rho, rel=1e-5)
    assert first.ledger == dpbt.Filter.open(path).ledger
    assert str(first) == str(second)


def test_all_names_of_a_file_lead_to_one_budget(path):
    """Symbolic links, hard links, and the new name of a file that was moved."""
    budget, link, second = opened(path), path.with_name("link"), path.with_name("second")
    link.symlink_to(path)
    os.link(path, second)
    for name in (link, second):
        pay(dpbt.Filter.open(name), 0.3)
        assert dpbt.Filter.open(name).spent == budget.spent
        with pytest.raises(ValueError, match="the file exists"):
            opened(name)
    path.rename(path.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        pay(budget)
    path.symlink_to(path.with_name("moved"))
    pay(budget, 0.3)
    assert dpbt.Filter.open(second).spent > 0.89


def test_only_its_owner_reads_a_new_file_and_a_crash_undoes_no_charge(path):
    budget = opened(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with budget._open_transaction() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@contextlib.contextmanager
def full_disk():
    """Files do not grow."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, kept[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, old)


def test_a_full_disk_refuses_before_anything_is_paid(path):
    budget = opened(path)
    with full_disk():
        with pytest.raises(OSError, match=re.escape(str(path))):
            budget.take(recipe_of_pool(0, 0.1))
        with pytest.raises(OSError, match="another"):
            opened(path.with_name("another.db"))
    assert budget.spent == 0
    assert not path.with_name("another.db").exists()
    budget.take(recipe_of_pool(0, 0.1))


def test_a_file_knows_the_keys_of_its_releases_and_the_runs_they_paid_for(path):
    """`paying` pays for the run it is called with, and for no other under the key."""
    key, budget, recipe = jax.random.key(7), opened(path), recipe_of_pool(0, 0.1)
    for each in (budget, dpbt.Filter.open(path)):
        each.payment_callback(recipe, key)("a run")
    spent, other = budget.spent, dpbt.Filter.open(path)
    assert other.has_paid_for(key, "a run")
    assert not other.has_paid_for(key, "another")
    for pays in (other.payment_callback(recipe, key), lambda run: other.take(recipe, key, run)):
        for run in ("another", None):
            with pytest.raises(ValueError, match="a key of its own"):
                pays(run)
    assert budget.spent == spent
    plain = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes()).hexdigest()
    assert plain.encode() not in path.read_bytes()  # it is salted


def test_an_old_copy_and_another_filter_are_noticed(path):
    budget = opened(path)
    old = path.read_bytes()
    pay(budget)
    path.write_bytes(old)
    with pytest.raises(ValueError, match="less was spent"):
        pay(budget)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"filter\.db"):
        pay(budget)
    opened(path)
    with pytest.raises(ValueError, match="another filter"):
        _ = budget.remaining


DAMAGE = {
    "cut off": lambda whole: whole[:-1],
    "empty": lambda whole: b"",
    "a number": lambda whole: whole.replace(b'"epsilon":1.0', b'"epsilon":9.0'),
    "no text": lambda whole: whole.replace(b'"epsilon":1.0', b'"epsilon":\xff.0'),
    "a page": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused_and_pays_for_nothing(path, name):
    budget = opened(path)
    pay(budget)
    whole = DAMAGE[name](path.read_bytes())
    path.write_bytes(whole)
    for ask in (lambda: dpbt.Filter.open(path), lambda: pay(budget)):
        with pytest.raises(ValueError, match=r"bring back a copy that has every release") as caught:
            ask()
        assert str(caught.value).startswith(f"{path}: not a filter")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == whole


def changed(table, column, **changes):
    """A change of the terms, or of the first release."""
    return (f"UPDATE {table} SET {column} = json_patch({column}, ?)", [json.dumps(changes)])


EDITS = [
    *(changed("filter", "terms", epsilon=value) for value in (-1.0, "1", 10**400)),
    *(changed("filter", "terms", delta=value) for value in (1.5, 1e-6)),
    *(changed("filter", "terms", measure=value) for value in ("renyi", "rho")),
    changed("filter", "terms", relation="near"),
    changed("filter", "terms", rows=2**41),
    *(changed("release", "record", charge={"cost": value}) for value in (-1.0, 1e308, "nan")),
    changed("release", "record", key_id="00"),
    changed("release", "record", ledger={"lines": 3}),
    ("UPDATE release SET record = json_remove(record, '$.charge.cost')",),
    ("UPDATE filter SET terms = ''",),
    ("UPDATE filter SET terms = 7",),
    ("INSERT INTO filter SELECT * FROM filter",),
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_edits_under_a_seal_of_their_own_are_refused(path, edit):
    pay(opened(path))
    edited(path)
    assert dpbt.Filter.open(path).spent == 0.05  # so the edit is what is refused
    edited(path, edit)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        dpbt.Filter.open(path)


def charged(path, taken):
    """Try 30 charges of a twentieth, and tell how many were paid."""
    budget, count = path if isinstance(path, dpbt.Filter) else dpbt.Filter.open(path), 0
    for _ in range(30):
        with contextlib.suppress(ValueError):
            pay(budget)
            count += 1
    taken.put(count)


def shared(budget, of_worker, start, taken):
    """Of what two workers try, exactly 20 charges fit."""
    workers = [start(target=charged, args=(of_worker, taken)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert sum(taken.get(timeout=120) for _ in workers) == 20
    for worker in workers:
        worker.join()
    assert len(budget.ledger.parts) == 20
    assert budget.remaining < 1e-11


def test_a_folder_is_no_filter(tmp_path):
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        dpbt.Filter.open(tmp_path)


def test_threads_share_a_filter_or_its_file(path):
    budget, alone = opened(path, 1.0 + 1e-12), dpbt.Filter(1.0 + 1e-12, rows=ROWS)
    shared(budget, path, threading.Thread, queue.Queue())
    shared(alone, alone, threading.Thread, queue.Queue())


@pytest.mark.slow
def test_processes_share_a_budget(path):
    context = multiprocessing.get_context("spawn")
    shared(opened(path, 1.0 + 1e-12), path, context.Process, context.Queue())


def test_nobody_pays_between_reading_and_writing(path, monkeypatch):
    first, second = opened(path), dpbt.Filter.open(path)
    check, tried = dpbt.Filter._check_affordable, []

    def between(budget, spent, charge):
        if not tried:
            tried.append(budget)
            with pytest.raises(ValueError, match="another run is at work in"):
                pay(second)
        check(budget, spent, charge)

    monkeypatch.setattr(filters, "_LOCK_SECONDS", 0)
    monkeypatch.setattr(dpbt.Filter, "_check_affordable", between)
    pay(first)
    assert tried
    assert second.spent == first.spent == 0.05


def test_a_filter_without_a_file_ends_with_it():
    budget = dpbt.Filter(1.0, rows=ROWS)
    kept = budget._path
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    filters._remove_folder_in_same_process(
        str(kept.parent), os.getpid() + 1
    )  # as in a forked child
    assert kept.exists()
    del budget
    assert not kept.parent.exists()


def test_draws_by_a_mechanism_of_ones_own_still_count(path):
    """Their costs are in the file."""
    line = msgspec.structs.replace(ledger_line(0.5), mechanism="my own")
    mine = ledger_of(line, rows=ROWS)
    budget = opened(path)
    budget._record_payment("x", budget.terms.charge_of_ledger(mine), mine)
    loaded = dpbt.Filter.open(path)
    assert loaded.spent == pytest.approx(0.5)
    assert loaded.ledger.epsilon == pytest.approx(0.5)
