"""The curator's comparison of a declaration with its data: exact counts, marked NOT PRIVATE, nothing charged or stored."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import sordino as sd
from sordino.ask.engines.cells import reader
from sordino.core.domain import Category, Column, Date, Integer
from sordino.core.source import LONGEST_LINE, Csv
from sordino.errors import SourceError
from trying import examples

COLUMNS: dict[str, Column] = {
    "integer": sd.Integer(0, 20),
    "date": sd.Date("2013-01-01", "2013-12-31"),
    "boolean": sd.Boolean(),
    "category": sd.Category(["Male", "female"]),
    "other": sd.Category(["a"], other="b"),
    "identifier": sd.Identifier(),
}
TEXTS = ["1", "21.0", "-3", "1,234", "1.5", "2013-01-02T06:00:00Z", "2012/01/01", "2014-01-01", "2013-02-30"]
TEXTS += ["on", "x", "Male", "MALE", "Female", "a", "A", " a ", ""]


def recount(column: Column, texts: list[str | None]) -> dict[str, int]:
    """Count by the reading of Python objects what the comparison counts by the reading in SQL."""
    read, _ = reader(column)
    counts = dict.fromkeys(("missing", "unreadable", "below", "above", "undeclared"), 0)
    for text in texts:
        found = None if text is None else read(text)
        if isinstance(column, Category) and isinstance(found, str):
            found = found.strip() if found.strip() in column.values else None
        if text is None:
            counts["missing"] += 1
        elif found is None:
            counts["undeclared" if isinstance(column, Category) else "unreadable"] += 1
        elif isinstance(column, (Integer, Date)):
            counts["below"] += found < column.lower
            counts["above"] += found > column.upper
    return counts


@examples(6, 8, st.sampled_from(list(COLUMNS)), st.lists(st.sampled_from([*TEXTS, None]), max_size=40))
def test_every_cell_is_counted_once(kind: str, texts: list[str | None]) -> None:
    column = COLUMNS[kind]
    found = sd.check_against_data(pa.table({"x": pa.array(texts, pa.string())}), domain=sd.Domain({"x": column}))
    wanted = recount(column, texts)
    counts = found.columns["x"]
    assert {name: getattr(counts, name) for name in wanted} == wanted
    assert found.rows == len(texts)
    assert sum(m.count for m in found.misfits) == sum(wanted.values()) - wanted["missing"]


def test_numbers_beyond_bounds_and_missing_floats() -> None:
    frame = pd.DataFrame({"x": [0.0, 5.0, 5.2, -1.0, float("nan"), float("inf")], "y": [1.5, 2.0, 3.0, 1e300, None, 5]})
    domain = sd.Domain({"x": sd.Real(0, 5, resolution="0.1"), "y": sd.Integer(0, 4)})
    found = sd.check_against_data(frame, domain=domain)
    assert (found.columns["x"].missing, found.columns["x"].below, found.columns["x"].above) == (1, 1, 2)
    assert (found.columns["y"].missing, found.columns["y"].unreadable, found.columns["y"].above) == (1, 1, 2)


def test_values_in_another_case_are_pointed_out() -> None:
    table = pa.table({"sex": ["MALE"] * 3 + ["female", "x"]})
    found = sd.check_against_data(table, domain=sd.Domain({"sex": sd.Category(["male", "female"])}))
    (misfit,) = found.misfits
    assert (misfit.key, misfit.count) == ("columns.sex", 4)
    assert "(3 of them are one in another case)" in misfit.what


LINES = ["name,age", '"Doe, Jane",21', '"open,30', '"x', 'y",30', "Ann", "Bob,1,2", "Eve,30", ""]


@pytest.mark.deep
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_that_are_no_rows_are_counted(tmp_path: Path, end: str) -> None:
    place = tmp_path / "d.csv"
    place.write_bytes(end.join(LINES).encode() + end.encode() + b"\xff\xfe,1" + end.encode())
    domain = sd.Domain({"name": sd.Identifier(), "age": sd.Integer(0, 125)})
    quoted = sd.check_against_data(place, domain=domain, csv=Csv(header=True, quote='"'))
    assert quoted.lines is not None
    assert (quoted.lines.lines, quoted.rows) == (9, 3)
    assert (quoted.lines.broken, quoted.lines.too_short, quoted.lines.too_long) == (3, 2, 1)
    assert quoted.lines.undecoded == 1
    unquoted = sd.check_against_data(place, domain=domain, csv=Csv(header=True))
    assert unquoted.lines is not None
    assert unquoted.lines.quoted == 3
    assert unquoted.misfits[0].key == "csv.quote"


def write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def write_database(path: Path, table: pa.Table) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM rows")


WRITERS: dict[str, Callable[[Path, pa.Table], None]] = {
    "p.parquet": lambda path, table: pq.write_table(table, path, row_group_size=7),
    "a.arrow": write_arrow,
    "d.duckdb": write_database,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", WRITERS)
def test_the_first_rows_that_do_not_fit_are_placed(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    ages = [rng.choice([1, 2, 3, 99, None]) for _ in range(60)]
    words = [rng.choice(["a", "b", "a", "a", "A", None]) for _ in ages]
    WRITERS[name](tmp_path / name, pa.table({"age": pa.array(ages, pa.int64()), "word": words}))
    domain = sd.Domain({"age": sd.Integer(0, 9), "word": sd.Category(["a", "c"])})
    relation = "people" if name == "d.duckdb" else None
    check = sd.check_against_data(tmp_path / name, domain=domain, relation=relation)
    assert check.columns["age"].first == tuple([row for row, age in enumerate(ages, 1) if age == 99][:5])
    assert check.columns["word"].first == tuple([row for row, word in enumerate(words, 1) if word in ("b", "A")][:5])
    assert check.to_dict()["columns"]["age"]["first"] == check.columns["age"].first


FORMS: list[dict[str, Any]] = [
    {}, {"quote": '"'}, {"totals": "Total"}, {"quote": '"', "totals": "Total", "skip_first": 2},
    {"header_rows": 2, "encoding": "cp1252"},
]  # fmt: skip
# Lines, and whether each is a row, unquoted and quoted.
CSV_LINES = {
    "1,a": (True, True), "99,a": (True, True), "x,a": (True, True), '"98","a"': (True, True), "": (False, False),
    "7": (True, False), "1,a,9": (True, False), "97,a,9": (True, False),
    '"open,1': (True, False), "Total,9": (True, True), ",": (True, True),
    "96,\xff": (True, True),
}  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_the_first_lines_that_do_not_fit_are_those_of_an_editor(
    form: dict[str, Any], end: str, packed: bool, tmp_path: Path
) -> None:
    rng = random.Random(f"{form}{end!r}")
    csv = Csv(header=True, **form)
    head = ["a report"] * csv.skip_first + ["age,word"] + [","] * (csv.header_rows - 1)
    lines = [*head, *rng.choices(list(CSV_LINES), k=40)]
    text = end.join([*lines, ""]).encode("latin-1")
    path = tmp_path / ("d.csv.gz" if packed else "d.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    misfits = []
    for number, line in enumerate(lines[len(head) :], len(head) + 1):
        cell = line.partition(",")[0]
        counts = CSV_LINES[line][bool(csv.quote)] and not (csv.totals and cell == "Total")
        fits = cell in ("", "1", "7") or (bool(csv.quote) and cell == '""')
        misfits += [number] if counts and not fits else []
    domain = sd.Domain({"age": sd.Integer(0, 9), "word": sd.Identifier()}, unreadable_rows=True)
    check = sd.check_against_data(path, domain=domain, csv=csv)
    assert check.columns["age"].first == tuple(misfits[:5])
    assert check.lines is not None
    assert check.lines.totals == (lines.count("Total,9") if csv.totals else 0)
    assert check.lines.lines == len(lines) - len(head)


@pytest.mark.deep
def test_a_line_that_cannot_be_read_leaves_no_lines_to_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(f"age\n{'9' * (LONGEST_LINE + 1)}\n99\n")
    check = sd.check_against_data(tmp_path / "d.csv", domain=sd.Domain({"age": sd.Integer(0, 9)}), csv=Csv(header=True))
    assert (check.columns["age"].above, check.columns["age"].first) == (1, ())


def test_the_marks_say_not_private_and_errors_hold_no_cell(tmp_path: Path) -> None:
    found = sd.check_against_data(pa.table({"x": ["secret"]}), domain=sd.Domain({"x": sd.Integer(0, 1)}))
    assert found.to_dict()["mark"].startswith("NOT PRIVATE")
    assert "secret" not in str(found.to_dict())
    place = tmp_path / "d.parquet"
    place.write_bytes(b"secret")
    with pytest.raises(SourceError) as told:
        sd.check_against_data(place, domain=sd.Domain({"x": sd.Integer(0, 1)}))
    assert "b'secret'" not in str(told.value)
