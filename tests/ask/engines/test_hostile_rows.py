"""Poison rows: no stored value makes a question fail, changes the shape of its answer, or how other rows count."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sordino as sd
from ask.engines.support import ask, engine_of
from sordino import col
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.neighbors import Neighbors
from sordino.errors import DeclarationError

S = Selection()
TEXTS = [
    "",
    "1_000",
    "0x10",
    "1e5",
    " 39 ",
    "٣٩",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "1e999",
    "1e-999",
    "9" * 400,
    "9" * 19,
]
TEXTS += [
    "2000-99-99",
    "99999-01-01",
    "infinity",
    "a" * 10_000,
    "'",
    '"',
    "+5",
    "5.",
    ".5",
    ".",
    "-",
    "é",
    "S3CRET-9f",
    "\n1",
]
POISON: dict[str, list[str]] = {
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768"],
    "INTEGER": ["-2147483648"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "9007199254740993"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"],
    "UTINYINT": ["255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["18446744073709551615"],
    "UHUGEINT": ["340282366920938463463374607431768211455"],
    "FLOAT": ["nan", "inf", "-inf", "-0.0", "3e38", "1e-45"],
    "DOUBLE": ["nan", "inf", "-inf", "-0.0", "1.7e308", "5e-324", "9007199254740993"],
    "DECIMAL(38,0)": ["9" * 38, "-" + "9" * 38],
    "DECIMAL(38,38)": ["0." + "9" * 38],
    "DECIMAL(18,2)": ["9999999999999999.99"],
    "VARCHAR": TEXTS,
    "BOOLEAN": ["true", "false"],
    "DATE": ["infinity", "-infinity", "5877642-06-24 (BC)", "9999-12-31"],
    "TIMESTAMP": ["infinity", "-infinity", "294247-01-10 04:00:54.775806"],
    "TIMESTAMP_S": ["1970-01-01"],
    "TIMESTAMP_MS": ["1970-01-01"],
    "TIMESTAMP_NS": ["1970-01-01"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "ENUM('a', 'it''s', '1', 'true', '2000-01-01')": ["a", "it's", "true"],
}


def declared(name: str) -> dict[str, tuple[Any, list[Any]]]:
    """Return each kind of declaration of the column `name`, and questions that use it in every operator."""
    x = col(name)
    return {
        "integer": (
            sd.Integer(0, 100),
            [
                [sd.count(name), sd.sum(name), sd.mean(name)],
                S.where((x > 1) | (x <= -1) | (x == 2) | ~(x >= 2) | x.is_in([5, 7]) | x.is_null()).agg(sd.count()),
                S.group_by(name).agg(sd.count()),
                S.group_by(x.bin(width=7)).agg(sd.sum(name)),
                [sd.sum(x * x + x * 3 - 1), sd.sum(abs(x - 50)).alias("b"), sd.sum((x * x * x).clip(0, 9)).alias("c")],
            ],
        ),
        "unbounded integer": (
            sd.Integer(),
            [
                [
                    sd.sum(x.clip(-7, 7)),
                    sd.sum((x * 2 + 1).clip(0, 10)).alias("b"),
                    sd.sum(abs(x).clip(0, 3)).alias("c"),
                ],
                S.where((x > 2**62) | (x < -5) | (x * 3 == 9)).agg(sd.count()),
            ],
        ),
        "filled": (
            sd.Integer(0, 9, missing=sd.Fill(3)),
            [[sd.sum(name), sd.mean(name)], S.group_by(name).agg(sd.count())],
        ),
        "real": (
            sd.Real(-5, 5, resolution=0.01, missing="keep"),
            [
                [sd.sum(name), sd.mean(name), sd.sum(x * x).alias("b")],
                S.where((x > 1) | (Fraction(1, 3) == x) | (x != 0)).agg(sd.count()),
                S.group_by(x.bin(width=1)).agg(sd.count()),
            ],
        ),
        "unbounded real": (
            sd.Real(resolution="1e-6"),
            [sd.sum(x.clip(-7, 7)), S.where((x > 1e9) | (Fraction(1, 10**300) > x)).agg(sd.count())],
        ),
        "text": (
            sd.Category(["a", "1", "true", "", "it's", 'q"', "😀"], missing="keep", other="a"),
            [S.group_by(name).agg(sd.count()), S.where(x != "1").agg(sd.count(name))],
        ),
        "codes": (sd.Category([1, 2, 0], missing=sd.Fill(2)), [S.group_by(name).agg(sd.count()), sd.count(name)]),
        "truth": (
            sd.Boolean(missing="keep"),
            [S.group_by(name).agg(sd.count()), S.where(x & ~(x != True)).agg(sd.count())],  # noqa: E712
        ),
        "day": (
            sd.Date("1990-01-01", "2010-01-01"),
            [S.where(datetime.date(2000, 1, 1) < x).agg(sd.count()), sd.count(name)],
        ),
        "name": (sd.Identifier(), [S.where((x == "1") | ~x.is_in(["a", 7])).agg(sd.count()), sd.count(name)]),
    }


def store(path: Path, kind: str, values: list[str], names: Sequence[str] = ("x",)) -> Path:
    """Return a DuckDB file whose table t holds the values as that type, once under each name."""
    connection = duckdb.connect(str(path))
    connection.execute(f"CREATE TABLE t ({', '.join(f'{n} {kind}' for n in names)})")
    connection.execute("CREATE TABLE s (v VARCHAR)")
    if values:
        connection.execute(f"INSERT INTO s VALUES {', '.join(['(?)'] * len(values))}", values)
    connection.execute(f"INSERT INTO t SELECT {', '.join([f'TRY_CAST(v AS {kind})'] * len(names))} FROM s")
    connection.close()
    return path


@pytest.mark.deep
@pytest.mark.attack("poison an answer by one row")
@pytest.mark.each(46)
@pytest.mark.parametrize("kind", POISON, ids=lambda k: k[:14])
def test_poison_in_every_physical_type_declared_type_and_operator(tmp_path: Path, kind: str) -> None:
    """The k poison rows move each answer by at most k times what one row may: all other rows count as before."""
    clean, k = ["1", "0", "a", "true", "2000-06-01"], len(POISON[kind])
    names = {f"x{i}": key for i, key in enumerate(declared("x"))}
    domain = sd.Domain({name: declared(name)[key][0] for name, key in names.items()})
    tables = (clean, [*clean, *POISON[kind]])
    paths = [store(tmp_path / f"{i}.duckdb", kind, t, list(names)) for i, t in enumerate(tables)]
    one, other = (engine_of(p, domain, relation="t") for p in paths)
    for name, key in names.items():
        for asked in map(as_aggregation, declared(name)[key][1]):
            found = compile_query(asked, domain)
            bounds = [s for several in found.bound(Neighbors("add_remove", None)).sensitivities for s in several]
            for bound, before, after in zip(bounds, ask(one, domain, asked), ask(other, domain, asked), strict=True):
                assert len(before) == len(after) == found.cells
                assert sum(abs(x - y) for x, y in zip(before, after, strict=True)) <= k * bound.l1
    one.close()
    other.close()


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind", ["TIME", "BLOB", "INTERVAL", "BIT", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)"]
)
def test_types_that_no_column_reads_are_refused_at_the_door(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DeclarationError, match="no declared type reads"):
        engine_of(store(tmp_path / "d.duckdb", kind, []), sd.Domain({"x": sd.Integer(0, 1)}), relation="t")


READINGS: list[tuple[str, str, list[str], list[Any]]] = [
    (
        "integer",
        "VARCHAR",
        ["39", "+5", "-3", " 39 ", "1_000", "0x10", "1e1", "٣٩", "5.0", "9" * 19, "", "7"],
        [39, 5, 0, 39, 5, 7],
    ),
    ("integer", "DOUBLE", ["39", "2.5", "nan", "inf", "-inf", "1e300", "-0.0"], [39, 100, 0, 100, 0]),
    ("real", "VARCHAR", ["1e0", ".5", "5.", "1e999", "nan", "inf", "0x1", "1_0", "٣"], [1, Fraction(1, 2), 5, 5]),
    ("integer", "BOOLEAN", ["true", "false", "true"], [1, 0, 1]),
    ("integer", "UHUGEINT", ["340282366920938463463374607431768211455", "3"], [100, 3]),
    ("integer", "HUGEINT", ["170141183460469231731687303715884105727", "1000", "-9", "39"], [100, 100, 0, 39]),
    ("integer", "UBIGINT", ["18446744073709551615", "1000", "39"], [100, 100, 39]),
]


@pytest.mark.each(2)
@pytest.mark.parametrize(("key", "kind", "cells", "read"), READINGS)
def test_how_cells_are_read(tmp_path: Path, key: str, kind: str, cells: list[str], read: list[Any]) -> None:
    domain = sd.Domain({"x": declared("x")[key][0]})
    engine = engine_of(store(tmp_path / "d.duckdb", kind, cells), domain, relation="t")
    assert ask(engine, domain, [sd.count("x"), sd.sum("x")]) == [[len(read)], [sum(read)]]
    engine.close()
