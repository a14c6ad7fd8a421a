"""Seeds of estimators: other rows have other noise."""

import warnings

import jax
import numpy as np
import pytest

import dpbt
from dpbt.owners import estimators
from dpbt.privacy import keys
from dpbt.privacy.keys import ResearchKeyWarning
from tests.support.estimator_examples import (
    DOMAIN,
    boosting_classifier,
    forest_classifier,
)
from tests.support.example_tables import keys_of_seed


def test_one_seed_has_other_noise_on_other_rows_and_the_same_structure(labelled_rows):
    """Otherwise two fits under one seed would differ by exactly what one row adds to a sum."""
    X, y = labelled_rows
    weight = np.full(50, 0.5)
    changed_arguments = {"fewer": (X[1:], y[1:]), "a label": (X, np.r_[1 - y[0], y[1:]])}
    changed_arguments |= {"a weight": (X, y, np.r_[1.0, weight[1:]]), "a bin": (1 - X, y)}
    columns = {"a": X[:, 0], "b": X[:, 1]}
    tables = [dpbt.table(DOMAIN, columns, y == 1, capacity=n) for n in (50, 64)]
    assert np.array_equal(*(jax.random.key_data(keys_of_seed(3, table)[0]) for table in tables))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        for make_estimator, options in (
            (boosting_classifier, {"max_weight": 1.0}),
            (forest_classifier, {}),
        ):
            equal_arguments = ((X, y, weight), (X, y, weight)) if options else ((X, y), (X, y))
            first, second = (
                key_data_of_fit(make_estimator(random_state=3, **options), fit_arguments)
                for fit_arguments in equal_arguments
            )
            assert first == second
            for name, fit_arguments in changed_arguments.items():
                if options or name != "a weight":
                    noise, structure = key_data_of_fit(
                        make_estimator(random_state=3, **options), fit_arguments
                    )
                    assert noise != first[0], name
                    assert structure == first[1], name


def key_data_of_fit(estimator, fit_arguments):
    """The words of the keys of noise and of structure of a fit, which is not run."""
    used = []

    def learn(key, table, recipe, public_key, **_):
        used.extend(jax.random.key_data(drawn_key).tolist() for drawn_key in (key, public_key))
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbt.owners.estimators.fit", learn)
        with pytest.raises(InterruptedError):
            estimator.fit(*fit_arguments)
    return used


ALIKE = [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62 + 5, 2**63 - 1, 2**63, 2**64 - 1]


def key_data_as_tuple(key):
    return tuple(jax.random.key_data(key).tolist())


def test_seeds_have_all_of_their_bits():
    """Seeds that are alike modulo 2^32 made one key, so that a search of 32 bits found any."""
    assert len({key_data_as_tuple(keys.research_key(seed)) for seed in ALIKE}) == len(ALIKE)
    assert key_data_as_tuple(keys.research_key(2**40 + 7)) == (2**8, 7)
    for seed in ALIKE:
        for held in (np.uint64(seed), np.array(seed, np.uint64)):
            assert key_data_as_tuple(keys.research_key(held)) == key_data_as_tuple(
                keys.research_key(seed)
            )
    traced = jax.jit(lambda seed: jax.random.key_data(keys.research_key(seed)))(jax.numpy.uint32(9))
    assert tuple(traced.tolist()) == (0, 9)


@pytest.mark.parametrize(
    "seed", [-1, -(2**32), 2**64, 10**30, True, 1.0, "3", np.int64(-5), np.array(-5), np.zeros(1)]
)
def test_other_seeds_are_refused_and_not_shown(seed, labelled_rows):
    for make in (keys.research_key, keys.noise_and_public_keys):
        with pytest.raises(ValueError, match=r"seed must be a whole number in 0\.\.2\^64 - 1; oth"):
            make(seed)
    if isinstance(seed, int) and not isinstance(seed, bool):
        with pytest.raises(ValueError, match=r"random_state must be a whole number in 0\.\.2\^64"):
            boosting_classifier(random_state=seed).fit(*labelled_rows)


def test_random_states_of_every_kind_draw_64_bits(labelled_rows):
    makers = [
        lambda: 2**40 + 3,
        lambda: np.int64(2**40 + 3),
        lambda: np.random.RandomState(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.Generator(np.random.MT19937(3)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        structures = []
        for make in makers:
            keys_of_fit, keys_of_equal_fit = (
                key_data_of_fit(boosting_classifier(random_state=make()), labelled_rows)
                for _ in range(2)
            )
            assert keys_of_fit == keys_of_equal_fit
            structures.append(tuple(keys_of_fit[1]))
    assert structures[0] == structures[1]
    assert len(set(structures)) == 4
    random_state = np.random.RandomState(3)
    key_data = [
        key_data_as_tuple(estimators.keys_of_random_state(random_state)[0]) for _ in range(50)
    ]
    assert len(set(key_data)) == 50
