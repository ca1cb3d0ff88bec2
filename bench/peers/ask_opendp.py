"""OpenDP's side of bench/peers/side_by_side.py: its Context over a Polars frame in memory, as its documentation asks tables."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl
from peers.peer_process import Answer, Opening, Question, serve

dp: Any = import_module("opendp.prelude")
dp.enable_features("contrib")


class OpenDP:
    """A Context whose loss is divided evenly over as many questions as the budget holds."""

    def open(self, opening: Opening) -> None:
        self.frame, self.opening = pl.read_parquet(opening.path), opening
        self.context: Any = None
        self.left = 0

    def _query(self) -> Any:
        """Return a query of a context; where no budget is stated, of a new one after 50: to make one of many takes minutes."""
        if self.context is None or (self.left == 0 and self.opening.releases is None):
            self.left = self.opening.releases or 50
            self.context = self._context(dp.loss_of(epsilon=self.opening.epsilon * self.left), self.left)
        self.left -= 1
        return self.context.query()

    def _context(self, loss: Any, questions: int) -> Any:
        most = 2 * max(self.frame.height, 1000)  # a public ceiling of rows
        margins = [dp.polars.Margin(by=[], max_length=most)]
        margins += [dp.polars.Margin(by=[n], max_length=most) for n, b in self.opening.bounds.items() if b is None]
        return dp.Context.compositor(
            data=self.frame.lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=loss,
            split_evenly_over=questions,
            margins=margins,
        )

    def count(self, question: Question) -> Answer:
        query = self._query().filter(pl.col(question.column) > question.lower).select(dp.len())
        return self._one(query)

    def sum(self, question: Question) -> Answer:
        query = self._query().select(self._cells(question).dp.sum(bounds=self._bounds(question)))
        return self._one(query)

    def mean(self, question: Question) -> Answer:
        total = self._cells(question).dp.sum(bounds=self._bounds(question))
        found = self._query().select(total, dp.len()).release().collect()
        return Answer(found[question.column].item() / max(found["len"].item(), 1))

    def median(self, question: Question) -> Answer:
        candidates = [self._typed(question, x) for x in range(int(question.lower), int(question.upper) + 1)]
        query = self._query().select(self._cells(question).dp.median(candidates=candidates))
        return Answer(query.release().collect().item())

    def groups(self, question: Question) -> Answer:
        if question.keys is None:  # a context whose loss has a delta, for its threshold
            context = self._context(dp.loss_of(epsilon=question.epsilon, delta=question.delta), 1)
            query = context.query().group_by(question.column).agg(dp.len())
        else:
            keys = pl.LazyFrame({question.column: list(question.keys)})
            query = self._query().group_by(question.column).agg(dp.len()).with_keys(keys)
        released = query.release().collect()
        found = dict(zip(released[question.column].to_list(), released["len"].to_list(), strict=True))

        def interval() -> tuple[dict[str, float], dict[str, float]]:
            error = query.summarize(alpha=0.05)["accuracy"][0]
            return {k: n - error for k, n in found.items()}, {k: n + error for k, n in found.items()}

        return Answer(found, interval)

    def _cells(self, question: Question) -> Any:
        cells = pl.col(question.column)
        if self.frame.schema[question.column].is_float():
            cells = cells.fill_nan(question.lower)
        return cells.fill_null(self._typed(question, question.lower))

    def _bounds(self, question: Question) -> tuple[Any, Any]:
        return self._typed(question, question.lower), self._typed(question, question.upper)

    def _typed(self, question: Question, number: float) -> float | int:
        return float(number) if self.frame.schema[question.column].is_float() else int(number)

    def _one(self, query: Any) -> Answer:
        value = query.release().collect().item()

        def interval() -> tuple[float, float]:
            error = query.summarize(alpha=0.05)["accuracy"][0]
            return value - error, value + error

        return Answer(value, interval)

    def draw(self, law: str, scale: float, size: int) -> str:
        space = (
            dp.vector_domain(dp.atom_domain(T=dp.i64)),
            dp.l1_distance(T=int) if law == "laplace" else dp.l2_distance(T=float),
        )
        noise = dp.m.make_laplace(*space, scale=scale) if law == "laplace" else dp.m.make_gaussian(*space, scale=scale)
        noise([0] * size)
        return "discrete, exact"


if __name__ == "__main__":
    serve(OpenDP)
