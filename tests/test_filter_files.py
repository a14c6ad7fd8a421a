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


def new_file_filter(path, epsilon=1.0):
    """A new filter of a file."""
    return dpbt.Filter(epsilon, rows=ROWS, path=path)


def pay(budget, cost=0.05):
    """A raw charge, which needs no recipe."""
    budget._record_payment(
        "x", filters.Charge(cost=cost, gap=0.0, tail=0.0), ledger_of(ledger_line(0.05))
    )


def edit_database(path, *statements):
    """Change the tables of a filter, and seal them again."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(*statement)
        [(terms, salt)] = database.execute("SELECT terms, salt FROM filter LIMIT 1")
        records = [record for (record,) in database.execute("SELECT record FROM release")]
        seal = filters.seal_of_file_texts([str(terms), str(salt), *records])
        database.execute("UPDATE filter SET seal = ?", [seal])


def test_a_filter_cannot_be_pickled():
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
    """Symbolic links, hard links and a new name of a moved file lead to one budget."""
    budget, link, second = new_file_filter(path), path.with_name("link"), path.with_name("second")
    link.symlink_to(path)
    os.link(path, second)
    for name in (link, second):
        pay(dpbt.Filter.open(name), 0.3)
        assert dpbt.Filter.open(name).spent == budget.spent
        with pytest.raises(ValueError, match="the file exists"):
            new_file_filter(name)
    path.rename(path.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        pay(budget)
    path.symlink_to(path.with_name("moved"))
    pay(budget, 0.3)
    assert dpbt.Filter.open(second).spent > 0.89


def test_only_its_owner_reads_a_new_file_and_a_crash_undoes_no_charge(path):
    budget = new_file_filter(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with budget._open_transaction() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@contextlib.contextmanager
def full_disk():
    """A context in which no file can grow beyond 100 bytes."""
    limits_before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler_before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits_before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits_before)
        signal.signal(signal.SIGXFSZ, handler_before)


def test_a_full_disk_refuses_before_anything_is_paid(path):
    budget = new_file_filter(path)
    with full_disk():
        with pytest.raises(OSError, match=re.escape(str(path))):
            budget.take(recipe_of_pool(0, 0.1))
        with pytest.raises(OSError, match="another"):
            new_file_filter(path.with_name("another.db"))
    assert budget.spent == 0
    assert not path.with_name("another.db").exists()
    budget.take(recipe_of_pool(0, 0.1))


def test_a_file_knows_the_keys_of_its_releases_and_the_runs_they_paid_for(path):
    """`payment_callback` pays for the run it is called with, and for no other under the key."""
    key, budget, recipe = jax.random.key(7), new_file_filter(path), recipe_of_pool(0, 0.1)
    for opened_filter in (budget, dpbt.Filter.open(path)):
        opened_filter.payment_callback(recipe, key)("a run")
    spent_before, reopened = budget.spent, dpbt.Filter.open(path)
    assert reopened.has_paid_for(key, "a run")
    assert not reopened.has_paid_for(key, "another")
    for pay_for_run in (
        reopened.payment_callback(recipe, key),
        lambda run: reopened.take(recipe, key, run),
    ):
        for run in ("another", None):
            with pytest.raises(ValueError, match="a key of its own"):
                pay_for_run(run)
    assert budget.spent == spent_before
    unsalted_digest = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes()).hexdigest()
    assert unsalted_digest.encode() not in path.read_bytes()  # it is salted


def test_a_file_replaced_by_an_old_copy_or_another_filter_is_refused(path):
    budget = new_file_filter(path)
    old_content = path.read_bytes()
    pay(budget)
    path.write_bytes(old_content)
    with pytest.raises(ValueError, match="less was spent"):
        pay(budget)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"filter\.db"):
        pay(budget)
    new_file_filter(path)
    with pytest.raises(ValueError, match="another filter"):
        _ = budget.remaining


DAMAGE = {
    "cut off": lambda content: content[:-1],
    "empty": lambda content: b"",
    "a number": lambda content: content.replace(b'"epsilon":1.0', b'"epsilon":9.0'),
    "no text": lambda content: content.replace(b'"epsilon":1.0', b'"epsilon":\xff.0'),
    "a page": lambda content: content[:4096] + bytes(4096) + content[8192:],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused_and_pays_for_nothing(path, name):
    budget = new_file_filter(path)
    pay(budget)
    damaged_content = DAMAGE[name](path.read_bytes())
    path.write_bytes(damaged_content)
    for use in (lambda: dpbt.Filter.open(path), lambda: pay(budget)):
        with pytest.raises(ValueError, match=r"bring back a copy that has every release") as caught:
            use()
        assert str(caught.value).startswith(f"{path}: not a filter")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == damaged_content


def change_of_entry(table, column, **changes):
    """The SQL that changes the terms or the first release."""
    return (f"UPDATE {table} SET {column} = json_patch({column}, ?)", [json.dumps(changes)])


EDITS = [
    *(change_of_entry("filter", "terms", epsilon=value) for value in (-1.0, "1", 10**400)),
    *(change_of_entry("filter", "terms", delta=value) for value in (1.5, 1e-6)),
    *(change_of_entry("filter", "terms", measure=value) for value in ("renyi", "rho")),
    change_of_entry("filter", "terms", relation="near"),
    change_of_entry("filter", "terms", rows=2**41),
    *(
        change_of_entry("release", "record", charge={"cost": value})
        for value in (-1.0, 1e308, "nan")
    ),
    change_of_entry("release", "record", key_id="00"),
    change_of_entry("release", "record", ledger={"lines": 3}),
    ("UPDATE release SET record = json_remove(record, '$.charge.cost')",),
    ("UPDATE filter SET terms = ''",),
    ("UPDATE filter SET terms = 7",),
    ("INSERT INTO filter SELECT * FROM filter",),
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_edits_that_were_sealed_again_are_refused(path, edit):
    pay(new_file_filter(path))
    edit_database(path)
    assert dpbt.Filter.open(path).spent == 0.05  # so the edit is what is refused
    edit_database(path, edit)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        dpbt.Filter.open(path)


def try_to_pay(path_or_filter, num_paid_queue):
    """Try 30 charges of a twentieth, and put the number that was paid into a queue."""
    is_filter = isinstance(path_or_filter, dpbt.Filter)
    budget = path_or_filter if is_filter else dpbt.Filter.open(path_or_filter)
    count = 0
    for _ in range(30):
        with contextlib.suppress(ValueError):
            pay(budget)
            count += 1
    num_paid_queue.put(count)


def check_that_workers_share(budget, *, path_or_filter, make_worker, num_paid_queue):
    """Check that exactly 20 of the charges that two workers try are paid."""
    workers = [
        make_worker(target=try_to_pay, args=(path_or_filter, num_paid_queue)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    assert sum(num_paid_queue.get(timeout=120) for _ in workers) == 20
    for worker in workers:
        worker.join()
    assert len(budget.ledger.parts) == 20
    assert budget.remaining < 1e-11


def test_a_folder_is_no_filter(tmp_path):
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        dpbt.Filter.open(tmp_path)


def test_threads_share_a_filter_or_its_file(path):
    budget = new_file_filter(path, 1.0 + 1e-12)
    filter_without_file = dpbt.Filter(1.0 + 1e-12, rows=ROWS)
    check_that_workers_share(
        budget, path_or_filter=path, make_worker=threading.Thread, num_paid_queue=queue.Queue()
    )
    check_that_workers_share(
        filter_without_file,
        path_or_filter=filter_without_file,
        make_worker=threading.Thread,
        num_paid_queue=queue.Queue(),
    )


@pytest.mark.slow
def test_processes_share_a_budget(path):
    context = multiprocessing.get_context("spawn")
    check_that_workers_share(
        new_file_filter(path, 1.0 + 1e-12),
        path_or_filter=path,
        make_worker=context.Process,
        num_paid_queue=context.Queue(),
    )


def test_no_other_charge_is_paid_between_the_check_and_the_payment(path, monkeypatch):
    first, second = new_file_filter(path), dpbt.Filter.open(path)
    check, filters_checked = dpbt.Filter._check_affordable, []

    def try_to_pay_between(budget, spent, charge):
        if not filters_checked:
            filters_checked.append(budget)
            with pytest.raises(ValueError, match="another run is at work in"):
                pay(second)
        check(budget, spent, charge)

    monkeypatch.setattr(filters, "_LOCK_SECONDS", 0)
    monkeypatch.setattr(dpbt.Filter, "_check_affordable", try_to_pay_between)
    pay(first)
    assert filters_checked
    assert second.spent == first.spent == 0.05


def test_a_filter_that_was_given_no_file_deletes_its_own_at_its_end():
    budget = dpbt.Filter(1.0, rows=ROWS)
    own_file = budget._path
    assert stat.S_IMODE(own_file.parent.stat().st_mode) == 0o700
    # A forked child has another process id.
    filters._remove_folder_in_same_process(str(own_file.parent), os.getpid() + 1)
    assert own_file.exists()
    del budget
    assert not own_file.parent.exists()


def test_draws_of_a_custom_mechanism_count_when_the_file_is_read(path):
    """The costs of such draws are in the file."""
    line = msgspec.structs.replace(ledger_line(0.5), mechanism="my own")
    ledger = ledger_of(line, rows=ROWS)
    budget = new_file_filter(path)
    budget._record_payment("x", budget.terms.charge_of_ledger(ledger), ledger)
    loaded = dpbt.Filter.open(path)
    assert loaded.spent == pytest.approx(0.5)
    assert loaded.ledger.epsilon == pytest.approx(0.5)
