"""SQL values to expressions, aggregates and rows of values."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.queries import build
from sordino.ask.queries.aggregates.quantile import quantile, quantiles
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.build import AggregateExpr
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.keys import KeyList, Label
from sordino.ask.queries.expressions.nodes import Compare, Constant, IsIn, IsNull, Released
from sordino.ask.queries.expressions.sql_trees import and_parts, trees
from sordino.ask.queries.sql.functions import fold, read_function
from sordino.ask.queries.sql.text import SUPPORTED, Place
from sordino.ask.queries.sql.time_functions import PARTS, extreme_of, read_time
from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.core.loss import to_fraction
from sordino.core.neighbors import ContributionBounds

# ---- Row values in SQL: (state, year) IN (('NY', 2020), ...), as the list of an answer's keys or as a condition

Read = Callable[[Any], Expr]


def is_row_list(item: Any) -> bool:
    """Return whether a tree is (a, b) IN (...)."""
    return isinstance(item, trees().In) and isinstance(item.this, trees().Tuple)


def take_key_list(
    place: Place, where: Any, groups: Sequence[Grouping], read: Read
) -> tuple[KeyList | None, list[Any] | None]:
    """Return the list of keys that a condition states, and the other conditions; None and None where it states none.

    A row of the table with other keys takes no part, so the list is the whole meaning of its condition.
    """
    parts = and_parts(where)
    parts = [part.unnest() for part in parts]
    for part in parts:
        if not is_row_list(part):
            continue
        nodes = [read(column).node for column in part.this.expressions]
        names = [next((g.alias for g in groups if g.of == node), None) for node in nodes]
        if None in names:
            continue
        rows = dict.fromkeys(tuple(map(_label, row)) for row in _constants(place, part, read))
        return KeyList(tuple(n for n in names if n is not None), tuple(rows)), [p for p in parts if p is not part]
    return None, None


def match_rows(place: Place, item: Any, read: Read) -> Expr:
    """Return the condition that columns equal one of some rows of constants."""
    columns = [read(column) for column in item.this.expressions]
    rows: list[Expr] = []
    for row in _constants(place, item, read):
        terms = [column == Expr(Constant(value)) for column, value in zip(columns, row, strict=True)]
        rows.append(_balance(terms, lambda a, b: a & b))
    return _balance(rows, lambda a, b: a | b)


def _constants(place: Place, item: Any, read: Read) -> list[tuple[Any, ...]]:
    kinds = trees()
    rows = [r for e in item.expressions for r in (e.expressions if isinstance(e, kinds.Values) else [e])]
    width = len(item.this.expressions)
    values = []
    for row in rows:
        nodes = [read(e).node for e in row.expressions] if isinstance(row, kinds.Tuple) else []
        if len(nodes) != width or not all(isinstance(n, Constant) for n in nodes):
            raise QuestionRefused(f"{place.of(row)}each row of this IN is {width} constants, such as ('NY', 2020)")
        values.append(tuple(n.value for n in nodes if isinstance(n, Constant)))
    if not values:
        raise QuestionRefused(f"{place.of(item)}IN takes a list of rows, such as (state, year) IN (('NY', 2020))")
    return values


def _label(value: Any) -> Label:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    assert isinstance(value, (str, bool, datetime.date))
    return value


def _balance(terms: Sequence[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return the terms joined as a tree that is as flat as can be."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return join(_balance(terms[:half], join), _balance(terms[half:], join))


# ---- Expressions of SQL to our trees: numbers, conditions and choices; the rest is refused by name and place

AGGREGATES = {
    "Avg",
    "Corr",
    "Count",
    "CovarPop",
    "CovarSamp",
    "Median",
    "PercentileCont",
    "PercentileDisc",
    "Quantile",
    "Stddev",
    "StddevPop",
    "StddevSamp",
    "Sum",
    "Variance",
    "VariancePop",
    "WithinGroup",
}


class Translator:
    """Translates SQL: `column` says what a name stands for, `special` takes what has a meaning of its own."""

    def __init__(
        self,
        place: Place,
        column: Callable[[Any], Expr],
        special: Callable[[Any], Expr | None] = lambda _: None,
    ) -> None:
        self._place = place
        self._column = column
        self._special = special

    def value(self, item: Any) -> Expr:
        """Translate an expression; raises QuestionRefused for an unsupported one."""
        special = self._special(item)
        if special is not None:
            return special
        name = type(item).__name__
        if name in _LEAVES:
            return _READERS[name](self, item)
        rows = _row_values(item) if name in _ROW_COMPARISONS else None
        if rows is not None:
            return self._compare_rows(item, name, *rows)
        if name in ("Paren", "Where"):
            return self.value(item.this)
        if name not in _BINARY or not {type(item.this).__name__, type(item.expression).__name__} <= _LEAVES:
            # skipped for two leaves, of which none is an interval
            timed = read_time(item, self.value)
            if timed is not None:
                return timed
        if name in _BINARY:
            return fold(_BINARY[name](self.value(item.this), self.value(item.expression)))
        function = read_function(item, self.value)
        if function is not None:
            return fold(function)
        read = next((_READERS[kind.__name__] for kind in type(item).__mro__ if kind.__name__ in _READERS), None)
        if read is None:
            raise self.refuse_unsupported(item)
        return read(self, item)

    def _compare_rows(self, item: Any, name: str, left: list[Any], right: list[Any]) -> Expr:
        """Compare (a, b) with (c, d): all equal, or the first that differs decides; missing comes last, as in DuckDB."""
        if len(left) != len(right) or not left:
            raise self.refuse(self._place.of(item), "row values are compared with as many values: (a, b) = (1, 2)")
        pairs = [(self.value(a), self.value(b)) for a, b in zip(left, right, strict=True)]
        if name in ("EQ", "NEQ"):
            same = _balance([_are_same(a, b) for a, b in pairs], lambda a, b: a & b)
            return same if name == "EQ" else ~same
        turned = name in ("LT", "LTE")
        pairs = [(b, a) if turned else (a, b) for a, b in pairs]
        one, other = pairs[-1]
        condition = _is_after(one, other)
        condition = condition | _are_same(one, other) if name in ("LTE", "GTE") else condition
        for one, other in reversed(pairs[:-1]):
            condition = _is_after(one, other) | (_are_same(one, other) & condition)
        return condition

    def _name(self, item: Any) -> Expr:
        return self._column(item)

    def _truth(self, item: Any) -> Expr:
        return Expr(Constant(bool(item.this)))

    def _negate(self, item: Any) -> Expr:
        value = self.value(item.this)
        if isinstance(value.node, Constant) and isinstance(value.node.value, Fraction):
            return Expr(Constant(-value.node.value))
        return -value

    def _between(self, item: Any) -> Expr:
        of, low, high = (self.value(part) for part in (item.this, item.args["low"], item.args["high"]))
        within = of.is_between(low, high)
        return within | of.is_between(high, low) if item.args.get("symmetric") else within

    def _constant(self, item: Any) -> Expr:
        if item.is_string:
            return Expr(Constant(item.this))
        try:
            return Expr(Constant(to_fraction(item.this, name="a constant")))
        except DeclarationError:
            raise self.refuse(self._place.of(item), "a constant is not a number") from None

    def _cast(self, item: Any) -> Expr:
        place = self._place.word("CAST") or self._place.word("TRY_CAST") or self._place.word("::")
        if item.to.this.name.startswith("TIME"):
            raise self.refuse(
                place, "CAST to a time of day is not supported: ask for HOUR(x), MINUTE(x) or STRFTIME(x, '%H:%M')"
            )
        raise self.refuse(place, "CAST is supported to whole numbers, decimals, text, dates and timestamps")

    def _extract(self, item: Any) -> Expr:
        word = item.this.name.upper()[:20]
        parts = ", ".join(PARTS).upper()
        raise self.refuse(self._place.word("EXTRACT"), f"EXTRACT({word}) is not supported: {parts}")

    def _choice(self, item: Any) -> Expr:
        """CASE WHEN ... THEN ... ELSE ... END, CASE x WHEN v THEN ..., and IF(condition, a, b)."""
        kinds = trees()
        ifs = [item] if isinstance(item, kinds.If) else item.args["ifs"]
        last = item.args.get("false" if isinstance(item, kinds.If) else "default")
        of = None if isinstance(item, kinds.If) or item.this is None else self.value(item.this)
        choice = None if last is None or isinstance(last, kinds.Null) else self.value(last)
        for one in reversed(ifs):
            condition = self.value(one.this) if of is None else of == self.value(one.this)
            if not isinstance(one.args["true"], kinds.Null):
                choice = when(condition, self.value(one.args["true"])).otherwise(choice)
            elif choice is not None:
                # THEN NULL: what comes after counts where the condition is not true.
                choice = when(when(condition, 1).otherwise(0) == 0, choice).otherwise(None)
        if choice is None:
            raise self.refuse(self._place.of(item) or self._place.word("CASE"), "CASE needs WHEN ... THEN ... a value")
        return choice

    def _coalesce(self, item: Any) -> Expr:
        """COALESCE(x, c): c where x is missing."""
        values = [self.value(v) for v in (item.this, *item.expressions)]
        choice = values[-1]
        for value in reversed(values[:-1]):
            choice = when(value.is_null(), choice).otherwise(value)
        return choice

    def _one_sided(self, item: Any) -> Expr:
        """LEAST(x, c) is a clip from above, GREATEST(x, c) from below: a missing x stays missing; of columns, what is there."""
        values = [self.value(v) for v in (item.this, *item.expressions)]
        numbers = [v.node.value for v in values if isinstance(v.node, Constant) and isinstance(v.node.value, Fraction)]
        others = [v for v in values if not isinstance(v.node, Constant)]
        word = type(item).__name__.upper()
        if not others or len(numbers) != len(values) - len(others):
            raise self.refuse(self._place.of(item), f"{word} takes columns and numbers, such as {word}(age, 90)")
        extreme = extreme_of(others, least=word == "LEAST")
        if not numbers:
            return extreme
        return extreme.clip(None, min(numbers)) if word == "LEAST" else extreme.clip(max(numbers), None)

    def _member(self, item: Any) -> Expr:
        if any(item.args.get(key) is not None for key in ("query", "unnest", "field")):
            raise self.refuse(
                self._place.of(item), "IN takes a list of values, or a sub-query of released or public values"
            )
        if is_row_list(item):
            return match_rows(self._place, item, self.value)
        values = [self.value(v).node for v in item.expressions]
        if len(values) == 1 and isinstance(values[0], Released):
            return Expr(Compare("=", self.value(item.this).node, values[0]))
        if not values or not all(isinstance(v, Constant) for v in values):
            raise self.refuse(self._place.of(item), "IN takes a list of constants, such as IN ('Sales', 'Tech')")
        return Expr(IsIn(self.value(item.this).node, tuple(v.value for v in values if isinstance(v, Constant))))

    def _is(self, item: Any) -> Expr:
        """x IS NULL, and c IS TRUE, which is false where c is neither true nor false."""
        of = self.value(item.this)
        what = item.expression
        negated = isinstance(what, trees().Not)
        what = what.this if negated else what
        if isinstance(what, trees().Null):
            condition = Expr(IsNull(of.node))
        elif isinstance(what, trees().Boolean):
            condition = when(of if what.this else ~of, 1).otherwise(0) == 1
        else:
            raise self.refuse(self._place.of(item), "IS takes NULL, TRUE or FALSE; compare values with =")
        return ~condition if negated else condition

    def _distinct_from(self, item: Any) -> Expr:
        """a IS [NOT] DISTINCT FROM b: as = and <>, but missing equals missing."""
        same = _are_same(self.value(item.this), self.value(item.expression))
        return same if type(item).__name__ == "NullSafeEQ" else ~same

    def _function(self, item: Any) -> Expr:
        name = str(item.this).upper()
        arguments = item.expressions
        if name == "CLIP":
            if len(arguments) != 3:
                raise self.refuse(self._place.of(item), "CLIP takes a number and two bounds: CLIP(age, 0, 90)")
            return self.value(arguments[0]).clip(self.number(arguments[1]), self.number(arguments[2]))
        if name == "CLIP_UNIT":
            raise self.refuse(self._place.of(item), "CLIP_UNIT stands alone in a sum: SUM(CLIP_UNIT(cost, 0, 500))")
        if name == "BIN":
            if len(arguments) == 2 and isinstance(arguments[1], trees().Array):
                return self.value(arguments[0]).bin([self.number(e) for e in arguments[1].expressions])
            if len(arguments) == 2:
                return self.value(arguments[0]).bin(width=self.number(arguments[1]))
            if len(arguments) > 2:
                return self.value(arguments[0]).bin([self.number(e) for e in arguments[1:]])
            raise self.refuse(self._place.of(item), "BIN takes a number and a width, or its edges: BIN(age, 10)")
        raise self.refuse_unsupported(item)

    def number(self, item: Any) -> Fraction:
        node = self.value(item).node
        if isinstance(node, Constant) and isinstance(node.value, Fraction):
            return node.value
        raise self.refuse(self._place.of(item), "a number is needed here")

    def refuse_unsupported(self, item: Any) -> QuestionRefused:
        kinds = trees()
        if isinstance(item, kinds.AggFunc):
            return self._refuse_aggregate(item)
        if isinstance(item, (kinds.Any, kinds.All)) and isinstance(item.this.unnest(), kinds.Query):
            word = type(item).__name__.upper()
            return self.refuse(
                self._place.word(word),
                f"{word} over rows of a private table compares a row with those of its own person, so that WHERE of the "
                "sub-query compares the privacy units, each column with its table: ... (SELECT o.x FROM visits o WHERE "
                "o.person = v.person); or compare with what aggregates release, such as (SELECT AVG(x) FROM visits)",
            )
        if isinstance(item, kinds.Any) and isinstance(item.parent, kinds.Binary):
            of = item.this.unnest()
            is_parameter = isinstance(of, (kinds.Placeholder, kinds.Parameter))
            return self.refuse_unsupported(of) if is_parameter else self._refuse_quantifier("ANY")
        if isinstance(item, kinds.Anonymous) and str(item.this).upper() in ("ALL", "SOME"):
            return self._refuse_quantifier(str(item.this).upper())
        if isinstance(item, (kinds.Any, kinds.All)):
            return self._refuse_truth(item)
        if isinstance(item, (kinds.Subquery, kinds.Select, kinds.Exists)):
            return self.refuse(
                self._place.of(item),
                "a sub-query of rows is not supported here: in FROM, or one of aggregates, which is answered first",
            )
        if isinstance(item, kinds.Window):
            return self.refuse(
                self._place.of(item),
                "a window over rows of persons would show single rows: over one person's own it stands in a sub-query, PARTITION "
                "BY the privacy unit; else put windows around aggregates, SUM(COUNT(*)) OVER (...)",
            )
        if isinstance(item, kinds.Filter):
            return self.refuse(self._place.word("FILTER"), "FILTER is not supported: filter all with WHERE")
        if isinstance(item, (kinds.Placeholder, kinds.Parameter)):
            at = self._place.of(item) or self._place.word("?") or self._place.word("$") or self._place.word(":")
            return self.refuse(
                at, "PLACEHOLDER is not supported, as a parameter has no value here: write the value itself"
            )
        if isinstance(item, kinds.Null):
            return self.refuse(self._place.word("NULL"), "NULL is not a value: write IS NULL")
        name = self._place.name(item) or _NAMES.get(type(item).__name__, type(item).__name__.upper())
        return self.refuse(
            self._place.of(item) or self._place.word(name) or self._place.word("?") or self._place.word("$"),
            f"{name} is not supported of the rows of a private table: {_INSTEAD.get(name.upper(), _LISTED)}",
        )

    def _refuse_aggregate(self, item: Any) -> QuestionRefused:
        kinds = trees()
        if isinstance(item, (kinds.Min, kinds.Max)):
            word = item.sql_name()
            level = "0.01" if isinstance(item, kinds.Min) else "0.99"
            at = " ".join(item.this.sql(dialect="duckdb").split())[:60]
            return self.refuse(
                self._place.of(item),
                f"{word} is not supported, because one row decides it: ask for QUANTILE_CONT({at}, {level}), or for "
                f"clipping bounds with find_bounds (sordino bounds); of names, count the rows of each: GROUP BY {at}",
            )
        if isinstance(item, (kinds.LogicalOr, kinds.LogicalAnd)):
            return self._refuse_truth(item)
        inner = "an aggregate stands alone in SELECT" if type(item).__name__ in AGGREGATES else SUPPORTED
        word = _NAMES.get(type(item).__name__) or self._place.name(item) or item.sql_name()
        return self.refuse(self._place.of(item), f"{word} is not supported here: {inner}")

    def _refuse_quantifier(self, word: str) -> QuestionRefused:
        example = "x <> ALL(ARRAY['a', 'b']), x NOT IN" if word == "ALL" else f"x = {word}(ARRAY['a', 'b']), x IN"
        return self.refuse(
            self._place.word(word),
            f"{word} takes a list of constants: {example} ('a', 'b'); join other comparisons by "
            f"{'AND' if word == 'ALL' else 'OR'}, and read a list column by FROM table, UNNEST(column) AS t(item)",
        )

    def _refuse_truth(self, item: Any) -> QuestionRefused:
        at = " ".join(item.this.unnest().sql(dialect="duckdb").split())[:60]
        return self.refuse(
            self._place.of(item),
            f"{_NAMES.get(type(item).__name__, type(item).__name__.upper())} is not supported, because one row decides it: "
            f"ask how many rows meet it, COUNT(CASE WHEN {at} THEN 1 END), or which share, AVG(CAST({at} AS INT))",
        )

    def refuse(self, place: str, message: str) -> QuestionRefused:
        return QuestionRefused(place + message)


_LISTED = "`sordino sql` lists the functions that are"
# What is written instead of functions that other dialects have.
_INSTEAD = {
    "DATE_FORMAT": "write STRFTIME(x, '%Y-%m'), or name the dialect",
    "FORMAT_DATE": "write STRFTIME(x, '%Y-%m'), or name the dialect",
    "EPOCH_MS": "write EPOCH(x) * 1000",
    "EPOCH_US": "write EPOCH(x) * 1000000",
    "UNIX_TIMESTAMP": "write EPOCH(x)",
    "TO_NUMBER": "write CAST(x AS INTEGER)",
    "ISNULL": "write COALESCE(x, y)",
}


def _are_same(one: Expr, other: Expr) -> Expr:
    """Return whether two values are equal, or both missing."""
    if isinstance(other.node, Constant):
        return (one == other) & ~one.is_null()
    if isinstance(one.node, Constant):
        return _are_same(other, one)
    return ((one == other) & ~one.is_null() & ~other.is_null()) | (one.is_null() & other.is_null())


def _is_after(one: Expr, other: Expr) -> Expr:
    """Return whether a value comes after another one, missing after all else."""
    if isinstance(one.node, Constant):
        return (one > other) & ~other.is_null()
    if isinstance(other.node, Constant):
        return ((one > other) & ~one.is_null()) | one.is_null()
    present = (one > other) & ~one.is_null() & ~other.is_null()
    return present | (one.is_null() & ~other.is_null())


_ROW_COMPARISONS = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE")


def _row_values(item: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the values of the two rows that a comparison is of, (a, b) = (1, 2) or ROW(a, b) = ROW(1, 2); else None."""
    kinds = trees()
    sides = [item.this.unnest(), item.expression.unnest()]
    rows = [
        isinstance(s, kinds.Tuple) or (isinstance(s, kinds.Anonymous) and str(s.this).upper() == "ROW") for s in sides
    ]
    return (sides[0].expressions, sides[1].expressions) if all(rows) else None


