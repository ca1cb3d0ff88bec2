"""What every protocol of the local model does: parameters, reports from answers, support counts, an estimate.

It may not know any protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from sordino.core.accounting.events import LaplaceEvent
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.local.estimates.frequency import FrequencyEstimate, shift_of, variance
from sordino.local.labels import Answers, Label, Labels, check_labels, codes_of, labels_hash
from sordino.local.reports import Parameters, Reports, Rows, SupportCounts, parameters_hash
from sordino.local.thresholds import BITS, FULL, check_threshold, float_up, log_up

_TOO_NEAR = "epsilon is too small, or p and q too near, for thresholds of 32 bits"


@runtime_checkable
class Randomizer(Protocol):
    """A protocol for one label a respondent: frozen public parameters, no state. Its class has `from_parameters` too."""

    @property
    def kind(self) -> str:
        """The name under which its parameters are read again."""

    @property
    def number(self) -> int:
        """Its number in the wire format of reports."""

    @property
    def name(self) -> str:
        """Its name for people."""

    @property
    def claim(self) -> Fraction:
        """What one report may reveal at most, exactly."""

    @property
    def estimator(self) -> str:
        """How reports become an estimate, in a sentence."""

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

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is no report of the protocol."""

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer."""

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports support each label."""

    def estimate(self, counts: SupportCounts) -> FrequencyEstimate:
        """Return the unbiased estimate of each label's share."""

    def variance(self, *, share: float, n: int) -> float:
        """Return the variance of the estimated share of a label that this share of n respondents have."""

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return what a share of malicious clients can add to an estimated share, and take from it, on average."""

    def inputs(self) -> Sequence[int | None]:
        """Return inputs enough to stand, by symmetry, for every pair of inputs."""

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of this input: independent parts, the probabilities of the outputs of each."""


@runtime_checkable
class DeviceRandomizer(Protocol):
    """A protocol that a person's device can answer, each report made from 32-bit words alike in every language."""

    on_device: bool

    def perturb_words(self, value: int | None, words: Iterable[int], /) -> bytes:
        """Return the report of label number `value` (None: missing, where `inputs` has None) made from 32-bit words."""

    def inputs(self) -> Sequence[int | None]:
        """Return inputs enough to stand, by symmetry, for every pair of inputs."""


class Channel(Protocol):
    """Something whose reports have a law that can be written down: what `exact_epsilon` needs."""

    @property
    def epsilon(self) -> float:
        """What one report may reveal at most."""

    def inputs(self) -> Sequence[int | None]:
        """Return inputs enough to stand, by symmetry, for every pair of inputs."""

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of this input: independent parts, the probabilities of the outputs of each."""


class ClaimedLoss:
    """A frozen record that claims an epsilon: what a respondent's report, or all reports together, reveal at most."""

    __slots__ = ()

    claim: Fraction

    @property
    def epsilon(self) -> float:
        """What a respondent reveals at most."""
        return float_up(self.claim)

    @property
    def event(self) -> LaplaceEvent:
        """What it costs the respondent."""
        return LaplaceEvent(self.claim)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class LocalProtocol(ClaimedLoss, ABC):
    """What every protocol has alike, of labels or of numbers: its claim, its event, and counts that are its own."""

    __slots__ = ()

    # Number 10 was that of a protocol that is gone, and is not given out again.
    @property
    @abstractmethod
    def number(self) -> int:
        """The protocol's number in the wire format of reports."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name under which the protocol's parameters are read again."""

    @abstractmethod
    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""

    def _check_counts(self, counts: SupportCounts, *, differ: str) -> None:
        """Raise DeclarationError for another task's counts, or for none; `differ` names what distinguishes tasks."""
        if isinstance(counts, Reports):
            raise DeclarationError(
                "an estimate is made of counts, not of reports: protocol.estimate(protocol.count(reports))"
            )
        if counts.task != parameters_hash(self.parameters()):
            raise DeclarationError(f"these counts belong to another task: its {differ} differ")
        if counts.n == 0:
            raise DeclarationError("there are no reports yet: an estimate needs one or more")


