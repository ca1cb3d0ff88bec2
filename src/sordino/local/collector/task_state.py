"""The state of one task in the collector's memory: its reading of reports, the ids it has seen, its counts.

It knows randomised reports only. Everything here can be made again from the store, and is at every start. The ids are exact,
16 bytes each once they are many.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.local.collector.report_store import Addition, Chunk, Store, StoredTask
from sordino.local.reports import Reports, SupportCounts
from sordino.local.task import Task

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


# A body begins with the hash of the manifest that its reports were made by.
HEAD_BYTES = 32


@dataclass(slots=True)
class Post:
    """Some reports of one request: their ids, bytes and token's hash; then how many were new, or why all were refused."""

    ids: list[bytes]
    reports: list[bytes]
    sender: bytes = b""
    added: int = 0
    refused: str | None = None
    # What was wrong, where they were refused.
    code: str = "malformed"


class TaskState:
    """Take reports for one task. Used by one thread, the writer's; others read `counts`, `closed` and `is_used`."""

    def __init__(self, task: Task, stored: StoredTask, *, per_token: int | None = None) -> None:
        self.task = task
        self._per_token = per_token
        self._sent: dict[bytes, int] = {}
        self.number = stored.number
        self.closed = stored.closed
        self.counts = counts_from(stored.counts, task)
        self.width = task.protocol.width
        self.size = HEAD_BYTES + ID_BYTES + self.width
        self._seen = IdSet()

    @staticmethod
    def empty_counts(task: Task) -> SupportCounts:
        """Return the counts of no reports."""
        rows = np.empty((0, task.protocol.width), dtype=np.uint8)
        return task.protocol.count(Reports.of(task.protocol, rows))

    def load(self, store: Store) -> None:
        """Read the ids and counts that the store holds, whatever was in memory."""
        stored = store.task(self.task.manifest.task)
        ids_seen = IdSet()
        total = 0
        for chunk in store.chunks(self.number):
            ids = split(chunk.ids, ID_BYTES)
            total += len(ids)
            ids_seen.add(ids)
        self.counts = counts_from(stored.counts, self.task)
        if total != self.counts.n or total != len(ids_seen):
            rule = (
                f"the store's task {self.task.manifest.task!r} has {total} reports, but its counts say {self.counts.n}"
            )
            raise DeclarationError(f"{rule}; restore a sound copy")
        self.closed = stored.closed
        self._seen = ids_seen
        if self._per_token is not None:
            self._sent = store.sent(self.number)

    def post(self, body: bytes | bytearray | memoryview) -> Post:
        """Return the reports of a body whose length and head were checked."""
        step = ID_BYTES + self.width
        if len(body) == HEAD_BYTES + step:
            return Post([bytes(body[HEAD_BYTES : HEAD_BYTES + ID_BYTES])], [bytes(body[HEAD_BYTES + ID_BYTES :])])
        rows = np.frombuffer(body, dtype=np.uint8, offset=HEAD_BYTES).reshape(-1, step)
        ids = np.ascontiguousarray(rows[:, :ID_BYTES]).tobytes()
        return Post(split(ids, ID_BYTES), split(np.ascontiguousarray(rows[:, ID_BYTES:]).tobytes(), self.width))

    def sort(self, posts: Sequence[Post]) -> tuple[Addition, list[bytes], SupportCounts] | None:
        """Judge posts: refuse malformed ones, leave out repeated reports, count the rest; None where nothing is new.

        The posts learn how they fared; what comes back is to be stored, then given to `settle`.
        """
        sound = self._sound(posts)
        if self._per_token is not None:
            sound = self._within_limit(sound, self._per_token)
        ids = [one for post in sound for one in post.ids]
        fresh = self._seen.fresh(ids)
        if all(fresh):
            reports = [one for post in sound for one in post.reports]
            for post in sound:
                post.added = len(post.ids)
        else:
            ids, reports = _select_fresh(sound, fresh)
        if not ids:
            return None
        pairs = sorted(zip(ids, reports, strict=True))
        chunk = Chunk(b"".join(one for one, _ in pairs), b"".join(report for _, report in pairs))
        counts = self.counts + self._count(chunk.reports)
        return Addition(self.number, chunk, counts_text(counts), self._sent_by(sound)), ids, counts

    def settle(self, ids: Sequence[bytes], addition: Addition, counts: SupportCounts) -> None:
        """Take note of what is now on disk."""
        self._seen.add(ids)
        self._sent.update(addition.sent)
        self.counts = counts

    def is_used(self, sender: bytes) -> bool:
        """Return whether a token has sent all the reports that it may send."""
        return self._per_token is not None and self._sent.get(sender, 0) >= self._per_token

    def _within_limit(self, posts: Sequence[Post], most: int) -> list[Post]:
        """Return the posts that pass no token's limit; repeated reports count once, so an old post may be sent again."""
        sent = dict(self._sent)
        within = []
        for post in posts:
            after = sent.get(post.sender, 0) + sum(self._seen.fresh(post.ids))
            if after > most:
                post.refused = "the token's reports are used up"
                post.code = "used"
            else:
                sent[post.sender] = after
                within.append(post)
        return within

    def _sent_by(self, posts: Sequence[Post]) -> dict[bytes, int]:
        """Return how many reports each limited token that sent some of these has sent with them."""
        sent: dict[bytes, int] = {}
        if self._per_token is not None:
            for post in posts:
                sent[post.sender] = sent.get(post.sender, self._sent.get(post.sender, 0)) + post.added
        return sent

    def _sound(self, posts: Sequence[Post]) -> list[Post]:
        """Return the posts whose reports can all be; the others are refused, each as a whole."""
        try:
            self._check(b"".join(one for post in posts for one in post.reports))
            return list(posts)
        except DeclarationError:
            pass
        sound = []
        for post in posts:
            try:
                self._check(b"".join(post.reports))
                sound.append(post)
            except DeclarationError as error:
                post.refused = str(error)
        return sound

    def _check(self, reports: bytes) -> None:
        Reports.from_rows(reports, self.task.protocol)

    def _count(self, reports: bytes) -> SupportCounts:
        rows = np.frombuffer(reports, dtype=np.uint8).reshape(-1, self.width)
        return self.task.protocol.count(Reports.of(self.task.protocol, rows.copy()))


def split(data: bytes, width: int) -> list[bytes]:
    """Return the pieces of `width` bytes of some data."""
    pieces: list[bytes] = np.frombuffer(data, dtype=f"V{width}").tolist()
    return pieces


def counts_text(counts: SupportCounts) -> str:
    """Return counts as the text that is stored beside the reports they count."""
    return json.dumps({"n": counts.n, "supports": counts.supports}, separators=(",", ":"))


def counts_from(text: str, task: Task) -> SupportCounts:
    """Return stored counts."""
    plain = json.loads(text)
    return SupportCounts(task.parameters_hash, tuple(plain["supports"]), plain["n"])


def _select_fresh(posts: Sequence[Post], fresh: Sequence[bool]) -> tuple[list[bytes], list[bytes]]:
    ids = []
    reports = []
    at = 0
    for post in posts:
        for one, report in zip(post.ids, post.reports, strict=True):
            if fresh[at]:
                ids.append(one)
                reports.append(report)
                post.added += 1
            at += 1
    return ids, reports
