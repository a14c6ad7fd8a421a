"""The command line of dpbt: what it reads, writes and refuses."""

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import audit as audits
from dpbt.common.progress import Progress, show_progress
from dpbt.common.storage import sha256_of_json_without_checksum
from dpbt.data import domains, files
from dpbt.data.domains import template
from dpbt.owners.cli import compilation_cache as cached
from dpbt.privacy import keys
from dpbt.training import fit as training_fit
from tests.support import ROOT
from tests.support.command_lines import (
    BOUND,
    COLUMNS,
    NUM_ROWS,
    RECIPES,
    SITES,
    TWO_CLASSES,
    fit_command,
    refusal_line,
    run_command,
    write_rows_and_domains,
)
from tests.support.example_tables import keys_of_seed
from tests.support.random_models import random_model


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with rows, domains and models, and what the fit of two classes printed."""
    folder = tmp_path_factory.mktemp("fitted")
    write_rows_and_domains(folder)
    with pytest.MonkeyPatch.context() as patch:
        stdout, stderr = io.StringIO(), io.StringIO()
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", stderr)
        assert command_line.main(fit_command(folder)) == 0
        out, err = stdout.getvalue(), stderr.getvalue()
        assert command_line.main(fit_command(folder, "rings.model", label="rings")) == 0
    domain, label = domains.read_domain(folder / "site.json")
    several = random_model(oblivious_recipe(domain, label), 2, domain)  # nothing is compiled for it
    dpbt.save(several, folder / "site.model", domain=domain)
    return SimpleNamespace(folder=folder, model=folder / "model.json", out=out, err=err)


@pytest.fixture
def working_folder(fitted, tmp_path, monkeypatch):
    """A copy of the fitted folder, which is the current directory."""
    shutil.copytree(fitted.folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


def intercept_fits(monkeypatch):
    """Run no fit from now on; the list that is returned receives the arguments of each."""
    fit_arguments = []

    def learn(**arguments):
        fit_arguments.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_fit, "fit_without_key_warning", learn)
    return fit_arguments


def test_a_fit_prints_its_cost_and_where_the_model_is(fitted):
    total, wrote = fitted.out.splitlines()
    assert total.startswith("total: epsilon = 5, delta = ")
    assert total.endswith("under add_remove")
    assert wrote == f"wrote {fitted.model}"
    assert fitted.err.startswith("warning: research key: ")
    assert fitted.err.count("\n") == 1
    assert dpbt.load(fitted.model).about.classes == ("healthy", "ill, or worse")


def oblivious_recipe(domain, label):
    shared = {"domain": domain, "target": label.target}
    return dpbt.recipes.oblivious_boost(epsilon=30, rows=BOUND, rounds=3, depth=2, **shared)


def library_model_and_cells(name, odd_file):
    """The model that the library learns from the same rows, and the cells of the odd rows."""
    domain, label = domains.read_domain("domain.json" if name == "class" else f"{name}.json")
    rows = files.read_columns("rows.csv", (*domain, *label.columns))
    weight = None if label.weight is None else rows[label.weight.column]
    options = {"sample_weight": weight, "capacity": BOUND, **label.options}
    table = dpbt.table(domain, rows, rows[label.column], **options)
    if name == "class":
        recipe = dpbt.recipes.bdpe(epsilon=5, rows=BOUND, rounds=2, depth=2, criterion="gini")
    else:
        recipe = oblivious_recipe(domain, label)
    key, public_key = keys_of_seed(3, table)
    model = training_fit.fit_without_key_warning(
        key=key, table=table, recipe=recipe, public_key=public_key
    )
    return model, domains.encode(domain, files.read_columns(odd_file, tuple(domain)))


class PrintedPredictions(NamedTuple):
    """A CSV of predictions."""

    header: list[str]
    labels: list[str]
    numbers: np.ndarray


def printed_predictions(capsys, *arguments):
    """The CSV that a command prints, by its header, first column and other columns."""
    status, out, err = run_command(capsys, *arguments)
    assert (status, err) == (0, "")
    header, *lines = csv.reader(io.StringIO(out))
    numbers = np.array([line[1:] for line in lines], float)
    return PrintedPredictions(header, [line[0] for line in lines], numbers)


def test_predictions_are_those_of_the_library(working_folder, capsys):
    model, cells = library_model_and_cells("class", "odd.csv")
    header, labels, probabilities = printed_predictions(capsys, "predict", "model.json", "odd.csv")
    assert header == ["class", "probability"]
    assert len(labels) == 8  # a blank line has no prediction
    cells = np.delete(cells, 7, axis=0)
    classes = np.array(["healthy", "ill, or worse"])
    assert labels == classes[np.asarray(dpbt.predict(model, cells)).astype(int)].tolist()
    np.testing.assert_allclose(
        probabilities[:, 0], dpbt.predict_proba(model, cells)[:, 1], atol=2e-6
    )
    assert len(set(probabilities[:, 0])) > 1

    model = dpbt.load("site.model")
    cells = model.encode(files.read_columns("rows.csv", tuple(COLUMNS)))
    expected_labels = [SITES[index] for index in dpbt.predict(model, cells)]
    expected = np.asarray(dpbt.predict_proba(model, cells))
    header, labels, probabilities = printed_predictions(capsys, "predict", "site.model", "rows.csv")
    assert (header, labels) == (["class", "probability"], expected_labels)
    np.testing.assert_allclose(probabilities[:, 0], expected.max(axis=1), atol=2e-6)
    header, labels, probabilities = printed_predictions(
        capsys, "predict", "site.model", "rows.csv", "--proba"
    )
    assert header == ["class", *(f"probability of {site}" for site in SITES)]
    assert labels == expected_labels
    np.testing.assert_allclose(probabilities, expected, atol=2e-6)

    model, cells = library_model_and_cells("rings", "rows.csv")
    header, labels, _ = printed_predictions(capsys, "predict", "rings.model", "rows.csv")
    assert header == ["number"]
    numbers = np.array(labels, float)
    np.testing.assert_allclose(numbers, dpbt.predict(model, cells), rtol=1e-5)
    assert np.ptp(numbers) > 1


@pytest.mark.parametrize(("name", "model"), [("class", "model.json"), ("site", "site.model")])
def test_an_evaluation_counts_the_rows_with_a_label(working_folder, capsys, name, model):
    domain = "domain.json" if name == "class" else f"{name}.json"
    status, out, err = run_command(capsys, "evaluate", model, "rows.csv", "--domain", domain)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    measures = dict(line.split(": ") for line in lines[1:4])
    columns = files.read_columns("rows.csv", (*COLUMNS, name))
    loaded = dpbt.load(model)
    declared_labels = set(SITES if name == "site" else TWO_CLASSES.values())
    has_label = np.array([cell in declared_labels for cell in columns[name]])
    is_correct = np.array(loaded.predict(columns)) == np.array(columns[name])
    counted_rows = f"{len(has_label)} rows"
    if not has_label.all():
        counted_rows = f"{has_label.sum()} of {counted_rows} have a declared label"
        counted_rows = f"{counted_rows}, and only these count"
    assert lines[0].startswith(f"{counted_rows}; these numbers are a release")
    assert float(measures["accuracy"]) == pytest.approx(is_correct[has_label].mean(), rel=1e-3)
    assert 0.5 < float(measures["auroc"]) <= 1
    expected = "of another label than that of rings.json"
    assert expected in refusal_line(capsys, "evaluate", model, "rows.csv", "--domain", "rings.json")


def test_models_that_vote_state_scores(working_folder, capsys):
    content = json.loads(Path("model.json").read_text())
    content |= {"probability": None, "reason": "a vote"}
    Path("vote.json").write_text(
        json.dumps({**content, "checksum": sha256_of_json_without_checksum(content)})
    )
    header, labels, scores = printed_predictions(capsys, "predict", "vote.json", "odd.csv")
    assert header == ["class", "score"]
    assert [label == "ill, or worse" for label in labels] == (scores[:, 0] > 0).tolist()


def test_a_release_draws_a_fresh_key(working_folder, capsys, monkeypatch):
    command, fit_arguments = fit_command(Path(), "a.json"), intercept_fits(monkeypatch)
    for _ in range(2):
        assert run_command(capsys, *command[: command.index("--seed")])[0] == 130
    used_keys = [arguments[name] for arguments in fit_arguments for name in ("key", "public_key")]
    assert {keys.key_purpose(key) for key in used_keys} == {keys.RELEASE}
    assert len({np.asarray(jax.random.key_data(key)).tobytes() for key in used_keys}) == 4
    assert not Path("a.json").exists()


def test_predictions_are_written_whole_and_replace_no_file(working_folder, capsys):
    command = ("predict", "model.json", "odd.csv")
    expected = run_command(capsys, *command)[1]
    out = Path("new/p.csv")
    assert run_command(capsys, *command, "--out", out)[:2] == (0, f"wrote {out}\n")
    assert out.read_text() == expected
    assert "p.csv: the file exists; --force" in refusal_line(capsys, *command, "--out", out)
    Path("none.csv").write_text("member,job,age\n")
    assert run_command(capsys, *command[:2], "none.csv", "--out", out, "--force")[0] == 0
    assert out.read_text() == "class,probability\n"
    assert os.listdir("new") == ["p.csv"]


def test_explain_and_statement_print_what_the_library_says_of_a_model(working_folder, capsys):
    name = "rings.model"
    model = dpbt.load(name)
    assert run_command(capsys, "explain", name)[:2] == (0, dpbt.explain(model) + "\n")
    out = run_command(capsys, "explain", name, "--trees", 1)[1]
    assert dpbt.explain(model).startswith(out.partition("\ntree 1\n")[0])
    assert re.search("\ntree 1\n(  .*\n)+[0-9]+ more trees are not shown\n$", out)
    digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    status, out, _ = run_command(capsys, "statement", name, "--data", "rings", "--owner", "us")
    assert (status, out.endswith(model.loaded_facts.statement.split("\n\n", 1)[1] + "\n")) == (
        0,
        True,
    )
    assert f"- Data: rings\n- Owner of the data: us\n- File of the model: {name}\n" in out
    assert f"- Its SHA-256: {digest}\n- Columns read: " in out
    out_options = ("--html", "a.html", "--pdf", "a.pdf")
    out = run_command(capsys, "statement", name, *out_options)[1]
    assert out == "".join(f"wrote {path}\n" for path in out_options[1::2])
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert "a.html: the file exists" in refusal_line(capsys, "statement", name, *out_options)
    status, out, _ = run_command(capsys, "statement", name, "--max-rows-per-user", 2, "--ledger")
    assert status == 0
    assert "owner's promise" in out
    assert "epsilon = 60 and" in out
    assert out.endswith(model.loaded_facts.ledger + "\n")


def test_commands_that_need_no_jax_run_without_it(fitted):
    for arguments in (("predict", "model.json", "odd.csv"), ("statement", "model.json")):
        program = (
            "import sys; sys.modules['jax'] = None; from dpbt.__main__ import main; "
            "sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", program, *arguments]
        completed = subprocess.run(
            command, cwd=fitted.folder, capture_output=True, text=True, check=False
        )
        assert (completed.returncode, completed.stderr) == (0, "")
        assert len(completed.stdout.splitlines()) > 5


FIT_COMMAND = tuple(fit_command(Path(), "new.json"))
TEMPLATE_COMMAND = ("domain", "template")


def fit_command_for(label, *options):
    return (*fit_command(Path(), "new.json", label=label), *options)


class Refusal(NamedTuple):
    """A command that is refused.

    Attributes:
        changed_files: the text of files that are written first; None deletes one.
        command: the arguments.
        expected: a part of the line that is printed.
    """

    changed_files: dict[str, str | None]
    command: tuple
    expected: str


REFUSALS = [
    Refusal(
        {"rows.csv": "age,job,class\n1,clerk,healthy\n"}, FIT_COMMAND, "line 1: no column 'member'"
    ),
    Refusal({"rows.csv": None}, FIT_COMMAND, "rows.csv: No such file or directory"),
    Refusal({"domain.json": "{"}, FIT_COMMAND, "domain.json: the domain is no JSON"),
    Refusal(
        {},
        (*FIT_COMMAND, "--domain", "t.json"),
        "t.json: column 'a': a column is one of these kinds",
    ),
    Refusal({}, ("predict", "cut.json", "odd.csv"), "cut.json: not a saved model, or cut off"),
    Refusal({}, ("explain", "none.json"), "No such file"),
    Refusal(
        {}, ("predict", "rings.model", "rows.csv", "--proba"), "a number, and no probabilities"
    ),
    Refusal(
        {}, ("predict", "model.json", "a.parquet"), "a.parquet: reading Parquet needs pyarrow: pip"
    ),
    Refusal(
        {}, (*TEMPLATE_COMMAND, "rows.csv", "--out", "t.json"), "t.json: the file exists; --force"
    ),
    Refusal({}, ("nothing",), "COMMAND invalid choice: 'nothing'"),
    Refusal(
        {},
        (*FIT_COMMAND, "--epsilon", "inf"),
        "--epsilon must be greater than 0 and finite, got inf",
    ),
    Refusal({}, (*FIT_COMMAND, "--rows", "1_000"), "--rows invalid whole number value: '1_000'"),
    Refusal({}, (*FIT_COMMAND, "--depth", "99"), "depth"),
    Refusal(
        {},
        (*FIT_COMMAND, "--relation", "replace_one"),
        "set --rows to their number, or choose --relation add_remove",
    ),
    Refusal({}, (*FIT_COMMAND, "--monotone", "age=+1"), "the recipe 'bdpe' takes no --monotone"),
    Refusal(
        {},
        (*FIT_COMMAND, "--pair", "age", "job"),
        "takes no --pair, as these do: ['additive']",
    ),
    Refusal(
        {},
        fit_command_for("class", "--recipe", "auto", "--objective", "poisson"),
        "is for a number in a declared",
    ),
    Refusal(
        {}, fit_command_for("rings", "--objective", "quantile"), "the level of a quantile must be"
    ),
    Refusal(
        {}, fit_command_for("rings", "--monotone", "age=2"), "--monotone must be NAME=+1 or NAME=-1"
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.expected)
def test_a_refused_command_prints_one_line_and_leaves_no_file(
    refusal, working_folder, capsys, monkeypatch
):
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.dataset"):
        monkeypatch.setitem(sys.modules, module, None)
    files = {"a.parquet": "", "t.json": template(["a"])}
    files["cut.json"] = Path("model.json").read_text()[:-40]
    for name, text in {**files, **refusal.changed_files}.items():
        Path(name).unlink() if text is None else Path(name).write_text(text)
    before = sorted(Path().iterdir())
    assert refusal.expected in refusal_line(capsys, *refusal.command)
    assert sorted(Path().iterdir()) == before


def test_too_many_rows_are_refused_without_their_number(working_folder, capsys):
    line = refusal_line(capsys, *fit_command(Path(), "new.json", rows=41))
    assert "rows.csv: more rows than --rows 41, the stated bound on their number" in line
    assert str(NUM_ROWS) not in line
    assert not Path("new.json").exists()


def test_nothing_is_learned_where_the_model_cannot_be_written(working_folder, capsys, monkeypatch):
    """Otherwise the fit would have spent its budget, and its model would be lost."""
    monkeypatch.setattr(
        training_fit, "fit_without_key_warning", lambda *_, **__: pytest.fail("learned")
    )
    content_before = Path("model.json").read_text()
    Path("folder").mkdir()
    for out, expected in (
        ("model.json", "model.json: the file exists; --force"),
        ("folder", "a folder, where --out"),
        ("odd.csv/x", "no file can be writ"),
    ):
        assert expected in refusal_line(capsys, *fit_command(Path(), out))
    assert Path("model.json").read_text() == content_before


def test_no_shape_shows_the_number_of_rows(working_folder, capsys, monkeypatch):
    fit_arguments, lines = intercept_fits(monkeypatch), Path("rows.csv").read_text().splitlines()
    for count in (NUM_ROWS, NUM_ROWS - 20):
        Path("rows.csv").write_text("\n".join(lines[: count + 1]))
        assert run_command(capsys, *fit_command(Path(), "new.json"))[0] == 130
    shapes = [jax.tree.map(np.shape, arguments["table"]) for arguments in fit_arguments]
    assert shapes[0] == shapes[1]
    assert shapes[0].present == (BOUND,)


def test_monotone_columns_and_objectives_reach_the_recipe(working_folder, capsys, monkeypatch):
    fit_arguments = intercept_fits(monkeypatch)
    for direction in ("age=+1", "age=1", "age=-1"):
        assert run_command(capsys, *fit_command_for("rings", "--monotone", direction))[0] == 130
    assert run_command(capsys, *fit_command_for("rings", "--quantile", ".9"))[0] == 130
    assert "the 0.9 quantile of a number" in fit_arguments[-1]["recipe"].learner.identity
    identities = [arguments["recipe"].learner.identity for arguments in fit_arguments]
    assert "(1, 0, 0)" in identities[0]
    assert identities[0] == identities[1]
    assert "(-1, 0, 0)" in identities[2]


def test_an_unexpected_error_keeps_its_traceback(working_folder, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a bug")

    monkeypatch.setattr(training_fit, "_run_compiled_program", fail)
    with pytest.raises(ValueError, match="a bug"):
        command_line.main(list(FIT_COMMAND))
    assert not Path("new.json").exists()


def audit_command(name="class", domain="domain.json"):
    return ("audit", "--domain", domain, "--rows", "40", *RECIPES[name])


@pytest.fixture
def intercepted_audits(working_folder, monkeypatch):
    """Run no audit; record the neighbours of each, and report a loss that a test may set."""
    calls = SimpleNamespace(neighbours=[], loss=0.5)

    def audit_transcripts(key, neighbours, recipe, num_transcripts):
        calls.neighbours.append(neighbours)
        return audits.Audit(
            claimed_epsilon=1.0,
            largest_loss=calls.loss,
            loss_by_site={"leaf": calls.loss},
            num_neighbours=60,
            num_transcripts=num_transcripts,
            max_step_ratio_by_site={},
        )

    monkeypatch.setattr(audits, "audit_transcripts", audit_transcripts)
    return calls


@pytest.mark.parametrize(
    ("loss", "delta", "expected_status"), [(0.9, 0, 0), (1.1, 0, 1), (1.1, 1e-6, 0)]
)
def test_an_audit_above_a_pure_claim_fails(
    loss, delta, expected_status, intercepted_audits, capsys
):
    intercepted_audits.loss = loss
    exit_status, out, _ = run_command(capsys, *audit_command(), "--delta", delta)
    assert exit_status == expected_status
    assert f"largest loss: {loss}" in out
    assert ("ABOVE THE CLAIM" in out) == (expected_status == 1)
    [neighbours] = intercepted_audits.neighbours
    assert int(neighbours.table.present.sum()) == 30
    assert len(neighbours.present) == 60
    assert set(neighbours.present.sum(axis=1)) == {29, 31}


@pytest.mark.slow
def test_an_audit_prints_the_largest_loss(working_folder, capsys):
    status, out, _ = run_command(capsys, *audit_command("site"))
    assert status == 0
    assert "largest loss" in out


def test_an_audit_under_replace_one_has_all_rows(intercepted_audits, capsys):
    command = (*audit_command(), "--relation", "replace_one")
    assert run_command(capsys, *command)[0] == 0
    [neighbours] = intercepted_audits.neighbours
    assert set(neighbours.present.sum(axis=1)) == {40}
    assert np.all((neighbours.present != np.asarray(neighbours.table.present)).sum(axis=1) == 2)
    expected = "--rows must be at most 1000 under replace_one"
    assert expected in refusal_line(capsys, *command, "--rows", "1001")


def test_progress_has_no_number_of_what_is_private(working_folder, capsys, monkeypatch):
    def printed_progress(verbose=None):
        with show_progress("learning", verbose) as report:
            for done in range(40):
                report(Progress("rounds", done, 40))
        return capsys.readouterr().err

    assert printed_progress() == printed_progress(False) == ""
    expected_lines = [f"rounds: {done} of 40" for done in range(0, 40, 4)]
    assert printed_progress(True).splitlines() == ["learning ...", *expected_lines]
    command = ("convert", "domain.json", "rows.csv", "t", "--capacity", 9000, "--progress")
    assert run_command(capsys, *command)[2] == "reading rows.csv ...\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert printed_progress().startswith("learning ...\r\033[Krounds: 0 of 40")
    assert printed_progress().endswith("\r\033[K")
    assert printed_progress(False) == ""


@pytest.mark.slow
def test_cached_programs_hold_nothing_of_the_rows(working_folder):
    """Two files whose rows and numbers of rows differ have the same programs."""
    variables = {**os.environ, "DPBT_CACHE": str(Path.cwd() / "programs"), "PYTHONPATH": str(ROOT)}
    variables.pop("JAX_COMPILATION_CACHE_DIR", None)

    def programs(*arguments):
        command = [sys.executable, "-m", "dpbt", *arguments]
        subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
        files = (path for path in Path("programs").rglob("*") if path.is_file())
        return {path.name: path.read_bytes() for path in files}

    first = programs(*fit_command(Path(), "one.json")[:-2])
    lines = Path("rows.csv").read_text().splitlines(keepends=True)
    Path("rows.csv").write_text("".join([lines[0], *lines[:20:-1]]))
    assert first
    assert programs(*fit_command(Path(), "other.json")[:-2]) == first
    assert Path("programs").stat().st_mode & 0o777 == 0o700


def test_programs_are_not_read_where_others_may_write(tmp_path, monkeypatch):
    cached_folders, folder_before = [], jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(cached, "cache_compiled_programs", cached_folders.append)
    monkeypatch.setenv("DPBT_CACHE", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        for mode in (0o700, 0o777, 0o770):
            tmp_path.chmod(mode)
            cached.cache_compiled_programs_for_user()
    finally:
        jax.config.update("jax_compilation_cache_dir", folder_before)
    assert cached_folders == [tmp_path]


def test_the_folder_of_programs_is_kept_below_its_size_by_deleting_the_oldest(tmp_path):
    """The programs that were used last are kept, over all kinds of machines together."""
    for age in range(6):
        path = tmp_path / f"machine-{age % 2}" / f"jit_run-{age}-cache"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (10_000 - age, 5_000 - age))
    other_file = tmp_path / "machine-0" / "other"
    other_file.write_bytes(bytes(1000))
    os.utime(tmp_path / "machine-1" / "jit_run-5-cache", (5_000, 20_000))
    for max_bytes, expected_ages in ((600, {0, 1, 2, 3, 4, 5}), (350, {5, 0, 1}), (99, set())):
        cached.delete_least_recently_used_programs(tmp_path, max_bytes)
        assert {
            int(path.name.split("-")[1]) for path in tmp_path.glob("*/*-cache")
        } == expected_ages
    assert other_file.exists()
    cached.delete_least_recently_used_programs(tmp_path / "absent")


def test_a_program_that_cannot_be_read_is_deleted_without_a_warning(tmp_path):
    """JAX itself warns of such a program in every run, and never replaces it."""
    folder = tmp_path / cached.machine_kind_name()
    folder.mkdir()
    for name in ("jit_run-1-cache", "jit_run-2-cache", "jit_run_more-1-cache"):
        (folder / name).write_bytes(b"half")
    warnings_shown = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: warnings_shown.append(str(message))
        cached.delete_damaged_programs_when_jax_warns(tmp_path)
        warnings.warn(f"{CACHE_READ_WARNING} 'jit_run': Error: Error -5", stacklevel=1)
        assert [path.name for path in folder.iterdir()] == ["jit_run_more-1-cache"]
        assert warnings_shown == []
        warnings.warn("another", stacklevel=1)
        assert warnings_shown == ["another"]
        (folder / "jit_run-1-cache").mkdir()  # which is no file to delete
        warnings.warn(f"{CACHE_READ_WARNING} 'jit_run': Error", stacklevel=1)
        assert len(warnings_shown) == 2


CACHE_READ_WARNING = "Error reading persistent compilation cache entry for"


@pytest.mark.slow
def test_a_damaged_program_is_mended_by_the_next_fit(working_folder):
    variables = {**os.environ, "DPBT_CACHE": str(Path.cwd() / "programs"), "PYTHONPATH": str(ROOT)}
    variables.pop("JAX_COMPILATION_CACHE_DIR", None)

    def fit(name, *options):
        command = [sys.executable, "-m", "dpbt", *fit_command(Path(), name), *options]
        completed = subprocess.run(
            command, env=variables, check=True, capture_output=True, text=True
        )
        assert CACHE_READ_WARNING not in completed.stderr
        return {path: path.stat().st_size for path in Path("programs").glob("*/*-cache")}

    sizes = fit("one.json")
    for path in sizes:
        path.write_bytes(path.read_bytes()[:100])
    sizes_after = fit("two.json")
    assert sizes_after.keys() == sizes.keys()
    assert max(sizes_after.values()) > max(sizes.values()) / 2
    assert fit("three.json") == sizes_after
    assert fit("four.json", "--epsilon", "2.5").keys() == sizes.keys()


def test_a_closed_pipe_is_no_error(fitted):
    command = [sys.executable, "-m", "dpbt", "predict", "model.json", "rows.csv"]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        completed = subprocess.run(
            command, cwd=fitted.folder, stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (completed.returncode, completed.stderr) == (141, b"")


def test_help_lists_every_command_on_one_line(capsys):
    status, out, _ = run_command(capsys)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    for name in command_line.COMMANDS:
        assert sum(line.strip().startswith(f"{name} ") for line in out.splitlines()) == 1


def test_theorems_that_ledgers_name_are_printed(capsys):
    source = "".join(path.read_text() for path in (ROOT / "dpbt").glob("**/*.py"))
    named_theorems = set(re.findall(r"dpbt theorem ([A-Z]?\d+(?:(?:-|, )[A-Z]?\d+)*)", source))
    assert {"O1", "1-3", "3, 5", "T1-T5", "14"} <= named_theorems
    for theorems in named_theorems:
        assert command_line.main(["theorem", *theorems.split()]) == 0
        assert "**" in capsys.readouterr().out
