"""A CSV file whose declaration says how it is written is read as its import is, a line at a time."""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of
from sordino.ask.curator.project_check import check_against_data
from sordino.ask.engines.compare import _reading
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.readers.import_file import CellRules, import_file
from sordino.ask.engines.readers.raw import load_rows
from sordino.ask.engines.readers.text_tables import Layout
from sordino.ask.engines.table_layout import PeopleTable
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.core.source import Csv, source_from
from sordino.errors import DeclarationError

S = Selection()
DOMAIN = sd.Domain(
    {
        "Nr": sd.Integer(0, 10**6),
        "Alter von": sd.Integer(0, 120),
        "Gewicht": sd.Real(0, 500, resolution=0.1),
        "Kosten": sd.Real(0, 10_000, resolution=0.01),
        "Anteil": sd.Real(0, 1, resolution=0.001),
        "Tag": sd.Date("2020-01-01", "2029-12-31"),
        "Wann": sd.DateTime("2020-01-01", "2029-12-31", zone="UTC", resolution="minute"),
        "Privat": sd.Boolean(),
        "Straße": sd.Identifier(),
    },
    unreadable_rows=True,
)
OWN: dict[str, Any] = {
    "Kosten": {"type": "amount"},
    "Anteil": {"type": "percent"},
    "Alter von": {"null_values": ["-9"]},
    "Wann": {"date": "%d.%m.%Y %H:%M"},
}
WRITTEN: dict[str, Any] = {
    **{"delimiter": ";", "quote": '"', "null_values": ("k. A.",), "decimal": ",", "thousands": ".", "date": "%d.%m.%Y"},
    **{"true": "J", "false": "N", "columns": OWN},
}
# How else the same table may lie in a file: Csv's words, and the lines above and below.
LAYOUTS: dict[str, tuple[dict[str, Any], list[str], list[str], str]] = {
    "UTF-8": ({}, [], [], "\n"),
    "Windows": ({"encoding": "cp1252"}, [], [], "\r\n"),
    "title and total": ({"skip_first": 2, "totals": "Summe"}, ["Bericht 2024", ""], ["Summe;;;9.999,00 €;;;;;"], "\n"),
    "sep": ({"skip_first": 1, "encoding": "iso8859-15"}, ["sep=;"], [], "\r\n"),
    "old Mac": (
        {"skip_first": 1, "totals": ["Summe", "Überschlag"], "encoding": "mac-roman"},
        ["x"],
        ['"Überschlag" ;;;1;;;;;', "Summe;;;9;;;;;"],
        "\r",
    ),
}
HEAD = ["Nr;Alter von;Gewicht;Kosten;Anteil;Tag;Wann;Privat;Straße"]


def german(row: dict[str, Any], rng: random.Random) -> str:
    """Return a row as a German office writes it."""
    number = {name: None if row[name] is None else f"{row[name]:,.2f}" for name in ("Gewicht", "Kosten")}
    swapped = {
        name: "" if text is None else text.replace(",", "#").replace(".", ",").replace("#", ".")
        for name, text in number.items()
    }
    cells = [
        str(row["Nr"]),
        "-9" if row["Alter von"] is None else str(row["Alter von"]),
        swapped["Gewicht"] or rng.choice(["", "k. A."]),
        swapped["Kosten"] and swapped["Kosten"] + rng.choice([" €", "€", ""]),
        "" if row["Anteil"] is None else f"{row['Anteil'] * 100:.1f} %".replace(".", ","),
        "" if row["Tag"] is None else row["Tag"].strftime("%d.%m.%Y"),
        "" if row["Wann"] is None else row["Wann"].strftime("%d.%m.%Y %H:%M"),
        {True: "J", False: "n", None: ""}[row["Privat"]],
        f'"{row["Straße"]}"',
    ]
    return ";".join(rng.choice([cell, f"{cell} "]) for cell in cells[:-1]) + f";{cells[-1]}"


def rows_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    day = datetime.datetime(2024, 1, 1)
    return [
        {
            "Nr": place,
            "Alter von": maybe(rng.randrange(110)),
            "Gewicht": maybe(rng.randrange(4000) / 10),
            "Kosten": maybe(rng.randrange(900_000) / 100),
            "Anteil": maybe(rng.randrange(1000) / 1000),
            "Tag": maybe((day + datetime.timedelta(days=rng.randrange(900))).date()),
            "Wann": maybe(day + datetime.timedelta(minutes=rng.randrange(900_000))),
            "Privat": maybe(rng.random() < 0.5),
            "Straße": rng.choice(["Hauptstraße; 1", "Am Bäch", "Ü"]),
        }
        for place in range(count)
    ]


