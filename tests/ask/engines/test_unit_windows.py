"""Windows over one person's rows through the real engine: neighbors by brute force, the order of rows, hostile cells."""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask
from ask.engines.test_unit_rows import DAYS, DOMAIN, POOL, SCHEMA, Row, rows
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.per_unit import UnitValues
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.ask.queries.sequences import UnitSequence
from sordino.ask.queries.sql.parse import parse_sql
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.errors import QuestionRefused

UNIT = PrivacyUnit("id", max_rows=3)
BY_DAY = "OVER (PARTITION BY id ORDER BY d)"
QUESTIONS = [
    f"SELECT COUNT(*) FROM (SELECT d - LAG(d) {BY_DAY} AS gap FROM t) u WHERE gap <= 2",
    f"SELECT COUNT(*), SUM(x), COUNT(DISTINCT x) FROM (SELECT x, ROW_NUMBER() {BY_DAY} AS rn FROM t) u WHERE rn <= 2",
    f"SELECT prev, c, COUNT(*) FROM (SELECT c, LAG(c) {BY_DAY} AS prev FROM t) u GROUP BY prev, c",
    f"SELECT f, COUNT(*), SUM(x) FROM (SELECT x, FIRST_VALUE(c) {BY_DAY} AS f FROM t WHERE x > -2) u GROUP BY f",
    f"SELECT SUM(gap), AVG(gap) FROM (SELECT x - LEAD(x, 2, 3) {BY_DAY} AS gap FROM t) u",
    f"SELECT rn, COUNT(*) FROM (SELECT ROW_NUMBER() {BY_DAY} AS rn FROM t) u GROUP BY rn",
    f"SELECT SUM(s), SUM(n) FROM (SELECT SUM(x) {BY_DAY} AS s, COUNT(c) {BY_DAY} AS n FROM t) u",
    "SELECT SUM(s), SUM(n) FROM (SELECT SUM(x) OVER (PARTITION BY id ORDER BY f ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)"
    " AS s, COUNT(*) OVER (PARTITION BY id ORDER BY f ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM t) u",
    "SELECT r, COUNT(*) FROM (SELECT RANK() OVER w AS r, DENSE_RANK() OVER w AS d FROM t WINDOW w AS (PARTITION BY id, t"
    " ORDER BY c DESC NULLS FIRST)) u WHERE d <= 2 GROUP BY r",
    "SELECT m, COUNT(*) FROM (SELECT MIN(d) OVER (PARTITION BY id) AS m FROM t) u GROUP BY m",
    "SELECT SUM(r), MEDIAN(y) FROM (SELECT r, LAST_VALUE(x) OVER (PARTITION BY id ORDER BY r DESC ROWS BETWEEN UNBOUNDED"
    " PRECEDING AND UNBOUNDED FOLLOWING) AS y FROM t) u WHERE y > 0",
    f"SELECT AVG(m) FROM (SELECT id, MAX(gap) AS m FROM (SELECT id, x - LAG(x) {BY_DAY} AS gap FROM t) v GROUP BY id) u",
    # Means, parts, frames by value, names compared with names.
    "SELECT COUNT(*), SUM(m) FROM (SELECT x, AVG(x) OVER (PARTITION BY id) AS m FROM t) u WHERE x > m",
    f"SELECT SUM(m), COUNT(m) FROM (SELECT AVG(r) {BY_DAY} AS m FROM t) u",
    "SELECT SUM(m) FROM (SELECT AVG(x) OVER (PARTITION BY id ORDER BY f ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS m FROM t) u",
    f"SELECT q, COUNT(*), SUM(x) FROM (SELECT x, NTILE(3) {BY_DAY} AS q FROM t) u GROUP BY q",
    "SELECT SUM(s), SUM(n) FROM (SELECT SUM(x) OVER (PARTITION BY id ORDER BY d RANGE BETWEEN INTERVAL 3 DAYS PRECEDING AND"
    " CURRENT ROW) AS s, COUNT(*) OVER (PARTITION BY id ORDER BY x DESC RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS n FROM t"
    ") u",
    f"SELECT COUNT(*) FROM (SELECT c, LAG(c) {BY_DAY} AS p, LAG(id) {BY_DAY} AS i, id FROM t) u WHERE p <> c AND i = id",
    # The nth row, and shares of the rows.
    f"SELECT n, COUNT(*), SUM(y) FROM (SELECT NTH_VALUE(c, 2) {BY_DAY} AS n, NTH_VALUE(x, 3) OVER (PARTITION BY id ORDER BY r"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS y FROM t) u GROUP BY n",
    f"SELECT COUNT(*), SUM(p) FROM (SELECT PERCENT_RANK() {BY_DAY} AS p, CUME_DIST() {BY_DAY} AS q FROM t) u WHERE q > 0.4",
    f"SELECT AVG(q), SUM(p) FROM (SELECT PERCENT_RANK() {BY_DAY} AS p, CUME_DIST() OVER (PARTITION BY id ORDER BY x) AS q"
    " FROM t) u",
    # What the order bounds.
    f"SELECT SUM(gap), AVG(gap) FROM (SELECT d - LAG(d) {BY_DAY} AS gap FROM t) u",
    "SELECT SUM(gap), AVG(gap) FROM (SELECT LEAD(x) OVER (PARTITION BY id ORDER BY x DESC) - x AS gap FROM t) u",
    "SELECT SUM(a), AVG(b) FROM (SELECT d - MIN(d) OVER (PARTITION BY id) AS a, x - MAX(x) OVER (PARTITION BY id) AS b FROM t) u",
    # Values of a person beside its rows.
    "SELECT COUNT(*), SUM(x) FROM t JOIN (SELECT id, MIN(d) AS first FROM t GROUP BY id) f USING (id) WHERE d = first",
    "SELECT n, COUNT(*) FROM t LEFT JOIN (SELECT id, COUNT(*) AS n FROM t WHERE x > 0 GROUP BY id HAVING MAX(x) < 5) f"
    " ON f.id = t.id GROUP BY n",
    "SELECT l, COUNT(*) FROM t JOIN (SELECT id, ARG_MAX(c, x) AS l FROM t GROUP BY id) f ON t.id = f.id GROUP BY l",
    "SELECT AVG(m) FROM (SELECT id, MAX(x) AS m FROM t GROUP BY id) a JOIN (SELECT id, MIN(r) AS least FROM t GROUP BY id) b"
    " USING (id) WHERE least < 1",
    # A table joined with itself, by the person.
    "SELECT COUNT(*), SUM(a.x) FROM t a JOIN t b ON a.id = b.id AND b.d > a.d AND b.x < 4",
    "SELECT a.c, b.c AS other, COUNT(*) FROM t a LEFT JOIN t b ON a.id = b.id WHERE a.x > 0 GROUP BY a.c, b.c",
    # A window over rows that another window chose.
    "SELECT COUNT(*), SUM(y) FROM (SELECT LAG(x) OVER (PARTITION BY id ORDER BY d) AS y FROM (SELECT * FROM t QUALIFY"
    " ROW_NUMBER() OVER (PARTITION BY id ORDER BY d) > 1) v) u",
    f"SELECT COUNT(*) FROM (SELECT k, LAG(t) {BY_DAY} AS b FROM t QUALIFY ROW_NUMBER() {BY_DAY} <= 3) u WHERE b OR k = 7",
]


