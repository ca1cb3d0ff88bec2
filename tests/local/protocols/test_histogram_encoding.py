"""Histogram encoding with a threshold, binary local hashing, one-hot rows and bits: laws and formulas of Wang et al. 2017."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mistyping import mistype
from sordino.core.noise.laws import DiscreteLaplace, sum_error
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import (
    BLH,
    GRR,
    OLH,
    OUE,
    SHE,
    SUE,
    THE,
    Hadamard,
    Rappor,
    Reports,
    SubsetSelection,
    Unary,
    best,
    exact_epsilon,
    from_parameters,
    pick_protocol,
    shape_test,
)
from sordino.local.collection_plan import candidates
from sordino.local.estimates.noisy_sums import sum_reach, sum_variance


def one_report(protocol: Any) -> float:
    return float(protocol.q * (1 - protocol.q) / (protocol.p - protocol.q) ** 2)


def law_of_the(epsilon: float, theta: float) -> float:
    """Return n Var of a rare label by THE, as Wang et al. 2017 state it (section 4.2)."""
    return (2 * math.exp(epsilon * theta / 2) - 1) / (
        1 + math.exp(epsilon * (theta - 0.5)) - 2 * math.exp(epsilon * theta / 2)
    ) ** 2


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 4, 8])
def test_the_has_the_least_variance_of_the_paper_over_all_thresholds(epsilon: float) -> None:
    least = min(law_of_the(epsilon, theta) for theta in np.linspace(0.501, 0.999, 4000))
    assert one_report(THE(range(5), epsilon=epsilon)) == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1, 3])
def test_the_is_noise_on_one_hot_rows_cut_at_theta(epsilon: float) -> None:
    """400,000 numbers of each kind: 5.5 deviations are .0044, a false alarm under 1e-7."""
    made = THE(range(3), epsilon=epsilon)
    theta = -2 * math.log(2 * float(made.q)) / epsilon
    assert 0.5 < theta < 1
    rng = np.random.default_rng(4)
    noisy = np.array([1.0, 0.0])[:, None] + rng.laplace(scale=2 / epsilon, size=(2, 400_000))
    shares = (noisy > theta).mean(axis=1)
    assert shares == pytest.approx([float(made.p), float(made.q)], abs=0.0044)


@pytest.mark.parametrize("epsilon", ["0.001", "0.01", "0.3", "1", "5", "20", "100"])
def test_the_never_reveals_more_than_was_asked_for(epsilon: str) -> None:
    made = THE(["a", "b", "c"], epsilon=epsilon)
    assert exact_epsilon(made) <= made.epsilon <= float(epsilon)
    assert made.name == "THE"


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_blh_has_the_variance_of_the_paper_that_is_hadamards(epsilon: float) -> None:
    e = math.exp(epsilon)
    made = BLH(range(14), epsilon=epsilon)
    assert one_report(made) == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=1e-6)
    assert one_report(made) == pytest.approx(one_report(Hadamard(range(14), epsilon=epsilon)), rel=1e-6)
    assert one_report(made) >= one_report(OLH(range(14), epsilon=epsilon)) * (1 - 1e-9)
    assert OLH(range(14), epsilon="0.1") == BLH(range(14), epsilon="0.1")  # onto two values there


def test_the_choice_knows_both() -> None:
    names = best(range(14), epsilon=1, respondents=1000).table["protocol"].to_pylist()
    assert {"BLH", "THE", "SHE"} <= set(names)
    assert best(range(14), epsilon=1, respondents=1000).candidates[-1].name == "SHE"
    assert len(names) == len(set(names))
    tiny = [m.name for m in candidates(range(14), epsilon="0.1")]
    assert tiny.count("BLH") == 1
    assert "OLH" not in tiny


def test_one_hot_rows_and_bits() -> None:
    labels = [f"label {i}" for i in range(11)]
    made = SUE(labels, epsilon=100)  # hardly any noise: the bits are the row
    answers = ["label 0", "label 9", "label 10"]
    rows = made.encode(answers)
    assert rows.shape == (3, 11)
    assert rows.argmax(axis=1).tolist() == [0, 9, 10]
    assert rows.sum(axis=1).tolist() == [1, 1, 1]
    assert np.array_equal(made.perturb(answers, Rng.seeded(1)).bits(), rows)
    assert made.encode([None, "label 3"]).sum(axis=1).tolist() == [0, 1]
    with pytest.raises(DeclarationError, match="is none of the labels"):
        made.encode(["label 11"])
    assert np.array_equal(GRR(labels, epsilon=1).encode(answers), rows)


def test_bits_are_what_is_counted_and_travel() -> None:
    labels = list(range(13))
    for made in (
        Unary(labels, p=0.75, q=0.25),
        OUE(labels, epsilon=1),
        SubsetSelection(labels, epsilon=1),
        Rappor(labels, f=0.25, p=0.35, q=0.65),
    ):
        reports = made.perturb(labels * 20, Rng.seeded(2))
        assert reports.bits().sum(axis=0).tolist() == list(made.count(reports).supports)
        back = Reports.from_bytes(reports.to_bytes(), made)
        assert np.array_equal((back + back).bits(), np.concatenate([reports.bits()] * 2))
    with pytest.raises(DeclarationError, match="is a number, not a bit a label"):
        GRR(labels, epsilon=1).perturb(labels, Rng.seeded(1)).bits()


def test_protocols_by_name_take_what_is_theirs() -> None:
    assert pick_protocol("coins", [False, True], respondents=9).epsilon == pytest.approx(math.log(3))
    assert pick_protocol("coins", [False, True], epsilon="1.0987", respondents=9).name == "GRR"
    assert pick_protocol("the", ["a", "b"], epsilon=1, respondents=9).name == "THE"
    assert pick_protocol("best", range(3), epsilon=1, respondents=9).name == "GRR"
    for name, more, words in (
        ("coins", {"epsilon": 2}, "leave epsilon out"),
        ("coins", {"p": 0.75}, "for the protocol unary"),
        ("unary", {"epsilon": 1, "p": 0.75, "q": 0.25}, "epsilon follows"),
        ("unary", {"p": 0.75}, "takes p and q"),
        ("grr", {}, "needs an epsilon"),
        ("best", {"q": 0.1, "epsilon": 1}, "for the protocol unary"),
        ("blhh", {"epsilon": 1}, "did you mean 'blh'"),
    ):
        with pytest.raises(DeclarationError, match=words):
            pick_protocol(name, ["yes", "no"], respondents=9, **mistype(more))


def law_of_number(ratio: Fraction, bit: int, limit: int) -> list[Fraction]:
    """Return P(y = 1 - limit), .., P(y = limit): two-sided geometric noise on a bit, clipped."""
    inner = [(1 - ratio) / (1 + ratio) * ratio ** abs(y - bit) for y in range(2 - limit, limit)]
    return [ratio ** (limit - 1 + bit) / (1 + ratio), *inner, ratio ** (limit - bit) / (1 + ratio)]


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_she_numbers_have_the_law_whose_ratio_is_its_epsilon(epsilon: str) -> None:
    """Chi-square of 200,000 numbers for each bit in cells of 20 or more; a false alarm once in 10^7 (6.5 deviations)."""
    made, n = SHE(["a", "b"], epsilon=epsilon), 200_000
    ratio, limit = made.ratio, made.limit
    laws = [law_of_number(ratio, bit, limit) for bit in (0, 1)]
    assert [sum(law) for law in laws] == [1, 1]
    assert {one / other for one, other in zip(*laws, strict=True)} == {ratio, 1 / ratio}  # so a row of two: r^-2
    assert exact_epsilon(made) == pytest.approx(-2 * math.log(ratio), rel=1e-12)
    assert exact_epsilon(made) <= float(epsilon) < exact_epsilon(made) + 1e-8
    numbers = made.numbers(made.perturb(["b"] * n, Rng.seeded(8)))
    for column, law in zip(numbers.T, laws, strict=True):
        expected = n * np.array([float(share) for share in law])
        kept = expected >= 20
        found = np.bincount(column + limit - 1, minlength=2 * limit)
        cells = int(kept.sum())
        statistic = float((np.square(found - expected)[kept] / expected[kept]).sum())
        assert abs(statistic - cells) < 6.5 * math.sqrt(2 * cells) + 10
        assert found[~kept].sum() < expected[~kept].sum() + 6.5 * math.sqrt(expected[~kept].sum()) + 5


def test_she_errs_twice_as_much_as_its_own_bits() -> None:
    """A number says no more than whether it is above 0; those bits are SUE, to the rounding of a threshold of 32 bits."""
    for epsilon in (0.25, 1, 3):
        she, sue = SHE(range(4), epsilon=epsilon), SUE(range(4), epsilon=epsilon)
        ratio = float(she.ratio)
        assert float(sue.p) == pytest.approx(1 / (1 + ratio), rel=1e-8)
        assert she.variance(share=0.3, n=10) == pytest.approx(2 * sue.variance(share=0.0, n=10), rel=1e-6)
        assert she.variance(share=0.0, n=1) < 8 / epsilon**2


@pytest.mark.parametrize("epsilon", ["0.02", "0.3", "1", "100"])
def test_she_travels_and_reads_words(epsilon: str) -> None:
    labels = ["a", "b", "c"]
    made = SHE(labels, epsilon=epsilon)
    reports = made.perturb([*labels, None], Rng.seeded(3))
    assert made.width == 3 * (2 if float(epsilon) < 0.5 else 1)
    assert Reports.from_bytes(reports.to_bytes(), made) == reports
    assert from_parameters(made.parameters(), labels) == made
    drawn = Rng.seeded(6)
    words = iter(lambda: int.from_bytes(drawn.bytes(4), "little"), None)
    by_words = [made.perturb_words(1, words) for _ in range(60)]
    numbers = made.numbers(Reports.from_rows(b"".join(by_words), made))
    spread = 6 * math.sqrt(made.variance(share=0.0, n=60))  # a false alarm under 1e-8
    assert np.abs(numbers.mean(axis=0) - [0, 1, 0]).max() <= spread + 1e-9
    assert made.perturb_words(2, [0, 0, 2**32 - 1, *[2**32 - 1] * 5]) == made.perturb_words(2, [0, 0, *[2**32 - 1] * 6])
    with pytest.raises(DeclarationError, match="number of a label"):
        made.perturb_words(3, [0])
    with pytest.raises(DeclarationError, match="is a number, not a bit a label"):
        reports.bits()


def test_she_refuses_what_reveals_more_than_it_says() -> None:
    made = SHE(["a", "b"], epsilon=1)
    with pytest.raises(DeclarationError, match="above the stated 1"):
        from_parameters({**made.parameters(), "ratio": made.threshold - 1}, made.labels)
    with pytest.raises(DeclarationError, match="SUE takes less"):
        SHE(["a", "b"], epsilon="0.001")


def test_noisy_sums_reach_as_far_as_their_law() -> None:
    """Beside the sums of laws that the curator uses, and beside a normal law where hardly anything is left to correct."""
    ratio = math.exp(-0.5)
    for n in (1, 2, 3, 10):
        found = sum_error((DiscreteLaplace(Fraction(2)),) * n, (Fraction(1),) * n, 0.95)
        assert sum_reach(ratio, n, 0.95) == found
    wide = math.exp(-0.001)
    assert sum_reach(wide, 20_000, 0.95) == pytest.approx(1.96 * math.sqrt(sum_variance(wide, 20_000)), rel=1e-3)


def test_a_number_that_no_noise_reaches_is_odd() -> None:
    made = SHE(range(5), epsilon=1)
    honest = made.perturb(list(range(5)) * 200, Rng.seeded(9))
    assert not shape_test(made, honest).suspicious
    rows = honest.rows.copy()
    rows[:20, 0] = 2 * made.limit - 1  # the largest number that a report can hold
    assert shape_test(made, Reports.from_rows(rows.tobytes(), made)).suspicious
    added, taken = made.shift(0.01)
    assert added == taken == pytest.approx(1.27)
    assert made.estimate(made.count(honest)).shift(0.01) == (added, taken)
