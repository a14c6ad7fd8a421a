"""Ctrl-C and other signals: what an interrupted command says is true of what it leaves."""

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
FIT_COMMAND = ("fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", "m.json")
FILTER_OPTION = ("--filter", "filter.db")
PAID_FIT = (*FIT_COMMAND, *FILTER_OPTION)


def send_signal(name="SIGINT"):
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(5)  # the signal interrupts it


def interrupt_before(function, name="SIGINT"):
    """The function, at whose call the process gets a signal before anything is done."""

    def with_interruption(*arguments, **options):
        send_signal(name)
        return function(*arguments, **options)

    return with_interruption


def interrupt_after(function, name="SIGINT"):
    """The function, after whose call the process gets a signal."""

    def with_interruption(*arguments, **options):
        function(*arguments, **options)
        send_signal(name)

    return with_interruption


def fit_interrupted_after_payment(name="SIGINT", error=None):
    """A fit that is interrupted once it was paid for; the interruption may become an error."""
    real_fit = fit.fit_without_key_warning

    def paid_and_interrupted(*, options, **arguments):
        options = dataclasses.replace(options, pay=interrupt_after(options.pay, name))
        try:
            return real_fit(options=options, **arguments)
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error from None

    return paid_and_interrupted


def interruption_line(capsys, *arguments, status=130):
    """Run a command that is interrupted; the last line that it prints."""
    capsys.readouterr()
    assert run_command(*arguments) == status
    err = capsys.readouterr().err
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert lines[-1].startswith("interrupted; ")
    return lines[-1]


def spent_budget():
    return dpbt.Filter.open("filter.db").spent


@pytest.fixture
def budget(rows_folder):
    return dpbt.Filter(epsilon=20, rows=400, path="filter.db")


@pytest.mark.parametrize("name", SIGNALS)
def test_before_a_payment_nothing_is_paid_and_the_same_command_starts_anew(
    budget, capsys, monkeypatch, name
):
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_columns", interrupt_before(files.read_columns, name))
        line = interruption_line(capsys, *PAID_FIT, status=SIGNALS[name])
    assert "nothing was paid; the same command starts anew" in line
    assert spent_budget() == 0
    assert not Path("m.json").exists()
    assert run_command(*PAID_FIT) == 0


@pytest.mark.parametrize("name", SIGNALS)
def test_after_a_payment_without_a_checkpoint_the_command_says_that_the_budget_is_spent(
    budget, capsys, monkeypatch, name
):
    monkeypatch.setattr(fit, "fit_without_key_warning", fit_interrupted_after_payment(name))
    line = interruption_line(capsys, *PAID_FIT, status=SIGNALS[name])
    assert "its budget is spent" in line
    assert "another fit pays again: filter.db: epsilon = 16 of 20 is left" in line
    assert spent_budget() == pytest.approx(4, rel=1e-6)
    assert not Path("m.json").exists()


def test_an_interruption_that_a_library_turns_into_an_error_is_still_reported_as_one(
    budget, capsys, monkeypatch
):
    failing = fit_interrupted_after_payment(error=RuntimeError("a callback was interrupted"))
    monkeypatch.setattr(fit, "fit_without_key_warning", failing)
    assert "its budget is spent" in interruption_line(capsys, *PAID_FIT)


def test_without_a_filter_nothing_is_said_of_a_payment(rows_folder, capsys, monkeypatch):
    monkeypatch.setattr(fit, "fit_without_key_warning", fit_interrupted_after_payment())
    line = interruption_line(capsys, *FIT_COMMAND)
    assert line.endswith("nothing was released; the same command starts anew")


