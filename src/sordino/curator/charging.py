"""Charging: where a plan is charged, its answer made a Release, and its outcome put on record. It sees no data.

A failure after the charge stays charged, and no cause of it goes on, since it may quote a cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NoReturn

from sordino.curator.data_access import Answer
from sordino.curator.plan import Plan
from sordino.errors import ChargedError, LedgerError, QuestionRefused
from sordino.ledger.ledger import Ledger
from sordino.ledger.records import Charge, StoredAnswer
from sordino.neighbors import Neighbors
from sordino.release import Release

__all__ = ["Charging"]


class Charging:
    """Charge plans about one table to its ledger. `private` is False where the noise is seeded."""

    def __init__(
        self, name: str, *, ledger: Ledger, declared: dict[str, Any], neighbors: Neighbors, private: bool
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.declaration = _digest(name, declared)
        self.declared = declared
        self._neighbors = neighbors
        self._private = private
        self._on_record = ledger.is_declared(name, declared)

    def declare(self) -> None:
        """Put the declaration on the ledger's record, once; raises DeclarationChanged where it holds another."""
        if not self._on_record:
            self.ledger.declare(self.name, self.declared)
            self._on_record = True

    def charge(self, plan: Plan, *, identity: str, request: str | None) -> Charge | StoredAnswer:
        """Charge a plan of a declared table durably; another process may have answered the request in the meantime."""
        note = f"{self.name}: {plan.words}"
        note = note if len(note) <= 1000 else note[:997] + "..."
        return self.ledger.charge(plan.event, note=note, question=identity, request=request)

    def charge_new(self, plan: Plan) -> Charge:
        """Charge a plan that has no request id."""
        self.declare()
        charged = self.charge(plan, identity=plan.identity(), request=None)
        assert isinstance(charged, Charge)  # without a request id a charge is always new
        return charged

    def read_stored(self, stored: StoredAnswer, plan: Plan) -> Release:
        """Return the stored answer of a request; raise QuestionRefused where it was asked at another loss."""
        release = Release.from_dict(json.loads(stored.answer))
        if release.cost != plan.cost:
            raise QuestionRefused(
                f"this request id was answered as {release.charge} at {release.cost.describe()}, not at "
                f"{plan.cost.describe()}; take a new request id"
            )
        return release

    def earlier(self, plan: Plan) -> tuple[str, ...]:
        """Return the charges that answered the same question before."""
        return tuple(c.id for c in self.ledger.earlier(plan.identity()))

    def make_release(self, plan: Plan, charge: Charge, answer: Answer) -> Release:
        """Return an answer as the release of its charge."""
        return Release(
            question=plan.words,
            keys=answer[0],
            outputs=answer[1],
            cost=plan.cost,
            spent=charge.spent,
            remaining=charge.remaining,
            event=plan.event,
            neighbors=self._neighbors.relation,
            privacy_unit=self._neighbors.describe_unit(),
            declaration=self.declaration,
            charge=charge.id,
            table_name=self.name,
            time=charge.time,
            private=self._private,
            request=charge.request,
            notes=plan.notes,
            layout=plan.procedure.layout,
        )

    def commit(self, charge: Charge, text: str) -> None:
        """Put an answer on record; ChargedError where the ledger cannot."""
        self._record(charge, lambda: self.ledger.commit(charge, text))

    def fail(self, charge: Charge) -> NoReturn:
        """Record that a charge has no answer, and say so without the cause."""
        self._record(charge, lambda: self.ledger.fail(charge, "the engine could not compute the answer"))
        raise ChargedError(
            f"the question was charged ({charge.id}) but could not be computed; the charge stands. "
            "The cause is not shown, as it may hold data: check that the source is whole and readable",
            charge=charge.id,
        )

    def _record(self, charge: Charge, close: Callable[[], None]) -> None:
        """Record an outcome; where the ledger cannot, say that the charge stands, so that scripts do not ask again."""
        failed = False
        try:
            close()
        except LedgerError:
            failed = True
        if failed:
            raise ChargedError(
                f"the question was charged ({charge.id}) but its answer could not be stored, so it is not given; "
                "the charge stands. See that the ledger's disk has room and can be written",
                charge=charge.id,
            )


def _digest(name: str, declaration: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, declaration], sort_keys=True).encode()).hexdigest()[:16]
