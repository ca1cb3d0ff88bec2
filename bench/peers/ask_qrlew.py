"""qrlew's side of bench/peers/side_by_side.py: it rewrites SQL, and DuckDB runs what it wrote for PostgreSQL.

It reads the schema and the number of rows from a database, here SQLite, and knows Gaussian noise at (epsilon, delta) only.
"""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve

qrlew: Any = import_module("pyqrlew")
sqlalchemy: Any = import_module("sqlalchemy")
TYPES = {"int64": "INTEGER", "double": "FLOAT", "string": "TEXT"}
DELTA = 1e-6


class Qrlew:
    """A data set whose ranges and values are declared, and a connection that runs its SQL."""

    NO: ClassVar = {"median": "has no median or other quantile"}

    def open(self, opening: Opening) -> None:
        table = pq.read_table(opening.path)
        table = table.append_column("id", pa.array(range(table.num_rows)))
        self.opening, self.table = opening, table
        self.connection = duckdb.connect()
        self.connection.register("arrow_people", table)
        self.connection.execute("CREATE TABLE people AS SELECT * FROM arrow_people")
        self.plain = self._read(table)

    def _read(self, table: pa.Table) -> Any:
        """Return what it reads of the table from a database: types and the number of rows."""
        handle, name = tempfile.mkstemp(suffix=".db")
        os.close(handle)
        engine = sqlalchemy.create_engine(f"sqlite:///{name}")
        columns = ", ".join(f"{f.name} {TYPES[str(f.type)]}" for f in table.schema)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE people ({columns})")
            marks = ", ".join("?" * table.num_columns)
            rows = list(zip(*(table[n].to_pylist() for n in table.column_names), strict=True))
            connection.exec_driver_sql(f"INSERT INTO people VALUES ({marks})", rows)
        found = qrlew.Dataset.from_database("data", engine, None)
        engine.dispose()
        found = found.with_constraint(None, "people", "id", qrlew.Dataset.CONSTRAINT_UNIQUE)
        Path(name).unlink()
        for column, bounds in self.opening.bounds.items():
            if bounds is not None:
                found = found.with_range(None, "people", column, float(bounds[0]), float(bounds[1]))
        return found

    def count(self, question: Question) -> Answer:
        return self._one(f"SELECT COUNT(*) AS n FROM people WHERE {question.column} > {question.lower:g}", question)

    def sum(self, question: Question) -> Answer:
        return self._one(f"SELECT SUM({question.column}) AS n FROM people", question)

    def mean(self, question: Question) -> Answer:
        return self._one(f"SELECT AVG({question.column}) AS n FROM people", question)

    def groups(self, question: Question) -> Answer:
        query = f"SELECT {question.column} AS k, COUNT(*) AS n FROM people GROUP BY {question.column}"
        found = self.connection.execute(self._rewrite(query, question)).fetchall()
        return Answer(dict(found))

    def _one(self, query: str, question: Question) -> Answer:
        row = self.connection.execute(self._rewrite(query, question)).fetchone()
        return Answer(None if row is None else row[0])

    def _rewrite(self, query: str, question: Question) -> str:
        declared = self.plain
        if question.keys is not None:
            declared = declared.with_possible_values(None, "people", question.column, list(question.keys))
        relation = qrlew.Relation.from_query(query, declared)
        loss = {"epsilon": question.epsilon, "delta": question.delta or DELTA}
        private = relation.rewrite_with_differential_privacy(
            declared, [("people", [], "id")], loss, max_multiplicity=1.0, max_privacy_unit_groups=1
        )
        return str(private.relation().to_query(qrlew.Dialect.PostgreSql))


if __name__ == "__main__":
    serve(Qrlew)
