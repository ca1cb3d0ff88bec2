"""One value a person through the curator: plans, answers, samples, joins, what is on record, and what is refused."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from sordino import col
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.per_unit import PerUnit, UnitValue
from sordino.errors import QuestionRefused, UnknownName

DOMAIN = sd.Domain(
    {
        "patient": sd.Identifier(),
        "cost": sd.Real(0, 100, resolution=0.5),
        "region": sd.Category(["N", "S"]),
        "doctor": sd.Identifier(),
        "day": sd.Date("2024-01-01", "2024-12-31"),
    }
)
SCHEMA = pa.schema(
    [
        ("patient", pa.string()),
        ("cost", pa.float64()),
        ("region", pa.string()),
        ("doctor", pa.string()),
        ("day", pa.date32()),
    ]
)
RNG = random.Random(4)
ROWS: list[dict[str, Any]] = [
    {
        "patient": None if RNG.random() < 0.02 else f"p{person}",
        "cost": RNG.choice([None, 0.5, 20.0, 99.5, 250.0]),
        "region": RNG.choice(["N", "S", None]),
        "doctor": RNG.choice(["Ada", "Bo"]) if person < 200 else None,
        "day": datetime.date(2024, 1 + RNG.randrange(12), 3),
    }
    for person in range(300)
    for _ in range(RNG.choice([1, 2, 3, 9]))
]
REGIONS = sd.public(
    pa.table({"region": ["N", "S"], "weight": [1, 3]}),
    key="region",
    columns=sd.Domain({"region": sd.Category(["N", "S"]), "weight": sd.Integer(0, 5)}),
)
TOTAL = "SELECT patient, CLIP(SUM(cost), 0, 300) AS total, COUNT(*) AS n FROM visits GROUP BY patient"


def visits(
    rows: Any = ROWS,
    *,
    neighbors: str = "add_remove",
    unit: Any = sd.PrivacyUnit("patient", max_rows=1),  # noqa: B008
    budget: Any = sd.PureDP(10**9),  # noqa: B008
) -> Any:
    return sd.protect(
        pa.Table.from_pylist(rows, schema=SCHEMA),
        name="visits",
        domain=DOMAIN,
        neighbors=neighbors,
        privacy_unit=unit,
        budget=budget,
        ledger=None,
        rng=sd.Rng.seeded(1),
        public={"regions": REGIONS},
    )


def people() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in ROWS:
        if row["patient"] is not None:
            found.setdefault(row["patient"], []).append(row)
    return found


def total_of(rows: list[dict[str, Any]]) -> float | None:
    costs = [min(r["cost"], 100.0) for r in rows if r["cost"] is not None]
    return min(300.0, sum(costs)) if costs else None


def test_the_mean_of_totals_is_that_of_all_rows_of_a_person() -> None:
    held = visits()
    known = [t for t in map(total_of, people().values()) if t is not None]
    asked = held.per_unit(sd.sum("cost").clip(0, 300).alias("total"), n=sd.count())
    release = held.ask(asked.agg(sd.mean("total"), sd.count()), epsilon=10**6)
    assert release.value["mean_total"] == pytest.approx(sum(known) / len(known), abs=0.01)
    assert release.value["count"] == len(people()), "though max_rows is 1"
    in_sql = held.ask(sd.sql(f"SELECT AVG(total) FROM ({TOTAL}) WHERE n >= 3"), epsilon=10**6)
    many = [t for rows in people().values() if len(rows) >= 3 and (t := total_of(rows)) is not None]
    assert in_sql.value == pytest.approx(sum(many) / len(many), abs=0.01)
    assert release.privacy_unit == "all rows of one patient"
    assert release.notes == (
        "each patient is one row, made of all of its rows: max_rows leaves none out",
        "rows whose patient is missing are left out",
    )
    again = sd.Release.from_dict(release.to_dict())
    assert again.value == release.value


def test_a_plan_states_its_price_and_error_by_one_row_a_person() -> None:
    held = visits(unit=sd.PrivacyUnit("patient", max_rows=40))
    asked = held.per_unit(n=sd.count().clip(0, 20)).agg(sd.sum("n"))
    plan = held.plan(asked, epsilon=1)
    assert plan.cost == sd.PureDP(1)
    assert "all rows of one patient, add/remove" in plan.describe()
    assert plan.error(0.95) == held.plan(sd.count(), epsilon=1).error(0.95) / 2, "a clip of 20, not 40 rows"
    assert held.ask(plan).error(0.95) == plan.error(0.95)


@pytest.mark.each(2)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_both_relations_answer(neighbors: str) -> None:
    held = visits(neighbors=neighbors)
    chosen = held.where(col("region") == "N").per_unit(n=sd.count(), last=sd.last("region", by="day"))
    with_region = sum(any(r["region"] == "N" for r in rows) for rows in people().values())
    assert held.ask(chosen.agg(sd.count()), epsilon=10**6).value == with_region
    table = held.ask(chosen.group_by("last").agg(sd.count()), epsilon=10**6).value
    assert [(r["last"], r["count"]) for r in table] == [("N", with_region)], "no other region is possible"


def test_an_empty_table_answers() -> None:
    held = visits([])
    asked = held.per_unit(t=sd.sum("cost").clip(0, 9), m=sd.mean("cost"))
    found = held.ask(asked.agg(sd.count(), sd.sum("t"), sd.median("m")), epsilon=10**6).value
    assert (found["count"], found["sum_t"]) == (0, 0)


def test_practice_and_batches_take_it() -> None:
    held = visits()
    asked = held.per_unit(t=sd.sum("cost").clip(0, 9)).agg(sd.mean("t"))
    dummy = held.ask(asked, epsilon=1, on="dummy")
    assert dummy.practice
    assert held.spent == sd.PureDP(0)
    batch = held.plan([asked, sd.sql(f"SELECT COUNT(*) FROM ({TOTAL})")], epsilon=2)
    assert len(held.ask(batch)) == 2


def test_a_sample_is_of_persons() -> None:
    held = visits()
    asked = held.sample("1/2").per_unit(n=sd.count()).agg(sd.count())
    plan = held.plan(asked, epsilon=1)
    assert plan.cost.epsilon < 1
    assert 100 < held.ask(held.plan(asked, epsilon=1000)).value < 200
    text = TOTAL.replace("FROM visits", "FROM visits TABLESAMPLE BERNOULLI (50 PERCENT)")
    assert held.plan(sd.sql(f"SELECT COUNT(*) FROM ({text})"), epsilon=1).cost == plan.cost
    with pytest.raises(QuestionRefused, match="add_remove only"):
        visits(neighbors="replace").plan(asked, epsilon=1)


def test_public_tables_are_joined_before_and_after() -> None:
    held = visits()
    weights = {"N": 1, "S": 3}
    truth = sum(min(9, sum(weights.get(r["region"], 0) for r in rows)) for rows in people().values())
    inside = held.join("regions", on="region").per_unit(w=sd.sum("weight").clip(0, 9)).agg(sd.sum("w"))
    assert held.ask(inside, epsilon=10**6).value == truth
    text = (
        "SELECT SUM(w) FROM (SELECT patient, LEAST(SUM(r.weight), 9) AS w FROM visits v JOIN regions r "
        "ON v.region = r.region GROUP BY v.patient)"
    )
    assert held.ask(sd.sql(text), epsilon=10**6).value == truth
    after = held.per_unit(home=sd.max("region")).join("regions", on="home").agg(sd.sum("regions.weight"))
    homes = [max((r["region"] for r in rows if r["region"]), default="") for rows in people().values()]
    assert held.ask(after, epsilon=10**6).value == sum(weights.get(h, 0) for h in homes)
    assert "joined with up to" not in held.plan(after, epsilon=1).describe()


def test_private_keys_are_values_of_persons() -> None:
    held = visits(budget=sd.ApproxDP(10**6, "1e-5"))
    asked = held.per_unit(d=sd.first("doctor", by="day")).group_by("d").agg(sd.count())
    found = held.ask(asked, epsilon=100, delta="1e-9").value
    assert sorted(r["d"] for r in found) == ["Ada", "Bo"]
    assert 190 < sum(r["count"] for r in found) <= 200
    with pytest.raises(QuestionRefused, match="has only one unit"):
        held.plan(held.per_unit(n=sd.count()).group_by("patient").agg(sd.count()), epsilon=1, delta="1e-9")


def test_a_value_of_a_person_has_the_bounds_that_the_declaration_implies() -> None:
    held = visits(unit=sd.PrivacyUnit("patient", max_rows=20))
    sizes = [len(rows) for rows in people().values()]
    asked = held.per_unit(n=sd.count()).agg(sd.mean("n"))
    release = held.ask(asked, epsilon=10**6)
    assert release.value == pytest.approx(sum(sizes) / len(sizes), abs=0.01)
    assert "n of one patient counts within [1, 20], as max_rows implies: clip it for other bounds" in release.notes
    by_size = held.ask(sd.sql(f"SELECT n, COUNT(*) AS c FROM ({TOTAL}) t GROUP BY n"), epsilon=10**6)
    assert [row["n"] for row in by_size.rows] == list(range(1, 21))
    assert [row["c"] for row in by_size.rows] == [sizes.count(n) for n in range(1, 21)]
    totals = held.ask(
        sd.sql("SELECT AVG(s) FROM (SELECT patient, SUM(cost) AS s FROM visits GROUP BY patient) t"), epsilon=10**6
    )
    cost = DOMAIN["cost"]
    assert isinstance(cost, (sd.Integer, sd.Real))
    low, high = cost.lower, cost.upper
    assert low is not None
    assert high is not None
    costs = [[r["cost"] for r in rows if r["cost"] is not None] for rows in people().values()]
    right = [sum(min(max(c, low), high) for c in of) for of in costs if of]
    assert totals.value == pytest.approx(sum(right) / len(right), abs=0.1)
    # What the question clips itself has no other bound.
    own = held.plan(held.per_unit(n=sd.count().clip(0, 40)).agg(sd.mean("n")), epsilon=1)
    assert not any("as max_rows implies" in note for note in own.notes)


def test_what_has_no_bound_is_refused_with_what_to_write() -> None:
    held = visits()
    with pytest.raises(QuestionRefused, match="group by its columns, after it"):
        held.group_by("region").per_unit(n=sd.count())


def test_a_row_that_is_its_own_unit_is_refused_with_the_reason() -> None:
    held = visits(unit="row")
    with pytest.raises(QuestionRefused, match="each row is a unit of its own"):
        held.plan(held.per_unit(n=sd.count()).agg(sd.count()), epsilon=1)
    with pytest.raises(QuestionRefused, match="each row is a unit of its own"):
        held.plan(sd.sql(f"SELECT COUNT(*) FROM ({TOTAL})"), epsilon=1)


def test_a_promise_without_a_column_cannot_tell_persons_apart() -> None:
    held = visits(unit=sd.PrivacyUnit(None, max_rows=3))
    with pytest.raises(QuestionRefused, match="no column"):
        held.plan(held.per_unit(n=sd.count()).agg(sd.count()), epsilon=1)


def test_contribution_bounds_have_nothing_to_act_on() -> None:
    held = visits(unit=sd.PrivacyUnit("patient", max_groups=1, max_rows_per_group=1))
    asked = held.per_unit(n=sd.count().clip(0, 9)).agg(sd.sum("n"))
    assert held.plan(asked, epsilon=1).error(0.95) == visits().plan(asked, epsilon=1).error(0.95)
    with pytest.raises(QuestionRefused, match="nothing to bound"):
        held.plan(asked.bound_contributions(max_rows=1), epsilon=1)


@pytest.mark.parametrize("value", [sd.min("cost"), sd.max("cost"), sd.any(col("cost") > 3), sd.first("cost", by="day")])
def test_a_value_of_a_person_is_no_aggregate_of_rows(value: Any) -> None:
    with pytest.raises(QuestionRefused, match=r"decided by single rows.*per_unit"):
        visits().plan(value, epsilon=1)


def test_steps_are_passed_over_nowhere() -> None:
    """A question about persons is never answered of the table's rows: a session answers it as `ask` does, or refuses it."""
    held = visits()
    asked = held.per_unit(n=sd.count().clip(0, 9)).agg(sd.sum("n"))
    with held.above_threshold(count=1, epsilon=1) as session, pytest.raises(QuestionRefused, match="per_unit"):
        session.above(asked, threshold=3)
    released, _ = held.adapt(lambda q: q.release(asked, sd.PureDP(1000)).value, describe="a test", epsilon=1000)
    assert released == pytest.approx(held.ask(asked, epsilon=1000).value, abs=1)


