"""NoiseKey: streams are functions of key and label, differ between labels, and follow from both halves of the key."""

from __future__ import annotations

import copy
import itertools
import os
import pickle

import numpy as np
import pytest

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import NoiseKey, Rng


def test_streams_are_functions_of_key_and_label() -> None:
    key = NoiseKey((b"a" * 32, b"b" * 32), private=True)
    again = NoiseKey((b"a" * 32, b"b" * 32), private=True)
    assert key.stream("step", 3).bytes(100) == again.stream("step", 3).bytes(100)
    # A longer stream goes on, whatever its pieces.
    pieces = again.stream("step", 3)
    whole = key.stream("step", 3).bytes(5000)
    assert b"".join(pieces.bytes(count) for count in (1, 4095, 904)) == whole


def test_other_labels_and_other_keys_have_other_streams() -> None:
    keys = [NoiseKey((one * 32, other * 32), private=True) for one, other in itertools.product((b"a", b"b"), repeat=2)]
    labels: list[tuple[str | int, ...]] = [("step", 1), ("step", 11), ("step", "1"), ("step1",), ("step", 1, 1), ()]
    streams = [key.stream(*label).bytes(32) for key in keys for label in labels]
    assert len(set(streams)) == len(streams)
    seals = [key.seal(content, *label) for key in keys for label in labels for content in (b"", b"x")]
    assert len({*seals, *(stream.hex() for stream in streams)}) == len(seals) + len(streams)


def test_streams_are_uniform() -> None:
    """Of 10^6 bits of 1,000 streams, 5,000 more or fewer ones have a chance of 2e-23."""
    key = NoiseKey.draw(Rng.seeded(5))
    bits = np.unpackbits(np.frombuffer(b"".join(key.stream("step", i).bytes(125) for i in range(1000)), np.uint8))
    assert abs(int(bits.sum()) - 500_000) < 5_000


def test_a_stream_stays_the_same_across_a_fork() -> None:
    """A secret generator would take a fresh key there, and the noise of a step could not be drawn again."""
    key = NoiseKey.draw(Rng.secure())
    stream = key.stream("step", 1)
    stream.bytes(10)
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.write(writing, stream.bytes(32))
        os._exit(0)
    os.waitpid(process, 0)
    assert os.read(reading, 32) == stream.bytes(32)


def test_a_key_is_as_secret_as_what_it_was_drawn_from() -> None:
    assert NoiseKey.draw(Rng.secure()).stream("x").private
    assert not NoiseKey.draw(Rng.seeded(1)).stream("x").private
    assert NoiseKey.draw(Rng.secure(), outer=b"o" * 32).halves[0] == b"o" * 32


def test_a_key_is_neither_shown_nor_copied() -> None:
    key = NoiseKey((b"a" * 32, b"b" * 32), private=True)
    assert repr(key) == "<NoiseKey, secret>"
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a key of noise cannot be copied or pickled"):
            duplicate(key)
    with pytest.raises(DeclarationError, match="two halves of 32 bytes"):
        NoiseKey((b"a" * 31, b"b" * 32), private=True)
