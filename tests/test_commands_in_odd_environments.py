"""Commands in odd environments: code pages, `python -OO`, no metadata, no JAX, odd test rows."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt.common.extras import package_version
from dpbt.models import measures
from dpbt.privacy import mechanism_prices, mechanisms
from tests.support import ROOT
from tests.support.block_commands import FOREST_OPTIONS, refusal_line, run_command

COLUMNS = {
    "größe": {"type": "numeric", "low": 0, "high": 100, "bins": 8},
    "色": {"type": "nominal", "values": ["赤", "青", "😀"]},
}
LABELS = {
    "two": {"column": "class", "positive": "病気", "negative": "健康"},
    "several": {"column": "色", "type": "nominal", "values": ["赤", "青", "😀"]},
    "number": {"column": "num", "type": "numeric", "low": 0, "high": 20},
}
FIT_OPTIONS = ("--rows", "200", "--epsilon", "5")
RECIPES = {
    "two": FOREST_OPTIONS,
    "several": ("--recipe", "oblivious_boost", "--rounds", "2", "--depth", "2"),
    "number": ("--recipe", "oblivious_boost", "--rounds", "2", "--depth", "2"),
}


def write_rows(path, *, num_rows=100, constant=False, color="赤", bom=""):
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(bom)
        writer = csv.writer(file)
        writer.writerow(("größe", "色", "class", "num"))
        for _ in range(num_rows):
            size, word = rng.uniform(0, 100), color if constant else rng.choice(["赤", "青", "😀"])
            label = "病気" if constant or size > 50 else "健康"
            writer.writerow((size, word, label, 0.1 if constant else size / 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows, domains of labels of each kind, and a model for each."""
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_rows("rows.csv")
        write_rows("constant.csv", num_rows=20, constant=True)
        write_rows("one.csv", num_rows=1, constant=True)
        write_rows("empty.csv", num_rows=0)
        for name, label in LABELS.items():
            columns = {key: kind for key, kind in COLUMNS.items() if key != label["column"]}
            text = json.dumps({"columns": columns, "label": label})
            Path(f"{name}.json").write_text(text)
            arguments = (f"{name}.json", *FIT_OPTIONS, *RECIPES[name], "--out", f"{name}-ü.model")
            assert run_command("fit", "rows.csv", "--domain", *arguments) == 0
    return folder


@pytest.fixture
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


# Code pages.


@pytest.fixture
def run_under(monkeypatch, capsys):
    """A function that runs a command whose standard output has an encoding; its text."""

    def run(encoding, *arguments, errors="strict"):
        output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            status = run_command(*arguments)
        assert status == 0
        output.flush()
        return output.buffer.getvalue().decode(encoding)

    return run


COMMANDS = {
    "predict": ("predict", "two-ü.model", "rows.csv"),
    "predict, several": ("predict", "several-ü.model", "rows.csv", "--proba"),
    "statement": ("statement", "two-ü.model", "--owner", "登録"),
    "evaluate": ("evaluate", "two-ü.model", "rows.csv", "--domain", "two.json"),
    "evaluate, several": ("evaluate", "several-ü.model", "rows.csv", "--domain", "several.json"),
    "explain": ("explain", "two-ü.model"),
    "theorem": ("theorem",),
    "help": ("fit", "rows.csv", "--domain", "two.json", *FIT_OPTIONS, *FOREST_OPTIONS),
}


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp932", "utf-8"])
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_what_a_terminal_lacks_is_printed_as_escapes(in_folder, run_under, capsys, encoding, name):
    printed = run_under(encoding, *COMMANDS[name])
    err = capsys.readouterr().err
    assert run_under("utf-8", *COMMANDS[name]) == run_under("utf-16", *COMMANDS[name])
    unescaped = run_under("utf-8", *COMMANDS[name])
    assert printed == unescaped.encode(encoding, "backslashreplace").decode(encoding)
    is_escaped = printed != unescaped
    assert is_escaped == (f"warning: standard output is in {encoding}" in err)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp932"])
