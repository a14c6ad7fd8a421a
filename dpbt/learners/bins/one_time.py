"""What learners over the bins of a domain draw once, and how it shares the budget with rounds."""

import dataclasses
from collections.abc import Mapping

from dpbt import types
from dpbt.learners.bins.config import BinsConfig
from dpbt.learners.bins.epilogue import score_line_epilogue
from dpbt.learners.bins.histograms import HISTOGRAM_SITE, SCORES_SITE, TARGET_SITE
from dpbt.learners.bins.number_line import number_correction_epilogue
from dpbt.learners.bins.prologue import histogram_prologue

DEFAULT_ONE_TIME_FRACTION = 0.1
"""The share of the budget for each site that is drawn once, where a recipe states none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTimePhases:
    """The one-time draws of a learner over bins, and how its budget is shared.

    Attributes:
        fractions: site -> fraction of the budget.
        prologue: with the histograms that it draws, if any.
        epilogue: with the histogram of scores, if it is drawn.
    """

    fractions: Mapping[str, float]
    prologue: types.Prologue | None
    epilogue: types.Epilogue | None


def one_time_phases_with_fractions(config: BinsConfig, *, round_site: str) -> OneTimePhases:
    """Make the prologue and the epilogue of a config, with each site's default share of the budget.

    Each site that is drawn once has `DEFAULT_ONE_TIME_FRACTION`, and the rounds have the rest.
    """
    is_number = config.response.is_number
    is_drawn = {
        HISTOGRAM_SITE: config.draws_histograms,
        TARGET_SITE: is_number,
        SCORES_SITE: config.draws_scores,
    }
    one_time_fractions = dict.fromkeys(
        [site for site, drawn in is_drawn.items() if drawn], DEFAULT_ONE_TIME_FRACTION
    )
    round_fraction = 1 - DEFAULT_ONE_TIME_FRACTION * len(one_time_fractions)
    return OneTimePhases(
        fractions={round_site: round_fraction, **one_time_fractions},
        prologue=histogram_prologue(config) if config.draws_histograms or is_number else None,
        epilogue=_epilogue_of_response(config) if config.draws_scores else None,
    )


def _epilogue_of_response(config: BinsConfig) -> types.Epilogue:
    """Make the epilogue that calibrates probabilities, or that corrects the bias of a number."""
    if config.response.is_number:
        return number_correction_epilogue(config)
    return score_line_epilogue(config)