@functools.cache
def bind(text: str, relation: Relation = "add_remove", unit: PrivacyUnit | None = UNIT) -> Aggregation:
    asked = parse_sql(text, table="t", columns=tuple(DOMAIN))
    neighbors = Neighbors(relation, unit)
    return bind_names(asked, public={}, table="t", domain=DOMAIN, names="resolved", neighbors=neighbors)


@functools.cache
def compile_text(text: str) -> CompiledQuery:
    bound = bind(text)
    return compile_query(bound, step_domain(DOMAIN, bound.steps))


def answers(table: Sequence[Row], texts: Sequence[str]) -> list[Exact]:
    """Return the exact parts of questions from an engine that is opened on the table."""
    engine = DuckDBEngine(pa.Table.from_pylist(list(table), schema=SCHEMA), domain=DOMAIN, unit=UNIT)
    try:
        return [ask(engine, DOMAIN, bind(text)) for text in texts]
    finally:
        engine.close()


# To bind a question takes 50 ms: `make test` holds every second one to its sensitivity, the deep test all.
HALF = 2


@functools.cache
def bound_questions(every: int) -> BoundQuestions:
    empty = SCHEMA.empty_table()
    engine = DuckDBEngine(empty, domain=DOMAIN, unit=UNIT)
    return BoundQuestions(engine, DOMAIN, [bind(text) for text in QUESTIONS[::every]], source=empty)


def exact(table: Sequence[Row], every: int) -> list[Exact]:
    """Return the same of questions that are bound once for all tables."""
    return bound_questions(every).ask(source=pa.Table.from_pylist(list(table), schema=SCHEMA))


def test_the_steps_leave_the_bounds_of_a_unit_as_they_are() -> None:
    """The brute force below goes over both kinds of step, and this is the relation that it is held against."""
    kinds = {type(step) for text in QUESTIONS for step in bind(text).steps}
    assert {UnitSequence, UnitValues} <= kinds
    for text in QUESTIONS:
        for step in bind(text).steps:
            if isinstance(step, (UnitSequence, UnitValues)):
                assert step.neighbors(Neighbors("add_remove", UNIT)) == Neighbors("add_remove", UNIT)


