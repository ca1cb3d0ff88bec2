"""The Engine protocol: an engine runs one SQL tree that we built and returns an Arrow table. Only the curator imports engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sordino.core.primitives import Primitives, ProductSums

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.kept_numbers import KeptNumbers
    from sordino.ask.engines.table_counts import KeyColumn, TableCounts


class EngineFailed(Exception):
    """An engine could not answer; the error holds nothing of the engine's own message, which may quote data.

    `cause` is one of a few sentences of ours about the machine or the network, or empty. `passing` says that the machine at
    that moment, and neither the rows nor the noise, made it fail: the same question may be tried again.
    """

    def __init__(
        self, message: str = "the engine could not compute the answer", *, cause: str = "", passing: bool = False
    ) -> None:
        super().__init__(cause or message)
        self.cause = cause
        self.passing = passing


@dataclass(frozen=True, slots=True)
class BoundedRelation:
    """The part of a statement's text that bounds contributions: a relation, and the names of its columns."""

    text: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT in an engine's dialect, written before the question is charged; `one_row` says that it has no GROUP BY.

    `reads_no_column` says that it only counts rows, which DuckDB may take from the footers of files. `bounded` is the relation
    that an engine may compute once for several statements. With `products` the text is of the rows, and the answer is what is
    added up of them; an engine may put what it read of them into `kept`, and take it from there.
    """

    text: str
    one_row: bool = False
    reads_no_column: bool = False
    bounded: BoundedRelation | None = None
    products: ProductSums | None = None
    kept: KeptNumbers | None = None


class TableCounter(Protocol):
    """Counts many tables over the keys of a statement."""

    def __call__(self, keys: Statement, tables: Sequence[Sequence[KeyColumn]]) -> list[TableCounts]:
        """Return the exact counts of each table, all in one scan; raises EngineFailed."""


class Engine(Protocol):
    """An engine over one declared table."""

    @property
    def primitives(self) -> Primitives:
        """New primitives to build one tree with."""

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each declared column, by the source's own schema, under DuckDB's names."""

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be unreadable."""

    def open_tables(self, names: Collection[str]) -> Engine:
        """Return the engine that also reads these private tables of the same people; raises SourceError."""

    def snapshot(self) -> AbstractContextManager[Engine]:
        """Return a context with an engine over one state of the data, for all trees that it runs.

        Raises SourceError where the data is gone, or is not stored as when this engine was opened.
        """

    def write(self, select: exp.Select) -> Statement:
        """Return the engine's text of a tree; nothing is read."""

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without the engine's own message."""

    def sample(self, *, threshold: int, key: bytes) -> Engine:
        """Return the engine of a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Raises EngineFailed. Closing the engine that it returns drops the sample, and leaves this engine open. An engine that
        draws no samples has None in place of this method, or lacks it: then questions of a sample are refused before they are
        charged.
        """

    def close(self) -> None:
        """Release the engine's resources."""

    # An engine may also have `keep_bounded() -> Engine`: an engine over the same rows that computes the bounded relation of its
    # statements once, and keeps it until it is closed; closing it leaves this engine open.
    #
    # Or a `TableCounter` as `count_tables`: the exact counts of many tables over the keys of a statement with a row a row of the
    # data, all in one scan; raises EngineFailed.
