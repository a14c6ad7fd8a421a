"""Samplers against their laws, exactly: bit patterns are counted, not drawn.

An exponential variable falls along the lattice that U lies on, so the patterns that give one
outcome lie between two positions of the lattice, which bisection finds. Laws are in decimals of 60
digits.
"""

import decimal
import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpbt.privacy import mechanisms
from tests.support.attacks import exponential_words, sampler_on_words, unit_words, words_of_lattice

FALSE_ALARM = 1e-6
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
decimal.getcontext().prec = 60
HALF = 2**126
"""The number of positions of the lattice on each side of U = 1/2."""


def words_at_positions(positions: list[int], minus: bool) -> np.ndarray:
    """Return u32[4, n] for positions on the whole lattice, where 0 is U = 1 and 2 HALF is U = 0."""
    near_one = np.array([position < HALF for position in positions])
    distance = [
        position if is_near_one else 2 * HALF - 1 - position
        for position, is_near_one in zip(positions, near_one, strict=True)
    ]
    return words_of_lattice(distance, near_one, np.full(len(positions), minus))


def find_boundaries(at_least, count: int, size: int = 2 * HALF) -> list[int]:
    """The first position of the lattice, for each outcome, at which `at_least` is true."""
    low, high = [0] * count, [size] * count
    for _ in range(size.bit_length() + 1):
        middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
        is_reached = at_least([min(position, size - 1) for position in middle])
        for k in range(count):
            if low[k] < high[k]:
                low[k], high[k] = (low[k], middle[k]) if is_reached[k] else (middle[k] + 1, high[k])
    return low


def shares_between(boundaries: list[int], size: int) -> list[Decimal]:
    """The share of all positions between each boundary of the first half and that of the second."""
    half = len(boundaries) // 2
    return [
        Decimal(b - a) / size for a, b in zip(boundaries[:half], boundaries[half:], strict=True)
    ]


def split_into_two_words(positions: list[int]) -> np.ndarray:
    """Return u32[2, n], the high and the low words of 64 bits."""
    return np.array([[p >> 32, p & 0xFFFFFFFF] for p in positions], np.uint64).astype(np.uint32).T


def largest_log_ratio(count: list[Decimal], law: list[Decimal]) -> float:
    return max(abs(float((c / p).ln())) for c, p in zip(count, law, strict=True))


def cosine_of_turn(turn: Decimal) -> Decimal:
    """The cosine of a share of a turn, by its series."""
    square, term, total = (2 * PI * turn) ** 2, Decimal(1), Decimal(1)
    for k in range(1, 60):
        term *= -square / ((2 * k - 1) * (2 * k))
        total += term
    return total


ANGLES = [2**29 + 12345, 2**22 + 1, 2**30 - 2**28]
"""An eighth of a turn, nearly nothing, three sixteenths."""

SCALES = [0.3, 5.0, 4096.0, 8191.0, 1e6, 2.0**32]
NEAR_REACH = (0.0, 36.0)
FAR_REACH = (37.5, 43.9)


def outcomes_in_reach(scale, part, unit=1.0):
    """Outcomes in a part of the noise's reach, in units of `unit`; some 400 of them."""
    low, high = (int(scale / unit * end) for end in part)
    return np.unique(np.linspace(max(low, 1), max(high, 2), 400).astype(np.int64))


@pytest.mark.parametrize(
    ("scale", "part"),
    [(0.3, (0.0, 43.9)), (5.0, (0.0, 43.9)), (8191.0, NEAR_REACH), (8191.0, FAR_REACH)],
    ids=["0.3", "5", "8191, near", "8191, far"],
)
def test_one_digit_of_laplace_noise_is_within_its_gap(scale, part):
    """The number of bit patterns of each outcome has the probability of its law."""
    scale = float(np.float32(scale))
    sample = sampler_on_words(mechanisms.discrete_laplace)
    outcomes = outcomes_in_reach(scale, part)
    edges = np.concatenate([outcomes, outcomes + 1])

    def at_least(positions):
        bits = np.concatenate(
            [words_at_positions(positions, False), np.zeros((4, len(positions)), np.uint32)]
        )
        noise = sample(bits, np.zeros(len(positions), np.int32), np.float32(scale))
        return np.asarray(noise) >= edges

    # Half of the positions are of positive noise.
    count = shares_between(find_boundaries(at_least, len(edges)), 4 * HALF)
    q = (-1 / Decimal(scale)).exp()
    law = [(1 - q) / (1 + q) * q**k for k in map(int, outcomes)]
    assert largest_log_ratio(count, law) <= mechanisms.discrete_laplace.price.sampler.gap
    edges = np.ones(1)
    zero = Decimal(find_boundaries(at_least, 1)[0]) / (2 * HALF)
    assert (
        largest_log_ratio([zero], [(1 - q) / (1 + q)])
        <= mechanisms.discrete_laplace.price.sampler.gap
    )


