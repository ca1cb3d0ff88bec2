"""SmartNoise SQL's side of bench/peers/side_by_side.py: SQL over a pandas frame, as its documentation opens one.

Its epsilon is that of a column of the answer, of which an average has several; so that the same loss is compared, the epsilon
of a query is divided by what `get_privacy_cost` states for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import pandas as pd
from peers.peer_process import Answer, Opening, Question, serve

snsql: Any = import_module("snsql")


class SmartNoiseSQL:
    """A private reader for each epsilon of a query."""

    NO: ClassVar = {"median": "has no median or other quantile"}

    def open(self, opening: Opening) -> None:
        self.frame = pd.read_parquet(opening.path)
        facts: dict[str, Any] = {"row_privacy": True, "rows": len(self.frame)}
        for name, bounds in opening.bounds.items():
            if bounds is None:
                facts[name] = {"type": "string"}
            else:
                whole = self.frame[name].dtype.kind == "i"
                number = int if whole else float
                facts[name] = {
                    "type": "int" if whole else "float",
                    "lower": number(bounds[0]),
                    "upper": number(bounds[1]),
                }
        self.metadata = {"": {"PUBLIC": {"people": facts}}}
        self.readers: dict[tuple[str, float], Any] = {}

    def count(self, question: Question) -> Answer:
        return self._one(
            f"SELECT COUNT(*) AS n FROM PUBLIC.people WHERE {question.column} > {question.lower:g}", question
        )

    def sum(self, question: Question) -> Answer:
        return self._one(f"SELECT SUM({question.column}) AS n FROM PUBLIC.people", question)

    def mean(self, question: Question) -> Answer:
        return self._one(f"SELECT AVG({question.column}) AS n FROM PUBLIC.people", question, stated=False)

    def groups(self, question: Question) -> Answer:
        """Return counts; its keys come from the table, above a threshold, so that the declared ones are not used."""
        query = f"SELECT {question.column}, COUNT(*) AS n FROM PUBLIC.people GROUP BY {question.column}"
        reader = self._reader(query, question)
        found = dict(reader.execute(query)[1:])

        def interval() -> tuple[dict[str, float], dict[str, float]]:
            error = reader.get_simple_accuracy(query, alpha=0.05)[1]
            return {k: n - error for k, n in found.items()}, {k: n + error for k, n in found.items()}

        return Answer(found, interval)

    def _one(self, query: str, question: Question, *, stated: bool = True) -> Answer:
        reader = self._reader(query, question)
        value = reader.execute(query)[1][0]
        if not stated:
            return Answer(value)

        def interval() -> tuple[float, float]:
            error = reader.get_simple_accuracy(query, alpha=0.05)[0]
            return value - error, value + error

        return Answer(value, interval)

    def _reader(self, query: str, question: Question) -> Any:
        if (query, question.epsilon) not in self.readers:
            whole = self._read(question.epsilon, question.delta)
            cost = whole.get_privacy_cost(query)[0]
            self.readers[query, question.epsilon] = self._read(question.epsilon**2 / cost, question.delta)
        return self.readers[query, question.epsilon]

    def _read(self, epsilon: float, delta: float) -> Any:
        privacy = snsql.Privacy(epsilon=epsilon, delta=delta or 1e-6)
        return snsql.from_df(self.frame, privacy=privacy, metadata=self.metadata)

    def compose(self, law: str, scale: float, times: int, delta: float) -> float:
        """Return the epsilon that its odometer states."""
        if law != "laplace":
            raise NotImplementedError("knows a release by its epsilon and delta only")
        odometer = import_module("snsql.sql.odometer").OdometerHeterogeneous(
            snsql.Privacy(epsilon=1 / scale, delta=delta)
        )
        for _ in range(times):
            odometer.spend(snsql.Privacy(epsilon=1 / scale, delta=0.0))
        return float(odometer.spent[0])


if __name__ == "__main__":
    serve(SmartNoiseSQL)
