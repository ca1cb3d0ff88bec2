"""PipelineDP's side of bench/peers/side_by_side.py: its engine over a list of rows with its local backend."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve

pdp: Any = import_module("pipeline_dp")


class PipelineDP:
    """An engine and an accountant a release; each row is a unit, with its number as the privacy id."""

    def open(self, opening: Opening) -> None:
        table = pq.read_table(opening.path)
        self.place = {n: i for i, n in enumerate(table.column_names, 1)}
        self.rows = list(zip(range(table.num_rows), *(table[n].to_pylist() for n in table.column_names), strict=True))

    def count(self, question: Question) -> Answer:
        at = self.place[question.column]
        rows = [row for row in self.rows if row[at] is not None and row[at] > question.lower]
        return self._one(pdp.Metrics.COUNT, question, rows)

    def sum(self, question: Question) -> Answer:
        return self._one(pdp.Metrics.SUM, question, self.rows)

    def mean(self, question: Question) -> Answer:
        return self._one(pdp.Metrics.MEAN, question, self.rows)

    def median(self, question: Question) -> Answer:
        return self._one(pdp.Metrics.PERCENTILE(50), question, self.rows)

    def groups(self, question: Question) -> Answer:
        at = self.place[question.column]
        keys = None if question.keys is None else list(question.keys)
        found = self._aggregate(pdp.Metrics.COUNT, question, self.rows, lambda row: row[at], keys)
        return Answer({key: answer[0] for key, answer in found.items()})

    def _one(self, metric: Any, question: Question, rows: list[Any]) -> Answer:
        return Answer(self._aggregate(metric, question, rows, lambda _row: 0, [0])[0][0])

    def _aggregate(
        self, metric: Any, question: Question, rows: list[Any], key: Any, keys: list[Any] | None
    ) -> dict[Any, Any]:
        accountant = pdp.NaiveBudgetAccountant(total_epsilon=question.epsilon, total_delta=question.delta)
        engine = pdp.DPEngine(accountant, pdp.LocalBackend())
        at = self.place[question.column]
        bounds = {} if metric == pdp.Metrics.COUNT else {"min_value": question.lower, "max_value": question.upper}
        parameters = pdp.AggregateParams(
            metrics=[metric], max_partitions_contributed=1, max_contributions_per_partition=1, **bounds
        )
        extractors = pdp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=key,
            value_extractor=lambda row: 0 if metric == pdp.Metrics.COUNT else row[at],
        )
        answer = engine.aggregate(rows, parameters, extractors, public_partitions=keys)
        accountant.compute_budgets()
        return dict(answer)


if __name__ == "__main__":
    serve(PipelineDP)
