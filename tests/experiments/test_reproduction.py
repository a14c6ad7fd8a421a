"""What the papers print beside our results: the page, the claims, the rule, and the commands."""

import argparse
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from dpbt.sweeps import plan, runner
from experiments import __main__ as command_line
from experiments.common import aggregated, data
from experiments.papers.asadi_2022 import baselines
from experiments.papers.asadi_2022 import words as asadi_words
from experiments.papers.bojarski_2014 import words as bojarski_words
from experiments.papers.bun_2020 import aggregate as bun_aggregate
from experiments.papers.bun_2020 import settings as bun_settings
from experiments.papers.nock_henecka_2020 import derived, saved, settings
from experiments.reproduction import claims, doc_tables, page, results
from paper_figures import __main__ as figures
from paper_figures import gallery, nock_henecka_2020
from tests.tables import random_table

ROOT = Path(__file__).parents[2]
MAX_BYTES = 10e6
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
            others = {"figure", "cannot", "uncounted", "input", "run"}
            assert row.get("cells") or others & set(row), row["id"]
            for key in ("why", "cannot", "uncounted"):
                assert not re.search(r"\d\.\d", row.get(key, "")), row["id"]
            assert row.get("unit", 0.0) == 0 or "to the nearest" in row["words"], row["id"]
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
        return claims.agree(claims.Ours(value, error), printed, row or {}) == claims.AGREES

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
    assert claims.agree(claims.Ours(None, None), ["1"], {}) is None
    assert says(1.0, ["15"], {"unit": 30.0})
    row = {"printed_error": {"binomial": 19}}
    assert says(11.0, ["14"], row)
    assert not says(6.0, ["14"], row)


@pytest.mark.parametrize("relation", claims.RELATIONS)
def test_more_or_less_is_undecided_within_twice_the_standard_error(relation):
    """On both sides alike, whichever side the paper is on; without an error it is never so."""
    row = {"relation": relation}
    above, below = (
        (claims.AGREES, claims.DIFFERS) if ">" in relation else (claims.DIFFERS, claims.AGREES)
    )

    def says(value, error):
        return claims.agree(claims.Ours(value, error), ["10"], row)

    assert [says(value, 1.0) for value in (8.1, 10.0, 11.9)] == [claims.UNDECIDED] * 3
    assert (says(7.9, 1.0), says(12.1, 1.0)) == (below, above)
    assert (says(9.9, 0.0), says(10.1, None)) == (below, above)
    both = row | {"printed_error": {"binomial": 20}}
    assert claims.agree(claims.Ours(12.0, 0.0), ["10"], both) == claims.UNDECIDED


def test_standard_errors_follow_the_rules_of_a_row():
    """Of a column, of trials that a line counts, and of a standard deviation."""

    def error(rule, line, value):
        return claims._error(line, {"error": rule}, "tight", value)

    assert error({"column": "own"}, {"own": 0.5}, 3.0) == 0.5
    assert error({"column": "own"}, {"own": None}, 3.0) == 0.0
    line = {"wins": 3, "losses": 9}
    assert error({"binomial": ["wins", "losses"], "of": 100}, line, 25.0) == pytest.approx(
        100 * np.sqrt(5 / 16 * 11 / 16 / 16)
    )
    assert error({"of_sd": True, "count": "keys"}, {"keys": 9}, 2.0) == pytest.approx(0.5)
    printed = {"printed_error": {"count": 4, "percent_of": 50}}
    assert claims._printed_error(10.0, ["10", "3"], printed) == pytest.approx(3.0)


