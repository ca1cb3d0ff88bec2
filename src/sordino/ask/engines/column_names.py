"""The names that DuckDB gives the columns of a SELECT without AS, `count_star()`, `sum(x)`, by its parser alone."""

from __future__ import annotations

import functools
import json
from typing import Any

from sordino.ask.engines.instances import shared_instance


@functools.lru_cache(maxsize=512)
def item_names(text: str) -> tuple[str | None, ...] | None:
    """Return the name of each item of a SELECT, without AS as DuckDB writes it; None for a star, which stands for several.

    The text is passed to DuckDB's parser as a value: nothing in it is looked up or run. Returns None for a text that DuckDB does
    not parse as one SELECT.

    >>> item_names("SELECT COUNT(*), Sum(Qty) AS s, clip(x,0,5), * FROM t")
    ('count_star()', 's', 'clip(x, 0, 5)', None)
    """
    import duckdb

    connection = shared_instance("outer").root.cursor()
    try:
        statements = _serialize(connection, text)
        node = statements[0]["node"] if len(statements) == 1 else {}
        return tuple(_name(connection, item) for item in node["select_list"])
    except (duckdb.Error, KeyError, TypeError, RecursionError):
        return None
    finally:
        connection.close()


def _serialize(connection: Any, text: str) -> list[dict[str, Any]]:
    [(tree,)] = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    statements: list[dict[str, Any]] = json.loads(tree)["statements"]
    return statements


def _name(connection: Any, item: dict[str, Any]) -> str | None:
    if item["class"] == "STAR":
        return None
    if item.get("alias"):
        return str(item["alias"])
    if item["class"] == "COLUMN_REF":
        return str(item["column_names"][-1])
    # DuckDB names an item by its text: it is written as the only item of a SELECT
    statements = _serialize(connection, "SELECT 1")
    statements[0]["node"]["select_list"] = [item]
    tree = json.dumps({"error": False, "statements": statements})
    [(text,)] = connection.execute("SELECT json_deserialize_sql(?::JSON)", [tree]).fetchall()
    return str(text).removeprefix("SELECT ")
