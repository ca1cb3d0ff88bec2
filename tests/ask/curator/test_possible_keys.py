"""The keys of a question are those that its rows may have: the groups of DuckDB over all declared cells, and no other."""

from __future__ import annotations

import datetime
import itertools
import random
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from planning import allocation_of
from sordino.ask.curator.possible_keys import PossibleKeys
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.expressions.keys import keys, narrow_keys
from sordino.ask.queries.expressions.nodes import Name

DAY = datetime.date
DAYS = [DAY(2024, 1, 30) + datetime.timedelta(days=i) for i in range(5)]
COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "d": ([0, 1, 2, 3, None], pa.int64()),
    "s": (["a", "b", "ab", None], pa.string()),
    "b": ([True, False, None], pa.bool_()),
    "day": ([*DAYS, None], pa.date32()),
    "x": ([*range(25), None], pa.int64()),
}
ALL = list(itertools.product(*(cells for cells, _ in COLUMNS.values())))
TABLE = pa.table({n: pa.array([r[i] for r in ALL], t) for i, (n, (_, t)) in enumerate(COLUMNS.items())})
STORES = pa.table({"s": ["a", "a", "ab", "z"], "city": ["Oslo", "Bergen", "Oslo", "Oslo"], "size": [3, 900, 17, 4]})
STORE = sd.public(
    STORES,
    key="s",
    max_rows=2,
    columns=sd.Domain(
        {
            "s": sd.Category(["a", "ab", "b", "z"]),
            "city": sd.Category(["Oslo", "Bergen", "Bodo"]),
            "size": sd.Integer(0, 1000),
        }
    ),
)
# Each key with the columns of which a missing cell alone makes it NULL, so that their declaration decides.
KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("d", ("d",)),
    ("s", ("s",)),
    ("b", ("b",)),
    ("day", ("day",)),
    ("x", ("x",)),
    ("d - MOD(d, 2)", ("d",)),
    ("d * d + x", ("d", "x")),
    ("x // 7", ("x",)),
    ("LENGTH(s)", ("s",)),
    ("UPPER(s)", ("s",)),
    ("SUBSTR(s, 1, 1)", ("s",)),
    ("MONTH(day)", ("day",)),
    ("CAST(DATE_TRUNC('month', day) AS DATE)", ("day",)),
    ("day - CAST(d AS INT)", ("day", "d")),
    ("d > 1", ("d",)),
    ("d = x", ("d", "x")),
    ("b IS NULL", ()),
    ("COALESCE(d, 9)", ()),
    ("COALESCE(s, 'none')", ()),
    ("NULLIF(d, 0)", ()),
    ("NULLIF(d, 0) > x", ()),
    ("CASE WHEN d > 1 THEN x END", ()),
    ("CASE WHEN b THEN 'yes' WHEN d > 2 THEN 'many' ELSE 'no' END", ()),
)
JOINED = (("st.city", "inner"), ("st.size", "inner"), ("st.size // 10", "inner"), ("st.city = 'Oslo'", "inner"))
ATOMS = (
    "d > 1",
    "d = 2",
    "d <> 1",
    "d IN (0, 3)",
    "d > 2.5",
    "2 > d",
    "s IN ('a', 'b')",
    "s <> 'a'",
    "s LIKE 'a%'",
    "LENGTH(s) = 2",
    "b",
    "NOT b",
    "b IS NULL",
    "b IS NOT TRUE",
    "d IS NOT NULL",
    "day >= DATE '2024-02-01'",
    "day = DATE '2024-01-31'",
    "day < '2023-01-01'",
    "MONTH(day) = 2",
    "x BETWEEN 3 AND 5",
    "x < d * 5",
    "x + d > 25",
    "NULLIF(d, 0) > 1",
    "COALESCE(d, 9) = 9",
    "CASE WHEN b THEN d ELSE x END = 2",
    "x = 7",
    "1 = 1",
)


def people(rows: pa.Table = TABLE, missing: dict[str, str] | None = None) -> Any:
    """Return a curator of a table of the declared columns."""
    rule = missing or {}
    columns: dict[str, Any] = {
        "d": sd.Integer(0, 3, missing=rule.get("d", "drop")),
        "s": sd.Category(["a", "b", "ab"], missing=rule.get("s", "drop")),
        "b": sd.Boolean(missing=rule.get("b", "drop")),
        "day": sd.Date(DAYS[0], DAYS[-1], missing=rule.get("day", "drop")),
        "x": sd.Integer(0, 24, missing=rule.get("x", "drop")),
    }
    return sd.protect(
        rows,
        name="t",
        domain=sd.Domain(columns),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**9),
        ledger=None,
        rng=sd.Rng.seeded(3),
        public={"store": STORE},
    )


