"""What `plan` prices, `ask` answers: every form of SQL that the grammar lists, in every place."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import Statement
from sordino.ask.queries.sql.grammar import AGGREGATE_FORMS, CLAUSE_FORMS, ROW_FORMS, TIME_FORMS
from sordino.errors import ChargedError, DeclarationError, QuestionRefused, UnknownName
from sordino.lab.sensitivity.worst_case import worst_case_sensitivity

_DIALECTS = {"SafeDivide": "bigquery", "RawString": "bigquery"}
_JOBS = sd.Category(["nurse", "cook"], missing="keep")
_DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "pay": sd.Integer(0, 90_000),
        "rate": sd.Real(-1, 1, resolution="1e-6"),
        "price": sd.Real(0, 99, resolution="0.01"),
        "free": sd.Integer(),
        "far": sd.Real(-1e38, 1e38, resolution=1e20),
        "job": _JOBS,
        "member": sd.Boolean(missing="keep"),
        "joined": sd.Date("2000-01-01", "2020-12-31"),
        "seen": sd.DateTime("2000-01-01", "2020-12-31", zone="Europe/Berlin"),
        "town": sd.Identifier(),
        "tags": sd.List(sd.Category(["a", "b"]), max_items=3),
    }
)
_DAY = datetime.date(2012, 2, 29)
_ROW: dict[str, Any] = {
    "id": "p1",
    "age": 40,
    "pay": 900,
    "rate": 0.25,
    "price": decimal.Decimal("9.50"),
    "free": 7,
    "far": 1e30,
    "job": "nurse",
    "member": True,
    "joined": _DAY,
    "seen": datetime.datetime(2012, 2, 29, 12, tzinfo=datetime.UTC),
    "town": "x",
    "tags": ["a", "b"],
}
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("age", pa.int64()),
        ("pay", pa.int32()),
        ("rate", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("free", pa.int64()),
        ("far", pa.float64()),
        ("job", pa.string()),
        ("member", pa.bool_()),
        ("joined", pa.date32()),
        ("seen", pa.timestamp("us", "UTC")),
        ("town", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
_TABLE = pa.Table.from_pylist([_ROW, {"id": "p2"}, {**_ROW, "id": "p3", "age": 0}, {"tags": []}], _SCHEMA)
_NUMBERS = ("age", "pay", "rate", "price", "far")

# {} stands for a value or a condition of a row
_PLACES = (
    "SELECT COUNT(DISTINCT {}) FROM people",
    "SELECT COUNT(DISTINCT {}, job) FROM people",
    "SELECT COUNT(DISTINCT job, {}) FROM people",
    "SELECT COUNT(DISTINCT ({}, job)) FROM people",
    "SELECT MODE({}) FROM people",
    "SELECT COUNT(*) FROM people WHERE {}",
    "SELECT COUNT(*) FROM people WHERE {} IS NOT NULL",
    "SELECT COUNT(*) FROM people WHERE ({}) = ({})",
    "SELECT COUNT(*) FILTER (WHERE {}) FROM people",
    "SELECT COUNT(*) FILTER (WHERE {} IS NULL) FROM people",
    "SELECT SUM(CASE WHEN member THEN {} END) FROM people",
    "SELECT SUM(CASE WHEN {} THEN 1 ELSE 0 END) FROM people",
    "SELECT {} AS k, COUNT(*) FROM people GROUP BY {}",
    "SELECT {} AS k, job, MEDIAN(age), COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT {} AS k, AVG(pay) AS m FROM people GROUP BY 1 HAVING COUNT(*) > 1 ORDER BY m LIMIT 2",
    "SELECT town, COUNT(*), AVG({}) FROM people GROUP BY town",
    "SELECT town, MEDIAN({}) FROM people GROUP BY town",
    "SELECT job, STDDEV({}), COUNT(DISTINCT {}) FROM people GROUP BY job",
    "SELECT AVG(x), MEDIAN(x), COUNT(DISTINCT x, job) FROM (SELECT {} AS x, job FROM people WHERE age > 3) AS t",
    "SELECT SUM({}) AS a, QUANTILE_CONT({}, 0.3) AS b FROM people TABLESAMPLE BERNOULLI (50 PERCENT)",
    "SELECT COUNT(*) AS n, COUNT({}) / COUNT(*) AS share FROM people",
    "SELECT AVG(v), COUNT(DISTINCT v) FROM (SELECT id, MAX({}) AS v FROM people GROUP BY id) AS t",
    "SELECT MEDIAN(v) FROM (SELECT id, SUM({}) AS v FROM people GROUP BY id) AS t",
    "SELECT v, COUNT(*) FROM (SELECT id, COUNT(DISTINCT {}) AS v FROM people GROUP BY id) AS t GROUP BY v",
    "SELECT j.sector, SUM({}) FROM people JOIN jobs AS j ON people.job = j.job GROUP BY j.sector",
)


@pytest.fixture(scope="module")
def tables() -> list[sd.Curator]:
    """Two tables of the same rows: each row a unit, and people of at most three rows."""
    sectors = pa.table({"job": ["nurse", "cook"], "sector": ["care", "food"]})
    declared = sd.Domain({"job": _JOBS, "sector": sd.Category(["care", "food"])})
    public = {"jobs": sd.public(sectors, key="job", columns=declared)}
    budget = sd.ApproxDP(10**9, "0.5")
    units: tuple[str | sd.PrivacyUnit, ...] = ("row", sd.PrivacyUnit("id", max_rows=3))
    return [protect(_TABLE, _DOMAIN, public=public, budget=budget, name="people", unit=unit) for unit in units]


def _forms() -> Iterator[tuple[str | None, str]]:
    """Yield every form of a row with its dialect, its first number in turn one of each type."""
    for name, (example, _) in (ROW_FORMS | TIME_FORMS).items():
        found = next((n for n in _NUMBERS if re.search(rf"\b{n}\b", example)), None)
        for other in _NUMBERS if found else ("",):
            yield _DIALECTS.get(name), re.sub(rf"\b{found}\b", other, example) if found else example


def _questions() -> list[tuple[str | None, str]]:
    """Return every form of a row in every place and under every aggregate, and every clause."""
    aggregates = [example for example, _ in AGGREGATE_FORMS.values()]
    places = [*_PLACES]
    places += [
        "SELECT " + re.sub(r"\bage\b", "({})", a) + " FROM people" for a in aggregates if re.search(r"\bage\b", a)
    ]
    made = [(d, place.replace("{}", form)) for (d, form), place in itertools.product(_forms(), places)]
    return [*((None, text) for _, text, _ in CLAUSE_FORMS), *made]


_QUESTIONS = _questions()


def _is_answered(curator: sd.Curator, text: str, dialect: str | None) -> bool:
    """Return whether a question is priced; what is must be answered."""
    # of private keys alone
    delta = "1e-12" if "town" in text else None
    question = sd.sql(text, dialect=dialect)
    try:
        curator.plan(question, epsilon=1, delta=delta)
    except (QuestionRefused, DeclarationError, UnknownName):
        return False
    try:
        curator.ask(question, epsilon=1, delta=delta)
    except Exception as failure:
        raise AssertionError(f"priced and not answered: {text}") from failure
    return True


def test_what_is_priced_is_answered(tables: list[sd.Curator]) -> None:
    """A sample of all forms in all places; the deep test asks all of them."""
    # DuckDB plans the calendar of a moment, with its zone, for seconds
    short = [question for question in _QUESTIONS if "seen" not in question[1]]
    chosen = random.Random(29).sample(short, 10)
    answered = [_is_answered(tables[i % 2], text, dialect) for i, (dialect, text) in enumerate(chosen)]
    assert sum(answered) > 3


@pytest.mark.deep
@pytest.mark.parametrize("table", [0, 1])
def test_every_form_that_is_priced_in_a_place_is_answered(tables: list[sd.Curator], table: int) -> None:
    """Each other form, of the tables in turn: all of both take seven minutes."""
    answered = [_is_answered(tables[table], text, dialect) for dialect, text in _QUESTIONS[table::4]]
    assert sum(answered) > 375


_KINDS: dict[str, Callable[[sd.Curator], Any]] = {
    "sums and counts": lambda t: t.group_by("job").agg(sd.sum("age"), sd.count()),
    "a quantile": lambda t: t.agg(sd.median("pay")),
    "quantiles of private keys": lambda t: t.group_by("town").agg(sd.median("age")),
    "the most common": lambda _: sd.most_common("job"),
    "a mean without bounds": lambda t: t.agg(sd.mean("free")),
    "a sample": lambda t: t.sample("0.5").agg(sd.count()),
    "weights": lambda t: t.group_by("town", keys="weighted").agg(sd.sum("age")),
    "distinct combinations": lambda t: t.agg(sd.count_distinct(col("joined").year(), "job")),
    "per unit": lambda t: t.per_unit(v=sd.max("age")).agg(sd.mean("v")),
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", _KINDS)
def test_a_text_that_cannot_be_written_costs_nothing(
    tables: list[sd.Curator], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of question writes its text before the charge: where that fails, `plan` and `ask` fail and nothing is spent."""
    table = tables[1]
    question = _KINDS[kind](table)
    delta = "1e-12" if "town" in question.describe() else None
    plan = table.plan(question, epsilon=1, delta=delta)
    before = table.spent

    def refuse(*_: object) -> None:
        raise QuestionRefused("this text cannot be written")

    monkeypatch.setattr(DuckDBEngine, "write", refuse)
    with pytest.raises(QuestionRefused, match="cannot be written"):
        table.ask(plan)
    with pytest.raises(QuestionRefused, match="cannot be written"):
        table.plan(question, epsilon=1, delta=delta)
    assert table.spent == before


