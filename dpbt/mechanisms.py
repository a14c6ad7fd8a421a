"""Mechanisms: (sample, log_prob, divergence) for every draw that leaves the private side.

`scale` is the noise: the Laplace or Gaussian scale, or the temperature of the exponential mechanism
(p proportional to exp(score / scale)). Scale 0 is the noise-free limit, used by the non-private
mode; its log probability is 0 for the limit's output and -inf for every other.

The densities are exact formulas, evaluated in float32. The samplers draw in float32: `laplace` and `gaussian` are for
research, as the low bits of their outputs depend on the value (Mironov, 2012). `discrete_laplace` and the selections
return integers, from finitely many random bits: no output of probability below about e^-44 is ever drawn, which no
pure-epsilon statement can see but which is, strictly, a delta of that size.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

from dpbt.base import UNSPLIT, Array, Mechanism

MAX_DISCRETE_SCALE = 2.0**32
"""Largest scale of `discrete_laplace` whose samples are resolved."""

SATURATION = 2**31 - 2**21
"""`discrete_laplace` returns integers in [-SATURATION, SATURATION]; sums beyond are clamped to it."""

_DIGIT = 4096.0


def _positive(scale):
    return jnp.where(scale > 0, scale, 1)


def _exact(output, value):
    return jnp.where(output == value, 0.0, -jnp.inf)


def _additive_divergence(value, scale, other_value, other_scale):
    """Total max-divergence of Laplace noise: sum of |difference| / scale, infinite if the scales differ."""
    moved = jnp.abs(jnp.asarray(value - other_value, jnp.float32))
    noisy = jnp.where(moved > 0, moved / _positive(scale), 0)
    without = jnp.where(moved > 0, jnp.inf, 0)
    each = jnp.where(scale == other_scale, jnp.where(scale > 0, noisy, without), jnp.inf)
    return jnp.sum(each)


def _squared(divergence):
    """The zCDP cost of a pure mechanism: epsilon^2 / 2 (Bun & Steinke, 2016, Proposition 1.4)."""

    def rho(value, scale, other_value, other_scale):
        return divergence(value, scale, other_value, other_scale) ** 2 / 2

    return rho


def _laplace_sample(key, value, scale):
    return value + scale * _laplace_noise(key, jnp.shape(value))


def _laplace_log_prob(output, value, scale):
    density = -jnp.abs(output - value) / _positive(scale) - jnp.log(2 * _positive(scale))
    return jnp.where(scale > 0, density, _exact(output, value))


laplace = Mechanism("laplace", _laplace_sample, _laplace_log_prob, _additive_divergence, _squared(_additive_divergence))
"""Real value plus Laplace(scale) noise: epsilon = L1 sensitivity / scale (Dwork et al., 2006)."""


def _words(key: Array, count: int, shape: tuple[int, ...]) -> Array:
    """u32[count, ...]: uniform words, two from each threefry block (`jax.random.bits` makes one of it)."""
    size = count * math.prod(shape)
    counters = jnp.arange(size + size % 2, dtype=jnp.uint32)
    return threefry_2x32(jax.random.key_data(key), counters)[:size].reshape(count, *shape)


def _exponential_variate(coin, coin_again, residue):
    """Exp(1) from three uniform 32-bit words, with full relative resolution far into the tail (e^-44).

    E = ln 2 * G + R, where G, the number of failures of fair coins, is the number of leading zeros of the words, and
    R in [0, ln 2) is drawn by inversion from 24 bits. Memorylessness makes G and R independent.
    """
    zeros = jax.lax.clz(coin)
    zeros = jnp.where(coin == 0, 32 + jax.lax.clz(coin_again), zeros).astype(jnp.float32)
    return zeros * np.float32(np.log(2)) - jnp.log1p(-0.5 * _unit_interval(residue))


def _unit_interval(word):
    """The upper 24 bits of a 32-bit word as a float32 in [0, 1)."""
    return (word >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def _laplace_noise(key, shape):
    """Laplace(1) as a difference of two Exp(1), so that its tails reach e^-44."""
    words = _words(key, 6, shape)
    return _exponential_variate(*words[:3]) - _exponential_variate(*words[3:])


def _geometric(words, scale):
    """Integers x >= 0 with p(x) proportional to exp(-x / scale), as (high, low) with x = base * high + low.

    The base is 1 up to scale 4096, and 4096 beyond, where float32 would not resolve units. The two digits of a
    geometric variable are independent; low is drawn by inversion and has no tail.

    Args:
        words: u32[4, ...], uniform.
        scale: f32[], above 0.
    """
    base = jnp.where(scale > _DIGIT, _DIGIT, 1.0)
    high = jnp.floor(scale / base * _exponential_variate(words[0], words[1], words[2]))
    below = -jnp.expm1(-base / scale) * _unit_interval(words[3])
    low = jnp.minimum(jnp.floor(-scale * jnp.log1p(-below)), base - 1)
    return high.astype(jnp.int32), low.astype(jnp.int32), base


def _discrete_laplace_sample(key, value, scale):
    words = _words(key, 8, jnp.shape(value))
    safe = _positive(jnp.asarray(scale, jnp.float32))
    high_plus, low_plus, base = _geometric(words[:4], safe)
    high_minus, low_minus, _ = _geometric(words[4:], safe)
    high = jnp.where(scale > 0, high_plus - high_minus, 0)
    low = jnp.where(scale > 0, low_plus - low_minus, 0)
    # int32 wraps, so `total` is the true sum wherever that fits; where it does not, float32 says so.
    total = value + high * base.astype(jnp.int32) + low
    roughly = value.astype(jnp.float32) + high.astype(jnp.float32) * base
    beyond = jnp.abs(roughly) > SATURATION + 2**20
    clamped = jnp.clip(total, -SATURATION, SATURATION)
    return jnp.where(beyond, jnp.where(roughly > 0, SATURATION, -SATURATION), clamped)


def _discrete_laplace_log_prob(output, value, scale):
    safe = _positive(scale)
    above = (output - value).astype(jnp.uint32)  # modulo 2**32, where the true distance fits
    distance = jnp.where(output >= value, above, -above).astype(jnp.float32) / safe
    inside = jnp.log(jnp.tanh(0.5 / safe)) - distance
    tail = -jnp.log1p(jnp.exp(-1 / safe)) - distance
    density = jnp.where(jnp.abs(output) == SATURATION, tail, inside)
    return jnp.where(scale > 0, density, _exact(output, value))


discrete_laplace = Mechanism(
    "discrete laplace",
    _discrete_laplace_sample,
    _discrete_laplace_log_prob,
    _additive_divergence,
    _squared(_additive_divergence),
)
"""Integer value plus two-sided geometric noise, p(k) proportional to exp(-|k| / scale), in the value's unit.

