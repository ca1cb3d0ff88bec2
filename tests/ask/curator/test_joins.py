"""Joins as people ask them: in Python and in SQL the same, with their price stated, and refusals that spend nothing."""

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
from sordino.core.source import public
from sordino.errors import DeclarationError, QuestionRefused, SordinoError, UnknownName

PEOPLE = pa.table(
    {
        "id": [f"u{i // 2}" for i in range(600)],
        "age": [20 + i % 60 for i in range(600)],
        "state": [["NY", "CA", "TX", None][i % 4] for i in range(600)],
        "size": [i % 3 for i in range(600)],
    }
)
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "state": sd.Category(["NY", "CA", "TX"], missing="keep"),
        "size": sd.Integer(0, 9),
    }
)
REGIONS = pa.table({"state": ["NY", "CA", "NY"], "size": [3, 5, 1], "kind": ["big", "small", "odd"]})
COLUMNS = sd.Domain(
    {"state": sd.Identifier(), "size": sd.Integer(0, 9), "kind": sd.Category(["big", "small", "odd"], missing="keep")}
)


def people(*, unit: Any = "row", neighbors: str = "add_remove", ledger: Any = None, budget: Any = None) -> Any:
    return protect(
        PEOPLE,
        DOMAIN,
        neighbors=neighbors,
        unit=unit,
        budget=budget or sd.PureDP(10_000),
        ledger=ledger,
        seed=3,
        name="people",
        public={"regions": public(REGIONS, key="state", columns=COLUMNS, max_rows=2)},
    )


J = "FROM people JOIN regions ON people.state = regions.state"
SAME: list[tuple[Any, str]] = [
    (lambda p: p.join("regions", on="state").agg(sd.count()), f"SELECT COUNT(*) AS count {J}"),
    (
        lambda p: p.join("regions", on="state").group_by("kind").agg(sd.sum("regions.size").alias("s")),
        "SELECT r.kind, SUM(r.size) AS s FROM people AS p INNER JOIN regions r ON r.state = p.state GROUP BY r.kind",
    ),
    (
        lambda p: (
            p.join("regions", on="state", how="left")
            .where(col("people.size") > 0)
            .group_by("state")
            .agg(sd.mean("age").alias("a"))
        ),
        "SELECT state, AVG(age) AS a FROM people LEFT JOIN regions USING (state) WHERE people.size > 0 GROUP BY state",
    ),
    (
        lambda p: p.join("regions", on="state").where(col("age") > 30).agg(sd.sum("regions.size").alias("s")),
        "SELECT SUM(z) AS s FROM (SELECT regions.size AS z, age AS years FROM people LEFT OUTER JOIN regions "
        "ON people.state = regions.state) AS t WHERE years > 30".replace("LEFT OUTER ", ""),
    ),
    (
        lambda p: p.join("regions", on="state").where(col("kind") == "big").agg(sd.count().alias("n")),
        f"WITH both_ AS (SELECT kind {J}) SELECT COUNT(*) AS n FROM both_ WHERE kind = 'big'",
    ),
]


@pytest.mark.each(2)
@pytest.mark.parametrize(("asked", "text"), SAME, ids=range(len(SAME)))
def test_python_and_sql_ask_the_same(asked: Any, text: str) -> None:
    held = people()
    assert held.plan(asked(held), epsilon=1).identity() == held.plan(sd.sql(text), epsilon=1).identity()


def test_answers_are_those_of_the_joined_rows() -> None:
    release = people().ask(
        sd.sql(f"SELECT kind, COUNT(*) AS n, SUM(regions.size) AS s {J} GROUP BY kind"), epsilon=2000
    )
    assert {r["kind"]: (r["n"], r["s"]) for r in release.rows} == {
        "big": (150, 450),
        "small": (150, 750),
        "odd": (150, 150),
    }
    assert release.keys[0].name == "kind"


def test_left_joins_keep_rows_without_a_match() -> None:
    text = "SELECT kind, COUNT(*) AS n FROM people LEFT JOIN regions ON people.state = regions.state GROUP BY kind"
    rows = {r["kind"]: r["n"] for r in people().ask(sd.sql(text), epsilon=2000).rows}
    assert rows == {"big": 150, "small": 150, "odd": 150, None: 300}


