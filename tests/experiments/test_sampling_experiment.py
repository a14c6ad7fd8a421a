"""Sampled rounds: what the page says of them."""

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from experiments.common import pages, results
from experiments.comparisons import sampling
from tests.support import ROOT

PAGE = ROOT / "docs" / "accuracy.md"


def test_the_page_of_sampling_is_made_of_its_lines():
    lines = results.read_csv(PAGE.with_name("sampling.csv"), "sampling")
    assert pages.fill_tables(sampling.PAGES, PAGE.read_text(), lines, "page") == PAGE.read_text()
    assert len(lines) == 48
    assert min(line["ratio"] for line in lines) >= 1


def test_the_noise_ratio_of_sampling_agrees_with_another_accountant():
    rate, rounds, epsilon, delta = 0.3, 64, 1.0, sampling.DELTA
    ratio = sampling.noise_ratio(rate, rounds, epsilon=epsilon, delta=delta)
    for factor, enough in ((1.003, True), (0.997, False)):
        noise = factor * ratio * rate * sampling.full_noise(rounds, epsilon=epsilon, delta=delta)
        accountant = PLDAccountant()
        event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
        accountant.compose(dp_event.SelfComposedDpEvent(event, rounds))
        assert (accountant.get_epsilon(delta) < epsilon) is enough
