"""Files of filters, and filters of threads and processes."""

import contextlib
import hashlib
import itertools
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
import numpy as np
import pytest

import dpbt
from dpbt.privacy import charges, mechanisms
from dpbt.privacy import filter as filters
from dpbt.privacy.accounting import line_of
from tests.filters import ROWS, book, filter_of, line, pooled


@pytest.fixture
def path(tmp_path):
    return tmp_path / "filter.db"


def opened(path, epsilon=1.0):
    """A new filter of a file."""
    return dpbt.Filter(epsilon, rows=ROWS, path=path)


def pay(budget, cost=0.05):
    """A raw charge, which needs no recipe."""
    budget._pay("x", charges.Charge(cost, 0.0, 0.0), book(line(0.05)))


def spends(budget, tries=30):
    """How many charges of a twentieth were paid."""
    count = 0
    for _ in range(tries):
        with contextlib.suppress(ValueError):
            pay(budget)
            count += 1
    return count


def edited(path, *statements):
    """Change the tables, under a seal of their own."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(*statement)
        [(terms, salt)] = database.execute("SELECT terms, salt FROM filter LIMIT 1")
        records = [each for (each,) in database.execute("SELECT record FROM release")]
        seal = filters.seal_of([str(terms), str(salt), *records])
        database.execute("UPDATE filter SET seal = ?", [seal])


def test_a_filter_has_no_copy():
    with pytest.raises(TypeError, match="twice"):
        pickle.dumps(dpbt.Filter(1.0, rows=ROWS))


def test_filters_of_one_file_share_a_budget(path):
    path = path.parent / "folder" / path.name
    first = filter_of("rho", 1.0, path=path)
    second = dpbt.Filter.open(path)
    assert repr(second) == repr(first)
    second.take(pooled(3, 0.3))
    first.take(pooled(3, 0.3))
    assert first.spent == second.spent == pytest.approx(2 * first.ledger.parts[0].rho, rel=1e-5)
    assert first.ledger == second.ledger == dpbt.Filter.open(path).ledger
    assert str(first) == str(second)


def test_a_file_that_exists_is_never_overwritten(path):
    path.write_text("mine")
    with pytest.raises(ValueError, match="the file exists"):
        opened(path)
    assert path.read_text() == "mine"


def test_all_names_of_a_file_lead_to_one_budget(path):
    """Symbolic links, hard links, and the new name of a file that was moved."""
    budget, link, second = opened(path), path.with_name("link"), path.with_name("second")
    link.symlink_to(path)
    os.link(path, second)
    for name in (link, second):
        pay(dpbt.Filter.open(name), 0.3)
        assert dpbt.Filter.open(name).spent == budget.spent
    with pytest.raises(ValueError, match="the file exists"):
        opened(link)
    moved = path.with_name("moved")
    path.rename(moved)
    with pytest.raises(FileNotFoundError):
        pay(budget)
    path.symlink_to(moved)
    pay(budget, 0.3)
    assert dpbt.Filter.open(second).spent > 0.89


def test_only_its_owner_reads_a_new_file_and_a_crash_undoes_no_charge(path):
    budget = opened(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with budget._transaction() as database:
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
            budget.take(pooled(0, 0.1))
        with pytest.raises(OSError, match="another"):
            opened(path.with_name("another.db"))
    assert budget.spent == 0
    assert not path.with_name("another.db").exists()
    budget.take(pooled(0, 0.1))


def die_paying(path, last):
    """Pay, and be killed before a statement; pages of the database are written before the end."""
    connect, seen = filters._connect, itertools.count()

    def traced(database):
        connection = connect(database)
        connection.execute("PRAGMA cache_size = 1")
        connection.set_trace_callback(
            lambda _: next(seen) == last and os.kill(os.getpid(), signal.SIGKILL)
        )
        return connection

    filters._connect = traced
    quiet = book(*(line(0.05, site=f"site {number}") for number in range(200)))
    dpbt.Filter.open(path)._pay("x", charges.Charge(0.05, 0.0, 0.0), quiet)
    os._exit(0)


@pytest.mark.slow
def test_a_charge_that_is_killed_is_in_the_file_or_not(path):
    budget, journal, journals = opened(path), path.with_name(f"{path.name}-journal"), 0
    context = multiprocessing.get_context("spawn")
    for last in range(20):
        before = dpbt.Filter.open(path).spent
        child = context.Process(target=die_paying, args=(path, last))
        child.start()
        child.join()
        journals += journal.exists()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        assert budget.spent == before == 0
    assert journals  # SQLite undid what was half written
    assert budget.spent == 0.05


def test_a_file_that_is_not_to_be_written_refuses_and_can_be_shown(path, monkeypatch):
    budget, connect = opened(path), filters._connect

    def read_only(path):  # root may write all files
        connection = connect(path)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(filters, "_connect", read_only)
    with pytest.raises(OSError, match=re.escape(str(path))):
        budget.take(pooled(0, 0.1))
    assert dpbt.Filter.open(path).spent == 0


def test_a_file_knows_the_keys_of_its_releases(path):
    key, budget = jax.random.key(7), opened(path)
    budget.take(pooled(0, 0.1), key)
    other = dpbt.Filter.open(path)
    assert other.has_paid_for(key)
    with pytest.raises(ValueError, match="a key of its own"):
        other.take(pooled(0, 0.1), key)
    other.take(pooled(0, 0.1), jax.random.key(8))
    with pytest.raises(ValueError, match="a key of its own"):
        budget.take(pooled(0, 0.1), jax.random.key(8))
    plain = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes()).hexdigest()
    assert plain.encode() not in path.read_bytes()  # it is salted


def test_a_run_is_paid_for_once(path):
    """`paying` pays for the run it is called with, and for no other under the key."""
    key, budget, recipe = jax.random.key(7), opened(path), pooled(0, 0.1)
    for each in (budget, dpbt.Filter.open(path)):
        each.paying(recipe, key)("a run")
    spent = budget.spent
    assert budget.has_paid_for(key, "a run")
    assert not budget.has_paid_for(key, "another")
    for run in ("another", None):
        with pytest.raises(ValueError, match="a key of its own"):
            budget.paying(recipe, key)(run)
    assert budget.spent == spent


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
    "cut off": lambda whole: whole[: len(whole) // 2],
    "nearly cut off": lambda whole: whole[:-1],
    "empty": lambda whole: b"",
    "a file of before": lambda whole: b'{\n "format": "dpbt purse",\n "format_version": 1}\n',
    "a number": lambda whole: whole.replace(b'"epsilon":1.0', b'"epsilon":9.0'),
    "no text": lambda whole: whole.replace(b'"epsilon":1.0', b'"epsilon":\xff.0'),
    "a page": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
    "the schema": lambda whole: whole.replace(b"CREATE", b"CREATX"),
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
        assert str(caught.value).startswith(f"{path}: not a filter, or changed or damaged")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == whole


def of_terms(**changes):
    """A change of the terms."""
    patch = json.dumps(changes)
    return ("UPDATE filter SET terms = json_patch(terms, ?)", [patch])


def of_release(**changes):
    """A change of the first release."""
    patch = json.dumps(changes)
    return ("UPDATE release SET record = json_patch(record, ?)", [patch])


EDITS = {
    **{
        f"{name} {value}": of_terms(**{name: value})
        for name, value in (
            ("epsilon", -1.0),
            ("epsilon", "1"),
            ("epsilon", 10**400),
            ("delta", 1.5),
            ("delta", 1e-6),
            ("relation", "near"),
            ("measure", "renyi"),
            ("measure", "rho"),
            ("rows", 0),
            ("rows", 2**41),
            ("max_rows_per_user", []),
        )
    },
    **{
        f"{name} of a release {value}": of_release(**{name: value})
        for name, value in (
            ("charge", {"cost": -1.0}),
            ("charge", {"cost": 1e308}),
            ("charge", {"cost": "nan"}),
            ("charge", {"gap": True}),
            ("name", 3),
            ("key_id", "00"),
            ("ledger", {"rows": 2**41}),
            ("ledger", {"lines": 3}),
        )
    },
    "a lost cost": ("UPDATE release SET record = json_remove(record, '$.charge.cost')",),
    "no terms": ("UPDATE filter SET terms = ''",),
    "a number as terms": ("UPDATE filter SET terms = 7",),
    "two filters": ("INSERT INTO filter SELECT * FROM filter",),
    "another version": ("PRAGMA user_version = 1",),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits_under_a_seal_of_their_own_are_refused(path, name):
    pay(opened(path))
    edited(path)
    assert dpbt.Filter.open(path).spent == 0.05  # so the edit is what is refused
    edited(path, EDITS[name])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        dpbt.Filter.open(path)


def charged(path, taken):
    taken.put(spends(dpbt.Filter.open(path)))


def shared(path, start, queue):
    """Two workers try 30 charges of a twentieth each; exactly 20 of these fit."""
    budget = opened(path, 1.0 + 1e-12)
    workers = [start(target=charged, args=(path, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    taken = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 20
    assert len(budget.ledger.parts) == 20
    assert budget.remaining < 1e-11


def test_filters_of_one_file_in_two_threads_share_a_budget(path):
    shared(path, threading.Thread, queue.Queue())


def test_nobody_pays_between_reading_and_writing(path, monkeypatch):
    first, second = opened(path), dpbt.Filter.open(path)
    check, tried = dpbt.Filter._check_left, []

    def between(budget, spent, charge):
        if not tried:
            tried.append(budget)
            with pytest.raises(OSError, match="locked"):
                pay(second)
        check(budget, spent, charge)

    monkeypatch.setattr(filters, "_WAIT", 0)
    monkeypatch.setattr(dpbt.Filter, "_check_left", between)
    pay(first)
    assert tried
    assert second.spent == first.spent == 0.05


@pytest.mark.slow
def test_processes_share_a_budget(path):
    context = multiprocessing.get_context("spawn")
    shared(path, context.Process, context.Queue())


def test_threads_share_a_filter_without_a_file():
    budget, taken = dpbt.Filter(1.0 + 1e-12, rows=ROWS), []
    threads = [threading.Thread(target=lambda: taken.append(spends(budget, 10))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == len(budget.ledger.parts) == 20


def test_two_filters_that_trust_their_memory_spend_twice(path, monkeypatch):
    """A planted mistake: a filter that decides by what it saw before, and not by its file."""
    opened(path)
    first, second = dpbt.Filter.open(path), dpbt.Filter.open(path)
    monkeypatch.setattr(dpbt.Filter, "_releases", lambda *_: [])
    pay(first, 0.7)
    pay(second, 0.7)
    monkeypatch.undo()
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM release").fetchone() == (2,)


def test_a_filter_without_a_file_ends_with_it(path):
    budget = dpbt.Filter(1.0, rows=ROWS)
    kept = budget._path
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    del budget
    assert not kept.parent.exists()


def test_draws_by_a_mechanism_of_ones_own_still_count(path):
    """Their costs are in the file."""
    own = mechanisms.discrete_laplace._replace(name="my own")
    mine = book(line_of("x", own, "counts", 1.0, 2.0, "none", moved=1), rows=ROWS)
    budget = opened(path)
    budget._pay("x", budget.terms.charge(mine), mine)
    loaded = dpbt.Filter.open(path)
    assert loaded.spent == budget.spent == pytest.approx(0.5)
    assert loaded.ledger.epsilon == budget.ledger.epsilon == pytest.approx(0.5)
