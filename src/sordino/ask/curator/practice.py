"""Practice without spending: a curator of a made-up table of the declared shape. It may not know the true table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sordino.ask.curator.dummy_table import dummy
from sordino.ask.curator.plan import TableContext
from sordino.ask.engines.opening import open_source
from sordino.ask.engines.table_layout import PeopleTable
from sordino.core.errors import DeclarationError
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Loss
from sordino.core.noise.rng import Rng

_ROWS = 1000
C = TypeVar("C")


def check_target(on: object) -> None:
    """Raise DeclarationError unless a question is asked of the data, or of a made-up table."""
    if on not in ("data", "dummy"):
        raise DeclarationError(f'on is "data" or "dummy", a made-up table to practise on, not {on!r}')


def open_practice(make: Callable[..., C], table: TableContext, *, cap: Loss, declared: dict[str, Any]) -> C:
    """Return the curator that `make` makes of made-up rows: the same declaration, a budget of its own that nobody keeps."""
    unit = table.neighbors.unit
    rows = dummy(table.domain, rows=_ROWS, unit=unit)
    people = {
        name: PeopleTable(
            dummy(other.domain, rows=_ROWS, unit=other.neighbors.unit), other.domain, other.neighbors.unit
        )
        for name, other in table.private.items()
    }
    return make(
        table.name,
        engine=open_source(rows, domain=table.domain, unit=unit, public=table.public_rows, people=people),
        domain=table.domain,
        neighbors=table.neighbors,
        ledger=Ledger.open(None, cap=cap),
        declaration=declared,
        rng=Rng.secure(),
        public=table.public,
        public_rows=table.public_rows,
        others=table.private,
        dialect=table.dialect,
    )
