"""Attacks on the bits of a released number: which floats can come from 0 and which from its neighbor.

The attacker knows the mechanism and both possible answers, and looks only at the released doubles. Every event is fixed before a
number is seen; a bound is Clopper-Pearson's at one false alarm in 100,000 for each event and direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.lab.audit.verdict import least_epsilon

Floats = np.ndarray[Any, np.dtype[np.float64]]
Event = Callable[[Floats], np.ndarray[Any, np.dtype[np.bool_]]]
MOST = 2**20
QUICK, ALL = 5_000, 1_000_000
RUNS = [QUICK, pytest.param(ALL, marks=pytest.mark.deep)]


def reach(y: Floats, x: float, scale: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say which outputs a textbook's sampler, x +- scale ln(k / 2^53), can give from x (Mironov 2012, section 4)."""
    k = np.round(np.exp(-np.abs(y - x) / scale) * 2.0**53)
    found = np.zeros(len(y), dtype=bool)
    for step in range(-8, 9):
        noise = -scale * np.log(np.clip(k + step, 1, 2.0**53) / 2.0**53)
        found |= (x + noise == y) | (x - noise == y)
    return found


def look_at_steps(bits: int, rest: int, step: float) -> Event:
    """Return the event that the number of steps of an output ends in certain bits."""
    return lambda y: np.round(y / step).astype(np.int64) % (1 << bits) == rest


def look_at_bit(bit: int) -> Event:
    return lambda y: (y.view(np.int64) >> bit) & 1 == 1


def make_events(scale: float, step: float) -> list[Event]:
    """Return what is tried: holes of a textbook's sampler, bits finer than 1 + noise has, last bits of steps and doubles."""
    events: list[Event] = [
        lambda y: ~reach(y, 0, scale),
        lambda y: ~reach(y, 1, scale),
        lambda y: ~reach(y, MOST, scale),
        lambda y: y * 2.0**53 != np.floor(y * 2.0**53),
        lambda y: y * 2.0**30 != np.floor(y * 2.0**30),
        lambda y: (y / step != np.round(y / step)) & (np.round(y / step) * step != y),
    ]
    events += [look_at_steps(bits, rest, step) for bits in (1, 2, 3) for rest in range(1 << bits)]
    events += [look_at_bit(bit) for bit in range(4)]
    return events


def largest_shown(ours: Floats, theirs: Floats, events: list[Event]) -> float:
    """Return the largest lower bound on epsilon that any event shows, either way."""
    runs = len(ours)
    assert len(theirs) == runs
    hits = [(int(event(ours).sum()), int(event(theirs).sum())) for event in events]
    return max(least_epsilon(max(pair), min(pair), runs=runs, alarm=1e-5) for pair in hits)


def textbook(x: float, scale: float, runs: int, seed: int) -> Floats:
    draw = np.random.default_rng(seed)
    k = draw.integers(1, 2**53, runs, endpoint=True)
    return x + draw.choice([-1.0, 1.0], runs) * -scale * np.log(k / 2.0**53)


def fine(x: float, scale: float, runs: int, seed: int) -> Floats:
    """Return x + noise with noise of full precision near 0, and so without holes; the sum is rounded as doubles are."""
    draw = np.random.default_rng(seed)
    size = -np.log1p(-draw.random(runs) * 2.0 ** -draw.geometric(0.5, runs).astype(float))
    return x + draw.choice([-1.0, 1.0], runs) * scale * size


def ask_many(sql: str, cell: float, *, epsilon: float, runs: int, seed: int) -> Floats:
    """Return `runs` released numbers of groups that hold one row each with that cell, or none where it is negative."""
    groups = min(runs, 50_000)
    domain = sd.Domain({"k": sd.Integer(0, groups - 1), "x": sd.Real(0, MOST, resolution="0.01")})
    rows = pa.table({"k": np.arange(groups), "x": np.full(groups, cell)}).slice(0, 0 if cell < 0 else groups)
    curator = protect(rows, domain, seed=seed)
    asked = sd.sql(sql)
    found = [curator.ask(asked, epsilon=epsilon).table["n"].to_numpy() for _ in range(runs // groups)]
    curator.close()
    return np.concatenate(found).astype(np.float64)


@pytest.mark.attack(
    "tell neighbors by which floats can come out", source="Mironov 2012, On significance of the least significant bits"
)
@pytest.mark.parametrize("runs", RUNS)
def test_floats_of_a_textbook_give_their_answer_away_and_a_count_does_not(runs: int, record_property: Any) -> None:
    events = make_events(1, 1)
    broken = largest_shown(textbook(0, 1, runs, 1), textbook(1, 1, runs, 2), events)
    assert broken > 3, "the attack is not what it should be"
    sql = "SELECT k, COUNT(*) AS n FROM data GROUP BY k"
    ours, theirs = (ask_many(sql, cell, epsilon=1, runs=runs, seed=i) for i, cell in enumerate((-1, 1)))
    shown = largest_shown(ours, theirs, events)
    record_property("tried", f"{runs:,} counts a side: shows {shown:.2f} of epsilon 1, a textbook {broken:.1f}")
    assert shown <= 1
    assert (ours == np.round(ours)).all()


@pytest.mark.deep
@pytest.mark.attack(
    "tell neighbors by the precision of a float",
    source="Haney, Desfontaines, Hartman, Shrestha, Hay 2022, Precision-based attacks and interval refining",
)
@pytest.mark.parametrize("runs", RUNS)
def test_precision_of_noise_without_holes_gives_zero_away_and_a_sum_does_not(runs: int, record_property: Any) -> None:
    events = make_events(MOST, 0.01)
    broken = largest_shown(fine(0, 1, runs, 1), fine(1, 1, runs, 2), make_events(1, 1))
    assert broken > 3, "the attack is not what it should be"
    sql = "SELECT k, SUM(x) AS n FROM data GROUP BY k"
    shown = 0.0
    for cell in (0.01, float(MOST)):
        ours, theirs = (ask_many(sql, x, epsilon=1, runs=runs, seed=i) for i, x in enumerate((0.0, cell), 3))
        shown = max(shown, largest_shown(ours, theirs, events))
        for found in (ours, theirs):  # the double nearest to a number of cents, whatever the sum is
            assert (found == np.round(found * 100) / 100).all()
    record_property("tried", f"2 x {runs:,} sums a side: shows {shown:.2f} of epsilon 1, fine floats {broken:.1f}")
    assert shown <= 1
