"""Moving a ledger from its SQLite file to a PostgreSQL server, with its whole chain. It charges nothing and opens no data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.ledger.durable_sqlite import Database
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.location import ServerPlace, locate
from sordino.core.ledger.postgres_ledger import create_tables_once
from sordino.core.ledger.records import loss_to_dict
from sordino.core.ledger.store import Transaction, read_end
from sordino.core.ledger.writer import exists, translate_errors
from sordino.core.loss import Loss

_TABLES = {"entries": 6, "state": 7, "budget": 4, "charges": 6, "declarations": 2, "shares": 6}  # and their columns


def move_ledger(old: Ledger, to: str | ServerPlace) -> Ledger:
    """Copy a ledger's chain and sums to a server and return the ledger there; the file stays as a record.

    First the chain is verified and the file's cap is set to what was spent, so that nothing can be charged there any more,
    whatever happens next; then all is copied in one transaction; then the cap is put back on the server. Both changes are
    entries with a reason. Raises DeclarationError where the place is no server or has a ledger, LedgerError where a chain is
    not sound or the server fails; the cap of the file is then amended back by hand.
    """
    place = locate(to)
    if not isinstance(place, ServerPlace) or not isinstance(old.path, Path):
        raise DeclarationError("a ledger moves from its file to a server: postgresql://HOST/DATABASE#NAME")
    if exists(place):
        raise DeclarationError(f"there is a ledger at {place}: name another, such as postgresql://HOST/DATABASE#NAME")
    old.verify()
    cap = old.cap
    _amend(old, old.spent(), f"moved to {place}")
    old._writer.write(lambda step: translate_errors(lambda: _copy(step, place), str(place)))
    new = Ledger.existing(place, mark=old.mark)
    _amend(new, cap, f"moved from {old.path}")
    new.verify()
    return new


def _amend(ledger: Ledger, cap: Loss, reason: str) -> None:
    def job(step: Transaction) -> None:
        changed: dict[str, Any] = {} if cap == step.sums.cap else {"cap": loss_to_dict(cap)}
        step.append("amend", {"reason": reason, **changed}, sums=step.sums.change_cap(cap))

    ledger._writer.write(job)


def _copy(step: Transaction, place: ServerPlace) -> None:
    """Copy every row, while the file's lock keeps its writers out, and compare the end before the commit."""
    with create_tables_once(place) as server:
        if server is None:
            raise DeclarationError(f"there is a ledger at {place}: name another")
        for table, width in _TABLES.items():
            marks = ", ".join("?" * width)
            server.executemany(f"INSERT INTO {table} VALUES ({marks})", _rows(step.db, table))
        if read_end(server) != (step.sums, step.head, step.hash):
            raise DeclarationError(f"the copy at {place} is not what was written; nothing was moved")
        server.execute("COMMIT")


def _rows(db: Database, table: str) -> list[Any]:
    if table == "shares" and not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'shares'").fetchone():
        return []
    return list(db.execute(f"SELECT * FROM {table} ORDER BY 1"))
