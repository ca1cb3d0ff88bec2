"""Private keys of a table on a PostgreSQL server: the weights of DuckDB, and keys as they are grouped, to the character."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pytest

import postgres_server as postgres
import sordino as sd
from ask.engines.test_postgres import postgres_engine
from protecting import protect
from sordino.ask.curator.aggregation_procedure import key_places, round_select
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.keys import list_shown
from sordino.core.mechanisms.weighted_selection import weighted_selection_for_pair

S = Selection()
DOMAIN = sd.Domain(
    {"id": sd.Identifier(), "key": sd.Identifier(), "x": sd.Integer(0, 9), "flag": sd.Boolean(missing="keep")}
)
FEW = ["oslo", " oslo", "oslo ", "\toslo", "oslo\n", "o\u0301slo", "\u00f3slo", "OSLO", "", " "]
MANY = [
    *FEW,
    *("it's", "''", "\\", "\\'", '"', "\\u0041", "A", "\ue0000\ue001", "\U0001f600", "\x01", "\x7f", "\u2028", "a,b"),
    *(
        "$1",
        "%s",
        "?",
        "--",
        "/*",
        "{",
        "null",
        "01",
        "1",
        "oslo\u00a0",
        "\u200boslo",
        "\ufeffoslo",
        "osl\u043e",
        "x" * 1000,
    ),
]
LOSS: dict[str, Any] = {"epsilon": 10_000, "delta": 1e-3}
Row = tuple[str | None, str | None, int, bool | None]


def fill(url: str, rows: list[Row], *, kind: str = "TEXT") -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute(f"CREATE TABLE people (id TEXT, key {kind}, x INT, flag BOOLEAN)".encode())
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO people VALUES (%s, %s, %s, %s)", rows)


def rows_of(keys: list[str]) -> list[Row]:
    return [
        (f"{i}-{j}", k, i % 10, (True, False, None)[j % 3]) for i, k in enumerate(keys) for j in range(12 + 3 * (i % 7))
    ]


def held_at(url: str, unit: sd.PrivacyUnit) -> Any:
    return protect(url, DOMAIN, unit=unit, seed=3, budget=sd.ApproxDP(10**6, "0.5"), relation="people")


@pytest.mark.deep
@pytest.mark.parametrize("how", ["weighted", "threshold"])
@pytest.mark.parametrize(
    ("keys", "long"), [(FEW, 10**7), (MANY, 10**7), (MANY, 100)], ids=["few", "many", "in several objects of digests"]
)
def test_keys_show_as_they_are_grouped(
    keys: list[str], long: int, how: str, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server compares a few texts one by one, looks many up, and long ones by their digests."""
    monkeypatch.setattr("sordino.ask.engines.postgres._LONG", long)
    monkeypatch.setattr("sordino.ask.engines.postgres._MANY", 10 if long == 100 else 10**6)
    rows = rows_of([*keys, "z" * 1001])
    fill(postgres_database, rows)
    rows = [row for row in rows if row[1] in keys]
    counts, values = Counter(r[1] for r in rows), {r[1]: r[2] for r in rows}
    held = held_at(postgres_database, sd.PrivacyUnit("id", max_rows=2))
    try:
        one = S.group_by("key", keys=how).agg(sd.count(), sd.sum("x").alias("sum"), sd.median("x").alias("median"))
        found = {r["key"]: (r["count"], r["sum"], r["median"]) for r in held.ask(one, **LOSS).rows}
        assert found == {k: (n, n * values[k], values[k]) for k, n in counts.items()}
        pair = S.group_by("flag", "key", keys=how).agg(sd.count())
        both = {(r["key"], r["flag"]): r["count"] for r in held.ask(pair, **LOSS).rows}
        assert both == dict(Counter((r[1], r[3]) for r in rows))
    finally:
        held.close()