epsilon = L1 sensitivity / scale (Ghosh et al., 2009). Values are i32 within +-`SATURATION`; sums beyond it are
clamped (post-processing, counted by `log_prob`). Scales go up to `MAX_DISCRETE_SCALE`.
"""


def _gaussian_sample(key, value, scale):
    return value + scale * jax.random.normal(key, jnp.shape(value), jnp.float32)


def _gaussian_log_prob(output, value, scale):
    z = (output - value) / _positive(scale)
    density = -0.5 * z**2 - jnp.log(_positive(scale)) - 0.5 * np.log(2 * np.pi).astype(np.float32)
    return jnp.where(scale > 0, density, _exact(output, value))


def _gaussian_divergence(value, scale, other_value, other_scale):
    same = jnp.all((value == other_value) & (scale == other_scale))
    return jnp.where(same, 0.0, jnp.inf)


def _gaussian_rho(value, scale, other_value, other_scale):
    same = jnp.where(scale == other_scale, 0.0, jnp.inf)
    moved = jnp.abs(value - other_value)
    noisy = jnp.where(moved > 0, jnp.where(scale > 0, (moved / _positive(scale)) ** 2 / 2, jnp.inf), 0)
    return jnp.sum(noisy) + same


gaussian = Mechanism("gaussian", _gaussian_sample, _gaussian_log_prob, _gaussian_divergence, _gaussian_rho)
"""Real value plus N(0, scale**2): (L2 sensitivity)**2 / (2 scale**2)-zCDP; no pure epsilon."""


def _per_draw(scores, scale):
    """The scale of each draw as f32[..., 1], from one scale for all or one for each."""
    return jnp.broadcast_to(jnp.asarray(scale, jnp.float32), scores.shape[:-1])[..., None]


def _exponential_logits(scores, scale):
    """(score - best score) / scale: differences first, so that large scores keep the digits that tell them apart."""
    scale = _per_draw(scores, scale)
    best = jnp.max(scores, axis=-1, keepdims=True)
    ratio = jnp.where(jnp.isinf(scale), 0, (scores - jnp.where(jnp.isneginf(best), 0, best)) / _positive(scale))
    return jnp.where(jnp.isneginf(scores), -jnp.inf, ratio)


def _groups(candidates: int) -> tuple[int, int]:
    """(groups, size) of near-square consecutive groups that hold all candidates."""
    size = math.isqrt(candidates - 1) + 1
    return -(-candidates // size), size


def selection_noise(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The Gumbel noise of `exponential` for scores f32[..., K] under this key: of the groups, and within the winner.

    -log(Exp(1)) with the exponential variable by inversion from 64 bits, so that its upper tail ends at about 44.
    """
    groups, size = _groups(shape[-1])
    high, low = _words(key, 2, (*shape[:-1], groups + size)).astype(jnp.float32)
    uniform = jnp.clip(high * np.float32(2.0**-32) + low * np.float32(2.0**-64), 2.0**-64, 1 - 2.0**-24)
    noise = -jnp.log(-jnp.log1p(-uniform))
    return noise[..., :groups], noise[..., groups:]


