"""Noise by the second, the tightness of accounting, and surveys: what bench/peers/side_by_side.py measures without a table."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np

Found = dict[str, Any]
LAWS = {"laplace": 10.0, "gaussian": 10.0}
LISTS = {
    "100 Gaussian": ("gaussian", 20.0, 100),
    "100 Laplace": ("laplace", 20.0, 100),
    "1 Gaussian": ("gaussian", 5.0, 1),
}
DELTA = 1e-6
SURVEYS = {"GRR": 14, "OUE": 64, "OLH": 64}
RESPONDENTS, EPSILON = 10_000, 1.0


def noise(bench: Any, library: Any, ours: Any, law: str) -> Found:
    """Return how many draws of whole-number noise each makes in a processor second, in turns; medians."""
    with bench.start(ours) as one, bench.start(library) as other:
        drawn: dict[str, list[float]] = {"ours": [], "theirs": []}
        first: Found = other.ask("draw", law=law, scale=LAWS[law], size=1000)
        if "no" in first or "error" in first:
            return first
        size = max(1000, min(1_000_000, int(1000 / max(first["cpu"], 1e-6))))
        for _ in range(bench.options.repeats):
            for name, side, count in (("ours", one, 1_000_000), ("theirs", other, size)):
                cost = side.ask("draw", law=law, scale=LAWS[law], size=count)
                drawn[name].append(count / cost["cpu"])
    return {**{name: statistics.median(rates) for name, rates in drawn.items()}, "kind": first["kind"]}


def account(bench: Any, library: Any, ours: Any, name: str) -> Found:
    """Return the epsilon that each states for a finished list of releases at delta 1e-6."""
    law, scale, times = LISTS[name]
    found: Found = {"theory": exact_gaussian(math.sqrt(times) / scale) if law == "gaussian" else None}
    for side, asked in (("ours", ours), ("theirs", library)):
        with bench.start(asked) as process:
            found[side] = process.ask("compose", law=law, scale=scale, times=times, delta=DELTA)
    return found if "no" not in found["theirs"] else found["theirs"]


def exact_gaussian(mu: float) -> float:
    """Return the least epsilon of continuous Gaussian noise moved by mu deviations, at DELTA (Balle, Wang 2018, Theorem 8)."""

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        delta = tail(middle / mu - mu / 2) - math.exp(middle) * tail(middle / mu + mu / 2)
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


def survey(bench: Any, library: Any, ours: Any, protocol: str) -> Found:
    """Return processor seconds of clients and server and the error of shares, in turns; theory is the protocol's own variance."""
    labels = SURVEYS[protocol]
    weights = 1 / np.arange(1, labels + 1)
    draw = np.random.Generator(np.random.PCG64(1))
    answers = draw.choice(labels, RESPONDENTS, p=weights / weights.sum())
    shares = np.bincount(answers, minlength=labels) / RESPONDENTS
    request = {"protocol": protocol, "labels": labels, "epsilon": EPSILON, "answers": answers.tolist()}
    request["clipped"] = library.name == "multi_freq_ldpy"  # it has no other shares
    taken: dict[str, list[Found]] = {"ours": [], "theirs": []}
    with bench.start(ours) as one, bench.start(library) as other:
        for turn in range(bench.options.repeats + 1):
            for name, side in (("ours", one), ("theirs", other)):
                found: Found = side.ask("local", **request)
                if "no" in found or "error" in found:
                    return found
                if turn:  # the first compiles, where a library does
                    taken[name].append(found)
    result: Found = {"theory": theory(protocol, labels), "shares": labels * bench.options.repeats}
    for name, turns in taken.items():
        errors = np.array([np.array(t["shares"]) - shares for t in turns])
        costs = {cost: statistics.median(t[cost] for t in turns) for cost in ("client", "server")}
        result[name] = {**costs, "rmse": float(np.sqrt(np.mean(errors**2)))}
    return result


def theory(protocol: str, labels: int) -> float:
    """Return the root of the variance of a rare label's share (Wang, Blocki, Li, Jha 2017, equations 4 and 6)."""
    grown = math.exp(EPSILON)
    if protocol == "GRR":
        return math.sqrt((labels - 2 + grown) / (grown - 1) ** 2 / RESPONDENTS)
    return math.sqrt(4 * grown / (grown - 1) ** 2 / RESPONDENTS)
