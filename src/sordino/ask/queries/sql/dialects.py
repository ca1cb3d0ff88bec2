"""SQL of other dialects brought to one form: what words mean there, spellings of one thing, and normal trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.sql_trees import and_parts, from_of, move_to_on, trees, with_of
from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    from sqlglot import exp


# ---- Words that a dialect means otherwise than DuckDB: written as what they mean here, or refused. It knows no data
#
# The parser keeps what a word says, not what it means: BigQuery, MySQL, Spark and T-SQL count the days of a week from 1, Spark's
# CAST to a whole number rounds towards 0, Snowflake's REGEXP_LIKE matches all of a text.

# in these, Sunday is day 1 of a week
_FROM_ONE = frozenset({"bigquery", "mysql", "spark", "tsql"})
# their WEEKDAY is 0 on Monday
_FROM_MONDAY = frozenset({"mysql", "spark"})
# a difference counts the months that have passed whole
_ELAPSED = frozenset({"mysql", "spark", "trino"})
# CAST to a whole number rounds towards 0
_CUT = frozenset({"spark", "sqlite", "tsql"})
# DAYNAME is 'Sun'
_SHORT = frozenset({"snowflake", "spark"})
_DAYS = frozenset({"DOW", "DAYOFWEEK", "DAY_OF_WEEK"})
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
# where WEEK begins on Sunday, and what the week of ISO 8601 is called there
_MONDAYS = {
    "bigquery": "ISOWEEK",
    "mysql": "WEEK(x, 3), or WEEKOFYEAR(x),",
    "tsql": "ISO_WEEK",
}


def apply_dialect(select: exp.Select, dialect: str) -> exp.Select:
    """Return a SELECT of another dialect with its words as they are meant here; the tree that is given is changed.

    Raises QuestionRefused for a word that means something else there and has no word here.
    """
    # from the inside out
    for node in reversed(list(select.walk())):
        change = MEANINGS.get(type(node).__name__)
        replacement = None if change is None else change(node, dialect)
        if replacement is not None:
            node.replace(replacement)
    return select


def _shift_by(node: Any, by: int) -> Any:
    kinds = trees()
    sides = {"this": node.copy(), "expression": kinds.Literal.number(1)}
    return kinds.Paren(this=kinds.Add(**sides) if by > 0 else kinds.Sub(**sides))


def _day_of_week(node: Any, dialect: str) -> Any:
    return _shift_by(node, 1) if dialect in _FROM_ONE else None


def _extract(node: Any, dialect: str) -> Any:
    """EXTRACT(DOW) and EXTRACT(WEEK) go by the dialect's own calendar."""
    kinds = trees()
    word = node.this.name.upper()
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


def _unknown_function(node: Any, dialect: str) -> Any:
    """WEEKDAY and YEARWEEK are functions that the parser does not know."""
    kinds = trees()
    name = str(node.this).upper()
    arguments = node.expressions
    if name == "WEEKDAY" and dialect in _FROM_MONDAY and len(arguments) == 1:
        return _shift_by(kinds.DayOfWeekIso(this=arguments[0].copy()), -1)
    if name == "YEARWEEK" and dialect == "mysql":
        if len(arguments) != 2 or arguments[1].name not in ("1", "3"):
            raise QuestionRefused("YEARWEEK(x) begins weeks on Sunday in mysql: write YEARWEEK(x, 3), that of ISO 8601")
        node.set("expressions", arguments[:1])
    if name in ("DATE_PART", "DATEPART") and len(arguments) == 2 and arguments[0].name.upper() in _DAYS:
        return _extract(kinds.Extract(this=kinds.Var(this=arguments[0].name), expression=arguments[1].copy()), dialect)
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
        node.set("unit", trees().Var(this="ISOWEEK"))


def _unit_of_weeks(node: Any, dialect: str) -> None:
    """WEEK(MONDAY) is the week here; BigQuery's other weeks, and T-SQL's, begin on another day."""
    unit = node.args.get("unit")
    name = "" if unit is None else unit.name.upper()
    if type(unit).__name__ == "WeekStart" and name == "MONDAY":
        node.set("unit", trees().Var(this="WEEK"))
    elif type(unit).__name__ == "WeekStart" or (name == "WEEK" and dialect == "tsql"):
        _refuse_sundays(dialect)


def _name_of_day(node: Any, dialect: str) -> Any:
    kinds = trees()
    sign = "%a" if isinstance(node, kinds.Dayname) else "%b"
    return kinds.TimeToStr(this=node.this.copy(), format=kinds.Literal.string(sign)) if dialect in _SHORT else None


def _round(node: Any, _: str) -> Any:
    """T-SQL's ROUND(x, n, 1) cuts digits off."""
    kinds = trees()
    cut = node.args.get("truncate")
    places = node.args.get("decimals")
    if cut is None or cut.name == "0":
        return None
    if places is not None and places.name != "0":
        raise QuestionRefused(
            "ROUND(x, n, 1) cuts digits off, which is supported only to whole numbers: ROUND(x, 0, 1)"
        )
    return kinds.Trunc(this=node.this.copy())


def _regular_expression(node: Any, _: str) -> Any:
    """Snowflake's REGEXP_LIKE, RLIKE and REGEXP match all of a text."""
    kinds = trees()
    pattern = node.expression
    if node.args.get("full_match") and isinstance(pattern, kinds.Literal):
        node.set("expression", kinds.Literal.string(f"^(?:{pattern.this})$"))
        node.set("full_match", None)
    return None


def _length(node: Any, dialect: str) -> Any:
    """LENGTH counts bytes in MySQL; LEN in T-SQL no blanks at the end."""
    kinds = trees()
    if dialect == "mysql" and node.args.get("binary"):
        raise QuestionRefused("LENGTH counts bytes in mysql: write CHAR_LENGTH(x) for the number of characters")
    return kinds.Length(this=kinds.Trim(this=node.this.copy(), position="TRAILING")) if dialect == "tsql" else None


def _like(node: Any, dialect: str) -> Any:
    """LIKE sees no difference of case in SQLite; [...] stands for some characters in T-SQL."""
    if dialect == "tsql" and "[" in node.expression.name:
        raise QuestionRefused("a LIKE with [...] is not supported: % stands for any text and _ for one character")
    return trees().ILike(this=node.this.copy(), expression=node.expression.copy()) if dialect == "sqlite" else None


def _cast(node: Any, dialect: str) -> None:
    kind = node.args["to"].this
    if dialect in _CUT and str(getattr(kind, "value", kind)).upper() in _WHOLE:
        node.meta["cut"] = True


def _equal(node: Any, _: str) -> Any:
    """EQUAL_NULL(a, b) is a IS NOT DISTINCT FROM b."""
    return trees().NullSafeEQ(this=node.this.copy(), expression=node.expression.copy())


def _months(node: Any, dialect: str) -> Any:
    """ADD_MONTHS adds months as an interval does in Spark; elsewhere the last day of a month stays the last."""
    kinds = trees()
    sides = {"this": node.this.copy(), "expression": node.expression.copy(), "unit": kinds.Var(this="MONTH")}
    return kinds.DateAdd(**sides) if dialect == "spark" else None


def _convert(node: Any, dialect: str) -> Any:
    cast = trees().Cast(this=node.expression.copy(), to=node.this.copy()) if node.args.get("style") is None else None
    if cast is not None:
        _cast(cast, dialect)
    return cast


_SIMILAR = {"%": ".*", "_": "."}


def _similar(node: Any, _: str) -> None:
    """SIMILAR TO has % and _ for any text, as LIKE, and else a regular expression; in DuckDB it is one alone."""
    pattern = node.expression
    if isinstance(pattern, trees().Literal):
        node.set("expression", trees().Literal.string("".join(_SIMILAR.get(c, c) for c in pattern.this)))


