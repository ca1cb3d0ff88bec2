"""Words of polars and pandas that are other words here: what the error of an unknown attribute says. Knows no data."""

from __future__ import annotations

import difflib

_ASK = "table.ask(question, epsilon=...)"
_ROWS = "rows are never released; write agg(...) for an aggregate"
_WINDOW = "an answer is computed with; write release.query('SELECT *, n / SUM(n) OVER () AS share FROM answer')"
# Of each class, what is meant by the words that others use: the word here, or a reason and what to do.
_MEANT: dict[str, dict[str, str]] = {
    "Expr": {
        **dict.fromkeys(("isna", "isnull", "is_nan"), "is_null()"),
        **dict.fromkeys(("notna", "notnull", "is_not_nan"), "is_not_null()"),
        **dict.fromkeys(("between", "is_in_range"), "is_between(lower, upper)"),
        **dict.fromkeys(("fillna", "fill_nan", "coalesce"), "fill_null(value)"),
        **dict.fromkeys(("nunique", "approx_n_unique", "unique"), "n_unique()"),
        **dict.fromkeys(("map", "apply", "map_elements", "map_batches"), "sd.when(condition, value).otherwise(other)"),
        **dict.fromkeys(("shift_rows", "lag", "lead"), 'shift(1).over("id", order_by="day")'),
        "cumsum": 'cum_sum().over("id", order_by="day")',
        "cumcount": 'cum_count().over("id", order_by="day")',
        **dict.fromkeys(("rank", "pct_change", "rolling", "rolling_mean"), _WINDOW),
        **dict.fromkeys(("size", "len"), "sd.count()"),
        **dict.fromkeys(("head", "tail", "sort", "item", "to_list", "sample", "limit"), _ROWS),
        **dict.fromkeys(("eq", "ne", "gt", "ge", "lt", "le"), "==, !=, >, >=, < or <="),
        **dict.fromkeys(("add", "sub", "mul", "truediv", "floordiv", "mod"), "+, -, *, /, // or %"),
        "isin": "is_in([...])",
        "pow": "power(exponent), or **",
        "cut": "bin(edges)",
        "qcut": "bin(edges)",
        "log": "ln()",
        "log1p": "(1 + x).ln()",
        "avg": "mean()",
        "average": "mean()",
        "variance": "var()",
        "stddev": "std()",
        "mode": "sd.most_common(...), or MODE in sd.sql",
        "hist": "sd.histogram(...)",
        "corr": "sd.correlation(x, y)",
        "cov": "sd.covariance(x, y)",
        "to_uppercase": "str.to_uppercase()",
        "to_lowercase": "str.to_lowercase()",
        "startswith": "starts_with(text)",
        "endswith": "ends_with(text)",
        "weekday": "dt.weekday()",
        "cast": "a value has its declared type; leave it out",
        "astype": "a value has its declared type; leave it out",
        "rename": "alias(name)",
        "strip": "trim()",
    },
    "DateParts": {
        **dict.fromkeys(("dayofweek", "day_of_week", "day_name"), "weekday(), where 1 is Monday"),
        **dict.fromkeys(("dayofyear", "day_of_year"), "ordinal_day()"),
        **dict.fromkeys(
            ("total_days", "total_hours", "total_minutes"),
            "days(), hours() or minutes() without .dt, which keep fractions",
        ),
        **dict.fromkeys(("offset_by", "add"), "shift(months=, days=, hours=) without .dt"),
        **dict.fromkeys(("floor", "to_period", "round", "normalize"), "truncate('1mo')"),
        **dict.fromkeys(("isocalendar", "weekofyear"), "week()"),
        **dict.fromkeys(
            ("tz_convert", "convert_time_zone", "replace_time_zone"), "a moment has its declared zone; leave it out"
        ),
    },
    "TextParts": {
        **dict.fromkeys(("replace", "sub"), "replace_all(old, new, literal=True)"),
        **dict.fromkeys(("match", "find", "fullmatch", "extract"), "contains(pattern)"),
        **dict.fromkeys(("length", "n_chars", "len_bytes"), "len_chars()"),
        **dict.fromkeys(("substr", "substring", "head", "get"), "slice(offset, length)"),
        **dict.fromkeys(("cat", "concat", "join"), "concat(other) without .str"),
        **dict.fromkeys(("trim", "lstrip", "rstrip"), "strip_chars()"),
    },
    "rows": {
        **dict.fromkeys(("groupby", "groupBy", "group"), "group_by(...)"),
        **dict.fromkeys(("assign", "mutate", "with_column", "withColumn", "eval"), "with_columns(name=expression)"),
        **dict.fromkeys(("query", "loc", "iloc", "mask"), 'where(col("age") > 30)'),
        **dict.fromkeys(("aggregate", "summarize", "summarise"), "agg(...)"),
        **dict.fromkeys(("merge", "join_asof"), "join(table, on=...)"),
        **dict.fromkeys(("dropna", "drop_nulls"), 'where(col("age").is_not_null())'),
        **dict.fromkeys(("size", "len", "height", "shape"), "count()"),
        **dict.fromkeys(("sql", "execute"), 'ask(sd.sql("SELECT ..."), epsilon=...)'),
        **dict.fromkeys(("budget", "privacy_budget", "remaining_budget"), "remaining, or spent"),
        **dict.fromkeys(("evaluate", "release", "get", "answer"), "ask(question, epsilon=...)"),
        **dict.fromkeys(("nunique", "n_unique"), 'agg(sd.count_distinct("job"))'),
        **dict.fromkeys(("drop_duplicates", "unique", "distinct"), 'group_by("job").agg(sd.count())'),
        **dict.fromkeys(
            ("sum", "mean", "median", "std", "var", "quantile", "min", "max"), 'agg(sd.mean("age")) and the like'
        ),
        **dict.fromkeys(
            ("sort", "sort_values", "order_by", "orderBy", "limit"),
            "an answer is ordered, rows never are; write agg(...).sort(...)",
        ),
        **dict.fromkeys(
            ("tail", "show", "sample_rows", "collect", "to_pandas", "to_polars", "to_dicts", "iter_rows"), _ROWS
        ),
        **dict.fromkeys(("isna", "isnull", "is_null", "null_count"), 'where(col("age").is_null()).agg(sd.count())'),
        **dict.fromkeys(
            ("group_by_dynamic", "resample", "groupby_dynamic"), 'group_by(col("day").dt.truncate("1mo")).agg(...)'
        ),
        **dict.fromkeys(("rolling", "expanding", "ewm"), _WINDOW),
        **dict.fromkeys(
            ("apply", "map", "map_rows", "map_batches", "pipe", "transform"), "with_columns(name=expression)"
        ),
        **dict.fromkeys(
            ("lazy", "compute", "persist", "cache", "copy", "clone"), "a question runs when it is asked; leave it out"
        ),
        **dict.fromkeys(
            ("drop", "reset_index", "set_index", "astype", "cast"),
            "a question reads the columns that it names; write agg(...) of those that it needs",
        ),
        "rename": "with_columns(new=col(old))",
        "crosstab": "group_by(one, other).agg(sd.count())",
        **dict.fromkeys(("plot", "chart", "boxplot"), "an answer is drawn; write sd.plot(release)"),
        **dict.fromkeys(("to_csv", "to_parquet", "to_excel", "write_csv", "write_parquet", "values", "rows"), _ROWS),
        **dict.fromkeys(("dtypes", "info", "types"), "schema"),
        **dict.fromkeys(("pivot", "pivot_table", "unpivot"), 'sd.sql("SELECT ... PIVOT ..."), or release.query'),
        "corr": 'agg(sd.correlation("age", "hours"))',
        "explode": "unnest(column)",
        "hist": "sd.histogram(column)",
        "mode": "sd.most_common(column)",
    },
    "Aggregation": {
        **dict.fromkeys(("sort_values", "orderby", "orderBy"), "sort(column, descending=True)"),
        **dict.fromkeys(("top_k", "nlargest"), "sort(column, descending=True).head(rows)"),
        **dict.fromkeys(("bottom_k", "nsmallest", "tail"), "sort(column).head(rows)"),
        **dict.fromkeys(("with_columns", "assign", "over", "pivot", "join", "select"), _WINDOW),
        **dict.fromkeys(("collect", "execute", "show", "value", "table", "rows"), _ASK),
        **dict.fromkeys(("to_pandas", "to_polars", "to_arrow", "to_dicts"), _ASK + ", then the release's own"),
    },
    "AggregateExpr": {
        **dict.fromkeys(("rank", "cum_sum", "cumsum", "diff", "shift", "pct_change", "rolling"), _WINDOW),
        **dict.fromkeys(("filter", "where"), "table.where(...), or sd.count(where=...)"),
        "rename": "alias(name)",
        "log": "ln()",
    },
}


