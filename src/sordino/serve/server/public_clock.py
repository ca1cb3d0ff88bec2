"""The public clock: when an answer may leave, so that the time it took tells at most the size class of the work.

It knows when a request came and what time it is, and nothing of what was computed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction


class PublicClock:
    """Let answers leave `every`, `2 every`, `4 every` ... seconds after their request came, at the first that is not past.

    Whoever measures learns k of 2^k ticks, and nothing finer: the logarithm of how long the work may have taken.
    """

    def __init__(self, every: Fraction, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = float(every)
        self._clock = clock

    def start(self) -> float:
        """Return the moment from which an answer's time counts."""
        return self._clock()

    def wait(self, started: float) -> float:
        """Return how many seconds an answer that is ready now has to wait still.

        >>> moments = iter([0.1, 0.3])
        >>> clock = PublicClock(Fraction(1, 4), clock=lambda: next(moments))
        >>> round(clock.wait(0), 6), round(clock.wait(0), 6)
        (0.15, 0.2)
        """
        gone = max(0.0, self._clock() - started)
        ticks = gone / self._every
        power = 0 if ticks <= 1 else math.ceil(math.log2(ticks))
        return float(max(0.0, self._every * 2**power - gone))

    def sleep(self, started: float) -> None:
        """Wait until an answer may leave, in a thread of its own; an asynchronous server sleeps for `wait` itself."""
        time.sleep(self.wait(started))
