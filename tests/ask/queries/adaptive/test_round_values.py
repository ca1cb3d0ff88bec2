"""Round values: of two sets one holds the other or they share none, and every engine finds each value's smallest set."""

from __future__ import annotations

import calendar
import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from ask.engines.test_postgres import postgres_engine
from ask.engines.test_spark import spark_engine
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.plan import DataAccess
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.ask.queries.adaptive.round_values import RoundSet, sets_of
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Name
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "whole": sd.Integer(-30_000, 30_000, missing="keep"),
        "cents": sd.Real(-20, 400, resolution="0.01"),
        "quarters": sd.Real(0, 5_000, resolution="0.25"),
        "day": sd.Date("1898-12-30", "9999-12-31"),
        "moment": sd.DateTime("2019-12-31 20:00:00", "2020-03-01 00:00:00", zone="UTC"),
    }
)
EDGES = {
    "whole": (-30_000, -500, 0, 700, 30_000),
    "cents": (-2_000, 0, 1, 40_000),
    "quarters": (0, 10, 20_000),
    "day": (-25_935, 1_500_000, 2_932_896),
    "moment": (1_577_822_400, 1_580_000_000, 1_583_020_800),
}


def sets(name: str) -> tuple[RoundSet, ...]:
    return sets_of(bind_number(Name(name), DOMAIN))


def values(name: str, count: int) -> Any:
    """Return steps, half of them in a set or beside one."""
    rng = np.random.default_rng(len(name))
    low, high = EDGES[name][0], EDGES[name][-1]
    steps = rng.integers(low, high + 1, count)
    some = sets(name)[int(rng.integers(0, len(sets(name))))]
    for at in range(0, count, 2):
        some = sets(name)[int(rng.integers(0, len(sets(name))))]
        last = int(some.ordinal(np.int64(high)))
        first = int(some.ordinal(np.int64(low - 1))) + 1
        if first <= last:
            steps[at] = some.at(np.array([rng.integers(first, last + 1)]))[0] + rng.integers(-1, 2)
    return np.clip(steps, low, high)


def is_in(one: RoundSet, name: str, step: int) -> bool:
    """Return whether a step is in a set, by its words alone."""
    number = {"cents": step / 100, "quarters": step / 4}.get(name, step)
    if name == "day":
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=step)
        first, last = (1, 1), (12, 31)
        if "years" in one.words:
            return (day.month, day.day) == (first if "first" in one.words else last)
        return day.day == (1 if "first" in one.words else calendar.monthrange(day.year, day.month)[1])
    if name == "moment":
        names = ("minutes", "five minutes", "quarters of an hour", "hours", "days in UTC")
        return (
            step % dict(zip(names, (60, 300, 900, 3_600, 86_400), strict=True))[one.words.removeprefix("whole ")] == 0
        )
    size = float(one.words.rpartition(" ")[2].replace(",", ""))
    step_of = {"cents": 0.01, "quarters": 0.25}.get(name, 1.0)
    near = (number + (step_of if one.words.startswith("one step below") else 0.0)) / size
    return abs(near - round(near)) < 1e-9


@pytest.mark.deep
@pytest.mark.parametrize("name", EDGES)
def test_sets_are_nested_or_apart_and_counted_as_they_are_named(name: str) -> None:
    low, high = EDGES[name][0], min(EDGES[name][0] + 3_000, EDGES[name][-1])
    steps = np.arange(low, high + 1)
    members = [np.array([is_in(one, name, int(s)) for s in steps]) for one in sets(name)]
    for number, (one, inside) in enumerate(zip(sets(name), members, strict=True), 1):
        at = np.flatnonzero(inside)
        assert int(one.count(np.int64(low), np.int64(high))) == len(at)
        ordinals = one.ordinal(np.int64(low - 1)) + 1 + np.arange(len(at))
        assert one.at(ordinals).tolist() == steps[at].tolist()
        assert 0 <= one.within < number
        if one.within:
            assert not (inside & ~members[one.within - 1]).any()
    for (i, inside), (j, other) in itertools.combinations(enumerate(members, 1), 2):
        within = {j}
        while sets(name)[min(within) - 1].within:
            within.add(sets(name)[min(within) - 1].within)
        assert i in within or not (inside & other).any()


