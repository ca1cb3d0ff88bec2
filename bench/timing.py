"""Two calls timed side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def milliseconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long one call takes; by `time.process_time`, how long processors work for it."""
    start = clock()
    call()
    return 1000 * (clock() - start)


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Return the median milliseconds of both, run in turn so that the machine's mood falls on both, after one warm-up."""
    ours()
    theirs()
    pairs = [(milliseconds(ours, clock), milliseconds(theirs, clock)) for _ in range(repeats)]
    first, second = (round(statistics.median(times), 2) for times in zip(*pairs, strict=True))
    return first, second


def fetch(connection: Any, text: str) -> object:
    """Run SQL in plain DuckDB and fetch its rows."""
    return connection.execute(text).fetchall()
