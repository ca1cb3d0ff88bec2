"""What an engine is: it runs one SQL tree that we built and returns an Arrow table. Only the curator imports engines."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from sordino.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

__all__ = ["Engine", "EngineFailed"]


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


class Engine(Protocol):
    """Run trees over one declared table."""

    @property
    def primitives(self) -> Primitives:
        """The words to build trees with."""

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole."""

    def open_tables(self, names: Collection[str]) -> Engine:
        """Return the engine that also reads these private tables of the same people; raises SourceError."""

    def snapshot(self) -> AbstractContextManager[Engine]:
        """Hold one state of the data for all that is run by the engine that it gives.

        Raises SourceError where the data is gone, or is not held as it was when this engine was opened.
        """

    def run(self, select: exp.Select) -> pa.Table:
        """Return the exact answer; raises EngineFailed, without any of the engine's words."""

    def sample(self, *, threshold: int, key: bytes) -> Engine:
        """Return the engine of a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Raises EngineFailed. Close what it returns: the sample goes, this engine stays.
        """

    def close(self) -> None:
        """Give back what the engine holds."""
