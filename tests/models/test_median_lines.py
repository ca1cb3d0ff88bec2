"""Theil-Sen: lines of buckets against plain arithmetic, how far a unit moves them by brute force, and what outliers do not."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import sordino as sd
from binding import BoundVectors
from planning import data_access_of
from protecting import protect
from sordino.ask.queries.aggregates.quantile import median
from sordino.ask.queries.bucket_lines import LEFT, RIGHT, BucketLines, line_parts
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.queryable import Scan
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName
from sordino.core.neighbors import Neighbors, Relation
from sordino.core.primitives import Primitives
from sordino.models.median_lines import TheilSenModel

DOMAIN = sd.Domain(
    {
        "x": sd.Integer(0, 4),
        "y": sd.Real(-2, 6, resolution="0.5"),
        "id": sd.Identifier(),
    }
)
KINDS = {"x": pa.int64(), "y": pa.float64(), "id": pa.string()}
Row = tuple[Any, Any, Any]
PERSON = sd.PrivacyUnit("id", max_rows=3)


def step(buckets: int = 1, hashings: int = 1) -> BucketLines:
    """Return the step that reads lines at x = 1 and x = 3."""
    x, _ = BucketLines(Name("x"), Name("y"), 1, 1, 0, 1).numbers(DOMAIN)
    left, right = (round((at - x.middle) / x.step) for at in (1, 3))
    return BucketLines(Name("x"), Name("y"), buckets, hashings, left, right)


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table({name: pa.array(list(column), KINDS[name]) for name, column in zip(KINDS, columns, strict=True)})


def open_rows(rows: Iterable[Row], unit: Any = "row") -> sd.Curator:
    return protect(table_of_rows(rows), DOMAIN, unit=unit, budget=sd.ApproxDP(10**8, "0.1"))


def lines_of(rows: Iterable[Row], of: BucketLines, unit: Any = "row") -> Counter[tuple[int, int]]:
    """Return the exact lines, as the curator sees them."""
    access = data_access_of(open_rows(rows, unit)).follow((of,), DOMAIN)
    on = access.primitives()
    select = exp.Select(expressions=[exp.column(LEFT), exp.column(RIGHT)]).from_(on.source())
    return count_lines(access.run(access.write(select)))


def count_lines(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(*(map(int, table.column(name).to_pylist()) for name in (LEFT, RIGHT)), strict=True))


class _Lines:
    """The lines as a query that can be bound once and asked of many tables."""

    def __init__(self, of: BucketLines) -> None:
        self._of = of

    def scans(self, domain: sd.Domain) -> list[Scan]:
        def select(on: Primitives) -> exp.Select:
            columns = [exp.column(LEFT), exp.column(RIGHT)]
            return exp.Select(expressions=columns).from_(self._of.apply(on, domain).source())

        return [Scan("lines", select)]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: sd.Domain) -> list[Any]:
        del domain
        return [tables[0]]


class LinesOfMany:
    """The lines of one table after another: the step's statement takes DuckDB many times as long to bind as to run."""

    def __init__(self, of: BucketLines, unit: Any) -> None:
        no_rows = table_of_rows(())
        self._bound = BoundVectors(open_rows((), unit), no_rows, _Lines(of), DOMAIN)

    def of(self, rows: Iterable[Row]) -> Counter[tuple[int, int]]:
        return count_lines(self._bound.of(table_of_rows(rows))[0])


def own_units(line: tuple[int, int]) -> tuple[float, float]:
    _, y = step().numbers(DOMAIN)
    left, right = (y.middle + y.step * at / line_parts(y) for at in line)
    return left, right


def least_squares(rows: Sequence[Row]) -> tuple[float, float]:
    """Return what the line of least squares says at 1 and at 3, cut to the bounds of y, by exact arithmetic."""
    x = [Fraction(min(max(row[0], 0), 4)) for row in rows]
    y = [Fraction(min(max(row[1], -2), 6)) for row in rows]
    n = len(rows)
    slope = (n * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)) / (
        n * sum(a * a for a in x) - sum(x) ** 2
    )
    ends = [min(max((sum(y) + slope * (n * at - sum(x))) / n, Fraction(-2)), Fraction(6)) for at in (1, 3)]
    return float(ends[0]), float(ends[1])


