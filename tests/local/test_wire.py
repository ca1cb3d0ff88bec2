"""The rule from 32-bit words to a report, by hand and at the edges of its thresholds, and the hashes others rely on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import BLH, GRR, OLH, OUE, SUE, Hadamard, Reports, SubsetSelection, Unary, from_parameters
from sordino.local.draws import bit_sums, next_uniform_int, pack_bernoulli
from sordino.local.labels import canonical, labels_hash
from sordino.local.protocols.hashing import _divide, _wide
from sordino.local.reports import parameters_hash

FULL = 2**32


def test_randomized_response_by_words() -> None:
    protocol = GRR(["a", "b", "c", "d"], epsilon=1)
    last = protocol.threshold - 1
    assert protocol.perturb_words(2, [last]) == b"\2"
    assert [protocol.perturb_words(2, [protocol.threshold, w])[0] for w in (0, 1, 2, 3)] == [0, 1, 3, 0]
    assert protocol.perturb_words(0, [FULL - 1, 1]) == b"\2"
    assert protocol.perturb_words(3, [FULL - 1, FULL - 1, 4]) == b"\1"  # 2^32 mod 3 = 1: the last word is drawn again
    with pytest.raises(DeclarationError, match="words ended"):
        protocol.perturb_words(0, [FULL - 1])
    with pytest.raises(DeclarationError, match="number of a label"):
        protocol.perturb_words(4, [0])


def test_rejection_leaves_numbers_uniform() -> None:
    """Every word below the limit counts once: 2^32 - 2^32 mod b of them, a multiple of b."""
    for bound in (3, 5, 13, 1023, 2**31 + 1):
        limit = FULL - FULL % bound
        assert limit % bound == 0
        assert next_uniform_int(bound, iter([limit - 1])) == (limit - 1) % bound
        if limit < FULL:
            assert next_uniform_int(bound, iter([limit, FULL - 1, 2])) == 2 % bound


def test_unary_by_words() -> None:
    protocol = Unary(range(10), p=0.75, q=0.25)
    high, low = 3 * 2**30, 2**30
    words = [low] * 10
    assert protocol.perturb_words(9, words) == bytes([0, 0b10])  # q refuses the word 2^30, p takes it
    assert protocol.perturb_words(9, [high] * 10) == bytes(2)
    assert protocol.perturb_words(None, [low - 1] * 10) == bytes([255, 3])
    assert protocol.perturb_words(3, [0, *[high] * 9]) == bytes([1, 0])


@pytest.mark.parametrize("made", [GRR, SUE, OUE])
def test_words_and_batches_have_one_law(made: Any) -> None:
    """50,000 single reports from words against 50,000 of a batch: no report's count off by 5 deviations (false alarm 1e-5)."""
    protocol, n = made(["a", "b", "c"], epsilon=1), 50_000
    rng = Rng.seeded(31)
    words = iter(rng.words(8 * n).astype(np.uint64).tolist())
    source = (w >> 32 for w in words)
    singles = Counter(protocol.perturb_words(1, source) for _ in range(n))
    batch = Counter(row.tobytes() for row in protocol.perturb(["b"] * n, rng).rows)
    for report in singles | batch:
        a, b = singles[report], batch[report]
        assert abs(a - b) < 5 * (a + b + 1) ** 0.5


def test_packed_coins_take_every_byte_of_the_threshold() -> None:
    """Thresholds that differ from a byte's edge in the last bits: probabilities within 5 deviations of 4 million coins."""
    rows, bits = 4000, 1000
    for threshold in (0x00FFFFFF, 0x01000001, 0x80000000, 0xFEFFFF00, 1, FULL - 1):
        coins = int(bit_sums(pack_bernoulli(threshold, rows, bits, Rng.seeded(threshold)), bits).sum())
        chance = threshold / FULL
        assert abs(coins - rows * bits * chance) <= 5 * (rows * bits * chance * (1 - chance)) ** 0.5 + 1, threshold


