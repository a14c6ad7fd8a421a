"""Figures of the papers: sizes in print, what tells lines apart, and what they mark."""

import math

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

from experiments.common import results
from paper_figures import __main__ as figures
from paper_figures import style
from tests.support import ROOT

SMALL = (
    "nock_henecka_2020/fig2",
    "nock_henecka_2020/table1",
    "nock_henecka_2020/table4",
    "asadi_2022/fig1",
    "asadi_2022/fig2",
    "asadi_2022/sparsity",
    "asadi_2022/table2",
    "bun_2020/halfspaces",
    "bun_2020/sizes",
    "bun_2020/theorems",
    "bojarski_2014/table1",
    "devices/division",
)
"""Figures that are drawn in less than a second."""


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch):
    """Figures read `reproduction/` below the working folder."""
    monkeypatch.chdir(ROOT)
    yield
    plt.close("all")


def smallest_letters(figure):
    """The points of the smallest letters that a figure shows."""
    texts = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible())
    return min(text.get_fontsize() for text in texts if text.get_text())


def assert_readable(figure):
    figure.draw_without_rendering()
    assert figure.get_figwidth() == style.WIDTH
    assert smallest_letters(figure) >= 7


@pytest.mark.parametrize("name", SMALL)
def test_letters_have_seven_points_at_the_printed_width(name):
    for figure in figures.draw(name).values():
        assert_readable(figure)


def test_the_first_picture_says_what_was_measured_and_what_epsilon_bounds():
    """Its bound is attained by randomized response: the attacker guesses what was answered."""
    (figure,) = figures.draw("comparisons/exchange").values()
    measured, bounds = [
        [int(text.get_text()) for text in panel.texts if text.get_text()] for panel in figure.axes
    ]
    lines = results.read_csv(ROOT / "docs" / "frontier.csv", "frontier")
    of_adult = {
        (line["method"], line["epsilon"], line["delta"]): 100 * line["auroc_mean"]
        for line in lines
        if line["dataset"] == "adult"
    }
    cells = [("boosting", None, None), *(("auto", epsilon, 0.0) for epsilon in (5.0, 1.0, 0.1))]
    assert measured == [round(of_adult[cell]) for cell in cells]
    right = [100 * math.exp(epsilon) / (1 + math.exp(epsilon)) for epsilon in (5.0, 1.0, 0.1)]
    assert bounds == [100, *map(round, right)]


def test_figures_are_drawn_by_name(tmp_path, capsys, monkeypatch):
    assert figures.main(["nock_henecka_2020/fig5", "--out", str(tmp_path)]) == 0
    drawn = list((tmp_path / "nock_henecka_2020").iterdir())
    assert sorted(p.name for p in drawn) == ["fig5.pdf", "fig5.png"]
    assert all(p.stat().st_size > 5000 for p in drawn)
    monkeypatch.chdir(tmp_path)
    assert figures.main(["privacy_audit"]) == 2
    assert "run: python -m experiments audit --grid" in capsys.readouterr().err
    assert figures.main(["nock_henecka_2020/fig99"]) == 2
    assert "no figure 'nock_henecka_2020/fig99'" in capsys.readouterr().err