@pytest.mark.parametrize(
    ("scale", "part"),
    [
        *((8192.0, NEAR_REACH), (8192.0, FAR_REACH), (1e6, NEAR_REACH), (1e6, FAR_REACH)),
        (2.0**32, (0.0, 1.9 * mechanisms.SATURATION / 2.0**32)),
    ],
    ids=["8192, near", "8192, far", "1e6, near", "1e6, far", "2**32"],
)
def test_two_digits_of_laplace_noise_are_within_their_gap(scale, part):
    """The widest noise is compared up to where it saturates."""
    scale = float(np.float32(scale))
    step = 2 ** (math.floor(math.log2(scale)) - 12)
    sample = sampler_on_words(mechanisms.discrete_laplace)
    limit = mechanisms.SATURATION
    ends = [int(scale / step * end) for end in part]
    high = np.unique(np.linspace(ends[0], ends[1] - 2, 250).astype(np.int64))
    low = np.unique(np.concatenate([[0, 1, step - 2, step - 1], np.linspace(0, step - 1, 250)]))
    low = np.unique(np.clip(low, 0, step - 1).astype(np.int64))
    not_zero = unit_words(np.array(0.9))[:, None]

    def noise(bits, value):
        total = sample(bits, np.asarray(value, np.int32), np.float32(scale))
        return np.asarray(total, np.int64) - value

    def high_at_least(positions):
        edges = np.concatenate([high, high + 1])
        start = np.full(len(positions), -limit, np.int64)
        bits = [
            words_at_positions(positions, False),
            np.zeros((2, len(positions)), np.uint32),
        ]
        bits = np.concatenate([*bits, np.repeat(not_zero, len(positions), axis=1)])
        return noise(bits, start) >= 1 + step * edges

    count = shares_between(find_boundaries(high_at_least, 2 * len(high)), 2 * HALF)
    q = (-Decimal(step) / Decimal(scale)).exp()
    gap = largest_log_ratio(count, [(1 - q) * q**k for k in map(int, high)])

    def low_at_least(positions):
        edges = np.concatenate([low, low + 1])
        word_pairs = split_into_two_words(positions)
        first = np.repeat(exponential_words(np.array([0.2 * step / scale])), len(positions), axis=1)
        bits = np.concatenate([first, word_pairs, np.repeat(not_zero, len(positions), axis=1)])
        return noise(bits, np.zeros(len(positions), np.int64)) >= 1 + edges

    positions = find_boundaries(low_at_least, 2 * len(low), 2**64)
    positions[-1] = 2**64  # nothing is beyond the last digit
    count = shares_between(positions, 2**64)
    step_ratio = (-1 / Decimal(scale)).exp()
    gap += largest_log_ratio(
        count, [(1 - step_ratio) / (1 - q) * step_ratio**k for k in map(int, low)]
    )

    def not_zero_at(positions):
        word_pairs = split_into_two_words(positions)
        bits = np.concatenate(
            [exponential_words(np.full(len(positions), 0.5)), word_pairs, word_pairs]
        )
        return noise(bits, np.zeros(len(positions), np.int64)) != 0

    share = Decimal(find_boundaries(not_zero_at, 1, 2**64)[0]) / 2**64
    gap += largest_log_ratio(
        [share, 1 - share], [(1 - step_ratio) / (1 + step_ratio), 2 * step_ratio / (1 + step_ratio)]
    )
    assert gap <= mechanisms.discrete_laplace.price.sampler.gap


