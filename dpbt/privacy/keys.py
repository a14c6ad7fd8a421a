"""Keys: 256 bits of ChaCha20 for a release, and a seed for research.

`fresh_key()` returns a release key, a typed JAX key of the implementation `CHACHA20`. Split,
fold_in, bits and vmap work on it as on any other typed key. `jax.random.key(seed)` returns a
research key of threefry2x32. Its seed has 32 or 64 bits, and a search can find it from what was
released. So it must not protect private rows.

The guarantee of a release key is computational. The argument has three steps.

1. Assumption: `chacha20_blocks` under a uniform secret key of 256 bits is a pseudo-random function
   of (counter, nonce).
2. Inputs never meet. The first word of the nonce says what a block is for: bits, split or fold_in.
   Bits of different widths also differ in the second word. Within one purpose the counter is the
   index of the block, or the number that is folded in, and no counter wraps. So no (key, counter,
   nonce) serves two purposes.
3. Outputs never meet. A block of bits is only ever output. The two halves of a block of split are
   two children. The first half of a block of fold_in is the child, and the other half is dropped.
   So a child key is used as a key alone.

A hybrid argument over the tree of keys (Goldreich, Goldwasser & Micali, 1986) then covers all words
under different paths. Together they are indistinguishable from independent uniform words, up to the
number of keys used times the advantage against `chacha20_blocks`. Noise that is computed from them
is then as good as true noise against any adversary that is bounded in computation (Mironov, Pandey,
Reingold & Vadhan, 2009). Two draws under the same key and path are the same words, as with every
JAX key.
"""

import hashlib
import hmac
import math
import secrets
import warnings
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jax.typing import ArrayLike
from jaxtyping import UInt32

from dpbt.common.validate import is_traced
from dpbt.types import AnyArray, Array

RELEASE: Literal["release"] = "release"
RESEARCH: Literal["research"] = "research"
_RESEARCH_IMPL = "threefry2x32"

_ROUNDS = 20
_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_KEY_WORDS = 8
_BLOCK_WORDS = 16

_FOR_BITS, _FOR_SPLIT, _FOR_FOLD_IN = 1, 2, 3
"""The first word of the nonce, which says what a block is for."""

# A column round works on lanes (a_j, b_j, c_j, d_j) and a diagonal round on (a_j, b_(j+1), c_(j+2),
# d_(j+3)). If lane j of row r takes what lane (r - j) mod 4 held, columns become diagonals, and the
# same step makes diagonals columns. So all rounds have one body, and after an even number of them
# every word is in its own place.
_NEXT_LANES = np.array(
    [4 * row + (row - lane) % 4 for row in range(4) for lane in range(4)], np.int32
)

# Why one array u32[..., 16] and a loop over single rounds. Measured on two cores of an x86 CPU with
# AVX-512, jax 0.10.2: ns a word for 64, 1,000, 65,536 and 1,000,000 words and for 64 words in each
# of 256 lanes of a vmap, then the seconds to compile 20 sites of distinct sizes in one program.
#
#                                             64  1,000  65,536     1e6  vmap   20 sites
#   u32[..., 16], loop of 20 rounds (this)   114   17      9        10     9      1.0 s
#   u32[16, blocks], loop of 20 rounds       114   16      8        10     9      1.3 s
#   the same, lanes of a vmap in one axis    114   16      7        10     6      1.2 s
#   the same, loop of 10 double rounds       105   17      6         7     6      1.8 s
#   16 arrays, loop of 10 double rounds      237   22      5         9     6      6.1 s
#   16 arrays, unrolled                      124   45      7         7    14       74 s
#   threefry2x32                             114   14      2.5       2     4      1.3 s
#
# A fit compiles some tens of sites of some hundred words each. There the first row compiles fastest
# and runs within a tenth of the best ChaCha20. From 65,536 words on it takes 3 to 7 times as long
# as threefry2x32.


# JAX caches a loop by its body. A function that is defined in each call would be compiled anew in
# each call outside `jax.jit`, and JAX would never free that program.
def _chacha20_round(_round_index: Array, state: Array) -> Array:
    """Compute one round of ChaCha20: a quarter round on every lane, then a shift of the lanes.

    Quarter rounds are as in RFC 8439, section 2.1. The shift of lanes turns columns into diagonals,
    or diagonals into columns.
    """
    a, b, c, d = jnp.split(state, 4, axis=-1)
    for bits in (16, 12, 8, 7):
        a = a + b
        d = d ^ a
        d = (d << np.uint32(bits)) | (d >> np.uint32(32 - bits))
        a, b, c, d = c, d, a, b  # every other step is on c, d and b
    return jnp.concatenate([a, b, c, d], axis=-1)[..., _NEXT_LANES]


