"""A private question inside another: its released value is a constant there, and shape and noise follow from its range."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sordino as sd
from ask.curator.test_statements import answer_and_duckdb, is_near, open_visits, rows  # noqa: F401
from privacy.units import parts_of, within
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.plan import open_rows
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Compare, Name, Released
from sordino.ask.queries.expressions.released import TOKEN, ReleasedValues, check_tokens, label_text, whole_steps
from sordino.errors import QuestionRefused

INSIDE = [
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) FROM visits)",
    "SELECT store, COUNT(*) AS n FROM visits WHERE amount >= (SELECT MEDIAN(amount) + 0.5 FROM visits) GROUP BY store",
    "SELECT store, COUNT(*) AS n FROM visits WHERE amount > 1.2 * (SELECT AVG(amount) FROM visits) AND member GROUP BY store",
    "SELECT SUM(CASE WHEN amount > (SELECT AVG(amount) FROM visits) THEN 1 ELSE 0 END) AS above FROM visits",
    "SELECT COUNT(*) FILTER (WHERE amount > (SELECT AVG(amount) FROM visits WHERE member)) AS n FROM visits",
    "SELECT AVG(amount - (SELECT AVG(amount) FROM visits WHERE member)) AS apart FROM visits WHERE NOT member",
    "SELECT year, COUNT(*) AS n FROM visits WHERE store = (SELECT store FROM visits GROUP BY store"
    " ORDER BY COUNT(*) DESC LIMIT 1) GROUP BY year ORDER BY year",
    "SELECT store, SUM(amount) AS n FROM visits WHERE store IN (SELECT store FROM visits GROUP BY store"
    " ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY store",
    "SELECT COUNT(*) AS n FROM visits WHERE store NOT IN (SELECT store FROM visits GROUP BY store HAVING COUNT(*) > 300)",
    "SELECT COUNT(*) AS n FROM visits WHERE year IN (SELECT year FROM visits GROUP BY year HAVING COUNT(*) > 100)",
    "SELECT COUNT(*) AS n FROM visits WHERE year = (SELECT MAX(year) FROM (SELECT year, COUNT(*) AS n FROM visits"
    " GROUP BY year) t WHERE n > 100)",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT mean FROM a)",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits, a WHERE amount > a.mean",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits CROSS JOIN a WHERE amount > a.mean",
    "WITH high AS (SELECT * FROM visits WHERE amount > (SELECT AVG(amount) FROM visits))"
    " SELECT store, COUNT(*) AS n FROM high GROUP BY store",
    "SELECT store, COUNT(*) AS n FROM (SELECT * FROM visits WHERE amount > (SELECT AVG(amount) FROM visits)) t GROUP BY store",
    "SELECT amount > (SELECT AVG(amount) FROM visits) AS above, COUNT(*) AS n FROM visits GROUP BY 1",
    # Of no row the value is NULL, and so is the key of every row.
    "SELECT amount > (SELECT AVG(amount) FROM visits HAVING COUNT(*) > 1000000) AS above, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT CASE WHEN amount > (SELECT AVG(amount) FROM visits) THEN 'high' ELSE 'low' END AS size, COUNT(*) AS n"
    " FROM visits GROUP BY 1",
    "SELECT COUNT(*) AS n FROM visits WHERE amount BETWEEN (SELECT AVG(amount) - STDDEV_POP(amount) FROM visits)"
    " AND (SELECT AVG(amount) + STDDEV_POP(amount) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount * 100 > (SELECT COUNT(*) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) FROM visits WHERE amount >"
    " (SELECT AVG(amount) FROM visits))",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT MAX(m) FROM (SELECT store, AVG(amount) AS m FROM visits"
    " GROUP BY store) t)",
    "SELECT COUNT(*) AS n FROM (SELECT person, SUM(amount) AS s FROM visits GROUP BY person) t"
    " WHERE s > 2 * (SELECT AVG(amount) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits AS v WHERE amount > (SELECT AVG(amount) FROM visits AS w WHERE w.store = v.store)",
    "SELECT v.store, COUNT(*) AS n FROM visits v WHERE v.amount > (SELECT AVG(w.amount) FROM visits w WHERE w.store = v.store"
    " AND w.member) GROUP BY v.store",
    "WITH a AS (SELECT store, AVG(amount) AS mean FROM visits GROUP BY store)"
    " SELECT v.store, COUNT(*) AS n FROM visits v JOIN a ON v.store = a.store WHERE v.amount > a.mean GROUP BY v.store",
    "SELECT v.year, AVG(v.amount - a.mean) AS n FROM visits v LEFT JOIN (SELECT store, AVG(amount) AS mean FROM visits"
    " GROUP BY store) a ON a.store = v.store GROUP BY v.year",
    "SELECT COUNT(*) AS n FROM visits v WHERE 1 > (SELECT COUNT(*) FROM visits w WHERE w.store = v.store AND w.store <> 'north')",
    "SELECT COUNT(*) AS n FROM visits v JOIN (SELECT year FROM visits GROUP BY year HAVING COUNT(*) > 130) y USING (year)",
]


@pytest.mark.deep
@pytest.mark.parametrize("text", INSIDE)
def test_answers_are_those_of_duckdb(rows: pa.Table, text: str) -> None:  # noqa: F811
    answer, expected = answer_and_duckdb(open_visits(rows), text, visits=rows)
    right = {row[:-1]: row for row in expected}
    for row in answer:
        # A declared key that no row has is there, with a count of about 0.
        assert all(map(is_near, row, right.pop(row[:-1], (*row[:-1], 0)))), (text, row)
    assert not right


MEANS = "WITH a AS (SELECT store, AVG(amount) AS mean FROM visits WHERE store <> 'north' GROUP BY store)"
REFUSED = [
    # No range of COUNT follows from the declarations, so a sum of what is computed with it has no sensitivity.
    "SELECT SUM(amount * (SELECT COUNT(*) FROM visits)) AS n FROM visits",
    # Persons are never compared with what is released.
    "SELECT COUNT(*) AS n FROM visits WHERE person = (SELECT store FROM visits GROUP BY store LIMIT 1)",
    # An extreme is a single person's value.
    "SELECT COUNT(*) AS n FROM visits WHERE amount = (SELECT MAX(amount) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount), COUNT(*) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT COUNT(*) FROM nothing)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > sordino_released_0",
    # What looks like a token could not be bound, or would be bound within a text.
    "SELECT COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits WHERE person = 'sordino_released_0' GROUP BY store",
    "SELECT COUNT(*) AS n FROM visits WHERE person = 'x''sordino_released_0''y' AND amount > (SELECT AVG(amount) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE person = 'CAST(''sordino_released_0'' AS BIGINT)' AND amount >"
    " (SELECT AVG(amount) FROM visits)",
    # Only inner joins and left joins of a released query are values of a row.
    f"{MEANS} SELECT COUNT(*) AS n FROM visits v ANTI JOIN a ON v.store = a.store",
    f"{MEANS} SELECT COUNT(*) AS n FROM visits v RIGHT JOIN a ON v.store = a.store WHERE v.amount > 200",
    f"{MEANS} SELECT COUNT(*) AS n FROM visits v FULL JOIN a ON v.store = a.store",
    "SELECT COUNT(*) AS n FROM visits v WHERE 1 > (SELECT 2 * COUNT(*) FROM visits w WHERE w.store = v.store)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) + sordino_released_0 FROM visits)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_range_or_is_a_person_is_refused_and_costs_nothing(rows: pa.Table, text: str) -> None:  # noqa: F811
    visits = open_visits(rows)
    with pytest.raises(QuestionRefused):
        visits.ask(sd.sql(text), epsilon=1)
    assert visits.spent.amounts()["epsilon"] == 0


def test_a_released_value_has_no_place_outside_of_its_statement(rows: pa.Table) -> None:  # noqa: F811
    visits = open_visits(rows)
    stranger = Compare(">", Name("amount"), Released("sordino_released_0", "number", "SELECT 1"))
    visits_where = visits.where(Expr(stranger))
    with pytest.raises(QuestionRefused, match="a place in the statement that releases it"):
        visits.ask(visits_where.agg(sd.count()), epsilon=1)
    assert visits.spent.amounts()["epsilon"] == 0


@pytest.mark.deep
def test_keys_and_noise_follow_from_the_range_and_not_from_the_value(rows: pa.Table) -> None:  # noqa: F811
    """Every declared year is a key, though the released value leaves one; the plan is the same over any data."""
    text = (
        "SELECT year, COUNT(*) AS n, AVG(amount - (SELECT AVG(amount) FROM visits)) AS apart FROM visits WHERE year ="
        " (SELECT year FROM visits GROUP BY year ORDER BY COUNT(*) DESC LIMIT 1) GROUP BY year ORDER BY year"
    )
    plans = [open_visits(table).plan(sd.sql(text), epsilon=3) for table in (rows, rows.slice(0, 0))]
    assert len({plan.identity() for plan in plans}) == 1
    assert len({repr(plan.error(0.95)) for plan in plans}) == 1
    assert [len(plan.procedure.plans) for plan in plans] == [3, 3]
    assert not any("no row can have" in note for note in plans[0].notes)
    narrowed = open_visits(rows).ask(sd.sql(text.replace("WHERE", "WHERE year < 2021 AND", 1)), epsilon=3)
    assert [row["year"] for row in narrowed.rows] == list(range(2018, 2021))
    for table in (rows, rows.slice(0, 0)):
        release = open_visits(table).ask(sd.sql(text), epsilon=3)
        assert [row["year"] for row in release.rows] == list(range(2018, 2025))


@pytest.mark.each(2)
@pytest.mark.parametrize("steps", [0, 100 * 10**9, 50_123_456_789, None])
def test_a_text_runs_at_both_ends_of_the_range_and_at_null(rows: pa.Table, steps: int | None) -> None:  # noqa: F811
    """A number's token is whole steps of a billionth here: nothing that may be released makes a written text fail."""
    text = "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) FROM visits)"
    visits = open_visits(rows)
    plan = visits.plan(sd.sql(text), epsilon=3)
    assert plan.question.released[0].unit.denominator == 10**9
    with open_rows(visits._engine, plan.reads) as access:
        bound = access.bind(ReleasedValues({"sordino_released_0": steps}, {}, {}))
        block = plan.procedure.plans[-1].procedure
        answer = block.release(block.write(bound), bound, sd.Rng.seeded(1))
    content = answer if isinstance(answer, tuple) else (answer.keys, answer.outputs)
    value = content[1][0].estimate.values()[0]
    cells = rows.column("amount").to_pylist()
    right = 0 if steps is None else sum(cell * 10**9 > steps for cell in cells)
    assert abs(value - right) < 200


