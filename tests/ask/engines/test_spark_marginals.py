"""Counts by many bins on Spark: those of DuckDB, in methods that Java compiles, and few cells come back to the driver."""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sordino as sd
from ask.engines.support import engine_of
from ask.engines.test_spark import spark_engine
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.plan import DataAccess
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.spark import SordinoSpark, SparkPrimitives
from sordino.ask.queries.adaptive.marginal import ContingencyTable, select_groupings
from sordino.core.neighbors import Neighbors
from sordino.synth.encoded_column import encode_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

WIDE = sd.Domain({n: sd.Real(0, 100 * i, resolution=0.01) for i, n in enumerate("abc", start=1)})
COLUMNS = encode_columns(WIDE, None, Neighbors("add_remove", None))
LONGEST = 8000  # bytes of a method, which Java interprets when it has more


def write_rows(spark: SparkSession, place: Path, rows: int) -> Path:
    """Write rows of which hardly two have the same three bins."""
    cells = [
        "IF(id % 50 = 0, NULL, id % 10007 / 100) AS a",
        "id * 7919 % 19997 / 100 AS b",
        "id * 104729 % 29989 / 100 AS c",
    ]
    spark.range(rows).selectExpr(*cells).selectExpr(*(f"CAST({n} AS DOUBLE) AS {n}" for n in "abc")).write.parquet(
        str(place)
    )
    return place


def halves(names: str, at: int) -> ContingencyTable:
    """Return a table of two or more parts a column, each cut at other keys."""
    picked = [c for c in COLUMNS if c.name in names]
    return ContingencyTable(tuple(c.axis((np.arange(c.size) * (at + 2) // c.size) % 2) for c in picked))


def test_the_counts_of_bins_and_of_classes_are_those_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    place = write_rows(spark, tmp_path / "rows", 3000)
    tables = [halves("abc", at) for at in range(3)]
    tables += [ContingencyTable((a.axis(), b.axis())) for a, b in itertools.combinations(COLUMNS, 2)]
    found = []
    for engine in (spark_engine(place, WIDE), engine_of(place / "*.parquet", WIDE)):
        counts = CountCache(DataAccess(engine), WIDE).count(tables)
        found.append([t.encode(c, WIDE).tolist() for t, c in zip(tables, counts, strict=True)])
        engine.close()
    assert found[0] == found[1]
    assert all(sum(counts) > 2000 for counts in found[0])


@pytest.mark.deep
def test_no_method_of_a_scan_is_too_long_to_be_compiled(spark: SparkSession, tmp_path: Path) -> None:
    engine = spark_engine(write_rows(spark, tmp_path / "rows", 100), WIDE)
    try:
        groupings = [ContingencyTable((a.axis(), b.axis())).grouping() for a, b in itertools.combinations(COLUMNS, 2)]
        text = select_groupings(groupings, engine.primitives, WIDE).sql(dialect=SordinoSpark)
        frame = spark.sql(text)
        spark.conf.set("spark.sql.codegen.wholeStage", "true")
        made = frame._jdf.queryExecution().debug().codegenToSeq()
        sizes = [made.apply(i)._3().maxMethodCodeSize() for i in range(made.size())]
        assert 0 < max(sizes) < LONGEST
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        engine.close()


@pytest.mark.deep
@pytest.mark.parametrize("starts", [[*range(-30, 30, 3)], [-(2**62), *range(0, 900, 7), 2**70], [*range(16)], [5] * 40])
def test_a_number_is_found_among_its_starts(starts: list[int], spark: SparkSession, tmp_path: Path) -> None:
    cells = sorted({n + d for n in starts if abs(n) < 2**62 for d in (-1, 0, 1)} | {-(2**61), 2**61})
    spark.createDataFrame([(n,) for n in cells], "n BIGINT").write.parquet(str(tmp_path / "n"))
    engine = spark_engine(tmp_path / "n", sd.Domain({"n": sd.Integer(-(2**62), 2**62)}))
    try:
        words: SparkPrimitives = engine.primitives
        results = [str(i * i - 7) for i in range(len(starts) + 1)]
        found = words.let(words.bisect("n", starts, results))
        text = f"SELECT n, {found} AS at FROM {words.source().sql(dialect=SordinoSpark)}"
        for row in spark.sql(text).collect():
            assert row.at == int(results[bisect.bisect_right(starts, row.n)])
    finally:
        engine.close()


@pytest.mark.deep
def test_a_fit_returns_cells_and_not_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, returned, run = 400_000, [], DataAccess.run

    def watch(self: DataAccess, statement: Statement) -> pa.Table:
        found = run(self, statement)
        returned.append(found.num_rows)
        return found

    monkeypatch.setattr(DataAccess, "run", watch)
    frame = spark.read.parquet(str(write_rows(spark, tmp_path / "rows", rows)))
    held = sd.protect(
        frame, domain=WIDE, neighbors="add_remove", privacy_unit="row", budget=sd.PureDP(1), ledger=None, name="wide"
    )
    model = sd.synth.fit(held, epsilon=1)
    held.close()
    assert model is not None
    assert 3 <= len(returned) <= 12
    assert (
        max(returned) <= 3 * 252 * 252 + 3 * 127**2
    )  # all pairs of bins, and classes of triples; by bins 395,000 triples
