"""The text of sordino.toml: the line and column of each key, and the file that `sordino init` writes.

It knows TOML's grammar and the schema it is given; it never opens a table's data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from sordino.project.schema import FILL_IN, Path
from sordino.source import Csv

__all__ = ["dotted_key", "positions", "write_template"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'(?:.|\n)*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def positions(text: str) -> dict[Path, tuple[int, int]]:
    """Return the line and column, both from 1, of every key and list element of a valid TOML text.

    A key's path is that of its value; a table made of several headers stands where it is first named.

    >>> positions('[a]\\nb = {c = 1, d.e = [2]}')[("a", "b", "d", "e")]
    (2, 15)
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    scan.document()
    starts = [0, *(m.end() for m in re.finditer("\n", scan.text))]
    found: dict[Path, tuple[int, int]] = {}
    for path, offset in scan.found.items():
        line = _line_of(starts, offset)
        found[path] = (line, offset - starts[line - 1] + 1)
    return found


def dotted_key(path: Path) -> str:
    """Return a path as a TOML key: bare where it can be, list elements in brackets.

    >>> dotted_key(("tables", "adult", "columns", "marital status", "values", 2))
    'tables.adult.columns."marital status".values[2]'
    """
    parts = (f"[{p}]" if isinstance(p, int) else f".{_key(p)}" for p in path)
    return "".join(parts).removeprefix(".")


def write_template(
    columns: Sequence[tuple[str, str | None]],
    *,
    source: str,
    table: str,
    csv: Csv | None = None,
    relation: str | None = None,
) -> str:
    """Return a project file for a table, made of its schema alone: the name and physical type (or None) of each column.

    Whatever only a person can know is marked FILL IN, and `sordino check` refuses the file until none is left.

    >>> print(write_template([("age", "int64")], source="people.parquet", table="people").splitlines()[-1])
    age = {type = "integer", lower = "FILL IN", upper = "FILL IN"}
    """
    where = [f"source = {_text(source)}"] + ([f"relation = {_text(relation)}"] if relation is not None else [])
    declared = [f"{_key(name)} = {_declaration(physical)}" for name, physical in columns]
    budget = _HEAD.format(name="people", ledger=_text(f"{table}.ledger"))
    body = _TABLE.format(table=table, where="\n".join(where))
    return "\n".join([budget, body, *([_csv(csv, table)] if csv else []), _COLUMNS.format(table=table), *declared, ""])


class _Scan:
    """One pass over a TOML text that is known to be valid: where each path starts, as an offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while self._space():
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _space(self) -> bool:
        """Skip spaces, line ends and comments; tell whether text is left."""
        self.at = self._match(_SPACE).end()
        return self.at < len(self.text)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not TOML at offset {self.at}")
        return match

    def _keys(self) -> Iterator[tuple[str, int]]:
        while True:
            match = self._match(_KEY)
            self.at = match.end()
            yield _unquote(match.group()), match.start()
            dot = _DOT.match(self.text, self.at)
            if dot is None:
                return
            self.at = dot.end()

    def _header(self) -> Path:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        self._space()
        path: Path = ()
        for key, start in self._keys():
            path = (*path, key)
            self.found.setdefault(path, start)
            if path in self._arrays and not (array and self.text[self.at] == "]"):
                path = (*path, self._arrays[path])
        if array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, self._arrays[path])
            self.found.setdefault(path, self.at)
        self.at = self.text.index("]", self.at) + (2 if array else 1)
        return path

    def _pair(self, table: Path) -> None:
        path = table
        for key, start in self._keys():
            path = (*path, key)
            self.found.setdefault(path, start)
        self._space()
        self.at += 1  # the equals sign
        self._space()
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self.at = self._match(_STRING).end()
        elif opening in "[{":
            self.at += 1
            index = 0
            while self._space() and self.text[self.at] not in "]}":
                if self.text[self.at] == ",":
                    self.at += 1
                elif opening == "{":
                    self._pair(path)
                else:
                    self.found.setdefault((*path, index), self.at)
                    self._value((*path, index))
                    index += 1
            self.at += 1
        else:
            self.at = self._match(_SCALAR).end()


def _line_of(starts: Sequence[int], offset: int) -> int:
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if starts[middle] <= offset else (low, middle)
    return low


def _unquote(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    import tomllib

    return str(next(iter(tomllib.loads(f"{key} = 0"))))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _declaration(physical: str | None) -> str:
    """Return the line of a column of this physical type (Arrow's or DuckDB's word for it)."""
    word = (physical or "").lower()
    bounds = f'lower = "{FILL_IN}", upper = "{FILL_IN}"'
    if not word:
        return f'{{type = "{FILL_IN}"}}'
    if "bool" in word:
        return '{type = "boolean"}'
    if word.startswith(("date", "timestamp")):
        return f'{{type = "date", {bounds}}}'
    if word.startswith(("float", "double", "real", "decimal", "numeric", "halffloat")):
        return f'{{type = "real", {bounds}, resolution = "{FILL_IN}"}}'
    if word.startswith("uuid"):
        return '{type = "identifier"}'
    if re.match(r"u?(big|small|tiny|huge)?int(eger)?\d*$", word):
        return f'{{type = "integer", {bounds}}}'
    return f'{{type = "category", values = ["{FILL_IN}"]}}'


def _csv(csv: Csv, table: str) -> str:
    lines = [
        f"[tables.{table}.csv]                 # cells are trimmed, a line is a row; nothing is sniffed",
        f"header = {str(csv.header).lower()}",
        *([f"names = [{', '.join(map(_text, csv.names))}]"] if csv.names else []),
        f"delimiter = {_text(csv.between)}",
        f"quote = {_text(csv.quote)}".ljust(16) + """# '"' where cells may be quoted; then a cell holds no line end""",
        f"null_values = [{', '.join(map(_text, csv.null_values))}]   # cells that mean: missing; empty ones always do",
    ]
    return "\n".join([*lines, ""])


_HEAD = f"""\
# A Sordino project. Everything here is public: it is what you know without looking at the data, or what a law, a code
# book or a questionnaire says. Never copy a bound or a value out of the data: that would leak it.
# Replace every "{FILL_IN}", delete what nobody should ask about, then run `sordino check`.

[budgets.{{name}}]
# A budget belongs to the people in the tables that draw on it, and is never refilled. One of:
#   cap = {{{{epsilon = 1.0}}}}                 pure differential privacy
#   cap = {{{{epsilon = 1.0, delta = 1e-9}}}}   approximate; delta far below 1 / number of people
#   cap = {{{{rho = 0.5, delta = 1e-6}}}}       zero-concentrated; delta only tells it as an epsilon
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
#   user_id = {{type = "identifier"}}   equality in WHERE, the privacy unit, private keys
# missing = "drop" (a missing cell takes no part; the default), "keep" (a group of its own) or {{fill = value}}.
# Text columns are taken for categories and numbers for numbers here: change a type where that is wrong."""
