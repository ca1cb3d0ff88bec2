"""Draws of intervals of the local model out of reports that devices make: every protocol, heavy hitters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from interval_check import Draws

from sordino import Rng, local

LABELS = tuple("abcdefgh")
PEOPLE = 400
PROTOCOLS = ("GRR", "SUE", "OUE", "THE", "OLH", "BLH", "Hadamard", "SubsetSelection", "SHE")


def report_draws(size: int) -> Iterator[Draws]:
    """Yield what each place draws, about `size` / 4 collections of 400 reports each."""
    yield from _each_protocol(max(50, size // 4))
    yield from _heavy_hitters(max(30, size // 40))


def _each_protocol(asks: int) -> Iterator[Draws]:
    """The share of one label by each protocol: one interval a collection, so that draws are independent."""
    answers = [LABELS[min(7, i * i // 19_000)] for i in range(PEOPLE)]
    truth = answers.count("b") / PEOPLE
    for name in PROTOCOLS:
        for epsilon in (1, 3):
            protocol, rng = getattr(local, name)(LABELS, epsilon=epsilon), Rng.seeded(6)
            estimates = [protocol.estimate(protocol.count(protocol.perturb(answers, rng))) for _ in range(asks)]
            values = [float(e.frequencies[1]) for e in estimates]
            place = f"{name}, epsilon {epsilon}, {PEOPLE} people, share {truth:.3f}"
            yield Draws("share of a label, of reports", place, truth, values, _row(estimates, 1), least=0, most=1)


def _row(estimates: Any, row: int) -> Callable[[float], tuple[Any, Any]]:
    """Return the ends of one row of each estimate's table."""

    def ends(confidence: float) -> tuple[Any, Any]:
        found = [e.interval(confidence) for e in estimates]
        low, high = (np.array([f[side][row].as_py() for f in found], dtype=float) for side in ("lower", "upper"))
        return low, high

    return ends


def _heavy_hitters(asks: int) -> Iterator[Draws]:
    """All texts that are found at once: whether their intervals hold the shares of all respondents."""
    protocol, rng = local.HeavyHitters("abcd", length=4, epsilon=3), Rng.seeded(9)
    answers = ["abca"] * 1200 + ["ddd"] * 500 + ["ba"] * 250 + ["cab"] * 50
    shares = {text: answers.count(text) / len(answers) for text in dict.fromkeys(answers)}
    estimates = [protocol.find(protocol.perturb(answers, rng)) for _ in range(asks)]

    def ends(confidence: float) -> tuple[Any, Any]:
        missed = []
        for estimate in estimates:
            rows = estimate.interval(confidence).to_pylist()
            missed.append(not all(r["lower"] <= shares.get(r["label"], 0.0) <= r["upper"] for r in rows))
        return np.array(missed, dtype=float), np.array(missed, dtype=float)

    yield Draws(
        "heavy hitters that are found", "epsilon 3, 2,000 people", 0.0, np.zeros(asks), ends, promise="together",
        family=np.arange(asks),
    )  # fmt: skip
