"""Shares of labels from the bits of Bloom filters, by least squares: unbiased, with the variance of the fit.

It sees counts of bits in cohorts and the public filters: it may not know how reports are made. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.local.estimates.binomial import quantile, simultaneous_confidence
from sordino.local.estimates.frequency import USUAL_MALICIOUS, FrequencyTables, check_share
from sordino.local.labels import Label

if TYPE_CHECKING:
    import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BloomEstimate(FrequencyTables):
    """Hold what n reports of Bloom filters say about the share of each label: `.table`, `.interval(0.95)`, `.projected()`.

    Theorem: a bit of cohort c that n_c reports come from has the unbiased share y = (count / n_c - r) / (s - r), and
    E[y] = B f with B the filters. f = G y, G = (B' W B)^-1 B' W, W the cohorts' sizes, has G B = I, so it is unbiased. Given
    the sizes, cohorts are independent; a report of label u adds G_c b, of variance sum G^2 m (1 - m) / (s - r)^2, m the
    chances of its bits, and of mean (G_c B_c) u. The variance follows at the estimated shares, for a population; that of
    these respondents alone is at most that.
    """

    labels: tuple[Label, ...]
    frequencies: Floats
    deviations: Floats
    shifts: tuple[Floats, Floats]
    n: int

    @classmethod
    def fit(
        cls, labels: tuple[Label, ...], filters: Any, sizes: Floats, ones: Floats, *, s: float, r: float
    ) -> BloomEstimate:
        """Return the fit; `filters` are cohorts by labels by bits, `ones` counts of set bits by cohort.

        Raises DeclarationError where the cohorts that reports came from cannot distinguish the labels.
        """
        some = np.flatnonzero(sizes)
        cohorts = some.size
        bits = filters.shape[2]
        k = len(labels)
        design = filters[some].astype(np.float64).transpose(0, 2, 1).reshape(cohorts * bits, k)
        weight = np.repeat(np.sqrt(sizes[some]), bits)
        if np.linalg.matrix_rank(design * weight[:, None]) < k:
            raise DeclarationError(
                f"the reports of {cohorts} cohorts cannot distinguish {k} labels yet; more reports, bits or cohorts do"
            )
        gain = np.linalg.pinv(design * weight[:, None]) * weight
        shares = ((ones[some] / sizes[some, None] - r) / (s - r)).reshape(-1)
        fitted: Floats = gain @ shares
        plausible = np.clip(fitted, 0.0, 1.0)
        plausible /= max(1.0, float(plausible.sum()))
        return cls(
            labels,
            fitted,
            np.sqrt(_variances(gain, filters[some], sizes[some], plausible, s=s, r=r)),
            _shifts(gain, s=s, r=r),
            int(sizes.sum()),
        )

    @property
    def table(self) -> pa.Table:
        """An Arrow table: label, count, frequency, error (of the frequency, at 95%), lower, upper."""
        return self._table(*self._ends(0.95))

    def errors(self, confidence: float) -> Floats:
        """Return the error of each frequency that is not exceeded with probability `confidence`, about."""
        return quantile(confidence) * self.deviations

    def interval(
        self, confidence: float, *, malicious: float = USUAL_MALICIOUS, simultaneous: bool = False
    ) -> pa.Table:
        """Return an Arrow table: label, lower, upper, and what they become if a share of the respondents lie.

        `simultaneous`: all labels' intervals hold at once with that confidence, by Bonferroni; without it, each by itself.
        The malicious clients spread over the cohorts as honest respondents do; a pile in one cohort shows in the cohorts' sizes.
        Raises DeclarationError unless 0 < confidence < 1 and 0 <= malicious < 1.
        """
        share = check_share(malicious, name="malicious")
        if simultaneous:
            confidence = simultaneous_confidence(confidence, len(self.labels))
        return self._interval(*self._ends(confidence), share * self.shifts[0], share * self.shifts[1])

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return how much a share of malicious clients can add to a frequency, and take from one: of the label moved the most."""
        share = check_share(malicious, name="malicious")
        return share * float(self.shifts[0].max()), share * float(self.shifts[1].max())

    def _ends(self, confidence: float) -> tuple[Floats, Floats]:
        error = self.errors(confidence)
        return np.clip(self.frequencies - error, 0.0, 1.0), np.clip(self.frequencies + error, 0.0, 1.0)

    def __repr__(self) -> str:
        return self._describe("of Bloom filters")


def _variances(gain: Floats, filters: Any, sizes: Floats, held: Floats, *, s: float, r: float) -> Floats:
    """Return the variance of each label's share, given the cohorts' sizes, at the shares `held`."""
    k = gain.shape[0]
    bits = filters.shape[2]
    total = np.zeros(k)
    for c, size in enumerate(sizes):
        part = gain[:, c * bits : (c + 1) * bits]
        bits_set = filters[c].astype(np.float64)
        # Labels by bits.
        chance = r + (s - r) * bits_set
        coins = np.square(part) @ (held @ (chance * (1 - chance)) + (1 - held.sum()) * r * (1 - r))
        # The mean of each label's share, by the respondent's label.
        means = part @ bits_set.T
        total += (coins / (s - r) ** 2 + np.square(means) @ held - np.square(means @ held)) / size
    return total


def _shifts(gain: Floats, *, s: float, r: float) -> tuple[Floats, Floats]:
    """Return how much malicious clients, all of them, could add to each share and take from it."""
    high = gain * (1 - r) / (s - r)
    low = -gain * r / (s - r)
    return np.maximum(high, low).sum(axis=1), 1 - np.minimum(high, low).sum(axis=1)
