"""All tables of a small universe and their neighbors, against the other figures: every local value and the global one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sordino import sensitivity as sens
from sordino.errors import DeclarationError
from sordino.lab.sensitivity import neighborhoods
from sordino.lab.sensitivity.moves import moves_from
from sordino.lab.sensitivity.neighborhoods import list_neighborhoods, list_values
from sordino.lab.sensitivity.statistics import statistic_from
from sordino.lab.sensitivity.worst_case import enumerate_pairs

UNIVERSE = [1, 2, 2, 3, 10, 11]
CELLS = [
    {"neighbors": "replace", "within": 1},
    {"neighbors": "replace", "within": 2},
    {"neighbors": "add_remove", "within": 2},
    {"neighbors": "add_remove", "exactly": 1, "direction": "either"},
    {"neighbors": "add_remove", "exactly": 2, "direction": "add"},
]


@pytest.mark.deep
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


def test_the_hand_table_prints_and_becomes_a_frame() -> None:
    found = list_neighborhoods("median", [1, 2, 3, 10, 11], size=3, neighbors="replace", within=1)
    lines = repr(found).splitlines()
    assert lines[0].startswith("median of 3, replace")
    assert len(lines) == 2 + 10 + 1
    assert lines[2].split()[:4] == ["1,2,3", "2", "1,2,10:", "2"]
    assert sum("= global" in line for line in lines) == 4
    assert lines[-1] == "the global sensitivity is the largest local one: 8"
    frame = found.table.to_pandas()
    assert len(frame) == 10 * 6  # each of three leaves, and one of two comes
    assert frame.groupby(frame["table"].map(tuple))["change"].max().tolist() == [row.local for row in found.rows]
    assert frame.loc[frame["attains"], "local"].unique().tolist() == [8.0]
    assert found._repr_html_().count("<tr>") == 11
    assert "and 57 more" in repr(list_neighborhoods("max", range(12), size=2, neighbors="replace", within=2))
    marked = repr(replace(found, mark="column <age>"))
    assert marked.startswith("NOT PRIVATE: column <age>; ")
    assert "&lt;age&gt;" in replace(found, mark="column <age>")._repr_html_()
    assert repr(list_neighborhoods("max", range(30), size=2, neighbors="replace", within=1)).endswith(
        "of all 435 tables"
    )


def test_a_table_without_neighbors_cannot_move() -> None:
    found = list_neighborhoods("max", [1, 1], size=1, neighbors="replace", within=1)
    assert [(row.neighbors, row.local) for row in found.rows] == [((), 0)]


def test_large_universes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighborhoods, "MOST_PAIRS", 2_000)
    with pytest.raises(DeclarationError, match="small universes"):
        list_neighborhoods("max", range(40), size=20, neighbors="replace", within=1)


def test_long_lists_are_cut_in_the_middle() -> None:
    assert list_values([1, 2, 3], 3) == "1, 2, 3"
    assert list_values(range(100), 4) == "0, 1, ..., 99"
