"""The rows and groups kept of a unit are a function of that unit alone, also where the hash that orders them collides.

The hash of whole numbers can be inverted, so whoever writes cells can make collisions at will; here they are forced.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from protecting import protect
from sordino.ask.engines import instances, sql_primitives
from sordino.ask.engines.postgres import PostgresPrimitives
from sordino.ask.engines.row_hash import hash_cells
from sordino.ask.engines.spark import SparkPrimitives
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import ContributionBounds, PrivacyUnit

DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "word": sd.Identifier(),
        "x": sd.Integer(),
        "r": sd.Real(0, 1, resolution=0.1),
        "d": sd.Date("1990-01-01", "2030-01-01"),
        "b": sd.Boolean(),
    }
)
KINDS = {"id": pa.string(), "word": pa.string(), "x": pa.int64(), "r": pa.float64(), "d": pa.date32(), "b": pa.bool_()}
HASHES = ["CAST(0 AS BIGINT)", "({}) & 1", "{}"]
Row = dict[str, Any]
Kept = dict[Any, Counter[tuple[Any, ...]]]


def rows_of(unit: str, rng: random.Random) -> list[Row]:
    """Return up to 9 rows of one unit, some of them alike in all cells but one."""
    one = {"id": unit, "word": "a", "x": 1, "r": 0.5, "d": 1000, "b": True}
    odd: Row = {
        "word": [None, "", "b", "é"],
        "x": [None, 0, 2**62, -(2**63) + 1],
        "r": [None, float("nan"), -0.0, 0.0, 0.1, float("inf")],
        "d": [None, 0, 12_000],
        "b": [None, False],
    }
    made = [dict(one) for _ in range(rng.randrange(10))]
    for row in made:
        cell = rng.choice(list(odd))
        row[cell] = rng.choice(odd[cell])
    return made


def kept_rows_of(source: Any, *, groups: int | None) -> Kept:
    """Return which rows of each unit are kept, as they are read."""
    asked = Selection().group_by("id", "word").agg(sd.count("x"), sd.count("r"), sd.count("d"), sd.count("b"))
    more = Selection().group_by("id", "word").agg(sd.sum(sd.col("x").clip(-9, 9)), sd.sum("r"), sd.count())
    by_unit: Kept = {}
    engine = engine_of(source, DOMAIN, unit=PrivacyUnit("id", max_rows=3))
    for question in (asked, more):
        found = replace(compile_query(question, DOMAIN), bounds=ContributionBounds(max_groups=groups))
        for line in engine.run(found.select(engine.primitives)).to_pylist():
            by_unit.setdefault(line.pop("k0"), Counter())[tuple(line.values())] += 1
    engine.close()
    return by_unit


def arrow(table: list[Row]) -> pa.Table:
    return pa.table({n: pa.array([r[n] for r in table], kind) for n, kind in KINDS.items()})


def force_hash(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put what `text` makes of the hash in its place."""

    def hash_text(cells: Any, words: Any, *, purpose: str) -> str:
        return text.format(hash_cells(cells, words, purpose=purpose))

    monkeypatch.setattr(sql_primitives, "hash_cells", hash_text)


