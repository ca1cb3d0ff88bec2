"""A count is whole beside whatever else is asked, and a value lies in its own interval."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from sordino import local
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.synth.histogram import Range
from trying import examples

ASKED = {
    "COUNT(*)": "int64",
    "COUNT(x)": "int64",
    "SUM(x)": "int64",
    "SUM(money)": "double",
    "AVG(x)": "double",
    "AVG(money)": "double",
    "VAR_POP(x)": "double",
    "COUNT(*) FILTER (WHERE x > 3)": "int64",
    "SUM(x) / COUNT(*)": "double",
}
# Each pair of the nine stands in one of twelve triples, the lines of the plane of three elements: x = k, and y = m x + k.
PLACES = list(ASKED)
TRIPLES = [tuple(PLACES[3 * k : 3 * k + 3]) for k in range(3)]
TRIPLES += [tuple(PLACES[3 * x + (m * x + k) % 3] for x in range(3)) for m in range(3) for k in range(3)]
LAWS = st.one_of(
    st.fractions(Fraction(1, 50), Fraction(40)).map(DiscreteLaplace),
    st.fractions(Fraction(1, 50), Fraction(900)).map(DiscreteGaussian),
)


@pytest.fixture(scope="module")
def table() -> sd.Curator:
    rows = 200
    source = pa.table(
        {
            "x": [None if i % 17 == 0 else i % 9 for i in range(rows)],
            "money": [i % 7 + 0.25 for i in range(rows)],
            "g": [i % 3 for i in range(rows)],
        }
    )
    made = sd.protect(
        source,
        domain=sd.Domain({"x": sd.Integer(2, 8), "money": sd.Real(0, 8, resolution="0.01"), "g": sd.Integer(0, 3)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP(10**9),
        ledger=None,
        rng=sd.Rng.seeded(5),
    )
    assert isinstance(made, sd.Curator)
    return made


@pytest.mark.each(7)
@pytest.mark.parametrize("loss", [{"rho": "0.05"}, {"rho": 1}, {"rho": 40000}], ids=str)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["each pair once", "every pair"]
)
def test_a_column_has_one_type_whatever_else_is_asked(
    table: sd.Curator, every: bool, grouped: bool, loss: dict[str, Any]
) -> None:
    several: Iterable[tuple[str, ...]] = TRIPLES[::3]
    if every:
        threes = [] if grouped else [three for three in itertools.combinations(ASKED, 3) if "AVG(x)" in three]
        several = [*itertools.combinations(ASKED, 2), *threes]
    for asked in (*((one,) for one in ASKED), *several):
        columns = ", ".join(f"{text} AS c{i}" for i, text in enumerate(asked))
        release = table.ask(sd.sql(f"SELECT {columns} FROM data" + " GROUP BY g" * grouped), **loss)
        arrow = release.to_arrow(intervals=True)
        for i, text in enumerate(asked):
            kinds = {str(arrow.schema.field(name).type) for name in (f"c{i}", f"c{i}_lower", f"c{i}_upper")}
            assert kinds == {ASKED[text]}, asked
        for output in release.outputs:
            pairs = zip(output.estimate.values(), output.estimate.intervals(0.95), strict=True)
            assert all(low is None or low <= value <= high for value, (low, high) in pairs), (asked, output.name)


@examples(
    8,
    40,
    laws=st.tuples(LAWS, LAWS),
    width=st.integers(1, 30),
    steps=st.tuples(st.integers(-400, 400), st.integers(-400, 400)),
    bounded=st.booleans(),
)
def test_a_weighted_sum_is_whole_and_lies_in_its_interval(
    laws: Any, width: int, steps: tuple[int, int], bounded: bool
) -> None:
    weights = (Fraction(1, width), Fraction(-1, width))
    parts = tuple(Noisy((step,), Fraction(1), law) for step, law in zip(steps, laws, strict=True))
    estimate = WeightedSum(parts, weights, Fraction(1), (0, 1), 0 if bounded else None)
    [value], [(low, high)] = estimate.values(), estimate.intervals(0.95)
    assert {type(number) for number in (value, low, high, *estimate.errors(0.95))} == {int}
    assert low <= value <= high
    total = sum((w * s for w, s in zip(weights, steps, strict=True)), Fraction(0))
    assert abs(Fraction(value) - total) <= Fraction(1, 2)


@pytest.mark.deep
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("width", [1, 3, 10])
def test_rounded_values_keep_their_error_and_coverage(scale: Fraction, width: int) -> None:
    """By the exact law of two noises: the stated error and interval miss the true count in 5% of cases at most."""
    law, weights = DiscreteLaplace(scale), (Fraction(1, width), Fraction(1, width))
    reach = law.error(1 - 1e-7)
    chances = [law.tail(k - 1) - law.tail(k) for k in range(1, reach + 1)]
    mass = [c / 2 for c in reversed(chances)] + [1 - law.tail(0)] + [c / 2 for c in chances]
    assert sum(mass) == pytest.approx(1, abs=1e-6)
    combined: dict[int, float] = {}
    for (i, p), (j, q) in itertools.product(enumerate(mass), enumerate(mass)):
        combined[i + j - 2 * reach] = combined.get(i + j - 2 * reach, 0.0) + p * q
    true = 7
    missed_error = missed_interval = mean = 0.0
    for noise, chance in combined.items():
        parts = (Noisy((true * width + noise,), Fraction(1), law), Noisy((0,), Fraction(1), law))
        estimate = WeightedSum(parts, weights, Fraction(1), (0, 1))
        [value], [(low, high)], [error] = estimate.values(), estimate.intervals(0.95), estimate.errors(0.95)
        mean += chance * float(value)
        missed_error += chance * (abs(value - true) > error)
        missed_interval += chance * (not low <= true <= high)
    assert missed_error <= 0.05 + 1e-6
    assert missed_interval <= 0.05 + 1e-6
    assert mean == pytest.approx(true, abs=1e-3)


@examples(
    12, 60, supports=st.lists(st.integers(0, 400), min_size=2, max_size=5), epsilon=st.sampled_from([0.1, 1.0, 4.0])
)
def test_a_raw_share_lies_in_its_interval(supports: list[int], epsilon: float) -> None:
    made = local.GRR([str(i) for i in range(len(supports))], epsilon=epsilon)
    estimate = FrequencyEstimate(tuple(map(str, range(len(supports)))), tuple(supports), 400, made.p, made.q, "GRR")
    for table in (estimate.table, estimate.interval(0.5), estimate.interval(0.95, simultaneous=True)):
        rows = zip(table["lower"].to_pylist(), estimate.frequencies.tolist(), table["upper"].to_pylist(), strict=True)
        assert all(low <= share <= high for low, share, high in rows)
    wide = estimate.interval(0.95, malicious=0.1).to_pydict()
    assert all(a <= b for a, b in zip(wide["adversarial_lower"], wide["lower"], strict=True))


@examples(30, 100, value=st.floats(-50, 50), deviation=st.floats(0.1, 90))
def test_a_range_lies_in_its_interval(value: float, deviation: float) -> None:
    low, high = Range(value, deviation, 0.0).interval(0.95)
    assert low <= value <= high
