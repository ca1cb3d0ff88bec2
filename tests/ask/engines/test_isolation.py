"""Our connection reads its one source and nothing else; what engines say of failures holds nothing of the data."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp, parse_one

import sordino as sd
from ask.engines.support import engine_of
from sordino.ask.engines.engine import EngineFailed
from sordino.core.source import Csv, Source
from sordino.errors import SourceError

SECRET = "S3CRET-9f"
DOMAIN = sd.Domain({"x": sd.Category(["a"])})


def make(folder: Path, kind: str) -> Any:
    table = pa.table({"x": [SECRET, "a"]})
    pq.write_table(table, folder / "d.parquet")
    pq.write_table(table, folder / "g-1.parquet")
    (folder / "d.csv").write_text(f"{SECRET}\na\n")
    if not (folder / "d.duckdb").exists():
        with duckdb.connect(str(folder / "d.duckdb")) as store:
            store.register("t", table)
            store.execute("CREATE TABLE s AS SELECT * FROM t")
    return {
        "parquet": Source(str(folder / "d.parquet"), "parquet"),
        "glob": Source(str(folder / "g-*.parquet"), "parquet"),
        "csv": Source(str(folder / "d.csv"), "csv", None, Csv(header=False, names=("x",))),
        "duckdb": Source(str(folder / "d.duckdb"), "duckdb", "s"),
        "arrow": table,
    }[kind]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["parquet", "glob", "csv", "duckdb", "arrow"])
def test_the_connection_is_shut(tmp_path: Path, kind: str) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    make(outside, "parquet")
    engine = engine_of(make(inside, kind), DOMAIN)
    for text in (
        f"SELECT * FROM '{outside}/d.parquet'",
        f"SELECT * FROM read_csv('{outside}/d.csv')",
        f"SELECT * FROM glob('{outside}/*')",
        f"ATTACH '{outside}/d.duckdb' AS other",
        f"COPY (SELECT 1) TO '{outside}/new.csv'",
        "SET enable_external_access = true",
        "SET disabled_optimizers = ''",
        "SET lock_configuration = false",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            engine._connection.execute(text)
    assert engine._connection.execute("SELECT count(*) FROM source").fetchall() == [(2,)]
    assert not (outside / "new.csv").exists()
    engine.close()


@pytest.mark.attack("read data from an error or a failure")
def test_a_failure_says_nothing_of_the_data(tmp_path: Path, capfd: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    engine = engine_of(make(tmp_path, "parquet"), DOMAIN)
    for text in ("SELECT CAST(x AS INTEGER) FROM source", "SELECT error(x) FROM source", f"SELECT '{SECRET}' + 1"):
        with pytest.raises(EngineFailed) as error:
            engine.run(parse_one(text, dialect="duckdb", into=exp.Select))
        said = "".join(traceback.format_exception(error.value)) + repr(error.value) + repr(error.value.args)
        assert "Conversion" not in said
        assert error.value.__cause__ is None
        assert error.value.__context__ is None
        assert SECRET not in str(error.value)
    engine.close()
    assert SECRET not in "".join(capfd.readouterr())
    assert SECRET not in caplog.text


@pytest.mark.deep
@pytest.mark.parametrize("damage", ["missing", "empty", "text", "truncated", "a folder"])
@pytest.mark.parametrize("kind", ["parquet", "glob", "duckdb"])
def test_broken_sources_are_source_errors(tmp_path: Path, kind: str, damage: str) -> None:
    source = make(tmp_path, kind)
    for path in [tmp_path / "g-1.parquet"] if kind == "glob" else [Path(source.path)]:
        whole = path.read_bytes()
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        elif damage != "missing":
            path.write_bytes(
                {"empty": b"", "text": SECRET.encode() * 50, "truncated": whole[: len(whole) // 2]}[damage]
            )
    with pytest.raises((SourceError, EngineFailed)) as failure:
        engine_of(source, DOMAIN).run(parse_one("SELECT count(*) FROM source", dialect="duckdb", into=exp.Select))
    error = failure.value
    assert "\n" not in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.deep
def test_odd_relations_of_a_duckdb_file(tmp_path: Path) -> None:
    source = make(tmp_path, "duckdb")
    for relation in ("absent", "s; DROP TABLE s", "s WHERE 1=1", "information_schema.tables.x", ""):
        with pytest.raises(SourceError, match="cannot be opened"):
            engine_of(Source(source.path, "duckdb", relation), DOMAIN)
    engine_of(source, DOMAIN).close()


@pytest.mark.deep
@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.parametrize(
    "name", ["a b.parquet", "a'b.parquet", 'a"b.parquet', "a[1].parquet", "a*.parquet", "a?.parquet"]
)
def test_odd_file_names_read_that_file_alone(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"x": ["a"] * 5}), tmp_path / "a1.parquet")
    pq.write_table(pa.table({"x": ["a"]}), tmp_path / name)
    engine = engine_of(tmp_path / name, DOMAIN)
    assert engine._connection.execute("SELECT count(*) FROM source").fetchall() == [(1,)]
    engine.close()
