"""Text that is not UTF-8 is missing, from every kind of source, and fails nothing."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, engine_of
from protecting import protect
from sordino import col
from sordino.ask.engines.parquet import mend_arrow
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import PrivacyUnit

S = Selection()
BAD = [
    b"b\xff",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"long enough to be held elsewhere \xe2\x82",
]
GOOD = [b"a", b"b?", b"b", b"77", b"true", b"2000-01-31", "é".encode(), b"", b"?"]
DOMAIN = sd.Domain(
    {
        "who": sd.Identifier(),
        "name": sd.Identifier(),
        "kind": sd.Category(["a", "b?", "b", "?", ""], missing="keep", other="b?"),
        "age": sd.Integer(0, 125),
        "real": sd.Real(0, 100, resolution=1),
        "sure": sd.Boolean(missing="keep"),
        "day": sd.Date("1990-01-01", "2010-01-01"),
        "n": sd.Integer(0, 9),
    }
)
TEXTS = [name for name in DOMAIN if name != "n"]
QUESTIONS: list[Any] = [
    sd.count(),
    [sd.count(n).alias(n) for n in TEXTS],
    S.group_by("kind", "sure").agg(sd.count(), sd.sum("age"), sd.sum("n")),
    S.where((col("name") == "b?") | (col("kind") != "b?") | col("name").is_null()).agg(sd.count()),
    [sd.sum("age"), sd.sum("real"), sd.count_distinct("name")],
    S.where(col("day") > "1999-12-31").agg(sd.count(), sd.sum("n")),
]
Rows = list[dict[str, Any]]


def text(cells: list[bytes | None], kind: Any = None) -> Any:
    """Return cells as Arrow text, whatever bytes they are."""
    raw = pa.array(cells, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind or pa.string(), len(raw), raw.buffers(), raw.null_count)


def rows(rng: random.Random, pool: list[bytes | None]) -> Rows:
    return [{n: rng.choice(pool) for n in TEXTS} | {"n": rng.randrange(10)} for _ in range(60)]


def table(made: Rows, kind: Any = None) -> pa.Table:
    numbers = pa.array([r["n"] for r in made], pa.int64())
    return pa.table({n: text([r[n] for r in made], kind) for n in TEXTS} | {"n": numbers})


def missing(made: Rows) -> Rows:
    """Return the rows with None for what is not UTF-8."""
    return [{n: None if c in BAD else c for n, c in row.items()} for row in made]


def answers(source: Any, unit: PrivacyUnit | None, **how: Any) -> list[list[list[Fraction]]]:
    """Return each answer, in any order; the last one also from an engine of its own."""
    engine, order = engine_of(source, DOMAIN, unit=unit, **how), list(range(len(QUESTIONS)))
    random.Random(len(how)).shuffle(order)
    found = {i: ask(engine, DOMAIN, QUESTIONS[i]) for i in order}
    engine.close()
    one = engine_of(source, DOMAIN, unit=unit, **how)
    assert ask(one, DOMAIN, QUESTIONS[order[-1]]) == found[order[-1]]
    one.close()
    return [found[i] for i in range(len(QUESTIONS))]


def sources(made: Rows, directory: Path) -> list[tuple[Any, dict[str, Any]]]:
    whole = table(made)
    coded = pa.table(
        [c if n == "n" else c.dictionary_encode() for n, c in zip(whole.column_names, whole.columns, strict=True)],
        whole.column_names,
    )
    found: list[tuple[Any, dict[str, Any]]] = [(whole, {}), (table(made, pa.large_string()), {}), (coded, {})]
    found.append((pa.concat_tables([whole.slice(0, 7), whole.slice(7)]), {}))
    for name, encoded in (("codes", True), ("plain", False)):
        pq.write_table(whole, directory / f"{name}.parquet", use_dictionary=encoded, row_group_size=13)
        found.append((directory / f"{name}.parquet", {}))
    return found


@pytest.mark.parametrize("unit", [None, pytest.param(PrivacyUnit("who", max_rows=2), marks=pytest.mark.deep)])
def test_text_that_is_not_utf8_is_missing(unit: PrivacyUnit | None, tmp_path: Path) -> None:
    made = rows(random.Random(7), [*BAD, *GOOD, None])
    truth = answers(table(missing(made)), unit)
    # Of rows and of units in turn: how a cell is read does not depend on them.
    for source, how in sources(made, tmp_path)[unit is None :: 2]:
        assert answers(source, unit, **how) == truth


def test_a_single_bad_cell_fails_no_private_key_and_no_sample(tmp_path: Path) -> None:
    made = [dict.fromkeys(TEXTS, b"a") | {"n": 1} for _ in range(3000)] + [dict.fromkeys(TEXTS, b"b\xff") | {"n": 1}]
    for source, how in sources(made, tmp_path)[::2]:
        curator = protect(source, DOMAIN, budget=sd.ApproxDP(1000, "0.1"), seed=1, name="data", **how)
        keys = curator.ask(S.group_by("name").agg(sd.count()), epsilon=5, delta="1e-6")
        assert [k.labels for k in keys.keys] == [("a",)]
        assert curator.ask(S.sample("0.5").agg(sd.count("name")), epsilon=1).value > 1000
        curator.close()


@pytest.mark.deep
def test_whole_tables_are_not_touched(tmp_path: Path) -> None:
    made = rows(random.Random(3), [*GOOD, None])
    whole = table(made)
    assert mend_arrow(whole) is whole
    pq.write_table(whole, tmp_path / "t.parquet")
    engine = engine_of(tmp_path / "t.parquet", DOMAIN)
    for question in QUESTIONS:
        ask(engine, DOMAIN, question)
    assert engine._files is not None  # what a failure makes was never made
    engine.close()


def test_a_duckdb_file_holds_no_such_text(tmp_path: Path) -> None:
    """So that it needs no mending: DuckDB refuses to store it."""
    connection = duckdb.connect(str(tmp_path / "t.duckdb"))
    connection.register("bad", pa.table({"x": text([b"a", b"b\xff"])}))
    with pytest.raises(duckdb.Error, match="unicode"):
        connection.execute("CREATE TABLE t AS SELECT * FROM bad")
    connection.close()
