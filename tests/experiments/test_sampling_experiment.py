"""Sampled rounds: what the page says of them."""

import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy import stats

from experiments import __main__ as command_line
from experiments.common import pages, results
from experiments.comparisons import sampling

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def test_the_page_of_sampling_is_made_of_its_lines():
    lines = results.read_csv(PAGE.with_name("sampling.csv"), "sampling")
    assert pages.filled(sampling.PAGES, PAGE.read_text(), lines, "page") == PAGE.read_text()
    found = [line for line in lines if line["part"] == "noise"]
    assert len(found) == 48
    assert min(line["ratio"] for line in found) >= 1


def test_the_ratio_is_that_of_another_accountant():
    rate, rounds, epsilon, delta = 0.3, 64, 1.0, sampling.DELTA
    found = sampling.ratio(rate, rounds, epsilon, delta)
    for factor, enough in ((1.003, True), (0.997, False)):
        noise = factor * found * rate * sampling.full_noise(rounds, epsilon, delta)
        accountant = PLDAccountant()
        one = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
        accountant.compose(dp_event.SelfComposedDpEvent(one, rounds))
        assert (accountant.get_epsilon(delta) < epsilon) is enough


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("noise", [0.5, 1.0, 5.0])
def test_whole_moments_of_a_sampled_round_are_no_smaller(rate, noise):
    """By integration, against the sum of the page and the moment of a full round."""
    z, width = np.linspace(-40 * noise, 40 * noise, 400_001, retstep=True)
    ratio = 1 - rate + rate * np.exp((2 * z - 1) / (2 * noise**2))
    for order in (2, 3, 5):
        integral = np.sum(stats.norm.pdf(z, scale=noise) * ratio**order) * width
        k = np.arange(order + 1)
        growth = np.exp(k * (k - 1) / (2 * noise**2))
        assert integral == pytest.approx(np.sum(stats.binom.pmf(k, order, rate) * growth))
        assert integral >= math.exp(order * (order - 1) * rate**2 / (2 * noise**2))


def test_the_command_measures_one_cell(tmp_path, capsys):
    words = ["sampling", "--smoke", "--out", str(tmp_path)]
    assert command_line.main(words) == 0
    assert "1.01" in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text("<!-- sampling: ratios -->\n<!-- sampling: end -->\n")
    assert command_line.main(["sampling", "--doc", str(page), "--out", str(tmp_path)]) == 0
    assert "| 64 | 1 | 33.8 | 1.01" in page.read_text()
