"""The distance of two given tables: the fewest moves, found by breadth-first search over small tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sordino import sensitivity as sens
from sordino.errors import DeclarationError

VALUES = (1, 2, 3)
Table = tuple[int, ...]


def step(table: Table, relation: str) -> Iterator[Table]:
    """Yield each neighbor of a table."""
    for place in range(len(table)):
        rest = table[:place] + table[place + 1 :]
        if relation == "add_remove":
            yield rest
        else:
            yield from (tuple(sorted((*rest, value))) for value in VALUES)
    if relation == "add_remove" and len(table) < 4:
        yield from (tuple(sorted((*table, value))) for value in VALUES)


def search(start: Table, relation: str) -> dict[Table, int]:
    """Return the fewest moves to every table that can be reached."""
    found, edge, moves = {start: 0}, {start}, 0
    while edge:
        moves += 1
        edge = {other for table in edge for other in step(table, relation)} - set(found)
        found |= dict.fromkeys(edge, moves)
    return found


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_it_is_the_fewest_moves(relation: str) -> None:
    tables = [t for size in range(4) for t in itertools.combinations_with_replacement(VALUES, size)]
    for table in tables:
        moves = search(table, relation)
        for other in tables:
            if other in moves:
                assert sens.distance(table, other[::-1], neighbors=relation) == moves[other]


def test_tables_of_columns_are_compared_by_rows() -> None:
    one = {"age": [30, 30, 41], "sex": ["f", "f", None]}
    two = {"sex": ["f", None, "m"], "age": [30, 41, 30]}
    for first in (one, pd.DataFrame(one), pa.table(one)):
        for second in (two, pd.DataFrame(two), pa.table(two)):
            assert sens.distance(first, second, neighbors="replace") == 1
            assert sens.distance(first, second, neighbors="add_remove") == 2
    assert sens.distance(one, {"years": [30, 30, 41], "sex": ["f", "f", None]}, neighbors="replace") == 3


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DeclarationError, match='other must be as large as table under "replace": 2 and 1 records'):
        sens.distance([1], [1, 2], neighbors="replace")
    with pytest.raises(DeclarationError, match='called "add_remove" here'):
        sens.distance([1], [1, 2], neighbors="unbounded DP")
    broken: list[Any] = ["text", 5, [{}], {"a": [1], "b": [1, 2]}]
    for wrong in broken:
        with pytest.raises(DeclarationError, match="table must be a sequence"):
            sens.distance(wrong, [1], neighbors="add_remove")
