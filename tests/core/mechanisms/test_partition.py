"""Pieces cover every candidate once, and their bounds on the distance hold: on random partitions, by enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sordino.core.mechanisms import partition, tie_places
from sordino.core.mechanisms.partition import Partition, RankProblem, pieces


def _random(rng: np.random.Generator, high: int) -> Partition:
    """Return segments of one to three of some values, with 1 to 49 rows each."""
    values = np.sort(rng.choice(high + 1, min(int(rng.integers(0, 30)), high + 1), replace=False))
    first, last, i = [], [], 0
    while i < len(values):
        several = values[i : i + (int(rng.integers(1, 4)) if rng.random() < 0.4 else 1)]
        first.append(several[0])
        last.append(several[-1])
        i += len(several)
    rows = rng.integers(1, 50, len(first))
    return Partition.of(np.array(first, dtype=np.int64), np.array(last, dtype=np.int64), rows)


@pytest.mark.each(7)
@pytest.mark.parametrize(("parts", "bits"), [(1, 40), (2, 40), (5, 40), (16, 40), (64, 1), (256, 2)])
@pytest.mark.parametrize("splits", [False, True], ids=["values", "places"])
def test_pieces_cover_and_bound(parts: int, bits: int, splits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (partition, tie_places):
        monkeypatch.setattr(module, "PARTS", parts)
    monkeypatch.setattr(tie_places, "_BITS", bits)
    rng = np.random.default_rng(parts)
    for _ in range(40):
        high, finer = int(rng.integers(1, 120)), int(rng.integers(1, 7))
        known = _random(rng, high)
        most = known.rows * parts * finer
        target, rate = int(rng.integers(0, most + 1)), Fraction(int(rng.integers(1, 2000)), 100)
        problem = RankProblem(0, high, 0, most, target, parts * finer, rate, splits)
        at = 0
        for piece in pieces(known, problem):
            assert piece.start == at
            assert piece.size > 0
            at += piece.size
            for candidate in range(piece.start, at):
                distance = _distance(known, problem, *divmod(candidate, problem.places), parts)
                assert distance is None or distance >= piece.distance
                assert not piece.flat or distance == piece.distance
        assert at == (high + 1) * problem.places


def _distance(known: Partition, problem: RankProblem, value: int, place: int, parts: int) -> int | None:
    """Return how far a candidate is, from the definition; None where it is not known."""
    for first, last, below, above in zip(
        known.first.tolist(), known.last.tolist(), known.below[:-1].tolist(), known.below[1:].tolist(), strict=True
    ):
        if first <= value <= last:
            if first < last:
                return None
            ends = [below * problem.parts, above * problem.parts]
            if problem.splits:
                ends = [ends[0] + (ends[1] - ends[0]) // parts * tie_places.cut(place)] * 2
            return max(0, int(ends[0] - problem.target), int(problem.target - ends[1]))
    rank = sum(int(r) for f, r in zip(known.first, np.diff(known.below), strict=True) if f < value) * problem.parts
    return abs(rank - problem.target)


def test_refined_and_holding() -> None:
    known = Partition.of(np.array([0, 10]), np.array([9, 19]), np.array([3, 4]))
    assert known.holding(Fraction(7, 2)) == (10, 19)
    finer = known.refine((10, 19), Partition.of(np.array([11, 12]), np.array([11, 12]), np.array([1, 3])))
    assert finer.below.tolist() == [0, 3, 4, 7]
    assert finer.holding(Fraction(7)) is None
    assert finer.segment(15) is None
    assert finer.gap(15) == 3
