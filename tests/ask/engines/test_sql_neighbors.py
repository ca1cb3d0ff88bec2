"""Forms of SQL through the real engine: how far one unit, changed in all private tables at once, moves each of its parts.

Two private tables of the same people lie beside public ones. Every pair of neighbors among some tables is compared, for texts
of each form that makes rows, cells or numbers of a person: joins by what is computed, conditions on other tables, functions
of a row, sums of different values, values of a person.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask
from ask.engines.test_unit_rows import DAYS, DOMAIN, SCHEMA, Row, rows
from sordino.ask.curator.plan import TableContext
from sordino.ask.curator.question_reading import read_question, read_statement_question
from sordino.ask.curator.statement_procedure import StatementQuestion
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.public import public_cells
from sordino.ask.engines.sql_text import people_name
from sordino.ask.engines.table_layout import PeopleTable
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.joins import Matched
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.ask.queries.same_people import UnitMark
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.source import PrivateTable
from sordino.errors import QuestionRefused

UNITS = {"t": PrivacyUnit("id", max_rows=3, of="person"), "p": PrivacyUnit("who", max_rows=2, of="person")}
PERSON = sd.Domain({"who": sd.Identifier(), "m": sd.Integer(0, 5), "g": sd.Category(["b", "a"], missing="keep")})
PERSON_SCHEMA = pa.schema([("who", pa.string()), ("m", pa.int64()), ("g", pa.string())])
BANDS = pa.table(
    {
        "low": [-4, 0, 2, None, 5],
        "high": [0, 2, 4, 9, None],
        "name": ["low", "mid", "top", "none", "open"],
        "first": [datetime.date(1999, 12, 30), datetime.date(2000, 1, 1), datetime.date(2000, 1, 3), None, None],
        "last": [datetime.date(1999, 12, 31), datetime.date(2000, 1, 2), datetime.date(2000, 1, 9), None, None],
    }
)
PUBLIC = {
    "bands": sd.public(
        BANDS,
        key="name",
        columns=sd.Domain(
            {
                "low": sd.Integer(-9, 9),
                "high": sd.Integer(-9, 9),
                "name": sd.Category(["low", "mid", "top", "none", "open"]),
                "first": sd.Date("1999-01-01", "2001-01-01"),
                "last": sd.Date("1999-01-01", "2001-01-01"),
            }
        ),
    ),
    "letters": sd.public(
        pa.table({"letter": ["A", "B", "A", "D"], "weight": [1, 2, 4, 8]}),
        key="letter",
        max_rows=2,
        columns=sd.Domain({"letter": sd.Category(["A", "B", "D"]), "weight": sd.Integer(0, 9)}),
    ),
    "rates": sd.public(
        pa.table({"c": ["a", "a", "b", "b"], "low": [0, 2, 0, 1], "high": [2, 6, 1, 3], "rate": [1, 2, 3, 4]}),
        key=("c", "low"),
        columns=sd.Domain(
            {
                "c": sd.Category(["a", "b", "z"]),
                "low": sd.Integer(0, 9),
                "high": sd.Integer(0, 9),
                "rate": sd.Integer(0, 9),
            }
        ),
    ),
}
JOINS = [
    "SELECT b.name, COUNT(*), SUM(t.x) FROM t JOIN bands b ON b.low <= t.x AND t.x < b.high GROUP BY b.name",
    "SELECT b.name, COUNT(*), SUM(t.x) FROM t LEFT JOIN bands b ON t.d BETWEEN b.first AND b.last GROUP BY b.name",
    "SELECT b.name, COUNT(*) FROM t JOIN bands b ON b.name = CASE WHEN t.x < 1 THEN 'low' WHEN t.t THEN 'top' END GROUP BY 1",
    "SELECT l.letter, COUNT(*), SUM(l.weight) FROM t JOIN letters l ON l.letter = UPPER(t.c) GROUP BY l.letter",
    "SELECT COUNT(*), SUM(r.rate) FROM t JOIN rates r ON r.c = t.c AND t.f >= r.low AND t.f < r.high",
    "SELECT r.rate, COUNT(*), SUM(t.x) FROM t LEFT JOIN rates r ON r.c = t.c AND t.f >= r.low AND t.f < r.high AND t.t"
    " GROUP BY 1",
    "SELECT r.rate, COUNT(*) FROM t LEFT JOIN rates r ON r.c = t.c AND r.low = t.x - 1 AND r.high > t.f GROUP BY r.rate",
    "SELECT COUNT(*), SUM(b.low * t.x) FROM t JOIN bands b ON t.x BETWEEN b.low AND b.high - 1 AND b.low + t.f > 0",
    "SELECT b.name, COUNT(*), SUM(t.x) FROM t, bands b WHERE t.f > 0 AND b.low <= t.x AND t.x < b.high GROUP BY b.name",
    "SELECT l.letter, COUNT(*), SUM(l.weight) FROM t CROSS JOIN letters l WHERE UPPER(t.c) = l.letter GROUP BY l.letter",
]
PERSONS = [
    "SELECT COUNT(*), SUM(x) FROM t WHERE id IN (SELECT who FROM p GROUP BY who HAVING COUNT(*) > 1)",
    "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.who = t.id AND p.who IN (SELECT id FROM t WHERE x > 0))",
    "SELECT c, COUNT(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM p JOIN t b ON b.id = p.who WHERE p.who = a.id AND b.f < p.m)"
    " GROUP BY c",
    "SELECT COUNT(*), SUM(x) FROM t WHERE id IN (SELECT id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY d) > 1)",
    "SELECT COUNT(*) FROM t WHERE id IN (SELECT who FROM p UNION SELECT id FROM t JOIN bands b ON b.low <= x AND x < b.high"
    " EXCEPT SELECT who FROM p WHERE m > 3)",
    "SELECT AVG(s) FROM (SELECT id, SUM(x) AS s FROM t WHERE id IN (SELECT DISTINCT who FROM p) GROUP BY id) u",
    # Compared with the row around them.
    "SELECT COUNT(*), SUM(x) FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.who = t.id AND p.m > t.f)",
    "SELECT c, COUNT(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.id = a.id AND b.x <> a.x AND b.f > 0) GROUP BY c",
    "SELECT COUNT(*), SUM(x) FROM t a WHERE d = (SELECT MIN(b.d) FROM t b WHERE b.id = a.id AND b.x > 0)",
    "SELECT n, COUNT(*) FROM (SELECT (SELECT COUNT(*) FROM p WHERE p.who = t.id) AS n FROM t) u GROUP BY n",
    "SELECT COUNT(*) FROM (SELECT id FROM t WHERE x > 0 INTERSECT SELECT who FROM p EXCEPT SELECT id FROM t WHERE f > 3) u",
    "SELECT COUNT(*) FROM (SELECT id FROM t WHERE x > 2 UNION SELECT id FROM t WHERE f < 1) u",
    # By several comparisons, of other columns than the units too.
    "SELECT c, COUNT(*), SUM(x) FROM t a WHERE EXISTS (SELECT 1 FROM p WHERE p.who = a.id AND p.m > a.f"
    " AND p.m < a.x + 3) GROUP BY c",
    "SELECT COUNT(*), SUM(x) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.id = a.id AND b.c = a.c AND b.d < a.d)",
    "SELECT c, COUNT(*) FROM t a WHERE x >= ALL (SELECT b.x FROM t b WHERE b.id = a.id) GROUP BY c",
    "SELECT COUNT(*), SUM(f) FROM t a WHERE c IN (SELECT p.g FROM p WHERE p.who = a.id)"
    " OR x > ANY (SELECT m FROM p WHERE who = a.id)",
    "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM t a WHERE c NOT IN (SELECT b.c FROM t b WHERE b.id = a.id"
    " AND b.t) GROUP BY id) u",
    "SELECT b.name, COUNT(*) FROM t JOIN bands b ON b.low <= t.x AND t.x < b.high "
    "WHERE EXISTS (SELECT 1 FROM p WHERE p.who = t.id AND p.m = b.low) GROUP BY b.name",
    "SELECT COUNT(*), SUM(s) FROM (SELECT id, SUM(x) AS s FROM t GROUP BY id) u WHERE EXISTS (SELECT 1 FROM p WHERE p.who = u.id"
    " AND p.m > u.s AND p.m < u.s + 4)",
    # Of a person, whether it is elsewhere.
    "SELECT k, COUNT(*), SUM(s) FROM (SELECT id, id IN (SELECT who FROM p) AS k, SUM(x) AS s FROM t GROUP BY id) u GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT id, id IN (SELECT who FROM p WHERE m > 1) AS k, COUNT(*) AS n FROM t GROUP BY id) u"
    " WHERE k AND n > 1",
    # The public table first: its rows without a match are declared keys.
    "SELECT l.letter, COUNT(t.x), SUM(t.f) FROM letters l LEFT JOIN t ON l.letter = UPPER(t.c) AND t.f > 0 GROUP BY l.letter",
]
ROWS = [
    "SELECT c LIKE 'a%' ESCAPE '$' AS k, COUNT(*), SUM(x) FROM t WHERE c NOT LIKE '$_' ESCAPE '$' GROUP BY 1",
    "SELECT STRPOS(c, 'b') AS k, COUNT(*), SUM(STRPOS(c, 'd')) FROM t GROUP BY 1",
    "SELECT COUNT(*), SUM(x) FROM t WHERE c SIMILAR TO '(a|b)' OR POSITION('d' IN c) = 1",
    "SELECT EXTRACT(YEAR FROM AGE(DATE '2001-01-02', d)) AS k, COUNT(*) FROM t GROUP BY 1",
    "SELECT MAKE_DATE(YEAR(d), MONTH(d), 1) AS k, COUNT(*), SUM(x) FROM t WHERE d < TO_DATE('2000-01-04', 'YYYY-MM-DD')"
    " GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT DISTINCT c, t FROM t) u",
    "SELECT COUNT(DISTINCT (x, x)) FROM t",
    "SELECT SUM(DISTINCT x), AVG(DISTINCT x) FROM t WHERE t",
    "SELECT c || '-' || f AS k, COUNT(*), SUM(LEAST(x, f)) FROM t WHERE (c, f) >= ('a', 1) GROUP BY 1",
    "SELECT COUNT(*), AVG(n) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id) u",
    "SELECT n, COUNT(*) FROM (SELECT id, COUNT(x) AS n FROM t WHERE f > 0 GROUP BY id) u GROUP BY n",
    "SELECT VARIANCE(DISTINCT x), STDDEV_POP(DISTINCT f) FROM t WHERE t",
    "SELECT AVG(m), SUM(v) FROM (SELECT id, MEDIAN(x) AS m, VARIANCE(x) AS v FROM t GROUP BY id) u",
    "SELECT m, COUNT(*), SUM(s) FROM (SELECT id, MODE(c) AS m, STDDEV_POP(f) AS s FROM t GROUP BY id) u GROUP BY m",
    "SELECT SUM(s) FROM (SELECT id, SUM(x) AS s, MAX(d) - MIN(d) AS span FROM t GROUP BY id) u WHERE span > 1",
]
# Statements whose private questions are of one table: each of these is held to its own sensitivity, and their losses add up.
STATEMENTS = [
    "SELECT c, COUNT(*), SUM(v) FROM (SELECT c, x AS v FROM t WHERE f > 1 UNION ALL SELECT c, -f FROM t WHERE t) u GROUP BY c",
    "SELECT COUNT(*) FROM (SELECT id FROM t WHERE x > 1 UNION SELECT id FROM t WHERE EXISTS (SELECT 1 FROM p WHERE who = id)) u",
    "SELECT b.n, COUNT(*), SUM(x) FROM t JOIN (VALUES (0, 3, 'a'), (3, 9, 'b')) b(lo, hi, n) ON x >= lo AND x < hi GROUP BY b.n",
    "SELECT c, MODE(x) FROM t GROUP BY ROLLUP (c)",
]
PUBLIC_ROWS = public_cells(PUBLIC)


def context(relation: Relation) -> TableContext:
    other = PrivateTable(PERSON, Neighbors(relation, UNITS["p"]), {})
    return TableContext(
        "t",
        DOMAIN,
        Neighbors(relation, UNITS["t"]),
        sd.PureDP(1),
        "",
        public=PUBLIC,
        private={"p": other},
        public_rows=PUBLIC_ROWS,
    )


def blocks(text: str) -> list[str]:
    """Return the private questions of a statement, as texts."""
    asked = read_statement_question(sd.sql(text), context("add_remove"))
    assert isinstance(asked, StatementQuestion)
    return [
        block
        for block, question in zip(asked.statement.blocks, asked.blocks, strict=True)
        if isinstance(question, Aggregation) and question.aggregates
    ]


@functools.cache
def bind(text: str, relation: Relation = "add_remove") -> Aggregation:
    asked = read_question(sd.sql(text), context(relation))
    assert isinstance(asked, Aggregation)
    return asked


TEXTS = [*JOINS, *PERSONS, *ROWS, *(text for statement in STATEMENTS for text in blocks(statement))]


def tables(here: list[Row], there: list[Row]) -> tuple[pa.Table, pa.Table]:
    return pa.Table.from_pylist(here, schema=SCHEMA), pa.Table.from_pylist(there, schema=PERSON_SCHEMA)


def engine_on(own: pa.Table, other: pa.Table) -> DuckDBEngine:
    people = {"t": PeopleTable(own, DOMAIN, UNITS["t"]), "p": PeopleTable(other, PERSON, UNITS["p"])}
    return DuckDBEngine(own, domain=DOMAIN, unit=UNITS["t"], public=PUBLIC_ROWS, people=people, reads=["t", "p"])


# To bind a text takes 60 ms: `make test` holds one in three to its sensitivity, of each kind of step, the deep test all.
THIRD = 3


@functools.cache
def bound_questions(every: int) -> BoundQuestions:
    own, other = tables([], [])
    views = {"source": own, people_name("t"): own, people_name("p"): other}
    return BoundQuestions(engine_on(own, other), DOMAIN, [bind(text) for text in TEXTS[::every]], **views)


def answers(here: list[Row], there: list[Row], every: int) -> list[Exact]:
    """Return the exact parts of each n-th text, in its own units."""
    own, other = tables(here, there)
    return bound_questions(every).ask(**{"source": own, people_name("t"): own, people_name("p"): other})


def persons(count: int, rng: random.Random, ids: tuple[Any, ...]) -> list[Row]:
    cells = ([None, -1, 0, 2, 4, 9], [None, "a", "b", "q"])
    return [{"who": rng.choice(ids), "m": rng.choice(cells[0]), "g": rng.choice(cells[1])} for _ in range(count)]


@functools.cache
def worlds(seed: int, kept: Sequence[int], every: int) -> list[list[Exact]]:
    """Return what each n-th text says of some pairs of tables that differ in the rows of one unit, in both."""
    rng = random.Random(seed)
    others = rows(rng.randrange(0, 7), rng, ids=("v", "w", None)), persons(4, rng, ("v", "w", None))
    pool = rows(rng.randrange(2, 7), rng, ids=("u",))
    if rng.random() < 0.5:
        pool = [{**row, "d": rng.choice(DAYS[2:4]), "c": "a", "t": True} for row in pool]
    sets: list[list[Row]] = [[], pool, pool[:1], pool[1:], [pool[0]] * 3, rng.sample(pool, k=len(pool) // 2)]
    there = [[], [], *(persons(rng.randrange(0, 4), rng, ("u",)) for _ in range(4))]
    pairs = []
    for own, here in zip(sets, there, strict=True):
        both = ([*others[0], *own], [*others[1], *here])
        one, other = (rng.sample(table, k=len(table)) for table in both)
        pairs.append((one, other))
    return [answers(one, other, every) for one, other in (pairs[number] for number in kept)]


@functools.cache
def sensitivities(text: str, relation: Relation) -> list[Any]:
    asked = bind(text, relation)
    compiled = compile_query(asked, step_domain(DOMAIN, asked.steps))
    wider = step_neighbors(Neighbors(relation, UNITS["t"]), asked.steps)
    return [moved for several in compiled.bound(wider).sensitivities for moved in several]


# By draw, the tables that are compared: of two draws those in which each text moves as far as in all twelve of theirs.
ALL = range(6)
FEW = {0: (0, 1, 4, 5), 7: (0, 3)}
DRAWS = [(FEW, THIRD), pytest.param(dict.fromkeys(range(10), ALL), 1, marks=pytest.mark.deep)]


@pytest.mark.parametrize(("draws", "every"), DRAWS, ids=["two", "many"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_no_unit_moves_a_part_further_than_stated(
    relation: Relation, draws: Mapping[int, Sequence[int]], every: int
) -> None:
    reached = dict.fromkeys(TEXTS[::every], Fraction(0))
    for (seed, kept), (i, text) in itertools.product(draws.items(), enumerate(TEXTS[::every])):
        found = [answer[i] for answer in worlds(seed, kept, every)]
        pairs = [(found[0], other) for other in found]
        if relation == "replace":
            pairs = list(itertools.combinations(found, 2))
        for (one, other), (j, bounds) in itertools.product(pairs, enumerate(sensitivities(text, relation))):
            moved = [abs(a - b) for a, b in zip(one[j], other[j], strict=True)]
            assert sum(moved) <= bounds.l1, (text, relation, bounds)
            assert sum(m * m for m in moved) <= bounds.l2_squared, (text, relation, bounds)
            assert max(moved, default=0) <= bounds.linf, (text, relation, bounds)
            assert sum(1 for m in moved if m) <= bounds.l0, (text, relation, bounds)
            reached[text] = max(reached[text], sum(moved, Fraction(0)) / bounds.l1)
    assert max(reached.values()) == 1, "some bound is reached"
    assert all(reached.values()), [text for text, share in reached.items() if not share]


def test_some_texts_search_public_rows_and_some_read_rows_made_in_steps() -> None:
    steps = [step for text in TEXTS for step in bind(text).steps]
    assert sum(isinstance(getattr(step, "matched", None), Matched) for step in steps) >= 4
    assert sum(isinstance(step, UnitMark) and bool(step.steps) for step in steps) >= 5


@pytest.mark.parametrize("every", [THIRD, pytest.param(1, marks=pytest.mark.deep)])
def test_where_rows_are_stored_is_nothing(every: int) -> None:
    rng = random.Random(4)
    here = rows(20, rng, ids=("u", "v", None))
    there = persons(8, rng, ("u", "v", None))
    found = answers(here, there, every)
    rng.shuffle(here)
    rng.shuffle(there)
    assert answers(here, there, every) == found
    engine = engine_on(*tables(here, there))
    # As users ask: DuckDB binds each text anew.
    assert [ask(engine, DOMAIN, bind(text)) for text in TEXTS[::9]] == found[:: 9 // every]
    engine.close()


REFUSED = [
    (
        "SELECT COUNT(*) FROM t JOIN bands b ON b.low <= t.x AND t.x <= b.high",
        "two rows of bands, those of low and of mid",
    ),
    ("SELECT COUNT(*) FROM t JOIN bands b ON b.low <= t.x", "two rows of bands"),
    (
        "SELECT COUNT(*) FROM t JOIN letters l ON l.weight < t.x AND t.x <= l.weight + 1",
        "declare a key with max_rows = 1",
    ),
    ("SELECT COUNT(*) FROM t LEFT JOIN letters l ON l.letter = UPPER(t.c) AND t.t", "where a key has one row"),
    ("SELECT COUNT(*) FROM t JOIN bands b ON b.name = t.x + 3", "declare both alike"),
    ("SELECT COUNT(*) FROM t JOIN rates r ON r.c = t.c AND r.low = t.r", "reals, which cannot be compared"),
    ("SELECT COUNT(*) FROM t JOIN rates r ON r.c = t.c AND r.low = t.x / 3", "has fractions, and no key has"),
    ("SELECT COUNT(*) FROM t JOIN bands b ON t.x > 3", "only compares columns with a key"),
    ("SELECT COUNT(*) FROM t WHERE id IN (SELECT g FROM p)", "compare t.id with p.who"),
    ("SELECT COUNT(*) FROM t WHERE id IN (SELECT who FROM p GROUP BY who, g)", "each combination without repetition"),
    (
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM p JOIN t b ON b.c = p.g WHERE p.who = t.id)",
        "only by their privacy unit",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_function_of_one_unit_is_refused(text: str, message: str) -> None:
    with pytest.raises(QuestionRefused, match=message):
        read_question(sd.sql(text), context("add_remove"))


def test_people_of_another_kind_are_no_condition() -> None:
    table = context("add_remove")
    other = PrivateTable(PERSON, Neighbors("add_remove", PrivacyUnit("who", max_rows=2, of="household")), {})
    with pytest.raises(QuestionRefused, match="t holds rows of one person, p of one household"):
        read_question(
            sd.sql("SELECT COUNT(*) FROM t WHERE id IN (SELECT who FROM p GROUP BY who HAVING COUNT(*) > 1)"),
            TableContext("t", DOMAIN, table.neighbors, sd.PureDP(1), "", private={"p": other}, public_rows=PUBLIC_ROWS),
        )
