"""Raw rows of a file, read as declared: NOT PRIVATE, marked so, and no cell in an error."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.ask.engines.readers.raw import load_rows
from sordino.errors import SourceError

DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 99),
        "sex": sd.Boolean(),
        "job": sd.Category(["desk", "field"], missing="keep"),
        "code": sd.Category([1, 2]),
        "born": sd.Date("1900-01-01", "2000-01-01"),
        "rate": sd.Real(0, 1, resolution="0.01"),
    }
)


def test_cells_are_read_as_declared_and_the_rest_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "age, sex,job,code,born,rate,note\n30,true,desk,1,1970-01-31,.25,x\n x,T,?,2,31.1.1970,1e-1,y\n,0,field,9,,,z\n"
    )
    table = load_rows(path, DOMAIN, sd.Csv(header=True, null_values=("?",), quote='"'))
    assert table.column_names == list(DOMAIN)
    assert b"NOT PRIVATE" in (table.schema.metadata or {})[b"sordino"]
    first, second, third = table.to_pylist()
    assert first == {
        "age": 30.0, "sex": True, "job": "desk", "code": 1, "born": datetime.date(1970, 1, 31), "rate": 0.25,
    }  # fmt: skip
    assert (second["age"], second["sex"], second["job"], second["born"], second["rate"]) == (
        None,
        True,
        None,
        None,
        0.1,
    )
    assert (third["age"], third["sex"], third["code"], third["rate"]) == (None, False, 9, None)


def test_parquet_and_files_without_a_header_are_read(tmp_path: Path) -> None:
    one = sd.Domain({"job": sd.Category(["desk", "field"]), "age": sd.Integer(0, 99)})
    pq.write_table(
        pa.table({"age": [1, 2], "job": pa.array(["desk", None]).dictionary_encode()}), tmp_path / "a.parquet"
    )
    assert load_rows(tmp_path / "a.parquet", one).to_pylist()[1] == {"job": None, "age": 2.0}
    (tmp_path / "b.data").write_text("7;desk\n8;field\n")
    found = load_rows(tmp_path / "b.data", one, sd.Csv(header=False, names=("age", "job"), delimiter=";"))
    assert found["age"].to_pylist() == [7.0, 8.0]


def test_errors_name_the_file_and_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age,sx\n41,secret\n")
    with pytest.raises(SourceError, match=r"no column 'sex': check its header"):
        load_rows(path, DOMAIN)
    path.write_text("age,sex\n41,secret,7\n")
    with pytest.raises(SourceError, match="cannot be read") as refused:
        load_rows(path, DOMAIN)
    assert "secret" not in str(refused.value)
    with pytest.raises(SourceError, match="no such file"):
        load_rows(tmp_path / "none.csv", DOMAIN)
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(SourceError, match="Parquet"):
        load_rows(tmp_path / "x.parquet", DOMAIN)
    pq.write_table(pa.table({"born": pa.array([[1]])}), tmp_path / "y.parquet")
    with pytest.raises(SourceError, match="does not hold what is declared"):
        load_rows(tmp_path / "y.parquet", sd.Domain({"born": sd.Date("1900-01-01", "2000-01-01")}))
