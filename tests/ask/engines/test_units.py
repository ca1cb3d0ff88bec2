"""Capped units: the choice of a unit's rows depends on that unit's rows alone, and no unit moves more than its cap."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import assert_within_sensitivity, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import DeclarationError

S = Selection()
DOMAIN = sd.Domain(
    {"id": sd.Identifier(), "x": sd.Integer(-5, 9), "c": sd.Category(["a", "b", "c"], missing="keep"), "r": sd.Real()}
)
UNIT = PrivacyUnit("id", max_rows=3)
QUESTIONS = [
    sd.count(),
    sd.sum("x"),
    sd.mean("x"),
    S.group_by("c").agg(sd.count(), sd.sum("x")),
    S.where(col("x") > 0).agg(sd.count()),
    S.where(col("x") > 0).group_by("c").agg(sd.mean("x")),
]
Row = dict[str, Any]


def rows(unit: Any, count: int, rng: random.Random) -> list[Row]:
    return [
        {
            "id": unit,
            "x": rng.choice([None, -9, *range(-5, 10)]),
            "c": rng.choice(["a", "b", "c", None]),
            "r": rng.random(),
        }
        for _ in range(count)
    ]


def answer(table: list[Row], question: Any) -> Any:
    kinds = pa.schema([("id", pa.string()), ("x", pa.int32()), ("c", pa.string()), ("r", pa.float64())])
    return exact(pa.Table.from_pylist(table, schema=kinds), DOMAIN, question, unit=UNIT)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_adding_removing_or_replacing_a_unit_moves_no_more_than_declared(seed: int) -> None:
    rng = random.Random(seed)
    table = [r for u in range(8) for r in rows(f"u{u}", rng.randrange(9), rng)]
    one, other = rows("v", rng.choice([1, 2, 5, 1000]), rng), rows("w", rng.choice([1, 4, 1000]), rng)
    for question in QUESTIONS:
        plain, more = answer(table, question), answer([*one, *table], question)
        assert_within_sensitivity(DOMAIN, question, plain, more, Neighbors("add_remove", UNIT))
        assert_within_sensitivity(
            DOMAIN, question, more, answer([*table, *other], question), Neighbors("replace", UNIT)
        )


def test_a_unit_with_1000_rows_moves_a_count_by_exactly_its_cap() -> None:
    rng = random.Random(1)
    table = rows("a", 2, rng)
    assert answer(table, sd.count()) == [[2]]
    assert answer([*table, *rows("b", 1000, rng)], sd.count()) == [[5]]


@pytest.mark.deep
def test_the_order_of_rows_does_not_matter() -> None:
    rng = random.Random(2)
    table = [r for u in range(20) for r in rows(f"u{u}", 10, rng)]
    found = answer(table, S.group_by("c").agg(sd.sum("x")))
    for _ in range(5):
        rng.shuffle(table)
        assert answer(table, S.group_by("c").agg(sd.sum("x"))) == found


def test_each_unit_chooses_its_rows_by_itself() -> None:
    rng = random.Random(3)
    mine, others = rows("me", 30, rng), [r for u in range(30) for r in rows(f"u{u}", 9, rng)]
    asked = S.group_by("c").agg(sd.count(), sd.sum("x"))
    both, rest, alone = answer([*mine, *others], asked), answer(others, asked), answer(mine, asked)
    assert [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(rest, alone, strict=True)] == both


def test_the_cap_acts_on_the_rows_that_meet_the_condition() -> None:
    table = [{"id": "a", "x": x % 10, "c": "a", "r": 0.1 * x} for x in range(200)]
    assert all(answer(table, S.where(col("x") == x).agg(sd.count())) == [[3]] for x in range(10))
    rare = [{"id": "a", "x": 9, "c": "b", "r": 0.5}, *({**r, "x": 0} for r in table)]
    assert answer(rare, S.where(col("x") == 9).agg(sd.count())) == [[1]]


def test_rows_of_keys_that_are_not_declared_take_no_place_under_the_cap() -> None:
    strays = [{"id": "a", "x": 1, "c": "q", "r": 0.1 * x} for x in range(50)]
    asked = S.group_by(col("x").bin([2, 4])).agg(sd.count())
    assert answer([*strays, {"id": "a", "x": 3, "c": "a", "r": 0.0}], asked) == [[1]]


def test_rows_without_a_unit_are_dropped() -> None:
    rng = random.Random(4)
    assert answer([*rows(None, 50, rng), *rows("a", 2, rng)], sd.count()) == [[2]]
    nan = pa.table({"id": [float("nan"), None, 1.0, 1.0], "x": [1] * 4, "c": ["a"] * 4, "r": [1.0] * 4})
    assert exact(nan, DOMAIN, sd.count(), unit=PrivacyUnit("id", max_rows=1)) == [[1]]


def test_identical_rows_count_up_to_the_cap() -> None:
    assert answer([{"id": "a", "x": 1, "c": "a", "r": 1.0}] * 100, sd.sum("x")) == [[3]]


def test_a_unit_that_is_not_declared_is_refused_at_the_door() -> None:
    with pytest.raises(DeclarationError, match="privacy unit's column 'who' is not declared"):
        exact(
            pa.table({"x": [1], "who": ["a"]}),
            sd.Domain({"x": sd.Integer(0, 1)}),
            sd.count(),
            unit=PrivacyUnit("who", 1),
        )
