"""Draws of every kind of interval of the local model: shares of labels, means, distributions, Bloom filters.

The supports of a label are drawn by their exact law where a protocol has one; reports are made elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from interval_check import Draws

from sordino import Rng, local
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.local.protocols.distribution import DistributionEstimate
from sordino.local.reports import SupportCounts, parameters_hash

LABELS = tuple(range(16))
PROTOCOLS = ("GRR", "OUE", "OLH", "SubsetSelection")
LOSSES = (0.5, 1, 4)
NUMBERS: dict[str, Callable[[int], Any]] = {
    "spread": lambda n: (np.arange(n) + 0.5) / n * 100,
    "skewed": lambda n: np.minimum(100.0, 4 / (1 - (np.arange(n) + 0.5) / n) - 4),
    "all at the lower bound": lambda n: np.zeros(n),
}
APART = 10, 60  # half of the answers at each: the worst distribution for shares and quantiles between them


def local_draws(size: int) -> Iterator[Draws]:
    """Yield what each place of the local model's grid draws, about `size` draws each."""
    yield from _shares(size)
    yield from _shares_together(size)
    yield from _means(size)
    yield from _distributions(size)
    yield from _filters(size)


def _shares(size: int) -> Iterator[Draws]:
    rng = np.random.default_rng(1)
    places = itertools.product(PROTOCOLS, LOSSES, (100, 10_000), (0.0, 0.03, 0.5), ("respondents", "population"))
    for name, epsilon, n, share, about in places:
        protocol: Any = getattr(local, name)(LABELS, epsilon=epsilon)
        own = np.full(size, round(share * n)) if about == "respondents" else rng.binomial(n, share, size)
        supports = rng.binomial(own, float(protocol.p)) + rng.binomial(n - own, float(protocol.q))
        estimate = FrequencyEstimate(
            tuple(range(size)), tuple(supports.tolist()), n, protocol.p, protocol.q, protocol.name
        )
        place = f"{name}, epsilon {epsilon}, {n:,} people, share {share:g}, of the {about}"
        ends = _shares_ends(estimate, about)
        yield Draws("share of a label", place, share, estimate.frequencies, ends, least=0, most=1)


def _shares_ends(estimate: FrequencyEstimate, about: str) -> Callable[[float], tuple[Any, Any]]:
    def ends(confidence: float) -> tuple[Any, Any]:
        found = estimate.interval(confidence, about=about)
        return found["lower"].to_numpy(), found["upper"].to_numpy()

    return ends


