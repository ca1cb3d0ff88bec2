"""Forks: a child has a copy of all that an engine holds, but none of its threads, and its connections are the parent's.

An engine that is told of it leaves what it holds to the parent, and opens its source anew before the next charge.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Protocol


class Leaving(Protocol):
    """What holds something that does not cross a fork."""

    def leave_to_parent(self) -> None:
        """Let what was held at the fork be: this is the child, and its only thread."""


_OPEN: weakref.WeakSet[Leaving] = weakref.WeakSet()


def leave_at_fork(engine: Leaving) -> None:
    """Tell an engine of each fork, in the child."""
    _OPEN.add(engine)


def keep_for_ever(held: object) -> None:
    """Never let an object go, not at the end of the process either.

    DuckDB waits for its threads when the last connection goes, and in a forked process it would wait for ever.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


def _after_fork_in_child() -> None:
    for engine in list(_OPEN):
        engine.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
