"""The plan of an adaptive run: its words, its event and what its session counts in. Knows no data, runs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from sordino.accounting.composition import charge_amounts
from sordino.accounting.events import GaussianEvent, LaplaceEvent
from sordino.accounting.zcdp import rho_for
from sordino.curator.data_access import Answer, Rows
from sordino.errors import QuestionRefused
from sordino.loss import ZCDP, ApproxDP, Event, Loss, PureDP, loss_from
from sordino.noise.rng import Rng
from sordino.primitives import Primitives

__all__ = ["AdaptivePlan", "adaptive_plan"]


@dataclass(frozen=True, slots=True)
class AdaptivePlan:
    """An adaptive run as the ledger sees it: one event for the whole; `inner` is the loss that its session counts."""

    words: str
    table_name: str
    event: Event
    cost: Loss
    inner: Loss
    declaration: str

    def sentence(self) -> str:
        """Return what is run, in words."""
        return self.words

    def identity(self) -> str:
        """Return canonical text of the table and the algorithm."""
        return json.dumps([self.table_name, "adaptive", self.words])

    def check(self, words: Callable[[], Primitives]) -> None:
        """Do nothing: each question is checked as it comes."""
        del words

    def released(self, rows: Rows, rng: Rng) -> Answer:
        """Raise QuestionRefused: an adaptive run is started by `adapt`, not asked."""
        del rows, rng
        raise QuestionRefused("an adaptive run is started by its own call, such as find_bounds")


def adaptive_plan(words: str, *, table_name: str, asked: Loss, cap: Loss, declaration: str) -> AdaptivePlan:
    """Return the plan: epsilon is counted as sums of epsilon, rho as sums of rho, (epsilon, delta) as the rho it pays for.

    Theorem: rho-zCDP implies (epsilon, delta) for the rho of `rho_for` (Bun & Steinke 2016, with the conversion of Canonne,
    Kamath, Steinke 2020), and sums of rho under a cap hold for fully adaptive questions (Whitehouse, Ramdas, Rogers, Wu
    2023), so one event with that certificate stands for the whole run.
    """
    event: Event
    if isinstance(asked, PureDP):
        inner: Loss = asked
        event = LaplaceEvent(asked.epsilon)
    elif isinstance(asked, ApproxDP):
        rho = rho_for(asked.epsilon, asked.delta)
        inner = ZCDP(rho)
        event = GaussianEvent(rho, (asked.epsilon, asked.delta))
    else:
        inner = ZCDP(asked.rho)
        event = GaussianEvent(asked.rho)
    amounts = charge_amounts(event, cap)
    cost = loss_from(amounts, delta=cap.delta if isinstance(cap, ZCDP) else None)
    return AdaptivePlan(words, table_name, event, cost, inner, declaration)
