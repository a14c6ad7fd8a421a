"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

- A *draw* is one noisy output of a private value. Its *site* is its name in the release.
- A *cost* (`mechanism.Cost`) is what one draw takes of the privacy budget: epsilon, rho of zCDP, or
  mu of Gaussian differential privacy. A *price* (`mechanism.Price`) is how a mechanism's cost
  follows from sensitivity / scale.
- An *allowance* (`mechanism.Allowance`) is what draws may cost. Recipes turn it into noise scales.
- A *line* (`Line`) is one draw without its value, for all rounds together: its mechanism, its
  sensitivity, its noise, its cost, and where the sensitivity is proved.
- A *ledger* (`Ledger`) is all lines of a recipe and their total, or that of the best of several
  runs, which has a `Choice`.

A ledger is an answer of the very programs that run (`pricing.ledger`), so none of their draws is
priced as another one, or left out.
"""

from dpbt.privacy.accounting.conversions import (
    RunCount,
    advanced_each,
    best_gdp_epsilon,
    best_order,
    best_pure_epsilon,
    best_zcdp_epsilon,
    gaussian_delta,
    gdp_epsilon,
    gdp_mu,
    run_count,
    zcdp_epsilon,
    zcdp_rho,
)
from dpbt.privacy.accounting.ledger import (
    EXACT_WORDS,
    FLOAT_WORDS,
    KEY_WORDS,
    MEASURES,
    PARTS_WORDS,
    RELATION_WORDS,
    ROW,
    ROW_STEP,
    Choice,
    Ledger,
    align,
    choice_of,
    composed,
    from_json,
    people_words,
    to_json,
)
from dpbt.privacy.accounting.lines import STATED, Line, finite_bits, line_of
