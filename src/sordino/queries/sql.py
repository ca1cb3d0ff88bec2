"""SQL text to our trees: SELECT of aggregates from one table with WHERE and GROUP BY; the rest is refused by name and place.

The text is parsed and translated; it never reaches an engine. What is not translated here cannot be asked.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.loss import exact
from sordino.queries.aggregation import Aggregation, Grouping
from sordino.queries.build import Asked, count, label, mean, sum
from sordino.queries.expr import Constant, Expr, IsIn, IsNull, Not, as_value, col

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["SqlText", "parse_sql", "sql", "table_of"]

_LONGEST = 100_000
_CLAUSES = {
    "with_": ("WITH", "ask about the table itself"),
    "distinct": ("DISTINCT", "group by the column instead"),
    "joins": ("JOIN", "one person could match many rows; ask about one table"),
    "laterals": ("LATERAL", "ask about one table"),
    "having": ("HAVING", "filter the released table instead: that costs nothing"),
    "order": ("ORDER BY", "sort the released table instead: that costs nothing"),
    "limit": ("LIMIT", "cut the released table instead: that costs nothing"),
    "offset": ("OFFSET", "cut the released table instead: that costs nothing"),
    "qualify": ("QUALIFY", "window functions are not private"),
    "windows": ("WINDOW", "window functions are not private"),
    "sample": ("SAMPLE", "ask about all rows"),
    "pivots": ("PIVOT", "group by the column instead"),
    "into": ("INTO", "use -o FILE to keep an answer"),
    "fetch": ("FETCH", "cut the released table instead: that costs nothing"),
    "kind": ("SELECT AS", "name columns with AS"),
    "locks": ("FOR", "nothing can be locked"),
    "cluster": ("CLUSTER BY", "ask about all rows"),
    "sort": ("SORT BY", "sort the released table instead: that costs nothing"),
    "distribute": ("DISTRIBUTE BY", "ask about all rows"),
    "connect": ("CONNECT BY", "ask about one table"),
    "match": ("MATCH_RECOGNIZE", "ask about all rows"),
    "prewhere": ("PREWHERE", "use WHERE"),
    "settings": ("SETTINGS", "leave it out"),
    "format": ("FORMAT", "use --format"),
    "hint": ("a hint", "leave it out"),
    "operation_modifiers": ("a modifier", "leave it out"),
}
_OPENERS = {"SELECT", "WITH", "FROM", "(", ";"}
_KNOWN_ARGS = {"expressions", "from_", "from", "where", "group"}
_SUPPORTED = "supported are SELECT of COUNT, SUM, AVG with WHERE, GROUP BY and AS"


@dataclass(frozen=True, slots=True)
class SqlText:
    """A question as SQL text, not yet understood."""

    text: str


def sql(text: str) -> SqlText:
    """Say that a text is SQL: `adult.ask(sd.sql("SELECT COUNT(*) FROM adult"), epsilon=0.5)`.

    >>> sql("SELECT COUNT(*) FROM adult").text
    'SELECT COUNT(*) FROM adult'
    """
    if not isinstance(text, str) or not text.strip():
        raise QuestionRefused('sql takes the text of one question, such as "SELECT COUNT(*) FROM adult"')
    return SqlText(text)


def table_of(text: str) -> str:
    """Return the name of the one table that a question is about; raises QuestionRefused where there is not one."""
    return _table_name(_Place(text), _parsed(text))


def parse_sql(text: str, *, table: str, columns: Iterable[str] = ()) -> Aggregation:
    """Return the question that SQL text asks about `table`.

    Names match the declared `columns` whatever their case. Raises UnknownName for another table, QuestionRefused for
    whatever is not supported, by its name and place.
    """
    tree, place = _parsed(text), _Place(text)
    asked = _table_name(place, tree)
    if asked.lower() != table.lower():
        raise UnknownName(
            f"{place.of(tree.find(_exp().Table))}table {asked!r} is not declared; {nearest(asked, [table])}"
        )
    found: Aggregation | None = None
    try:
        found = _Reader(place, tree, {c.lower(): c for c in columns}).question()
    except RecursionError:
        found = None
    if found is None:
        raise QuestionRefused("the question is nested too deep to be read: use IN, or simplify it")
    return found


class _Place:
    """Finds where a part of the text stands, for error messages."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, node: Any) -> str:
        for inner in node.walk() if node is not None else ():
            if "start" in inner.meta:
                return self._told(int(inner.meta["start"]))
        return ""

    def name(self, node: Any) -> str:
        """Return the word that a function stands in the text as, where the parser kept its place."""
        if node is None or "start" not in node.meta or "end" not in node.meta:
            return ""
        return self._text[int(node.meta["start"]) : int(node.meta["end"]) + 1].split("(")[0].strip().upper()

    def word(self, words: str) -> str:
        first = words.split()[0].upper()
        for token in _tokens(self._text):
            if token.text.upper().split()[:1] == [first]:
                return self._told(token.start)
        return ""

    def _told(self, start: int) -> str:
        before = self._text[:start]
        return f"line {before.count(chr(10)) + 1}, column {start - (before.rfind(chr(10)) + 1) + 1}: "


