"""How wrong a model's answers are: measured through the Queryable on random questions, kind by kind. Knows no data.

A part of the loss is kept for asking the table itself random questions of each kind (one column, a measured pair, another
pair, more columns); what the model's answers miss by, less the noise of asking, is the model's error of that kind.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import Table
from sordino.synth.columns import Keyed
from sordino.synth.inference import joint
from sordino.synth.outcome import Outcome
from sordino.synth.projection import Floats
from sordino.synth.session import Session

__all__ = ["KINDS", "Errors", "checked_errors", "kind_of", "multiple"]

KINDS = ("one", "measured", "unmeasured", "many")
_QUESTIONS = {"one": 24, "measured": 36, "unmeasured": 30, "many": 30}
_TRIPLES = 10  # distinct sets of three columns: each is a scan of its own
_SAFE = 1.3  # deviations added for what a few noisy questions leave open
_CLEAR = 16.0  # questions are asked while the noise of one has at most this many times the variance that the model's counts have
_CHANCE = 1 / 80  # of the rows: the variance of a count about a smooth model, at the least
_FEWEST = 8  # questions of a kind
_WIDER = 1.35  # errors have heavier tails than normal ones
_ALIKE = 0.5  # deviation of a kind's squared error about the mean of all, as a share of it, that is taken for granted


@dataclass(frozen=True, slots=True)
class Errors:
    """The mean squared error of a count of each kind, and the mean of p (1 - p) that it was found at.

    A count of a share p of the rows is taken to have the variance B2 (1 + p (1 - p) / mean) / 2. It holds on average over
    random questions of the kind, not for each by itself. `rows` is the deviation of the number of rows.
    """

    squared: Mapping[str, float]
    spread: Mapping[str, float]
    rows: float

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
    2 s^4 / cells of that noise, and more as the questions differ. The kinds are drawn together by as much as that noise, and
    it alone, exceeds what they are taken to differ by: where the questions differ instead, a kind's own error stands. A
    third and 1.3 deviations, of the noise or of how the questions differ, are added. Fewer questions are asked, each with
    less noise, where the noise of asking is large beside that of the one-way counts.
    """
    columns, measured = outcome.coding.columns, frozenset(outcome.measured)
    asked: list[tuple[str, tuple[int, ...], list[Floats]]] = []
    noise = session.variance(session.left, tables=sum(_QUESTIONS.values()))
    ways = outcome.ways
    own = float(
        np.mean([v * c.size / 6.0 for c, v in zip(ways.columns, ways.variances, strict=True)])
    )  # of half a column
    own += outcome.coding.rows * _CHANCE
    part = min(_CLEAR * own / noise, 1.0)
    for kind, most in _QUESTIONS.items():
        count = max(round(most * part), _FEWEST)
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
    return _errors(missed, shares, counts[0].variance, outcome.ways.rows_deviation)


def _errors(missed: dict[str, list[Floats]], shares: dict[str, list[Floats]], noise: float, rows: float) -> Errors:
    squared: dict[str, float] = {}
    spread: dict[str, float] = {}
    known = [k for k in KINDS if missed[k]]
    cells = np.array([sum(len(r) for r in missed[k]) for k in known], dtype=np.float64)
    found = np.array([float(np.square(np.concatenate(missed[k])).mean()) for k in known]) - noise
    each = 2.0 * noise**2 / cells
    uneven = np.array([_unevenness(missed[k]) for k in known])
    whole = 1.0 / float((1.0 / each).sum())
    mean = float((found / each).sum()) * whole
    for kind, one, variance, differ in zip(known, found.tolist(), each.tolist(), uneven.tolist(), strict=True):
        apart = (_ALIKE * max(one, mean, math.sqrt(whole))) ** 2
        own = apart / (apart + variance)
        safe = _SAFE * math.sqrt(own * max(variance, differ) + (1.0 - own) ** 2 * whole)
        squared[kind] = max(_WIDER * (mean + own * (one - mean)) + safe, safe, 1.0)
        p = np.clip(np.concatenate(shares[kind]), 0.0, 1.0)
        spread[kind] = max(float((p * (1.0 - p)).mean()), 1e-6)
    for i, kind in enumerate(KINDS):  # a kind that the model has no columns for errs as the one before it
        if kind not in squared:
            other = next(k for k in (*reversed(KINDS[:i]), *KINDS[i:]) if k in squared)
            squared[kind], spread[kind] = squared[other], spread[other]
    return Errors(squared, spread, rows)


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
        pool = _triples(columns, rng)
    order = np.argsort(rng.uniform_doubles(len(pool))).tolist() if pool else []
    return [pool[order[i % len(order)]] for i in range(count)] if pool else []


def _triples(columns: int, rng: Rng) -> list[tuple[int, ...]]:
    """Return all sets of three columns, or random ones where they are too many to scan."""
    if math.comb(columns, 3) <= _TRIPLES:
        return list(itertools.combinations(range(columns), 3))
    found: set[tuple[int, ...]] = set()
    while len(found) < _TRIPLES:
        places = {rng.below(columns) for _ in range(3)}
        if len(places) == 3:
            found.add(tuple(sorted(places)))
    return sorted(found)


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
