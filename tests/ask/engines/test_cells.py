"""Cells as people write them: read where the meaning is certain, else missing, and alike from every kind of source."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from sqlglot import exp

import sordino as sd
from ask.engines.support import engine_of, exact
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.build import Selection
from sordino.core.primitives import Primitives
from sordino.core.source import Csv
from sordino.errors import DeclarationError
from trying import examples

S = Selection()
DAY = datetime.date(2013, 1, 2)
COLUMNS: dict[str, sd.domain.Column] = {
    "integer": sd.Integer(-(10**15), 10**15),
    "real": sd.Real(-1000, 1000, resolution="0.25"),
    "date": sd.Date("0001-01-01", "9999-12-31"),
    "boolean": sd.Boolean(),
    "category": sd.Category(["Male", "Female"]),
    "codes": sd.Category([1, 2, 21]),
}
READ: list[tuple[str, str, object]] = [
    *[("integer", t, 21) for t in ("21", "21.0", "21.", "+21.00", " 21 ", "\t21\r")],
    ("integer", "-5.0", -5),
    ("integer", "123456789012345.0", 123456789012345),
    *[
        ("integer", t, None)
        for t in ("1.5", "1,234", "1 234", "1e3", "$12", "0x1", "", "21.0.0", ".0", "--1", "1234567890123456789")
    ],
    *[("real", t, 12.5) for t in ("12.5", " 12.5", "+12.50", "1.25e1")],
    *[("real", t, None) for t in ("12,5", "1,234.5", "$12", "12.5%", "", "1 2", "0x1", "inf", "nan")],
    *[
        ("date", t, DAY)
        for t in ("2013-01-02", " 2013-01-02 ", "2013/01/02", "2013-01-02T06:00:00Z", "2013-01-02 06:00:00")
    ],
    *[("date", t, DAY) for t in ("2013-01-02T23:59", "2013-01-02 06:00:00.123456789+01:00", "2013/01/02 06:00 UTC")],
    *[
        ("date", t, None)
        for t in ("20130102", "02.01.2013", "01/02/2013", "2013-1-2", "2013-01/02", "2013-02-30", "2013-01-02x")
    ],
    *[("boolean", t, True) for t in ("true", "T", "Yes", "y", "on", "ON", " 1 ", "1.0")],
    *[("boolean", t, False) for t in ("false", "F", "No", "n", "off", "0", "0.0")],
    *[("boolean", t, None) for t in ("2", "wahr", "", "-1")],
    *[("category", t, "Male") for t in ("Male", " Male", "Male\t")],
    *[("category", t, None) for t in ("male", "MALE", "M", "", "Ma le")],
    *[("codes", t, 21) for t in ("21", "21.0", " 21")],
    *[("codes", t, None) for t in ("21.5", "twenty", "3")],
]


def cell(kind: str, on: Primitives) -> exp.Expression:
    """Return how a column of this kind is read."""
    if kind == "integer":
        return on.integer("x", -(10**15), 10**15)
    if kind == "real":
        return on.lattice("x", Fraction(1, 4), -4000, 4000)
    if kind == "date":
        return on.days("x", datetime.date.min, datetime.date.max)
    if kind == "boolean":
        return on.truth("x")
    column = COLUMNS[kind]
    assert isinstance(column, sd.Category)
    return on.code_of(on.category_cell("x", whole=kind == "codes"), column.values, None)


def meaning(kind: str, found: Any) -> object:
    if found is None or kind in ("integer", "boolean"):
        return found
    if kind == "real":
        return found / 4
    if kind == "date":
        return datetime.date(1970, 1, 1) + datetime.timedelta(found)
    column = COLUMNS[kind]
    assert isinstance(column, sd.Category)
    return column.values[found]


def read(engine: DuckDBEngine, kind: str) -> dict[int, object]:
    """Return each row's reading, by its number."""
    on = engine.primitives
    chosen = [exp.alias_(on.integer("i", 0, 10**6), "i"), exp.alias_(cell(kind, on), "x")]
    found = engine.run(exp.Select(expressions=chosen).from_(on.source())).to_pydict()
    engine.close()
    return {i: meaning(kind, x) for i, x in zip(found["i"], found["x"], strict=True)}


def domain(kind: str) -> sd.Domain:
    return sd.Domain({"i": sd.Integer(0, 10**6), "x": COLUMNS[kind]})


