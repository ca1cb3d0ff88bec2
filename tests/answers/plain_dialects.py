"""The same questions in the words of other dialects, each written by hand beside plain SQL that DuckDB and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answers.plain_pieces import MONTHS, START, Key
from answers.plain_questions import Output, Question, Questions, names
from answers.town_tables import JOBS

_DOW = "CAST(EXTRACT(DOW FROM joined) AS INT)"
_SEVENTHS = "CAST(TRUNC(age / 7.0) AS INT)"
_LEFT = "DATE '2021-02-03' - joined"
_CUT = "CASE WHEN score < 0 THEN CEIL(score) ELSE FLOOR(score) END"
_SHORT = "CASE EXTRACT(DOW FROM joined) " + " ".join(
    f"WHEN {i} THEN '{name}'" for i, name in enumerate(["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"])
)
_LONG = _SHORT + " END"
for short, rest in zip(
    ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
    ["day", "day", "sday", "nesday", "rsday", "day", "urday"],
    strict=True,
):
    _LONG = _LONG.replace(f"'{short}'", f"'{short}{rest}'")
_SHORT += " END"
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _month(text: str) -> Key:
    return Key(text, "CAST(EXTRACT(MONTH FROM joined) AS INT)", (*range(1, 13), None), "int64")


def _truncated(text: str) -> Key:
    return Key(text, "CAST(DATE_TRUNC('month', joined) AS DATE)", (*MONTHS, None), "date32[day]")


def _written(text: str) -> Key:
    return Key(text, "substr(CAST(joined AS VARCHAR), 1, 7)", (*(f"{m:%Y-%m}" for m in MONTHS), None))


def _day(text: str, first: int) -> Key:
    """Return the key of a week's day, the first of which, a Sunday, has this number."""
    return Key(text, f"{_DOW} + {first}" if first else _DOW, (*range(first, first + 7), None), "int64")


def _from_monday(text: str, first: int) -> Key:
    """Return the key of a week's day, the first of which, a Monday, has this number."""
    return Key(text, f"({_DOW} + 6) % 7 + {first}", (*range(first, first + 7), None), "int64")


def _initial(text: str) -> Key:
    return Key(text, "SUBSTR(job, 1, 1)", (*dict.fromkeys(job[0] for job in JOBS), None))


def _named(text: str, names_of: Sequence[str], plain: str) -> Key:
    return Key(text, plain, (*names_of, None))


@dataclass(frozen=True)
class Dialect:
    """How a dialect says things: quotes, counts under a condition, a quantile, values, keys and conditions with their meaning."""

    quote: str
    count_if: tuple[str, ...]
    quantile: tuple[str, ...]
    values: tuple[tuple[str, str, str], ...]  # text, plain, and whether it is whole
    keys: tuple[Key, ...]
    conditions: tuple[tuple[str, str], ...]
    spreads: tuple[tuple[str, str], ...]
    top: bool = False

    def name(self, word: str) -> str:
        """Return a name in the dialect's quotes."""
        return f"[{word}]" if self.quote == "[" else self.quote + word.replace(self.quote, self.quote * 2) + self.quote