def test_tokens_hold_any_text() -> None:
    """Whatever a released value is, the text holds '0', '1', whole numbers or NULL in its place."""
    label = "it's; DROP TABLE x --"
    values = ReleasedValues({f"{TOKEN}0": -5}, {f"{TOKEN}1": {"a": 7}}, {f"{TOKEN}2": frozenset([label, None])})
    tokens = [
        f"{TOKEN}0",
        *(f"{TOKEN}1={x.encode().hex()}" for x in "ab"),
        *(f"{TOKEN}2={x.encode().hex()}" for x in (label, "b")),
    ]
    text = ", ".join(f"CAST('{token}' AS BIGINT)" for token in tokens)
    check_tokens(text, values.names)
    bound = values.bind(text).replace("CAST(", "").replace(" AS BIGINT)", "")
    assert bound == "'-5', '7', NULL, '1', NULL"
    for wrong in (f"'{TOKEN}0'", f"CAST(''{TOKEN}0'' AS BIGINT)", f"CAST('{TOKEN}9' AS BIGINT)", f"{text} {TOKEN}"):
        with pytest.raises(QuestionRefused):
            check_tokens(wrong, values.names)


def test_a_released_number_counts_within_its_range() -> None:
    node = Released("sordino_released_0", "number", "SELECT 1", Fraction(1, 10), Fraction(0), Fraction(100))
    assert [whole_steps(value, node) for value in (-3.5, 12.34, 250, Decimal("99.96"))] == [0, 123, 1000, 1000]
    assert [whole_steps(value, node) for value in (None, float("nan"), float("inf"), "12")] == [None] * 4
    assert whole_steps(-(10**30), Released("x", "number", "SELECT 1")) == -(2**62)


