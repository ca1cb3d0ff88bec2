"""Several attacks on releases of the same rows, as text, data and a page for a board: NOT PRIVATE."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from sordino.core.lazy import load_feature
from sordino.lab.audit.attack import Attack
from sordino.lab.audit.table_attacks import ClosestRecords


@dataclass(frozen=True, slots=True, repr=False)
class Attacks:
    """Hold several attacks on releases of the same rows, and what they were tried on; NOT PRIVATE."""

    title: str
    subject: str
    attacks: tuple[Attack, ...]
    seed: int
    closest: ClosestRecords | None = None
    invented: bool = False

    def describe(self) -> str:
        """Return all that was achieved, as a terminal shows it."""
        blocks = ["\n".join(attack.lines()) for attack in self.attacks]
        blocks += [] if self.closest is None else [self.closest.describe()]
        return "\n\n".join([f"{self.mark()}\n{self.title}: {self.subject}", *blocks])

    def mark(self) -> str:
        """Return why it is not private, and whose rows these are."""
        whose = "these people are invented" if self.invented else "do not publish this"
        return f"NOT PRIVATE: true rows say where an attack was right; {whose}. What theory allows is on average."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "private": False}

    def to_json(self) -> str:
        """Return all of it as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def page(self) -> str:
        """Return one page of HTML for a board, A4 when printed, that loads nothing from elsewhere."""
        page: str = load_feature("attack_page")(self)
        return page

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self.mark())}</b></p><p>{escape(self.title)}: {escape(self.subject)}</p>"
        tables = "".join(f"<h4>{escape(a.name)}</h4><p>{escape(a.measure)}</p>{a.html_table()}" for a in self.attacks)
        return head + tables + ("" if self.closest is None else self.closest.html_table())
