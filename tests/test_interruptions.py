"""Ctrl-C and signals that ask a process to end: what a command says is true of what it leaves."""

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import dpbt
from dpbt.data import files
from dpbt.models import statement
from dpbt.owners.cli import models, rows
from dpbt.training import fit
from tests.support import ROOT
from tests.support.block_commands import (
    FIT_OPTIONS,
    FOREST_OPTIONS,
    checkpoint_holds_keys,
    convert_rows,
    run_command,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
FIT = ("fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", "m.json")
FILTER = ("--filter", "filter.db")


def send(name="SIGINT"):
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(5)  # the signal interrupts it


def before(function, name="SIGINT"):
    """The function, whose caller is interrupted before it does anything."""

    def interrupted(*arguments, **options):
        send(name)
        return function(*arguments, **options)

    return interrupted


def after(function, name="SIGINT"):
    """The function, whose caller is interrupted when it has done all."""

    def interrupted(*arguments, **options):
        function(*arguments, **options)
        send(name)

    return interrupted


def after_payment(name="SIGINT", error=None):
    """Let a fit be interrupted once it was paid for; the interruption may become an error."""
    real_fit = fit.fit_without_key_warning

    def paid_and_interrupted(*, options, **arguments):
        options = dataclasses.replace(options, pay=after(options.pay, name))
        try:
            return real_fit(options=options, **arguments)
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error from None

    return paid_and_interrupted


def interrupted(capsys, *words, status=130):
    """What a command that is interrupted says."""
    capsys.readouterr()
    assert run_command(*words) == status
    err = capsys.readouterr().err
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert lines[-1].startswith("interrupted; ")
    return lines[-1]


def spent():
    return dpbt.Filter.open("filter.db").spent


@pytest.fixture
def budget(rows_folder):
    return dpbt.Filter(epsilon=20, rows=400, path="filter.db")


@pytest.mark.parametrize("name", SIGNALS)
def test_before_a_payment_nothing_is_paid_and_the_same_command_starts_anew(
    budget, capsys, monkeypatch, name
):
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_columns", before(files.read_columns, name))
        said = interrupted(capsys, *FIT, *FILTER, status=SIGNALS[name])
    assert "nothing was paid; the same command starts anew" in said
    assert spent() == 0
    assert not Path("m.json").exists()
    assert run_command(*FIT, *FILTER) == 0


@pytest.mark.parametrize("name", SIGNALS)
def test_after_a_payment_without_a_checkpoint_the_budget_is_gone_and_it_says_so(
    budget, capsys, monkeypatch, name
):
    monkeypatch.setattr(fit, "fit_without_key_warning", after_payment(name))
    said = interrupted(capsys, *FIT, *FILTER, status=SIGNALS[name])
    assert "its budget is spent" in said
    assert "another fit pays again: filter.db: epsilon = 16 of 20 is left" in said
    assert spent() == pytest.approx(4, rel=1e-6)
    assert not Path("m.json").exists()


def test_an_interruption_that_a_library_made_an_error_is_still_one(budget, capsys, monkeypatch):
    failing = after_payment(error=RuntimeError("a callback was interrupted"))
    monkeypatch.setattr(fit, "fit_without_key_warning", failing)
    assert "its budget is spent" in interrupted(capsys, *FIT, *FILTER)


def test_without_a_filter_nothing_is_said_of_a_payment(rows_folder, capsys, monkeypatch):
    monkeypatch.setattr(fit, "fit_without_key_warning", after_payment())
    said = interrupted(capsys, *FIT)
    assert said.endswith("nothing was released; the same command starts anew")


@pytest.mark.parametrize("seed", [(), ("--seed", 3)])
def test_a_paid_run_with_a_checkpoint_goes_on_under_its_own_key(budget, capsys, monkeypatch, seed):
    assert convert_rows() == 0
    words = ("fit", "rows.chunks", *FIT[2:], *FILTER, *seed, "--checkpoint", "run")
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_columns", before(files.read_columns))
        patch.setattr(rows, "_open_table_of_folder", before(rows._open_table_of_folder))
        said = interrupted(capsys, *words)
    assert "nothing was paid; the same command starts anew" in said
    assert not Path("run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(fit, "fit_without_key_warning", after_payment())
        said = interrupted(capsys, *words)
    assert "the same command goes on from run, and does not pay again" in said
    paid = spent()
    assert paid == pytest.approx(4, rel=1e-6)
    assert run_command(*words) == 0
    assert spent() == paid
    dpbt.load("m.json")


def test_a_begun_run_that_was_not_paid_for_pays_when_it_goes_on(budget, capsys, monkeypatch):
    assert convert_rows() == 0
    words = ("fit", "rows.chunks", *FIT[2:], *FILTER, "--checkpoint", "run")
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "take", before(dpbt.Filter.take))
        said = interrupted(capsys, *words)
    assert "the same command goes on from run, and pays then" in said
    assert spent() == 0
    assert run_command(*words) == 0
    assert spent() == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("name", SIGNALS)
def test_an_interruption_while_a_paid_model_is_written_loses_none(
    budget, capsys, monkeypatch, tmp_path_factory, name
):
    elsewhere, real_save = tmp_path_factory.mktemp("elsewhere"), dpbt.save
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    times = iter([name])

    def save(model, path, **options):
        if next(times, None):
            send(name)
        real_save(model, path, **options)

    monkeypatch.setattr(dpbt, "save", save)
    capsys.readouterr()
    assert run_command(*FIT, *FILTER) == SIGNALS[name]
    (kept,) = elsewhere.glob("*/m.json")
    err = capsys.readouterr().err
    assert f"move {kept} there" in err
    assert err.endswith(f"\ninterrupted; the model was written to {kept}\n")
    dpbt.load(kept)
    assert not Path("m.json").exists()


def test_a_pipe_that_got_a_part_of_a_paid_model_is_not_counted_on(
    budget, capsys, monkeypatch, tmp_path_factory
):
    elsewhere, real_save = tmp_path_factory.mktemp("elsewhere"), dpbt.save
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)

    def save(model, path, **options):
        if path == Path("pipe"):
            path.write_text("a part")
            send()
        real_save(model, path, **options)

    monkeypatch.setattr(dpbt, "save", save)
    said = interrupted(capsys, *FIT[:-1], "pipe", *FILTER)
    os.close(reader)
    (kept,) = elsewhere.glob("*/pipe")
    assert said == f"interrupted; the model was written to {kept}"
    dpbt.load(kept)


