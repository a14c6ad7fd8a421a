"""Ledgers: what is released, how often, by which mechanism, at what cost, and why.

A ledger is data. It is computed from the noise scales that the program runs with, and compared with
the draws that the program asks for, so that the two cannot drift apart. A site that no event
covers, or a mechanism that no accountant knows, raises.
"""

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
    compared,
    cover,
    finite_bits,
    public,
    sampler_costs,
)
from dpbt.privacy.accounting.ledger import (
    EXACT_WORDS,
    FLOAT_WORDS,
    KEY_WORDS,
    RELATION_WORDS,
    Ledger,
    align,
)

__all__ = [
    "EXACT_WORDS",
    "FLOAT_WORDS",
    "KEY_WORDS",
    "RELATION_WORDS",
    "Event",
    "Ledger",
    "Line",
    "advanced_each",
    "advanced_epsilon",
    "align",
    "compared",
    "cover",
    "finite_bits",
    "gaussian_delta",
    "gdp_epsilon",
    "gdp_mu",
    "public",
    "sampler_costs",
    "zcdp_epsilon",
    "zcdp_rho",
]
