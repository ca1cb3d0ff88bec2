"""Files as people have them become typed Parquet: what is read, what stays text, what is refused, and the recipe."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
import xlsxwriter
from hypothesis import strategies as st

import sordino as sd
from sordino.ask.engines.readers import import_file as import_module
from sordino.ask.engines.readers.cell_formats import read_cell
from sordino.ask.engines.readers.import_file import (
    CellRules,
    ImportRecord,
    import_file,
    read_recipe,
)
from sordino.ask.engines.readers.text_tables import Layout
from sordino.core.cell_formats import NUMBERS, CellFormat, Kind
from sordino.core.errors import DeclarationError, SourceError, in_python
from trying import examples

GERMAN = (
    "\ufeffNr;Alter;Gewicht (kg);Kosten;Aufnahme;Privat;Anteil;Wann;PLZ\n"
    '1;34;72,5;"1.234,56 €";31.12.2023;J;60%;31.12.2023 14:05;01234\n'
    "2;41;80;12,00 €;01.02.2024;N;12,5 %;01.02.2024 08:00;10115\n"
    "3;-9;;9,99 €;;J;;;\n"
)


def run(source: Path, header: bool | None = True, **options: Any) -> tuple[pa.Table, ImportRecord]:
    """Import a file; return the table, and what was done. Only lines and sheets have a header."""
    header = None if source.suffix in (".sav", ".dta", ".json", ".jsonl", ".db") else header
    layout = {name: options.pop(name) for name in list(options) if name in Layout.__dataclass_fields__}
    rules = {name: options.pop(name) for name in list(options) if name in CellRules.__dataclass_fields__}
    target = source.with_name("out.parquet")
    record = import_file(source, target, layout=Layout(header=header, **layout), rules=CellRules(**rules), **options)
    return pq.read_table(target), record


def write(place: Path, text: str, encoding: str = "utf-8") -> Path:
    place.write_bytes(text.encode(encoding))
    return place


@pytest.mark.deep
def test_a_german_export_is_read(tmp_path: Path) -> None:
    table, record = run(
        write(tmp_path / "de.csv", GERMAN), delimiter=";", null=("Alter=-9",), true=("J",), false=("N",)
    )
    assert table.to_pylist()[0] == {
        "Nr": 1, "Alter": 34, "Gewicht (kg)": 72.5, "Kosten": 1234.56, "Aufnahme": datetime.date(2023, 12, 31),
        "Privat": True, "Anteil": 0.6, "Wann": datetime.datetime(2023, 12, 31, 14, 5), "PLZ": "01234",
    }  # fmt: skip
    assert table.column("Alter").to_pylist() == [34, 41, None]
    assert [column.name for column in record.guesses] == [
        "Nr",
        "Alter",
        "Gewicht (kg)",
        "Kosten",
        "Aufnahme",
        "Privat",
        "Anteil",
        "Wann",
    ]


def test_a_recipe_repeats_an_import_and_guesses_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "de.csv", GERMAN)
    table, record = run(source, delimiter=";", null=("Alter=-9",), true=("J",), false=("N",))
    recipe = write(tmp_path / "out.import.toml", record.recipe)
    place, _, layout, rules = read_recipe(recipe)
    again = import_file(place, tmp_path / "again.parquet", layout=layout, rules=rules, strict=True)
    assert pq.read_table(tmp_path / "again.parquet").equals(table)
    assert not again.guesses
    # no cell, no count
    assert not any(word in record.recipe for word in ("1.234", "10115", "31.12", "72,5"))
    with pytest.raises(DeclarationError, match="no recipe"):
        read_recipe(write(tmp_path / "other.toml", "a = 1"))


CELLS: list[tuple[str, list[str], dict[str, Any], str, list[Any]]] = [
    ("leading zeros", ["007", "12"], {}, "text", ["007", "12"]),
    ("integers", ["1", "-2", "+3.0"], {}, "integer", [1, -2, 3]),
    ("reals", [".5", "-2.25", "1e3"], {}, "real", [0.5, -2.25, 1000.0]),
    ("dollars", ["$4", "$4,000 "], {}, "amount", [4.0, 4000.0]),
    ("codes of money", ["CHF 1'200.50", "CHF 3"], {}, "amount", [1200.5, 3.0]),
    ("below 0 as bookkeepers write", ["1.234,50-", "12,00", "-3,00"], {}, "real", [-1234.5, 12.0, -3.0]),
    ("in brackets", ["(1,234.50)", "$12", "($0.50)", "-$2"], {}, "text", ["(1,234.50)", "$12", "($0.50)", "-$2"]),
    ("amounts in brackets", ["($1,234.50)", "$12", "($0.50)", "-$2"], {}, "amount", [-1234.5, 12.0, -0.5, -2.0]),
    ("whole in brackets", ["(12)", "3"], {}, "integer", [-12, 3]),
    ("a comma of either kind", ["1,234", "2,345"], {}, "text", ["1,234", "2,345"]),
    ("stated thousands", ["1,234", "2,345"], {"thousands": (",",)}, "integer", [1234, 2345]),
    ("stated decimals", ["1,234", "2,345"], {"decimal": (",",)}, "real", [1.234, 2.345]),
    ("spaces", ["1 234,5", "12\u00a0345,0"], {}, "real", [1234.5, 12345.0]),
    ("days or months first", ["01/02/2024", "03/04/2024"], {}, "text", ["01/02/2024", "03/04/2024"]),
    ("days first", ["01/02/2024", "31/12/2024"], {}, "date", [datetime.date(2024, 2, 1), datetime.date(2024, 12, 31)]),
    ("stated months first", ["01/02/2024"], {"date": ("%m/%d/%Y",)}, "date", [datetime.date(2024, 1, 2)]),
    ("no such day", ["31.02.2024", "01.02.2024"], {}, "text", ["31.02.2024", "01.02.2024"]),
    ("moments", ["2024-01-31T08:00:00"], {}, "moment", [datetime.datetime(2024, 1, 31, 8)]),
    ("moments with a zone", ["2024-01-31T08:00:00.5Z", "2024-01-31 08:00+02:00"], {}, "moment", [
        datetime.datetime(2024, 1, 31, 8, 0, 0, 500000, datetime.UTC), datetime.datetime(2024, 1, 31, 6, tzinfo=datetime.UTC)
    ]),
    ("days beside moments", ["2024-01-31", "2024-01-31T08:00:00"], {}, "text", ["2024-01-31", "2024-01-31T08:00:00"]),
    ("truths", ["Yes", "no"], {}, "boolean", [True, False]),
    ("one cell of text", ["1", "2", "x"], {}, "text", ["1", "2", "x"]),
    ("a mark of what is missing", ["1", "2", "n/a"], {"null": ("n/a",)}, "integer", [1, 2, None]),
    ("kept text", ["1", "2"], {"types": ("a=text",)}, "text", ["1", "2"]),
    ("beyond 64 bits", ["9" * 19, "1"], {}, "real", [1e19, 1.0]),
]  # fmt: skip


@pytest.mark.each(17)
@pytest.mark.parametrize(
    ("cells", "rules", "kind", "values"), [case[1:] for case in CELLS], ids=[case[0] for case in CELLS]
)
def test_cells_become_values_where_all_agree(
    tmp_path: Path, cells: list[str], rules: dict[str, Any], kind: str, values: list[Any]
) -> None:
    text = "a;b\n" + "".join(f"{cell};x\n" for cell in cells)
    table, record = run(write(tmp_path / "a.csv", text), delimiter=";", **rules)
    assert record.columns[0].format.kind == kind
    assert table.column("a").to_pylist() == values


@examples(
    6,
    25,
    number=st.decimals(min_value=-(10**9), max_value=10**9, places=2),
    style=st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'")]),
    kind=st.sampled_from(NUMBERS[1:]),
)
def test_a_number_is_read_back_as_it_was_written(number: Any, style: tuple[str, str], kind: Kind) -> None:
    import duckdb

    decimal, thousands = style
    plain = f"{number:,.2f}"
    cell = plain.replace(",", "\0").replace(".", decimal).replace("\0", thousands)
    form = CellFormat(kind, decimal, thousands)
    cell += {"amount": " €", "percent": "%"}.get(kind, "")
    # a result that is not fetched to its end would bar the shared connection to the tests that follow
    answer = duckdb.execute(
        f"SELECT regexp_full_match(c, $p), {read_cell(form, 'c')} FROM (SELECT $c AS c)", {"p": form.pattern, "c": cell}
    ).fetchall()
    assert answer == [(True, float(number) / (100 if kind == "percent" else 1))]


def test_what_stays_text_says_why_and_what_reads_it(tmp_path: Path) -> None:
    _, record = run(write(tmp_path / "a.csv", "a\n1\n2\n?\n"))
    assert record.notes == (
        "a: stays text: 2 of 3 cells are integer, 1 is not, in row 3 ('?'): --null \"a=?\" if that means missing",
    )


def test_a_guess_is_refused_with_strict_and_stays_text_unless_confirmed(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "a,b\n1,x\n")
    with pytest.raises(DeclarationError, match='state --type "a=integer"'):
        run(source, strict=True)
    assert not (tmp_path / "out.parquet").exists()
    table, _ = run(source, confirm=lambda guesses: [guess.name for guess in guesses] != ["a"])
    assert table.to_pylist() == [{"a": "1", "b": "x"}]
    assert run(source, strict=True, types=("a=integer",))[0].to_pylist() == [{"a": 1, "b": "x"}]


def test_a_cell_that_does_not_fit_what_is_stated_names_its_row(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"column 'a' is stated as integer, and row 2 of the table holds 'x'"):
        run(write(tmp_path / "a.csv", "a\n1\nx\n"), types=("a=integer",))


def test_headers_as_they_come(tmp_path: Path) -> None:
    table, record = run(write(tmp_path / "index.csv", ",a,a\n0,1,2\n"))
    assert table.column_names == ["column_1", "a", "a_2"]
    assert len(record.notes) == 2
    table, _ = run(write(tmp_path / "merged.csv", "2023,,2024,\nmen,women,men,women\n1,2,3,4\n"), header_rows=2)
    assert table.column_names == ["2023 men", "2023 women", "2024 men", "2024 women"]
    table, _ = run(write(tmp_path / "sep.csv", "sep=;\na;b\n1;2\n"))
    assert table.to_pylist() == [{"a": 1, "b": 2}]
    table, _ = run(write(tmp_path / "title.csv", "A report\n\na,b\n1,2\nTotal,2\n"), skip_first=2, skip_last=1)
    assert table.to_pylist() == [{"a": 1, "b": 2}]
    table, _ = run(write(tmp_path / "named.csv", "1,2\n"), header=False, names=("x", "y"))
    assert table.to_pylist() == [{"x": 1, "y": 2}]


def test_a_byte_of_another_encoding_names_its_row_and_one_that_fits(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "a\nx\nStraße\n", "cp1252")
    with pytest.raises(
        SourceError, match=r"byte 0xdf in row 3 of .* is no utf-8: encoding='cp1252' reads the whole file"
    ):
        run(source)
    assert run(source, encoding="cp1252")[0].column("a").to_pylist() == ["x", "Straße"]
    (tmp_path / "b.csv").write_bytes(b"a\n\x9d\n")
    with pytest.raises(SourceError, match=r"byte 0x9d in row 2 of .* is no cp1252: encoding='latin-1'"):
        run(tmp_path / "b.csv", encoding="cp1252")


def workbook(path: Path) -> Path:
    with xlsxwriter.Workbook(path, {"default_date_format": "dd.mm.yyyy"}) as book:
        book.add_worksheet("about").write(0, 0, "a title")
        sheet = book.add_worksheet("stays")
        rows = [
            ["id", "age", "cost", "day", "member"],
            [1, 34, 12.5, datetime.datetime(2024, 1, 31), True],
            [2, None, 3, datetime.datetime(2024, 2, 1), False],
        ]
        for place, row in enumerate(rows):
            sheet.write_row(place, 0, row)
    return path


def test_a_workbook_is_read_by_its_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx")
    table, _ = run(path, sheet="stays")
    assert table.to_pylist() == [
        {"id": 1, "age": 34, "cost": 12.5, "day": datetime.date(2024, 1, 31), "member": True},
        {"id": 2, "age": None, "cost": 3.0, "day": datetime.date(2024, 2, 1), "member": False},
    ]
    assert "the first of 2" in run(path)[1].notes[0]
    with pytest.raises(DeclarationError, match="has no sheet 'stay'; did you mean 'stays'"):
        run(path, sheet="stay")


@pytest.mark.each(2)
@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_labels_of_a_codebook_become_declared_values(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"sex": [1.0, 2.0, None], "income": [100.0, 9.0, 250.5]})
    labels: dict[str, Any] = {"sex": {1: "woman", 2: "man", 3: "other"}, "income": {9: "refused"}}
    path = tmp_path / f"a{ending}"
    if ending == ".sav":
        pyreadstat.write_sav(frame, str(path), variable_value_labels=labels)
    else:
        frame = pd.DataFrame({"sex": [1, 2, None], "income": [100.0, 9.0, 250.5]}).astype({"sex": "Int32"})
        pyreadstat.write_dta(frame, str(path), variable_value_labels={"sex": labels["sex"]})
    table, record = run(path)
    assert table.column("sex").to_pylist() == ["woman", "man", None]
    assert table.column("income").to_pylist() == [100.0, 9.0, 250.5]
    # all labels are declared, those that nobody has too: they are the codebook's, not the data's
    assert record.columns[0].labels == ("woman", "man", "other")
    from sordino.ask.project.proposal import propose_project

    text = propose_project(tmp_path / "out.parquet").text
    assert 'sex = {type = "category", values = ["woman", "man", "other"]}' in text


def test_codes_of_missing_answers_are_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [30.0, 999.0]})
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"), missing_ranges={"age": [999]})
    assert run(tmp_path / "a.sav")[0].column("age").to_pylist() == [30, None]


def json_array(path: Path) -> None:
    path.write_text(json.dumps([{"a": 1, "b": "x", "c": {"d": [1]}}, {"a": 2.5, "e": True}]))


def json_lines(path: Path) -> None:
    path.write_text('{"a": 1, "b": "x", "c": {"d": [1]}}\n{"a": 2.5, "e": true}\n')


@pytest.mark.each(2)
@pytest.mark.parametrize(("ending", "make"), [(".json", json_array), (".jsonl", json_lines)])
def test_json_is_read(tmp_path: Path, ending: str, make: Callable[[Path], None]) -> None:
    path = tmp_path / f"a{ending}"
    make(path)
    assert run(path)[0].to_pylist() == [
        {"a": 1.0, "b": "x", "c": '{"d":[1]}', "e": None},
        {"a": 2.5, "b": None, "c": None, "e": True},
    ]
    (tmp_path / "no.json").write_text("{")
    with pytest.raises(SourceError, match="no JSON array"):
        run(tmp_path / "no.json")


def test_fixed_widths_zips_and_databases_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "fixed.txt", "id age\n 1  34\n 2   7\n")
    assert run(path, widths=(2, 4))[0].to_pylist() == [{"id": 1, "age": 34}, {"id": 2, "age": 7}]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../deep/a.csv", "a\n1\n")
        archive.writestr("readme.md", "no table")
    assert run(tmp_path / "a.zip")[0].to_pylist() == [{"a": 1}]
    assert not (tmp_path.parent / "deep").exists()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.execute("INSERT INTO t VALUES (1, 'x'), (2.5, NULL)")
    connection.close()
    assert run(tmp_path / "a.db")[0].to_pylist() == [{"a": 1.0, "b": "x"}, {"a": 2.5, "b": None}]


def test_many_files_meet_by_the_names_of_their_columns(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    write(folder / "1.csv", "a,b\n1,x\n")
    write(folder / "2.csv", "b,a,c\ny,2,5\n")
    rows = [{"a": 1, "b": "x", "c": None, "file": "1.csv"}, {"a": 2, "b": "y", "c": 5, "file": "2.csv"}]
    for source in (folder, folder / "*.csv"):
        target = tmp_path / "out.parquet"
        record = import_file(source, target, layout=Layout(header=True, file_column="file"))
        assert pq.read_table(target).to_pylist() == rows
        assert record.notes == ("c: no column of 1.csv",)


@pytest.mark.parametrize(
    ("name", "text", "options", "words"),
    [
        ("a.csv", "a,b\n1\n", {}, "row 2 of .* has 1 cell, not 2"),
        ("a.csv", "a;b\n1;2\n", {}, "say --delimiter ';'"),
        ("a.csv", 'a\n"x\n', {}, "odd number of"),
        ("a.csv", "", {}, "no first row"),
        ("a.csv", "a\n1\n", {"header": None}, "state --header"),
        ("a.csv", "a\n1\n", {"encoding": "klingon"}, "not known"),
        ("a.csv", "a\n1\n", {"types": ("b=text",)}, "takes COLUMN=TYPE"),
        ("a.csv", "a\n1\n", {"types": ("a=number",)}, "column 'a'"),
        ("a.csv", "a\n1\n", {"date": ("%Q",)}, "no field of a date"),
        ("a.csv", "a\n1\n", {"decimal": ("a=;",)}, "a decimal mark is"),
        ("a.csv", "a\n1\n", {"names": ("x", "y")}, "there are 1 columns, and 2 names"),
        ("a.parquet", "x", {}, "typed columns already: sordino init"),
        ("a.docx", "x", {}, "is of no kind that is read here"),
        ("a.xlsx", "x", {}, "cannot be opened as a workbook"),
        ("a.sav", "x", {}, "cannot be opened"),
        ("a.zip", "x", {}, "no whole zip"),
    ],
)
def test_what_cannot_be_read_says_what_can(
    tmp_path: Path, name: str, text: str, options: dict[str, Any], words: str
) -> None:
    source = write(tmp_path / name, text)
    with pytest.raises((DeclarationError, SourceError), match=words):
        run(source, **options)
    assert not (tmp_path / "out.parquet").exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.deep
def test_an_imported_table_is_asked(tmp_path: Path) -> None:
    run(write(tmp_path / "de.csv", GERMAN), delimiter=";", null=("Alter=-9",), true=("J",), false=("N",))
    domain = sd.Domain({"Kosten": sd.Real(0, 5000, resolution="0.01"), "Privat": sd.Boolean()})
    table = sd.protect(
        str(tmp_path / "out.parquet"),
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**7),
        ledger=None,
    )
    answer = table.ask(sd.sql("SELECT SUM(Kosten) AS k FROM out WHERE Privat"), epsilon=10**6)
    assert answer.value == pytest.approx(1244.55, abs=0.2)


_KILLED = """
import os, signal, sys
from sordino.ask.engines.readers import import_file as module

