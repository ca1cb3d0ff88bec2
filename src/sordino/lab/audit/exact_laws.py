"""Audits without samples: whole laws of finitely many outputs, compared outcome by outcome. It knows probabilities alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.rounding import bisect
from sordino.lab.audit.verdict import Audit, Bar
from sordino.local.exactness import exact_epsilon
from sordino.local.protocols.randomizer import Channel

Chance = Fraction | float
_SUM = 1e-9
_MOST = 700.0


def audit_laws(
    here: Mapping[Any, Chance],
    there: Mapping[Any, Chance],
    *,
    epsilon: float,
    delta: float = 0.0,
    subject: str = "a law",
) -> Audit:
    """Compare the laws of one output on two neighbors: {output: probability}, Fractions or floats that sum to 1.

    Theorem: (epsilon, delta) holds on this pair if and only if, both ways, the sum of max(0, p - e^epsilon q) over the
    outputs is delta at most, which falls in epsilon. No event and no sample is chosen: nothing can be missed on this pair.

    >>> found = audit_laws({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}, epsilon=1)
    >>> round(found.least, 6), found.violated  # ln 3
    (1.098612, True)
    """
    for law in (here, there):
        if any(p < 0 for p in law.values()) or abs(float(sum(law.values())) - 1) > _SUM:
            raise DeclarationError("a law is {output: probability}, none below 0, that sum to 1")
    outputs = sorted({*here, *there}, key=str)
    pairs = [(float(here.get(o, 0)), float(there.get(o, 0))) for o in outputs]
    least = max(_epsilon(pairs, delta), _epsilon([(q, p) for p, q in pairs], delta))
    worst = max(outputs, key=lambda o: _ratio(float(here.get(o, 0)), float(there.get(o, 0))))
    bars = tuple(Bar(str(o), float(i), p, q) for i, (o, (p, q)) in enumerate(zip(outputs, pairs, strict=True)))
    words = f"the output is {worst}"
    return Audit(subject, float(epsilon), delta, least, math.inf, math.inf, words, (0, 0), 0, 0.0, None, bars)


def audit_protocol(protocol: Channel) -> Audit:
    """Compare the laws of a report of the local model under every pair of inputs with what the protocol claims.

    Exact: the probabilities are fractions over powers of 2^32, those that devices use.

    >>> from sordino import local
    >>> audit_protocol(local.GRR(["a", "b", "c"], epsilon=1)).violated
    False
    """
    least = exact_epsilon(protocol)
    claim = protocol.epsilon
    words = f"one report of {type(protocol).__name__}"
    return Audit(words, claim, 0.0, least, math.inf, math.inf, "any report", (0, 0), 0, 0.0, None)


def _ratio(p: float, q: float) -> float:
    return abs(math.log(p / q)) if p and q else (math.inf if p or q else 0.0)


def _epsilon(pairs: list[tuple[float, float]], delta: float) -> float:
    """Return the least epsilon with sum max(0, p - e^epsilon q) <= delta; infinity where there is none."""
    if not delta:
        return max((0.0, *(math.log(p / q) if q else math.inf for p, q in pairs if p)))

    def holds(epsilon: float) -> bool:
        return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs) <= delta

    if holds(0.0):
        return 0.0
    return bisect(holds, 0.0, _MOST, relative=1e-12)[1] if holds(_MOST) else math.inf
