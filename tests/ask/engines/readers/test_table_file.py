"""Rows written as files: CSV that Sordino reads as it is, with quotes only where a text needs them, and Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.ask.engines.readers.table_file import check_ending, csv_lines, write_tables
from sordino.errors import DeclarationError


def test_texts_are_quoted_only_where_they_must_be() -> None:
    plain = pa.table({"job": ["a b", None], "n": [1, None]})
    assert "".join(csv_lines(iter([plain, plain]))) == "job,n\na b,1\n,\na b,1\n,\n"
    odd = pa.table({"the,job": ['say "no", twice', "", None]})
    text = "".join(csv_lines(iter([odd])))
    assert list(csv.reader(io.StringIO(text)))[:2] == [["the,job"], ['say "no", twice']]
    assert text.splitlines()[2:] == ['""', ""]  # an empty text is not a missing one


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.PQ"])
def test_tables_are_written_one_after_another(tmp_path: Path, name: str) -> None:
    one, two = pa.table({"n": [1, 2]}), pa.table({"n": [3]})
    path = tmp_path / name
    check_ending(path)
    write_tables(path, iter([one, two]), ending=path.suffix)
    if name == "rows.csv":
        assert path.read_text() == "n\n1\n2\n3\n"
    else:
        assert pq.read_table(path)["n"].to_pylist() == [1, 2, 3]


def test_another_ending_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"must end in \.csv or \.parquet"):
        check_ending(Path("rows.xlsx"))
