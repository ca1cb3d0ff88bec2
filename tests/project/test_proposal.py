"""A proposed project file: made of names and types alone, with its blanks counted, and a source beside it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.errors import DeclarationError


def test_a_proposal_holds_no_value_and_counts_its_blanks(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [41, 9_753_197], "job": ["Sales", "Care"]}), tmp_path / "2024 people.parquet")
    made = sd.propose_project(tmp_path / "2024 people.parquet")
    assert (made.table, made.columns) == ("t_2024_people", 2)
    assert made.blanks == made.text.count('= "FILL IN"') + made.text.count('["FILL IN"]')
    assert made.blanks > 4
    assert "Sales" not in made.text
    assert "9753197" not in made.text


def test_a_relative_source_is_stated_from_the_project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.csv").write_text("age;job\n41;Sales\n")
    with pytest.raises(DeclarationError, match="--header"):
        sd.propose_project("raw.csv")
    made = sd.propose_project("raw.csv", header=True, delimiter=";", directory="survey")
    assert 'source = "../raw.csv"' in made.text


def test_an_odd_csv_file_becomes_parquet(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_bytes("age;job\n41;Soci\xe9t\xe9\n;Care\n".encode("latin-1"))
    types = sd.datasets.import_csv(
        tmp_path / "raw.csv", tmp_path / "raw.parquet", header=True, delimiter=";", encoding="latin-1"
    )
    assert types == {"age": "integer", "job": None}
    assert pq.read_table(tmp_path / "raw.parquet").to_pydict() == {"age": ["41", None], "job": ["Société", "Care"]}
