"""Files that change while a table is open: each question is answered from one state of them, or not at all."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.errors import ChargedError, SourceError

DOMAIN = sd.Domain({"town": sd.Category(["O", "B"]), "x": sd.Integer(0, 1000)})
CSV = sd.Csv(header=True)
QUESTION = [sd.count().alias("n"), sd.sum("x").alias("s")]
Columns = dict[str, list[Any]]


def rows(count: int, x: int) -> Columns:
    return {"town": ["O"] * count, "x": [x] * count}


def csv_file(path: Path, columns: Columns) -> None:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def json_file(path: Path, columns: Columns) -> None:
    path.write_text("".join(f'{{"town": "{t}", "x": {x}}}\n' for t, x in zip(*columns.values(), strict=True)))


def parquet_file(path: Path, columns: Columns) -> None:
    pq.write_table(pa.table(columns), path)


def parquet_folder(path: Path, columns: Columns) -> None:
    path.mkdir(exist_ok=True)
    for name in ("a.parquet", "b.parquet"):
        half = {n: c[: len(c) // 2] if name[0] == "a" else c[len(c) // 2 :] for n, c in columns.items()}
        pq.write_table(pa.table(half), path / name)


def arrow_file(path: Path, columns: Columns) -> None:
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def sqlite_file(path: Path, columns: Columns) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
    connection.executemany("INSERT INTO t VALUES (?, ?)", list(zip(*columns.values(), strict=True)))
    connection.commit()
    connection.close()


def duckdb_file(path: Path, columns: Columns) -> None:
    connection = duckdb.connect(str(path))
    connection.register("rows", pa.table(columns))
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM rows")
    connection.close()


FORMATS: dict[str, tuple[Callable[[Path, Columns], None], str, dict[str, Any]]] = {
    "csv": (csv_file, "t.csv", {"csv": CSV}),
    "quoted csv": (csv_file, "q.csv", {"csv": sd.Csv(header=True, quote='"')}),
    "jsonl": (json_file, "t.jsonl", {}),
    "parquet": (parquet_file, "t.parquet", {}),
    "folder": (parquet_folder, "t", {}),
    "glob": (parquet_folder, "t", {}),
    "arrow": (arrow_file, "t.arrow", {}),
    "sqlite": (sqlite_file, "t.sqlite", {"relation": "t"}),
    "duckdb": (duckdb_file, "t.duckdb", {"relation": "t"}),
}
HELD = [name for name in FORMATS if name not in ("folder", "glob")]  # that a replaced name is still read of
SCANNED = ["csv", "quoted csv", "jsonl", "parquet", "folder", "glob"]  # that are read anew by each scan


class Files:
    """One table on disk, in one format: `write` makes it, `replace` puts another in its place under the same name."""

    def __init__(self, name: str, folder: Path) -> None:
        self.make, file, self.how = FORMATS[name]
        self.path = folder / file
        self.source = f"{self.path}/" if name == "folder" else f"{self.path}/*.parquet" if name == "glob" else self.path

    def replace(self, columns: Columns) -> None:
        beside = self.path.with_name("new-" + self.path.name)
        self.make(beside, columns)
        if self.path.is_dir():
            shutil.rmtree(self.path)
        os.rename(beside, self.path)

    def open(self, **how: Any) -> sd.Curator:
        return protect(self.source, DOMAIN, **self.how, **how)


def exact(curator: sd.Curator) -> tuple[int, int]:
    value = curator.ask(QUESTION, epsilon=10**5).value
    return round(value["n"]), round(value["s"])


@pytest.fixture(params=list(FORMATS))
def files(request: Any, tmp_path: Path) -> Files:
    made = Files(request.param, tmp_path)
    made.make(made.path, rows(10, 2))
    return made


@pytest.mark.deep
def test_a_new_file_of_the_same_columns_is_followed(files: Files) -> None:
    people = files.open()
    assert exact(people) == (10, 20)
    files.replace(rows(30, 4))
    assert exact(people) == (30, 120)
    files.replace(rows(4, 5))
    assert exact(people) == (4, 20)


@pytest.mark.each(5)
def test_a_file_that_is_gone_costs_nothing_and_may_come_back(files: Files) -> None:
    people = files.open()
    away = files.path.with_name("away")
    os.rename(files.path, away)
    with pytest.raises(SourceError):
        people.ask(QUESTION, epsilon=1)
    assert people.spent == sd.PureDP(0)
    os.rename(away, files.path)
    assert exact(people) == (10, 20)


@pytest.mark.each(4)
@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("csv", {"x": [5, 6], "town": ["O", "B"]}),
        ("csv", {"x": [5, 6], "y": [9, 9]}),
        ("csv", {"O": ["O", "B"], "5": [5, 6]}),
        ("quoted csv", {"x": [5, 6], "town": ["O", "B"]}),
        ("parquet", {"town": ["O"], "y": [3]}),
        ("parquet", {"town": ["O"], "x": ["3"]}),
        ("folder", {"town": ["O", "O"], "x": ["3", "4"]}),
        ("glob", {"town": ["O", "O"], "x": ["3", "4"]}),
        ("arrow", {"town": ["O"], "x": [3.5]}),
        ("sqlite", {"town": ["O"], "z": [3]}),
        ("duckdb", {"town": ["O"], "x": ["3"]}),
    ],
)
def test_other_columns_are_refused_before_the_charge(name: str, columns: Columns, tmp_path: Path) -> None:
    files = Files(name, tmp_path)
    files.make(files.path, rows(10, 2))
    people = files.open()
    files.replace(columns)
    for _ in range(2):
        with pytest.raises(SourceError):
            people.ask(QUESTION, epsilon=1)
    assert people.spent == sd.PureDP(0)
    files.replace(rows(3, 3))
    assert exact(people) == (3, 9)


def test_a_file_with_declared_names_is_held_to_its_header_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    csv_file(path, rows(10, 2))
    people = protect(path, DOMAIN, csv=sd.Csv(header=True, names=("town", "x")))
    csv_file(path, {"x": [5], "town": ["O"]})
    with pytest.raises(SourceError, match="header line") as refused:
        people.ask(QUESTION, epsilon=1)
    assert "5" not in str(refused.value)


def between_scans(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None], *, at: int) -> None:
    """Make the change right before the scan of this number."""
    run, scans = DuckDBEngine.run, [0]

    def counted(engine: DuckDBEngine, select: Any) -> Any:
        scans[0] += 1
        if scans[0] == at:
            change()
        return run(engine, select)

    monkeypatch.setattr(DuckDBEngine, "run", counted)


MEDIAN = [sd.count().alias("n"), sd.median("x").alias("m")]  # several scans


@pytest.mark.deep
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("name", HELD)
def test_a_file_replaced_between_scans_is_not_seen(
    name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(name, tmp_path)
    files.make(files.path, rows(10, 2))
    people = files.open()
    between_scans(monkeypatch, lambda: files.replace(rows(30, 900)), at=at)
    value = people.ask(MEDIAN, epsilon=10**5).value
    assert (round(value["n"]), round(value["m"])) == (10, 2)
    value = people.ask(MEDIAN, epsilon=10**5).value
    assert (round(value["n"]), round(value["m"])) == (30, 900)


@pytest.mark.each(7)
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("name", SCANNED)
def test_a_file_written_to_between_scans_gives_no_answer(
    name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(name, tmp_path)
    files.make(files.path, rows(10, 2))
    people = files.open()
    between_scans(monkeypatch, lambda: files.make(files.path, rows(30, 900)), at=at)
    with pytest.raises(ChargedError, match="changed while it was read"):
        people.ask(MEDIAN, epsilon=10**5)
    value = people.ask(MEDIAN, epsilon=10**5).value
    assert (round(value["n"]), round(value["m"])) == (30, 900)


@pytest.mark.deep
def test_a_file_that_failed_once_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet_file(path, rows(3, 2))
    people = protect(path, DOMAIN)
    whole = path.read_bytes()
    pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(b"PAR1" + b"\xff" * (pages - 4) + whole[pages:])
    with pytest.raises(ChargedError):
        people.ask(QUESTION, epsilon=1)
    for count in (7, 77):
        parquet_file(path, rows(count, 2))
        assert exact(people) == (count, 2 * count)


def test_bad_text_is_mended_after_a_failure_of_another_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    raw = pa.array([b"O", b"B\xff", b"O"], pa.binary())
    towns = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"town": towns, "x": [1, 2, 3]}), path)
    people = protect(path, DOMAIN)
    question = people.group_by("town").agg(sd.sum("x").alias("s"))
    with monkeypatch.context() as patched:
        patched.setattr(DuckDBEngine, "_attempt", lambda *_: None)  # as where there is no memory left
        with pytest.raises(ChargedError):
            people.ask(question, epsilon=10**5)
    sums = people.ask(question, epsilon=10**5).to_arrow()["s"].to_pylist()
    assert [round(s) for s in sums] == [4, 0]


@pytest.mark.deep
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    name=st.sampled_from(list(FORMATS)),
    steps=st.lists(st.tuples(st.sampled_from(["replace", "write"]), st.integers(2, 40)), min_size=1, max_size=4),
)
def test_each_answer_is_of_the_newest_state(name: str, steps: list[tuple[str, int]], tmp_path: Path) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    files = Files(name, folder)
    files.make(files.path, rows(50, 3))
    people = files.open()
    for how, count in steps:
        if how == "replace" or name == "duckdb":  # DuckDB refuses to write to a file that is open
            files.replace(rows(count, 3))
        else:
            files.make(files.path, rows(count, 3))
        assert exact(people) == (count, 3 * count)
    people.close()
