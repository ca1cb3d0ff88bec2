"""RequestIds: one request id of an account names one thing - a question, a list of questions, or a job - over all budgets.

A ledger holds its own charges to their ids. What it cannot see is held here: what a list consists of, and what other
ledgers and jobs have under the same id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import select, text

from sordino.ask.curator.plan import Plan
from sordino.core.errors import QuestionRefused
from sordino.core.ledger.ledger import Ledger
from sordino.serve.server.account_schema import APPROVALS, JOBS, REQUESTS
from sordino.serve.server.database import ServerDatabase

# two servers may write the same list at once: both then find the one that was first
_KEEP = text("INSERT INTO requests (request, digest) VALUES (:request, :digest) ON CONFLICT (request) DO NOTHING")
_RULE = "; one id means one question: use a new id for a new question"


def names_of_parts(request: str, count: int) -> list[str]:
    """Return the ids by which ledgers know the questions of a request: a single question has the request's own."""
    return [request] if count == 1 else [f"{request} #{place}" for place in range(1, count + 1)]


class RequestIds:
    """Hold the request ids of one store to what each was first used for; `ledgers` gives the ledger of each budget."""

    def __init__(self, store: ServerDatabase, ledgers: Callable[[], Iterable[tuple[str, Ledger]]]) -> None:
        self._store = store
        self._ledgers = ledgers

    def bind(self, account: int, request: str) -> str:
        """Return an account's request id as ledgers and answers state it: behind the account's number, as in `6:a`.

        Such an id, sent back, names what it names there, unless the account began something of its own under the longer one.
        """
        prefix = f"{account}:"
        bound = prefix + request
        if request.startswith(prefix) and self._is_known(request) and not self._is_known(bound):
            return request
        return bound

    def claim(self, request: str, plans: Sequence[tuple[str, Plan]]) -> None:
        """Raise QuestionRefused where the id names something else; `plans` are with their budgets.

        A single question that its own ledger knows is left to that ledger, which says at which charge.
        """
        with self._store.read() as db:
            listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar()
            job = db.execute(select(JOBS.c.kind).where(JOBS.c.request == request)).scalar()
        if job is not None:
            raise QuestionRefused(f"this request id began a job ({job}){_RULE}")
        first = names_of_parts(request, 2)[0]
        if len(plans) == 1:
            ((budget, _),) = plans
            if listed is not None or self._is_charged(first):
                raise QuestionRefused(f"this request id was used for a list of questions{_RULE}")
            if self._is_charged(request, beside=budget):
                raise QuestionRefused(f"this request id was used for a question to another budget{_RULE}")
            return
        identities = [[budget, p.identity(), {n: str(a) for n, a in p.cost.amounts().items()}] for budget, p in plans]
        digest = hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()
        if listed is None:
            if self._is_charged(request):
                raise QuestionRefused(f"this request id was used for one question, not for a list{_RULE}")
            with self._store.transact() as db:
                db.execute(_KEEP, {"request": request, "digest": digest})
            with self._store.read() as db:
                listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar_one()
        if listed != digest:
            raise QuestionRefused(f"this request id was used for another list of questions, or at another loss{_RULE}")

    def claim_job(self, request: str) -> None:
        """Raise QuestionRefused where the id names a question or a list; which job it began is for `Jobs.begin` to say."""
        with self._store.read() as db:
            listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar()
        if listed is not None or self._is_charged(request) or self._is_charged(names_of_parts(request, 2)[0]):
            raise QuestionRefused(f"this request id was used for a question{_RULE}")

    def _is_known(self, request: str) -> bool:
        """Return whether an account began or was charged for anything by a bound id, or waits for an officer's decision."""
        with self._store.read() as db:
            for table in (REQUESTS, JOBS, APPROVALS):
                if db.execute(select(table.c.request).where(table.c.request == request)).first() is not None:
                    return True
        return self._is_charged(request)

    def _is_charged(self, request: str, *, beside: str | None = None) -> bool:
        return any(ledger.has_request(request) for budget, ledger in self._ledgers() if budget != beside)
