"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

- A *draw* is one noisy output of a private value. Its *site* is its name in the release.
- An *event* (`Event`) is what a learner declares about one draw: its mechanism, its sensitivity,
  its noise, and where the sensitivity is proved.
- A *cost* (`mechanism.Cost`) is what one draw takes of the privacy budget: epsilon, rho of zCDP, or
  mu of Gaussian differential privacy. A *price* (`mechanism.Price`) is how a mechanism's cost
  follows from sensitivity / scale.
- An *allowance* (`mechanism.Allowance`) is what draws may cost. Recipes turn it into noise scales.
- A *line* (`Line`) is an event that was compared with the draw that runs, for all rounds together.
- A *ledger* (`Ledger`) is all lines of a recipe and their total. That of the best of several runs
  is a `ChoiceLedger`.

A ledger is computed from the noise scales that the program runs with. It is compared with the draws
that the program asks for, so that the two agree. A ValueError is raised for a site that no event
covers, and for an unknown accountant.
"""

from dpbt.privacy.accounting.choices import Choice, ChoiceLedger, choice_of, with_choice
from dpbt.privacy.accounting.conversions import (
    advanced_each,
    advanced_epsilon,
    gaussian_delta,
    gdp_epsilon,
    gdp_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from dpbt.privacy.accounting.events import (
    Event,
    Line,
    bits_of,
    compared,
    cover,
    finite_bits,
    of_people,
    public,
    sampler_costs,
)
from dpbt.privacy.accounting.ledger import (
    EXACT_WORDS,
    FLOAT_WORDS,
    KEY_WORDS,
    PARTS_WORDS,
    RELATION_WORDS,
    ROW,
    ROW_STEP,
    BasicSum,
    Ledger,
    align,
    composed,
    people_words,
)
from dpbt.privacy.accounting.records import content_of, from_json, line_of, to_json
from dpbt.privacy.accounting.runs import (
    RunCount,
    best_gdp_epsilon,
    best_pure_epsilon,
    best_zcdp_epsilon,
    run_count,
)

__all__ = [
    "EXACT_WORDS",
    "FLOAT_WORDS",
    "KEY_WORDS",
    "PARTS_WORDS",
    "RELATION_WORDS",
    "ROW",
    "ROW_STEP",
    "BasicSum",
    "Choice",
    "ChoiceLedger",
    "Event",
    "Ledger",
    "Line",
    "RunCount",
    "advanced_each",
    "advanced_epsilon",
    "align",
    "best_gdp_epsilon",
    "best_pure_epsilon",
    "best_zcdp_epsilon",
    "bits_of",
    "choice_of",
    "compared",
    "composed",
    "content_of",
    "cover",
    "finite_bits",
    "from_json",
    "gaussian_delta",
    "gdp_epsilon",
    "gdp_mu",
    "line_of",
    "of_people",
    "people_words",
    "public",
    "run_count",
    "sampler_costs",
    "to_json",
    "with_choice",
    "zcdp_epsilon",
    "zcdp_rho",
]
