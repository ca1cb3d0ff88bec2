"""Cells of moments: every physical type and every text reads alike, none fails, and a zone's clock is that of the tz database."""

from __future__ import annotations

import datetime
import zoneinfo
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from sordino.ask.queries.expressions.bound_number import number_cell
from sordino.core.source import Csv
from sordino.core.time_zones import local_time, offsets

BERLIN, UTC = "Europe/Berlin", "UTC"
MOMENT = datetime.datetime(2020, 6, 1, 10, 30, 15, tzinfo=zoneinfo.ZoneInfo(BERLIN))
READ: list[tuple[str, str | None]] = [
    *[
        (t, "2020-06-01T10:30:15+02:00")
        for t in (
            "2020-06-01 10:30:15",
            " 2020-06-01T10:30:15 ",
            "2020/06/01 10:30:15.999999999",
            "2020-06-01T08:30:15Z",
            "2020-06-01 08:30:15 UTC",
            "2020-06-01 10:30:15+02",
            "2020-06-01T11:30:15,5 +03:00",
            "2020-05-31 22:00:15-1030",
        )
    ],
    ("2020-06-01", "2020-06-01T00:00:00+02:00"),
    ("2020-06-01 10:30", "2020-06-01T10:30:00+02:00"),
    ("2020-03-29 02:30:00", "2020-03-29T03:30:00+02:00"),  # the clock skips it: read with the offset before
    ("2020-10-25 02:30:00", "2020-10-25T02:30:00+02:00"),  # the clock shows it twice: the first
    ("2020-10-25 02:30:00+01:00", "2020-10-25T02:30:00+01:00"),
    ("2020-02-29 00:00:00", "2020-02-29T00:00:00+01:00"),
    ("0001-01-01", "1960-01-01T00:00:00+01:00"),  # clipped to the bounds
    ("9999-12-31 23:59:59-23:59", "2030-12-31T23:59:59+01:00"),
    ("1969-12-31 23:59:59.5", "1969-12-31T23:59:59+01:00"),  # below 1970: rounded down as well
    *[
        (t, None)
        for t in (
            "2021-02-29",
            "2020-06-01 24:00:00",
            "2020-06-01 10:60",
            "2016-12-31 23:59:60",
            "2020-06-01 10:30+24:00",
            "2020-06-01 10:30+01:60",
            "0000-01-01",
            "2020-6-1",
            "1.6.2020",
            "10:30",
            "1591000000",
            "infinity",
            "",
            "2020-06-01 10:30:15 Berlin",
            "20200601",
            "é2020-06-01 10:30:15",
        )
    ],
]
DOMAIN = sd.Domain({"x": sd.DateTime("1960-01-01", "2030-12-31", zone=BERLIN)})


def read(source: Any, domain: sd.Domain = DOMAIN, **keywords: Any) -> list[str | None]:
    """Return each cell of column x as it is read, by the declared zone's clock."""
    from sqlglot import exp

    engine = engine_of(source, domain, **keywords)
    column = domain["x"]
    assert isinstance(column, sd.DateTime)
    on = engine.primitives
    cell = number_cell("x", column).build(on)
    steps = engine.run(exp.Select(expressions=[exp.alias_(cell, "t0")]).from_(on.source())).column(0).to_pylist()
    engine.close()
    return [None if s is None else local_time(s * column.resolution, column.zone).isoformat() for s in steps]


@pytest.mark.deep
def test_text_is_read_from_every_kind_of_source(tmp_path: Path) -> None:
    texts, wanted = [t for t, _ in READ], [w for _, w in READ]
    table = pa.table({"x": pa.array([*texts, None], pa.string())})
    assert read(table) == [*wanted, None]
    frame = pd.DataFrame({"x": pd.Series([*texts, datetime.date(2020, 1, 1)], dtype=object)})
    assert read(frame)[:-1] == wanted
    path = tmp_path / "x.csv"
    path.write_text("x\n" + "\n".join(t.replace(",", ".") for t in texts if "," not in t and t) + "\n")
    kept = [w for t, w in READ if "," not in t and t]
    assert sorted(map(str, read(path, csv=Csv(header=True)))) == sorted(map(str, kept))


