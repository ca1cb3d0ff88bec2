"""Numbers that others published or that follow from textbook formulas; each test is named after its source."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from places import ADULT, needs_adult
from published import rows_of
from sordino.core.domain import Category
from sordino.core.noise.rng import Rng
from sordino.datasets import load_adult
from sordino.lab.datasets.adult import adult_domain
from sordino.local import (
    GRR,
    OLH,
    OUE,
    SUE,
    Hadamard,
    Rappor,
    Reports,
    SubsetSelection,
    SupportCounts,
    Unary,
    attainable_shift,
    best,
    exact_epsilon,
    fair_coins,
    respondents_needed,
    shuffled,
)
from sordino.local.collection_plan import candidates
from sordino.local.estimates.frequency import variance
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.reports import parameters_hash

N = 32_561
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
SIZES = (2, 3, 14, 128, 1024)


def one_report(protocol: Randomizer) -> float:
    """Return n Var at share 0."""
    return protocol.variance(share=0.0, n=1)


def test_dwork_roth_fair_coins_are_ln_3() -> None:
    assert fair_coins().epsilon == 1.0986122886681098 == exact_epsilon(fair_coins())
    assert [fair_coins().p, fair_coins().q] == [0.75, 0.25]
    assert one_report(fair_coins()) == 0.75


def test_unary_three_quarters_is_ln_9() -> None:
    protocol = Unary(range(14), p=0.75, q=0.25)
    assert protocol.epsilon == 2.1972245773362196 == exact_epsilon(protocol)


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", SIZES)
def test_wang_2017_table_of_variances(epsilon: float, k: int) -> None:
    """Wang, Blocki, Li, Jha 2017, table 1: n Var at share 0; thresholds of 32 bits move it by less than 1e-5."""
    grown, half = math.exp(epsilon), math.exp(epsilon / 2)
    assert one_report(GRR(range(k), epsilon=epsilon)) == pytest.approx((k - 2 + grown) / (grown - 1) ** 2, rel=1e-5)
    assert one_report(SUE(range(k), epsilon=epsilon)) == pytest.approx(half / (half - 1) ** 2, rel=1e-6)
    assert one_report(OUE(range(k), epsilon=epsilon)) == pytest.approx(4 * grown / (grown - 1) ** 2, rel=1e-6)
    wanted = ((grown + 1) / (grown - 1)) ** 2
    assert one_report(Hadamard(range(k), epsilon=epsilon)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_wang_2017_local_hashing_is_about_as_good_as_oue(epsilon: float) -> None:
    grown = math.exp(epsilon)
    few, protocol = OLH(range(8), epsilon=epsilon), OLH(range(128), epsilon=epsilon)
    assert few.g == round(grown) + 1
    assert one_report(protocol) <= 1.03 * one_report(few)
    assert one_report(protocol) == pytest.approx(4 * grown / (grown - 1) ** 2, rel=0.03)


def test_wang_2017_randomized_response_beats_oue_below_3_e_plus_2() -> None:
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        bound = 3 * math.exp(epsilon) + 2
        for k in (math.ceil(bound) - 1, math.floor(bound) + 1):
            better = one_report(GRR(range(k), epsilon=epsilon)) < one_report(OUE(range(k), epsilon=epsilon))
            assert better == (k < bound), (epsilon, k)


@pytest.mark.deep
def test_ye_barg_2018_subset_selection_is_best_or_tied() -> None:
    for epsilon in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0):
        for k in (2, 3, 4, 5, 8, 14, 30, 128, 500):
            found = {m.name: one_report(m) for m in candidates(range(k), epsilon=epsilon)}
            assert found["subset selection"] <= min(found.values()) * (1 + 1e-6), (epsilon, k)


def test_reference_subset_selection_saves_17_percent_at_epsilon_1_and_14_labels() -> None:
    found = [one_report(m) for m in candidates(range(14), epsilon=1) if m.name[:4] not in ("subs", "proj")]
    assert 1 - one_report(SubsetSelection(range(14), epsilon=1)) / min(found) == pytest.approx(0.17, abs=0.005)


@pytest.mark.parametrize(*rows_of("local_model", "random_reports"))
def test_wicg_randomized_response_at_epsilon_14(states: int, percent: float) -> None:
    protocol = GRR(range(states), epsilon=14)
    replaced = float((1 - protocol.p) * states / (states - 1))
    assert 100 * replaced == pytest.approx(percent, rel=3e-4)


def test_erlingsson_2014_two_rounds() -> None:
    f, p, q = 0.5, 0.5, 0.75
    protocol = Rappor(range(14), f=f, p=p, q=q)
    s, r = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
    assert float(protocol.p) == pytest.approx(s)
    assert float(protocol.q) == pytest.approx(r)
    assert protocol.epsilon == pytest.approx(math.log(s * (1 - r) / (r * (1 - s))))
    assert protocol.lifetime_epsilon == pytest.approx(2 * math.log((1 - f / 2) / (f / 2)))
    assert float(protocol.p - protocol.q) == pytest.approx((1 - f) * (q - p))


@pytest.mark.parametrize(*rows_of("local_model", "respondents_needed"))
def test_reference_respondents_needed(epsilon: float, k: int, thousands: float) -> None:
    """Users for one percentage point at 95% on a rare value, best protocol."""
    needed = respondents_needed(range(k), epsilon=epsilon, margin=0.01)
    assert needed.local / 1000 == pytest.approx(thousands, abs=0.05 if thousands == 7.0 else 0.55)
    assert needed.curator < needed.local / 20
    assert f"{needed.local:,}" in needed.advice


@pytest.mark.parametrize(*rows_of("local_model", "malicious_points"))
def test_cheu_2021_one_percent_of_malicious(protocol: str, points: float) -> None:
    makers: dict[str, Callable[..., GRR | Unary | OLH | Hadamard]] = {
        "GRR": GRR, "OUE": OUE, "OLH": OLH, "Hadamard": Hadamard
    }  # fmt: skip
    assert 100 * attainable_shift(makers[protocol](range(128), epsilon=1), malicious=0.01)[0] == pytest.approx(
        points, rel=0.02
    )


def test_feldman_2021_amplification_by_shuffling() -> None:
    found = shuffled(4, 100_000, "1e-6")
    assert 0.1675 <= found.epsilon <= 0.1728
    assert found.closed_form == pytest.approx(0.5378, abs=5e-5)
    assert found.simple_form == pytest.approx(0.5346, abs=5e-5)


@pytest.mark.each(2)
@pytest.mark.parametrize(*rows_of("local_model", "shuffling"))
def test_feldman_2021_table_of_amplification(epsilon: float, n: int, numeric: float, closed: float) -> None:
    found = shuffled(epsilon, n, "1e-6")
    assert found.epsilon == pytest.approx(numeric, rel=0.02)
    assert found.closed_form == pytest.approx(closed, abs=5e-5)
    assert "independent shuffler" in repr(found)


def test_adult_sales_by_fair_coins_expected_and_deviation() -> None:
    """n = 32,561, 3,650 in Sales: 9,965.25 say yes on average; the estimate's deviation is 156.271 at any true count."""
    protocol = fair_coins()
    yes = 3650 * protocol.p + (N - 3650) * protocol.q
    assert yes == 9965.25
    for true in (0, 3650, 16_000, N):
        assert N * math.sqrt(variance(0.75, 0.25, share=true / N, n=N)) == pytest.approx(156.271, abs=5e-4)


