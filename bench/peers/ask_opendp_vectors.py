"""OpenDP's side of bench/peers/side_by_side.py by its framework: transformations and measurements over vectors.

The scale of each measurement is that of the sensitivity that its own map states, so that nothing is searched for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve

dp: Any = import_module("opendp.prelude")
dp.enable_features("contrib", "idealized-numerics")


class OpenDPVectors:
    """Measurements over one column, as its documentation chains them."""

    NO: ClassVar = {
        "median": "asked through its Context",
        "mean": "wants the exact number of rows for a mean of a vector",
    }

    def open(self, opening: Opening) -> None:
        table = pq.read_table(opening.path)
        self.columns = {n: table[n].to_numpy(zero_copy_only=False).copy() for n in table.column_names}
        self.texts = {n: table[n].to_pylist() for n, bounds in opening.bounds.items() if bounds is None}

    def count(self, question: Question) -> Answer:
        cells = self.columns[question.column]
        return self._release(self._space(cells) >> dp.t.then_count(), cells[cells > question.lower], question)

    def sum(self, question: Question) -> Answer:
        """Return a sum; of floats nan is imputed, and a public ceiling of rows is stated, as its map of rounding wants."""
        cells = self.columns[question.column]
        if cells.dtype.kind == "f":
            lower, upper = float(question.lower), float(question.upper)
            filled = self._space(cells) >> dp.t.then_impute_constant(lower) >> dp.t.then_clamp((lower, upper))
            summed = filled >> dp.t.make_bounded_float_checked_sum(2 * max(len(cells), 1000), (lower, upper))
        else:
            bounds = int(question.lower), int(question.upper)
            summed = self._space(cells) >> dp.t.then_clamp(bounds) >> dp.t.then_sum()
        return self._release(summed, cells, question)

    def _space(self, cells: Any) -> tuple[Any, Any]:
        cell = dp.atom_domain(T=dp.f64, nan=True) if cells.dtype.kind == "f" else dp.atom_domain(T=dp.i64)
        return dp.vector_domain(cell), dp.symmetric_distance()

    def groups(self, question: Question) -> Answer:
        if question.keys is None:
            raise NotImplementedError("asked through its Context")
        space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
        counts = space >> dp.t.then_count_by_categories(categories=list(question.keys), null_category=False)
        keys, found = question.keys, self._release(counts, self.texts[question.column], question).value
        error = dp.discrete_laplacian_scale_to_accuracy(counts.map(d_in=1) / question.epsilon, alpha=0.05)

        def interval() -> tuple[dict[str, float], dict[str, float]]:
            low, high = ({k: n + move for k, n in zip(keys, found, strict=True)} for move in (-error, error))
            return low, high

        return Answer(dict(zip(keys, found, strict=True)), interval)

    def _release(self, query: Any, cells: Any, question: Question) -> Answer:
        scale = query.map(d_in=1) / question.epsilon
        value = (query >> dp.m.then_laplace(scale=scale))(cells)
        discrete = isinstance(value, int)

        def interval() -> tuple[float, float]:
            error = (dp.laplacian_scale_to_accuracy, dp.discrete_laplacian_scale_to_accuracy)[discrete](
                scale, alpha=0.05
            )
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

    def compose(self, law: str, scale: float, times: int, delta: float) -> float:
        """Return the epsilon of as many releases of a sum whose sensitivity is 1, by its own composition."""
        if law == "laplace":
            space = dp.atom_domain(T=dp.i64), dp.absolute_distance(T=int)
            return float(dp.c.make_composition([dp.m.make_laplace(*space, scale=scale)] * times).map(1))
        space = dp.atom_domain(T=dp.i64), dp.absolute_distance(T=float)
        together = dp.c.make_composition([dp.m.make_gaussian(*space, scale=scale)] * times)
        return float(dp.c.make_zCDP_to_approxDP(together).map(1.0).epsilon(delta))


if __name__ == "__main__":
    serve(OpenDPVectors)