# ---- The lines


@pytest.mark.each(5)
@pytest.mark.parametrize(
    "rows",
    [
        [(0, 1.0, "a"), (4, 5.0, "b")],
        [(0, 1.0, "a"), (2, -1.5, "b"), (3, 6.0, "c"), (3, 2.5, "c")],
        [(1, -2.0, "a"), (2, 6.0, "b")],
        [(-9, -70.0, "a"), (90, 70.0, "b"), (1, 0.5, "c")],
        [(0, 6.0, "a"), (4, -2.0, "b"), (4, -2.0, "b")] * 40,
    ],
    ids=["two rows", "a tie", "beyond the range", "clipped cells", "many rows"],
)
def test_one_bucket_is_the_line_of_least_squares(rows: list[Row]) -> None:
    for unit in ("row", sd.PrivacyUnit("id", max_rows=1000)):
        ((line, times),) = lines_of(rows, step(), unit).items()
        assert times == 1
        assert own_units(line) == pytest.approx(least_squares(rows), abs=1e-4)


@pytest.mark.deep
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, 1.0, "a")],
        [(2, 1.0, "a"), (2, 3.0, "b")],
        [(None, 1.0, "a"), (2, 3.0, "b"), (1, None, "c")],
        # The last has as many rows as are left out, so that no product passes what an engine holds.
        [(i % 5, 6.0 * (i % 2), "a") for i in range(4097)],
    ],
    ids=["none", "one row", "one x", "missing cells", "too many rows"],
)
def test_a_bucket_without_a_line_has_none(rows: list[Row]) -> None:
    assert not lines_of(rows, step())


def test_the_largest_bucket_stays_within_what_an_engine_holds() -> None:
    rows = [((i % 2) * 4, (i % 2) * 8.0 - 2, str(i)) for i in range(4096)]
    ((line, _),) = lines_of(rows, step()).items()
    assert own_units(line) == pytest.approx((0, 4), abs=1e-4)


def test_rows_are_spread_over_buckets_whatever_they_hold() -> None:
    """Equal rows too: of 3,000 rows in 1,000 buckets about 800 have two rows or more, most of them of two x."""
    draws = np.random.default_rng(3)
    rows = [
        (int(x), float(x) / 2 + int(e), "a")
        for x, e in zip(draws.integers(0, 5, 3000), draws.integers(0, 2, 3000), strict=True)
    ]
    lines = lines_of(rows, step(1000, 4))
    assert 0.6 * 4000 < lines.total() < 0.85 * 4000
    assert len(lines) > 300
    people = [(x, y, f"u{i}") for i, (x, y, _) in enumerate(rows)]
    assert 0.6 * 4000 < lines_of(people, step(1000, 4), PERSON).total() < 0.85 * 4000


def test_each_hashing_is_another() -> None:
    """Of 40 rows in 8 buckets the lines of two hashings are hardly ever the same; that of one is the first of two."""
    rows = [(i % 5, float(i % 7) - 1, f"u{i}") for i in range(40)]
    one, two = lines_of(rows, step(8, 1), PERSON), lines_of(rows, step(8, 2), PERSON)
    assert one <= two
    assert len((two - one) & one) < 3 < (two - one).total()


# ---- Sensitivity: every table of up to three rows, and every unit put in, taken out or replaced

POOL: list[tuple[Any, Any]] = [(0, 6.0), (4, -2.0), (2, 1.0), (4, 6.0), (None, 1.0)]


def largest_moves(tables: dict[tuple[Any, ...], Counter[tuple[int, int]]], pairs: Iterable[tuple[Any, Any]]) -> int:
    """Return the most lines that leave or come between two tables."""
    return max(max((tables[a] - tables[b]).total(), (tables[b] - tables[a]).total()) for a, b in pairs)


