"""Streams of rows for the tests of series: a table of days, wards and numbers, and how its series is opened."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import sordino as sd
from protecting import protect
from sordino.core.ledger.series_ledger import SeriesLedger
from sordino.core.mechanisms.continual_noise import ContinualDraws, ContinualGaussian

FIRST = datetime.date(2026, 11, 1)
WARDS = ("a", "b")
# A row: its day, counted from the first, its ward, and a number.
Row = tuple[int, str, int]


def day(number: int) -> datetime.date:
    """Return a day of the stream, the first for 0."""
    return FIRST + datetime.timedelta(days=number)


def stream(rows: Sequence[Row]) -> pa.Table:
    """Return a table of rows."""
    return pa.table(
        {
            "day": pa.array([day(number) for number, _, _ in rows], pa.date32()),
            "ward": pa.array([ward for _, ward, _ in rows], pa.string()),
            "minutes": pa.array([minutes for _, _, minutes in rows], pa.int64()),
        }
    )


def domain(wards: Sequence[str] = WARDS, last: str = "2027-12-31") -> sd.Domain:
    """Return what is declared of a stream."""
    return sd.Domain({"day": sd.Date("2026-01-01", last), "ward": sd.Category(wards), "minutes": sd.Integer(-2, 9)})


def open_table(rows: Sequence[Row] | pa.Table, *, ledger: Path | str | None = None, **options: Any) -> sd.Curator:
    """Return the curator of a stream, with a budget of rho."""
    table = rows if isinstance(rows, pa.Table) else stream(rows)
    options = {"budget": sd.ZCDP(10), "name": "visits", **options}
    return protect(table, options.pop("domain", domain()), ledger=ledger, **options)


def open_series(people: sd.Curator, measure: Any = None, **options: Any) -> Any:
    """Return the series of daily counts by ward, or as the options say."""
    options = {"over": "day", "every": "day", "by": ["ward"], "rho": "0.5", "horizon": 30, "name": "wards", **options}
    return people.series(sd.count() if measure is None else measure, **options)


def noise_of(people: sd.Curator, name: str, noise: ContinualGaussian, cells: int) -> ContinualDraws:
    """Return the noise of a series by its key, as only a test reads it."""
    ledger = SeriesLedger(people.ledger)
    return ContinualDraws(noise, ledger.key(ledger.get(name), private=False), cells)


def fine_numbers(people: sd.Curator, name: str = "wards") -> list[dict[str, Any]]:
    """Return the released numbers of each step in fine steps, as the ledger holds them."""
    return [{"step": record.step, **json.loads(record.answer)} for record in SeriesLedger(people.ledger).steps(name)]


ROWS: list[Row] = [(number % 5, "ab"[number % 2], 1) for number in range(40)]


def check_numbers(people: sd.Curator, rows: Sequence[Row] = tuple(ROWS)) -> None:
    """Check that each recorded step of daily counts is one reading of the rows beneath the noise of one key, each once."""
    noise = ContinualGaussian(Fraction(1), 1, Fraction(1, 2), 30)
    draws = noise_of(people, "wards", noise, len(WARDS))
    steps = SeriesLedger(people.ledger).steps("wards")
    numbers = [record.step for record in steps]
    assert numbers == sorted(set(numbers))
    for record in steps:
        answer = json.loads(record.answer)
        today = datetime.date.fromisoformat(record.period)
        begin = today - datetime.timedelta(days=record.step - 1)
        previous, total = draws.totals([record.step - 1, record.step])
        for place, ward in enumerate(WARDS):
            days = [day(number) for number, where, _ in rows if where == ward]
            since = sum(begin <= one <= today for one in days)
            assert answer["counts"][place] == days.count(today) * noise.fine + total[place] - previous[place]
            assert answer["totals"][place] == since * noise.fine + total[place]
