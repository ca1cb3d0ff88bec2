"""Series of people with many rows: which rows count, on every neighbor, with rows that come late, and at what noise."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from series.streams import FIRST, WARDS, day, fine_numbers
from sordino.core.mechanisms.continual_noise import (
    ContinualGaussian,
    Participation,
    bound_unit_moves,
    coefficients,
    shift_squared,
)
from sordino.core.neighbors import Relation
from sordino.core.noise.laws import DiscreteGaussian
from sordino.errors import DeclarationError, QuestionRefused

# A row: its day, counted from the first, its ward, its minutes and whose it is.
Visit = tuple[int, str, int, str | None]
DOMAIN = sd.Domain(
    {
        "day": sd.Date("2026-01-01", "2027-12-31"),
        "ward": sd.Category(WARDS),
        "minutes": sd.Integer(-2, 9),
        "id": sd.Identifier(),
    }
)


def visits(rows: Sequence[Visit]) -> pa.Table:
    """Return a table of visits."""
    days, wards, minutes, ids = ([row[i] for row in rows] for i in range(4))
    return pa.table(
        {
            "day": pa.array([day(int(number or 0)) for number in days], pa.date32()),
            "ward": pa.array(wards, pa.string()),
            "minutes": pa.array(minutes, pa.int64()),
            "id": pa.array(ids, pa.string()),
        }
    )


def open_visits(
    rows: Sequence[Visit] | Path, *, max_rows: int = 2, relation: Relation = "add_remove", domain: sd.Domain = DOMAIN
) -> sd.Curator:
    """Return the curator of people's visits."""
    source: Any = rows if isinstance(rows, Path) else visits(rows)
    unit = sd.PrivacyUnit("id", max_rows=max_rows)
    return protect(source, domain, ledger=None, budget=sd.ZCDP(10**9), name="visits", unit=unit, neighbors=relation)


def open_units(people: sd.Curator, measure: Any = None, **options: Any) -> Any:
    """Return the series of daily counts by ward, with noise below half a row unless rho is stated."""
    options = {"over": "day", "every": "day", "by": ["ward"], "rho": 10**6, "horizon": 12, "name": "wards", **options}
    return people.series(sd.count() if measure is None else measure, **options)


def counted(rows: Sequence[Visit], period: int, ward: str, limits: tuple[int, int], most: int, start: int = 0) -> int:
    """Return how many rows of a day count in a ward, where no person has more than `most` rows a day."""
    max_periods, window = limits
    first = start + (period - start) // window * window
    total = 0
    for person in {name for *_, name in rows if name is not None}:
        days = sorted({number for number, _, _, name in rows if name == person and first <= number <= period})
        own = [row for row in rows if row[3] == person and row[0] == period]
        assert len(own) <= most
        if period in days[:max_periods]:
            total += sum(row[1] == ward for row in own)
    return total


LIMITS = [(1, 1), (1, 4), (2, 4), (2, 5), (3, 12), (1, 12), (4, 4)]


@pytest.mark.each(22)
@pytest.mark.parametrize(
    ("limits", "released"),
    [
        pytest.param(limits, released, marks=[pytest.mark.deep] * ((place + number) % 2), id=f"{limits}, {name}")
        for place, limits in enumerate(LIMITS)
        for number, (name, released) in enumerate({"all": range(12), "some": (1, 2, 7, 8, 11)}.items())
    ],
)
def test_the_first_periods_of_each_window_count(limits: tuple[int, int], released: Sequence[int]) -> None:
    draws = random.Random(f"{limits}")
    rows: list[Visit] = []
    for person in "pqrstuvw":
        for number in draws.sample(range(12), draws.randrange(1, 12)):
            rows += [(number, draws.choice(WARDS), 1, person) for _ in range(draws.randrange(1, 3))]
    rows.append((3, "a", 1, None))
    series = open_units(open_visits(rows), max_periods=limits[0], window=limits[1])
    start = released[0]
    days = range(start, 12)
    expected = {n: [counted(rows, n, ward, limits, 2, start) for ward in WARDS] for n in days}
    for number in released:
        release = series.release(day(number))
        assert release["count"] == expected[number]
        assert release["total"] == [sum(expected[n][i] for n in range(start, number + 1)) for i in range(2)]