@pytest.mark.each(2)
@pytest.mark.parametrize("hashings", [1, 3])
def test_no_row_moves_more_lines_than_stated(hashings: int) -> None:
    of = step(2, hashings)
    keys = [key for size in range(4) for key in itertools.combinations_with_replacement(range(len(POOL)), size)]
    bound = LinesOfMany(of, "row")
    tables = {key: bound.of([(*POOL[i], "a") for i in key]) for key in keys}
    # One of them is asked as users open it.
    assert tables[0, 1, 2] == lines_of([(*POOL[i], "a") for i in (0, 1, 2)], of) != Counter()
    added = [(key, tuple(sorted((*key, i)))) for key in keys if len(key) < 3 for i in range(len(POOL))]
    replaced = [(a, b) for a in keys for b in keys if len(a) == len(b) and (Counter(a) - Counter(b)).total() == 1]
    relations: dict[Relation, list[Any]] = {"add_remove": added, "replace": replaced}
    for relation, pairs in relations.items():
        stated = of.neighbors(Neighbors(relation, None))
        assert stated.relation == "replace"
        assert stated.contributions == hashings * (2 if relation == "replace" else 1)
        moved = largest_moves(tables, pairs)
        assert moved <= stated.contributions
        # Rows come near it, so that no needless noise is drawn.
        assert moved >= hashings


@pytest.mark.deep
@pytest.mark.parametrize("others", [[0, 1], [], [0, 1, 2, 3]], ids=len)
def test_no_person_moves_more_lines_than_stated(others: list[int]) -> None:
    """However many rows they have: all are in one bucket of each hashing. Rows beyond the cap do not count."""
    of = step(2, 3)
    own = [key for size in range(5) for key in itertools.combinations(range(4), size)]
    bound = LinesOfMany(of, PERSON)
    rest = [(*POOL[i], f"other {i}") for i in others]
    tables: dict[tuple[Any, ...], Any] = {
        (name, key): bound.of([*rest, *((*POOL[i], name) for i in key)]) for name in ("a", "b") for key in own
    }
    # One of them is asked as users open it.
    assert tables["b", (0, 1)] == lines_of([*rest, *((*POOL[i], "b") for i in (0, 1))], of, PERSON) != Counter()
    added = [((name, ()), (name, key)) for name in ("a", "b") for key in own]
    replaced = [(("a", one), ("b", other)) for one in own for other in own]
    relations: dict[Relation, list[Any]] = {"add_remove": added, "replace": replaced}
    for relation, pairs in relations.items():
        stated = of.neighbors(Neighbors(relation, PERSON))
        assert stated.contributions == (6 if relation == "replace" else 3)
        assert largest_moves(tables, pairs) <= stated.contributions


def test_rows_of_a_promised_unit_count_one_by_one() -> None:
    """Where no column names the units, their rows are in buckets of their own."""
    promised = sd.PrivacyUnit(None, max_rows=5)
    assert step(2, 3).neighbors(Neighbors("add_remove", promised)).contributions == 15
    assert step(2, 3).neighbors(Neighbors("replace", promised)).contributions == 30
    assert step(2, 3).neighbors(Neighbors("add_remove", None, copies=2)).contributions == 6
    joined = Neighbors("add_remove", sd.PrivacyUnit("id", max_rows=1), copies=2, capped=False)
    assert step(2, 3).neighbors(joined).contributions == 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"buckets": 0},
        {"buckets": 2**31 + 1},
        {"hashings": 33},
        {"left": 5000},
        {"left": 9, "right": 9},
        {"left": -9999},
    ],
    ids=str,
)
def test_a_step_that_an_engine_could_not_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(QuestionRefused, match="lines are"):
        replace(step(), **wrong).domain(DOMAIN)


# ---- The model

WIDE = sd.Domain(
    {
        "x": sd.Real(-100, 100, resolution="0.01"),
        "y": sd.Real(-500, 500, resolution="0.01"),
        "id": sd.Identifier(),
    }
)


