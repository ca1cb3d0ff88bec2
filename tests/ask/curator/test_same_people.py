"""Two private tables of the same people as people ask about them: one charge, both declarations on record, refusals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino import col
from sordino.errors import DeclarationChanged, QuestionRefused

PROJECT = """
[budgets.people]
cap = {epsilon = 1000000}
ledger = "people.ledger"
[budgets.other]
cap = {epsilon = 1}
ledger = "other.ledger"

[tables.person]
source = "person.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "person_id", of = "person", max_rows = 1}
[tables.person.columns]
person_id = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 120}
state = {type = "category", values = ["NY", "CA"]}

[tables.visits]
source = "visits.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "member_id", of = "person", max_rows = 3}
[tables.visits.columns]
member_id = {type = "identifier"}
cost = {type = "integer", lower = 0, upper = 100}
"""
PERSON = {"person_id": [1, 2, 3, 4, None], "age": [30, 50, 70, None, 20], "state": ["NY", "CA", "NY", "CA", "NY"]}
VISITS = {"member_id": ["1", "1", "2", "9", None], "cost": [10, 20, 40, 80, 5]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pq.write_table(pa.table(PERSON), tmp_path / "person.parquet")
    pq.write_table(pa.table(VISITS), tmp_path / "visits.parquet")
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT)
    return path


ANSWERS: list[tuple[str, dict[str, list[object]]]] = [
    ("SELECT SUM(cost) AS s FROM person p JOIN visits v ON p.person_id = v.member_id", {"s": [70]}),
    ("SELECT SUM(cost) AS s FROM visits v, person p WHERE age > 40 AND member_id = person_id", {"s": [40]}),
    ("SELECT COUNT(*) AS n FROM person p RIGHT JOIN visits v ON p.person_id = v.member_id", {"n": [4]}),
    (
        "SELECT state, COUNT(*) AS n FROM visits v JOIN person p ON v.member_id = p.person_id GROUP BY state",
        {"state": ["NY", "CA"], "n": [2, 1]},
    ),
    ("SELECT COUNT(*) AS n FROM visits WHERE member_id IN (SELECT person_id FROM person WHERE age < 40)", {"n": [2]}),
    ("SELECT COUNT(*) AS n FROM visits WHERE member_id NOT IN (SELECT person_id FROM person)", {"n": [1]}),
    (
        "SELECT COUNT(*) AS n FROM person p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.member_id = p.person_id AND cost > 15)",
        {"n": [2]},
    ),
    (
        "SELECT COUNT(*) AS n FROM person WHERE NOT EXISTS (SELECT * FROM visits WHERE member_id = person_id)",
        {"n": [2]},
    ),
    (
        "WITH rich AS (SELECT * FROM visits WHERE cost > 15) SELECT COUNT(*) AS n FROM person "
        "WHERE person_id IN (SELECT member_id FROM rich)",
        {"n": [2]},
    ),
    (
        "SELECT AVG(total) AS m FROM (SELECT member_id, CLIP(SUM(cost), 0, 100) AS total FROM visits "
        "WHERE member_id IN (SELECT person_id FROM person) GROUP BY member_id)",
        {"m": [35]},
    ),
]


@pytest.mark.deep
@pytest.mark.parametrize(("text", "answer"), ANSWERS, ids=[t for t, _ in ANSWERS])
def test_answers_are_those_of_sql(project: Path, text: str, answer: dict[str, list[object]]) -> None:
    curator, question = sd.connect(project).read_sql(text)
    release = curator.ask(question, epsilon=10_000)
    assert release.table.to_pydict() == {k: pytest.approx(v, abs=0.5) if k in "sm" else v for k, v in answer.items()}


def test_python_says_the_same_and_the_plan_states_the_product_of_the_caps(project: Path) -> None:
    visits = sd.connect(project).table("visits")
    join = visits.join("person", on="member_id").where(col("age") > 40).agg(sd.sum("cost").alias("s"))
    text = "SELECT SUM(cost) AS s FROM visits v JOIN person p ON p.person_id = v.member_id WHERE p.age > 40"
    assert visits.plan(join, epsilon=1).identity() == visits.plan(sd.sql(text), epsilon=1).identity()
    person = sd.connect(project).table("person")
    plan = person.plan(person.join("visits").agg(sd.count()), epsilon=1)
    assert "one person with at most 1 rows, each joined with up to 3 rows moves counts by 3" in str(plan)
    assert "of visits, at most 3 rows of one person are joined" in plan.notes
    tight = person.plan(person.join("visits").agg(sd.count()).bound_contributions(max_rows=2), epsilon=1)
    assert "moves counts by 2" in str(tight)
    anti = person.ask(person.join("visits", how="anti").agg(sd.count()), epsilon=10_000)
    assert anti.value == 2
    assert person.plan(person.where(sd.exists("visits")).agg(sd.count()), epsilon=1).error(0.95) == 3
    practice = person.ask(person.join("visits").agg(sd.count()), epsilon=1, on="dummy")
    assert practice.practice


@pytest.mark.deep
def test_one_charge_and_both_declarations_are_on_record(project: Path) -> None:
    connection = sd.connect(project)
    person = connection.table("person")
    person.ask(person.where(sd.exists("visits", col("cost") > 1)).agg(sd.count()), epsilon=1)
    assert person.spent == sd.PureDP(1)
    assert sorted(connection.ledger("people").declarations()) == ["person", "visits"]
    project.write_text(PROJECT.replace("upper = 100", "upper = 200"))
    changed = sd.connect(project).table("person")
    assert changed.ask(changed.agg(sd.count()), epsilon=1).cost == sd.PureDP(1)
    with pytest.raises(DeclarationChanged, match="'visits' is declared differently"):
        changed.ask(changed.join("visits").agg(sd.count()), epsilon=1)
    assert changed.spent == sd.PureDP(2)


def test_a_missing_file_of_the_other_table_costs_nothing_and_stops_no_other_question(project: Path) -> None:
    (project.parent / "visits.parquet").unlink()
    person = sd.connect(project).table("person")
    with pytest.raises(sd.errors.SourceError, match="missing"):
        person.ask(person.join("visits").agg(sd.count()), epsilon=1)
    assert person.spent == sd.PureDP(0)
    person.ask(person.agg(sd.count()), epsilon=1)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('{column = "member_id", of = "person", max_rows = 3}', '"row"', "says whose its rows are"),
        ('"member_id", of = "person"', '"member_id", of = "member"', "visits of one member"),
        ("", "", "different budgets"),
    ],
)
def test_tables_of_other_people_or_budgets_are_refused_with_the_reason(
    project: Path, old: str, new: str, reason: str
) -> None:
    visits = PROJECT.index("[tables.visits]")
    second = PROJECT[visits:].replace('budget = "people"', 'budget = "other"').replace(old, new)
    project.write_text(PROJECT[:visits] + second)
    person = sd.connect(project).table("person")
    for asked in (person.join("visits").agg(sd.count()), person.where(sd.exists("visits")).agg(sd.count())):
        with pytest.raises(QuestionRefused, match=reason):
            person.plan(asked, epsilon=1)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT(*) FROM person p JOIN visits v ON p.age = v.cost", "only by their privacy unit"),
        ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.cost = b.cost", "only by their privacy unit"),
        ("SELECT COUNT(*) FROM person WHERE age IN (SELECT cost FROM visits)", "their privacy unit"),
        ("SELECT COUNT(*) FROM person WHERE EXISTS (SELECT * FROM visits WHERE cost > 3)", "compares its privacy unit"),
        ("SELECT COUNT(*) FROM person FULL JOIN visits ON person_id = member_id", "FULL JOIN is not supported"),
    ],
)
def test_joins_by_anything_else_are_refused_with_the_reason(project: Path, text: str, reason: str) -> None:
    curator, question = sd.connect(project).read_sql(text)
    with pytest.raises(QuestionRefused, match=reason):
        curator.plan(question, epsilon=1)
