"""What every protocol of the local model does: parameters, reports from answers, support counts, an estimate.

It may not know any protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, runtime_checkable

from sordino.local.estimates.frequency import Estimate
from sordino.local.labels import Answers, Label
from sordino.local.reports import Parameters, Reports, SupportCounts
from sordino.loss import Event
from sordino.noise.rng import Rng

__all__ = ["Channel", "Randomizer"]


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
