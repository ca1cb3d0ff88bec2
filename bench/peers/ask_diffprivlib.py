"""diffprivlib's side of bench/peers/side_by_side.py: its tools over NumPy arrays. Neighbors differ in the cells of one row."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve

library: Any = import_module("diffprivlib")
mechanisms, tools = library.mechanisms, library.tools


class Diffprivlib:
    """`diffprivlib.tools`, with a `BudgetAccountant` where a budget is to hold."""

    NO: ClassVar = {"groups": "has histograms of numbers and no group-by of texts"}

    def open(self, opening: Opening) -> None:
        table = pq.read_table(opening.path)
        self.columns = {n: table[n].to_numpy() for n, bounds in opening.bounds.items() if bounds is not None}
        self.accountant = None  # its default never refuses
        if opening.releases is not None:
            self.accountant = library.BudgetAccountant(epsilon=opening.epsilon * opening.releases, delta=0)

    def count(self, question: Question) -> Answer:
        rows = self.columns[question.column] > question.lower
        return Answer(tools.count_nonzero(rows, epsilon=question.epsilon, accountant=self.accountant))

    def sum(self, question: Question) -> Answer:
        return self._bounded(tools.sum, question)

    def mean(self, question: Question) -> Answer:
        return self._bounded(tools.mean, question)

    def median(self, question: Question) -> Answer:
        return self._bounded(tools.median, question)

    def _bounded(self, tool: Any, question: Question) -> Answer:
        bounds = (question.lower, question.upper)
        cells = self.columns[question.column]
        return Answer(tool(cells, epsilon=question.epsilon, bounds=bounds, accountant=self.accountant))

    def draw(self, law: str, scale: float, size: int) -> str:
        """Draw one at a time: its mechanisms have no other way."""
        if law == "laplace":
            mechanism: Any = mechanisms.Geometric(epsilon=1 / scale, sensitivity=1)
        else:
            mechanism = mechanisms.GaussianDiscrete(epsilon=1 / scale, delta=1e-6, sensitivity=1)
        np.array([mechanism.randomise(0) for _ in range(size)])
        return "discrete"

    def compose(self, law: str, scale: float, times: int, delta: float) -> float:
        """Return the epsilon that its accountant states with a slack of delta (Kairouz, Oh, Viswanath 2015)."""
        if law != "laplace":
            raise NotImplementedError("knows a release by its epsilon and delta only")
        accountant = library.BudgetAccountant(slack=delta)
        for _ in range(times):
            accountant.spend(1 / scale, 0)
        return float(accountant.total()[0])


if __name__ == "__main__":
    serve(Diffprivlib)
