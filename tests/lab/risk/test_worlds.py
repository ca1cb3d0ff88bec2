"""The worlds against brute force on small universes with duplicates, at scale, and against bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mistyping import mistype
from sordino import risk, sensitivity
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.lab.risk.odds import least_sum, least_sum_at
from sordino.lab.risk.statistic_answers import Answers, lattice_from, listing, subset_sums, tally
from sordino.lab.sensitivity.statistics import statistic_from
from sordino.risk import InfeasibleRisk, Worlds, assess_risk
from trying import examples

QUERIES = ["count", "sum", "mean", "median", "var", "std", "quantile:0.25", "quantile:0.9", "min", "max"]
NUMBERS = st.one_of(st.integers(-5, 9), st.sampled_from([0.1, 0.25, -1.5, 2.7, 1e-3, 1000.0]))
UNIVERSES = st.lists(NUMBERS, min_size=2, max_size=7)


def asked(table: tuple[float, ...], query: str) -> float:
    """The answer by numpy."""
    if query == "count":
        return len(table)
    if query.startswith("quantile:"):
        return float(np.quantile(table, float(query.split(":")[1])))
    return float(getattr(np, query)(table))


class BruteForce:
    """Every world listed, every formula as it is written."""

    def __init__(self, universe: list[Any], size: int, query: str, prior: list[float] | None) -> None:
        self.people = list(combinations(range(len(universe)), size))
        answers = [asked(tuple(float(universe[i]) for i in c), query) for c in self.people]
        scale = max(1.0, max(abs(a) for a in answers))
        self.slack = scale * 1e-11
        self.answers = [round(a / scale, 12) * scale for a in answers]  # rounding must not split ties
        self.prior = prior or [1 / len(self.answers)] * len(self.answers)
        direction = "add" if size == statistic_from(query, ddof=0).least else "either"
        self.sensitivity = (
            0.0
            if direction == "add" and size == len(universe)
            else sensitivity.global_sensitivity(
                query, universe, size=size, neighbors="add_remove", exactly=1, direction=direction
            ).value
        )
        self.spread = max(self.answers) - min(self.answers)

    def weight(self, x: float, w: int, epsilon: float) -> float:
        far = abs(x - self.answers[w]) - min(abs(x - a) for a, p in zip(self.answers, self.prior, strict=True) if p)
        if not self.prior[w]:
            return 0.0
        return self.prior[w] * (math.exp(-epsilon * far / self.sensitivity) if self.sensitivity else 1.0)

    def posterior(self, x: float, epsilon: float) -> list[float]:
        weights = [self.weight(x, w, epsilon) for w in range(len(self.answers))]
        return [weight / math.fsum(weights) for weight in weights]

    def risk(self, epsilon: float) -> float:
        return max(max(self.posterior(x, epsilon)) for x in self.answers)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Worlds, BruteForce]:
    universe = draw(UNIVERSES)
    size = draw(st.integers(1, len(universe)))
    query = draw(st.sampled_from(QUERIES))
    worlds = math.comb(len(universe), size)
    weights = draw(st.none() | st.lists(st.integers(0, 9), min_size=worlds, max_size=worlds).filter(any))
    prior = None if weights is None else [weight / sum(weights) for weight in weights]
    return Worlds(universe, size=size, query=query, prior=prior), BruteForce(universe, size, query, prior)


EPSILONS = st.floats(0.05, 8)


@examples(14, 70, cases(), EPSILONS)
def test_risk_and_bound_agree_with_brute_force(case: tuple[Worlds, BruteForce], epsilon: float) -> None:
    w, plain = case
    assert w.count == len(plain.answers)
    assert w.answers.tolist() == pytest.approx(plain.answers, abs=plain.slack)
    assert w.sensitivity == plain.sensitivity
    assert w.spread == pytest.approx(plain.spread, abs=2 * plain.slack)
    assert w.exact
    assert w.risk(epsilon=epsilon) == pytest.approx(plain.risk(epsilon), rel=1e-6)
    top = max(plain.prior)
    shrunk = math.exp(-epsilon * w.spread / w.sensitivity) if w.sensitivity else 1.0
    assert w.risk_bound(epsilon=epsilon) == pytest.approx(1 / (1 + (1 - top) / top * shrunk), rel=1e-9)
    assert w.risk(epsilon=epsilon) <= w.risk_bound(epsilon=epsilon) * (1 + 1e-12)


@examples(8, 40, cases(), EPSILONS, st.floats(-20, 20), st.data())
def test_posteriors_agree_with_brute_force(
    case: tuple[Worlds, BruteForce], epsilon: float, output: float, data: st.DataObject
) -> None:
    w, plain = case
    expected = plain.posterior(output, epsilon)
    found = w.posterior(output=output, epsilon=epsilon)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    gain = max(after - before for after, before in zip(expected, plain.prior, strict=True))
    assert w.posterior_gain(output=output, epsilon=epsilon) == pytest.approx(gain, abs=1e-6)
    assert found.max() <= w.risk(epsilon=epsilon) * (1 + 1e-9)
    numbers = [float(x) for x in w._answers.numbers]
    person = data.draw(st.integers(0, len(numbers) - 1))
    holders = [i for i, x in enumerate(numbers) if x == numbers[person]]
    inside = [math.fsum(p for p, c in zip(expected, plain.people, strict=True) if i in c) for i in holders]
    value = numbers[person] / w._answers.denominator
    assert w.record_risk(value, output=output, epsilon=epsilon) == pytest.approx(max(inside), abs=1e-6)


@examples(7, 35, cases(), st.floats(0.01, 0.99))
def test_epsilon_for_is_the_largest_feasible(case: tuple[Worlds, BruteForce], share: float) -> None:
    w, plain = case
    top = max(plain.prior)
    wanted = top + share * (1 - top)
    if wanted >= 1:
        return
    epsilon = w.epsilon_for(risk=wanted)
    bound = w.epsilon_bound_for(risk=wanted)
    assert bound <= epsilon * (1 + 1e-9)
    if epsilon == math.inf:
        assert plain.risk(500.0) <= wanted * (1 + 1e-9)
        return
    assert w.risk(epsilon=epsilon) <= wanted < w.risk(epsilon=epsilon * (1 + 1e-9))
    assert plain.risk(epsilon) == pytest.approx(wanted, rel=1e-5)
    assert w.risk_bound(epsilon=bound) <= wanted < w.risk_bound(epsilon=bound * (1 + 1e-9))


@examples(12, 60, st.lists(NUMBERS, min_size=1, max_size=9), st.sampled_from(QUERIES), st.data())
def test_counts_are_exact(universe: list[Any], query: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(universe)))
    _, numbers, denominator = lattice_from(universe)
    answers = Answers(numbers, denominator, statistic_from(query, ddof=0), size)
    keys = listing(answers)
    assert keys is not None
    distinct, counts = np.unique(keys, return_counts=True)
    found = tally(answers)
    assert found is not None
    assert found.counts is not None
    assert found.keys.tolist() == distinct.tolist()
    assert found.counts.tolist() == counts.tolist()
    assert answers.extremes() == (distinct[0], distinct[-1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.data())
def test_subset_sums(numbers: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(numbers)))
    expected: dict[int, int] = {}
    for chosen in combinations(numbers, size):
        expected[sum(chosen)] = expected.get(sum(chosen), 0) + 1
    found = subset_sums(numbers, size)
    assert found is not None
    assert dict(zip(*(part.tolist() for part in found), strict=True)) == expected


def test_counted_var_and_long_counts_agree_with_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    from sordino.lab.risk import statistic_answers as counting

    universe = [0, 0, 1, 2, 2, 3, 5, 5, 6, 7, 8]
    for query in ("sum", "mean", "var", "std"):
        answers = Answers(tuple(3 * x - 7 for x in universe), 2, statistic_from(query, ddof=0), 4)
        listed = tally(answers)
        with monkeypatch.context() as patch:
            patch.setattr(counting, "_LISTED_FIRST", 0)
            counted = tally(answers)
        assert listed is not None
        assert counted is not None
        assert counted.keys.tolist() == listed.keys.tolist()
        assert counted.counts is not None
        assert listed.counts is not None
        assert counted.counts.tolist() == listed.counts.tolist()
    ordered = sorted(universe)
    assert counting._large_counts(ordered, 5, 2).tolist() == counting._small_counts(ordered, 5, 31).tolist()


@pytest.mark.each(3)
@pytest.mark.parametrize("rate", [1e-6, 0.01, 1.0, 40.0])
@pytest.mark.parametrize("tall", [1.0, 900.0])
def test_recursion_agrees_with_pairs(rate: float, tall: float) -> None:
    rng = np.random.default_rng(3)
    offsets = np.cumsum(rng.exponential(1.0, 1000))
    weights = tall * rng.normal(size=1000)
    tops = weights - rng.exponential(1.0, 1000)
    terms = weights[None, :] - rate * np.abs(offsets[:, None] - offsets[None, :])
    peaks = terms.max(axis=1)
    sums = peaks + np.log(np.exp(terms - peaks[:, None]).sum(axis=1)) - tops
    assert least_sum(offsets, weights, tops, rate) == pytest.approx(sums.min(), rel=1e-12, abs=1e-11)
    places = [0, 17, 999]
    found = least_sum_at(places, offsets, weights, tops, rate, enough=math.inf)
    assert found == pytest.approx(sums[places].min(), rel=1e-12, abs=1e-11)


def universe_of(count: int, top: int) -> list[int]:
    return [int(x) for x in np.random.default_rng(11).integers(0, top, count)]


SCALES = {
    "mean of 40": (universe_of(40, 100), 20, "mean", 0.01),
    "sum of 40 wages": (universe_of(40, 30_000), 20, "sum", 0.01),
    "sum of 80, counts past 64 bits": (universe_of(80, 20), 40, "sum", 0.01),
    "median of 2,000, odd": (universe_of(2000, 10**6), 1001, "median", 0.3),
    "median of 2,000, even": (universe_of(2000, 10**6), 1000, "median", 0.3),
    "quantile of 2,000": (universe_of(2000, 10**6), 30, "quantile:0.9", 0.3),
    "min of 2,000": (universe_of(2000, 10**6), 1500, "min", 0.1),
    "mean of all but one": (universe_of(100_000, 10**9), 99_999, "mean", 0.001),
    "var of all but one": (universe_of(100_000, 10**9), 99_999, "var", 0.001),
    "median of reals": (np.random.default_rng(5).normal(size=2000).tolist(), 50, "median", 0.3),
}


@pytest.mark.each(6)
@pytest.mark.parametrize("scale", SCALES)
def test_scale(scale: str) -> None:
    universe, size, query, risk = SCALES[scale]
    w = Worlds(universe, size=size, query=query)
    assert w.count == math.comb(len(universe), size)
    assert w.exact
    epsilon = w.epsilon_for(risk=risk)
    assert w.epsilon_bound_for(risk=risk) <= epsilon
    if epsilon < math.inf:
        assert w.risk(epsilon=epsilon) <= risk < w.risk(epsilon=epsilon * (1 + 1e-9))


def test_where_worlds_cannot_be_counted_the_bound_answers() -> None:
    w = Worlds(universe_of(200, 10**6), size=100, query="var")
    assert not w.exact
    assert (w.method, Worlds([1, 2, 3], size=2, query="var").method) == ("closed-form bound", "exact risk")
    assert risk.disclosure(worlds=w, risk=0.1).source == "Lee & Clifton 2011, closed-form bound"
    assert w.risk(epsilon=0.5) == w.risk_bound(epsilon=0.5)
    assert w.epsilon_for(risk=0.1) == w.epsilon_bound_for(risk=0.1)
    for call in (lambda: w.posterior(output=1.0, epsilon=1.0), lambda: w.worlds, lambda: w.answers):
        with pytest.raises(DeclarationError, match="too many"):
            call()
    with pytest.raises(DeclarationError, match="risk_bound"):
        w.simulate(epsilon=1.0, runs=1, rng=Rng.seeded(1))


def test_a_record_counted_is_a_record_listed() -> None:
    universe = universe_of(16, 9)
    listed = Worlds(universe, size=6, query="sum", prior=[1 / 8008] * 8008)
    counted = Worlds(universe, size=6, query="sum")
    for value in set(universe):
        found = counted.record_risk(value, output=31.4, epsilon=3.0)
        assert found == pytest.approx(listed.record_risk(value, output=31.4, epsilon=3.0), rel=1e-9)
    people = 4000
    universe = universe_of(people, 50)
    for size in (people - 1, 1):
        listed = Worlds(universe, size=size, query="mean", prior=[1 / people] * people)
        counted = Worlds(universe, size=size, query="mean")
        one = listed.record_risk(universe[5], output=25.0, epsilon=30.0)
        assert one == pytest.approx(counted.record_risk(universe[5], output=25.0, epsilon=30.0), rel=1e-8)


@pytest.mark.parametrize("prior", [None, [0.4, 0.3, 0.2, 0.1]])
def test_an_attacker_wins_as_often_as_the_law_says(prior: list[float] | None) -> None:
    """Seeded; 5 standard errors: a false alarm in 1.7 million."""
    w = Worlds([1, 2, 2, 10], size=3, query="mean", prior=prior)
    runs, epsilon = 20_000, 2.0
    outputs = np.linspace(-60, 70, 400_001)
    density = w.prior[:, None] * np.exp(-epsilon / w.sensitivity * np.abs(outputs - w.answers[:, None]))
    expected = float(density.max(axis=0).sum() * (outputs[1] - outputs[0])) * epsilon / (2 * w.sensitivity)
    found = w.simulate(epsilon=epsilon, runs=runs, rng=Rng.seeded(4))
    assert found.runs == runs
    assert abs(found.share - expected) < 5 * math.sqrt(expected * (1 - expected) / runs)
    assert found.share < found.risk <= found.bound


@pytest.mark.deep
@pytest.mark.parametrize("prior", [None, [0.4, 0.3, 0.2, 0.1]])
def test_posteriors_come_true_under_our_own_laplace_noise(prior: list[float] | None) -> None:
    """Worlds drawn from the prior, sums with the mechanism's own noise: at each output the share of runs in which a world
    is the true one is its posterior. Seeded; 5 standard errors each, some 150 comparisons: a false alarm in 10,000.
    """
    w = Worlds([1, 2, 3, 10], size=3, query="sum", prior=prior)
    rng, runs, epsilon = Rng.seeded(12), 300_000, Fraction(3)
    law = Laplace(l1=Fraction(w.sensitivity), epsilon=epsilon).law
    truth = np.searchsorted(np.cumsum(w.prior), rng.uniform_doubles(runs)).clip(max=3)
    seen = w.answers[truth] + law.sample(rng, runs)
    compared = 0
    for output, many in zip(*np.unique(seen, return_counts=True), strict=True):
        if many < 2000:
            continue
        posterior = w.posterior(output=float(output), epsilon=float(epsilon))
        shares = np.bincount(truth[seen == output], minlength=4) / many
        assert (np.abs(shares - posterior) <= 5 * np.sqrt(posterior * (1 - posterior) / many)).all()
        assert posterior.max() <= w.risk(epsilon=float(epsilon)) * (1 + 1e-12)
        compared += 4
    assert 60 < compared < 200


def test_rationals_and_decimals_are_exact() -> None:
    thirds = Worlds([Fraction(1, 3), Fraction(2, 3), 1, Decimal("0.1")], size=2, query="mean")
    assert thirds.spread == pytest.approx((5 / 6) - (13 / 60), rel=1e-15)
    tenths = Worlds([0.1, 0.2, 0.3, 0.4], size=2, query="sum")  # .1 + .4 ties with .2 + .3, as floats it would not
    found = tally(tenths._answers)
    assert found is not None
    assert found.keys.tolist() == [3, 4, 5, 6, 7]
    assert tenths.worlds[0] == (0.1, 0.2)


BAD: dict[str, tuple[Callable[[Worlds], object], str]] = {
    "risk of 0": (lambda w: w.epsilon_for(risk=0), "risk .*above 0.*0.01"),
    "risk of 1": (lambda w: w.epsilon_for(risk=1), "risk .*below 1.*0.99"),
    "risk that is text": (lambda w: w.epsilon_bound_for(risk=mistype("a third")), "risk must be a number"),
    "risk of nan": (lambda w: w.epsilon_bound_for(risk=math.nan), "risk must be a finite"),
    "plays at epsilon 0": (lambda w: w.simulate(epsilon=0, runs=9, rng=Rng.seeded(1)), "at epsilon 0 the noise"),
    "epsilon below 0": (lambda w: w.risk_bound(epsilon=-1), "epsilon must be at least 0"),
    "epsilon without end": (lambda w: w.risk(epsilon=math.inf), "epsilon must be a finite"),
    "output of nan": (lambda w: w.posterior(output=math.nan, epsilon=1), "output must be a finite"),
    "nobody's value": (lambda w: w.record_risk(4, output=1.0, epsilon=1), "nearest one there is 3"),
    "no runs": (lambda w: w.simulate(epsilon=1, runs=0, rng=Rng.seeded(1)), "runs must be a whole number from 1"),
    "size of 0": (lambda _: Worlds([1, 2], size=0, query="sum"), "size must be from 1 to 2"),
    "size of 3": (lambda _: Worlds([1, 2], size=3, query="sum"), "size must be from 1 to 2"),
    "a half size": (lambda _: Worlds([1, 2], size=mistype(1.5), query="sum"), "size must be a whole number"),
    "nan": (lambda _: Worlds([1, math.nan], size=1, query="sum"), "universe must hold only finite"),
    "infinity": (lambda _: Worlds([1, math.inf], size=1, query="sum"), "universe must hold only finite"),
    "a decimal nan": (lambda _: Worlds([1, Decimal("nan")], size=1, query="sum"), "universe must hold only finite"),
    "text": (lambda _: Worlds("12", size=1, query="sum"), "universe must be a sequence of numbers"),
    "no universe": (lambda _: Worlds(mistype(5), size=1, query="sum"), "universe must be a sequence of numbers"),
    "nobody": (lambda _: Worlds([], size=1, query="sum"), "universe must hold at least one"),
    "a query": (lambda _: Worlds([1, 2], size=1, query="meen"), "did you mean 'mean'"),
    "prior sum": (lambda _: Worlds([1, 2], size=1, query="sum", prior=[0.5, 0.6]), "prior must sum to 1.*1.1"),
    "prior length": (lambda _: Worlds([1, 2], size=1, query="sum", prior=[1.0]), "prior must hold 2"),
    "prior sign": (lambda _: Worlds([1, 2], size=1, query="sum", prior=[1.5, -0.5]), "prior must hold prob"),
    "prior of text": (lambda _: Worlds([1, 2], size=1, query="sum", prior=mistype(["a", "b"])), "prior must be a seq"),
    "prior of many": (lambda _: Worlds(range(60), size=30, query="sum", prior=[1.0]), "1.18e17 worlds .*too many"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(DeclarationError, match=message):
        call(Worlds([1, 2, 3, 10], size=3, query="mean"))


@pytest.mark.parametrize("prior", [None, [0.7, 0.1, 0.1, 0.1]])
@pytest.mark.parametrize("query", ["mean", "median", "count"])
def test_at_epsilon_0_the_prior_stands(query: str, prior: list[float] | None) -> None:
    w = Worlds([1, 2, 3, 10], size=3, query=query, prior=prior)
    largest = 0.25 if prior is None else 0.7
    assert w.risk(epsilon=0) == pytest.approx(largest, abs=1e-12)
    assert w.risk_bound(epsilon=0) == pytest.approx(largest, abs=1e-12)
    assert w.posterior(output=1e6, epsilon=0).tolist() == pytest.approx(w.prior.tolist())
    assert w.posterior_gain(output=2.0, epsilon=0) == pytest.approx(0, abs=1e-12)
    assert w.record_risk(10, output=5.0, epsilon=0) == pytest.approx(0.75 if prior is None else 0.3)
    assert w.risk(epsilon=1e-9) == pytest.approx(w.risk(epsilon=0), abs=1e-8)


def test_a_table_is_refused_by_the_name_of_a_column_and_assessed_whole() -> None:
    school = pa.table({"year": [1, 2, 3, 4], "days": [1, 2, 3, 10]})
    with pytest.raises(DeclarationError, match=r"choose a column, as table\['year'\].*assess_risk"):
        Worlds(mistype(school), size=3, query="mean")
    found = assess_risk(school, size=3, query="mean", risk="1/3")
    assert [one.column for one in found] == ["year", "days"]
    assert [one.epsilon for one in found] == pytest.approx([0.525149687, 0.431720120])


def test_one_world_hides_nothing() -> None:
    for query in QUERIES:
        w = Worlds([3, 1], size=2, query=query)
        assert w.risk(epsilon=0.1) == w.risk_bound(epsilon=0.1) == 1
        with pytest.raises(InfeasibleRisk) as caught:
            w.epsilon_for(risk=0.5)
        assert caught.value.smallest == 1


@pytest.mark.parametrize("risk", [0.25001, 0.26, 0.9999, 1 - 1e-9])
def test_epsilon_for_near_the_prior_and_near_one(risk: float) -> None:
    w = Worlds([1, 2, 3, 10], size=3, query="mean")
    epsilon = w.epsilon_for(risk=risk)
    assert w.risk(epsilon=epsilon) <= risk < w.risk(epsilon=epsilon * (1 + 1e-9))
    assert w.epsilon_for(risk=1 - 1e-15) < math.inf


def test_a_huge_count_has_a_short_repr() -> None:
    assert repr(Worlds(range(2000), size=1000, query="median")) == (
        "<Worlds 2.05e600 of 1000 in 2000 records, query='median'>"
    )
