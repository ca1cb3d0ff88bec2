"""Words that a dialect means otherwise than DuckDB: written as what they mean here, or refused. It knows no data.

The parser keeps what a word says, not what it means: BigQuery, MySQL, Spark and T-SQL count the days of a week from 1, Spark's
CAST to a whole number rounds towards 0, Snowflake's REGEXP_LIKE matches all of a text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    from sqlglot import exp

_FROM_ONE = frozenset({"bigquery", "mysql", "spark", "tsql"})  # Sunday is day 1 of a week
_FROM_MONDAY = frozenset({"mysql", "spark"})  # their WEEKDAY is 0 on Monday
_ELAPSED = frozenset({"mysql", "spark", "trino"})  # a difference counts the months that have passed whole
_CUT = frozenset({"spark", "sqlite", "tsql"})  # CAST to a whole number rounds towards 0
_SHORT = frozenset({"snowflake", "spark"})  # DAYNAME is 'Sun'
_DAYS = frozenset({"DOW", "DAYOFWEEK", "DAY_OF_WEEK"})
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_MONDAYS = {  # where WEEK begins on Sunday, and what the week of ISO 8601 is called there
    "bigquery": "ISOWEEK",
    "mysql": "WEEK(x, 3), or WEEKOFYEAR(x),",
    "tsql": "ISO_WEEK",
}


def apply_dialect(select: exp.Select, dialect: str) -> exp.Select:
    """Return a SELECT of another dialect with its words as they are meant here; the tree that is given is changed.

    Raises QuestionRefused for a word that means something else there and has no word here.
    """
    for node in reversed(list(select.walk())):  # what is inside first
        change = _CHANGES.get(type(node).__name__)
        made = None if change is None else change(node, dialect)
        if made is not None:
            node.replace(made)
    return select


def _trees() -> Any:
    from sqlglot import exp as kinds

    return kinds


def _moved(node: Any, by: int) -> Any:
    kinds = _trees()
    sides = {"this": node.copy(), "expression": kinds.Literal.number(1)}
    return kinds.Paren(this=kinds.Add(**sides) if by > 0 else kinds.Sub(**sides))


def _day_of_week(node: Any, dialect: str) -> Any:
    return _moved(node, 1) if dialect in _FROM_ONE else None


def _extract(node: Any, dialect: str) -> Any:
    """EXTRACT(DOW) and EXTRACT(WEEK) go by the dialect's own calendar."""
    kinds, word = _trees(), node.this.name.upper()
    if word in _DAYS and dialect == "trino":
        return kinds.DayOfWeekIso(this=node.expression.copy())
    if word in _DAYS:
        return _day_of_week(node, dialect)
    if word == "WEEKISO":
        return kinds.Extract(this=kinds.Var(this="WEEK"), expression=node.expression.copy())
    if word == "WEEK":
        _refuse_sundays(dialect)
    return None


def _week(node: Any, dialect: str) -> None:
    mode = node.args.get("mode")
    if mode is None or mode.name != "3":
        _refuse_sundays(dialect)
    node.set("mode", None)


def _refuse_sundays(dialect: str) -> None:
    if dialect in _MONDAYS:
        raise QuestionRefused(
            f"WEEK begins on Sunday in {dialect}, and here on Monday: write {_MONDAYS[dialect]} for the week of ISO 8601"
        )


def _named(node: Any, dialect: str) -> Any:
    """WEEKDAY and YEARWEEK are functions that the parser does not know."""
    kinds, name, given = _trees(), str(node.this).upper(), node.expressions
    if name == "WEEKDAY" and dialect in _FROM_MONDAY and len(given) == 1:
        return _moved(kinds.DayOfWeekIso(this=given[0].copy()), -1)
    if name == "YEARWEEK" and dialect == "mysql":
        if len(given) != 2 or given[1].name not in ("1", "3"):
            raise QuestionRefused("YEARWEEK(x) begins weeks on Sunday in mysql: write YEARWEEK(x, 3), that of ISO 8601")
        node.set("expressions", given[:1])
    if name in ("DATE_PART", "DATEPART") and len(given) == 2 and given[0].name.upper() in _DAYS:
        return _extract(kinds.Extract(this=kinds.Var(this=given[0].name), expression=given[1].copy()), dialect)
    return None


def _difference(node: Any, dialect: str) -> None:
    """A difference in parts: those that begin in between, as here, or those that have passed whole."""
    _unit_of_weeks(node, dialect)
    unit = "DAY" if node.args.get("unit") is None else node.args["unit"].name.upper()
    moments = type(node).__name__ == "TimestampDiff"
    elapsed = dialect in _ELAPSED or (dialect == "bigquery" and moments)
    if elapsed and unit not in ("SECOND", *([] if moments else ["DAY"])):
        raise QuestionRefused(
            f"a difference in {unit.lower()}s counts in {dialect} those that have passed whole, and here those that begin in "
            "between: count days, by DATEDIFF or DATE_DIFF, or ask in DuckDB's SQL, DATEDIFF('month', a, b)"
        )
    # these dialects count the Mondays in between, DuckDB sevens of days
    if unit in ("WEEK", "WEEKS"):
        node.set("unit", _trees().Var(this="ISOWEEK"))