def condition(rng: random.Random, depth: int = 2) -> str:
    """Return a random condition."""
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(ATOMS)
    kind = rng.choice(["AND", "AND", "OR", "NOT"])
    if kind == "NOT":
        return f"NOT ({condition(rng, depth - 1)})"
    return f"({condition(rng, depth - 1)}) {kind} ({condition(rng, depth - 1)})"


def planned(table: Any, text: str) -> list[tuple[Any, ...]]:
    """Return the keys that a question's answer will have."""
    plan = table.plan(sd.sql(text), epsilon=1)
    rows = allocation_of(plan).resolved.key_rows()
    assert plan.rows.count == len(rows)
    return [tuple(map(plain, row)) for row in rows]


def plain(key: Any) -> Any:
    if isinstance(key, datetime.datetime):
        return key.date()
    return float(key) if isinstance(key, (int, float)) and not isinstance(key, bool) else key


@pytest.fixture(scope="module")
def whole() -> duckdb.DuckDBPyConnection:
    """Return DuckDB over a table with every combination of declared cells."""
    connection = duckdb.connect()
    connection.register("t_rows", TABLE)
    connection.register("store_rows", STORES)
    connection.execute("CREATE TABLE t AS SELECT * FROM t_rows")
    connection.execute("CREATE TABLE store AS SELECT * FROM store_rows")
    return connection


@pytest.mark.each(46)
@pytest.mark.parametrize("seed", range(80))
def test_the_keys_are_the_groups_of_a_table_of_all_declared_rows(seed: int, whole: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(seed)
    missing = {name: rng.choice(["drop", "keep"]) for name in COLUMNS}
    chosen = rng.sample(KEYS, rng.choice([1, 1, 2]))
    source = "t"
    if seed % 4 == 0:
        source = rng.choice(["t JOIN store st ON t.s = st.s", "t LEFT JOIN store st ON t.s = st.s"])
        chosen = [(rng.choice(JOINED)[0], ()), *chosen[:1]]
    where = "" if rng.random() < 0.1 else f" WHERE {condition(rng)}"
    where = where.replace("s ", "t.s ").replace("(s)", "(t.s)") if "JOIN" in source else where
    names = [key.replace("(s", "(t.s") if key != "s" else "t.s" for key, _ in chosen]
    listed = ", ".join(f"{key} AS k{i}" for i, key in enumerate(names))
    text = (
        f"SELECT {listed}, COUNT(*) AS n FROM {source}{where} GROUP BY {', '.join(f'k{i}' for i in range(len(names)))}"
    )
    true = {tuple(map(plain, row[:-1])) for row in whole.sql(text).fetchall()}
    for place, (_, columns) in enumerate(chosen):
        if columns and not any(missing[c] == "keep" for c in columns):
            true = {row for row in true if row[place] is not None}
    found = planned(people(missing=missing), text)
    assert len(found) == len(set(found))
    assert set(found) == true, text


ODD = TABLE.slice(0, 1)
SHAPES = (
    "SELECT d, s, COUNT(*) AS n FROM t WHERE d = 1 OR s = 'a' GROUP BY d, s",
    "SELECT st.city, st.size, COUNT(*) AS n FROM t JOIN store st ON t.s = st.s GROUP BY 1, 2",
    "SELECT x // 7 AS k, MEDIAN(x) AS m FROM t WHERE x > 3 GROUP BY 1 ORDER BY m LIMIT 2",
)


@pytest.mark.deep
@pytest.mark.parametrize("text", SHAPES)
def test_the_shape_never_depends_on_private_rows(text: str) -> None:
    plans = [people(rows).plan(sd.sql(text), epsilon=1) for rows in (TABLE, ODD, TABLE.slice(0, 0))]
    assert len({str(plan) for plan in plans}) == 1
    shapes = [people(rows).ask(sd.sql(text), epsilon=1).table.select([0]) for rows in (TABLE, TABLE.slice(0, 0))]
    assert len({len(shape) for shape in shapes}) == 1


VISITS = sd.Domain(
    {
        "person": sd.Identifier(),
        "kind": sd.Category(["new", "old"]),
        "day": sd.Date(DAY(2024, 1, 1), DAY(2024, 12, 31)),
        "n": sd.Integer(0, 9),
    }
)


def visits(rows: int = 3) -> Any:
    """Return a curator of persons' visits."""
    return sd.protect(
        pa.table(
            {
                "person": [f"p{i}" for i in range(rows)],
                "kind": ["new"] * rows,
                "day": [DAY(2024, 5, 1)] * rows,
                "n": [1] * rows,
            },
            schema=pa.schema({"person": pa.string(), "kind": pa.string(), "day": pa.date32(), "n": pa.int64()}),
        ),
        name="visits",
        domain=VISITS,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=2),
        budget=sd.PureDP(100),
        ledger=None,
        rng=sd.Rng.seeded(3),
    )