def table(count: int) -> pa.Table:
    cells = {name: values(name, count) for name in EDGES}
    missing = np.arange(count) % 17 == 0
    return pa.table(
        {
            "whole": pa.array(cells["whole"], mask=missing),
            "cents": pa.array(cells["cents"] / 100, mask=missing),
            "quarters": cells["quarters"] / 4,
            "day": pa.array(cells["day"].astype(np.int32), mask=missing).cast(pa.date32()),
            "moment": pa.array(cells["moment"] * 1_000_000).cast(pa.timestamp("us", "UTC")),
        }
    )


def expected(name: str, count: int) -> Any:
    """Return the counts by bin and smallest set, by the words of the sets."""
    steps = values(name, count)
    if name in ("whole", "cents", "day"):
        steps = steps[np.arange(count) % 17 != 0]
    place = np.searchsorted(EDGES[name][:-1], steps, side="right") - 1
    smallest = [max([n for n, one in enumerate(sets(name), 1) if is_in(one, name, int(s))], default=0) for s in steps]
    size = 1 + len(sets(name))
    return np.bincount(place * size + np.array(smallest), minlength=(len(EDGES[name]) - 1) * size)


def count_on(engine: Any, names: Sequence[str] = tuple(EDGES)) -> dict[str, Any]:
    tables = [ContingencyTable((Axis(name, EDGES[name], rounded=True),)) for name in names]
    try:
        counts = list(CountCache(DataAccess(engine), DOMAIN).count(tables))
    finally:
        engine.close()
    return {name: t.encode(c, DOMAIN) for name, t, c in zip(names, tables, counts, strict=True)}


@pytest.mark.deep
def test_duckdb_finds_the_smallest_set_of_each_value() -> None:
    found = count_on(engine_of(table(400), DOMAIN))
    for name in EDGES:
        assert found[name].tolist() == expected(name, 400).tolist()
        assert (found[name] > 0).sum() >= 10


@pytest.mark.deep
@pytest.mark.usefixtures("spark")
def test_spark_finds_the_same(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(table(500), tmp_path / "rows" / "part.parquet")
    names = ("whole", "day")
    found = count_on(spark_engine(tmp_path / "rows", DOMAIN), names)
    for name in names:
        assert found[name].tolist() == expected(name, 500).tolist()


@pytest.mark.deep
def test_postgresql_finds_the_same(postgres_server: Any, postgres_database: str) -> None:
    def written(cell: Any) -> str:
        return "NULL" if cell is None else f"{cell}" if isinstance(cell, (int, float)) else f"'{cell}'"

    rows = [f"({', '.join(map(written, row.values()))})" for row in table(200).to_pylist()]
    kinds = ("BIGINT", "DOUBLE PRECISION", "DOUBLE PRECISION", "DATE", "TIMESTAMPTZ")
    cells = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(EDGES, kinds, strict=True))
    text = f"CREATE TABLE rounded AS SELECT {cells} FROM (VALUES {', '.join(rows)}) AS v({', '.join(EDGES)})"
    postgres_server.execute(text, database=postgres_database.rpartition("/")[2])
    found = count_on(postgres_engine(postgres_database, DOMAIN, relation="rounded"))
    for name in EDGES:
        assert found[name].tolist() == expected(name, 200).tolist()


@pytest.mark.parametrize("unit", [None, PrivacyUnit("person", max_rows=3)])
def test_a_row_moves_a_table_of_round_values_as_it_moves_any_other(unit: PrivacyUnit | None) -> None:
    neighbors = Neighbors("replace", unit)
    rounded = ContingencyTable((Axis("whole", EDGES["whole"], rounded=True),))
    plain = ContingencyTable((Axis("whole", EDGES["whole"], missing=True),))
    one, other = (table.sensitivity(DOMAIN, neighbors) for table in (rounded, plain))
    assert (one.l1, one.l2_squared, one.linf) == (other.l1, other.l2_squared, other.linf)


def test_round_values_are_counted_by_bins() -> None:
    with pytest.raises(QuestionRefused, match="state edges"):
        ContingencyTable((Axis("whole", rounded=True),)).shape(DOMAIN)
