"""The SQL that is read, as a page: every form with an example, listed from the tables that the translation uses.

The page is written anew from them, so a form that is added there appears here; a test asks for its example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

from sordino.ask.queries.sql import dialects, functions, text, time_functions, unit_windows, values

# By the name of the parsed tree: an example, and what it is.
AGGREGATE_FORMS: dict[str, tuple[str, str]] = {
    "Count": (
        "COUNT(*)",
        "the rows; `COUNT(x)` those in which x is not missing, `COUNT(DISTINCT x)` the different values",
    ),
    "Sum": (
        "SUM(age)",
        "the sum of a bounded number, or of a condition; `SUM(CLIP_UNIT(pay, 0, 9))` of the clipped total of each unit; "
        "`SUM(DISTINCT age)` of the different values",
    ),
    "Avg": ("AVG(age)", "the mean; `AVG(DISTINCT age)` of the different values"),
    "Variance": (
        "VARIANCE(age)",
        "the variance of a sample; `VAR` too; `VARIANCE(DISTINCT age)` of the different values",
    ),
    "VariancePop": ("VAR_POP(age)", "the variance of the rows themselves"),
    "Stddev": ("STDDEV(age)", "the standard deviation of a sample; `STD` and `STDEV` too"),
    "StddevSamp": ("STDDEV_SAMP(age)", "the same"),
    "StddevPop": ("STDDEV_POP(age)", "the standard deviation of the rows themselves"),
    "Corr": ("CORR(age, pay)", "Pearson's correlation"),
    "CovarPop": ("COVAR_POP(age, pay)", "the covariance of the rows themselves"),
    "CovarSamp": ("COVAR_SAMP(age, pay)", "the covariance of a sample"),
    "Median": ("MEDIAN(age)", "the median"),
    "Quantile": ("QUANTILE(age, 0.9)", "a quantile; `QUANTILE(age, [0.25, 0.75])` several"),
    "PercentileCont": ("QUANTILE_CONT(age, 0.9)", "a quantile; `PERCENTILE_CONT(age, 0.9)` too"),
    "PercentileDisc": ("QUANTILE_DISC(age, 0.9)", "a quantile"),
    "WithinGroup": ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)", "a quantile"),
}
ROW_FORMS: dict[str, tuple[str, str]] = {
    "Column": ("age", "a declared column"),
    "Literal": ("'nurse'", "text in single quotes, or a number"),
    "RawString": ("job = r'nurse'", "text in which a backslash means itself, in BigQuery and Spark"),
    "National": ("job = N'nurse'", "text, as SQL Server writes it"),
    "Boolean": ("member = TRUE", "TRUE and FALSE; 1 and 0 in comparisons with them"),
    "Add": ("age + 1", "a sum"),
    "Sub": ("age - 1", "a difference"),
    "Mul": ("age * 2", "a product"),
    "Neg": ("-age", "the negative"),
    "Div": ("age / 10", "a quotient; missing where the divisor is 0"),
    "SafeDivide": ("SAFE_DIVIDE(pay, age)", "the same, in BigQuery"),
    "IntDiv": ("age // 10", "a quotient rounded towards 0"),
    "Mod": ("age % 10", "the remainder, with the sign of what is divided"),
    "Abs": ("ABS(age - 40)", "the absolute value"),
    "Sign": ("SIGN(age - 40)", "-1, 0 or 1"),
    "Round": ("ROUND(pay, -3)", "rounded to so many decimals, halves away from 0"),
    "Floor": ("FLOOR(age / 10)", "rounded down"),
    "Ceil": ("CEIL(age / 10)", "rounded up"),
    "Trunc": ("TRUNC(age / 10)", "rounded towards 0"),
    "Pow": ("POWER(age, 2)", "a power, from 0 to 16"),
    "Sqrt": ("SQRT(pay)", "the square root; missing below 0"),
    "Ln": ("LN(pay + 1)", "the natural logarithm; missing at 0 and below"),
    "Log": ("LOG10(pay + 1)", "the logarithm to base 10; `LOG2(x)` and `LOG(2, x)` to base 2"),
    "Exp": ("EXP(age / 100)", "the exponential"),
    "CLIP": ("CLIP(age, 18, 90)", "the number moved into the bounds"),
    "Least": ("LEAST(age, 90)", "the smaller; a missing x of LEAST(x, 90) stays missing"),
    "Greatest": ("GREATEST(age, 18)", "the larger; a missing x of GREATEST(x, 18) stays missing"),
    "BIN": ("BIN(age, 10)", "bins of a width; `BIN(age, [0, 18, 65])` by their edges; keys of GROUP BY"),
    "Case": ("CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END", "a choice; `CASE job WHEN 'nurse' THEN 1 END` too"),
    "If": ("IF(age < 18, 0, 1)", "a choice of two; `IIF` too"),
    "Coalesce": ("COALESCE(job, 'none')", "the first that is not missing; `IFNULL`, `NVL` and `ISNULL` too"),
    "Nullif": ("NULLIF(age, 0)", "missing where it equals the value"),
    "Cast": (
        "CAST(age / 10 AS INT)",
        "to whole numbers, halves of decimals away from 0, of doubles to the even one; to decimals, reals, text; `x::INT` too",
    ),
    "TryCast": ("TRY_CAST(age AS DOUBLE)", "the same; `SAFE_CAST` in BigQuery"),
    "Upper": ("UPPER(job)", "capitals"),
    "Lower": ("LOWER(job)", "small letters"),
    "Trim": ("TRIM(job)", "without blanks at the ends; `LTRIM` and `RTRIM` at one"),
    "Length": ("LENGTH(job)", "the number of characters"),
    "Substring": ("SUBSTR(job, 1, 3)", "a part, from a place, of a length"),
    "Left": ("LEFT(job, 1)", "the first characters"),
    "Right": ("RIGHT(job, 1)", "the last characters"),
    "Replace": ("REPLACE(job, 'u', 'o')", "one text in place of another"),
    "Concat": (
        "CONCAT(job, '-', YEAR(joined))",
        "texts, whole numbers and days joined; what is missing is left out, as in DuckDB",
    ),
    "ConcatWs": ("CONCAT_WS('-', job, age)", "the same, with a text between those that are there"),
    "DPipe": ("job || '!'", "texts joined; missing where one is missing"),
    "Pad": ("LPAD(CAST(age AS VARCHAR), 3, '0')", "filled up to a length; `RPAD` at the end"),
    "Reverse": ("REVERSE(job)", "backwards"),
    "SplitPart": ("SPLIT_PART(job, 'u', 1)", "a part, from 1, of what a text divides"),
    "StrPosition": (
        "STRPOS(job, 'r')",
        "where a text first stands, from 1, else 0; `POSITION('r' IN job)` and `INSTR` too",
    ),
    "EQ": ("job = 'nurse'", "equal; of rows of values too, `(job, age) = ('nurse', 30)`"),
    "NEQ": ("job <> 'nurse'", "not equal; `!=` too"),
    "LT": ("job < 'd'", "less; texts by their characters; days are compared with `DATE '2020-01-31'` or '2020-01-31'"),
    "LTE": ("age <= 18", "at most"),
    "GT": ("age > 18", "more"),
    "GTE": ("age >= 18", "at least"),
    "Between": ("age BETWEEN 18 AND 65", "within bounds, both included"),
    "In": ("job IN ('nurse', 'cook')", "one of some constants"),
    "Is": ("job IS NULL", "missing; `IS NOT NULL`, `IS TRUE`, `IS NOT FALSE` too"),
    "NullSafeEQ": ("job IS NOT DISTINCT FROM 'nurse'", "equal, where missing equals missing"),
    "NullSafeNEQ": ("job IS DISTINCT FROM 'nurse'", "not equal, where missing equals missing"),
    "Like": ("job LIKE 'n%'", "a pattern: % stands for any text, _ for one character"),
    "Escape": ("job LIKE '%$_%' ESCAPE '$'", "a pattern in which what stands behind a character is that itself"),
    "SimilarTo": ("job SIMILAR TO '(nurse|cook)'", "a regular expression of the whole text"),
    "ILike": ("job ILIKE 'N%'", "the same, whatever the case"),
    "RegexpLike": ("REGEXP_MATCHES(job, '^n')", "a regular expression; `~` in PostgreSQL"),
    "StartsWith": ("STARTS_WITH(job, 'n')", "what a text begins with"),
    "EndsWith": ("ENDS_WITH(job, 'e')", "what a text ends with"),
    "Contains": ("CONTAINS(job, 'rs')", "what a text contains"),
    "And": ("age > 18 AND member", "both"),
    "Or": ("age > 18 OR member", "at least one"),
    "Not": ("NOT member", "the contrary"),
}
TIME_FORMS: dict[str, tuple[str, str]] = {
    "Extract": ("EXTRACT(YEAR FROM joined)", "a part of a date; `DATE_PART('year', joined)` too; EPOCH for seconds"),
    "Year": ("YEAR(joined)", "the year"),
    "Quarter": ("QUARTER(joined)", "the quarter"),
    "Month": ("MONTH(joined)", "the month"),
    "Week": ("WEEK(joined)", "the week of ISO 8601; `WEEKOFYEAR` and `YEARWEEK` too"),
    "Day": ("DAY(joined)", "the day of the month"),
    "DayOfMonth": ("DAYOFMONTH(joined)", "the same"),
    "DayOfWeek": ("DAYOFWEEK(joined)", "the day of the week, 0 for Sunday"),
    "DayOfWeekIso": ("ISODOW(joined)", "the day of the week, 1 for Monday"),
    "DayOfYear": ("DAYOFYEAR(joined)", "the day of the year"),
    "Dayname": ("DAYNAME(joined)", "the name of the day"),
    "Monthname": ("MONTHNAME(joined)", "the name of the month"),
    "Hour": ("HOUR(seen)", "the hour, by the clock of the column's zone"),
    "Minute": ("MINUTE(seen)", "the minute"),
    "Second": ("SECOND(seen)", "the second"),
    "TimestampTrunc": (
        "DATE_TRUNC('month', seen)",
        "where the month begins; also year, quarter, week, day, hour, minute",
    ),
    "DateBin": ("TIME_BUCKET(INTERVAL '7 days', joined)", "the same for several units, counted from 2000-01-03"),
    "TimeToStr": ("STRFTIME(joined, '%Y-%m')", "as text; `TO_CHAR` and `DATE_FORMAT` in their dialects"),
    "Date": ("DATE(seen)", "the day of a moment; `CAST(seen AS DATE)` too"),
    "DateFromParts": (
        "MAKE_DATE(2020, 1, 31)",
        "a day; `MAKE_DATE(YEAR(joined), MONTH(joined), 1)`, `STRPTIME('31.01.2020', '%d.%m.%Y')` and `TO_DATE` of a text too",
    ),
    "LastDay": ("LAST_DAY(joined)", "the last day of the month"),
    "DateAdd": ("DATE_ADD(joined, INTERVAL 3 DAY)", "moved by an interval; `joined + INTERVAL '1 month'` too"),
    "DateDiff": (
        "DATEDIFF('day', joined, DATE '2020-12-31')",
        "how many parts begin in between, but of weeks how many sevens of days, as DuckDB; `DATE '2020-12-31' - joined` too",
    ),
    "TimeToUnix": ("EPOCH(seen)", "seconds since 1970; of a difference `EPOCH(b - a)` its seconds"),
}
CLAUSE_FORMS: tuple[tuple[str, str, str], ...] = (
    ("aggregates", "SELECT COUNT(*) AS n, AVG(age) FROM people", "columns have the order of SELECT; AS names them"),
    (
        "formulas",
        "SELECT ROUND(100.0 * SUM(pay) / COUNT(*), 1) AS x FROM people",
        "arithmetic on what is released is free",
    ),
    ("rows", "SELECT COUNT(*) FROM people WHERE age > 40", "a condition on rows"),
    ("some rows", "SELECT COUNT(*) FILTER (WHERE age > 40) FROM people", "a condition of one aggregate; COUNT_IF too"),
    (
        "groups",
        "SELECT job, member, COUNT(*) FROM people GROUP BY job, member",
        "every declared key that a row of the question can have appears",
    ),
    (
        "groups by place",
        "SELECT YEAR(joined) AS y, COUNT(*) FROM people GROUP BY 1",
        "also by alias, by expression, and ALL",
    ),
    ("private keys", "SELECT town, COUNT(*) FROM people GROUP BY town", "an identifier's keys show above a threshold"),
    (
        "the answer",
        "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING n > 9 ORDER BY n DESC LIMIT 3",
        "also OFFSET",
    ),
    ("TOP", "SELECT TOP 3 job, COUNT(*) AS n FROM people GROUP BY job ORDER BY n DESC", "as LIMIT; FETCH FIRST too"),
    (
        "sub-queries",
        "SELECT AVG(x) FROM (SELECT age * 2 AS x FROM people WHERE pay > 9) AS t",
        "filter rows, compute columns",
    ),
    ("WITH", "WITH old(a) AS (SELECT age FROM people WHERE age > 65) SELECT AVG(a) FROM old", "named sub-queries"),
    (
        "over an answer",
        "SELECT job FROM (SELECT job, COUNT(*) AS n FROM people GROUP BY job) AS t WHERE n > 9",
        "as HAVING",
    ),
    (
        "per unit",
        "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) AS t",
        "one value a privacy unit, within the bounds that `max_rows` implies or that it states: `LEAST(n, 5)`; MEDIAN, MODE and "
        "STDDEV too",
    ),
    (
        "a unit's sequence",
        "SELECT COUNT(*) FROM (SELECT day - LAG(day) OVER (PARTITION BY id ORDER BY day) AS gap FROM visits) AS t"
        " WHERE gap <= 30",
        f"in a sub-query over rows: {unit_windows.KNOWN} OVER (PARTITION BY the privacy unit ...), with ROWS and RANGE BETWEEN, "
        "WINDOW and QUALIFY",
    ),
    (
        "beside its rows",
        "SELECT COUNT(*) FROM visits AS p JOIN (SELECT id, MIN(day) AS first FROM visits GROUP BY id) AS f ON p.id = f.id"
        " WHERE p.day > f.first",
        "one value a privacy unit, joined back to its rows; of another table of the same people too",
    ),
    (
        "with itself",
        "SELECT COUNT(*) FROM visits AS p JOIN visits AS q ON p.id = q.id AND q.day > p.day",
        "by the privacy unit",
    ),
    (
        "compared with them",
        "SELECT COUNT(*) FROM visits AS p WHERE EXISTS (SELECT 1 FROM visits AS q WHERE q.id = p.id AND q.day > p.day"
        " AND q.day <= p.day + 30)",
        "by any conditions beside the privacy units, of another table of the same people too; IN, `= ANY` and `>= ALL` as well",
    ),
    (
        "joins",
        "SELECT j.sector, COUNT(*) FROM people JOIN jobs AS j ON people.job = j.job GROUP BY j.sector",
        "public tables, by key, by an expression of the row, or by a range that one public row meets: "
        "`ON j.low <= age AND age < j.high`; what else ON says is a condition of the pair",
    ),
    ("comma joins", "SELECT COUNT(*) FROM people AS p, jobs AS j WHERE p.job = j.job", "on equality"),
    ("items of lists", "SELECT tag, COUNT(*) FROM people, UNNEST(tags) AS t(tag) GROUP BY tag", "CROSS JOIN too"),
    (
        "one value a group",
        "SELECT job, MAX(job) AS j, COUNT(*) AS n FROM people GROUP BY job",
        "MIN, ANY_VALUE of keys too",
    ),
    (
        "the clock",
        "SELECT COUNT(*) FROM people WHERE joined > CURRENT_DATE - INTERVAL 9999 DAY",
        "NOW() and CURRENT_DATE are read once, at plan, in UTC",
    ),
    ("turned", "PIVOT people ON member USING COUNT(*) GROUP BY job", "of declared values, or of those that IN lists"),
    ("samples", "SELECT COUNT(*) FROM people TABLESAMPLE BERNOULLI (10 PERCENT)", "each unit with that chance"),
    (
        "the most common",
        "SELECT MODE(job) FROM people",
        "a question of its own; by groups, of noisy counts; what is missing is passed over",
    ),
    ("schemas", "SELECT COUNT(*) FROM town.people", "a table is found with its schema and without"),
    (
        "other quotes",
        "SELECT `job`, COUNT(*) FROM `people` GROUP BY `job`",
        "backticks and [brackets] as their dialects have them",
    ),
)


_AROUND = """\
A statement may hold several questions, or compute with their answers: windows, second aggregates, joins of answers, UNION ALL,
ROLLUP, CUBE and GROUPING SETS, QUALIFY, PIVOT, scalar sub-queries, CASE and text of keys and aggregates. Each SELECT that
aggregates a private table is a *private question*; they share the loss equally, or by `weights`, one each, and equal ones are
asked once. They may be about several private tables of one budget. All else runs in DuckDB, over what they released and the
declared public tables, and costs nothing; so a statement of public tables alone is free. A column that is released as it is keeps
its interval; where noisy values choose the rows, the intervals hold for all groups together. One that is computed has one by
[replicates of the noise](intervals.md#columns-computed-around-questions), or says why it has none.
What noise makes impossible, such as the logarithm of a negative count, is missing.

A private question inside another, in WHERE, in a key or within an aggregate, is answered first, and its released value is a
constant of the one around it: a number, a list for IN, or a number for each key (a correlated sub-query that compares one key,
or a join by the one key of a grouped query). Keys, layout and noise of the outer question follow from the range that the
declarations give the value, into which it is clipped, and never from the value.

Over UNION ALL of rows of persons COUNT, SUM and AVG are added up from those of its SELECTs, each a private question; UNION of
persons, and COUNT(DISTINCT person), count each once. Rows that the text writes out, VALUES and SELECT of constants, are joined to
rows of persons where each meets one at most. Lists and series of constant ends, UNNEST([...]) and generate_series, are tables
there, of at most 10,000 rows.

Not read there: RANDOM, other table functions, WITH RECURSIVE, LATERAL, and any correlation but by one key."""
AROUND = (
    "SELECT job, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM people GROUP BY job;",
    "SELECT AVG(n) FROM (SELECT job, COUNT(*) AS n FROM people GROUP BY job) AS t;",
    "SELECT job, member, COUNT(*) AS n FROM people GROUP BY ROLLUP(job, member);",
    "SELECT job, COUNT(*) AS n FROM people GROUP BY job UNION ALL SELECT 'all', COUNT(*) FROM people;",
    "SELECT (SELECT COUNT(*) FROM people WHERE member) * 1.0 / (SELECT COUNT(*) FROM people) AS share;",
    "SELECT job, COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people) GROUP BY job;",
    "SELECT COUNT(*) AS n FROM people AS p WHERE p.age > (SELECT AVG(q.age) FROM people AS q WHERE q.job = p.job);",
    "SELECT COUNT(*) AS n FROM people WHERE job IN (SELECT job FROM people GROUP BY job ORDER BY COUNT(*) DESC LIMIT 2);",
    "SELECT job, COUNT(*) AS n FROM (SELECT job FROM people WHERE member UNION ALL SELECT job FROM people) AS t GROUP BY job;",
    "SELECT b.name, COUNT(*) AS n FROM people JOIN (VALUES (0, 40, 'young'), (40, 200, 'old')) AS b(lo, hi, name)\n"
    "ON age >= b.lo AND age < b.hi GROUP BY b.name;",
)


def page() -> str:
    """Return the page, as Markdown.

    >>> page().splitlines()[0]
    '# SQL: what is read'
    """
    parts = [_HEAD.format(dialects=", ".join(text.DIALECTS))]
    parts += ["## A question", _table(("part", "example", "about it"), ((n, _code(e), a) for n, e, a in CLAUSE_FORMS))]
    parts += ["## Around questions", _AROUND, "\n".join(["```sql", *AROUND, "```"])]
    parts += ["## Aggregates", _forms(AGGREGATE_FORMS, values.AGGREGATES)]
    parts += ["## Values and conditions of a row", _VALUES, _forms(ROW_FORMS, row_forms())]
    parts += ["## Dates and times", _TIMES, _forms(TIME_FORMS, time_functions.FORMS)]
    parts += ["## Other spellings", _SPELLINGS, *(f"- {line}" for line in _spellings())]
    words = ((word, instead) for word, instead in dict(text.CLAUSES.values()).items() if word not in _PARTLY)
    parts += ["## Not read", _NOT_READ, _table(("clause", "instead"), words)]
    return "\n\n".join(_join_lists(parts)) + "\n"


def row_forms() -> set[str]:
    """Return the forms of a row that the translation reads; "Anonymous" by its functions."""
    return {*values.FORMS, *functions.FORMS, "CLIP", "BIN"} - {"Anonymous"}


def _forms(forms: dict[str, tuple[str, str]], read: Iterable[str]) -> str:
    """Return a table of the forms that are read, in the order of their examples."""
    listed = [name for name in forms if name in read] + sorted(set(read) - set(forms))
    rows = (forms.get(name, (name.upper(), "")) for name in listed)
    return _table(("example", "what it is"), ((_code(example), about) for example, about in rows))


def _spellings() -> list[str]:
    """Return what each rewriting says of itself, and the other names of functions."""
    lines = [_first_line(change) for change in dict.fromkeys(dialects.CHANGES.values())]
    named = {other: dialects.WORDS.get(name, other) for other, name in dialects.NAMES.items()}
    return sorted({*lines, *(f"{other} is {name}." for other, name in named.items() if name != other)} - {""})


def _first_line(of: Callable[..., object]) -> str:
    return (inspect.getdoc(of) or "").split("\n")[0]


def _code(example: str) -> str:
    return f"`` {example} ``" if "`" in example else f"`{example}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _join_lists(parts: list[str]) -> list[str]:
    """Return the parts with the items of a list together."""
    joined: list[str] = []
    for part in parts:
        if part.startswith("- ") and joined and joined[-1].startswith("- "):
            joined[-1] += "\n" + part
        else:
            joined.append(part)
    return joined


_HEAD = """\
# SQL: what is read

This page is printed by `sordino sql`, from the tables that the translation uses.

A question is one SELECT of aggregates about one declared table. It is translated, and never reaches an engine as it is
written. The dialect is DuckDB's, or that of whoever quotes names with backticks or [brackets] or writes TOP; `--dialect`,
`sd.sql(text, dialect=...)`, `sd.connect(dialect=...)` and `dialect` under `[project]` in sordino.toml name one of
{dialects}.
Several SELECTs, separated by semicolons, are a batch."""
_VALUES = """\
They stand in WHERE, inside aggregates, in sub-queries and in GROUP BY. What is missing stays missing, and meets no
condition. LEAST and GREATEST never replace a missing value, texts are equal where all of their characters are, and ORDER
BY puts what is missing last, whatever the dialect. Other words mean what they mean in the dialect of the text: `/` of two
whole numbers is cut towards 0 in PostgreSQL, Redshift, SQLite, T-SQL and Trino and keeps its fraction elsewhere,
DAYOFWEEK is 1 on Sunday in BigQuery, MySQL, Spark and T-SQL, CAST to whole numbers rounds towards 0 in Spark, SQLite and
T-SQL, DATEDIFF of weeks counts Mondays in Snowflake and Redshift and sevens of days in DuckDB, LIKE sees no case in
SQLite, REGEXP_LIKE matches all of a text in Snowflake. Those that have no such meaning here are refused with one that
has: a week that begins on Sunday, months that have passed whole, MySQL's LENGTH in bytes. MySQL and SQL Server compare
text without case by default, MySQL also without accents, SQL Server without blanks at the end: here 'a' is never 'A', in
LIKE too, and the notes of a plan and of its answer say so where the dialect is mysql or tsql. Functions of text are for
columns of declared values."""
_TIMES = """\
Days are compared with `DATE '2020-01-31'` or '2020-01-31', moments with `TIMESTAMP '2020-01-31 10:30:00'` or the same in
quotes, also with an offset such as +01:00. What has none is read by the clock of the column's declared zone."""
_SPELLINGS = "They are read as the form on the right, which is priced."
_NOT_READ = """\
MIN, MAX and BOOL_OR are refused, since one row decides them: ask for `QUANTILE_CONT(x, 0.01)` and `QUANTILE_CONT(x, 0.99)`, or
for clipping bounds with `sordino bounds`. Sub-queries in WHERE are of the same people, by EXISTS or IN, of public tables, or of
aggregates, which are answered first. Around rows of persons these clauses are refused:"""
_PARTLY = {"WITH", "DISTINCT", "JOIN", "HAVING", "GROUP BY", "ORDER BY", "LIMIT", "OFFSET", "SAMPLE"}
