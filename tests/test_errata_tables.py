"""Slips in the papers' tables, found in what the claims quote; docs/errata.md names them."""

import itertools
import statistics
from collections import Counter
from fractions import Fraction

import pytest

from experiments.common import aggregated

NOCK_HENECKA, ASADI = "nock_henecka_2020", "asadi_2022"
FEATURES = {"table-5": 162, "table-6": 80, "table-7": 117}


def row(paper, name):
    """The one row of claims that has this id."""
    (found,) = (one for one in aggregated.claims(paper) if one["id"] == name)
    return found


def test_table_2_has_sonar_before_yeast():
    rows, columns = (
        aggregated.printed(NOCK_HENECKA, name) for name in ("table-2-rows", "table-2-columns")
    )
    sizes = [(at["domain"], m * n) for (at, m), (_, n) in zip(rows, columns, strict=True)]
    assert len(sizes) == 19
    wrong = [(one, after) for one, after in itertools.pairwise(sizes) if one[1] > after[1]]
    assert wrong == [(("sonar", 12_480), ("yeast", 10_388))]


def test_captions_name_one_domain_twice():
    """Of the first figure of each domain; the tables have both domains of hills."""
    captions = row(NOCK_HENECKA, "fig-8-61")["captions"]
    assert [int(number) for number in captions] == list(range(8, 62, 3))
    assert captions["47"] == captions["50"] == "hill+noise"
    assert {name for name, count in Counter(captions.values()).items() if count > 1} == {
        "hill+noise"
    }
    assert not {"winewhite", "hill+nonoise"} & set(captions.values())
    for table in ("table-2-rows", "table-4"):
        domains = {at["domain"] for at, _ in aggregated.printed(NOCK_HENECKA, table)}
        assert {"hill-valley-noise", "hill-valley-nonoise"} <= domains


def test_transfusion_has_no_numbers_at_20_trees():
    """Those at T = 2 are all 100, and no other domain lacks a number."""
    cells = aggregated.printed(NOCK_HENECKA, "table-4")
    counts = Counter((at["domain"], at["rounds"]) for at, _ in cells)
    assert counts.pop(("transfusion", 2)) == 18
    assert ("transfusion", 20) not in counts
    assert len(counts) == 36
    assert set(counts.values()) == {18}
    assert {number for at, number in cells if at["domain"] == "transfusion"} == {100}


def test_the_overall_line_of_table_4_is_above_its_rows():
    """By 2 points and more at T = 20, even if all missing numbers are 100; not so at T = 2."""
    cells, rows = aggregated.printed(NOCK_HENECKA, "table-4"), 57
    differences = {2: [], 20: []}
    for at, overall in aggregated.printed(NOCK_HENECKA, "table-4-overall"):
        own = [number for of, number in cells if all(of[key] == at[key] for key in at)]
        own += [100.0] * (rows - len(own))
        assert len(own) == rows
        differences[at["rounds"]].append(overall - statistics.fmean(own))
    assert min(differences[20]) > 2
    assert max(differences[20]) < 3.5
    assert max(map(abs, differences[2])) < 1.5
    assert len(differences[2]) == len(differences[20]) == 6


@pytest.mark.parametrize("table", FEATURES)
def test_one_percentage_of_tables_5_to_7_is_wrong(table):
    """All others are the printed number over all features, cut after two digits."""
    counts, percents = row(ASADI, table)["cells"], row(ASADI, f"{table}-percent")["cells"]
    wrong = []
    for (at, count, _), (also_at, percent, _) in zip(counts, percents, strict=True):
        assert at == also_at
        exact = 100 * Fraction(count) / FEATURES[table]
        if not 0 <= exact - Fraction(percent) < Fraction(1, 100):
            wrong.append((at["epsilon"], count, percent, round(float(exact), 2)))
    assert wrong == ([(1, "14.4", "12.03", 12.31)] if table == "table-7" else [])


def test_table_3_is_a_part_of_table_5():
    assert all(cell in row(ASADI, "table-5")["cells"] for cell in row(ASADI, "table-3")["cells"])
