"""Many exact coins and uniform numbers at once, from words of an Rng, and packed bits: made, counted, read.

It may not know protocols. Every probability is a threshold over 2^32; rejection makes uniform numbers exactly uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.local.thresholds import FULL

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint32]]

# Bytes drawn at a time: they stay in the cache.
_CHUNK = 1 << 19
_M1, _M2, _M4 = (np.uint64(m) for m in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))


def bernoulli(threshold: int, count: int, rng: Rng) -> Bools:
    """Return `count` coins, each heads with probability threshold / 2^32."""
    return rng.words(count, np.uint32) < np.uint32(threshold)


def uniform_int(bound: int, count: int, rng: Rng) -> Words:
    """Return `count` numbers uniform in [0, bound), bound <= 2^32: words from 2^b - 2^b mod bound on are drawn again.

    Words have b = 8 bits where the bound is 64 at most, else 16 to 2^14, else 32.
    """
    kind: Any = np.uint8 if bound <= 1 << 6 else np.uint16 if bound <= 1 << 14 else np.uint32
    words = rng.words(count, kind)
    room = 1 << 8 * words.itemsize
    if bound & (bound - 1) == 0:
        masked: Words = (words & kind(bound - 1)).astype(np.uint32, copy=False)
        return masked
    limit = kind(room - room % bound - 1)
    again = np.flatnonzero(words > limit)
    while again.size:
        words[again] = rng.words(again.size, kind)
        again = again[words[again] > limit]
    numbers: Words = (words % kind(bound)).astype(np.uint32, copy=False)
    return numbers


def keep_or_replace(numbers: Words, bound: int, threshold: int, rng: Rng) -> None:
    """Keep each number in [0, bound) with probability threshold / 2^32; put any other one in its place otherwise."""
    replaced = np.flatnonzero(~bernoulli(threshold, numbers.size, rng))
    others = uniform_int(bound - 1, replaced.size, rng)
    numbers[replaced] = others + (others >= numbers[replaced])


def next_u32(words: Iterator[int]) -> int:
    """Return the next 32-bit word of a sequence; raises DeclarationError where it has ended or is no such word."""
    word = next(words, None)
    if word is None:
        raise DeclarationError("the words ended before the report was made: give more 32-bit words")
    if not 0 <= word < FULL:
        raise DeclarationError("a word must lie in 0 .. 2^32 - 1")
    return word


def next_uniform_int(bound: int, words: Iterator[int]) -> int:
    """Return a number in [0, bound) from words: the first word under 2^32 - 2^32 mod bound, modulo bound."""
    limit = FULL - FULL % bound
    while (word := next_u32(words)) >= limit:
        pass
    return word % bound


def bytes_for(bits: int) -> int:
    """Return how many bytes hold so many bits."""
    return (bits + 7) // 8


def number_width(count: int) -> int:
    """Return the bytes of a row that holds a number below `count`: 1, 2 or 4."""
    return 1 if count <= 1 << 8 else 2 if count <= 1 << 16 else 4


def pack_bernoulli(threshold: int, rows: int, bits: int, rng: Rng) -> Bytes:
    """Return rows of packed coins, each heads with probability threshold / 2^32; bit j is bit j & 7 of byte j >> 3.

    A coin compares the first byte of its word with the first byte of the threshold; only where they are equal, once in
    256, the other three are drawn. Padding bits are 0.
    """
    width = bytes_for(bits)
    first = threshold >> 24
    rest = threshold & 0xFFFFFF
    out = np.empty((rows, width), dtype=np.uint8)
    step = max(1, _CHUNK // (8 * width))
    for start in range(0, rows, step):
        high = rng.words((min(step, rows - start), 8 * width), np.uint8)
        coins = high < np.uint8(first)
        ties = np.flatnonzero(high == np.uint8(first))
        if ties.size:
            coins.reshape(-1)[ties] = (rng.words(ties.size, np.uint32) >> np.uint32(8)) < np.uint32(rest)
        out[start : start + step] = np.packbits(coins, axis=1, bitorder="little")
    if bits % 8:
        out[:, -1] &= np.uint8((1 << bits % 8) - 1)
    return out


def bit_sums(rows: Bytes, bits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how many rows have each bit set.

    Bits are summed in fields of 64-bit words that widen as they fill: three rows in fields of 2 bits, five such sums in
    fields of 4, seventeen of those in fields of 8, then bytes are added up.
    """
    count, width = rows.shape
    total = np.zeros(8 * width, dtype=np.int64)
    if width % 8 or count < 255:
        wide = -(-width // 8) * 8
        step = max(255, _CHUNK // wide // 255 * 255)
    else:
        wide = width
        step = max(255, _CHUNK // width // 255 * 255)
    for start in range(0, count, step):
        part = rows[start : start + step]
        full = -(-len(part) // 255) * 255
        if full != len(part) or wide != width:
            padded = np.zeros((full, wide), dtype=np.uint8)
            padded[: len(part), :width] = part
            part = padded
        total += _field_sums(np.ascontiguousarray(part).view("<u8"))[: 8 * width]
    return total[:bits]


def _field_sums(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the sums of the bits of rows of words; the number of rows is a multiple of 255 = 3 * 5 * 17."""
    groups = len(words) // 255
    columns = words.shape[1]
    threes = words.reshape(3, groups * 85, columns)
    twos = [_add(threes, shift, _M1) for shift in (0, 1)]
    fours = [
        (place, _add(t.reshape(5, groups * 17, columns), s, _M2))
        for i, t in enumerate(twos)
        for s, place in ((0, i), (2, i + 2))
    ]
    # By word, byte and bit.
    sums = np.zeros((columns, 8, 8), dtype=np.int64)
    for place, four in fours:
        for shift in (0, 4):
            eight = _add(four.reshape(17, groups, columns), shift, _M4)
            lanes = eight.view(np.uint8).reshape(groups, columns, 8).sum(axis=0, dtype=np.int64)
            sums[:, :, place + shift] = lanes
    return sums.reshape(-1)


def _add(parts: np.ndarray[Any, Any], shift: int, mask: np.uint64) -> np.ndarray[Any, Any]:
    """Return the sum over the first axis of the fields that `mask` keeps of the words moved right by `shift`."""
    out: np.ndarray[Any, Any] = parts[0] >> np.uint64(shift) & mask if shift else parts[0] & mask
    for part in parts[1:]:
        out += part >> np.uint64(shift) & mask if shift else part & mask
    return out