def chacha20_blocks(
    key: UInt32[Array, "8"], counter: UInt32[Array, "..."], nonce: UInt32[Array, "3"]
) -> UInt32[Array, "... 16"]:
    """u32[..., 16]: blocks of the ChaCha20 stream, one for each counter.

    They are as in RFC 8439, section 2.3.

    Args:
        key: u32[8], little-endian words.
        counter: u32[...].
        nonce: u32[3], little-endian words.
    """
    rows = (jnp.asarray(_CONSTANTS), key, counter[..., None], nonce)
    lanes = [jnp.broadcast_to(row, (*counter.shape, row.shape[-1])) for row in rows]
    start = jnp.concatenate(lanes, axis=-1)
    return start + jax.lax.fori_loop(0, _ROUNDS, _chacha20_round, start)


def _refuse_seed(seed: Array) -> Array:
    raise ValueError(
        "a release key is not made from a seed, which a search can find:"
        " use dpbt.keys.fresh_key(), or for research jax.random.key(seed)"
    )


def _split(key: Array, shape: tuple[int, ...]) -> UInt32[Array, "... 8"]:
    """u32[*shape, 8]: child keys of a key.

    Each block of the stream gives two. The first n do not depend on how many there are.
    """
    return _random_bits(key, 32, (*shape, _KEY_WORDS), (_FOR_SPLIT, 0, 0))


def _fold_in(key: Array, data: ArrayLike) -> UInt32[Array, "8"]:
    """u32[8]: the child key of a key for a number u32[]."""
    counter = jnp.asarray(data, jnp.uint32)
    return chacha20_blocks(key, counter, jnp.asarray([_FOR_FOLD_IN, 0, 0], jnp.uint32))[:_KEY_WORDS]


