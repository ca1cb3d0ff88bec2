"""Codebooks: what a data dictionary or the metadata of CSV on the Web says of columns becomes their declaration."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

import sordino as sd
from sordino.ask.project.proposal import draft_of, propose_project, read_codebook
from sordino.core.errors import DeclarationError

LINES = [
    ["Variable", "Type", "Min", "Max", "Values"],
    ["age", "integer", "0", "125", ""],
    ["sex", "numeric", "", "", "1 = woman; 2 = man"],
    ["city", "string", "", "", "Bern|Basel"],
    ["income", "decimal(10,2)", "0", "1000000.5", ""],
    ["seen", "date", "2020-01-01", "2029-12-31", ""],
    ["note", "text", "", "", ""],
    ["other", "integer", "low", "", ""],
]
TABLE = pa.table({"age": [1], "sex": [1], "city": ["Bern"], "income": [1.5], "seen": ["x"], "note": ["x"], "more": [1]})


def as_csv(place: Path) -> Path:
    path = place / "book.csv"
    path.write_text("".join(";".join(f'"{cell}"' for cell in line) + "\n" for line in LINES))
    return path


def as_sheet(place: Path) -> Path:
    with xlsxwriter.Workbook(place / "book.xlsx") as book:
        sheet = book.add_worksheet()
        for row, line in enumerate(LINES):
            sheet.write_row(row, 0, line)
    return place / "book.xlsx"


def declared(text: str) -> dict[str, Any]:
    (table,) = tomllib.loads(text)["tables"].values()
    columns: dict[str, Any] = table["columns"]
    return columns


@pytest.mark.parametrize("write", [as_csv, as_sheet])
def test_a_data_dictionary_is_declared(tmp_path: Path, write: Any) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    proposal = propose_project(tmp_path / "t.parquet", codebook=read_codebook(write(tmp_path)))
    columns = declared(proposal.text)
    assert columns["age"] == {"type": "integer", "lower": 0, "upper": 125}
    assert columns["sex"] == {"type": "category", "values": [1, 2]}
    assert columns["city"] == {"type": "category", "values": ["Bern", "Basel"]}
    assert columns["income"] == {"type": "real", "lower": 0, "upper": 1000000.5, "resolution": "FILL IN"}
    assert {key: str(end) for key, end in columns["seen"].items()} == {
        "type": "date", "lower": "2020-01-01", "upper": "2029-12-31",
    }  # fmt: skip
    assert columns["note"] == {"type": "category", "values": ["FILL IN"]}
    assert columns["more"]["lower"] == "FILL IN"
    assert proposal.remarks == (
        "the codebook names columns that the table lacks: other",
        "the codebook says nothing of more",
    )


def test_metadata_of_csv_on_the_web_is_declared(tmp_path: Path) -> None:
    columns = [
        {"name": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": "125"}},
        {"name": "city", "datatype": {"base": "string", "format": "Bern|Basel"}},
        {"name": "seen", "datatype": "date"},
    ]
    path = tmp_path / "t.csv-metadata.json"
    path.write_text(
        json.dumps({"@context": "http://www.w3.org/ns/csvw", "url": "t.csv", "tableSchema": {"columns": columns}})
    )
    pq.write_table(TABLE, tmp_path / "t.parquet")
    text = propose_project(tmp_path / "t.parquet", codebook=read_codebook(path)).text
    assert declared(text)["age"] == {"type": "integer", "lower": 0, "upper": 125}
    assert declared(text)["city"] == {"type": "category", "values": ["Bern", "Basel"]}


def test_what_is_no_codebook_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DeclarationError, match="needs a column called name, variable or field"):
        read_codebook(tmp_path / "a.csv")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(DeclarationError, match="no tableSchema"):
        read_codebook(tmp_path / "a.json")


def test_a_declared_column_is_its_own_draft() -> None:
    draft = draft_of(sd.Real(0, 1000, resolution="0.01"))
    assert (draft.kind, draft.lower, draft.upper) == ("real", "0", "1000")


def test_files_of_one_folder_say_which_lack_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [1]}), folder / "1.parquet")
    pq.write_table(pa.table({"a": [1], "c": [1]}), folder / "2.parquet")
    remarks = propose_project(folder).remarks
    assert remarks == ("b: no column of 2.parquet", "c: a column of 2.parquet, not of the first file")
    pq.write_table(pa.table({"x": [1]}), folder / "3.parquet")
    with pytest.raises(DeclarationError, match=r"3.parquet has no column of 1.parquet"):
        propose_project(folder)
