"""The words that the SQL editor completes: what questions may hold, and declared tables, columns and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LANGUAGE = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "IS NULL",
    "CASE WHEN",
    "JOIN",
    "ON",
    "EXISTS",
    "COUNT(*)",
    "COUNT(DISTINCT ",
    "SUM(",
    "AVG(",
    "MEDIAN(",
    "QUANTILE_CONT(",
    "VAR_SAMP(",
    "STDDEV_SAMP(",
    "CORR(",
    "COVAR_SAMP(",
]
_MOST = 100  # values of a column


def words_of_tables(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return each word with what it is; all of it is declared, nothing comes from data.

    >>> words_of_tables([{"name": "people", "columns": {"age": {"type": "integer"}}}])[-2:]
    [{'word': 'people', 'is': 'table'}, {'word': 'age', 'is': 'integer of people'}]
    """
    words = [{"word": word, "is": "SQL"} for word in _LANGUAGE]
    for table in tables:
        words.append({"word": table["name"], "is": "table"})
        for name, column in table["columns"].items():
            words.append({"word": name, "is": f"{column['type']} of {table['name']}"})
            for value in (column.get("values") or [])[:_MOST]:
                shown = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
                words.append({"word": shown, "is": f"value of {name}"})
    return words
