"""Attacks on the source of the noise: its next numbers from its last, its copy in a forked worker, its seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import DeclarationError


def temper(word: int) -> int:
    """Return what a Mersenne Twister says of a word of its state (Matsumoto, Nishimura 1998, section 2.2)."""
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    return word ^ word >> 18


def recover(output: int) -> int:
    """Return the word that was tempered, shift by shift from the last."""
    word = output ^ output >> 18
    word ^= (word << 15) & 0xEFC60000
    shifted = word
    for _ in range(5):
        shifted = word ^ (shifted << 7) & 0x9D2C5680
    word = shifted
    for _ in range(3):
        shifted = word ^ shifted >> 11
    assert temper(shifted) == output
    return shifted


def predict(outputs: Sequence[int]) -> list[int]:
    """Return what a Mersenne Twister says after 624 outputs."""
    clone = random.Random()
    clone.setstate((3, (*map(recover, outputs), 624), None))
    return [clone.getrandbits(32) for _ in range(16)]


@pytest.mark.attack(
    "predict the next noise from the last",
    source="Garfinkel, Leclerc 2020, Randomness concerns when deploying differential privacy; Matsumoto, Nishimura 1998",
)
def test_624_words_of_a_textbook_generator_tell_the_rest_and_ours_tell_nothing() -> None:
    weak, strong = random.Random(), sd.Rng.secure()
    seen = [weak.getrandbits(32) for _ in range(624)]
    assert predict(seen) == [weak.getrandbits(32) for _ in range(16)]
    ours = [int(word) for word in strong.words(640, np.uint32)]
    assert predict(ours[:624]) != ours[624:]
    assert sum(a == b for a, b in zip(predict(ours[:624]), ours[624:], strict=True)) <= 1  # by chance 4 in 10^9


def in_children(draw: Callable[[], float]) -> list[str]:
    """Return what two forked workers draw."""
    found = []
    for _ in range(2):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writer, repr(draw()).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as end:
            found.append(end.read())
        os.waitpid(pid, 0)
    return found


@pytest.mark.deep
@pytest.mark.attack("copy a generator by a fork")
def test_forked_workers_share_the_noise_of_a_textbook_and_not_ours() -> None:
    """Equal noise in two workers cancels out of the difference of their answers."""
    weak, strong, law = np.random.default_rng(), sd.Rng.secure(), 10**12
    one, other = in_children(lambda: float(weak.laplace()))
    assert one == other != ""
    strong.bytes(100)
    one, other = in_children(lambda: float(strong.below(law)))
    assert one != other
    assert "" not in (one, other)


@pytest.mark.attack("predict the next noise from the last")
def test_a_seed_cannot_be_used_on_an_account_that_lasts_and_is_shown_nowhere(tmp_path: object) -> None:
    rows, domain = pa.table({"x": [1]}), sd.Domain({"x": sd.Integer(0, 1)})
    with pytest.raises(DeclarationError):
        protect(rows, domain, ledger=f"{tmp_path}/a.ledger", rng=sd.Rng.seeded(8675309))
    curator = protect(rows, domain, rng=sd.Rng.seeded(8675309))
    release = curator.ask(sd.count(), epsilon=1)
    shown = (release.to_json(), repr(release), repr(curator), str(release.to_dict()), repr(sd.Rng.seeded(8675309)))
    assert "8675309" not in "".join(shown)
    first = [protect(rows, domain, rng=sd.Rng.secure()).ask(sd.count(), epsilon="1e-6").value for _ in range(2)]
    assert first[0] != first[1]  # equal by chance less than once in a million