class _Reader:
    """Translates one SELECT."""

    def __init__(self, place: _Place, select: exp.Select, columns: dict[str, str]) -> None:
        self._place = place
        self._select = select
        self._columns = columns
        table = select.find(_exp().Table)
        self._names = {table.name.lower(), table.alias_or_name.lower()} if table is not None else set()

    def question(self) -> Aggregation:
        select = self._select
        for name, value in select.args.items():
            if value and name not in _KNOWN_ARGS:
                word, instead = _CLAUSES.get(name, (name.strip("_").upper(), _SUPPORTED))
                place = self._place.word(word) or (self._place.word(",") if word == "JOIN" else "")
                raise self._refused(place, f"{word} is not supported: {instead}")
        groups = self._groups()
        aggregates: list[Asked] = []
        for item in select.expressions:
            inner = item.this if isinstance(item, _exp().Alias) else item
            alias = item.alias if isinstance(item, _exp().Alias) else None
            made = self._aggregate(inner)
            if made is not None:
                aggregates.append(made.alias(alias) if alias else made)
            elif isinstance(inner, _exp().Star) or self._value(inner).node not in [g.of for g in groups]:
                self._not_grouped(inner)
        if not aggregates:
            raise self._refused("", "a question needs an aggregate: add COUNT(*), SUM(...) or AVG(...) to the SELECT")
        where = select.args.get("where")
        condition = None if where is None else self._value(where.this).node
        return Aggregation(condition, groups, tuple(a.made for a in aggregates))

    def _groups(self) -> tuple[Grouping, ...]:
        clause = self._select.args.get("group")
        if clause is None:
            return ()
        for name, value in clause.args.items():
            if value and name != "expressions":
                word = name.strip("_").upper().replace("_", " ")
                raise self._refused(self._place.word(word), f"GROUP BY {word} is not supported: list the columns")
        chosen: list[Grouping] = []
        selected = self._select.expressions
        aliases = {e.alias.lower(): e.this for e in selected if isinstance(e, _exp().Alias)}
        for item in clause.expressions:
            target, name = item, None
            if isinstance(item, _exp().Literal) and not item.is_string:
                at = int(item.this) if item.this.isdigit() else 0
                if not 1 <= at <= len(selected):
                    raise self._refused(
                        self._place.of(item), f"GROUP BY {item.this}: there is no such column in SELECT"
                    )
                target = selected[at - 1]
            elif self._is_alias(item, aliases):
                target, name = aliases[item.name.lower()], item.name
            if isinstance(target, _exp().Alias):
                target, name = target.this, target.alias
            node = self._value(target).node
            if name is None:
                name = next(
                    (a for e in selected if isinstance(e, _exp().Alias) and e.this == target and (a := e.alias)), None
                )
            chosen.append(Grouping(name or label(node), node))
        return tuple(chosen)

    def _is_alias(self, item: Any, aliases: dict[str, Any]) -> bool:
        """Say whether a GROUP BY name is an alias of SELECT; a column of the same name comes first, as in SQL."""
        if not isinstance(item, _exp().Column) or item.table or item.name.lower() not in aliases:
            return False
        return item.name.lower() not in self._columns

    def _aggregate(self, item: Any) -> Asked | None:
        kinds = _exp()
        if isinstance(item, kinds.Count):
            if isinstance(item.this, kinds.Distinct):
                raise self._refused(
                    self._place.of(item.this), "COUNT(DISTINCT) is not supported: count rows, or group by it"
                )
            if item.expressions:
                raise self._refused(self._place.of(item), "COUNT takes * or one column")
            return count() if isinstance(item.this, kinds.Star) else self._counted(item.this)
        for kind, build in ((kinds.Sum, sum), (kinds.Avg, mean)):
            if isinstance(item, kind):
                if isinstance(item.this, kinds.Distinct):
                    word = type(item).__name__.upper()
                    raise self._refused(self._place.of(item), f"{word}(DISTINCT) is not supported: leave DISTINCT out")
                return build(self._value(item.this))
        return None

    def _counted(self, item: Any) -> Asked:
        value = self._value(item)
        return count() if isinstance(value.node, Constant) else count(value)

    def _not_grouped(self, item: Any) -> None:
        words = " ".join(item.sql(dialect="duckdb").split())
        words = words if len(words) <= 60 else words[:57] + "..."
        if isinstance(item, _exp().Star):
            raise self._refused(self._place.word("*"), "SELECT * is refused: rows never leave, only aggregates of them")
        raise self._refused(
            self._place.of(item),
            f"SELECT {words} is refused: it is a value of single rows, and rows never leave, only aggregates of them "
            f"such as COUNT(*) or AVG({words}); or GROUP BY {words}",
        )

    # ---- expressions

    def _value(self, item: Any) -> Expr:
        kinds = _exp()
        if isinstance(item, kinds.Column):
            return self._column(item)
        if isinstance(item, (kinds.Paren, kinds.Where)):
            return self._value(item.this)
        if isinstance(item, kinds.Literal):
            return self._constant(item)
        if isinstance(item, kinds.Boolean):
            return Expr(Constant(bool(item.this)))
        if isinstance(item, kinds.Cast):
            return self._day(item)
        if isinstance(item, kinds.Neg):
            value = self._value(item.this)
            if isinstance(value.node, Constant) and isinstance(value.node.value, Fraction):
                return Expr(Constant(-value.node.value))
            return -value
        if isinstance(item, kinds.Not):
            return ~self._value(item.this)
        if isinstance(item, kinds.Abs):
            return self._value(item.this).abs()
        if isinstance(item, (kinds.Least, kinds.Greatest)):
            return self._one_sided(item)
        if isinstance(item, kinds.Between):
            if item.args.get("symmetric"):
                raise self._refused(
                    self._place.word("SYMMETRIC"), "SYMMETRIC is not supported: put the lower bound first"
                )
            return self._value(item.this).is_between(self._value(item.args["low"]), self._value(item.args["high"]))
        if isinstance(item, kinds.In):
            return self._member(item)
        if isinstance(item, kinds.Is):
            return self._is(item)
        if isinstance(item, kinds.Anonymous):
            return self._function(item)
        if type(item).__name__ not in _BINARY:
            raise self._unsupported(item)
        pair = self._value(item.this), self._value(item.expression)
        return _BINARY[type(item).__name__](*pair)

    def _column(self, item: Any) -> Expr:
        if isinstance(item.this, _exp().Star):
            raise self._refused(self._place.word("*"), "SELECT * is refused: rows never leave, only aggregates of them")
        if item.table and item.table.lower() not in self._names:
            raise UnknownName(f"{self._place.of(item)}{item.table!r} is not the table asked about")
        if self._columns and item.name.lower() not in self._columns:
            hint = nearest(item.name, self._columns.values())
            what = f"column {item.name!r} is not declared, so it cannot be asked about; {hint}"
            raise UnknownName(self._place.of(item) + what)
        return col(self._columns.get(item.name.lower(), item.name))

    def _constant(self, item: Any) -> Expr:
        if item.is_string:
            return Expr(Constant(item.this))
        try:
            return Expr(Constant(exact(item.this, name="a constant")))
        except DeclarationError:
            raise self._refused(self._place.of(item), "a constant is not a number") from None

    def _day(self, item: Any) -> Expr:
        if isinstance(item.this, _exp().Literal) and item.this.is_string and item.to.sql().upper() == "DATE":
            try:
                return Expr(Constant(as_value(datetime.date.fromisoformat(item.this.this))))
            except ValueError:
                raise self._refused(self._place.of(item), "a day is written as DATE '2000-01-31'") from None
        place = self._place.word("CAST") or self._place.word("TRY_CAST") or self._place.word("::")
        raise self._refused(place, "CAST is not supported: columns have their declared types")

    def _one_sided(self, item: Any) -> Expr:
        """LEAST(x, c) is a clip from above, GREATEST(x, c) from below; a missing x stays missing."""
        values = [self._value(v) for v in (item.this, *item.expressions)]
        numbers = [v.node.value for v in values if isinstance(v.node, Constant) and isinstance(v.node.value, Fraction)]
        others = [v for v in values if not isinstance(v.node, Constant)]
        word = type(item).__name__.upper()
        if len(others) != 1 or len(numbers) != len(values) - 1:
            raise self._refused(self._place.of(item), f"{word} takes one column and numbers, such as {word}(age, 90)")
        return others[0].clip(None, min(numbers)) if word == "LEAST" else others[0].clip(max(numbers), None)

    def _member(self, item: Any) -> Expr:
        if (
            item.args.get("query") is not None
            or item.args.get("unnest") is not None
            or item.args.get("field") is not None
        ):
            raise self._refused(self._place.of(item), "IN takes a list of values; a sub-query is not supported")
        values = [self._value(v).node for v in item.expressions]
        if not values or not all(isinstance(v, Constant) for v in values):
            raise self._refused(self._place.of(item), "IN takes a list of constants, such as IN ('Sales', 'Tech')")
        return Expr(IsIn(self._value(item.this).node, tuple(v.value for v in values if isinstance(v, Constant))))

    def _is(self, item: Any) -> Expr:
        of = self._value(item.this)
        if isinstance(item.expression, _exp().Null):
            return Expr(IsNull(of.node))
        if isinstance(item.expression, _exp().Not) and isinstance(item.expression.this, _exp().Null):
            return Expr(Not(IsNull(of.node)))
        raise self._refused(self._place.of(item), "IS is supported with NULL only; compare truths with = TRUE")

    def _function(self, item: Any) -> Expr:
        name, given = str(item.this).upper(), item.expressions
        if name == "CLIP":
            if len(given) != 3:
                raise self._refused(self._place.of(item), "CLIP takes a number and two bounds: CLIP(age, 0, 90)")
            return self._value(given[0]).clip(self._number(given[1]), self._number(given[2]))
        if name == "BIN":
            if len(given) == 2 and isinstance(given[1], _exp().Array):
                return self._value(given[0]).bin([self._number(e) for e in given[1].expressions])
            if len(given) == 2:
                return self._value(given[0]).bin(width=self._number(given[1]))
            if len(given) > 2:
                return self._value(given[0]).bin([self._number(e) for e in given[1:]])
            raise self._refused(self._place.of(item), "BIN takes a number and a width, or its edges: BIN(age, 10)")
        raise self._unsupported(item)

    def _number(self, item: Any) -> Fraction:
        node = self._value(item).node
        if isinstance(node, Constant) and isinstance(node.value, Fraction):
            return node.value
        raise self._refused(self._place.of(item), "a number is needed here")

    def _unsupported(self, item: Any) -> QuestionRefused:
        kinds = _exp()
        if isinstance(item, kinds.AggFunc):
            inner = "an aggregate stands by itself in SELECT" if self._aggregate_like(item) else _SUPPORTED
            return self._refused(self._place.of(item), f"{item.sql_name()} is not supported here: {inner}")
        if isinstance(item, (kinds.Subquery, kinds.Select, kinds.Exists)):
            return self._refused(self._place.of(item), "a sub-query is not supported: ask about the table itself")
        if isinstance(item, kinds.Window):
            return self._refused(self._place.of(item), "OVER is not supported: window functions are not private")
        if isinstance(item, kinds.Filter):
            return self._refused(self._place.word("FILTER"), "FILTER is not supported: filter all with WHERE")
        if isinstance(item, kinds.Null):
            return self._refused(self._place.word("NULL"), "NULL is not a value: write IS NULL")
        if isinstance(item, (kinds.Div, kinds.IntDiv)):
            return self._refused(
                self._place.of(item), "division is not supported: multiply by a constant, such as x * 0.5"
            )
        if isinstance(item, kinds.Case):
            return self._refused(self._place.word("CASE"), "CASE is not supported: filter with WHERE, or bin with BIN")
        name = self._place.name(item) or _NAMES.get(type(item).__name__, type(item).__name__.upper())
        return self._refused(
            self._place.of(item) or self._place.word(name) or self._place.word("?") or self._place.word("$"),
            f"{name} is not supported: expressions may use + - *, ABS, CLIP, LEAST, "
            "GREATEST, comparisons, AND, OR, NOT, IN, BETWEEN and IS NULL",
        )

    def _aggregate_like(self, item: Any) -> bool:
        return isinstance(item, (_exp().Count, _exp().Sum, _exp().Avg))

    def _refused(self, place: str, message: str) -> QuestionRefused:
        return QuestionRefused(place + message)