def _unit_of_weeks(node: Any, dialect: str) -> None:
    """WEEK(MONDAY) is the week here; BigQuery's other weeks, and T-SQL's, begin on another day."""
    unit = node.args.get("unit")
    name = "" if unit is None else unit.name.upper()
    if type(unit).__name__ == "WeekStart" and name == "MONDAY":
        node.set("unit", _trees().Var(this="WEEK"))
    elif type(unit).__name__ == "WeekStart" or (name == "WEEK" and dialect == "tsql"):
        _refuse_sundays(dialect)


def _name_of_day(node: Any, dialect: str) -> Any:
    kinds = _trees()
    sign = "%a" if isinstance(node, kinds.Dayname) else "%b"
    return kinds.TimeToStr(this=node.this.copy(), format=kinds.Literal.string(sign)) if dialect in _SHORT else None


def _round(node: Any, _: str) -> Any:
    """T-SQL's ROUND(x, n, 1) cuts digits off."""
    kinds, cut, places = _trees(), node.args.get("truncate"), node.args.get("decimals")
    if cut is None or cut.name == "0":
        return None
    if places is not None and places.name != "0":
        raise QuestionRefused(
            "ROUND(x, n, 1) cuts digits off, which is supported only to whole numbers: ROUND(x, 0, 1)"
        )
    return kinds.Trunc(this=node.this.copy())


def _regular_expression(node: Any, _: str) -> Any:
    """Snowflake's REGEXP_LIKE, RLIKE and REGEXP match all of a text."""
    kinds, pattern = _trees(), node.expression
    if node.args.get("full_match") and isinstance(pattern, kinds.Literal):
        node.set("expression", kinds.Literal.string(f"^(?:{pattern.this})$"))
        node.set("full_match", None)
    return None


def _length(node: Any, dialect: str) -> Any:
    """LENGTH counts bytes in MySQL; LEN in T-SQL no blanks at the end."""
    kinds = _trees()
    if dialect == "mysql" and node.args.get("binary"):
        raise QuestionRefused("LENGTH counts bytes in mysql: write CHAR_LENGTH(x) for the number of characters")
    return kinds.Length(this=kinds.Trim(this=node.this.copy(), position="TRAILING")) if dialect == "tsql" else None


def _like(node: Any, dialect: str) -> Any:
    """LIKE sees no difference of case in SQLite; [...] stands for some characters in T-SQL."""
    if dialect == "tsql" and "[" in node.expression.name:
        raise QuestionRefused("a LIKE with [...] is not supported: % stands for any text and _ for one character")
    return _trees().ILike(this=node.this.copy(), expression=node.expression.copy()) if dialect == "sqlite" else None


def _cast(node: Any, dialect: str) -> None:
    kind = node.args["to"].this
    if dialect in _CUT and str(getattr(kind, "value", kind)).upper() in _WHOLE:
        node.meta["cut"] = True


def _equal(node: Any, _: str) -> Any:
    """EQUAL_NULL(a, b) is a IS NOT DISTINCT FROM b."""
    return _trees().NullSafeEQ(this=node.this.copy(), expression=node.expression.copy())


def _months(node: Any, dialect: str) -> Any:
    """ADD_MONTHS adds months as an interval does in Spark; elsewhere the last day of a month stays the last."""
    kinds = _trees()
    sides = {"this": node.this.copy(), "expression": node.expression.copy(), "unit": kinds.Var(this="MONTH")}
    return kinds.DateAdd(**sides) if dialect == "spark" else None


def _convert(node: Any, dialect: str) -> Any:
    made = _trees().Cast(this=node.expression.copy(), to=node.this.copy()) if node.args.get("style") is None else None
    if made is not None:
        _cast(made, dialect)
    return made


_CHANGES: dict[str, Callable[[Any, str], Any]] = {
    "AddMonths": _months,
    "Anonymous": _named,
    "Cast": _cast,
    "Convert": _convert,
    "DateDiff": _difference,
    "DateTrunc": _unit_of_weeks,
    "DayOfWeek": _day_of_week,
    "Dayname": _name_of_day,
    "EqualNull": _equal,
    "Extract": _extract,
    "Length": _length,
    "Like": _like,
    "Monthname": _name_of_day,
    "RegexpLike": _regular_expression,
    "Round": _round,
    "TimestampDiff": _difference,
    "TimestampTrunc": _unit_of_weeks,
    "TryCast": _cast,
    "TsOrDsDiff": _difference,
    "Week": _week,
}
