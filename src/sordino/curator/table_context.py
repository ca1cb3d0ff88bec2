"""TableContext: what is publicly known about one table when a question is planned. It holds no data and no budget spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sordino.domain import Domain
from sordino.loss import Loss
from sordino.neighbors import Neighbors
from sordino.source import PrivateTable, PublicTable

__all__ = ["TableContext"]


@dataclass(frozen=True, slots=True)
class TableContext:
    """Hold a table's name, declared columns, neighbors, the cap that it is charged to and its declaration's digest.

    `public` are the tables that may be joined, `private` the other private tables of the project, `dialect` whose SQL
    questions are written in where they do not say so.
    """

    name: str
    domain: Domain
    neighbors: Neighbors
    cap: Loss
    declaration: str
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    private: Mapping[str, PrivateTable] = field(default_factory=dict)
    dialect: str | None = None