def test_no_text_is_written_twice(tables: list[sd.Curator], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before the charge is what runs after it."""
    written: list[str] = []
    ran: list[str] = []
    write, run = DuckDBEngine.write, DuckDBEngine.run

    def note_text(engine: DuckDBEngine, select: Any) -> Statement:
        statement = write(engine, select)
        written.append(statement.text)
        return statement

    def note_run(engine: DuckDBEngine, statement: Any) -> pa.Table:
        ran.append(statement.text)
        return run(engine, statement)

    monkeypatch.setattr(DuckDBEngine, "write", note_text)
    monkeypatch.setattr(DuckDBEngine, "run", note_run)
    tables[0].ask(tables[0].group_by("job").agg(sd.sum("age"), sd.median("age")), epsilon=1)
    assert len(written) == len(ran) == 2
    assert set(written) == set(ran)


def test_weights_after_per_unit_are_of_one_row_a_unit() -> None:
    """Weights after per_unit: each unit is one row with one key; where a join copies that row, they are refused."""
    people = protect(
        pa.table(
            {
                "id": [f"u{i // 2}" for i in range(400)],
                "town": ["a", "b"] * 200,
                "job": ["nurse", "cook"] * 200,
                "age": [20, 40] * 200,
            }
        ),
        sd.Domain(
            {
                "id": sd.Identifier(),
                "town": sd.Identifier(),
                "job": sd.Category(["nurse", "cook"]),
                "age": sd.Integer(0, 99),
            }
        ),
        unit=sd.PrivacyUnit("id", max_rows=3),
        budget=sd.ApproxDP(1000, "0.1"),
        public={
            "shops": sd.public(
                pa.table({"job": ["nurse", "nurse", "cook"], "shop": ["x", "y", "x"]}),
                key="job",
                max_rows=2,
                columns=sd.Domain({"job": sd.Category(["nurse", "cook"]), "shop": sd.Category(["x", "y"])}),
            )
        },
    )
    single = people.per_unit(t=sd.first("town", by="age"), job=sd.first("job", by="age"))
    answer = people.ask(single.group_by("t", keys="weighted").agg(sd.count()), epsilon=20, delta="1e-5")
    assert answer.keys[0].labels == ("a",)
    assert answer.rows[0]["count"] == pytest.approx(200, abs=5)
    joined = single.join("shops", on="job")
    with pytest.raises(QuestionRefused, match="a join makes several of the one row"):
        people.plan(joined.group_by("t", keys="weighted").agg(sd.count()), epsilon=20, delta="1e-5")
    # weights are not chosen either where they are not named
    unnamed = joined.group_by("t").agg(sd.count_distinct("shops.shop"))
    assert people.ask(unnamed, epsilon=200, delta="1e-5").keys[0].labels == ("a",)


def test_a_session_releases_what_ask_answers(tables: list[sd.Curator]) -> None:
    """Joins, lists, per-unit values and the most common value too: what a session refused, it charged."""
    table = tables[1]
    asked: list[Any] = [
        table.unnest("tags").group_by("tags").agg(sd.count()),
        table.join("jobs", on="job").group_by("jobs.sector").agg(sd.count()),
        table.per_unit(v=sd.max("age")).agg(sd.sum("v")),
        sd.most_common("job"),
        table.agg(sd.count()),
    ]
    for question in asked:

        def release(session: Any, question: Any = question) -> sd.Release:
            released: sd.Release = session.release(question, sd.PureDP(1))
            return released

        told, _ = table.adapt(release, describe="one", epsilon=1)
        assert [o.name for o in told.outputs] == [o.name for o in table.ask(question, epsilon=1).outputs]


def test_a_failure_after_the_charge_says_whose_it_is(tables: list[sd.Curator], monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables[0]

    def fail(*_: object) -> None:
        raise AttributeError("a cell: 12345")

    def ask_twice(session: Any) -> None:
        session.release(sd.sum("age"), sd.PureDP(5))

    with pytest.raises(ChargedError, match="did not catch a refusal: it may ask what is left") as refused:
        table.adapt(ask_twice, describe="too much", epsilon=1)
    assert "defect" not in str(refused.value)
    with pytest.raises(ChargedError, match="The cause is not shown") as foreign:
        table.adapt(fail, describe="fails", epsilon=1)
    assert "12345" not in str(foreign.value)
    assert "defect" not in str(foreign.value)
    monkeypatch.setattr("sordino.ask.curator.aggregation_procedure.noisy_columns", fail)
    with pytest.raises(ChargedError, match="This is a defect of Sordino") as own:
        table.ask(sd.count(), epsilon=1)
    assert "12345" not in str(own.value)
    assert "whole and readable" not in str(own.value)


def test_a_count_takes_a_condition(tables: list[sd.Curator]) -> None:
    """As FILTER in SQL: beside other aggregates, under groups, and of a column."""
    asked = sd.sql(
        "SELECT COUNT(*) FILTER (WHERE age > 3) AS count, COUNT(pay) FILTER (WHERE age > 3) AS count_pay FROM people"
    )
    counts = [sd.count(where=col("age") > 3), sd.count("pay", where=col("age") > 3)]
    assert tables[0].plan(counts, epsilon=1).identity() == tables[0].plan(asked, epsilon=1).identity()
    assert tables[0].ask(counts[0], epsilon=10**6).value == 1
    with pytest.raises(QuestionRefused, match="where takes a condition"):
        sd.count(where=_ROW["age"])


def test_the_least_and_the_largest_value_are_refused() -> None:
    for level, near in ((0, "0.01"), (1, "0.99")):
        with pytest.raises(QuestionRefused, match=f"which one row decides: ask for the quantile {near}"):
            sd.quantile("age", level)
    with pytest.raises(QuestionRefused, match=r"quantile 0[.]99"):
        protect(_TABLE, _DOMAIN, name="people").plan(sd.sql("SELECT QUANTILE_CONT(age, 1) FROM people"), epsilon=1)


def test_the_sensitivity_of_what_is_chosen_is_refused_by_name() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 9)})
    for question in (sd.median("x"), sd.quantiles("x", [0.2, 0.4]), [sd.count(), sd.median("x")]):
        with pytest.raises(QuestionRefused, match=r"(is|are) chosen by a selection"):
            worst_case_sensitivity(question, domain, neighbors="add_remove", privacy_unit="row")
