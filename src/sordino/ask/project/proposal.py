"""A project file proposed from a table's schema alone: never a bound, a value or a row of the data.

What is publicly known of the columns before anybody looks at the data comes from a codebook. Read are a data dictionary as
CSV or Excel, a line a column, and the metadata of CSV on the Web (W3C 2015, a `tableSchema`).
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sordino.ask.engines.readers.file_schema import read_schema, recipe_schema
from sordino.ask.engines.readers.text_tables import Layout, open_text_table
from sordino.ask.project.positions import quote_text, write_key
from sordino.ask.project.schema import FILL_IN
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Identifier, Integer, Real
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.source import FAR, Csv, address_format, split_ending

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


@dataclass(frozen=True, slots=True)
class Proposal:
    """The text of a proposed project file, its table's name, how many columns it has, and what else to know."""

    text: str
    table: str
    columns: int
    remarks: tuple[str, ...]

    @property
    def blanks(self) -> int:
        """The number of blanks, marked FILL IN, that only a person can fill."""
        return sum(line.partition("#")[0].count(f'"{FILL_IN}"') for line in self.text.splitlines())


def propose_project(
    source: str | Path,
    *,
    header: bool | None = None,
    columns: int | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    relation: str | None = None,
    codebook: Mapping[str, ColumnDraft] = MappingProxyType({}),
    directory: str | Path = ".",
) -> Proposal:
    """Return a project file for a file, a folder of Parquet or a table of PostgreSQL or Spark: its schema, every blank marked.

    The source may be the recipe of an import of CSV: then the CSV file is the table's source, written as the recipe states.
    No bound, value or row of the data is read into it: those would leak. What a `codebook` says of a column is public, and is
    declared. `directory` is where the project file will lie; a
    relative source is stated relative to it. A CSV file's first line may be a row, so `header` must say whether it holds
    names; that of JSON lines is one, and `header` says that its names are the columns. Raises as `read_schema` does.
    """
    if str(source).endswith(".toml"):
        if any(given is not None for given in (header, columns, delimiter, quote, relation)):
            raise DeclarationError("a recipe states how its file is written: leave out all other options of the source")
        source, schema = recipe_schema(source)
    else:
        schema = read_schema(
            str(source), header=header, columns=columns, delimiter=delimiter, quote=quote, relation=relation
        )
    address = address_format(source)
    name = schema.relation or (_file_stem(source) if address is None else str(source))
    table = _table_name(name if address is None else re.split("[.:]", name)[-1])
    stays = address is not None or str(source).startswith(FAR) or os.path.isabs(source)
    place = str(source) if stays else os.path.relpath(source, directory)
    if Path(source).is_dir():
        # A folder is known by the slash at its end.
        place = f"{place.rstrip('/')}/"
    drafts = {name: ColumnDraft("category", values=tuple(labels)) for name, labels in schema.labels.items()}
    drafts |= {name: codebook[name] for name, _ in schema.columns if name in codebook}
    csv = replace(schema.csv, totals=(FILL_IN,)) if schema.csv and schema.has_totals else schema.csv
    text = write_template(schema.columns, source=place, table=table, csv=csv, relation=schema.relation, drafts=drafts)
    remarks = schema.remarks
    if codebook:
        known = dict(schema.columns)
        absent = [name for name in codebook if name not in known]
        unnamed = [name for name in known if name not in codebook]
        if absent:
            remarks = (*remarks, f"the codebook names columns that the table lacks: {', '.join(absent[:8])}")
        if unnamed:
            remarks = (*remarks, f"the codebook says nothing of {', '.join(unnamed[:8])}")
    return Proposal(text, table, len(schema.columns), remarks)


def _file_stem(source: str | Path) -> str:
    """Return a file's name without its ending, and without that of its compression."""
    stem = Path(source).stem
    ending, packing = split_ending(source)
    return stem.removesuffix(Path(stem).suffix) if packing and ending else stem


