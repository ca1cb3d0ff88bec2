"""The door for randomness: reproducible when seeded, never repeated when secure."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import signal
import sys
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from core.noise.support import FALSE_ALARM, chi_square
from mistyping import mistype
from sordino.core.noise import rng as rng_module
from sordino.core.noise.rng import REKEY_BYTES, Rng
from sordino.errors import DeclarationError


def in_child(rng: Rng, count: int = 16) -> bytes:
    """Return what a forked child draws from `rng`."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(20)
            os.write(writer, rng.bytes(count))
        finally:
            os._exit(0)
    os.close(writer)
    drawn = os.read(reader, count)
    os.close(reader)
    os.waitpid(pid, 0)
    assert len(drawn) == count, "the child drew nothing"
    return drawn


def test_seeded_stream_is_aes_256_ctr_of_the_seed() -> None:
    key = hashlib.sha256(b"sordino seeded rng 42").digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(100_000))
    assert Rng.seeded(42).bytes(100_000) == stream
    assert Rng.seeded(42).bytes(8).hex() == "8204fbfeb4e933ce"
    assert Rng.seeded(43).bytes(16) != stream[:16]


def test_stream_does_not_depend_on_how_it_is_cut() -> None:
    sizes = (1, 0, 5000, 3, 4096, 70_000, 9, 4095)
    rng = Rng.seeded(5)
    assert b"".join(rng.bytes(size) for size in sizes) == Rng.seeded(5).bytes(sum(sizes))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_words_are_the_stream_read_little_endian(dtype: type) -> None:
    drawn = Rng.seeded(5).words((3, 7), dtype)
    size = np.dtype(dtype).itemsize
    assert drawn.dtype == dtype
    assert drawn.shape == (3, 7)
    assert drawn.flags.writeable
    raw = Rng.seeded(5).bytes(21 * size)
    assert drawn.ravel().tolist() == [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def test_secure_streams_differ_and_seeded_is_not_private() -> None:
    assert Rng.secure().bytes(16) != Rng.secure().bytes(16)
    assert Rng.secure().private
    assert not Rng.seeded(1).private


@pytest.mark.deep
@pytest.mark.attack(
    "copy a generator by a fork",
    source="Garfinkel, Leclerc 2020, Randomness concerns when deploying differential privacy",
)
def test_forked_workers_and_parent_draw_different_noise() -> None:
    rng = Rng.secure()
    rng.bytes(100)  # leaves buffered bytes that a child must not use
    drawn = [in_child(rng), in_child(rng), rng.bytes(16)]
    assert len(set(drawn)) == 3


@pytest.mark.attack("copy a generator by a fork")
def test_pid_check_alone_guards_a_fork() -> None:
    rng = Rng.secure()
    rng.bytes(100)
    rng_module._LIVING.discard(rng)  # as if the fork hook had not run
    assert len({in_child(rng), in_child(rng), rng.bytes(16)}) == 3


@pytest.mark.attack("copy a generator by a fork")
def test_fork_hook_alone_guards_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Rng.secure()
    rng.bytes(100)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent)
    assert len({in_child(rng), in_child(rng), rng.bytes(16)}) == 3


def test_seeded_draws_the_same_in_a_child() -> None:
    rng = Rng.seeded(9)
    rng.bytes(100)
    assert in_child(rng) == rng.bytes(16)


@pytest.mark.parametrize("rng", [Rng.secure(), Rng.seeded(1)], ids=["secure", "seeded"])
def test_a_lock_held_at_the_fork_does_not_stop_the_child(rng: Rng) -> None:
    with rng._lock:
        assert len(in_child(rng)) == 16


def test_a_key_is_used_for_so_many_bytes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # With one and the same key handed out each time, a re-keyed stream starts over: it repeats with the limit's period.
    monkeypatch.setattr(os, "urandom", bytes)
    period = 5000
    drawn = Rng.secure(rekey_after=period).bytes(4 * period)
    assert len({drawn[i : i + period] for i in range(0, len(drawn), period)}) == 1
    assert drawn[:16] != drawn[16:32]
    rng = Rng.secure(rekey_after=64)
    assert b"".join(rng.bytes(7) for _ in range(100)) == drawn[:64] * 10 + drawn[:60]
    assert REKEY_BYTES == 2**30
    assert Rng.secure()._rekey_after == REKEY_BYTES


def test_rekeying_takes_a_fresh_key() -> None:
    drawn = Rng.secure(rekey_after=64).bytes(640)
    assert len({drawn[i : i + 64] for i in range(0, 640, 64)}) == 10


@pytest.mark.attack("copy a generator by a fork")
@pytest.mark.parametrize("rng", [Rng.secure(), Rng.seeded(1)], ids=["secure", "seeded"])
def test_no_copies(rng: Rng) -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            attempt(rng)


@pytest.mark.attack("copy a generator by a fork")
def test_repr_shows_no_key() -> None:
    assert repr(Rng.secure()) == "<Rng secure>"
    assert repr(Rng.seeded(31337)) == "<Rng seeded, hides nothing>"


def test_below_is_uniform() -> None:
    rng, counts = Rng.seeded(3), [0] * 11
    for _ in range(22_000):
        counts[rng.below(11)] += 1
    assert chi_square(counts, [2000.0] * 11) > FALSE_ALARM
    assert rng.below(1) == 0
    assert all(rng.below(2**70) < 2**70 for _ in range(10))


def test_bits_and_bytes_are_balanced() -> None:
    counts = np.bincount(Rng.seeded(4).words(1 << 18, np.uint8), minlength=256)
    assert chi_square(counts.tolist(), [1024.0] * 256) > FALSE_ALARM
    assert Rng.seeded(1).bits(0) == 0
    assert {Rng.seeded(seed).bits(3) for seed in range(100)} == set(range(8))


def test_uniform_doubles_are_multiples_of_2_to_the_minus_53() -> None:
    drawn = Rng.seeded(6).uniform_doubles(10_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert (drawn * 2.0**53 == np.floor(drawn * 2.0**53)).all()
    assert chi_square(np.histogram(drawn, 20, (0, 1))[0].tolist(), [500.0] * 20) > FALSE_ALARM


@pytest.mark.attack("copy a generator by a fork")
def test_threads_share_one_stream_without_repeats() -> None:
    rng = Rng.seeded(8)
    drawn: list[bytes] = []

    def draw() -> None:
        drawn.extend(rng.bytes(512) for _ in range(2000))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    stream = Rng.seeded(8).bytes(512 * 8000)
    assert sorted(drawn) == sorted(stream[i : i + 512] for i in range(0, len(stream), 512))


def test_bad_arguments_are_refused_by_name() -> None:
    rng = Rng.seeded(1)
    for call, name in (
        (lambda: rng.bytes(-1), "count"),
        (lambda: rng.below(0), "bound"),
        (lambda: rng.words(3, np.float64), "dtype"),
        (lambda: rng.words(-3), "shape"),
        (lambda: Rng.seeded(mistype(1.5)), "seed"),
        (lambda: Rng.secure(rekey_after=3), "rekey_after"),
    ):
        with pytest.raises(DeclarationError, match=name):
            call()
