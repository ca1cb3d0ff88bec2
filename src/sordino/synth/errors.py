"""How wrong a model's answers are: measured through the Queryable on random questions, kind by kind. Knows no data.

A part of the loss is kept for asking the table itself random questions of each kind (one column, a measured pair, another
pair, more columns); what the model's answers miss by, less the noise of asking, is the model's error of that kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sordino.noise.rng import Rng
from sordino.queries.marginal import Table
from sordino.synth.columns import Keyed
from sordino.synth.inference import joint
from sordino.synth.outcome import Outcome
from sordino.synth.projection import Floats
from sordino.synth.session import Session

__all__ = ["KINDS", "Errors", "checked_errors", "kind_of", "multiple"]

KINDS = ("one", "measured", "unmeasured", "many")
_QUESTIONS = {"one": 24, "measured": 36, "unmeasured": 30, "many": 30}
_TRIPLES = 10  # distinct sets of three columns: each is a scan of its own
_SAFE = 1.645  # deviations added for the noise of checking: error is stated too high in 19 of 20 fits
_FAINT = 0.02  # noise of asking, as a share of the rows, above which fewer questions are asked, each with less noise
_FEWEST = 0.15
_WIDER = 1.35  # questions of people are about columns that depend on each other, more often than random ones
_ALIKE = 0.5  # deviation of the kinds' squared errors about their mean, as a share of it, that is taken for granted


@dataclass(frozen=True, slots=True)
class Errors:
    """The mean squared error of a count of each kind, and the mean of p (1 - p) that it was found at.

    A count of a share p of the rows is taken to have the variance B2 (1 + p (1 - p) / mean) / 2. It holds on average over
    questions of the kind, not for each by itself.
    """

    squared: Mapping[str, float]
    spread: Mapping[str, float]

    def deviation(self, kind: str, share: Floats) -> Floats:
        """Return the standard deviation, in rows, of counts of these shares of the rows."""
        p = np.clip(share, 0.0, 1.0)
        made: Floats = np.sqrt(self.squared[kind] * (0.5 + 0.5 * p * (1.0 - p) / max(self.spread[kind], 1e-9)))
        return made


def multiple(confidence: float) -> float:
    """Return how many deviations an interval reaches at a confidence."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def kind_of(columns: Sequence[int], measured: frozenset[tuple[int, ...]]) -> str:
    """Return the kind of a question by the columns that it is about."""
    chosen = tuple(sorted(set(columns)))
    if len(chosen) <= 1:
        return "one"
    if any(set(chosen) <= set(m) for m in measured):
        return "measured"
    return "unmeasured" if len(chosen) == 2 else "many"


def checked_errors(session: Session, outcome: Outcome, within: Sequence[Floats]) -> Errors:
    """Return the model's errors, found by spending all that is left on random questions.

    A kind's mean(r^2) - s^2 over the cells r of its questions, s^2 the variance of the noise of asking, has the variance
    2 s^4 / cells of that noise, or more as the questions differ; the kinds are drawn together by as much as that exceeds
    what they are taken to differ by, and 1.645 deviations and a third are added. Where the noise would pass a fiftieth of
    the rows fewer questions are asked.
    """
    columns, measured = outcome.coding.columns, frozenset(outcome.measured)
    asked: list[tuple[str, tuple[int, ...], list[Floats]]] = []
    noise = math.sqrt(session.variance(session.left, tables=sum(_QUESTIONS.values())))
    part = min(max(_FAINT * outcome.coding.rows / noise, _FEWEST), 1.0)
    for kind, most in _QUESTIONS.items():
        count = max(round(most * part), 2)
        for chosen in _chosen(kind, count, len(columns), measured, session.rng):
            halves = [_half(columns[c], session.rng) for c in chosen]
            asked.append((kind, chosen, halves))
    tables = [
        Table(tuple(columns[c].coded(half.astype(int).tolist()) for c, half in zip(chosen, halves, strict=True)))
        for _, chosen, halves in asked
    ]
    counts = session.tables(tables, session.left)
    missed: dict[str, list[Floats]] = {k: [] for k in KINDS}
    shares: dict[str, list[Floats]] = {k: [] for k in KINDS}
    for (kind, chosen, halves), found in zip(asked, counts, strict=True):
        model = _model(outcome, within, chosen, halves)
        missed[kind].append((found.cells - model).ravel())
        shares[kind].append((model / max(outcome.coding.rows, 1.0)).ravel())
    return _errors(missed, shares, counts[0].variance)


