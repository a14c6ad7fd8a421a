"""The command line of dpbt: what it reads, writes and refuses."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import dpbt
from dpbt import __main__ as command_line
from dpbt import boosting
from dpbt.analysis import audit as audits
from dpbt.commands import inputs, output
from dpbt.data import domains, files
from dpbt.privacy import keys
from dpbt.recipes import named
from dpbt.training import fit as training_fit
from tests import pages
from tests.hostile import signed
from tests.pages import blocks
from tests.tables import seeded

ROOT = Path(__file__).parent.parent
INCOME = ROOT / "docs" / "examples" / "income.json"
ROWS = 60
NAMES = ("age", "job", "extra", "member", "class")
DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 8, "missing": True},
        "job": {"type": "nominal", "values": ["clerk", "smith, or mason"]},
        "member": {"type": "boolean", "true": "yes", "false": "no"},
    },
    "label": {"column": "class", "positive": "ill, or worse", "negative": "healthy"},
}
SMALL = ("--epsilon", "5", "--recipe", "bdpe", "--rounds", "2", "--depth", "2", "--seed", "3")
ODD = "age,job,extra,member,class\n" + "\n".join(
    (
        "40,clerk,1,yes,healthy",
        ',"smith, or mason",1,no,',
        "NA,zebra,1,maybe,unknown",
        "-3,,1,,healthy",
        "1e99,clerk,1,YES,healthy",
        "too,few",
        '"open,clerk,1,no,healthy',
        "",
        "71,clerk,1,no,healthy",
    )
)


def write_rows(path):
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        for _ in range(ROWS):
            age = int(rng.integers(0, 100))
            words = rng.choice(["clerk", "smith, or mason"]), "x", rng.choice(["yes", "no"])
            writer.writerow((age, *words, "ill, or worse" if age > 50 else "healthy"))


def fill(folder):
    (folder / "domain.json").write_text(json.dumps(DOMAIN))
    write_rows(folder / "rows.csv")
    (folder / "odd.csv").write_text(ODD)


def fitting(folder, out="model.json", rows=ROWS + 10):
    files = (folder / "rows.csv", "--domain", folder / "domain.json", "--out", folder / out)
    return list(map(str, ("fit", *files, "--rows", rows, *SMALL)))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with rows, a domain and a model; and what the fit printed."""
    folder = tmp_path_factory.mktemp("fitted")
    fill(folder)
    with pytest.MonkeyPatch.context() as patch:
        printed, said = io.StringIO(), io.StringIO()
        patch.setattr(sys, "stdout", printed)
        patch.setattr(sys, "stderr", said)
        assert command_line.main(fitting(folder)) == 0
    return SimpleNamespace(
        folder=folder, model=folder / "model.json", out=printed.getvalue(), err=said.getvalue()
    )


def run(capsys, *words):
    status = command_line.main(list(map(str, words)))
    return status, *capsys.readouterr()


