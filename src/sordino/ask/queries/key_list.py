"""KeyList: the combinations of keys that an answer has rows for, where a question lists them. Knows no data.

A list is part of the question, and so public. A row of the table whose keys are not listed takes no part, whatever the
other rows are: listed keys have the sensitivity of declared ones, of which rows may drop out.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.keys import Keys, keys
from sordino.ask.queries.expressions.nodes import Connective, IsIn, Name, Node
from sordino.ask.queries.expressions.sql_trees import Build, plus, sql, whole
from sordino.core.cell_grammar import BLANKS, is_unicode
from sordino.core.domain import STORED, Domain, Identifier, Integer
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

MOST_LISTED = 1_000_000
_MOST_RUNS = 8  # of codes that follow each other: beyond, one search is faster than so many comparisons
KEY_SELECTIONS = ("weighted", "threshold")

Label = str | int | float | bool | datetime.date | None


@dataclass(frozen=True, slots=True)
class KeyList:
    """The rows of an answer, in order: the values of these group-by `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Label, ...], ...]

    def describe(self) -> str:
        """Return the list in words."""
        one = len(self.rows) == 1
        return f"{len(self.rows):,} listed {'key' if one else 'keys'}"

    def plain(self) -> Any:
        """Return the list as canonical JSON data: a long one by its digest."""
        rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row] for row in self.rows]
        text = json.dumps(rows, separators=(",", ":"))
        return [list(self.columns), len(rows), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()]


def key_list(given: object, columns: Sequence[str], *, before: KeyList | None = None) -> KeyList:
    """Return the keys that a person lists for some group-by columns: tuples, bare values of one column, or a public table.

    A table (Arrow, pandas, polars) is read by its columns' names. Raises QuestionRefused for anything else.

    >>> key_list(["cook", "nurse"], ["job"]).rows
    (('cook',), ('nurse',))
    """
    if before is not None:
        raise QuestionRefused("keys= is given once: name all columns that it lists in one group_by")
    if not columns:
        raise QuestionRefused("a list of keys goes with GROUP BY: it says which rows the answer has")
    columns, rows = _table_rows(given, columns)
    if rows is None:
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise QuestionRefused(
                f"keys= takes a list with one tuple per row, such as keys=[{_example(columns)}], or a table with the columns "
                f"{', '.join(columns)}, or a way to select private keys, 'weighted' or 'threshold'; a key that is named keys is "
                ".alias('keys')"
            )
        rows = [
            tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in itertools.islice(given, MOST_LISTED + 1)
        ]
    if not rows or len(rows) > MOST_LISTED:
        raise QuestionRefused(f"a list of keys has 1 to {MOST_LISTED:,} rows, not {'more' if rows else 'none'}")
    if any(len(row) != len(columns) for row in rows):
        raise QuestionRefused(
            f"each row of keys= has {len(columns)} values, for {', '.join(columns)}, such as {_example(columns)}"
        )
    return KeyList(tuple(columns), tuple(tuple(map(_label, row)) for row in rows))


def selection_name(given: object) -> str | None:
    """Return the selection of private keys that `keys=` names, weighted or threshold; None for a list of keys."""
    named = str(given) if isinstance(given, (str, PurePath)) else ""
    return named if named in KEY_SELECTIONS else None


def check_min_units(least: int) -> int:
    """Return the fewest units of a private key that may show; raises QuestionRefused for what is no such number."""
    if isinstance(least, bool) or not isinstance(least, int) or not 1 <= least <= 10**9:
        raise QuestionRefused("min_units takes a number of units, from 1 to 10^9, such as min_units=20")
    return least


def _example(columns: Sequence[str]) -> str:
    values = ", ".join("..." for _ in columns)
    return f"({values},)" if len(columns) == 1 else f"({values})"


def _table_rows(given: object, columns: Sequence[str]) -> tuple[Sequence[str], list[tuple[Any, ...]] | None]:
    """Return the group-by columns that a frame has, and its rows; all of them and None for what is no frame."""
    if not (hasattr(given, "__arrow_c_stream__") or hasattr(given, "to_arrow_table")):
        return columns, None
    import pyarrow as pa

    table: Any = given.to_arrow_table() if hasattr(given, "to_arrow_table") else pa.table(given)
    named = table.column_names
    wrong = [c for c in named if c not in columns or named.count(c) != 1]
    if wrong or not named:
        raise QuestionRefused(
            f"the table of keys has a column {wrong[0] if wrong else ''!r}: it needs one of each name, and no others: "
            f"{', '.join(columns)}"
        )
    if len(table) > MOST_LISTED:
        return named, [()] * (MOST_LISTED + 1)
    return named, list(zip(*(table.column(c).to_pylist() for c in named), strict=True))


def _label(value: Any) -> Label:
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # of numpy
        value = value.item()
    if isinstance(value, float):
        if value != value:
            return None
        return int(value) if value.is_integer() else value
    if isinstance(value, str) and not is_unicode(value):
        raise QuestionRefused("a listed key holds half of a character (a lone surrogate): write whole text")
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise QuestionRefused(f"a listed key is text, a number, true or false, a day or None, not a {type(value).__name__}")


def infer_key_list(where: Node | None, groups: Sequence[tuple[str, Node]], domain: Domain) -> KeyList | None:
    """Return the keys that a condition lists: `town IN ('Oslo', 'Bergen')` with GROUP BY town, where towns are open.

    The values are the question's own, and a row of another town takes no part anyway. Every open key must be listed so.
    """
    listed: dict[Node, IsIn] = {}
    for part in _conjuncts(where):
        if isinstance(part, IsIn) and part.of not in listed:
            listed[part.of] = part
    open_groups = [(alias, of) for alias, of in groups if is_open(of, domain)]
    if not open_groups or any(of not in listed for _, of in open_groups):
        return None
    values = [[_plain_label(v) for v in dict.fromkeys(listed[of].values)] for _, of in open_groups]
    rows = itertools.islice(itertools.product(*values), MOST_LISTED + 1)
    return KeyList(tuple(alias for alias, _ in open_groups), tuple(rows))


def is_open(of: Node, domain: Domain) -> bool:
    """Return whether a group-by column has no declared values: an identifier, or whole numbers without bounds."""
    column = domain[of.name] if isinstance(of, Name) else None
    return isinstance(column, Identifier) or (
        isinstance(column, Integer) and (column.lower is None or column.upper is None)
    )


def _plain_label(value: Any) -> Label:
    return value if isinstance(value, (str, bool, datetime.date)) else _label(float(value) if value % 1 else int(value))


def _conjuncts(node: Node | None) -> list[Node]:
    if isinstance(node, Connective) and node.op == "and":
        return [*_conjuncts(node.left), *_conjuncts(node.right)]
    return [] if node is None else [node]


def compile_key_list(listed: KeyList, groups: Sequence[tuple[str, Node]], domain: Domain) -> Keys:
    """Return the keys of all group-by columns as one: a label is a tuple, one value a column.

    Columns that the list leaves out are declared ones: each listed row appears with every combination of theirs.
    Raises UnknownName for a value that is not declared, QuestionRefused for a row listed twice or too many rows.
    """
    aliases = [alias for alias, _ in groups]
    unknown = [c for c in listed.columns if c not in aliases]
    if unknown:
        raise QuestionRefused(
            f"the listed keys name {unknown[0]!r}, which is not a key of the group-by; {nearest(unknown[0], aliases)}"
        )
    columns = [_column(alias, of, domain, listed) for alias, of in groups]
    codes: dict[tuple[int, ...], tuple[Label, ...]] = {}
    for row in _expand(listed, aliases, columns):
        code = tuple(c.code(v) for c, v in zip(columns, row, strict=True))
        if code in codes:
            raise QuestionRefused(f"the listed keys have the same row twice: {', '.join(map(repr, row))}")
        codes[code] = tuple(c.keys.labels[i] for c, i in zip(columns, code, strict=True))
    return _join_columns([c.keys for c in columns], codes, whole_list=columns[0].whole_list)


def list_shown(groups: Sequence[Keys], rows: Sequence[tuple[Label, ...]]) -> Keys:
    """Return the rows of keys that a private selection shows, one or more, as a public list of the same groups.

    Each text is the one that the engine grouped rows by, blanks and all, and no other counts as it. Total for any rows whose
    values are such texts, where keys are private, and labels, where they are declared: the question has been charged.
    """
    columns, places = [], []
    for group, values in zip(groups, zip(*rows, strict=True), strict=True):
        found = _match_texts(group.build, tuple(dict.fromkeys(values))) if group.private else group
        columns.append(found)
        places.append({label: i for i, label in enumerate(found.labels)})
    codes = {tuple(at[v] for at, v in zip(places, row, strict=True)): row for row in rows}
    return _join_columns(columns, codes, whole_list=groups[0].private)


def narrow_keys(keys: Keys, codes: Sequence[int]) -> Keys:
    """Return the keys of these codes alone, which ascend; a row of any other code has no key."""
    if len(codes) == len(keys.labels):
        return keys
    runs: list[tuple[int, int, int]] = []  # the first and the last code of each run, and the place of the first
    for place, code in enumerate(codes):
        if runs and code == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], code, runs[-1][2])
        else:
            runs.append((code, code, place))

    def narrow(on: Primitives, cell: exp.Expression) -> exp.Expression:
        kinds = sql()
        code = cell if keys.code is None else keys.code(on, cell)
        if len(runs) > _MOST_RUNS:
            return on.place_of(_text(code), tuple(map(str, codes)))
        ifs = []
        for first, last, place in runs:
            within = kinds.Between(this=kinds.paren(code.copy()), low=whole(first), high=whole(last))
            ifs.append(kinds.If(this=within, true=plus(kinds.paren(code.copy()), place - first)))
        choice: exp.Expression = kinds.Case(ifs=ifs, default=kinds.Null()) if ifs else kinds.Null()
        whole_choice: exp.Expression = kinds.paren(choice)
        return whole_choice

    return Keys(tuple(keys.labels[code] for code in codes), keys.build, narrow)


def join_keys(columns: Sequence[Keys], rows: Sequence[tuple[int, ...]]) -> Keys:
    """Return the keys of several columns as one, of these combinations of their codes."""
    codes = {row: tuple(key.labels[code] for key, code in zip(columns, row, strict=True)) for row in rows}
    return _join_columns(columns, codes, whole_list=False)


def _match_texts(build: Build, texts: tuple[Any, ...]) -> Keys:
    return Keys(texts, build, lambda on, cell: on.place_of(cell, texts))


def _join_columns(
    columns: Sequence[Keys], codes: Mapping[tuple[int, ...], tuple[Label, ...]], *, whole_list: bool
) -> Keys:
    """Return the keys of several columns as one, of these codes; `whole_list` says that a column alone has no other keys."""
    if len(columns) == 1 and whole_list:
        return Keys(tuple(codes.values()), columns[0].build, columns[0].code)
    places = tuple(",".join(map(str, code)) for code in codes)
    return Keys(tuple(codes.values()), _join_codes(columns), lambda on, cell: on.place_of(cell, places))


@dataclass(frozen=True, slots=True)
class _ListedColumn:
    """One group-by column with what it is called, its keys, and the code of each label and of its text."""

    alias: str
    keys: Keys
    places: dict[Any, int]
    whole_list: bool  # the keys are those listed, in their order

    def code(self, value: Label) -> int:
        """Return the code of a listed value; raises UnknownName where it is not declared."""
        found = self.places.get(value)
        if found is None:
            found = self.places.get(_as_text(value))
        if found is None:
            known = nearest(str(value), [str(v) for v in self.keys.labels[:1000]])
            raise UnknownName(f"the listed keys have {value!r}, which is not a declared key of {self.alias!r}; {known}")
        return found


@dataclass(frozen=True, slots=True)
class _Text:
    """A label's text, which stands for it in a list that holds text alone, such as a CSV file."""

    text: str


def _as_text(value: Label) -> _Text:
    return _Text("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


def _column(alias: str, of: Node, domain: Domain, listed: KeyList) -> _ListedColumn:
    own = listed.columns.index(alias) if alias in listed.columns else None
    found = _open_keys(of, domain, [row[own] for row in listed.rows], alias) if own is not None else None
    whole_list = found is not None
    if found is None:
        found = keys(of, domain)
    if found.private:
        raise QuestionRefused(f"the keys of {alias!r} are private: list them too")
    places: dict[Any, int] = {}
    for i, label in enumerate(found.labels):
        places.setdefault(_as_text(label), i)
    places.update({label: i for i, label in enumerate(found.labels)})
    return _ListedColumn(alias, found, places, whole_list)


def _open_keys(of: Node, domain: Domain, values: Sequence[Label], alias: str) -> Keys | None:
    """Return the keys of a column without declared values: those listed; None for a column that has its own."""
    if not is_open(of, domain):
        return None
    assert isinstance(of, Name)
    column = domain[of.name]
    distinct = list(dict.fromkeys(values))
    if any(v is None for v in distinct):
        raise QuestionRefused(
            f"the listed keys have a missing {alias!r}: rows in which it is missing have no key; leave it out"
        )
    if isinstance(column, Identifier):
        texts = tuple(dict.fromkeys(_as_text(v).text for v in distinct))
        exact = _match_texts(lambda on: on.text(of.name), texts)
        if any(t != t.strip(BLANKS) for t in texts):
            return exact
        return replace(exact, code=lambda on, cell: on.place_of(on.strip(cell), texts))  # blanks around mean nothing
    numbers = [n for v in distinct if (n := _whole_number(v)) is not None]
    if len(numbers) < len(distinct):
        raise QuestionRefused(f"{alias!r} holds whole numbers within -2^62 and 2^62: list such keys")
    labels = tuple(dict.fromkeys(numbers))
    written = tuple(map(str, labels))
    return Keys(
        labels, lambda on: _text(on.category_cell(of.name, whole=True)), lambda on, cell: on.place_of(cell, written)
    )


def _whole_number(value: Label) -> int | None:
    """Return a listed whole number within what engines hold, also one that is written as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > STORED:
        return None
    return value


def _expand(listed: KeyList, aliases: Sequence[str], columns: Sequence[_ListedColumn]) -> list[tuple[Label, ...]]:
    """Return the listed rows over all group-by columns: those that the list leaves out take every declared value."""
    rest = [c for c in columns if c.alias not in listed.columns]
    many = len(listed.rows)
    for column in rest:
        many *= len(column.keys.labels)
    if many > MOST_LISTED:
        raise QuestionRefused(f"the listed keys make {many:,} groups, above {MOST_LISTED:,}: list fewer")
    place = {name: i for i, name in enumerate([*listed.columns, *(c.alias for c in rest)])}
    others = list(itertools.product(*(c.keys.labels for c in rest)))
    whole = ((*row, *more) for row in listed.rows for more in others)
    return [tuple(row[place[alias]] for alias in aliases) for row in whole]


def _text(cell: exp.Expression) -> exp.Expression:
    kinds = sql()
    made: exp.Expression = kinds.cast(kinds.paren(cell), "text")
    return made


def _join_codes(columns: Sequence[Keys]) -> Build:
    """Return the codes of all columns as one text, NULL where a row has no key in one of them."""

    def build(on: Primitives) -> exp.Expression:
        kinds, made = sql(), None
        for column in columns:
            cell = column.build(on)
            code = cell if column.code is None else column.code(on, cell)
            text = _text(code)
            if made is not None:
                comma = kinds.DPipe(this=made, expression=kinds.Literal.string(","), safe=False)
                text = kinds.DPipe(this=comma, expression=text, safe=False)
            made = text
        whole: exp.Expression = kinds.paren(made)
        return whole

    return build
