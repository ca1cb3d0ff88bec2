"""Several attributes of each respondent: split the budget over all answers, or the respondents over the attributes.

It sees public parameters to choose, and answers to randomise them; it may not know collectors, tasks or devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.local.collection_plan import best
from sordino.local.draws import uniform_int
from sordino.local.estimates.binomial import quantile
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.local.labels import Answers, Labels, codes_of
from sordino.local.protocols.randomizer import ClaimedLoss, Randomizer
from sordino.local.reports import Reports, SupportCounts
from sordino.local.thresholds import check_epsilon

_WAYS = ("users", "budget")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Attributes(ClaimedLoss):
    """Collect several attributes from the same respondents under one epsilon, in the way with less variance.

    Theorem: "users": each respondent answers one attribute, drawn uniformly and independently of the answers, at
    epsilon. "budget": each answers all d at epsilon / d, which adds up to epsilon (sequential composition). Both are
    epsilon-differentially private. `split` is chosen by the sum over attributes of the variance at a share
    f = 1 / k among all respondents: (V(epsilon) d + f (1 - f) (d - 1)) / n against V(epsilon / d) / n, V that of the best
    protocol. V grows faster than 1 / epsilon, so users win unless epsilon is so large that only the drawing is left.

    With "users" an estimate is of a random part of the respondents: for the share among all of them take
    `interval(.., about="population")`.

    Raises DeclarationError for no attribute, bad labels or epsilon, respondents below 1, or another split.

    Paper: Nguyen et al. 2016; Wang, Xiao, Yang et al. 2019, section IV, for splitting the respondents.

    >>> Attributes({"sex": ["f", "m"], "age": range(10)}, epsilon=1, respondents=1000).split
    'users'
    """

    protocols: Mapping[str, Randomizer]
    split: str
    claim: Fraction
    respondents: int
    errors: Mapping[str, tuple[float, float]]

    def __init__(
        self, labels: Mapping[str, Labels], *, epsilon: Number, respondents: int, split: str | None = None
    ) -> None:
        if not isinstance(labels, Mapping) or not labels:
            raise DeclarationError('attributes must be named, such as {"sex": ["f", "m"]}')
        if split is not None and split not in _WAYS:
            raise DeclarationError(f"{split!r} is not a way to split; {nearest(str(split), _WAYS)}")
        claim = check_epsilon(epsilon)
        d = len(labels)
        z = quantile(0.95)
        part = max(1, respondents // d) if isinstance(respondents, int) else respondents
        by_users = {name: best(values, epsilon=claim, respondents=part).protocol for name, values in labels.items()}
        by_budget = {
            name: best(values, epsilon=claim / d, respondents=respondents).protocol for name, values in labels.items()
        }
        spread = {
            name: (
                _noise(by_users[name]) * d / respondents + _sampling_variance(by_users[name]) * (d - 1) / respondents,
                _noise(by_budget[name]) / respondents,
            )
            for name in labels
        }
        totals = [sum(pair[i] for pair in spread.values()) for i in (0, 1)]
        way = split or _WAYS[totals[1] < totals[0]]
        errors = {name: (z * math.sqrt(a), z * math.sqrt(b)) for name, (a, b) in spread.items()}
        protocols = by_users if way == "users" else by_budget
        self._set(protocols=protocols, split=way, claim=claim, respondents=respondents, errors=errors)

    @property
    def why(self) -> str:
        """Why this split, in a sentence."""
        parts = [f"{n}: {100 * a:.2g} against {100 * b:.2g}" for n, (a, b) in self.errors.items()]
        return f"split the {self.split}; errors in points at 95%, users against budget: {', '.join(parts)}"

    def perturb(self, answers: Mapping[str, Answers], rng: Rng) -> dict[str, Reports]:
        """Return a batch of reports an attribute; answers are columns of the same length, one row a respondent.

        Raises DeclarationError where a column is missing or of another length, or an answer is none of its labels.
        """
        if set(answers) != set(self.protocols):
            raise DeclarationError(f"answers must have exactly the columns {', '.join(self.protocols)}")
        columns = {name: self._codes(name, answers[name]) for name in self.protocols}
        rows = {column.size for column in columns.values()}
        if len(rows) != 1:
            raise DeclarationError("the columns of answers must be of the same length: one row a respondent")
        n = rows.pop()
        turn = uniform_int(len(columns), n, rng) if self.split == "users" else np.zeros(n, dtype=np.uint32)
        reports = {}
        for i, (name, codes) in enumerate(columns.items()):
            assigned = codes[turn == i] if self.split == "users" else codes
            protocol = self.protocols[name]
            values = [None if c < 0 else protocol.labels[c] for c in assigned.tolist()]
            reports[name] = protocol.perturb(values, rng)
        return reports

    def count(self, reports: Mapping[str, Reports]) -> dict[str, SupportCounts]:
        """Return the support counts of each attribute."""
        return {name: self.protocols[name].count(batch) for name, batch in reports.items()}

    def estimate(self, counts: Mapping[str, SupportCounts]) -> dict[str, FrequencyEstimate]:
        """Return the estimate of each attribute."""
        return {name: self.protocols[name].estimate(supports) for name, supports in counts.items()}

    def _codes(self, name: str, column: Answers) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        protocol = self.protocols[name]
        free = protocol.kind in ("unary", "olh", "hadamard")
        try:
            return codes_of(column, protocol.labels, missing=free)
        except DeclarationError as error:
            raise DeclarationError(f"column {name!r}: {error}") from None

    def __repr__(self) -> str:
        return f"<Attributes {', '.join(self.protocols)}, epsilon {self.epsilon:g}: {self.why}>"


def _noise(protocol: Randomizer) -> float:
    """Return n times the variance of noise, at a share of 1 / k."""
    return protocol.variance(share=1 / len(protocol.labels), n=1)


def _sampling_variance(protocol: Randomizer) -> float:
    """Return n times the variance of drawing respondents, at a share of 1 / k."""
    return (1 - 1 / len(protocol.labels)) / len(protocol.labels)
