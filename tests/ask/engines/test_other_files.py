"""Compressed CSV, JSON lines, folders of Parquet, Arrow and SQLite files: one odd row changes no other, through real files."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from protecting import protect
from sordino import col
from sordino.ask.engines.parquet import load_parquet
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.core.source import Csv, source_from
from sordino.errors import DeclarationError, SourceError

S = Selection()
NAN = float("nan")
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "job": sd.Category(["cook", "nurse"], missing="keep"),
        "pay": sd.Real(0, 100, resolution=0.5),
    },
    unreadable_rows=True,
)
QUESTIONS: list[Any] = [
    sd.count(),
    sd.sum("pay"),
    S.group_by("job").agg(sd.count(), sd.mean("age")),
    S.where(col("pay") > 50).agg(sd.count(), sd.sum("age")),
    S.where(~(col("pay") <= 50)).agg(sd.count()),
]
ROWS = [{"age": 20 + i % 50, "job": ["cook", "nurse", None][i % 3], "pay": i % 99 + 0.5} for i in range(200)]
ONE = Neighbors("add_remove", None)
CSV = Csv(header=True)


def answers(path: Path, **how: Any) -> list[Any]:
    engine = engine_of(path, DOMAIN, **how)
    try:
        return [ask(engine, DOMAIN, question) for question in QUESTIONS]
    finally:
        engine.close()


def assert_neighbors(before: list[Any], after: list[Any]) -> None:
    for question, was, now in zip(QUESTIONS, before, after, strict=True):
        assert_within_sensitivity(DOMAIN, question, was, now, ONE)


def pack(raw: bytes, ending: str) -> bytes:
    if ending == ".zst":
        return bytes(pa.compress(raw, codec="zstd", asbytes=True))
    return gzip.compress(raw) if ending == ".gz" else raw


LINES = {
    "another shape": b"30; cook; 1",
    "a quote": b'"',
    "half an object": b'{"age": 30, "job": "co',
    "a list": b"[30]",
    "an object in a cell": b'{"age": {"age": 30}, "job": ["cook"], "pay": 1}',
    "odd types": b'{"age": "x", "job": 7, "pay": true}',
    "vast numbers": b'{"age": 1e400, "job": null, "pay": 123456789012345678901234567890}',
    "twice": b'{"age": 1, "age": 2, "job": "cook"}',
    "not UTF-8": b'{"age": 30, "job": "\xff\xfe"}',
    "half a surrogate": b'{"age": 30, "job": "\\ud800"}',
    "NUL": b'{"age": 30, "job": "co\\u0000ok"}',
    "bare NUL": b"\x00",
    "deep": b"[" * 100_000,
    "empty": b"",
    "long": b'{"age": 30, "job": "' + b"x" * 2_000_000 + b'"}',
    "a carriage return": b'{"age": 30, "job": "cook"}\r',
    "NaN": b'{"age": NaN, "pay": -Infinity}',
}


def json_lines(rows: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


@pytest.mark.deep
@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_one_added_line_of_json_moves_no_other(line: bytes, tmp_path: Path) -> None:
    lines = json_lines(ROWS)
    for ending, places in (("", (0, 200)), (".gz", (100,))):
        path = tmp_path / f"people.jsonl{ending}"
        path.write_bytes(pack(b"\n".join(lines) + b"\n", ending))
        before = answers(path)
        assert before[0] == [[200]]
        for at in places:
            path.write_bytes(pack(b"\n".join([*lines[:at], line, *lines[at:]]) + b"\n", ending))
            assert_neighbors(before, answers(path))


@pytest.mark.deep
@pytest.mark.parametrize(("ending", "places"), [(".gz", (1,)), (".gz", (201,)), (".zst", (100,))])
@pytest.mark.parametrize("name", ["another shape", "a quote", "not UTF-8", "bare NUL", "empty", "long"])
def test_one_added_line_of_compressed_csv_moves_no_other(
    name: str, ending: str, places: tuple[int, ...], tmp_path: Path
) -> None:
    lines = [b"age,job,pay", *(f"{r['age']},{r['job'] or ''},{r['pay']}".encode() for r in ROWS)]
    path, plain = tmp_path / f"people.csv{ending}", tmp_path / "people.csv"
    for rules in (CSV, Csv(header=True, quote='"')):
        path.write_bytes(pack(b"\n".join(lines), ending))
        plain.write_bytes(b"\n".join(lines))
        before = answers(path, csv=rules)
        assert before == answers(plain, csv=rules)
        for at in places:
            path.write_bytes(pack(b"\n".join([*lines[:at], LINES[name], *lines[at:]]), ending))
            assert_neighbors(before, answers(path, csv=rules))


ODD: list[dict[str, Any]] = [
    {"age": None, "job": None, "pay": None},
    {"age": 2**62, "job": "x", "pay": NAN},
    {"age": -5, "job": "", "pay": float("inf")},
    {"age": 30, "job": "a b/c=%41", "pay": 1e308},
]
SCHEMA = pa.schema([("age", pa.int64()), ("job", pa.string()), ("pay", pa.float64())])


def write_sqlite(path: Path, rows: list[dict[str, Any]]) -> None:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "my ""people" (age INTEGER, job TEXT, pay REAL, [group] BLOB)')
        cells = [(r.get("age"), r.get("job"), r.get("pay"), b"\xff") for r in rows]
        connection.executemany('INSERT INTO "my ""people" VALUES (?, ?, ?, ?)', cells)
    connection.close()


def write_folder(path: Path, rows: list[dict[str, Any]], key: str = "job", schema: pa.Schema = SCHEMA) -> None:
    hive = ds.partitioning(pa.schema([schema.field(key)]), flavor="hive")
    ds.write_dataset(pa.Table.from_pylist(rows, schema=schema), path, format="parquet", partitioning=hive)


def write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    with pa.ipc.new_file(path, SCHEMA) as file:
        file.write_table(table, max_chunksize=7)


def write_stream(path: Path, rows: list[dict[str, Any]]) -> None:
    with pa.ipc.new_stream(path, SCHEMA) as file:
        file.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))


Write = Callable[[Path, list[dict[str, Any]]], None]
HELD: dict[str, tuple[str, Write, dict[str, Any]]] = {
    "sqlite": ("people.sqlite", write_sqlite, {"relation": 'my "people'}),
    "folder": ("people", write_folder, {}),
    "arrow": ("people.arrow", write_arrow, {}),
    "arrow stream": ("people.ipc", write_stream, {}),
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", HELD)
def test_one_added_row_moves_no_other(kind: str, tmp_path: Path) -> None:
    name, write, how = HELD[kind]
    odd = (
        [*ODD, {"age": "thirty", "job": 7, "pay": "x"}, {"age": b"\xff", "job": b"cook", "pay": 2}]
        if kind == "sqlite"
        else ODD
    )
    write(tmp_path / name, ROWS)
    before = answers(tmp_path / name, **how)
    pq.write_table(pa.Table.from_pylist(ROWS, schema=SCHEMA), tmp_path / "same.parquet")
    assert before == answers(tmp_path / "same.parquet")
    for i, row in enumerate(odd):
        other = tmp_path / f"{i}-{name}"
        write(other, [row, *ROWS] if i % 2 else [*ROWS, row])
        assert_neighbors(before, answers(other, **how))


def test_keys_of_folders_are_text_however_they_look(tmp_path: Path) -> None:
    values = ["007", "7", "a b/c", "é", "x=y", "%41", "", None, "2024-01-01"]
    schema = pa.schema([("code", pa.string()), ("x", pa.int64())])
    write_folder(tmp_path / "t", [{"code": v, "x": i} for i, v in enumerate(values)], "code", schema)
    code = sd.Category([v for v in values if v], missing="keep", other="?")
    domain = sd.Domain({"code": code, "x": sd.Integer(0, 99)})
    found = exact(tmp_path / "t", domain, S.group_by("code").agg(sd.sum("x")))[0]
    assert found == [0, 1, 2, 3, 4, 5, 8, 6, 7]
    files = sorted(map(str, (tmp_path / "t").rglob("*.parquet")))
    loaded = load_parquet(files, {"code": "VARCHAR", "x": "BIGINT"}, folder=str(tmp_path / "t")).sort_by("x")
    assert loaded["code"].to_pylist() == values


def test_text_in_a_folder_that_is_not_utf8_is_missing_alone(tmp_path: Path) -> None:
    raw = pa.array([b"cook", b"\xff", b"nurse"])
    table = pa.table({"job": pa.Array.from_buffers(pa.string(), 3, raw.buffers())})
    (tmp_path / "t" / "year=1").mkdir(parents=True)
    pq.write_table(table, tmp_path / "t" / "year=1" / "a.parquet")
    domain = sd.Domain({"job": sd.Category(["cook", "nurse"], missing="keep"), "year": sd.Integer(0, 3)})
    assert exact(tmp_path / "t", domain, S.group_by("job").agg(sd.sum("year"))) == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("name", "raw", "how"),
    [
        ("a.arrow", b"S3CRET-9f", {}),
        ("a.sqlite", b"S3CRET-9f" * 200, {"relation": "t"}),
        ("a.jsonl", None, {}),
        ("none/", None, {}),
    ],
)
def test_files_that_cannot_be_opened_say_nothing_of_what_they_hold(
    name: str, raw: bytes | None, how: dict[str, Any], tmp_path: Path
) -> None:
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises((SourceError, DeclarationError)) as error:
        exact(f"{tmp_path}/{name}", DOMAIN, sd.count(), **how)
    assert "S3CRET" not in repr(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


@pytest.mark.parametrize("kind", ["sqlite", "arrow", "arrow stream", "folder"])
def test_a_column_that_is_not_there_is_refused(kind: str, tmp_path: Path) -> None:
    name, write, how = HELD[kind]
    write(tmp_path / name, ROWS)
    with pytest.raises(DeclarationError, match="no such column"):
        exact(tmp_path / name, sd.Domain({"wage": sd.Integer(0, 1)}), sd.count(), **how)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gs://bucket/people.parquet", "lies on another machine"),
        ("people.parquet.gz", "unpack it first"),
        ("people.csv.bz2", "must end in|unpack it first"),
    ],
)
def test_what_is_not_read_is_refused_with_what_works(path: str, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        source_from(path, csv=None)


JOBS = sd.Domain({"job": sd.Identifier()})


def count_jobs(path: Path, relation: str | None = None) -> list[tuple[Any, ...]]:
    held = protect(path, JOBS, budget=sd.ApproxDP(10**6, "0.5"), relation=relation)
    found = held.ask(held.group_by("job").agg(sd.count()), epsilon=10_000, delta=1e-3).rows
    return [tuple(row.values()) for row in found]


def test_an_object_or_a_list_is_no_text_of_a_json_cell(tmp_path: Path) -> None:
    rows = [
        *[b'{"job": "cook"}'] * 30,
        *[b'{"job": {"a": 1}}'] * 40,
        *[b'{"job": ["cook"]}'] * 50,
        *[b'{"job": null}'] * 60,
    ]
    (tmp_path / "jobs.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    assert count_jobs(tmp_path / "jobs.jsonl") == [("cook", 30)]


def test_text_of_a_sqlite_file_that_is_not_utf_8_is_missing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        connection.execute("CREATE TABLE jobs (job)")
        for cell, many in (("'cook'", 30), ("CAST(x'636fff' AS TEXT)", 40), ("x'636f'", 50), ("NULL", 60)):
            connection.executemany(f"INSERT INTO jobs VALUES ({cell})", [()] * many)
    connection.close()
    assert count_jobs(tmp_path / "jobs.sqlite", "jobs") == [("cook", 30)]
