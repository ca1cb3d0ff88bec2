"""RAPPOR with a Bloom filter: h hashed bits a label in a short report, a permanent answer, fresh noise on it in each report.

It may not know where a permanent answer is kept, nor who counts reports. How bits become shares is in `regression`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.rng import Rng
from sordino.local.draws import bit_sums, bytes_for, pack_bernoulli, uniform_int
from sordino.local.estimates.regression import BloomEstimate
from sordino.local.labels import Answers, Label, Labels, canonical, check_labels, codes_of, labels_hash
from sordino.local.protocols.randomizer import LocalProtocol
from sordino.local.protocols.rappor import Rappor
from sordino.local.reports import (
    Parameters,
    Reports,
    Rows,
    SupportCounts,
    check_numbers,
    check_padding,
    count_support,
    numbers_of,
    own,
    rows_of,
)
from sordino.local.thresholds import float_up, log_up

# Cells of the matrix from labels to bits, to decode by.
_MOST_CELLS = 1 << 24
# Bytes of a report that name its cohort.
_HEAD = 2


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Bloom(LocalProtocol):
    """Randomise by RAPPOR with a Bloom filter: a label sets `hashes` of `bits` bits, which ones depends on the cohort.

    Each respondent draws a cohort once, uniformly; the cohort is public. The permanent bit keeps its value with probability
    1 - f / 2; the instantaneous bit is 1 with probability q where the permanent one is 1, with p where it is 0.

    Theorem: in one cohort two labels set h bits each, so they differ in 2 h bits at most, and the cohort does not depend on
    the label. All reports of one permanent answer reveal at most `lifetime_epsilon` = 2 h ln((1 - f/2) / (f/2)); a single
    one at most `epsilon` = h ln[s (1 - r) / (r (1 - s))], s = (1 - f/2) q + (f/2) p, r = (1 - f/2) p + (f/2) q. Both are
    computed from the thresholds.

    Use it where labels are so many that a bit a label is too long, and answers must be permanent. For the same epsilon a
    bit a label (`Rappor`, h = 1) has less variance, and for single answers hashing (`OLH`, `Hadamard`) has less still.
    The bits of label v in cohort c are the first h different numbers of SHA-256 of the canonical JSON [c, v, i], i = 0,
    1, ..., its first 4 bytes little-endian modulo `bits`. A report is the cohort in 2 bytes, little-endian, and the bits.

    Raises DeclarationError for fewer than 2 labels, repeated ones, f outside (0, 1), p not below q, or labels that bits
    times cohorts cannot distinguish.

    Paper: Erlingsson, Pihur, Korolova 2014, sections 2 to 4, theorems 1 and 2.

    >>> r = Bloom(["a", "b", "c"], f=0.5, p=0.25, q=0.75, bits=8, hashes=2, cohorts=4)
    >>> r.lifetime_epsilon
    4.394449154672439
    """

    labels: tuple[Label, ...]
    bit: Rappor
    bits: int
    hashes: int
    cohorts: int
    claim: Fraction

    def __init__(
        self, labels: Labels, *, f: Number, p: Number, q: Number, bits: int, hashes: int, cohorts: int
    ) -> None:
        self._fill(check_labels(labels), Rappor((False, True), f=f, p=p, q=q), bits, hashes, cohorts)

    @classmethod
    def from_parameters(cls, parameters: Parameters, labels: Labels) -> Bloom:
        """Return the protocol of these parameters; raises DeclarationError where labels or thresholds do not fit them."""
        protocol = object.__new__(cls)
        sizes = [parameters.get(n) for n in ("size", "hashes", "cohorts")]
        protocol._fill(check_labels(labels), Rappor.from_parameters(parameters, (False, True)), *sizes)
        return protocol

    def _fill(self, labels: tuple[Label, ...], bit: Rappor, bits: Any, hashes: Any, cohorts: Any) -> None:
        limits = (("bits", bits, 2, 1 << 12), ("hashes", hashes, 1, 16), ("cohorts", cohorts, 1, 1 << 10))
        for name, value, least, most in limits:
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise DeclarationError(f"{name} must be a whole number from {least} to {most:,}")
        if 2 * hashes > bits:
            raise DeclarationError(
                "bits must be at least twice the hashes: two labels must be able to differ in all of them"
            )
        if bits * cohorts < len(labels):
            rule = f"{len(labels)} labels need that many bits times cohorts, or more, to be distinguished"
            raise DeclarationError(f"{rule}; {bits} times {cohorts} is less")
        if bits * cohorts * len(labels) > _MOST_CELLS:
            raise DeclarationError("labels times bits times cohorts must be at most 2^24; use fewer bits or cohorts")
        claim = hashes * log_up(bit.p * (1 - bit.q) / ((1 - bit.p) * bit.q))
        self._set(labels=labels, bit=bit, bits=bits, hashes=hashes, cohorts=cohorts, claim=claim)

    name = "RAPPOR with a Bloom filter"
    kind = "bloom"
    number = 9

    @property
    def lifetime_epsilon(self) -> float:
        """What all reports of one permanent answer reveal together, at most."""
        return float_up(self.hashes * self.bit.permanent.claim)

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return _HEAD + bytes_for(self.bits)

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data: "keep" is the threshold of 1 - f/2."""
        return {
            **self.bit.parameters(),
            "kind": self.kind,
            "k": len(self.labels),
            "labels_hash": labels_hash(self.labels),
            "size": self.bits,
            "hashes": self.hashes,
            "cohorts": self.cohorts,
            "epsilon": format_number(self.claim),
        }

    def filters(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which bits each label sets in each cohort: cohorts by labels by bits."""
        out = np.zeros((self.cohorts, len(self.labels), self.bits), dtype=np.bool_)
        for cohort in range(self.cohorts):
            for number in range(len(self.labels)):
                out[cohort, number, list(_places(cohort, number, self.bits, self.hashes))] = True
        return out

    def permanent(self, answers: Answers, rng: Rng) -> Rows:
        """Return permanent answers, one an answer, as rows of cohort and noisy bits: to be kept on the device.

        A missing answer sets no bit before the noise. Raises DeclarationError where an answer is none of the labels.
        """
        codes = codes_of(answers, self.labels, missing=True)
        cohort = uniform_int(self.cohorts, codes.size, rng)
        packed = np.packbits(self.filters(), axis=2, bitorder="little")
        true = packed[cohort, np.maximum(codes, 0)]
        true[codes < 0] = 0
        keep = pack_bernoulli(self.bit.permanent.threshold_p, codes.size, self.bits, rng)
        set_ = pack_bernoulli(self.bit.permanent.threshold_q, codes.size, self.bits, rng)
        return np.hstack([rows_of(cohort, _HEAD), true & keep | ~true & set_])

    def report(self, permanent: Rows, rng: Rng) -> Reports:
        """Return one instantaneous report of each permanent answer, which `permanent` made."""
        self.check(permanent)
        bits = permanent[:, _HEAD:]
        ones, zeros = (pack_bernoulli(t, len(bits), self.bits, rng) for t in (self.bit.one, self.bit.zero))
        return Reports.of(self, np.hstack([permanent[:, :_HEAD], bits & ones | ~bits & zeros]))

    def perturb(self, answers: Answers, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer, both rounds at once: for respondents asked once."""
        return self.report(self.permanent(answers, rng), rng)

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row names a cohort that is none, or sets a padding bit."""
        check_numbers(rows[:, :_HEAD], self.cohorts, width=_HEAD, what="cohort")
        check_padding(rows, self.bits)

    def count(self, reports: Reports) -> SupportCounts:
        """Return, for each cohort, its reports and how many of them set each bit."""
        rows = own(reports, self)
        cohort = numbers_of(rows[:, :_HEAD], _HEAD)
        order = np.argsort(cohort, kind="stable")
        sizes = np.bincount(cohort, minlength=self.cohorts)
        parts = np.split(rows[order, _HEAD:], np.cumsum(sizes)[:-1])
        sums = [[int(size), *bit_sums(part, self.bits)] for size, part in zip(sizes, parts, strict=True)]
        return count_support(reports, [value for row in sums for value in row])

    def estimate(self, counts: SupportCounts) -> BloomEstimate:
        """Return the shares of the labels by least squares; raises DeclarationError for another task's counts, or too few."""
        self._check_counts(counts, differ="labels, filter or thresholds")
        table = np.array(counts.supports, dtype=np.float64).reshape(self.cohorts, 1 + self.bits)
        s = float(self.bit.p)
        r = float(self.bit.q)
        return BloomEstimate.fit(self.labels, self.filters(), table[:, 0], table[:, 1:], s=s, r=r)

    def inputs(self) -> Sequence[int | None]:
        """Return inputs that stand for every pair: two labels whose bits are all different, and none."""
        return (0, 1, None)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of one report within a cohort: one part a bit, for two labels that share no bit.

        Labels that share bits, as some do, differ in fewer; the cohort is uniform for every label.
        """
        laws: list[tuple[Fraction, ...]] = []
        for j in range(self.bits):
            is_set = value is not None and j // self.hashes == value
            chance = self.bit.p if is_set else self.bit.q
            laws.append((1 - chance, chance))
        return laws

    def __repr__(self) -> str:
        return (
            f"<Bloom of {len(self.labels)} labels, {self.hashes} of {self.bits} bits in {self.cohorts} cohorts, "
            f"epsilon {self.epsilon:.4g} a report, {self.lifetime_epsilon:.4g} for ever>"
        )


def _places(cohort: int, number: int, bits: int, hashes: int) -> set[int]:
    """Return the bits that a label sets in a cohort."""
    places: set[int] = set()
    turn = 0
    while len(places) < hashes:
        digest = hashlib.sha256(canonical([cohort, number, turn])).digest()
        places.add(int.from_bytes(digest[:4], "little") % bits)
        turn += 1
    return places