def test_after_the_model_is_written_it_says_so(budget, capsys, monkeypatch):
    assert convert_rows() == 0
    words = ("fit", "rows.chunks", *FIT[2:-1], "n.json", *FILTER, "--checkpoint", "run")
    with monkeypatch.context() as patch:
        patch.setattr(dpbt, "save", after(dpbt.save))
        assert interrupted(capsys, *FIT, *FILTER) == "interrupted; m.json was written"
        said = interrupted(capsys, *words)
    dpbt.load("m.json")
    assert "n.json was written; keep run secret" in said
    assert "the same command with --force deletes them" in said
    assert checkpoint_holds_keys()
    content, paid = Path("n.json").read_bytes(), spent()
    assert run_command(*words, "--force") == 0
    assert not checkpoint_holds_keys()
    assert (Path("n.json").read_bytes(), spent()) == (content, paid)


# Other commands.


def test_other_commands_say_whether_their_files_were_written(
    rows_folder, forest_model_file, capsys, monkeypatch
):
    model = forest_model_file
    predict = ("predict", model, "rows.csv", "--out", "p.csv")
    with monkeypatch.context() as patch:
        patch.setattr(models, "_write_predictions_as_csv", after(models._write_predictions_as_csv))
        assert interrupted(capsys, *predict) == "interrupted; p.csv was not written"
        assert interrupted(capsys, *predict[:3]) == "interrupted; the output may be incomplete"
    assert not list(Path().glob(".dpbt-*"))
    with monkeypatch.context() as patch:
        patch.setattr(models, "write_atomically", after(models.write_atomically))
        assert interrupted(capsys, *predict) == "interrupted; p.csv was written"
        assert interrupted(capsys, *predict, "--force") == "interrupted; p.csv was written"
        html = ("statement", model, "--html", "s.html")
        assert interrupted(capsys, *html) == "interrupted; s.html was written"
    with monkeypatch.context() as patch:
        patch.setattr(statement.Statement, "page", before(statement.Statement.page))
        html = ("statement", model, "--html", "t.html")
        assert interrupted(capsys, *html) == "interrupted; t.html was not written"
    with monkeypatch.context() as patch:
        patch.setattr(models, "_measure_predictions", before(models._measure_predictions))
        evaluate = ("evaluate", model, "rows.csv", "--domain", "domain.json")
        assert interrupted(capsys, *evaluate) == "interrupted; the output may be incomplete"


def test_a_conversion_says_that_it_starts_anew(rows_folder, capsys, monkeypatch):
    from dpbt.data import convert

    words = ("convert", "domain.json", "rows.csv", "rows.chunks")
    with monkeypatch.context() as patch:
        patch.setattr(convert, "_write_block", after(convert._write_block))
        said = interrupted(capsys, *words)
    assert said == "interrupted; rows.chunks was not written; the same command starts anew"
    assert not Path("rows.chunks").exists()
    with monkeypatch.context() as patch:
        patch.setattr(convert, "convert_rows", after(convert.convert_rows))
        assert interrupted(capsys, *words) == "interrupted; rows.chunks was written"
    dpbt.blocks.open_folder("rows.chunks")


def test_a_filter_says_where_to_look(budget, capsys, monkeypatch):
    new = ("filter", "new", "g.db", "--epsilon", 1, "--rows", 9)
    charge = ("filter", "charge", "filter.db", "--name", "a table", "--laplace", 2)
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "_create_database", before(dpbt.Filter._create_database))
        assert interrupted(capsys, *new) == "interrupted; g.db was not written"
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "_create_database", after(dpbt.Filter._create_database))
        assert interrupted(capsys, *new) == "interrupted; g.db was written"
    assert dpbt.Filter.open("g.db").spent == 0
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "_record_payment", before(dpbt.Filter._record_payment))
        said = interrupted(capsys, *charge)
    assert said == "interrupted; `dpbt filter show filter.db` says whether it was paid for"


def test_handlers_of_signals_are_as_before(rows_folder, capsys):
    former = {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS}
    run_command("theorem", "O1")
    assert {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS} == former


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_a_process_that_is_asked_to_end_says_what_is_true(budget, name):
    """A signal at the moment of the payment, from outside."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "dpbt", *FIT, *FILTER, "--rounds", "300"]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    while not spent() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(getattr(signal, name))
    err = process.communicate(timeout=120)[1]
    assert "Traceback" not in err
    if Path("m.json").exists():
        dpbt.load("m.json")
        assert process.returncode == 0 or "m.json was written" in err
    else:
        assert process.returncode == SIGNALS[name]
        assert "its budget is spent" in err