def _errors(missed: dict[str, list[Floats]], shares: dict[str, list[Floats]], noise: float) -> Errors:
    squared: dict[str, float] = {}
    spread: dict[str, float] = {}
    known = [k for k in KINDS if missed[k]]
    cells = np.array([sum(len(r) for r in missed[k]) for k in known], dtype=np.float64)
    found = np.array([float(np.square(np.concatenate(missed[k])).mean()) for k in known]) - noise
    each = np.maximum(2.0 * noise**2 / cells, [_unevenness(missed[k]) for k in known])
    whole = 1.0 / float((1.0 / each).sum())
    mean = float((found / each).sum()) * whole
    apart = (_ALIKE * max(mean, math.sqrt(whole))) ** 2
    for kind, one, variance in zip(known, found.tolist(), each.tolist(), strict=True):
        own = apart / (apart + variance)
        safe = _SAFE * math.sqrt(own * variance + (1.0 - own) ** 2 * whole)
        squared[kind] = max(_WIDER * (mean + own * (one - mean)) + safe, safe, 1.0)
        p = np.clip(np.concatenate(shares[kind]), 0.0, 1.0)
        spread[kind] = max(float((p * (1.0 - p)).mean()), 1e-6)
    for i, kind in enumerate(KINDS):  # a kind that the model has no columns for errs as the one before it
        if kind not in squared:
            other = next(k for k in (*reversed(KINDS[:i]), *KINDS[i:]) if k in squared)
            squared[kind], spread[kind] = squared[other], spread[other]
    return Errors(squared, spread)


def _unevenness(missed: Sequence[Floats]) -> float:
    """Return the variance of the mean squared error over questions, from how they differ; 0 for one question."""
    means = np.array([float(np.square(r).mean()) for r in missed])
    return float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0


def _chosen(
    kind: str, count: int, columns: int, measured: frozenset[tuple[int, ...]], rng: Rng
) -> list[tuple[int, ...]]:
    """Return the columns of `count` random questions of a kind; none where the model has none of it."""
    pairs = [(a, b) for a in range(columns) for b in range(a + 1, columns)]
    known = sorted(m for m in measured if len(m) > 1)
    if kind == "one":
        pool: list[tuple[int, ...]] = [(c,) for c in range(columns)]
    elif kind == "measured":
        pool = [tuple(m) for m in known]
    elif kind == "unmeasured":
        pool = [p for p in pairs if kind_of(p, measured) == "unmeasured"]
    else:
        pool = [] if columns < 3 else [_three(columns, rng) for _ in range(_TRIPLES)]
    return [pool[rng.below(len(pool))] for _ in range(count)] if pool else []


def _three(columns: int, rng: Rng) -> tuple[int, ...]:
    found: set[int] = set()
    while len(found) < 3:
        found.add(rng.below(columns))
    return tuple(sorted(found))


def _half(column: Keyed, rng: Rng) -> Floats:
    """Return 0 or 1 for each key: a random run of an ordered column, a random half of another; never all or none."""
    size = column.size
    inside = np.zeros(size)
    if size == 1:
        return inside
    if column.ordered and size > 2:
        low = rng.below(size)
        high = low + 1 + rng.below(size - low) if low else 1 + rng.below(size - 1)
        inside[low:high] = 1.0
    else:
        bits = rng.uniform_doubles(size) < 0.5
        inside[bits] = 1.0
    if not inside.any():
        inside[rng.below(size)] = 1.0
    return inside


def _model(outcome: Outcome, within: Sequence[Floats], chosen: tuple[int, ...], halves: Sequence[Floats]) -> Floats:
    """Return the model's counts of a question's cells, outside and inside of each column's half."""
    classes: list[Floats] = []
    for c, half in zip(chosen, halves, strict=True):
        codes = outcome.coding.codes[c]
        inside = codes.summed(within[c] * half)
        sides = [codes.summed(within[c]) - inside, inside] if half.any() else [codes.summed(within[c])]
        classes.append(np.stack(sides, axis=1))
    return joint(outcome.beliefs, chosen, outcome.coding.sizes, classes)