@pytest.mark.parametrize(
    "every", ["week", "year", *(pytest.param(every, marks=pytest.mark.deep) for every in ("month", "quarter"))]
)
def test_periods_of_other_lengths(every: str) -> None:
    """A person counts in the first of two periods, and in the first of the next two, by the clock of a zone."""
    starts = {"week": "2026-11-02", "month": "2026-11", "quarter": "2026-Q1", "year": "2026"}
    dates = {
        "week": ["2026-11-02", "2026-11-08", "2026-11-09", "2026-11-22", "2026-11-29"],
        "month": ["2026-11-01", "2026-11-30", "2026-12-01", "2027-02-28", "2027-03-31"],
        "quarter": ["2026-01-01", "2026-03-31", "2026-04-01", "2026-12-31", "2027-01-01"],
        "year": ["2026-01-01", "2026-12-31", "2027-01-01", "2029-12-31", "2030-12-31"],
    }[every]
    # by the clock of Berlin, an hour after midnight is the day before in UTC
    moments = [datetime.datetime.fromisoformat(f"{one}T00:30:00+01:00") for one in dates]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC")), "id": ["x"] * 5})
    zone = "Europe/Berlin"
    declared = sd.Domain({"at": sd.DateTime("2026-01-01", "2030-12-31", zone=zone), "id": sd.Identifier()})
    people = protect(table, declared, ledger=None, budget=sd.ZCDP(10**9), unit=sd.PrivacyUnit("id", max_rows=3))
    series = open_units(people, over="at", every=every, by=(), start=starts[every], max_periods=1, window=2)
    counts = [series.release(one)["count"] for one in (dates[0], dates[2], dates[3], dates[4])]
    assert counts[:2] == [2, 0]
    # of the two last periods with rows, each is the first of its window, or only one is
    expected = {"week": [1, 0], "month": [1, 1], "quarter": [1, 1], "year": [1, 1]}[every]
    assert counts[2:] == expected


@pytest.mark.deep
def test_rows_beyond_the_cap_of_a_period_follow_from_the_rows_of_that_period_alone() -> None:
    """Five rows of one person in one day, two of which count: the same two whatever she has on later and earlier days."""
    today: list[Visit] = [(2, "ab"[i % 2], i, "x") for i in range(5)]
    others: list[list[Visit]] = [[], [(3, "a", 1, "x")], [(1, "b", 4, "x")], [(5, "b", n, "x") for n in range(9)]]
    sums = []
    for more in others:
        series = open_units(open_visits([*today, *more]), sd.sum("minutes"), max_periods=3, start=FIRST)
        sums.append(series.release(day(2))["sum_minutes"])
    assert all(one == sums[0] for one in sums)


@pytest.mark.deep
def test_later_rows_evict_none_that_were_released(tmp_path: Path) -> None:
    """The rows of a day are read once; those that come late for an earlier day only take a place of that person's."""
    import pyarrow.parquet as pq

    path = tmp_path / "visits.parquet"
    rows: list[Visit] = [(0, "a", 1, "x"), (0, "b", 1, "y")]
    pq.write_table(visits(rows), path)
    series = open_units(open_visits(path), max_periods=2, window=12)
    first = series.release(day(0))
    assert first["count"] == [1, 1]
    rows += [(2, "a", 1, "x"), (2, "a", 1, "y"), (0, "a", 1, "y"), (1, "b", 1, "x")]
    pq.write_table(visits(rows), path)
    # x has a late row on day 1, so day 2 is its third; y's late row is of a day on which it had counted
    assert series.release(day(2))["count"] == [1, 0]
    assert series.release(day(0)) == first
    rows += [(3, "b", 1, "x"), (3, "b", 1, "y"), (3, "b", 1, "z")]
    pq.write_table(visits(rows), path)
    assert series.release(day(3))["count"] == [0, 1]


def test_over_all_orders_in_which_rows_may_come_no_person_counts_in_more_periods() -> None:
    """Four days, a person's rows arriving by any schedule: days that count are at most as many as stated, of each window."""
    for max_periods, window in ((1, 2), (2, 3), (2, 4)):
        for arrivals in itertools.product((0, 1, 2, 3, 9), repeat=4):
            # the row of day n can be read from day `arrivals[n]` on, or from its own
            seen = []
            for now in range(4):
                rows: list[Visit] = [(n, "a", 1, "x") for n in range(now + 1) if max(n, arrivals[n]) <= now]
                seen.append(counted(rows, now, "a", (max_periods, window), 1))
            for start in range(0, 4, window):
                assert sum(seen[start : start + window]) <= max_periods


HORIZON = 4


def units_of(relation: Relation, most: int) -> list[list[tuple[int, str]]]:
    """Return what one person may have in a stream of four days: rows of days and wards, some beyond what counts."""
    cells = list(itertools.product(range(HORIZON), WARDS))
    units = [[cell] * most for cell in cells]
    units += [[(n, ward) for n in range(HORIZON) for _ in range(most)] for ward in WARDS]
    units += [[(n, "ab"[n % 2]) for n in range(HORIZON) for _ in range(most + 1)]]
    if relation == "add_remove":
        units += [[one, other] for one, other in list(itertools.combinations(cells, 2))[::4]]
    return units