class FrequencyOracle(LocalProtocol):
    """What every protocol for one label a respondent has alike: its parameters and its estimate.

    It adds labels, thresholds, p, q, its reports and their counts.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """The labels."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The protocol's name."""

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """The probability that a report supports the respondent's own label."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """The probability that a report supports a label that is not the respondent's."""

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

    def encode(self, answers: Answers) -> Rows:
        """Return each answer one-hot, before any coin: a row of 0s with a 1 at its label, no 1 where it is missing.

        This is the respondent's secret, shown for learning; `perturb` makes what may leave a device.

        Raises DeclarationError where an answer is none of the labels.
        """
        codes = codes_of(answers, self.labels, missing=True)
        rows = np.zeros((codes.size, len(self.labels)), dtype=np.uint8)
        present = np.flatnonzero(codes >= 0)
        rows[present, codes[present]] = 1
        return rows

    def estimate(self, counts: SupportCounts) -> FrequencyEstimate:
        """Return the unbiased estimate of each label's share, with its intervals.

        Raises DeclarationError for another task's counts, or for none.
        """
        self._check_counts(counts, differ="labels, thresholds or epsilon")
        if len(counts.supports) != len(self.labels) or counts.n < 0:
            raise DeclarationError(f"counts must hold {len(self.labels)} supports, one a label")
        return FrequencyEstimate(self.labels, counts.supports, counts.n, self.p, self.q, self.name)

    @property
    def estimator(self) -> str:
        """How reports become an estimate, in a sentence."""
        return (
            f"a report supports the respondent's own answer with probability p = {float(self.p):.4g}, any other with q = "
            f"{float(self.q):.4g}; the estimate is (reports - n q) / (p - q)"
        )

    def variance(self, *, share: float, n: int) -> float:
        """Return the variance of the estimated share of a label that this share of n respondents have."""
        return variance(self.p, self.q, share=share, n=n)

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return what a share of malicious clients can add to an estimated share, and take from it, on average."""
        return shift_of(self.p, self.q, malicious)

    def _number(self, value: int | None) -> int:
        """Return the number of a label; raises DeclarationError for a missing answer."""
        if value is None:
            raise DeclarationError(f"{self.name} has no report for a missing answer but that of a label of its own")
        return value


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ThresholdOracle(FrequencyOracle):
    """A protocol that is a record of labels, whole thresholds of 32 bits and sizes, checked whoever states them.

    A subclass adds the fields of its thresholds, which `stated` lists by their names in `parameters` (by default one
    threshold T with p = T / 2^32), and of a size, if it has one. No record is made that reveals more than its claim.

    A report supports the respondent's own label with probability `p`, another one with probability `q`.
    """

    stated: ClassVar[Mapping[str, str]] = MappingProxyType({"p": "threshold"})
    size_field: ClassVar[str | None] = None

    labels: tuple[Label, ...]
    claim: Fraction
    p: Fraction
    q: Fraction

    @classmethod
    def from_parameters(cls, parameters: Parameters, labels: Labels) -> Self:
        """Return the protocol of these parameters; raises DeclarationError where labels or thresholds do not fit them."""
        kept = check_labels(labels)
        fields = {field: check_threshold(parameters.get(name), name=name) for name, field in cls.stated.items()}
        if cls.size_field is not None:
            fields[cls.size_field] = cls._check_size(parameters.get(cls.size_field), len(kept))
        return cls._make(kept, to_fraction(str(parameters.get("epsilon")), name="epsilon"), **fields)

    @classmethod
    def _check_size(cls, value: object, k: int) -> int:
        """Return the size of a subset or hash that was read from outside, for k labels."""
        raise DeclarationError(f"the protocol {cls.kind} has no size: not {value!r} for {k} labels")

    @classmethod
    def _make(cls, labels: tuple[Label, ...], claim: Fraction, **fields: int) -> Self:
        made = object.__new__(cls)
        made._fill(labels, claim, **fields)
        return made

    def _fill(self, labels: tuple[Label, ...], claim: Fraction, **fields: int) -> None:
        self._set(labels=labels, claim=claim, p=Fraction(fields[self.stated["p"]], FULL), **fields)
        q, ratio = self._odds(self.p)
        self._set(q=q)
        if self.p <= q:
            raise DeclarationError(f"p must be above q: {_TOO_NEAR}")
        if log_up(ratio, digits=40) > claim:
            raise DeclarationError(f"p and q give an epsilon above the stated {format_number(claim)}")

    @abstractmethod
    def _odds(self, p: Fraction) -> tuple[Fraction, Fraction]:
        """Return q, and the largest factor between the probabilities of a report under two labels."""

    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are the protocol's own: "p" and "q" are thresholds."""
        sizes = {} if self.size_field is None else {self.size_field: getattr(self, self.size_field)}
        return sizes | {name: getattr(self, field) for name, field in self.stated.items()}

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self.labels)} labels, epsilon {format_number(self.claim)}>"
