"""Attacks through flags of JAX: under each, one key must not add one noise to two sums."""

import contextlib

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.privacy import boundary, keys, mechanisms
from dpbt.privacy.jax_flags import FLAGS, check_jax_flags
from dpbt.training import checks

DOMAIN = {"a": Numeric(0, 1, bins=4), "b": Nominal(["x", "y", "z"]), "c": Boolean()}
WORDS = np.arange(1, 9, dtype=np.uint32)

OTHER = {
    "jax_random_seed_offset": 5,
    "jax_default_prng_impl": "rbg",
    "jax_legacy_prng_key": "error",
    "jax_default_matmul_precision": "bfloat16",
    "jax_explicit_x64_dtypes": "error",
    "jax_optimization_level": "O0",
    "jax_exec_time_optimization_effort": -1.0,
    "jax_memory_fitting_effort": -1.0,
    "jax_memory_fitting_level": "O0",
}
"""Flag -> another value than the one of the tests; Boolean flags and the rest are turned over."""

TURNED = {"standard": "strict", "strict": "standard", "allow": "raise", "raise": "allow"}


@contextlib.contextmanager
def other_value(name):
    """A context in which the flag has another value."""
    now = jax.config.values[name]
    other = OTHER[name] if name in OTHER else TURNED[now] if isinstance(now, str) else not now
    jax.config.update(name, other)
    try:
        yield
    finally:
        jax.config.update(name, now)


def table():
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.random(60),
        "b": np.array(["x", "y", "z"])[rng.integers(0, 3, 60)],
        "c": rng.random(60) < 0.5,
    }
    return dpbt.table(DOMAIN, columns, rng.random(60) < 0.4)


def public_and_noise():
    """Keys and words that the library makes: of seeds, of release keys and of research keys."""
    release = jax.random.wrap_key_data(WORDS, impl=keys.CHACHA20)
    public = keys.noise_and_public_keys(7)[1]
    noise_key = keys.mix_rows_into_research_key(keys.research_key(11), [TABLE])
    arrays = [*map(jax.random.key_data, (public, noise_key))]
    for key in (release, noise_key):
        first, second = (boundary.site_key(key, site) for site in ("leaf", "threshold"))
        arrays.append(keys.random_words(first, 2, (3,)))
        arrays.append(mechanisms.uniform.sample(second, np.zeros(4, np.float32), np.float32(1)))
    return [np.asarray(array) for array in arrays]


TABLE = table()


@pytest.fixture(scope="module")
def drawn():
    return public_and_noise()


HARMLESS = [name for name, flag in FLAGS.items() if flag.required_value is None]


@pytest.mark.parametrize("name", [name for name in FLAGS if name not in HARMLESS])
def test_a_flag_that_moves_what_is_drawn_is_refused(name):
    recipe = recipes.bdpe(epsilon=1.0, rows=60, rounds=1, depth=1)
    check_jax_flags()
    with other_value(name):
        for run in (dpbt.fit, dpbt.boost, lambda *args: checks.check_table_and_recipe(*args[1:])):
            with pytest.raises(ValueError, match=name):
                run(keys.research_key(0), TABLE, recipe)


@pytest.mark.parametrize("name", HARMLESS)
def test_no_other_flag_moves_what_is_drawn(name, drawn):
    with other_value(name):
        for before, under_flag in zip(drawn, public_and_noise(), strict=True):
            np.testing.assert_array_equal(before, under_flag)


FITTED = {
    "auto": lambda: recipes.auto(epsilon=1.0, rows=60, domain=DOMAIN, rounds=2),
    "forest": lambda: recipes.random_forest(epsilon=1.0, rows=60, rounds=1, depth=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", FITTED)
@pytest.mark.parametrize("name", HARMLESS)
def test_no_other_flag_moves_a_release(name, recipe):
    """The whole program is compiled anew under the flag."""

    def released():
        key = jax.random.wrap_key_data(WORDS, impl=keys.CHACHA20)
        run = jax.jit(lambda *args: dpbt.boost(*args).transcript)
        public = keys.noise_and_public_keys(7)[1]
        return jax.tree.leaves(run(key, TABLE, FITTED[recipe](), public))

    released_before = released()
    with other_value(name):
        for before, under_flag in zip(released_before, released(), strict=True):
            np.testing.assert_array_equal(before, under_flag)


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 1, np.uint32(5), np.int64(2**31 + 9)])
def test_a_research_key_is_that_of_jax_at_default_flags(seed):
    expected = jax.random.key_data(jax.random.key(seed))
    np.testing.assert_array_equal(jax.random.key_data(keys.research_key(seed)), expected)
    with other_value("jax_random_seed_offset"), other_value("jax_default_prng_impl"):
        np.testing.assert_array_equal(jax.random.key_data(keys.research_key(seed)), expected)
        assert keys.key_purpose(keys.research_key(seed)) == "research"


def test_every_flag_of_jax_that_names_randomness_is_in_the_table():
    """Flags of other versions of JAX may be missing; none of this one's is."""
    markers = ("random", "prng", "threefry", "seed", "gumbel", "x64", "matmul_precision")
    flags_of_randomness = {
        name for name in jax.config.values if any(word in name for word in markers)
    }
    assert flags_of_randomness - {"jax_softmax_custom_jvp"} <= FLAGS.keys()
    assert FLAGS.keys() <= set(jax.config.values)
