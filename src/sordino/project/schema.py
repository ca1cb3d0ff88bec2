"""The shape of sordino.toml: which keys there are, what each may hold, and the JSON Schema of it for editors.

It knows the words of a declaration, not their meaning: bounds, names and files are judged by project/load.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from sordino.errors import DeclarationError, nearest
from sordino.loss import to_fraction

__all__ = [
    "FILL_IN",
    "BudgetShape",
    "CategoryShape",
    "ColumnShape",
    "PublicShape",
    "TableShape",
    "UnitShape",
    "column_shape",
    "json_schema",
    "shape_problems",
]

FILL_IN = "FILL IN"  # what `sordino init` writes where only a person can know the value

Path = tuple[str | int, ...]  # where a value stands in the document


def _numeral(value: object, info: ValidationInfo) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        raise DeclarationError('must be a number such as 0.5, or text such as "1/3"')
    to_fraction(value, name=str(info.field_name))
    return value


def _day(value: object) -> Any:
    if not isinstance(value, (str, datetime.date)):
        raise DeclarationError("must be a day such as 2000-01-31")
    return value


def _key(value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DeclarationError("must be text or a whole number")
    return value


def _values(value: object) -> Any:
    if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, (str, int)) for v in value):
        raise DeclarationError('must be a list of texts or of whole numbers, such as ["no", "yes"]')
    return value


def _scalar(value: object) -> Any:
    if not isinstance(value, (str, bool, int, Decimal, datetime.date)):
        raise DeclarationError("must be one value of the column: a number, a text, a day, true or false")
    return value


def _table_or_word(value: object) -> str:
    return "<table>" if isinstance(value, Mapping) else "<word>"


def _column_type(value: object) -> str | None:
    return f"<{value['type']}>" if isinstance(value, Mapping) and isinstance(value.get("type"), str) else None


_TEXT = {"type": "string"}
Numeral = Annotated[Any, PlainValidator(_numeral), WithJsonSchema({"type": ["number", "string"]})]
Day = Annotated[Any, PlainValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
Key = Annotated[Any, PlainValidator(_key), WithJsonSchema({"type": ["string", "integer"]})]
Values = Annotated[
    Any,
    PlainValidator(_values),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": ["string", "integer"]}}),
]
Scalar = Annotated[
    Any, PlainValidator(_scalar), WithJsonSchema({"type": ["number", "string", "boolean"], "description": "a value"})
]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


class _Shape(BaseModel):
    """A table of the file: only its own keys, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


class CapShape(_Shape):
    """The most that may ever be lost: {epsilon}, {epsilon, delta} or {rho, delta}."""

    epsilon: Numeral = None
    delta: Numeral = None
    rho: Numeral = None


class BudgetShape(_Shape):
    """A budget, which belongs to the people in the tables that draw on it."""

    cap: CapShape
    ledger: Text = Field(description="SQLite file that holds every charge, relative to this file")
    reason: Text | None = Field(None, description="why the cap is what it is, for whoever reads the reports")


class FillShape(_Shape):
    """A missing cell counts as this value."""

    fill: Scalar


Missing = Annotated[
    Annotated[FillShape, Tag("<table>")] | Annotated[Literal["drop", "keep"], Tag("<word>")],
    Discriminator(_table_or_word),
]


class IntegerShape(_Shape):
    """Whole numbers between two bounds; cells outside are clipped to them."""

    type: Literal["integer"]
    lower: Numeral = None
    upper: Numeral = None
    missing: Missing = "drop"


class RealShape(_Shape):
    """Numbers between two bounds, read to the nearest step of a public grid."""

    type: Literal["real"]
    lower: Numeral = None
    upper: Numeral = None
    resolution: Numeral = None
    missing: Missing = "drop"


class CategoryShape(_Shape):
    """Declared values, here or one a line in the first column of a public file."""

    type: Literal["category"]
    values: Values = None
    values_from: Text | None = None
    values_header: bool = False
    other: Key = None
    missing: Missing = "drop"


class BooleanShape(_Shape):
    """True and false."""

    type: Literal["boolean"]
    missing: Missing = "drop"


class DateShape(_Shape):
    """Calendar days between two days; cells outside are clipped to them."""

    type: Literal["date"]
    lower: Day
    upper: Day
    missing: Missing = "drop"


class IdentifierShape(_Shape):
    """Text with values that are not public: equality in WHERE, the privacy unit, or private keys of GROUP BY."""

    type: Literal["identifier"]


ColumnShape = IntegerShape | RealShape | CategoryShape | BooleanShape | DateShape | IdentifierShape

