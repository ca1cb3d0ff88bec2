"""Every kind of question of a PostgreSQL table has the answer that it has of the same rows in DuckDB, with the same noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import postgres_server as postgres
import sordino as sd
from protecting import protect
from sordino import col, synth
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.cases import when
from sordino.errors import DeclarationError, QuestionRefused

S = Selection()
PEOPLE = """
    SELECT 'p' || i AS id, CAST(i % 97 AS INTEGER) AS age, i % 3 = 0 AS member,
        CASE i % 4 WHEN 0 THEN 'North' WHEN 1 THEN ' South' WHEN 2 THEN 'O''Hare' END AS region
    FROM generate_series(1, 400) AS numbers(i)
"""
VISITS = """
    SELECT 'p' || (i * i % 431) AS id, CAST(i % 50 AS DOUBLE PRECISION) / 4 AS cost, 'k' || (i % 7) AS kind,
        CAST('2024-01-01' AS DATE) + CAST(i % 300 AS INTEGER) AS day,
        CAST('2024-01-01 08:00:00' AS TIMESTAMP) + i * INTERVAL '151 minutes' AS seen, {tags} AS tags
    FROM generate_series(1, 900) AS numbers(i)
"""
TAGS = {
    "duckdb": "CASE WHEN i % 11 > 0 THEN list_slice(['a', 'b', NULL, 'a'], 1, i % 5) END",
    "postgres": "CASE WHEN i % 11 > 0 THEN (ARRAY['a', 'b', NULL, 'a'])[1:i % 5] END",
}
DOMAINS = {
    "people": sd.Domain(
        {
            "id": sd.Identifier(),
            "age": sd.Integer(0, 125),
            "region": sd.Category(["North", "South", "O'Hare"], missing="keep"),
            "member": sd.Boolean(),
        }
    ),
    "visits": sd.Domain(
        {
            "id": sd.Identifier(),
            "cost": sd.Real(0, 20, resolution=0.25),
            "kind": sd.Identifier(),
            "day": sd.Date("2024-01-01", "2024-12-31"),
            "seen": sd.DateTime("2024-01-01", "2024-12-31", zone="America/New_York", resolution="minute"),
            "tags": sd.List(sd.Category(["a", "b"]), max_items=3),
        }
    ),
}
UNITS = {
    "people": sd.PrivacyUnit("id", max_rows=1, of="person"),
    "visits": sd.PrivacyUnit("id", max_rows=2, of="person"),  # most have more, and each engine keeps the same
}
REGIONS = pa.table({"region": ["North", "South", "West\0"], "tax": [0.5, 2.25, 1.0], "since": [1990, 2001, None]})
KINDS = sd.public(
    pa.table({"kind": ["k1", "k2", "k3"], "price": ["low", "low", "high"]}),
    key="kind",
    columns=sd.Domain({"kind": sd.Identifier(), "price": sd.Category(["low", "high"])}),
)
AGES = sd.public(
    pa.table({"name": ["young", "mid", "old"], "low": [0, 40, 80], "high": [40, 80, 126], "weight": [5, 3, 1]}),
    key=("name", "low"),
    columns=sd.Domain(
        {
            "name": sd.Category(["young", "mid", "old"]),
            "low": sd.Integer(0, 200),
            "high": sd.Integer(0, 200),
            "weight": sd.Integer(0, 9),
        }
    ),
)
PUBLIC = sd.public(
    REGIONS,
    key="region",
    columns=sd.Domain(
        {
            "region": sd.Category(["North", "South"]),
            "tax": sd.Real(0, 4, resolution=0.25),
            "since": sd.Integer(1900, 2030),
        }
    ),
)
WINDOWS = [
    "SELECT COUNT(*) FROM (SELECT day - LAG(day) OVER (PARTITION BY id ORDER BY day) AS gap FROM visits) t WHERE gap <= 30",
    "SELECT rn, COUNT(*), SUM(cost) FROM (SELECT cost, ROW_NUMBER() OVER (PARTITION BY id ORDER BY cost DESC) AS rn FROM visits)"
    " t WHERE rn <= 2 GROUP BY rn",
    "SELECT prev, COUNT(*) FROM (SELECT LAG(CASE WHEN cost > 8 THEN 'high' ELSE 'low' END) OVER (PARTITION BY id ORDER BY seen)"
    " AS prev FROM visits) t GROUP BY prev",
    "SELECT MONTH(f) AS m, COUNT(*) FROM (SELECT FIRST_VALUE(day) OVER (PARTITION BY id ORDER BY cost) AS f FROM visits) t"
    " GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT cost > LEAD(cost, 2, 3) OVER (PARTITION BY id, MONTH(day) ORDER BY kind DESC NULLS FIRST) AS b"
    " FROM visits WHERE cost < 10) t WHERE b",
    "SELECT r, COUNT(*), SUM(d) FROM (SELECT LEAST(RANK() OVER w, 5) AS r, DENSE_RANK() OVER w AS d FROM visits"
    " WINDOW w AS (PARTITION BY id ORDER BY MONTH(day))) t GROUP BY r",
    "SELECT SUM(s), SUM(n), SUM(c), SUM(most), SUM(least) FROM (SELECT SUM(cost) OVER (PARTITION BY id ORDER BY day) AS s,"
    " COUNT(*) OVER (PARTITION BY id ORDER BY MONTH(day)) AS n, COUNT(cost) OVER (PARTITION BY id) AS c,"
    " MAX(cost) OVER (PARTITION BY id ORDER BY cost ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS most,"
    " MIN(cost) OVER (PARTITION BY id ORDER BY day ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS least FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT LAG(cost > 5) OVER (PARTITION BY id ORDER BY day) AS b, LAST_VALUE(kind) OVER (PARTITION BY id"
    " ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS k FROM visits) t WHERE b AND k <> 'k1'",
    "SELECT region, COUNT(*) FROM (SELECT region, ROW_NUMBER() OVER (PARTITION BY id ORDER BY region DESC, member) AS n"
    " FROM people) t WHERE n = 1 GROUP BY region",
    "SELECT AVG(g) FROM (SELECT id, MAX(gap) AS g FROM (SELECT id, LEAST(day - LAG(day) OVER (PARTITION BY id ORDER BY seen), 90)"
    " AS gap FROM visits) v GROUP BY id) u",
]
WINDOWS += [
    "SELECT q, COUNT(*), SUM(m) FROM (SELECT NTILE(3) OVER (PARTITION BY id ORDER BY cost DESC) AS q, AVG(cost) OVER"
    " (PARTITION BY id ORDER BY day ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS m FROM visits) t GROUP BY q",
    "SELECT SUM(s), SUM(n), SUM(k), SUM(c) FROM (SELECT SUM(cost) OVER (PARTITION BY id ORDER BY day RANGE BETWEEN INTERVAL"
    " 30 DAYS PRECEDING AND CURRENT ROW) AS s, COUNT(*) OVER (PARTITION BY id ORDER BY cost DESC RANGE BETWEEN 1.5 PRECEDING"
    " AND 2 FOLLOWING) AS n, MAX(cost) OVER (PARTITION BY id ORDER BY seen RANGE BETWEEN INTERVAL '20 hours' PRECEDING AND"
    " INTERVAL '3 hours' FOLLOWING) AS k, AVG(cost) OVER (PARTITION BY id) AS c FROM visits) t",
    "SELECT COUNT(*), SUM(gap) FROM (SELECT kind, LAG(kind) OVER (PARTITION BY id ORDER BY seen) AS k, day - LAG(day) OVER"
    " (PARTITION BY id ORDER BY day) AS gap FROM visits) t WHERE kind <> k",
    "SELECT SUM(n), COUNT(k), SUM(p), SUM(c) FROM (SELECT NTH_VALUE(cost, 2) OVER (PARTITION BY id ORDER BY day ROWS BETWEEN"
    " UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n, NTH_VALUE(kind, 3) OVER (PARTITION BY id ORDER BY seen) AS k,"
    " PERCENT_RANK() OVER (PARTITION BY id ORDER BY cost) AS p, CUME_DIST() OVER (PARTITION BY id ORDER BY day) AS c FROM visits"
    ") t",
]
VALUES = [
    "SELECT MONTH(f.first) AS m, COUNT(*), SUM(cost) FROM visits JOIN (SELECT id, MIN(day) AS first FROM visits GROUP BY id) f"
    " USING (id) GROUP BY 1",
    "SELECT COUNT(*) FROM visits v LEFT JOIN (SELECT id, COUNT(*) AS n, ARG_MAX(kind, day) AS k FROM visits WHERE cost > 3"
    " GROUP BY id HAVING COUNT(*) < 5) f ON v.id = f.id WHERE f.id IS NULL OR f.k = 'k1'",
    "SELECT region, SUM(n) FROM people JOIN (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) v USING (id) GROUP BY region",
    "SELECT AVG(a.most), COUNT(*) FROM (SELECT id, MAX(cost) AS most FROM visits GROUP BY id) a JOIN (SELECT id, MIN(seen) AS s"
    " FROM visits GROUP BY id) b ON a.id = b.id WHERE MONTH(b.s) < 4",
    "SELECT COUNT(*), SUM(b.cost) FROM visits a JOIN visits b ON a.id = b.id AND b.day > a.day AND b.day <= a.day + 90",
    "SELECT COUNT(*), SUM(cost) FROM visits v WHERE EXISTS (SELECT 1 FROM visits o WHERE o.id = v.id AND o.day > v.day)",
    "SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(o.cost) FROM visits o WHERE o.id = v.id AND o.kind <> 'k1')",
]
JOINS = [
    # By an age band, by what is computed of a name, by a range that is no key; conditions beside a key.
    "SELECT a.weight, COUNT(*), SUM(p.age) FROM people p JOIN ages a ON a.low <= p.age AND p.age < a.high GROUP BY a.weight",
    "SELECT r.since, COUNT(*) FROM people p JOIN regions r ON r.region = CASE WHEN p.age < 30 THEN 'North' ELSE 'South' END"
    " GROUP BY r.since",
    "SELECT COUNT(*), SUM(a.weight) FROM people p LEFT JOIN ages a ON a.low = p.age - p.age % 40 AND (p.member OR a.high < 50)",
    "SELECT r.since, COUNT(*), SUM(r.tax) FROM people p LEFT JOIN regions r ON r.region = p.region AND (r.tax < 1 OR p.age > 50)"
    " GROUP BY r.since",
    "SELECT a.name, COUNT(*) FROM people p LEFT JOIN ages a ON p.age BETWEEN a.low AND a.high - 1 AND p.member GROUP BY a.name",
    # Values of a person, and of different values.
    "SELECT AVG(m), SUM(v), COUNT(s) FROM (SELECT id, MEDIAN(cost) AS m, VARIANCE(cost) AS v, STDDEV_POP(cost) AS s FROM visits"
    " GROUP BY id) t",
    "SELECT m, COUNT(*), SUM(k) FROM (SELECT id, MODE(CASE WHEN cost > 6 THEN 'high' ELSE 'low' END) AS m,"
    " MODE(MONTH(day)) AS k FROM visits GROUP BY id) t GROUP BY m",
    "SELECT region, VARIANCE(DISTINCT age), STDDEV_POP(DISTINCT age % 9 - 4) FROM people GROUP BY region",
    # Conditions on what a person has in several tables.
    "SELECT region, COUNT(*) FROM people WHERE id IN (SELECT id FROM visits GROUP BY id HAVING COUNT(*) > 2) GROUP BY region",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v JOIN people q ON q.id = v.id WHERE v.id = p.id"
    " AND q.age > v.cost)",
    "SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM people WHERE id IN (SELECT id FROM visits WHERE cost > 11))",
    "SELECT (SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM people WHERE member)) AS n, COUNT(*) AS m FROM people",
    "SELECT COUNT(*) FROM people WHERE id IN (SELECT id FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY day) > 1"
    " UNION SELECT v.id FROM visits v JOIN kinds k ON k.kind = v.kind AND k.price = 'high')",
]
# A row beside those of its own person, by several comparisons; rows of several SELECTs, and rows that the text writes out.
MATCHES = [
    "SELECT region, COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.id = p.id AND v.cost > 3"
    " AND v.cost < p.age AND MONTH(v.day) < 7) GROUP BY region",
    "SELECT COUNT(*), SUM(cost) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits o WHERE o.id = v.id AND o.kind = v.kind"
    " AND o.seen < v.seen)",
    "SELECT COUNT(*) FROM visits v WHERE cost >= ALL (SELECT o.cost FROM visits o WHERE o.id = v.id)",
    "SELECT COUNT(*), SUM(v) FROM (SELECT id, age AS v FROM people WHERE member UNION ALL SELECT id, cost FROM visits)"
    " u WHERE v > 3",
    "SELECT COUNT(*) FROM (SELECT id FROM people WHERE age > 50 UNION SELECT id FROM visits WHERE cost > 10) u",
    "SELECT n, COUNT(*) FROM visits JOIN (VALUES (0, 4, 'low'), (4, 20, 'high')) b(lo, hi, n) ON cost >= lo AND cost < hi"
    " GROUP BY n",
    "SELECT CAST(DATE_TRUNC('month', day) AS VARCHAR) AS m, COUNT(*) FROM visits GROUP BY 1",
    "SELECT region, MODE(age % 3) FROM people GROUP BY ROLLUP (region)",
]
QUESTIONS = [
    *WINDOWS,
    *VALUES,
    *JOINS,
    "SELECT region, COUNT(*), AVG(age), STDDEV(age) FROM people GROUP BY region",
    "SELECT MEDIAN(age), QUANTILE_CONT(age, 0.9) FROM people WHERE member",
    "SELECT region, MEDIAN(age) FROM people GROUP BY region",
    "SELECT COUNT(DISTINCT id), COUNT(DISTINCT age) FROM people WHERE region <> 'North'",
    "SELECT COUNT(*) FROM people WHERE id LIKE 'p1_' OR id ILIKE 'P2%' OR id LIKE '%99'",
    "SELECT COUNT(*) FROM people WHERE region = 'O''Hare' AND age IN (2, 3, 50) AND NOT member",
    "SELECT BIN(age, 0, 25, 50, 125) AS b, COUNT(*) FROM people GROUP BY b",
    "SELECT SUM(CASE WHEN age > 50 THEN SQRT(age) ELSE LOG2(age + 1) END), SUM(EXP(age / 20)), SUM(age % 7) FROM people",
    "SELECT SUM(LOG10(age + 1) * 2), AVG(ROUND(age / 3, 1)), SUM(POWER(age, 2)) FROM people",
    "SELECT CORR(age, age * age), COVAR_SAMP(age, CASE WHEN member THEN 1 ELSE 0 END) FROM people",
    "SELECT REGR_SLOPE(age, age % 9), REGR_R2(age % 9, age), REGR_COUNT(age, age), REGR_AVGX(age, age % 5) FROM people",
    "SELECT REGR_SXX(age, age % 9), REGR_SYY(age, age % 5), REGR_SXY(age, age % 9), REGR_INTERCEPT(age, age % 9) FROM people",
    "SELECT regions.since, COUNT(*), SUM(regions.tax) FROM people JOIN regions USING (region) GROUP BY regions.since",
    "SELECT COUNT(*), SUM(COALESCE(regions.tax, 1)) FROM people LEFT JOIN regions ON people.region = regions.region",
    "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE visits.id = people.id AND cost > 5)",
    "SELECT COUNT(*) FROM people WHERE id NOT IN (SELECT id FROM visits)",
    "SELECT region, SUM(cost) FROM people JOIN visits USING (id) GROUP BY region",
    "SELECT kind, COUNT(*) FROM visits GROUP BY kind",
    "SELECT kinds.price, SUM(cost) FROM visits JOIN kinds ON visits.kind = kinds.kind GROUP BY kinds.price",
    "SELECT MONTH(day), COUNT(*) FROM visits GROUP BY MONTH(day)",
    "SELECT HOUR(seen), COUNT(*) FROM visits WHERE seen BETWEEN '2024-02-01' AND '2024-04-15 10:30' GROUP BY HOUR(seen)",
    "SELECT DATE_TRUNC('week', day) AS w, COUNT(*) FROM visits WHERE day < '2024-03-01' GROUP BY w",
    "SELECT tag, COUNT(*) FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag",
    "SELECT AVG(n), COUNT(*) FROM (SELECT id, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY id)",
    "SELECT SUM(s) FROM (SELECT id, CLIP(SUM(cost), 0, 60) AS s, MIN(day) AS f, ARG_MAX(kind, day) AS l FROM visits GROUP BY id)"
    " WHERE f < '2024-02-01'",
    "SELECT SUM(DISTINCT age), AVG(DISTINCT age) FROM people WHERE member",
    "SELECT region, COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) GROUP BY region",
    "SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(q.age) FROM people q WHERE q.region = p.region)",
    "SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people GROUP BY region HAVING COUNT(*) > 90)",
    "SELECT AVG(n), SUM(s) FROM (SELECT id, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY id) t",
    "SELECT COUNT(*) AS n, (SELECT SUM(cost) FROM visits WHERE MONTH(day) = 2) AS cost FROM people",
    "SELECT kind, n * 1.0 / p.people AS visits_a_person FROM (SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind) v,"
    " (SELECT COUNT(*) AS people FROM people) p ORDER BY kind",
    "SELECT (SELECT MEDIAN(age) FROM people) AS age,"
    " (SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM visits GROUP BY id) t) AS n",
    # Comparisons of texts, truths, rows of values and days; texts of columns.
    "SELECT COUNT(*) AS a FROM people WHERE region > 'North' AND (age > 50) = member AND (region, age) >= ('South', 9)",
    "SELECT COUNT(*) FROM people WHERE CASE WHEN member THEN age > 30 ELSE age < 60 END AND COALESCE(region, '') <> ''",
    "SELECT CONCAT(region, '-', age % 3) AS k, COUNT(*) AS n FROM people WHERE region LIKE 'N%' ESCAPE '$' OR age < 9 GROUP BY 1",
    "SELECT CASE WHEN cost > 5 THEN MAKE_DATE(YEAR(day), MONTH(day), 1) ELSE DATE '2024-12-31' END AS k, COUNT(*) AS n FROM "
    "visits WHERE EXTRACT(YEAR FROM AGE(DATE '2026-02-15', day)) < 2 GROUP BY 1",
    "SELECT AVG(n) AS a, COUNT(*) AS c FROM (SELECT id, MONTH(day) AS m, COUNT(*) AS n FROM visits GROUP BY id, MONTH(day)) t",
    *MATCHES,
]


@pytest.fixture(scope="module")
def sources(
    postgres_server: postgres.Server, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Callable[[], sd.Connection]]:
    """The same two tables of the same people on a server and in DuckDB."""
    name = "questions"
    postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    visits = {kind: VISITS.format(tags=tags) for kind, tags in TAGS.items()}
    postgres_server.execute(
        f"CREATE TABLE people AS {PEOPLE}", f"CREATE TABLE visits AS {visits['postgres']}", database=name
    )
    path = tmp_path_factory.mktemp("same") / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people AS {PEOPLE}")
        connection.execute(f"CREATE TABLE visits AS {visits['duckdb']}")

    def open_at(place: str) -> sd.Connection:
        return sd.protect(
            dict.fromkeys(DOMAINS, place),
            domain=DOMAINS,
            neighbors="add_remove",
            privacy_unit=UNITS,
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            relation={table: table for table in DOMAINS},
            rng=sd.Rng.seeded(7),
            public={"regions": PUBLIC, "kinds": KINDS, "ages": AGES},
        )

    return {
        "postgres": lambda: open_at(f"{postgres_server.url}/{name}"),
        "duckdb": lambda: open_at(str(path)),
    }


@pytest.fixture(scope="module")
def twins(sources: dict[str, Callable[[], sd.Connection]]) -> list[sd.Connection]:
    """The two opened once, with one seed. Each question is asked of both, so that their noise stays the same."""
    return [open_one() for open_one in sources.values()]


@pytest.fixture(scope="module")
def row_twins(twins: list[sd.Connection]) -> list[sd.Curator]:
    """Their visits, where each row is a unit."""
    places = [one.project.tables["visits"].source.path for one in twins]
    return [protect(p, DOMAINS["visits"], relation="visits", budget=sd.PureDP(10**9), name="visits") for p in places]


ASKED: dict[str, Callable[[sd.Curator], Any]] = {
    "bounds": lambda visits: visits.find_bounds("cost", epsilon=50).value,
    "contributions": lambda visits: visits.find_contribution_bounds(by="day", epsilon=50).value,
    "most common": lambda visits: visits.ask(sd.most_common(col("day").month()), epsilon=50).value,
    "synthetic": lambda visits: synth.fit(visits, columns=["cost", "day"], epsilon=50).answer(sd.count()).value,
}


def content(release: sd.Release) -> dict[str, Any]:
    """Return what a release says of the data."""
    return {key: value for key, value in release.to_dict().items() if key in ("keys", "rows", "intervals", "estimates")}


@pytest.mark.each(40)
@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_has_the_answer_of_duckdb(question: str, twins: list[sd.Connection]) -> None:
    found = []
    for held in twins:
        release = held.ask(sd.sql(question), epsilon=200, delta="1e-9")
        assert isinstance(release, sd.Release)
        found.append(content(release))
    assert found[0] == found[1]
    assert found[0]["rows"]


@pytest.mark.each(5)
@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_in_python_has_the_answer_of_duckdb(name: str, twins: list[sd.Connection]) -> None:
    one, other = (ASKED[name](held.table("visits")) for held in twins)
    assert one == other


# What a key is made of stands in the SELECT that groups by what it is made from, once for each of few values.
OF_DAYS = [f"{part}(day)" for part in ("YEAR", "QUARTER", "MONTH", "ISODOW", "WEEK")]
OF_MOMENTS = [f"{part}(seen)" for part in ("MONTH", "DAY", "HOUR", "MINUTE")]
OF_BOTH = [f"DATE_TRUNC('{step}', {of})" for step in ("month", "week", "year") for of in ("day", "seen")]
# Of whole numbers, also below 0, which PostgreSQL's SQL cuts towards 0.
QUOTIENTS = ["(day - DATE '2024-07-01') / 30 * 30", "CAST(cost - 10 AS integer) / 7"]


@pytest.mark.deep
@pytest.mark.parametrize("key", [*OF_DAYS, *OF_MOMENTS, *OF_BOTH, *QUOTIENTS])
def test_keys_of_days_and_moments_are_those_of_duckdb_where_rows_are_units(
    key: str, row_twins: list[sd.Curator]
) -> None:
    question = sd.sql(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k", dialect="postgres")
    found = [content(visits.ask(question, epsilon=10**5)) for visits in row_twins]
    assert found[0] == found[1]
    assert found[0]["rows"]
    assert key not in QUOTIENTS or all(type(row["k"]) is int for row in found[0]["rows"])


@pytest.mark.deep
def test_a_session_and_a_sample_are_answered(sources: dict[str, Callable[[], sd.Connection]]) -> None:
    held = sources["postgres"]()
    with held.table("people").above_threshold(count=1, epsilon=50) as session:
        assert session.above(sd.count(), threshold=100)
    sampled = held.table("people").ask(S.sample("1/2").agg(sd.count(), sd.median("age")), epsilon=50, delta="1e-9")
    assert 130 < sampled.rows[0]["count"] < 270  # of 400: a false alarm in 10^12
    robust = held.table("people").ask(
        sd.sample_and_aggregate("median", "age", chunks=20, default=0), epsilon=50, delta="1e-9"
    )
    assert 20 < robust.value < 80


def test_rows_that_are_alike_are_sampled_one_by_one(postgres_server: postgres.Server, postgres_database: str) -> None:
    postgres_server.execute(
        "CREATE TABLE same AS SELECT 1 AS n FROM generate_series(1, 4000)",
        database=postgres_database.rpartition("/")[2],
    )
    rows = protect(postgres_database, sd.Domain({"n": sd.Integer(0, 1)}), relation="same")
    for _ in range(2):
        found = rows.ask(S.sample("1/4").agg(sd.count(), sd.median("n")), epsilon=50).rows[0]["count"]
        assert 800 < found < 1200
    rows.close()


@pytest.mark.deep
def test_a_table_elsewhere_is_refused_at_plan(sources: dict[str, Callable[[], sd.Connection]], tmp_path: Path) -> None:
    place = sources["postgres"]().project.tables["people"].source.path
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS {VISITS.format(tags=TAGS['duckdb'])}")
    held = sd.protect(
        {"people": place, "visits": str(tmp_path / "a.duckdb")},
        domain=DOMAINS,
        neighbors="add_remove",
        privacy_unit=UNITS,
        budget=sd.PureDP(10),
        ledger=None,
        relation={table: table for table in DOMAINS},
    )
    for text in (
        "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE visits.id = people.id)",
        "SELECT COUNT(*) FROM visits JOIN people USING (id)",
    ):
        for attempt in (held.plan, held.ask):
            with pytest.raises(QuestionRefused, match=r"lies elsewhere: both .* in one PostgreSQL database"):
                attempt(sd.sql(text), epsilon=1)
    with pytest.raises(QuestionRefused, match="lies elsewhere"):
        held.table("people").plan(S.where(sd.exists("visits")).agg(sd.count()), epsilon=1)
    assert held.budgets()[0].spent.amounts() == {"epsilon": 0}


def test_what_text_of_the_server_cannot_hold_is_refused_at_plan(
    sources: dict[str, Callable[[], sd.Connection]],
) -> None:
    highest = S.per_unit(sd.max(when(col("age") > 5, "a\0").otherwise("b")))
    one, other = (open_one().table("people") for open_one in sources.values())
    question = highest.group_by("max_age").agg(sd.count())
    assert other.plan(question, epsilon=1).cost
    with pytest.raises(QuestionRefused, match="the character NUL"):
        one.plan(question, epsilon=1)


@pytest.mark.parametrize("names", [("column", "regions", "regions"), ("table", "r" * 50, "r" * 50)])
def test_names_that_the_server_takes_for_one_are_refused(
    names: tuple[str, str, str], sources: dict[str, Callable[[], sd.Connection]]
) -> None:
    kind, *tables = names
    long = ["tax" + "x" * 60 + end for end in ("a", "b")] if kind == "column" else ["tax", "since"]
    cells = pa.table({"region": ["North"], long[0]: [1], long[1]: [2]})
    columns = sd.Domain({"region": sd.Identifier(), **{name: sd.Integer(0, 9) for name in long}})
    public = {
        name + end: sd.public(cells, key="region", columns=columns) for name, end in zip(tables, "ab", strict=True)
    }
    place = sources["postgres"]().project.tables["people"].source.path
    with pytest.raises(DeclarationError, match="one name to PostgreSQL") as refused:
        protect(place, DOMAINS["people"], relation="people", public=public)
    assert "sordino_" not in str(refused.value)


def test_the_data_are_compared_with_the_declaration(sources: dict[str, Callable[[], sd.Connection]]) -> None:
    place = sources["postgres"]().project.tables["people"].source.path
    domain = sd.Domain({"age": sd.Integer(0, 50), "region": sd.Category(["North", "SOUTH"]), "id": sd.Real(0, 1)})
    found = sd.check_against_data(place, domain=domain, relation="people")
    counts = found.columns
    assert (found.rows, counts["age"].above, counts["age"].below) == (400, 184, 0)
    assert (counts["region"].undeclared, counts["region"].other_case, counts["region"].missing) == (200, 100, 100)
    assert counts["id"].unreadable == 400
    assert counts["region"].first == (1, 2, 5, 6, 9)
