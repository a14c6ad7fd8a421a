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

import jax
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import audit as audits
from dpbt.common.progress import Progress, show_progress
from dpbt.common.storage import checksum_of_json
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
    TWO_CLASSES,
    WORDS,
    fit_command,
    refusal_line,
    run_command,
    write_rows_and_domains,
)
from tests.support.example_tables import keys_of_seed
from tests.support.random_models import random_model


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with rows, domains and models; and what the fit of two classes printed."""
    folder = tmp_path_factory.mktemp("fitted")
    write_rows_and_domains(folder)
    with pytest.MonkeyPatch.context() as patch:
        printed, said = io.StringIO(), io.StringIO()
        patch.setattr(sys, "stdout", printed)
        patch.setattr(sys, "stderr", said)
        assert command_line.main(fit_command(folder)) == 0
        out, err = printed.getvalue(), said.getvalue()
        assert command_line.main(fit_command(folder, "rings.model", label="rings")) == 0
    domain, label = domains.read_domain(folder / "site.json")
    several = random_model(boosting(domain, label), 2, domain)  # nothing is compiled for it
    dpbt.save(several, folder / "site.model", domain=domain)
    return SimpleNamespace(folder=folder, model=folder / "model.json", out=out, err=err)


@pytest.fixture
def here(fitted, tmp_path, monkeypatch):
    """A copy of that folder, which is the current one."""
    shutil.copytree(fitted.folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def stopped(monkeypatch):
    """The arguments of each fit from now on, of which none is run."""
    seen = []

    def learn(**arguments):
        seen.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_fit, "fit_without_key_warning", learn)
    return seen


def test_a_fit_prints_its_cost_and_where_the_model_is(fitted):
    total, wrote = fitted.out.splitlines()
    assert total.startswith("total: epsilon = 5, delta = ")
    assert total.endswith("under add_remove")
    assert wrote == f"wrote {fitted.model}"
    assert fitted.err.startswith("warning: research key: ")
    assert fitted.err.count("\n") == 1
    assert dpbt.load(fitted.model).about.classes == ("healthy", "ill, or worse")


def boosting(domain, label):
    shared = {"domain": domain, "target": label.target}
    return dpbt.recipes.oblivious_boost(epsilon=30, rows=BOUND, rounds=3, depth=2, **shared)


def of_library(name, odd):
    """(model, cells of the odd rows): what the library learns from the same rows."""
    domain, label = domains.read_domain("domain.json" if name == "class" else f"{name}.json")
    rows = files.read_columns("rows.csv", (*domain, *label.columns))
    weight = None if label.weight is None else rows[label.weight.column]
    read = {"sample_weight": weight, "capacity": BOUND, **label.options}
    table = dpbt.table(domain, rows, rows[label.column], **read)
    if name == "class":
        recipe = dpbt.recipes.bdpe(epsilon=5, rows=BOUND, rounds=2, depth=2, criterion="gini")
    else:
        recipe = boosting(domain, label)
    key, public_key = keys_of_seed(3, table)
    model = training_fit.fit_without_key_warning(
        key=key, table=table, recipe=recipe, public_key=public_key
    )
    return model, domains.encode(domain, files.read_columns(odd, tuple(domain)))


def printed(capsys, *words):
    """(head, first column, the other columns) of the CSV that a command prints."""
    status, out, err = run_command(capsys, *words)
    assert (status, err) == (0, "")
    head, *lines = csv.reader(io.StringIO(out))
    return head, [line[0] for line in lines], np.array([line[1:] for line in lines], float)


def test_predictions_are_those_of_the_library(here, capsys):
    model, cells = of_library("class", "odd.csv")
    head, found, shares = printed(capsys, "predict", "model.json", "odd.csv")
    assert head == ["class", "probability"]
    assert len(found) == 8  # a blank line has no prediction
    cells = np.delete(cells, 7, axis=0)
    words = np.array(["healthy", "ill, or worse"])
    assert found == words[np.asarray(dpbt.predict(model, cells)).astype(int)].tolist()
    np.testing.assert_allclose(shares[:, 0], dpbt.predict_proba(model, cells)[:, 1], atol=2e-6)
    assert len(set(shares[:, 0])) > 1

    model = dpbt.load("site.model")
    cells = model.encode(files.read_columns("rows.csv", tuple(COLUMNS)))
    words = [WORDS[k] for k in dpbt.predict(model, cells)]
    expected = np.asarray(dpbt.predict_proba(model, cells))
    head, found, shares = printed(capsys, "predict", "site.model", "rows.csv")
    assert (head, found) == (["class", "probability"], words)
    np.testing.assert_allclose(shares[:, 0], expected.max(axis=1), atol=2e-6)
    head, found, shares = printed(capsys, "predict", "site.model", "rows.csv", "--proba")
    assert head == ["class", *(f"probability of {word}" for word in WORDS)]
    assert found == words
    np.testing.assert_allclose(shares, expected, atol=2e-6)

    model, cells = of_library("rings", "rows.csv")
    head, found, _ = printed(capsys, "predict", "rings.model", "rows.csv")
    assert head == ["number"]
    numbers = np.array(found, float)
    np.testing.assert_allclose(numbers, dpbt.predict(model, cells), rtol=1e-5)
    assert np.ptp(numbers) > 1


@pytest.mark.parametrize(("name", "model"), [("class", "model.json"), ("site", "site.model")])
def test_an_evaluation_counts_the_rows_with_a_label(here, capsys, name, model):
    domain = "domain.json" if name == "class" else f"{name}.json"
    status, out, err = run_command(capsys, "evaluate", model, "rows.csv", "--domain", domain)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    given = dict(line.split(": ") for line in lines[1:4])
    columns = files.read_columns("rows.csv", (*COLUMNS, name))
    loaded, known = dpbt.load(model), set(WORDS if name == "site" else TWO_CLASSES.values())
    there = np.array([cell in known for cell in columns[name]])
    right = np.array(loaded.predict(columns)) == np.array(columns[name])
    counted = f"{there.sum()} of {len(there)} rows have a declared label, and only these count"
    counted = f"{len(there)} rows" if there.all() else counted
    assert lines[0].startswith(f"{counted}; these numbers are a release")
    assert float(given["accuracy"]) == pytest.approx(right[there].mean(), rel=1e-3)
    assert 0.5 < float(given["auroc"]) <= 1
    words = "of another label than that of rings.json"
    assert words in refusal_line(capsys, "evaluate", model, "rows.csv", "--domain", "rings.json")


def test_models_that_vote_state_scores(here, capsys):
    content = json.loads(Path("model.json").read_text())
    content |= {"probability": None, "reason": "a vote"}
    Path("vote.json").write_text(json.dumps({**content, "checksum": checksum_of_json(content)}))
    head, words, scores = printed(capsys, "predict", "vote.json", "odd.csv")
    assert head == ["class", "score"]
    assert [word == "ill, or worse" for word in words] == (scores[:, 0] > 0).tolist()


def test_a_release_draws_a_fresh_key(here, capsys, monkeypatch):
    words, fits = fit_command(Path(), "a.json"), stopped(monkeypatch)
    for _ in range(2):
        assert run_command(capsys, *words[: words.index("--seed")])[0] == 130
    seen = [arguments[name] for arguments in fits for name in ("key", "public_key")]
    assert {keys.key_purpose(key) for key in seen} == {keys.RELEASE}
    assert len({np.asarray(jax.random.key_data(key)).tobytes() for key in seen}) == 4
    assert not Path("a.json").exists()


def test_predictions_are_written_whole_and_replace_no_file(here, capsys):
    words = ("predict", "model.json", "odd.csv")
    expected = run_command(capsys, *words)[1]
    out = Path("new/p.csv")
    assert run_command(capsys, *words, "--out", out)[:2] == (0, f"wrote {out}\n")
    assert out.read_text() == expected
    assert "p.csv: the file exists; --force" in refusal_line(capsys, *words, "--out", out)
    Path("none.csv").write_text("member,job,age\n")
    assert run_command(capsys, *words[:2], "none.csv", "--out", out, "--force")[0] == 0
    assert out.read_text() == "class,probability\n"
    assert os.listdir("new") == ["p.csv"]


def test_explain_and_statement_print_the_words_of_a_model(here, capsys):
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
    files = ("--html", "a.html", "--pdf", "a.pdf")
    out = run_command(capsys, "statement", name, *files)[1]
    assert out == "".join(f"wrote {path}\n" for path in files[1::2])
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert "a.html: the file exists" in refusal_line(capsys, "statement", name, *files)
    status, out, _ = run_command(capsys, "statement", name, "--max-rows-per-user", 2, "--ledger")
    assert status == 0
    assert "owner's promise" in out
    assert "epsilon = 60 and" in out
    assert out.endswith(model.loaded_facts.ledger + "\n")


def test_commands_that_need_no_jax_run_without_it(fitted):
    for given in (("predict", "model.json", "odd.csv"), ("statement", "model.json")):
        program = (
            "import sys; sys.modules['jax'] = None; from dpbt.__main__ import main; "
            "sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", program, *given]
        done = subprocess.run(
            command, cwd=fitted.folder, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) > 5


FIT = tuple(fit_command(Path(), "new.json"))
TEMPLATE = ("domain", "template")


def of(name, *words):
    return (*fit_command(Path(), "new.json", label=name), *words)


FORMS = [
    ({"rows.csv": "age,job,class\n1,clerk,healthy\n"}, FIT, "line 1: no column 'member'"),
    ({"rows.csv": None}, FIT, "rows.csv: No such file or directory"),
    ({"domain.json": "{"}, FIT, "domain.json: the domain is no JSON"),
    ({}, (*FIT, "--domain", "t.json"), "t.json: column 'a': a column is one of these kinds"),
    ({}, ("predict", "cut.json", "odd.csv"), "cut.json: not a saved model, or cut off"),
    ({}, ("explain", "none.json"), "No such file"),
    ({}, ("predict", "rings.model", "rows.csv", "--proba"), "a number, and no probabilities"),
    ({}, ("predict", "model.json", "a.parquet"), "a.parquet: reading Parquet needs pyarrow: pip"),
    ({}, (*TEMPLATE, "rows.csv", "--out", "t.json"), "t.json: the file exists; --force"),
    ({}, ("nothing",), "COMMAND invalid choice: 'nothing'"),
    ({}, (*FIT, "--epsilon", "inf"), "--epsilon must be greater than 0 and finite, got inf"),
    ({}, (*FIT, "--rows", "1_000"), "--rows invalid whole number value: '1_000'"),
    ({}, (*FIT, "--depth", "99"), "depth"),
    (
        {},
        (*FIT, "--relation", "replace_one"),
        "set --rows to their number, or choose --relation add_remove",
    ),
    ({}, (*FIT, "--monotone", "age=+1"), "the recipe 'bdpe' takes no --monotone"),
    (
        {},
        (*FIT, "--pair", "age", "job"),
        "takes no --pair, as these do: ['additive']",
    ),
    (
        {},
        of("class", "--recipe", "auto", "--objective", "poisson"),
        "is for a number in a declared",
    ),
    ({}, of("rings", "--objective", "quantile"), "the level of a quantile must be"),
    ({}, of("rings", "--monotone", "age=2"), "--monotone must be NAME=+1 or NAME=-1"),
]


@pytest.mark.parametrize("case", range(len(FORMS)))
def test_a_refused_command_prints_one_line_and_leaves_no_file(case, here, capsys, monkeypatch):
    changed, words, expected = FORMS[case]
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.dataset"):
        monkeypatch.setitem(sys.modules, module, None)
    held = {"a.parquet": "", "t.json": template(["a"])}
    held["cut.json"] = Path("model.json").read_text()[:-40]
    for name, text in {**held, **changed}.items():
        Path(name).unlink() if text is None else Path(name).write_text(text)
    before = sorted(Path().iterdir())
    assert expected in refusal_line(capsys, *words)
    assert sorted(Path().iterdir()) == before


def test_too_many_rows_are_refused_without_their_number(here, capsys):
    err = refusal_line(capsys, *fit_command(Path(), "new.json", rows=41))
    assert "rows.csv: more rows than --rows 41, the stated bound on their number" in err
    assert str(NUM_ROWS) not in err
    assert not Path("new.json").exists()


def test_where_a_model_cannot_be_written_nothing_is_learned(here, capsys, monkeypatch):
    """A fit that is lost has spent its budget."""
    monkeypatch.setattr(
        training_fit, "fit_without_key_warning", lambda *_, **__: pytest.fail("learned")
    )
    kept = Path("model.json").read_text()
    Path("folder").mkdir()
    for out, expected in (
        ("model.json", "model.json: the file exists; --force"),
        ("folder", "a folder, where --out"),
        ("odd.csv/x", "no file can be writ"),
    ):
        assert expected in refusal_line(capsys, *fit_command(Path(), out))
    assert Path("model.json").read_text() == kept


def test_no_shape_shows_the_number_of_rows(here, capsys, monkeypatch):
    fits, lines = stopped(monkeypatch), Path("rows.csv").read_text().splitlines()
    for count in (NUM_ROWS, NUM_ROWS - 20):
        Path("rows.csv").write_text("\n".join(lines[: count + 1]))
        assert run_command(capsys, *fit_command(Path(), "new.json"))[0] == 130
    shapes = [jax.tree.map(np.shape, arguments["table"]) for arguments in fits]
    assert shapes[0] == shapes[1]
    assert shapes[0].present == (BOUND,)


def test_monotone_columns_and_objectives_reach_the_recipe(here, capsys, monkeypatch):
    fits = stopped(monkeypatch)
    for direction in ("age=+1", "age=1", "age=-1"):
        assert run_command(capsys, *of("rings", "--monotone", direction))[0] == 130
    assert run_command(capsys, *of("rings", "--quantile", ".9"))[0] == 130
    assert "the 0.9 quantile of a number" in fits[-1]["recipe"].learner.identity
    tags = [arguments["recipe"].learner.identity for arguments in fits]
    assert "(1, 0, 0)" in tags[0]
    assert tags[0] == tags[1]
    assert "(-1, 0, 0)" in tags[2]


def test_an_unexpected_error_keeps_its_traceback(here, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a bug")

    monkeypatch.setattr(training_fit, "_compiled_run", fail)
    with pytest.raises(ValueError, match="a bug"):
        command_line.main(list(FIT))
    assert not Path("new.json").exists()


def auditing(name="class", domain="domain.json"):
    return ("audit", "--domain", domain, "--rows", "40", *RECIPES[name])


@pytest.fixture
def audited(here, monkeypatch):
    """Neighbours of the audits, of which none is run; its loss may be set."""
    calls = SimpleNamespace(near=[], loss=0.5)

    def audit_transcripts(key, neighbours, recipe, num_transcripts):
        calls.near.append(neighbours)
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


@pytest.mark.parametrize(("loss", "delta", "status"), [(0.9, 0, 0), (1.1, 0, 1), (1.1, 1e-6, 0)])
def test_an_audit_above_a_pure_claim_fails(loss, delta, status, audited, capsys):
    audited.loss = loss
    found, out, _ = run_command(capsys, *auditing(), "--delta", delta)
    assert found == status
    assert f"largest loss: {loss}" in out
    assert ("ABOVE THE CLAIM" in out) == (status == 1)
    [near] = audited.near
    assert int(near.table.present.sum()) == 30
    assert len(near.present) == 60
    assert set(near.present.sum(axis=1)) == {29, 31}


@pytest.mark.slow
def test_an_audit_runs(here, capsys):
    status, out, _ = run_command(capsys, *auditing("site"))
    assert status == 0
    assert "largest loss" in out


def test_an_audit_under_replace_one_has_all_rows(audited, capsys):
    words = (*auditing(), "--relation", "replace_one")
    assert run_command(capsys, *words)[0] == 0
    [near] = audited.near
    assert set(near.present.sum(axis=1)) == {40}
    assert np.all((near.present != np.asarray(near.table.present)).sum(axis=1) == 2)
    expected = "--rows must be at most 1000 under replace_one"
    assert expected in refusal_line(capsys, *words, "--rows", "1001")


def test_progress_has_no_number_of_what_is_private(here, capsys, monkeypatch):
    def shown(verbose=None):
        with show_progress("learning", verbose) as report:
            for done in range(40):
                report(Progress("rounds", done, 40))
        return capsys.readouterr().err

    assert shown() == shown(False) == ""
    parts = [f"rounds: {done} of 40" for done in range(0, 40, 4)]
    assert shown(True).splitlines() == ["learning ...", *parts]
    words = ("convert", "domain.json", "rows.csv", "t", "--capacity", 9000, "--progress")
    assert run_command(capsys, *words)[2] == "reading rows.csv ...\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert shown().startswith("learning ...\r\033[Krounds: 0 of 40")
    assert shown().endswith("\r\033[K")
    assert shown(False) == ""


@pytest.mark.slow
def test_cached_programs_hold_nothing_of_the_rows(here):
    """Two files of other rows, and of another number of them, have the same programs."""
    variables = {**os.environ, "DPBT_CACHE": str(Path.cwd() / "programs"), "PYTHONPATH": str(ROOT)}
    variables.pop("JAX_COMPILATION_CACHE_DIR", None)

    def programs(*words):
        command = [sys.executable, "-m", "dpbt", *words]
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
    kept, before = [], jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(cached, "cache_compiled_programs", kept.append)
    monkeypatch.setenv("DPBT_CACHE", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        for mode in (0o700, 0o777, 0o770):
            tmp_path.chmod(mode)
            cached.cache_compiled_programs_for_user()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert kept == [tmp_path]


def test_the_folder_of_programs_has_a_size(tmp_path):
    """Those that were used last are kept, of all kinds of machines together."""
    for age in range(6):
        path = tmp_path / f"machine-{age % 2}" / f"jit_run-{age}-cache"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (10_000 - age, 5_000 - age))
    other = tmp_path / "machine-0" / "other"
    other.write_bytes(bytes(1000))
    os.utime(tmp_path / "machine-1" / "jit_run-5-cache", (5_000, 20_000))
    for max_bytes, kept in ((600, {0, 1, 2, 3, 4, 5}), (350, {5, 0, 1}), (99, set())):
        cached.delete_oldest_programs(tmp_path, max_bytes)
        assert {int(path.name.split("-")[1]) for path in tmp_path.glob("*/*-cache")} == kept
    assert other.exists()
    cached.delete_oldest_programs(tmp_path / "absent")


def test_a_program_that_cannot_be_read_is_deleted_without_a_word(tmp_path):
    """JAX warns of it in every run, and never replaces it."""
    folder = tmp_path / cached.machine_kind_name()
    folder.mkdir()
    for name in ("jit_run-1-cache", "jit_run-2-cache", "jit_run_more-1-cache"):
        (folder / name).write_bytes(b"half")
    shown = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        cached.delete_damaged_programs_when_jax_warns(tmp_path)
        warnings.warn(f"{READING} 'jit_run': Error: Error -5", stacklevel=1)
        assert [path.name for path in folder.iterdir()] == ["jit_run_more-1-cache"]
        assert shown == []
        warnings.warn("another", stacklevel=1)
        assert shown == ["another"]
        (folder / "jit_run-1-cache").mkdir()  # which is no file to delete
        warnings.warn(f"{READING} 'jit_run': Error", stacklevel=1)
        assert len(shown) == 2


READING = "Error reading persistent compilation cache entry for"


@pytest.mark.slow
def test_a_damaged_program_is_mended_by_the_next_fit(here):
    variables = {**os.environ, "DPBT_CACHE": str(Path.cwd() / "programs"), "PYTHONPATH": str(ROOT)}
    variables.pop("JAX_COMPILATION_CACHE_DIR", None)

    def fit(name, *options):
        command = [sys.executable, "-m", "dpbt", *fit_command(Path(), name), *options]
        ran = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
        assert READING not in ran.stderr
        return {path: path.stat().st_size for path in Path("programs").glob("*/*-cache")}

    sizes = fit("one.json")
    for path in sizes:
        path.write_bytes(path.read_bytes()[:100])
    mended = fit("two.json")
    assert mended.keys() == sizes.keys()
    assert max(mended.values()) > max(sizes.values()) / 2
    assert fit("three.json") == mended
    assert fit("four.json", "--epsilon", "2.5").keys() == sizes.keys()


def test_a_closed_pipe_is_no_error(fitted):
    command = [sys.executable, "-m", "dpbt", "predict", "model.json", "rows.csv"]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        done = subprocess.run(
            command, cwd=fitted.folder, stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_lists_every_command_on_one_line(capsys):
    status, out, _ = run_command(capsys)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    for name in command_line.COMMANDS:
        assert sum(line.strip().startswith(f"{name} ") for line in out.splitlines()) == 1


def test_theorems_that_ledgers_name_are_printed(capsys):
    code = "".join(path.read_text() for path in (ROOT / "dpbt").glob("**/*.py"))
    named = set(re.findall(r"dpbt theorem ([A-Z]?\d+(?:(?:-|, )[A-Z]?\d+)*)", code))
    assert {"O1", "1-3", "3, 5", "T1-T5", "14"} <= named
    for points in named:
        assert command_line.main(["theorem", *points.split()]) == 0
        assert "**" in capsys.readouterr().out
