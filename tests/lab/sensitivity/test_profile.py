"""The profile: one row for each cell, equal to the calls it stands for; and the public API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sordino as sd
from sordino import sensitivity as sens
from sordino.errors import DeclarationError

UNIVERSE = [1, 2, 3, 4, 5, 6, 7, 8, 15, 20]
QUERIES = ["count", "sum", "mean", "median", "var", "std", "quantile:0.9"]


@pytest.mark.parametrize("moves", ["exactly", pytest.param("within", marks=pytest.mark.deep)])
def test_rows_are_the_calls(moves: Any) -> None:
    table = sens.sensitivity_profile(UNIVERSE, UNIVERSE[:6], queries=QUERIES, distances=range(1, 5), moves=moves)
    assert table.column_names == ["query", "distance", "scope", "relation", "value", "exact"]
    assert table.num_rows == len(QUERIES) * 4 * 2 * 2
    for row in table.to_pylist()[::7]:
        asked: dict[str, Any] = {"neighbors": row["relation"], "within": row["distance"]}
        if moves == "exactly" and row["relation"] == "add_remove":
            asked = {"neighbors": "add_remove", "exactly": row["distance"], "direction": "either"}
        if row["scope"] == "global":
            found = sens.global_sensitivity(row["query"], UNIVERSE, size=6, **asked)
        else:
            found = sens.local_sensitivity(row["query"], UNIVERSE, UNIVERSE[:6], **asked)
        assert (row["value"], row["exact"]) == (found.value, found.exact)


@pytest.mark.deep
def test_no_line_falls_and_local_stays_below_global() -> None:
    rows = sens.sensitivity_profile(UNIVERSE, UNIVERSE[:6], queries=QUERIES).to_pylist()
    lines: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        lines.setdefault((row["query"], row["scope"], row["relation"]), []).append(row["value"])
    assert all(line == sorted(line) for line in lines.values())
    for (query, scope, relation), line in lines.items():
        if scope == "local":
            assert all(a <= b + 1e-12 for a, b in zip(line, lines[query, "global", relation], strict=True))


@pytest.mark.parametrize("values", [UNIVERSE, tuple(UNIVERSE), np.array(UNIVERSE), pa.array(UNIVERSE), range(1, 11)])
def test_any_sequence_of_numbers_is_a_universe(values: Any) -> None:
    assert sens.sensitivity_profile(values, [1, 2, 3], queries=["mean"], distances=[1]).num_rows == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queries": "mean"}, "queries must be a sequence"),
        ({"queries": []}, "queries must not be empty"),
        ({"queries": ["kurtosis"]}, "query 'kurtosis'"),
        ({"distances": []}, "distances must not be empty"),
        ({"distances": 3}, "distances must be a sequence"),
        ({"distances": [6]}, "within=6 leads from 6"),
        ({"table": [99]}, "table must be a part"),
        ({"moves": "near"}, "moves must be"),
    ],
)
def test_bad_input(change: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"universe": UNIVERSE, "table": UNIVERSE[:6], "queries": ["mean"]}
    with pytest.raises(DeclarationError, match=words):
        sens.sensitivity_profile(**(asked | change))


def test_the_package_is_lazy_and_no_export_bears_the_name_of_a_module() -> None:
    from importlib import resources

    modules = {entry.name.removesuffix(".py") for entry in resources.files("sordino.lab.sensitivity").iterdir()}
    assert not modules & set(sens.__all__)
    assert set(sens.__all__) <= set(dir(sens))
    with pytest.raises(AttributeError, match="medain"):
        _ = sens.medain
    script = "import sordino.sensitivity, sys; print([m for m in ('numpy', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.each(3)
@pytest.mark.parametrize("table_of", [dict, pd.DataFrame, pa.table])
def test_several_columns_are_their_profiles_one_after_another(table_of: Callable[[Any], Any]) -> None:
    school = {"year": [1, 2, 3, 4], "days": [1, 2, 3, 10]}
    part = {name: values[:3] for name, values in school.items()}
    how: dict[str, Any] = {"queries": ["mean", "var"], "distances": [1], "moves": "exactly"}
    found = sens.sensitivity_profile(table_of(school), table_of(part), **how)
    alone = [sens.sensitivity_profile(school[name], part[name], **how).to_pylist() for name in school]
    named = zip(school, alone, strict=True)
    assert found.to_pylist() == [{"column": name} | row for name, rows in named for row in rows]
    assert "year" in str(sd.plot(found).spec())
    with pytest.raises(DeclarationError, match="table must have the columns of universe: year, days"):
        sens.sensitivity_profile(table_of(school), [1, 2, 3], queries=["mean"])
    with pytest.raises(DeclarationError, match=r"choose a column, as table\['year'\]"):
        sens.global_sensitivity("mean", table_of(school), size=3, neighbors="replace", within=1)