def test_the_columns_of_a_paper_are_named_and_shared_numbers_stand_once(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = page.texts()["reproduction.md"]
    last = text.split("## Bojarski", 1)[1]
    assert "| paper | as printed | negative counts as 0 | verdict |" in last
    assert "| paper | published | tight | verdict |" not in last
    tallies = re.findall(r"^\| [\w &.]+ \(\d+\) \|.*$", text, re.MULTILINE)
    assert len(tallies) == len(claims.PAPERS)
    for tally in tallies:
        rows, *counts = [cell.split(" / ") for cell in tally.strip("| ").split(" | ")[1:]]
        for column in (0, -1):
            assert sum(int(count[column]) for count in counts) == int(rows[0]), tally
    [row] = [line for line in last.splitlines() if line.startswith("| Table 1, k |")]
    assert row.split(" | ")[3].strip() == ""
    assert re.search(r"\| Table 2, m \|.*\| 19 of 19 agree \| the same \|", text)


def test_what_is_kept_is_small_and_says_what_made_it():
    files = [path for path in (ROOT / "reproduction").rglob("*") if path.is_file()]
    files += list((ROOT / "docs" / "gallery").glob("*.png"))
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
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
    every = dict.fromkeys(names, "words")
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
    gallery.page(first, names, every, tmp_path)
    assert titles() == [names[0], f"{names[2]}_b", f"{names[2]}_a"]
    gallery.page(drawn(names[1], ""), names[1:2], every, tmp_path)
    assert titles() == [*names[:2], f"{names[2]}_b", f"{names[2]}_a"]
    gallery.page(drawn(names[2], "_a"), names[2:], every, tmp_path)
    assert titles() == [*names[:2], f"{names[2]}_a"]
    gallery.page([], names[:1], every, tmp_path)
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

    path = tmp_path / "whole" / "banknote.jsonl"
    head, *lines = path.read_bytes().splitlines(keepends=True)
    (tmp_path / "going").mkdir()
    (tmp_path / "going" / "banknote.part").write_bytes(b"".join([head, *lines[1:]]))
    left = saved.grids(tmp_path / "going")[10, 10.0]
    count = 0
    for calibration, fits in left.fits["banknote"].items():
        known = dict(zip(whole[calibration].settings, whole[calibration].folds, strict=True))
        for setting, folds in zip(fits.settings, fits.folds, strict=True):
            np.testing.assert_array_equal(folds, known[setting])
            count += 1
    assert 0 < count < sum(len(fits.settings) for fits in whole.values())
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


def known_errors(change=0.0):
    """Settings whose best error is 0.3 - change with O.C., 0.29 with 0.1 and 0.3 with 1."""
    gain = {"objective": change, "0.1": 0.01, "1.0": 0.0}
    return {
        (epsilon, alpha, rounds, 1): 0.3 - gain[alpha] + 0.02 * (rounds == 20)
        for epsilon in settings.EPSILONS
        for alpha in derived.WAYS
        for rounds in (2, 20)
    }


def test_claims_in_words_are_those_of_known_errors():
    """Objective calibration is best on one domain of three, and alpha = 0.1 on two."""
    own = {"banknote": 0.03, "qsar": 0.0, "eeg": 0.0}
    own = {name: {"tight": fits(known_errors(change))} for name, change in own.items()}
    fine = {name: {"tight": fits(known_errors(0.04))} for name in own}
    count = len(known_errors())
    grids = [saved.Grid(each, {}, (count, 0)) for each in (own, fine)]
    found = {line["name"]: line for line in derived.measures(*grids)}
    ahead = "domains of O.C. less those of the better constant, "
    assert found[ahead + "epsilon 0.1"]["value"] == -1
    assert found[ahead + "epsilon 0.1"]["error"] == pytest.approx(2.0)  # of 1, -1 and -1
    assert found[ahead + "all epsilons"]["value"] == -5
    above = found["best private O.C. above the better constant, points"]
    assert above["value"] == pytest.approx((-2 + 1 + 1) / 3)
    assert above["error"] == pytest.approx(1.0)
    gain = found["gain of the best error by v_q = 50, points"]
    assert gain["value"] == pytest.approx((1 + 3 + 3) / 3)
    ratio = found["spread over beta_tree as part of that over size"]
    assert (ratio["value"], ratio["error"]) == (0, 0)

    alone = grids[0]._replace(fits={"banknote": own["banknote"]})
    assert {line["error"] for line in derived.measures(alone)} == {None}


def test_what_more_cells_change_has_its_error_over_folds():
    """v_q = 50 gains 2 points with O.C. and none else; every fold says the same."""
    grids = [
        saved.Grid({"qsar": {"tight": fits(known_errors(change))}}, {}, (30, 0))
        for change in (0.02, 0.04)
    ]
    found = {line["alpha"]: line for line in derived.by_bins(*grids)}
    assert found["objective"]["gain"] == found["best"]["gain"] == pytest.approx(2)
    assert found["objective"]["gain_error"] == pytest.approx(0, abs=1e-9)
    assert found["objective"]["favour"] == pytest.approx(2)
    assert found["0.1"]["favour"] == pytest.approx(-2)
    assert found["objective"]["above"] == pytest.approx(-3)
    assert found["objective"]["quartile_gain"] == pytest.approx(2)
    assert found["best"]["favour"] is None

    folds = np.arange(5.0) / 100 * np.ones((4, 1))
    line = derived._quartile_gain(folds, np.zeros((4, 5)))
    assert line["quartile_gain"] == pytest.approx(2)
    assert line["quartile_gain_error"] == pytest.approx(derived.of_mean(100 * folds[0])[1])


def test_the_length_of_hs_stls_noise_is_exceeded_as_often_as_lemma_29_says():
    """By its tail; and it is above tau / 8 in 20 dimensions, where its mean is below."""
    tau = 0.2
    chosen = bun_settings.halfspace_settings(bun_settings.ALPHA, bun_settings.BETA, tau)
    length = bun_aggregate.longest_noise(tau) / chosen.noise
    tail = chi2.sf(length**2, bun_settings.DIMENSION)
    assert tail * chosen.rounds == pytest.approx(bun_settings.BETA / 3)
    assert bun_aggregate.longest_noise(tau) > tau / 8


def test_claims_about_a_delta_are_those_of_the_accuracies():
    """A gain of 2 points at one epsilon of two, with a standard deviation of 1 point."""
    lines = [
        {"calibration": "tight", "epsilon": epsilon, "delta": delta, "accuracy_sd": 0.01, "keys": 4}
        | {"accuracy_mean": 0.8 + 0.02 * (delta > 0) * (epsilon == 1)}
        for epsilon in (1, 5)
        for delta in (0, 1e-5)
    ]
    made = asadi_words.measures({"fig2": lines, "fig3": lines})
    made = [line for line in made if line["calibration"] != "published"]
    found = {(line["name"], line["calibration"]): line["value"] for line in made}
    assert found["fig2 mean gain by delta, points", "tight"] == pytest.approx(1.0)
    error = next(line["error"] for line in made if line["name"].startswith("fig2 mean gain"))
    assert error == pytest.approx(0.5)  # two differences of means of four keys
    assert found["fig3 epsilons of a gain within one sd", "tight"] == 1
    assert found["fig3 epsilons of a gain above one sd", "tight"] == 1
    assert found["rounds of Theorem 3.1", "none"] == np.ceil(16 * np.log(2) * 400)


def test_claims_about_voting_are_those_of_the_errors():
    """Majority is 1 point worse than threshold averaging and varies least; coins are last."""
    errors = {"majority": (0.21, 0.22), "threshold": (0.20, 0.30), "probabilistic": (0.40, 0.50)}
    lines = [
        {"private": private, "voting": voting, "eta": 1.0, "height": height, "bound": None}
        | {"test_error": error, "validation_error": error, "trees": 7 - 6 * height}
        for private in (False, True)
        for voting, pair in errors.items()
        for height, error in enumerate(pair)
    ]
    made = bojarski_words.measures({"a": lines}, {"a": lines}, {"a": 100})
    found = {line["name"]: line["value"] for line in made}
    assert found["data sets where majority varies least over k and h, percent"] == 100
    assert found["majority above threshold averaging, points"] == pytest.approx(1.0)
    assert found["data sets where probabilistic averaging is last, percent"] == 100
    name = "settings of Figure 2a where threshold averaging is best, percent"
    assert found[name] == pytest.approx(50)
    assert found["data sets where majority has the least mean, percent"] == 100
    assert found["at most log2 n trees above all, without privacy, points"] == pytest.approx(5.5)
    assert found["at most 5 trees above all, with privacy, points"] == pytest.approx(5.5)


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
    assert not re.search(
        r"\| (agrees|undecided|differs)[ |,]", text["reproduction.md"].split("## ", 1)[1]
    )
    lines = list(csv.DictReader(io.StringIO(text["reproduction.csv"])))
    assert {line["published verdict"] for line in lines} == {""}


@pytest.mark.slow
def test_a_domain_shows_auto_where_it_is_better_than_all_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    errors = nock_henecka_2020.auto_errors("magic").values()
    assert min(errors) < min(
        nock_henecka_2020.runs("magic", name).error.min() for name in ("tight", "none")
    )
    named = [panel for panel in nock_henecka_2020.domain("magic").axes if panel.get_title()]
    assert len(named) > 12  # crops have no title
    assert all(panel.get_xlim()[0] <= min(errors) for panel in named)


SMALLEST = {
    "bun_2020": (None, {"errors", "rounds", "rates"}),
    "bojarski_2014": ("banknote", {"table_1", "banknote_eta"}),
    "asadi_2022": ("mushroom", {"table2", "fig2", "fig3", "trees", "sparsity", "advantages"}),
    "nock_henecka_2020": ("banknote", {"grid_10_10", "table_4", "auto", "criterion"}),
}
"""Paper -> the data set of its smallest steps, and results that they make."""


@pytest.mark.slow
@pytest.mark.parametrize("paper", SMALLEST)
def test_the_smallest_steps_run(paper, tmp_path, monkeypatch):
    dataset, made = SMALLEST[paper]
    if dataset is not None and not data.is_there(dataset):
        pytest.skip(f"{dataset} is not there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert command_line.main(["reproduction", "results", "--smoke", "--paper", paper]) == 0
    there = (tmp_path / "results/smoke/reproduction" / paper).glob("*.csv")
    assert made <= {path.stem for path in there}
