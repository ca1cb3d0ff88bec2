"""Every number of the reference's table of worst-case sensitivities (section 1), each a test named after it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

import sordino as sd
from sordino import col
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.sensitivity_rules import block_sensitivity
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation, Sensitivity

ROW = None
CAPPED = PrivacyUnit("id", max_rows=5)
S = Selection()


def of(question: Any, relation: Relation, unit: PrivacyUnit | None = ROW, *, readable: bool = True) -> Sensitivity:
    domain = sd.Domain(
        {
            "x": sd.Integer(10, 20, missing=sd.Fill(10)),
            "y": sd.Integer(-5, 3, missing=sd.Fill(0)),
            "z": sd.Integer(-7, -2, missing=sd.Fill(-2)),
            "drop": sd.Integer(10, 20),
            "kept": sd.Integer(10, 20, missing="keep"),
            "c": sd.Category(["a", "b", "c"], missing=sd.Fill("a")),
            "one": sd.Category(["only"], other="only", missing=sd.Fill("only")),
            "id": sd.Identifier(),
        },
        unreadable_rows=not readable,
    )
    return as_aggregation(question).sensitivity(domain, Neighbors(relation, unit))


def figures(s: Sensitivity) -> tuple[Fraction | int, Fraction | int, Fraction | int]:
    return s.l1, s.l2_squared, s.linf


def test_count_add_remove_is_c() -> None:
    assert of(sd.count(), "add_remove").l1 == 1
    assert of(sd.count(), "add_remove", CAPPED).l1 == 5


def test_count_replace_is_0_only_for_rows_that_nothing_drops() -> None:
    assert of(sd.count(), "replace").l1 == 0
    assert of(sd.count("x"), "replace").l1 == 0
    assert of(sd.count("drop"), "replace").l1 == 1
    assert of(sd.count("kept"), "replace").l1 == 1
    assert of(sd.count(), "replace", CAPPED).l1 == 5
    assert of(sd.count(), "replace", PrivacyUnit("id", max_rows=1)).l1 == 1
    assert of(S.where(col("x") > 1).agg(sd.count()), "replace").l1 == 1
    assert of(sd.count(), "replace", readable=False).l1 == 1
    assert of(S.group_by("one").agg(sd.count()), "replace").l1 == 1


@pytest.mark.parametrize(("unit", "c"), [(ROW, 1), (CAPPED, 5)])
def test_group_by_count(unit: PrivacyUnit | None, c: int) -> None:
    asked = S.group_by("c").agg(sd.count())
    assert figures(of(asked, "add_remove", unit)) == (c, c * c, c)
    assert figures(of(asked, "replace", unit)) == (2 * c, 2 * c * c, c)
    assert of(asked, "replace", unit).l2 >= math.sqrt(2) * c
    assert of(asked, "replace", unit).l2 == pytest.approx(math.sqrt(2) * c, rel=1e-12)


def test_histogram_is_a_group_by() -> None:
    assert figures(of(sd.histogram("x", width=5), "replace")) == (2, 2, 1)
    assert figures(of(sd.histogram("x", width=5), "add_remove")) == (1, 1, 1)


def test_sum_on_10_20_is_20_and_10() -> None:
    assert of(sd.sum("x"), "add_remove").l1 == 20
    assert of(sd.sum("x"), "replace").l1 == 10


def test_sum_on_10_20_with_where_under_replace_is_20() -> None:
    assert of(S.where(col("x") > 12).agg(sd.sum("x")), "replace").l1 == 20
    assert of(sd.sum("drop"), "replace").l1 == 20
    assert of(sd.sum("kept"), "replace").l1 == 20
    assert of(sd.sum("x"), "replace", readable=False).l1 == 20


def test_sum_on_minus_5_3_is_5_and_8() -> None:
    assert of(sd.sum("y"), "add_remove").l1 == 5
    assert of(sd.sum("y"), "replace").l1 == 8
    assert of(S.where(col("x") > 12).agg(sd.sum("y")), "replace").l1 == 8


def test_sum_on_minus_7_minus_2_is_7_and_5() -> None:
    assert of(sd.sum("z"), "add_remove").l1 == 7
    assert of(sd.sum("z"), "replace").l1 == 5
    assert of(S.where(col("x") > 12).agg(sd.sum("z")), "replace").l1 == 7


def test_sum_of_capped_units() -> None:
    assert of(sd.sum("x"), "add_remove", CAPPED).l1 == 100
    assert of(sd.sum("x"), "replace", CAPPED).l1 == 100
    assert of(sd.sum("y"), "replace", CAPPED).l1 == 40


@pytest.mark.parametrize(("unit", "c"), [(ROW, 1), (CAPPED, 5)])
@pytest.mark.parametrize(("name", "largest", "spread"), [("x", 20, 20), ("y", 5, 8), ("z", 7, 7)])
def test_group_by_sum(name: str, largest: int, spread: int, unit: PrivacyUnit | None, c: int) -> None:
    asked = S.group_by("c").agg(sd.sum(name))
    assert figures(of(asked, "add_remove", unit)) == (c * largest, (c * largest) ** 2, c * largest)
    l2_squared = c * c * max(2 * largest**2, spread**2)
    assert figures(of(asked, "replace", unit)) == (2 * c * largest, l2_squared, c * spread)


def test_mean_is_a_centred_sum_and_a_count() -> None:
    mean = as_aggregation(sd.mean("x"))
    assert of(mean, "add_remove").l1 == 5 + 1  # centred at 15: moved by 5; the count by 1
    assert of(mean, "replace").l1 == 10  # the count cannot move: (u - l) / n


@pytest.mark.parametrize(
    ("relation", "plain", "doubled", "fivefold"), [("add_remove", 20, 40, 100), ("replace", 10, 20, 50)]
)
def test_expressions_carry_intervals(relation: Relation, plain: int, doubled: int, fivefold: int) -> None:
    x = col("x")
    assert of(sd.sum(x), relation).l1 == plain
    assert of(sd.sum(x + x), relation).l1 == doubled
    assert of(sd.sum(5 * x), relation).l1 == fivefold


def test_where_does_not_change_the_sensitivity_of_a_count_under_add_remove() -> None:
    assert of(S.where(col("x") > 12).agg(sd.count()), "add_remove").l1 == 1


def test_several_answers_add_up_and_the_reason_is_a_sentence() -> None:
    both = of([sd.count(), sd.sum("x")], "add_remove")
    assert figures(both) == (21, 401, 20)
    assert "moves" in both.because
    assert "\n" not in both.because


BLOCKS = {
    "cells": [(5, 0), (0, 5)],
    "opposed": [(4, 1), (-3, 2)],
    "turned": [(15, 26), (-15, 26)],
    "far apart": [(2, 1), (-2, -1), (1, 1)],
}


@pytest.mark.parametrize("droppable", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("corners", BLOCKS.values(), ids=BLOCKS)
def test_no_unit_moves_vectors_together_by_more(
    corners: list[tuple[int, int]], relation: Relation, cells: int, rows: int, droppable: bool
) -> None:
    """By brute force over what each of a unit's rows adds, in which group; for one row the bounds are reached."""
    unit = ROW if rows == 1 else PrivacyUnit("id", max_rows=rows)
    stated = block_sensitivity(Neighbors(relation, unit), corners, cells=cells, droppable=droppable)
    single = [tuple(v if k == g else (0, 0) for k in range(cells)) for g in range(cells) for v in corners]
    nothing = ((0, 0),) * cells
    once = [*single, nothing] if droppable or rows > 1 else single
    units = [add(*chosen) for chosen in itertools.combinations_with_replacement(once, rows)]
    moved = units if relation == "add_remove" else [apart(v, w) for v, w in itertools.product(units, units)]
    l1 = max(sum(map(abs, itertools.chain(*m))) for m in moved)
    l2_squared = max(sum(x * x for x in itertools.chain(*m)) for m in moved)
    assert l1 <= stated.l1
    assert l2_squared <= stated.l2_squared
    if rows == 1 and (relation == "add_remove" or cells == 1):
        assert l1 == stated.l1
        assert l2_squared == stated.l2_squared


Moves = tuple[tuple[int, ...], ...]


def add(*moves: Moves) -> Moves:
    return tuple(tuple(map(sum, zip(*cell, strict=True))) for cell in zip(*moves, strict=True))


def apart(one: Moves, other: Moves) -> Moves:
    return tuple(tuple(a - b for a, b in zip(v, w, strict=True)) for v, w in zip(one, other, strict=True))