_NAMES = {
    "GroupConcat": "STRING_AGG",
    "GroupingSets": "GROUPING SETS",
    "LogicalOr": "BOOL_OR",
    "LogicalAnd": "BOOL_AND",
}
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
_READERS: dict[str, Callable[[Translator, Any], Expr]] = {
    "Column": Translator._name,
    "Literal": Translator._constant,
    "National": lambda _, item: Expr(Constant(item.this)),
    "RawString": lambda _, item: Expr(Constant(item.this)),
    "Boolean": Translator._truth,
    "Cast": Translator._cast,
    "Extract": Translator._extract,
    "Neg": Translator._negate,
    "Not": lambda by, item: ~by.value(item.this),
    "Abs": lambda by, item: by.value(item.this).abs(),
    "Least": Translator._one_sided,
    "Greatest": Translator._one_sided,
    "Between": Translator._between,
    "In": Translator._member,
    "Is": Translator._is,
    "NullSafeEQ": Translator._distinct_from,
    "NullSafeNEQ": Translator._distinct_from,
    "Anonymous": Translator._function,
    "Case": Translator._choice,
    "If": Translator._choice,
    "Coalesce": Translator._coalesce,
}
_LEAVES = {"Column", "Literal"}
FORMS = tuple(name for name in (*_BINARY, *_READERS) if name != "Extract")


