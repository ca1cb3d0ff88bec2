"""Feed broken inputs to one reader, for a time: only Sordino's own errors leave it, soon and without a secret."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from fuzz.mutation import shrink
from places import forget_peak_memory, peak_memory
from sordino.errors import SordinoError

CANARY = "zq7canary"  # stands in every table, credential and token, and in no input
SLOW = 5.0  # seconds of processor time that one input may take
GROWTH = 1_500_000  # kilobytes by which the process may grow


@dataclass(frozen=True, slots=True)
class Surface:
    """State a reader, sound inputs, and how a broken one is made from a seed."""

    read: Callable[[Any], object]
    make: Callable[[random.Random], Any]
    sound: tuple[Any, ...] = ()


class TooSlowError(BaseException):
    """Say that an input took too long: no reader may catch it."""


@dataclass
class Tally:
    """Count inputs by what became of them, and keep what must not be."""

    fed: int = 0
    read: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)


def seconds_each() -> float:
    """Return how long each surface is fed: $SORDINO_FUZZ_SECONDS, else a twentieth of a second."""
    return float(os.environ.get("SORDINO_FUZZ_SECONDS", "0.05"))


@contextmanager
def _limit_time() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOW)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def feed_one(read: Callable[[Any], object], given: Any) -> tuple[str, str]:
    """Return "read", "refused" or what is wrong, and in which words."""
    try:
        with _limit_time():
            read(given)
    except SordinoError as error:
        words = f"{error} {error!r} {getattr(error, '__notes__', '')}"
        return ("a secret in a message", words) if CANARY in words else ("refused", str(error))
    except TooSlowError:
        return "too slow", f"above {SLOW} s"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {os.path.basename(where.filename)}:{where.lineno}", str(error)[:200]
    return "read", ""


def _is_found(read: Callable[[Any], object], found: str, given: Any) -> bool:
    return feed_one(read, given)[0] == found


def feed(
    read: Callable[[Any], object],
    make: Callable[[random.Random], Any],
    *,
    seconds: float,
    seed: int = 0,
    sound: tuple[Any, ...] = (),
) -> Tally:
    """Feed what `make` makes, seed after seed, until so much processor time is over; shrink each new fault."""
    tally, known = Tally(), set[str]()
    forget_peak_memory()
    held = peak_memory()
    for one in sound:
        found, words = feed_one(read, one)
        if found != "read":
            tally.faults.append(f"a sound input: {found}: {words}: {one!r:.200}")
    end = time.process_time() + seconds
    while time.process_time() < end or tally.fed < 5:
        given = make(random.Random(f"{seed}-{tally.fed}"))
        found, words = feed_one(read, given)
        tally.fed += 1
        tally.read += found == "read"
        tally.refused += found == "refused"
        if found not in ("read", "refused", *known):
            known.add(found)
            least = given
            if isinstance(given, (str, bytes)) and found != "too slow" and "Hung" not in found:
                least = shrink(given, partial(_is_found, read, found))
            tally.faults.append(f"{found}: {words}: {least!r:.600}")
    if peak_memory() - held > GROWTH:
        tally.faults.append("the process grew")
    return tally
