"""ChaCha20 as RFC 8439 describes it, and its test vectors: an independent check on `dpbt.keys`."""

import numpy as np


def reference_block(key, counter, nonce):
    """u32[16]: section 2.3 of RFC 8439, word by word in Python integers."""
    mask = 2**32 - 1

    def quarter_round(a, b, c, d):
        for target, addend, rotated, bits in (
            (a, b, d, 16),
            (c, d, b, 12),
            (a, b, d, 8),
            (c, d, b, 7),
        ):
            state[target] = (state[target] + state[addend]) & mask
            mixed = state[rotated] ^ state[target]
            state[rotated] = (mixed << bits | mixed >> (32 - bits)) & mask

    constants = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
    start = [int(word) for word in (*constants, *key, counter, *nonce)]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            quarter_round(*(column + 4 * row for row in range(4)))
        for column in range(4):
            quarter_round(*((column + row) % 4 + 4 * row for row in range(4)))
    return np.array([(a + b) & mask for a, b in zip(state, start, strict=True)], np.uint32)


def little_endian(text):
    return np.frombuffer(bytes.fromhex(text), "<u4").astype(np.uint32)


VECTORS = {
    "section 2.3.2": (
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
}
