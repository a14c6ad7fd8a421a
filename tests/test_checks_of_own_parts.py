"""`check_mechanism` and `check_learner` pass what is right, and reject planted mistakes by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt.audit import CheckError, check_learner, check_mechanism
from dpbt.data.domains import Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.mechanism import LAPLACE, PURE, Mechanism, StepLoss
from dpbt.types import GRID, Tree

pytestmark = pytest.mark.unoptimized

BIT_PAIR = (jnp.zeros(2, jnp.int32), jnp.asarray([0, 1], jnp.int32))


def sample_bit(key, bit, scale):
    kept = jax.random.uniform(key, jnp.shape(bit), jnp.float32) < jax.nn.sigmoid(1 / scale)
    return jnp.where(kept, bit, 1 - bit)


def log_prob_of_bit(output, bit, scale):
    return jax.nn.log_sigmoid(jnp.where(output == bit, 1 / scale, -1 / scale))


def divergence_of_bits(bit, scale, other_bit, other_scale):
    del other_scale
    return StepLoss.from_pure_epsilon(jnp.sum(jnp.where(bit == other_bit, 0.0, 1 / scale)))


RESPONSE = Mechanism("response", sample_bit, log_prob_of_bit, divergence_of_bits, PURE)

WRONG_BITS = {
    "samples follow": RESPONSE._replace(
        sample=lambda key, bit, scale: sample_bit(key, bit, 2 * scale / 3)
    ),
    "masses of an output": RESPONSE._replace(
        log_prob=lambda output, bit, scale: log_prob_of_bit(output, bit, scale) + 0.1
    ),
    "log ratios": RESPONSE._replace(
        divergence=lambda *pair: StepLoss.from_pure_epsilon(divergence_of_bits(*pair).pure / 2)
    ),
    "Renyi": RESPONSE._replace(
        divergence=lambda *pair: StepLoss(divergence_of_bits(*pair).pure, jnp.float32(0.01))
    ),
    "divergence / price": RESPONSE._replace(
        divergence=lambda *pair: StepLoss.from_pure_epsilon(2 * divergence_of_bits(*pair).pure)
    ),
}
"""The beginning of the line that a mistake fails -> a mechanism with the mistake."""


def failed_lines(check, *args, **options):
    with pytest.raises(CheckError, match="FAILED") as failed:
        check(*args, **options)
    assert not failed.value.report.passed
    return [line.name for line in failed.value.report.lines if not line.passed]


def test_a_right_mechanism_passes_and_each_planted_mistake_fails_its_line():
    report = check_mechanism(RESPONSE, [BIT_PAIR], scales=[1.0])
    assert report.passed
    assert str(report).startswith("mechanism response: passed\nok  samples follow the density")
    for words, mechanism in WRONG_BITS.items():
        failed = failed_lines(check_mechanism, mechanism, [BIT_PAIR], scales=[1.0])
        assert any(name.startswith(words) for name in failed), (words, failed)


def sample_laplace(key, value, scale):
    return value + scale * jax.random.laplace(key, value.shape, jnp.float32)


def log_prob_of_laplace(output, value, scale):
    return -jnp.abs(output - value) / scale - jnp.log(2 * scale)


def divergence_of_laplace(value, scale, other, other_scale):
    del other_scale
    return StepLoss.from_pure_epsilon(jnp.sum(jnp.abs(value - other)) / scale)


REAL_NOISE = Mechanism("real", sample_laplace, log_prob_of_laplace, divergence_of_laplace, LAPLACE)


def test_real_outputs_are_checked_by_integrals():
    pair = jnp.float32([0.0, 2.0]), jnp.float32([1.0, 2.5])
    assert check_mechanism(REAL_NOISE, [pair], scales=[0.7]).passed
    narrow = REAL_NOISE._replace(
        sample=lambda key, value, scale: sample_laplace(key, value, 0.9 * scale)
    )
    failed = failed_lines(check_mechanism, narrow, [pair], scales=[0.7])
    assert failed == ["samples follow the density (p-value)"]


def test_a_gaussian_that_is_priced_too_low_is_rejected():
    pair = jnp.int32([0]), jnp.int32([4])
    gaussian = mechanisms.rounded_gaussian
    assert check_mechanism(gaussian, [pair], scales=[3.0]).passed
    cheap = gaussian._replace(price=gaussian.price._replace(norm="l1", divisor=8.0))
    assert "divergence / price" in failed_lines(check_mechanism, cheap, [pair], scales=[3.0])


BAD_ARGUMENTS = [
    ({"mechanism": 5}, "mechanism must be a Mechanism, got int"),
    ({"pairs": []}, "pairs and scales must hold at least one entry"),
    ({"pairs": [(jnp.zeros(1), jnp.zeros(2))]}, "one shape and one type"),
    ({"scales": [0.0]}, "scales must be"),
    ({"num_draws": 0}, "num_draws must be"),
]


def test_arguments_of_another_kind_are_refused():
    for changes, words in BAD_ARGUMENTS:
        options = {"mechanism": RESPONSE, "pairs": [BIT_PAIR], "scales": [1.0], **changes}
        with pytest.raises(ValueError, match=words):
            check_mechanism(options.pop("mechanism"), options.pop("pairs"), **options)
    wide = jnp.int32([0]), jnp.int32([1])
    with pytest.raises(ValueError, match="spread over more than 65536 whole numbers"):
        check_mechanism(mechanisms.discrete_laplace, [wide], scales=[1e6])


# Learners.

SPLIT = jnp.full(1, 1, jnp.int32)


def class_weights_of_sides(table, weights):
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape, jnp.int32)
    products = trees.node_products(table, by_class, root, 1, None)
    return trees.child_totals(products, trees.root_class_weights(by_class), SPLIT)


def stump_with(sensitivity, mechanism=mechanisms.discrete_laplace):
    def program(draw, table, weights, params, public):
        del params, public
        value = class_weights_of_sides(table, weights)
        proof = "a row is on one side, so it changes one class weight"
        draw("leaf", mechanism, value, sensitivity=sensitivity, moved_outputs=1, theorem=proof)

    def hypothesis(release, params, public):
        del params, public
        noisy = release["leaf"].astype(jnp.float32)
        return Tree(SPLIT, jnp.sign(noisy[:, 1] - noisy[:, 0]))

    return boundary.weak_learner(
        name=f"stump of sensitivity {sensitivity}",
        program=program,
        hypothesis=hypothesis,
        kind=trees.TREES,
        fractions={"leaf": 1.0},
        relation="add_remove",
    )


def small_table():
    x = np.linspace(0, 1, 8)
    return dpbt.table({"x": Numeric(0, 1, bins=3)}, {"x": x}, x > 0.5)


OPTIONS = {"num_transcripts": 4, "num_draws": 4000, "num_tables": 4, "num_proposals": 4}


@pytest.mark.slow
def test_a_right_learner_passes_in_one_call():
    report = check_learner(stump_with(GRID), small_table(), **OPTIONS)
    assert report.passed
    assert str(report).startswith("learner stump of sensitivity 127, recipe custom: passed\nok")


def test_a_sensitivity_that_is_too_small_is_rejected():
    failed = failed_lines(
        check_learner, stump_with(GRID // 2), small_table(), aspects=["losses"], **OPTIONS
    )
    assert failed == ["largest loss of a transcript", "loss of a step of 'leaf' / its claim"]


@pytest.mark.slow
def test_a_search_rejects_a_sensitivity_that_is_too_small():
    failed = failed_lines(
        check_learner, stump_with(GRID // 2), small_table(), aspects=["search"], **OPTIONS
    )
    assert failed == ["worst step of a searched pair / its claim"]


def sample_too_little(key, value, scale):
    return mechanisms.discrete_laplace.sample(key, value, scale / 2)


@pytest.mark.slow
def test_a_sampler_of_too_little_noise_is_rejected():
    wrong = mechanisms.discrete_laplace._replace(sample=sample_too_little, sample_places=None)
    failed = failed_lines(
        check_learner, stump_with(GRID, wrong), small_table(), aspects=["noise"], **OPTIONS
    )
    assert "samples against their density (sigmas)" in failed


def test_learners_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="learner must be a recipe or a weak learner, got int"):
        check_learner(5, small_table())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aspects must be of"):
        check_learner(stump_with(GRID), small_table(), aspects=["loss"])
    with pytest.raises(ValueError, match="tables must hold at least one table"):
        check_learner(stump_with(GRID), [])