def _table_name(stem: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_") or "people"
    return f"t_{name}" if name[0].isdigit() else name


def write_template(
    columns: Sequence[tuple[str, str | None]],
    *,
    source: str,
    table: str,
    csv: Csv | None = None,
    relation: str | None = None,
    drafts: Mapping[str, ColumnDraft] = MappingProxyType({}),
) -> str:
    """Return a project file for a table, made of its schema alone: the name and physical type (or None) of each column.

    `drafts` is what a codebook says of columns, which is public. Whatever only a person can know is marked FILL IN, and
    `sordino check` refuses the file until none is left.

    >>> print(write_template([("age", "int64")], source="people.parquet", table="people").splitlines()[-1])
    age = {type = "integer", lower = "FILL IN", upper = "FILL IN"}
    """
    where = [f"source = {quote_text(source)}"] + (
        [f"relation = {quote_text(relation)}"] if relation is not None else []
    )
    declared = [
        f"{write_key(name)} = {_declaration(physical, drafts.get(name, ColumnDraft()))}" for name, physical in columns
    ]
    budget = _HEAD.format(name="people", ledger=quote_text(f"{table}.ledger"))
    body = _TABLE.format(table=table, where="\n".join(where))
    return "\n".join([budget, body, *([_csv(csv, table)] if csv else []), _COLUMNS.format(table=table), *declared, ""])


def _declaration(physical: str | None, draft: ColumnDraft) -> str:
    """Return the line of a column of this physical type (Arrow's or DuckDB's word for it), as far as a codebook knows it."""
    kind = draft.kind or _kind_of(physical)
    lower = _end(draft.lower, kind)
    upper = _end(draft.upper, kind)
    bounds = f"lower = {lower}, upper = {upper}"
    if kind == "category":
        values = draft.values or (FILL_IN,)
        return f'{{type = "category", values = [{", ".join(_value(value, physical) for value in values)}]}}'
    if kind == "datetime":
        return f'{{type = "datetime", {bounds}, zone = "{FILL_IN}", resolution = "second"}}'
    if kind in ("date", "integer"):
        return f'{{type = "{kind}", {bounds}}}'
    if kind == "real":
        return f'{{type = "real", {bounds}, resolution = "{FILL_IN}"}}'
    return f'{{type = "{kind or FILL_IN}"}}'


def _kind_of(physical: str | None) -> str:
    """Return the declared type that a physical type suggests; nothing where there is none."""
    word = (physical or "").lower()
    if not word:
        return ""
    if "bool" in word:
        return "boolean"
    if word.startswith(("timestamp", "datetime")):
        return "datetime"
    if word.startswith("date"):
        return "date"
    if word.startswith(("float", "double", "real", "decimal", "numeric", "halffloat")):
        return "real"
    if word.startswith("uuid"):
        return "identifier"
    return "integer" if re.match(r"u?(big|small|tiny|huge)?int(eger)?\d*$", word) else "category"


def _end(text: str, kind: str) -> str:
    """Return a bound as TOML: a day or a number as it is written, FILL IN for what is neither."""
    number = r"[+-]?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?"
    written = r"[0-9]{4}-[0-9]{2}-[0-9]{2}" if kind in ("date", "datetime") else number
    plain = text.strip().removesuffix(".0") if kind == "integer" else text.strip()
    return plain if re.fullmatch(written, plain) else f'"{FILL_IN}"'


def _value(value: str, physical: str | None) -> str:
    """Return a declared value as TOML: a whole number where the column holds those."""
    whole = _kind_of(physical) == "integer" and re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", value)
    return value if whole else quote_text(value)


def _csv(csv: Csv, table: str) -> str:
    missing = f"null_values = [{', '.join(map(quote_text, csv.null_values))}]"
    lines = [
        f"[tables.{table}.csv]                 # cells are trimmed, a line is a row; nothing is sniffed",
        f"header = {str(csv.header).lower()}",
        *([f"names = [{', '.join(map(quote_text, csv.names))}]"] if csv.names else []),
        f"delimiter = {quote_text(csv.between)}",
        f"quote = {quote_text(csv.quote)}".ljust(16)
        + """# '"' where cells may be quoted; then a cell holds no line end""",
        f"{missing}   # cells that mean: missing; empty ones always do",
    ]
    plain = Csv(header=True)
    names = ("encoding", "header_rows", "skip_first", "totals", "decimal", "thousands", "date", "true", "false")
    stated = {name: getattr(csv, name) for name in names if getattr(csv, name) != getattr(plain, name)}
    lines += [f"{name} = {_toml(value)}" for name, value in stated.items()]
    if csv.columns:
        lines.append(f"[tables.{table}.csv.columns]         # what is written otherwise in one column")
    elif not stated:
        lines.append(
            '# decimal = ","  thousands = "."  date = "%d.%m.%Y"  true = "J"  false = "N"  encoding = "cp1252"'
        )
    for name, cells in csv.columns.items():
        keys = ", ".join(f"{key} = {_toml(value, key)}" for key, value in cells.to_dict().items())
        lines.append(f"{write_key(name)} = {{{keys}}}")
    return "\n".join([*lines, ""])


def _toml(value: Any, key: str = "") -> str:
    """Return a text, a number or texts as TOML; one text without brackets, unless the key takes a list alone."""
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, int):
        return str(texts)
    quoted = ", ".join(map(quote_text, texts))
    return quoted if len(texts) == 1 and key != "null_values" else f"[{quoted}]"


