"""Several tables declared in Python under one budget: joins and conditions, one charge, records, and names that differ."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino import col
from sordino.errors import BudgetExhausted, DeclarationChanged, DeclarationError, SourceError, UnknownName
from sordino.reporting import board

PERSON = {"person_id": [1, 2, 3, 4], "age": [30, 50, 70, 20], "state": ["NY", "CA", "NY", "CA"]}
VISITS = {"member_id": ["1", "1", "2", "9", None], "cost": [10, 20, 40, 80, 5]}
DOMAIN = {
    "person": sd.Domain(
        {"person_id": sd.Identifier(), "age": sd.Integer(0, 120), "state": sd.Category(["NY", "CA"], missing="keep")}
    ),
    "visits": sd.Domain({"member_id": sd.Identifier(), "cost": sd.Integer(0, 100)}),
}
UNIT = {
    "person": sd.PrivacyUnit("person_id", max_rows=1, of="person"),
    "visits": sd.PrivacyUnit("member_id", max_rows=3, of="person"),
}
MEMBER = sd.PrivacyUnit("member_id", max_rows=3)
TABLES = {"person": pa.table(PERSON), "visits": pa.table(VISITS)}
HAVING_VISITS = "SELECT COUNT(*) AS n FROM person WHERE person_id IN (SELECT member_id FROM visits WHERE cost > 15)"


def protect(tables: dict[str, Any], **other: Any) -> sd.Connection:
    given = {"domain": DOMAIN, "privacy_unit": UNIT, "neighbors": "add_remove", "ledger": None, **other}
    found = sd.protect(tables, budget=given.pop("budget", sd.PureDP(10**6)), **given)
    assert isinstance(found, sd.Connection)
    return found


@pytest.mark.deep
@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_tables_in_memory_are_joined_and_charged_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = protect({"person": make(PERSON), "visits": make(VISITS)})
    visits, person = both.table("visits"), both.table("person")
    joined = visits.ask(visits.join("person").group_by("state").agg(s=sd.sum("cost")), epsilon=10_000)
    assert joined.table["s"].to_pylist() == [30, 40, 0]
    assert visits.remaining == person.remaining == both.budgets()[0].remaining == sd.PureDP(990_000)
    assert both.budgets()[0].charges == 1
    assert set(both.ledger().declarations()) == {"person", "visits"}
    assert person.ask(person.where(sd.exists("visits", col("cost") > 15)).agg(sd.count()), epsilon=10_000).value == 2
    asked = both.ask(sd.sql(HAVING_VISITS), epsilon=10_000)
    assert isinstance(asked, sd.Release)
    assert asked.value == 2
    visits.ask(sd.sql("SELECT SUM(cost) FROM visits v JOIN person p ON member_id = person_id"), epsilon=9)
    assert both.budgets()[0].charges == 4
    assert visits.releases()[0].to_dict() == both.release(joined.charge or "").to_dict()
    # Its words: pictures take half a second.
    monkeypatch.setattr(board, "svg_drawer", lambda: None)
    assert "the sum of cost" in both.report()


def test_the_joined_rows_of_one_person_are_what_is_hidden() -> None:
    visits = protect(TABLES).table("visits")
    plan = visits.plan(visits.join("person").agg(sd.count()), epsilon=1)
    assert "one person with at most 3 rows moves counts by 3" in str(plan)


@pytest.mark.deep
def test_frames_and_files_stand_side_by_side_and_a_ledger_on_disk_holds_both(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("member_id,cost\n1,10\n1,20\n2,40\n")
    wages = sd.public(pa.table({"state": ["NY"], "wage": [7]}), key="state", columns=WAGES)
    given = {"csv": {"visits": sd.Csv(header=True)}, "ledger": tmp_path / "both.ledger", "public": {"wages": wages}}
    tables = {"person": TABLES["person"], "visits": tmp_path / "visits.csv"}
    both = protect(tables, **given)
    asked = both.ask(
        sd.sql("SELECT SUM(cost) AS s FROM visits v JOIN person p ON member_id = person_id"), epsilon=10_000
    )
    assert isinstance(asked, sd.Release)
    assert asked.value == 70
    person = both.table("person")
    assert person.ask(person.join("wages", on="state").agg(sd.sum("wage")), epsilon=10_000).value == 14
    again = protect(tables, **given)
    assert again.table("visits").remaining == sd.PureDP(980_000)
    wider = DOMAIN | {"visits": sd.Domain({"member_id": sd.Identifier(), "cost": sd.Integer(0, 999)})}
    with pytest.raises(DeclarationChanged, match=r"visits.*upper"):
        protect(tables, **given | {"domain": wider})
    changed = protect(tables, **given | {"domain": wider, "amend": "dearer visits"})
    assert changed.table("person").remaining == sd.PureDP(980_000)


WAGES = sd.Domain({"state": sd.Identifier(), "wage": sd.Integer(0, 9)})


def test_rows_of_csv_may_be_unreadable_so_their_number_is_not_public(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("member_id,cost\n1,10\n")
    rules = {"csv": {"visits": sd.Csv(header=True)}, "neighbors": "replace", "privacy_unit": dict.fromkeys(UNIT, "row")}
    both = protect({"person": TABLES["person"], "visits": tmp_path / "visits.csv"}, **rules)
    assert both.table("person").plan(sd.count(), epsilon=1).cost == sd.PureDP(0)
    assert both.table("visits").plan(sd.count(), epsilon=1).cost == sd.PureDP(1)


def test_one_cap_binds_all_tables() -> None:
    both = protect(TABLES, budget=sd.PureDP(1), shares={"team": sd.PureDP("0.75")}, spender="team")
    both.table("person").ask(sd.count(), epsilon="0.5")
    with pytest.raises(BudgetExhausted):
        both.table("visits").ask(sd.count(), epsilon="0.5")
    assert both.table("visits").remaining == sd.PureDP("0.25")


def test_a_mapping_of_one_table_is_a_connection_too() -> None:
    one = protect(
        {"visits": TABLES["visits"]}, domain={"visits": DOMAIN["visits"]}, privacy_unit={"visits": UNIT["visits"]}
    )
    assert one.table() is one.table("visits")
    assert one.table().ask(sd.sum("cost"), epsilon=10_000).value == 150
    assert repr(one) == "<Connection: tables visits>"
    with pytest.raises(UnknownName, match="table 'visit' is not declared; did you mean 'visits'"):
        one.table("visit")


def test_seeded_noise_is_that_of_every_table() -> None:
    found = [
        both.table(name).ask(sd.count(), epsilon=1)
        for both in (protect(TABLES, rng=sd.Rng.seeded(7)), protect(TABLES, rng=sd.Rng.seeded(7)))
        for name in TABLES
    ]
    assert [r.private for r in found] == [False] * 4
    assert [r.value for r in found[:2]] == [r.value for r in found[2:]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"domain": {"person": DOMAIN["person"]}}, "domain lacks table 'visits'"),
        (
            {"domain": {**DOMAIN, "visit": DOMAIN["visits"]}},
            "domain has 'visit', which is not a table of source; did you mean",
        ),
        ({"domain": DOMAIN["person"]}, "domain must be a mapping by the tables' names"),
        ({"domain": {**DOMAIN, "visits": {}}}, "domain must be a Domain"),
        ({"privacy_unit": {"visits": UNIT["visits"]}}, "privacy_unit lacks table 'person'"),
        ({"privacy_unit": {**UNIT, "visits": "person"}}, "table 'visits': privacy_unit must be"),
        ({"privacy_unit": "row"}, "privacy_unit must be a mapping"),
        (
            {"privacy_unit": {**UNIT, "visits": "row"}},
            "(one row, add_remove) and table 'person' (all rows of one person",
        ),
        (
            {"privacy_unit": {**UNIT, "visits": MEMBER}},
            "where both hold the same people, declare that: PrivacyUnit(..., of=",
        ),
        ({"csv": {"vists": sd.Csv(header=True)}}, "csv has 'vists', which is not a table of source"),
        ({"csv": {"visits": sd.Csv(header=True)}}, "table 'visits': csv and relation go with a path"),
        ({"relation": "main.t"}, "relation must be a mapping"),
        ({"name": "both"}, "name is for one table"),
        ({"budget": 1}, "budget must be PureDP"),
        ({"shares": {"team": sd.PureDP(1)}, "spender": "tem"}, "no share of 'tem' is stated; did you mean 'team'"),
        ({"rng": sd.Rng.seeded(1), "ledger": "no.ledger"}, "seeded noise is not private"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((DeclarationError, UnknownName), match=re.escape(message)):
        protect(TABLES, **given)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "source has no table"),
        (("a", "A"), "different names, ignoring case"),
        (("a b", "c"), "letters, digits and _"),
    ],
)
def test_names_that_sql_cannot_say_are_refused(names: tuple[str, ...], message: str) -> None:
    by_name = [dict(zip(names, of.values(), strict=False)) for of in (TABLES, DOMAIN, UNIT)]
    with pytest.raises(DeclarationError, match=message):
        protect(by_name[0], domain=by_name[1], privacy_unit=by_name[2])


def test_a_table_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    pq.write_table(TABLES["person"], tmp_path / "person.parquet")
    with pytest.raises(SourceError, match=r"no\.parquet"):
        protect({"person": tmp_path / "person.parquet", "visits": tmp_path / "no.parquet"})
    with pytest.raises(
        DeclarationError, match="table 'visits': column 'member_id' is declared but the source has no such"
    ):
        protect({"person": TABLES["person"], "visits": TABLES["person"]})