def test_adult_two_unary_sums_give_3407_5_and_3803_5() -> None:
    protocol = Unary(["Craft-repair", "Sales"], p=0.75, q=0.25)
    counts = SupportCounts(parameters_hash(protocol.parameters()), (9844, 10_042), N)
    assert protocol.estimate(counts).table["count"].to_pylist() == pytest.approx([3407.5, 3803.5])


@pytest.mark.deep
def test_200_sales_respondents() -> None:
    """All of 200 work in Sales: about 150 say yes, deviation 6.1; within 5 deviations of a mean of 400 runs."""
    protocol, rng = fair_coins(), Rng.seeded(8)
    found = [protocol.count(protocol.perturb([True] * 200, rng)).supports[1] for _ in range(400)]
    deviation = math.sqrt(200 * 0.75 * 0.25)
    assert deviation == pytest.approx(6.1, abs=0.03)
    assert abs(np.mean(found) - 150) < 5 * deviation / 20
    assert np.std(found) == pytest.approx(deviation, rel=0.2)


@pytest.mark.deep
@needs_adult
def test_adult_salespeople_by_two_coins() -> None:
    """A wrong deviation or a bias of half a deviation shows in 400 runs; false alarms under 1e-5."""
    occupation = load_adult(ADULT)["occupation"].combine_chunks()
    answers = np.array([v == "Sales" for v in occupation.to_pylist()])
    assert (len(answers), int(answers.sum())) == (N, 3650)
    protocol, rng = fair_coins(), Rng.seeded(9)
    found = np.array([protocol.estimate(protocol.count(protocol.perturb(answers, rng))).counts[1] for _ in range(400)])
    assert abs(found.mean() - 3650) < 4.5 * 156.271 / 20
    assert found.std(ddof=1) == pytest.approx(156.271, rel=0.16)  # 4.5 deviations of 1 / sqrt(800)