def _random_bits(
    key: Array, bit_width: int, shape: tuple[int, ...], nonce: tuple[int, int, int] | None = None
) -> Array:
    """Random unsigned integers of 8, 16, 32 or 64 bits from a key.

    The first n do not depend on how many there are.
    """
    if bit_width not in (8, 16, 32, 64):
        raise ValueError(f"bit_width must be 8, 16, 32 or 64, got {bit_width}")
    size = math.prod(shape)
    num_blocks = -(-size * bit_width // (32 * _BLOCK_WORDS))
    if num_blocks > 2**32:
        raise ValueError(f"one chacha20 key gives at most 2^32 blocks a purpose, got {num_blocks}")
    nonce_words = jnp.asarray(nonce or (_FOR_BITS, bit_width, 0), jnp.uint32)
    counters = jax.lax.iota(jnp.uint32, num_blocks)
    stream = chacha20_blocks(key, counters, nonce_words).reshape(-1)
    if bit_width == 64:
        stream = stream.reshape(-1, 2)
    numbers = jax.lax.bitcast_convert_type(stream, np.dtype(f"uint{bit_width}"))
    return numbers.reshape(-1)[:size].reshape(shape)


CHACHA20 = define_prng_impl(
    key_shape=(_KEY_WORDS,),
    seed=_refuse_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="chacha20",
    tag="ch20",
)
"""The PRNG implementation of release keys.

`jax.random.wrap_key_data(u32[..., 8], impl=CHACHA20)` takes it. `jax.random.key` with it raises
ValueError, as a release key has 256 bits of entropy and a seed has not. `jax.random.split(key, n)`
gives the same first children for every n, and `jax.random.bits` the same first numbers for every
size. Neither depends on `jax_threefry_partitionable`. ValueError where one key would have to give
more than 2^32 blocks of 64 bytes.
"""


def fresh_key() -> Array:
    """Make a release key of 256 bits from the system's entropy.

    It is one typed chacha20 key. Whoever has it can recompute the noise and subtract it. Keep it as
    secret as the rows, or forget it. Printing a key prints its words.
    """
    entropy = np.frombuffer(secrets.token_bytes(4 * _KEY_WORDS), np.uint32)
    return jax.random.wrap_key_data(jax.device_put(entropy), impl=CHACHA20)


def key_purpose(key: Array, name: str = "key") -> Literal["release", "research"]:
    """The purpose of a typed key: "release" (chacha20) or "research" (threefry2x32).

    The function cannot check where the 256 bits of a release key came from.

    Args:
        key: typed keys of any shape, traced or not.
        name: the name of the argument in errors.

    Raises:
        ValueError: for anything else, including a raw array of words. The message never shows the
            key.
    """
    advice = "use dpbt.keys.fresh_key() for a release, or jax.random.key(seed) for research"
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        raise ValueError(f"{name} must be a typed key, got {type(key).__name__}: {advice}")
    implementation = jax.random.key_impl(key)
    if implementation == CHACHA20:
        return RELEASE
    if implementation == _RESEARCH_IMPL:
        return RESEARCH
    raise ValueError(f"{name} must be of chacha20 or threefry2x32, got {implementation}: {advice}")


class NoiseAndPublicKeys(NamedTuple):
    """The key of the noise and the key of the public randomness of a run.

    Attributes:
        noise: the key of the noise, as secret as the rows.
        public: the key of the public randomness, which published output may reveal.
    """

    noise: Array
    public: Array


def pair(key: Array) -> NoiseAndPublicKeys:
    """Split one key into a noise key and a public key.

    This is for data that need no protection. In a release the public key must be independent of the
    noise's key. Whoever finds one of these two from published output may find the other.
    """
    noise, public = jax.random.split(key)
    return NoiseAndPublicKeys(noise=noise, public=public)


MAX_SEED = 2**64 - 1
"""The largest seed of a research key: threefry2x32 has keys of 64 bits."""


def check_seed(seed: Any, name: str = "seed") -> int:
    """Refuse what is no seed of a research key, and return the seed as a Python number.

    Args:
        seed: a whole number in 0..MAX_SEED, of Python, NumPy or JAX.
        name: the name of the argument in errors.

    Raises:
        ValueError: for anything else. The message does not show it, as a seed may be a secret.
    """
    is_array = (
        isinstance(seed, jax.Array | np.ndarray) and seed.shape == () and seed.dtype.kind in "iu"
    )
    is_number = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not (is_array or is_number) or not 0 <= int(seed) <= MAX_SEED:
        raise ValueError(
            f"{name} must be a whole number in 0..2^64 - 1; other seeds would be alike"
        )
    return int(seed)


def research_key(seed: int | np.integer | AnyArray, name: str = "seed") -> Array:
    """Make the research key of a seed.

    Its words for threefry2x32 are the high and the low 32 bits of the seed. Different seeds have
    different keys. For seeds below 2^32 the words are those of `jax.random.key(seed)` at JAX's
    default flags. No flag of JAX changes them, as `jax_random_seed_offset` and
    `jax_default_prng_impl` change those of `jax.random.key`. So a seed gives the same draws in
    every process.

    Args:
        seed: a whole number in 0..MAX_SEED, or an integer array of shape (), traced or not. What a
            traced array holds is not checked, and one of 32 bits is read modulo 2^32.
        name: the name of the argument in errors.

    Raises:
        ValueError: as `check_seed`.
    """
    if is_traced(seed):
        traced_seed = jnp.asarray(seed)
        low = traced_seed.astype(jnp.uint32)
        high = jnp.zeros_like(low)
        if traced_seed.dtype.itemsize > 4:
            high = (traced_seed >> 32).astype(jnp.uint32)
    else:
        high, low = (jnp.uint32(word) for word in divmod(check_seed(seed, name), 2**32))
    return jax.random.wrap_key_data(jnp.stack([high, low]), impl=_RESEARCH_IMPL)


def noise_and_public_keys(seed: int | None, name: str = "seed") -> NoiseAndPublicKeys:
    """The two keys of a run: fresh release keys, or with a seed a pair of research keys.

    Raises:
        ValueError: as `check_seed`, with the `name` of the argument.
    """
    if seed is None:
        return NoiseAndPublicKeys(noise=fresh_key(), public=fresh_key())
    return pair(research_key(seed, name))


class ResearchKeyWarning(UserWarning):
    """Private rows were released with a key that a search can find."""


def warn_if_research_key(key: Array) -> None:
    """Warn if a key is a research key, whose noise a search can find.

    The warning comes once for each place that calls `fit` with one.

    Raises:
        ValueError: as `key_purpose`.
    """
    if key_purpose(key) == RESEARCH:
        warnings.warn(
            "research key: it has at most 64 bits, and whoever finds it can subtract the noise; "
            "release private rows with dpbt.fresh_key()",
            ResearchKeyWarning,
            stacklevel=3,
        )


def check_single_key(key: Array, name: str = "key") -> None:
    """Refuse a value that is not one typed key of a known purpose.

    Args:
        key: the value to check.
        name: the name of the argument in errors.

    Raises:
        ValueError: unless `key` is one typed key of shape (), of chacha20 or threefry2x32.
    """
    key_purpose(key, name)
    if key.shape != ():
        raise ValueError(f"{name} must be one key of shape (), got {key.shape}: vmap over several")


def random_words(key: Array, count: int, shape: tuple[int, ...]) -> Array:
    """u32[count, *shape]: uniform random 32-bit words from a key.

    They are a function of the key alone. A chacha20 block gives 16 of them and a threefry2x32 block
    gives 2. For a release key they are the words of `jax.random.bits`, so one key must not be used
    with both.

    Args:
        key: one typed key of shape (), traced or not.
        count: how many words each entry of `shape` has.
        shape: the shape of the array that the words are for.

    Raises:
        ValueError: as `check_single_key`.
    """
    check_single_key(key)
    if key_purpose(key) == RELEASE:
        return jax.random.bits(key, (count, *shape), jnp.uint32)
    size = count * math.prod(shape)
    return _threefry_words(jax.random.key_data(key), size)[:size].reshape(count, *shape)


_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)