def write(path: Path, layout: str, lines: list[str]) -> Csv:
    """Write lines of a table in a layout; return how the file is declared."""
    words, above, below, end = LAYOUTS[layout]
    csv = Csv(header=True, **{**WRITTEN, **words})
    path.write_bytes(end.join([*above, *HEAD, *lines, *below, ""]).encode(csv.encoding))
    return csv


def cells_of(path: Path, csv: Csv | None, domain: sd.Domain = DOMAIN) -> list[dict[str, Any]]:
    """Return each row's cells as the primitives read them, in steps of their columns, in any order."""
    return cells_of_each([path], csv, domain)[0]


def cells_of_each(paths: list[Path], csv: Csv | None, domain: sd.Domain) -> list[list[dict[str, Any]]]:
    """Return the cells of several files, each a table of its own in one instance of DuckDB: opening one takes 20 ms."""
    own, *others = [source_from(path, csv=csv) for path in paths]
    tables = {f"t{i}": PeopleTable(source, domain, None) for i, source in enumerate(others)}
    engine = DuckDBEngine(own, domain=domain, unit=None, people=tables, reads=tables)
    try:
        cells = []
        for on in (engine.primitives, *(DuckDBPrimitives(engine._layout.people[name]) for name in tables)):
            read = {name: _reading(on, name, column)[0] for name, column in domain.columns.items()}
            select = exp.Select(expressions=[exp.alias_(cell, name) for name, cell in read.items()]).from_(on.source())
            rows = engine.run(select).to_pylist()
            cells.append(sorted(rows, key=lambda row: (row["Nr"] is None, row["Nr"])))
        return cells
    finally:
        engine.close()


@pytest.mark.each(7)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_is_read_as_it_is_declared_to_be_written(layout: str, tmp_path: Path) -> None:
    rng = random.Random(layout)
    rows = rows_of(rng, 40)
    csv = write(tmp_path / "de.csv", layout, [german(row, rng) for row in rows])
    minutes = [
        None if row["Wann"] is None else int(row["Wann"].replace(tzinfo=datetime.UTC).timestamp()) // 60 for row in rows
    ]
    days = [None if row["Tag"] is None else (row["Tag"] - datetime.date(1970, 1, 1)).days for row in rows]
    for row, cells, minute, day in zip(rows, cells_of(tmp_path / "de.csv", csv), minutes, days, strict=True):
        steps = {"Gewicht": 10, "Kosten": 100, "Anteil": 1000}
        numbers = {name: None if row[name] is None else round(row[name] * step) for name, step in steps.items()}
        truth = cells.pop("Privat")
        assert {**row, **numbers, "Wann": minute, "Tag": day} == {
            **cells,
            "Privat": None if truth is None else bool(truth),
        }
    raw = load_rows(tmp_path / "de.csv", DOMAIN, csv).to_pylist()
    assert [row["Privat"] for row in raw] == [row["Privat"] for row in rows]
    assert [row["Tag"] for row in raw] == [row["Tag"] for row in rows]


