"""What the papers print beside our results: the page, the claims, the rule, and the commands."""

import functools
import json
import re

import numpy as np
import pytest

from experiments import __main__ as command_line
from experiments.common import aggregated, data
from experiments.papers.nock_henecka_2020 import grid_tables, nulls, saved, settings
from experiments.reproduction import chance, claims, doc_tables, page, results
from paper_figures import __main__ as figures
from tests.support import ROOT

MAX_BYTES = 10e6
GROWING = ("measures", "table_1", "overall", "bins")
"""Results that have some lines only once a long run is finished."""


def test_the_committed_page_is_what_the_command_writes(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, text in page.page_texts().items():
        assert text == (ROOT / "docs" / name).read_text(), "run: make reproduction"


@pytest.mark.parametrize("name", doc_tables.TABLES)
def test_tables_of_the_papers_pages_are_what_the_command_writes(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / name).read_text()
    assert doc_tables.fill_page(name, text) == text, "run: make reproduction"
    for mark in doc_tables.TABLES[name]:
        assert f"<!-- reproduction page: {mark} -->" in text


def test_every_printed_number_has_its_line_and_no_reason_has_a_number_of_ours(monkeypatch):
    """Rows name results and columns that exist; words hold what the papers say."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(aggregated, "read_result", functools.cache(aggregated.read_result))
    for paper in claims.PAPERS:
        rows = claims.rows_of_paper(paper)
        assert len({row["id"] for row in rows}) == len(rows)
        for row in rows:
            reasons = {"figure", "cannot", "uncounted", "input", "run"}
            assert row.get("cells") or reasons & set(row), row["id"]
            for key in ("why", "cannot", "uncounted"):
                assert not re.search(r"\d\.\d", row.get(key, "")), row["id"]
            assert row.get("unit", 0.0) == 0 or "to the nearest" in row["words"], row["id"]
            many = len(row.get("cells", ())) > 4 and "relation" not in row
            assert many == ("chance" in row), row["id"]
            if "figure" in row:
                assert row["figure"] in figures.NAMES
            if row.get("cells") and row["result"] in aggregated.result_names(paper):
                cells = list(claims.cells_of_row(paper, row))
                known = [
                    cell
                    for cell in cells
                    if any(cell.measured[c].value is not None for c in cell.measured)
                ]
                lines = aggregated.read_result(paper, row["result"])
                columns = {row.get("column"), *row.get("columns", {}).values()} - {None}
                assert columns <= set(lines[0]), row["id"]
                if row["result"] not in GROWING:
                    assert known, row["id"]


def test_agreement_allows_half_a_digit_and_two_standard_errors_of_the_difference():
    """Half a unit of the last digit, and twice the standard error of the difference."""

    def says(value, printed, row=None, error=0.0):
        return (
            claims.judge_agreement(claims.Measurement(value, error), printed, row or {})
            == claims.AGREES
        )

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
    assert claims.judge_agreement(claims.Measurement(None, None), ["1"], {}) is None
    assert says(1.0, ["15"], {"unit": 30.0})
    row = {"printed_error": {"binomial": 19}}
    assert says(11.0, ["14"], row)
    assert not says(6.0, ["14"], row)


@pytest.mark.parametrize("relation", claims.RELATIONS)
def test_more_or_less_is_undecided_within_twice_the_standard_error(relation):
    """This holds on both sides of the printed number; without an error nothing is undecided."""
    row = {"relation": relation}
    above, below = (
        (claims.AGREES, claims.DIFFERS) if ">" in relation else (claims.DIFFERS, claims.AGREES)
    )

    def says(value, error):
        return claims.judge_agreement(claims.Measurement(value, error), ["10"], row)

    assert [says(value, 1.0) for value in (8.1, 10.0, 11.9)] == [claims.UNDECIDED] * 3
    assert (says(7.9, 1.0), says(12.1, 1.0)) == (below, above)
    assert (says(9.9, 0.0), says(10.1, None)) == (below, above)
    both = row | {"printed_error": {"binomial": 20}}
    assert claims.judge_agreement(claims.Measurement(12.0, 0.0), ["10"], both) == claims.UNDECIDED


def cells_along_k(measured, printed):
    """Cells of a row, whose axis is called k."""
    agrees = [
        claims.judge_agreement(claims.Measurement(x, 0.0), [y], {})
        for x, y in zip(measured, printed, strict=True)
    ]
    return [
        claims.Cell(
            "", "", "", {"k": k}, [y], {"tight": {"x": x}}, {"tight": claims.Measurement(x, 0.0)}, a
        )
        for k, (x, y, a) in enumerate(
            zip(measured, printed, ({"tight": a} for a in agrees), strict=True)
        )
    ]


def test_a_row_agrees_only_if_it_beats_chance_by_two_standard_errors():
    """Of n different numbers a shuffle has one right, give or take one."""
    row = {"column": "x", "chance": {"shuffled": "k"}}
    four, three = (
        chance.chance_of_row(row, cells_along_k(x, list("1234")[: len(x)]), "tight")
        for x in ([1, 2, 3, 4], [1, 2, 3])
    )
    assert four == chance.Chance("shuffled ks", 1, pytest.approx(1))
    assert four.is_beaten_by(4)
    assert not three.is_beaten_by(3)
    constant_chance = chance.chance_of_row(
        row | {"chance": {"constant": "k"}}, cells_along_k([1, 1, 1, 2], list("1112")), "tight"
    )
    assert constant_chance == chance.Chance("constant 1", 3, pytest.approx(1))
    table_1 = page.judge_claim("nock_henecka_2020", claims.rows_of_paper("nock_henecka_2020")[0])
    assert table_1.chance["tight"].agreeing == pytest.approx(12.183, abs=1e-3)
    agreeing = claims.Verdict(9, 0, 9, 9, 8.1)
    assert agreeing.word == claims.AGREES
    assert agreeing._replace(is_above_chance=False).word == claims.UNDECIDED


@pytest.mark.parametrize(
    ("printed", "word"), [("0", "agrees"), ("2", "undecided"), ("9", "differs")]
)
def test_readings_that_disagree_leave_a_claim_undecided(printed, word):
    row = {"relation": ">", "readings": True}
    cells = [
        cell._replace(
            agrees={"tight": claims.judge_agreement(cell.measured["tight"], [printed], row)}
        )
        for cell in cells_along_k([1.0, 3.0], "13")
    ]
    assert claims.judge_row(row, cells, "tight").word == word


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
    pictures = {f"gallery/{path.name}" for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert set(shown) == pictures
    assert len(shown) == len(pictures) > 10


def fits_of_errors(errors):
    """Fits of one calibration: (epsilon, alpha, rounds, depth) -> a constant error of ten folds."""
    wobble = np.linspace(-1e-3, 1e-3, settings.FOLDS)
    by_setting = {
        saved.Setting("tight", epsilon, alpha, 0.5, rounds, depth): error + wobble
        for (epsilon, alpha, rounds, depth), error in errors.items()
    }
    return saved.Fits.from_errors(by_setting)


def known_errors(change=0.0):
    """Settings whose best error is 0.3 - change with O.C., 0.29 with 0.1 and 0.3 with 1."""
    gain = {"objective": change, "0.1": 0.01, "1.0": 0.0}
    return {
        (epsilon, alpha, rounds, 1): 0.3 - gain[alpha] + 0.02 * (rounds == 20)
        for epsilon in settings.EPSILONS
        for alpha in settings.ALPHA_NAMES
        for rounds in (2, 20)
    }


def test_claims_in_words_are_those_of_known_errors():
    """Objective calibration is best on one domain of three, and alpha = 0.1 on two."""
    gain_of_domain = {"banknote": 0.03, "qsar": 0.0, "eeg": 0.0}
    fits_of_domains = {
        name: {"tight": fits_of_errors(known_errors(change))}
        for name, change in gain_of_domain.items()
    }
    fits_of_50_values = {
        name: {"tight": fits_of_errors(known_errors(0.04))} for name in fits_of_domains
    }
    count = len(known_errors())
    grids = [
        saved.Grid(grid_fits, {}, saved.NumSettings(count, 0))
        for grid_fits in (fits_of_domains, fits_of_50_values)
    ]
    line_by_name = {line["name"]: line for line in grid_tables.claim_lines(*grids)}
    ahead = "domains of O.C. less those of the better constant, "
    assert line_by_name[ahead + "epsilon 0.1"]["value"] == -1
    assert line_by_name[ahead + "epsilon 0.1"]["error"] == pytest.approx(2.0)  # of 1, -1 and -1
    assert line_by_name[ahead + "all epsilons"]["value"] == -5
    above = line_by_name["best private O.C. above the better constant, points"]
    assert above["value"] == pytest.approx((-2 + 1 + 1) / 3)
    assert above["error"] == pytest.approx(1.0)
    gain = line_by_name["gain of the best error by v_q = 50, points"]
    assert gain["value"] == pytest.approx((1 + 3 + 3) / 3)
    ratio = line_by_name["spread over beta_tree as part of that over size"]
    assert (ratio["value"], ratio["error"]) == (0, 0)

    alone = grids[0]._replace(fits={"banknote": fits_of_domains["banknote"]})
    assert {line["error"] for line in grid_tables.claim_lines(alone)} == {None}


def test_the_steps_are_commands_that_exist(capsys):
    assert command_line.main(["reproduction", "results", "--list", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(results.STEPS) + len(claims.PAPERS) + 2  # `claims`, `nulls`
    for line in lines:
        paper, program = line.removeprefix("python -m experiments ").split()[:2]
        assert program in __import__(f"experiments.papers.{paper}", fromlist=["x"]).PROGRAMS


SMALLEST = {
    "bun_2020": (None, {"errors", "rounds", "rates"}),
    "bojarski_2014": ("banknote", {"table_1", "banknote_eta"}),
    "asadi_2022": ("mushroom", {"table2", "fig2", "fig3", "trees", "sparsity", "advantages"}),
    "nock_henecka_2020": ("banknote", {"grid_10_10", "table_4", "auto", "criterion"}),
}
"""Paper -> the data set of its smallest steps, and results that they make."""


@pytest.mark.slow
@pytest.mark.parametrize("paper", SMALLEST)
def test_a_smoke_run_of_each_paper_makes_its_results(paper, tmp_path, monkeypatch):
    dataset, expected_results = SMALLEST[paper]
    if dataset is not None and not data.is_available(dataset):
        pytest.skip(f"{dataset} is not there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert command_line.main(["reproduction", "results", "--smoke", "--paper", paper]) == 0
    result_files = (tmp_path / "results/smoke/reproduction" / paper).glob("*.csv")
    assert expected_results <= {path.stem for path in result_files}


THEOREMS = re.compile(r"theorem|lemma|corollary|rounds|dimension|sizes?$|models|smallest|largest")
"""Rows of facts, and those that compare with a formula of the paper, have no null."""


def test_every_threshold_has_a_null_and_a_null_that_passes_decides_nothing(monkeypatch):
    """The spread over beta_tree is less than half of that over size for shuffled settings, too."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(aggregated, "read_result", functools.cache(aggregated.read_result))
    passing = set()
    for paper in claims.PAPERS:
        for row in claims.rows_of_paper(paper):
            judged = page.judge_claim(paper, row)
            known_nulls = {name: null for name, null in judged.nulls.items() if null is not None}
            if row.get("relation", "=") == "=" or not any(
                v.known for v in judged.verdicts.values()
            ):
                continue
            is_formula = all(str(cell[1]).startswith("=") for cell in row["cells"])
            assert known_nulls or is_formula or THEOREMS.search(row["id"]), row["id"]
            for name, null in known_nulls.items():
                if claims.is_null_agreeing(null, row, judged.cells, name):
                    passing.add(row["id"])
                    assert judged.verdicts[name].word != claims.AGREES, row["id"]
    assert {"beta-tree", "in-all-cases"} <= passing


def test_a_shuffle_of_settings_has_the_spread_of_more_and_of_fewer_groups():
    """The null of beta_tree: three groups of 24 errors spread less than 24 groups of three."""
    rng = np.random.default_rng(0)
    errors = rng.normal(0.3, 0.05, (5, 2, 3, 3, 4, 6))
    assert 0.1 < nulls.spread_ratio(errors) < 0.5
    by_beta = errors.copy()
    by_beta[:, :, :, 0] -= 1.0  # one beta_tree is better by far
    assert nulls.spread_ratio(by_beta) > 2