# ---- Aggregates that SQL writes in ways of its own: quantiles, sums of each unit's total, and the hint that bounds
# contributions


def read_quantile(place: Place, values: Translator, item: Any) -> AggregateExpr:
    """Return the quantiles of QUANTILE_CONT(x, q), QUANTILE_CONT(x, [q, r]) and PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
    kinds = trees()
    if isinstance(item, kinds.WithinGroup):
        level = item.this.this
        order = item.expression.expressions
        if type(item.this).__name__ not in ("PercentileCont", "PercentileDisc") or len(order) != 1:
            raise QuestionRefused(f"{place.of(item)}WITHIN GROUP takes PERCENTILE_CONT(0.5) and one column")
        if order[0].args.get("desc"):
            raise QuestionRefused(f"{place.word('DESC')}DESC is not supported here: ask for 1 - the quantile")
        of = order[0].this
    else:
        of = item.this
        level = item.args.get("quantile") or item.expression
    if level is None:
        raise QuestionRefused(f"{place.of(item)}a quantile needs its level: QUANTILE_CONT(age, 0.9)")
    value = values.value(of)
    if isinstance(level, kinds.Array):
        return quantiles(value, [values.number(e) for e in level.expressions])
    return quantile(value, values.number(level))


_ONE = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*(\d{1,10})\s*\)\s*,?")
_HINTS = tuple(name for name, _ in ContributionBounds().items())


def read_bounds(place: Place, tree: Any) -> ContributionBounds | None:
    """Return the bounds that the hint of a parsed question states, None where it has none.

    Raises QuestionRefused for any other hint, and for one that is not in the outer SELECT.
    """
    stated: dict[str, int] = {}
    for select in tree.find_all(trees().Select):
        hint = select.args.get("hint")
        texts = [c[1:] for c in select.comments or () if c.startswith("+")]
        texts += [] if hint is None else [", ".join(e.sql() for e in hint.expressions)]
        if texts and select is not tree:
            raise QuestionRefused(
                f"{place.of(select)}a hint bounds the whole question: write it after the outer SELECT"
            )
        for text in texts:
            stated |= _read(text)
    return ContributionBounds(**stated) if stated else None


def is_unit_total(item: Any) -> bool:
    """Say whether an aggregate is SUM(CLIP_UNIT(...))."""
    inner = item.this
    return isinstance(item, trees().Sum) and isinstance(inner, trees().Anonymous) and inner.name.upper() == "CLIP_UNIT"


def read_unit_total(place: Place, values: Translator, item: Any) -> AggregateExpr:
    """Return the sum that CLIP_UNIT(x, lower, upper) stands in: of each unit's total, clipped."""
    if len(item.expressions) != 3:
        raise QuestionRefused(f"{place.of(item)}CLIP_UNIT takes a number and two bounds: CLIP_UNIT(cost, 0, 500)")
    of, lower, upper = item.expressions
    return build.sum(values.value(of), per_unit=(values.number(lower), values.number(upper)))


def _read(text: str) -> dict[str, int]:
    bounds: dict[str, int] = {}
    at = 0
    while text[at:].strip():
        one = _ONE.match(text, at)
        name = "" if one is None else one[1].lower()
        if one is None or name not in _HINTS:
            word = " ".join(text[at:].split())[:40] if one is None else one[1]
            close = "" if one is None else "; " + nearest(name, _HINTS)
            raise QuestionRefused(
                f"the hint {word!r} is not supported: hints are MAX_ROWS(5), MAX_GROUPS(3) and MAX_ROWS_PER_GROUP(1){close}"
            )
        bounds[name] = int(one[2])
        at = one.end()
    return bounds
