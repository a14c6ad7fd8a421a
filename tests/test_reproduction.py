"""What the papers print beside our results: the page, the claims, the rule, and the commands."""

import argparse
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dpbt.sweeps import plan, runner
from experiments import __main__ as command_line
from experiments.common import aggregated
from experiments.papers.asadi_2022 import baselines
from experiments.papers.asadi_2022 import words as asadi_words
from experiments.papers.bojarski_2014 import words as bojarski_words
from experiments.papers.nock_henecka_2020 import derived, saved, settings
from experiments.reproduction import claims, doc_tables, page, results
from paper_figures import __main__ as figures
from paper_figures import gallery
from paper_figures.nock_henecka_2020 import domains, runs
from tests.tables import random_table

ROOT = Path(__file__).parent.parent
MOST_BYTES = 10e6
GROWING = ("measures", "table_1", "overall", "bins")
"""Results that have some lines only once a long run is finished."""


@pytest.mark.parametrize("name", ["reproduction.md", "reproduction.csv"])
def test_the_committed_page_is_what_the_command_writes(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert page.texts()[name] == (ROOT / "docs" / name).read_text(), "run: make reproduction"


@pytest.mark.parametrize("name", doc_tables.TABLES)
def test_tables_of_the_papers_pages_are_what_the_command_writes(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / name).read_text()
    assert doc_tables.filled(name, text) == text, "run: make reproduction"
    for mark in doc_tables.TABLES[name]:
        assert f"<!-- reproduction page: {mark} -->" in text


def test_every_printed_number_has_its_line_and_no_reason_has_a_number_of_ours(monkeypatch):
    """Rows name results and columns that exist; words hold what the papers say."""
    monkeypatch.chdir(ROOT)
    for paper in claims.PAPERS:
        rows = claims.rows(paper)
        assert len({row["id"] for row in rows}) == len(rows)
        for row in rows:
            assert row.get("cells") or {"figure", "cannot", "input", "run"} & set(row), row["id"]
            assert not re.search(r"\d\.\d", row.get("why", "").replace("random_forests.md", ""))
            if "figure" in row:
                assert row["figure"] in figures.NAMES
            if row.get("cells") and row["result"] in aggregated.names(paper):
                found = list(claims.cells(paper, row))
                known = [
                    cell for cell in found if any(cell.ours[c].value is not None for c in cell.ours)
                ]
                lines = aggregated.read(paper, row["result"])
                columns = {row.get("column"), *row.get("columns", {}).values()} - {None}
                assert columns <= set(lines[0]), row["id"]
                if row["result"] not in GROWING:
                    assert known, row["id"]


def test_the_rule_of_agreement():
    """Half a unit of the last digit, and twice the standard error of the difference."""

    def says(value, printed, row=None, error=0.0):
        return claims.agree(claims.Ours(value, error), printed, row or {})

    assert says(0.834, ["0.83"])
    assert not says(0.836, ["0.83"])
    assert says(0.836, ["0.83"], error=0.001)
    assert not says(0.84, ["0.83"], error=0.002)
    assert says(12.0, ["14", "3"], {"printed_error": {"count": 9}})
    assert not says(11.0, ["14", "3"], {"printed_error": {"count": 9}})
    assert says(12.9, ["14", "1.96"], {"printed_error": {"half_width": True}}, 0.0)
    assert says(81.0, ["80"], {"relation": ">"})
    assert not says(80.0, ["80"], {"relation": ">"})
    assert says("big d", ["big d"])
    assert not says("small d", ["big d"])
    assert says(None, ["1"]) is None
    assert claims.agree(claims.Ours(1.0, 0.0), ["15"], {"unit": 30.0})
    row = {"printed_error": {"binomial": 19}}
    assert says(11.0, ["14"], row)
    assert not says(6.0, ["14"], row)


def test_a_row_agrees_if_nine_tenths_of_its_numbers_do():
    assert claims.Verdict(9, 10, 10).word == "agrees"
    assert claims.Verdict(8, 10, 10).word == "differs"
    assert claims.Verdict(0, 0, 10).word == "not run"


def test_what_is_kept_is_small_and_says_what_made_it():
    files = [path for path in (ROOT / "reproduction").rglob("*") if path.is_file()]
    files += list((ROOT / "docs" / "gallery").glob("*.png"))
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for paper in claims.PAPERS:
        for path in (ROOT / "reproduction" / paper).glob("*.csv"):
            about = json.loads(path.with_suffix(".json").read_text())
            assert {"command", "date", "commit", "jax", "device"} <= set(about), path


def test_the_gallery_shows_all_pictures_there_are():
    shown = re.findall(r"\]\((gallery/[\w.-]+\.png)\)", (ROOT / "docs/gallery.md").read_text())
    there = {f"gallery/{path.name}" for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert set(shown) == there
    assert len(shown) == len(there) > 10


def test_a_gallery_keeps_the_pictures_of_figures_that_were_not_asked_for(tmp_path):
    """Their order is that of all figures; what was asked for and has no result goes."""
    names = ("nock_henecka_2020/fig1", "asadi_2022/fig1", "bun_2020/halfspaces")
    (tmp_path / "gallery").mkdir()

    def drawn(name, *parts):
        found = []
        for part in parts:
            file = f"gallery/{name.replace('/', '_')}{part}.png"
            (tmp_path / file).touch()
            found.append(gallery.Shown(name, file, name + part))
        return found

    def titles():
        there = {f"gallery/{path.name}" for path in (tmp_path / "gallery").glob("*.png")}
        found = gallery.pictures(tmp_path)
        assert {one.file for one in found} == there
        return [one.title for one in found]

    first = drawn(names[0], "") + drawn(names[2], "_b", "_a")
    gallery.page(first, names, names, tmp_path)
    assert titles() == [names[0], f"{names[2]}_b", f"{names[2]}_a"]
    gallery.page(drawn(names[1], ""), names[1:2], names, tmp_path)
    assert titles() == [*names[:2], f"{names[2]}_b", f"{names[2]}_a"]
    gallery.page(drawn(names[2], "_a"), names[2:], names, tmp_path)
    assert titles() == [*names[:2], f"{names[2]}_a"]
    gallery.page([], names[:1], names, tmp_path)
    assert titles() == [names[1], f"{names[2]}_a"]


def test_a_result_is_read_as_it_was_written(tmp_path):
    options = argparse.Namespace(out=str(tmp_path), reduced="ten rows")
    lines = [{"a": 1.0, "b": 0.123456789, "c": None, "d": "x", "e": float("inf")}]
    aggregated.write(options, "paper", "name", lines, {"seed": 0})
    [found] = aggregated.read("paper", "name", tmp_path)
    assert found == {
        **{"a": 1, "b": 0.12346, "c": None, "d": "x", "e": float("inf")},
        **{"seed": 0, "reduced": "ten rows"},
    }


@pytest.fixture
def domain():
    """A task of two folds' worth of random rows, in ten evaluations."""
    table = random_table(seed=0, rows=60, splits=4)
    folds = np.arange(60) % settings.FOLDS == np.arange(settings.FOLDS)[:, None]
    return plan.Task("banknote", table, ~folds, folds, {"rows": 60})


@pytest.mark.slow
def test_an_unfinished_grid_is_read_as_a_finished_one(domain, tmp_path, monkeypatch):
    """Parts are read where no file of the task is there yet; missing folds leave a setting out."""
    monkeypatch.setattr(
        settings, "SMOKE", {"rounds": (1,), "depth": (1,), "alpha": settings.ALPHAS}
    )
    monkeypatch.setattr(settings, "PRIVATE", {"epsilon": (1.0,), "beta_tree": (0.5,)})
    sweep = settings.grid(("tight",), 10, (10.0,), smoke=True)
    runner.run(sweep, [domain], tmp_path / "whole")
    finished = saved.grids(tmp_path / "whole")[10, 10.0]
    assert finished.complete("tight") == finished.complete("none") == ["banknote"]
    whole = finished.fits["banknote"]
    assert all(fits.folds.shape[1] == settings.FOLDS for fits in whole.values())

    monkeypatch.setattr("dpbt.sweeps.folders.finish", lambda *given: None)
    runner.run(sweep, [domain], tmp_path / "parts")
    assert not (tmp_path / "parts" / "banknote.npz").exists()
    going = saved.grids(tmp_path / "parts")[10, 10.0]
    assert going.fits["banknote"].keys() == whole.keys()
    for calibration, fits in whole.items():
        found = going.fits["banknote"][calibration]
        assert found.settings == fits.settings
        np.testing.assert_array_equal(found.folds, fits.folds)

    parts = sorted((tmp_path / "parts" / "parts" / "banknote").glob("*.npz"))
    parts[0].unlink()
    left = saved.grids(tmp_path / "parts")[10, 10.0]
    count = sum(len(fits.settings) for fits in left.fits.get("banknote", {}).values())
    assert count < sum(len(fits.settings) for fits in whole.values())
    assert left.complete("tight") == [] or left.complete("none") == []


def fits(errors):
    """Fits of one calibration: (epsilon, alpha, rounds, depth) -> a constant error of ten folds."""
    wobble = np.linspace(-1e-3, 1e-3, settings.FOLDS)
    by_setting = {
        saved.Setting("tight", epsilon, alpha, 0.5, rounds, depth): error + wobble
        for (epsilon, alpha, rounds, depth), error in errors.items()
    }
    return saved.Fits.of(by_setting)


def test_tables_of_a_grid_are_those_of_its_errors():
    """On errors that are known: who is best, at which size, and who beats a forest."""
    known = {
        (epsilon, alpha, rounds, depth): 0.3 - 0.01 * (alpha == "0.1") - 0.001 * depth
        for epsilon in settings.EPSILONS
        for alpha in derived.WAYS
        for rounds in (2, 20)
        for depth in (2, 4, 6)
    }
    grid = saved.Grid({"banknote": {"tight": fits(known)}}, {}, (len(known), 0))
    first = derived.table_1(grid)
    assert [line["count"] for line in first[:3]] == [0, 1, 0]
    assert first[1]["best_error_mean"] == pytest.approx(0.3 - 0.01 - 0.006)
    [third] = derived.table_3(grid)
    assert (third["depth"], third["rounds"], third["place"]) == (6, 2, "big d, small T")

    noise = np.linspace(-1e-3, 1e-3, settings.FOLDS)[::-1]
    forests = {
        (kind, epsilon, depth, "tight"): noise + (0.5 if kind == "rf_l" else 0.0)
        for kind in settings.FORESTS
        for epsilon in settings.EPSILONS
        for depth in settings.FOREST_DEPTHS
    }
    cells = derived.table_4(grid, {"banknote": forests})
    assert len(cells) == 3 * 2 * 3 * 2
    assert {line["percent"] for line in cells if line["forest"] == "rf_l"} == {100.0}
    assert {line["percent"] for line in cells if line["forest"] == "rf_e"} == {0.0}
    assert {line["undecided"] for line in derived.overall(cells)} == {0.0}


def test_a_schedule_is_set_beside_a_number_on_the_domains_that_have_both():
    known = {
        (epsilon, alpha, 2, depth): 0.3 - 0.01 * (alpha == "0.1") - 0.001 * depth
        for epsilon in settings.EPSILONS
        for alpha in derived.WAYS
        for depth in (2, 4)
    }
    own = fits(known)
    grid = saved.Grid({"banknote": {"tight": own}, "qsar": {}}, {}, (len(known), 0))
    alone = {"banknote": saved.Fits(own.settings, own.folds + 0.2), "qsar": own}
    lines = derived.criterion(grid, alone, "0.1")
    assert [line["epsilon"] for line in lines] == list(settings.EPSILONS)
    assert {line["domains"] for line in lines} == {1}
    assert lines[0]["criterion_and_link"] == pytest.approx(0.3 - 0.01 - 0.004)
    assert lines[0]["criterion_alone"] == pytest.approx(0.5 - 0.01 - 0.004)


def test_claims_about_a_delta_are_those_of_the_accuracies():
    """A gain of 2 points at one epsilon of two, with a standard deviation of 1 point."""
    lines = [
        {"calibration": "tight", "epsilon": epsilon, "delta": delta, "accuracy_sd": 0.01}
        | {"accuracy_mean": 0.8 + 0.02 * (delta > 0) * (epsilon == 1)}
        for epsilon in (1, 5)
        for delta in (0, 1e-5)
    ]
    found = {
        (line["name"], line["calibration"]): line["value"]
        for line in asadi_words.measures({"fig2": lines, "fig3": lines})
        if line["calibration"] != "published"
    }
    assert found["fig2 mean gain by delta, points", "tight"] == pytest.approx(1.0)
    assert found["fig3 epsilons of a gain within one sd", "tight"] == 1
    assert found["rounds of Theorem 3.1", "none"] == np.ceil(16 * np.log(2) * 400)


def test_claims_about_voting_are_those_of_the_errors():
    """Majority is 1 point worse than threshold averaging and varies least; coins are last."""
    errors = {"majority": (0.21, 0.22), "threshold": (0.20, 0.30), "probabilistic": (0.40, 0.50)}
    lines = [
        {"private": True, "voting": voting, "eta": 1.0, "height": height, "bound": None}
        | {"test_error": error, "validation_error": error}
        for voting, pair in errors.items()
        for height, error in enumerate(pair)
    ]
    found = {
        line["name"]: line["value"] for line in bojarski_words.measures({"a": lines}, {"a": lines})
    }
    assert found["data sets where majority varies least over k and h, percent"] == 100
    assert found["majority above threshold averaging, points"] == pytest.approx(1.0)
    assert found["data sets where probabilistic averaging is last, percent"] == 100
    name = "settings of Figure 2a where threshold averaging is best, percent"
    assert found[name] == pytest.approx(50)


def test_baselines_are_saved_after_each_data_set(tmp_path, monkeypatch):
    def lines_of(name, _):
        if name == "mushroom":
            raise KeyboardInterrupt
        yield {"dataset": name, "accuracy_mean": 0.5}

    monkeypatch.setattr(baselines, "lines_of", lines_of)
    options = argparse.Namespace(dataset=["adult", "mushroom"], folds=5, seed=0, out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        baselines.run(options)
    assert "adult,0.5," in (tmp_path / "baselines.csv").read_text()


def test_trees_stand_beside_one_rules_at_the_same_budget():
    def line(dataset, epsilon, calibration, accuracy):
        head = {"dataset": dataset, "epsilon": epsilon, "calibration": calibration}
        return head | {"accuracy_mean": accuracy}

    rules = [line("adult", epsilon, "tight", 0.8 + epsilon / 10) for epsilon in (0.1, 1, 3)]
    rules += [line("adult", 1, "published", 0.5), line("mushroom", 1, "tight", 0.1)]
    trees = [line("adult", epsilon, "tight", 0.8) for epsilon in (0.1, 1)]
    found = asadi_words.measures({"table2": rules, "trees": trees})
    [one] = [each for each in found if "top-down trees" in each["name"]]
    assert one["calibration"] == "tight"
    assert one["value"] == pytest.approx(5.5)


def test_one_rule_is_the_best_literal():
    """It is the first feature, which is right on all training rows and wrong on the other."""
    features = np.array([[1, 0], [1, 0], [0, 1], [0, 0], [1, 1]], bool)
    label = np.array([1, 1, 0, 0, 0], bool)
    train = np.array([1, 1, 1, 1, 0], bool)
    assert baselines.one_rule(features, label, train, ~train) == 0.0
    assert baselines.one_rule(features, label, train, train) == 1.0


def test_the_steps_are_commands_that_exist(capsys):
    assert command_line.main(["reproduction", "results", "--list", "--all"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(results.STEPS) + len(claims.PAPERS)
    for line in said:
        paper, program = line.removeprefix("python -m experiments ").split()[:2]
        assert program in __import__(f"experiments.papers.{paper}", fromlist=["x"]).PROGRAMS


def test_the_page_says_what_is_missing(tmp_path):
    """Without results no row has a verdict."""
    text = page.texts(tmp_path)
    assert not re.search(r"\| (agrees|differs)[ |,]", text["reproduction.md"].split("## ", 1)[1])
    lines = list(csv.DictReader(io.StringIO(text["reproduction.csv"])))
    assert {line["published agrees"] for line in lines} == {""}


@pytest.mark.slow
def test_figures_are_drawn_from_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    papers = [*claims.PAPERS[1:], "nock_henecka_2020/table1", "nock_henecka_2020/fig2"]
    assert figures.main([*papers, "--out", str(tmp_path)]) == 0
    assert all(path.stat().st_size > 5000 for path in tmp_path.rglob("*.png"))


@pytest.mark.slow
def test_a_domain_shows_auto_where_it_is_better_than_all_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    errors = runs.auto_errors("magic").values()
    assert min(errors) < min(runs.runs("magic", name).error.min() for name in ("tight", "none"))
    named = [panel for panel in domains.figure("magic").axes if panel.get_title()]
    assert len(named) > 12  # crops have no title
    assert all(panel.get_xlim()[0] <= min(errors) for panel in named)


@pytest.mark.slow
def test_the_smallest_steps_run(tmp_path, monkeypatch):
    """Those that need no data set but a bundled one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert command_line.main(["reproduction", "results", "--smoke", "--paper", "bun_2020"]) == 0
    assert (tmp_path / "results/smoke/reproduction/bun_2020/errors.csv").exists()
