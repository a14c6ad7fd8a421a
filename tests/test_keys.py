"""Keys: ChaCha20 is that of RFC 8439, no block serves two purposes, and JAX accepts the keys."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from dpbt.privacy import keys
from tests.support.references.chacha import VECTORS, little_endian, reference_block

KINDS = ["release", "research"]


def known_release_key(seed=0):
    """A release key of known words, which are not secret."""
    words = np.random.default_rng(seed).integers(0, 2**32, 8, np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl=keys.CHACHA20)


def known_key(kind, seed=0):
    return known_release_key(seed) if kind == "release" else jax.random.key(seed)


def words_of_key(key):
    return np.asarray(jax.random.key_data(key))


def assert_same_words(actual, expected):
    if jnp.issubdtype(actual.dtype, jax.dtypes.prng_key):
        actual, expected = words_of_key(actual), words_of_key(expected)
    np.testing.assert_array_equal(actual, expected)


def words_in_pairs(words):
    """u64[...]: pairs of words; two of n are equal with probability below n**2 / 2**65."""
    return np.ascontiguousarray(np.asarray(words)).reshape(-1).view(np.uint64)


@pytest.mark.parametrize("name", VECTORS)
def test_a_block_of_the_cipher_is_that_of_the_test_vectors_of_rfc_8439(name):
    key, counter, nonce, stream = VECTORS[name]
    key, nonce, expected = (little_endian(text) for text in (key, nonce, stream))
    np.testing.assert_array_equal(reference_block(key, counter, nonce), expected)
    block = keys.chacha20_blocks(jnp.asarray(key), jnp.uint32(counter), jnp.asarray(nonce))
    assert block.dtype == jnp.uint32
    np.testing.assert_array_equal(block, expected)


def test_random_bits_split_keys_and_folded_keys_are_the_blocks_that_their_nonces_name():
    key = known_release_key()
    key_words = words_of_key(key)
    expected = {
        purpose: [reference_block(key_words, counter, (purpose, width, 0)) for counter in range(3)]
        for purpose, width in ((1, 32), (2, 0), (3, 0))
    }
    stream = np.concatenate(expected[1])[:40]
    assert_same_words(jax.random.bits(key, (40,), jnp.uint32), stream)
    assert_same_words(keys.random_words(key, 4, (2, 5)), stream.reshape(4, 2, 5))
    assert_same_words(
        words_of_key(jax.random.split(key, 5)), np.concatenate(expected[2])[:40].reshape(5, 8)
    )
    for data in range(3):
        assert_same_words(words_of_key(jax.random.fold_in(key, data)), expected[3][data][:8])
    last = reference_block(key_words, 2**32 - 1, (3, 0, 0))[:8]
    assert_same_words(words_of_key(jax.random.fold_in(key, 2**32 - 1)), last)


@pytest.mark.parametrize("shape", [(), (5,)], ids=["one word", "five words"])
def test_words_of_a_research_key_are_those_of_jax(shape):
    key, size = jax.random.key(3), 3 * int(np.prod(shape))
    expected = threefry_2x32(words_of_key(key), np.arange(size + 1, dtype=np.uint32))[:size]
    assert_same_words(keys.random_words(key, 3, shape), expected.reshape(3, *shape))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_random_bits_of_any_width_are_the_bytes_of_the_key_stream(width):
    key = known_release_key()
    stream = [reference_block(words_of_key(key), counter, (1, width, 0)) for counter in range(5)]
    expected = np.concatenate(stream).astype("<u4").view(f"<u{width // 8}")
    with jax.enable_x64(width == 64):
        bits = np.asarray(jax.random.bits(key, (3, 11), np.dtype(f"uint{width}")))
        assert jax.random.bits(key, (0, 2), np.dtype(f"uint{width}")).shape == (0, 2)
    assert bits.dtype == np.dtype(f"uint{width}")
    np.testing.assert_array_equal(bits.reshape(-1), expected[:33])


DRAWS = {
    "bits": lambda key: jax.random.bits(key, (5, 7), jnp.uint32),
    "split": lambda key: jax.random.split(key, (3, 2)),
    "fold_in": lambda key: jax.random.fold_in(key, 17),
    "words": lambda key: keys.random_words(key, 3, (2, 5)),
    "fold_words": lambda key: keys.fold_in_words(key, jnp.arange(4, dtype=jnp.uint32)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_the_same_by_loop_vmap_map_scan_and_jit(name):
    draw, several_keys = DRAWS[name], jax.random.split(known_release_key(), 4)
    drawn_alone = [jax.jit(draw)(key) for key in several_keys]
    scan = jax.jit(lambda rows: jax.lax.scan(lambda carry, row: (carry, draw(row)), 0, rows)[1])
    transforms = [jax.jit(jax.vmap(draw)), jax.jit(lambda rows: jax.lax.map(draw, rows)), scan]
    for drawn_together in (transform(several_keys) for transform in transforms):
        for lane in range(4):
            assert_same_words(drawn_together[lane], drawn_alone[lane])
    drawn_in_two_vmaps = jax.jit(jax.vmap(jax.vmap(draw)))(several_keys.reshape(2, 2))
    assert_same_words(drawn_in_two_vmaps[1, 0], drawn_alone[2])


def test_one_key_gives_no_more_blocks_than_its_counter_counts():
    key_words = jax.random.key_data(known_release_key())
    for draw, max_numbers in (
        (functools.partial(keys._random_bits, key_words, 32), 2**36),
        (functools.partial(keys._random_bits, key_words, 8), 2**38),
        (functools.partial(keys._split, key_words), 2**33),
    ):
        with pytest.raises(ValueError, match=rf"at most 2\^32 blocks.*got {2**32 + 1}"):
            jax.eval_shape(functools.partial(draw, (max_numbers + 1,)))
    with pytest.raises(ValueError, match="bit_width must be 8, 16, 32 or 64, got 4"):
        keys._random_bits(key_words, 4, (1,))


def test_release_key_is_not_made_from_a_seed():
    with pytest.raises(ValueError, match=r"not made from a seed.*fresh_key"):
        jax.random.key(0, impl=keys.CHACHA20)


def test_fresh_keys_differ_in_256_bits():
    """The test fails by chance with probability below 2**-48.

    It fails where some bit is the same in 64 keys, or where two pairs of words are equal.
    """
    fresh = [keys.fresh_key() for _ in range(64)]
    assert all(key.shape == () and keys.key_purpose(key) == keys.RELEASE for key in fresh)
    words = np.stack([words_of_key(key) for key in fresh])
    assert len(np.unique(words_in_pairs(words))) == 64 * 4
    bits = np.unpackbits(words.view(np.uint8), axis=1)
    assert bits.shape == (64, 256)
    assert np.all(bits.any(axis=0) & ~bits.all(axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_a_key_is_known_whether_it_is_traced_or_not(kind):
    several_keys, traced_kinds = jax.random.split(known_key(kind), 2), []
    jax.jit(
        jax.vmap(
            lambda key: traced_kinds.append(keys.key_purpose(key)) or keys.random_words(key, 1, ())
        )
    )(several_keys)
    assert traced_kinds[0] == keys.key_purpose(several_keys) == kind
    for function in (keys.check_single_key, lambda key: keys.random_words(key, 1, ())):
        with pytest.raises(ValueError, match="one key of shape"):
            function(several_keys)


@pytest.mark.parametrize("function", [keys.key_purpose, keys.check_single_key])
def test_a_value_that_is_no_key_is_refused_and_not_shown(function):
    secret = 123456789
    for value, message in (
        (jnp.full(8, secret, jnp.uint32), "typed key.*fresh_key.*jax.random.key"),
        (secret, "typed key, got int"),
        (jax.random.PRNGKey(secret), "typed key"),
        (jax.random.key(secret, impl="rbg"), "chacha20 or threefry2x32, got rbg"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            function(value)
        assert str(secret) not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_fold_words_is_a_chain_of_folds_from_the_length(kind):
    key = known_key(kind)
    sequence = np.array([5, 0, 2**32 - 1], np.uint32)
    expected = jax.random.fold_in(key, 3)
    for word in sequence:
        expected = jax.random.fold_in(expected, word)
    assert_same_words(keys.fold_in_words(key, sequence), expected)
    assert_same_words(jax.jit(keys.fold_in_words)(key, jnp.asarray(sequence)), expected)
    assert_same_words(keys.fold_in_words(key, sequence[:0]), jax.random.fold_in(key, 0))


def test_the_words_of_a_text_are_its_sha_256_before_the_others():
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    words = np.frombuffer(bytes.fromhex(digest), np.uint32)
    further_words = np.array([5, 0], np.uint32)
    key = jax.random.key(3)
    expected = keys.fold_in_words(key, np.concatenate([words, further_words]))
    assert_same_words(keys.fold_in_words(key, further_words, "abc"), expected)