@pytest.mark.deep
@pytest.mark.parametrize("rows", [0, 1, 254, 255, 256, 1000, 70_000])
@pytest.mark.parametrize("bits", [1, 7, 8, 14, 64, 65, 128])
def test_bit_sums_are_sums_of_bits(rows: int, bits: int) -> None:
    packed = pack_bernoulli(3 * 2**30, rows, bits, Rng.seeded(bits))
    wanted = np.unpackbits(packed, axis=1, bitorder="little")[:, :bits].sum(axis=0, dtype=np.int64)
    assert bit_sums(packed, bits).tolist() == wanted.tolist()
    assert bit_sums(np.full((rows, 16), 255, dtype=np.uint8), 128).tolist() == [rows] * 128


@pytest.mark.each(2)
@pytest.mark.parametrize(
    ("k", "epsilon"),
    [
        (2, 1),
        (5, 0.5),
        (14, 1),
        (100, 1.5),
        (128, 2),
        (1000, 4),
        (14, 6),
        (20, 6.9157),
        (9, 20),
        (1000, 2),
        (700, 5),
        pytest.param(5000, 8, marks=pytest.mark.deep),
    ],
)
def test_hashing_counts_like_a_loop_over_reports(k: int, epsilon: float) -> None:
    protocol, n = OLH(range(k), epsilon=epsilon), 300
    reports = protocol.perturb(np.arange(n, dtype=np.int32) % k, Rng.seeded(k))
    base = next(c for c in range(2, protocol.g + 1) if protocol.g % c == 0)
    wanted = [0] * k
    for row in reports.rows:
        number, factors = int.from_bytes(row.tobytes(), "little"), []
        for _ in range(protocol.digits):
            number, factor = divmod(number, protocol.g)
            factors.append(factor)
        factors.reverse()
        for v in range(k):
            hashed, rest = 0, v
            for factor in factors:
                rest, digit = divmod(rest, base)
                hashed += factor * digit
            wanted[v] += hashed % protocol.g == number
    assert list(protocol.count(reports).supports) == wanted


def test_hashing_by_division_counts_like_hashing_by_tables() -> None:
    """All ways to count agree where each can: small and large tables, and division modulo a prime over several settings."""
    protocol = OLH(range(1000), epsilon=3)
    assert protocol.g == 23
    reports = protocol.perturb(np.arange(5000, dtype=np.int32) % 1000, Rng.seeded(3))
    numbers = _wide(reports.rows)
    assert _divide(numbers, 1000, g=23, m=protocol.digits).tolist() == list(protocol.count(reports).supports)


def test_hashing_collides_exactly_once_in_g() -> None:
    """Over all hash functions, each pair of 9 labels collides in 1 / g of them."""
    protocol = OLH(range(9), epsilon=0.5)
    g, m = protocol.g, protocol.digits
    assert g == 3
    numbers = np.arange(g**m, dtype="<u8")  # y = 0 and every function
    rows = numbers.view(np.uint8).reshape(-1, 8)[:, : protocol.width].copy()
    hashes = []
    for v in range(9):
        held = np.zeros(g**m, dtype=np.int64)
        for y in range(g):
            shifted = (numbers + y * g**m).astype("<u8").view(np.uint8).reshape(-1, 8)[:, : protocol.width]
            for i in range(len(rows)):
                one = Reports.from_rows(shifted[i].tobytes(), protocol)
                held[i] += y * protocol.count(one).supports[v]
        hashes.append(held)
    for u in range(9):
        for v in range(u):
            assert (hashes[u] == hashes[v]).sum() * g == g**m


def test_hadamard_counts_like_a_loop_over_reports() -> None:
    protocol = Hadamard(range(11), epsilon=1)
    reports = protocol.perturb(np.arange(200, dtype=np.int32) % 11, Rng.seeded(1))
    wanted = [0] * 11
    for row in reports.rows:
        j, bit = divmod(int(row[0]), 2)
        for v in range(11):
            wanted[v] += (j & v).bit_count() % 2 == bit
    assert list(protocol.count(reports).supports) == wanted