@functools.cache
def sensitivities(text: str, relation: Relation) -> list[Any]:
    """Return how far one unit moves each part of a question that is released with noise."""
    bound = bind(text, relation)
    compiled = compile_query(bound, step_domain(DOMAIN, bound.steps))
    wider = step_neighbors(Neighbors(relation, UNIT), bound.steps)
    return [s for several in compiled.bound(wider).sensitivities for s in several]


# By draw, the tables that are compared: of the first two draws those in which every question moves as far as in all twelve of
# theirs.
ALL = range(6)
FEW = {0: (0, 1), 1: (0, 3, 4)}
DRAWS = [(FEW, HALF), pytest.param(dict.fromkeys(range(16), ALL), 1, marks=pytest.mark.deep)]


@functools.cache
def worlds(seed: int, kept: Sequence[int], every: int) -> list[list[Exact]]:
    """Return what each n-th question says of some tables that differ in the rows of one unit."""
    rng = random.Random(seed)
    others = rows(rng.randrange(0, 7), rng, ids=("v", "w", None))
    pool = rows(rng.randrange(2, 7), rng, ids=("u",))
    if rng.random() < 0.5:
        # All on one day, or on few, so that order is decided by the cells.
        pool = [{**row, "d": rng.choice(DAYS[2:4])} for row in pool]
    sets = [[], pool, pool[:1], pool[1:], [pool[0]] * 3, rng.sample(pool, k=len(pool) // 2)]
    tables = [rng.sample([*others, *own], k=len(others) + len(own)) for own in sets]
    return [exact(tables[number], every) for number in kept]


@pytest.mark.parametrize(("draws", "every"), DRAWS, ids=["2", "16"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_no_unit_moves_an_answer_further_than_stated(
    relation: Relation, draws: Mapping[int, Sequence[int]], every: int
) -> None:
    """Each pair of tables differs in one unit's rows; the exact answers differ by at most each part's sensitivity."""
    reached = 0
    for seed, kept in draws.items():
        found = worlds(seed, kept, every)
        pairs = (
            [(found[0], other) for other in found]
            if relation == "add_remove"
            else list(itertools.combinations(found, 2))
        )
        for i, text in enumerate(QUESTIONS[::every]):
            for (one, other), (j, bounds) in itertools.product(pairs, enumerate(sensitivities(text, relation))):
                moved = [abs(a - b) for a, b in zip(one[i][j], other[i][j], strict=True)]
                assert sum(moved) <= bounds.l1, (text, relation, bounds)
                assert sum(m * m for m in moved) <= bounds.l2_squared, (text, relation, bounds)
                assert max(moved) <= bounds.linf, (text, relation, bounds)
                reached += 0 < sum(moved) == bounds.l1
    assert reached > 0, "some bound is reached"


@pytest.mark.parametrize("every", [HALF, pytest.param(1, marks=pytest.mark.deep)])
def test_the_order_of_rows_is_nothing(every: int) -> None:
    """Rows of one order are told apart by their cells, so none is chosen by where it is stored."""
    rng = random.Random(3)
    table = [{**row, "d": rng.choice(DAYS[1:4])} for row in rows(30, rng, ids=("u", "v", None))]
    table += rng.sample(table, k=6)
    before = exact(table, every)
    rng.shuffle(table)
    assert exact(table, every) == before


def test_a_window_is_taken_before_the_cap_of_rows() -> None:
    day = datetime.date(1999, 12, 30)
    table = [{"id": "u", "x": 1, "d": day + datetime.timedelta(days=n)} for n in range(7)]
    found = answers(table, [QUESTIONS[0], QUESTIONS[1], QUESTIONS[5]])
    # All rows but the first follow a row by a day, and 3 of them count.
    assert found[0] == [[3]]
    assert found[1][0] == [2]
    # Of a unit with 7 rows, 3 count; their numbers are clipped to 3.
    assert sum(found[2][0]) == 3


@pytest.mark.parametrize("every", [HALF, pytest.param(1, marks=pytest.mark.deep)])
def test_extreme_cells_fail_no_window(every: int) -> None:
    names = [name for name in POOL if name not in ("id",)]
    extremes = [{"id": "u", **{name: POOL[name][n % len(POOL[name])] for name in names}} for n in range(40)]
    assert answers(extremes, QUESTIONS[::6]) == exact(extremes, every)[:: 6 // every]
    assert len(exact([], every)) == len(QUESTIONS[::every])


REFUSED = [
    ("SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY d) AS n FROM t) u WHERE n = 1", "PARTITION BY names"),
    (
        "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY c ORDER BY d) AS n FROM t) u WHERE n = 1",
        "PARTITION BY names the privacy unit's column 'id'",
    ),
    (f"SELECT COUNT(*) FROM (SELECT NTILE(0) {BY_DAY} AS n FROM t) u WHERE n = 1", "NTILE takes a number of parts"),
    (
        f"SELECT COUNT(*) FROM (SELECT NTH_VALUE(x, 0) {BY_DAY} AS n FROM t) u WHERE n = 1",
        "NTH_VALUE takes the number of a row",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT NTH_VALUE(x, 2) OVER (PARTITION BY id ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
        " AS n FROM t) u",
        "NTH_VALUE with this frame is not supported",
    ),
    (f"SELECT COUNT(*) FROM (SELECT STDDEV(x) {BY_DAY} AS n FROM t) u WHERE n = 1", "STDDEV OVER one person's rows"),
    (f"SELECT COUNT(*) FROM (SELECT AVG(c) {BY_DAY} AS n FROM t) u WHERE n = 1", "no numbers to compute"),
    (f"SELECT COUNT(*) FROM (SELECT AVG(d) {BY_DAY} AS n FROM t) u", "is a date"),
    (f"SELECT COUNT(*) FROM (SELECT id, LAG(x) {BY_DAY} AS n FROM t) u WHERE id = n", "is no text"),
    ("SELECT COUNT(*) FROM (SELECT LAG(x) OVER (PARTITION BY id) AS n FROM t) u WHERE n = 1", "LAG needs an order"),
    (
        f"SELECT COUNT(*) FROM (SELECT LAST_VALUE(x) {BY_DAY} AS n FROM t) u WHERE n = 1",
        "without a frame is the row itself",
    ),
    (f"SELECT COUNT(*) FROM (SELECT LAG(x, y) {BY_DAY} AS n FROM t) u WHERE n = 1", "LAG takes a number of rows"),
    (f"SELECT COUNT(*) FROM (SELECT FIRST_VALUE(x IGNORE NULLS) {BY_DAY} AS n FROM t) u", "IGNORE NULLS"),
    (f"SELECT COUNT(*) FROM (SELECT COUNT(DISTINCT x) {BY_DAY} AS n FROM t) u", "without DISTINCT"),
    (f"SELECT COUNT(*) FROM (SELECT MIN(c) {BY_DAY} AS n FROM t) u", "no number and no date"),
    ("SELECT COUNT(*) FROM (SELECT LAG(x) OVER w AS n FROM t) u", "there is no window 'w'"),
    (
        "SELECT COUNT(*) FROM (SELECT SUM(x) OVER (PARTITION BY id ORDER BY d RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS n"
        " FROM t) u",
        "a RANGE of d reaches a length of time",
    ),
    (
        "SELECT AVG(n) FROM (SELECT LAG(m) OVER (PARTITION BY id ORDER BY m) AS n FROM (SELECT id, MAX(x) AS m FROM t GROUP BY"
        " id) v) u",
        "take the window first",
    ),
    (f"SELECT SUM(n) FROM (SELECT SUM(free) {BY_DAY} AS n FROM t) u", "lies in"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text[21:70] for text, _ in REFUSED])
def test_a_window_that_is_no_function_of_one_units_rows_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(QuestionRefused, match=words):
        compile_text(text)


@pytest.mark.parametrize("unit", [None, PrivacyUnit(None, max_rows=1)], ids=["rows", "unnamed"])
def test_a_window_is_refused_where_a_row_is_the_unit(unit: PrivacyUnit | None) -> None:
    with pytest.raises(QuestionRefused, match=r"a row would change what its neighbors are"):
        bind(QUESTIONS[0], unit=unit)


def test_a_refusal_of_a_row_as_the_unit_comes_before_the_charge() -> None:
    table = sd.protect(
        pa.Table.from_pylist([{"id": "u", "x": 1}], schema=SCHEMA),
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit="row",
        name="t",
        budget=sd.PureDP(1),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    with pytest.raises(QuestionRefused, match="each row is a unit of its own"):
        table.ask(sd.sql(QUESTIONS[0]), epsilon=1)
    assert table.ledger.spent() == sd.PureDP(0)


def test_a_condition_inside_narrows_the_keys() -> None:
    """What rows met before a window looked at them, their keys meet: a group that no row can have is not shown."""
    table = sd.protect(
        pa.Table.from_pylist([{"id": "u", "x": 1, "c": "a", "d": datetime.date(2000, 1, 1)}] * 2, schema=SCHEMA),
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit=UNIT,
        name="t",
        budget=sd.PureDP(10**7),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    text = f"SELECT c, COUNT(*) AS n FROM (SELECT c, ROW_NUMBER() {BY_DAY} AS rn FROM t WHERE c <> 'b') u WHERE rn = 1 GROUP BY c"
    release: Any = table.ask(sd.sql(text), epsilon=10**6)
    assert sorted(row["c"] for row in release.table.to_pylist()) == ["a", "d"]