@pytest.mark.parametrize(("unit", "most"), [("row", 2), (sd.PrivacyUnit("id", max_rows=3), 6)])
def test_the_plan_states_the_rows_that_a_unit_becomes(unit: Any, most: int) -> None:
    plan = people(unit=unit).plan(sd.sql(f"SELECT COUNT(*) {J}"), epsilon=1)
    part = plan.procedure.allocation.vectors[0][0]
    assert part.sensitivity.l1 == most
    assert "each joined with up to 2 rows" in part.sensitivity.because
    assert f"moves counts by {most}" in str(plan)
    assert plan.cost == sd.PureDP(1)


def test_quantiles_and_replace_see_the_join_too() -> None:
    held = people(neighbors="replace")
    asked = sd.sql(f"SELECT MEDIAN(regions.size) AS m, COUNT(*) AS n {J}")
    release = held.ask(asked, epsilon=500)
    assert release.rows[0]["m"] == 3
    assert release.rows[0]["n"] == 450
    plan = held.plan(sd.sql("SELECT COUNT(*) FROM people LEFT JOIN regions USING (state)"), epsilon=1)
    assert (
        plan.procedure.allocation.vectors[0][0].sensitivity.l1 == 2
    )  # without the join a replaced row leaves the count as it is


def test_a_row_that_may_match_nothing_moves_a_count_under_replace() -> None:
    """With one public row a key an inner join still drops rows: only a left one leaves as many as there were."""
    once = public(REGIONS.slice(0, 2), key="state", columns=COLUMNS)
    held = protect(
        PEOPLE,
        DOMAIN,
        neighbors="replace",
        unit="row",
        budget=sd.PureDP(1),
        name="people",
        public={"regions": once},
    )
    for how, moved in (("JOIN", 1), ("LEFT JOIN", 0)):
        plan: Any = held.plan(sd.sql(f"SELECT COUNT(*) FROM people {how} regions USING (state)"), epsilon=1)
        assert plan.procedure.allocation.vectors[0][0].sensitivity.l1 == moved


@pytest.mark.deep
def test_units_are_counted_once_however_often_they_match() -> None:
    held = people(unit=sd.PrivacyUnit("id", max_rows=2))
    text = f"SELECT COUNT(DISTINCT id) AS units, COUNT(*) AS n {J}"
    release = held.ask(sd.sql(text), epsilon=5000)
    assert release.rows[0]["units"] == 150
    assert release.rows[0]["n"] == 450


def test_private_keys_of_a_joined_table_count_units() -> None:
    held = people(unit=sd.PrivacyUnit("id", max_rows=2), budget=sd.ApproxDP(1000, 1e-3))
    text = f"SELECT regions.state, COUNT(*) AS n {J} GROUP BY regions.state"
    found = held.ask(sd.sql(text), epsilon=500, delta=1e-6)
    assert {r["state"]: r["n"] for r in found.rows} == {"CA": 150, "NY": 300}
    with pytest.raises(QuestionRefused, match="privacy unit with a column"):
        people(budget=sd.ApproxDP(1000, 1e-3)).plan(sd.sql(text), epsilon=1, delta=1e-6)


def test_a_joined_question_is_charged_once_and_replayed_by_its_request(tmp_path: Path) -> None:
    held = people(ledger=tmp_path / "people.ledger", budget=sd.PureDP(1))
    asked = sd.sql(f"SELECT COUNT(*) {J}")
    first = held.ask(asked, epsilon=0.25, request_id="one")
    assert held.ask(asked, epsilon=0.25, request_id="one").value == first.value
    assert held.spent == sd.PureDP(0.25)
    assert "joined with regions by state" in held.releases()[0].question


