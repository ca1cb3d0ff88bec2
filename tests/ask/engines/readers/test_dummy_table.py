"""The made-up table: it has the declared shape, whatever the declaration, and nothing else decides it."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from sordino.ask.curator.dummy_table import dummy
from sordino.core.domain import Column
from trying import examples

DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "shift": sd.Integer(),
        "pay": sd.Real(-10, 10, resolution="0.5"),
        "weight": sd.Real(5),
        "job": sd.Category(["nurse", "cook"], missing="keep", other="else"),
        "grade": sd.Category([3, 1, 2]),
        "ill": sd.Boolean(),
        "day": sd.Date("2020-02-28", "2020-03-01"),
        "person": sd.Identifier(),
    }
)


def test_every_column_has_its_declared_type_bounds_values_and_missing_cells() -> None:
    table = dummy(DOMAIN, rows=2000, rng=sd.Rng.seeded(1))
    cells = {n: table[n].to_pylist() for n in table.schema.names}
    present = {n: [c for c in column if c is not None] for n, column in cells.items()}
    assert table.schema.names == list(DOMAIN)
    assert (min(present["age"]), max(present["age"])) == (0, 125)
    assert set(present["pay"]) == {n / 2 for n in range(-20, 21)}
    assert 5 <= min(present["weight"]) <= max(present["weight"]) <= 1005
    assert set(present["job"]) == {"nurse", "cook", "else"}
    assert set(present["grade"]) == {1, 2, 3}
    assert set(present["ill"]) == {True, False}
    assert set(present["day"]) == {datetime.date(2020, 2, 28) + datetime.timedelta(n) for n in range(3)}
    assert all(0.02 < 1 - len(present[n]) / 2000 < 0.08 for n in present if n != "person")
    assert len(present["person"]) == 2000
    assert 400 < len(set(present["person"])) <= 2000 // 3


def test_a_seed_gives_the_same_table_and_none_another_one_each_time() -> None:
    first, again = (dummy(DOMAIN, rows=50, rng=sd.Rng.seeded(4)) for _ in range(2))
    assert first.equals(again)
    assert not dummy(DOMAIN, rows=50).equals(dummy(DOMAIN, rows=50))


def test_an_empty_table_has_types() -> None:
    assert dummy(DOMAIN, rows=0).schema == dummy(DOMAIN, rows=9).schema


def test_a_privacy_unit_outside_the_domain_is_a_column_too() -> None:
    table = dummy(sd.Domain({"age": sd.Integer(0, 9)}), rows=9, unit=sd.PrivacyUnit("household", max_rows=2))
    assert table.schema.names == ["age", "household"]
    assert table.schema.field("household").type == pa.string()


@pytest.mark.parametrize("rows", [-1, True, 1.5, "10", 10**9])
def test_a_number_of_rows_that_is_none_is_refused(rows: Any) -> None:
    with pytest.raises(sd.errors.DeclarationError, match="whole number from 0 to 10"):
        dummy(DOMAIN, rows=rows)


WHOLE = st.integers(-(2**40), 2**40)
COLUMNS: st.SearchStrategy[Column] = st.one_of(
    st.tuples(WHOLE, st.integers(0, 2**40)).map(lambda p: sd.Integer(p[0], p[0] + p[1])),
    WHOLE.map(lambda low: sd.Integer(low)),
    WHOLE.map(lambda high: sd.Integer(None, high)),
    st.tuples(WHOLE, st.integers(1, 2**30), st.integers(1, 1000)).map(
        lambda p: sd.Real(p[0], p[0] + p[1], resolution=Fraction(1, p[2]))
    ),
)


@examples(12, 60, COLUMNS)
def test_numbers_stay_within_their_bounds_and_on_their_grid(column: sd.Integer | sd.Real) -> None:
    (cells,) = dummy(sd.Domain({"x": column}), rows=40, rng=sd.Rng.seeded(2)).to_pydict().values()
    for cell in (c for c in cells if c is not None):
        assert column.lower is None or cell >= float(column.lower)
        assert column.upper is None or cell <= float(column.upper)
        if isinstance(column, sd.Real) and column.step is not None:
            assert abs(cell - round(cell / float(column.step)) * float(column.step)) <= 1e-9 * max(abs(cell), 1)
