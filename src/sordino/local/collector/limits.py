"""Who may send how much: tokens by their hash and role, and a bucket of reports a token; no address is ever looked at.

Buckets live in memory: a restart fills them. They know hashes of tokens, not what was sent.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.local.collector.report_store import Store, token_hash

_MOST = 1 << 17  # buckets kept; full ones are forgotten first


@dataclass(frozen=True, slots=True)
class Limits:
    """State how many reports one token may send: `burst` at once, then `per_minute`; `open` lets people in without one.

    Without tokens all respondents share one bucket a task, so give it the survey's whole rate. `per_token`, where given, is how
    many one token may send to one task in all, counted on disk: 1 makes tokens single-use.
    """

    per_minute: float
    burst: int
    open: bool = False
    per_token: int | None = None

    def __post_init__(self) -> None:
        if not self.per_minute > 0 or self.burst < 1:
            raise DeclarationError("per_minute must be above 0 and burst at least 1")
        if self.per_token is not None and (self.open or self.per_token < 1):
            raise DeclarationError("per_token must be at least 1, and needs tokens: leave out open")


def make_tokens(count: int, rng: Rng) -> list[str]:
    """Return new tokens: 32 random bytes each, in base64 for addresses and headers.

    Raises DeclarationError unless there are 1 to 1,000,000 of them.
    """
    if not 1 <= count <= 1_000_000:
        raise DeclarationError("tokens are made 1 to 1,000,000 at a time")
    return [base64.urlsafe_b64encode(rng.bytes(32)).decode().rstrip("=") for _ in range(count)]


class Buckets:
    """Hold what each sender may still send."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._rate = limits.per_minute / 60
        self._clock = clock
        self._left: dict[bytes, tuple[float, float]] = {}  # reports left, at this moment

    def take(self, sender: bytes, reports: int) -> float:
        """Take from a sender's bucket and return 0; where too little is left take nothing, return seconds to wait.

        The wait is infinite for more reports at once than a bucket holds.
        """
        now, burst = self._clock(), self._limits.burst
        left, then = self._left.get(sender, (float(burst), now))
        left = min(float(burst), left + (now - then) * self._rate)
        if reports > left:
            return float("inf") if reports > burst else (reports - left) / self._rate
        if sender not in self._left and len(self._left) >= _MOST:
            self._forget(now)
        self._left[sender] = (left - reports, now)
        return 0.0

    def give_back(self, sender: bytes, reports: int) -> None:
        """Put back what was taken from a sender's bucket."""
        if sender in self._left:
            left, then = self._left[sender]
            self._left[sender] = (min(float(self._limits.burst), left + reports), then)

    def _forget(self, now: float) -> None:
        burst, rate = self._limits.burst, self._rate
        self._left = {s: (n, at) for s, (n, at) in self._left.items() if n + (now - at) * rate < burst}


class Tokens:
    """Hold the roles of tokens, by hash; `refresh` reads those added since."""

    def __init__(self) -> None:
        self._roles: dict[bytes, str] = {}
        self._last = 0

    def refresh(self, store: Store) -> None:
        """Read the tokens that were added to the store since the last time."""
        for number, role, digest in store.tokens(after=self._last):
            self._roles[digest] = role
            self._last = number

    def role(self, authorization: bytes | None) -> tuple[str | None, bytes]:
        """Return the role of an Authorization header, None for an unknown or missing one, and the token's hash."""
        if authorization is None or not authorization.startswith(b"Bearer ") or len(authorization) > 200:
            return None, b""
        digest = token_hash(authorization[7:].decode("latin-1"))
        return self._roles.get(digest), digest
