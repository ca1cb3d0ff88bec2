"""Private keys that show are those that the rows were grouped by, to the character, whatever text they hold.

At epsilon 10,000 noise is all but 0, so each answer stands beside an exact count of Python's own.
"""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino.ask.queries.build import Selection

S = Selection()
HOSTILE = [
    *("oslo", " oslo", "oslo ", "\toslo", "oslo\n", "oslo\r", "oslo\u00a0", "\u2003oslo", "\u200boslo", "\ufeffoslo"),
    *("osl\u043e", "o\u0301slo", "\u00f3slo", "OSLO", "O\u017fLO", "", " ", "\t", "\0", "os\0lo", "os\0la", "oslo\0"),
    *("it's", "''", "\\", "\\'", "\ue000", "\ue0000\ue001", "a\ue0000\ue001b", "\ue001", "\U0001f600", "\x1f", "\x7f"),
    *(
        "\u2028",
        "a,b",
        "0,1",
        "1",
        "1.0",
        "01",
        "true",
        "null",
        "NaN",
        "{",
        "$1",
        "%s",
        "?",
        "--",
        "/*",
        ";",
        "x" * 1000,
    ),
]
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "key": sd.Identifier(),
        "x": sd.Integer(0, 9),
        "flag": sd.Boolean(missing="keep"),
        "seen": sd.DateTime("2020-10-25", "2020-10-26", zone="Europe/Berlin", resolution="hour"),
    }
)
LOSS: dict[str, Any] = {"epsilon": 10_000, "delta": 1e-3}
UNIT = sd.PrivacyUnit("id", max_rows=2)
WAYS = ["weighted", "threshold"]
FLAGS = (True, False, None)
SEEN = datetime.datetime(2020, 10, 25, 0, 0)  # in UTC, as summer time ends


def rows_of(keys: list[Any]) -> pa.Table:
    """Return several people of each key, more of each, who all have one value that is the key's own."""
    rows = [(f"{i}-{j}", k, i % 10, FLAGS[j % 3]) for i, k in enumerate(keys) for j in range(12 + 3 * (i % 20))]
    ids, cells, numbers, flags = map(list, zip(*rows, strict=True))
    seen = [SEEN + datetime.timedelta(hours=j % 2) for j in range(len(rows))]
    return pa.table({"id": ids, "key": cells, "x": numbers, "flag": flags, "seen": seen})


def assert_exact(source: Any, keys: list[str], how: str) -> None:
    """Assert that counts, sums and medians of each key, and counts beside a declared key, are those of Python."""
    table = rows_of(keys)
    rows = list(zip(*(table.column(n).to_pylist() for n in ("key", "flag", "x")), strict=True))
    counts, values = Counter(k for k, _, _ in rows), {k: x for k, _, x in rows}
    held = protect(source, DOMAIN, neighbors="add_remove", unit=UNIT, seed=3, budget=sd.ApproxDP(10**6, "0.5"))
    one = S.group_by("key", keys=how).agg(sd.count(), sd.sum("x").alias("sum"), sd.median("x").alias("median"))
    found = {r["key"]: (r["count"], r["sum"], r["median"]) for r in held.ask(one, **LOSS).rows}
    assert found == {k: (n, n * values[k], values[k]) for k, n in counts.items()}
    pair = S.group_by("flag", "key", keys=how).agg(sd.count())
    both = {(r["key"], r["flag"]): r["count"] for r in held.ask(pair, **LOSS).rows}
    assert both == dict(Counter((k, flag) for k, flag, _ in rows))
    alone = held.ask(S.group_by("key", keys=how).keys(), **LOSS).rows
    assert [r["key"] for r in alone] == sorted(counts)


@pytest.mark.deep
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("form", ["arrow", "parquet", "pandas", "dicts"])
def test_hostile_texts_show_as_they_are_grouped(form: str, how: str, tmp_path: Path) -> None:
    table = rows_of(HOSTILE)
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    sources = {"arrow": table, "parquet": path, "pandas": table.to_pandas(), "dicts": table.to_pylist()}
    assert_exact(sources[form], HOSTILE, how)


@pytest.mark.deep
@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.text(st.sampled_from(" \t\n\r\0o\u0301,01'\\\ue000\ue001"), max_size=4), min_size=1, unique=True),
    st.sampled_from(WAYS),
)
def test_any_set_of_texts_shows_as_it_is_grouped(keys: list[str], how: str) -> None:
    assert_exact(rows_of(keys), keys, how)


ODD: dict[str, tuple[list[Any], pa.DataType | None, list[str]]] = {
    "booleans": ([True, False, None], pa.bool_(), ["false", "true"]),
    "numbers": ([0, -5, 2**63 - 1, -(2**63)], pa.int64(), ["-5", "-9223372036854775808", "0", "9223372036854775807"]),
    "floats": ([-0.0, 0.0, 1.0, math.inf, -math.inf, math.nan, 2.5], pa.float64(), ["-inf", "0", "1", "2.5", "inf"]),
    "decimals": ([Decimal("0.10"), Decimal("-1.00")], pa.decimal128(9, 2), ["-1", "0.1"]),
    "days": ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pa.date32(), ["0001-01-01", "9999-12-31"]),
    "moments": ([SEEN, SEEN + datetime.timedelta(hours=1)], pa.timestamp("us"), [str(SEEN), "2020-10-25 01:00:00"]),
    "dictionary": (["a", " a", "a "], pa.dictionary(pa.int8(), pa.string()), [" a", "a", "a "]),
    "views": (["a", " a", "a\0"], pa.string_view(), ["a", "a\0", " a"]),
    "objects": (["a", " a", 1, "1", True, None, 1.5, datetime.date(2020, 1, 1)], None, []),
}


