"""What a model can be made of: a table, or rows that are joined; a connection, a selection and raw rows are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from mistyping import mistype
from sordino import synth
from sordino.core.errors import SordinoError
from sordino.errors import DeclarationError, QuestionRefused, UnknownName

SEX = ["f", "m"]
PERSONS = pa.table({"id": [f"p{i}" for i in range(400)], "sex": [SEX[i % 2] for i in range(400)]})
KINDS = ["er", "gp"]
# Women have gp visits, men er visits: only joined rows show it.
VISITS = pa.table(
    {
        "id": [f"p{i % 400}" for i in range(1200)],
        "kind": [KINDS[(i % 400 + 1) % 2] for i in range(1200)],
        "days": [i // 2 * 7 % 30 for i in range(1200)],
    }
)
DOMAINS = {
    "persons": sd.Domain({"id": sd.Identifier(), "sex": sd.Category(SEX)}),
    "visits": sd.Domain({"id": sd.Identifier(), "kind": sd.Category(KINDS), "days": sd.Integer(0, 29)}),
}
FLOORS = sd.public(
    pa.table({"kind": KINDS, "floor": ["one", "two"]}),
    key="kind",
    columns=sd.Domain({"kind": sd.Category(KINDS), "floor": sd.Category(["one", "two"])}),
)


def connection() -> sd.Connection:
    tables: Any = {"persons": PERSONS, "visits": VISITS}
    return sd.protect(
        tables,
        domain=DOMAINS,
        neighbors="add_remove",
        privacy_unit={
            "persons": sd.PrivacyUnit("id", max_rows=1, of="person"),
            "visits": sd.PrivacyUnit("id", max_rows=3, of="person"),
        },
        budget=sd.PureDP(1000),
        ledger=None,
        public={"floors": FLOORS},
        rng=sd.Rng.seeded(1),
    )


@pytest.mark.deep
def test_rows_joined_by_the_unit_are_fitted() -> None:
    visits = connection().table("visits")
    joined = visits.over(visits.join("persons"))
    model = synth.Marginals([("kind", "persons.sex"), ("days",)]).fit(joined, epsilon=200, rng=sd.Rng.seeded(2))
    drawn = model.sample(1_000, rng=sd.Rng.seeded(3))
    pairs = {(row["kind"], row["persons.sex"]) for row in drawn.to_pylist()}
    assert abs(model.rows - 1200) < 30
    same = sum((row["kind"] == "gp") == (row["persons.sex"] == "f") for row in drawn.to_pylist())
    assert same > 950, pairs
    assert visits.spent == sd.PureDP(200)
    assert "persons" in visits.release(model.facts["charge"]).question
    report = synth.evaluate(model, against=joined, epsilon=100, rows=1_000, rng=sd.Rng.seeded(4))
    assert report.mean(2) < 0.1


@pytest.mark.deep
def test_rows_joined_with_a_public_table_are_fitted_and_protect_the_same_unit() -> None:
    visits = connection().table("visits")
    joined = visits.over(visits.join("floors", on="kind"))
    model = synth.fit(joined, epsilon=100, columns=["kind", "floors.floor"], rng=sd.Rng.seeded(2))
    rows = model.sample(600, rng=sd.Rng.seeded(3)).to_pylist()
    assert sum((row["kind"] == "er") == (row["floors.floor"] == "one") for row in rows) > 570
    assert joined.neighbors.id_column == "id"
    assert visits.spent == sd.PureDP(100)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (lambda c: c, DeclarationError, r"connection\.table\(\"persons\"\)"),
        (lambda c: c.table("visits").where(sd.col("days") > 3), QuestionRefused, r"model\.sample\(where="),
        (lambda c: c.table("visits").join("persons"), QuestionRefused, r"table\.over\(table\.join"),
        (lambda c: c.table("visits").agg(sd.count()), QuestionRefused, "without its table"),
        (lambda _: VISITS, DeclarationError, r"sd\.protect\(rows"),
        (lambda c: c.table("visits").over(c.table("visits").where(sd.col("days") > 3)), QuestionRefused, "joins alone"),
        (lambda c: c.table("visits").over(sd.count()), QuestionRefused, "over takes a selection"),
        (lambda c: c.table("visits").over(c.table("visits").join("nobody")), UnknownName, "nobody"),
    ],
)
@pytest.mark.parametrize(
    "fit", [synth.fit, synth.MST().fit, synth.Histogram("days").fit], ids=["fit", "mst", "histogram"]
)
def test_what_is_no_table_is_refused_with_the_way_that_works(
    fit: Any, source: Any, error: type[SordinoError], words: str
) -> None:
    tables = connection()
    with pytest.raises(error, match=words):
        fit(source(tables), epsilon=1)
    assert tables.table("visits").spent == sd.PureDP(0)


def test_a_condition_over_joined_rows_is_refused_before_the_charge() -> None:
    visits = connection().table("visits")
    joined = visits.over(visits.join("persons"))
    model = synth.fit(joined, epsilon=100, columns=["kind", "days"], rng=sd.Rng.seeded(2))
    with pytest.raises(QuestionRefused, match="of joined rows only tables of counts"):
        synth.evaluate(model, against=joined, epsilon=1, rows=100, predict="days > 10")
    assert visits.spent == sd.PureDP(100)


def test_a_file_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="PosixPath"):
        synth.fit(mistype(tmp_path / "rows.csv"), epsilon=1)
