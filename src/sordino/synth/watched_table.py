"""What may be seen while a table is modelled: the stage and the time, never rows.

A stage follows from the kind of question that an algorithm asks, which follows from released numbers: it shows no data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from sordino.ask.queries.queryable import Draws, Queryable, ReleaseContent
from sordino.core.loss import Loss, LossArguments, show_arguments
from sordino.core.release import Release

T = TypeVar("T")
Show = Callable[[str], None]


class Stages:
    """Hold which stage is on, and how long all took."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._began = time.monotonic()
        self.entered: list[str] = []

    def enter(self, stage: str) -> None:
        """Show that a stage has begun."""
        if not self.entered or self.entered[-1] != stage:
            self.entered.append(stage)
            self._show(stage)

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return time.monotonic() - self._began


class WatchedTable:
    """A curator's table whose adaptive runs are watched: each question of the algorithm names a stage."""

    def __init__(self, source: Any, watch: Stages) -> None:
        self._source = source
        self._watch = watch
        self.domain = source.domain
        self.neighbors = source.neighbors
        self.plan = source.plan

    @property
    def remaining(self) -> Loss:
        """What is left of the budget."""
        left: Loss = self._source.remaining
        return left

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Run the algorithm on the table, its Queryable watched."""
        self._watch.enter("charging the budget")
        ran: tuple[T, Release] = self._source.adapt(
            lambda data: algorithm(_WatchedQueryable(data, self._watch)),
            describe=describe,
            record=record,
            **loss,
            draws=draws,
        )
        return ran


class _WatchedQueryable:
    """A Queryable that shows what it is asked."""

    def __init__(self, data: Queryable, watch: Stages) -> None:
        self._data = data
        self._watch = watch
        self.domain = data.domain
        self.neighbors = data.neighbors
        self.loss = data.loss
        self.select = data.select
        self.above = data.above

    def release(self, query: Any, loss: Loss) -> Release:
        """Return the answer, the stage named before, and the model's own work after it."""
        self._watch.enter(_stage(query))
        release = self._data.release(query, loss)
        self._watch.enter("fitting the model")
        return release


def _stage(query: Any) -> str:
    tables = getattr(query, "tables", ())
    ways = max((len(t.axes) for t in tables), default=0)
    if hasattr(query, "models") or type(query).__name__ == "Distances":
        return f"asking how far {len(tables)} tables lie from the model"
    what = {1: "columns", 2: "pairs of columns"}.get(ways, "sets of columns")
    return f"asking for the counts of {len(tables)} {what}" if tables else "asking the table"
