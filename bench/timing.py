"""Two calls timed side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

__all__ = ["compare", "fetch", "milliseconds"]


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def compare(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median milliseconds of both, run in turn so that the machine's mood falls on both, after one warm-up."""
    ours()
    theirs()
    pairs = [(milliseconds(ours), milliseconds(theirs)) for _ in range(repeats)]
    first, second = (round(statistics.median(times), 2) for times in zip(*pairs, strict=True))
    return first, second


def fetch(connection: Any, text: str) -> object:
    """Run SQL in plain DuckDB and fetch its rows."""
    return connection.execute(text).fetchall()