def draw(count: int, seed: int, *, outliers: float = 0.1) -> dict[str, Any]:
    """Return rows of y = 2 x + 5 with an error of 3, of which a share is 200 too high where x is above its mean."""
    draws = np.random.default_rng(seed)
    x = draws.normal(10, 5, count)
    y = 2 * x + 5 + draws.normal(0, 3, count)
    y += 200 * (draws.random(count) < outliers * 2) * (x > 10)
    return {"x": x.round(2), "y": y.round(2), "id": [f"u{i // 2}" for i in range(count)]}


def table_of(rows: dict[str, Any], seed: int, **options: Any) -> sd.Curator:
    return protect(pa.table(rows), WIDE, budget=sd.ApproxDP(10**8, "0.1"), seed=seed, **options)


@pytest.mark.each(4)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=2)], ids=["row", "person"])
def test_a_tenth_of_outliers_hardly_moves_the_line(relation: str, unit: Any) -> None:
    rows = draw(8000, 1)
    table = table_of(rows, 3, neighbors=relation, unit=unit)
    model = sd.models.theil_sen(table, y="y", x=["x"], epsilon=2)
    assert table.spent == sd.ApproxDP(2, 0)
    assert model.cost.amounts()["epsilon"] == 2
    # Of least squares the slope is 3.9.
    assert np.polyfit(rows["x"], rows["y"], 1)[0] > 3.5
    assert model.coefficients["x"] == pytest.approx(2, abs=0.35)
    assert model.predict({"x": [10.0]})[0] == pytest.approx(25, abs=1.5)
    low, high = model.interval("x")
    lower, higher = model.interval("x", of="population")
    assert lower < low < model.slope < high < higher
    assert model.interval("x", confidence=0.5)[1] < high
    assert model.interval("intercept")[0] < model.intercept
    again = TheilSenModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again.interval("x") == (low, high)
    with pytest.raises(UnknownName, match="intercept"):
        model.interval("slope")
    of: Any = "rows"
    with pytest.raises(DeclarationError, match="population"):
        model.interval("x", of=of)
    with pytest.raises(DeclarationError, match="between 0 and 1"):
        model.interval("x", confidence=95)


@pytest.mark.deep
def test_intervals_of_the_population_are_about_as_wide_as_slopes_vary() -> None:
    """Thirty tables of normal errors, with hardly any noise: a deviation of 30 errs by 13%, so by half in one of 10^4 runs."""
    slopes = []
    widths = []
    for seed in range(30):
        draws = np.random.default_rng(seed)
        x = draws.uniform(-10, 10, 900).round(2)
        y = (2 * x + draws.normal(0, 5, 900)).round(2)
        model = sd.models.theil_sen(
            table_of({"id": np.arange(900), "x": x, "y": y}, seed), y="y", x=["x"], epsilon=10**5
        )
        slopes.append(model.slope)
        low, high = model.interval("x", of="population")
        widths.append((high - low) / 2)
    assert 0.8 < np.median(widths) / (1.96 * np.std(slopes)) < 2


@pytest.mark.deep
def test_a_delta_is_not_spent_where_it_gains_nothing() -> None:
    table = table_of(draw(500, 2), 1)
    assert sd.models.theil_sen(table, y="y", x=["x"], epsilon=1, delta="1e-6").cost == sd.ApproxDP(1, 0)
    both = sd.models.theil_sen(table, y="y", x=["x"], epsilon="0.1", delta="0.01")
    assert both.cost == sd.ApproxDP("0.1", "0.01")


@pytest.mark.deep
def test_it_is_fitted_for_rho_and_to_joined_rows_and_folds() -> None:
    rows = draw(6000, 5)
    table = protect(pa.table(rows), WIDE, budget=sd.ZCDP(100), seed=1)
    model = sd.models.theil_sen(table, y="y", x=["x"], validate=4, rho=2)
    assert table.spent == model.cost == sd.ZCDP(2)
    assert model.slope == pytest.approx(2, abs=0.3)
    # Outliers are in the held-out rows too, so the R2 is low, and known.
    held: Any = model.held_out
    assert held.lower <= held.r2 <= held.upper < 0.5
    # The lines are those of the other units alone: a unit in four is in none.
    assert model.lines == pytest.approx(0.75 * sd.models.theil_sen(table, y="y", x=["x"], rho=2).lines, rel=0.08)


