"""TwoPerson: no officer approves a question of an account that they made, reset or funded a short while ago.

Otherwise one officer is enough for everything: a new account, a share for it, its question and the approval.
"""

from __future__ import annotations

import datetime

from sqlalchemy import insert, select

from sordino.serve.server.access import OWNER, Visitor
from sordino.serve.server.account_schema import HANDS
from sordino.serve.server.database import ServerDatabase, text_of_time


class TwoPerson:
    """Note what officers do to accounts and shares of one store, for `days` days."""

    def __init__(self, store: ServerDatabase, *, days: int) -> None:
        self._store = store
        self._days = days

    def note(self, officer: Visitor, did: str, *, account: int | None = None, spender: str | None = None) -> None:
        """Note that an officer made, changed or reset an account, or funded a spender; nothing of what is one's own."""
        if account == officer.account or officer.role == OWNER.role:
            return
        row = {"officer": officer.account, "did": did, "account": account, "spender": spender}
        with self._store.transact() as db:
            db.execute(insert(HANDS).values(**row, time=self._store.now()))

    def involvement(self, officer: Visitor, *, account: int, spender: str) -> str | None:
        """Return what an officer did to an account or its share within the days, None where nothing.

        An officer whose own password another officer reset meanwhile acts with that one's hands as well.
        """
        if officer.role == OWNER.role:  # who holds the project file is alone on a workbench
            return None
        since = text_of_time(self._store.clock() - datetime.timedelta(days=self._days))
        recent = select(HANDS).where(HANDS.c.time > since).order_by(HANDS.c.id.desc())
        with self._store.read() as db:
            rows = db.execute(recent).all()
        hands = {officer.account}
        hands |= {row.officer for row in rows if row.account == officer.account and row.did == "reset the password of"}
        for row in rows:
            if row.officer in hands and (
                row.account == account or (row.spender is not None and row.spender == spender)
            ):
                return str(row.did)
        return None
