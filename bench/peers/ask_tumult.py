"""Tumult Analytics' side of bench/peers/side_by_side.py: a Session on Spark in local mode, its frame cached."""

from __future__ import annotations

import tempfile
from typing import Any

from peers.peer_process import Answer, Opening, Question, serve
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, ApproxDPBudget, KeySet, PureDPBudget, QueryBuilder, Session


class Tumult:
    """A session whose budget is infinite where none is to hold."""

    THREADS = True  # its work and noise are those of Java threads and of Python workers that Spark starts

    def __init__(self) -> None:
        builder: Any = SparkSession.builder
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "6g"}
        settings["spark.sql.warehouse.dir"] = tempfile.mkdtemp()  # it keeps tables there while it answers
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.master("local[2]").getOrCreate()

    def open(self, opening: Opening) -> None:
        self.opening = opening
        self.frame = self.spark.read.parquet(opening.path).cache()
        self.frame.count()
        total = float("inf") if opening.releases is None else opening.epsilon * opening.releases
        self.session = self._open(PureDPBudget(total))

    def _open(self, budget: Any) -> Any:
        return Session.from_dataframe(
            privacy_budget=budget, source_id="people", dataframe=self.frame, protected_change=AddOneRow()
        )

    def count(self, question: Question) -> Answer:
        return self._one(QueryBuilder("people").filter(f"{question.column} > {question.lower:g}").count(), question)

    def sum(self, question: Question) -> Answer:
        return self._one(self._cells(question).sum(question.column, **self._bounds(question)), question)

    def mean(self, question: Question) -> Answer:
        return self._one(self._cells(question).average(question.column, **self._bounds(question)), question)

    def median(self, question: Question) -> Answer:
        return self._one(self._cells(question).median(question.column, **self._bounds(question)), question)

    def groups(self, question: Question) -> Answer:
        if question.keys is None:
            return self._private_keys(question)
        keys = KeySet.from_dict({question.column: list(question.keys)})
        query = QueryBuilder("people").groupby(keys).count()
        found = self.session.evaluate(query, privacy_budget=PureDPBudget(question.epsilon)).collect()
        return Answer({row[question.column]: row["count"] for row in found})

    def _private_keys(self, question: Question) -> Answer:
        """Return the keys that its `get_groups` shows, without counts."""
        session = self._open(ApproxDPBudget(question.epsilon, question.delta))
        query = QueryBuilder("people").get_groups([question.column])
        found = session.evaluate(query, privacy_budget=ApproxDPBudget(question.epsilon, question.delta)).collect()
        return Answer({row[question.column]: 0 for row in found})

    def _cells(self, question: Question) -> Any:
        """Return a query without the cells that a sum refuses: none, nan and the infinities."""
        query: Any = QueryBuilder("people")
        if dict(self.frame.dtypes)[question.column] == "double":
            return query.drop_null_and_nan([question.column]).drop_infinity([question.column])
        return query

    def _bounds(self, question: Question) -> dict[str, Any]:
        number = float if dict(self.frame.dtypes)[question.column] == "double" else int
        return {"low": number(question.lower), "high": number(question.upper)}

    def _one(self, query: Any, question: Question) -> Answer:
        return Answer(self.session.evaluate(query, privacy_budget=PureDPBudget(question.epsilon)).collect()[0][0])

    def draw(self, law: str, scale: float, size: int) -> str:
        """Draw one at a time: its samplers have no other way."""
        from tmlt.core.random.discrete_gaussian import sample_dgauss
        from tmlt.core.random.rng import prng

        if law == "laplace":
            probability = 1 - 2.718281828459045 ** (-1 / scale)
            for _ in range(size):
                int(prng().geometric(probability)) - int(prng().geometric(probability))
        else:
            for _ in range(size):
                sample_dgauss(scale**2)
        return "discrete"


if __name__ == "__main__":
    serve(Tumult)
