"""A collection simulated on known people: true counts, what the local model finds, and a trusted curator beside it.

NOT PRIVATE: it holds true counts, and says so wherever it shows. For learning and for choosing a protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sordino.local.estimates.frequency import USUAL_MALICIOUS, FrequencyEstimate
from sordino.local.labels import Label
from sordino.local.protocols.catalog import Protocols
from sordino.noise.laws import DiscreteLaplace
from sordino.noise.rng import Rng

__all__ = ["CollectionSimulation", "SimulatedCount", "simulate_collection"]

MARK = "true values of known people are shown"


@dataclass(frozen=True, slots=True)
class SimulatedCount:
    """Hold how many people hold a label: in truth, by the local model with its 95% interval, and by a curator."""

    label: str
    true: float
    estimate: float
    lower: float
    upper: float
    curator: float


@dataclass(frozen=True, slots=True)
class CollectionSimulation:
    """Hold a simulated collection, a `SimulatedCount` a label; `mark` says why it is NOT PRIVATE. `sd.plot` draws it."""

    subject: str
    rows: Sequence[SimulatedCount]
    protocol: Protocols
    estimate: FrequencyEstimate
    mark: str = MARK

    @property
    def curator(self) -> DiscreteLaplace:
        """The law of a trusted curator's noise at the same epsilon: a histogram moves by 2 where an answer is replaced."""
        return DiscreteLaplace(Fraction(2) / self.protocol.claim)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the errors are, in sentences."""
        made, n = self.protocol, self.estimate.n
        error, central = n * float(self.estimate.errors(0.95).max()), self.curator.error(0.95)
        return (
            f"{made.name} at epsilon {made.epsilon:.4g}, {made.width} bytes a report: each count within {error:,.0f} at "
            f"95%; a trusted curator's within {central:,.0f} at the same epsilon",
            f"1% of malicious clients could add {n * self.estimate.shift(USUAL_MALICIOUS)[0]:,.0f} to one count",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the simulation as JSON data, marked."""
        added, taken = self.estimate.shift(USUAL_MALICIOUS)
        n = self.estimate.n
        return {
            "schema": 1,
            "private": False,
            "mark": f"NOT PRIVATE: {self.mark}",
            "protocol": self.protocol.name,
            "parameters": self.protocol.parameters(),
            "n": n,
            "rows": [asdict(row) for row in self.rows],
            "malicious": {"share": USUAL_MALICIOUS, "add": n * added, "take": n * taken},
            "remarks": list(self.remarks),
        }


def simulate_collection(
    answers: Sequence[Label], protocol: Protocols, rng: Rng, *, subject: str = "answers"
) -> CollectionSimulation:
    """Return what a collection by `protocol` would find out about these known answers, with the truth beside it.

    NOT PRIVATE: it counts the answers. A trusted curator adds discrete Laplace noise at the same epsilon, by replacement
    of one answer. Raises DeclarationError where an answer is none of the protocol's labels, or there is none.

    >>> from sordino.local.protocols.response import GRR
    >>> found = simulate_collection(["a"] * 300 + ["b"] * 100, GRR(["a", "b"], epsilon=2), Rng.seeded(1))
    >>> found.rows[0].true, round(found.rows[0].estimate), found.rows[0].curator
    (300.0, 310, 301.0)
    """
    estimate = protocol.estimate(protocol.count(protocol.perturb(answers, rng)))
    held, n = Counter(answers), estimate.n
    labels = protocol.labels
    law = DiscreteLaplace(Fraction(2) / protocol.claim)
    central = [held[label] + int(noise) for label, noise in zip(labels, law.sample(rng, size=len(labels)), strict=True)]
    ends = estimate.interval(0.95).to_pydict()
    rows = tuple(
        SimulatedCount(
            "(missing)" if label is None else str(label),
            float(held[label]),
            float(estimate.counts[i]),
            n * ends["lower"][i],
            n * ends["upper"][i],
            float(central[i]),
        )
        for i, label in enumerate(labels)
    )
    described = f"{subject} of {n:,} people by {protocol.name}, epsilon {protocol.epsilon:.4g}"
    return CollectionSimulation(described, rows, protocol, estimate)