@pytest.mark.deep
@needs_adult
def test_adult_fourteen_occupations_by_unary() -> None:
    """14 bins, deviation 156.271 in each; 1,843 missing answers are sent with no bit set. 5 deviations in 14 bins."""
    occupation = load_adult(ADULT)["occupation"].combine_chunks()
    column = adult_domain()["occupation"]
    assert isinstance(column, Category)
    labels = column.values
    assert (len(labels), occupation.null_count) == (14, 1843)
    protocol = Unary(labels, p=0.75, q=0.25)
    estimate = protocol.estimate(protocol.count(protocol.perturb(occupation, Rng.seeded(10))))
    truth: dict[Any, int] = {v: sum(o == v for o in occupation.to_pylist()) for v in labels}
    for label, count in zip(estimate.labels, estimate.counts, strict=True):
        assert abs(count - truth[label]) < 5 * 156.271
    errors = estimate.errors(0.95) * N / 1.959964
    assert errors == pytest.approx(np.full(14, 156.271), abs=1e-3)
    projected = estimate.projected(answered=1 - 1843 / N)
    assert sum(projected["frequency"].to_pylist()) == pytest.approx(1 - 1843 / N)
    assert min(projected["count"].to_pylist()) >= 0


def test_best_says_why_and_weighs_malicious() -> None:
    plain = best(range(14), epsilon=1, respondents=100_000)
    assert plain.protocol.name == "subset selection"
    assert "17% less variance" in plain.why
    assert plain.error == pytest.approx(1.96 * math.sqrt(3.05e-5), rel=0.01)
    wary = best(range(128), epsilon=1, respondents=100_000, malicious=0.01)
    assert wary.protocol.name == "Hadamard"
    assert best(range(2), epsilon=1, respondents=1000).protocol.name == "GRR"
    assert plain.table.column_names == ["protocol", "error", "shift", "bytes"]
    errors = plain.table["error"].to_pylist()
    assert errors == sorted(errors)


def test_a_choice_is_used_like_its_protocol() -> None:
    choice = best(["a", "b", "c"], epsilon=1, respondents=500)
    reports = choice.perturb(["a", "b"] * 250, Rng.seeded(1))
    assert Reports.from_bytes(reports.to_bytes(), choice) == reports
    assert choice.count(reports) == choice.protocol.count(reports)
    assert choice.estimate(choice.count(reports)).n == 500
    assert exact_epsilon(choice) <= choice.epsilon == 1.0
    assert (choice.p, choice.q, choice.width, choice.labels) == (
        choice.protocol.p,
        choice.protocol.q,
        choice.protocol.width,
        ("a", "b", "c"),
    )
