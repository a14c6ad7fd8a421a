"""What the README and the docs say is true: code runs, names, links and commands exist."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import dpbt
from dpbt.privacy import accounting, program_interpreters
from dpbt.privacy.keys import ResearchKeyWarning
from tests.support import ROOT, doc_pages, documented_names
from tests.support.doc_pages import PAGES, blocks_in_language

README = (ROOT / "README.md").read_text()
EXAMPLES = {path.name: path for path in sorted((ROOT / "docs" / "examples").glob("*.py"))}


def anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


@pytest.fixture
def quiet_folder(tmp_path, monkeypatch):
    """An empty folder to run in, with figures that open no window."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


def test_the_quickstart_prints_what_the_readme_shows(quiet_folder, capsys):
    scope: dict = {}
    (block,) = blocks_in_language(README, "python")
    exec(compile(block, "README.md", "exec"), scope)

    printed = capsys.readouterr().out
    (shown,) = [text for text in blocks_in_language(README, "") if "total: epsilon" in text]
    first_lines, _, _ = shown.partition("\n...\n")
    ledger = str(dpbt.ledger(scope["recipe"]))
    assert printed.startswith(ledger)
    assert ledger.startswith(first_lines)
    assert first_lines.splitlines()[-1].startswith("total: epsilon")
    guarantees = (ROOT / "docs" / "guarantees.md").read_text()
    assert ledger in [block.rstrip("\n") for block in blocks_in_language(guarantees, "")]
    for text in (printed, shown):  # a smith of 30 is no member, and one of 70 is
        assert "\njob  smith: +" in text
        assert re.search(r"\n\[False  True\] \[0\.[01]\d* +0\.[89]", text)


BEFORE = {
    "handing_over.md": (("tutorial.md", "names="),),
    "composition.md": (("tutorial.md", "names="), ("handing_over.md", "cp ")),
    "pictures.md": (
        ("tutorial.md", "names="),
        ("handing_over.md", "cp "),
        ("handing_over.md", "dpbt fit"),
        ("handing_over.md", "cat "),
    ),
}
"""The blocks of commands of other pages that make the files of a page, by how they begin."""


SLOW_PAGES = (
    "composition.md",
    "devices.md",
    "estimators.md",
    "scaling.md",
    "sweeps.md",
    "tuning.md",
)


def make_files(page: str, folder: Path) -> None:
    """What a reader has before the page: a checkout, Adult with made-up people, and a model."""
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "data" / "adult").mkdir(parents=True)
    line = "{}, Private, 1, HS-grad, {}, Divorced, Sales, Unmarried, White, {}, 0, 0, 40, Cuba, {}"
    for name, stop in (("adult.data", ""), ("adult.test", ".")):
        people = [
            (20 + row % 60, row % 16, ("Male", "Female")[row % 2], ("<=50K", ">50K")[row % 60 > 30])
            for row in range(200)
        ]
        lines = [line.format(*person) + stop for person in people]
        (folder / "data" / "adult" / name).write_text("\n".join(lines) + "\n\n")
    for other, start in BEFORE.get(page, ()):
        text = (ROOT / "docs" / other).read_text()
        (block,) = [block for block in blocks_in_language(text, "sh") if block.startswith(start)]
        doc_pages.run_block(block, folder)


