"""Locks by name, each there only while somebody holds it or waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class KeyedLocks:
    """Let those of one name go one after the other, and those of other names pass."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}  # with how many hold it or wait

    @contextmanager
    def hold(self, name: str | None) -> Iterator[None]:
        """Hold the lock of a name; without a name none."""
        if name is None:
            yield
            return
        with self._guard:
            lock, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._held.pop(name)
                if waiting > 1:
                    self._held[name] = lock, waiting - 1
