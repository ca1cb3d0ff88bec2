"""Which report ids a task has seen, in memory: exact, 16 bytes an id once they are many. It knows ids and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ID_BYTES = 16
# Ids in the set, of some 100 bytes each, before they move to sorted arrays of 16 bytes each.
_RECENT = 1 << 18
_PAIR = np.dtype([("high", ">u8"), ("low", ">u8")])


class IdSet:
    """Hold a set of 16-byte ids that only grows: a set of the recent ones over sorted arrays of the older ones.

    Theorem: `fresh` answers exactly, in a logarithmic number of steps whatever ids a client makes up: an array is
    sorted by the first 8 bytes of its ids, then by the last 8, and searched by one after the other.
    """

    __slots__ = ("_limit", "_recent", "_runs")

    def __init__(self, *, recent: int = _RECENT) -> None:
        self._recent: set[bytes] = set()
        self._runs: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self._limit = recent

    def __len__(self) -> int:
        return len(self._recent) + sum(len(high) for high, _ in self._runs)

    def fresh(self, ids: Sequence[bytes]) -> list[bool]:
        """Return for each id whether it was never added and does not stand earlier in `ids`."""
        recent = self._recent
        within = set[bytes]()
        if recent.isdisjoint(ids):
            within.update(ids)
            answers = [True] * len(ids)
            if len(within) < len(ids):
                answers = _first(ids)
        else:
            answers = [first and one not in recent for one, first in zip(ids, _first(ids), strict=True)]
        if self._runs and ids:
            high, low = _halves(ids)
            for run in self._runs:
                for place in _find_places(run, high, low):
                    answers[place] = False
        return answers

    def add(self, ids: Sequence[bytes]) -> None:
        """Add ids that were fresh."""
        self._recent.update(ids)
        if len(self._recent) >= self._limit:
            high, low = _halves(list(self._recent))
            self._recent = set()
            self._settle(high, low)

    def _settle(self, high: np.ndarray[Any, Any], low: np.ndarray[Any, Any]) -> None:
        """Put ids into sorted arrays, merging those of like size: an id moves a logarithmic number of times."""
        while self._runs and len(self._runs[-1][0]) <= len(high):
            older = self._runs.pop()
            high = np.concatenate([older[0], high])
            low = np.concatenate([older[1], low])
        order = np.lexsort((low, high))
        self._runs.append((high[order], low[order]))


def _first(ids: Sequence[bytes]) -> list[bool]:
    earlier: set[bytes] = set()
    answers = []
    for one in ids:
        answers.append(one not in earlier)
        earlier.add(one)
    return answers


def _halves(ids: Sequence[bytes]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    pairs = np.frombuffer(b"".join(ids), dtype=_PAIR)
    return pairs["high"].astype(np.uint64), pairs["low"].astype(np.uint64)


def _find_places(
    run: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]], high: np.ndarray[Any, Any], low: np.ndarray[Any, Any]
) -> list[int]:
    """Return the places of ids that are in a sorted array."""
    left = np.searchsorted(run[0], high, side="left")
    right = np.searchsorted(run[0], high, side="right")
    places = []
    for place in np.flatnonzero(left < right).tolist():
        alike = run[1][left[place] : right[place]]
        at = int(np.searchsorted(alike, low[place]))
        if at < len(alike) and alike[at] == low[place]:
            places.append(place)
    return places
