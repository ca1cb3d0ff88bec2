"""What every protocol of the local model does: parameters, reports from answers, support counts, an estimate.

It may not know any protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from sordino.accounting.events import LaplaceEvent
from sordino.errors import DeclarationError
from sordino.local.estimates.frequency import Estimate, Supports, estimate_frequencies
from sordino.local.labels import Answers, Label, labels_hash
from sordino.local.reports import Parameters, Reports, SupportCounts, parameters_hash
from sordino.local.thresholds import BITS, float_up
from sordino.loss import Event, format_number
from sordino.noise.rng import Rng

__all__ = ["Channel", "FrequencyOracle", "LocalProtocol", "Randomizer"]


@runtime_checkable
class Randomizer(Protocol):
    """A protocol for one label a respondent: frozen public parameters, no state."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels."""

    @property
    def epsilon(self) -> float:
        """What one report may reveal at most."""

    @property
    def event(self) -> Event:
        """What one report costs its respondent."""

    @property
    def p(self) -> Fraction:
        """P(a report supports the respondent's own label)."""

    @property
    def q(self) -> Fraction:
        """P(a report supports another label)."""

    @property
    def width(self) -> int:
        """Bytes of one report."""

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer."""

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label."""

    def estimate(self, counts: SupportCounts) -> Estimate:
        """Return the unbiased estimate of each label's share."""


class Channel(Protocol):
    """Something whose reports have a law that can be written down: what `exact_epsilon` needs."""

    @property
    def epsilon(self) -> float:
        """What one report may reveal at most."""

    def inputs(self) -> Sequence[int | None]:
        """Return inputs enough to stand, by symmetry, for every pair of inputs."""

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of this input: independent parts, the probabilities of the outputs of each."""


class LocalProtocol(ABC):
    """What every protocol has alike, of labels or of numbers: its claim, its event, and counts that are its own.

    A protocol is a frozen record of public parameters and the epsilon that it claims.
    """

    __slots__ = ()

    kind: ClassVar[str]
    claim: Fraction

    @abstractmethod
    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""

    @property
    def epsilon(self) -> float:
        """What one report reveals at most."""
        return float_up(self.claim)

    @property
    def event(self) -> LaplaceEvent:
        """What one report costs its respondent."""
        return LaplaceEvent(self.claim)

    def _check_counts(self, counts: SupportCounts, *, differ: str) -> None:
        """Raise DeclarationError for another task's counts, or for none; `differ` names what distinguishes tasks."""
        if counts.task != parameters_hash(self.parameters()):
            raise DeclarationError(f"these counts belong to another task: its {differ} differ")
        if counts.n == 0:
            raise DeclarationError("there are no reports yet: an estimate needs one or more")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class FrequencyOracle(LocalProtocol):
    """What every protocol for one label a respondent has alike: its parameters and its estimate.

    It adds labels, thresholds, p, q, its reports and their counts.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """The labels."""

    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are the protocol's own."""
        return {}

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""
        return {
            "kind": self.kind,
            "k": len(self.labels),
            "labels_hash": labels_hash(self.labels),
            "bits": BITS,
            **self.thresholds(),
            "epsilon": format_number(self.claim),
        }

    def estimate(self, counts: SupportCounts) -> Estimate:
        """Return the unbiased estimate of each label's share, with its intervals."""
        return estimate_frequencies(cast(Supports, self), counts)