@pytest.mark.parametrize(("scale", "angle"), list(zip(SCALES, 2 * ANGLES, strict=True)))
def test_a_gaussian_of_a_known_angle_is_within_its_gap(scale, angle):
    """Given its angle, a rounded Gaussian is monotone in the words of its radius.

    Outcomes are those of a radius of at most 8.5 standard deviations, whose mass is 2**-52.
    """
    scale = float(np.float32(scale))
    step = 2.0 ** max(math.floor(math.log2(scale)) - 11, 0)
    sample = sampler_on_words(mechanisms.rounded_gaussian)
    angle_words = np.array([angle, 99], np.uint32)
    turn = (
        Decimal(int(angle_words[0])) + (Decimal(int(angle_words[1])) + Decimal("0.5")) / 2**32
    ) / 2**32
    cosine = cosine_of_turn(turn)

    far = 8.5 * scale / step * float(cosine)
    max_outcome = min(int(far), int(mechanisms.SATURATION / step) - 2)
    outcome = np.unique(
        np.linspace(1, max(max_outcome, 1), min(max_outcome + 1, 300)).astype(np.int64)
    )
    edges = np.concatenate([outcome, outcome + 1])

    def at_least(positions):
        size = len(positions)
        bits = np.concatenate(
            [
                words_at_positions(positions, False),
                np.repeat(angle_words[:, None], size, axis=1),
            ]
        )
        value = np.zeros(2 * size, np.int32)
        noise = np.asarray(sample(bits, value, np.float32(scale)), np.int64)[:size]
        return noise >= edges * step

    count = shares_between(find_boundaries(at_least, len(edges)), 2 * HALF)
    unit = Decimal(scale) / Decimal(step) * cosine
    tails = {int(k): (-(((Decimal(int(k)) - Decimal("0.5")) / unit) ** 2) / 2).exp() for k in edges}
    law = [tails[int(k)] - tails[int(k) + 1] for k in outcome]
    assert largest_log_ratio(count, law) <= mechanisms.rounded_gaussian.price.sampler.gap


@pytest.mark.parametrize(
    ("behind", "other"), [(0.0, 1e-3), (0.5, 20.0), (5.0, 0.5), (31.9, 20.0), (40.0, 1e-3)]
)
def test_a_race_of_two_is_within_its_gap(behind, other):
    """Patterns of the other candidate's variable with which the best wins are counted."""
    sample = sampler_on_words(mechanisms.exponential)
    scores = jnp.asarray([0.0, -behind], jnp.float32)
    behind = min(float(np.float32(behind)), mechanisms.MAX_SCALES_BEHIND)

    def best_wins(positions):
        lanes = np.zeros((4, 1, 3), np.uint32)
        lanes[:, 0, 1] = exponential_words(np.array(other))
        lanes[:, 0, 2] = words_at_positions(positions, False)[:, 0]
        return np.asarray(sample(lanes, scores[None], np.float32(1))) == 0

    boundary = find_boundaries(best_wins, 1)[0]
    race = Decimal(other) * (-Decimal(behind)).exp()
    assert boundary > 0
    gap = largest_log_ratio([Decimal(boundary) / (2 * HALF)], [1 - (-race).exp()])
    assert gap <= mechanisms.exponential.price.sampler.gap


@pytest.mark.parametrize("behind", [0.0, 31.9, 40.0])
def test_a_noisy_race_of_two_is_within_its_gap(behind):
    sample = sampler_on_words(mechanisms.noisy_max)
    scores = jnp.asarray([0.0, -behind], jnp.float32)
    behind = min(float(np.float32(behind)), mechanisms.MAX_SCALES_BEHIND)

    def other_wins(positions):
        lanes = np.concatenate(
            [exponential_words(np.array([0.25])), words_at_positions(positions, False)], 1
        )
        return np.asarray(sample(lanes, scores, np.float32(1))) == [1]

    boundary = find_boundaries(other_wins, 1)[0]
    gap = largest_log_ratio([1 - Decimal(boundary) / (2 * HALF)], [(-Decimal(behind + 0.25)).exp()])
    assert gap <= mechanisms.noisy_max.price.sampler.gap


