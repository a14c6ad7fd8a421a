"""The number of runs: drawn by exact arithmetic from 256 bits of the release's key."""

from decimal import Decimal, localcontext

import numpy as np

from dpbt.base import Array
from dpbt.privacy import keys
from dpbt.privacy.accounting import RunCount

_DIGITS = 120
_WORDS = 8
_NOTHING = Decimal(10) ** -90
"""Probabilities below it end the search: together they are below 2^-200."""


def drawn_count(key: Array, count: RunCount) -> int:
    """K, by inversion of its distribution function at 256 random bits. It is private.

    Nothing truncates it. The law of the result is within 2^-200 of that of `count` in total
    variation (`accounting.COUNT_DISTANCE`). The reason is that each value's probability is off by
    at most 2^-256 and the rounding of 120 digits, and fewer than 2^22 values are not below 10^-90.

    Args:
        key: one typed key, used for nothing else.
        count: the law.
    """
    words = np.asarray(keys.words(key, _WORDS, ()))
    position = 0
    for word in words.tolist():
        position = (position << 32) | word
    return at_position(position, 32 * _WORDS, count)


def at_position(position: int, bits: int, count: RunCount) -> int:
    """The k at which the distribution function of K first exceeds position / 2^bits."""
    if count.gamma == 1:
        return 1
    with localcontext() as context:
        context.prec = _DIGITS
        gamma, eta = Decimal(count.gamma), Decimal(count.eta)
        rest = 1 - gamma
        log_inverse = -gamma.ln()
        if count.eta == 0:
            probability = rest / log_inverse
        else:
            probability = rest * eta / ((eta * log_inverse).exp() - 1)
        wanted = Decimal(position) / Decimal(2) ** bits

        k, below = 1, probability
        while below <= wanted and probability > _NOTHING:
            probability *= rest * (k + eta) / (k + 1)
            below += probability
            k += 1
    return k