USES_OF_OTHER_PACKAGES = {"import shap": "tests/test_contributions.py, where shap is installed"}
"""The first line of code that another package runs, and the test that runs it."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=[pytest.mark.slow] if page.name in SLOW_PAGES else [])
        for page in PAGES
        if page.name != "README.md"
    ],
)
def test_code_and_commands_of_the_docs_run(page, quiet_folder):
    """In one folder and in their order, but for what other tests run, and for `pages.NOT_RUN`."""
    make_files(page, quiet_folder)
    examples = [path.read_text() for path in EXAMPLES.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        for block in doc_pages.blocks_with_outputs((ROOT / "docs" / page).read_text()):
            first_line = block.text.split("\n")[0]
            is_run_elsewhere = first_line in USES_OF_OTHER_PACKAGES
            is_run_elsewhere |= any(block.text in text for text in examples)
            if block.language == "python" and not is_run_elsewhere:
                exec(compile(block.text, page, "exec"), {})
            if block.language == "sh":
                printed = doc_pages.run_block(block.text, quiet_folder)
                if printed is not None and block.shown is not None:
                    assert doc_pages.without_numbers(printed) == doc_pages.without_numbers(
                        block.shown
                    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_read_by_their_programs(page):
    text = page.read_text()
    assert not [
        block
        for block in blocks_in_language(text, "")
        if doc_pages.is_known_command(doc_pages.command_without_folder(block.split()))
    ]
    for block in blocks_in_language(text, "sh"):
        for command in doc_pages.commands_of_block(block):
            if doc_pages.is_known_command(command):
                doc_pages.check_command(command)


TUTORIAL = ("income.py", "read_model.py")
"""These take files, and are run by `tests/experiments/test_tutorial.py`."""


SLOW = ("sweep.py", "pictures.py")
"""These write pictures to a folder."""

APART = ("several_processes.py", "own_audit.py")
"""These are run by `tests/test_processes.py`, and by the command of their page."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in EXAMPLES
        if name not in (*TUTORIAL, *APART)
    ],
)
def test_every_example_runs_and_prints_its_results(name, quiet_folder, monkeypatch, capsys):
    arguments = ["results"] if name in SLOW else []
    monkeypatch.setattr("sys.argv", [name, *arguments])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    printed = capsys.readouterr().out
    if name == "sweep.py":
        assert (quiet_folder / "results" / "sweep.png").stat().st_size > 10_000
        assert "fits=750" in printed
    else:
        assert "total: epsilon" in printed


