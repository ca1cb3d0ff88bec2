"""What DuckDB says of a statement around private questions (sordino.ask.engines.outer): once for a text and declared columns."""

from __future__ import annotations

from typing import Any

import pytest

from sordino.ask.engines import outer
from sordino.ask.engines.instances import shared_instance
from sordino.errors import QuestionRefused


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The purposes for which DuckDB was asked, as they are asked."""
    purposes: list[str] = []

    def count(purpose: Any) -> Any:
        purposes.append(purpose)
        return shared_instance(purpose)

    monkeypatch.setattr(outer, "shared_instance", count)
    return purposes


def test_a_statement_is_described_once_for_the_same_columns(asked: list[str]) -> None:
    text = "SELECT n + 1 AS more FROM described_once"
    kinds = ("BIGINT", "BIGINT", "DOUBLE", "BIGINT")
    found = [outer.describe(text, {"described_once": [("n", kind)]}) for kind in kinds]
    assert found == [[("more", kind)] for kind in kinds]
    assert len(asked) == 2
    # What one caller does to its list is nothing to the next.
    found[0].clear()
    assert outer.describe(text, {"described_once": [("n", "BIGINT")]}) == [("more", "BIGINT")]


def test_what_cannot_be_run_is_refused_each_time(asked: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(QuestionRefused, match=r"cannot be run: .*nothing_there"):
            outer.describe("SELECT nothing_there FROM refused_twice", {"refused_twice": [("n", "BIGINT")]})
    assert len(asked) == 2
