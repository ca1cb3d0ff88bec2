"""Refusals say what to write instead, in the words of the door that the question came through."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.queries.expressions.nodes import sql_name
from sordino.cli.shared.terminal import as_flag
from sordino.errors import DeclarationError, QuestionRefused, arg, in_python
from trying import examples

NAMES = ["Culmen Length (mm)", "Island", "order", 'a "quoted" name', "it's", "select", "größe", "2nd"]


@pytest.fixture(scope="module")
def penguins() -> Any:
    domain = sd.Domain(
        {n: sd.Category(["Dream"]) if n == "Island" else sd.Integer() for n in NAMES} | {"huge": sd.Integer(0, 10**9)}
    )
    cells = {n: ["Dream"] if n == "Island" else [3] for n in [*NAMES, "huge"]}
    return protect(pa.table(cells), domain, budget=sd.PureDP(10), name="penguins")


def refusal_of(people: Any, question: Any) -> str:
    with pytest.raises(QuestionRefused) as refused:
        people.plan(question, epsilon=1)
    return str(refused.value)


@pytest.mark.each(2)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "Island"])
def test_the_clip_that_is_proposed_is_sql_that_can_be_asked(penguins: Any, name: str) -> None:
    hint = refusal_of(penguins, sd.sql(f"SELECT SUM({sql_name(name)}) FROM penguins"))
    clip = hint[hint.index("CLIP(") : hint.index(", 0, 100)") + len(", 0, 100)")]
    assert penguins.plan(sd.sql(f"SELECT AVG({clip}) FROM penguins"), epsilon=1).cost == sd.PureDP(1)
    assert "sordino bounds" in hint
    assert "col(" not in hint
    python = refusal_of(penguins, sd.sum(name))
    assert "col(" in python
    assert "find_bounds(" in python
    assert "CLIP" not in python


@examples(20, 100, name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12))
def test_any_name_is_read_back_as_sql_has_it(name: str) -> None:
    from sqlglot import parse_one

    tree = parse_one(f"SELECT AVG({sql_name(name)}) FROM t", dialect="duckdb")
    assert tree.expressions[0].this.name == name


def test_hints_for_sql_are_in_sql(penguins: Any) -> None:
    for text, words, without in (
        ('SELECT COUNT(*) FROM penguins WHERE Island = "Dream"', "write 'Dream', in single quotes", ""),
        (
            "SELECT AVG(Culmen Length (mm)) FROM penguins",
            'write "Culmen Length (mm)", in double quotes',
            "supported are",
        ),
        ("SELECT MIN(huge) FROM penguins", "QUANTILE_CONT(huge, 0.01)", "supported are"),
        (
            'SELECT MAX("Culmen Length (mm)") FROM penguins',
            'QUANTILE_CONT("Culmen Length (mm)", 0.99)',
            "supported are",
        ),
        ("SELECT huge, COUNT(*) FROM penguins GROUP BY huge", "BIN(huge, 10000000)", "col("),
        ("SELECT Island, COUNT(*) AS island FROM penguins GROUP BY Island", "with AS", "alias"),
    ):
        hint = refusal_of(penguins, sd.sql(text))
        assert words in hint, text
        assert not without or without not in hint, text
    assert 'col("huge").bin(width=10000000)' in refusal_of(penguins, penguins.group_by("huge").agg(sd.count()))
    bins = penguins.group_by(col("huge").bin(width=10000000)).agg(sd.count())
    assert penguins.plan(bins, epsilon=1).cost == sd.PureDP(1)


def test_a_percentage_is_meant_as_a_share(penguins: Any) -> None:
    release = penguins.ask(sd.count(), epsilon="0.1")
    for wrong in (95, 95.0):
        with pytest.raises(DeclarationError, match=r"did you mean 0\.95"):
            release.interval(wrong)
    with pytest.raises(DeclarationError, match=r"such as 0\.95"):
        release.interval(0)


@pytest.mark.parametrize(
    ("python", "flags"),
    [
        (f"state {arg('epsilon=')}..., or {arg('rho=')}...", "state --epsilon ..., or --rho ..."),
        (
            f"give {arg('epsilon=')} and {arg('delta=')}, such as {arg('delta=')}1e-6",
            "give --epsilon and --delta, such as --delta 1e-6",
        ),
        (
            f"ask with {arg('epsilon=')} (and {arg('delta=')}), not {arg('rho=')}",
            "ask with --epsilon (and --delta), not --rho",
        ),
        (f"give {arg('assume_rows')}, a public guess", "give --assume-rows, a public guess"),
        (f"give {arg('n')}, a public guess at it", "give --rows, a public guess at it"),
        ("or test_power(..., delta=0.1)", "or test_power(..., delta=0.1)"),
    ],
)
def test_hints_on_the_command_line_are_flags(python: str, flags: str) -> None:
    assert QuestionRefused(python).spelled(as_flag) == flags
    assert str(QuestionRefused(python)) == in_python(python)
