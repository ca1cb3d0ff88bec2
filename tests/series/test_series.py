"""A series from the call to its releases: exact numbers beneath the noise, neighbors, windows, periods and refusals."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from mistyping import mistype
from series.streams import FIRST, WARDS, Row, day, domain, fine_numbers, noise_of, open_series, open_table
from sordino.core.mechanisms.continual_noise import (
    ContinualGaussian,
    bound_moves,
    round_totals,
    shift_squared,
    weigh_draws,
)
from sordino.core.neighbors import Relation
from sordino.errors import BudgetExhausted, DeclarationError, QuestionRefused, UnknownName

HALF = Fraction(1, 2)
SMALL: list[Row] = [(0, "a", 3), (0, "b", -2), (1, "a", 9), (3, "b", 4), (3, "b", 1), (4, "a", 0)]


def exact(rows: list[Row], numbers: range, ward: str, measure: str) -> int:
    """Return the exact count or sum of a ward over some days."""
    values = [minutes for number, place, minutes in rows if number in numbers and place == ward]
    return len(values) if measure == "count" else sum(values)


@pytest.mark.each(5)
@pytest.mark.parametrize("released", [(0, 1, 2, 3, 4), (0, 3, 4), (2, 4)])
@pytest.mark.parametrize("measure", ["count", "sum"])
def test_released_numbers_are_exact_numbers_and_the_noise_of_the_key(measure: str, released: tuple[int, ...]) -> None:
    people = open_table(SMALL)
    of = sd.count() if measure == "count" else sd.sum("minutes")
    series = open_series(people, of)
    for number in released:
        series.release(day(number))
    bounds = (0, 1) if measure == "count" else (-2, 9)
    noise = ContinualGaussian(bound_moves(bounds, 1, "add_remove"), 1, HALF, 30)
    draws = noise_of(people, "wards", noise, 2)
    for number, step in zip(released, fine_numbers(people), strict=True):
        last = number - released[0] + 1
        assert step["step"] == last
        before, total = draws.totals([last - 1, last])
        for place, ward in enumerate(WARDS):
            count = exact(SMALL, range(number, number + 1), ward, measure)
            assert step["counts"][place] == count * noise.fine + total[place] - before[place]
            running = exact(SMALL, range(released[0], number + 1), ward, measure)
            assert step["totals"][place] == running * noise.fine + total[place]


def neighbors_of(rows: list[Row], relation: Relation) -> list[list[Row]]:
    """Return every neighbor of a small stream of counts: rows of any day and ward."""
    others: list[Row] = [(number, ward, 0) for number in range(4) for ward in WARDS]
    shorter = [rows[:i] + rows[i + 1 :] for i in range(len(rows))]
    if relation == "add_remove":
        return shorter + [[*rows, other] for other in others]
    return [[*one, other] for one in shorter for other in others]


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_every_neighbor_of_a_small_stream_is_explained_by_draws_within_the_bound(relation: Relation) -> None:
    """On each neighbor the same key releases other numbers; the draws that would release these ones lie near."""
    rows: list[Row] = [(0, "a", 0), (1, "a", 0), (2, "b", 0)]
    horizon = 4
    people = open_table(rows, neighbors=relation)
    first = _release_all(people, horizon)
    moved = bound_moves((0, 1), 1, relation)
    cells = 1 if relation == "add_remove" else 2
    noise = ContinualGaussian(moved, cells, HALF, horizon)
    totals = noise_of(people, "wards", noise, 2).totals(range(horizon + 1))
    draws = _draws_of(np.stack(totals[1:]), horizon)
    bound = shift_squared(moved * noise.fine**2, cells, horizon)
    farthest = 0
    for neighbor in neighbors_of(rows, relation):
        other = _release_all(open_table(neighbor, neighbors=relation), horizon)
        # the neighbor's own numbers, less the noise that both have
        shift = np.array(other) - np.array(first)
        moved_draws = _draws_of(np.stack(totals[1:]) - shift, horizon) - draws
        length = sum(int(one) ** 2 for one in moved_draws.ravel())
        assert length <= bound
        assert (shift % noise.fine == 0).all()
        farthest = max(farthest, length)
    # one row at the first step is as far as the bound says, but for rounding
    assert farthest > Fraction(99, 100) * bound


def _release_all(people: sd.Curator, horizon: int) -> list[list[int]]:
    series = open_series(people, horizon=horizon, start=FIRST)
    for number in range(horizon):
        series.release(day(number))
    return [step["totals"] for step in fine_numbers(people)]


def _draws_of(totals: Any, horizon: int) -> Any:
    """Return the draws whose noise these totals are."""
    draws = np.zeros_like(totals)
    for step in range(len(totals)):
        draws[step] = totals[step] - round_totals(weigh_draws(draws, step + 1, horizon))
    return draws


def test_one_charge_and_a_released_period_is_the_same_for_ever() -> None:
    people = open_table(SMALL)
    with open_series(people) as series:
        assert people.spent == sd.ZCDP("0.5")
        first = series.release("2026-11-01")
        second = series.release(day(1))
        assert series.release(FIRST) == first
        assert people.spent == sd.ZCDP("0.5")
        assert first.charge == second.charge == series.opening.charge
    again = open_series(people)
    assert again.release("2026-11-02") == second
    assert again.periods == ["2026-11-01", "2026-11-02"]
    assert people.spent == sd.ZCDP("0.5")
    assert [charge.state for charge in people.ledger.charges()] == ["committed"]
    people.ledger.verify()
    with pytest.raises(QuestionRefused, match="this handle of the series 'wards' is closed"):
        series.release("2026-11-03")


def test_the_table_of_a_release() -> None:
    people = open_table(SMALL)
    series = open_series(people)
    release = series.release("2026-11-01")
    ends = ("", "_low", "_high")
    names = ["ward", *(f"{name}{end}" for name in ("count", "total") for end in ends)]
    assert release.table.column_names == names
    assert release.table.column("ward").to_pylist() == list(WARDS)
    for row in release.table.to_pylist():
        for name in ("count", "total"):
            assert all(isinstance(row[f"{name}{end}"], int) for end in ends)
            assert max(row[f"{name}_low"], 0) == row[f"{name}_low"] <= max(row[name], 0) <= max(row[f"{name}_high"], 0)
    assert sd.Release.from_dict(release.to_dict()) == release
    series.release("2026-11-04")
    assert series.table.column_names == ["period", *names]
    assert series.table.column("period").to_pylist() == ["2026-11-01"] * 2 + ["2026-11-04"] * 2


@pytest.mark.deep
def test_the_picture_of_a_series(tmp_path: Path) -> None:
    series = open_series(open_table(SMALL))
    with pytest.raises(DeclarationError, match="nothing of the series 'wards' was released so far"):
        sd.plot(series)
    for number in (0, 2, 3):
        series.release(day(number))
    chart = series.plot(confidence=0.9).chart.to_dict()
    panels = [panel["data"]["values"] for panel in chart["hconcat"]]
    assert len(panels) == 2
    for place, rows in enumerate(panels):
        assert [row["period"] for row in rows[::2]] == ["2026-11-01", "2026-11-03", "2026-11-04"]
        released = [release.outputs[place].estimate for release in series.releases()]
        assert [row["value"] for row in rows] == [value for one in released for value in one.values()]
        assert [(row["low"], row["high"]) for row in rows] == [ends for one in released for ends in one.intervals(0.9)]
    series.plot().save(tmp_path / "series.svg")
    assert "NOT PRIVATE" in (tmp_path / "series.svg").read_text()


def test_windows_and_differences_are_those_of_the_released_numbers() -> None:
    people = open_table(SMALL)
    series = open_series(people)
    for number in range(5):
        series.release(day(number))
    steps = fine_numbers(people)
    window = series.window("2026-11-02", "2026-11-04").outputs[0].estimate
    assert list(window.steps) == [b - a for a, b in zip(steps[0]["totals"], steps[3]["totals"], strict=True)]
    # A window of one day is the day, and one from the start the total.
    assert series.window("2026-11-03", "2026-11-03").outputs[0].estimate.steps == tuple(steps[2]["counts"])
    assert series.window("2026-11-01", "2026-11-05").outputs[0].estimate.steps == tuple(steps[4]["totals"])
    difference = series.difference("2026-11-04", "2026-11-01").outputs[0].estimate
    assert list(difference.steps) == [a - b for a, b in zip(steps[3]["counts"], steps[0]["counts"], strict=True)]
    assert difference.least is None
    assert people.spent == sd.ZCDP("0.5")


def test_a_week_has_less_noise_than_seven_days() -> None:
    people = open_table(SMALL)
    series = open_series(people, horizon=365)
    for number in range(8):
        release = series.release(day(number))
    one = release.outputs[0].estimate.deviation
    week = series.window(day(1), day(7)).outputs[0].estimate.deviation
    assert week < 1.6 * one < 7**0.5 * one


def test_intervals_cover() -> None:
    """Of 60 wards over 5 days, counts and totals: 600 intervals at 95%, of which 60 or more miss with a chance below 1e-6."""
    wards = [f"w{i}" for i in range(60)]
    rows: list[Row] = [
        (number, ward, 0) for number in range(5) for i, ward in enumerate(wards) for _ in range(5 + i % 7)
    ]
    series = open_series(open_table(rows, domain=domain(wards)), horizon=365)
    misses = 0
    for number in range(5):
        for i, row in enumerate(series.release(day(number)).table.to_pylist()):
            true = 5 + i % 7
            misses += not row["count_low"] <= true <= row["count_high"]
            misses += not row["total_low"] <= true * (number + 1) <= row["total_high"]
    assert misses < 60


@pytest.mark.parametrize(
    ("every", "periods", "counts"),
    [
        ("week", ["2026-11-02", "2026-11-09"], [2, 1]),
        ("month", ["2026-11", "2026-12-24"], [5, 1]),
        ("quarter", ["2026-Q4"], [6]),
        ("year", ["2026", "2027"], [6, 1]),
    ],
)
def test_periods(every: str, periods: list[str], counts: list[int]) -> None:
    """The noise of rho 10^6 is none of whole rows: 2 rows lie in the week of 2 November, a Monday, none of them on Sunday."""
    rows: list[Row] = [(number, "a", 0) for number in (0, 0, 1, 7, 14, 60 - 29, 90)]
    people = open_table(rows, budget=sd.ZCDP(10**7))
    series = open_series(people, every=every, rho=10**6, by=())
    assert [series.release(period).table.to_pylist()[0]["count"] for period in periods] == counts


def test_days_of_moments() -> None:
    zone = "Europe/Berlin"
    moments = ["2026-11-01T00:00:00+01:00", "2026-11-01T23:59:59+01:00", "2026-11-02T00:00:00+01:00"]
    table = pa.table({"at": pa.array([datetime.datetime.fromisoformat(m) for m in moments], pa.timestamp("us", "UTC"))})
    declared = sd.Domain({"at": sd.DateTime("2026-01-01", "2026-12-31", zone=zone)})
    people = open_table(table, domain=declared, budget=sd.ZCDP(10**7))
    series = open_series(people, over="at", by=(), rho=10**6)
    assert [series.release(day(number))["count"] for number in (0, 1)] == [2, 1]


def test_keys_of_expressions_and_conditions() -> None:
    people = open_table(SMALL, budget=sd.ZCDP(10**7))
    series = open_series(
        people, by=["ward", sd.col("minutes").bin([-2, 3, 10]).alias("long")], where=sd.col("minutes") != 4, rho=10**6
    )
    table = series.release("2026-11-04").table
    assert table.num_rows == 4
    assert sum(table.column("count").to_pylist()) == 1


@pytest.mark.parametrize("count", [499, 501])
def test_groups_of_many_keys_are_the_same_rows(count: int) -> None:
    """Keys of which some have a quote, cells with blanks around them, cells that are no key, and missing ones."""
    wards = [f"it's {i}" for i in range(count)]
    cells = [*wards[:10], *(f" {ward} " for ward in wards[5:20]), "it's", "", None, wards[-1], wards[-1]]
    table = pa.table({"day": pa.array([FIRST] * len(cells)), "ward": pa.array(cells, pa.string())})
    declared = sd.Domain({"day": sd.Date("2026-01-01", "2027-12-31"), "ward": sd.Category(wards)})
    people = open_table(table, domain=declared, budget=sd.ZCDP(10**7))
    counts = open_series(people, rho=10**6).release(FIRST)["count"]
    stripped = [cell.strip() for cell in cells if cell is not None]
    assert counts == [stripped.count(ward) for ward in wards]


OPEN: list[tuple[Callable[[Any], dict[str, Any]], type[Exception], str]] = [
    (lambda _: {"measure": sd.mean("minutes")}, QuestionRefused, "a series takes a count of rows or a sum"),
    (lambda _: {"measure": sd.count_distinct("ward")}, QuestionRefused, "a series takes a count of rows or a sum"),
    (lambda _: {"measure": "count"}, QuestionRefused, "write SQL as sd.sql"),
    (lambda _: {"over": "ward"}, QuestionRefused, "'ward' is of type category"),
    (lambda _: {"over": "dya"}, QuestionRefused, "column 'dya' is not declared"),
    (lambda _: {"every": "dya"}, QuestionRefused, "every is a kind of period"),
    (lambda _: {"by": ["wrad"]}, QuestionRefused, "column 'wrad' is not declared"),
    (lambda _: {"by": ["ward", "ward"]}, QuestionRefused, "ward"),
    (lambda _: {"horizon": 0}, QuestionRefused, "horizon is the number of periods"),
    (lambda _: {"horizon": 10**6}, QuestionRefused, "from 1 to 100,000"),
    (lambda _: {"start": "2019-01-01"}, QuestionRefused, "lies outside of the declared days"),
    (lambda _: {"start": "soon"}, QuestionRefused, "a period is a date or text such as '2026-11-24'"),
    (lambda _: {"rho": None, "epsilon": 1}, QuestionRefused, "state rho, or epsilon and delta"),
    (lambda _: {"rho": 11}, BudgetExhausted, "the budget does not cover this"),
    (lambda _: {"rho": None}, DeclarationError, "epsilon"),
    (lambda _: {"name": ""}, QuestionRefused, "the name of a series"),
    (lambda _: {"where": "minutes > 3"}, QuestionRefused, "where takes a condition"),
    (lambda _: {"measure": sd.count().alias("ward")}, QuestionRefused, "two columns of the series are named 'ward'"),
    (lambda _: {"measure": sd.count().alias("total")}, QuestionRefused, "two columns of the series are named 'total'"),
]


@pytest.mark.parametrize("case", OPEN, ids=lambda case: case[2][:40])
def test_what_no_series_is_costs_nothing(case: tuple[Callable[[Any], dict[str, Any]], type[Exception], str]) -> None:
    people = open_table(SMALL)
    options = case[0](people)
    with pytest.raises(case[1], match=case[2]):
        open_series(people, options.pop("measure", None), **options)
    assert people.spent == sd.ZCDP(0)
    assert people.ledger.charges() == []


RELEASES: list[tuple[Any, str]] = [
    ("2026-11-02", "2026-11-02 comes before 2026-11-03, the last period released.* Release 2026-11-04 or later"),
    ("2026-10-01", "2026-10-01 comes before 2026-11-03"),
    ("2026-12-01", "beyond the horizon of 30 periods, which ends with 2026-11-30"),
    ("2028-01-01", "outside of the declared days of 'day', 2026-01-01 to 2027-12-31"),
    ("yesterday", "a period is a date or text such as '2026-11-24', not 'yesterday'"),
    (mistype(20261124), "a period is a date or text"),
    (datetime.datetime(2026, 11, 24), "a period is a date or text"),
]


@pytest.mark.parametrize(("period", "words"), RELEASES, ids=lambda value: str(value)[:30])
def test_a_period_that_cannot_be_released_changes_nothing(period: Any, words: str) -> None:
    people = open_table(SMALL)
    series = open_series(people, start="2026-11-01")
    series.release("2026-11-03")
    head = people.ledger.head()
    with pytest.raises(QuestionRefused, match=words):
        series.release(period)
    assert people.ledger.head() == head


WINDOWS: list[tuple[tuple[str, str], str]] = [
    (("2026-11-05", "2026-11-03"), "a window ends after it begins"),
    (("2026-11-01", "2026-11-04"), "2026-11-04 was not released: released are 2026-11-01, 2026-11-03"),
    (("2026-11-03", "2026-11-03"), "needs the total before it, and 2026-11-02 was not released"),
    (("2026-10-31", "2026-11-03"), "comes before 2026-11-01, where the series starts"),
]


@pytest.mark.parametrize(("window", "words"), WINDOWS)
def test_a_window_that_was_not_released(window: tuple[str, str], words: str) -> None:
    series = open_series(open_table(SMALL))
    series.release("2026-11-01")
    series.release("2026-11-03")
    with pytest.raises(QuestionRefused, match=words):
        series.window(*window)


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"rho": "0.4"}, "another value of the loss"),
    ({"horizon": 31}, "another value of horizon=: 30 then, 31 now"),
    ({"by": []}, "another value of by="),
    ({"every": "week"}, "another value of every=: 'day' then, 'week' now"),
    ({"start": "2026-11-01"}, "another value of start="),
    ({"where": sd.col("minutes") > 1}, "another value of where="),
    ({"measure": sd.sum("minutes")}, "another value of measure="),
]


@pytest.mark.parametrize(("options", "words"), OTHERS, ids=[words for _, words in OTHERS])
def test_a_name_is_of_one_series(options: dict[str, Any], words: str) -> None:
    people = open_table(SMALL)
    open_series(people)
    spent = people.spent
    options = dict(options)
    with pytest.raises(DeclarationError, match=words):
        open_series(people, options.pop("measure", None), **options)
    assert people.spent == spent


def test_a_series_is_opened_again_by_its_name_alone() -> None:
    people = open_table(SMALL)
    options: dict[str, Any] = {
        "by": ["ward", sd.col("minutes").bin([-2, 3, 10]).alias("long")],
        "where": sd.col("minutes") != 4,
        "every": "week",
        "start": "2026-11-01",
    }
    series = open_series(people, sd.sum("minutes"), **options)
    release = series.release("2026-11-01")
    again = people.series(name="wards")
    assert again.release("2026-11-01") == release
    assert open_series(people, sd.sum("minutes"), **options).periods == ["2026-10-26"]
    assert people.spent == sd.ZCDP("0.5")
    with pytest.raises(UnknownName, match="there is no series 'ward' on this ledger; did you mean 'wards'"):
        people.series(name="ward")
    with pytest.raises(QuestionRefused, match="or again by its name alone"):
        people.series(name="wards", every="week")


def test_a_whole_question_in_sql_opens_a_series() -> None:
    people = open_table(SMALL)
    open_series(people, where=sd.col("minutes") > 1)
    text = "SELECT ward, COUNT(*) AS count FROM visits WHERE minutes > 1 GROUP BY ward"
    rest: dict[str, Any] = {"over": "day", "every": "day", "rho": "0.5", "horizon": 30}
    assert people.series(sd.sql(text), name="wards", **rest).release(FIRST)["count"]
    assert people.spent == sd.ZCDP("0.5")
    for more in (" HAVING count > 3", " ORDER BY count", " LIMIT 1"):
        with pytest.raises(QuestionRefused, match="a series takes a question of one count or sum"):
            people.series(sd.sql(text + more), name="others", **rest)
    with pytest.raises(QuestionRefused, match="leave by= and where= out"):
        people.series(sd.sql(text), name="others", by=["ward"], **rest)
    assert people.spent == sd.ZCDP("0.5")


def test_units_of_many_rows_are_promised_or_refused() -> None:
    table = pa.table({"day": [FIRST], "ward": ["a"], "minutes": [1], "id": ["x"]})
    declared = sd.Domain({**domain().stored, "id": sd.Identifier()})
    people = open_table(table, domain=declared, unit=sd.PrivacyUnit("id", max_rows=3))
    with pytest.raises(
        QuestionRefused, match="this table protects all rows of one id: state in how many periods one counts"
    ):
        open_series(people)
    promised = open_table(SMALL, unit=sd.PrivacyUnit(None, max_rows=3))
    single = open_table(SMALL)
    deviations = [open_series(one).release(FIRST).outputs[0].estimate.deviation for one in (promised, single)]
    assert deviations[0] == pytest.approx(3 * deviations[1], rel=0.02)


def test_epsilon_and_delta() -> None:
    people = open_table(SMALL, budget=sd.ApproxDP(2, "1e-6"))
    series = open_series(people, rho=None, epsilon=1, delta="1e-6")
    series.release(FIRST)
    assert people.spent == sd.ApproxDP(1, "1e-6")


def test_a_plan_is_shown_before_the_charge() -> None:
    people = open_table(SMALL)
    plans: list[Any] = []

    def stop(plan: Any) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_series(people, confirm=stop, horizon=365)
    assert people.spent == sd.ZCDP(0)
    text = plans[0].describe()
    assert "one charge for the whole series of at most 365 periods" in text
    errors = plans[0].error(0.95)
    series = open_series(people, horizon=365)
    released = series.release(FIRST)
    assert errors["count"] >= released.outputs[0].estimate.errors(0.95)[0] - 1
    assert 5.7 < errors["total"] < 5.9


def test_a_series_is_explained_as_a_whole() -> None:
    people = open_table(SMALL)
    series = open_series(people, horizon=365)
    assert "at most 365 days (none released so far)" in series.explain()
    series.release(FIRST)
    series.release(day(3))
    text = series.explain()
    assert text.startswith("Charge c-0001 answered the number of rows by ward, each day of day, with running totals")
    assert "(2 released so far, the last 2026-11-04): all of them together" in text
    assert people.explain(series.opening.charge) == text
    # of another charge nothing is said of series
    other = people.ask(sd.count(), rho="0.1")
    assert people.explain(other.charge) == sd.explain(other)


@pytest.mark.each(2)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_says_which_release_each_row_is_of(tmp_path: Path, suffix: str) -> None:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    people = open_table(SMALL)
    series = open_series(people)
    path = tmp_path / f"wards{suffix}"
    with pytest.raises(QuestionRefused, match="nothing of the series 'wards' was released so far"):
        series.export(path)
    for number in (0, 3):
        series.release(day(number))
    series.export(path)
    table = pacsv.read_csv(path) if suffix == ".csv" else pq.read_table(path)
    assert table.column_names[:5] == ["series", "step", "period", "recorded", "record"]
    assert table.column_names[5:] == series.table.column_names[1:]
    assert table.column("step").to_pylist() == [1, 1, 4, 4]
    assert table.column("count").to_pylist() == series.table.column("count").to_pylist()
    hashes = {entry.hash for entry in people.ledger.entries() if entry.kind == "step"}
    assert set(table.column("record").to_pylist()) == hashes
    one = tmp_path / f"one{suffix}"
    series.export(one, period=day(3))
    again = tmp_path / f"again{suffix}"
    open_series(people).export(again, period="2026-11-04")
    assert one.read_bytes() == again.read_bytes()
    with pytest.raises(QuestionRefused, match="2026-11-02 was not released"):
        series.export(one, period=day(1))
    with pytest.raises(DeclarationError, match=r"to a \.csv or \.parquet file"):
        series.export(tmp_path / "wards.xls")


def test_numbers_of_a_series_share_their_noise_so_no_formula_over_them_has_an_interval() -> None:
    series = open_series(open_table(SMALL))
    released = series.release(FIRST)
    answer = released.query("SELECT ward, total - count AS before FROM answer")
    assert answer.interval(0.95).column("before_lower").to_pylist() == [None, None]