def _first_best(values):
    """i32[...]: the lowest index of the largest entry along the last axis, by two plain reductions."""
    best = jnp.max(values, axis=-1, keepdims=True)
    index = jnp.arange(values.shape[-1], dtype=jnp.int32).reshape((1,) * (values.ndim - 1) + (-1,))
    return jnp.min(jnp.where(values == best, index, values.shape[-1]), axis=-1)


def _exponential_sample(key, scores, scale):
    """Gumbel-max in two stages: the largest of a group's Gumbel variables is Gumbel at the group's log-sum-exp.

    So a group is drawn by its log-sum-exp, then a candidate within it: about 2 sqrt(K) random numbers, not K.
    """
    quiet = _per_draw(scores, scale) == 0
    logits = _exponential_logits(scores, scale)
    groups, size = _groups(scores.shape[-1])
    spare = groups * size - scores.shape[-1]
    filled = jnp.pad(logits, [(0, 0)] * (logits.ndim - 1) + [(0, spare)], constant_values=-jnp.inf)
    filled = filled.reshape(*logits.shape[:-1], groups, size)
    best = jnp.max(filled, axis=-1)
    some = jnp.where(jnp.isneginf(best), 0, best)
    total = some + jnp.log(jnp.sum(jnp.exp(filled - some[..., None]), axis=-1))
    across, within = selection_noise(key, scores.shape)
    group = _first_best(jnp.where(quiet, best, total + across))
    members = jnp.take_along_axis(filled, group[..., None, None], axis=-2)[..., 0, :]
    member = _first_best(jnp.where(quiet, members, members + within))
    return jnp.where(jnp.all(jnp.isneginf(best), axis=-1), UNSPLIT, group * size + member)


def _exponential_pmf(scores, scale):
    """Log probability of every candidate; all -inf where no candidate is allowed."""
    logits = _exponential_logits(scores, scale)
    none = jnp.all(jnp.isneginf(scores), axis=-1, keepdims=True)
    soft = jax.nn.log_softmax(jnp.where(none, 0, logits), axis=-1)
    hard = jnp.where(jax.nn.one_hot(jnp.argmax(scores, axis=-1), scores.shape[-1], dtype=bool), 0.0, -jnp.inf)
    quiet = _per_draw(scores, scale) == 0
    return jnp.where(none, -jnp.inf, jnp.where(quiet, hard, soft))


def _exponential_log_prob(output, scores, scale):
    chosen = jnp.maximum(output, 0)[..., None]
    log_prob = jnp.take_along_axis(_exponential_pmf(scores, scale), chosen, axis=-1)[..., 0]
    none = jnp.all(jnp.isneginf(scores), axis=-1)
    return jnp.where(output == UNSPLIT, jnp.where(none, 0.0, -jnp.inf), log_prob)


def _pmf_divergence(p, q):
    """Max-divergence, in the worse direction, of independent draws with log probabilities [..., K]."""
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), 0.0, p - q)
    return jnp.maximum(jnp.sum(jnp.max(ratio, axis=-1)), jnp.sum(jnp.max(-ratio, axis=-1)))


def _exponential_divergence(scores, scale, other_scores, other_scale):
    p, q = _exponential_pmf(scores, scale), _exponential_pmf(other_scores, other_scale)
    none = jnp.all(jnp.isneginf(scores), axis=-1)
    other_none = jnp.all(jnp.isneginf(other_scores), axis=-1)
    return jnp.where(jnp.any(none != other_none), jnp.inf, _pmf_divergence(p, q))


def _exponential_rho(scores, scale, other_scores, other_scale):
    """Bounded range: (range of the log ratio)^2 / 8 for each draw (Cesar & Rogers, 2021)."""
    p, q = _exponential_pmf(scores, scale), _exponential_pmf(other_scores, other_scale)
    ratio = jnp.where(jnp.isneginf(p) & jnp.isneginf(q), jnp.nan, p - q)
    spread = jnp.nanmax(ratio, axis=-1) - jnp.nanmin(ratio, axis=-1)
    none = jnp.all(jnp.isneginf(scores), axis=-1) & jnp.all(jnp.isneginf(other_scores), axis=-1)
    return jnp.sum(jnp.where(none, 0.0, spread**2 / 8))