@pytest.mark.deep
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("kind", ODD)
def test_cells_that_are_no_text_are_keys_by_their_text(kind: str, how: str) -> None:
    values, held_as, named = ODD[kind]
    cells = [values[i % len(values)] for i in range(60 * len(values))]
    rows = rows_of(["-"]).slice(0, 0).to_pydict() | {"key": cells}
    rows |= {"id": [str(i) for i in range(len(cells))], "x": [5] * len(cells), "flag": [None] * len(cells)}
    rows["seen"] = [SEEN + datetime.timedelta(hours=i // len(values) % 2) for i in range(len(cells))]
    source: Any = pd.DataFrame({n: pd.Series(c, dtype=object if n == "key" else None) for n, c in rows.items()})
    if held_as is not None:
        source = pa.table({n: pa.array(c, held_as if n == "key" else None) for n, c in rows.items()})
    held = protect(source, DOMAIN, neighbors="add_remove", unit=UNIT, seed=3, budget=sd.ApproxDP(10**6, "0.5"))
    found = held.ask(S.group_by("key", keys=how).agg(sd.count(), sd.median("x")), **LOSS).rows
    named = named or [" a", "1", "1.5", "2020-01-01", "a", "true"]
    assert sorted(r["key"] for r in found) == sorted(named)
    assert all(r["count"] % 60 == 0 and r["median_x"] == 5 for r in found)
    moments = held.ask(S.group_by("seen", "key", keys=how).agg(sd.median("x")), **LOSS).rows
    assert len(moments) == 2 * len(named)  # two moments that summer time ends between, of one hour in Berlin


@pytest.mark.each(2)
@pytest.mark.parametrize("how", WAYS)
def test_a_text_of_more_than_a_thousand_characters_never_shows(how: str) -> None:
    keys = ["e\u0301" * 500, "y" * 1001, "z" * 200_000, "oslo"]
    held = protect(rows_of(keys), DOMAIN, neighbors="add_remove", unit=UNIT, seed=3, budget=sd.ApproxDP(10**6, "0.5"))
    found = held.ask(S.group_by("key", keys=how).agg(sd.count(), sd.median("x")), **LOSS).rows
    assert [(r["key"], r["count"], r["median_x"]) for r in found] == [("e\u0301" * 500, 12, 0), ("oslo", 21, 3)]


def test_long_keys_are_kept_once_on_the_ledger_and_read_back_whole(tmp_path: Path) -> None:
    """A release of 280,000 keys of 1,000 characters had each four times, in more than a ledger's gigabyte."""
    words = [f"{i:05}" + "w" * 995 for i in range(1_000)]
    for few in (2, len(words)):
        table = pa.table({"key": words[:few] * 3})
        ledger = tmp_path / f"{few}.ledger"
        held = protect(table, sd.Domain({"key": sd.Identifier()}), ledger=ledger, budget=sd.ApproxDP(10**6, "0.5"))
        release = held.ask(S.group_by("key", keys="threshold").agg(sd.count()), **LOSS)
        assert len(release.rows) == few
        stored = json.loads(held.ledger.answer(release.charge))
        assert not {"rows", "errors", "intervals"} & {*stored}
        assert len(json.dumps(stored)) < 1010 * few + 10_000
        assert held.release(release.charge).to_dict() == release.to_dict()
        held.close()


@pytest.mark.each(2)
@pytest.mark.parametrize("how", WAYS)
def test_a_median_of_private_keys_of_a_joined_table(how: str) -> None:
    """Such a question failed after its charge: the keys that show were looked up in the table's own columns."""
    towns = sd.public(
        pa.table({"key": ["a", "b", "c"], "town": ["oslo", " oslo", "alta"]}),
        key="key",
        columns=sd.Domain({"key": sd.Identifier(), "town": sd.Identifier()}),
    )
    held = protect(
        rows_of(["a", "b", "c", "d"]),
        DOMAIN,
        neighbors="add_remove",
        unit=UNIT,
        seed=3,
        budget=sd.ApproxDP(10**6, "0.5"),
        public={"towns": towns},
    )
    asked = sd.sql("SELECT town, MEDIAN(x) AS m FROM data JOIN towns ON data.key = towns.key GROUP BY town", keys=how)
    assert [tuple(r.values()) for r in held.ask(asked, **LOSS).rows] == [(" oslo", 1), ("alta", 2), ("oslo", 0)]


def test_a_list_of_ones_own_takes_cells_with_blanks_around_them_unless_it_has_such() -> None:
    held = protect(
        rows_of(["oslo", " oslo", "alta"]), DOMAIN, neighbors="replace", unit=UNIT, seed=3, budget=sd.PureDP(10**6)
    )
    found = {}
    for listed in (["oslo"], ["oslo", " oslo"]):
        rows = held.ask(S.group_by("key", keys=listed).agg(sd.count()), epsilon=10_000).rows
        found[len(listed)] = [r["count"] for r in rows]
    assert found == {1: [27], 2: [12, 15]}
