"""The one door for randomness: secure bits from the operating system, seeded bits for tests, and replicates of noise.

It may not know what the bits are for: no law, no scale and no privacy parameter appears here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import threading
import weakref
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from sordino.core.errors import DeclarationError

REKEY_BYTES = 1 << 30
_BUFFER_BYTES = 4096
_ZEROS = bytes(1 << 16)
# None asks the operating system.
_Key = bytes | None


class Rng:
    """A source of uniform bits from an AES-256-CTR keystream.

    Made by `Rng.secure()` or `Rng.seeded(seed)`. The stream is consumed in order, so the draws of a seeded Rng depend
    on the seed and on what was drawn before, never on the platform. One Rng may serve many threads.

    A secure Rng takes its key from the operating system, takes a fresh one in a forked child before the first draw
    there, and after every `rekey_after` bytes. Neither kind can be copied or pickled: two copies would draw the same
    noise twice, and a difference of two answers with the same noise is exact.

    Theorem: the words of a secure Rng are computationally indistinguishable from independent uniform words, if
    AES-256 is a pseudorandom permutation (NIST SP 800-38A, section 6.5; at most 2^26 blocks a key).
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_lock",
        "_pid",
        "_position",
        "_private",
        "_rekey_after",
        "_renewed",
        "_since",
        "_stream",
    )

    _buffer: bytes
    _position: int

    def __init__(self, *, key: _Key, rekey_after: int = REKEY_BYTES, private: bool | None = None) -> None:
        """Prefer `Rng.secure()` and `Rng.seeded(seed)`; `key=None` asks the operating system for one.

        A stream under a given key is never keyed anew. It hides something only where the key is secret: `private` says so.
        """
        if rekey_after < 16:
            raise DeclarationError(f"rekey_after must be at least 16 bytes, not {rekey_after}")
        self._renewed = key is None
        self._private = self._renewed if private is None else private
        self._rekey_after = rekey_after
        self._start(key)
        _LIVING.add(self)

    @classmethod
    def secure(cls, *, rekey_after: int = REKEY_BYTES) -> Rng:
        """Return an Rng keyed by the operating system: the only kind that hides anything.

        >>> Rng.secure().private
        True
        """
        return cls(key=None, rekey_after=rekey_after)

    @classmethod
    def seeded(cls, seed: int) -> Rng:
        """Return an Rng whose draws are a function of `seed`, for tests and examples; its noise hides nothing.

        The key is the SHA-256 of the seed's decimal digits. It is kept across a fork: parent and child draw the same.

        >>> Rng.seeded(7).bits(32) == Rng.seeded(7).bits(32)
        True
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise DeclarationError(f"seed must be an int, not {type(seed).__name__}")
        return cls(key=hashlib.sha256(b"sordino seeded rng " + str(seed).encode()).digest())

    @property
    def private(self) -> bool:
        """Whether the noise drawn here hides anything: False when seeded."""
        return self._private

    def bytes(self, count: int) -> bytes:
        """Return `count` uniform bytes.

        >>> len(Rng.seeded(1).bytes(5))
        5
        """
        if count < 0:
            raise DeclarationError(f"count must be at least 0, not {count}")
        if not self._renewed or self._pid == os.getpid():
            with self._lock:
                end = self._position + count
                if end <= len(self._buffer):
                    chunk = self._buffer[self._position : end]
                    self._position = end
                    return chunk
        out = bytearray(count)
        self._fill(memoryview(out))
        return bytes(out)

    def words(self, shape: int | tuple[int, ...], dtype: Any = np.uint64) -> np.ndarray[Any, Any]:
        """Return an array of uniform words: uint8, uint16, uint32 or uint64, read from the stream little-endian.

        >>> Rng.seeded(1).words((2, 3), np.uint16).shape
        (2, 3)
        """
        kind = np.dtype(dtype)
        if kind.kind != "u":
            raise DeclarationError(f"dtype must be an unsigned integer type such as uint64, not {kind}")
        count = shape if isinstance(shape, int) else math.prod(shape)
        if count < 0:
            raise DeclarationError(f"shape must not be negative, not {shape}")
        raw = bytearray(count * kind.itemsize)
        self._fill(memoryview(raw))
        return np.frombuffer(raw, dtype=kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)

    def bits(self, count: int) -> int:
        """Return a uniform integer of `count` bits, in [0, 2^count).

        >>> 0 <= Rng.seeded(1).bits(3) < 8
        True
        """
        return int.from_bytes(self.bytes((count + 7) >> 3), "little") >> (-count & 7)

    def below(self, bound: int) -> int:
        """Return an integer exactly uniform in [0, bound), rejecting draws too large (two tries on average at most).

        >>> 0 <= Rng.seeded(1).below(6) < 6
        True
        """
        if bound < 1:
            raise DeclarationError(f"bound must be at least 1, not {bound}")
        width = (bound - 1).bit_length()
        while True:
            candidate = self.bits(width)
            if candidate < bound:
                return candidate

    def uniform_doubles(self, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return `count` multiples of 2^-53 uniform in [0, 1), to generate data sets with.

        Not for mechanisms: a float made from this reveals in its low bits what it hides in its high ones
        (Mironov 2012, On significance of the least significant bits).

        >>> Rng.seeded(1).uniform_doubles(4).shape
        (4,)
        """
        return (self.words(count, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def __repr__(self) -> str:
        return "<Rng secure>" if self._private else "<Rng seeded, hides nothing>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "an Rng cannot be copied or pickled: the copy would draw the same noise again; make one with Rng.secure()"
        )

    def _start(self, key: _Key) -> None:
        """Begin a stream under `key`, or under a fresh one of the operating system's."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._buffer = b""
        self._position = 0
        self._since = 0
        self._stream = _keystream(key)

    def _fill(self, out: memoryview) -> None:
        """Write the next bytes of the stream over `out`; every draw the buffer cannot serve comes through here."""
        if self._renewed and self._pid != os.getpid():
            self._start(None)
        with self._lock:
            done = min(len(out), len(self._buffer) - self._position)
            out[:done] = self._buffer[self._position : self._position + done]
            self._position += done
            while len(out) - done >= _BUFFER_BYTES:
                done += self._generate(out[done:])
            if done < len(out):
                block = bytearray(_BUFFER_BYTES)
                filled = self._generate(memoryview(block))
                while filled < _BUFFER_BYTES:
                    filled += self._generate(memoryview(block)[filled:])
                self._buffer = bytes(block)
                self._position = len(out) - done
                out[done:] = self._buffer[: self._position]

    def _generate(self, out: memoryview) -> int:
        """Write keystream over the front of `out`, re-keying first where the key is used up; return the number of bytes."""
        if self._renewed and self._since >= self._rekey_after:
            self._stream = _keystream(None)
            self._since = 0
        count = min(len(out), len(_ZEROS))
        if self._renewed:
            count = min(count, self._rekey_after - self._since)
        self._stream.update_into(_ZEROS if count == len(_ZEROS) else _ZEROS[:count], out[:count])
        self._since += count
        return count


class NoiseKey:
    """A secret of which whole streams of noise are functions: the stream of a label is the same whenever it is asked for.

    It is for mechanisms whose noise must be drawn again exactly, such as that of a series of releases, where each step needs
    the draws of all steps before it. Whoever has the key can take the noise off: it is kept apart from what was released,
    and never shown. It has two halves of 32 bytes, so that neither place that keeps one holds the key.

    Theorem: the streams of different labels are computationally indistinguishable from independent uniform words, if HMAC-
    SHA-256 and AES-256 are pseudorandom (a key of AES for each label by HMAC, Bellare 2006; then `Rng`'s own theorem).
    Labels are written as JSON lists, so that two labels never have the same text.

    >>> key = NoiseKey.draw(Rng.seeded(1))
    >>> key.stream("step", 3).bits(32) == key.stream("step", 3).bits(32) != key.stream("step", 4).bits(32)
    True
    """

    __slots__ = ("_key", "halves", "private")

    def __init__(self, halves: tuple[bytes, bytes], *, private: bool) -> None:
        """Join two halves of a key; prefer `NoiseKey.draw`. `private` says whether they were drawn secretly."""
        if [len(half) for half in halves] != [32, 32]:
            raise DeclarationError("a key of noise has two halves of 32 bytes")
        self.halves = halves
        self.private = private
        self._key = hmac.digest(halves[0], b"sordino noise key " + halves[1], "sha256")

    @classmethod
    def draw(cls, rng: Rng, *, outer: bytes | None = None) -> NoiseKey:
        """Return a fresh key; `outer` is its first half, where that is there already."""
        return cls((rng.bytes(32) if outer is None else outer, rng.bytes(32)), private=rng.private)

    def stream(self, *label: str | int) -> Rng:
        """Return the stream of a label, from its beginning."""
        return Rng(key=self._digest(b"stream ", label), private=self.private)

    def seal(self, content: bytes, *label: str | int) -> str:
        """Return a code that only this key gives to this content, and that says nothing of either (HMAC-SHA-256)."""
        return hmac.digest(self._digest(b"seal ", label), content, "sha256").hex()

    def _digest(self, use: bytes, label: tuple[str | int, ...]) -> bytes:
        return hmac.digest(self._key, use + json.dumps(label, separators=(",", ":")).encode(), "sha256")

    def __repr__(self) -> str:
        return "<NoiseKey, secret>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a key of noise cannot be copied or pickled: it takes the noise off all that was drawn with it")


class ReplicateStream:
    """Numbers that noise is drawn again from around values that were released, for intervals; no mechanism takes it.

    The key is the SHA-256 of `record`: what was released, and public facts. So the numbers are a function of these alone,
    never of the data: equal releases have equal replicates. They hide nothing. It is no Rng and offers none of what samplers
    call (`bits`, `bytes`, `below`, `words`), so that no mechanism can draw its noise here.

    >>> ReplicateStream(b"released").points(2).tolist() == ReplicateStream(b"released").points(2).tolist()
    True
    """

    __slots__ = ("_rng",)

    def __init__(self, record: bytes) -> None:
        """Key a stream by what was released."""
        self._rng = Rng(key=hashlib.sha256(b"sordino replicate stream " + record).digest())

    def points(self, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the next `count` points, uniform in (0, 1): odd multiples of 2^-54."""
        return self._rng.uniform_doubles(count) + 2.0**-54


_LIVING: weakref.WeakSet[Rng] = weakref.WeakSet()


def _keystream(key: _Key) -> CipherContext:
    """Return AES-256 in counter mode from zero; a key is never used for two streams, so the nonce may be fixed."""
    return Cipher(algorithms.AES(os.urandom(32) if key is None else key), modes.CTR(bytes(16))).encryptor()


def _after_fork_in_child() -> None:
    """Drop what a child inherited: buffered bytes and key of the secure, and locks another thread held at the fork."""
    for rng in list(_LIVING):
        if rng._renewed:
            rng._start(None)
        else:
            rng._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
