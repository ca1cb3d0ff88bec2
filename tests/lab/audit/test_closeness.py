"""Distances to the closest record: by hand, and what theory allows against every mechanism on a few people."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog

import sordino as sd
from sordino.errors import DeclarationError
from sordino.lab.audit.table_attacks import closest_records

PEOPLE = [10 * i for i in range(5)]


def ages(*values: int | None) -> pa.Table:
    """Return a table of ages."""
    return pa.table({"age": pa.array(values, pa.int64())})


@pytest.mark.each(3)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.0), (1.0, 0.02)])
def test_no_mechanism_publishes_members_more_often_than_allowed_and_one_does_as_often(
    size: int, epsilon: float, delta: float
) -> None:
    """All parts of five people into members and others; what each publishes; a linear program over all mechanisms."""
    parts = list(itertools.combinations(range(5), size))
    pairs = [(s, t) for s in parts for t in parts if len({*s} - {*t}) == 1]
    laws = 5 * len(parts)
    gain = np.zeros(laws + 5 * len(pairs))
    for k, part in enumerate(parts):
        members, others = ages(*(PEOPLE[i] for i in part)), ages(*(PEOPLE[i] for i in range(5) if i not in part))
        for i in range(5):
            near = closest_records({"": (ages(PEOPLE[i]), None)}, members, others).results[0].nearer
            assert near == (i in part)
            gain[5 * k + i] = near / len(parts)
    rows, limits = [], []
    for place, (s, t) in enumerate(pairs):
        beyond = laws + 5 * place
        whole = np.zeros(len(gain))
        whole[beyond : beyond + 5] = 1
        rows.append(whole)
        limits.append(delta)
        for i in range(5):
            row = np.zeros(len(gain))
            row[5 * parts.index(s) + i], row[5 * parts.index(t) + i], row[beyond + i] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0)
    sums = np.zeros((len(parts), len(gain)))
    for k in range(len(parts)):
        sums[k, 5 * k : 5 * k + 5] = 1
    found = linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(len(parts)), method="highs")
    loss = sd.ApproxDP(epsilon, delta) if delta else sd.PureDP(epsilon)
    halves = ages(*PEOPLE[:size]), ages(*PEOPLE[size:])
    attack = closest_records({"private": (ages(0), loss)}, *halves).attack.results[0]
    assert -found.fun <= attack.allowed + 1e-9
    if not delta:
        assert -found.fun == pytest.approx(attack.allowed)
    assert attack.guessing == size / 5


def test_distances_are_those_computed_by_hand() -> None:
    found = closest_records({"made": (ages(0, 12, 40), sd.PureDP(1))}, ages(0, 10), ages(30, 20)).results[0]
    assert found.members == pytest.approx((0, 0.05, 0.75))  # of a range of 40
    assert found.others == pytest.approx((0.2, 0.25, 0.5))
    assert found.nearer == pytest.approx(2 / 3)
    assert found.copies() == pytest.approx((1 / 3, 0))
    assert found.quantiles()[2:] == pytest.approx((0.05, 0.25))


def test_several_who_are_as_close_share_the_row_and_a_missing_cell_counts_one() -> None:
    assert closest_records({"made": (ages(5), None)}, ages(0, 10), ages(10)).results[0].nearer == pytest.approx(2 / 3)
    missing = closest_records({"made": (ages(None, 8), None)}, ages(None, 0), ages(4)).results[0]
    assert missing.members == pytest.approx((0, 1))
    assert missing.others == pytest.approx((0.5, 1))


def test_it_says_that_it_is_not_private_and_refuses_what_it_cannot_compare() -> None:
    found = closest_records({"<b>": (ages(1, 2), None)}, ages(1), ages(2))
    assert "NOT PRIVATE" in repr(found)
    assert "&lt;b&gt;" in found._repr_html_()
    assert found.to_dict()["private"] is False
    assert "NOT PRIVATE" in sd.plot(found).title
    with pytest.raises(DeclarationError, match="needs a release"):
        closest_records({}, ages(1), ages(2))
    with pytest.raises(DeclarationError, match="columns of the same names"):
        closest_records({"made": (pa.table({"x": [1]}), None)}, ages(1), ages(2))
