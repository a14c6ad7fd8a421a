"""Several processes that learn from one table, each with rows of its own."""

import contextlib
import socket
import sqlite3
import time

import jax
import numpy as np
import pytest

import dpbt
from dpbt.data import convert
from dpbt.training.blocks import fit_in_blocks, memory_plan, passes, processes
from tests.support import worker_process
from tests.support.block_commands import releases_in_checkpoint
from tests.support.worker_process import result_of_worker, start_worker

PUBLIC = jax.random.key(14)


def write_shares_and_fit_in_memory(folder, count, name="oblivious"):
    """Write the rows of each process; return the digest of the model of all rows in memory."""
    slices, domain, columns, labels = worker_process.rows_of_processes(count)
    for process, rows in enumerate(slices):
        columns_of_process = {name: column[rows] for name, column in columns.items()}
        convert.convert_columns(
            domain, columns_of_process, labels[rows], folder / f"share{process}", rows_per_block=170
        )
    table = dpbt.table(domain, columns, labels)
    recipe = worker_process.RECIPE_MAKERS[name](domain)
    model = dpbt.fit(jax.random.key(4), table, recipe, PUBLIC)
    return worker_process.digest_of_model(model)


def start_workers(folder, count, pause=0.0, name="oblivious"):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [
        start_worker("blocks", process, count, port, folder, pause, name)
        for process in range(count)
    ]


def test_sums_of_64_bits_travel_as_words(monkeypatch):
    """The messages of three processes are made here."""
    parts = [np.array([2**40 + 1, -5]), np.array([-(2**50), 7]), np.array([3, 2**33])]

    def all_of_them(message):
        assert message.dtype == np.int32
        assert message.tobytes() == parts[1].tobytes()
        return np.stack([part.view(np.int32) for part in parts])

    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(processes.multihost_utils, "process_allgather", all_of_them)
    sums = processes.sum_over_processes({"leaf": parts[1][:1], "other": parts[1][1:].reshape(1, 1)})
    np.testing.assert_array_equal(sums["leaf"], [2**40 + 4 - 2**50])
    np.testing.assert_array_equal(sums["other"], [[2**33 + 2]])
    first, second = processes.sum_over_processes({"split": (parts[1][:1], parts[1][1:])})["split"]
    assert (first.tolist(), second.tolist()) == ([2**40 + 4 - 2**50], [2**33 + 2])


@pytest.mark.slow
def test_processes_release_what_one_does(tmp_path):
    expected = write_shares_and_fit_in_memory(tmp_path, 3, "forest")
    results = [result_of_worker(process) for process in start_workers(tmp_path, 3, name="forest")]
    assert results == [{"model": expected, "processes": 3}] * 3


@pytest.mark.slow
def test_a_process_is_killed_and_all_are_started_again(tmp_path):
    """The other process ends by itself, and the second start goes on to the same model."""
    count = 2
    expected = write_shares_and_fit_in_memory(tmp_path, count)
    processes_killed = start_workers(tmp_path, count, pause=0.3)
    checkpoint = tmp_path / "checkpoint1"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and processes_killed[0].poll() is None:
        if checkpoint.exists() and checkpoint.stat().st_size > 2**15:
            break
        time.sleep(0.02)
    processes_killed[1].kill()
    statuses = []
    for process in processes_killed:
        with contextlib.suppress(ValueError):
            process.communicate(timeout=200)
        statuses.append(process.returncode)
    assert 0 not in statuses
    assert 0 < len(releases_in_checkpoint(checkpoint)) < 14
    with contextlib.closing(sqlite3.connect(tmp_path / "checkpoint0")) as database, database:
        database.execute("DELETE FROM release")  # as if it was killed before
    results = [result_of_worker(process) for process in start_workers(tmp_path, count)]
    assert {result["model"] for result in results} == {expected}


def test_positions_of_rows_follow_those_of_earlier_processes(tmp_path):
    """Capacity without rows counts, as in a table in memory."""
    domain, columns, labels = worker_process.random_rows(5, 300)
    table = convert.convert_columns(
        domain, columns, labels, tmp_path / "t", capacity=350, rows_per_block=170
    )
    slices = list(passes._slices_of_table(table, 64, 2**33))
    expected = np.cumsum([2**33, *(piece.num_rows for piece in slices)])[:-1]
    assert [piece.first_row for piece in slices] == expected.tolist()
    recipe = worker_process.oblivious_recipe(domain)
    plan = memory_plan.plan_memory(table, recipe, memory=2 * 2**30, threads=1)
    with passes.Passes(table, recipe, plan, first_row=2**33 + 1) as opened_passes:
        assert opened_passes._slices[0].first_row == 2**33 + 1


@pytest.mark.parametrize("differing", ["recipe", "key", "public_key", "table", "none"])
def test_processes_that_were_given_one_table_or_other_keys_are_refused(
    tmp_path, monkeypatch, differing
):
    """What the second of two processes says is made here."""
    domain, columns, labels = worker_process.random_rows(5, 300)
    table = convert.convert_columns(domain, columns, labels, tmp_path / "t")
    compared = iter(["recipe", "key", "public_key", "table", "the same table"])
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(
        processes,
        "gather_digests_from_processes",
        lambda text: [text, "00" * 32 if next(compared) == differing else text],
    )
    message = "the same table" if differing == "none" else f"different values of {differing};"
    with pytest.raises(ValueError, match=message):
        fit_in_blocks.check_fit_in_blocks(
            key=jax.random.key(4),
            table=table,
            recipe=worker_process.forest_recipe(domain),
            public_key=PUBLIC,
        )


def test_positions_of_a_process_start_after_the_capacity_of_those_before(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(jax, "process_index", lambda: 2)
    gathered_counts = np.array([[5, 2**32], [7, 9], [2, 3]])
    monkeypatch.setattr(processes, "gather_from_processes", lambda counts: gathered_counts)
    assert processes.count_rows_of_all_processes(num_present=2, capacity=3) == (
        14,
        2**32 + 12,
        2**32 + 9,
    )
