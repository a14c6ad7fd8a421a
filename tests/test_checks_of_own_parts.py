"""`check_mechanism` and `check_learner` pass correct parts and name planted mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt.audit import CheckError, check_learner, check_mechanism
from dpbt.data.domains import Numeric
from dpbt.learners import trees
from dpbt.privacy import boundary, mechanisms
from dpbt.privacy.mechanism_prices import LAPLACE, PURE
from dpbt.privacy.mechanism_types import Mechanism, WorstCaseLoss
from dpbt.types import GRID, Tree

pytestmark = pytest.mark.unoptimized

BIT_PAIR = (jnp.zeros(2, jnp.int32), jnp.asarray([0, 1], jnp.int32))


def sample_bit(key, bit, scale):
    is_kept = jax.random.uniform(key, jnp.shape(bit), jnp.float32) < jax.nn.sigmoid(1 / scale)
    return jnp.where(is_kept, bit, 1 - bit)


def log_prob_of_bit(output, bit, scale):
    return jax.nn.log_sigmoid(jnp.where(output == bit, 1 / scale, -1 / scale))


def divergence_of_bits(bit, scale, other_bit, other_scale):
    del other_scale
    return WorstCaseLoss.from_pure_epsilon(jnp.sum(jnp.where(bit == other_bit, 0.0, 1 / scale)))


RESPONSE = Mechanism(
    "response",
    sample=sample_bit,
    log_prob=log_prob_of_bit,
    divergence=divergence_of_bits,
    price=PURE,
)

WRONG_BITS = {
    "samples follow": RESPONSE._replace(
        sample=lambda key, bit, scale: sample_bit(key, bit, 2 * scale / 3)
    ),
    "masses of an output": RESPONSE._replace(
        log_prob=lambda output, bit, scale: log_prob_of_bit(output, bit, scale) + 0.1
    ),
    "log ratios": RESPONSE._replace(
        divergence=lambda *pair: WorstCaseLoss.from_pure_epsilon(divergence_of_bits(*pair).pure / 2)
    ),
    "Renyi": RESPONSE._replace(
        divergence=lambda *pair: WorstCaseLoss(divergence_of_bits(*pair).pure, jnp.float32(0.01))
    ),
    "divergence / price": RESPONSE._replace(
        divergence=lambda *pair: WorstCaseLoss.from_pure_epsilon(2 * divergence_of_bits(*pair).pure)
    ),
}
"""Mechanisms with a mistake, by the beginning of the line that the mistake fails."""


def failed_lines(check, *args, **options):
    with pytest.raises(CheckError, match="FAILED") as error:
        check(*args, **options)
    assert not error.value.report.passed
    return [line.name for line in error.value.report.lines if not line.passed]


def test_a_correct_mechanism_passes_and_each_planted_mistake_fails_its_line():
    report = check_mechanism(RESPONSE, [BIT_PAIR], scales=[1.0])
    assert report.passed
    assert str(report).startswith("mechanism response: passed\nok  samples follow the density")
    for beginning, mechanism in WRONG_BITS.items():
        names_of_failed_lines = failed_lines(check_mechanism, mechanism, [BIT_PAIR], scales=[1.0])
        assert any(name.startswith(beginning) for name in names_of_failed_lines), (
            beginning,
            names_of_failed_lines,
        )


def sample_laplace(key, value, scale):
    return value + scale * jax.random.laplace(key, value.shape, jnp.float32)


def log_prob_of_laplace(output, value, scale):
    return -jnp.abs(output - value) / scale - jnp.log(2 * scale)


def divergence_of_laplace(value, scale, other_value, other_scale):
    del other_scale
    return WorstCaseLoss.from_pure_epsilon(jnp.sum(jnp.abs(value - other_value)) / scale)


REAL_NOISE = Mechanism(
    "real",
    sample=sample_laplace,
    log_prob=log_prob_of_laplace,
    divergence=divergence_of_laplace,
    price=LAPLACE,
)


def test_real_outputs_are_checked_by_integrals():
    pair = jnp.float32([0.0, 2.0]), jnp.float32([1.0, 2.5])
    assert check_mechanism(REAL_NOISE, [pair], scales=0.7).passed
    too_narrow = REAL_NOISE._replace(
        sample=lambda key, value, scale: sample_laplace(key, value, 0.9 * scale)
    )
    failed = failed_lines(check_mechanism, too_narrow, [pair], scales=[0.7])
    assert failed == ["samples follow the density (p-value)"]


def test_a_gaussian_that_is_priced_too_low_is_rejected():
    pair = jnp.int32([0]), jnp.int32([4])
    gaussian = mechanisms.rounded_gaussian
    assert check_mechanism(gaussian, [pair], scales=[3.0]).passed
    underpriced = gaussian._replace(price=gaussian.price._replace(norm="l1", divisor=8.0))
    assert "divergence / price" in failed_lines(check_mechanism, underpriced, [pair], scales=[3.0])


BAD_ARGUMENTS = [
    ({"mechanism": 5}, "mechanism must be a Mechanism, got int"),
    ({"pairs": []}, "pairs and scales must hold at least one entry"),
    ({"pairs": BIT_PAIR}, "pairs must be a list of pairs, each of a value and the other value"),
    ({"pairs": [(jnp.zeros(1), jnp.zeros(2))]}, "one shape and one type"),
    ({"scales": [0.0]}, "scales must be"),
    ({"num_draws": 0}, "num_draws must be"),
]


def test_arguments_of_a_wrong_type_or_range_are_refused():
    for changes, message in BAD_ARGUMENTS:
        options = {"mechanism": RESPONSE, "pairs": [BIT_PAIR], "scales": [1.0], **changes}
        with pytest.raises(ValueError, match=message):
            check_mechanism(options.pop("mechanism"), options.pop("pairs"), **options)
    pair = jnp.int32([0]), jnp.int32([1])
    with pytest.raises(ValueError, match="spread over more than 65536 whole numbers"):
        check_mechanism(mechanisms.discrete_laplace, [pair], scales=[1e6])


# Learners.

SPLIT = jnp.full(1, 1, jnp.int32)


def class_weights_of_sides(table, weights):
    by_class = trees.weights_by_class(table, weights)
    root = jnp.zeros(table.target.shape, jnp.int32)
    products = trees.split_weights_of_nodes(table, by_class, root, num_nodes=1)
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


def table_of_one_column():
    x = np.linspace(0, 1, 8)
    return dpbt.table({"x": Numeric(0, 1, bins=3)}, {"x": x}, x > 0.5)


OPTIONS = {"num_transcripts": 4, "num_draws": 4000, "num_tables": 4, "num_proposals": 4}


@pytest.mark.slow
def test_a_correct_learner_passes_in_one_call():
    report = check_learner(stump_with(GRID), table_of_one_column(), **OPTIONS)
    assert report.passed
    assert str(report).startswith("learner stump of sensitivity 127, recipe custom: passed\nok")


def test_a_sensitivity_that_is_too_small_is_rejected():
    failed = failed_lines(
        check_learner, stump_with(GRID // 2), table_of_one_column(), aspects=["losses"], **OPTIONS
    )
    assert failed == ["largest loss of a transcript", "loss of a step of 'leaf' / its claim"]


@pytest.mark.slow
def test_a_search_rejects_a_sensitivity_that_is_too_small():
    failed = failed_lines(
        check_learner, stump_with(GRID // 2), table_of_one_column(), aspects=["search"], **OPTIONS
    )
    assert failed == ["worst step of a searched pair / its claim"]


def sample_too_little(key, value, scale):
    return mechanisms.discrete_laplace.sample(key, value, scale / 2)


@pytest.mark.slow
def test_a_sampler_of_too_little_noise_is_rejected():
    wrong = mechanisms.discrete_laplace._replace(
        sample=sample_too_little, sample_at_row_indices=None
    )
    failed = failed_lines(
        check_learner, stump_with(GRID, wrong), table_of_one_column(), aspects=["noise"], **OPTIONS
    )
    assert "samples against their density (sigmas)" in failed


def test_values_that_are_no_learner_table_or_aspect_are_refused():
    with pytest.raises(ValueError, match=r"learner must be a weak learner or one .* got int"):
        check_learner(5, table_of_one_column())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aspects must be of"):
        check_learner(stump_with(GRID), table_of_one_column(), aspects=["loss"])
    with pytest.raises(ValueError, match="tables must hold at least one table"):
        check_learner(stump_with(GRID), [])
