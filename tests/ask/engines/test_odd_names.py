"""Odd names and values: quotes, keywords, Unicode and injections are names and values, nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.errors import DeclarationError

S = Selection()
NAMES = [
    "select",
    "two words",
    'q"uote',
    "it's",
    '"; DROP TABLE source; --',
    "ünï",
    "😀",
    "a.b",
    "k0",
    "t0",
    "source",
    "\\",
    "{x}",
]
VALUES = [
    "",
    " ",
    "'",
    '"',
    "a'b",
    "');--",
    "ünï",
    "😀",
    "\\",
    "\n",
    "NULL",
    "null",
    "%",
    "a" * 500,
    "sordino_0_",
    "{x}",
    "1",
]


@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.each(6)
@pytest.mark.parametrize("name", NAMES)
def test_column_names(name: str) -> None:
    domain = sd.Domain({name: sd.Integer(0, 9), "c": sd.Category(["a"])})
    table = pa.table({name: [1, 2, None], "c": ["a", "a", "b"]})
    asked = S.where(col(name) > 0).group_by("c").agg(sd.sum(name), sd.count().alias("n"))
    assert exact(table, domain, asked) == [[3], [2]]
    assert exact(table, domain, S.group_by(name).agg(sd.count()))[0][1] == 1


@pytest.mark.attack("insert SQL by a name, a text or an id")
def test_category_values() -> None:
    domain = sd.Domain({"c": sd.Category(VALUES, other="rest")})
    table = pa.table({"c": [*VALUES, *VALUES, "zzz", None]})
    assert exact(table, domain, S.group_by("c").agg(sd.count())) == [[2] * len(VALUES) + [1]]
    for value in VALUES:
        assert exact(table, domain, S.where(col("c") == value).agg(sd.count())) == [[2]]


def test_five_thousand_values() -> None:
    values = [f"v'{i}" for i in range(5000)]
    domain = sd.Domain({"c": sd.Category(values)})
    found = exact(pa.table({"c": values[::2]}), domain, S.group_by("c").agg(sd.count()))
    assert found == [[1, 0] * 2500]


@pytest.mark.deep
def test_identifiers_are_compared_as_text() -> None:
    domain = sd.Domain({"c": sd.Identifier()})
    for value in [*VALUES, "' OR 1=1 --"]:
        table = pa.table({"c": [value, "other", None]})
        assert exact(table, domain, S.where(col("c") == value).agg(sd.count())) == [[1]]
        assert exact(table, domain, S.where(col("c") != value).agg(sd.count())) == [[1]]


def test_names_kept_for_ourselves_are_refused() -> None:
    with pytest.raises(DeclarationError, match="are reserved"):
        exact(pa.table({"sordino_0_": [1]}), sd.Domain({"sordino_0_": sd.Integer(0, 1)}), sd.count())
