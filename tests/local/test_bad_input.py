"""Input that breaks a rule: refused with the rule, without an answer in the message."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sordino.core.domain import Category
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import (
    GRR,
    OLH,
    OUE,
    SUE,
    Distribution,
    Hadamard,
    Mean,
    Rappor,
    SubsetSelection,
    SupportCounts,
    Unary,
    best,
    fair_coins,
    respondents_needed,
    shuffled,
)
from sordino.local.labels import check_labels, codes_of

MADE = pytest.mark.parametrize("made", [GRR, SUE, OUE, OLH, Hadamard, SubsetSelection])


@MADE
@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, "much", None, 101, 1e-12])
def test_epsilon(made: Any, epsilon: Any) -> None:
    with pytest.raises(DeclarationError, match="epsilon"):
        made(["a", "b", "c"], epsilon=epsilon)


@MADE
@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        (["a"], "at least 2"),
        ([], "at least 2"),
        (["a", "a"], "repeat"),
        ("ab", "list"),
        ([1.5, 2], "text"),
        (3, "list"),
    ],
)
def test_labels(made: Any, labels: Any, rule: str) -> None:
    with pytest.raises(DeclarationError, match=rule):
        made(labels, epsilon=1)


@MADE
def test_answers_outside_the_labels(made: Any) -> None:
    protocol = made(["red", "green"], epsilon=1)
    for answers in (
        ["green", "ultraviolet"],
        [1, 2],
        [True, False],
        [0.5],
        np.array([7]),
        pa.array(["red", "ultraviolet"]),
    ):
        with pytest.raises(DeclarationError) as caught:
            protocol.perturb(answers, Rng.seeded(1))
        assert "ultraviolet" not in str(caught.value)
    with pytest.raises(DeclarationError, match="answer number 1 is none of the labels"):
        protocol.perturb(["green", "ultraviolet"], Rng.seeded(1))
    numbers = made(range(3), epsilon=1)
    for answers in (np.array([0, 3]), np.array([-1, 0]), [0, 3]):
        with pytest.raises(DeclarationError, match="none of the labels"):
            numbers.perturb(answers, Rng.seeded(1))


@pytest.mark.parametrize(
    ("p", "q"), [(0.25, 0.75), (0.5, 0.5), (1, 0.5), (0.5, 0), (1.5, 0.1), ("x", 0.1), (0.5, 0.5 - 1e-12)]
)
def test_unary_probabilities(p: Any, q: Any) -> None:
    with pytest.raises(DeclarationError):
        Unary(["a", "b"], p=p, q=q)


@pytest.mark.parametrize(
    ("f", "p", "q"), [(0, 0.25, 0.75), (1, 0.25, 0.75), (0.5, 0.75, 0.25), (0.5, 0.5, 0.5), (0.5, -1, 2)]
)
def test_rappor_probabilities(f: float, p: float, q: float) -> None:
    with pytest.raises(DeclarationError):
        Rappor(["a", "b"], f=f, p=p, q=q)


def test_fair_coins_have_two_sides() -> None:
    with pytest.raises(DeclarationError, match="2 labels"):
        fair_coins(["a", "b", "c"])


@pytest.mark.parametrize(
    ("protocol", "answer"), [(GRR(["a", "b"], epsilon=1), "a"), (Mean(0, 10, epsilon=1), 3)], ids=str
)
def test_reports_that_are_not_counted_are_refused(protocol: Any, answer: Any) -> None:
    with pytest.raises(DeclarationError, match="not of reports"):
        protocol.estimate(protocol.perturb([answer], Rng.seeded(1)))


def test_no_reports_no_estimate() -> None:
    protocol = GRR(["a", "b"], epsilon=1)
    empty = protocol.count(protocol.perturb([], Rng.seeded(1)))
    assert empty.n == 0
    with pytest.raises(DeclarationError, match="no reports yet"):
        protocol.estimate(empty)
    with pytest.raises(DeclarationError, match="another task"):
        protocol.estimate(SupportCounts(b"?", (1, 1), 2))


def test_reports_of_another_protocol() -> None:
    response, unary = GRR(["a", "b"], epsilon=1), OUE(["a", "b"], epsilon=1)
    reports = response.perturb(["a"], Rng.seeded(1))
    with pytest.raises(DeclarationError, match=r"protocol (grr|number 1), not of unary"):
        unary.count(reports)
    with pytest.raises(DeclarationError, match=r"protocol (grr|number 1), not of unary"):
        type(reports).from_bytes(reports.to_bytes(), unary)


def test_intervals_and_shares() -> None:
    protocol = GRR(["a", "b"], epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb(["a"], Rng.seeded(1))))
    for confidence in (0, 1, 95, True, math.nan):
        with pytest.raises(DeclarationError, match="confidence"):
            estimate.interval(confidence)
    with pytest.raises(DeclarationError, match="about"):
        estimate.interval(0.95, about="everyone")
    for malicious in (-0.1, 1, True):
        with pytest.raises(DeclarationError, match="malicious"):
            estimate.interval(0.95, malicious=malicious)


def test_numbers() -> None:
    for made in (Mean, Distribution):
        with pytest.raises(DeclarationError, match="lower must be below upper"):
            made(1, 1, 1)
        with pytest.raises(DeclarationError, match="epsilon"):
            made(0, 1, 0)
        for answers in ([None], [math.nan, 0.5], ["half"], [[1, "x"]]):
            with pytest.raises(DeclarationError, match="answer"):
                made(0, 1, 1).perturb(answers, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="method"):
        Mean(0, 1, 1, method="laplace")
    with pytest.raises(DeclarationError, match="bins"):
        Distribution(0, 1, 1, bins=1)


def test_choices() -> None:
    with pytest.raises(DeclarationError, match="respondents"):
        best(["a", "b"], epsilon=1, respondents=0)
    with pytest.raises(DeclarationError, match="margin"):
        respondents_needed(["a", "b"], epsilon=1, margin=1)
    for arguments in ((0, 10, 0.1), (1, 1, 0.1), (1, 10, 0), (1, 10, 1), (1, 10, 1e-30)):
        with pytest.raises(DeclarationError):
            shuffled(*arguments)


def test_answers_in_every_shape_mean_the_same() -> None:
    labels = ("a", "b", "c")
    wanted = [2, 0, 1]
    for answers in (
        ["c", "a", "b"],
        ("c", "a", "b"),
        np.array(["c", "a", "b"]),
        np.array(["c", "a", "b"], dtype=object),
        pa.array(["c", "a", "b"]),
        pa.chunked_array([["c"], ["a", "b"]]),
        pa.array(["c", "a", "b"]).dictionary_encode(),
        pa.array(["c", "a", "b"], type=pa.large_string()),
    ):
        assert codes_of(answers, labels, missing=True).tolist() == wanted
    assert codes_of(["c", None], labels, missing=True).tolist() == [2, -1]
    assert codes_of([None, "c"], ("c", None), missing=False).tolist() == [1, 0]
    assert codes_of([5, 7], (7, 5), missing=False).tolist() == [1, 0]
    assert codes_of([True, False], (False, True), missing=False).tolist() == [1, 0]
    assert codes_of([1, True, "1"], (True, "1", 1), missing=False).tolist() == [2, 0, 1]
    assert check_labels(Category(["x", "y"])) == ("x", "y")
    assert codes_of([], labels, missing=False).tolist() == []
    assert codes_of([None], labels, missing=True).tolist() == [-1]