def _threefry_words(key: Array, min_size: int) -> UInt32[Array, "even_size"]:
    """u32[min_size + min_size % 2]: random words from a threefry2x32 key.

    They are the numbers from 0 on, encrypted by threefry2x32. The key is u32[2].

    They are the words of `jax.extend.random.threefry_2x32`. Its loop over rounds takes seven times
    as long for 3,072 words, and twice the time to compile.
    """
    num_blocks = (min_size + 1) // 2
    counters = jnp.arange(2 * num_blocks, dtype=jnp.uint32).reshape(2, num_blocks)
    x, y = counters + key[:, None]
    schedule = key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)
    for group in range(1, 6):
        for bits in _ROTATIONS[(group - 1) % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(bits)) | (y >> np.uint32(32 - bits)))
        x = x + schedule[group % 3]
        y = y + schedule[(group + 1) % 3] + np.uint32(group)
    # Without the barrier XLA would compute the words again wherever they are used.
    return jax.lax.optimization_barrier(jnp.concatenate([x, y]))


def key_as_bytes(key: Array) -> bytes:
    """The words of one key as bytes.

    They are as secret as the key.
    """
    return np.asarray(jax.random.key_data(key)).astype("<u4").tobytes()


def _fold_in_word(node: Array, word: Array) -> tuple[Array, None]:
    return jax.random.fold_in(node, word), None


def fold_in_words(key: Array, words: UInt32[AnyArray, "K"], text: str | None = None) -> Array:
    """Fold a sequence of words, and a text if given, into a key.

    The child key is returned.

    The length is folded in first, then word after word.

    Different sequences, of one length or of several, give independent keys. For a release key the
    argument in the module's docstring proves it. For a research key it holds as far as 64 bits do.
    The keys on the way are inner nodes of that tree, so a key that absorbs sequences must not also
    be used with `jax.random.fold_in`.

    Args:
        key: one typed key of shape ().
        words: u32[K], traced or not. Time is linear in K; the size of the program does not grow.
        text: its SHA-256 in UTF-8, as 8 little-endian words, is folded in before the words.

    Raises:
        ValueError: as `check_single_key`, or if `words` is not u32 of rank 1.
    """
    check_single_key(key)
    if words.dtype != jnp.uint32 or words.ndim != 1:
        raise ValueError(f"words must be u32 of rank 1, got {words.dtype}{list(words.shape)}")
    # One loop for the length and all words, because each place that folds is compiled by itself.
    digest = b"" if text is None else hashlib.sha256(text.encode()).digest()
    text_words = np.frombuffer(digest, "<u4").astype(np.uint32)
    length = np.full(1, text_words.size + words.shape[0], np.uint32)
    path = jnp.concatenate([length, text_words, jnp.asarray(words)])
    return jax.lax.scan(_fold_in_word, key, path)[0]


def mix_rows_into_research_key(key: Array, blocks_of_rows: Iterable[Any]) -> Array:
    """Derive the key of the noise on a table from a research key and the rows.

    A release key is returned as it is.

    A research key is derived from the rows, too, by HMAC-SHA256. Otherwise two tables under one
    seed would get the same noise, and the difference of two sums would be exact. Draw nothing but
    noise under the result, and derive nothing else from it.

    Args:
        key: one typed key.
        blocks_of_rows: all rows in order, as tables or records with the same fields and bins [n,
            F]. With a release key they are not read.

    Raises:
        ValueError: as `check_single_key`.
    """
    check_single_key(key)
    if key_purpose(key) == RELEASE:
        return key
    secret = key_as_bytes(key)
    derived = hmac.digest(secret, _hash_present_rows(blocks_of_rows), "sha256")[: len(secret)]
    derived_words = jnp.asarray(np.frombuffer(derived, "<u4").astype(np.uint32))
    return jax.random.wrap_key_data(derived_words, impl=_RESEARCH_IMPL)


def _hash_present_rows(blocks_of_rows: Iterable[Any]) -> bytes:
    """A hash of the present rows and of their indices.

    It is the same whatever the capacity of the table and its blocks.
    """
    hashes = [hashlib.sha256() for _ in range(4)]  # each field is hashed over all blocks
    first_row_index = 0
    for block in blocks_of_rows:
        rows = np.flatnonzero(np.asarray(block.present))
        fields = [block.bins, block.target, *([] if block.weight is None else [block.weight])]
        arrays = [first_row_index + rows, *(np.asarray(field)[rows] for field in fields)]
        for field_hash, array in zip(hashes, arrays, strict=False):
            field_hash.update(array.tobytes())
        first_row_index += len(block.present)
    return b"".join(field_hash.digest() for field_hash in hashes)
