"""Items of lists as people ask about them: in Python and in SQL the same, priced, and refusals that spend nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.project.load import check_file
from sordino.errors import DeclarationError, QuestionRefused, SordinoError

POSTS = pa.table(
    {
        "id": [f"u{i // 2}" for i in range(60)],
        "x": [i % 5 for i in range(60)],
        "tags": [[["a", "b"], ["b", "b", None, "a"], [], None, ["zz"], ["a"]][i % 6] for i in range(60)],
    }
)
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "x": sd.Integer(0, 4),
        "tags": sd.List(sd.Category(["a", "b"], missing="keep"), max_items=3),
    }
)
LABELS = sd.public(
    pa.table({"tags": ["a", "b"], "weight": [2, 3]}),
    key="tags",
    columns=sd.Domain({"tags": sd.Identifier(), "weight": sd.Integer(0, 9)}),
)


def posts(*, unit: Any = "row", neighbors: str = "add_remove") -> sd.Curator:
    return protect(
        POSTS, DOMAIN, neighbors=neighbors, unit=unit, budget=sd.PureDP(10**9), name="posts", public={"labels": LABELS}
    )


def named(question: Any) -> Any:
    return question.agg(sd.count().alias("n"))


SAME: list[tuple[Any, str]] = [
    (
        lambda p: named(p.unnest("tags").group_by(tag="tags")),
        "SELECT tag, COUNT(*) AS n FROM posts, UNNEST(tags) AS t(tag) GROUP BY tag",
    ),
    (
        lambda p: named(p.unnest("tags").where(col("x") > 1).where(col("tags") == "a")),
        "SELECT COUNT(*) AS n FROM posts p CROSS JOIN UNNEST(p.tags) AS t(tag) WHERE x > 1 AND t.tag = 'a'",
    ),
    (
        lambda p: named(p.unnest("tags").group_by(tag="tags")),
        "SELECT tag, COUNT(*) AS n FROM (SELECT tag FROM posts, UNNEST(tags) AS tag) AS q GROUP BY tag",
    ),
    (
        lambda p: p.unnest("tags").join("labels", on="tags").agg(sd.sum("weight").alias("w")),
        "SELECT SUM(l.weight) AS w FROM posts, UNNEST(tags) AS t(tag) JOIN labels l ON t.tag = l.tags",
    ),
]


@pytest.mark.each(2)
@pytest.mark.parametrize(("asked", "text"), SAME, ids=range(len(SAME)))
def test_python_and_sql_ask_the_same(asked: Any, text: str) -> None:
    held = posts()
    release = held.ask(asked(held), epsilon=10**5)
    assert release.rows == held.ask(sd.sql(text), epsilon=10**5).rows
    assert held.plan(asked(held), epsilon=1).identity() == held.plan(sd.sql(text), epsilon=1).identity()


def test_answers_are_those_of_the_first_items() -> None:
    rows = posts().ask(sd.sql(SAME[0][1]), epsilon=10**5).rows
    assert rows == [{"tag": "a", "n": 20}, {"tag": "b", "n": 30}, {"tag": None, "n": 20}]
    assert posts().ask(sd.sql(SAME[3][1]), epsilon=10**5).rows == [{"w": 20 * 2 + 30 * 3}]


@pytest.mark.parametrize(
    ("unit", "neighbors", "most"),
    [("row", "add_remove", 3), (sd.PrivacyUnit("id", max_rows=2), "add_remove", 6), ("row", "replace", 3)],
)
def test_the_plan_states_the_rows_that_a_unit_becomes(unit: Any, neighbors: str, most: int) -> None:
    plan: Any = posts(unit=unit, neighbors=neighbors).plan(posts().unnest("tags").agg(sd.count()), epsilon=1)
    assert plan.procedure.allocation.vectors[0][0].sensitivity.l1 == most
    assert "one row for each item of tags, at most 3 of a row" in str(plan)


def test_a_count_of_single_items_moves_under_replace_too() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 4), "tags": sd.List(sd.Category(["a"]), max_items=1)})
    held = protect(POSTS, domain, neighbors="replace", name="posts")
    plan: Any = held.plan(held.unnest("tags").agg(sd.count()), epsilon=1)
    assert plan.procedure.allocation.vectors[0][0].sensitivity.l1 == 1


def test_one_value_a_person_and_samples_and_practice_are_of_items_too() -> None:
    held = posts(unit=sd.PrivacyUnit("id", max_rows=2))
    kinds = (
        "SELECT AVG(k) AS k FROM (SELECT id, COUNT(DISTINCT t.tag) AS k FROM posts, UNNEST(tags) AS t(tag) GROUP BY id)"
    )
    assert held.ask(sd.sql(kinds), epsilon=10**5).rows[0]["k"] == pytest.approx(1.5, abs=0.01)
    half = held.ask(named(held.unnest("tags").sample(0.5)), epsilon=10**3)
    assert 0 < half.rows[0]["n"] < 70
    assert held.ask(named(held.unnest("tags")), epsilon=100, on="dummy").rows[0]["n"] > 500


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.group_by("tags").agg(sd.count()),
        lambda _: sd.count("tags"),
        lambda p: p.where(col("tags") == "a").agg(sd.count()),
        lambda p: p.join("labels", on="tags").agg(sd.count()),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts WHERE tags = 'a'"),
        lambda _: sd.sql("SELECT tags, COUNT(*) FROM posts GROUP BY tags"),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts, UNNEST(tags) AS t(tag) WHERE tags = 'a'"),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts LEFT JOIN UNNEST(tags) AS t(tag) ON TRUE"),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts, UNNEST(x) AS t(tag)"),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts, UNNEST(tags) WITH ORDINALITY AS t(tag, i)"),
        lambda _: sd.sql("SELECT COUNT(*) FROM posts, UNNEST(tags) AS t(a), UNNEST(tags) AS u(b)"),
        lambda p: p.unnest("x").agg(sd.count()),
        lambda p: p.unnest("tags").unnest("tags").agg(sd.count()),
        lambda p: p.unnest("nothing").agg(sd.count()),
    ],
)
def test_everything_else_about_a_list_is_refused_and_spends_nothing(ask: Any) -> None:
    held = posts()
    with pytest.raises(SordinoError, match=r"list|UNNEST|tags"):
        held.ask(ask(held), epsilon=1)
    assert held.spent == sd.PureDP(0)


def test_a_list_says_what_works_instead() -> None:
    with pytest.raises(QuestionRefused, match=r"holds lists: ask about its items, with .unnest\('tags'\) or UNNEST"):
        posts().plan(sd.mean("tags"), epsilon=1)
    wide = sd.Domain({"x": sd.Integer(0, 4), "tags": sd.List(sd.Category(["a"]), max_items=10_000)})
    held = protect(POSTS, wide, name="posts")
    with pytest.raises(QuestionRefused, match=r"2\^48 rows"):
        held.plan(held.unnest("tags").agg(sd.count()), epsilon=1)


@pytest.mark.parametrize("most", [0, -1, True, 10_001, 2.0])
def test_a_bound_on_items_is_a_whole_number(most: Any) -> None:
    with pytest.raises(DeclarationError, match="max_items must be from 1 to 10,000"):
        sd.List(sd.Boolean(), max_items=most)


def test_only_items_of_known_kinds_are_declared_and_no_public_table_has_lists() -> None:
    with pytest.raises(DeclarationError, match="what an item is"):
        sd.List(sd.Identifier(), max_items=2)
    with pytest.raises(DeclarationError, match="holds no lists"):
        sd.public(POSTS, key="id", columns=DOMAIN)


PROJECT = """
[budgets.main]
cap = {epsilon = 100000}
ledger = "main.ledger"
[tables.posts]
source = "posts.parquet"
budget = "main"
neighbors = "add_remove"
privacy_unit = "row"
[tables.posts.columns]
x = {type = "integer", lower = 0, upper = 4}
tags = {type = "list", of = {type = "category", values = ["a", "b"], missing = "keep"}, max_items = 3}
"""


@pytest.mark.deep
def test_a_project_file_declares_lists_and_is_checked(tmp_path: Path) -> None:
    pq.write_table(POSTS, tmp_path / "posts.parquet")
    place = tmp_path / "sordino.toml"
    place.write_text(PROJECT)
    assert sd.check_project(place) == []
    for _ in range(2):  # the second time the ledger knows the declaration
        release: Any = sd.connect(place).ask(sd.sql(SAME[0][1]), epsilon=1000)
        assert [r["n"] for r in release.rows] == [20, 30, 20]
    for wrong, message in [
        (PROJECT.replace(", max_items = 3", ""), "is missing"),
        (PROJECT.replace("max_items = 3", "max_items = 0"), "from 1 to 10,000"),
        (
            PROJECT.replace('type = "category", values = ["a", "b"], missing = "keep"', 'type = "identifier"'),
            "type of a",
        ),
        (
            PROJECT.replace("posts.parquet", "posts.csv").replace(
                "[tables.posts.col", "csv.header = true\n[tables.posts.col"
            ),
            "",
        ),
    ]:
        place.write_text(wrong)
        found = [str(p.message) for p in check_file(place)]
        assert any(message in text for text in found) if message else sd.check_project(place)