MEANINGS: dict[str, Callable[[Any, str], Any]] = {
    "AddMonths": _months,
    "Anonymous": _unknown_function,
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
    "SimilarTo": _similar,
    "TimestampDiff": _difference,
    "TimestampTrunc": _unit_of_weeks,
    "TryCast": _cast,
    "TsOrDsDiff": _difference,
    "Week": _week,
}


# ---- Functions that dialects name and write differently, brought to the ones that the translation reads. Meaning
# stays the same
#
# FILTER (WHERE c) is CASE WHEN c, COUNT_IF counts such a CASE, an approximate quantile is a quantile (ours is noisy anyway),
# REGR_SLOPE is a covariance divided by a variance.

# the names of functions elsewhere, and the class of sqlglot that each is here
NAMES = {
    "COUNTIF": "CountIf",
    "COUNT_IF": "CountIf",
    "STDEV": "Stddev",
    "STD": "Stddev",
    "STDEVP": "StddevPop",
    "STDDEVP": "StddevPop",
    "VAR": "Variance",
    "VARP": "VariancePop",
    "VARIANCEP": "VariancePop",
    "MEAN": "Avg",
    "AVERAGE": "Avg",
    "EVERY": "LogicalAnd",
}


# the names in NAMES as they are written
WORDS = {
    "Avg": "AVG",
    "CountIf": "COUNT_IF",
    "Stddev": "STDDEV",
    "StddevPop": "STDDEV_POP",
    "Variance": "VARIANCE",
    "VariancePop": "VAR_POP",
}


def rewrite_functions(select: Any) -> exp.Select:
    """Return a SELECT whose functions are those that the translation reads; the tree that is given is changed."""
    from sqlglot import exp as kinds

    # from the inside out
    for node in reversed(list(select.walk())):
        now = node
        if isinstance(node, kinds.Anonymous) and str(node.this).upper() in NAMES:
            now = getattr(kinds, NAMES[str(node.this).upper()])(this=node.expressions[0] if node.expressions else None)
            now.meta.update(node.meta)
            node.replace(now)
        change = CHANGES.get(type(now).__name__)
        replacement = now if change is None else change(now)
        if replacement is not now:
            now.replace(replacement)
    changed: exp.Select = select
    return changed


def _count_if(node: Any) -> Any:
    """COUNT_IF(c) is COUNT(CASE WHEN c THEN 1 END)."""
    return _count(node.this)


def _count(condition: Any) -> Any:
    from sqlglot import exp as kinds

    return kinds.Count(this=_case(condition, kinds.Literal.number(1)))


def _filter(node: Any) -> Any:
    """AGG(x) FILTER (WHERE c) is AGG(CASE WHEN c THEN x END): rows that do not meet c have nothing to add."""
    from sqlglot import exp as kinds

    of = node.this
    condition = node.expression.this
    # a function that no dialect knows: refused by its name later on
    if not isinstance(of.this, kinds.Expression):
        return of
    if isinstance(of, kinds.Count) and isinstance(of.this, kinds.Star):
        return _count(condition)
    if isinstance(of, kinds.WithinGroup):
        order = of.expression.expressions[0]
        order.set("this", _case(condition, order.this))
        return of
    distinct = of.this if isinstance(of.this, kinds.Distinct) else None
    if distinct is not None and any(isinstance(e, kinds.Tuple) for e in distinct.expressions):
        # a row that does not meet the condition would be a combination of missing values, which is counted
        raise QuestionRefused(
            "FILTER is not supported with COUNT(DISTINCT (a, b)): write the condition in WHERE, or COUNT(DISTINCT a, b), "
            "which leaves out rows with a missing value"
        )
    if distinct is not None:
        distinct.set("expressions", [_case(condition.copy(), e) for e in distinct.expressions])
    else:
        of.set("this", _case(condition, of.this))
    if type(of).__name__ in _OF_DISTINCT:
        of.pop()
        return _OF_DISTINCT[type(of).__name__](of)
    return of


def _case(condition: Any, value: Any) -> Any:
    from sqlglot import exp as kinds

    return kinds.Case(ifs=[kinds.If(this=condition.copy(), true=value.copy())])


def _mean_of_distinct(node: Any) -> Any:
    """AVG(DISTINCT x) is SUM(DISTINCT x) / COUNT(DISTINCT x)."""
    from sqlglot import exp as kinds

    # a FILTER around it puts its condition into x first
    if not isinstance(node.this, kinds.Distinct) or isinstance(node.parent, kinds.Filter):
        return node
    total = kinds.Sum(this=node.this.copy())
    return kinds.Paren(this=kinds.Div(this=total, expression=kinds.Count(this=node.this.copy())))


def _spread_of_distinct(node: Any) -> Any:
    """VAR_POP(DISTINCT x) is (SUM of squares - SUM * SUM / n) / n of the distances of different values from the lower bound.

    Distances have as many squares as there are values, which values themselves, of both signs, have not.
    """
    from sqlglot import exp as kinds

    if not isinstance(node.this, kinds.Distinct) or isinstance(node.parent, kinds.Filter):
        return node

    def total(of: str) -> Any:
        listed = [*(part.copy() for part in node.this.expressions), kinds.Literal.string(of)]
        return kinds.Sum(this=kinds.Distinct(expressions=listed))

    count = kinds.Count(this=node.this.copy())
    mean = kinds.Div(this=kinds.Mul(this=total("distances"), expression=total("distances")), expression=count)
    apart = kinds.Paren(this=kinds.Sub(this=total("squares"), expression=mean))
    one = kinds.Literal.number(1)
    is_sample = isinstance(node, (kinds.Variance, kinds.Stddev, kinds.StddevSamp))
    divisor = kinds.Paren(this=kinds.Sub(this=count.copy(), expression=one)) if is_sample else count.copy()
    variance = kinds.Paren(this=kinds.Div(this=apart, expression=divisor))
    return variance if isinstance(node, (kinds.Variance, kinds.VariancePop)) else kinds.Sqrt(this=variance)


_OF_DISTINCT: dict[str, Callable[[Any], Any]] = {
    "Avg": _mean_of_distinct,
    **dict.fromkeys(("Stddev", "StddevPop", "StddevSamp", "Variance", "VariancePop"), _spread_of_distinct),
}


def _count_all(node: Any) -> Any:
    """COUNT(ALL x) is COUNT(x)."""
    from sqlglot import exp as kinds

    return node.this if isinstance(node.parent, kinds.Count) else node


def _distinct_count(node: Any) -> Any:
    """APPROX_COUNT_DISTINCT(x) is COUNT(DISTINCT x)."""
    from sqlglot import exp as kinds

    return kinds.Count(this=kinds.Distinct(expressions=[node.this]))


def _quantile(node: Any) -> Any:
    """APPROX_QUANTILE(x, q) and APPROX_PERCENTILE(x, q) are QUANTILE(x, q)."""
    from sqlglot import exp as kinds

    return kinds.Quantile(this=node.this, quantile=node.args.get("quantile") or node.expression)


def _quantiles(node: Any) -> Any:
    """APPROX_QUANTILES(x, 4) lists the least value, the quartiles and the largest: all but the two ends are quantiles."""
    from sqlglot import exp as kinds

    count = _whole(node.expression)
    if isinstance(node.parent, kinds.Bracket) or count is None:
        return node
    inner = ", ".join(f"APPROX_QUANTILES({node.this.sql()}, {count})[OFFSET({i})]" for i in range(1, min(count, 4)))
    raise QuestionRefused(
        "APPROX_QUANTILES lists the least and the largest value too, and one row decides those: "
        f"ask for {inner or 'QUANTILE_CONT(x, 0.5)'}{', ...' if count > 4 else ''}"
    )


def _one_of_quantiles(node: Any) -> Any:
    """APPROX_QUANTILES(x, 100)[OFFSET(50)] is QUANTILE(x, 0.5)."""
    from sqlglot import exp as kinds

    if not isinstance(node.this, kinds.ApproxQuantiles) or len(node.expressions) != 1:
        return node
    count = _whole(node.this.expression)
    place = _whole(node.expressions[0])
    if count is None or place is None:
        return node
    level = (place - int(node.args.get("offset") or 0)) / count
    return kinds.Quantile(this=node.this.this, quantile=kinds.Literal.number(repr(level)))


