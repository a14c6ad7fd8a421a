"""Smooth boosting as published: Asadi et al. (2022), advanced composition; Bun et al. (2020)."""

import math
from typing import NamedTuple

import numpy as np

from dpbt.privacy import accounting
from dpbt.privacy.mechanism import Allowance
from dpbt.recipes.building import Request, either_accountant
from dpbt.validate import positive


def composed(request: Request, draws: int, labels: bool = False) -> Allowance:
    """The whole budget as an epsilon of basic or of advanced composition, whichever is more.

    Args:
        request: the checked arguments.
        draws: the number of equal draws of a round.
        labels: whether a round has one more draw, of `draws` times the epsilon of each of them.
    """
    if not request.approximate:
        return either_accountant(request)
    in_round = draws * (2 if labels else 1)

    def total(epsilon: float, delta: float, rounds: int) -> float:
        parts = [(int(rounds) * draws, 1.0)]
        if labels:
            parts.append((int(rounds), float(draws)))
        of_draw = accounting.advanced_each(float(epsilon), float(delta), tuple(parts))
        return of_draw * in_round * int(rounds)

    totals = np.vectorize(total, otypes=[float])
    epsilon = totals(request.epsilon, request.delta, request.rounds)
    return Allowance(epsilon, np.zeros_like(epsilon))


class HalfspaceSettings(NamedTuple):
    """The settings of HS-StL: sigma, T, kappa, and lambda on the scale of the paper's losses."""

    noise: float
    rounds: int
    density: float
    learning_rate: float


def halfspace_settings(alpha: float, beta: float, tau: float) -> HalfspaceSettings:
    """Bun et al. (2020), Algorithm 5: its noise, rounds, density and learning rate.

    kappa = alpha / 4, lambda = tau / 8, T = 1024 log(1/kappa) / tau^2, and
    sigma = tau / (8 c sqrt(log(3072 log(1/kappa) / (beta tau^2)))).

    The paper leaves c open. For the advantage c = sqrt(2) is enough, because |N(0, 1)| exceeds
    sqrt(2 log(1/xi)) with probability at most xi. Lemma 29 also needs |nu| <= tau / 8 for the whole
    noise vector, whose length grows as sigma sqrt(d). No constant c gives that for every dimension,
    so the lemma's generalisation bound holds for small d only.

    Raises:
        ValueError: unless alpha, beta and tau are in (0, 1).
    """
    for name, value in {"alpha": alpha, "beta": beta, "tau": tau}.items():
        positive(name, value, below=1)
    density = alpha / 4
    spread = math.log(3072 * math.log(1 / density) / (beta * tau**2))
    noise = tau / (8 * math.sqrt(2) * math.sqrt(spread))
    rounds = math.ceil(1024 * math.log(1 / density) / tau**2)
    return HalfspaceSettings(noise, rounds, density, learning_rate=tau / 8)