def test_files_of_odd_names_are_written_and_named(in_folder, run_under, tmp_path, encoding):
    out = tmp_path / "mü日😀.json"
    fit = ("fit", "rows.csv", "--domain", "two.json", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", out)
    assert "wrote " in run_under(encoding, *fit)
    dpbt.load(out)
    surrogates = tmp_path / os.fsdecode(b"p\xff.csv")
    predict = ("predict", out, "rows.csv", "--out", surrogates)
    assert "p\\udcff.csv" in run_under("utf-8", *predict)
    assert surrogates.exists()
    page = tmp_path / "s.html"
    link = tmp_path / os.fsdecode(b"m\xff.json")
    link.symlink_to(out)
    run_under(encoding, "statement", link, "--html", page)
    assert "File of the model: m\\udcff.json" in page.read_text("utf-8")
    run_under(encoding, "statement", link, "--pdf", tmp_path / "s.pdf")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_a_template_on_a_terminal_is_json_in_every_encoding(in_folder, run_under, encoding):
    text = run_under(encoding, "domain", "template", "rows.csv", "--label", "class")
    assert [*json.loads(text)["columns"]] == ["größe", "色", "num"]
    text = run_under("ascii", "domain", "template", "--no-header", "😀,y", "rows.csv")
    assert [*json.loads(text)["columns"]] == ["😀", "y"]


def test_undecodable_names_are_printed_as_they_were_where_the_locale_keeps_them(
    in_folder, run_under
):
    """The C locale keeps them, as its standard output has the error handler "surrogateescape"."""
    name = os.fsdecode("mü.html".encode("latin-1"))
    path = Path(name)
    arguments = ("statement", "two-ü.model", "--html", path, "--force")
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="surrogateescape")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        assert run_command(*arguments) == 0
        assert output.errors == "surrogateescape"
    output.flush()
    assert output.buffer.getvalue() == b"wrote m\xfc.html\n"


def test_commands_print_nothing_or_one_error_where_standard_output_is_closed(
    in_folder, monkeypatch, capsys
):
    for arguments in (COMMANDS["statement"], COMMANDS["explain"]):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", None)
            assert run_command(*arguments) == 0
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert run_command(*COMMANDS["predict"]) == 2
    assert "standard output is closed; give --out" in capsys.readouterr().err


# Python without docstrings, asserts, metadata or JAX.