@pytest.mark.parametrize(
    ("comma", "written"),
    [
        ("people p, regions r WHERE UPPER(p.state) = r.state", "people p JOIN regions r ON UPPER(p.state) = r.state"),
        (
            "people p CROSS JOIN regions r WHERE r.state = LEFT(p.state, 2) AND p.age > 30",
            "people p JOIN regions r ON r.state = LEFT(p.state, 2) WHERE p.age > 30",
        ),
        (
            "regions r, people p WHERE p.age > 30 AND r.state = CASE WHEN p.age > 40 THEN 'NY' ELSE p.state END AND r.size > 0",
            "people p JOIN regions r ON r.state = CASE WHEN p.age > 40 THEN 'NY' ELSE p.state END"
            " WHERE p.age > 30 AND r.size > 0",
        ),
    ],
)
def test_what_where_compares_of_a_comma_is_the_condition_of_the_join(comma: str, written: str) -> None:
    held = people()
    asked, same = (held.plan(sd.sql(f"SELECT COUNT(*) AS n FROM {text}"), epsilon=1) for text in (comma, written))
    assert asked.question.identity() == same.question.identity()


REFUSED: list[tuple[Any, type[SordinoError], str]] = [
    (
        "SELECT COUNT(*) FROM people JOIN homes ON people.state = homes.state",
        UnknownName,
        "JOIN with .homes. is not supported",
    ),
    ("SELECT COUNT(*) FROM people a JOIN people b ON a.state = b.state", QuestionRefused, "only by their privacy unit"),
    (f"SELECT SUM(size) {J}", QuestionRefused, "people, regions: write which"),
    (f"SELECT SUM(regions.sice) {J}", UnknownName, "did you mean 'size'"),
    (f"SELECT SUM(region.size) {J}", UnknownName, "not the table asked about"),
    ("SELECT COUNT(*) FROM people, regions", QuestionRefused, "JOIN without a condition"),
    ("SELECT COUNT(*) FROM people CROSS JOIN regions", QuestionRefused, "CROSS JOIN is not supported"),
    (
        "SELECT COUNT(*) FROM people RIGHT JOIN regions USING (state)",
        QuestionRefused,
        "RIGHT JOIN keeps rows of regions",
    ),
    (
        "SELECT age, SUM(age) FROM people RIGHT JOIN regions USING (state) GROUP BY age",
        QuestionRefused,
        "keys of the private",
    ),
    ("SELECT COUNT(*) FROM people ANTI JOIN regions USING (state)", QuestionRefused, "ANTI JOIN is not supported"),
    (f"SELECT COUNT(*) {J.replace('JOIN', 'LEFT JOIN')} AND regions.size > 1", QuestionRefused, "a key has one row"),
    ("SELECT COUNT(*) FROM people JOIN regions ON regions.size > 3", QuestionRefused, "filters in WHERE"),
    (
        "SELECT COUNT(*) FROM people JOIN regions ON people.age + 1 = regions.size",
        QuestionRefused,
        "declared key 'state'",
    ),
    ("SELECT COUNT(*) FROM people JOIN regions ON people.age = regions.size", QuestionRefused, "declared key 'state'"),
    ("SELECT COUNT(*) FROM people JOIN regions ON people.age = regions.state", QuestionRefused, "declare both alike"),
    (
        "SELECT COUNT(*) FROM people JOIN regions ON people.state = people.age",
        QuestionRefused,
        "compares columns with a key",
    ),
    (f"SELECT COUNT(*) {J} JOIN regions q ON people.state = q.state", QuestionRefused, "joined twice"),
    (
        "SELECT COUNT(*) FROM people JOIN (SELECT 1) x ON x.a = people.state",
        QuestionRefused,
        "is not the table asked about",
    ),
    (
        "SELECT COUNT(*) FROM people JOIN regions TABLESAMPLE BERNOULLI (5 PERCENT) ON people.state = regions.state",
        QuestionRefused,
        "join it whole",
    ),
    (f"SELECT * {J}", QuestionRefused, "rows are never released"),
]


@pytest.mark.parametrize(("text", "error", "message"), REFUSED, ids=[t for t, _, _ in REFUSED])
def test_other_joins_are_refused_by_name_and_spend_nothing(text: str, error: type[SordinoError], message: str) -> None:
    held = people()
    with pytest.raises(error, match=message):
        held.ask(sd.sql(text), epsilon=1)
    assert held.spent == sd.PureDP(0)


