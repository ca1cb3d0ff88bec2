"""Published numbers, kept as TOML in tests/data: each table names its source, its columns and its rows."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from places import ROOT


@cache
def read_published(name: str) -> dict[str, Any]:
    """Return the content of tests/data/NAME.toml."""
    return tomllib.loads((ROOT / "tests" / "data" / f"{name}.toml").read_text(encoding="utf-8"))


def rows_of(name: str, table: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the names and the rows of a table, as `pytest.mark.parametrize(*rows_of(...))` takes them."""
    found = read_published(name)[table]
    rows = [tuple(row) for row in found["rows"]]
    assert rows
    assert all(len(row) == len(found["columns"]) for row in rows)
    return tuple(found["columns"]), rows
