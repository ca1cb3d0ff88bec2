"""A Poisson sample of a table, drawn by secret coins and held until it is closed; no key outlives the drawing of it.

Theorem: a unit's coin is the first 64 bits of SHA-256 of a fresh 256-bit key and what names the unit (its id, or the
number of a row in one scan). The names are distinct and the key is secret, so the coins are independent and fair up to
what tells SHA-256 from a random function: each unit is in with probability threshold / 2^64, whoever else is there. All
scans of one question read the same sample, as its event says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.table_layout import TableLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class SampledEngine:
    """Answer trees over a sample that another engine holds; `close` gives the sample back, and that alone."""

    layout: TableLayout
    unreadable_rows: bool
    write: Callable[[exp.Select], Statement]
    run: Callable[[exp.Select | Statement], pa.Table]
    close: Callable[[], None]

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The words to build one tree with."""
        return DuckDBPrimitives(self.layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as of the whole."""
        return self.layout.physical

    def open_tables(self, names: Collection[str]) -> SampledEngine:
        """Return the engine itself: its layout has the tables that the whole had when it was sampled."""
        del names
        return self

    def snapshot(self) -> AbstractContextManager[SampledEngine]:
        """Give the engine itself: a sample does not change."""
        return nullcontext(self)

    def sample(self, *, threshold: int, key: bytes) -> SampledEngine:
        """Raise ValueError: a sample is not sampled again."""
        del threshold, key
        raise ValueError("a sample is not sampled again")


def coin_sql(named: str, *, threshold: int) -> str:
    """Return the condition that a unit's coin falls: with the key, as text, for its one parameter.

    `named` is SQL text that names the unit. Hexadecimal digits of one length compare as the numbers they are.

    >>> coin_sql("id", threshold=2**63)
    "substr(sha256(? || id), 1, 16) < '8000000000000000'"
    """
    return f"substr(sha256(? || {named}), 1, 16) < '{threshold:016x}'"
