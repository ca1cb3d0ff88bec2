"""Pairs of attributes: the joint distribution of two, from one report of the pair or from one report of each.

It may not know collectors, tasks or devices. Everything after `perturb` is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.errors import DeclarationError, nearest
from sordino.local.collection_plan import best
from sordino.local.estimates.binomial import quantile, simultaneous_confidence
from sordino.local.estimates.frequency import arrow_labels
from sordino.local.labels import Answers, Label, Labels, check_labels, codes_of
from sordino.local.protocols.catalog import Protocols
from sordino.local.protocols.randomizer import ClaimedLoss
from sordino.local.protocols.response import GRR
from sordino.local.reports import Reports, own_numbers
from sordino.local.thresholds import check_epsilon
from sordino.loss import Number, round_up
from sordino.noise.rng import Rng

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PairEstimate", "Pairs"]

_WAYS = ("pair", "each")


@dataclass(frozen=True, slots=True, repr=False)
class PairEstimate:
    """Hold unbiased shares of all pairs of labels, a row a label of the first attribute, with their deviations."""

    names: tuple[str, str]
    labels: tuple[tuple[Label, ...], tuple[Label, ...]]
    frequencies: np.ndarray[Any, np.dtype[np.float64]]
    deviations: np.ndarray[Any, np.dtype[np.float64]]
    n: int
    ends: Any = None

    def interval(self, confidence: float, *, simultaneous: bool = False) -> pa.Table:
        """Return an Arrow table: a label of each attribute, count, frequency, lower, upper.

        Each interval is by itself, or all hold at once (`simultaneous`, by Bonferroni). Those of "pair" are exact for few
        reports; those of "each" are normal. Raises DeclarationError unless 0 < confidence < 1.
        """
        import pyarrow as pa

        if self.ends is not None:
            found = self.ends.interval(confidence, simultaneous=simultaneous)
            lower, upper = (np.array(found[name].to_pylist()) for name in ("lower", "upper"))
        else:
            each = simultaneous_confidence(confidence, self.frequencies.size) if simultaneous else confidence
            errors = quantile(each) * self.deviations.reshape(-1)
            lower, upper = (np.clip(self.frequencies.reshape(-1) + sign * errors, 0.0, 1.0) for sign in (-1, 1))
        places = [i.reshape(-1) for i in np.indices(self.frequencies.shape)]
        columns = [tuple(kept[i] for i in place.tolist()) for kept, place in zip(self.labels, places, strict=True)]
        shares = self.frequencies.reshape(-1)
        named = {name: arrow_labels(column) for name, column in zip(self.names, columns, strict=True)}
        return pa.table({**named, "count": shares * self.n, "frequency": shares, "lower": lower, "upper": upper})

    @property
    def table(self) -> pa.Table:
        """The table of `interval(0.95)`."""
        return self.interval(0.95)

    def __repr__(self) -> str:
        return f"<{self.frequencies.size} pairs of {self.names[0]} and {self.names[1]} from {self.n:,} respondents>"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Pairs(ClaimedLoss):
    """Collect the joint distribution of two attributes under one epsilon, in the way with less variance.

    Theorem: "pair" randomises the pair as one of k1 k2 labels, at epsilon, by the best protocol. "each" randomises both
    attributes by GRR, each at epsilon / 2, which adds up to epsilon (sequential composition); the coins are independent
    given the answers, so the mean over respondents of g1(v) g2(w), g(v) = (1[report is v] - q) / (p - q), is unbiased for
    the share of (v, w). The errors of both ways are stated beforehand (`errors`, `why`): those of a rare pair, of labels
    that are level by themselves. Where each respondent reports one attribute only, as `Attributes` with the split "users"
    has it, the reports say nothing about pairs.

    Raises DeclarationError unless there are two attributes, for bad labels or epsilon, and for another way.

    Paper: Wang, Blocki, Li, Jha 2017 (the oracles); Arcolezi et al. 2021, for one report of every attribute.

    >>> Pairs({"sex": ["f", "m"], "age": range(5)}, epsilon=1, respondents=100_000).way
    'pair'
    """

    names: tuple[str, str]
    kept: tuple[tuple[Label, ...], tuple[Label, ...]]
    protocols: tuple[Protocols, ...]
    way: str
    claim: Fraction
    respondents: int
    errors: Mapping[str, float]

    def __init__(
        self, labels: Mapping[str, Labels], *, epsilon: Number, respondents: int, way: str | None = None
    ) -> None:
        if not isinstance(labels, Mapping) or len(labels) != 2:
            raise DeclarationError('a pair has two named attributes, such as {"sex": ["f", "m"], "age": range(5)}')
        if way is not None and way not in _WAYS:
            raise DeclarationError(f"{way!r} is not a way to report a pair; {nearest(str(way), _WAYS)}")
        claim, (first, second) = check_epsilon(epsilon), (check_labels(values) for values in labels.values())
        pair = best(range(len(first) * len(second)), epsilon=claim, respondents=respondents).protocol
        each = (GRR(first, epsilon=claim / 2), GRR(second, epsilon=claim / 2))
        spread = {"pair": pair.variance(share=0.0, n=respondents), "each": _product(each, respondents)}
        errors = {name: quantile(0.95) * math.sqrt(found) for name, found in spread.items()}
        chosen = way or min(_WAYS, key=lambda name: errors[name])
        names = tuple(labels)
        self._set(names=(names[0], names[1]), kept=(first, second), way=chosen, claim=claim, errors=errors)
        self._set(respondents=respondents, protocols=(pair,) if chosen == "pair" else each)

    @property
    def error(self) -> float:
        """The error of a rare pair's share that is not exceeded with 95% probability."""
        return self.errors[self.way]

    @property
    def why(self) -> str:
        """Why this way, in a sentence."""
        points = {name: round_up(100 * found, digits=2) for name, found in self.errors.items()}
        both = f"a rare pair within {points['pair']} points at 95% by a report of the pair, {points['each']} by one of each"
        return f"{self.way}: {both}, of {self.respondents:,} respondents"

    def perturb(self, answers: Mapping[str, Answers], rng: Rng) -> tuple[Reports, ...]:
        """Return one batch of reports of pairs, or one of each attribute, in the same order of respondents.

        Raises DeclarationError where a column is missing or of another length, or an answer is none of its labels.
        """
        if set(answers) != set(self.names):
            raise DeclarationError(f"answers must have exactly the columns {' and '.join(self.names)}")
        codes = [codes_of(answers[name], kept, missing=False) for name, kept in zip(self.names, self.kept, strict=True)]
        if codes[0].size != codes[1].size:
            raise DeclarationError("the columns of answers must be of the same length: one row a respondent")
        if self.way == "pair":
            return (self.protocols[0].perturb((codes[0] * len(self.kept[1]) + codes[1]).astype(np.int32), rng),)
        both = zip(self.protocols, codes, self.kept, strict=True)
        return tuple(made.perturb([kept[c] for c in column.tolist()], rng) for made, column, kept in both)

    def estimate(self, reports: tuple[Reports, ...]) -> PairEstimate:
        """Return the estimate of every pair's share; raises DeclarationError for other reports, or none."""
        if len(reports) != len(self.protocols) or len({len(batch) for batch in reports}) != 1:
            raise DeclarationError(f'reports must be what `perturb` returned in the way "{self.way}", all of them')
        shape = (len(self.kept[0]), len(self.kept[1]))
        if self.way == "pair":
            found = self.protocols[0].estimate(self.protocols[0].count(reports[0]))
            spread = found.errors(0.95) / quantile(0.95)
            return PairEstimate(
                self.names, self.kept, found.frequencies.reshape(shape), spread.reshape(shape), found.n, found
            )
        n = len(reports[0])
        if n == 0:
            raise DeclarationError("there are no reports yet: an estimate needs one or more")
        first, second = (own_numbers(batch, made) for batch, made in zip(reports, self.protocols, strict=True))
        cells = (
            np.bincount(first.astype(np.int64) * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape) / n
        )
        scales = [_scales(made) for made in self.protocols]
        shares, squares = (a @ cells @ b.T for a, b in zip(scales[0], scales[1], strict=True))
        deviations = np.sqrt(np.maximum(squares - shares**2, 0.0) / n)
        return PairEstimate(self.names, self.kept, shares, deviations, n)

    def __repr__(self) -> str:
        return f"<Pairs of {self.names[0]} and {self.names[1]}, epsilon {self.epsilon:g}: {self.why}>"


def _scales(protocol: Protocols) -> tuple[Any, Any]:
    """Return g(v) for each label (row) and report (column), and its square."""
    p, q = float(protocol.p), float(protocol.q)
    made = (np.eye(len(protocol.labels)) - q) / (p - q)
    return made, made**2


def _product(each: tuple[GRR, GRR], respondents: int) -> float:
    """Return the variance of a pair that nobody has, of labels that are each as common as level answers make them."""
    squares = []
    for made in each:
        p, q, share = float(made.p), float(made.q), 1 / len(made.labels)
        squares.append((share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2 + share)
    return squares[0] * squares[1] / respondents