@pytest.mark.deep
@pytest.mark.parametrize("layout", ["title and total", "UTF-8"])
def test_a_project_reads_the_file_as_its_import_does(layout: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = rows_of(rng, 30)
    # an import wants one way of writing in all cells of a column
    lines = [german({**row, "Kosten": None}, rng) for row in rows]
    csv = write(tmp_path / "de.csv", layout, lines)
    rules = CellRules(
        null=("k. A.", "Alter von=-9"),
        decimal=(",",),
        thousands=(".",),
        true=("J",),
        false=("N",),
        types=("Kosten=text",),
    )
    placed = Layout(header=True, delimiter=";", skip_first=csv.skip_first, skip_last=len(csv.totals))
    import_file(tmp_path / "de.csv", tmp_path / "de.parquet", layout=placed, rules=rules)
    assert pq.read_schema(tmp_path / "de.parquet").field("Wann").type == "timestamp[us]"
    assert cells_of(tmp_path / "de.parquet", None) == cells_of(tmp_path / "de.csv", csv)


ODD = [
    "1;2;3,5;4 €;5 %;01.02.2024;01.02.2024 10:00;J;x", "", ";", ";" * 8, "x", '"', "\ufffd;1", "1.2.3;4", "sep=;",
    "7;0007;1.5;1,234.5;60;2024-02-01;2024-02-01 10:00;yes;x", "31.02.2024;" * 8, "Summe;;;9 €;;;;;",
    "\u00e4\u00f6;\u20ac", "? 1;? 2;? 3;? 4;? 5;? 6;? 7;? 8;? 9",
]  # fmt: skip


def fitting(lines: list[str], encoding: str) -> list[str]:
    return [line for line in lines if line.encode(encoding, "ignore") == line.encode(encoding, "replace")]


@pytest.mark.deep
@pytest.mark.parametrize("layout", LAYOUTS)
def test_odd_lines_take_no_row_away_and_make_one_each_at_most(layout: str, tmp_path: Path) -> None:
    rng = random.Random(layout)
    lines = [german(row, rng) for row in rows_of(rng, 12)]
    csv = write(tmp_path / "d.csv", layout, lines)
    before = Counter(repr(row) for row in cells_of(tmp_path / "d.csv", csv))
    odd = fitting(ODD, csv.encoding)
    mixed = [*lines, *odd]
    rng.shuffle(mixed)
    write(tmp_path / "e.csv", layout, mixed)
    after = Counter(repr(row) for row in cells_of(tmp_path / "e.csv", csv))
    assert before.total() == 12
    assert before <= after
    assert after.total() <= 12 + len(odd)


@pytest.mark.parametrize("odd", [(ODD[5],), pytest.param(tuple(ODD), marks=pytest.mark.deep)], ids=["one", "all"])
def test_one_line_more_moves_no_other(odd: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever a line holds, and wherever it stands: lines aside are counted, and cells are read by themselves."""
    rng = random.Random(1)
    lines = [german(row, rng) for row in rows_of(rng, 12)]
    questions: list[Any] = [
        [sd.count(), sd.sum("Nr"), sd.sum("Kosten"), sd.sum("Anteil")],
        *([S.group_by("Privat").agg(sd.count())] if len(odd) > 1 else []),
    ]

    def answers(table: list[str]) -> list[Any]:
        csv = write(tmp_path / "d.csv", "title and total", table)
        engine = engine_of(tmp_path / "d.csv", DOMAIN, csv=csv)
        try:
            return [ask(engine, DOMAIN, question) for question in questions]
        finally:
            engine.close()

    before = answers(lines)
    assert before[0][0] == [12]
    for line, place in zip(odd, itertools.cycle((0, 6, 12)), strict=False):
        after = answers([*lines[:place], line, *lines[place:]])
        for question, was, now in zip(questions, before, after, strict=True):
            assert_within_sensitivity(DOMAIN, question, was, now, Neighbors("add_remove", None))


@pytest.mark.deep
def test_cells_that_are_not_written_so_are_missing_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a;b;d\n1.234,5;x;01.02.2024\n12.5;J;2024-02-01\n007;yes;31.02.2024\n? 1;N;1/2/2024\n-;;\n")
    domain = sd.Domain({"a": sd.Real(0, 9999), "b": sd.Boolean(), "d": sd.Date("2020-01-01", "2029-12-31")})
    marks: dict[str, Any] = {"delimiter": ";", "null_values": ("-",), "decimal": ",", "thousands": "."}
    csv = Csv(header=True, **marks, date=("%d.%m.%Y",), true=("J",), false=("N",))
    counts = check_against_data(path, domain=domain, csv=csv).columns
    assert [(counts[name].missing, counts[name].unreadable) for name in domain] == [(1, 2), (1, 1), (1, 2)]


def test_a_byte_that_is_not_of_the_encoding_takes_its_own_cell(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    # 0x81 is no character of Windows-1252
    path.write_bytes(b"n,word\n1,M\xfcller\n2,\x81\n3,x\n")
    domain = sd.Domain({"n": sd.Integer(0, 9), "word": sd.Category(["M\u00fcller", "x"], missing="keep")})
    check = check_against_data(path, domain=domain, csv=Csv(header=True, encoding="cp1252"))
    assert (check.rows, check.columns["word"].missing, check.columns["word"].undeclared) == (3, 1, 0)
    assert [(m.count, "CP1252" in m.what) for m in check.misfits] == [(1, True)]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"encoding": "utf-16"}, "csv.encoding", "sordino import"),
    ({"encoding": "iso8859-159"}, "csv.encoding", "try utf-8"),
    *(({"encoding": name}, "csv.encoding", "") for name in ("utf-7", "iso2022_jp", "unicode_escape", "cp037", "rot13")),
    ({"decimal": ";"}, "csv.decimal", "a comma"),
    ({"thousands": "."}, "csv.thousands", "not the decimal mark"),
    ({"date": "%q"}, "csv.date", "no field"),
    ({"true": "J"}, "csv.true", "stated together"),
    *(({"totals": word}, "csv.totals", "first cell") for word in ("", [" "], "Summe;", ["a", "b\n"])),
    ({"skip_first": 1, "header": False, "names": ("a",)}, "csv.skip_first", "above a header"),
    ({"skip_first": -1}, "csv.skip_first", "0 or more"),
    ({"header_rows": 0}, "csv.header_rows", "1 or more"),
    ({"columns": {"a": {"type": "text"}}}, "csv.columns.a.type", "amount or percent"),
    ({"columns": {"a": {"deciml": ","}}}, "csv.columns.a.deciml", "did you mean 'decimal'"),
]


@pytest.mark.parametrize(("words", "key", "says"), REFUSED, ids=lambda case: str(case)[:40])
def test_what_no_file_is_written_as_is_refused(words: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        Csv(**{"header": True, "delimiter": ";", **words})
    assert refused.value.key == key
    assert says in str(refused.value)


def test_what_says_nothing_of_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,x\n")
    domain = sd.Domain({"a": sd.Integer(0, 9), "b": sd.Identifier()})
    for columns, says in (
        ({"b": {"decimal": ","}}, "declared as identifier"),
        ({"c": {"type": "amount"}}, "no declared column"),
    ):
        with pytest.raises(DeclarationError, match=says):
            check_against_data(tmp_path / "d.csv", domain=domain, csv=Csv(header=True, columns=columns))
    with pytest.raises(DeclarationError, match="on this machine"):
        source_from("s3://lake/a.csv", csv=Csv(header=True, encoding="cp1252"))


TOTALS = [
    "Summe;9;;", " Summe ;9;;", '"Summe";9;;', '" Summe";9;;x', "Summe", "Summe;;;;;", "Summer;1;2;3", "summe;1;2;3",
    ";Summe;1;2",
    "\u00dcberschlag;4;5;6", "1;2;3;4", "1;2;3;4", '"Su""mme";1;2;3', "Summe\ufffd;1;2;3", "",
    "Summe Summe;1;2;3", '"Summe;1";2;3;4',
]  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("words", [{}, {"encoding": "cp1252"}, {"skip_first": 2}, {"header_rows": 2}], ids=str)
@pytest.mark.parametrize("quote", ["", '"'], ids=["unquoted", "quoted"])
def test_a_file_with_totals_has_the_rows_that_each_line_has_alone(
    quote: str, words: dict[str, Any], tmp_path: Path
) -> None:
    """So a line less takes its own row alone, whatever else the file holds and wherever the line stands."""
    csv = Csv(True, delimiter=";", quote=quote, totals=("Summe", "\u00dcberschlag"), **words)
    domain = sd.Domain({name: sd.Identifier() for name in ("Nr", "b", "c", "d")}, unreadable_rows=True)
    head = [*["Bericht"] * csv.skip_first, *[";;;"] * (csv.header_rows - 1), "Nr;b;c;d"]
    pool = fitting(TOTALS, csv.encoding)

    rng = random.Random(f"{quote} {words}")
    lines = list(dict.fromkeys(pool))
    mixed = [rng.choices(pool, k=rng.randrange(1, 20)) for _ in range(4)]
    paths = []
    for place, table in enumerate([*([line] for line in lines), *mixed]):
        paths.append(tmp_path / f"{place}.csv")
        paths[-1].write_bytes("\n".join([*head, *table, ""]).encode(csv.encoding))
    rows = [Counter(repr(sorted(row.items())) for row in cells) for cells in cells_of_each(paths, csv, domain)]
    alone = dict(zip(lines, rows[: len(lines)], strict=True))
    assert all(each.total() <= 1 for each in alone.values())
    assert [alone[line].total() for line in pool[:2]] == [0, 0]
    assert alone['"Summe";9;;'].total() == (not quote)
    assert alone["Summer;1;2;3"].total() == alone["summe;1;2;3"].total() == 1
    for table, cells in zip(mixed, rows[len(lines) :], strict=True):
        assert cells == sum((alone[line] for line in table), Counter())
