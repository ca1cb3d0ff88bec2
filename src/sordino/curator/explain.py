"""What a release reveals at most, in a sentence that a person without mathematics can hold on to."""

from __future__ import annotations

import math

from sordino.accounting.zcdp import epsilon_of
from sordino.loss import ApproxDP, PureDP
from sordino.release import Release
from sordino.risk.hypotheses import power_bound

__all__ = ["explain"]

_TOLD_AT = 1e-6  # the delta at which a rho without a target of its own is told as an epsilon


def explain(release: Release) -> str:
    """Return what someone can learn at most about one unit from this release, from even odds before.

    Someone who knew everything else, and held a guess about one unit at prior odds o, holds it afterwards at odds
    between o e^-epsilon and o e^epsilon (Dwork & McSherry; Kasiviswanathan & Smith 2014); with a delta, but for that chance.
    Power: Wasserman & Zhou 2010; Kairouz, Oh, Viswanath 2015.
    """
    cost = release.cost
    if isinstance(cost, PureDP):
        epsilon, but = float(cost.epsilon), ""
    elif isinstance(cost, ApproxDP):
        epsilon, delta = float(cost.epsilon), float(cost.delta)
        but = f", but for a chance of {delta:g}" if delta else ""
    else:
        delta = _TOLD_AT if cost.delta is None else float(cost.delta)
        epsilon, but = epsilon_of(cost.rho, delta), f", but for a chance of {delta:g}"
    most = 1.0 / (1.0 + math.exp(-epsilon))
    one = release.privacy_unit == "one row"
    unit = "a given row" if one else release.privacy_unit.replace("of one", "of a given")
    state = "in the table" if release.neighbors == "add_remove" else "this or that"
    question = f"Charge {release.charge} told {release.question}, at {cost.describe()}."
    claim = (
        f"Whoever knew everything else, and thought it as likely as not that {unit} {'is' if one else 'are'} {state}, "
        f"can be at most {100 * most:.4g}% sure afterwards (at least {100 * (1 - most):.4g}%){but}."
    )
    delta = float(cost.delta) if isinstance(cost, ApproxDP) else 0.0 if isinstance(cost, PureDP) else delta
    power = power_bound(epsilon, level=0.05, delta=delta)
    juror = (
        f"No test of that with 5% false alarms detects it more than {100 * power:.4g}% of the time, and no event becomes more "
        f"than {math.exp(min(epsilon, 700)):.4g} times as likely{but}."
    )
    seal = "" if release.private else " NOT PRIVATE: its noise was seeded."
    return f"{question} {claim} {juror}{seal}"
