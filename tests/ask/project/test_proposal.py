"""A proposed project file: made of names and types alone, with its blanks counted, and a source beside it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.core.source import source_from
from sordino.errors import DeclarationError, SourceError


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


def test_json_lines_give_the_names_of_their_first_line_only_where_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"age": 9753197, "job": "Sales", "pay": true}\n{"age": 1, "town": "Oslo"}\n'))
    for header in (None, False):
        with pytest.raises(DeclarationError, match="is a row of the data, and a project file is public: say --header"):
            sd.propose_project(path, header=header)
    with pytest.raises(DeclarationError, match="--header for JSON lines"):
        sd.propose_project(path, header=True, columns=3)
    made = sd.propose_project(path, header=True)
    assert (made.table, made.columns) == ("visits", 3)
    assert made.text.count('{type = "FILL IN"}') == 3  # one row says nothing of the types of others
    assert not any(word in made.text for word in ("9753197", "Sales", "town", "Oslo", "true"))
    assert "add those that it leaves out" in made.remarks[0]


@pytest.mark.parametrize(
    "line", ["", "[1]", "41", '{"age": ', "{}", '{"": 1}', '{"a": 1, "A": 2}', "[" * 100_000, "\x01"]
)
def test_a_first_line_that_names_no_columns_is_refused_without_a_word_of_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "visits.jsonl").write_text(f"{line}\n")
    with pytest.raises(SourceError, match="its first line is no") as found:
        sd.propose_project(tmp_path / "visits.jsonl", header=True)
    assert len(line) < 3 or line not in str(found.value)


@pytest.mark.parametrize("named", ["visits.csv.gz", "visits.csv.zst", "visits.tsv.gz", "visits.csv"])
def test_the_table_of_a_compressed_file_has_its_name(named: str, tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / named), compression="detect") as file:
        file.write(b"age\n41\n")
    made = sd.propose_project(tmp_path / named, header=True)
    assert (made.table, made.columns) == ("visits", 1)


@pytest.mark.each(6)
@pytest.mark.parametrize("folder", ["visits", "visits.parquet"])
@pytest.mark.parametrize("end", ["", "/"])
def test_a_folder_is_written_with_its_slash_and_read_again(folder: str, end: str, tmp_path: Path) -> None:
    (tmp_path / folder / "year=2024").mkdir(parents=True)
    pq.write_table(pa.table({"age": [41, 5]}), tmp_path / folder / "year=2024" / "part.snappy.parquet")
    made = sd.propose_project(f"{tmp_path / folder}{end}", directory=tmp_path)
    assert f'source = "{tmp_path / folder}/"' in made.text
    assert (made.table, made.columns) == ("visits", 2)
    text = made.text.replace('epsilon = "FILL IN"', "epsilon = 1000").replace(
        'neighbors = "FILL IN"', 'neighbors = "replace"'
    )
    text = text.replace('privacy_unit = "FILL IN"', 'privacy_unit = "row"')
    text = text.replace('lower = "FILL IN", upper = "FILL IN"', "lower = 0, upper = 99").replace(
        '["FILL IN"]', '["2024"]'
    )
    (tmp_path / "sordino.toml").write_text(text)
    assert sd.check_project(tmp_path / "sordino.toml") == []
    held = sd.connect(tmp_path / "sordino.toml").table("visits")
    assert held.ask(held.group_by("year").agg(sd.sum("age")), epsilon=900).rows[0]["sum_age"] == pytest.approx(
        46, abs=2
    )
    held.close()
    assert source_from(tmp_path / folder).is_folder