def interrupt(*_):
    os.kill(os.getpid(), int(sys.argv[1]))

module._convert = interrupt
module.import_file("a.csv", "a.parquet", layout=module.Layout(header=True))
"""


def test_an_import_that_is_stopped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw rows lie in a locked folder beside the target while they are read."""

    def interrupt(*given: object) -> None:
        assert len(os.listdir(tmp_path)) > 1, given
        raise KeyboardInterrupt

    write(tmp_path / "a.csv", "a\n1\n")
    monkeypatch.setattr(import_module, "_convert", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a.csv")
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.deep
def test_an_import_that_was_stopped_leaves_nothing_and_a_killed_one_what_the_next_removes(tmp_path: Path) -> None:
    """Raw rows lie in a locked folder beside the target while they are read: no lock, no folder."""
    write(tmp_path / "a.csv", "a\n1\n")

    def stop(number: int) -> int:
        line = [sys.executable, "-c", _KILLED, str(number)]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, timeout=120, check=False).returncode

    stop(signal.SIGINT)
    assert os.listdir(tmp_path) == ["a.csv"]
    assert stop(signal.SIGKILL) == -signal.SIGKILL
    left = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert left.name.startswith(".")
    assert left.stat().st_mode & 0o077 == 0
    _, record = run(tmp_path / "a.csv")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "out.parquet"]
    assert any("when it was killed: 1 folder" in note for note in record.notes)


