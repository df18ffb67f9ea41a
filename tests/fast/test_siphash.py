"""SipHash-2-4 with 128-bit output, against its authors' vectors and against a second, plain implementation."""

import hashlib
import random

import pytest

from _fast.dedupe import siphash128
from tests.fast.outcome import raised

KEY = bytes(range(16))
MASK = 2**64 - 1
# Of the 64 vectors that the authors publish, input 00 01 02 ... of every length from 0 to 63: the first two
# and the last as they stand, and a fingerprint of all of them, one after the other.
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    63: "5150d1772f50834a503e069a973fbd7c",
}
VECTORS_SHA256 = "ecfaa9fe47ff788fa834a9863ea2715a2880cd37d2b8c3c194402838428119b9"


def rotated(word, bits):
    return (word << bits | word >> (64 - bits)) & MASK


def rounds(v0, v1, v2, v3, count):
    for _ in range(count):
        v0 = (v0 + v1) & MASK
        v1 = rotated(v1, 13) ^ v0
        v0 = rotated(v0, 32)
        v2 = (v2 + v3) & MASK
        v3 = rotated(v3, 16) ^ v2
        v0 = (v0 + v3) & MASK
        v3 = rotated(v3, 21) ^ v0
        v2 = (v2 + v1) & MASK
        v1 = rotated(v1, 17) ^ v2
        v2 = rotated(v2, 32)
    return v0, v1, v2, v3


def plain_siphash128(key, data):
    """As the paper describes it: "somepseudorandomlygeneratedbytes", two rounds a word, four at the end, twice."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    constants = b"somepseudorandomlygeneratedbytes"
    v0, v1, v2, v3 = (int.from_bytes(constants[start : start + 8], "big") for start in range(0, 32, 8))
    v0, v1, v2, v3 = v0 ^ k0, v1 ^ k1 ^ 0xEE, v2 ^ k0, v3 ^ k1
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = rounds(v0, v1, v2, v3 ^ word, 2)
        v0 ^= word
    v0, v1, v2, v3 = rounds(v0, v1, v2 ^ 0xEE, v3, 4)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = rounds(v0, v1 ^ 0xDD, v2, v3, 4)
    high = v0 ^ v1 ^ v2 ^ v3
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


@pytest.fixture(params=[pytest.param(siphash128, id="compiled"), pytest.param(plain_siphash128, id="plain")])
def siphash(request):
    return request.param


@pytest.mark.parametrize("length", VECTORS)
def test_it_gives_the_published_vectors(siphash, length):
    assert siphash(KEY, bytes(range(length))).hex() == VECTORS[length]


def test_it_gives_all_of_the_published_vectors(siphash):
    vectors = b"".join(siphash(KEY, bytes(range(length))) for length in range(64))
    assert hashlib.sha256(vectors).hexdigest() == VECTORS_SHA256


@pytest.mark.parametrize("length", [*range(201), 255, 256, 257, 1000, 65_536 + 3])
def test_it_agrees_with_the_plain_one_on_random_input_of_any_length(length):
    chance = random.Random(length)
    for _ in range(3):
        key, data = chance.randbytes(16), chance.randbytes(length)
        assert siphash128(key, data) == plain_siphash128(key, data)


@pytest.mark.parametrize("length", [0, 1, 8, 15, 17, 32])
def test_a_key_of_another_length_than_16_is_refused(length):
    assert raised(siphash128, bytes(length), b"") is ValueError
