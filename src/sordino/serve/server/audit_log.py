"""The audit log: who did what, when, and how it ended. It is only appended to, and holds no cell, no answer and no secret."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from sordino.serve.server.access import Visitor
from sordino.serve.server.account_schema import AUDIT
from sordino.serve.server.database import ServerDatabase, StoreUnusable
from sordino.serve.server.shared_writes import Job

_LOG = logging.getLogger("sordino.server")
_LONGEST = 2000
_APPEND = insert(AUDIT)


class AuditLog:
    """Append to the log of one store, and read it."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store

    def append(self, who: Visitor | str, action: str, about: str, outcome: str = "done") -> None:
        """Append a line; `who` is a visitor, or the name of what acts without an account, such as the command line."""
        self._store.shared.write(self._line(who, action, about, outcome))

    def _line(self, who: Visitor | str, action: str, about: str, outcome: str) -> Job:
        by = (who, "", "command") if isinstance(who, str) else (who.name, who.role, who.via)
        row = dict(zip(("account", "role", "via"), by, strict=True))
        row |= {"time": self._store.now(), "action": action, "object": about[:_LONGEST], "outcome": outcome[:_LONGEST]}
        return lambda db: db.execute(_APPEND, row)

    def append_if_able(self, who: Visitor | str, action: str, about: str, outcome: str, *beside: Job) -> None:
        """Append a line about what the ledger has on record too: where the store is gone by then, the answer still leaves.

        `beside` is what else is written then, in the same transaction.
        """
        try:
            self._store.shared.write(self._line(who, action, about, outcome), *beside)
        # whatever the store says, the charge stands and its answer is on record: it leaves
        except (StoreUnusable, IntegrityError):
            _LOG.warning("the audit log could not be written: %s, %s", action, outcome)

    def lines(self, *, after: int = 0, most: int = 1000) -> list[dict[str, Any]]:
        """Return lines, oldest first, from the one after a number on."""
        chosen = select(AUDIT).where(AUDIT.c.id > after).order_by(AUDIT.c.id).limit(most)
        with self._store.read() as db:
            return [dict(row._mapping) for row in db.execute(chosen)]