@pytest.mark.deep
def test_it_is_chosen_where_outliers_lead_least_squares_astray() -> None:
    table = table_of(draw(8000, 5), 1)
    choice = sd.models.choose(
        ["linear_regression", "theil_sen"], table, y="y", x=["x"], validate=4, epsilon=8, delta="1e-6"
    )
    assert choice.name == "theil_sen"
    assert choice.model.slope == pytest.approx(2, abs=0.3)


@pytest.mark.deep
def test_too_few_lines_for_the_noise_are_said() -> None:
    model = sd.models.theil_sen(table_of(draw(40, 1), 2), y="y", x=["x"], epsilon="0.1")
    assert model.interval("x") == (-math.inf, math.inf)
    assert any("too few for this noise" in note for note in model.notes)
    assert str(model.card)
    assert set(model.undetermined) == {"x", "intercept"}


@pytest.mark.deep
@pytest.mark.parametrize("fits", [2, pytest.param(12, marks=pytest.mark.deep)])
def test_a_number_of_lines_that_noise_made_large_makes_no_interval(fits: int) -> None:
    """Of 200 rows there are some 530 lines, and their number has noise of 333: half of such fits had an interval by it alone."""
    for seed in range(fits):
        model = sd.models.theil_sen(table_of(draw(200, seed), seed), y="y", x=["x"], epsilon=1)
        assert model.interval("x") == (-math.inf, math.inf)


def test_one_value_of_x_still_has_two_places() -> None:
    rows = draw(300, 1)
    rows["x"] = np.full(300, 7.0)
    model = sd.models.theil_sen(table_of(rows, 2), y="y", x=["x"], epsilon=10)
    assert model.places[0] < model.places[1]
    assert model.interval("x") == (-math.inf, math.inf)


def coverage(count: int, rows: int) -> tuple[float, float]:
    """Return how often the 95% intervals of the slope hold that of the exact medians of the same lines, and the true one."""
    noise = []
    population = []
    for seed in range(count):
        table = table_of(draw(rows, seed, outliers=0.0), seed)
        model = sd.models.theil_sen(table, y="y", x=["x"], epsilon=1)
        low, high = model.interval("x", of="population")
        population.append(low <= 2 <= high)
        steps = BucketLines(Name("x"), Name("y"), 1, 1, 0, 1)
        x, y = steps.numbers(WIDE)
        words = model.notes[0].replace(",", "").split()
        left, right = (round((at - x.middle) / x.step) for at in model.places)
        steps = replace(steps, buckets=int(words[words.index("about") + 1]), left=left, right=right)
        steps = replace(steps, hashings=int(words[words.index("times;") - 1]))
        exact = table.ask(replace(as_aggregation([median(LEFT), median(RIGHT)]), steps=(steps,)), epsilon=10**6)
        at = [float(output.estimate.values()[0]) * y.step / line_parts(y) for output in exact.outputs]
        low, high = model.interval("x")
        noise.append(low <= (at[1] - at[0]) / (model.places[1] - model.places[0]) <= high)
    return float(np.mean(noise)), float(np.mean(population))


@pytest.mark.deep
def test_the_interval_of_the_noise_covers_what_exact_medians_say() -> None:
    """Of 2 draws none is covered with odds of 1 in 400 where the coverage is .95; the deep test draws 300."""
    noise, population = coverage(2, 2000)
    assert noise >= 0.5
    assert population >= 0.5


@pytest.mark.deep
def test_intervals_cover_over_a_hundred_simulations() -> None:
    """The standard error of a coverage of .95 is .022."""
    noise, population = coverage(100, 2000)
    assert 0.92 <= noise <= 0.995
    assert population >= 0.93