def _whole(node: Any) -> int | None:
    return int(node.this) if node is not None and node.key == "literal" and str(node.this).isdigit() else None


def _slope(node: Any) -> Any:
    """REGR_SLOPE(y, x) is COVAR_POP(y, x) / VAR_POP(x), over the rows that have both."""
    from sqlglot import exp as kinds

    both = kinds.VariancePop(this=_where_present(node.expression, node.this))
    return kinds.Paren(
        this=kinds.Div(this=kinds.CovarPop(this=node.this.copy(), expression=node.expression.copy()), expression=both)
    )


def _intercept(node: Any) -> Any:
    """REGR_INTERCEPT(y, x) is AVG(y) - REGR_SLOPE(y, x) * AVG(x)."""
    from sqlglot import exp as kinds

    moved = kinds.Mul(this=_slope(node), expression=kinds.Avg(this=_where_present(node.expression, node.this)))
    return kinds.Paren(
        this=kinds.Sub(this=kinds.Avg(this=_where_present(node.this, node.expression)), expression=moved)
    )


def _determination(node: Any) -> Any:
    """REGR_R2(y, x) is CORR(y, x) squared."""
    from sqlglot import exp as kinds

    one = kinds.Corr(this=node.this, expression=node.expression)
    return kinds.Paren(this=kinds.Mul(this=one, expression=one.copy()))


def _average_x(node: Any) -> Any:
    """REGR_AVGX(y, x) is AVG(x) over the rows that have both."""
    from sqlglot import exp as kinds

    return kinds.Avg(this=_where_present(node.expression, node.this))


def _average_y(node: Any) -> Any:
    """REGR_AVGY(y, x) is AVG(y) over the rows that have both."""
    from sqlglot import exp as kinds

    return kinds.Avg(this=_where_present(node.this, node.expression))


def _squares_x(node: Any) -> Any:
    """REGR_SXX(y, x) is VAR_POP(x) times REGR_COUNT(y, x)."""
    from sqlglot import exp as kinds

    return _times_both(kinds.VariancePop(this=_where_present(node.expression, node.this)), node)


def _squares_y(node: Any) -> Any:
    """REGR_SYY(y, x) is VAR_POP(y) times REGR_COUNT(y, x)."""
    from sqlglot import exp as kinds

    return _times_both(kinds.VariancePop(this=_where_present(node.this, node.expression)), node)


def _products(node: Any) -> Any:
    """REGR_SXY(y, x) is COVAR_POP(y, x) times REGR_COUNT(y, x)."""
    from sqlglot import exp as kinds

    return _times_both(kinds.CovarPop(this=node.this.copy(), expression=node.expression.copy()), node)


def _times_both(value: Any, node: Any) -> Any:
    from sqlglot import exp as kinds

    return kinds.Paren(this=kinds.Mul(this=value, expression=_both_counted(node)))


def _where_present(value: Any, other: Any) -> Any:
    """Return a value in the rows that have the other too."""
    from sqlglot import exp as kinds

    return _case(kinds.Not(this=kinds.Is(this=other.copy(), expression=kinds.Null())), value)


def _present_or_missing(node: Any) -> Any:
    """NVL2(x, a, b) is CASE WHEN x IS NOT NULL THEN a ELSE b END."""
    from sqlglot import exp as kinds

    present = kinds.Not(this=kinds.Is(this=node.this, expression=kinds.Null()))
    case = _case(present, node.args["true"])
    case.set("default", node.args.get("false"))
    return case


def _decode(node: Any) -> Any:
    """DECODE(x, a, r, b, s, d) is CASE WHEN x = a THEN r WHEN x = b THEN s ELSE d END; NULL as a is what is missing."""
    from sqlglot import exp as kinds

    of, *pairs = node.expressions
    default = pairs.pop() if len(pairs) % 2 else None
    case = kinds.Case(default=default)
    for value, result in zip(pairs[::2], pairs[1::2], strict=True):
        # DECODE takes two missing values for equal; a constant is never missing
        equal: Any = kinds.EQ if isinstance(value, kinds.Literal) else kinds.NullSafeEQ
        meets = kinds.Is if isinstance(value, kinds.Null) else equal
        case.append("ifs", kinds.If(this=meets(this=of.copy(), expression=value), true=result))
    return case


def _whatever_case(node: Any) -> Any:
    """x ~* 'a' is x ~ '(?i)a', a regular expression whatever the case."""
    from sqlglot import exp as kinds

    if not _is_literal(node.expression):
        return node
    return kinds.RegexpLike(this=node.this, expression=kinds.Literal.string(f"(?i){node.expression.this}"))


def _bucket(node: Any) -> Any:
    """WIDTH_BUCKET(x, l, u, n) counts n equal bins from l to u from 1; 0 is below l, n + 1 from u on."""
    from sqlglot import exp as kinds

    low, high, count = (node.args[name] for name in ("min_value", "max_value", "num_buckets"))
    place = kinds.Floor(
        this=kinds.Div(
            this=kinds.Mul(this=kinds.Paren(this=kinds.Sub(this=node.this, expression=low)), expression=count),
            expression=kinds.Paren(this=kinds.Sub(this=high.copy(), expression=low.copy())),
        )
    )
    last = kinds.Paren(this=kinds.Add(this=count.copy(), expression=kinds.Literal.number(1)))
    counted = kinds.Greatest(
        this=kinds.Add(this=place, expression=kinds.Literal.number(1)), expressions=[kinds.Literal.number(0)]
    )
    return kinds.Least(this=counted, expressions=[last])


def _mode(node: Any) -> Any:
    """MODE() WITHIN GROUP (ORDER BY x) is MODE(x)."""
    from sqlglot import exp as kinds

    if not isinstance(node.this, kinds.Mode) or len(node.expression.expressions) != 1:
        return node
    return kinds.Mode(this=node.expression.expressions[0].this)


def _whole_window(node: Any) -> Any:
    """PERCENTILE_CONT(x, q) OVER () of all rows is the aggregate itself."""
    from sqlglot import exp as kinds

    quantile = isinstance(node.this, (kinds.PercentileCont, kinds.PercentileDisc, kinds.WithinGroup))
    parts = [name for name, value in node.args.items() if value and name not in ("this", "over")]
    return node.this if quantile and not parts else node


def _sum_constant(node: Any) -> Any:
    """SUM(1) is COUNT(*), and SUM(CAST(1 AS BIGINT)), as Tableau writes it."""
    from sqlglot import exp as kinds

    of = node.this
    if isinstance(of, kinds.Cast) and of.to.this in (kinds.DType.INT, kinds.DType.BIGINT):
        of = of.this
    return kinds.Count(this=kinds.Star()) if isinstance(of, kinds.Literal) and of.this == "1" else node


def _convert_spellings(node: Any) -> Any:
    """CONVERT(type, x) is CAST(x AS type)."""
    from sqlglot import exp as kinds

    return kinds.Cast(this=node.expression, to=node.this) if node.args.get("style") is None else node


def _both_counted(node: Any) -> Any:
    """REGR_COUNT(y, x) counts the rows that have both."""
    from sqlglot import exp as kinds

    return kinds.Count(this=_where_present(node.this, node.expression))


def _any_of(node: Any) -> Any:
    """x = ANY(ARRAY[a, b]) is x IN (a, b); SOME is ANY."""
    from sqlglot import exp as kinds

    listed = _items(node.expression, "SOME")
    if listed == []:
        return kinds.false()
    return node if listed is None else kinds.In(this=node.this, expressions=listed)


def _none_of(node: Any) -> Any:
    """x <> ALL(ARRAY[a, b]) is x NOT IN (a, b)."""
    from sqlglot import exp as kinds

    listed = None if isinstance(node.expression, kinds.Any) else _items(node.expression, "ALL")
    if listed == []:
        return kinds.true()
    return node if listed is None else kinds.Not(this=kinds.In(this=node.this, expressions=listed))


