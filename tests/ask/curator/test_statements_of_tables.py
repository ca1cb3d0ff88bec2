"""Statements around questions about several private tables: one charge, the caps of each table, and where they are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import BudgetExhausted, DeclarationChanged, DeclarationError, SordinoError

VISITS = sd.Domain({"person": sd.Identifier(), "ward": sd.Category(["a", "b"]), "days": sd.Integer(0, 30)})
CALLS = sd.Domain({"caller": sd.Identifier(), "minutes": sd.Integer(0, 60), "urgent": sd.Boolean()})
ROWS = {
    # Two rows of a person count, though one has five.
    "visits": pa.table(
        {
            "person": [f"p{i}" for i in range(100)] + ["p0"] * 4,
            "ward": ["a", "b"] * 50 + ["a"] * 4,
            "days": [i % 30 for i in range(100)] + [30] * 4,
        }
    ),
    "calls": pa.table(
        {
            "caller": [f"p{i}" for i in range(50)] * 2 + ["p99"] * 5,
            "minutes": [i % 60 for i in range(100)] + [60] * 5,
            "urgent": [i % 4 == 0 for i in range(100)] + [True] * 5,
        }
    ),
}
DOMAINS = {"visits": VISITS, "calls": CALLS}
UNITS = {
    "visits": sd.PrivacyUnit("person", max_rows=2, of="person"),
    "calls": sd.PrivacyUnit("caller", max_rows=2, of="person"),
}
BOTH = "SELECT (SELECT COUNT(*) FROM calls) * 1.0 / COUNT(*) AS calls_a_visit FROM visits"


def protect(**changed: Any) -> Any:
    stated: dict[str, Any] = {
        "domain": DOMAINS,
        "neighbors": "add_remove",
        "privacy_unit": UNITS,
        "budget": sd.PureDP(10**9),
        "ledger": None,
        "rng": sd.Rng.seeded(3),
    }
    return sd.protect(ROWS, **{**stated, **changed})


@pytest.mark.deep
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 2 of the 5 rows of p0, and of the 5 of p99.
        ("SELECT COUNT(*) AS v, (SELECT COUNT(*) FROM calls) AS c FROM visits", [{"v": 101, "c": 102}]),
        (
            "SELECT 'visits' AS t, COUNT(*) AS n FROM visits UNION ALL SELECT 'calls', COUNT(*) FROM calls ORDER BY t",
            [{"t": "calls", "n": 102}, {"t": "visits", "n": 101}],
        ),
        # The table that is named first need not be the one that most is asked about.
        (
            "SELECT COUNT(*) AS n FROM calls WHERE minutes >= (SELECT 10 * COUNT(DISTINCT ward) FROM visits)",
            [{"n": 62}],
        ),
        (
            "WITH w AS (SELECT ward, COUNT(DISTINCT person) AS n FROM visits GROUP BY ward), u AS (SELECT"
            " COUNT(DISTINCT caller) AS n FROM calls) SELECT ward, w.n - u.n AS more FROM w CROSS JOIN u ORDER BY ward",
            [{"ward": "a", "more": -1}, {"ward": "b", "more": -1}],
        ),
        # An alias that is a column of the other table alone.
        (
            "SELECT urgent AS ward, COUNT(DISTINCT caller) AS n, (SELECT COUNT(DISTINCT person) FROM visits) AS p"
            " FROM calls GROUP BY ward ORDER BY ward",
            None,
        ),
    ],
)
def test_each_block_is_asked_of_its_own_table(text: str, expected: Any) -> None:
    answer = protect().ask(sd.sql(text), epsilon=100_000)
    if expected is not None:
        assert [
            {k: v if isinstance(v, str) else round(v) for k, v in row.items()} for row in answer.table.to_pylist()
        ] == expected
    else:
        assert [row["ward"] for row in answer.table.to_pylist()] == [False, True]


def test_the_loss_is_the_sum_over_both_tables_and_one_charge() -> None:
    held = protect(budget=sd.PureDP(1))
    plan = held.plan(sd.sql(BOTH), epsilon=1)
    assert [str(part) for part in plan.event.pure().as_integer_ratio()] == ["1", "1"]
    assert "epsilon 0.5 for the number of rows, of calls" in str(plan)
    held.ask(plan)
    assert held.table("visits").spent == held.table("calls").spent == sd.PureDP(1)
    with pytest.raises(BudgetExhausted):
        held.ask(sd.sql("SELECT COUNT(*) FROM calls"), epsilon="0.001")


def test_both_declarations_are_on_record(tmp_path: Any) -> None:
    """Who declares the other table otherwise afterwards is refused, as after a question about it alone."""
    place = tmp_path / "ledger.sqlite"
    protect(ledger=place, rng=sd.Rng.secure(), budget=sd.PureDP(10)).ask(sd.sql(BOTH), epsilon=1)
    wider = {**UNITS, "calls": sd.PrivacyUnit("caller", max_rows=3, of="person")}
    with pytest.raises(DeclarationChanged, match="calls"):
        protect(ledger=place, rng=sd.Rng.secure(), budget=sd.PureDP(10), privacy_unit=wider)


def test_answers_are_those_of_the_made_up_tables_on_request() -> None:
    held = protect()
    assert held.ask(sd.sql(BOTH), epsilon=1, on="dummy").practice
    assert held.table("visits").spent == sd.PureDP(0)


@pytest.mark.parametrize(
    "text",
    [
        # A sample is drawn of the first table, so the loss would not be that of a sample.
        "SELECT COUNT(*) AS n, (SELECT COUNT(*) FROM calls TABLESAMPLE BERNOULLI(10 PERCENT)) AS m FROM visits",
        # Rows of single persons.
        "SELECT COUNT(*) AS n, (SELECT MAX(minutes) FROM calls) AS m FROM visits",
        "SELECT days FROM visits UNION ALL SELECT COUNT(*) FROM calls",
        "SELECT COUNT(*) AS n FROM visits, calls",
        "SELECT COUNT(*) AS n FROM visits JOIN calls ON days = minutes",
    ],
)
def test_what_has_no_one_meaning_is_refused_before_the_charge(text: str) -> None:
    held = protect()
    with pytest.raises(SordinoError):
        held.ask(sd.sql(text), epsilon=1)
    assert held.table("visits").spent == sd.PureDP(0)


def test_tables_of_two_budgets_are_asked_about_by_themselves() -> None:
    """Nor do two kinds of unit share a budget, which a ledger refuses."""
    units = {**UNITS, "calls": sd.PrivacyUnit("caller", max_rows=2, of="household")}
    with pytest.raises(DeclarationError, match="cannot share a ledger"):
        protect(privacy_unit=units).ask(sd.sql(BOTH), epsilon=1)


def test_tables_whose_rows_are_units_share_a_statement() -> None:
    answer = protect(privacy_unit={"visits": "row", "calls": "row"}).ask(
        sd.sql("SELECT COUNT(*) AS v, (SELECT COUNT(*) FROM calls) AS c FROM visits"), epsilon=100_000
    )
    assert answer.rows == [{"v": 104, "c": 105}]