_HEAD = f"""\
# A Sordino project. Everything here is public: it is what you know without looking at the data, or what a law, a code
# book or a questionnaire says. Never copy a bound or a value out of the data: that would leak it.
# Replace every "{FILL_IN}", delete what nobody should ask about, then run `sordino check`.

[budgets.{{name}}]
# A budget belongs to the people in the tables that draw on it, and is never refilled. One of:
#   cap = {{{{epsilon = 1.0}}}}                 pure differential privacy
#   cap = {{{{epsilon = 1.0, delta = 1e-9}}}}   approximate; delta far below 1 / number of people
#   cap = {{{{rho = 0.5, delta = 1e-6}}}}       zero-concentrated; delta is only for conversion to an epsilon
cap = {{{{epsilon = "{FILL_IN}"}}}}
ledger = {{ledger}}
"""

_TABLE = f"""\
[tables.{{table}}]
{{where}}
budget = "people"
# "add_remove": hides whether a unit is in the table at all; "replace": hides what its rows say, not how many there are.
neighbors = "{FILL_IN}"
# "row": each row is one person; or {{{{column = "user_id", max_rows = 5}}}}: all rows of one value of that column are.
privacy_unit = "{FILL_IN}"
"""

_COLUMNS = """\
[tables.{table}.columns]
# Columns that are not declared here cannot be asked about. Bounds must be public knowledge. Every type, by example:
#   age = {{type = "integer", lower = 0, upper = 125}}       cells outside the bounds are clipped to them
#   gain = {{type = "real", lower = 0, upper = 5000, resolution = 0.01}}   read in whole steps of the resolution
#   sex = {{type = "category", values = ["F", "M"]}}     or values_from = "codes.csv", other = "Other"
#   member = {{type = "boolean"}}
#   visit = {{type = "date", lower = 2020-01-01, upper = 2029-12-31}}
#   seen = {{type = "datetime", lower = 2020-01-01, upper = 2029-12-31, zone = "Europe/Berlin", resolution = "minute"}}
#   user_id = {{type = "identifier"}}   equality in WHERE, the privacy unit, private keys
# missing = "drop" (a missing cell takes no part; the default), "keep" (a group of its own) or {{fill = value}}.
# Text columns are taken for categories and numbers for numbers here: change a type where that is wrong."""
