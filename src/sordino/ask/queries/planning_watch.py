"""Planning that can be stopped: it is free, so whoever serves it to others limits what it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("_CHECK", default=None)


def check_planning() -> None:
    """Raise where planning has to stop here; called once for each statement that is parsed and each plan that is made."""
    check = _CHECK.get()
    if check is not None:
        check()


@contextmanager
def planning_within(check: Callable[[], None]) -> Iterator[None]:
    """Call `check`, which may raise, between the steps of what the block plans in this thread."""
    before = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(before)
