"""How an adaptive run is charged: one event for the whole, counted inside as sums. Knows no data, runs nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.ask.curator.data_access import Answer, DataAccess
from sordino.ask.curator.plan import UNKNOWN_ROWS, Plan, PlannedColumn, Procedure, TableContext, price
from sordino.ask.queries.queryable import Draws
from sordino.core.accounting.events import ApproxEvent, GaussianEvent, LaplaceEvent
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import QuestionRefused
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP
from sordino.core.noise.rng import Rng


@dataclass(frozen=True, slots=True)
class AdaptiveQuestion:
    """What an adaptive run does, in words."""

    words: str

    def describe(self) -> str:
        """Return the words."""
        return self.words

    def identity(self) -> str:
        """Return canonical text of the run."""
        return json.dumps(["adaptive", self.words])


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveProcedure(Procedure):
    """Hold the event of a whole run; `inner` is the loss that its session counts. Its columns are not known beforehand.

    Where `smooth`, the session counts the rho of Gaussian DP: it draws Gaussian noise for vectors, and nothing else. Where
    `inner` is a pair, it counts epsilon until a question asks for rho (`AdaptiveSession`).
    """

    inner: Loss
    smooth: bool = False

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return none."""
        del confidence
        return []

    def write(self, rows: DataAccess) -> None:
        """Write nothing: each question is written as it comes."""
        del rows

    def release(self, statements: None, rows: DataAccess, rng: Rng) -> Answer:
        """Raise QuestionRefused: an adaptive run is started by its own call."""
        del statements, rows, rng
        raise QuestionRefused("an adaptive run is started by its own call, such as find_bounds")


def plan_adaptive(words: str, table: TableContext, *, asked: Loss, draws: Draws = "any") -> Plan:
    """Return the plan: epsilon is counted as sums of epsilon, rho as sums of rho, (epsilon, delta) as the rho it pays for.

    Theorem: rho-zCDP implies (epsilon, delta) for the rho of `rho_for` (Bun & Steinke 2016, with the conversion of Canonne,
    Kamath, Steinke 2020), and sums of rho under a cap hold for fully adaptive questions (Whitehouse, Ramdas, Rogers, Wu
    2023), so one event with that certificate stands for the whole run. Where all draws are vectors, (epsilon, delta) buys
    the larger rho of Gaussian DP, whose sums hold likewise (Smith & Thakurta 2022; Koskela, Tobaben, Honkela 2022).

    A run that `draws` "either" is charged the pair itself, of which no rho follows; under a cap on rho it draws "vectors".
    """
    smooth = None
    if draws == "either" and isinstance(asked, ApproxDP) and asked.delta > 0 and not isinstance(table.cap, ZCDP):
        event: Event = ApproxEvent(asked.epsilon, asked.delta)
        inner: Loss = asked
    else:
        smooth = vectors_rho_for(asked.epsilon, asked.delta) if isinstance(asked, ApproxDP) and draws != "any" else None
        event, inner = adaptive_event(asked, smooth)
    procedure = AdaptiveProcedure(
        question=AdaptiveQuestion(words),
        event=event,
        rows=UNKNOWN_ROWS,
        notes=table.neighbors.describe_caps(),
        inner=inner,
        smooth=smooth is not None,
    )
    return price(procedure, table, asked=asked)


def adaptive_event(asked: Loss, smooth: Fraction | None = None) -> tuple[Event, Loss]:
    """Return the event of an adaptive run, and the loss that is counted inside it; `smooth` is the rho of Gaussian DP."""
    if isinstance(asked, PureDP):
        return LaplaceEvent(asked.epsilon), asked
    if isinstance(asked, ApproxDP):
        rho = rho_for(asked.epsilon, asked.delta) if smooth is None else smooth
        return GaussianEvent(rho, (asked.epsilon, asked.delta)), ZCDP(rho)
    return GaussianEvent(asked.rho), ZCDP(asked.rho)
