"""What an engine is: it runs one SQL tree that we built and returns an Arrow table. Only the curator imports engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


class EngineFailed(Exception):
    """Say that an engine could not answer; carries nothing of what the engine said, which may quote data.

    `cause` is one of a few sentences of ours about the machine or the network, or nothing. `passing` says that neither the
    rows nor the noise decided that it failed, but the machine at that moment: the same question may be tried again.
    """

    def __init__(
        self, message: str = "the engine could not compute the answer", *, cause: str = "", passing: bool = False
    ) -> None:
        super().__init__(cause or message)
        self.cause = cause
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT in an engine's own text, written before the question is charged; `one_row` where it has no GROUP BY.

    `reads_no_column` where it counts rows alone, which DuckDB may take from the footers of files.
    """

    text: str
    one_row: bool = False
    reads_no_column: bool = False


class Engine(Protocol):
    """Run trees over one declared table."""

    @property
    def primitives(self) -> Primitives:
        """The words to build trees with."""

    @property
    def physical(self) -> Mapping[str, str]:
        """The physical type of each declared column, as the source's own schema states it, in DuckDB's words."""

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole."""

    def open_tables(self, names: Collection[str]) -> Engine:
        """Return the engine that also reads these private tables of the same people; raises SourceError."""

    def snapshot(self) -> AbstractContextManager[Engine]:
        """Hold one state of the data for all that is run by the engine that it gives.

        Raises SourceError where the data is gone, or is not held as it was when this engine was opened.
        """

    def write(self, select: exp.Select) -> Statement:
        """Return the engine's text of a tree; nothing is read."""

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without any of the engine's words."""

    def sample(self, *, threshold: int, key: bytes) -> Engine:
        """Return the engine of a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Raises EngineFailed. Close what it returns: the sample goes, this engine stays. An engine that draws none has None in
        its place, or nothing: then questions of a sample are refused before they are charged.
        """

    def close(self) -> None:
        """Give back what the engine holds."""