@pytest.mark.each(8)
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        # Whether a person has such rows is private: it narrows nothing.
        ("SELECT kind, COUNT(*) FROM visits v WHERE person IN (SELECT person FROM visits WHERE kind = 'new') GROUP BY 1",
         [("new",), ("old",)]),
        ("SELECT n, COUNT(*) FROM (SELECT person, LEAST(COUNT(*), 5) AS n FROM visits GROUP BY person) AS q "
         "WHERE n > 2 GROUP BY n", [(3.0,), (4.0,), (5.0,)]),
        # A value that one row of a person has meets the condition on the rows.
        ("SELECT MONTH(first) AS m, COUNT(*) FROM (SELECT person, MIN(day) AS first FROM visits "
         "WHERE day >= DATE '2024-11-03' GROUP BY person) AS q GROUP BY 1", [(11.0,), (12.0,)]),
        ("SELECT first, COUNT(*) FROM (SELECT person, MIN(CASE WHEN kind = 'new' THEN n END) AS first FROM visits "
         "WHERE n < 2 GROUP BY person) AS q GROUP BY 1", [(0.0,), (1.0,), (None,)]),
        ("SELECT least > 3 AS k, COUNT(*) FROM (SELECT person, MIN(n) AS least, MAX(n) AS most FROM visits "
         "WHERE n < 3 GROUP BY person) AS q GROUP BY 1", [(False,)]),
        ("WITH late AS (SELECT * FROM visits WHERE day > DATE '2024-12-29') SELECT day, COUNT(*) FROM late GROUP BY day",
         [(DAY(2024, 12, 30),), (DAY(2024, 12, 31),)]),
        # FILTER chooses rows of one aggregate alone.
        ("SELECT kind, COUNT(*) FILTER (WHERE kind = 'new') AS n FROM visits GROUP BY kind", [("new",), ("old",)]),
        ("SELECT n, COUNT(*) FROM visits WHERE person LIKE 'p%' AND n > 7 GROUP BY n", [(8.0,), (9.0,)]),
        ("SELECT n, COUNT(*) FROM visits WHERE person = 'p1' OR n > 8 GROUP BY n", [(float(i),) for i in range(10)]),
        ("SELECT day, COUNT(*) FROM visits WHERE n > 9 AND kind = 'new' OR day < DATE '2024-01-03' GROUP BY 1",
         [(DAY(2024, 1, 1),), (DAY(2024, 1, 2),)]),
    ],
)  # fmt: skip
def test_keys_of_steps(text: str, keys: list[tuple[Any, ...]]) -> None:
    found = planned(visits(), text)
    assert found == keys
    assert planned(visits(0), text) == keys


def events(zone: str = "UTC") -> Any:
    """Return a curator of moments over five years, to the second."""
    begin, end = datetime.datetime(2020, 1, 1), datetime.datetime(2024, 12, 31, 23, 59, 59)
    columns: dict[str, Any] = {"ts": sd.DateTime(begin, end, zone=zone, resolution="second"), "k": sd.Boolean()}
    return sd.protect(
        pa.table({"ts": pa.array([begin], pa.timestamp("us")), "k": [True]}),
        name="events",
        domain=sd.Domain(columns),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(100),
        ledger=None,
        rng=sd.Rng.seeded(3),
    )


@pytest.mark.deep
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("key", "where", "count"),
    [
        ("CAST(DATE_TRUNC('month', ts) AS DATE)", "TRUE", 60),
        ("DATE_TRUNC('day', ts)", "ts >= TIMESTAMP '2024-12-01 00:00:00'", 31),
        ("DATE_TRUNC('day', ts)", "ts > TIMESTAMP '2024-12-01 23:59:59' AND ts < TIMESTAMP '2024-12-04'", 2),
        ("DATE_TRUNC('hour', ts)", "ts >= TIMESTAMP '2024-12-31' AND HOUR(ts) < 6", 6),
        ("MONTH(ts)", "YEAR(ts) = 2021 AND MONTH(ts) > 10", 2),
        ("STRFTIME(ts, '%Y-%m')", "ts BETWEEN '2022-05-31 23:00:00' AND '2022-06-30'", 2),
        ("CAST(ts AS DATE)", "CAST(ts AS DATE) >= DATE '2024-12-25' OR k AND ts < '2020-01-02'", 8),
    ],
)
def test_moments_of_many_years_are_narrowed_without_listing_them(zone: str, key: str, where: str, count: int) -> None:
    plan = events(zone).plan(
        sd.sql(f"SELECT {key} AS k1, COUNT(*) AS n FROM events WHERE {where} GROUP BY 1"), epsilon=1
    )
    assert plan.rows.count == count
    assert not [note for note in plan.notes if "no row can have" in note]


