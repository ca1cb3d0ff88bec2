"""All tables of a small universe and their neighbors, against the other figures: every local value and the global one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sordino import sensitivity as sens
from sordino.errors import DeclarationError
from sordino.sensitivity.bound_check import enumerate_pairs
from sordino.sensitivity.moves import moves_from
from sordino.sensitivity.neighborhoods import list_neighborhoods, list_values
from sordino.sensitivity.statistics import statistic_from

UNIVERSE = [1, 2, 2, 3, 10, 11]
CELLS = [
    {"neighbors": "replace", "within": 1},
    {"neighbors": "replace", "within": 2},
    {"neighbors": "add_remove", "within": 2},
    {"neighbors": "add_remove", "exactly": 1, "direction": "either"},
    {"neighbors": "add_remove", "exactly": 2, "direction": "add"},
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.parametrize("query", ["median", "mean", "var", "sum", "quantile:0.75"])
def test_local_and_global_values_agree_with_the_algorithms(query: str, cell: dict[str, Any]) -> None:
    how = {"within": None, "exactly": None, "direction": None} | cell
    moves = moves_from(**how, size=3, universe_size=len(UNIVERSE))
    statistic = statistic_from(query, ddof=0)
    found = list_neighborhoods(query, UNIVERSE, size=3, **cell)
    for row in found.rows:
        local = sens.local_sensitivity(query, UNIVERSE, row.table, **cell).value
        assert row.local == pytest.approx(local, abs=1e-12)
        assert row.table not in [table for table, _ in row.neighbors]
    assert found.value == pytest.approx(sens.global_sensitivity(query, UNIVERSE, size=3, **cell).value)
    assert found.value == pytest.approx(enumerate_pairs(np.array(UNIVERSE, dtype=float), statistic, moves)[0])
    assert len({row.table for row in found.rows}) == len(found.rows) == 14  # of 20 tables, 6 repeat as 2 = 2


def test_neighborhoods_as_data() -> None:
    found = list_neighborhoods("max", [1, 2, 3], size=1, neighbors="add_remove", exactly=1, direction="add")
    plain = found.to_dict()
    assert plain["global"] == 2
    assert plain["rows"][0] == {
        "table": [1],
        "answer": 1,
        "neighbors": [{"table": [1, 2], "answer": 2, "change": 1}, {"table": [1, 3], "answer": 3, "change": 2}],
        "local": 2,
        "attains": True,
    }


def test_a_table_without_neighbors_cannot_move() -> None:
    found = list_neighborhoods("max", [1, 1], size=1, neighbors="replace", within=1)
    assert [(row.neighbors, row.local) for row in found.rows] == [((), 0)]


def test_large_universes_are_refused() -> None:
    with pytest.raises(DeclarationError, match="small universes"):
        list_neighborhoods("max", range(40), size=20, neighbors="replace", within=1)


def test_long_lists_are_cut_in_the_middle() -> None:
    assert list_values([1, 2, 3], 3) == "1, 2, 3"
    assert list_values(range(100), 4) == "0, 1, ..., 99"