def _like_listed(node: Any) -> Any:
    """x LIKE ANY ('a%', 'b%') is x LIKE 'a%' OR x LIKE 'b%', and x LIKE ALL (...) is AND; ILIKE too."""
    from sqlglot import exp as kinds

    quantifier = node.expression
    if not isinstance(quantifier, (kinds.Any, kinds.All)):
        return node
    if isinstance(node.parent, kinds.Escape):
        raise QuestionRefused("ESCAPE is not supported with a list of patterns: join LIKEs by OR, or by AND")
    # in some dialects it means that a pattern does not fit, in others that none does
    if isinstance(node.parent, kinds.Not) or (node.args.get("negate") and isinstance(quantifier, kinds.Any)):
        raise QuestionRefused(
            "NOT LIKE with a list of patterns is not supported, as dialects differ: where none may fit, write "
            "NOT (x LIKE ANY (...))"
        )
    patterns = _listed_patterns(quantifier)
    if patterns is None:
        return node
    each = [type(node)(this=node.this.copy(), expression=p, negate=node.args.get("negate")) for p in patterns]
    return kinds.paren(kinds.or_(*each) if isinstance(quantifier, kinds.Any) else kinds.and_(*each))


def _listed_patterns(quantifier: Any) -> list[Any] | None:
    """Return the texts that ANY or ALL lists, in brackets or as an array; None where it lists anything else, or nothing."""
    from sqlglot import exp as kinds

    inside = quantifier.this
    listed = inside.expressions if isinstance(inside, kinds.Tuple) else [inside.unnest()]
    if len(listed) == 1 and not _is_literal(listed[0]):
        listed = _items(kinds.Any(this=inside.copy()), "ANY") or []
    elif isinstance(inside, kinds.Paren) and _is_literal(listed[0]) and _read_array(listed[0].this) is not None:
        # '{a%}' is an array in PostgreSQL, and one pattern elsewhere
        return None
    return listed if listed and all(_is_literal(pattern) for pattern in listed) else None


def _whether_missing(node: Any) -> Any:
    """ISNULL(x) is x IS NULL, and ISNOTNULL(x) is x IS NOT NULL."""
    from sqlglot import exp as kinds

    name = str(node.this).upper()
    if name not in ("ISNULL", "ISNOTNULL") or len(node.expressions) != 1:
        return node
    missing = kinds.paren(kinds.Is(this=node.expressions[0], expression=kinds.Null()))
    return missing if name == "ISNULL" else kinds.paren(kinds.Not(this=missing))


def _items(node: Any, word: str) -> list[Any] | None:
    """Return what the array of ANY, or of the quantifier of that name, lists; None where there is no such array.

    A cast of constants to an array of their own type changes none of them, and is left out; so is that of an array as
    PostgreSQL writes one, '{1,2}'::int[]. An empty array with a cast lists nothing.
    """
    from sqlglot import exp as kinds

    if isinstance(node, kinds.Any):
        listed = node.this.unnest()
    elif isinstance(node, kinds.Anonymous) and str(node.this).upper() == word and len(node.expressions) == 1:
        listed = node.expressions[0].unnest()
    else:
        return None
    if _is_literal(listed):
        listed = _read_array(listed.this)
        if listed is not None and not listed.expressions:
            return []
    if isinstance(listed, kinds.Cast) and listed.to.this == kinds.DType.ARRAY and listed.to.expressions:
        listed = _cast_array(listed.this, listed.to.expressions[0])
        if isinstance(listed, kinds.Array) and not listed.expressions:
            return []
    if not isinstance(listed, kinds.Array) or not listed.expressions:
        return None
    casts = [isinstance(e, kinds.Cast) and _is_text(e.to) and _is_literal(e.this) for e in listed.expressions]
    return [e.this if cast else e for e, cast in zip(listed.expressions, casts, strict=True)]


def _read_array(text: str) -> Any:
    """Return the array that a text is, as PostgreSQL writes one, '{1,2}' or '{a,"b c"}'; None where it is none.

    PostgreSQL gives its items the type of what they are compared with. Here what is written as a number is one, which a declared
    value of the same text equals too: 01 or 1.50 is text alone, and so is what stands in quotes.
    """
    from sqlglot import exp as kinds

    item = r'\s*(?:"[^"\\]*"|[^{}",\\\s](?:[^{}",\\]*[^{}",\\\s])?)\s*'
    if re.fullmatch(rf"\{{\s*\}}|\{{{item}(?:,{item})*\}}", text) is None:
        return None
    items = []
    for stated in re.findall(item, text[1:-1]):
        plain = stated.strip()
        if plain.upper() == "NULL":
            return None
        if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})([.][0-9]{0,17}[1-9])?", plain) and plain != "-0":
            number = kinds.Literal.number(plain.removeprefix("-"))
            items.append(kinds.Neg(this=number) if plain.startswith("-") else number)
        else:
            items.append(kinds.Literal.string(plain.strip('"')))
    return kinds.Array(expressions=items)


def _cast_array(array: Any, of: Any) -> Any:
    """Return an array cast to an array of a type, or a text that PostgreSQL reads as one; None where it may change."""
    from sqlglot import exp as kinds

    if isinstance(array, kinds.Array) and not array.expressions:
        return array
    numbers = {*kinds.DataType.INTEGER_TYPES, *kinds.DataType.REAL_TYPES}
    is_number = of.this in numbers
    if not is_number and not _is_text(of):
        return None
    if _is_literal(array) and re.fullmatch(r"\{[^{}\"\\\\]*\}", array.this):
        texts = [text.strip() for text in array.this[1:-1].split(",")] if array.this[1:-1].strip() else []
        if any(not text or text.upper() == "NULL" for text in texts):
            return None
        items = [kinds.Literal.number(text) if is_number else kinds.Literal.string(text) for text in texts]
        array = kinds.Array(expressions=items)
    if not isinstance(array, kinds.Array):
        return None
    pattern = r"-?[0-9]{1,18}" if of.this in kinds.DataType.INTEGER_TYPES else r"-?[0-9]{1,18}([.][0-9]{1,18})?"
    plain = all(re.fullmatch(pattern, each.sql()) if is_number else _is_literal(each) for each in array.expressions)
    return array if plain else None


def _is_text(kind: Any) -> bool:
    """Return whether a type is text of any length."""
    from sqlglot import exp as kinds

    return kind is not None and kind.this in (kinds.DType.TEXT, kinds.DType.VARCHAR) and not kind.expressions


def _is_literal(node: Any) -> bool:
    return bool(node.key == "literal" and node.is_string)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "All": _count_all,
    "Anonymous": _whether_missing,
    **_OF_DISTINCT,
    "ApproxDistinct": _distinct_count,
    "ApproxQuantile": _quantile,
    "ApproxQuantiles": _quantiles,
    "Bracket": _one_of_quantiles,
    "Convert": _convert_spellings,
    "CountIf": _count_if,
    "DecodeCase": _decode,
    "EQ": _any_of,
    "Filter": _filter,
    "ILike": _like_listed,
    "Like": _like_listed,
    "NEQ": _none_of,
    "Nvl2": _present_or_missing,
    "RegexpILike": _whatever_case,
    "RegrIntercept": _intercept,
    "RegrR2": _determination,
    "RegrSlope": _slope,
    "RegrCount": _both_counted,
    "RegrAvgx": _average_x,
    "RegrAvgy": _average_y,
    "RegrSxx": _squares_x,
    "RegrSxy": _products,
    "RegrSyy": _squares_y,
    "Sum": _sum_constant,
    "WidthBucket": _bucket,
    "Window": _whole_window,
    "WithinGroup": _mode,
}