def test_too_many_combinations_leave_a_superset_and_say_so() -> None:
    plan = events().plan(
        sd.sql(
            "SELECT YEAR(ts) AS y, COUNT(*) AS n FROM events WHERE EPOCH(ts) % 7 = 3 AND YEAR(ts) > 2022 GROUP BY 1"
        ),
        epsilon=1,
    )
    assert plan.rows.count in (2, 5)
    assert [note for note in plan.notes if "no row can have" in note]


@pytest.mark.each(2)
@pytest.mark.parametrize("text", [
    "SELECT d, AVG(x) AS m FROM t WHERE 1 = 0 GROUP BY d",
    "SELECT day, MEDIAN(x) AS m FROM t WHERE d > 7 GROUP BY day",
    "SELECT s, b, STDDEV(x) AS m FROM t WHERE s = 'a' AND s = 'b' GROUP BY s, b HAVING m > 3",
])  # fmt: skip
def test_a_question_without_possible_keys_is_free_and_typed(text: str) -> None:
    table = people()
    release = table.ask(sd.sql(text), epsilon=1)
    known = table.ask(
        sd.sql(text.replace("1 = 0", "1 = 1").replace("d > 7", "d > 0").replace(" AND s = 'b'", "")), epsilon=1
    )
    assert table.spent == sd.PureDP(1)
    assert len(release.table) == 0
    assert release.table.schema.types == known.table.schema.types


def test_only_possible_keys_win() -> None:
    rows = pa.table(
        {"d": [1] * 30 + [2] * 20, "s": ["a"] * 30 + ["b"] * 20, "b": [True] * 50, "day": [DAYS[0]] * 50, "x": [4] * 50}
    )
    table = people(rows)
    least = table.ask(
        sd.sql("SELECT s, COUNT(*) AS n FROM t WHERE s IN ('a', 'b') GROUP BY s ORDER BY n LIMIT 1"), epsilon=1000
    )
    assert least.table.column("s").to_pylist() == ["b"]
    assert "all 2 groups" in " ".join(least.notes)
    listed = table.plan(table.where(sd.col("d") == 1).group_by("s", keys=["b", "ab"]).agg(sd.count()), epsilon=1)
    assert allocation_of(listed).resolved.key_rows() == [("b",), ("ab",)]


def test_a_row_of_a_key_that_was_left_out_takes_no_part() -> None:
    """A choice is of possible values, and cells outside of what is declared are read as declared, so they have such keys."""
    odd = pa.table({"d": [99, -5], "s": ["zzz", "a"], "b": [None, True], "day": [DAY(1999, 1, 1)] * 2, "x": [7, 7]})
    odd = odd.cast(pa.schema({n: t for n, (_, t) in COLUMNS.items()}))
    found = people(odd).ask(sd.sql("SELECT d, COUNT(*) AS n FROM t WHERE d IN (0, 3) GROUP BY d"), epsilon=10**6)
    assert [(k, round(n)) for k, n in zip(*(found.table.column(i).to_pylist() for i in (0, 1)), strict=True)] == [
        (0, 1),
        (3, 1),
    ]


@pytest.mark.parametrize("codes", [(0, 3), tuple(range(0, 40, 2))])
def test_a_code_outside_of_the_possible_ones_has_no_group(codes: tuple[int, ...]) -> None:
    """Whatever a row's cells are, it can make no question fail, and is counted under no key that it does not have."""
    domain = sd.Domain({"n": sd.Integer(0, 39)})
    rows = pa.table({"n": list(range(40))})
    engine = DuckDBEngine(rows, domain=domain, unit=None)
    declared = keys(Name("n"), domain)
    narrowed = narrow_keys(declared, codes)
    compiled = replace(compile_query(as_aggregation(sd.histogram("n")), domain), keys=(narrowed,))
    table = engine.run(compiled.select(engine.primitives))
    found = dict(zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True))
    assert found.pop(None) == 40 - len(codes)
    assert found == dict.fromkeys(range(len(codes)), 1)
    assert narrowed.labels == codes


class _Emptied(dict[str, Any]):
    """What is known, as a thread sees it that another one empties between two looks."""

    def __contains__(self, key: object) -> bool:
        return True


def test_what_is_known_may_be_emptied_by_another_thread() -> None:
    domain = sd.Domain({"c": sd.Category(["a", "b"])})
    question = as_aggregation(
        sd.protect(
            pa.table({"c": ["a"]}),
            domain=domain,
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.PureDP(1),
            ledger=None,
        )
        .where(sd.col("c") == "a")
        .group_by("c")
        .agg(sd.count())
    )
    found = PossibleKeys(domain, {}, _Emptied()).find(
        question.groups, [keys(Name("c"), domain)], question.where, question.steps
    )
    assert found.columns == ((0,),)
