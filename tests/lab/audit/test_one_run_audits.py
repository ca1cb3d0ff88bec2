"""One-run audits at a delta: their bound against every mechanism there is, by a linear program, and the law that attains it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog
from scipy.special import bdtrc

import sordino as sd
from battery import binomial_law
from sordino.core.noise.rng import Rng
from sordino.lab.audit.canary_run import audit_canaries, canary_epsilon


def worst_chance(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest chance of so many right guesses over all (epsilon, delta)-private mechanisms: a linear program.

    A variable for each table of coins and each list of guesses, and one for what each list has beyond e^epsilon on each
    pair of neighbors; nothing is assumed of symmetry.
    """
    tables = list(itertools.product((0, 1), repeat=coins))
    lists = [t for t in itertools.product((0, 1, None), repeat=coins) if sum(x is not None for x in t) == guesses]
    pairs = [(s, (*s[:i], 1 - s[i], *s[i + 1 :])) for s in tables for i in range(coins)]
    width, laws = len(lists), len(tables) * len(lists)
    start = {s: k * width for k, s in enumerate(tables)}
    gain = np.zeros(laws + len(pairs) * width)
    for s, (k, t) in itertools.product(tables, enumerate(lists)):
        if sum(x == y for x, y in zip(t, s, strict=True)) >= right:
            gain[start[s] + k] = 1 / len(tables)
    rows, limits = [], []
    for place, (s, other) in enumerate(pairs):
        beyond = laws + place * width
        whole = np.zeros(len(gain))
        whole[beyond : beyond + width] = 1
        rows.append(whole)
        limits.append(delta)
        for k in range(width):
            row = np.zeros(len(gain))
            row[start[s] + k], row[start[other] + k], row[beyond + k] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0)
    sums = np.zeros((len(tables), len(gain)))
    for k in range(len(tables)):
        sums[k, k * width : (k + 1) * width] = 1
    ones = np.ones(len(tables))
    found = linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=ones, method="highs")
    return float(-found.fun)


def chance_stated(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest alarm at which so many right guesses would not accuse `epsilon`: the chance that the audit states."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        bound = canary_epsilon(right, guesses=guesses, canaries=coins, delta=delta, alarm=middle)
        low, high = (middle, high) if bound <= epsilon else (low, middle)
    return low


@pytest.mark.each(11)
@pytest.mark.parametrize(("coins", "guesses"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.5, 0.02), (1.0, 0.1)])
def test_no_mechanism_has_more_right_guesses_than_stated_and_one_has_as_many(
    coins: int, guesses: int, epsilon: float, delta: float
) -> None:
    for right in range(1, guesses + 1):
        worst = worst_chance(coins, guesses, right, epsilon, delta)
        assert chance_stated(coins, guesses, right, epsilon, delta) == pytest.approx(min(worst, 1), abs=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (2.0, 1e-3)])
def test_the_mechanism_that_reveals_most_is_accused_no_more_often_than_stated(epsilon: float, delta: float) -> None:
    """Forty coins, thirty guesses: its law is the binomial one, with more mass from `cut` on, as the proof says.

    That it is (epsilon, delta)-private is counted over the patterns of right and wrong guesses, both ways.
    """
    coins, guesses, alarm = 40, 30, 0.05
    p = 1 / (1 + math.exp(-epsilon))
    law = binomial_law(np.arange(guesses + 1), guesses, p)
    accused = [
        canary_epsilon(k, guesses=guesses, canaries=coins, delta=delta, alarm=alarm) > epsilon for k in range(31)
    ]
    cut = accused.index(True)
    reached = law[cut:].sum()
    step = min(coins * delta / (cut * law[cut]), 1 / reached)
    shape = np.where(np.arange(31) >= cut, 1 + step * (1 - reached), 1 - step * reached) * law
    assert shape.sum() == pytest.approx(1)
    k = np.arange(1, 31)
    up = np.maximum(k * shape[1:] - math.exp(epsilon) * (31 - k) * shape[:-1], 0).sum()
    down = np.maximum((31 - k) * shape[:-1] - math.exp(epsilon) * k * shape[1:], 0).sum()
    assert (up + down) / coins <= delta * (1 + 1e-9)
    assert shape[cut:].sum() <= alarm
    assert shape[cut - 1 :].sum() > alarm  # one fewer would pass: the bound is no larger than it must be


def test_the_term_of_delta_is_never_above_the_one_in_print() -> None:
    """At the chance in print as the alarm, so many right guesses show the epsilon itself, or more."""
    for guesses, right, epsilon in itertools.product((4, 30, 200), (0.55, 0.75, 0.95, 1.0), (0.1, 1.0, 3.0)):
        v, delta, p = math.ceil(right * guesses), 1e-6, 1 / (1 + math.exp(-epsilon))
        below = np.cumsum(binomial_law(np.arange(v - 1, -1, -1), guesses, p)) / np.arange(1, v + 1)
        printed = float(bdtrc(v - 1, guesses, p) + 2 * guesses * delta * below.max())
        if printed < 0.5:
            shown = canary_epsilon(v, guesses=guesses, canaries=guesses, delta=delta, alarm=printed * (1 + 1e-6))
            assert shown >= epsilon * (1 - 1e-6)


def test_a_delta_lowers_what_is_shown_and_an_audit_without_one_is_as_before() -> None:
    at = [canary_epsilon(95, guesses=100, canaries=100, delta=d) for d in (0.0, 1e-9, 1e-6, 1e-4, 1e-2)]
    assert at == sorted(at, reverse=True)
    assert at[0] == pytest.approx(1.69, abs=0.01)
    assert at[-1] < 0.5
    assert canary_epsilon(0, guesses=100, canaries=100, delta=1e-6) == 0


DOMAIN = sd.Domain({"a": sd.Category([f"a{i}" for i in range(60)]), "b": sd.Boolean(), "c": sd.Boolean()})
BASE = pa.table({"a": ["a0"] * 20, "b": [True] * 20, "c": [True] * 20})
CANARIES = [{"a": f"a{i}", "b": False, "c": i % 2 == 0} for i in range(1, 60)]


@pytest.mark.deep
@pytest.mark.parametrize("method", ["AIM", "MST"])
def test_one_run_audits_models_of_many_columns(method: str) -> None:
    """A fit at rho 1/2, which is (4.9, 1e-5), and one at a loss ten thousand times as large that is claimed at the same."""

    def fit(rho: int | str) -> Any:
        def make(table: pa.Table) -> list[tuple[Any, ...]]:
            opened = sd.protect(
                table,
                domain=DOMAIN,
                neighbors="add_remove",
                privacy_unit="row",
                budget=sd.ZCDP(rho),
                ledger=None,
                rng=Rng.seeded(5),
            )
            model = getattr(sd.synth, method)().fit(opened, rho=rho, rng=Rng.seeded(6))
            rows = model.sample(4000, rng=Rng.seeded(7))
            return list(zip(*(rows.column(name).to_pylist() for name in "abc"), strict=True))

        return make

    def share(output: list[tuple[Any, ...]], canary: Any) -> float:
        return float(sum(row[0] == canary["a"] for row in output))

    stated: dict[str, Any] = {"score": share, "epsilon": 4.9, "delta": 1e-5}
    assert not audit_canaries(fit("1/2"), BASE, CANARIES, **stated).violated
    told = audit_canaries(fit(5000), BASE, CANARIES, **{**stated, "epsilon": 1})
    assert told.violated, told