def test_python_names_that_mean_two_columns_or_none_are_refused() -> None:
    held = people()
    rows = held.join("regions", on="state")
    for asked, message in [
        (rows.agg(sd.sum("size")), "people.size, regions.size: write which"),
        (rows.agg(sd.sum("weight")), "not declared"),
        (held.join("homes", on="state").agg(sd.count()), "not declared as a table that can be joined"),
        (held.join("regions", on="town").agg(sd.count()), "join by a column of people"),
    ]:
        with pytest.raises(QuestionRefused, match=message):
            held.plan(asked, epsilon=1)
    with pytest.raises(QuestionRefused, match="inner"):
        held.join("regions", on="state", how="full")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"key": "town"}, "key must be a declared column"),
        ({"max_rows": 0}, "max_rows"),
        ({"columns": sd.Domain({"state": sd.Real(0, 1)})}, "reals cannot be compared"),
        ({"columns": sd.Domain({"state": sd.Identifier(), "a.b": sd.Boolean()})}, "dot"),
    ],
)
def test_bad_declarations_of_public_tables_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        public(REGIONS, **{"key": "state", "columns": COLUMNS, **how})


def test_a_public_table_that_multiplies_rows_without_saying_so_is_refused_at_the_door() -> None:
    with pytest.raises(DeclarationError, match="declare max_rows = 2"):
        protect(PEOPLE, DOMAIN, budget=sd.PureDP(1), public={"regions": public(REGIONS, key="state", columns=COLUMNS)})


PROJECT = """
[budgets.people]
cap = {epsilon = 10}
ledger = "people.ledger"

[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "id", max_rows = 2, max_groups = 1}
[tables.people.columns]
id = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 125}
state = {type = "category", values = ["NY", "CA", "TX"]}

[public.regions]
source = "regions.parquet"
key = "state"
max_rows = 2
[public.regions.columns]
state = {type = "identifier"}
size = {type = "integer", lower = 0, upper = 9}
"""


@pytest.mark.deep
def test_a_project_declares_public_tables_and_caps(tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    pq.write_table(REGIONS, tmp_path / "regions.parquet")
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT)
    held = sd.connect(path).table("people")
    assert held.neighbors.unit == sd.PrivacyUnit("id", max_rows=2, max_groups=1)
    release = held.ask(sd.sql(f"SELECT SUM(regions.size) AS s {J}"), epsilon=5)
    low, high = release.interval(0.999)
    assert low <= 1350 <= high


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('key = "state"', 'key = "town"', "public.regions.key"),
        ("max_rows = 2\n[public", "max_rows = 0\n[public", "public.regions.max_rows"),
        ("[public.regions]", "[public.People]", "public.People"),
        ('source = "regions.parquet"', 'source = "regions.xls"', "public.regions.source"),
        ('key = "state"', 'kex = "state"', "public.regions.kex"),
        ("size = {type", "size = {kind", "public.regions.columns.size"),
        ("max_groups = 1", "max_groups = 0", "tables.people.privacy_unit.max_groups"),
    ],
)
def test_an_error_in_a_public_table_names_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "sordino.toml"
    text = PROJECT.replace(old, new)
    if "People" in new:
        text = text.replace("[public.regions.columns]", "[public.People.columns]")
    assert text != PROJECT
    path.write_text(text)
    assert any(p.key.startswith(key) for p in check_file(path))


def test_a_join_is_never_passed_over_by_those_who_only_reckon() -> None:
    asked = people().join("regions", on="state").agg(sd.mean("age"))
    with pytest.raises(QuestionRefused, match="of its own table"):
        sd.sensitivity.worst_case_sensitivity(asked, DOMAIN, neighbors="replace", privacy_unit="row", n=600)
    with pytest.raises(QuestionRefused, match="of its own table"):
        asked.sensitivity(DOMAIN, sd.Neighbors("replace", None))


def test_a_refusal_names_no_table_but_the_question_s_own() -> None:
    table = people()
    asked = table.join("regions", on="state").agg(sd.count())
    with (
        table.above_threshold(count=1, epsilon=1) as session,
        pytest.raises(QuestionRefused, match="a session takes a count or sum of the table's own rows, without joins"),
    ):
        session.above(asked, threshold=1)
    with pytest.raises(QuestionRefused) as refused:
        asked.sensitivity(DOMAIN, sd.Neighbors("replace", None))
    assert "adult" not in str(refused.value)


