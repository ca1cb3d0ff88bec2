"""Attacks by what is no answer: errors that a person's row would raise, keys that only they have, bounds from the data."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import DeclarationError, QuestionRefused, SordinoError

VICTIM = 77
DOMAIN: dict[str, Any] = {"age": sd.Integer(0, 120), "pay": sd.Real(0, 10**6, resolution=1), "town": sd.Identifier()}
THERE: dict[str, Any] = {
    "age": [30, 40, VICTIM],
    "pay": [10.0, 20.0, 987654.0],
    "town": ["oslo", "bern", "hamlet-4711"],
}
WITHOUT = {name: cells[:2] for name, cells in THERE.items()}
# Each fails in an engine iff somebody of that age is there.
ERRORS = [
    "SELECT COUNT(*) AS n FROM data WHERE 1 // (age - 77) > 0",
    "SELECT SUM(1 / (age - 77)) AS n FROM data",
    "SELECT SUM(CASE WHEN age = 77 THEN 9223372036854775807 ELSE 0 END + age) AS n FROM data",
    "SELECT SUM(CASE WHEN age = 77 THEN CAST('x' AS INTEGER) ELSE 0 END) AS n FROM data",
    "SELECT COUNT(*) AS n FROM data WHERE CASE WHEN age = 77 THEN error(town) ELSE true END",
    "SELECT COUNT(*) AS n FROM data WHERE CAST(town AS INTEGER) > 1",
    "SELECT COUNT(*) AS n FROM data WHERE SQRT(76.5 - age) > 0",
    "SELECT COUNT(*) AS n FROM data WHERE LN(77 - age) > 0",
    "SELECT COUNT(*) AS n FROM data WHERE age = 77 AND POWER(10, pay) > 1",
    "SELECT COUNT(*) AS n FROM data WHERE (SELECT COUNT(*) FROM data WHERE age = 77) > 1",
    "SELECT SUM(CLIP(age * 1000000000000000000 * (age - 76), 0, 1)) AS n FROM data",
    "SELECT AVG(pay) AS n FROM data WHERE age > 76",
    "SELECT MEDIAN(pay) AS n FROM data WHERE age > 76",
    "SELECT VAR_SAMP(pay) AS n FROM data WHERE age > 76",
]


def response(rows: Any, text: str) -> tuple[Any, ...]:
    """Return all of a response but its numbers: its kind, its words, its columns, its price."""
    curator = protect(pa.table(rows), sd.Domain(DOMAIN), seed=3, name="data")
    try:
        release = curator.ask(sd.sql(text), epsilon=1)
    except SordinoError as error:
        return type(error).__name__, str(error), curator.spent
    return (
        [(f.name, pa.types.is_string(f.type)) for f in release.table.schema],
        release.table.num_rows,
        release.notes,
        curator.spent,
    )


@pytest.mark.attack(
    "read data from an error or a failure",
    source="Haeberlen, Pierce, Narayan 2011, Differential privacy under fire; CWE-209",
)
def test_an_error_that_one_row_would_raise_is_the_same_response_without_it() -> None:
    plain: list[bool] = []
    for rows in (THERE, WITHOUT):
        db = duckdb.connect()
        db.register("data", pa.table(rows))
        for text in ERRORS[2:5]:
            try:
                db.sql(text).fetchall()
            except duckdb.Error as error:
                plain.append("hamlet-4711" in str(error) or True)
            else:
                plain.append(False)
    assert plain == [True, True, True, False, False, False], "an engine alone tells who is there"
    answered = 0
    for text in ERRORS:
        with_her = response(THERE, text)
        assert with_her == response(WITHOUT, text), text
        assert "4711" not in str(with_her)
        answered += isinstance(with_her[0], list)
    assert answered >= 4  # not all are refused: the attack also goes through


@pytest.mark.deep
@pytest.mark.attack(
    "find a person by a key or a column that only they have",
    source="Korolova, Kenthapadi, Mishra, Ntoulas 2009, Releasing search queries and clicks privately",
)
def test_a_town_of_one_shows_in_a_plain_group_by_and_not_in_ours() -> None:
    text = "SELECT town, COUNT(*) AS n FROM data GROUP BY town"
    db = duckdb.connect()
    db.register("data", pa.table(THERE))
    assert "hamlet-4711" in {town for town, _ in db.sql(text).fetchall()}
    curator = protect(pa.table(THERE), sd.Domain(DOMAIN), budget=sd.ApproxDP(100, "0.5"), name="data")
    for _ in range(20):
        release = curator.ask(sd.sql(text), epsilon=1, delta="1e-9")
        assert "hamlet" not in release.to_json()
        assert release.table.schema.names == ["town", "n"]
    for text in (
        "SELECT DISTINCT town FROM data",
        "SELECT MIN(town) FROM data",
        "SELECT MAX(pay) FROM data",
        "DESCRIBE data",
    ):
        with pytest.raises(QuestionRefused):
            curator.ask(sd.sql(text), epsilon=1)
    curator.close()


@pytest.mark.attack(
    "let bounds, categories or a schema follow the data",
    source="seen in diffprivlib, synthcity and SmartNoise: taken from the data with a warning",
)
def test_bounds_of_the_data_tell_the_largest_income_and_ours_are_declared() -> None:
    """A histogram of a textbook takes its edges from the rows; here nothing undeclared has an answer, nor a default."""
    edges = [np.histogram(rows["pay"], bins=3)[1][-1] for rows in (THERE, WITHOUT)]
    assert edges == [987654.0, 20.0]
    bare: dict[str, Any] = {"age": sd.Integer(), "pay": sd.Real(resolution=1), "town": sd.Identifier()}
    asked = ("SELECT SUM(pay) FROM data", "SELECT SUM(age) FROM data", "SELECT age, COUNT(*) FROM data GROUP BY age")
    for rows in (THERE, WITHOUT):
        curator = protect(pa.table(rows), sd.Domain(bare), name="data")
        said = []
        for text in asked:
            with pytest.raises(QuestionRefused) as refused:
                curator.ask(sd.sql(text), epsilon=1)
            said.append(str(refused.value))
        assert "987654" not in str(said)
        assert curator.spent == sd.PureDP(0)
        with pytest.raises(DeclarationError):
            protect(pa.table(rows), sd.Domain({"salary": sd.Integer(0, 1)}))
        curator.close()
