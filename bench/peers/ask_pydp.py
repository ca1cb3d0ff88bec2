"""PyDP's side of bench/peers/side_by_side.py: Google's algorithms over lists, as its documentation feeds them."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve
from pydp.algorithms import laplacian, numerical_mechanisms


class PyDP:
    """One algorithm object a release: its result can be had once."""

    NO: ClassVar = {"groups": "has no group-by"}

    def open(self, opening: Opening) -> None:
        table = pq.read_table(opening.path)
        numbers = [n for n, bounds in opening.bounds.items() if bounds is not None]
        self.columns = {n: table[n].to_numpy() for n in numbers}
        self.cells = {n: column.tolist() for n, column in self.columns.items()}

    def count(self, question: Question) -> Answer:
        column = self.columns[question.column]
        cells = column[column > question.lower].tolist()
        return self._release(laplacian.Count(epsilon=question.epsilon, dtype=self._type(question)), cells)

    def sum(self, question: Question) -> Answer:
        return self._bounded(laplacian.BoundedSum, question)

    def mean(self, question: Question) -> Answer:
        return self._bounded(laplacian.BoundedMean, question)

    def median(self, question: Question) -> Answer:
        return self._bounded(laplacian.Median, question)

    def _bounded(self, algorithm: Any, question: Question) -> Answer:
        kind = self._type(question)
        number = float if kind == "float" else int
        bounds = {"lower_bound": number(question.lower), "upper_bound": number(question.upper)}
        return self._release(algorithm(epsilon=question.epsilon, dtype=kind, **bounds), self.cells[question.column])

    def _type(self, question: Question) -> str:
        return "float" if self.columns[question.column].dtype.kind == "f" else "int64"

    def _release(self, algorithm: Any, cells: list[Any]) -> Answer:
        """Return a result without its error: `noise_confidence_interval` of 1.1.5 raises TypeError in its own wrapper."""
        return Answer(algorithm.quick_result(cells))

    def draw(self, law: str, scale: float, size: int) -> str:
        """Draw one at a time: its mechanisms have no other way."""
        if law == "laplace":
            mechanism: Any = numerical_mechanisms.LaplaceMechanism(epsilon=1 / scale, sensitivity=1.0)
        else:
            mechanism = numerical_mechanisms.GaussianMechanism(epsilon=1 / scale, delta=1e-6, sensitivity=1.0)
        for _ in range(size):
            mechanism.add_noise(0)
        return "whole numbers, on a grid"


if __name__ == "__main__":
    serve(PyDP)