# What to use where no word is near.
_INSTEAD = {
    "rows": "use ask(question, epsilon=...) for an answer, columns and schema for what is declared, remaining for the budget",
    "Aggregation": f"use {_ASK}",
}


class UnknownWord(AttributeError):
    """An unknown attribute. Its text suggests the word that was meant, and is made only when it is read."""

    def __init__(self, thing: object, word: str, kind: str) -> None:
        super().__init__(thing, word, kind)

    def __str__(self) -> str:
        thing, word, kind = self.args
        names = [name for name in dir(type(thing)) if not name.startswith("_")]
        near = difflib.get_close_matches(word, names, n=1)
        meant = _MEANT[kind].get(word) or (near[0] if near else None)
        if kind == "rows" and word in _columns(thing):
            hint = f': a column never leaves; write agg(sd.mean("{word}")), or col("{word}") in an expression'
        elif word.startswith("_"):
            hint = ""
        elif meant is None:
            hint = f": {_INSTEAD.get(kind, 'use one of its methods, which help() lists')}"
        else:
            hint = f": {meant}" if "; " in meant else f": did you mean {meant}?"
        return f"{type(thing).__name__!r} object has no attribute {word!r}{hint}"


def _columns(thing: object) -> tuple[str, ...]:
    """Return the declared columns of a table; none of what is selected of it."""
    columns = getattr(thing, "columns", None) if "columns" in dir(type(thing)) else None
    return columns if isinstance(columns, tuple) else ()


def unknown_word(thing: object, word: str, *, kind: str) -> AttributeError:
    """Return the error of an unknown attribute, with the word that was meant, where one is known or near.

    `kind` is "rows" for a table and for what is selected of it, else the name of the class.
    """
    return UnknownWord(thing, word, kind)