def test_a_plan_cannot_be_altered_to_other_rows() -> None:
    held = visits()
    plan = held.plan(held.per_unit(n=sd.count().clip(0, 9)).agg(sd.sum("n")), epsilon=1)
    question = plan.question
    assert isinstance(question, Aggregation)
    (step,) = question.steps
    assert isinstance(step, PerUnit)
    with pytest.raises(QuestionRefused, match="not by 'region'"):
        held.ask(replace(plan, question=replace(question, steps=(replace(step, unit="region"),))))
    with pytest.raises((QuestionRefused, UnknownName)):
        held.ask(replace(plan, question=replace(question, steps=())))
    for wrong in (("evil", col("cost").node, "v"), ("first", col("cost").node, "v"), ("rows", col("cost").node, "v")):
        with pytest.raises(QuestionRefused):
            UnitValue(*wrong)


def test_the_event_is_that_of_one_row_a_person() -> None:
    """The same noise as for a table that has one row a person from the start."""
    asked = visits().per_unit(t=sd.sum("cost").clip(0, 300)).agg(sd.sum("t"), sd.count())
    one_row = sd.Domain({"patient": sd.Identifier(), "t": sd.Real(0, 300, resolution=0.5)})
    table = pa.table({"patient": ["a"], "t": [1.0]})
    plain = sd.protect(
        table,
        domain=one_row,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("patient", max_rows=1),
        budget=sd.PureDP(9),
        ledger=None,
    )
    assert visits().plan(asked, epsilon=1).event == plain.plan([sd.sum("t"), sd.count()], epsilon=1).event