_WITHIN = ("PERCENTILE_CONT({q}) WITHIN GROUP (ORDER BY {x})",)
_N = "CASE WHEN job LIKE 'n%' THEN 1 ELSE 0 END"
_SAMPLES = (("VARIANCE({x})", "VAR_SAMP"), ("STDDEV({x})", "STDDEV_SAMP"), ("VAR_POP({x})", "VAR_POP"))
DIALECTS = {
    "postgres": Dialect(
        '"',
        ("COUNT(*) FILTER (WHERE {c})", "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)"),
        _WITHIN,
        (
            ("DIV(age, 7)", _SEVENTHS, "int"),
            ("DATE '2021-02-03' - joined", _LEFT, "int"),
            ("CHAR_LENGTH(job)", "LENGTH(job)", "int"),
            ("EXTRACT(DOW FROM joined)", _DOW, "int"),
            ("CASE WHEN job ~ '^n' THEN 1 ELSE 0 END", _N, "int"),
            ("age ^ 2", "age * age", "int"),
            ("LOG(age + 1)", "LOG(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
            ("GREATEST(age, 30)", "CASE WHEN age < 30 THEN 30 ELSE age END", "int"),
        ),
        (
            _month("EXTRACT(MONTH FROM joined)"),
            _month("DATE_PART('month', joined)"),
            _truncated("date_trunc('month', joined)"),
            _written("TO_CHAR(joined, 'YYYY-MM')"),
            _day("EXTRACT(DOW FROM joined)", 0),
            _from_monday("EXTRACT(ISODOW FROM joined)", 1),
            _initial("LEFT(job, 1)"),
        ),
        (
            ("job ~ '^n'", "job LIKE 'n%'"),
            ("job ILIKE 'N%'", "job LIKE 'N%' OR job LIKE 'n%'"),
            ("job !~ 'u'", "job NOT LIKE '%u%'"),
            ("joined < DATE '2020-03-01' + INTERVAL '2 months'", "joined < DATE '2020-05-01'"),
        ),
        _SAMPLES,
    ),
    "mysql": Dialect(
        "`",
        ("SUM({c})", "SUM(IF({c}, 1, 0))", "COUNT(CASE WHEN {c} THEN 1 END)"),
        (),
        (
            ("age DIV 7", _SEVENTHS, "int"),
            ("DATEDIFF('2021-02-03', joined)", _LEFT, "int"),
            ("CHAR_LENGTH(job)", "LENGTH(job)", "int"),
            ("DAYOFWEEK(joined)", f"{_DOW} + 1", "int"),
            ("WEEKDAY(joined)", f"({_DOW} + 6) % 7", "int"),
            ("IFNULL(age, 30)", "COALESCE(age, 30)", "int"),
            ("IF(age > 40, age, level)", "CASE WHEN age > 40 THEN age ELSE level END", "int"),
            ("TRUNCATE(score, 0)", _CUT, "real"),
            ("(age - 40) MOD 7", "(age - 40) % 7", "int"),
            ("LOG(age + 1)", "LN(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
            ("POW(age, 2)", "age * age", "int"),
        ),
        (
            _month("MONTH(joined)"),
            _written("DATE_FORMAT(joined, '%Y-%m')"),
            _day("DAYOFWEEK(joined)", 1),
            _from_monday("WEEKDAY(joined)", 0),
            _named("DAYNAME(joined)", _WEEKDAYS, _LONG),
            _initial("LEFT(job, 1)"),
            _initial("SUBSTRING(job, 1, 1)"),
        ),
        (
            ("job REGEXP '^n'", "job LIKE 'n%'"),
            ("job <=> 'nurse'", "job IS NOT DISTINCT FROM 'nurse'"),
            ('job = "nurse"', "job = 'nurse'"),
            ("DATE_ADD(joined, INTERVAL 2 MONTH) < '2020-05-01'", "joined + INTERVAL '2 months' < DATE '2020-05-01'"),
            ("DAYOFWEEK(joined) = 1", f"{_DOW} = 0"),
            (
                "YEAR(joined) = 2020 AND QUARTER(joined) <> 2",
                "EXTRACT(YEAR FROM joined) = 2020 AND EXTRACT(QUARTER FROM joined) <> 2",
            ),
        ),
        (
            ("VARIANCE({x})", "VAR_POP"),
            ("STD({x})", "STDDEV_POP"),
            ("STDDEV({x})", "STDDEV_POP"),
            ("VAR_SAMP({x})", "VAR_SAMP"),
        ),
    ),
    "bigquery": Dialect(
        "`",
        ("COUNTIF({c})", "SUM(IF({c}, 1, 0))"),
        ("APPROX_QUANTILES({x}, 100)[OFFSET({hundredths})]", "APPROX_QUANTILES({x}, 10)[ORDINAL({ordinal})]"),
        (
            ("DIV(age, 7)", _SEVENTHS, "int"),
            ("DATE_DIFF(DATE '2021-02-03', joined, DAY)", _LEFT, "int"),
            ("MOD(age - 40, 7)", "(age - 40) % 7", "int"),
            ("EXTRACT(DAYOFWEEK FROM joined)", f"{_DOW} + 1", "int"),
            ("IFNULL(age, 30)", "COALESCE(age, 30)", "int"),
            ("TRUNC(score)", _CUT, "real"),
            ("SAFE_DIVIDE(age, level - 1)", "CAST(age AS DOUBLE PRECISION) / NULLIF(level - 1, 0)", "real"),
            ("LENGTH(job)", "LENGTH(job)", "int"),
            ("IF(STARTS_WITH(job, 'n'), 1, 0)", _N, "int"),
            ("LOG(age + 1)", "LN(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
        ),
        (
            _month("EXTRACT(MONTH FROM joined)"),
            _written("FORMAT_DATE('%Y-%m', joined)"),
            _truncated("DATE_TRUNC(joined, MONTH)"),
            _day("EXTRACT(DAYOFWEEK FROM joined)", 1),
            _initial("SUBSTR(job, 1, 1)"),
            _initial("LEFT(job, 1)"),
        ),
        (
            ("REGEXP_CONTAINS(job, r'^n')", "job LIKE 'n%'"),
            ("STARTS_WITH(job, 'n')", "job LIKE 'n%'"),
            ('job = "nurse"', "job = 'nurse'"),
            ("joined < DATE_ADD(DATE '2020-03-01', INTERVAL 2 MONTH)", "joined < DATE '2020-05-01'"),
            ("job != 'nurse'", "job <> 'nurse'"),
            ("EXTRACT(DAYOFWEEK FROM joined) IN (1, 7)", f"{_DOW} IN (0, 6)"),
            (
                "DATE_TRUNC(joined, ISOWEEK) = DATE '2020-03-02'",
                "joined BETWEEN DATE '2020-03-02' AND DATE '2020-03-08'",
            ),
        ),
        (("VARIANCE({x})", "VAR_SAMP"), ("STDDEV_POP({x})", "STDDEV_POP")),
    ),
    "snowflake": Dialect(
        '"',
        ("COUNT_IF({c})", "SUM(IFF({c}, 1, 0))"),
        (*_WITHIN, "APPROX_PERCENTILE({x}, {q})"),
        (
            ("DATEDIFF(day, joined, DATE '2021-02-03')", _LEFT, "int"),
            ("MOD(age - 40, 7)", "(age - 40) % 7", "int"),
            ("NVL(age, 30)", "COALESCE(age, 30)", "int"),
            ("DAYOFWEEK(joined)", _DOW, "int"),
            ("DAYOFWEEKISO(joined)", f"({_DOW} + 6) % 7 + 1", "int"),
            ("ZEROIFNULL(score)", "COALESCE(score, 0)", "real"),
            ("IFF(REGEXP_LIKE(job, 'n.*'), 1, 0)", _N, "int"),
            ("IFF(RLIKE(job, 'n'), 1, 0)", "CASE WHEN job = 'n' THEN 1 ELSE 0 END", "int"),
            ("LENGTH(job)", "LENGTH(job)", "int"),
        ),
        (
            _month("MONTH(joined)"),
            _month("DATE_PART('month', joined)"),
            _truncated("DATE_TRUNC('MONTH', joined)"),
            _day("DAYOFWEEK(joined)", 0),
            _from_monday("DAYOFWEEKISO(joined)", 1),
            _named("DAYNAME(joined)", [d[:3] for d in _WEEKDAYS], _SHORT),
            _initial("LEFT(job, 1)"),
        ),
        (
            ("REGEXP_LIKE(job, 'n.*')", "job LIKE 'n%'"),
            ("STARTSWITH(job, 'n')", "job LIKE 'n%'"),
            ("job ILIKE 'N%'", "job LIKE 'N%' OR job LIKE 'n%'"),
            ("DATEADD(month, 2, joined) < '2020-05-01'::DATE", "joined + INTERVAL '2 months' < DATE '2020-05-01'"),
            ("EQUAL_NULL(job, 'nurse')", "job IS NOT DISTINCT FROM 'nurse'"),
        ),
        (("VARIANCE({x})", "VAR_SAMP"), ("STDDEV({x})", "STDDEV_SAMP"), ("VAR_POP({x})", "VAR_POP")),
    ),
    "spark": Dialect(
        "`",
        ("count_if({c})", "COUNT(*) FILTER (WHERE {c})"),
        ("PERCENTILE({x}, {q})", "percentile_approx({x}, {q})"),
        (
            ("age div 7", _SEVENTHS, "int"),
            ("DATEDIFF(DATE '2021-02-03', joined)", _LEFT, "int"),
            ("nvl(age, 30)", "COALESCE(age, 30)", "int"),
            ("dayofweek(joined)", f"{_DOW} + 1", "int"),
            ("weekday(joined)", f"({_DOW} + 6) % 7", "int"),
            ("CAST(score AS INT)", _CUT, "int"),
            ("CAST(age / 10 AS INT)", "CAST(TRUNC(age / 10.0) AS INT)", "int"),
            ("IF(job RLIKE '^n', 1, 0)", _N, "int"),
            ("length(job)", "LENGTH(job)", "int"),
            ("log(age + 1)", "LN(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
        ),
        (
            _month("month(joined)"),
            _month("EXTRACT(MONTH FROM joined)"),
            _truncated("trunc(joined, 'MM')"),
            _written("date_format(joined, 'yyyy-MM')"),
            _day("dayofweek(joined)", 1),
            _from_monday("weekday(joined)", 0),
            _initial("substring(job, 1, 1)"),
        ),
        (
            ("job RLIKE '^n'", "job LIKE 'n%'"),
            ("job <=> 'nurse'", "job IS NOT DISTINCT FROM 'nurse'"),
            ('job = "nurse"', "job = 'nurse'"),
            ("joined < date_add(DATE '2020-03-01', 61)", "joined < DATE '2020-05-01'"),
            ("add_months(joined, 2) < DATE '2020-05-01'", "joined + INTERVAL '2 months' < DATE '2020-05-01'"),
            ("dayofweek(joined) = 1", f"{_DOW} = 0"),
        ),
        (("VARIANCE({x})", "VAR_SAMP"), ("STD({x})", "STDDEV_SAMP"), ("VAR_POP({x})", "VAR_POP")),
    ),
    "tsql": Dialect(
        "[",
        ("SUM(IIF({c}, 1, 0))", "COUNT(CASE WHEN {c} THEN 1 END)"),
        (),
        (
            ("DATEDIFF(day, joined, '2021-02-03')", _LEFT, "int"),
            ("ISNULL(age, 30)", "COALESCE(age, 30)", "int"),
            ("(age - 40) % 7", "(age - 40) % 7", "int"),
            ("DATEPART(weekday, joined)", f"{_DOW} + 1", "int"),
            ("CAST(score AS INT)", _CUT, "int"),
            ("CONVERT(INT, score)", _CUT, "int"),
            ("ROUND(score, 0, 1)", _CUT, "real"),
            ("LEN(job)", "LENGTH(job)", "int"),
            ("LOG(age + 1)", "LN(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
            ("POWER(age, 2)", "age * age", "int"),
        ),
        (
            _month("MONTH(joined)"),
            _month("DATEPART(month, joined)"),
            _day("DATEPART(dw, joined)", 1),
            _named("DATENAME(weekday, joined)", _WEEKDAYS, _LONG),
            _initial("LEFT(job, 1)"),
            _initial("SUBSTRING(job, 1, 1)"),
        ),
        (
            ("LEFT(job, 1) = 'n'", "job LIKE 'n%'"),
            ("DATEADD(month, 2, joined) < '2020-05-01'", "joined + INTERVAL '2 months' < DATE '2020-05-01'"),
            ("YEAR(joined) = 2020", "EXTRACT(YEAR FROM joined) = 2020"),
            ("job <> 'nurse'", "job <> 'nurse'"),
        ),
        (
            ("VAR({x})", "VAR_SAMP"),
            ("STDEV({x})", "STDDEV_SAMP"),
            ("VARP({x})", "VAR_POP"),
            ("STDEVP({x})", "STDDEV_POP"),
        ),
        top=True,
    ),
    "trino": Dialect(
        '"',
        ("COUNT_IF({c})", "COUNT(*) FILTER (WHERE {c})"),
        ("APPROX_PERCENTILE({x}, {q})",),
        (
            ("DATE_DIFF('day', joined, DATE '2021-02-03')", _LEFT, "int"),
            ("MOD(age - 40, 7)", "(age - 40) % 7", "int"),
            ("COALESCE(age, 30)", "COALESCE(age, 30)", "int"),
            ("day_of_week(joined)", f"({_DOW} + 6) % 7 + 1", "int"),
            ("IF(regexp_like(job, '^n'), 1, 0)", _N, "int"),
            ("LENGTH(job)", "LENGTH(job)", "int"),
        ),
        (
            _month("month(joined)"),
            _truncated("date_trunc('month', joined)"),
            _written("date_format(joined, '%Y-%m')"),
            _from_monday("dow(joined)", 1),
            _from_monday("EXTRACT(DOW FROM joined)", 1),
            _initial("SUBSTR(job, 1, 1)"),
        ),
        (
            ("regexp_like(job, '^n')", "job LIKE 'n%'"),
            ("job IS DISTINCT FROM 'nurse'", "job IS DISTINCT FROM 'nurse'"),
            ("joined < date_add('month', 2, DATE '2020-03-01')", "joined < DATE '2020-05-01'"),
            ("day_of_week(joined) = 7", f"{_DOW} = 0"),
        ),
        (("VARIANCE({x})", "VAR_SAMP"), ("VAR_POP({x})", "VAR_POP")),
    ),
    "redshift": Dialect(
        '"',
        ("SUM(CASE WHEN {c} THEN 1 ELSE 0 END)",),
        _WITHIN,
        (
            ("DATEDIFF(day, joined, DATE '2021-02-03')", _LEFT, "int"),
            ("NVL(age, 30)", "COALESCE(age, 30)", "int"),
            ("LEN(job)", "LENGTH(job)", "int"),
            ("MOD(age - 40, 7)", "(age - 40) % 7", "int"),
            ("DATE_PART(dow, joined)", _DOW, "int"),
        ),
        (
            _month("EXTRACT(MONTH FROM joined)"),
            _month("DATE_PART(month, joined)"),
            _truncated("DATE_TRUNC('month', joined)"),
            _day("EXTRACT(DOW FROM joined)", 0),
            _written("TO_CHAR(joined, 'YYYY-MM')"),
            _initial("LEFT(job, 1)"),
        ),
        (
            ("job ~ '^n'", "job LIKE 'n%'"),
            ("DATEADD(month, 2, joined) < '2020-05-01'", "joined + INTERVAL '2 months' < DATE '2020-05-01'"),
        ),
        _SAMPLES,
    ),
    "sqlite": Dialect(
        '"',
        ("COUNT(*) FILTER (WHERE {c})", "SUM(IIF({c}, 1, 0))"),
        (),
        (
            ("CAST(score AS INTEGER)", _CUT, "int"),
            ("IFNULL(age, 30)", "COALESCE(age, 30)", "int"),
            ("LENGTH(job)", "LENGTH(job)", "int"),
            ("(age - 40) % 7", "(age - 40) % 7", "int"),
        ),
        (_written("strftime('%Y-%m', joined)"), _initial("SUBSTR(job, 1, 1)")),
        (("job IS 'nurse'", "job IS NOT DISTINCT FROM 'nurse'"), ("job LIKE 'N%'", "job LIKE 'N%' OR job LIKE 'n%'")),
        (),
    ),
}
_COMMON = (  # what all say alike
    ("age > 40", "age > 40"),
    ("age BETWEEN 18 AND 65", "age BETWEEN 18 AND 65"),
    ("job IN ('nurse', '-1')", "job IN ('nurse', '-1')"),
    ("member IS NULL OR level = 2", "member IS NULL OR level = 2"),
    ("NOT (age < 30)", "NOT (age < 30)"),
    ("joined >= '2020-06-15'", "joined >= DATE '2020-06-15'"),
)


def dialect_question(questions: Questions) -> Question:
    """Return a random question in the words of a dialect."""
    rng = questions.rng
    name = rng.choice(list(DIALECTS))
    of = DIALECTS[name]
    keys = tuple(rng.sample([*of.keys, Key("level", "level", (1, 2, 3, 4, 5), "int64")], rng.choice([0, 1, 1])))
    outputs = tuple({o.text: o for o in (_output(questions, of) for _ in range(rng.choice([1, 1, 2])))}.values())
    made = questions.aliases(len(keys) + len(outputs))
    written = [of.name(n) for n in made]
    columns = ", ".join(
        f"{t} AS {n}" for t, n in zip([k.text for k in keys] + [o.text for o in outputs], written, strict=True)
    )
    asked, plain = rng.choice([("", ""), *of.conditions, *_COMMON])
    _, order, limit = questions.after(keys, outputs, made) if keys else ("", "", "")
    limit, top = limit.partition(" ")[0], of.top
    text = (
        f"SELECT {f'TOP {limit} ' if top and limit else ''}{columns} FROM {of.name('people')}"
        + f" WHERE {asked}" * bool(asked)
    )
    if keys:
        text += " GROUP BY " + ", ".join(k.text for k in keys) if rng.random() < 0.5 else " GROUP BY 1"
    if order:
        text += " ORDER BY " + ", ".join(_in_quotes(of, term, made) for term in order.split(", "))
    text += f" LIMIT {limit}" * bool(limit and not top)
    values = [k.plain for k in keys] + [o.plain for o in outputs] + ['COUNT(DISTINCT "Person Id")']
    groups = f"SELECT {', '.join(values)} FROM people" + f" WHERE {plain}" * bool(plain)
    groups += " GROUP BY " + ", ".join(k.plain for k in keys) if keys else ""
    return Question("dialects", text, groups, tuple(made), keys, outputs, None, "", order, limit, dialect=name)


def _output(questions: Questions, of: Dialect) -> Output:
    rng = questions.rng
    x, plain, whole = rng.choice(of.values)
    condition, met = rng.choice([*of.conditions, *_COMMON])
    percent = rng.choice([10, 20, 50, 90])
    form = rng.choice(of.count_if).format(c=condition)
    pool = [
        Output("COUNT(*)", "COUNT(*)", "count"),
        Output(form, f"COUNT(CASE WHEN {met} THEN 1 END)", "count"),
        Output(f"SUM({x})", f"SUM({plain})", "sum"),
        Output(f"AVG({x})", f"AVG({plain})", "mean"),
        Output(f"COUNT({x})", f"COUNT({plain})", "count"),
        Output("AVG(joined)", f"AVG(joined - {START})", "mean", type="date32[day]"),
    ]
    if of.quantile:
        said = rng.choice(of.quantile).format(x=x, q=percent / 100, hundredths=percent, ordinal=percent // 10 + 1)
        pool.append(Output(said, f"array_agg({plain})", "quantile", percent / 100, "int64" if whole == "int" else ""))
    if of.spreads:
        said, function = rng.choice(of.spreads)
        pool.append(Output(said.format(x=x), f"{function}({plain})", "spread"))
    return rng.choice(pool)


def _in_quotes(of: Dialect, term: str, made: Sequence[str]) -> str:
    """Return a term of ORDER BY, which is in double quotes, in the dialect's."""
    name = next(n for n in made if term.startswith(names(n)))
    return of.name(name) + term.removeprefix(names(name))
