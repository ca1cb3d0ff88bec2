"""Tests of drawn examples: few of them in `make test`, many in the deep tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def examples(few: int, many: int, *drawn: Any, **named: Any) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Return a decorator that makes one body a test of few examples and a deep one of many, drawn as by `given`."""

    def make(body: Callable[..., None]) -> Callable[[int], None]:
        def test(tried: int) -> None:
            draw: Any = given(*drawn, **named)
            settings(max_examples=tried, deadline=None)(draw(body))()

        # pytest would take the arguments of a wrapped body for fixtures, so that only its name and words are taken over.
        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        marked: Callable[[int], None] = pytest.mark.parametrize(
            "tried", [few, pytest.param(many, marks=pytest.mark.deep)]
        )(test)
        return marked

    return make
