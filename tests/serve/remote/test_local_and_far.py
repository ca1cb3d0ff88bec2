"""The same script against a local project and a far one: the same types, columns, plans, errors, and at huge epsilon answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import sordino as sd
from far import far_project
from serving import write_project
from sordino import col
from sordino.errors import BudgetExhausted, DeclarationError, QuestionRefused, SordinoError, UnknownName

HUGE = 1_000_000
SQL = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex"
Question = Callable[[Any], Any]
QUESTIONS: dict[str, Question] = {
    "count": lambda _: sd.count(),
    "list": lambda _: [sd.count(), sd.mean("age"), sd.sum("age")],
    "where": lambda t: t.where((col("age") > 30) & col("sex").is_in(["f"])).agg(n=sd.count()),
    "groups": lambda t: t.group_by("sex", band=col("age").bin(width=30)).agg(sd.count(), m=sd.mean("age")),
    "listed": lambda t: t.group_by("sex", keys=["m"]).agg(sd.count()),
    "formula": lambda t: t.agg(ratio=sd.sum(col("age").clip(0, 90)) / sd.count()),
    "having": lambda t: t.group_by("sex").agg(sd.count()).having(col("count") > 3).order_by(-col("count")).limit(1),
    "moments": lambda _: [sd.variance("age", ddof=1), sd.std("age")],
    "distinct": lambda _: sd.count_distinct("sex"),
    "quantiles": lambda _: sd.quantiles("age", [0.255, 0.505]),
    "choice": lambda _: sd.most_common(col("age").bin([0, 10, 100])),
    "histogram": lambda _: sd.histogram("age", edges=[0, 50, 100]),
    "cases": lambda t: t.agg(s=sd.sum(sd.when(col("age") > 64, 1).otherwise(0))),
    "robust": lambda _: sd.smooth("median", "age"),
    "sql": lambda _: sd.sql(SQL),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    near = sd.connect(write_project(tmp_path_factory.mktemp("near"), cap=10**10))
    directory = tmp_path_factory.mktemp("far")
    made = far_project(directory, epsilon=str(10**9), cap=10**10)
    with made as (server, url), sd.connect(url, token=server.tokens["rich"]) as far:
        yield near, far


@pytest.mark.each(4)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_the_same_near_and_far(pair: tuple[Any, Any], name: str) -> None:
    near, far = (one.table("people") for one in pair)
    question = QUESTIONS[name]
    plans = [t.plan(question(t), epsilon=HUGE, assume_rows=1000) for t in (near, far)]
    # Each test has a directory of its own for high-water marks, which the ledger, opened before, is not known in.
    near_plan = plans[0].to_dict()
    near_plan["notes"] = [
        note for note in near_plan["notes"] if not note.startswith("this machine has no high-water mark")
    ]
    assert near_plan == plans[1].to_dict() | {"earlier": list(plans[0].earlier)}
    assert plans[0].cost == plans[1].cost
    if name != "robust":
        assert plans[0].error(0.9) == plans[1].error(0.9)
    answers = [t.ask(plan) for t, plan in zip((near, far), plans, strict=True)]
    assert type(answers[0]) is type(answers[1]) is sd.Release
    assert answers[0].table.schema == answers[1].table.schema
    assert answers[0].question == answers[1].question
    assert answers[0].columns == answers[1].columns
    for one, other in zip(answers[0].rows, answers[1].rows, strict=True):
        for key, value in one.items():
            assert other[key] == (pytest.approx(value, abs=1e-2) if isinstance(value, float) else value)


def script(project: Any) -> dict[str, Any]:
    """Ask what an analyst asks in a morning, and return what it was answered, in words that have no chance in them."""
    people = project.table("people")
    plan = people.plan(sd.count(), epsilon=Fraction(1, 3))
    answer = people.ask(plan)
    again = people.ask(sd.count(), epsilon="0.5", request_id="morning")
    batch = people.plan([people.agg(sd.count()), sd.sql(SQL)], epsilon=2, weights=[1, 3], assume_rows=1000)
    several = people.ask(batch)
    wanted = people.plan([people.agg(sd.count())], error=10)
    selects = project.ask(sd.sql("SELECT COUNT(*) AS n FROM people; SELECT AVG(age) AS a FROM people"), epsilon=1)
    shown: list[Any] = []
    people.ask(sd.count(), epsilon=1, confirm=shown.append)
    return {
        "plan": (plan.cost, plan.names if isinstance(plan, sd.Plan) else ["count"], plan.error(0.95)),
        "answer": (answer.columns, answer.cost, type(answer.value), len(answer.interval(0.95)), answer.privacy_unit),
        "stored": people.ask(sd.count(), epsilon="0.5", request_id="morning").value == again.value,
        "batch": (batch.cost, batch.errors(), [r.columns for r in several], [r.cost for r in several]),
        "wanted": (wanted.cost, wanted.errors()),
        "selects": [(r.columns, r.cost) for r in selects],
        "confirmed": [p.cost for p in shown],
        "html": answer._repr_html_()[:20],
        "picture": type(sd.plot(several[1])).__name__,
        "arrow": pa.table(several[1]).column_names,
        "practice": people.ask(sd.count(), epsilon=1, on="dummy").practice,
        "spent": sum((r.cost.amounts()["epsilon"] for r in people.releases()), Fraction(0)),
        "explained": people.explain(answer.charge) == sd.explain(answer),
        "release": project.release(answer.charge).value == answer.value,
        "budget": [(type(b.cap), b.charges) for b in project.budgets()],
        "domain": sorted(sd.dummy(people.domain, rows=3).column_names),
        "neighbors": people.neighbors.describe(),
    }


def test_a_script_runs_near_and_far_by_one_line(tmp_path: Path) -> None:
    near_place, far_place = tmp_path / "near", tmp_path / "far"
    near_place.mkdir()
    far_place.mkdir()
    with far_project(far_place, epsilon="9") as (server, url):
        assert script(sd.connect(write_project(near_place))) == script(sd.connect(url, token=server.tokens["rich"]))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "unknown column": lambda t: t.plan(sd.mean("agee"), epsilon=1),
    "text": lambda t: t.plan("SELECT COUNT(*) FROM people", epsilon=1),
    "no loss": lambda t: t.plan(sd.count()),
    "another table": lambda t: t.plan(sd.sql("SELECT COUNT(*) AS n FROM others"), epsilon=1),
    "rows": lambda t: t.head(),
    "an expression": lambda t: t.plan(col("age"), epsilon=1),
    "too dear": lambda t: t.ask(sd.count(), epsilon=10**11),
    "a list": lambda t: t.ask([t.agg(sd.count())], epsilon=1),
    "a plan with a loss": lambda t: t.ask(t.plan(sd.count(), epsilon=1), epsilon=1),
    "confidence": lambda t: t.plan(sd.count(), epsilon=1).error(95),
    "no bounds": lambda t: t.plan(sd.sum(col("age") / col("age")), epsilon=-1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_is_the_same_near_and_far(pair: tuple[Any, Any], name: str) -> None:
    caught: list[SordinoError] = []
    for project in pair:
        with pytest.raises(SordinoError) as found:
            REFUSED[name](project.table("people"))
        caught.append(found.value)
    assert type(caught[0]) is type(caught[1])
    assert caught[0].exit_code == caught[1].exit_code
    if not isinstance(caught[0], BudgetExhausted):
        assert str(caught[0]) == str(caught[1])


def test_what_stays_beside_the_table_is_refused_by_name(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url), sd.connect(url, token=server.tokens["ana"]) as far:
        table, connect = far.table(), cast("Callable[..., Any]", sd.connect)
        for thing, name in (
            (table, "adapt"),
            (table, "find_bounds"),
            (table, "ledger"),
            (far, "report"),
            (far, "amend"),
        ):
            with pytest.raises(QuestionRefused, match=f"{name} is not to be had from far away"):
                getattr(thing, name)
            assert not hasattr(thing, name)
        with pytest.raises(AttributeError, match="no attribute 'frame'"):
            _ = table.frame
        with pytest.raises(UnknownName, match="no table 'peple' is declared; did you mean 'people'"):
            far.table("peple")
        with pytest.raises(DeclarationError, match="the token"):
            connect(url, token="x", spender="ana")


def test_many_are_asked_at_once_by_the_async_client(tmp_path: Path) -> None:
    async def run(url: str, token: str) -> None:
        async with sd.connect_async(url, token=token) as far:
            people = far.table("people")
            plan = await people.plan(people.group_by("sex").agg(sd.count()), epsilon="0.1")
            answers = await asyncio.gather(*(people.ask(sd.count(), epsilon="0.1") for _ in range(8)), people.ask(plan))
            assert len({a.charge for a in answers}) == 9
            assert (await people.spent()).amounts()["epsilon"] == Fraction(9, 10)
            assert [r.charge for r in await far.releases()] == [c["id"] for c in await far.charges()]
            assert (await far.budgets())[0].own_loss("cap") == sd.PureDP(2)
            with pytest.raises(BudgetExhausted):
                await far.ask(sd.sql("SELECT COUNT(*) AS n FROM people"), epsilon=5)
            with pytest.raises(DeclarationError, match="confidence"):
                plan.error(0.9)

    with far_project(tmp_path) as (server, url):
        asyncio.run(run(url, server.tokens["ana"]))
