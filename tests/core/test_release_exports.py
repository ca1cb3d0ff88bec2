"""A release handed on: through Arrow's C stream, as frames with intervals, as CSV and as Parquet with what it is."""

from __future__ import annotations

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import DeclarationError

TABLE = pa.table(
    {"job": ["cook", 'a "b", c', "nurse"] * 100, "pay": [1.5, 2.5, 3.5] * 100, "day": ["2024-01-01"] * 300}
)
DOMAIN = sd.Domain(
    {
        "job": sd.Category(["cook", 'a "b", c', "nurse", "none"]),
        "pay": sd.Real(0, 4, resolution=0.5),
        "day": sd.Date("2024-01-01", "2024-12-31"),
    }
)


def ask(question: Any) -> sd.Release:
    release: sd.Release = protect(TABLE, DOMAIN).ask(question, epsilon=5)
    return release


def grouped() -> sd.Release:
    people = protect(TABLE, DOMAIN)
    asked = people.group_by("job").agg(sd.count().alias("n"), sd.mean("pay"), sd.median("day"), sd.sum("pay"))
    return people.ask(asked, epsilon=5)


def test_the_table_goes_to_whatever_reads_arrow() -> None:
    release = grouped()
    assert pa.table(release) == release.table == release.to_arrow()
    assert pl.DataFrame(release).columns == list(release.columns)
    handed = release.table
    assert duckdb.execute("SELECT n FROM handed").fetchall() == [(row["n"],) for row in release.rows]
    assert handed.num_rows == 4
    assert pa.table(ask(sd.count())).num_rows == 1


def test_frames_with_intervals_hold_what_interval_says() -> None:
    release = grouped()
    ends = release.interval(0.9)
    frame = release.to_pandas(intervals=True, confidence=0.9)
    assert list(frame.columns)[:7] == ["job", "n", "n_lower", "n_upper", "mean_pay", "mean_pay_lower", "mean_pay_upper"]
    assert release.to_arrow(intervals=True, confidence=0.9).select(ends.column_names) == ends
    assert frame["n"].tolist() == [row["n"] for row in release.rows]
    assert release.to_polars(intervals=True).equals(pl.DataFrame(pl.from_arrow(release.to_arrow(intervals=True))))
    single = ask(sd.count().alias("n")).to_pandas(intervals=True)
    assert list(single.columns) == ["n", "n_lower", "n_upper"]
    assert single["n_lower"][0] <= single["n"][0] <= single["n_upper"][0]


def test_csv_reads_back_as_it_was(tmp_path: Path) -> None:
    release = grouped()
    release.to_csv(tmp_path / "answer.csv", intervals=True)
    with (tmp_path / "answer.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = release.to_arrow(intervals=True)
    assert list(rows[0]) == table.column_names
    for row, cells in zip(rows, table.to_pylist(), strict=True):
        assert row == {name: "" if cell is None else str(cell) for name, cell in cells.items()}
    assert list(pd.read_csv(tmp_path / "answer.csv")["n"]) == [row["n"] for row in release.rows]


def test_parquet_holds_the_table_and_the_whole_release(tmp_path: Path) -> None:
    release = grouped()
    release.to_parquet(str(tmp_path / "answer.parquet"), intervals=True)
    found = pq.read_table(tmp_path / "answer.parquet")
    assert found.replace_schema_metadata(None) == release.to_arrow(intervals=True)
    about = json.loads((found.schema.metadata or {})[b"sordino.release"])
    assert sd.Release.from_dict(about) == release
    assert about["private"] is False


def test_an_answer_of_no_rows_keeps_its_types(tmp_path: Path) -> None:
    domain = sd.Domain({"job": sd.Identifier(), "pay": sd.Real(0, 4, resolution=0.5)})
    few = protect(TABLE.slice(0, 1), domain, budget=sd.ApproxDP(100, "0.1"))
    release = few.ask(few.group_by("job").agg(sd.count(), sd.sum("pay")), epsilon=1, delta=1e-9)
    table = release.to_arrow(intervals=True)
    assert table.num_rows == 0
    assert [str(kind) for kind in table.schema.types] == ["string", *["int64"] * 3, *["double"] * 3]
    release.to_csv(tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "job,count,sum_pay\n"


def test_a_column_named_as_an_end_is_refused() -> None:
    release = ask([sd.count().alias("n"), sd.sum("pay").alias("n_lower")])
    assert release.to_pandas().shape == (1, 2)
    with pytest.raises(DeclarationError, match="end of an interval"):
        release.to_pandas(intervals=True)


def test_columns_have_the_types_of_their_declaration_where_no_row_is_left() -> None:
    """Private keys may all be kept back, and HAVING may leave nothing: a column's type is no news of either."""
    domain = sd.Domain(
        {
            "name": sd.Identifier(),
            "age": sd.Integer(0, 9),
            "open": sd.Boolean(),
            "day": sd.Date("2024-01-01", "2024-01-03"),
        }
    )
    rows = pa.table({"name": ["a"], "age": [1], "open": [True], "day": [datetime.date(2024, 1, 2)]})
    people = protect(rows, domain, budget=sd.ApproxDP(100, "0.5"))
    asked = people.group_by("age", "open", "day").agg(sd.count())
    none = people.ask(asked.having(sd.col("count") > 10**6), epsilon=1)
    assert none.table.num_rows == 0
    assert none.table.schema.types == people.ask(asked, epsilon=1).table.schema.types
    assert sd.Release.from_dict(none.to_dict()).table.schema == none.table.schema
    hidden = people.ask(people.group_by("name", "open").agg(sd.count()), epsilon="0.01", delta="1e-9")
    assert hidden.table.num_rows == 0
    assert hidden.table.schema.types == [pa.string(), pa.bool_(), pa.int64()]


def test_a_column_without_values_has_the_type_of_its_values() -> None:
    """The rows that are left may have no key but the missing one, and dates may have no row to stand in."""
    domain = sd.Domain(
        {
            "name": sd.Identifier(),
            "open": sd.Boolean(missing="keep"),
            "day": sd.Date("2024-01-01", "2024-01-03"),
            "seen": sd.DateTime("2024-01-01", "2024-01-03", zone="Europe/Berlin", missing="keep"),
        }
    )
    rows = pa.table(
        {"name": ["a"], "open": [None], "day": [datetime.date(2024, 1, 2)], "seen": [None]},
        schema=pa.schema([("name", pa.string()), ("open", pa.bool_()), ("day", pa.date32()), ("seen", pa.timestamp("us"))]),
    )  # fmt: skip
    people = protect(rows, domain, budget=sd.ApproxDP(10**9, "0.5"))
    by = people.group_by("open", sd.col("seen").truncate("day").alias("at")).agg(
        sd.count(), sd.mean("day"), sd.median("day")
    )
    whole, missing, none = (
        people.ask(asked, epsilon=10**6)
        for asked in (by, by.having(sd.col("count") > 0.5), by.having(sd.col("count") > 9))
    )
    assert missing.table.column("open").to_pylist() == missing.table.column("at").to_pylist() == [None]
    assert [str(kind) for kind in whole.table.schema.types] == [
        "bool", "timestamp[us, tz=Europe/Berlin]", "int64", "date32[day]", "date32[day]"
    ]  # fmt: skip
    for other in (missing, none, sd.Release.from_dict(missing.to_dict()), sd.Release.from_dict(none.to_dict())):
        assert other.table.schema == whole.table.schema
    ends = [r.to_arrow(intervals=True).select(["mean_day_lower", "median_day_upper"]).schema for r in (none, whole)]
    assert ends[0].types == ends[1].types == [pa.date32()] * 2
