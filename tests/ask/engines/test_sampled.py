"""Poisson sampling in the engine: the coins are what they are said to be, one a unit, and the key does not stay."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from sordino.ask.engines.engine import EngineFailed
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.neighbors import PrivacyUnit

DOMAIN = sd.Domain({"id": sd.Identifier(), "x": sd.Integer(0, 10**6)})
UNIT = PrivacyUnit("id", max_rows=2)
KEY = bytes(range(32))


def draw_rows(engine: Any, threshold: int, key: bytes) -> list[tuple[Any, Any]]:
    """Return the ids and values of the rows in a sample, before any cap."""
    from sqlglot import exp

    sample = engine.sample(threshold=threshold, key=key)
    try:
        relation = exp.to_table(sample.layout.source.strip('"'), quoted=True)
        table = engine.run(exp.select("id", "x").from_(relation))
    finally:
        sample.close()
    return sorted(zip(table["id"].to_pylist(), table["x"].to_pylist(), strict=True), key=str)


@pytest.mark.each(3)
@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 3), Fraction(999, 1000)])
def test_a_unit_is_in_iff_its_hash_says_so_with_all_its_rows(rate: Fraction, kind: Any, tmp_path: Path) -> None:
    """Exactly, against hashlib: the first 64 bits of SHA-256(key as hexadecimal text, unit as text) below rate 2^64."""
    threshold = rate.numerator * 2**64 // rate.denominator
    ids = [None if i % 11 == 0 else str(i // 3) for i in range(900)]
    table = pa.table({"id": pa.array(ids).cast(kind), "x": pa.array(range(900), pa.int64())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=50)
    engine = engine_of(tmp_path / "t.parquet", DOMAIN, unit=UNIT)

    def falls(unit: str) -> bool:
        return int(hashlib.sha256((KEY.hex() + unit).encode()).hexdigest()[:16], 16) < threshold

    expected = [
        (i, x) for i, x in zip(table["id"].to_pylist(), range(900), strict=True) if i is not None and falls(str(i))
    ]
    assert draw_rows(engine, threshold, KEY) == sorted(expected, key=str)
    engine.close()


@pytest.mark.deep
def test_rows_that_are_units_each_have_a_coin_of_their_own_even_when_alike() -> None:
    """80,000 equal rows at rate 3/10: z beyond 4.5 has chance 7e-6. Two keys agree on p^2: the same chance."""
    engine = engine_of(pa.table({"id": ["u"] * 80_000, "x": pa.array(np.arange(80_000))}), DOMAIN)
    threshold = 3 * 2**64 // 10
    one, other = ({x for _, x in draw_rows(engine, threshold, hashlib.sha256(bytes([k])).digest())} for k in (1, 2))
    for found, rate in ((len(one), 0.3), (len(other), 0.3), (len(one & other), 0.09)):
        assert abs(found - 80_000 * rate) < 4.5 * (80_000 * rate * (1 - rate)) ** 0.5
    engine.close()


@pytest.mark.deep
def test_pairs_of_units_fall_independently_and_keys_matter() -> None:
    """Chi-square of the four outcomes of 50,000 pairs, 3 degrees: beyond 27.0 has chance 6e-6."""
    engine = engine_of(pa.table({"id": [str(i) for i in range(100_000)], "x": np.arange(100_000)}), DOMAIN, unit=UNIT)
    chosen = {x for _, x in draw_rows(engine, 2**64 // 4, KEY)}
    cells = np.zeros(4)
    for i in range(0, 100_000, 2):
        cells[2 * (i in chosen) + (i + 1 in chosen)] += 1
    expected = 50_000 * np.array([9, 3, 3, 1]) / 16
    assert float(((cells - expected) ** 2 / expected).sum()) < 27.0
    assert {x for _, x in draw_rows(engine, 2**64 // 4, b"\x01" * 32)} != chosen
    engine.close()


def test_caps_and_questions_work_on_a_sample_and_it_goes_when_closed() -> None:
    table = pa.table({"id": [f"u{i // 5}" for i in range(500)], "x": pa.array(range(500))})
    engine = engine_of(table, DOMAIN, unit=UNIT)
    found = compile_query(as_aggregation(Selection().agg(sd.count(), sd.count("id"))), DOMAIN)
    sample = engine.sample(threshold=2**63, key=KEY)
    rows = sample.run(found.select(sample.primitives)).to_pylist()[0]
    units = len({i for i, _ in draw_rows(engine, 2**63, KEY)})
    assert rows["t0"] == 2 * units  # all of them have five rows, two of which count
    sample.close()
    with pytest.raises(EngineFailed):
        sample.run(found.select(sample.primitives))
    assert engine.run(found.select(engine.primitives)).to_pylist()[0]["t0"] == 200
    held = engine._connection.execute("SELECT COUNT(*) FROM duckdb_tables() WHERE temporary").fetchall()
    assert held == [(0,)]
    engine.close()


def test_no_key_is_kept_anywhere_that_can_be_asked() -> None:
    engine = engine_of(pa.table({"id": ["a", "b"], "x": [1, 2]}), DOMAIN, unit=UNIT)
    sample = engine.sample(threshold=2**63, key=KEY)
    found = engine._connection.execute(
        "SELECT string_agg(COALESCE(sql, ''), ' ') FROM "
        "(SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views())"
    ).fetchall()
    assert KEY.hex() not in str(found)
    assert KEY.hex() not in repr(sample) + repr(vars(engine))
    sample.close()
    engine.close()