def test_every_kind_of_timestamp_reads_alike(tmp_path: Path) -> None:
    naive = MOMENT.replace(tzinfo=None)
    for unit in ("s", "ms", "us", "ns"):
        cells = {
            "naive": pa.array([naive, None], pa.timestamp(unit)),
            "aware": pa.array([MOMENT], pa.timestamp(unit, "UTC")),
        }
        for kind, array in cells.items():
            table = pa.table({"x": array})
            assert read(table)[0] == MOMENT.isoformat(), (unit, kind)
            if unit != "s":
                pq.write_table(table, tmp_path / "x.parquet")
                assert read(tmp_path / "x.parquet")[0] == MOMENT.isoformat(), (unit, kind)
    assert read(pa.table({"x": [datetime.date(2020, 6, 1)]})) == ["2020-06-01T00:00:00+02:00"]
    frame = pd.DataFrame({"x": pd.to_datetime([MOMENT])})
    assert read(frame) == [MOMENT.isoformat()]
    mixed = pd.DataFrame(
        {"x": pd.Series([MOMENT, naive, "2020-06-01 10:30:15", pd.Timestamp(naive), 7, None, pd.NaT], dtype=object)}
    )
    assert read(mixed) == [MOMENT.isoformat()] * 4 + [None] * 3


@pytest.mark.deep
@pytest.mark.parametrize("zone", [UTC, BERLIN])
@pytest.mark.parametrize("tz", [None, "UTC"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_far_and_infinite_moments_fail_nothing(unit: str, tz: str | None, zone: str) -> None:
    """Hostile: the ends of 64 bits are DuckDB's infinities; what is beyond its microseconds may be missing, and no more."""
    column = sd.DateTime("1960-01-01", "2030-12-31", zone=zone)
    domain, ends = sd.Domain({"x": column}), (column.lower.isoformat(), column.upper.isoformat())
    numbers = [2**63 - 1, -(2**63) + 1, 2**62, -(2**62), 2**60, -(2**60), 0]
    found = read(pa.table({"x": pa.array(numbers, pa.timestamp(unit, tz))}), domain)
    assert found[-1] is not None
    assert all(f in (None, ends[i % 2 == 0]) for i, f in enumerate(found[:-1])) or unit == "ns"
    if unit in ("us", "ns"):
        assert found[:2] == [ends[1], ends[0]]


@pytest.mark.deep
@pytest.mark.parametrize("zone", ["Africa/Casablanca", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_a_zone_is_that_of_the_tz_database(zone: str) -> None:
    """Around each change of the clock, and away from it: what is read is what Python's own zoneinfo reads (fold 0)."""
    column = sd.DateTime("1965-01-01", "2035-12-31", zone=zone, resolution=Fraction(1))
    clock = zoneinfo.ZoneInfo(zone)
    low, high = (int(s * column.resolution) for s in column.steps)
    starts = [s for s in offsets(zone, low, high).starts if low < s < high]
    around = [s + d for s in starts for d in (-7200, -3601, -1, 0, 1, 1799, 3599, 7201)] + list(range(low, high, 10**7))
    shown = [datetime.datetime.fromtimestamp(s, datetime.UTC).astimezone(clock).replace(tzinfo=None) for s in around]
    skipped = [t + datetime.timedelta(hours=1) for t in shown]
    cells = [*shown, *skipped]
    wanted = [int(t.replace(tzinfo=clock, fold=0).timestamp()) for t in cells]
    domain = sd.Domain({"x": column})
    # Of few cells at a time, which an engine reads in their order.
    parts = [cells[start : start + 1000] for start in range(0, len(cells), 1000)]
    found = [f for part in parts for f in read(pa.table({"x": pa.array(part, pa.timestamp("us"))}), domain)]
    back = [None if f is None else int(datetime.datetime.fromisoformat(f).timestamp()) for f in found]
    assert back == [min(max(w, low), high) for w in wanted]
    aware = pa.array([s * 10**6 for s in around], pa.timestamp("us", "UTC"))
    told = read(pa.table({"x": aware}), sd.Domain({"x": column}))
    assert [int(datetime.datetime.fromisoformat(str(f)).timestamp()) for f in told] == [
        min(max(s, low), high) for s in around
    ]
