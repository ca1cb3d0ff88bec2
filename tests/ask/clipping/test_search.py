"""The search for clipping bounds: what it finds on shapes of data, what it pays, and that it only queries."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from places import ADULT, needs_adult
from planning import engine_behind
from protecting import protect
from sordino import col
from sordino.ask.clipping.bins import equal_bins, find_occupied, refine_ends, rows_at_most, sums_by_bound
from sordino.ask.queries.adaptive.magnitudes import (
    PARTS,
    TOP,
    MagnitudeHistogram,
    OutsideCount,
    TailCount,
    powers_of_two,
)
from sordino.core.accounting.concentration import bounded_range_epsilon_for, pure_epsilon_for
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import PureDP
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.release import Release
from sordino.errors import DeclarationError, QuestionRefused


def curator_of(
    values: Any, column: Any = None, *, seed: int = 0, relation: str = "add_remove", unit: Any = "row"
) -> Any:
    table = values if isinstance(values, pa.Table) else pa.table({"x": pa.array(values)})
    columns = {"x": column or sd.Integer(), **({"id": sd.Identifier()} if "id" in table.column_names else {})}
    return protect(table, sd.Domain(columns), neighbors=relation, unit=unit, seed=seed)


def test_octaves_tell_every_number_by_its_binary_digits() -> None:
    edges = powers_of_two()
    assert len(edges) == 2 * TOP + 2
    for value in (-(2**61), -5, -4, -1, 0, 1, 2, 3, 4, 7, 8, 2**40 - 1, 2**40, 2**62):
        place = next(i for i, (a, b) in enumerate(itertools.pairwise(edges)) if a <= value < b)
        assert abs(place - TOP) == value.bit_length() if value else place == TOP
        assert (place > TOP) == (value > 0)


@pytest.mark.each(9)
@pytest.mark.parametrize("method", ["histogram", "sparse_vector", "quantile"])
@pytest.mark.parametrize("scale", [1, 1000, 2**40])
def test_bounds_hold_nearly_all_rows_at_any_scale_and_are_not_far_off(method: Any, scale: int) -> None:
    values = (np.random.default_rng(5).normal(50, 10, 20_000) * scale).astype(np.int64)
    found = curator_of(values).find_bounds("x", epsilon=1, method=method)
    beyond = int(((values < found.lower) | (values > found.upper)).sum())
    assert beyond <= 300  # noise hides about ln(bins) / epsilon rows a bin: 60 to 200 here
    assert found.upper <= 200 * scale
    assert found.lower >= -10 * scale


@pytest.mark.deep
@pytest.mark.parametrize("sign", [1, -1])
def test_both_signs_and_tiny_reals_without_any_declaration(sign: int) -> None:
    values = sign * np.random.default_rng(6).uniform(1, 3, 20_000) * 2.0**-15
    found = curator_of(values, sd.Real()).find_bounds("x", epsilon=1)
    low, high = sorted((float(found.lower), float(found.upper)))
    assert low <= float(values.min()) * (1 if sign < 0 else 1.1)
    assert high >= float(values.max()) * 0.9 if sign > 0 else high >= float(values.max()) * 1.5
    assert max(abs(low), abs(high)) < 10 * 2.0**-15


def test_reals_up_to_2_to_the_60_are_found_on_a_second_grid() -> None:
    values = np.random.default_rng(7).uniform(0.5, 1, 20_000) * 2.0**58
    found = curator_of(values, sd.Real()).find_bounds("x", epsilon=2)
    assert 2.0**57 <= found.upper <= 2.0**59
    assert found.lower <= 2.0**57 * 1.1


def test_clipped_sums_follow_from_one_histogram() -> None:
    """S(b_j) = sum over bins to j of (start n + r) + b_j times the rows above, exactly, where there is no noise."""
    values = np.random.default_rng(8).integers(-40, 160, 3_000)
    edges = tuple(range(-50, 176, 9))
    histogram = MagnitudeHistogram(col("x").node, edges, offsets=True)
    counts = [int(((values >= a) & (values < b)).sum()) * PARTS for a, b in itertools.pairwise(edges)]
    offsets = [
        int((values[(values >= a) & (values < b)] - a).sum()) * PARTS // (b - a) for a, b in itertools.pairwise(edges)
    ]
    law = DiscreteLaplace(Fraction(1))
    made = sums_by_bound(
        edges, Fraction(1), Noisy(tuple(counts), histogram.unit, law), Noisy(tuple(offsets), histogram.unit, law)
    )
    upper, lower = made
    assert len(upper.bounds) > 0
    assert len(lower.bounds) > 0
    for bound, total in zip(upper.bounds, upper.sums, strict=True):
        assert total == pytest.approx(np.clip(values, -50, bound).sum(), abs=30)  # a part of a width a bin
    for bound, total in zip(lower.bounds, lower.sums, strict=True):
        assert total == pytest.approx(np.clip(values, bound, 200).sum(), abs=30)


@pytest.mark.parametrize(
    ("relation", "factor"), [("add_remove", Fraction(2)), ("replace", Fraction(4))], ids=["add_remove", "replace"]
)
def test_counts_and_offsets_move_by_2c_and_4c_rows_and_a_part(relation: Any, factor: Fraction) -> None:
    domain = sd.Domain({"x": sd.Integer()})
    histogram = MagnitudeHistogram(col("x").node, (0, 10, 20), offsets=True)
    parts = histogram.parts(domain, sd.Neighbors(relation, None))
    total = sum((s.l1 for s, _ in parts), Fraction(0)) * histogram.unit
    assert total == factor * (1 + Fraction(1, 2 * PARTS))


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_rows_beyond_an_edge_move_by_one_under_either_relation(relation: Any) -> None:
    """An exchanged row may lie beyond where the other did not: its score is never free, and the search draws noise."""
    tail = TailCount(MagnitudeHistogram(col("x").node, (0, 10, 20), offsets=False), 1, 0, "few", False)
    ((moved, _),) = tail.parts(sd.Domain({"x": sd.Integer()}), sd.Neighbors(relation, None))
    assert moved.linf == 1


@pytest.mark.deep
def test_histograms_move_within_their_sensitivity_over_all_neighbors_of_small_tables() -> None:
    """Brute force through the engine: adding any row to any table of two rows never moves them by more than the rule."""
    domain = sd.Domain({"x": sd.Integer()})
    histogram = MagnitudeHistogram(col("x").node, (0, 3, 9, 10), offsets=True)
    bound = [s.l1 for s, _ in histogram.parts(domain, sd.Neighbors("add_remove", None))]

    @functools.cache
    def exact(values: tuple[int, ...]) -> Any:
        engine = engine_behind(curator_of(pa.table({"x": pa.array(values, pa.int64())})))
        tables = [engine.run(scan.select(engine.primitives)) for scan in histogram.scans(domain)]
        return histogram.exact_vectors(tables, domain)

    for values in itertools.combinations_with_replacement((-2, 1, 8, 30), 2):
        before = exact(values)
        for more in (-2, 1, 8, 30):
            after = exact(tuple(sorted((*values, more))))
            for b, a, most in zip(before, after, bound, strict=True):
                assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) <= most


@pytest.mark.deep
def test_a_ladder_of_100_bounds_at_a_hundredth_costs_1() -> None:
    values = np.random.default_rng(9).integers(0, 60, 5_000)
    found = curator_of(values).find_bounds("x", epsilon=1, method="ladder", ladder=list(range(1, 101)))
    assert found.cost == PureDP(1)
    assert len(found.keys[0].labels) == 100
    assert 20 <= found.upper <= 100
    assert "teaching tool" in found.notes[-1]
    for bound, width in zip(found.keys[1].labels, found.outputs[0].estimate.deviations, strict=True):
        assert width == pytest.approx(2**0.5 * bound / 0.01, rel=1e-3)  # each sum: Laplace of scale bound / .01


@pytest.mark.each(13)
@pytest.mark.parametrize("method", ["histogram", "sparse_vector", "quantile"])
@pytest.mark.parametrize(
    "values", [[], [None, None], [0], list(range(100, 150))], ids=["none", "missing", "one", "few"]
)
def test_what_finds_nothing_says_so_and_cannot_be_asked_with(values: Any, method: Any) -> None:
    table = curator_of(pa.table({"x": pa.array(values, pa.int64())}))
    found = table.find_bounds("x", epsilon=1, method=method)
    assert found.cost == PureDP(1)
    assert not found.found
    assert found.value is None
    assert found.notes[0].startswith("no bounds were found")
    assert json.loads(found.to_json())["chosen"] == {"lower": None, "upper": None}
    assert Release.from_dict(json.loads(found.to_json())) == found == table.release(found.charge)
    assert any("teaching tool" in note for note in found.notes) == (method == "sparse_vector")
    assert "None" in repr(found)
    assert "none found" in repr(sd.plot(found))
    for name in ("lower", "upper"):
        with pytest.raises(QuestionRefused, match=f"found no {name} bound.*more epsilon"):
            col("x").clip(getattr(found, name), None)
    assert table.spent == PureDP(1)  # the refusal cost nothing more
    with pytest.raises(AttributeError, match="of no search"):
        _ = table.ask(sd.count(), epsilon=1).found


def test_where_both_bounds_are_declared_they_are_the_fallback() -> None:
    for column in (sd.Integer(0, 125), sd.Integer(-(10**9), 10**9)):
        found = curator_of([3, 4], column).find_bounds("x", epsilon=1)
        assert (found.lower, found.upper) == (column.lower, column.upper)
        assert "these are the declared bounds" in found.notes[0]
    assert not curator_of([3, 4], sd.Integer(0, None)).find_bounds("x", epsilon=1).found


def beyond(found: Release) -> tuple[int, int]:
    """Return how many rows may lie below and above, by the note."""
    noted = next(n for n in found.notes if n.startswith("up to about"))
    each = [int(n.replace(",", "")) for n in re.findall(r"[0-9][0-9,]*(?= )", noted)]
    return (each[0], each[0]) if "each end" in noted else (each[1], each[2])


@pytest.mark.parametrize(
    ("declared", "method", "runs"),
    [
        (sd.Integer(), "histogram", 3),
        (sd.Integer(-500, 1500), "sparse_vector", 2),
        (sd.Integer(-500, 1500), "quantile", 2),
        *(
            pytest.param(declared, method, 50, marks=pytest.mark.deep)
            for declared in (sd.Integer(), sd.Integer(-500, 1500))
            for method in ("histogram", "sparse_vector", "quantile")
        ),
    ],
    ids=str,
)
def test_no_more_rows_lie_beyond_than_the_note_says(declared: Any, method: Any, runs: int) -> None:
    """At 95% for each search; 4.5 deviations are allowed. Shapes and sizes where hundreds of rows do lie beyond."""
    shapes = np.random.default_rng(3)
    missed = noted = 0
    for seed in range(runs):
        size = int(shapes.choice([300, 2_000, 6_000]))
        values = np.rint(shapes.standard_t(2, size) * 60 + 200).astype(np.int64)
        epsilon = float(shapes.choice([0.05, 0.2, 1.0]))
        found = curator_of(values, declared, seed=seed).find_bounds("x", epsilon=epsilon, method=method)
        if not found.found or found.notes[0].startswith("nothing"):
            continue
        noted += 1
        clipped = np.clip(values, -500, 1500) if declared.lower is not None else values
        below, above = beyond(found)
        missed += int((clipped < found.lower).sum()) > below or int((clipped > found.upper).sum()) > above
    assert noted > 0
    assert missed <= runs * (0.05 + 4.5 * (0.05 * 0.95 / runs) ** 0.5)


def test_bounds_that_clip_a_third_of_the_rows_warn() -> None:
    values = np.clip(np.random.default_rng(1).lognormal(0.6, 0.5, 4_000) - 1, -1, 4)
    table = curator_of(values, sd.Real(-1, 4, resolution="0.01"), seed=3)
    small, large = (table.find_bounds("x", epsilon=e) for e in ("0.05", 2))
    assert small.notes[1].endswith("ask with more epsilon")
    assert "ask with" not in large.notes[1]
    assert sum(beyond(large)) < 50 < sum(beyond(small))


def test_bounds_in_steps_are_respected_and_near_ones_need_one_scan() -> None:
    values = np.random.default_rng(10).integers(-100, 1000, 5_000)
    found = curator_of(values, sd.Integer(0, 168)).find_bounds("x", epsilon=1)
    assert found.lower == 0
    assert found.upper == 168


@pytest.mark.deep
def test_units_of_many_rows_are_capped_and_pay_for_their_rows() -> None:
    table = pa.table(
        {"x": pa.array([7] * 50_000 + [10**9] * 500), "id": ["u"] * 500 + [f"v{i}" for i in range(50_000)]}
    )
    unit = sd.PrivacyUnit("id", max_rows=2)
    found = curator_of(table, unit=unit).find_bounds("x", epsilon=1)
    assert 10**9 <= found.upper <= 2**30


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "ladder", "ladder": [1, 3, 2]}, "must ascend"),
        ({"method": "ladder", "ladder": [1]}, "2 to 256"),
        ({"method": "ladder"}, "needs ladder"),
        ({"method": "ladder", "ladder": itertools.count()}, "2 to 256"),
        ({"ladder": [1, 2]}, 'goes with method="ladder"'),
        ({"method": "best"}, "histogram, ladder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(asked: dict[str, Any], message: str) -> None:
    curator = curator_of([1, 2, 3])
    with pytest.raises(QuestionRefused, match=message):
        curator.find_bounds("x", epsilon=1, **asked)
    assert curator.spent == PureDP(0)


def test_a_column_without_numbers_and_a_missing_loss_are_refused() -> None:
    curator = curator_of(pa.table({"x": ["a"]}), sd.Category(["a"]))
    with pytest.raises(QuestionRefused, match="no number"):
        curator.find_bounds("x", epsilon=1)
    with pytest.raises(DeclarationError, match="state a privacy loss"):
        curator_of([1]).find_bounds("x")


def test_only_a_search_has_bounds() -> None:
    release = curator_of([1, 2, 3]).ask(sd.count(), epsilon=1)
    with pytest.raises(AttributeError, match="find_bounds"):
        _ = release.upper


def test_equal_and_refined_bins_cover_what_they_should() -> None:
    assert equal_bins(0, 168)[0] == 0
    assert equal_bins(0, 168)[-1] == 169
    assert refine_ends((0, 1, 2, 4, 8), 1, 3) == (1, 2, 4, 5, 6, 7, 8)


def test_no_empty_bin_looks_occupied_more_than_one_time_in_20() -> None:
    """400 histograms of noise alone: 20 false finds expected at most; 40 or more has chance below 1e-4."""
    law, rng, found = DiscreteLaplace(Fraction(3)), sd.Rng.seeded(11), 0
    for _ in range(400):
        noise = law.sample(rng, size=127)
        found += find_occupied(Noisy(tuple(int(z) for z in noise), Fraction(1), law)) is not None
    assert found < 40


@pytest.mark.deep
@needs_adult
def test_adult_age_lies_between_75_and_100_and_capital_gain_has_a_bound() -> None:
    """Issue 5: on the Adult table the search finds an upper age bound between 75 and 100 and one for capital_gain."""
    columns = dict(sd.datasets.adult_domain().columns)
    columns |= {"age": sd.Integer(), "capital_gain": sd.Integer()}
    table = sd.datasets.load_adult(ADULT)
    for seed in range(2):
        curator = protect(table, sd.Domain(columns), budget=PureDP(10), seed=seed)
        age = curator.find_bounds(col("age"), epsilon=1)
        assert 75 <= age.upper <= 100
        assert 10 <= age.lower <= 18
        gain = curator.find_bounds(col("capital_gain"), epsilon=1)
        assert 15_000 <= gain.upper <= 131_072
        picture = sd.plot(gain)
        assert "chosen" in str(picture.chart.to_dict())


@pytest.mark.each(2)
@pytest.mark.parametrize(
    ("method", "epsilon_for"), [("quantile", bounded_range_epsilon_for), ("sparse_vector", pure_epsilon_for)]
)
def test_under_rho_each_search_aims_by_the_epsilon_that_its_own_mechanism_gets(method: Any, epsilon_for: Any) -> None:
    """9/20 of rho buy a selection about twice the epsilon of a pure mechanism, so half as many rows stay beyond."""
    rho = Fraction(1, 2)
    aimed = []
    for budget, loss in (
        (sd.ZCDP(10), {"rho": rho}),
        (sd.PureDP(10), {"epsilon": epsilon_for(rho * 9 / 20) * 20 / 9}),
    ):
        table = sd.protect(
            pa.table({"x": np.arange(300)}),
            domain=sd.Domain({"x": sd.Integer(0, 10**6)}),
            neighbors="add_remove",
            privacy_unit="row",
            budget=budget,
            ledger=None,
            rng=sd.Rng.seeded(1),
        )
        how = table.find_bounds("x", method=method, **loss).notes[0]
        aimed.append(re.findall(r"about (\d+) rows left beyond", how))
    assert aimed[0] == aimed[1] != []


@pytest.mark.parametrize("how", ["histogram", "quantile"])
def test_a_search_of_dates_is_refused_with_the_quantiles_that_tell_where_they_lie(how: Any) -> None:
    days = pa.table({"d": [datetime.date(2020, 1, day) for day in range(1, 29)] * 40})
    table = protect(days, sd.Domain({"d": sd.Date("1990-01-01", "2030-01-01")}))
    with pytest.raises(QuestionRefused) as refused:
        table.find_bounds("d", method=how, epsilon=1)
    assert table.spent == sd.PureDP(0)
    assert 'sd.quantiles("d", [0.01, 0.99])' in str(refused.value)
    assert "QUANTILE_CONT(d, 0.01)" in str(refused.value.in_sql())
    low, high = table.ask(sd.quantiles("d", [0.01, 0.99]), epsilon=5).value.values()
    assert datetime.date(2019, 12, 1) < low < high < datetime.date(2020, 3, 1)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_bin_of_all_rows_is_not_free(relation: Any) -> None:
    """A row without a number is in no bin: exchanged for one with a number it changes how many rows are counted."""
    neighbors, domain = sd.Neighbors(relation, None), sd.Domain({"x": sd.Integer()})
    whole = MagnitudeHistogram(col("x").node, (0, 20), offsets=False)
    for query in (whole, OutsideCount(whole, 0, 1)):
        ((moved, _),) = query.parts(domain, neighbors)
        assert moved.linf == 1
        assert moved.l1 >= 1


@pytest.mark.parametrize("places", [[0, 2, None], [None, None, None], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("whole", [pa.int32(), pa.int64(), pa.decimal128(38, 0), pa.float64()], ids=str)
def test_a_missing_number_lies_on_neither_side_however_an_engine_holds_bins(
    whole: pa.DataType, places: list[int | None]
) -> None:
    """PostgreSQL holds bins of wide numbers as decimals: one missing number made the search fail after its charge."""
    histogram = MagnitudeHistogram(col("x").node, (0, 3, 9, 10), offsets=False)
    scan = pa.table({"k0": pa.array(places, whole), "t0": pa.array([1, 10, 100], whole)})
    domain = sd.Domain({"x": sd.Integer()})
    for edge, below in itertools.product(range(4), (True, False)):
        beyond = sum(n for p, n in zip(places, (1, 10, 100), strict=True) if p is not None and (p < edge) == below)
        assert TailCount(histogram, edge, 0, "many", below).exact_vectors([scan], domain) == [[beyond]]


@pytest.mark.parametrize("score", ["few", "many", "near"])
def test_an_added_row_moves_a_score_only_as_it_states(score: Any) -> None:
    """The scan of any two rows and of one row more: by 1 at most, and where a direction is stated in that one alone."""
    domain = sd.Domain({"x": sd.Integer()})
    histogram = MagnitudeHistogram(col("x").node, (0, 3, 9, 10), offsets=False)
    ways = set()
    for edge, below in itertools.product(range(4), (True, False)):
        tail = TailCount(histogram, edge, 1, score, below)
        ((bound, _),) = tail.parts(domain, sd.Neighbors("add_remove", None))

        def exact(places: tuple[int, ...], tail: TailCount = tail) -> int:
            scan = pa.table({"k0": list(places), "t0": [1] * len(places)})
            return tail.exact_vectors([scan], domain)[0][0]

        for places in itertools.combinations_with_replacement(range(3), 2):
            for more in range(3):
                moved = exact((*places, more)) - exact(places)
                assert abs(moved) <= bound.linf
                ways.add(moved)
    assert ways == {"few": {-1, 0}, "many": {0, 1}, "near": {-1, 0, 1}}[score]
    assert tail.direction == (0 if len(ways) == 3 else sum(ways))


def test_a_clipped_sum_has_the_deviation_that_is_stated() -> None:
    """1,000 draws of the noise of counts and offsets; bins are wide, so that the offsets' part shows."""
    edges, step, rng = (-30, 0, 10, 400), Fraction(1, PARTS), sd.Rng.seeded(4)
    laws = [DiscreteLaplace(Fraction(3 * PARTS)), DiscreteLaplace(Fraction(9 * PARTS))]
    drawn = [[Noisy(tuple(law.sample(rng, size=3).tolist()), step, law) for law in laws] for _ in range(1000)]
    found = [sums_by_bound(edges, Fraction(1), *both) for both in drawn]
    for side in (0, 1):
        sums = np.array([one[side].sums for one in found])
        assert np.std(sums, axis=0) == pytest.approx(np.array(found[0][side].deviations), rel=0.12)


@pytest.mark.parametrize("histograms", [50, pytest.param(150, marks=pytest.mark.deep)])
def test_rows_that_may_lie_beyond_are_no_fewer_than_there_are(histograms: int) -> None:
    """Histograms of ten bins of 500 rows, every run from either end: all within at 95%; 4.5 deviations are allowed."""
    law, rng, held = DiscreteLaplace(Fraction(20)), sd.Rng.seeded(5), 0
    for _ in range(histograms):
        rows = Noisy(tuple(500 + n for n in law.sample(rng, size=10).tolist()), Fraction(1), law)
        runs = [range(length) for length in range(1, 10)] + [range(10 - length, 10) for length in range(1, 10)]
        held += all(rows_at_most(rows, run) >= 500 * len(run) for run in runs)
    assert held >= histograms * 0.95 - 4.5 * (histograms * 0.05 * 0.95) ** 0.5
