"""docs/tutorial.md runs start to end, and prints what it shows."""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbt
from experiments.common.data.dataset import breast_cancer
from tests.support import ROOT, doc_pages

EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
ARGUMENTS = ("adult.csv", "adult_test.csv", "adult.json", "people.csv", "40000")


def make_files(adult: Path, folder: Path) -> None:
    """Make the files of the program by the page's own shell command.

    Args:
        adult: the folder of UCI's files.
        folder: where the steps will run.
    """
    (folder / "data").mkdir()
    (folder / "data" / "adult").symlink_to(adult)
    shutil.copytree(EXAMPLES, folder / "docs" / "examples")
    (command,) = re.findall(r"^```sh\n(names=.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True)


def own_program(step: doc_pages.Block) -> bool:
    """Whether the block is a program of its own, which then has a docstring."""
    return step.text.startswith('"""')


def run(folder: Path, arguments: tuple[str, ...], without: str | None = None) -> list[str]:
    """What each step prints. Steps share one scope and run in `folder`, as a person would.

    Args:
        folder: the current folder of the steps.
        arguments: of `income.py`.
        without: leave out the steps whose code has this pattern. They count as printing nothing.
    """
    printed, scope = [], {}
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["income.py", *arguments])
        for step_index, step in enumerate(STEPS):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                if without is not None and re.search(without, step.text):
                    pass
                elif own_program(step):
                    print(_run_alone(step.text, arguments[3]), end="")
                else:
                    exec(compile(step.text, f"step {step_index}", "exec"), scope)
            printed.append(out.getvalue())
    return printed


def _run_alone(code: str, argument: str) -> str:
    """What a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, argument]
    return subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


STEPS = [block for block in doc_pages.blocks_with_outputs(PAGE) if block.language == "python"]
LEARNED = ("predict_proba", "measure", "explain")
"""What prints what was learned; all other steps print the same whenever they run."""


def noisy(step: doc_pages.Block) -> bool:
    return any(f"{word}(" in step.text for word in LEARNED)


def numbers(text: str) -> list[float]:
    return [float(digits) for digits in re.findall(r"\d+\.\d*(?:e[-+]\d+)?", text)]


def form(text: str) -> str:
    """A text with its numbers and its layout taken away."""
    text = re.sub(r"\d+\.\d*(?:e[-+]\d+)?", "#", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]").strip()


def only(texts: list[str], start: str) -> str:
    (match,) = [text for text in texts if text.startswith(start)]
    return match


def check_forms(printed: list[str]) -> None:
    """The steps that print noise have the form that the page shows."""
    for step, text in zip(STEPS, printed, strict=True):
        if noisy(step) and text and "explain(" not in step.text and not own_program(step):
            assert form(text) == form(step.shown or "")


def check_the_file(printed: list[str], classes: tuple[str, str]) -> None:
    """It predicts what the model did, in a process that has no JAX."""
    probabilities = numbers(only(printed, "["))
    loaded = only(printed, "class: ")
    quoted_classes, _, rest = loaded.partition("\n")
    pairs = np.array(numbers(rest)).reshape(-1, 2)
    assert len(probabilities) == 3
    np.testing.assert_allclose(pairs[:, 1], probabilities, atol=1e-6)
    np.testing.assert_allclose(pairs.sum(axis=1), 1, atol=1e-6)
    assert loaded.endswith("JAX was imported: False\n")
    assert re.findall(r"'(.*?)'", quoted_classes) == [classes[p > 0.5] for p in probabilities]


def test_the_page_has_the_lines_of_its_two_programs():
    for name in ("income.py", "read_model.py"):
        blocks = [step.text for step in STEPS if own_program(step) == (name == "read_model.py")]
        text = (EXAMPLES / name).read_text()
        if name == "income.py":  # its docstring says how it is run
            text = text.split('"""', 2)[2]
        lines = [line for line in "\n".join(blocks).splitlines() if line]
        assert lines == [line for line in text.splitlines() if line]


def test_every_output_is_shown_and_the_words_agree_with_it():
    for step in STEPS:
        assert (step.shown is not None) == ("print(" in step.text)
    assert any(" 1024 " in (step.shown or "") for step in STEPS)
    assert "1,024 trees" in PAGE
    (excerpt,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    entire_domain = json.loads((EXAMPLES / "adult.json").read_text())
    assert json.loads(excerpt).items() <= entire_domain["columns"].items()


def cancer_files(folder: Path) -> tuple[str, ...]:
    """Ten columns of the data that scikit-learn has, as the files that the program takes."""
    source = breast_cancer()
    names, label = [name for name in source.domain if name.startswith("mean")], "diagnosis"
    declared = {
        name: {"type": "numeric", "low": column.low, "high": column.high, "bins": column.bins}
        for name, column in source.domain.items()
        if name in names and isinstance(column, dpbt.domains.Numeric)
    }
    classes = {"column": label, "positive": "malignant", "negative": "benign"}
    (folder / "domain.json").write_text(json.dumps({"columns": declared, "label": classes}))
    diagnoses = np.where(source.label, "malignant", "benign")
    rows = [*zip(*(source.columns[name] for name in names), diagnoses, strict=True)]
    order = np.random.default_rng(0).permutation(len(rows))
    first, second = np.flatnonzero(source.label)[:1], np.flatnonzero(~source.label)[:2]
    parts = {"rows.csv": order[:400], "known.csv": order[400:], "new.csv": [*first, *second]}
    for file_name, chosen in parts.items():
        width = len(names) if file_name == "new.csv" else len(names) + 1
        with open(folder / file_name, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*names, label][:width])
            writer.writerows(rows[row][:width] for row in chosen)
    return "rows.csv", "known.csv", "domain.json", "new.csv", "450"


FIRST, SECOND = r"\b(model|recipe)\b", r"\b(readable|second)\b"
"""Steps of the first and of the second model have these names."""


def test_the_first_model_of_the_tutorial_runs_on_bundled_data(tmp_path):
    printed = run(tmp_path, cancer_files(tmp_path), without=SECOND)
    check_forms(printed)
    check_the_file(printed, ("benign", "malignant"))

    domain, label = dpbt.domains.read_domain(tmp_path / "domain.json")
    recipe = dpbt.recipes.auto(epsilon=1.0, delta=1e-6, rows=450, domain=domain)
    assert only(printed, "site") == f"{dpbt.ledger(recipe)}\n"
    assert f"10 columns and {label}\n" in printed
    assert "at most 450 rows" in only(printed, "# Privacy statement")
    accuracy, auroc = numbers(only(printed, "the model").rpartition("accuracy")[2])
    assert accuracy > 0.7
    assert auroc > 0.85


@pytest.mark.slow
def test_the_page_runs_on_adult_and_prints_what_it_shows(data_folder, tmp_path):
    make_files((data_folder / "adult").resolve(), tmp_path)
    printed = run(tmp_path, ARGUMENTS)

    check_forms(printed)
    for step, text in zip(STEPS, printed, strict=True):
        if not noisy(step):
            assert text.rstrip("\n") == (step.shown or "").rstrip("\n")
    for outputs in (printed, [step.shown or "" for step in STEPS]):
        check_the_file([f"{text.rstrip()}\n" for text in outputs], ("<=50K", ">50K"))
        clerk, official, _ = numbers(only(outputs, "["))
        assert clerk < 0.1
        assert official > 0.8
