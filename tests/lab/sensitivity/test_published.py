"""The 520 published sensitivities of tests/data/sensitivities.toml."""

from __future__ import annotations

from typing import Any

import pytest

from published import read_published
from sordino import sensitivity as sens

UNIVERSES: dict[str, dict[str, list[float]]] = read_published("sensitivities")["universes"]
TABLES: list[dict[str, Any]] = read_published("sensitivities")["tables"]
QUERIES = {"p25": "quantile:0.25", "p50": "quantile:0.5", "p75": "quantile:0.75", "p90": "quantile:0.9"}


def name_of(table: dict[str, Any]) -> str:
    return "-".join(str(table[key]) for key in ("scope", "neighbors", "universe", "size", "distance"))


@pytest.mark.deep
@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_published_sensitivities(table: dict[str, Any]) -> None:
    relation, size, distance = table["neighbors"], table["size"], table["distance"]
    moves = {"exactly": distance, "direction": "either"} if relation == "add_remove" else {"within": distance}
    for word, values in table["values"].items():
        query = QUERIES.get(word, word)
        for column, value in zip(table["columns"], values, strict=True):
            universe = UNIVERSES[table["universe"]][column]
            if table["scope"] == "global":
                found = sens.global_sensitivity(query, universe, size=size, neighbors=relation, **moves)
            else:
                found = sens.local_sensitivity(query, universe, universe[:size], neighbors=relation, **moves)
            assert found.exact
            assert found.value == pytest.approx(value, rel=1e-9), (word, column)


def test_there_are_520() -> None:
    assert sum(len(values) for table in TABLES for values in table["values"].values()) == 520