@pytest.mark.deep
@pytest.mark.attack("learn from the order or the files of the rows")
@pytest.mark.each(6)
@pytest.mark.parametrize("text", HASHES, ids=["all collide", "many collide", "as it is"])
@pytest.mark.parametrize("groups", [None, 1])
def test_kept_rows_depend_on_the_unit_alone(
    text: str, groups: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_hash(monkeypatch, text)
    rng = random.Random(text)
    units = {f"u{i}": rows_of(f"u{i}", rng) for i in range(60)}
    table = [r for rows in units.values() for r in rows]
    before = kept_rows_of(arrow(table), groups=groups)
    assert max(sum(c.values()) for c in before.values()) > 1  # something is kept, and something left out
    settings = instances.SETTINGS
    for threads in (1, 4):
        monkeypatch.setattr(instances, "SETTINGS", (*settings, f"SET GLOBAL threads = {threads}"))
        monkeypatch.setattr(instances, "_instances", {})
        rng.shuffle(table)
        assert kept_rows_of(arrow(table), groups=groups) == before
        if threads == 1:
            continue
        dictionary = arrow(table).set_column(1, "word", arrow(table)["word"].dictionary_encode())
        assert kept_rows_of(dictionary, groups=groups) == before
        path = tmp_path / f"{threads}.parquet"
        pq.write_table(arrow(table), path, row_group_size=11)
        assert kept_rows_of(path, groups=groups) == before
        others = [r for i in range(40) for r in rows_of(f"new{i}", rng)]
        fewer = [r for r in [*others, *table] if r["id"] not in ("u0", "u1")]
        found = kept_rows_of(arrow(fewer), groups=groups)
        assert {u: c for u, c in found.items() if u in units} == {u: c for u, c in before.items() if u in found}


@pytest.mark.attack("learn from the order or the files of the rows")
def test_a_unit_of_colliding_rows_moves_a_sum_by_no_more_than_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: rows of equal hash, -1 and 1, gave a sum of 0 or of all units by the order in which they came."""
    force_hash(monkeypatch, HASHES[0])
    domain = sd.Domain({"id": sd.Integer(0, 10**6), "x": sd.Integer(-1, 1)})
    ups, downs = [[(i, x) for i in range(1000)] for x in (1, -1)]
    sums = set()
    for order in ([*ups, *downs], [*downs, *ups], [*ups[::2], *downs, *ups[1::2]]):
        table = pa.table({"id": [i for i, _ in order], "x": [x for _, x in order]})
        engine = engine_of(table, domain, unit=PrivacyUnit("id", max_rows=1))
        found = compile_query(Selection().agg(sd.sum("x")), domain)
        sums.add(engine.run(found.select(engine.primitives)).to_pylist()[0]["t0"])
        engine.close()
    assert len(sums) == 1, sums


def test_all_scans_of_a_quantile_order_rows_by_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of equal hash are ordered by the cells read, so scans of one answer must read the same ones."""
    found, source = [], sql_primitives.SqlPrimitives.source

    def spy(words: sql_primitives.SqlPrimitives) -> Any:
        made = source(words)
        found.append(re.findall(r"ORDER BY (sordino_[0-9]+_.*?)\)", made.sql("duckdb")))
        return made

    monkeypatch.setattr(sql_primitives.SqlPrimitives, "source", spy)
    domain = sd.Domain({"id": sd.Integer(0, 99), "x": sd.Integer(0, 10**9), "y": sd.Integer(0, 9), "s": sd.Boolean()})
    cells = {"id": range(100), "x": range(10**6, 10**8, 99 * 10**4), "y": [1] * 100, "s": [True, False] * 50}
    table = pa.table({name: list(column) for name, column in cells.items()})
    held = protect(table, domain, unit=sd.PrivacyUnit("id", max_rows=1))
    held.ask(Selection().where(sd.col("y") > 0).group_by("s").agg(sd.median("x")), epsilon=50)
    assert len(found) > 1
    # What has no order evaluates declared cells, and reads no rows.
    orders = [order for order in found if order]
    assert all(order == orders[0] for order in orders)
    assert '"s" NULLS LAST, "x" NULLS LAST, "y" NULLS LAST' in orders[0][0]


@pytest.mark.parametrize(
    ("max_groups", "keys"),
    [(None, [[]]), (2, [["word", "b"]]), pytest.param(2, [["word"], ["id"]], marks=pytest.mark.deep)],
)
def test_a_count_that_reads_no_cell_past_the_cap_ranks_no_rows(max_groups: int | None, keys: list[list[str]]) -> None:
    """It counts as many rows as a question that keeps them one by one, since it reads their cells."""
    rng = random.Random(max_groups)
    table = [row for i in range(30) for row in rows_of(f"u{i}", rng)]
    engine = engine_of(arrow(table), DOMAIN, unit=PrivacyUnit("id", max_rows=5))
    bounds = ContributionBounds(max_groups=max_groups, max_rows_per_group=max_groups)
    for key in keys:
        for where in (sd.col("x") != 7, sd.col("x") == 1):
            counts = []
            for more in ([], [sd.sum(sd.col("r"))]):
                asked = Selection().where(where)
                found = compile_query((asked.group_by(*key) if key else asked).agg(sd.count(), *more), DOMAIN)
                for words in (PostgresPrimitives(engine._layout), SparkPrimitives(engine._layout), engine.primitives):
                    tree = replace(found, bounds=bounds if key else None).select(words)
                    assert ("row_number" in tree.sql("duckdb").lower()) == bool(more)
                rows = engine.run(tree).to_pylist()
                counts.append({tuple(row[f"k{i}"] for i in range(len(key))): row["t0"] for row in rows})
            assert counts[0] == counts[1]
            assert 0 < sum(counts[0].values()) < sum(row["x"] is not None for row in table)
    engine.close()
