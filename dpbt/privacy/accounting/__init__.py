"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

- A *draw* is one noisy output of a private value. Its *site* is its name in the release.
- An *event* (`Event`) is one draw without its value: its mechanism, its sensitivity, its noise, and
  where the sensitivity is proved.
- A *cost* (`mechanism.Cost`) is what one draw takes of the privacy budget: epsilon, rho of zCDP, or
  mu of Gaussian differential privacy. A *price* (`mechanism.Price`) is how a mechanism's cost
  follows from sensitivity / scale.
- An *allowance* (`mechanism.Allowance`) is what draws may cost. Recipes turn it into noise scales.
- A *line* (`Line`) is an event, for all rounds together.
- A *ledger* (`Ledger`) is all lines of a recipe and their total. That of the best of several runs
  is a `ChoiceLedger`.

A ledger is an answer of the very programs that run (`pricing.ledger`), so none of their draws is
priced as another one, or left out.
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
    finite_bits,
    line_of_draw,
    of_people,
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
from dpbt.privacy.accounting.records import (
    from_json,
    line_of,
    line_record,
    of_record,
    to_json,
    to_record,
)
from dpbt.privacy.accounting.runs import (
    RunCount,
    best_gdp_epsilon,
    best_pure_epsilon,
    best_zcdp_epsilon,
    run_count,
)