def run_python(*arguments, cwd=ROOT, **environment):
    command = [sys.executable, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_help_and_predictions_need_no_docstrings_and_no_asserts(in_folder, option):
    program = (
        "import sys\nfrom dpbt.__main__ import main\n"
        "for words in (['--help'], ['fit', '--help'], ['filter', '--help'], ['domain', '--help'],\n"
        "    ['domain', 'template', '--help'], [], ['theorem', 'O1'],\n"
        "    ['predict', 'two-ü.model', 'rows.csv'], ['explain', 'two-ü.model']):\n"
        "    try:\n        status = main(words)\n"
        "    except SystemExit as end:\n        status = end.code\n"
        "    assert_ok = status in (0, None) or sys.exit(f'{words}: {status}')\n"
    )
    completed = run_python(option, "-c", program, cwd=in_folder, PYTHONIOENCODING="utf-8")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "usage: dpbt fit" in completed.stdout
    assert "  charge" in completed.stdout


WITHOUT_METADATA = (
    "import importlib.metadata as metadata\n"
    "def version(name): raise metadata.PackageNotFoundError(name)\n"
    "metadata.version = version\n"
)


def test_a_checkout_without_metadata_can_be_imported(in_folder):
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{WITHOUT_METADATA}"
    program += "import dpbt; print(dpbt.__version__)"
    completed = run_python("-I", "-c", program, cwd=in_folder)
    assert (completed.stdout, completed.stderr) == (f"{dpbt.__version__}\n", "")


def test_a_package_without_metadata_and_without_a_checkout_has_an_unknown_version(tmp_path):
    package = tmp_path / "copy" / "dpbt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes((ROOT / "dpbt" / "__init__.py").read_bytes())
    program = f"{WITHOUT_METADATA}import dpbt; print(dpbt.__version__)"
    completed = run_python("-c", program, cwd=tmp_path, PYTHONPATH=str(package.parent))
    assert (completed.stdout, completed.stderr) == ("unknown\n", "")


def test_versions_of_packages_need_no_metadata(monkeypatch):
    import importlib.metadata

    import jaxlib

    assert package_version("jaxlib") == importlib.metadata.version("jaxlib")

    def no_version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", no_version)
    assert package_version("jaxlib") == jaxlib.__version__


def test_what_reads_a_release_needs_no_jax(in_folder, tmp_path):
    """Neither does what prices a ledger again, shows a filter or measures a model."""
    dpbt.Filter(epsilon=20, rows=200, path=tmp_path / "f.db")
    recipe = dpbt.recipes.random_forest(epsilon=5.0, rows=200, rounds=3, depth=3)
    dpbt.Filter.open(tmp_path / "f.db").take(recipe)
    program = f"""
import sys
sys.modules['jax'] = sys.modules['jaxlib'] = None
import dpbt
from dpbt.__main__ import main
model, budget = dpbt.load('two-ü.model'), dpbt.Filter.open({str(tmp_path / "f.db")!r})
assert 'guarantee' in model._repr_html_()
ledger = dpbt.ledger(model)
assert '5' in str(ledger) and round(ledger.epsilon, 4) == 5
assert dpbt.statement(model, max_rows_per_user=2).count('epsilon = 10')
assert round(budget.spent, 4) == 5 and budget.ledger.epsilon
assert 'random_forest' in budget._repr_html_()
for words in (
    ['statement', 'two-ü.model', '--max-rows-per-user', '3', '--ledger'],
    ['explain', 'two-ü.model'],
    ['predict', 'two-ü.model', 'rows.csv', '--proba'],
    ['evaluate', 'two-ü.model', 'rows.csv', '--domain', 'two.json'],
    ['evaluate', 'number-ü.model', 'constant.csv', '--domain', 'number.json'],
    ['filter', 'show', {str(tmp_path / "f.db")!r}, '--ledger'],
    ['domain', 'template', 'rows.csv'],
    ['convert', 'two.json', 'rows.csv', {str(tmp_path / "blocks")!r}],
):
    assert main(words) == 0, words
assert main(['fit', 'rows.csv', '--domain', 'two.json', '--rows', '200', '--epsilon', '1',
    '--out', {str(tmp_path / "m.json")!r}]) == 2
"""
    completed = run_python("-c", program, cwd=in_folder, PYTHONIOENCODING="utf-8")
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == "error: this command needs JAX: pip install jax\n"


def test_prices_without_jax_are_those_of_the_mechanisms():
    assert {name: mechanism.price for name, mechanism in mechanisms.BY_NAME.items()} == (
        mechanism_prices.PRICE_BY_MECHANISM_NAME
    )


# Odd test rows.


@pytest.mark.parametrize(("name", "measure"), [("two", "auroc"), ("several", "auroc")])
def test_one_class_has_no_auroc(in_folder, capsys, name, measure):
    for file in ("constant.csv", "one.csv"):
        assert run_command("evaluate", f"{name}-ü.model", file, "--domain", f"{name}.json") == 0
        out, err = capsys.readouterr()
        assert f"\n{measure}: none\n" in out
        assert "nan" not in out
        assert err == ""


def test_constant_numbers_have_no_r2(in_folder, capsys):
    """The variance of numbers that equal .1 is rounded to above 0."""
    for file in ("constant.csv", "one.csv"):
        assert run_command("evaluate", "number-ü.model", file, "--domain", "number.json") == 0
        out, err = capsys.readouterr()
        assert "\nr2: none\n" in out
        assert (err, "nan" in out, "inf" in out) == ("", False, False)
    for value in (0.1, 0.0, 1e300, 1e-300, 1 / 3):
        with np.errstate(over="ignore"):
            measured = measures.measure_numbers(np.full(7, value), np.zeros(7))
        assert measured["r2"] is None


def test_files_without_rows_are_refused_or_empty(in_folder, capsys):
    for name in LABELS:
        capsys.readouterr()
        arguments = ("evaluate", f"{name}-ü.model", "empty.csv", "--domain", f"{name}.json")
        assert "no row has a declared label" in refusal_line(capsys, *arguments)
        assert run_command("predict", f"{name}-ü.model", "empty.csv") == 0
        assert capsys.readouterr().out.count("\n") == 1