@pytest.mark.parametrize("seed", [(), ("--seed", 3)], ids=["release key", "research key"])
def test_a_paid_run_with_a_checkpoint_goes_on_under_its_own_key(budget, capsys, monkeypatch, seed):
    assert convert_rows() == 0
    command = ("fit", "rows.chunks", *FIT_COMMAND[2:], *FILTER_OPTION, *seed, "--checkpoint", "run")
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_columns", interrupt_before(files.read_columns))
        patch.setattr(rows, "_open_table_of_folder", interrupt_before(rows._open_table_of_folder))
        line = interruption_line(capsys, *command)
    assert "nothing was paid; the same command starts anew" in line
    assert not Path("run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(fit, "fit_without_key_warning", fit_interrupted_after_payment())
        line = interruption_line(capsys, *command)
    assert "the same command goes on from run, and does not pay again" in line
    spent_at_first = spent_budget()
    assert spent_at_first == pytest.approx(4, rel=1e-6)
    assert run_command(*command) == 0
    assert spent_budget() == spent_at_first
    dpbt.load("m.json")


def test_a_begun_run_that_was_not_paid_for_pays_when_it_goes_on(budget, capsys, monkeypatch):
    assert convert_rows() == 0
    command = ("fit", "rows.chunks", *FIT_COMMAND[2:], *FILTER_OPTION, "--checkpoint", "run")
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "take", interrupt_before(dpbt.Filter.take))
        line = interruption_line(capsys, *command)
    assert "the same command goes on from run, and pays then" in line
    assert spent_budget() == 0
    assert run_command(*command) == 0
    assert spent_budget() == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_paid_model_is_not_lost_if_its_writing_is_interrupted(
    budget, capsys, monkeypatch, tmp_path_factory, name
):
    temporary_folder, real_save = tmp_path_factory.mktemp("elsewhere"), dpbt.save
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_folder))
    signals = iter([name])

    def save(model, path, **options):
        if next(signals, None):
            send_signal(name)
        real_save(model, path, **options)

    monkeypatch.setattr(dpbt, "save", save)
    capsys.readouterr()
    assert run_command(*PAID_FIT) == SIGNALS[name]
    (saved_model,) = temporary_folder.glob("*/m.json")
    err = capsys.readouterr().err
    assert f"move {saved_model} there" in err
    assert err.endswith(f"\ninterrupted; the model was written to {saved_model}\n")
    dpbt.load(saved_model)
    assert not Path("m.json").exists()


def test_a_paid_model_is_written_elsewhere_if_a_pipe_got_only_a_part_of_it(
    budget, capsys, monkeypatch, tmp_path_factory
):
    temporary_folder, real_save = tmp_path_factory.mktemp("elsewhere"), dpbt.save
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_folder))
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)

    def save(model, path, **options):
        if path == Path("pipe"):
            path.write_text("a part")
            send_signal()
        real_save(model, path, **options)

    monkeypatch.setattr(dpbt, "save", save)
    line = interruption_line(capsys, *FIT_COMMAND[:-1], "pipe", *FILTER_OPTION)
    os.close(reader)
    (saved_model,) = temporary_folder.glob("*/pipe")
    assert line == f"interrupted; the model was written to {saved_model}"
    dpbt.load(saved_model)


def test_after_the_model_is_written_the_command_says_so(budget, capsys, monkeypatch):
    assert convert_rows() == 0
    options = (*FILTER_OPTION, "--checkpoint", "run")
    command = ("fit", "rows.chunks", *FIT_COMMAND[2:-1], "n.json", *options)
    with monkeypatch.context() as patch:
        patch.setattr(dpbt, "save", interrupt_after(dpbt.save))
        assert interruption_line(capsys, *PAID_FIT) == "interrupted; m.json was written"
        line = interruption_line(capsys, *command)
    dpbt.load("m.json")
    assert "n.json was written; keep run secret" in line
    assert "the same command with --force deletes them" in line
    assert checkpoint_holds_keys()
    content, spent_at_first = Path("n.json").read_bytes(), spent_budget()
    assert run_command(*command, "--force") == 0
    assert not checkpoint_holds_keys()
    assert (Path("n.json").read_bytes(), spent_budget()) == (content, spent_at_first)


# Other commands.


