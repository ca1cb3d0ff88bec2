"""A codebook: what is publicly known of a table's columns before anybody looks at the data.

Read are a data dictionary as CSV or Excel, a line a column, and the metadata of CSV on the Web (W3C 2015, a `tableSchema`).
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.ask.engines.readers.text_tables import Layout, open_text_table
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Identifier, Integer, Real
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number

# Heads of a data dictionary, lower case and without signs, by what they hold.
_HEADS = {
    "name": ("name", "column", "columnname", "variable", "variablename", "field", "fieldname", "attribute"),
    "kind": ("type", "datatype", "variabletype", "fieldtype", "format"),
    "lower": ("min", "minimum", "lower", "lowerbound", "from"),
    "upper": ("max", "maximum", "upper", "upperbound", "to"),
    "values": (
        "values",
        "levels",
        "allowed",
        "allowedvalues",
        "categories",
        "codes",
        "labels",
        "options",
        "choices",
        "valuelabels",
    ),
}
_KINDS = {
    "integer": (
        "integer",
        "int",
        "whole",
        "count",
        "long",
        "short",
        "smallint",
        "bigint",
        "nonnegativeinteger",
        "positiveinteger",
    ),
    "real": ("real", "float", "double", "decimal", "number", "numeric", "continuous", "amount", "currency"),
    "boolean": ("boolean", "bool", "logical", "yesno", "truefalse"),
    "date": ("date", "day"),
    "datetime": ("datetime", "timestamp", "moment", "datetimestamp"),
    "identifier": ("identifier", "id", "key", "uuid"),
    "category": (
        "category",
        "categorical",
        "string",
        "text",
        "char",
        "varchar",
        "factor",
        "nominal",
        "ordinal",
        "enum",
    ),
}


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """What a codebook says of a column: its type, bounds and values, each as it stands there, empty where it says nothing."""

    kind: str = ""
    lower: str = ""
    upper: str = ""
    values: tuple[str, ...] = ()


def read_codebook(path: str | Path) -> dict[str, ColumnDraft]:
    """Return what a codebook says of each column that it names, by name.

    A .csv or .xlsx has a line a column, with heads such as name, type, min, max and values (`1 = yes; 2 = no`, whose codes
    are the values); a .json is the metadata of CSV on the Web. Raises DeclarationError for any other file, SourceError where
    it cannot be read.
    """
    if Path(path).suffix.lower() == ".json":
        return _read_metadata(Path(path))
    is_sheet = Path(path).suffix.lower() not in (".csv", ".tsv", ".txt")
    layout = Layout(header=None if is_sheet else True, delimiter=None if is_sheet else _delimiter(Path(path)))
    with open_text_table(str(path), layout) as table:
        heads = {_plain(name): name for name in table.names}
        places = {part: next((heads[word] for word in words if word in heads), None) for part, words in _HEADS.items()}
        if places["name"] is None:
            raise DeclarationError(
                f"{path} is no codebook: it needs a column called name, variable or field, and may have type, min, max, values"
            )
        lines = [line for batch in table.batches for line in batch.to_pylist()]
    drafts = {}
    for line in lines:
        cells = {part: (line[place] or "") if place is not None else "" for part, place in places.items()}
        if cells["name"]:
            values = split_values(cells["values"])
            drafts[cells["name"]] = ColumnDraft(_kind(cells["kind"], values), cells["lower"], cells["upper"], values)
    return drafts


def split_values(text: str) -> tuple[str, ...]:
    """Return the values that a cell of a codebook lists; of codes with labels, the codes.

    >>> split_values("1 = yes; 2 = no"), split_values("F|M"), split_values("low, middle, high"), split_values("any text")
    (('1', '2'), ('F', 'M'), ('low', 'middle', 'high'), ())
    """
    parts = next((text.split(mark) for mark in ("\n", ";", "|", ",") if mark in text), [])
    codes = [re.split(r"\s*(?:=|:|–)\s*", part.strip(), maxsplit=1)[0].strip().strip("\"'") for part in parts]
    return tuple(dict.fromkeys(code for code in codes if code))


def draft_of(column: Column) -> ColumnDraft:
    """Return a declared column as a draft."""
    if isinstance(column, Category):
        return ColumnDraft("category", values=tuple(map(str, column.values)))
    kinds: Mapping[type, str] = {
        Integer: "integer",
        Real: "real",
        Boolean: "boolean",
        Date: "date",
        DateTime: "datetime",
        Identifier: "identifier",
    }
    lower, upper = getattr(column, "lower", None), getattr(column, "upper", None)
    return ColumnDraft(kinds[type(column)], _bound(lower), _bound(upper))


def _bound(end: Any) -> str:
    if end is None:
        return ""
    return end.isoformat() if isinstance(end, datetime.date) else format_number(end)


def _read_metadata(path: Path) -> dict[str, ColumnDraft]:
    """Return what the metadata of CSV on the Web says: the columns of its `tableSchema`, or of the first of its `tables`."""
    columns: Any = None
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
        table = document.get("tables", [document])[0]
        columns = [(column["name"], column.get("datatype", "string")) for column in table["tableSchema"]["columns"]]
    except OSError as error:
        raise DeclarationError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        columns = None
    if columns is None:
        raise DeclarationError(
            f"{path} is no metadata of CSV on the Web: it has no tableSchema with columns that have names"
        )
    drafts = {}
    for name, datatype in columns:
        stated = datatype if isinstance(datatype, dict) else {"base": datatype}
        values = split_values(str(stated.get("format", ""))) if stated.get("base") == "string" else ()
        lower = stated.get("minimum", stated.get("minInclusive", ""))
        upper = stated.get("maximum", stated.get("maxInclusive", ""))
        drafts[str(name)] = ColumnDraft(_kind(str(stated.get("base", "")), values), str(lower), str(upper), values)
    return drafts


def _kind(word: str, values: Sequence[str]) -> str:
    """Return Sordino's type of a codebook's word for one; nothing for a word that is unknown."""
    plain = _plain(re.sub(r"\(.*", "", word))
    kind = next((kind for kind, words in _KINDS.items() if plain in words), "")
    # values that are listed are all that there are, whatever holds them
    return "category" if values and kind in ("", "integer", "real", "category") else kind


def _plain(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def _delimiter(path: Path) -> str | None:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        head = file.readline()
    return max(",;\t", key=head.count) if any(mark in head for mark in ",;\t") else None
