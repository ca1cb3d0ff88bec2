"""Histogram encoding with a threshold, binary local hashing, one-hot rows and bits: laws and formulas of Wang et al. 2017."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mistyping import mistype
from sordino.errors import DeclarationError
from sordino.local import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    THE,
    Hadamard,
    Rappor,
    Reports,
    SubsetSelection,
    Unary,
    best,
    exact_epsilon,
    pick_protocol,
)
from sordino.local.collection_plan import candidates
from sordino.noise.rng import Rng


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
    assert {"BLH", "THE"} <= set(names)
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