def test_subsets_have_one_size_and_are_uniform() -> None:
    """Sets of 2 of 8 labels with the true one: seven of them, alike within 5 deviations; 21 without. False alarm 2e-5."""
    protocol, n = SubsetSelection(range(8), epsilon=1), 60_000
    assert protocol.w == 2
    found = Counter(int(r[0]) for r in protocol.perturb([3] * n, Rng.seeded(6)).rows)
    assert len(found) == 28
    for members, count in found.items():
        chance = float(protocol.p) / 7 if members >> 3 & 1 else float(1 - protocol.p) / 21
        assert abs(count - n * chance) < 5 * (n * chance) ** 0.5


def test_hashes_are_of_canonical_json() -> None:
    labels = ["yes", 'say "no"', "tab\t", "ü \u2028", None, 3, True]
    text = '["yes","say \\"no\\"","tab\\t","ü \u2028",null,3,true]'
    assert labels_hash(labels) == hashlib.sha256(text.encode()).hexdigest()
    protocol = GRR(["b", "a"], epsilon="1/3")
    parameters = protocol.parameters()
    assert parameters["epsilon"] == "1/3"
    wanted = json.dumps(parameters, sort_keys=True, separators=(",", ":")).encode()
    assert canonical(parameters) == wanted
    assert parameters_hash(parameters) == hashlib.sha256(wanted).digest()
    data = protocol.perturb(["a"], Rng.seeded(1)).to_bytes()
    assert data[:8] == b"SRDL\1\1\1\0"
    assert data[8:40] == parameters_hash(parameters)


def test_parameters_that_do_not_fit_are_refused() -> None:
    labels = ["a", "b", "c"]
    good: dict[str, Any] = OUE(labels, epsilon=1).parameters()
    changes: list[dict[str, Any]] = [
        {"q": good["q"] - 1000},  # more than epsilon 1
        {"epsilon": "0.5"},
        {"epsilon": 1},
        {"epsilon": "-1"},
        {"labels_hash": "0" * 64},
        {"k": 4},
        {"bits": 64},
        {"kind": "RR"},
        {"p": good["q"]},
        {"p": 0},
        {"p": FULL},
        {"q": True},
        {"p": "1"},
        {"more": 1},
    ]
    for change in changes:
        with pytest.raises(DeclarationError):
            from_parameters(good | change, labels)
    with pytest.raises(DeclarationError):
        from_parameters({n: v for n, v in good.items() if n != "q"}, labels)
    assert from_parameters(good | {"epsilon": "1.5"}, labels).epsilon == 1.5  # a claim may be more than is needed


@pytest.mark.parametrize(
    "protocol", [BLH(range(5), epsilon=1), OLH(range(7), epsilon="1.1"), OLH(range(9), epsilon="1.6")]
)
def test_a_hash_from_words_supports_the_label_exactly_where_it_is_kept(protocol: OLH) -> None:
    rng = Rng.seeded(protocol.g)
    for value in range(len(protocol.labels)):
        for _ in range(20):
            factors = [int.from_bytes(rng.bytes(2), "little") for _ in range(protocol.digits)]
            for last, kept in (
                (0, True),
                (protocol.threshold - 1, True),
                (protocol.threshold, False),
                (FULL - 1, False),
            ):
                row = protocol.perturb_words(value, [*factors, last, factors[0]])
                reports = Reports.from_rows(row, protocol)
                assert bool(protocol.count(reports).supports[value]) is kept
                assert int(protocol.public_part(reports.rows)[0]) < protocol.public_values
    assert len(protocol.perturb_words(None, [3] * (protocol.digits + 1))) == protocol.width
    with pytest.raises(DeclarationError, match="number of a label"):
        protocol.perturb_words(len(protocol.labels), [0] * 9)
