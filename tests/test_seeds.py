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
    """Else two fits under one seed would differ by exactly what one row adds to a sum."""
    X, y = labelled_rows
    weight = np.full(50, 0.5)
    others = {"fewer": (X[1:], y[1:]), "a label": (X, np.r_[1 - y[0], y[1:]])}
    others |= {"a weight": (X, y, np.r_[1.0, weight[1:]]), "a bin": (1 - X, y)}
    columns = {"a": X[:, 0], "b": X[:, 1]}
    tables = [dpbt.table(DOMAIN, columns, y == 1, capacity=n) for n in (50, 64)]
    assert np.array_equal(*(jax.random.key_data(keys_of_seed(3, table)[0]) for table in tables))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResearchKeyWarning)
        for make, bound in (
            (boosting_classifier, {"max_weight": 1.0}),
            (forest_classifier, {}),
        ):
            same = ((X, y, weight), (X, y, weight)) if bound else ((X, y), (X, y))
            first, again = (keys_of(make(random_state=3, **bound), given) for given in same)
            assert first == again
            for name, given in others.items():
                if bound or name != "a weight":
                    noise, structure = keys_of(make(random_state=3, **bound), given)
                    assert noise != first[0], name
                    assert structure == first[1], name


def keys_of(estimator, given):
    """The words of the keys of noise and of structure of a fit, which is not run."""
    used = []

    def learn(key, table, recipe, public_key, **_):
        used.extend(jax.random.key_data(one).tolist() for one in (key, public_key))
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbt.owners.estimators.fit", learn)
        with pytest.raises(InterruptedError):
            estimator.fit(*given)
    return used


ALIKE = [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62 + 5, 2**63 - 1, 2**63, 2**64 - 1]


def words_of(key):
    return tuple(jax.random.key_data(key).tolist())


def test_seeds_have_all_of_their_bits():
    """Seeds that are alike modulo 2^32 made one key, so that a search of 32 bits found any."""
    assert len({words_of(keys.research_key(seed)) for seed in ALIKE}) == len(ALIKE)
    assert words_of(keys.research_key(2**40 + 7)) == (2**8, 7)
    for seed in ALIKE:
        for held in (np.uint64(seed), np.array(seed, np.uint64)):
            assert words_of(keys.research_key(held)) == words_of(keys.research_key(seed))
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
            one, again = (
                keys_of(boosting_classifier(random_state=make()), labelled_rows) for _ in range(2)
            )
            assert one == again
            structures.append(tuple(one[1]))
    assert structures[0] == structures[1]
    assert len(set(structures)) == 4
    random_state = np.random.RandomState(3)
    words = [words_of(estimators.keys_of_random_state(random_state)[0]) for _ in range(50)]
    assert len(set(words)) == 50