# ---- Other ways to write the same SELECT: a parsed tree is brought to the one shape that the translation reads
#
# Only spelling changes here, never meaning: FILTER (WHERE c) is CASE WHEN c, a comma join on equality is JOIN ... ON, a
# public table that stands first changes places with the private one, WITH name(a, b) names the columns of its query,
# GROUP BY ALL lists the keys, and a SELECT over an answer is the one SELECT that it means.
#
# A SELECT over an answer, `SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) WHERE n > 9`, only filters,
# orders and renames what is released: it becomes the one SELECT that it means.

_OUTER = {"expressions", "from_", "from", "where", "order", "limit", "offset", "with_", "with", "kind"}
_INNER = {"expressions", "from_", "from", "where", "group", "having", "joins", "with_", "with", "kind"}


def unfold_answer(select: Any) -> Any:
    """Return a SELECT over an answer as one SELECT; any other as it is."""
    inner = _answer_below(select)
    while inner is not None:
        select = _merge(select, inner)
        inner = _answer_below(select)
    return select


def _answer_below(select: Any) -> Any:
    """Return the grouped sub-query that a SELECT without aggregates reads; None where it reads rows."""
    from sqlglot import exp

    source = _source(select)
    if not _has_only(select, _OUTER) or any(e.find(exp.AggFunc, exp.Window) for e in select.expressions):
        return None
    # A PIVOT or a sample of the answer is more than its rows.
    if source is None or not _has_only(source, {"this", "alias", "db", "catalog"}):
        return None
    inner = source.this if isinstance(source, exp.Subquery) else _named_query(select, source)
    inner = unfold_answer(inner) if isinstance(inner, exp.Select) else None
    if inner is None or not _has_only(inner, _INNER):
        return None
    aggregates = any(e.find(exp.AggFunc) for e in inner.expressions)
    stars = any(isinstance(e, exp.Star) for e in inner.expressions)
    return inner if aggregates and not stars and all(e.alias_or_name for e in inner.expressions) else None


def _source(select: Any) -> Any:
    clause = from_of(select)
    return None if clause is None else clause.this


def _has_only(select: Any, names: set[str]) -> bool:
    return all(name in names for name, value in select.args.items() if value)


def _named_query(select: Any, source: Any) -> Any:
    """Return the query that WITH gives the name of the table that FROM names."""
    from sqlglot import exp

    clause = with_of(select)
    if clause is None or not isinstance(source, exp.Table) or clause.args.get("recursive"):
        return None
    queries = [
        c.this for c in clause.expressions if c.alias.lower() == source.name.lower() and not c.alias_column_names
    ]
    return queries[0] if len(queries) == 1 else None


def _merge(outer: Any, inner: Any) -> Any:
    from sqlglot import exp

    meanings = {e.alias_or_name.lower(): e.unalias() for e in inner.expressions}

    def replace(tree: Any) -> Any:
        def mean(node: Any) -> Any:
            is_output = isinstance(node, exp.Column) and node.name.lower() in meanings
            return exp.Paren(this=meanings[node.name.lower()].copy()) if is_output else node

        return tree.copy().transform(mean)

    merged = inner.copy()
    _name_groups(merged)
    names = {e.alias_or_name.lower(): e.alias_or_name for e in inner.expressions}
    items: list[Any] = []
    for item in outer.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            items += _expand_star(star, inner.expressions, replace)
            continue
        of = replace(item.unalias())
        name = item.alias or (names.get(item.name.lower(), "") if isinstance(item, exp.Column) else "")
        of = of.this if isinstance(of, exp.Paren) and isinstance(item.unalias(), exp.Column) else of
        items.append(exp.alias_(of, name, quoted=True) if name else of)
    merged.set("expressions", items)
    if outer.args.get("where") is not None:
        condition = replace(outer.args["where"].this)
        having = merged.args.get("having")
        both = condition if having is None else exp.and_(having.this, condition)
        merged.set("having", exp.Having(this=both))
    for clause in ("order", "limit", "offset"):
        if outer.args.get(clause) is not None:
            merged.set(clause, replace(outer.args[clause]) if clause == "order" else outer.args[clause].copy())
    before = with_of(outer)
    if before is not None and merged.args.get("with_") is None:
        ctes = before.copy()
        ctes.set("expressions", [c for c in ctes.expressions if not _is_read(c, _source(outer))])
        merged.set("with_", ctes if ctes.expressions else None)
    return merged


def _expand_star(star: Any, columns: list[Any], meaning: Callable[[Any], Any]) -> list[Any]:
    """Return what * stands for: the columns, without those of EXCLUDE, with REPLACE's expressions and RENAME's names."""
    from sqlglot import exp

    changes = {name.strip("_"): value or [] for name, value in star.args.items()}
    left_out = {column.name.lower() for column in changes.get("except", [])}
    replaced = {item.alias.lower(): meaning(item.this) for item in changes.get("replace", [])}
    renamed = {item.this.name.lower(): item.alias for item in changes.get("rename", [])}
    items = []
    for column in columns:
        name = column.alias_or_name
        if name.lower() not in left_out:
            value = replaced.get(name.lower(), column.unalias())
            items.append(exp.alias_(value.copy(), renamed.get(name.lower(), name), quoted=True))
    return items


def _is_read(named: Any, source: Any) -> bool:
    """Return whether a query of WITH is the one that FROM names, which stands in its own place now."""
    from sqlglot import exp

    return isinstance(source, exp.Table) and bool(named.alias.lower() == source.name.lower())


def _name_groups(select: Any) -> None:
    """Write what GROUP BY names by its place in SELECT, since the places are about to change."""
    from sqlglot import exp

    for item in list(getattr(select.args.get("group"), "expressions", [])):
        if isinstance(item, exp.Literal) and item.this.isdigit() and 1 <= int(item.this) <= len(select.expressions):
            item.replace(select.expressions[int(item.this) - 1].unalias().copy())


def normalize(select: exp.Select, *, public: Container[str] = ()) -> exp.Select:
    """Return a SELECT in the shape that is translated; `public` has the names of public tables, in lower case."""
    from sqlglot import exp as kinds

    tree: Any = select.copy()
    for inner in list(tree.find_all(kinds.Select)):
        count_united(inner)
        count_combinations(inner, least=2)
        _rename_columns(inner)
        _unwrap_table(inner)
        _join_commas(inner)
        _put_private_first(inner, public)
        join_unit_values(inner)
        _list_groups(inner)
        _drop_needless_distinct(inner)
        _order_by_all(inner)
        _limit_by_fetch(inner)
    tree = rewrite_functions(tree)
    changed: exp.Select = unfold_answer(tree) if tree.find(kinds.Subquery, kinds.With) else tree
    return changed


def join_unit_values(select: Any, units: Container[str] | None = None) -> None:
    """Join what sub-queries say of a row's own person, as people write it out: one value a person, beside its rows.

    (SELECT MIN(s.x) FROM s WHERE s.k = t.k AND c) is v.m of LEFT JOIN (SELECT k, MIN(x) AS m FROM s WHERE c GROUP BY k) v ON
    v.k = t.k. EXISTS (SELECT ... FROM s WHERE s.k = t.k AND s.x > t.y AND c) compares the largest x with y: (v.m > t.y) IS TRUE.

    Where `units` are given, only what compares a column of such a name; where k is no privacy unit, the join is refused.
    """
    from sqlglot import exp as kinds

    _compare_members(select, units)
    group = select.args.get("group")
    roots = [*select.expressions, *(part for part in (select.args.get("where"), group) if part is not None)]
    inside = (kinds.From, kinds.Join, kinds.In, kinds.Exists, kinds.Any, kinds.All)
    queries = [
        node
        for root in roots
        for node in root.walk(prune=lambda n: isinstance(n, (kinds.Exists, kinds.Subquery)))
        if isinstance(node, kinds.Exists) or (isinstance(node, kinds.Subquery) and not isinstance(node.parent, inside))
    ]
    sources = [_source(select), *(join.this for join in select.args.get("joins") or [])]
    around = {source.alias_or_name.lower() for source in sources if source is not None}
    values: dict[Any, Any] = {}
    for node in queries:
        if node not in values:
            place = len(values)
            name = f"{'exists' if isinstance(node, kinds.Exists) else 'value'}_{place}"
            while name in around:
                name += "_"
            joined = _unit_values_of(node, name, around, units)
            if joined is None:
                continue
            join, values[node.copy()] = joined
            select.append("joins", join)
        node.replace(values[node].copy())


