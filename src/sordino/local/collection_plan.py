"""Planning a collection: the protocol with the narrowest intervals, malicious clients counted in or not; respondents needed.

It sees public parameters only: labels, epsilon, numbers of respondents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Number, round_up, to_fraction
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.local.estimates.binomial import quantile
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.local.labels import Answers, Label, Labels, check_labels
from sordino.local.protocols.catalog import MAKERS, make_protocol
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.reports import Parameters, Reports, Rows, SupportCounts
from sordino.local.shuffle import Shuffled, TwoLevels, shuffled
from sordino.local.thresholds import check_epsilon

if TYPE_CHECKING:
    import pyarrow as pa

# The relative difference of errors below which protocols are as good.
_TIE = 1e-6
# The relative difference below which shorter reports win: 1% more respondents make up for it.
_NEAR = 0.005
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a protocol with the error of a rare label's share at 95%, what malicious ones add, and the bytes of a report."""

    protocol: Randomizer
    error: float
    shift: float
    # What candidates are compared by.
    score: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", self.error + self.shift)

    @property
    def name(self) -> str:
        """The protocol's name."""
        return self.protocol.name


@dataclass(frozen=True, slots=True, repr=False)
class ProtocolChoice:
    """Hold the protocol chosen, `.why`, the `.error` its intervals will have, and all `.candidates`; use it like one."""

    protocol: Randomizer
    respondents: int
    malicious: float
    candidates: tuple[Candidate, ...]

    @property
    def error(self) -> float:
        """The error of a rare label's share that is not exceeded with 95% probability: half its interval."""
        return self._own.error

    @property
    def why(self) -> str:
        """Why this protocol, in a sentence."""
        own = self._own
        least = min(self.candidates, key=attrgetter("score"))
        others = [c for c in self.candidates if c.protocol != self.protocol]
        next_ = min(others, key=attrgetter("score")) if own.score <= (1 + _TIE) * least.score else least
        gain = 1 - own.score / next_.score
        less = f"{100 * gain:.0f}% less than {next_.name}"
        if gain < -_TIE:
            wider = f"as narrow as {next_.name} to within {round_up(-100 * gain, digits=1)}%"
            return self._describe(f"{wider}, which needs {next_.protocol.width:,} bytes")
        if not self.malicious:
            less = f"{100 * gain:.0f}% narrower ({100 * (2 * gain - gain**2):.0f}% less variance) than {next_.name}"
        beside = f"as narrow as {next_.name}" if gain < _TIE else less
        return self._describe(beside)

    def _describe(self, beside: str) -> str:
        score = round_up(100 * self._own.score, digits=2)
        weighed = f", {score} with what {100 * self.malicious:g}% malicious clients can add" if self.malicious else ""
        bytes_ = f"{self.protocol.width} byte{'s' if self.protocol.width > 1 else ''}"
        return (
            f"{self.protocol.name}: of {self.respondents:,} respondents, a rare label's share is within "
            f"{round_up(100 * self.error, digits=2)} points at 95%{weighed}, {beside}; {bytes_} a report; "
            f"1% malicious clients could add {round_up(100 * self.protocol.shift(0.01)[0], digits=2)} "
            "points"
        )

    @property
    def table(self) -> pa.Table:
        """An Arrow table of the candidates, best first: protocol, error, shift (by the malicious clients weighed), bytes."""
        import pyarrow as pa

        ranked = sorted(self.candidates, key=attrgetter("score"))
        return pa.table(
            {
                "protocol": [c.name for c in ranked],
                "error": [c.error for c in ranked],
                "shift": [c.shift for c in ranked],
                "bytes": [c.protocol.width for c in ranked],
            }
        )

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels."""
        return self.protocol.labels

    @property
    def epsilon(self) -> float:
        """What one report reveals at most."""
        return self.protocol.epsilon

    @property
    def event(self) -> Event:
        """What one report costs its respondent."""
        return self.protocol.event

    @property
    def p(self) -> Fraction:
        """The probability that a report supports the respondent's own label."""
        return self.protocol.p

    @property
    def q(self) -> Fraction:
        """The probability that a report supports another label."""
        return self.protocol.q

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return self.protocol.width

    @property
    def number(self) -> int:
        """The protocol's number in the wire format."""
        return self.protocol.number

    def parameters(self) -> Parameters:
        """Return the protocol's public parameters."""
        return self.protocol.parameters()

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is no report of the protocol."""
        self.protocol.check(rows)

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer; see the protocol's own `perturb`."""
        return self.protocol.perturb(answers, rng)

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label."""
        return self.protocol.count(reports)

    def estimate(self, counts: SupportCounts) -> FrequencyEstimate:
        """Return the unbiased estimate of each label's share."""
        return self.protocol.estimate(counts)

    def inputs(self) -> Sequence[int | None]:
        """Return the protocol's inputs that stand for every pair."""
        return self.protocol.inputs()

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of the protocol."""
        return self.protocol.channel(value)

    @property
    def _own(self) -> Candidate:
        return next(c for c in self.candidates if c.protocol == self.protocol)

    def __repr__(self) -> str:
        return f"<Choice {self.why}>"


@dataclass(frozen=True, slots=True)
class Needed:
    """Hold how many respondents reach a margin: in the local model by its best protocol, and under a trusted curator."""

    local: int
    protocol: str
    curator: int
    margin: float
    confidence: float

    @property
    def advice(self) -> str:
        """When not to use the local model, in a sentence."""
        return (
            f"{self.local:,} respondents by {self.protocol}, {self.curator:,} for a trusted curator with the same "
            f"epsilon: if people trust someone with their answers, or fewer than {self.local:,} will answer, do not use "
            "the local model"
        )


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """Hold what is public about a collection: the protocol chosen, the respondents needed, and the amplified epsilon."""

    choice: ProtocolChoice
    needed: Needed
    shuffled: Shuffled | None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        needed = {name: getattr(self.needed, name) for name in ("margin", "confidence", "local", "protocol", "curator")}
        mixed = self.shuffled
        return {
            "schema": 1,
            "best": self.choice.protocol.name,
            "why": self.choice.why,
            "error": self.choice.error,
            "candidates": self.choice.table.to_pylist(),
            "needed": {**needed, "advice": self.needed.advice},
            "parameters": self.choice.parameters(),
            "shuffled": None
            if mixed is None
            else {name: getattr(mixed, name) for name in ("epsilon", "delta", "closed_form", "condition")},
        }


def plan_collection(
    labels: Labels,
    *,
    epsilon: Number,
    respondents: int,
    margin: float = 0.01,
    malicious: float = 0.0,
    shuffle_delta: Number | None = None,
) -> CollectionPlan:
    """Return all that `sordino local plan` prints: `best`, `respondents_needed` for `margin`, and `shuffled` for a delta.

    It sees public parameters only. Raises DeclarationError as those do.

    >>> plan_collection(range(14), epsilon=1, respondents=100_000).choice.protocol.name
    'subset selection'
    """
    protocols = candidates(labels, epsilon=epsilon)
    choice = _choose(protocols, respondents, malicious)
    needed = _find_needed(protocols, check_epsilon(epsilon), margin, _CONFIDENCE)
    mixed = None
    if shuffle_delta is not None:
        protocol = choice.protocol if isinstance(choice.protocol, TwoLevels) else None
        mixed = shuffled(epsilon, respondents, shuffle_delta, protocol=protocol)
    return CollectionPlan(choice, needed, mixed)


def candidates(labels: Labels, *, epsilon: Number) -> tuple[Randomizer, ...]:
    """Return every protocol for labels at one epsilon, the simplest first."""
    checked = check_labels(labels)
    return tuple(dict.fromkeys(make_protocol(name, checked, epsilon=epsilon) for name in MAKERS))


def best(labels: Labels, *, epsilon: Number, respondents: int, malicious: float = 0.0) -> ProtocolChoice:
    """Return the protocol whose intervals for a rare label are narrowest; within half a percent, the shortest reports win.

    Of every registered protocol of labels and an epsilon, by the exact variance at share 0; ties go to the simpler. Where
    `malicious` is above 0, what that share of respondents can add by lying counts as error.

    Raises DeclarationError for labels or an epsilon that no protocol takes, or respondents below 1.

    Paper: Wang, Blocki, Li, Jha 2017 (choice by variance); Cheu, Smith, Ullman 2021 (malicious clients).

    >>> [best(range(k), epsilon=1, respondents=1000).protocol.name for k in (2, 128, 1024)]
    ['GRR', 'subset selection', 'OLH']
    """
    return _choose(candidates(labels, epsilon=epsilon), respondents, malicious)


def _choose(protocols: Sequence[Randomizer], respondents: int, malicious: float) -> ProtocolChoice:
    if isinstance(respondents, bool) or not isinstance(respondents, int) or respondents < 1:
        raise DeclarationError("respondents must be a whole number, 1 or more")
    z = quantile(_CONFIDENCE)
    rated = tuple(
        Candidate(m, z * math.sqrt(m.variance(share=0.0, n=respondents)), m.shift(malicious)[0]) for m in protocols
    )
    least = min(c.score for c in rated)
    near = [c for c in rated if c.score <= least * (1 + _NEAR)]
    tied = min(near, key=lambda c: (c.protocol.width, c.score))
    most = tied.score * (1 + _TIE)
    narrowest = next(c for c in near if c.protocol.width == tied.protocol.width and c.score <= most)
    return ProtocolChoice(narrowest.protocol, respondents, malicious, rated)


def respondents_needed(labels: Labels, *, epsilon: Number, margin: float, confidence: float = _CONFIDENCE) -> Needed:
    """Return how many respondents put a rare label's share within `margin` with probability `confidence`.

    Local: z^2 V / margin^2, V the variance of one report of the best protocol. A trusted curator adds discrete Laplace
    noise of scale 1 / epsilon to a count (add_remove), whose error is a whole number of respondents.

    Raises DeclarationError for labels or an epsilon that no protocol takes, or a margin outside (0, 1).

    >>> respondents_needed(range(14), epsilon=1, margin=0.01).local
    117357
    """
    return _find_needed(candidates(labels, epsilon=epsilon), check_epsilon(epsilon), margin, confidence)


def _find_needed(protocols: Sequence[Randomizer], epsilon: Fraction, margin: float, confidence: float) -> Needed:
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 < margin < 1:
        raise DeclarationError("margin must be a share such as 0.01 (one percentage point), between 0 and 1")
    z = quantile(confidence)
    choice = _choose(protocols, 1, 0.0)
    one = choice.protocol.variance(share=0.0, n=1)
    trusted = DiscreteLaplace(1 / epsilon).error(confidence)
    people = max(1, math.ceil(trusted / to_fraction(margin, name="margin")))
    return Needed(math.ceil(z * z * one / margin**2), choice.protocol.name, people, margin, confidence)