ENDS = [0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.parametrize("scale", SCALES)
def test_extreme_random_words_give_finite_noise(scale):
    """All words are 0, all are ones, and all are at a boundary of what their bits mean."""
    ends = np.array(ENDS, np.uint32)
    limit = 128 * math.log(2) + 1
    laplace = sampler_on_words(mechanisms.discrete_laplace)
    gaussian = sampler_on_words(mechanisms.rounded_gaussian)

    def noise(sample, random_words):
        zeros = jnp.zeros(len(ends) * (2 if len(random_words) == 6 else 1), jnp.int32)
        return np.asarray(sample(random_words, zeros, np.float32(scale)), np.int64)

    every = np.tile(ends, (8, 1))
    not_zero = every.copy()
    not_zero[6:] = 2**32 - 1  # which makes a noise in two digits not zero
    for random_words in (every, not_zero):
        noise_at_ends = np.abs(noise(laplace, random_words))
        assert np.all(noise_at_ends <= min(limit * scale + 2, mechanisms.SATURATION))
    assert noise_at_ends[0] >= min(65 * scale - 2, mechanisms.SATURATION)  # the tail is there
    noise_at_ends = noise(gaussian, np.tile(ends, (6, 1)))
    max_noise = min(math.sqrt(2 * limit) * scale * 1.01 + 1, mechanisms.SATURATION)
    assert np.all(np.abs(noise_at_ends) <= max_noise)
    assert noise_at_ends[0] >= min(11.4 * scale - 1, mechanisms.SATURATION)


def test_tails_are_at_least_the_mass_that_is_out_of_reach():
    """Beyond 44 scales of one of two values, or for pairs beyond a radius of 9.3 about one."""
    for shift in (0.0, 0.01, 1.0, 3.0, 8.0):
        beyond = math.exp(-(44 - shift))
        assert mechanisms.discrete_laplace.price.sampler.tail(shift) >= beyond
        beyond = max(stats.chi2(2).sf(9.3**2), stats.ncx2(2, shift**2).sf(9.3**2))
        assert mechanisms.rounded_gaussian.price.sampler.tail(shift) >= beyond * (1 - 1e-9)
    for mechanism in (mechanisms.discrete_laplace, mechanisms.rounded_gaussian):
        assert mechanism.price.sampler.tail(1e9) == 1


def p_value_of_bin_counts(noise, cdf, bins=64):
    """Chi-square p-value of integer noise on bins of about equal mass."""
    edges = np.unique(np.quantile(noise[: len(noise) // 2], np.linspace(0, 1, bins + 1)[1:-1]))
    edges = np.floor(edges)
    tested = noise[len(noise) // 2 :]
    mass = np.diff(np.concatenate([[0], cdf(edges), [1]]))
    observed = np.bincount(np.searchsorted(edges, tested, side="left"), minlength=len(edges) + 1)
    return stats.chisquare(observed, mass * len(tested)).pvalue


def laplace_cdf(k, scale):
    q = math.exp(-1 / scale)
    below = q ** (np.abs(k) - (k < 0)) / (1 + q)
    return np.where(k < 0, q ** (-k) / (1 + q), 1 - q * below)


LAWS = {
    "discrete laplace": laplace_cdf,
    "rounded gaussian": lambda k, scale: stats.norm.cdf((k + 0.5) / scale),
}


@pytest.mark.parametrize("name", LAWS)
def test_many_draws_have_their_law_and_are_independent(name):
    draws, value, scale = 2**18, 127 * 300, 254.0
    values, key = jnp.full(draws, value, jnp.int32), jax.random.key(5)
    noisy = jax.jit(mechanisms.BY_NAME[name].sample)(key, values, np.float32(scale))
    noise = np.asarray(noisy, np.int64) - value
    assert p_value_of_bin_counts(noise, lambda k: LAWS[name](k, scale)) > FALSE_ALARM

    # The two of a pair, and the sign and the size of one, are independent.
    size, half = np.abs(noise[: draws // 2]), draws // 2
    size_class = np.searchsorted(np.quantile(size, np.linspace(0, 1, 9)[1:-1]), size)
    for sign in (noise[half:] > 0, noise[:half] > 0):
        table, counted = np.zeros((8, 2)), noise[:half] != 0
        np.add.at(table, (size_class[counted], sign[counted].astype(int)), 1)
        assert stats.chi2_contingency(table)[1] > FALSE_ALARM
