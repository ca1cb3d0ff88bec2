"""Histograms: representations of one column, their ranges, errors and rows, against the textbook's formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sordino as sd
from sordino import synth
from sordino.core.neighbors import Neighbors, Relation
from sordino.errors import DeclarationError, QuestionRefused, UnknownName
from synth.support import Source, small, small_source

DOMAIN, KEYS = small()


@pytest.mark.parametrize(("relation", "twice"), [("add_remove", 1), ("replace", 2)])
def test_the_error_of_a_range_grows_like_the_root_of_its_bins(relation: Relation, twice: int) -> None:
    """sd sqrt(2 r) / epsilon for r bins under add_remove, twice that under replace (reference, textbook)."""
    rep = synth.Histogram("age").fit(small_source(neighbors=Neighbors(relation, None)), epsilon="0.25")
    for bins in (1, 4, 25, 100):
        deviation = rep.range(0, bins).deviation
        assert math.isclose(deviation, twice * math.sqrt(2 * bins) / 0.25, rel_tol=0.01)


@pytest.mark.each(3)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("loss", [{"epsilon": "0.5"}, {"rho": "0.1"}, {"epsilon": 1, "delta": "1e-6"}], ids=str)
def test_a_plan_states_the_noise_that_the_fit_then_has(relation: Relation, loss: dict[str, Any]) -> None:
    for asked in (synth.Histogram("age"), synth.Histogram(("age", "town")), synth.Histogram("age", rows=True)):
        source = small_source(neighbors=Neighbors(relation, None))
        plan = asked.plan(source, **loss)
        made = asked.fit(source, **loss)
        assert made.levels[0].cells.size == plan.bins
        assert made.levels[0].variance == pytest.approx(plan.law.variance(), rel=1e-6)
        assert plan.error(0.95, bins=4) == made._sum(made.counts().ravel()[:4]).error(0.95)
        assert f"{plan.bins:,} bins" in str(plan)


def test_a_plan_costs_nothing_and_refuses_what_it_cannot_say() -> None:
    source = small_source()
    tree = synth.Histogram("age", ranges=[(0, 60), (10, 90), (20, 100)] * 4).plan(source, epsilon=1)
    assert tree.levels > 1
    with pytest.raises(DeclarationError, match="plan_ranges"):
        tree.error(0.95)
    plan = synth.Histogram("age").plan(source, epsilon=1)
    for bins in (0, plan.bins + 1, True):
        with pytest.raises(DeclarationError, match="bins must be"):
            plan.error(0.95, bins=bins)
    with pytest.raises(UnknownName):
        synth.Histogram("agee").plan(source, epsilon=1)
    table = sd.protect(
        pa.table({"age": [1, 2]}),
        domain=sd.Domain({"age": sd.Integer(0, 9)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1),
        ledger=None,
    )
    assert synth.Histogram("age").plan(table, epsilon=1).error(0.95) == table.plan(sd.count(), epsilon=1).error(0.95)
    assert table.spent == sd.PureDP(0)


def test_a_range_is_the_sum_of_its_bins_and_missing_rows_are_not_in_it() -> None:
    rep = synth.Histogram("age").fit(small_source(), epsilon=1)
    assert math.isclose(rep.range(21, 33).value, float(rep.counts()[21:33].sum()))
    assert math.isclose(rep.range(-5, 500).value, float(rep.counts().sum()))
    assert rep.range(40, 40).value == 0
    towns = synth.Histogram("town").fit(small_source(), epsilon=1)
    assert len(towns.counts()) == 4  # missing is a value of the column
    assert None in towns.sample(500, rng=sd.Rng.seeded(1))["town"].to_pylist()


@pytest.mark.deep
def test_intervals_of_ranges_cover() -> None:
    """400 ranges of 40 releases at 95%: below 92% happens by chance less than once in 200 runs of the suite."""
    covered, cells = [], KEYS["age"]
    rng = np.random.default_rng(2)
    for seed in range(40):
        ranges = None if seed % 2 else [(0, i) for i in range(1, 100)]
        rep = synth.Histogram("age", ranges=ranges).fit(small_source(seed), epsilon=1)
        for _ in range(10):
            low, high = sorted(int(v) for v in rng.integers(0, 101, 2))
            ends = rep.range(low, high).interval(0.95)
            covered.append(ends[0] <= int(((cells >= low) & (cells < high)).sum()) <= ends[1])
    assert np.mean(covered) >= 0.92


@pytest.mark.deep
def test_the_hierarchy_is_chosen_where_it_is_cheaper_for_the_ranges() -> None:
    wide = sd.Domain({"x": sd.Integer(0, 999)})
    keys = {"x": np.random.default_rng(1).integers(0, 1000, 2000)}
    long_ranges = [(0, i) for i in range(10, 1000, 10)]
    tree = synth.Histogram("x", ranges=long_ranges).fit(Source(wide, keys, sd.Rng.seeded(1)), epsilon=1)
    flat = synth.Histogram("x").fit(Source(wide, keys, sd.Rng.seeded(1)), epsilon=1)
    assert not tree.layout.flat
    mean = [np.mean([r.range(a, b).deviation ** 2 for a, b in long_ranges]) for r in (tree, flat)]
    assert mean[0] < mean[1]
    short = synth.Histogram("x", ranges=[(i, i + 1) for i in range(50)]).fit(
        Source(wide, keys, sd.Rng.seeded(1)), epsilon=1
    )
    assert short.layout.flat


def test_rows_are_as_many_as_asked_and_their_number_is_private_unless_paid_for() -> None:
    rep = synth.Histogram("age").fit(small_source(), epsilon=1)
    table = rep.sample(10_000, rng=sd.Rng.seeded(1))
    assert table.num_rows == 10_000
    assert abs(pc.mean(table["age"]).as_py() - KEYS["age"].mean()) < 2
    with pytest.raises(QuestionRefused, match="rows=True"):
        rep.sample()
    data = small_source()
    counted = synth.Histogram("age", rows=True).fit(data, epsilon=1)
    assert data.sessions[0].spent() == 1
    assert abs(counted.sample(rng=sd.Rng.seeded(1)).num_rows - 3000) < 150


def test_what_is_no_range_is_refused() -> None:
    rep = synth.Histogram("age", width=10).fit(small_source(), epsilon=1)
    assert rep.range(20, 40).value > 0
    for act, kind, words in (
        (lambda: rep.range(21, 33), QuestionRefused, "between bins"),
        (lambda: rep.range(50, 20), QuestionRefused, "swap"),
        (lambda: rep.range(20, 40).interval(95), DeclarationError, "0.95"),
        (lambda: synth.Histogram("agee").fit(small_source(), epsilon=1), UnknownName, "age"),
        (lambda: synth.Histogram("job", width=2).fit(small_source(), epsilon=1), QuestionRefused, "is not a number"),
        (
            lambda: synth.Histogram("age", width="0.5").fit(small_source(), epsilon=1),
            DeclarationError,
            "whole number of steps",
        ),
        (lambda: synth.Histogram("job").fit(small_source(), epsilon=1).range(0, 2), QuestionRefused, "no order"),
    ):
        with pytest.raises(kind, match=words):
            act()


def crosstab(*names: str) -> Any:
    """Return the exact counts of the small table, an axis a column."""
    shape = tuple(synth.Histogram(n).fit(small_source(), epsilon=1).column.size for n in names)
    return np.bincount(np.ravel_multi_index([KEYS[n] for n in names], shape), minlength=math.prod(shape)).reshape(shape)


@pytest.mark.parametrize(("relation", "twice"), [("add_remove", 1), ("replace", 2)])
def test_a_histogram_of_two_columns_is_their_contingency_table(relation: Relation, twice: int) -> None:
    data = small_source(neighbors=Neighbors(relation, None))
    rep = synth.Histogram(("age", "town"), rows=True).fit(data, epsilon=2)
    assert data.sessions[0].spent() == 2
    exact = crosstab("age", "town")
    assert rep.counts().shape == exact.shape
    noise, ratio = (rep.counts() - exact).ravel(), math.exp(-1.8 / twice)  # nine tenths of the loss
    deviation = math.sqrt(2 * ratio) / (1 - ratio)  # of discrete Laplace noise
    assert noise.mean() == pytest.approx(0, abs=5 * deviation / math.sqrt(noise.size))
    assert noise.std() == pytest.approx(deviation, rel=0.25)
    some = rep.range(20, 30, column="age")
    assert some.value == rep.counts()[20:30].sum()
    assert some.bins == 10 * exact.shape[1]
    assert some.deviation == pytest.approx(math.sqrt(some.bins) * rep.cell(20, None).deviation)
    assert rep.cell(20, None).value == rep.counts()[20, -1]
    assert abs(rep.cell(20, None).value - exact[20, -1]) <= rep.cell(20, None).error(0.9999)
    drawn = rep.sample(20_000, rng=sd.Rng.seeded(3))
    assert drawn.column_names == ["age", "town"]
    found = synth.Histogram(("age", "town")).exact(drawn, domain=DOMAIN).counts() / 20_000
    # Quantiles are handed out anew within each few rows, so a cell is a few rows off.
    assert np.abs(found - rep.probabilities()).max() < 4 / 20_000


@pytest.mark.deep
def test_cells_and_ranges_of_two_columns_cover() -> None:
    """1,200 intervals at 95% of 30 releases: below 92% happens by chance less than once in 10^4 runs."""
    exact, covered = crosstab("age", "town"), []
    rng = np.random.default_rng(5)
    for seed in range(30):
        rep = synth.Histogram(("age", "town")).fit(small_source(seed), epsilon=1)
        for _ in range(20):
            low, high = sorted(int(v) for v in rng.integers(0, 101, 2))
            ends = rep.range(low, high, column="age").interval(0.95)
            covered.append(ends[0] <= int(exact[low:high].sum()) <= ends[1])
            ends = rep.cell(low, None).interval(0.95)
            covered.append(ends[0] <= int(exact[low, -1]) <= ends[1])
    assert np.mean(covered) >= 0.92


def test_probabilities_are_a_projection_and_add_no_rows() -> None:
    rep = synth.Histogram(("age", "town")).fit(small_source(), epsilon="0.1")
    shares, counts = rep.probabilities(), rep.counts()
    assert shares.min() == 0
    assert shares.sum() == pytest.approx(1)
    cut = np.clip(counts, 0, None)  # the textbook's way
    assert cut.sum() > 1.3 * counts.sum()
    nearer = np.abs(shares * counts.sum() - crosstab("age", "town")).sum()
    assert nearer < 0.95 * np.abs(cut - crosstab("age", "town")).sum()


def test_exact_counts_are_marked_and_have_no_error() -> None:
    rows = pa.table({"age": [30, 30, 41, 300], "town": ["a", None, "a", "b"]})
    rep = synth.Histogram(("age", "town"), width={"age": 10}).exact(rows, domain=DOMAIN)
    assert "NOT PRIVATE (exact counts)" in repr(rep)
    assert rep.is_exact
    assert rep.cell(30, None).interval(0.99) == (1, 1)
    assert rep.range(30, 50, column="age").value == 3
    assert rep.cell(99, "b").value == 1  # outside the bounds it is clipped, as by the curator
    assert rep.sample(rng=sd.Rng.seeded(1)).num_rows == 4
    assert rep.to_arrow().filter(pc.field("count") > 0).select(["age", "town"]).to_pylist()[0] == {
        "age": "[30, 40)",
        "town": "a",
    }
    assert not synth.Histogram("age").fit(small_source(), epsilon=1).is_exact


def test_what_is_no_cell_or_no_column_is_refused() -> None:
    both = synth.Histogram(("age", "town")).fit(small_source(), epsilon=1)
    tree = synth.Histogram("age", ranges=[(0, i) for i in range(1, 100)]).fit(small_source(), epsilon=1)
    assert not tree.layout.flat
    assert tree.cell(40).value == tree.range(40, 41).value
    fits: Any = small_source()
    for act, kind, words in (
        (lambda: both.range(20, 30), QuestionRefused, "say which, as column='age'"),
        (lambda: both.range(20, 30, column="job"), QuestionRefused, "not of 'job'"),
        (lambda: both.range(0, 1, column="town"), QuestionRefused, "no order"),
        (lambda: both.cell(20), QuestionRefused, "age, town"),
        (lambda: both.cell(20, "zz"), QuestionRefused, "'town' is not declared"),
        (lambda: both.cell(101, "a"), QuestionRefused, "within its bounds"),
        (lambda: both.cell(None, "a"), QuestionRefused, "'age' is not declared"),
        (lambda: synth.Histogram(("age", "age")).fit(fits, epsilon=1), DeclarationError, "each once"),
        (lambda: synth.Histogram(("age", "town"), width=10).fit(fits, epsilon=1), DeclarationError, "'age': 10"),
        (lambda: synth.Histogram(("age",), width={"pay": 1}).fit(fits, epsilon=1), DeclarationError, "not of"),
        (lambda: synth.Histogram(("age", "town"), ranges=[(1, 9)]).fit(fits, epsilon=1), QuestionRefused, "one column"),
    ):
        with pytest.raises(kind, match=words):
            act()


def _noise(kind: str, loss: float) -> Any:
    """Return the law of one bin's noise on -n ... n: discrete Laplace of scale 1 / epsilon, or discrete Gaussian."""
    if kind == "epsilon":
        at = np.arange(-(n := int(60 / loss) + 5), n + 1)
        weights = math.exp(-loss) ** np.abs(at)
    else:
        at = np.arange(-(n := int(9 / math.sqrt(2 * loss)) + 8), n + 1)
        weights = np.exp(-(at**2) * loss)
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("kind", "losses"),
    [
        ("epsilon", (0.3, 1, 2.45, 4.4, 8)),
        ("rho", (0.01, 0.3, 2.4, 20)),
        pytest.param("epsilon", (0.1, 0.5, 0.8, 1.5, 2, 2.9, 3, 4, 6), marks=pytest.mark.deep),
        pytest.param("rho", (0.1, 0.7, 1, 4, 8), marks=pytest.mark.deep),
    ],
)
def test_intervals_of_flat_ranges_cover_by_the_exact_law(kind: str, losses: tuple[float, ...]) -> None:
    """Noise comes in whole rows: at least nominal, and one row less would be too few (above 60 rows, nearly)."""
    for loss in losses:
        asked: dict[str, Any] = {kind: str(loss)}
        rep = synth.Histogram("age").fit(small_source(), **asked)
        one = _noise(kind, loss)
        for bins in (1, 2, 3, 5, 10, 30, 100):
            width = (len(one) - 1) * bins + 1
            law = np.fft.irfft(np.fft.rfft(one, 2 * width) ** bins, 2 * width)[:width]
            middle = width // 2
            exactly = rep.range(0, bins).deviation <= 60
            for confidence in (0.9, 0.95):
                reach = int(rep.range(0, bins).error(confidence))
                assert reach == rep.range(0, bins).error(confidence)  # whole rows
                covered, fewer = (float(law[middle - t : middle + t + 1].sum()) for t in (reach, reach - 1))
                assert covered >= confidence - 1e-9, (kind, loss, bins)
                assert fewer < confidence + (0 if exactly else 0.005), (kind, loss, bins)


def test_a_representation_shows_its_numbers_is_indexed_and_becomes_a_frame() -> None:
    rep = synth.Histogram("age").fit(small_source(), epsilon=1)
    assert str(rep[20]) == str(rep.cell(20))
    assert float(rep[20]) == rep.counts()[20]
    assert rep.to_pandas()["count"].tolist() == rep.counts().tolist()
    first = repr(rep).splitlines()
    assert first[1].split() == ["age", "count", "share"]
    assert first[2].split()[:2] == ["0", f"{rep.counts()[0]:,.0f}"]
    assert "bins more" in first[-1]
    assert "<table>" in rep._repr_html_()
    both = synth.Histogram(("age", "town")).fit(small_source(), epsilon=1)
    town = both.to_arrow()["town"][0].as_py()
    assert both[20, town].value == both.cell(20, town).value
    low, high = rep.range(10, 30).interval(0.95)
    assert repr(rep.range(10, 30)) == f"{rep.range(10, 30).value:,.0f} ({low:,.0f} to {high:,.0f} at 95%)"
    assert synth.percent_error(100, rep.range(10, 30)) == synth.percent_error(100, rep.range(10, 30).value)
