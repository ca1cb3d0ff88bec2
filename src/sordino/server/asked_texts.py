"""What was asked, as it was written: kept beside each charge, so that whoever asked can repeat it. It holds no answer."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import delete, insert, select

from sordino.loss import to_fraction
from sordino.queries.sql.parse import SqlText
from sordino.release import Release
from sordino.server.account_schema import TEXTS
from sordino.server.asked import Asked
from sordino.server.database import ServerDatabase

__all__ = ["AskedTexts"]


class AskedTexts:
    """Hold the texts of one store."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store

    def append(self, budget: str, release: Release, asked: Asked) -> None:
        """Note what a charge was asked with; a question that is no SQL text is not noted."""
        if not isinstance(asked.question, SqlText) or asked.question.keys is not None:
            return
        said = {"sql": asked.question.text, **_stated(asked)}
        row = {"budget": budget, "charge": release.charge, "time": release.time, "asked": json.dumps(said)}
        same = (TEXTS.c.budget == budget) & (TEXTS.c.charge == release.charge)
        with self._store.transact() as db:
            db.execute(delete(TEXTS).where(same))
            db.execute(insert(TEXTS).values(row))

    def find(self, budget: str, release: Release) -> dict[str, Any] | None:
        """Return the SQL and the losses that a release was asked with, None where they were not noted."""
        same = (TEXTS.c.budget == budget) & (TEXTS.c.charge == release.charge) & (TEXTS.c.time == release.time)
        with self._store.transact() as db:
            found = db.execute(select(TEXTS.c.asked).where(same)).scalar()
        said: dict[str, Any] | None = None if found is None else json.loads(found)
        return said


def _stated(asked: Asked) -> dict[str, str]:
    losses = {name: getattr(asked, name) for name in ("epsilon", "delta", "rho")}
    return {name: str(to_fraction(value, name=name)) for name, value in losses.items() if value is not None}
