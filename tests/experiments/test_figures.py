"""Figures of the papers: sizes in print, what tells lines apart, and what they mark."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

from experiments.papers.bojarski_2014 import rows
from paper_figures import __main__ as figures
from paper_figures import bojarski_2014, bun_2020, nock_henecka_2020, style
from tests.experiments.test_reproduction import ROOT

SMALL = (
    "nock_henecka_2020/fig2",
    "nock_henecka_2020/table1",
    "nock_henecka_2020/table4",
    "asadi_2022/fig1",
    "asadi_2022/fig2",
    "asadi_2022/sparsity",
    "asadi_2022/table2",
    "bun_2020/halfspaces",
    "bun_2020/theorems",
    "bojarski_2014/table1",
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
    found = figure.findobj(lambda one: isinstance(one, Text) and one.get_visible())
    return min(text.get_fontsize() for text in found if text.get_text())


def assert_readable(figure):
    figure.draw_without_rendering()
    assert figure.get_figwidth() == style.WIDTH
    assert smallest_letters(figure) >= 7


@pytest.mark.parametrize("name", SMALL)
def test_letters_have_seven_points_at_the_printed_width(name):
    for figure in figures.draw(name).values():
        assert_readable(figure)


LARGE = {
    "domains": lambda: nock_henecka_2020.domain("sonar"),
    "fig62": lambda: nock_henecka_2020._bins("tight", ["qsar"]),
    "series": lambda: bojarski_2014.figure(
        bojarski_2014.read("adult"), bojarski_2014.read("adult_eta")
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_letters_of_large_figures_have_seven_points(name):
    with plt.rc_context(style.PRINT):
        assert_readable(LARGE[name]())


def test_calibrations_and_kinds_differ_without_colour():
    marks = [(line["marker"], line["linestyle"]) for line in map(style.line_of, style.CALIBRATIONS)]
    assert len({marker for marker, _ in marks}) == len({dash for _, dash in marks}) == 2
    assert len({style.bars_of(k)["hatch"] for k in range(3)}) == 3
    styles = [style.ordered(k, 7) for k in range(7)]
    assert len({str(one["linestyle"]) for one in styles}) == 7
    light = [np.dot(one["color"][:3], (0.299, 0.587, 0.114)) for one in styles]
    assert min(np.diff(light)) > 0.04  # they also differ in grey


def test_a_domain_is_drawn_from_whatever_settings_there_are(monkeypatch):
    """A grid that is not finished has fewer settings, epsilons or calibrations."""
    full = nock_henecka_2020.runs

    def some(domain, calibration, bins=10):
        found = full(domain, calibration, bins)
        if calibration == "tight":
            return found.where(found.epsilon < 0)
        return found.where((found.epsilon != 25) & (found.depth < 4))

    monkeypatch.setattr(nock_henecka_2020, "runs", some)
    figure = nock_henecka_2020.domain("sonar")
    titles = {panel.get_title() for panel in figure.axes if panel.axison}
    assert "epsilon = 10" in titles
    assert not titles & {"epsilon = 25", "depth, tight"}
    assert "36 no privacy, 432 published" in figure.get_suptitle()


def test_rounds_that_did_not_suffice_are_marked():
    lines = [
        {"tau": 0.1, "theorem_rounds": 9, "rounds_by_advantage": 9, "rounds_to_margin": None}
        | {"rounds_to_error": 4, "rounds_run": 8},
        {"tau": 0.2, "theorem_rounds": 9, "rounds_by_advantage": 9, "rounds_to_margin": 3}
        | {"rounds_to_error": 4, "rounds_run": 8},
    ]
    _, panel = plt.subplots()
    bun_2020._rounds(panel, lines)
    assert [text.get_text() for text in panel.texts if text.get_text()] == ["not in 8"]


def test_adult_says_that_two_rules_hardly_differ_from_the_larger_class():
    for name, expected in {"adult": True, "banknote": False}.items():
        private = [line for line in bojarski_2014.read(name) if line["private"]]
        words = "\n".join(
            bojarski_2014._heading(private[0] | {"dataset": name}, private, private, 3)
        )
        assert ("stay within 0.01 of it" in words) == expected


@pytest.mark.parametrize("name", bojarski_2014.LARGER_CLASS)
def test_larger_classes_are_those_of_the_data(name, data_folder):
    assert data_folder
    label = np.asarray(rows.load(name).label)
    assert min(label.mean(), 1 - label.mean()) == pytest.approx(
        bojarski_2014.LARGER_CLASS[name], abs=6e-6
    )