_TYPES: dict[str, type[_Shape]] = {
    "integer": IntegerShape,
    "real": RealShape,
    "category": CategoryShape,
    "boolean": BooleanShape,
    "date": DateShape,
    "identifier": IdentifierShape,
}

_Column = Annotated[
    Annotated[IntegerShape, Tag("<integer>")]
    | Annotated[RealShape, Tag("<real>")]
    | Annotated[CategoryShape, Tag("<category>")]
    | Annotated[BooleanShape, Tag("<boolean>")]
    | Annotated[DateShape, Tag("<date>")]
    | Annotated[IdentifierShape, Tag("<identifier>")],
    Discriminator(_column_type),
]


class UnitShape(_Shape):
    """Protect all rows that share one value of an identifier column, of which at most max_rows are used."""

    column: Text
    max_rows: int
    max_groups: int | None = Field(None, description="the most private keys that one unit counts under")


class CsvShape(_Shape):
    """How a CSV file is written: cells between delimiters, trimmed; one line is one row; nothing is sniffed."""

    header: bool
    names: list[Text] | None = None
    delimiter: str = Field("", description="one character; without it a tab in a .tsv file, else a comma")
    quote: Literal["", '"', "'"] = Field("", description="what cells may be quoted with")
    null_values: list[str] = []


class TableShape(_Shape):
    """A table: where it lies, who is protected, and what is public about its columns."""

    source: Text = Field(description="a CSV, Parquet (a file or a glob) or DuckDB file, relative to this file")
    format: Literal["csv", "parquet", "duckdb"] | None = None
    relation: Text | None = Field(None, description="the table or view of a DuckDB file")
    budget: Text
    neighbors: Literal["add_remove", "replace"]
    privacy_unit: Annotated[
        Annotated[UnitShape, Tag("<table>")] | Annotated[Literal["row"], Tag("<word>")], Discriminator(_table_or_word)
    ]
    row_ceiling: int | None = Field(None, description="public bound on the rows that the table can ever have")
    csv: CsvShape | None = None
    columns: dict[str, _Column]


class PublicShape(_Shape):
    """A table that holds nothing private, to be joined by its key."""

    source: Text = Field(description="a CSV, Parquet (a file or a glob) or DuckDB file, relative to this file")
    format: Literal["csv", "parquet", "duckdb"] | None = None
    relation: Text | None = Field(None, description="the table or view of a DuckDB file")
    key: Text = Field(description="the column that a private table's column is compared with")
    max_rows: int = Field(1, description="the most of its rows that share a key; checked when it is opened")
    csv: CsvShape | None = None
    columns: dict[str, _Column]


class _ProjectShape(_Shape):
    """A project: budgets, the tables that draw on them, and public tables that these may be joined with."""

    budgets: dict[Name, BudgetShape]
    tables: dict[Name, TableShape]
    public: dict[Name, PublicShape] = {}


_COLUMN: TypeAdapter[ColumnShape] = TypeAdapter(_Column)


def column_shape(raw: Mapping[str, Any]) -> ColumnShape:
    """Return the shape of one declared column; raises pydantic's ValidationError where `shape_problems` names one."""
    return _COLUMN.validate_python(raw)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of sordino.toml, for editors.

    >>> sorted(json_schema()["properties"])
    ['budgets', 'public', 'tables']
    """
    schema = _ProjectShape.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "sordino.toml"
    kinds = (["epsilon"], ["epsilon", "delta"], ["rho", "delta"])
    cap = schema["$defs"]["CapShape"]
    cap["oneOf"] = [{"required": kind, "minProperties": len(kind), "maxProperties": len(kind)} for kind in kinds]
    category = schema["$defs"]["CategoryShape"]
    category["oneOf"] = [{"required": ["values"]}, {"required": ["values_from"]}]
    for prop in (p for shape in schema["$defs"].values() for p in shape.get("properties", {}).values()):
        if prop.get("default", ...) is None:
            del prop["default"]  # an absent key: TOML has no null
    for names in schema["properties"].values():
        names.pop("default", None)
        names["additionalProperties"] = False  # beside the pattern of a name
    return schema


def shape_problems(document: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Return each place of the document that has the wrong shape, with what is wrong, the rule and the nearest key."""
    try:
        _ProjectShape.model_validate(dict(document))
    except ValidationError as error:
        found = [_problem(document, dict(item)) for item in error.errors()]
        meant = {(at[:-1], said.rpartition("did you mean ")[2]) for at, said in found}  # misspelt, and so not missing
        return [p for p in found if not (p[1].startswith("is missing") and (p[0][:-1], f"{p[0][-1]!r}?") in meant)]
    return []