def test_other_commands_say_whether_their_files_were_written(
    rows_folder, forest_model_file, capsys, monkeypatch
):
    model = forest_model_file
    predict = ("predict", model, "rows.csv", "--out", "p.csv")
    with monkeypatch.context() as patch:
        patch.setattr(
            models, "_write_predictions_as_csv", interrupt_after(models._write_predictions_as_csv)
        )
        assert interruption_line(capsys, *predict) == "interrupted; p.csv was not written"
        assert (
            interruption_line(capsys, *predict[:3]) == "interrupted; the output may be incomplete"
        )
    assert not list(Path().glob(".dpbt-*"))
    with monkeypatch.context() as patch:
        patch.setattr(models, "write_atomically", interrupt_after(models.write_atomically))
        assert interruption_line(capsys, *predict) == "interrupted; p.csv was written"
        assert interruption_line(capsys, *predict, "--force") == "interrupted; p.csv was written"
        statement_command = ("statement", model, "--html", "s.html")
        assert interruption_line(capsys, *statement_command) == "interrupted; s.html was written"
    with monkeypatch.context() as patch:
        patch.setattr(statement.Statement, "page", interrupt_before(statement.Statement.page))
        statement_command = ("statement", model, "--html", "t.html")
        assert (
            interruption_line(capsys, *statement_command) == "interrupted; t.html was not written"
        )
    with monkeypatch.context() as patch:
        patch.setattr(models, "_measure_predictions", interrupt_before(models._measure_predictions))
        evaluate = ("evaluate", model, "rows.csv", "--domain", "domain.json")
        assert interruption_line(capsys, *evaluate) == "interrupted; the output may be incomplete"


def test_an_interrupted_conversion_says_that_it_starts_anew(rows_folder, capsys, monkeypatch):
    from dpbt.data import convert

    command = ("convert", "domain.json", "rows.csv", "rows.chunks")
    with monkeypatch.context() as patch:
        patch.setattr(convert, "_write_block", interrupt_after(convert._write_block))
        line = interruption_line(capsys, *command)
    assert line == "interrupted; rows.chunks was not written; the same command starts anew"
    assert not Path("rows.chunks").exists()
    with monkeypatch.context() as patch:
        patch.setattr(convert, "convert_rows", interrupt_after(convert.convert_rows))
        assert interruption_line(capsys, *command) == "interrupted; rows.chunks was written"
    dpbt.blocks.open_folder("rows.chunks")


def test_an_interrupted_filter_says_where_to_look(budget, capsys, monkeypatch):
    new_command = ("filter", "new", "g.db", "--epsilon", 1, "--rows", 9)
    charge_command = ("filter", "charge", "filter.db", "--name", "a table", "--laplace", 2)
    with monkeypatch.context() as patch:
        patch.setattr(
            dpbt.Filter, "_create_database", interrupt_before(dpbt.Filter._create_database)
        )
        assert interruption_line(capsys, *new_command) == "interrupted; g.db was not written"
    with monkeypatch.context() as patch:
        patch.setattr(
            dpbt.Filter, "_create_database", interrupt_after(dpbt.Filter._create_database)
        )
        assert interruption_line(capsys, *new_command) == "interrupted; g.db was written"
    assert dpbt.Filter.open("g.db").spent == 0
    with monkeypatch.context() as patch:
        patch.setattr(dpbt.Filter, "_record_payment", interrupt_before(dpbt.Filter._record_payment))
        line = interruption_line(capsys, *charge_command)
    assert line == "interrupted; `dpbt filter show filter.db` says whether it was paid for"


def test_a_command_restores_the_handlers_of_signals(rows_folder, capsys):
    handlers_before = {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS}
    run_command("theorem", "O1")
    assert {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS} == handlers_before


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_a_process_that_is_asked_to_end_reports_truly_what_it_leaves(budget, name):
    """The signal comes from another process, at the moment of the payment."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "dpbt", *PAID_FIT, "--rounds", "300"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not spent_budget() and process.poll() is None:
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