exponential = Mechanism(
    "exponential", _exponential_sample, _exponential_log_prob, _exponential_divergence, _exponential_rho
)
"""Candidate k of f32[..., K] with probability proportional to exp(score / scale) (McSherry & Talwar, 2007).

Drawn as an argmax under Gumbel noise (see `selection_noise`). A score of -inf forbids its candidate (the mask must be
public, or the mode non-private); with no candidate left the output is `UNSPLIT`. Scale 0 is the argmax, lowest
index first; scale inf is uniform. If the scores of neighbours differ by something in [0, d], or all in [-d, 0],
it is d / scale-DP and (d / scale)**2 / 8-zCDP; in general, with |difference| <= d, 2 d / scale-DP.
"""


def _noisy_max_sample(key, scores, scale):
    noise = _laplace_noise(key, scores.shape)
    return jnp.argmax(scores + _per_draw(scores, scale) * noise, axis=-1).astype(jnp.int32)


_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_REACH = np.linspace(-40.0, 40.0, 161)


def _noisy_max_pmf(scores, scale):
    """Log probability of every candidate by Gauss quadrature between the kinks of the densities.

    P(k wins) is the integral of lap(x - s_k) times the product over j != k of Lap(x - s_j), in units of the
    scale. The integrand is smooth between scores, so panels break at every score (clipped to 40 scales around
    the best one, beyond which less than exp(-40) is left).
    """
    if scores.ndim > 1:
        rows = jax.vmap(lambda s: _noisy_max_pmf(s, scale))(scores.reshape(-1, scores.shape[-1]))
        return rows.reshape(scores.shape)
    best = jnp.max(scores)
    s = (scores - best) / _positive(scale)
    edges = jnp.sort(jnp.concatenate([jnp.asarray(_REACH, jnp.float32), jnp.clip(s, -40, 40)]))
    half = (edges[1:] - edges[:-1]) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    x = middle[:, None] + half[:, None] * jnp.asarray(_NODES, jnp.float32)[None, :]
    gap = x[..., None] - s[None, None, :]
    log_cdf = jnp.where(gap < 0, gap - np.float32(np.log(2)), jnp.log1p(-0.5 * jnp.exp(-jnp.maximum(gap, 0))))
    log_pdf = -jnp.abs(gap) - np.float32(np.log(2))
    log_all = jnp.sum(log_cdf, axis=-1, keepdims=True) - log_cdf + log_pdf
    weight = half[:, None] * jnp.asarray(_NODE_WEIGHTS, jnp.float32)[None, :]
    log_weight = jnp.where(weight > 0, jnp.log(jnp.where(weight > 0, weight, 1)), -jnp.inf)
    soft = jax.nn.logsumexp(log_all + log_weight[..., None], axis=(0, 1))
    return jnp.where(scale > 0, soft, _exact(jnp.arange(s.shape[0]), jnp.argmax(scores)))


def _noisy_max_log_prob(output, scores, scale):
    return jnp.take_along_axis(_noisy_max_pmf(scores, scale), output[..., None], axis=-1)[..., 0]


def _noisy_max_divergence(scores, scale, other_scores, other_scale):
    p, q = _noisy_max_pmf(scores, scale), _noisy_max_pmf(other_scores, other_scale)
    return _pmf_divergence(p, q)


noisy_max = Mechanism(
    "noisy max", _noisy_max_sample, _noisy_max_log_prob, _noisy_max_divergence, _squared(_noisy_max_divergence)
)
"""Index of the largest of f32[..., K] finite scores after independent Laplace(scale) noise on each.

2 d / scale-DP for |difference| <= d, d / scale-DP if all differences have one sign (Dwork & Roth, 2014, Claim
3.9). `log_prob` integrates numerically, to about 1e-5 relative. `scale` is a scalar.
"""


def _uniform_sample(key, value, scale):
    if jnp.issubdtype(value.dtype, jnp.integer):
        count = jnp.asarray(scale).astype(jnp.uint32)
        high, low = _words(key, 2, value.shape) % count
        radix = 2**16 % count
        return ((high * (radix * radix % count) + low) % count).astype(value.dtype)  # of 2^32 high + low
    return jax.random.uniform(key, value.shape, value.dtype) * scale


def _uniform_log_prob(output, value, scale):
    del value
    inside = (output >= 0) & (output < scale)
    return jnp.where(inside, -jnp.log(jnp.asarray(scale, jnp.float32)), -jnp.inf)


def _uniform_divergence(value, scale, other_value, other_scale):
    del value, other_value
    return jnp.where(scale == other_scale, 0.0, jnp.inf)


uniform = Mechanism("uniform", _uniform_sample, _uniform_log_prob, _uniform_divergence, _uniform_divergence)
"""Public randomness: reals in [0, scale), or integers 0..scale - 1 where the value holds integers.

0-DP: only the shape and the dtype of the value are read, which are public, and never what it holds. `scale` must be
public too. Integers are drawn from 64 random bits modulo scale, so uniform to within scale * 2^-64 (from 32 bits where
scale is above 2^16); reals are multiples of 2^-23 times scale.
"""