def test_readme_ledger_and_pages_name_one_relation_one_rows_one_sampler_and_one_key():
    """The readme and the pages have the words that the ledger prints."""
    named = [ROOT / "docs" / "guarantees.md", ROOT / "docs" / "threats.md"]
    pages = [" ".join(page.read_text().replace("`", "").split()) for page in named]
    readme = " ".join(README.replace("`", "").split())
    for relation, relation_text in accounting.RELATION_TEXTS.items():
        ledger_of_readme = dpbt.ledger(
            dpbt.recipes.bdpe(epsilon=1.0, rows=50, relation=relation), dpbt.fresh_key()
        )
        printed = str(ledger_of_readme)
        assert relation_text.replace("rows is", "rows = 50 is") in printed
        assert accounting.BOUNDED_SAMPLERS_TEXT in printed
        assert "against adversaries of bounded computation" in printed
        for page in (*pages, readme):
            assert f"{relation.value}: {relation_text}" in page
            assert "against adversaries" in page
        for page in pages:
            assert accounting.BOUNDED_SAMPLERS_TEXT in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        linked = page if not path else page.parent / path
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE)
            assert heading in map(anchor, headings), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_pages_have_titles(page):
    """A reader sees what a page is about, and not what its file is called."""
    texts = re.findall(r"\[([^\]]+)\]\([^)]+\.(?:md|ipynb)(?:#[^)]*)?\)", page.read_text())
    assert [text for text in texts if text.strip("`").endswith((".md", ".ipynb"))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_and_files_in_the_text_of_a_page_exist(page):
    """What stands between backticks and looks like a name of the code, a file or a test."""
    assert [
        part
        for part in doc_pages.inline_code(page.read_text())
        if not documented_names.is_name_of_something(part)
    ] == []


def test_the_answers_to_draws_are_those_of_the_page():
    text = (ROOT / "docs" / "privacy.md").read_text()
    table = text.partition("| answer |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    listed = re.findall(r"^- `(\w+)`", program_interpreters.__doc__ or "", re.MULTILINE)
    assert named == listed
    assert all(callable(getattr(program_interpreters, name)) for name in named)


def test_the_version_is_stated_once():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert dpbt.__version__ == stated
    assert stated not in (ROOT / "dpbt" / "__init__.py").read_text()
    for file in ("CHANGELOG.md", "CITATION.cff", "docs/citing.md"):
        assert stated in (ROOT / file).read_text()


def test_the_page_of_commands_is_what_the_parsers_say():
    page = runpy.run_path(str(ROOT / "docs" / "command_line.py"))["page"]()
    assert (ROOT / "docs" / "command_line.md").read_text() == page, "run `make docs`"


SEARCHED = (
    "accuracy anonymous attack categorical choose epsilon compliance cross-validation csv dates "
    "delta deploy early stopping excel explain fairness feature importance federated gdpr gpu "
    "how many rows hyperparameters imbalanced lightgbm memory missing values multiclass onnx "
    "overfitting pandas polars rare class regression retrain scikit-learn seed slow sql "
    "synthetic threshold time series tune xgboost "
)
"""Words that people search for."""


def test_words_that_people_search_for_lead_to_an_answer():
    """Each is on the page of questions, whose headings a search finds."""
    words_of_page = re.findall(r"[\w-]+", (ROOT / "docs" / "questions.md").read_text().lower())
    starts = {word[:5] for word in words_of_page}
    assert [word for word in SEARCHED.split() if word[:5] not in starts] == []


@pytest.mark.parametrize("page", ["guarantees.md", "tutorial.md"])
def test_ledgers_are_tables_of_the_site(page):
    """The table has every word of the block, and a column for each of its columns."""
    show_ledger = runpy.run_path(str(ROOT / "docs" / "site.py"))["_show_ledger"]
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE)
    ledgers = [block for block in blocks if "\nsite " in block]
    assert ledgers
    for block in blocks:
        shown = show_ledger(block)
        if block not in ledgers:
            assert shown == block
            continue
        table, _, below = shown.partition("\n\n")
        assert below.startswith("```\ntotal: epsilon")
        header, _, *rows = table.splitlines()
        assert header.count("|") == 11
        assert all(row.count("|") == 11 for row in rows)
        assert re.findall(r"[^\s|`-]+", shown) == re.findall(r"[^\s|`-]+", block)


def test_wide_tables_are_stacked_on_a_phone():
    prepare = runpy.run_path(str(ROOT / "docs" / "site.py"))["_prepare_table"]
    row = "<tr>{}</tr>".format
    head = "<table><thead>{}</thead><tbody>{}</tbody></table>".format
    narrow = head(row("<th>word</th><th>meaning</th>"), row("<td>bin</td><td>an interval</td>"))
    assert prepare(narrow) == narrow
    names = [f"<th>epsilon <code>{column_index}</code></th>" for column_index in range(12)]
    wide_table = prepare(head(row("".join(names)), row("<td>.5 &amp; more</td>" * 12)))
    assert wide_table.startswith("<table data-stack>")
    assert re.findall(r'data-label="([^"]+)"', wide_table) == [f"epsilon {n}" for n in range(12)]
    assert wide_table.count(">.5 &amp; more</td>") == 12


@pytest.mark.slow
def test_the_site_is_built(tmp_path):
    """It has every link, and links names of the API to where they are described."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert "criterion" in (tmp_path / "api" / "recipes.html").read_text()
    assert 'href="api/dpbt.html#dpbt.fit"' in (tmp_path / "scaling.html").read_text()
    pages = [path.read_text() for path in tmp_path.glob("**/*.html")]
    loaded = r'(?:src=|<link [^>]*href=)"http[^"]+'
    assert not [address for page in pages for address in re.findall(loaded, page)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["owner", "sweep_and_audit", "paper_figure"])
def test_notebooks_run_and_print_as_they_show(name, quiet_folder):
    """Line by line up to numbers, where it follows from no noise: ledgers and statements."""
    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        ran = runpy.run_path(str(path.parent / "rerun.py"))["run"](path)
    for cell, shown in zip(ran["cells"], json.loads(path.read_text())["cells"], strict=True):
        kinds = [
            [part["output_type"] for part in notebook_cell.get("outputs", [])]
            for notebook_cell in (cell, shown)
        ]
        assert kinds[0] == kinds[1], "run docs/notebooks/rerun.py"
        for output, output_shown in zip(
            cell.get("outputs", []), shown.get("outputs", []), strict=True
        ):
            text, kept = ("".join(part.get("text", "")) for part in (output, output_shown))
            if "statement" in text or "theorem" in text:
                assert doc_pages.without_numbers(text) == doc_pages.without_numbers(kept), (
                    "run docs/notebooks/rerun.py"
                )
