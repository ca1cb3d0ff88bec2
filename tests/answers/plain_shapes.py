"""More shapes of questions beside plain SQL: windows of dates, items of lists, samples."""

from __future__ import annotations

import datetime
import random

from answers.plain_dialects import dialect_question
from answers.plain_pieces import MONTHS, START, Key
from answers.plain_questions import KINDS, Output, Question, Questions, names, select
from answers.town_tables import MOST_MARKS, MOST_TAGS, TAGS

EVERY_KIND = (*KINDS, "dialects", "date windows", "lists", "samples")
FIRST, LAST = datetime.date(2019, 12, 30), datetime.date(2021, 2, 3)  # as declared; the first is a Monday
_MONDAY = "DATE '2000-01-03'"  # from which DuckDB counts buckets of weeks
_WEEKS = tuple(FIRST + datetime.timedelta(7 * i) for i in range((LAST - FIRST).days // 7 + 1))
_FORTNIGHTS = tuple(
    day for day in (FIRST - datetime.timedelta(7), *_WEEKS) if (day - datetime.date(2000, 1, 3)).days % 14 == 0
)
_QUARTERS = tuple(datetime.date(*at, 1) for at in ((2019, 10), (2020, 1), (2020, 4), (2020, 7), (2020, 10), (2021, 1)))
_FIRSTS = tuple(datetime.date(*at, 1) for at in ((2019, 12), *((2020, m) for m in range(1, 13)), (2021, 1), (2021, 2)))
KEYS = (
    Key(
        "TIME_BUCKET(INTERVAL '7 days', joined)",
        f"joined - CAST((joined - {_MONDAY}) % 7 AS INT)",
        (*_WEEKS, None),
        "date32[day]",
    ),
    Key(
        "TIME_BUCKET(INTERVAL '14 days', joined)",
        f"joined - CAST((joined - {_MONDAY}) % 14 AS INT)",
        (*_FORTNIGHTS, None),
        "date32[day]",
    ),
    Key("DATE_TRUNC('week', joined)", "CAST(DATE_TRUNC('week', joined) AS DATE)", (*_WEEKS, None), "date32[day]"),
    Key(
        "DATE_TRUNC('quarter', joined)",
        "CAST(DATE_TRUNC('quarter', joined) AS DATE)",
        (*_QUARTERS, None),
        "date32[day]",
    ),
    Key("DATE_TRUNC('month', joined)", "CAST(DATE_TRUNC('month', joined) AS DATE)", (*_FIRSTS, None), "date32[day]"),
    Key("WEEK(joined)", "CAST(EXTRACT(WEEK FROM joined) AS INT)", (*range(1, 54), None), "int64"),
    Key("QUARTER(joined)", "CAST(EXTRACT(QUARTER FROM joined) AS INT)", (1, 2, 3, 4, None), "int64"),
    Key("STRFTIME(joined, '%Y-%m')", "substr(CAST(joined AS VARCHAR), 1, 7)", (*(f"{m:%Y-%m}" for m in MONTHS), None)),
)
assert MONTHS == _FIRSTS


def draw_question(questions: Questions, kind: str) -> Question:
    """Return a random question of a kind."""
    made = {"dialects": dialect_question, "date windows": _window, "lists": _items, "samples": _sample}
    return made[kind](questions) if kind in made else questions.question(kind)


def _day(rng: random.Random) -> str:
    return f"DATE '{FIRST + datetime.timedelta(rng.randrange(-20, 420))}'"


def _within(rng: random.Random) -> tuple[str, str]:
    """Return a condition on days, and the same in plain SQL."""
    day, other, n = _day(rng), _day(rng), rng.randint(1, 200)
    low, high = sorted((day, other))
    month = f"DATE '{rng.choice(_FIRSTS)}'"
    weeks = f"TRUNC(({day} - joined) / 7.0)"
    years = f"EXTRACT(YEAR FROM {day}) * 12 - EXTRACT(YEAR FROM joined) * 12"
    months = f"{years} + EXTRACT(MONTH FROM {day}) - EXTRACT(MONTH FROM joined)"
    end = "DATE_TRUNC('month', joined) + INTERVAL '1 month' - INTERVAL '1 day'"
    both = (
        f"joined BETWEEN {low} AND {high}", f"joined >= {low} AND joined < {high}", f"NOT joined < {day}",
        f"joined >= {month} AND joined < {month} + INTERVAL '3 months'", f"joined > {day} - INTERVAL '{n} days'",
        f"joined + INTERVAL '1 month' <= {day}", f"{day} - joined < {n}", f"joined IN ({day}, {other}, {month})",
        f"joined >= {day} OR joined IS NULL", f"EXTRACT(ISODOW FROM joined) >= {rng.randint(1, 7)}",
        f"seen >= TIMESTAMP '2024-{rng.randint(1, 12):02}-01 00:00:00' AND seen < TIMESTAMP '2024-11-05 12:30:00'",
        f"DATE_TRUNC('quarter', joined) = DATE '{rng.choice(_QUARTERS)}'",
    )  # fmt: skip
    written = {
        f"DATEDIFF('day', joined, {day}) BETWEEN -9 AND {n}": f"{day} - joined BETWEEN -9 AND {n}",
        f"DATEDIFF('week', joined, {day}) < {n // 5}": f"{weeks} < {n // 5}",
        f"DATEDIFF('month', joined, {day}) = {n % 9}": f"{months} = {n % 9}",
        f"LAST_DAY(joined) <= {day}": f"{end} <= {day}",
        f"DATE_ADD(joined, INTERVAL {n} DAY) > {day}": f"joined + {n} > {day}",
    }
    text = rng.choice([*both, *written])
    return text, written.get(text, text)


def _window(questions: Questions) -> Question:
    """Rows of a window of days, by days that they are put into."""
    rng = questions.rng
    chosen = tuple(rng.sample(KEYS, rng.choice([0, 1, 1, 1])))
    day = _day(rng)
    pool = [
        Output("COUNT(*)", "COUNT(*)", "count"),
        Output("COUNT(joined)", "COUNT(joined)", "count"),
        Output('COUNT(DISTINCT "Person Id")', 'COUNT(DISTINCT "Person Id")', "count"),
        Output("SUM(age)", "SUM(age)", "sum"),
        Output("AVG(level)", "AVG(level)", "mean"),
        Output("AVG(joined)", f"AVG(joined - {START})", "mean", type="date32[day]"),
        Output("MEDIAN(joined)", f"array_agg(joined - {START})", "quantile", type="date32[day]"),
        Output(f"AVG(DATEDIFF('day', joined, {day}))", f"AVG({day} - joined)", "mean"),
    ]
    outputs = tuple(rng.sample(pool, rng.choice([1, 2])))
    conditions = [_within(rng) for _ in range(rng.choice([1, 1, 2]))]
    asked, plain = (" AND ".join(f"({c[i]})" for c in conditions) for i in (0, 1))
    return _finish(questions, "date windows", chosen, outputs, f"people WHERE {asked}", f"people WHERE {plain}")


def _items(questions: Questions) -> Question:
    """Items of one list, or of two."""
    rng = questions.rng
    tag = Key("tag", "tag", (*TAGS, None))
    lists = rng.choice([("tags",), ("marks",), ("tags", "marks")])
    pool = [
        Output("COUNT(*)", "COUNT(*)", "count"),
        Output("SUM(age)", "SUM(age)", "sum"),
        Output("AVG(level)", "AVG(level)", "mean"),
        Output('COUNT(DISTINCT "Person Id")', 'COUNT(DISTINCT "Person Id")', "count"),
    ]
    keys: list[Key] = []
    where = ["age > 40", "NOT member", ""]
    if "tags" in lists:
        pool += [
            Output("COUNT(tag)", "COUNT(tag)", "count"),
            Output("COUNT(DISTINCT tag)", "COUNT(DISTINCT tag)", "count"),
        ]
        keys += [tag, tag]
        where += [f"tag = '{TAGS[0]}'", "tag IS NOT NULL"]
    if "marks" in lists:
        pool += [Output("SUM(mark)", "SUM(mark)", "sum"), Output("AVG(mark)", "AVG(mark)", "mean")]
        pool += [Output("MEDIAN(mark)", "array_agg(mark)", "quantile", type="int64")]
        where += ["mark > 3", "mark + level < 9"]
    chosen = tuple(rng.sample([*keys, Key("member", "member", (False, True, None), "bool")], rng.choice([0, 1])))
    joined = {"tags": ("UNNEST({}tags) AS t(tag)",), "marks": ("UNNEST({}marks) AS m(mark)",)}
    comma = rng.random() < 0.5
    asked = "people" + "".join(
        f", {joined[one][0].format('')}" if comma else f" CROSS JOIN {joined[one][0].format('people.')}"
        for one in lists
    )
    items = {
        "tags": (f"CROSS JOIN UNNEST(p.tags[1:{MOST_TAGS}]) AS t(raw_tag)",
                 f"CASE WHEN raw_tag IN ({', '.join(repr(t) for t in TAGS)}) THEN raw_tag END AS tag"),
        "marks": (f"CROSS JOIN UNNEST(p.marks[1:{MOST_MARKS}]) AS m(raw_mark)",
                  "CASE WHEN raw_mark < 0 THEN 0 WHEN raw_mark > 9 THEN 9 ELSE raw_mark END AS mark"),
    }  # fmt: skip
    cells, sources = ", ".join(items[one][1] for one in lists), " ".join(items[one][0] for one in lists)
    condition = rng.choice(where)
    after = f" WHERE {condition}" if condition else ""
    plain = f"(SELECT p.*, {cells} FROM people AS p {sources}) AS q{after}"
    return _finish(questions, "lists", chosen, tuple(rng.sample(pool, rng.choice([1, 2]))), asked + after, plain)


def _sample(questions: Questions) -> Question:
    """A Poisson sample of the people: all of them, or some, of which plain SQL states the totals of each person."""
    rng = questions.rng
    percent = rng.choice(["100", "10", "25", "50", "90", "62.5"])
    pool = [
        Output("COUNT(*)", "COUNT(*)", "count"),
        Output("COUNT(age)", "COUNT(age)", "count"),
        Output('COUNT(DISTINCT "Person Id")', 'COUNT(DISTINCT "Person Id")', "count"),
        Output("SUM(age)", "SUM(age)", "sum"),
        Output("SUM(balance)", "SUM(balance)", "sum"),
        Output("COUNT_IF(level > 3)", "COUNT(CASE WHEN level > 3 THEN 1 END)", "count"),
    ]
    member = Key("member", "member", (False, True, None), "bool")
    chosen = tuple(rng.sample([member, Key("level", "level", (1, 2, 3, 4, 5), "int64")], rng.choice([0, 0, 1])))
    condition = rng.choice(["", "", " WHERE age > 30", " WHERE job IS NOT NULL"])
    spelled = rng.choice([f"TABLESAMPLE BERNOULLI ({percent} PERCENT)", f"TABLESAMPLE BERNOULLI ({percent}%)"])
    outputs = tuple(rng.sample(pool, rng.choice([1, 2])))
    rate = float(percent) / 100
    plain = f"people{condition}"
    return _finish(questions, "samples", chosen, outputs, f"people {spelled}{condition}", plain, rate=rate)


def _finish(
    questions: Questions, kind: str, keys: tuple[Key, ...], outputs: tuple[Output, ...], asked: str, plain: str, *,
    rate: float = 1.0,
) -> Question:  # fmt: skip
    rng = questions.rng
    made = questions.aliases(len(keys) + len(outputs))
    columns = select(list(zip([k.text for k in keys] + [o.text for o in outputs], made, strict=True)))
    text = f"SELECT {columns} FROM {asked}"
    each = ['"Person Id"'] if rate < 1 else []
    values = [k.plain for k in keys] + [o.plain for o in outputs] + (each or ['COUNT(DISTINCT "Person Id")'])
    groups = f"SELECT {', '.join(values)} FROM {plain}"
    having = order = limit = ""
    if keys:
        spelled = [
            [k.text for k in keys],
            [str(i + 1) for i in range(len(keys))],
            [names(n) for n in made[: len(keys)]],
        ]
        text += " GROUP BY " + ", ".join(rng.choice(spelled))
        if rate == 1:
            _, order, limit = questions.after(keys, outputs, made)
        text += f" ORDER BY {order}" * bool(order) + f" LIMIT {limit}" * bool(limit)
    if keys or each:
        groups += " GROUP BY " + ", ".join([*(k.plain for k in keys), *each])
    return Question(kind, text, groups, tuple(made), keys, outputs, None, having, order, limit, rate=rate)
