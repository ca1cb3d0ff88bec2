"""Work that Ctrl-C can stop: it runs in a thread of its own, and whoever waits for it hears the signal. It knows no SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")


def interruptible(work: Callable[[], T], *, stop: Callable[[], None]) -> T:
    """Return what `work` returns, or raise what it raises; on Ctrl-C call `stop`, wait for its end, and let it go on up.

    An engine that runs in the main thread keeps Python from seeing a signal until it is done, and then may tell it as
    a failure of its own.

    >>> interruptible(lambda: 2 + 2, stop=lambda: None)
    4
    """
    made: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            made.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        stop()
        thread.join()
        raise
    if failures:
        raise failures[0]
    return made[0]