def _compare_members(select: Any, units: Container[str] | None) -> None:
    """Put EXISTS in the place of IN, ANY and ALL over rows of the row's own person, which compare it with each of them.

    x IN (SELECT s.y FROM s WHERE s.k = t.k AND c) is EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND c AND s.y = x), and x >= ALL
    that there is no row with NOT (x >= s.y), where nothing is missing. With missing cells SQL's answer is true, false or
    unknown: unknown counts as false in a condition, and under NOT too.
    """
    from sqlglot import exp as kinds

    sources = [_source(select), *(join.this for join in select.args.get("joins") or [])]
    around = [source.alias_or_name.lower() for source in sources if source is not None]
    roots = [*select.expressions, *(p for n in ("where", "group", "having") if (p := select.args.get(n)) is not None)]
    for root in roots:
        for node in list(root.walk(prune=lambda n: isinstance(n, kinds.Query))):
            member = _member_of(node)
            query: Any = None if member is None else member[2]
            source = _source(query) if isinstance(query, kinds.Select) else None
            if member is None or source is None or len(query.expressions) != 1 or query.args.get("where") is None:
                continue
            if not _has_only(query, {"expressions", "from_", "from", "where", "distinct"}):
                continue
            inner = source.alias_or_name.lower()
            value = query.expressions[0].unalias().copy()
            links = [
                other
                for equality in query.args["where"].find_all(kinds.EQ)
                for one, other in ((equality.this, equality.expression), (equality.expression, equality.this))
                if isinstance(one, kinds.Column) and isinstance(other, kinds.Column)
                if other.table.lower() in around and other.table.lower() != inner
                if units is None or other.name.lower() in units
            ]
            if not links or value.find(kinds.AggFunc, kinds.Query, kinds.Star) is not None:
                continue
            own = member[1].copy()
            if any(not column.table for column in own.find_all(kinds.Column)) and len(around) != 1:
                continue
            for side, name in ((own, around[0]), (value, inner)):
                for column in side.find_all(kinds.Column):
                    column.set("table", column.args.get("table") or kinds.to_identifier(name))
            node.replace(_member_truth(node, member[0], member[3], own, value, query))


def _member_of(node: Any) -> tuple[Any, Any, Any, bool] | None:
    """Return how a condition compares a value with each of a sub-query's rows, the value, the query, and whether with all."""
    from sqlglot import exp as kinds

    def unwrap(query: Any) -> Any:
        while isinstance(query, (kinds.Subquery, kinds.Paren)):
            query = query.this
        return query

    if isinstance(node, kinds.In) and node.args.get("query") is not None:
        return kinds.EQ, node.this, unwrap(node.args["query"]), False
    comparisons = (kinds.EQ, kinds.NEQ, kinds.LT, kinds.LTE, kinds.GT, kinds.GTE)
    if isinstance(node, comparisons) and isinstance(node.expression, (kinds.Any, kinds.All)):
        return type(node), node.this, unwrap(node.expression.this), isinstance(node.expression, kinds.All)
    return None


def _member_truth(node: Any, operator: Any, of_all: bool, left: Any, value: Any, query: Any) -> Any:
    """Return the condition that a comparison with each row of a query is, where the condition `node` stands."""
    from sqlglot import exp as kinds

    compared = operator(this=left, expression=value)
    # Of ALL the rows that do not meet it count.
    holds = kinds.Not(this=kinds.paren(compared)) if of_all else compared
    unmet = compared if of_all else kinds.Not(this=kinds.paren(compared))

    def exists(condition: Any) -> Any:
        rows = query.copy()
        rows.set("expressions", [kinds.Literal.number(1)])
        rows.set("distinct", None)
        rows.set("where", kinds.Where(this=kinds.and_(rows.args["where"].this, condition.copy())))
        return kinds.Exists(this=rows)

    def is_not_true(condition: Any) -> Any:
        return kinds.Not(this=kinds.paren(kinds.Is(this=kinds.paren(condition.copy()), expression=kinds.true())))

    def signed(condition: Any) -> Any:
        return kinds.paren(kinds.Not(this=condition)) if of_all else condition

    sign = _sign(node)
    if sign is not None:
        # What is unknown makes neither ANY nor NOT ALL true, and neither ALL nor NOT ANY.
        return signed(exists(holds if (sign > 0) != of_all else is_not_true(unmet)))
    unknown = kinds.Is(this=kinds.paren(compared.copy()), expression=kinds.Null())
    ifs = [
        kinds.If(this=exists(holds), true=kinds.false() if of_all else kinds.true()),
        kinds.If(this=exists(unknown), true=kinds.Null()),
    ]
    return kinds.Case(ifs=ifs, default=kinds.true() if of_all else kinds.false())


def _sign(node: Any) -> int | None:
    """Return 1 where a condition counts as it is if it is true, -1 where it does under NOT; None where its value is shown."""
    from sqlglot import exp as kinds

    sign = 1
    at = node
    while isinstance(at.parent, (kinds.And, kinds.Or, kinds.Paren, kinds.Not)):
        at = at.parent
        sign = -sign if isinstance(at, kinds.Not) else sign
    is_choice = isinstance(at.parent, kinds.If) and at.parent.this is at
    by_value = is_choice and isinstance(at.parent.parent, kinds.Case) and at.parent.parent.this is not None
    return sign if isinstance(at.parent, kinds.Where) or (is_choice and not by_value) else None


def _unit_values_of(node: Any, name: str, around: set[str], units: Container[str] | None) -> tuple[Any, Any] | None:
    """Return the join of what a correlated sub-query says, and what stands in its place; None for any other sub-query.

    `around` are the names that the tables of the SELECT around it go by.
    """
    from sqlglot import exp as kinds

    is_exists = isinstance(node, kinds.Exists)
    query = node.this.this if isinstance(node.this, kinds.Subquery) else node.this
    source = _source(query) if isinstance(query, kinds.Select) else None
    clauses = {"expressions", "from_", "from", "where", *(("distinct", "limit") if is_exists else ())}
    if source is None or not _has_only(query, clauses) or query.args.get("where") is None:
        return None
    read = _read_links(query, source)
    if read is None or len(read.links) != 1:
        return None
    key, ours = read.links[0]
    outer = [ours, *(other for _, _, other in read.compared)]
    if not {column.table.lower() for side in outer for column in side.find_all(kinds.Column)} <= around:
        return None
    if units is not None and ours.name.lower() not in units:
        return None
    beside = _extremes_of_exists(read.compared, name) if is_exists else _aggregate_of(query, read.compared, name)
    if beside is None:
        return None
    values, instead = beside
    inner = kinds.Select(
        expressions=[kinds.alias_(key.copy(), f"{name}_of"), *(kinds.alias_(v, word) for word, v in values.items())]
    ).from_(source.copy())
    if read.rest:
        inner.set("where", kinds.Where(this=kinds.and_(*(part.copy() for part in read.rest))))
    inner.set("group", kinds.Group(expressions=[key.copy()]))
    joined = kinds.Subquery(this=inner, alias=kinds.TableAlias(this=kinds.to_identifier(name)))
    on = kinds.EQ(this=ours.copy(), expression=kinds.column(f"{name}_of", table=name))
    return kinds.Join(this=joined, side="LEFT", on=on), instead


