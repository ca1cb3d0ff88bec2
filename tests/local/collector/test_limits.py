"""Buckets of reports: what a sender may send at once and in a minute, by a clock that the test sets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.errors import DeclarationError
from sordino.local.collector.report_store import token_hash
from sordino.local.collector.service import Buckets, Limits, Tokens


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 8)), max_size=40))
def test_no_sender_passes_burst_plus_rate(asks: list[tuple[float, int]]) -> None:
    now, granted, limits = [0.0], 0, Limits(per_minute=30, burst=6)
    buckets = Buckets(limits, clock=lambda: now[0])
    for pause, reports in asks:
        now[0] += pause
        wait = buckets.take(b"one", reports)
        granted += 0 if wait else reports
        assert granted <= limits.burst + now[0] * limits.per_minute / 60 + 1e-6
        assert math.isinf(wait) == (reports > limits.burst)
        if 0 < wait < math.inf:
            now[0] += wait + 1e-6
            assert buckets.take(b"one", reports) == 0
            granted += reports
    assert buckets.take(b"another", 6) == 0


def test_limits_must_let_something_in() -> None:
    for per_minute, burst in ((0, 1), (1, 0), (-1, 1), (math.nan, 1)):
        with pytest.raises(DeclarationError, match="per_minute must be above 0"):
            Limits(per_minute=per_minute, burst=burst)


@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer ", b"Basic cjpy", b"bearer t", b"Bearer " + b"t" * 300, b"Bearer \xff"]
)
def test_a_header_that_is_no_known_token_has_no_role(header: bytes | None) -> None:
    tokens = Tokens()
    tokens._roles[token_hash("t")] = "respondent"
    assert tokens.role(header)[0] is None
    assert tokens.role(b"Bearer t") == ("respondent", token_hash("t"))
