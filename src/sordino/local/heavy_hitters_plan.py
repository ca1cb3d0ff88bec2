"""Heavy hitters beforehand: which shares will be found with what chance, and a collection simulated on known texts.

Plans see public parameters only. Simulations are NOT PRIVATE, and say so wherever they show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, round_up
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect, bisect_whole
from sordino.local.estimates.binomial import quantile, simultaneous_confidence
from sordino.local.estimates.frequency import shift_of, variance
from sordino.local.estimates.prefix_tree import CANDIDATES, HeavyHittersEstimate
from sordino.local.labels import Labels
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.simulation import MARK

_CONFIDENCE = 0.95
_LIKELY = 0.9
_MOST_PEOPLE = 1 << 40


@dataclass(frozen=True, slots=True)
class HeavyHittersPlan:
    """Hold what is public about a search for frequent texts: the protocol, its error, and what it finds."""

    protocol: HeavyHitters
    respondents: int

    @property
    def group(self) -> int:
        """How many respondents a group has, about."""
        return max(1, self.respondents // self.protocol.groups)

    @property
    def bits(self) -> int:
        """Bits of one report."""
        return 8 * self.protocol.width

    @property
    def error(self) -> float:
        """The error of a rare text's share that none of the candidates exceeds with 95% probability."""
        return quantile(simultaneous_confidence(_CONFIDENCE, CANDIDATES)) * self._deviation(0.0)

    def chance(self, share: float) -> float:
        """Return the probability, about, that a text of this share is found.

        In each group its prefix must be among the candidates that go on: of C others, which nobody has, half of the
        candidates pass z deviations with C P(Z > z) = candidates / 2. In the last, its estimate must pass the error.
        Groups are independent. What other texts add to the prefix is left out, so it may be more.
        """
        chance = 1.0
        depth = 0
        parents = 1
        for level in self.protocol.levels[:-1]:
            others = parents * self.protocol.g ** (level - depth)
            tail = min(0.5, CANDIDATES / 2 / others)
            chance *= self._passes(share, -NormalDist().inv_cdf(tail) if others > CANDIDATES else -math.inf)
            depth = level
            parents = CANDIDATES
        return chance * self._passes(share, self.error / self._deviation(0.0))

    def share(self, chance: float = _LIKELY) -> float | None:
        """Return the least share that is found with this probability; None where not even one of all respondents is.

        Raises DeclarationError unless 0 < chance < 1.
        """
        if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 < chance < 1:
            raise DeclarationError("chance must lie between 0 and 1, such as 0.9")
        if self.chance(1.0) < chance:
            return None
        return bisect(lambda share: self.chance(share) >= chance, 0.0, 1.0, relative=1e-6)[1]

    def respondents_needed(self, share: float, *, chance: float = _LIKELY) -> int:
        """Return how many respondents find a text of this share with this probability."""
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise DeclarationError("share must be above 0 and at most 1, such as 0.01")
        return bisect_whole(lambda n: HeavyHittersPlan(self.protocol, n).chance(share) >= chance, 0, _MOST_PEOPLE)

    @property
    def lines(self) -> dict[str, str]:
        """What the plan says, by heading."""
        protocol = self.protocol
        least = self.share()
        most = self.share(0.5)
        finds = "too few: not even a text that all of them have is found with a chance of 90%"
        if least is not None and most is not None:
            one, half = (round_up(100 * share, digits=2) for share in (least, most))
            finds = f"a text of {one}% of the respondents with a chance of 90%, of {half}% with 50%"
        added = round_up(100 * shift_of(protocol.p, protocol.q, 0.01)[0], digits=2)
        return {
            "people": f"{self.respondents:,}, each of whom reports once, in one of {protocol.groups} groups drawn at random",
            "report": f"{self.bits} bits, epsilon {format_number(protocol.claim)} a person",
            "finds": finds,
            "error": f"a share is within {round_up(100 * self.error, digits=2)} points at 95%, all texts found together",
            "needed": f"{self.respondents_needed(0.01):,} respondents find a text of 1% with a chance of 90%",
            "malicious": f"1% malicious clients could add {added} points",
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "schema": 1,
            "respondents": self.respondents,
            "groups": self.protocol.groups,
            "bits": self.bits,
            "epsilon": format_number(self.protocol.claim),
            "error": self.error,
            "share_found": {"0.5": self.share(0.5), "0.9": self.share(0.9), "0.99": self.share(0.99)},
            "needed": {"share": 0.01, "chance": _LIKELY, "respondents": self.respondents_needed(0.01)},
            "parameters": self.protocol.parameters(),
        }

    def _passes(self, share: float, deviations: float) -> float:
        return NormalDist().cdf((share - deviations * self._deviation(0.0)) / self._deviation(share))

    def _deviation(self, share: float) -> float:
        return math.sqrt(variance(self.protocol.p, self.protocol.q, share=share, n=self.group, about="population"))


@dataclass(frozen=True, slots=True)
class HeavyHittersSimulation:
    """Hold a simulated search on known texts: rows of texts found or frequent; `mark` says why it is NOT PRIVATE."""

    estimate: HeavyHittersEstimate
    true: Sequence[tuple[str, int]]
    missed: Sequence[tuple[str, int]]
    mark: str = MARK

    def to_dict(self) -> dict[str, Any]:
        """Return the simulation as JSON data, marked."""
        counts = dict(self.true)
        rows = [{**row, "true": counts[row["label"]]} for row in self.estimate.table.to_pylist()]
        missed = [{"label": label, "true": count} for label, count in self.missed]
        mark = f"NOT PRIVATE: {self.mark}"
        return {"schema": 1, "private": False, "mark": mark, "n": self.estimate.n, "rows": rows, "missed": missed}


def plan_heavy_hitters(alphabet: Labels | str, *, length: int, epsilon: Number, respondents: int) -> HeavyHittersPlan:
    """Return what a search for frequent texts would find, before anyone is asked; it sees public parameters only.

    Raises DeclarationError as `HeavyHitters`, and for respondents below 1.

    >>> plan = plan_heavy_hitters("abcdefghijklmnopqrstuvwxyz", length=10, epsilon=2, respondents=1_000_000)
    >>> plan.bits, round(plan.error, 4), round(plan.share(0.9), 4)
    (72, 0.0057, 0.01)
    """
    if isinstance(respondents, bool) or not isinstance(respondents, int) or respondents < 1:
        raise DeclarationError("respondents must be a whole number, 1 or more")
    return HeavyHittersPlan(HeavyHitters(alphabet, length=length, epsilon=epsilon), respondents)


def simulate_heavy_hitters(answers: Sequence[str | None], protocol: HeavyHitters, rng: Rng) -> HeavyHittersSimulation:
    """Return what a search by `protocol` would find among these known texts, with the truth beside it.

    `missed` are texts more frequent than the least found (or the first ten). NOT PRIVATE: it counts the answers. Raises
    DeclarationError where `protocol` is no HeavyHitters.
    """
    if not isinstance(protocol, HeavyHitters):
        raise DeclarationError("must be a local.HeavyHitters; the answers come before it", key="protocol")
    estimate = protocol.find(protocol.perturb(answers, rng))
    true_counts = Counter(text for text in answers if protocol.texts.encode(text) is not None)
    values = estimate.values
    least = min((true_counts[str(text)] for text in values), default=0)
    missed = [(str(text), count) for text, count in true_counts.most_common(10 + len(values)) if text not in values]
    return HeavyHittersSimulation(
        estimate,
        [(text, true_counts[text]) for text in values],
        [(text, count) for text, count in missed if count > least][:10],
    )
