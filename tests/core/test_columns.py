"""Columns held as arrays or by rule: they read as tuples do, and JSON gives back what it was given, short or long."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.core.columns import LISTED, NumberColumn, TiledColumn, read_numbers, write_numbers
from sordino.core.errors import DeclarationError
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.registry import estimate_from_dict
from sordino.core.estimates.table_cells import CellNoise, TableCells
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.time_zones import labels_from_dict, labels_to_dict
from trying import examples

WHOLE = st.integers(-(2**70), 2**70)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.lists(st.one_of(st.none(), st.text(max_size=3), st.integers(-9, 9)), min_size=1, max_size=4)
BLOCKS = st.lists(st.tuples(LABELS, st.integers(0, 4), st.integers(0, 4)), max_size=4)


@examples(20, 100, st.one_of(st.lists(WHOLE, max_size=9), st.lists(FLOATS, max_size=9)), st.sampled_from([1, LISTED]))
def test_numbers_are_those_of_a_tuple(numbers: list[Any], times: int) -> None:
    """Also beyond 64 bits; and JSON, which lists a few and packs many, gives the same numbers of the same type."""
    items = tuple(numbers) * times
    column = NumberColumn(items)
    assert column == items
    assert items == column
    assert [type(number) for number in column[:20]] == [type(number) for number in items[:20]]
    for place in range(min(len(items), 12)):
        assert column[place] == items[place]
    assert column[2:7] == items[2:7]
    read = read_numbers(json.loads(json.dumps(write_numbers(column))))
    assert tuple(read) == items
    assert {type(number) for number in read} == {type(number) for number in items}


@examples(20, 100, BLOCKS)
def test_tiles_are_the_labels_of_crossed_columns(blocks: list[Any]) -> None:
    items = tuple(label for values, each, times in blocks for label in [v for v in values for _ in range(each)] * times)
    column = TiledColumn(blocks)
    assert column == items
    assert tuple(column) == items
    if all(isinstance(label, int) for label in items) and items:
        assert column == NumberColumn(items)
        assert NumberColumn(items) == column
    assert [column[i] for i in range(-len(items), len(items))] == [*items, *items]
    for start, stop in itertools.combinations(range(0, len(items) + 1, 3), 2):
        assert column[start:stop] == items[start:stop]
    assert labels_from_dict(json.loads(json.dumps(labels_to_dict(column)))) == items


def test_long_tiles_are_written_once() -> None:
    column = TiledColumn([(range(2_000), 50, 1), ((None,), 7, 1), (range(2_000), 1, 3)])
    text = json.dumps(labels_to_dict(column))
    assert len(text) < 20_000
    assert labels_from_dict(json.loads(text)) == column
    assert column.to_arrow().to_pylist() == list(column)


@pytest.mark.parametrize(
    "data",
    [
        ["a"],
        [True],
        {"type": "f4", "base64": ""},
        {"type": "i1"},
        {"type": "f8", "base64": "AAAAAAAA+H8="},
        {"values": [[1]], "tiles": [[0, -1, 1]]},
        {"values": [[1]], "tiles": [[0, 1]]},
    ],
)
def test_what_is_no_column_is_refused(data: Any) -> None:
    with pytest.raises(DeclarationError):
        read_numbers(data)


def old_ends(cells: TableCells, confidence: float) -> list[tuple[Any, Any]]:
    """Return the ends of intervals one by one, in Python's own numbers."""
    ends: list[tuple[Any, Any]] = []
    start = 0
    for size, noise in zip(cells.sizes, cells.noise, strict=True):
        widest = noise.error(confidence, cells.unit)
        for i in range(size):
            width = widest * math.sqrt(noise.parts[i]) if len(noise.parts) else widest
            cell = cells.cells[start + i]
            center = cells.linear[start + i] if cells.linear else cell
            low, high = center - width, center + width
            if cells.linear and cells.unit.denominator == 1:
                low, high = math.ceil(low - 1e-6), math.floor(high + 1e-6)
            if cells.least is not None:
                low, high = max(low, cells.least), max(high, cells.least)
            ends.append((min(low, cell), max(high, cell)))
        start += size
    return ends


@examples(
    20,
    100,
    st.lists(st.integers(-(2**64), 2**64), min_size=5, max_size=5),
    st.sampled_from([None, 0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([Fraction(1), Fraction(1, 100)]),
)
def test_ends_are_those_of_each_cell(
    steps: list[int], least: int | None, whole: bool, differing: bool, unit: Fraction
) -> None:
    """Also where numbers pass 64 bits, of two tables, and of one of them taken by itself."""
    parts = (0.25, 1.0, 0.5) if differing else ()
    noise = (CellNoise(4.0, parts=parts), CellNoise(9.0, excess=3.0))
    if not whole and not differing:
        noise = (CellNoise(9.0, own=DiscreteLaplace(Fraction(3))),) * 2
    shown = [step if unit == 1 else float(step * unit) for step in steps]
    linear = [float(step * unit) + 0.25 for step in steps] if whole else ()
    cells = TableCells((("a",), ("b",)), (3, 2), NumberColumn(shown), linear, noise, unit, least)
    # past 2^53 a column of floats and whole numbers holds floats
    ends: list[Any] = [tuple(pytest.approx(end, rel=2**-52) for end in pair) for pair in old_ends(cells, 0.9)]
    assert cells.intervals(0.9) == ends
    second = take_rows(cells, range(3, 5))
    assert (list(second.values()), second.intervals(0.9)) == (shown[3:], ends[3:])
    picked = take_rows(cells, [4, 0, 1])
    assert picked.intervals(0.9) == [ends[4], ends[0], ends[1]]
    hidden = cells.suppress(np.array([1]))
    assert hidden.intervals(0.9)[1] == (None, None)
    for one in (cells, second, picked, hidden):
        assert estimate_from_dict(json.loads(json.dumps(one.to_dict()))) == one
