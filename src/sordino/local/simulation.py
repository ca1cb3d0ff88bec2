"""A collection simulated on known people: true counts, what the local model finds, and a trusted curator beside it.

NOT PRIVATE: it holds true counts, and says so wherever it shows. For learning and for choosing a protocol.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.local.collection_plan import best
from sordino.local.estimates.frequency import USUAL_MALICIOUS, FrequencyEstimate
from sordino.local.labels import Label, Labels, check_labels
from sordino.local.protocols.catalog import make_protocol
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.protocols.rappor import Rappor
from sordino.local.protocols.response import fair_coins
from sordino.local.protocols.unary import Unary

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
    protocol: Randomizer
    estimate: FrequencyEstimate
    mark: str = MARK

    @property
    def curator(self) -> DiscreteLaplace:
        """The law of a trusted curator's noise at the same epsilon: a histogram moves by 2 where an answer is replaced."""
        return DiscreteLaplace(Fraction(2) / self.protocol.claim)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the errors are, in sentences."""
        protocol = self.protocol
        n = self.estimate.n
        error = n * float(self.estimate.errors(0.95).max())
        central = self.curator.error(0.95)
        return (
            f"{_name_in_words(protocol)} at epsilon {protocol.epsilon:.5g}, "
            f"{protocol.width} byte{'s' * (protocol.width > 1)} a report: "
            f"each count within {error:,.0f} at 95%; a trusted curator's within {central:,.0f} at the same epsilon",
            protocol.estimator,
            f"1% of malicious clients could add {n * self.estimate.shift(USUAL_MALICIOUS)[0]:,.0f} to one count",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the simulation as JSON data, marked."""
        added, removed = self.estimate.shift(USUAL_MALICIOUS)
        n = self.estimate.n
        return {
            "schema": 1,
            "private": False,
            "mark": f"NOT PRIVATE: {self.mark}",
            "protocol": self.protocol.name,
            "parameters": self.protocol.parameters(),
            "n": n,
            "rows": [asdict(row) for row in self.rows],
            "malicious": {"share": USUAL_MALICIOUS, "add": n * added, "take": n * removed},
            "remarks": list(self.remarks),
        }


def pick_protocol(
    name: str,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    f: Number | None = None,
    p: Number | None = None,
    q: Number | None = None,
    respondents: int,
    malicious: float = 0.0,
) -> Randomizer:
    """Return a protocol by name: "best" of an epsilon, fair "coins", "unary" of p and q, "rappor" of f, p and q, or another.

    Raises DeclarationError where what the protocol needs is not stated, or something that it does not take is.

    >>> pick_protocol("unary", ["a", "b"], p="0.75", q="0.25", respondents=100).epsilon
    2.1972245773362196
    """
    checked = check_labels(labels)
    if name == "rappor":
        if f is None or p is None or q is None or epsilon is not None:
            raise DeclarationError(
                "rappor takes f, p and q, from which its epsilon follows, such as f=1/2, p=1/2, q=3/4 of its paper"
            )
        return Rappor(checked, f=f, p=p, q=q)
    if f is not None:
        raise DeclarationError("f is for the protocol rappor: it says how often a permanent bit is drawn")
    if name == "unary":
        if p is None or q is None or epsilon is not None:
            raise DeclarationError("unary takes p and q, from which its epsilon follows, such as p=0.75, q=0.25")
        return Unary(checked, p=p, q=q)
    if p is not None or q is not None:
        raise DeclarationError(f"p and q are for the protocol unary; those of {name} follow from epsilon")
    if name == "coins":
        coins = fair_coins(checked) if len(checked) == 2 else None
        stated = None if epsilon is None else float(to_fraction(epsilon, name="epsilon"))
        if coins is None or not (stated is None or math.isclose(stated, coins.epsilon, rel_tol=1e-3)):
            raise DeclarationError(
                "coins answer yes or no about one value (--value V), at epsilon ln 3: leave epsilon out"
            )
        return coins
    if epsilon is None:
        raise DeclarationError(f"{name} needs an epsilon: 0.5 to 2 is usual for the local model")
    if name == "best":
        return best(labels, epsilon=epsilon, respondents=respondents, malicious=malicious).protocol
    return make_protocol(name, labels, epsilon=epsilon)


def simulate_collection(
    answers: Sequence[Label], protocol: Randomizer, rng: Rng, *, subject: str = "answers"
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
    true_counts = Counter(answers)
    n = estimate.n
    labels = protocol.labels
    law = DiscreteLaplace(Fraction(2) / protocol.claim)
    central = [
        true_counts[label] + int(noise) for label, noise in zip(labels, law.sample(rng, size=len(labels)), strict=True)
    ]
    ends = estimate.interval(0.95).to_pydict()
    rows = tuple(
        SimulatedCount(
            "(missing)" if label is None else str(label),
            float(true_counts[label]),
            float(estimate.counts[i]),
            n * ends["lower"][i],
            n * ends["upper"][i],
            float(central[i]),
        )
        for i, label in enumerate(labels)
    )
    described = f"{subject} of {n:,} people by {_name_in_words(protocol)}, epsilon {protocol.epsilon:.4g}"
    return CollectionSimulation(described, rows, protocol, estimate)


def _name_in_words(protocol: Randomizer) -> str:
    """Return a protocol's name as a classroom knows it, beside that of the papers."""
    if protocol.name == "GRR" and len(protocol.labels) == 2:
        # Heads tells the truth, and of tails the second coin does so half of the time.
        return "two fair coins" if 4 * protocol.p == 3 else "randomized response (GRR)"
    if protocol.name in ("SUE", "OUE", "unary"):
        return "unary encoding" if protocol.name == "unary" else f"unary encoding ({protocol.name})"
    return protocol.name