def _shares_together(size: int) -> Iterator[Draws]:
    """All labels at once, of reports that were made."""
    asks, n = max(30, size // 8), 2000
    for epsilon in (1, 4):
        protocol, rng = local.GRR(LABELS, epsilon=epsilon), Rng.seeded(3)
        answers = [LABELS[(i * i) % len(LABELS)] for i in range(n)]
        truth = np.array([answers.count(label) / n for label in LABELS])
        estimates = [protocol.estimate(protocol.count(protocol.perturb(answers, rng))) for _ in range(asks)]

        def ends(confidence: float, estimates: Any = estimates) -> tuple[Any, Any]:
            found = [e.interval(confidence, simultaneous=True) for e in estimates]
            low, high = (np.concatenate([f[side].to_numpy() for f in found]) for side in ("lower", "upper"))
            return low, high

        yield Draws(
            "shares of all labels", f"GRR, epsilon {epsilon}, {n:,} people", np.tile(truth, asks),
            np.concatenate([e.frequencies for e in estimates]), ends, promise="together", least=0, most=1,
            family=np.repeat(np.arange(asks), len(LABELS)),
        )  # fmt: skip


def _means(size: int) -> Iterator[Draws]:
    asks, rng = max(50, size // 2), Rng.seeded(5)
    for epsilon, n, (words, data) in itertools.product((0.5, 1, 4), (100, 2000), NUMBERS.items()):
        for method in ("hybrid", "duchi"):
            protocol, answers = local.Mean(0, 100, epsilon, method=method), data(n)
            estimates = [protocol.estimate(protocol.count(protocol.perturb(answers, rng))) for _ in range(asks)]
            place = f"{method}, epsilon {epsilon}, {n:,} people, {words}"
            ends = _each(lambda e, confidence: e.interval(confidence), estimates)
            values = [e.value for e in estimates]
            # bits do not show how far the answers lie apart, and the variance falls with that: a bound
            promise = "at least" if method == "duchi" and "all" not in words else "each"
            truth = float(answers.mean())
            yield Draws("mean of the local model", place, truth, values, ends, promise=promise, least=0, most=100)


def _each(interval: Callable[[Any, float], tuple[float, float]], estimates: Any) -> Callable[[float], tuple[Any, Any]]:
    def ends(confidence: float) -> tuple[Any, Any]:
        found = np.array([interval(e, confidence) for e in estimates], dtype=float)
        return found[:, 0], found[:, 1]

    return ends


def _distributions(size: int) -> Iterator[Draws]:
    asks, rng = max(30, size // 8), np.random.default_rng(7)
    for epsilon, n, words in itertools.product((1, 4), (2000, 50_000), ("spread", "skewed", "apart")):
        protocol = local.Distribution(0, 100, epsilon, bins=128)
        answers = np.repeat(APART, n // 2).astype(float) if words == "apart" else NUMBERS[words](n)
        bins = np.bincount(np.minimum((answers / 100 * 128).astype(int), 127), minlength=128)
        law = protocol.matrix()
        estimates: list[DistributionEstimate] = []
        for _ in range(asks):
            supports = np.sum([rng.multinomial(count, law[:, i]) for i, count in enumerate(bins) if count], axis=0)
            counts = SupportCounts(parameters_hash(protocol.parameters()), tuple(supports.tolist()), n)
            estimates.append(protocol.estimate(counts))
        truths: dict[str, tuple[float, Any, Any]] = {
            "mean": (float(answers.mean()), lambda e: e.mean, lambda e, c: e.mean_interval(c)),
            "median": (float(np.median(answers)), lambda e: e.quantile(0.5), lambda e, c: e.quantile_interval(0.5, c)),
            "quantile 0.9": (
                float(np.quantile(answers, 0.9)), lambda e: e.quantile(0.9), lambda e, c: e.quantile_interval(0.9, c),
            ),
            "share below 25": (
                float(np.mean(answers < 25)),
                lambda e: float(np.interp(25, e.edges, np.append(0.0, np.cumsum(e.frequencies)))),
                lambda e, c: e.below_interval(25, c),
            ),
        }  # fmt: skip
        for name, (truth, value, interval) in truths.items():
            place = f"{name}; epsilon {epsilon}, {n:,} people, {words}"
            values, ends = np.array([value(e) for e in estimates]), _each(interval, estimates)
            most, exact = 1 if "share" in name else 100, words == "apart" and "share" in name
            kind = "share below a number, in the worst case" if exact else "distribution"
            if words == "apart" and name == "median":  # every number between the two is one: both ends are to be held
                yield Draws(
                    "median of a distribution, in the worst case", place, np.tile(APART, asks), np.repeat(values, 2),
                    _twice(ends), promise="together", least=0, most=most, family=np.repeat(np.arange(asks), 2),
                )  # fmt: skip
                continue
            yield Draws(kind, place, truth, values, ends, promise="each" if exact else "at least", least=0, most=most)


def _twice(ends: Callable[[float], tuple[Any, Any]]) -> Callable[[float], tuple[Any, Any]]:
    def repeat(confidence: float) -> tuple[Any, Any]:
        low, high = ends(confidence)
        return np.repeat(low, 2), np.repeat(high, 2)

    return repeat


def _filters(size: int) -> Iterator[Draws]:
    """Labels of Bloom filters: the errors of one collection's labels depend on each other."""
    asks, n, rng = max(20, size // 80), 4000, Rng.seeded(9)
    labels = [f"v{i}" for i in range(12)]
    protocol = local.Bloom(labels, f="0.25", p="0.35", q="0.65", bits=32, hashes=2, cohorts=8)
    answers = [labels[int(len(labels) * (i / n) ** 2)] for i in range(n)]
    truth = np.array([answers.count(label) / n for label in labels])
    estimates = [protocol.estimate(protocol.count(protocol.perturb(answers, rng))) for _ in range(asks)]

    def ends(confidence: float) -> tuple[Any, Any]:
        found = [e.interval(confidence) for e in estimates]
        low, high = (np.concatenate([f[side].to_numpy() for f in found]) for side in ("lower", "upper"))
        return low, high

    yield Draws(
        "share by Bloom filters", f"12 labels, {n:,} people", np.tile(truth, asks),
        np.concatenate([e.frequencies for e in estimates]), ends, promise="on average", least=0, most=1,
        family=np.repeat(np.arange(asks), len(labels)),
    )  # fmt: skip