STAFF = pa.table({"state": ["NY", "NY", "CA", None], "year": [2020, 2021, 2020, 2020], "pay": [1, 2, 4, 8]})
RATES = pa.table({"st": ["NY", "NY", "CA", "TX"], "year": [2020, 2021, 2021, 2020], "rate": [2, 3, 5, 7]})


def staff(**how: Any) -> Any:
    rates: dict[str, Any] = {
        "key": ["st", "year"],
        "columns": sd.Domain({"st": sd.Identifier(), "year": sd.Integer(2000, 2030), "rate": sd.Integer(0, 9)}),
    }
    return protect(
        STAFF,
        sd.Domain({"state": sd.Category(["NY", "CA"]), "year": sd.Integer(2000, 2030), "pay": sd.Integer(0, 9)}),
        budget=sd.PureDP(1_000_000),
        seed=3,
        name="staff",
        public={"rates": public(RATES, **(rates | how))},
    )


@pytest.mark.deep
@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(pay * rate) AS s FROM staff a JOIN rates r ON a.state = r.st AND a.year = r.year",
        "SELECT SUM(pay * rate) AS s FROM staff a JOIN rates r ON (r.year = a.year AND r.st = a.state)",
        "SELECT SUM(a.pay * r.rate) AS s FROM staff a, rates r WHERE a.year = r.year AND a.state = r.st",
        "SELECT SUM(pay * rate) AS s FROM rates r JOIN staff a ON a.state = r.st AND a.year = r.year",
    ],
)
def test_a_key_of_several_columns_is_compared_as_a_whole(text: str) -> None:
    held = staff()
    asked = held.join("rates", on=["state", "year"]).agg(sd.sum(col("pay") * col("rate")).alias("s"))
    assert held.plan(sd.sql(text), epsilon=1).identity() == held.plan(asked, epsilon=1).identity()
    assert held.ask(sd.sql(text), epsilon=10_000).value == 8


def test_using_takes_several_columns_and_their_names_are_clear() -> None:
    rates = RATES.rename_columns(["state", "year", "rate"])
    columns = sd.Domain({"state": sd.Identifier(), "year": sd.Integer(2000, 2030), "rate": sd.Integer(0, 9)})
    held = protect(
        STAFF,
        staff().domain,
        budget=sd.PureDP(1_000_000),
        seed=3,
        name="staff",
        public={"rates": public(rates, key=("state", "year"), columns=columns)},
    )
    text = (
        "SELECT state, SUM(rate) AS s FROM staff LEFT JOIN rates USING (year, state) WHERE year < 2021 GROUP BY state"
    )
    assert held.ask(sd.sql(text), epsilon=10_000).table.to_pydict() == {"state": ["NY", "CA"], "s": [2, 0]}
    swapped = held.join("rates", on=["year", "state"], how="left").where(col("year") < 2021).group_by("state")
    assert (
        held.plan(swapped.agg(sd.sum("rate").alias("s")), epsilon=1).question
        == held.plan(sd.sql(text), epsilon=1).question
    )


def test_a_part_of_a_key_is_no_key_and_a_key_repeats_no_more_than_declared() -> None:
    held = staff()
    for on in (["state"], ["state", "year", "pay"]):
        with pytest.raises(QuestionRefused, match="declared key 'st' and 'year'"):
            held.plan(held.join("rates", on=on).agg(sd.count()), epsilon=1)
    with pytest.raises(QuestionRefused, match="declared key 'st' and 'year'"):
        held.plan(sd.sql("SELECT COUNT(*) FROM staff JOIN rates ON staff.state = rates.st"), epsilon=1)
    with pytest.raises(DeclarationError, match="2 of its rows share one 'st'"):
        staff(key="st")
    with pytest.raises(DeclarationError, match="names a column twice"):
        staff(key=["st", "st"])


def test_a_project_declares_a_key_of_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT.replace('key = "state"', 'key = ["state", "size"]'))
    assert check_file(path) == []
    assert sd.connect(path).project.public["regions"].key == ("state", "size")
    for wrong, message in [("3", "a column, or a list"), ("[]", "not be empty"), ('["state", 3]', "text in quotes")]:
        path.write_text(PROJECT.replace('key = "state"', f"key = {wrong}"))
        assert [message in str(p) and "public.regions.key" in p.key for p in check_file(path)] == [True]
