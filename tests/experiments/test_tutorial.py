"""docs/tutorial.md runs start to end, and prints what it shows."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import dpbt
from experiments.common.data.dataset import breast_cancer
from tests import tutorial_page

PAGE = tutorial_page.PAGE.read_text()
SHOWN = [step.shown for step in tutorial_page.steps(PAGE)]
LEARNED = ("predict_proba", "measure", "explain")
"""What prints what was learned; all other steps print the same whenever they run."""


def noisy(step: tutorial_page.Step) -> bool:
    return any(f"{word}(" in step.code for word in LEARNED)


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+\.\d*(?:e[-+]\d+)?", text)]


def form(text: str) -> str:
    """A text with its numbers and its layout taken away."""
    text = re.sub(r"\d+\.\d*(?:e[-+]\d+)?", "#", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]").strip()


def only(texts: list[str], start: str) -> str:
    (found,) = [text for text in texts if text.startswith(start)]
    return found


def check_forms(printed: list[str]) -> None:
    """The steps that print noise have the form that the page shows."""
    for step, text in zip(tutorial_page.steps(PAGE), printed, strict=True):
        if noisy(step) and text and "explain(" not in step.code and not step.own_program:
            assert form(text) == form(step.shown or "")


def check_the_file(printed: list[str], classes: tuple[str, str]) -> None:
    """It predicts what the model did, in a process that has no JAX."""
    probabilities = numbers(only(printed, "["))
    loaded = only(printed, "class: ")
    words, _, rest = loaded.partition("\n")
    pairs = np.array(numbers(rest)).reshape(-1, 2)
    assert len(probabilities) == 3
    np.testing.assert_allclose(pairs[:, 1], probabilities, atol=1e-6)
    np.testing.assert_allclose(pairs.sum(axis=1), 1, atol=1e-6)
    assert loaded.endswith("JAX was imported: False\n")
    assert re.findall(r"'(.*?)'", words) == [classes[p > 0.5] for p in probabilities]


def check_the_rules(printed: list[str]) -> None:
    """They are of one tree of depth 3."""
    rules = only(printed, "score of a row")
    assert len(re.findall(r"^tree ", rules, re.MULTILINE)) == 1
    assert 2 <= len(re.findall(r"^ +add [-+]0\.\d+$", rules, re.MULTILINE)) <= 8


def measured(text: str) -> list[float]:
    """Accuracy, and AUROC where it is printed."""
    return numbers(text.rpartition("accuracy")[2])


def test_the_page_is_its_two_programs():
    written = [step.code for step in tutorial_page.steps(PAGE)]
    programs = {
        "income.py": [code for code in written if not code.startswith('"""')],
        "read_model.py": [code for code in written if code.startswith('"""')],
    }
    for name, blocks in programs.items():
        text = (tutorial_page.EXAMPLES / name).read_text()
        if name == "income.py":  # its docstring says how it is run
            text = text.split('"""', 2)[2]
        lines = [line for line in "\n".join(blocks).splitlines() if line]
        assert lines == [line for line in text.splitlines() if line]


def test_every_output_is_shown_and_the_words_agree_with_it():
    for step in tutorial_page.steps(PAGE):
        assert (step.shown is not None) == ("print(" in step.code)
    assert any(" 1024 " in (shown or "") for shown in SHOWN)
    assert "1,024 trees" in PAGE
    (excerpt,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    whole = json.loads((tutorial_page.EXAMPLES / "adult.json").read_text())
    assert json.loads(excerpt).items() <= whole["columns"].items()


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
    words = np.where(source.label, "malignant", "benign")
    rows = [*zip(*(source.columns[name] for name in names), words, strict=True)]
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


def test_the_first_model_on_bundled_data(tmp_path):
    printed = tutorial_page.run(PAGE, tmp_path, cancer_files(tmp_path), without=SECOND)
    check_forms(printed)
    check_the_file(printed, ("benign", "malignant"))

    domain, label = dpbt.domains.read_domain(tmp_path / "domain.json")
    recipe = dpbt.recipes.auto(epsilon=1.0, delta=1e-6, rows=450, domain=domain)
    assert only(printed, "site") == f"{dpbt.ledger(recipe)}\n"
    assert f"10 columns and {label}\n" in printed
    assert "at most 450 rows" in only(printed, "Privacy statement")
    assert measured(only(printed, "the negative class")) == [0.615]
    accuracy, auroc = measured(only(printed, "the model"))
    assert accuracy > 0.7
    assert auroc > 0.85


@pytest.mark.slow
def test_the_page_runs_on_adult_and_prints_what_it_shows(data_folder, tmp_path):
    tutorial_page.make_files(PAGE, (data_folder / "adult").resolve(), tmp_path)
    for name, people in (("adult.csv", 32_561), ("adult_test.csv", 16_281)):
        assert len((tmp_path / name).read_text().splitlines()) == people + 1
        assert f"{people:,}" in PAGE
    printed = tutorial_page.run(PAGE, tmp_path, tutorial_page.ARGUMENTS)

    check_forms(printed)
    for step, text in zip(tutorial_page.steps(PAGE), printed, strict=True):
        if not noisy(step):
            assert text.rstrip("\n") == (step.shown or "").rstrip("\n")
    for outputs in (printed, [shown or "" for shown in SHOWN]):
        check_the_file([f"{text.rstrip()}\n" for text in outputs], ("<=50K", ">50K"))
        check_the_rules(outputs)
        accuracy, auroc = measured(only(outputs, "the model"))
        readable_accuracy, readable_auroc = measured(only(outputs, "score of a row"))
        assert accuracy > 0.84
        assert auroc > 0.88
        assert readable_accuracy > 0.8
        assert readable_auroc > 0.8
        clerk, official, _ = numbers(only(outputs, "["))
        assert clerk < 0.1
        assert official > 0.8