WAYS: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("a header in two rows", b"Patient,,Stay\nnr,age,cost\n1,30,2.5\n2,31,3.5\n", {}, "--header-rows 2 if it has names"),
    ("a total", b"nr,age\n1,30\n2,31\nSumme,61\n", {}, "--skip-last 1 if the last row is a total"),
    ("yes and no", b"nr,ok\n1,J\n2,N\n3,J\n", {}, '--true "ok=J" --false "ok=N"'),
    ("two words", b"nr,ok\n1,Oui\n2,Absent\n", {}, '--true "ok=Oui" --false "ok=Absent"'),
    ("days in two ways", b"d\n31.12.2024\n30.12.2024\n2024-01-02\n", {}, '--date "d=%d.%m.%Y|%Y-%m-%d" reads either'),
    ("a mark of missing", b"n\n1\n2\n3\n4\nn/a\n5\n", {}, '--null "n=n/a" if that means missing'),
    ("many odd cells", b"n\n" + b"1\n" * 20 + b"".join(b"x%d\n" % i for i in range(6)) + b"2\n", {}, "6 different ones"),
]  # fmt: skip


@pytest.mark.each(5)
@pytest.mark.parametrize(("content", "options", "says"), [case[1:] for case in WAYS], ids=[case[0] for case in WAYS])
def test_what_is_odd_names_its_way_out(tmp_path: Path, content: bytes, options: dict[str, Any], says: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    _, record = run(tmp_path / "a.csv", **options)
    assert any(says in note for note in record.notes), record.notes


STOPS: list[tuple[str, bytes, str]] = [
    ("a title", b"Report\n\na,b\n1,2\n", "state skip_first= or skip_last="),
    ("UTF-16", "a,b\n1,2\n".encode("utf-16"), "encoding='utf-16'"),
    (
        "one bad byte",
        "a\nGyn\u00e4k\nM\u00fcller\n".encode() + b"\xe4\n",
        "other lines have letters that are: correct that row",
    ),
    ("Latin-1", b"a\nGyn\xe4k\n", "encoding='cp1252' reads the whole file"),
    ("a cell of 20 MB", b"a,b\n1," + b"9" * 20_000_000 + b"\n2,3\n", "longer than 8 MB"),
]


@pytest.mark.parametrize(("content", "says"), [case[1:] for case in STOPS], ids=[case[0] for case in STOPS])
def test_what_stops_an_import_names_its_way_out(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SourceError) as refused:
        run(tmp_path / "a.csv")
    assert says in in_python(str(refused.value))
    assert os.listdir(tmp_path) == ["a.csv"]


def test_another_encoding_or_delimiter_than_the_file_shows_is_not_taken_in_silence(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "\ufeffa,b\n1,2\n")
    with pytest.raises(DeclarationError, match="begins with the mark of UTF-8"):
        run(source, encoding="latin-1")
    _, record = run(source, delimiter=";")
    assert record.notes[0] == "no ';' in the first line, so there is one column; ',' is there"


def test_days_in_two_ways_are_read_and_repeated(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "d\n31.12.2024\n2024-01-02\n")
    table, record = run(source, date=("d=%d.%m.%Y|%Y-%m-%d",))
    assert table.column("d").to_pylist() == [datetime.date(2024, 12, 31), datetime.date(2024, 1, 2)]
    place, _, layout, rules = read_recipe(write(tmp_path / "r.import.toml", record.recipe))
    import_file(place, tmp_path / "again.parquet", layout=layout, rules=rules, strict=True)
    assert pq.read_table(tmp_path / "again.parquet").equals(table)


@pytest.mark.each(2)
@pytest.mark.parametrize("packing", ["gzip", "bz2", "lzma"])
def test_a_packed_file_is_read(tmp_path: Path, packing: str) -> None:
    ending = {"gzip": ".gz", "bz2": ".bz2", "lzma": ".xz"}[packing]
    place = tmp_path / f"a.csv{ending}"
    place.write_bytes(importlib.import_module(packing).compress(b"a\n1\n"))
    assert run(place)[0].to_pylist() == [{"a": 1}]
    place.write_bytes(place.read_bytes()[:-3])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        run(place)


def test_a_table_within_an_object_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"count": 1, "results": [{"a": 1}]}')
    _, record = run(tmp_path / "a.json")
    assert any(note.startswith("results: a list of objects") for note in record.notes)