@pytest.mark.each(8)
@pytest.mark.parametrize("kind", COLUMNS)
def test_each_cell_means_what_the_table_of_rules_says(tmp_path: Path, kind: str) -> None:
    texts = [t for k, t, _ in READ if k == kind]
    wanted = dict(enumerate(w for k, _, w in READ if k == kind))
    numbers = list(range(len(texts)))
    arrow = pa.table({"i": numbers, "x": texts})
    frames: dict[str, Any] = {
        "text": arrow,
        "dictionary": arrow.set_column(1, "x", arrow["x"].dictionary_encode()),
        "objects": pd.DataFrame({"i": numbers, "x": pd.Series(texts, dtype=object)}),
        "categories": pd.DataFrame({"i": numbers, "x": pd.Series(texts, dtype="category")}),
    }
    for name, frame in frames.items():
        assert read(engine_of(frame, domain(kind)), kind) == wanted, name
    place = tmp_path / "d.csv"
    place.write_text("".join(f'{i},"{t.strip()}"\n' for i, t in enumerate(texts)))
    rules = Csv(header=False, names=("i", "x"), quote='"')
    assert read(engine_of(place, domain(kind), csv=rules), kind) == wanted


@examples(
    6,
    12,
    st.sampled_from(list(COLUMNS)),
    st.lists(st.text(alphabet="0129.-+/:TZ eEtrufalsMy\t,", max_size=12), max_size=60),
)
def test_text_is_read_alike_by_both_readers(kind: str, texts: list[str]) -> None:
    """The reading in SQL and the one of Python objects are one function of the cell."""
    engine = engine_of(
        pa.table({"i": pa.array(range(len(texts)), pa.int64()), "x": pa.array(texts, pa.string())}), domain(kind)
    )
    one = read(engine, kind)
    other = read(
        engine_of(pd.DataFrame({"i": range(len(texts)), "x": pd.Series(texts, dtype=object)}), domain(kind)), kind
    )
    assert one == other


def test_blanks_count_where_a_declared_value_has_some() -> None:
    table = pa.table({"x": ["a", " a", "a "]})
    wanted = {("a",): [3], ("a", " a"): [1, 1], (" a ",): [0]}
    for values, counts in wanted.items():
        assert exact(table, sd.Domain({"x": sd.Category(list(values))}), S.group_by("x").agg(sd.count())) == [counts]


def test_periods_of_pandas_are_read_by_name_and_first_day() -> None:
    """Finding: a column of periods read as all missing, without a word."""
    months = pd.PeriodIndex(["2013-01", "2013-02", None, "2013-02"], freq="M")
    for frame in (pd.DataFrame({"x": months}), pd.DataFrame({"x": months.astype(object)})):
        named = sd.Domain({"x": sd.Category(["2013-01", "2013-02"])})
        assert exact(frame, named, S.group_by("x").agg(sd.count())) == [[1, 2]]
        days = sd.Domain({"x": sd.Date("2013-01-01", "2013-12-31")})
        since = S.where(sd.col("x") >= datetime.date(2013, 2, 1)).agg(sd.count())
        assert exact(frame, days, since) == [[2]]


LARGE = 2**60
EXACT: dict[str, sd.domain.Column] = {
    "unbounded": sd.Integer(),
    "half bounded": sd.Integer(0),
    "beyond": sd.Integer(0, LARGE),
    "large codes": sd.Category([LARGE, LARGE + 1]),
}
ROWS: list[list[Any]] = [[1, 2], [1, None], [], [1, 2.5], [1, "x"], ["1", "2"], [True], [True, None], [LARGE, 2**70]]


@pytest.mark.parametrize("kind", EXACT)
def test_whole_numbers_that_floats_merge_are_refused_by_the_declaration_alone(kind: str) -> None:
    """One missing cell makes floats of all, and floats merge numbers beyond 2^53: 100 ids were one.

    Finding: a frame was refused only where a cell was missing, which told that one is.
    """
    held = sd.Domain({"x": EXACT[kind]})
    for rows in ROWS:
        with pytest.raises(DeclarationError, match="Int64") as told:
            engine_of(pd.DataFrame({"x": rows}), held)
        assert str(LARGE)[:6] not in str(told.value)
        engine_of(pd.DataFrame({"x": rows}), sd.Domain({"x": sd.Integer(-(2**53), 2**53)})).close()
        engine_of(pd.DataFrame({"x": rows}), sd.Domain({"x": sd.Category([1, 2])})).close()
    for dtype, cells in (("Int64", [1, None]), ("string", ["1"]), ("int64[pyarrow]", [1, None])):
        engine_of(pd.DataFrame({"x": pd.Series(cells, dtype=dtype)}), held).close()


def test_ids_that_floats_merge_are_missing_in_every_dtype_that_pandas_infers() -> None:
    """A frame of ids is opened whatever its rows are, and never makes one id of two."""
    held, asked = sd.Domain({"x": sd.Identifier()}), S.agg(sd.count("x"), sd.count_distinct("x"))
    for more, (rows, names) in {None: (1, 1), 2.5: (2, 2), "x": (2, 2), 2**70: (1, 1), 2**63: (1, 1)}.items():
        frame = pd.DataFrame({"x": [LARGE, LARGE + 1, -LARGE, 7, more]})
        assert exact(frame, held, asked) == [[rows], [names]], more
    whole = pd.DataFrame({"x": pd.array([LARGE, LARGE + 1, None], dtype="Int64")})
    assert exact(whole, held, asked) == [[2], [2]]