def _extremes_of_exists(compared: Sequence[tuple[Any, Any, Any]], name: str) -> tuple[dict[str, Any], Any] | None:
    """Return the extremes of a person's rows that EXISTS depends on, by name, and the condition that they meet."""
    from sqlglot import exp as kinds

    if len(compared) != 1 or compared[0][0] is kinds.EQ:
        return None
    operator, value, other = compared[0]
    extremes: dict[str, Any] = {}
    if operator not in (kinds.GT, kinds.GTE):
        extremes[f"{name}_least"] = kinds.Min(this=value.copy())
    if operator not in (kinds.LT, kinds.LTE):
        extremes[f"{name}_largest"] = kinds.Max(this=value.copy())
    truths = [operator(this=kinds.column(extreme, table=name), expression=other.copy()) for extreme in extremes]
    return extremes, kinds.paren(kinds.Is(this=kinds.paren(kinds.or_(*truths)), expression=kinds.true()))


def _aggregate_of(query: Any, compared: Sequence[Any], name: str) -> tuple[dict[str, Any], Any] | None:
    """Return the one aggregate of a correlated sub-query, by name, and the value that stands in its place."""
    from sqlglot import exp as kinds

    item = query.expressions[0].unalias()
    counts = isinstance(item, kinds.Count)
    several = len(query.expressions) != 1 or item.find(kinds.AggFunc) is None
    if several or compared or (not counts and item.find(kinds.Count) is not None):
        return None
    value = kinds.column(name, table=name)
    # A person without such rows has no value, but their number is 0.
    return {name: item.copy()}, kinds.Coalesce(this=value, expressions=[kinds.Literal.number(0)]) if counts else value


def count_united(select: Any) -> None:
    """COUNT(*) FROM (SELECT id FROM a INTERSECT SELECT id FROM b) is one of SELECT DISTINCT id FROM a WHERE id IN b.

    EXCEPT counts those that are not; UNION, of one table, those of rows that meet either condition.
    """
    from sqlglot import exp as kinds

    source = _source(select)
    if not isinstance(source, kinds.Subquery) or not isinstance(source.this, kinds.SetOperation):
        return
    count = select.expressions[0].unalias() if len(select.expressions) == 1 else None
    if not isinstance(count, kinds.Count) or not _has_only(select, {"expressions", "from_", "from"}):
        return
    others: list[Any] = []
    base = source.this
    while isinstance(base, kinds.SetOperation):
        if not base.args.get("distinct") or not _has_only(base, {"this", "expression", "distinct"}):
            return
        others.append((type(base), base.expression))
        base = base.this
    queries = [base, *(query for _, query in others)]
    clauses = {"expressions", "from_", "from", "where", "joins", "distinct"}
    if not all(isinstance(q, kinds.Select) and _has_only(q, clauses) and len(q.expressions) == 1 for q in queries):
        return
    column = base.expressions[0].unalias()
    name = base.expressions[0].output_name.lower()
    counted = count.this.expressions[0] if isinstance(count.this, kinds.Distinct) else count.this
    is_counted = isinstance(counted, kinds.Star) or (isinstance(counted, kinds.Column) and counted.name.lower() == name)
    if not isinstance(column, kinds.Column) or not is_counted:
        return
    conditions = [] if base.args.get("where") is None else [base.args["where"].this.copy()]
    if any(kind is kinds.Union for kind, _ in others):
        if len(others) != 1 or not _is_alike(base, queries[1]):
            return
        either = [query.args["where"].this.copy() for query in queries if query.args.get("where") is not None]
        conditions = [kinds.paren(kinds.or_(*either))] if len(either) == len(queries) else []
    else:
        for kind, query in reversed(others):
            member = kinds.In(this=column.copy(), query=kinds.Subquery(this=query.copy()))
            conditions.append(member if kind is kinds.Intersect else kinds.Not(this=member))
    once = base.copy()
    once.set("distinct", kinds.Distinct())
    once.set("where", kinds.Where(this=kinds.and_(*conditions)) if conditions else None)
    source.set("this", once)


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether two SELECTs read the same rows of the same table, but for WHERE, and the same column of them."""
    parts = ("from_", "from", "joins")
    same = one.expressions[0].unalias() == other.expressions[0].unalias()
    return same and all(one.args.get(part) == other.args.get(part) for part in parts)


@dataclass(frozen=True, slots=True)
class _Links:
    """What WHERE of a correlated sub-query says: its columns that equal ones around it, other comparisons, and the rest.

    A comparison is its operator, with the sub-query's side before the one of the rows around it.
    """

    links: list[Any]
    compared: list[Any]
    rest: list[Any]


def _read_links(query: Any, source: Any) -> _Links | None:
    """Return what WHERE of a sub-query says; None where a condition is of both sides and compares them in no such way."""
    from sqlglot import exp as kinds

    own = source.alias_or_name.lower()
    mirrored: dict[Any, Any] = {kinds.GT: kinds.LT, kinds.GTE: kinds.LTE, kinds.LT: kinds.GT, kinds.LTE: kinds.GTE}

    def belongs(side: Any) -> bool | None:
        """Whether a tree is of the sub-query's rows, or of those around it; None where it is of both, or of neither."""
        tables = {column.table.lower() == own or not column.table for column in side.find_all(kinds.Column)}
        return None if len(tables) != 1 or side.find(kinds.Query) is not None else tables.pop()

    read = _Links([], [], [])
    where = query.args["where"].this
    for part in (p.unnest() for p in and_parts(where)):
        is_comparison = isinstance(part, (kinds.EQ, kinds.NEQ, *mirrored))
        sides = [part.this, part.expression] if is_comparison else []
        whose = [belongs(side) for side in sides]
        if sorted(whose, key=str) == [False, True]:
            inner, outer = sides if whose[0] else reversed(sides)
            operator = type(part) if whose[0] else mirrored.get(type(part), type(part))
            is_plain = isinstance(inner, kinds.Column) and isinstance(outer, kinds.Column)
            if operator is kinds.EQ and is_plain:
                read.links.append((inner, outer))
            else:
                read.compared.append((operator, inner, outer))
        elif belongs(part):
            read.rest.append(part)
        else:
            return None
    return read


def count_combinations(select: Any, *, least: int) -> None:
    """SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM t) is SELECT COUNT(DISTINCT (a, b)) FROM t: one number.

    Only of `least` columns or more: of one, which may be the unit's, a question has a way of its own.
    """
    from sqlglot import exp as kinds

    items = select.expressions
    source = _source(select)
    if len(items) != 1 or not isinstance(source, kinds.Subquery) or not isinstance(source.this, kinds.Select):
        return
    count = items[0].unalias()
    inner = source.this
    if not isinstance(count, kinds.Count) or not isinstance(count.this, kinds.Star):
        return
    if not _has_only(select, {"expressions", "from_", "from"}):
        return
    if not _has_only(inner, {"expressions", "from_", "from", "where", "joins", "laterals", "distinct", "group"}):
        return
    columns = [item.unalias() for item in inner.expressions]
    _list_groups(inner)
    distinct = inner.args.get("distinct")
    group = inner.args.get("group")
    if len(columns) < least or any(c.is_star or c.find(kinds.AggFunc, kinds.Window) is not None for c in columns):
        return
    if distinct is not None and (group is not None or distinct.args.get("on")):
        return
    if distinct is None and (group is None or not _has_only(group, {"expressions"})):
        return
    keys = columns if group is None else [_item_by_place(key, columns) for key in group.expressions]
    if set(keys) != set(columns):
        return
    counted = columns[0] if len(columns) == 1 else kinds.Tuple(expressions=columns)
    count.set("this", kinds.Distinct(expressions=[counted.copy()]))
    for part in ("from_", "from", "where", "joins", "laterals"):
        select.set(part, inner.args.get(part))


def _item_by_place(key: Any, columns: list[Any]) -> Any:
    """Return the item of SELECT that a number in GROUP BY stands for; any other key as it is."""
    place = int(key.this) if key.key == "literal" and not key.is_string and key.this.isdigit() else 0
    return columns[place - 1] if 1 <= place <= len(columns) else key


