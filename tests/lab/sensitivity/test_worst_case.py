"""The worst-case table of the reference, section 1, number by number."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from mistyping import mistype
from sordino.ask.queries.build import Selection, count, histogram, mean
from sordino.ask.queries.build import sum as total
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.core.domain import Boolean, Category, Domain, Fill, Integer, Real
from sordino.core.neighbors import PrivacyUnit, Sensitivity
from sordino.errors import DeclarationError, QuestionRefused
from sordino.lab.sensitivity.worst_case import worst_case_sensitivity

DOMAIN = Domain(
    {
        "a": Integer(10, 20, missing=Fill(10)),
        "b": Integer(-5, 3, missing=Fill(0)),
        "c": Integer(-7, -2, missing=Fill(-2)),
        "d": Integer(-3, 2, missing=Fill(0)),
        "r": Real(0, 1, resolution=0.25, missing=Fill(0)),
        "gaps": Integer(0, 10),
        "free": Integer(missing=Fill(0)),
        "sex": Category(["f", "m", "x"]),
        "flag": Boolean(missing=Fill(False)),
        "who": Integer(0, 10**6),
    }
)
UNIT = PrivacyUnit("who", max_rows=4)


def add_remove(question: object, unit: str | PrivacyUnit = "row") -> Sensitivity:
    return worst_case_sensitivity(question, DOMAIN, neighbors="add_remove", privacy_unit=unit)


def replace(question: object, unit: str | PrivacyUnit = "row", n: int | None = None) -> Sensitivity:
    return worst_case_sensitivity(question, DOMAIN, neighbors="replace", privacy_unit=unit, n=n)


def figures(found: Sensitivity) -> tuple[Fraction | int, Fraction | int, Fraction | int]:
    return found.l1, found.l2_squared, found.linf


def test_section_1_count() -> None:
    assert figures(add_remove(count())) == (1, 1, 1)
    assert figures(add_remove(count(), UNIT)) == (4, 16, 4)
    assert figures(replace(count())) == (0, 0, 0)
    assert figures(replace(count(), UNIT)) == (4, 16, 4)


def test_section_1_a_filter_changes_no_count_but_the_replace_0() -> None:
    kept = Selection().where(col("a") > 12).agg(count())
    assert figures(add_remove(kept)) == (1, 1, 1)
    assert figures(replace(kept)) == (1, 1, 1)
    assert figures(replace(count("gaps"))) == (1, 1, 1)
    unreadable = Domain({"a": Integer(0, 1)}, unreadable_rows=True)
    assert worst_case_sensitivity(count(), unreadable, neighbors="replace", privacy_unit="row").l1 == 1


def test_section_1_histogram() -> None:
    assert figures(add_remove(histogram("sex"))) == (1, 1, 1)
    assert figures(replace(histogram("sex"))) == (2, 2, 1)
    assert replace(histogram("sex")).l2 == pytest.approx(math.sqrt(2), rel=1e-15)
    assert figures(add_remove(histogram("sex"), UNIT)) == (4, 16, 4)
    assert figures(replace(histogram("sex"), UNIT)) == (8, 32, 4)


@pytest.mark.parametrize(("column", "added", "replaced"), [("a", 20, 10), ("b", 5, 8), ("c", 7, 5)])
def test_section_1_sum(column: str, added: int, replaced: int) -> None:
    assert figures(add_remove(total(column))) == (added, added**2, added)
    assert figures(replace(total(column))) == (replaced, replaced**2, replaced)
    assert add_remove(total(column), UNIT).l1 == 4 * added


@pytest.mark.parametrize(("column", "replaced"), [("a", 20), ("b", 8), ("c", 7)])
def test_section_1_sum_where_rows_may_drop_out(column: str, replaced: int) -> None:
    kept = Selection().where(col("gaps") > 2).agg(total(column))
    assert replace(kept).l1 == replaced
    assert replace(total(column), UNIT).l1 == 4 * replaced


@pytest.mark.parametrize(("column", "largest", "spread"), [("a", 20, 20), ("b", 5, 8), ("c", 7, 7)])
def test_section_1_grouped_sum(column: str, largest: int, spread: int) -> None:
    grouped = Selection().group_by("sex").agg(total(column))
    assert figures(add_remove(grouped))[:2] == (largest, largest**2)
    assert figures(add_remove(grouped, UNIT))[:2] == (4 * largest, (4 * largest) ** 2)
    assert figures(replace(grouped))[:2] == (2 * largest, max(2 * largest**2, spread**2))
    assert figures(replace(grouped, UNIT))[:2] == (8 * largest, 16 * max(2 * largest**2, spread**2))


def test_section_1_expressions() -> None:
    x = col("a")
    assert add_remove(total(x + x)).l1 == 40
    assert add_remove(total(5 * x)).l1 == 100
    assert add_remove(total(col("d") * col("d"))).l1 == 9
    assert replace(total(col("d") * col("d"))).l1 == 9


@pytest.mark.parametrize("made", [col("free"), col("free") + col("free"), 5 * col("free"), col("free") * col("free")])
def test_section_1_unbounded_sums_are_refused(made: Expr) -> None:
    with pytest.raises(QuestionRefused, match="clip"):
        add_remove(total(made))


def test_section_1_clipping_makes_any_of_them_bounded() -> None:
    for made in (col("free"), col("free") + col("free"), 5 * col("free")):
        assert add_remove(total(made.clip(0, 100))).l1 == 100
    clipped = col("free").clip(-3, 2)
    assert add_remove(total(clipped * clipped)).l1 == 9


def test_section_1_mean_of_public_size() -> None:
    made = replace(mean("a"), n=1000)
    assert figures(made) == (Fraction(10, 1000), Fraction(10, 1000) ** 2, Fraction(10, 1000))
    assert made.l0 == 1
    assert replace(mean("r"), n=8).l1 == Fraction(1, 8)
    assert replace([mean("a"), total("b"), count()], n=10).l1 == 1 + 8 + 0


def test_section_1_mean_of_private_size_is_refused_with_the_reason() -> None:
    refused: list[tuple[dict[str, Any], Any, str]] = [
        ({}, mean("a"), "add_remove"),
        ({"neighbors": "replace", "privacy_unit": UNIT}, mean("a"), "who"),
        ({"neighbors": "replace"}, Selection().where(col("a") > 12).agg(mean("a")), "filter"),
        ({"neighbors": "replace"}, Selection().group_by("flag").agg(mean("a")), "group"),
        ({"neighbors": "replace"}, mean("gaps"), "missing"),
    ]
    for change, question, reason in refused:
        call: dict[str, Any] = {"neighbors": "add_remove", "privacy_unit": "row", "n": 100, **change}
        with pytest.raises(QuestionRefused, match=reason) as caught:
            worst_case_sensitivity(question, DOMAIN, **call)
        assert "release a sum and a count, and divide" in str(caught.value)
    unreadable = Domain({"a": Integer(0, 1, missing=Fill(0))}, unreadable_rows=True)
    with pytest.raises(QuestionRefused, match="unreadable"):
        worst_case_sensitivity(mean("a"), unreadable, neighbors="replace", privacy_unit="row", n=3)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(QuestionRefused, match="n="):
        replace(mean("a"))
    for n in (0, -1, 1.5, True):
        with pytest.raises(DeclarationError, match="n must"):
            replace(mean("a"), n=mistype(n))
    with pytest.raises(DeclarationError, match="no mean"):
        replace(total("a"), n=5)
    with pytest.raises(DeclarationError, match="neighbors"):
        worst_case_sensitivity(count(), DOMAIN, neighbors="bounded", privacy_unit="row")
    with pytest.raises(DeclarationError, match="privacy_unit"):
        worst_case_sensitivity(count(), DOMAIN, neighbors="replace", privacy_unit="user")
    with pytest.raises(QuestionRefused):
        add_remove("count")


@pytest.mark.parametrize(("low", "high"), [(10, 20), (-5, 3), (-7, -2), (0, 4), (-3, 0), (2, 2)])
def test_brute_force_reaches_the_sums_and_no_more(low: int, high: int) -> None:
    """All tables of up to 3 rows with values at the bounds and between, rows that may drop out counting 0."""
    domain = Domain({"x": Integer(low, high, missing=Fill(low))})
    cells = sorted({low, high, (low + high) // 2})
    tables = [t for n in range(4) for t in product(cells, repeat=n)]

    def sensitivity(relation: str, question: object, n: int | None = None) -> Fraction:
        return worst_case_sensitivity(question, domain, neighbors=relation, privacy_unit="row", n=n).l1

    added = max(abs(sum(t) - sum(t[1:])) for t in tables)
    swapped = max(abs(sum(t) - sum((v, *t[1:]))) for t in tables if t for v in cells)
    dropped = max(abs(sum(t) - sum((v, *t[1:]))) for t in tables if t for v in [*cells, 0])
    assert added == sensitivity("add_remove", total("x"))
    assert swapped == sensitivity("replace", total("x"))
    assert dropped <= sensitivity("replace", Selection().where(col("x") >= low).agg(total("x")))
    means = max(abs(Fraction(sum(t), 3) - Fraction(sum((v, *t[1:])), 3)) for t in tables if len(t) == 3 for v in cells)
    assert means == sensitivity("replace", mean("x"), n=3)