@pytest.mark.each(3)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("limits", [(1, 2), (2, 4), (4, 4)], ids=str)
def test_every_neighbor_of_a_small_stream_moves_draws_within_the_bound(
    limits: tuple[int, int], relation: Relation
) -> None:
    """Through the engine: what one person's rows change of the released totals, over all persons of small streams."""
    most = 2
    noise = ContinualGaussian(
        bound_unit_moves((0, 1), most, relation), 2, Fraction(1, 2), HORIZON, Participation(*limits)
    )
    units = units_of(relation, most)
    totals = exact_totals(units, limits, relation)
    assert np.array_equal(totals[-1:], exact_totals(units[-1:], limits, relation))
    nobody = np.zeros((HORIZON, 2), dtype=np.int64)
    pairs = [(nobody, one) for one in totals]
    if relation == "replace":
        pairs = list(itertools.combinations(totals, 2))
    # what one fine step of rounding adds is in the bound beside this
    bound = float(noise.moved_squared) * (
        float(shift_squared(Fraction(10**12), 1, HORIZON, noise.participation)) / 1e12
    )
    matrix = np.zeros((HORIZON, HORIZON))
    for t in range(HORIZON):
        matrix[t, : t + 1] = coefficients(HORIZON)[: t + 1][::-1] / 2**24
    inverse = np.linalg.inv(matrix)
    farthest = max(float(((inverse @ (one - other)) ** 2).sum()) for one, other in pairs)
    assert farthest <= bound
    assert farthest > 0.75 * bound


def exact_totals(units: Sequence[Sequence[tuple[int, str]]], limits: tuple[int, int], relation: Relation) -> list[Any]:
    """Return the running totals that each person's rows make, by noise of which none is a whole row.

    The persons stand in one table, each in wards of their own, so that one release of a day holds the totals of all.
    """
    wards = [f"{ward}{person}" for person in range(len(units)) for ward in WARDS]
    rows: list[Visit] = [(n, f"{ward}{person}", 1, f"p{person}") for person, own in enumerate(units) for n, ward in own]
    domain = sd.Domain({**DOMAIN.columns, "ward": sd.Category(wards)})
    people = open_visits(rows, relation=relation, domain=domain)
    series = open_units(people, max_periods=limits[0], window=limits[1], horizon=HORIZON, start=FIRST)
    totals = np.array([series.release(day(n))["total"] for n in range(HORIZON)])
    return np.split(totals, len(units), axis=1)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "this table protects all rows of one id: state in how many periods one counts, such as max_periods=4"),
    ({"max_periods": 0}, "max_periods is the most periods of a window in which one unit counts, from 1 to 12, not 0"),
    ({"max_periods": 13}, "from 1 to 12, not 13"),
    ({"max_periods": True}, "max_periods is"),
    ({"max_periods": 3, "window": 2}, "max_periods = 3 of a window of 2 periods"),
    ({"window": 2}, "window goes with max_periods"),
    ({"max_rows_per_period": 2}, "max_rows_per_period goes with max_periods"),
    ({"max_periods": 1, "max_rows_per_period": 3}, "max_rows_per_period = 3 is above the 2 rows of one id"),
    ({"max_periods": 1, "max_rows_per_period": 0}, "max_rows_per_period is the most rows"),
    ({"max_periods": 1, "horizon": 20_000}, "a horizon of at most 10,000 periods, not 20,000"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_bounds_that_make_no_sense_cost_nothing(options: dict[str, Any], words: str) -> None:
    people = open_visits([(0, "a", 1, "x")])
    with pytest.raises(QuestionRefused, match=words):
        open_units(people, **options)
    assert people.spent == sd.ZCDP(0)


def test_where_no_column_names_units_there_are_no_periods_to_bound() -> None:
    people = protect(visits([(0, "a", 1, "x")]), DOMAIN, ledger=None, budget=sd.ZCDP(10))
    with pytest.raises(QuestionRefused, match="this table has no column of units: each row is one"):
        open_units(people, max_periods=2, rho="0.5")


def test_opened_again_with_the_same_bounds_or_by_name_and_refused_with_others() -> None:
    people = open_visits([(0, "a", 1, "x"), (1, "a", 1, "x")])
    first = open_units(people, max_periods=1, window=3).release(FIRST)
    spent = people.spent
    assert people.series(name="wards").release(FIRST) == first
    assert people.series(name="wards").release(day(1))["count"] == [0, 0]
    assert open_units(people, max_periods=1, window=3, max_rows_per_period=2).release(FIRST) == first
    for options in ({"max_periods": 2, "window": 3}, {"max_periods": 1, "window": 4}):
        with pytest.raises(DeclarationError, match="was opened with another value of"):
            open_units(people, **options)
    assert people.spent == spent


def test_the_recorded_numbers_have_the_noise_of_the_bound() -> None:
    people = open_visits([(0, "a", 1, "x")])
    series = open_units(people, rho="0.5", max_periods=2, window=6, horizon=12)
    release = series.release(FIRST)
    noise = ContinualGaussian(bound_unit_moves((0, 1), 2, "add_remove"), 2, Fraction(1, 2), 12, Participation(2, 6))
    law = release.outputs[0].estimate.law
    assert isinstance(law, DiscreteGaussian)
    assert law.sigma_squared >= noise.sigma_squared
    assert fine_numbers(people)[0]["step"] == 1
    assert "counts in at most 2 days of each 6" in " ".join(series.opening.notes)
