"""The set of seen ids agrees with a plain Python set, whatever moves to its sorted arrays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.core.noise.rng import Rng
from sordino.local.collector.task_state import IdSet


@pytest.mark.deep
@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=30), st.integers(1, 9))
def test_agrees_with_a_set_when_first_halves_clash(groups: list[list[int]], recent: int) -> None:
    seen, plain = IdSet(recent=recent), set[bytes]()
    for group in groups:
        ids = [bytes([n % 3]) + bytes(14) + bytes([n]) for n in group]
        expected = [one not in plain and one not in ids[:at] for at, one in enumerate(ids)]
        assert seen.fresh(ids) == expected
        new = [one for one, fresh in zip(ids, expected, strict=True) if fresh]
        seen.add(new)
        plain.update(new)
        assert len(seen) == len(plain)


def test_many_random_ids_are_all_remembered() -> None:
    raw = Rng.seeded(3).bytes(16 * 50_000)
    ids = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    seen = IdSet(recent=3_000)
    for at in range(0, len(ids), 500):
        assert all(seen.fresh(ids[at : at + 500]))
        seen.add(ids[at : at + 500])
    assert not any(seen.fresh(ids))
    assert len(seen) == len(ids)
