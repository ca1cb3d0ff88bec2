"""The curator's comparison of a declaration with its data: exact counts, marked NOT PRIVATE, nothing charged or stored."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from sordino.ask.engines.cells import reader
from sordino.core.domain import Category, Column, Date, Integer
from sordino.core.source import Csv
from sordino.errors import SourceError

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


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(list(COLUMNS)), st.lists(st.sampled_from([*TEXTS, None]), max_size=40))
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


def test_the_marks_say_not_private_and_errors_hold_no_cell(tmp_path: Path) -> None:
    found = sd.check_against_data(pa.table({"x": ["secret"]}), domain=sd.Domain({"x": sd.Integer(0, 1)}))
    assert found.to_dict()["mark"].startswith("NOT PRIVATE")
    assert "secret" not in str(found.to_dict())
    place = tmp_path / "d.parquet"
    place.write_bytes(b"secret")
    with pytest.raises(SourceError) as told:
        sd.check_against_data(place, domain=sd.Domain({"x": sd.Integer(0, 1)}))
    assert "b'secret'" not in str(told.value)
