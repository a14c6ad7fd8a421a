"""The museum of mistakes: the wrong learners are found, and the mended ones are not."""

from experiments.audits.museum import EXHIBITS
from experiments.audits.run import PAGES, audit_exhibit
from experiments.common import pages, results
from tests.support import ROOT

PAGE = ROOT / "docs" / "audits.md"
MISSED = {"missing_logarithm", "short_seed"}
SLOW = {"price_of_noisy_maximum"}
"""It takes thousands of runs."""


def test_every_planted_mistake_is_found_and_its_corrected_twin_is_not():
    for index, name in enumerate(sorted(EXHIBITS.keys() - SLOW)):
        few = EXHIBITS[name]._replace(runs=20)
        assert next(audit_exhibit(few, wrong=True))["found"] == (name not in MISSED)
        if index % 4 == 0:  # the page has them all
            assert not next(audit_exhibit(few, wrong=False))["found"], name


def test_a_black_box_finds_an_exact_number():
    few = EXHIBITS["exact_number"]._replace(runs=8)
    assert [line["found"] for line in audit_exhibit(few, wrong=True, black_runs=200)] == [
        True,
        True,
    ]


def test_the_page_shows_what_was_measured():
    text, lines = PAGE.read_text(), results.read_csv(PAGE.with_name(PAGES.file), "audits")
    assert pages.fill_tables(PAGES, text, lines, "page") == text
    assert not any(line["found"] for line in results.where(lines, twin="mended"))