@pytest.mark.parametrize("how", ["weighted", "threshold"])
def test_text_of_fixed_width_has_no_blanks_at_its_end(how: str, postgres_database: str) -> None:
    fill(postgres_database, rows_of(["oslo", "alta  ", " alta"]), kind="CHAR(6)")
    held = held_at(postgres_database, sd.PrivacyUnit("id", max_rows=2))
    try:
        found = held.ask(S.group_by("key", keys=how).agg(sd.count(), sd.median("x")), **LOSS).rows
    finally:
        held.close()
    assert [(r["key"].rstrip(), r["count"], r["median_x"]) for r in found] == [
        (" alta", 18, 2),
        ("alta", 15, 1),
        ("oslo", 12, 0),
    ]


@pytest.mark.deep
@pytest.mark.parametrize("shown", [[], ["k1", " k1", "k2"]], ids=["first round", "later round"])
def test_one_unit_moves_the_weights_by_its_length_alone(shown: list[str], postgres_database: str) -> None:
    """Without one of 6 units, its k equal weights are gone, of length one at most; what is left is what the others give."""
    rng = random.Random(7)
    names = ["k1", " k1", "k2", "k3", "k4", "k5", "k6", None]
    people = {f"u{i}": [(f"u{i}", rng.choice(names), 0, None) for _ in range(rng.randrange(12))] for i in range(6)}
    one_round = weighted_selection_for_pair(groups=4, moved=1, epsilon=Fraction(1), delta=Fraction(1, 10**6)).rounds[1]
    compiled = compile_query(S.group_by("key").keys(), DOMAIN)
    left_out = list_shown(compiled.keys, [(k,) for k in shown]) if shown else None

    def weigh(units: list[str]) -> dict[Any, int]:
        rows: list[Row] = [row for u in units for row in people[u]]
        rng.shuffle(rows)
        fill(postgres_database, rows)
        engine = postgres_engine(postgres_database, DOMAIN, unit=sd.PrivacyUnit("id", max_rows=12, max_groups=4))
        try:
            found = engine.run(round_select(engine.primitives, compiled, one_round, left_out))
        finally:
            engine.close()
        weights = found.column("t0").to_pylist()
        return {key: int(weights[at]) for (key,), at in key_places(found, compiled).items() if weights[at]}

    everyone, total = weigh(list(people)), defaultdict[Any, int](int)
    assert not set(shown) & set(everyone)
    sizes = set()
    for one in people:
        rest = weigh([u for u in people if u != one])
        moved = {k: everyone.get(k, 0) - rest.get(k, 0) for k in {*everyone, *rest}}
        moved = {k: w for k, w in moved.items() if w}
        own = {key for _, key, _, _ in people[one]} - {None, *shown}
        assert set(moved) <= own
        assert len(moved) == min(4, len(own))
        assert all(w == one_round.weight(len(moved)) for w in moved.values())
        sizes.add(len(moved))
        for key, weight in moved.items():
            total[key] += weight
    assert len(sizes) > 1  # so that the number of keys matters
    assert dict(total) == everyone


@pytest.mark.deep
def test_large_keys_take_no_weight_from_small_ones(postgres_server: postgres.Server, postgres_database: str) -> None:
    """Each person has six words, five of them everyone's: the sixth shows in the second round, which counts it in full."""
    postgres_server.execute(
        "CREATE TABLE people AS SELECT 'p' || i AS id, CASE WHEN j < 6 THEN 'top' || j ELSE 'own' || i % 20 END AS key, 3 AS x,"
        " true AS flag FROM generate_series(1, 2000) AS a(i), generate_series(1, 6) AS b(j)",
        database=postgres_database.rpartition("/")[2],
    )
    held = held_at(postgres_database, sd.PrivacyUnit("id", max_rows=6))
    try:
        plan = held.plan(S.group_by("key", keys="weighted").agg(sd.count(), sd.median("x")), epsilon=1.2, delta=1e-5)
        chosen = plan.procedure.allocation.threshold
        assert chosen.units_to_show(0.99, groups=1) < 100 < chosen.units_to_show(0.5)
        found = held.ask(plan).rows
    finally:
        held.close()
    assert Counter(r["key"][:3] for r in found) == {"own": 20, "top": 5}
    assert all(abs(r["count"] - (2000 if r["key"][:3] == "top" else 100)) < 120 for r in found)
