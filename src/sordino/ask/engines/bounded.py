"""The bounded rows of a question that scans them several times, computed once: else each scan would rank all rows anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.table_layout import TableLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# a quoted name, or one of ours
_NAMES = re.compile(r'"(?:[^"]|"")*"|sordino_[a-z]?[0-9]+_?')


@dataclass(slots=True)
class BoundedEngine:
    """An engine over one state of a table that computes the bounded relation of its statements once.

    Theorem: a statement reads of its bounded relation the columns that the rest of its text names, so it has the same answer over
    a table of these columns of the same rows. Which rows those are is a function of each unit's rows, as its ORDER BY is total on
    what is read; so it does not matter that the engine computes them once. What is computed depends on the statements alone.
    `keep` stores the rows of a SELECT and returns the name of the table, None where that failed: then each statement runs as it
    is written. `close` drops the tables alone.
    """

    layout: TableLayout
    unreadable_rows: bool
    write: Callable[[exp.Select], Statement]
    whole: Callable[[Statement], pa.Table]
    keep: Callable[[str], str | None]
    drop: Callable[[str], None]
    # by the relation and the columns of it that are read
    tables: dict[tuple[str, frozenset[str]], str | None] = field(default_factory=dict)

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The primitives to build one tree with."""
        return DuckDBPrimitives(self.layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column."""
        return self.layout.physical

    def open_tables(self, names: Collection[str]) -> BoundedEngine:
        """Return the engine itself: its layout has the tables of the engine that it is of."""
        del names
        return self

    def snapshot(self) -> AbstractContextManager[BoundedEngine]:
        """Return a context with the engine itself, which is one state of the data."""
        return nullcontext(self)

    def sample(self, *, threshold: int, key: bytes) -> BoundedEngine:
        """Raise ValueError: a sample is drawn of the whole table."""
        del threshold, key
        raise ValueError("a sample is drawn of the whole table")

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed."""
        statement = select if isinstance(select, Statement) else self.write(select)
        bounded = statement.bounded
        if bounded is None or statement.text.count(bounded.text) != 1:
            return self.whole(statement)
        before, after = statement.text.split(bounded.text)
        columns = bounded.names.intersection(_NAMES.findall(before + after))
        name = self._find(bounded.text, columns)
        # The table is called as the relation was.
        alias = bounded.text.rpartition(" AS ")[2]
        text = statement.text if name is None else f'{before}"{name}" AS {alias}{after}'
        return self.whole(replace(statement, text=text))

    def close(self) -> None:
        """Drop the tables."""
        for name in self.tables.values():
            if name is not None:
                self.drop(name)
        self.tables.clear()

    def _find(self, relation: str, columns: frozenset[str]) -> str | None:
        """Return the table of these columns of a relation, stored at the first call; None where that failed."""
        if (relation, columns) not in self.tables:
            # a relation without a column read is a number of rows
            items = ", ".join(sorted(columns)) or "true AS sordino_row"
            self.tables[relation, columns] = self.keep(f"SELECT {items} FROM {relation}")
        return self.tables[relation, columns]