def refusal(capsys, *words):
    """The one line in which a command is refused."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_fit_prints_its_cost_and_where_the_model_is(fitted):
    total, wrote = fitted.out.splitlines()
    assert total.startswith("total: epsilon = 5, delta = ")
    assert total.endswith("under add_remove")
    assert wrote == f"wrote {fitted.model}"
    assert fitted.err.startswith("warning: research key: ")
    assert fitted.err.count("\n") == 1
    assert dpbt.load(fitted.model).about.classes == ("healthy", "ill, or worse")


@pytest.mark.slow  # compiles a choice
def test_a_tuned_fit_costs_what_was_asked_for(fitted, capsys):
    files = fitted.folder / "rows.csv", "--domain", fitted.folder / "domain.json"
    options = "--rows", ROWS + 10, "--epsilon", 4, "--seed", 1, "--recipe", "tuned"
    words = "fit", *files, *options, "--out", fitted.folder / "tuned.json"
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert out.startswith("total: epsilon = 4, delta = ")
    book = dpbt.ledger(dpbt.load(fitted.folder / "tuned.json"))
    assert 3.9 < book.epsilon <= 4
    assert "candidates" in str(book)
    assert "--rounds is not an option" in refusal(capsys, *words, "--force", "--rounds", 3)


def test_fit_and_predict_are_those_of_the_library(fitted, capsys):
    domain, label = domains.read_domain(fitted.folder / "domain.json")
    rows = files.read_csv(fitted.folder / "rows.csv", domain, label)
    words = {"negative": label.negative, "positive": label.positive}
    table = dpbt.table(domain, rows.columns, rows.labels, **words, capacity=ROWS + 10)
    recipe = dpbt.recipes.bdpe(epsilon=5, rows=ROWS + 10, rounds=2, depth=2, criterion="gini")
    key, public_key = seeded(3, table)
    model = training_fit.learn(key, table, recipe, public_key)
    odd = files.read_csv(fitted.folder / "odd.csv", domain, label)
    assert odd.malformed.tolist() == [False] * 5 + [True] * 3 + [False]
    cells = domains.encode(domain, odd.columns)

    status, out, err = run(capsys, "predict", fitted.model, fitted.folder / "odd.csv")
    assert (status, err) == (0, "")
    head, *lines = csv.reader(io.StringIO(out))
    assert head == ["class", "probability"]
    expected = [label.positive if x else label.negative for x in dpbt.predict(model, cells)]
    assert [line[0] for line in lines] == expected
    probabilities = np.array([float(line[1]) for line in lines])
    np.testing.assert_allclose(probabilities, dpbt.predict_proba(model, cells), atol=2e-6)
    assert len(set(probabilities)) > 1


def test_a_release_draws_a_fresh_key(fitted, tmp_path, capsys):
    words = fitting(fitted.folder)
    words = words[: words.index("--seed")]
    words[words.index("--out") + 1] = str(tmp_path / "a.json")
    seen = []

    def learn(key, table, recipe, public_key):
        seen.extend((key, public_key))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "learn", learn)
        for _ in range(2):
            assert run(capsys, *words)[0] == 130
    assert {keys.kind(key) for key in seen} == {keys.RELEASE}
    assert len({np.asarray(jax.random.key_data(key)).tobytes() for key in seen}) == 4
    assert list(tmp_path.iterdir()) == []


def test_predictions_are_written_whole_and_replace_no_file(fitted, tmp_path, capsys):
    words = ("predict", fitted.model, fitted.folder / "odd.csv")
    printed = run(capsys, *words)[1]
    out = tmp_path / "new" / "p.csv"
    assert run(capsys, *words, "--out", out)[:2] == (0, f"wrote {out}\n")
    assert out.read_text() == printed
    assert "p.csv: the file exists; --force" in refusal(capsys, *words, "--out", out)
    assert run(capsys, *words, "--out", out, "--force")[0] == 0
    assert [path.name for path in out.parent.iterdir()] == ["p.csv"]


def test_a_file_without_rows_has_no_predictions(fitted, tmp_path, capsys):
    (tmp_path / "none.csv").write_text("member,job,age\n")
    status, out, _ = run(capsys, "predict", fitted.model, tmp_path / "none.csv")
    assert (status, out) == (0, "class,probability\n")


def test_models_that_vote_state_scores(tmp_path, capsys, fitted):
    content = json.loads(fitted.model.read_text())
    content |= {"probability": None, "reason": "a vote"}
    (tmp_path / "vote.json").write_text(signed(content))
    status, out, _ = run(capsys, "predict", tmp_path / "vote.json", fitted.folder / "odd.csv")
    head, *lines = csv.reader(io.StringIO(out))
    assert (status, head) == (0, ["class", "score"])
    assert all((float(score) > 0) == (word == "ill, or worse") for word, score in lines)


def test_explain_and_statement(fitted, capsys):
    model = dpbt.load(fitted.model)
    assert run(capsys, "explain", fitted.model)[:2] == (0, dpbt.explain(model) + "\n")
    assert run(capsys, "statement", fitted.model)[:2] == (0, model.kept.statement + "\n")
    status, out, _ = run(capsys, "statement", fitted.model, "--rows-per-person", 2, "--ledger")
    assert status == 0
    assert "owner's promise" in out
    assert "epsilon = 10 and" in out
    assert out.endswith(model.kept.ledger + "\n")


def test_what_needs_no_jax_runs_without_it(fitted):
    domain = ("domain", "template", fitted.folder / "rows.csv")
    for words in (
        ("predict", fitted.model, fitted.folder / "odd.csv"),
        ("statement", fitted.model),
        domain,
        ("fit", "--help"),
    ):
        program = (
            "import sys; sys.modules['jax'] = None; from dpbt.__main__ import main; "
            "sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", program, *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("rows.csv", "age,job,class\n1,clerk,healthy\n", "rows.csv, line 1: no column 'member'"),
        ("rows.csv", "age,job,member\n1,clerk,yes\n", "rows.csv, line 1: no column 'class'"),
        ("rows.csv", "age,age,job,member,class\n", "rows.csv, line 1: more than one column 'age'"),
        ("rows.csv", "", "rows.csv: the file is empty"),
        ("rows.csv", None, "rows.csv: No such file or directory"),
        ("domain.json", None, "domain.json: No such file or directory"),
        ("domain.json", "{", "domain.json, line 1: not JSON"),
        ("domain.json", '{"columns": {}}', "domain.json: expected an object"),
        (
            "domain.json",
            '{"columns": {"age": {"type": "numeric"}}, "label": {}}',
            "domain.json: column 'age': missing 2 required positional arguments",
        ),
    ],
)
def test_bad_files_are_one_line_and_leave_nothing(name, content, expected, tmp_path, capsys):
    fill(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    before = sorted(tmp_path.iterdir())
    assert f"{tmp_path}/{expected}" in refusal(capsys, *fitting(tmp_path))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--epsilon", "0"), "--epsilon must be greater than 0, got 0"),
        (("--epsilon", "inf"), "--epsilon must be finite, got inf"),
        (("--delta", "1"), "--delta must be at least 0 and less than 1, got 1"),
        (("--rows", "1_000"), "--rows invalid whole number value: '1_000'"),
        (("--rows", "0"), "--rows must be at least 1, got 0"),
        (("--recipe", "trees"), "--recipe invalid choice: 'trees'"),
        (("--recipe", "auto"), "--rounds is not an option of the recipe auto"),
        (("--depth", "99"), "depth"),
        (("--relation", "either"), "--relation invalid choice: 'either'"),
        (("--seed", "-1"), "--seed must be in 0..2147483647, got -1"),
        (("--relation", "replace_one"), "set rows to their number, or choose relation="),
    ],
)
def test_bad_options_are_one_line(words, expected, fitted, capsys):
    assert expected in refusal(capsys, *fitting(fitted.folder, "new.json"), *words)
    assert not (fitted.folder / "new.json").exists()


def test_too_many_rows_are_refused_without_their_number(fitted, capsys):
    err = refusal(capsys, *fitting(fitted.folder, "new.json", rows=41))
    assert "rows.csv: more rows than --rows 41, the stated bound on their number" in err
    assert str(ROWS) not in err.replace(str(fitted.folder), "")
    assert not (fitted.folder / "new.json").exists()


def test_where_a_model_cannot_be_written_nothing_is_learned(fitted, tmp_path, capsys, monkeypatch):
    """A fit that is lost has spent its budget."""
    monkeypatch.setattr(boosting, "learn", lambda *_: pytest.fail("learned"))
    kept = fitted.model.read_text()
    assert "model.json: the file exists; --force" in refusal(capsys, *fitting(fitted.folder))
    assert fitted.model.read_text() == kept
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("")
    for out, expected in ((folder, "a folder, where --out"), (file / "x", "no file can be writ")):
        assert expected in refusal(capsys, *fitting(fitted.folder, out))


def test_no_shape_shows_the_number_of_rows(fitted, tmp_path, capsys, monkeypatch):
    seen = []

    def learn(key, table, recipe, public_key):
        seen.append(jax.tree.map(np.shape, table))
        raise KeyboardInterrupt

    monkeypatch.setattr(boosting, "learn", learn)
    for lines in (ROWS, ROWS - 20):
        kept = (fitted.folder / "rows.csv").read_text().splitlines()[: lines + 1]
        (tmp_path / "rows.csv").write_text("\n".join(kept))
        words = fitting(fitted.folder, tmp_path / "model.json")
        run(capsys, words[0], tmp_path / "rows.csv", *words[2:])
    assert seen[0] == seen[1]
    assert seen[0].present == (ROWS + 10,)


def test_force_replaces_a_model(fitted, tmp_path, capsys):
    (tmp_path / "model.json").write_text("old")
    words = fitting(fitted.folder, tmp_path / "model.json")
    assert run(capsys, *words, "--force")[0] == 0
    assert (tmp_path / "model.json").read_text() == fitted.model.read_text()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug")])
def test_ctrl_c_is_130_and_a_bug_keeps_its_traceback(error, fitted, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(boosting, "learn", fail)
    words = fitting(fitted.folder, tmp_path / "model.json")
    if isinstance(error, KeyboardInterrupt):
        assert run(capsys, *words)[0] == 130
    else:
        with pytest.raises(ValueError, match="a bug"):
            command_line.main(words)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_read_is_one_line(fitted, tmp_path, capsys):
    (tmp_path / "cut.json").write_text(fitted.model.read_text()[:-40])
    assert "cut.json: not a saved model, or cut off" in refusal(
        capsys, "predict", tmp_path / "cut.json", fitted.folder / "odd.csv"
    )
    for command in ("explain", "statement"):
        assert "No such file" in refusal(capsys, command, tmp_path / "none.json")
        assert "cut.json: not a saved" in refusal(capsys, command, tmp_path / "cut.json")
    (tmp_path / "rows.csv").write_text("age,job\n1,clerk\n")
    err = refusal(capsys, "predict", fitted.model, tmp_path / "rows.csv")
    assert "rows.csv, line 1: no column 'member'" in err


def test_a_model_without_a_domain_reads_no_files(fitted, tmp_path, capsys):
    domain, _ = domains.read_domain(fitted.folder / "domain.json")
    columns = {name: [None] * 8 for name in domain}
    table = dpbt.table(domain, columns, [True, False] * 4)
    recipe = dpbt.recipes.bdpe(epsilon=1.0, rows=8, rounds=2, depth=2, criterion="gini")
    dpbt.fit(dpbt.fresh_key(), table, recipe).save(tmp_path / "bare.json")
    err = refusal(capsys, "predict", tmp_path / "bare.json", fitted.folder / "odd.csv")
    assert "bare.json: saved without a domain, so it reads no files" in err
    assert refusal(capsys, "explain", tmp_path / "bare.json")


def test_a_template_has_names_alone(fitted, tmp_path, capsys):
    status, out, _ = run(
        capsys, "domain", "template", fitted.folder / "rows.csv", "--label", "class"
    )
    assert status == 0
    assert out == domains_template("age", "job", "extra", "member", "class", label="class")
    path = tmp_path / "t.json"
    words = ("domain", "template", "--columns", "a", "b", "--out", path)
    assert run(capsys, *words)[0] == 0
    assert path.read_text() == domains_template("a", "b")
    assert "t.json: the file exists" in refusal(capsys, *words)
    assert "t.json: column 'a': type must" in refusal(
        capsys, *fitting(fitted.folder, "new.json"), "--domain", path
    )


def domains_template(*names, label=None):
    return dpbt.data.templates.template(names, label)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("domain", "template"), "give either a file or --columns"),
        (("domain", "template", "--columns", "a", "a"), "must not repeat"),
        (("domain", "template", "--columns", "a", "--label", "b"), "label must be one of"),
        (("domain", "template", "none.csv"), "none.csv: No such file"),
        (("domain", "template", "none.parquet"), "none.parquet: No such file"),
        (("domain", "template", "a.arrow"), "pip install 'dpbt[parquet]'"),
        (
            ("predict", "MODEL", "a.parquet"),
            "a.parquet: reading Parquet needs pyarrow: pip",
        ),
        (("nothing",), "COMMAND invalid choice: 'nothing'"),
    ],
)
def test_other_refusals(words, expected, fitted, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("a.arrow", "a.parquet"):
        Path(name).write_text("")
    given = [fitted.model if word == "MODEL" else word for word in words]
    assert expected in refusal(capsys, *given)


def test_parquet_is_read_cell_by_cell(fitted, tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    domain, label = domains.read_domain(fitted.folder / "domain.json")
    columns = files.read_csv(fitted.folder / "odd.csv", domain, label).columns
    ages = [40.0, None, float("nan"), -3.0, 1e99, None, None, None, 71.0]
    parquet.write_table(arrow.table({**columns, "age": ages, "x": ages}), tmp_path / "odd.parquet")
    expected = run(capsys, "predict", fitted.model, fitted.folder / "odd.csv")
    assert run(capsys, "predict", fitted.model, tmp_path / "odd.parquet") == expected
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 secret")
    err = refusal(capsys, "predict", fitted.model, tmp_path / "bad.parquet")
    assert "bad.parquet: no Parquet file that pyarrow can read" in err
    parquet.write_table(arrow.table({"age": ages}), tmp_path / "few.parquet")
    err = refusal(capsys, "predict", fitted.model, tmp_path / "few.parquet")
    assert "few.parquet: no column 'job'" in err
    status, out, _ = run(capsys, "domain", "template", tmp_path / "odd.parquet")
    assert (status, json.loads(out)["columns"]["age"]["type"]) == (0, "numeric")


AUDIT = ("audit", "--domain", INCOME, "--rows", "40", "--epsilon", "1", "--recipe", "bdpe")


@pytest.mark.parametrize(("loss", "delta", "status"), [(0.9, 0, 0), (1.1, 0, 1), (1.1, 1e-6, 0)])
def test_an_audit_above_a_pure_claim_fails(loss, delta, status, capsys, monkeypatch):
    seen = []

    def audit(key, near, recipe, transcripts):
        seen.append(near)
        return audits.Audit(1.0, loss, {"leaf": loss}, {}, 60, transcripts, (0, 0), {})

    monkeypatch.setattr(audits, "audit", audit)
    found, out, _ = run(capsys, *AUDIT, "--delta", delta)
    assert found == status
    assert f"largest loss: {loss}" in out
    assert ("ABOVE THE CLAIM" in out) == (status == 1)
    [near] = seen
    assert int(near.table.present.sum()) == 30
    assert len(near.present) == 60
    assert set(near.present.sum(axis=1)) == {29, 31}


def test_an_audit_under_replace_one_has_all_rows(capsys, monkeypatch):
    seen = []

    def audit(key, near, recipe, transcripts):
        seen.append(near)
        return audits.Audit(1.0, 0.5, {}, {}, 60, transcripts, (0, 0), {})

    monkeypatch.setattr(audits, "audit", audit)
    assert run(capsys, *AUDIT, "--relation", "replace_one")[0] == 0
    [near] = seen
    assert set(near.present.sum(axis=1)) == {40}
    assert np.all((near.present != np.asarray(near.table.present)).sum(axis=1) == 2)
    words = [*AUDIT, "--relation", "replace_one", "--rows", "1001"]
    assert "--rows must be at most 1000 under replace_one" in refusal(capsys, *words)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", inputs.RECIPES)
def test_audits_of_every_recipe(recipe, capsys):
    words = (*AUDIT[:-1], recipe, "--transcripts", "2", "--neighbours", "10")
    extra = ("--delta", "1e-6") if recipe == "halfspace_boost" else ()
    assert run(capsys, *words, *extra)[0] == 0


def test_the_names_of_recipes_are_those_of_the_library():
    assert sorted(inputs.RECIPES) == sorted({**named.BOOSTING, **named.FORESTS})
    assert inputs.RECIPES[0] == "auto"


def test_progress_is_for_terminals_and_has_no_number_of_what_is_private(
    capsys, monkeypatch, fitted, tmp_path
):
    """A time would tell how many runs a choice made, and how many rows a file has."""

    def shown(seconds):
        with output.working("learning"):
            time.sleep(seconds)
        return capsys.readouterr().err

    assert shown(0) == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert shown(0) == shown(1.2) == "learning ...\r\033[K"

    file = fitted.folder / "rows.csv"
    words = ("convert", fitted.folder / "domain.json", file, tmp_path / "t", "--capacity", 9000)
    assert run(capsys, *words)[2] == f"reading {file} ...\r\033[K"


def test_a_closed_pipe_is_no_error(fitted):
    command = [sys.executable, "-m", "dpbt", "predict", fitted.model, fitted.folder / "rows.csv"]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_lists_every_command_on_one_line(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    for name in command_line.COMMANDS:
        assert sum(line.strip().startswith(f"{name} ") for line in out.splitlines()) == 1


PAGE = (ROOT / "docs" / "handing_over.md").read_text()


def test_the_commands_of_the_docs_are_all_of_them():
    """`tests/experiments/test_docs.py` runs them."""
    shown = [words for block in blocks(PAGE, "sh") for words in pages.commands(block)]
    assert {words[1] for words in shown if words[0] == "dpbt"} == set(command_line.COMMANDS)