def _rename_columns(select: Any) -> None:
    """WITH name(a, b) AS (SELECT x, y ...) is WITH name AS (SELECT x AS a, y AS b ...); a sub-query's names likewise."""
    from sqlglot import exp as kinds

    clause = with_of(select)
    sources = list(clause.expressions) if clause is not None else []
    start = from_of(select)
    sources += [s for s in [start.this if start is not None else None] if isinstance(s, kinds.Subquery)]
    for source in sources:
        names = source.alias_column_names
        inner = source.this
        if not names or not isinstance(inner, kinds.Select) or len(names) != len(inner.expressions):
            continue
        if any(isinstance(e, kinds.Star) for e in inner.expressions):
            continue
        renamed = [
            kinds.alias_(e.unalias(), name, quoted=True) for e, name in zip(inner.expressions, names, strict=True)
        ]
        inner.set("expressions", renamed)
        source.args["alias"].set("columns", None)


def _unwrap_table(select: Any) -> None:
    """FROM (adult) is FROM adult, and JOIN ... ON (a = b) is ON a = b."""
    from sqlglot import exp as kinds

    clause = from_of(select)
    for holder in [clause, *(select.args.get("joins") or [])]:
        source = None if holder is None else holder.this
        while isinstance(source, kinds.Subquery) and isinstance(source.this, (kinds.Table, kinds.Subquery)):
            inner = source.this
            joins = inner.args.get("joins")
            if joins and source.args.get("alias") is None and holder is clause:
                # FROM (a JOIN b ON ...) JOIN c ON ..., as Power BI writes it
                select.set("joins", [*joins, *(select.args.get("joins") or [])])
                inner.set("joins", None)
            if source.args.get("alias") is not None:
                inner.set("alias", source.args["alias"])
            source = inner
        if holder is not None and source is not holder.this:
            holder.set("this", source)
    for holder in [clause, *(select.args.get("joins") or [])]:
        on = None if holder is None else holder.args.get("on")
        while isinstance(on, kinds.Paren):
            on = on.this
        if holder is not None and on is not None:
            holder.set("on", on)


def _join_commas(select: Any) -> None:
    """FROM a, b WHERE a.x = b.y AND rest is FROM a JOIN b ON a.x = b.y WHERE rest."""
    from sqlglot import exp as kinds

    joins = select.args.get("joins") or []
    for place, join in enumerate(joins):
        where = select.args.get("where")
        plain = not any(join.args.get(n) for n in ("method", "side", "on", "using"))
        plain = plain and not isinstance(join.this, kinds.Unnest)
        if where is None or not plain or str(join.args.get("kind") or "").upper() not in ("", "CROSS"):
            continue
        alias = join.this.alias_or_name.lower()
        later = {other.this.alias_or_name.lower() for other in joins[place + 1 :]}
        conditions = [part for part in and_parts(where.this) if _compares_tables(part, alias, later)]
        if not conditions:
            continue
        move_to_on(select, join, conditions)


def _compares_tables(condition: Any, alias: str, later: Container[str]) -> bool:
    """Return whether a condition says that a column of the named table equals one of another, not of a later one."""
    from sqlglot import exp as kinds

    condition = condition.unnest()
    if not isinstance(condition, kinds.EQ):
        return False
    sides = [condition.this, condition.expression]
    if not all(isinstance(s, kinds.Column) and s.table for s in sides):
        return False
    tables = [s.table.lower() for s in sides]
    return tables.count(alias) == 1 and not any(t in later for t in tables)


def _put_private_first(select: Any, public: Container[str]) -> None:
    """FROM regions JOIN adult ON ... is FROM adult JOIN regions ON ...: an inner join has no order, and LEFT is RIGHT."""
    from sqlglot import exp as kinds

    joins = select.args.get("joins") or []
    clause = from_of(select)
    if clause is None or not isinstance(clause.this, kinds.Table):
        return
    first = joins[0] if len(joins) == 1 and isinstance(joins[0].this, kinds.Table) else None
    right = first is not None and str(first.args.get("side") or "").upper() == "RIGHT"
    if clause.this.name.lower() not in public:
        # a RIGHT JOIN b is b LEFT JOIN a
        if first is not None and right and first.this.name.lower() not in public:
            joined = first.this
            first.set("this", clause.this)
            clause.set("this", joined)
            first.set("side", "LEFT")
        return
    for join in joins:
        inner = not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER")
        turned = str(join.args.get("side") or "").upper() == "RIGHT" and len(joins) == 1
        if isinstance(join.this, kinds.Table) and join.this.name.lower() in public:
            continue
        keeps_left = str(join.args.get("side") or "").upper() == "LEFT" and len(joins) == 1
        if inner or turned or keeps_left:
            first = clause.this
            second = join.this
            if keeps_left:
                join.set("side", "RIGHT")
                _filter_before(select, join, second.alias_or_name.lower())
            clause.set("this", second)
            join.set("this", first)
            if turned:
                join.set("side", "LEFT")
        return


def _filter_before(select: Any, join: Any, name: str) -> None:
    """Move what ON says of the table `name` alone to WHERE: of a join that keeps the other side's rows it says which count."""
    from sqlglot import exp as kinds

    on = join.args.get("on")
    parts = and_parts(on)

    def is_alone(part: Any) -> bool:
        columns = list(part.find_all(kinds.Column))
        return bool(columns) and all(column.table.lower() == name for column in columns)

    alone = [part for part in parts if is_alone(part)]
    rest = [part for part in parts if not is_alone(part)]
    if alone and rest:
        join.set("on", kinds.and_(*(part.copy() for part in rest)))
        select.where(*(part.copy() for part in alone), copy=False)


def _list_groups(select: Any) -> None:
    """GROUP BY ALL is GROUP BY every item of SELECT without an aggregate in it."""
    from sqlglot import exp as kinds

    group = select.args.get("group")
    if group is None or not group.args.get("all") or group.expressions:
        return
    keys = [e.unalias().copy() for e in select.expressions if e.find(kinds.AggFunc) is None]
    select.set("group", kinds.Group(expressions=keys) if keys else None)


def _drop_needless_distinct(select: Any) -> None:
    """SELECT DISTINCT of groups and aggregates has no row twice; of columns alone, it is GROUP BY these columns."""
    from sqlglot import exp as kinds

    distinct = select.args.get("distinct")
    group = select.args.get("group")
    if distinct is None or distinct.args.get("on"):
        return
    if group is None:
        columns = [e.unalias() for e in select.expressions]
        if any(e.is_star or e.find(kinds.AggFunc) is not None for e in columns):
            return
        select.set("group", kinds.Group(expressions=[c.copy() for c in columns]))
        select.set("distinct", None)
        return
    items = [e.unalias() for e in select.expressions]
    positions = {int(e.this) for e in group.expressions if isinstance(e, kinds.Literal) and e.this.isdigit()}
    names = {e.alias.lower() for e in select.expressions if e.alias}
    for i, key in enumerate(group.expressions):
        named = isinstance(key, kinds.Column) and key.name.lower() in names
        if not (key in items or i + 1 in positions or named or isinstance(key, kinds.Literal)):
            return
    select.set("distinct", None)


def _order_by_all(select: Any) -> None:
    """ORDER BY ALL is ORDER BY every item of SELECT, from left to right."""
    from sqlglot import exp as kinds

    order = select.args.get("order")
    if (
        order is None
        or len(order.expressions) != 1
        or not isinstance(order.expressions[0].this, (kinds.Var, kinds.All))
    ):
        return
    item = order.expressions[0]
    if item.this.name.upper() in ("ALL", ""):
        places = [kinds.Literal.number(i + 1) for i in range(len(select.expressions))]
        order.set("expressions", [kinds.Ordered(this=at, desc=item.args.get("desc")) for at in places])


def _limit_by_fetch(select: Any) -> None:
    """FETCH FIRST n ROWS ONLY is LIMIT n."""
    from sqlglot import exp as kinds

    fetch = select.args.get("limit")
    if not isinstance(fetch, kinds.Fetch):
        return
    options = fetch.args.get("limit_options")
    if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
        select.set("limit", kinds.Limit(expression=fetch.args.get("count") or kinds.Literal.number(1)))