_NAMES = {"NullSafeNEQ": "IS DISTINCT FROM", "NullSafeEQ": "IS NOT DISTINCT FROM", "GroupingSets": "GROUPING SETS"}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "EQ": lambda a, b: a == b,
    "NEQ": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LTE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GTE": lambda a, b: a >= b,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
}


def _tokens(text: str) -> list[Any]:
    """Return the words of a text; none where it cannot be cut into words."""
    from sqlglot import Dialect, errors

    try:
        return list(Dialect.get_or_raise("duckdb").tokenize(text))
    except (errors.SqlglotError, ValueError):
        return []


def _parsed(text: str) -> exp.Select:
    """Return the one SELECT of a text; what the parser says of it is told with its place."""
    import sqlglot
    from sqlglot import errors

    if len(text) > _LONGEST:
        raise QuestionRefused(f"a question may have {_LONGEST} characters, not {len(text)}")
    first = next((t.text.upper() for t in _tokens(text)), "SELECT")
    if first not in _OPENERS:
        word = first.split()[0] if first[:1].isalpha() else repr(first)
        raise QuestionRefused(f"line 1, column 1: {word} is not supported: a question is one SELECT of aggregates")
    failed = ""
    statements: list[Any] = []
    try:
        statements = [s for s in sqlglot.parse(text, dialect="duckdb") if s is not None]
    except errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        at = f"line {first.get('line')}, column {first.get('col')}"
        failed = f"{at}: this is not SQL that can be read, near {first.get('highlight')!r}"
    except (errors.SqlglotError, RecursionError, ValueError):
        failed = "this is not SQL that can be read: an unfinished quote or too deep a nesting"
    if failed:
        raise QuestionRefused(f"{failed}; {_SUPPORTED}")
    if len(statements) != 1:
        raise QuestionRefused(f"a question is one SELECT, not {len(statements)} statements")
    if not isinstance(statements[0], sqlglot.exp.Select):
        kind = type(statements[0]).__name__.upper()
        raise QuestionRefused(f"line 1, column 1: {kind} is not supported: a question is one SELECT of aggregates")
    return statements[0]


def _table_name(place: _Place, select: exp.Select) -> str:
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise QuestionRefused("a question names its table: SELECT COUNT(*) FROM adult")
    table = source.this
    if not isinstance(table, _exp().Table) or not isinstance(table.this, _exp().Identifier):
        raise QuestionRefused(
            f"{place.of(table) or place.word('FROM')}FROM takes the name of a declared table, nothing else"
        )
    for name, value in table.args.items():
        if value and name not in ("this", "alias"):
            word, instead = _CLAUSES.get(name, (name.strip("_").upper(), "name the declared table alone"))
            raise QuestionRefused(f"{place.word(word) or place.of(table)}{word} is not supported: {instead}")
    if table.alias_column_names:
        raise QuestionRefused(
            f"{place.of(table)}{table.alias}(...) renames columns, which is not supported: use their names"
        )
    return str(table.name)


def _exp() -> Any:
    from sqlglot import exp

    return exp
