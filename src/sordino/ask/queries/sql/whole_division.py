"""`/` of two whole numbers where the dialect cuts it: PostgreSQL, Redshift, SQLite, T-SQL and Trino. It knows types alone.

The parser notes on each quotient whether its dialect goes by the types of the operands. Where both are whole, the quotient
becomes `//`, which rounds towards 0 in rows, over released numbers and around private questions alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sordino.ask.queries.expressions.sql_trees import from_of, trees, with_of
from sordino.ask.queries.sql.text import is_same_table

# What a quotient depends on. The difference of two days is whole in these dialects.
Kind = Literal["whole", "day", "other"]
Columns = dict[str, Kind]
# Declared columns by their table.
ColumnKinds = Mapping[str, Mapping[str, Kind]]

_WHOLE_TYPES = frozenset(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "INT128"))
# Whole whatever they are of. Of the parts of a day only functions of their own: PostgreSQL's EXTRACT is a decimal.
_WHOLE = frozenset(
    (
        *(
            "ApproxDistinct",
            "Count",
            "CountIf",
            "DateDiff",
            "DenseRank",
            "Grouping",
            "IntDiv",
            "Length",
            "Ntile",
            "Null",
        ),
        *("Rank", "RowNumber", "StrPosition", "TsOrDsDiff", "Unicode"),
        *("Day", "DayOfMonth", "DayOfWeek", "DayOfWeekIso", "DayOfYear", "Month", "Quarter", "Week", "Year"),
    )
)
_DAYS = frozenset(("CurrentDate", "Date", "DateStrToDate", "TsOrDsToDate"))
# The arguments whose kind an expression has, where they agree; the others say which rows, or where.
_OF = dict.fromkeys(
    (
        *(
            "Abs",
            "Alias",
            "AnyValue",
            "Filter",
            "First",
            "FirstValue",
            "IgnoreNulls",
            "Lag",
            "Last",
            "LastValue",
            "Lead",
        ),
        *(
            "Max",
            "Min",
            "Mode",
            "Neg",
            "NthValue",
            "Nullif",
            "Order",
            "Ordered",
            "Paren",
            "RespectNulls",
            "Sum",
            "Window",
        ),
    ),
    ("this",),
) | {
    **dict.fromkeys(("Add", "Mod", "Mul", "Sub"), ("this", "expression")),
    **dict.fromkeys(("Coalesce", "Greatest", "Least"), ("this", "expressions")),
    "Distinct": ("expressions",),
    "Case": ("ifs", "default"),
    "If": ("true", "false"),
}
# Functions that the parser does not know, of the kind of all that they take.
_OURS = frozenset(("BIN", "CLIP", "CLIP_UNIT"))


def cut_quotients(query: Any, columns: ColumnKinds) -> Any:
    """Return a query in which each `/` of two whole numbers is `//`, where its dialect cuts it; else the query itself.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT COUNT(*) / 7, AVG(days) / 7 FROM stays", read="postgres")
    >>> cut_quotients(query, {"stays": {"days": "whole"}}).sql(dialect="duckdb")
    'SELECT COUNT(*) // 7, AVG(days) / 7 FROM stays'
    """
    if not any(quotient.args.get("typed") for quotient in query.find_all(trees().Div)):
        return query
    query = query.copy()
    _read_query(query, _Names(columns))
    return query


@dataclass(frozen=True, slots=True)
class _Names:
    """What names stand for at one place of a query: tables of WITH, the sources of FROM, and those of the query around it."""

    declared: ColumnKinds
    ctes: Mapping[str, Columns] | None = None
    sources: Sequence[tuple[str, Columns]] = ()
    around: _Names | None = None

    def table(self, node: Any) -> Columns:
        ctes = self.ctes or {}
        if len(node.parts) == 1 and node.name.lower() in ctes:
            return ctes[node.name.lower()]
        written = ".".join(part.name for part in node.parts)
        named = next((of for name, of in self.declared.items() if is_same_table(written, name)), {})
        return {name.lower(): kind for name, kind in named.items()}

    def column(self, node: Any) -> Kind:
        name = node.name.lower()
        for alias, columns in self.sources:
            if node.table.lower() in ("", alias) and name in columns:
                return columns[name]
        return "other" if self.around is None else self.around.column(node)


def _read_query(query: Any, names: _Names) -> list[tuple[str, Kind]]:
    """Return the columns of a query with their kinds, and cut the quotients in it."""
    exp = trees()
    clause = with_of(query)
    ctes = dict(names.ctes or {})
    for cte in [] if clause is None else clause.expressions:
        ctes[cte.alias.lower()] = _renamed(_read_query(cte.this, _Names(names.declared, ctes)), cte)
    names = _Names(names.declared, ctes, names.sources, names.around)
    if isinstance(query, (exp.Subquery, exp.Paren)):
        return _read_query(query.this, names)
    if isinstance(query, exp.SetOperation):
        sides = zip(_read_query(query.this, names), _read_query(query.expression, names), strict=False)
        columns = [(name, _join((kind, other))) for (name, kind), (_, other) in sides]
        _read_clauses(query, ("order",), _Names(names.declared, ctes, [("", dict(columns))]))
        return columns
    if not isinstance(query, exp.Select):
        return []
    start = from_of(query)
    joins = query.args.get("joins") or []
    tables = ([] if start is None else [start.this]) + [join.this for join in joins]
    sources = [_read_source(table, names) for table in tables]
    outer = _Names(names.declared, ctes, names.sources, names.around) if names.sources else names.around
    names = _Names(names.declared, ctes, sources, outer)
    columns = []
    # Reading an item may replace it, which changes the list.
    for item in list(query.expressions):
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            of = item.table.lower() if isinstance(item, exp.Column) else ""
            columns += [pair for alias, source in sources if of in ("", alias) for pair in source.items()]
            continue
        name = item.alias_or_name.lower()
        columns.append((name, _kind(item, names)))
    # An alias of SELECT comes after the columns of its tables.
    names = _Names(names.declared, ctes, [*sources, ("", dict(columns))], outer)
    for join in joins:
        _read_clauses(join, ("on",), names)
    _read_clauses(query, ("where", "group", "having", "qualify", "order", "windows", "distinct"), names)
    return columns


def _read_clauses(query: Any, clauses: Iterable[str], names: _Names) -> None:
    for clause in clauses:
        part = query.args.get(clause)
        for node in [] if part is None else _listed(part):
            _kind(node, names)


def _read_source(source: Any, names: _Names) -> tuple[str, Columns]:
    exp = trees()
    name = source.alias_or_name.lower()
    if source.args.get("pivots"):
        return name, {}
    if isinstance(source, exp.Table):
        return name, _renamed(list(names.table(source).items()), source)
    if isinstance(source, exp.Lateral):
        source = source.this
    if isinstance(source, exp.Values):
        rows = [[_kind(cell, names) for cell in row.expressions] for row in source.expressions]
        return name, _renamed(
            [(f"column{i + 1}", _join(cells)) for i, cells in enumerate(zip(*rows, strict=False))], source
        )
    return name, _renamed(_read_query(source, names), source)


def _renamed(columns: list[tuple[str, Kind]], source: Any) -> Columns:
    """Return the columns by their names, those that an alias such as t(a, b) gives them where it does."""
    named: list[str] = [name.lower() for name in source.alias_column_names]
    return {new or old: kind for (old, kind), new in zip(columns, named + [""] * len(columns), strict=False)}


def _kind(node: Any, names: _Names) -> Kind:
    """Return the kind of an expression, and cut the quotients in it."""
    exp = trees()
    if isinstance(node, exp.Query):
        columns = _read_query(node, names)
        return columns[0][1] if len(columns) == 1 else "other"
    if isinstance(node, exp.Column):
        return names.column(node)
    kinds = {
        key: [_kind(part, names) for part in _listed(value) if isinstance(part, exp.Expression)]
        for key, value in list(node.args.items())
    }
    name = type(node).__name__
    if isinstance(node, exp.Literal):
        return "whole" if not node.is_string and node.this.isdigit() else "other"
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return "whole" if node.to.this.name in _WHOLE_TYPES else "day" if node.to.this.name == "DATE" else "other"
    if isinstance(node, exp.Anonymous):
        return _join(kinds["expressions"]) if str(node.this).upper() in _OURS else "other"
    if isinstance(node, exp.Div):
        if not node.args.get("typed") or _join(kinds["this"] + kinds["expression"]) != "whole":
            return "other"
        quotient = exp.IntDiv(this=node.this, expression=node.expression)
        quotient.meta.update(node.meta)
        node.replace(quotient)
        return "whole"
    if isinstance(node, (exp.Add, exp.Sub)) and kinds["this"] == ["day"]:
        # Two days differ by a whole number of them, and so many days before or after a day is a day.
        return "day" if kinds["expression"] == ["whole"] else "whole" if kinds["expression"] == ["day"] else "other"
    if name in _WHOLE or name in _DAYS:
        return "whole" if name in _WHOLE else "day"
    return _join(kind for key in _OF.get(name, ()) for kind in kinds.get(key, []))


def _join(kinds: Iterable[Kind]) -> Kind:
    """Return the kind that all have, "other" where they differ or there are none."""
    several = set(kinds)
    return several.pop() if len(several) == 1 else "other"


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]