def test_equal_values_of_any_type_have_one_text() -> None:
    day = dt.date(2024, 2, 29)
    moment = dt.datetime(2024, 2, 29, 1, 2, 3)
    assert label_text(0.1) == label_text(Fraction(1, 10)) == label_text(Decimal("0.10")) == "0.1"
    assert label_text(3) == label_text(3.0) == "3"
    assert label_text(day) == label_text(dt.datetime(2024, 2, 29)) == "2024-02-29"
    assert label_text(moment) == label_text(moment.replace(tzinfo=dt.UTC))
    assert label_text(True) != label_text(1)


@pytest.mark.deep
def test_it_is_stored_priced_as_its_blocks_and_answered_once(rows: pa.Table, tmp_path: Path) -> None:  # noqa: F811
    visits = open_visits(rows, ledger=tmp_path / "budget.ledger")
    first = visits.ask(sd.sql(INSIDE[0]), epsilon=1, request_id="one")
    again = visits.ask(sd.sql(INSIDE[0]), epsilon=1, request_id="one")
    assert again.rows == first.rows
    assert visits.spent == sd.PureDP(1)
    assert visits.release(first.charge).rows == first.rows
    assert visits.ask(sd.sql(INSIDE[0]), epsilon=1, on="dummy").practice


@pytest.mark.deep
@pytest.mark.parametrize("text", [INSIDE[0], INSIDE[3], INSIDE[5], INSIDE[7], INSIDE[24]])
def test_no_person_moves_the_outer_block_by_more_than_its_sensitivity(rows: pa.Table, text: str) -> None:  # noqa: F811
    """Brute force: for released values anywhere in their range, all persons of a small table, added or removed."""
    small = rows.slice(0, 30)
    people = sorted(set(small.column("person").to_pylist()))
    plan = open_visits(small).plan(sd.sql(text), epsilon=3)
    block = plan.procedure.plans[-1]
    names = [constant.name for constant in plan.question.statement.constants]

    def exact(table: pa.Table) -> list[list[dict[Any, int]]]:
        """Return the exact vectors where the released values are each of some numbers of steps."""
        compiled = block.procedure.compiled
        values = dict.fromkeys(names, frozenset(["north", "west", None]))
        answers = []
        with open_rows(open_visits(table)._engine, plan.reads) as access:
            for steps in (0, 37 * 10**9, 100 * 10**9, None):
                lookup: dict[str | None, int | None] = dict.fromkeys(["north", "west"], steps)
                kinds = zip(names, plan.question.released, strict=True)
                lookups = {name: lookup for name, node in kinds if node.kind == "lookup"}
                on = access.bind(ReleasedValues(dict.fromkeys(names, steps), lookups, values))
                found = on.run(on.write(compiled.select(on.primitives())))
                vectors = exact_vectors(found, compiled, [vector.part for vector in parts_of(block)])
                answers.append([dict(enumerate(vector)) for vector in vectors])
        return answers

    whole = exact(small)
    for person in people:
        rest = exact(small.filter(pc.not_equal(small.column("person"), person)))
        for vectors, others in zip(whole, rest, strict=True):
            for part, one, other in zip(parts_of(block), vectors, others, strict=True):
                assert within(one, other, part.sensitivity, part.part.unit) is None, person