def _problem(document: Mapping[str, Any], item: dict[str, Any]) -> tuple[Path, str]:
    path: Path = tuple(part for part in item["loc"] if not _is_tag(part))
    kind, given = item["type"], item["input"]
    match kind:
        case "extra_forbidden":
            keys, noun = _keys_at(document, path[:-1])
            return path, f"{noun} has no such key; {nearest(str(path[-1]), keys)}"
        case "missing":
            return path, f"is missing; {_MISSING.get(str(path[-1]), 'it must be stated')}"
        case "union_tag_not_found" | "union_tag_invalid":
            if isinstance(given, Mapping) and "type" in given:
                hint = nearest(str(given["type"]), _TYPES)
                return (*path, "type"), f"must be the type of a column, not {_quoted(given['type'])}; {hint}"
            return (*path, "type"), f"is missing; {_MISSING['type']}"
        case "literal_error":
            rule = item["ctx"]["expected"].replace("'", '"')
            hint = nearest(given, rule.replace('"', "").split(" or ")) if isinstance(given, str) else ""
            tail = _LITERALS.get(str(path[-1]), "")
            return path, f"must be {rule}{tail}, not {_quoted(given)}" + (f"; {hint}" if "did" in hint else "")
        case "value_error":
            return path, f"{item['ctx']['error']}"
        case "string_pattern_mismatch":
            return path[:-1] if path[-1] == "[key]" else path, _name_rule(str(given))
        case "string_too_short":
            return path, "must not be empty"
    return path, f"must be {_KINDS.get(kind, 'of another type')}, not {_quoted(given)}"


def _name_rule(name: str) -> str:
    better = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "people"
    better = f"_{better}" if better[0].isdigit() else better
    return f"a budget's or table's name is letters, digits and _ and starts with no digit, as in SQL; try {better!r}"


def _keys_at(document: Mapping[str, Any], path: Path) -> tuple[list[str], str]:
    """Return the keys that the table at `path` may have, and what to call that table."""
    shape: type[_Shape]
    match path:
        case ():
            shape, noun = _ProjectShape, "the project"
        case ("budgets", _):
            shape, noun = BudgetShape, "a budget"
        case ("budgets", _, "cap"):
            shape, noun = CapShape, "a cap"
        case ("tables", _):
            shape, noun = TableShape, "a table"
        case ("public", _):
            shape, noun = PublicShape, "a public table"
        case ("tables" | "public", _, "csv"):
            shape, noun = CsvShape, "csv"
        case ("tables", _, "privacy_unit"):
            shape, noun = UnitShape, "a privacy unit"
        case ("tables" | "public" as section, table, "columns", column):
            kind = document[str(section)][table]["columns"][column]["type"]
            shape, noun = _TYPES[kind], f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} column"
        case _:
            shape, noun = FillShape, "missing"
    return list(shape.model_fields), noun


def _is_tag(part: str | int) -> bool:
    return part in ("<table>", "<word>") or (isinstance(part, str) and part[:1] == "<" and part[1:-1] in _TYPES)


def _quoted(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value[:40]}"' if isinstance(value, str) else str(value)[:40]


_KINDS = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list [...]",
    "dict_type": "a table of names",
    "model_type": "a table {...}",
    "model_attributes_type": "a table {...}",
}

_LITERALS = {
    "missing": " (or {fill = value})",
    "privacy_unit": ' or {column = "user_id", max_rows = 5}',
}

_MISSING = {
    "budgets": 'state who may lose how much: [budgets.people] with cap = {...} and ledger = "..."',
    "tables": "state at least one: [tables.NAME]",
    "cap": "state {epsilon = ...}, {epsilon = ..., delta = ...} or {rho = ..., delta = ...}; no cap is guessed",
    "ledger": 'state the file that holds the charges, such as ledger = "people.ledger"',
    "source": "state where the table lies: a CSV, Parquet or DuckDB file",
    "budget": "state which of [budgets] this table draws on",
    "neighbors": 'state "add_remove" (hides whether a unit is in the table at all; the number of units is private) '
    'or "replace" (hides what a unit\'s rows say; the number of units is taken as known); neither is guessed',
    "privacy_unit": 'state "row" (each row is one person) or {column = "user_id", max_rows = 5} '
    "(all rows of one value of an identifier column are one person, of which max_rows count); neither is guessed",
    "columns": "declare what may be asked about in [tables.NAME.columns]",
    "header": "state true (the first line holds names) or false (names lists them); it is never sniffed",
    "type": "state one of: " + ", ".join(_TYPES),
    "column": "state the identifier column whose values are the units",
    "key": "state the column of the public table that is compared",
    "max_rows": "state the most rows of one unit that count",
    "lower": "state the first day that counts, as 2000-01-31",
    "upper": "state the last day that counts, as 2000-01-31",
    "fill": "state the value that a missing cell counts as: {fill = value}",
}
