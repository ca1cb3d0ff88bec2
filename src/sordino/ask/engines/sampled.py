"""A Poisson sample of a table, drawn by secret coins and stored until it is closed; the key is used for the draw alone.

Theorem: a unit's coin is the first 64 bits of SHA-256 of a fresh 256-bit key and the unit's name (its id, or the number of a row
in one scan). The names are distinct and the key is secret, so the coins are independent and fair as far as SHA-256 cannot be
distinguished from a random function: each unit is in with probability threshold / 2^64, independently of the others. All scans
of one question read the same sample, as its event states.
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
    """An engine over a sample that another engine stores; `close` drops the sample alone."""

    layout: TableLayout
    unreadable_rows: bool
    write: Callable[[exp.Select], Statement]
    run: Callable[[exp.Select | Statement], pa.Table]
    close: Callable[[], None]

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The primitives to build one tree with."""
        return DuckDBPrimitives(self.layout)

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each column, as in the whole table."""
        return self.layout.physical

    def open_tables(self, names: Collection[str]) -> SampledEngine:
        """Return the engine itself: its layout has the tables of the engine that drew the sample."""
        del names
        return self

    def snapshot(self) -> AbstractContextManager[SampledEngine]:
        """Return a context with the engine itself: a sample does not change."""
        return nullcontext(self)

    def sample(self, *, threshold: int, key: bytes) -> SampledEngine:
        """Raise ValueError: a sample is not sampled again."""
        del threshold, key
        raise ValueError("a sample is not sampled again")


def coin_sql(named: str, *, threshold: int) -> str:
    """Return the condition that a unit is in the sample; its one parameter is the key, as text.

    `named` is SQL text that names the unit. Hexadecimal digits of one length compare like their numbers.

    >>> coin_sql("id", threshold=2**63)
    "substr(sha256(? || id), 1, 16) < '8000000000000000'"
    """
    return f"substr(sha256(? || {named}), 1, 16) < '{threshold:016x}'"
