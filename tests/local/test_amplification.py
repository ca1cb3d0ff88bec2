"""Amplification by shuffling: never below the exact divergence of small collections, whatever the others hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from sordino import local
from sordino.errors import DeclarationError
from sordino.local.protocols.response import GRR
from sordino.local.protocols.subset import SubsetSelection

Row = tuple[float, ...]
Law = dict[tuple[int, ...], float]


def grr_rows(k: int, epsilon: float) -> list[Row]:
    """Return P(report | label) of randomized response at exactly this epsilon."""
    odds = math.exp(epsilon)
    return [tuple((odds if y == x else 1.0) / (odds + k - 1) for y in range(k)) for x in range(k)]


def subset_rows(k: int, w: int, epsilon: float) -> list[Row]:
    """Return P(set | label) of subset selection at exactly this epsilon."""
    odds, sets = math.exp(epsilon), list(itertools.combinations(range(k), w))
    total = odds * math.comb(k - 1, w - 1) + math.comb(k - 1, w)
    return [tuple((odds if x in s else 1.0) / total for s in sets) for x in range(k)]


def law_of_counts(rows: Sequence[Row]) -> Law:
    """Return the law of how often each report occurs among those of all respondents."""
    found: Law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        after: Law = {}
        for counts, mass in found.items():
            for y, p in enumerate(row):
                key = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                after[key] = after.get(key, 0.0) + mass * p
        found = after
    return found


def exact_delta(rows: Sequence[Row], n: int, epsilon: float) -> float:
    """Return the largest divergence over what the first respondent and all others hold."""
    worst = 0.0
    for others in itertools.combinations_with_replacement(rows, n - 1):
        laws = [law_of_counts([first, *others]) for first in rows]
        for p, q in itertools.permutations(laws, 2):
            worst = max(worst, math.fsum(max(0.0, mass - math.exp(epsilon) * q[key]) for key, mass in p.items()))
    return worst


@pytest.mark.each(4)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", ["0.1", "0.01", "0.0003"])
@pytest.mark.parametrize(("k", "n"), [(2, 9), (3, 6), (5, 4)])
def test_no_small_collection_of_randomized_response_passes_the_bound(
    k: int, n: int, delta: str, epsilon: float
) -> None:
    found = local.shuffled(epsilon, n, delta, protocol=GRR(range(k), epsilon=epsilon))
    assert found.epsilon <= local.shuffled(epsilon, n, delta).epsilon
    assert exact_delta(grr_rows(k, epsilon), n, found.epsilon) <= float(delta)


@pytest.mark.parametrize(("epsilon", "k", "w", "n"), [(1.0, 4, 2, 3), (0.3, 4, 2, 3), (1.5, 5, 2, 3), (0.5, 3, 2, 4)])
@pytest.mark.parametrize("delta", ["0.1", "0.01"])
def test_no_small_collection_of_subsets_passes_the_bound(epsilon: float, k: int, w: int, n: int, delta: str) -> None:
    class Sets:
        overlap = Fraction(0)

        def __init__(self) -> None:
            odds = Fraction(math.exp(epsilon))
            p = w * odds / (w * odds + k - w)
            self.epsilon, self.overlap = epsilon, p * (w - 1) / (k - 1)

    found = local.shuffled(epsilon, n, delta, protocol=Sets())
    assert exact_delta(subset_rows(k, w, epsilon), n, found.epsilon) <= float(delta)


def test_the_binary_bound_is_nearly_exact() -> None:
    """All others on one label, two labels: the clones' law is the law, but for the tails of rounding."""
    found = local.shuffled(2, 9, "0.01", protocol=GRR(range(2), epsilon=2))
    assert exact_delta(grr_rows(2, 2.0), 9, found.epsilon * 0.97) > 0.002


@pytest.mark.each(2)
@pytest.mark.parametrize(
    ("epsilon", "n", "delta", "before", "after"),
    [(4, 100_000, "1e-6", 0.1698, 0.1182), (1, 10_000, "1e-6", 0.0530, 0.0432), (8, 1_000_000, "1e-6", 0.444, 0.304)],
)
def test_finding_i4_numbers(epsilon: int, n: int, delta: str, before: float, after: float) -> None:
    """Reviewers, findings I4, by an evaluation of their own: FMT21 and FMT23."""
    assert local.shuffled(epsilon, n, delta).epsilon == pytest.approx(before, rel=0.005)
    found = local.shuffled(epsilon, n, delta, protocol=GRR(range(14), epsilon=epsilon))
    assert found.epsilon == pytest.approx(after, rel=0.005)
    assert "independent shuffler" in repr(found)


def test_subset_selection_pays_for_its_overlap() -> None:
    subset = SubsetSelection(range(128), epsilon=4)
    assert 0 < subset.overlap < Fraction(1, 40)
    found = local.shuffled(4, 100_000, "1e-6", protocol=subset).epsilon
    assert local.shuffled(4, 100_000, "1e-6", protocol=GRR(range(128), epsilon=4)).epsilon < found < 0.12


def test_a_plan_uses_the_protocol_it_chooses() -> None:
    plan = local.plan_collection(range(14), epsilon=1, respondents=10_000, shuffle_delta="1e-6")
    assert plan.choice.protocol.name == "subset selection"
    assert plan.shuffled is not None
    assert plan.shuffled.epsilon < local.shuffled(1, 10_000, "1e-6").epsilon


def test_a_protocol_beyond_its_epsilon_is_refused() -> None:
    with pytest.raises(DeclarationError, match="more than epsilon0"):
        local.shuffled(1, 100, "1e-6", protocol=GRR(range(3), epsilon=2))
