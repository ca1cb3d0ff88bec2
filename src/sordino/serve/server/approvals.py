"""Approvals: what an officer decides first, and what takes two."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from sordino.ask.curator.plan import Plan
from sordino.core.errors import ApprovalNeeded, DeclarationError, NotAllowed, QuestionRefused
from sordino.serve.server.access import OWNER, NotThere, Visitor
from sordino.serve.server.account_schema import ACCOUNTS, APPROVALS, HANDS
from sordino.serve.server.database import ServerDatabase, text_of_time

# ---- TwoPerson: no officer approves a question of an account that they made, reset or funded a short while ago
#
# Otherwise one officer is enough for everything: a new account, a share for it, its question and the approval.


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
        # Whoever holds the project file is alone on a workbench: there is no officer to ask.
        if officer.role == OWNER.role:
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


# ---- Approvals: a question above a stated loss waits until an officer approves it. Nothing is charged here, and no
# data read


@dataclass(frozen=True, slots=True)
class Approval:
    """What waits for an officer, or did: the question, its plans, what it reveals at most, and what was decided.

    `asked` are the questions as they were stated, where they can be said as data, and `form` is the action and the fields of
    the page that asked, which gets the answer once it is approved; both None where something else asked.
    """

    id: int
    account: int
    name: str
    spender: str
    request: str
    digest: str
    question: str
    cost: dict[str, Any]
    plans: list[dict[str, Any]]
    reveals: str
    state: str
    officer: str | None
    reason: str | None
    created: str
    decided: str | None
    asked: list[dict[str, Any]] | None
    form: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the approval as JSON data; `request` is the id that the analyst asks again with."""
        names = (*_SHOWN, "asked", "cost", "plans", "reveals", "state", "officer", "reason", "created", "decided")
        return {
            **{name: getattr(self, name) for name in names},
            "account": self.name,
            "request": own_request(self.request),
        }


_SHOWN = ("id", "spender", "question")


def own_request(bound: str) -> str:
    """Return a request id as its owner knows it, without the number of the account that it is bound to."""
    return bound.partition(":")[2]


def digest_of(plans: Sequence[Plan]) -> str:
    """Return the digest of what is approved: each question, its cost, and the declaration that it was planned under."""
    identities = [[p.identity(), {n: str(a) for n, a in p.cost.amounts().items()}, p.declaration] for p in plans]
    return hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()


class Approvals:
    """Hold what waits in one store."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store

    def require(
        self,
        visitor: Visitor,
        request: str,
        plans: Sequence[Plan],
        *,
        cost: dict[str, Any],
        reveals: str,
        asked: Sequence[Any] = (),
    ) -> None:
        """Return where an officer has approved exactly this; else note that it waits, and raise ApprovalNeeded.

        Raises NotAllowed where it was declined, QuestionRefused where the request id waits for another question.
        """
        digest = digest_of(plans)
        approval = self._with_request(request)
        if approval is None:
            row = {
                "account": visitor.account,
                "spender": visitor.spender,
                "request": request,
                "digest": digest,
                "question": "; ".join(p.words for p in plans),
                "cost": json.dumps(cost),
                "plans": json.dumps([p.to_dict() for p in plans]),
                "reveals": reveals,
                "state": "waiting",
                "created": self._store.now(),
                "asked": json.dumps(list(asked)) if asked and all(asked) else None,
            }
            try:
                with self._store.transact() as db:
                    db.execute(insert(APPROVALS).values(row))
            # Another thread or process has stored the same request.
            except IntegrityError:
                pass
            approval = self._with_request(request)
            assert approval is not None
        if approval.digest != digest:
            raise QuestionRefused("this request id waits for an officer with another question or loss: take a new one")
        if approval.state == "declined":
            why = f": {approval.reason}" if approval.reason else ""
            raise NotAllowed(f"an officer declined this question (approval {approval.id}){why}")
        if approval.state == "waiting":
            rule = f"this costs more than an analyst spends alone, so an officer has to approve it (approval {approval.id})"
            caller_id = own_request(request)
            raise ApprovalNeeded(
                f"{rule}; nothing was charged: ask again with the same request id",
                approval=approval.id,
                request=caller_id,
            )

    def keep_form(self, approval: Approval, form: Mapping[str, Any]) -> None:
        """Keep the form that asked what waits, so that its page gets the answer later."""
        with self._store.transact() as db:
            db.execute(update(APPROVALS).where(APPROVALS.c.id == approval.id).values(form=json.dumps(dict(form))))

    def state_of(self, request: str) -> str | None:
        """Return whether what has this request id waits or was decided, None where nothing has it."""
        approval = self._with_request(request)
        return None if approval is None else approval.state

    def all(self, *, account: int | None = None, state: str | None = None) -> list[Approval]:
        """Return what waits or waited, oldest first: of one account, or in one state."""
        statement = _join_accounts().order_by(APPROVALS.c.id)
        statement = statement if account is None else statement.where(APPROVALS.c.account == account)
        statement = statement if state is None else statement.where(APPROVALS.c.state == state)
        with self._store.read() as db:
            return [_approval(row) for row in db.execute(statement)]

    def find(self, number: int) -> Approval:
        """Return an approval by its number; raises NotThere."""
        with self._store.read() as db:
            row = db.execute(_join_accounts().where(APPROVALS.c.id == number)).first()
        if row is None:
            raise NotThere
        return _approval(row)

    def decide(self, approval: Approval, officer: Visitor, state: str, *, reason: str | None = None) -> Approval:
        """Approve or decline what waits; raises DeclarationError where another officer was first."""
        values = {"state": state, "officer": officer.name, "reason": reason, "decided": self._store.now()}
        waits = (APPROVALS.c.id == approval.id) & (APPROVALS.c.state == "waiting")
        with self._store.transact() as db:
            changed = db.execute(update(APPROVALS).where(waits).values(values)).rowcount
        decided = self.find(approval.id)
        if not changed:
            raise AlreadyDecided(f"approval {approval.id} was decided before: {decided.state} by {decided.officer}")
        return decided

    def _with_request(self, request: str) -> Approval | None:
        with self._store.read() as db:
            row = db.execute(_join_accounts().where(APPROVALS.c.request == request)).first()
        return None if row is None else _approval(row)


class AlreadyDecided(DeclarationError):
    """Say that another officer has decided."""


def _join_accounts() -> Any:
    return select(APPROVALS, ACCOUNTS.c.name.label("name")).join_from(APPROVALS, ACCOUNTS)


def _approval(row: Row[Any]) -> Approval:
    plain = dict(row._mapping)
    data = {
        name: None if plain[name] is None else json.loads(plain[name]) for name in ("cost", "plans", "asked", "form")
    }
    return Approval(**{**plain, **data})
