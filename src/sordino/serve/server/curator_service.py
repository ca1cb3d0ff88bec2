"""CuratorService: what every way into the server calls - HTTP, the SQL wire, mcp, pages. Access is checked here, and only here.

It knows visitors, plans and Releases; what it returns for JSON is what the command line prints. It sees no data, no request
and no network. Every method takes the visitor first, and raises a SordinoError: NotAllowed where the role does not include
it, NotThere for what is another's.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sqlalchemy import select

from sordino.ask.curator.batch import Batch
from sordino.ask.curator.charging import declaration_digest, share_of_table
from sordino.ask.curator.connect import Connection
from sordino.ask.curator.curator import Curator
from sordino.ask.curator.explain import explain, explain_charge, explain_loss
from sordino.ask.curator.plan import Plan
from sordino.ask.project.budget import BudgetStatus, budget_status
from sordino.ask.project.load import Project
from sordino.ask.project.serve_settings import ServeSettings
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.errors import (
    ApprovalNeeded,
    ChargedError,
    DeclarationError,
    NotAllowed,
    QuestionRefused,
    SordinoError,
)
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, canonical
from sordino.core.loss import Loss, loss_to_numbers, to_fraction
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.serve.server.access import OWNER, NotThere, Visitor, check_access, sees_all
from sordino.serve.server.account_schema import JOBS
from sordino.serve.server.account_service import AccountService
from sordino.serve.server.accounts import check_name
from sordino.serve.server.answer_time import PlanningTime, PublicClock
from sordino.serve.server.database import ServerDatabase, text_of_time
from sordino.serve.server.locks import Job, KeyedLocks
from sordino.serve.server.logs import Metrics
from sordino.serve.server.question_request import (
    QuestionRequest,
    QuestionTexts,
    RequestIds,
    describe_asked,
    names_of_parts,
)

LONGEST_REQUEST = 200


class CuratorService:
    """Serve the tables of a project to accounts: each spends a share, and an officer approves what costs much.

    `account_service` lets people in, and has accounts, approvals and the audit log. `public_clock` says when an answer may leave:
    whoever sends one waits for it, `started = service.public_clock.start()` on arrival and `.sleep(started)` before it goes.
    With a `seed`, for classrooms, the noise of each spender begins anew from it; curators of a durable ledger refuse that.
    """

    def __init__(
        self, project: Project, store: ServerDatabase, *, rng: Rng | None = None, seed: int | None = None
    ) -> None:
        self.settings = project.serve or ServeSettings("")
        self._check_threshold(project)
        self._base = Connection(project, rng=rng)
        self._seed = seed
        ledgers = {name: self._base.ledger(name) for name in project.budgets}
        opened = {name: replace(budget, ledger=ledgers[name]) for name, budget in project.budgets.items()}
        self.project = replace(project, budgets=MappingProxyType(opened))
        self._base.project = self.project
        self.store = store
        self.account_service = AccountService(
            store, reserved={who for one in project.budgets.values() for who in one.shares}, settings=self.settings
        )
        self._texts = QuestionTexts(store)
        self.public_clock = PublicClock(self.settings.answer_every)
        self._spending: dict[str, Connection] = {}
        self._statuses: dict[str, tuple[str, BudgetStatus]] = {}
        self._requests = KeyedLocks()
        self._claims = KeyedLocks()
        self.request_ids = RequestIds(store, lambda: [(name, self.ledger(name)) for name in self.project.budgets])
        self._planning = PlanningTime()
        self.metrics = Metrics()
        # Guards the connections: a curator is opened once.
        self._lock = threading.Lock()

    # ---- tables and questions

    def tables(self, visitor: Visitor) -> list[dict[str, Any]]:
        """Return the declared tables: budget, columns, neighbors, privacy unit, and the digest of the declaration."""
        check_access(visitor, "table.read")
        return self.declared_tables()

    def declared_tables(self) -> list[dict[str, Any]]:
        """Return the declared tables, which are public, for a way in that makes a catalog of them."""
        tables = []
        for name, table in self.project.tables.items():
            plain = json.loads(canonical(table.declaration))
            digest = declaration_digest(name, table.declaration)
            tables.append({"name": name, "budget": table.budget, **plain, "declaration": digest})
        return tables

    def plan(self, visitor: Visitor, asked: QuestionRequest) -> Plan | Batch:
        """Return what a question would cost and how wrong its answer would be; nothing is spent.

        Only the visitor's own earlier answers are named.
        """
        check_access(visitor, "question.plan")
        plan = self._plan(visitor, asked)
        if isinstance(plan, Batch):
            return replace(plan, plans=tuple(self._only_own(visitor, part) for part in plan.plans))
        return self._only_own(visitor, plan)

    def ask(self, visitor: Visitor, asked: QuestionRequest, *, request: str | None = None) -> list[Release]:
        """Return the answers of a question, one for each SELECT: charged to the visitor's share and the budget, once.

        With a `request` id, asking the same again gives the stored answers. Raises ApprovalNeeded where an officer has to
        approve first; after that the same id gets the answer. Whoever sends the answer on waits for `public_clock`.
        """
        if asked.on == "dummy":
            return self._ask_dummy(visitor, asked)
        check_access(visitor, "question.ask", owner=visitor.account)
        plan = self._plan(visitor, asked)
        plans = _plans_of(plan)
        descriptions = describe_asked(asked, plan)
        curators = [self.curator(visitor, part.table_name) for part in plans]
        bound = self.bind(visitor, request)
        with self._claims.hold(bound), self.summing(visitor):
            if bound is not None:
                budgets = [self.project.tables[part.table_name].budget for part in plans]
                self.request_ids.claim(bound, list(zip(budgets, plans, strict=True)))
            return self._ask_all(visitor, asked, bound, list(zip(curators, plans, descriptions, strict=True)))

    def _ask_all(
        self, visitor: Visitor, asked: QuestionRequest, bound: str | None, parts: Sequence[tuple[Curator, Plan, Any]]
    ) -> list[Release]:
        """Return the answers of planned questions, once what is new of them is approved and covered."""
        names: list[str | None] = [None] * len(parts) if bound is None else [*names_of_parts(bound, len(parts))]
        new = [
            plan
            for (curator, plan, _), name in zip(parts, names, strict=True)
            if not self._is_known(curator, plan, name)
        ]
        if new:
            self.require_approval(
                visitor, bound, [plan for _, plan, _ in parts], asked=[words for _, _, words in parts]
            )
        if len(new) > 1:
            Batch(tuple(new), asked.confidence).check_covered(parts[0][0].remaining)
        return [
            self._ask_one(visitor, curator, plan, name, words)
            for (curator, plan, words), name in zip(parts, names, strict=True)
        ]

    def _ask_one(self, visitor: Visitor, curator: Curator, plan: Plan, request: str | None, record: Any) -> Release:
        """Return the answer of one plan; two that ask by one request id at once get one answer, one after the other."""
        about = f"{plan.table_name}: {plan.words}"
        outcome = "failed"
        noted = list[Job]()
        try:
            with self._requests.hold(request):
                try:
                    release = curator.ask(plan, request_id=request)
                # Another process may have stored its answer first.
                except ChargedError:
                    if not self._is_stored(curator, plan, request):
                        raise
                    release = curator.ask(plan, request_id=request)
            outcome = release.charge
            noted = self._texts.note(self.project.tables[plan.table_name].budget, release, record)
        except SordinoError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.account_service.audit_log.append_if_able(visitor, "question.ask", about, outcome, *noted)
        return release

    def _plan(self, visitor: Visitor, asked: QuestionRequest) -> Plan | Batch:
        if visitor.role == OWNER.role:
            return self._plan_unlimited(asked)
        with self._planning.planning(visitor.account):
            return self._plan_unlimited(asked)

    def _plan_unlimited(self, asked: QuestionRequest) -> Plan | Batch:
        asked.check_length()
        # The engine of a table is opened once.
        with self._lock:
            for name in self.project.tables if asked.table is None else [asked.table]:
                self._base.table(name)
        if isinstance(asked.question, SqlText) and asked.table is None:
            plan: Plan | Batch = self._base.plan(asked.question, **asked.loss)
        elif asked.table is None:
            raise DeclarationError("is missing; state the table that the question is about", key="table")
        else:
            plan = self._plan_in_python(asked)
        asked.check_seen(_plans_of(plan))
        return plan

    def _plan_in_python(self, asked: QuestionRequest) -> Plan | Batch:
        try:
            plan: Plan | Batch = self._base.table(asked.table).plan(asked.question, **asked.loss)
        except QuestionRefused as error:
            if isinstance(asked.question, SqlText):
                raise
            # The refusal is in the words of Python, not of SQL.
            raise type(error)(str(error)) from None
        return plan

    def _ask_dummy(self, visitor: Visitor, asked: QuestionRequest) -> list[Release]:
        check_access(visitor, "question.practise")
        return [
            self._base.table(plan.table_name).ask(plan, on="dummy") for plan in _plans_of(self._plan(visitor, asked))
        ]

    def curator(self, visitor: Visitor, table: str) -> Curator:
        """Return the curator of a table that charges the visitor's share; raises NotAllowed where it has none.

        The owner of the project has no share: it charges the budget, as the command line does.
        """
        if visitor.role == "owner":
            with self._lock:
                return self._base.table(table)
        budget = self.project.tables[table].budget
        if self.share_of(visitor.spender, budget) is None:
            raise NotAllowed(
                f"you have no share of the budget {budget!r}, which {table} draws on: an officer gives one "
                f"(sordino serve account share {visitor.spender} --budget {budget} --epsilon ...)"
            )
        with self._lock:
            if visitor.spender not in self._spending:
                rng = None if self._seed is None else Rng.seeded(self._seed)
                self._spending[visitor.spender] = self._base.spend_as(visitor.spender, rng=rng)
            return self._spending[visitor.spender].table(table)

    def read_table(self, table: str) -> Curator:
        """Return the curator of a table for what is on record of it; nothing may be asked through it."""
        with self._lock:
            return self._base.table(table)

    def _only_own(self, visitor: Visitor, plan: Plan) -> Plan:
        ledger = self.ledger(self.project.tables[plan.table_name].budget)
        anyone = visitor.role == "owner"
        earlier = tuple(c.id for c in ledger.earlier(plan.identity()) if anyone or c.spender == visitor.spender)
        return plan.seen_before(earlier, ledger.unknown())

    def bind(self, visitor: Visitor, request: str | None) -> str | None:
        """Return a visitor's request id bound to the account, so that nobody meets another's; None without one."""
        if request is None:
            return None
        bound = self.request_ids.bind(visitor.account, request)
        # One that was sent back as an answer states it is bound already, and longer by that.
        if bound != request and not (0 < len(request) <= LONGEST_REQUEST and request.isprintable()):
            raise DeclarationError(f"must be 1 to {LONGEST_REQUEST} printable characters", key="the request id")
        return bound

    def _is_known(self, curator: Curator, plan: Plan, request: str | None) -> bool:
        """Return whether a request was charged before, answered or not: then it was approved, where it had to be."""
        try:
            return self._is_stored(curator, plan, request)
        except ChargedError:
            return True

    def _is_stored(self, curator: Curator, plan: Plan, request: str | None) -> bool:
        return request is not None and curator.ledger.recall(request, plan.identity()) is not None

    def require_approval(
        self, visitor: Visitor, bound: str | None, plans: Sequence[Plan], *, asked: Sequence[Any] = ()
    ) -> None:
        """Raise ApprovalNeeded where plans together cost more than an analyst spends alone, and no officer approved them.

        `bound` is the request id as `bind` returns it, `asked` the questions as `describe_asked` does, for the officer to read.
        """
        if not self.needs_officer(visitor, plans):
            return
        cost = Batch(tuple(plans), 0.95).cost
        # an officer is not asked to approve what could not be charged
        state = None if bound is None else self.account_service.approvals.state_of(bound)
        if state != "approved":
            for budget in {self.project.tables[plan.table_name].budget for plan in plans}:
                one = [plan for plan in plans if self.project.tables[plan.table_name].budget == budget]
                Batch(tuple(one), 0.95).check_covered(self.curator(visitor, one[0].table_name).remaining)
        if bound is None:
            raise QuestionRefused(
                "this costs more than an analyst spends alone, so an officer has to approve it: ask with a request id "
                "(Idempotency-Key), by which the answer is fetched afterwards"
            )
        reveals = " ".join(
            explain_loss(p.cost, p.event, p.neighbors.relation, p.protects.describe_unit()) for p in plans
        )
        try:
            self.account_service.approvals.require(
                visitor, bound, plans, cost=loss_to_numbers(cost), reveals=reveals, asked=asked
            )
        except ApprovalNeeded as error:
            if state is None:
                about = f"{error.approval}: {'; '.join(f'{p.table_name}: {p.words}' for p in plans)}"
                self.account_service.audit_log.append_if_able(visitor, "approval.request", about, "waiting")
            raise

    @contextmanager
    def summing(self, visitor: Visitor) -> Iterator[None]:
        """Let one spender's questions and jobs go one after the other, at all servers of the store, where a day's sum is stated.

        So each sees in the ledger, or among the jobs, what those before it cost.
        """
        if not self.settings.approve_above_daily or visitor.role == OWNER.role:
            yield
            return
        name = f"spender {visitor.spender}"
        # of one process a single thread waits for the others, so that few connections do
        with self._claims.hold(name), self.store.hold(name):
            yield

    def needs_officer(self, visitor: Visitor, plans: Sequence[Plan]) -> bool:
        """Return whether plans cost more than a visitor spends without an officer's approval: together, or in a day."""
        if visitor.role == OWNER.role:
            return False
        cost = Batch(tuple(plans), 0.95).cost
        most = self.settings.approve_above
        if any(name in most and amount > most[name] for name, amount in cost.amounts().items()):
            return True
        daily = self.settings.approve_above_daily
        if not daily:
            return False
        for table in {table for plan in plans for table in plan.table_shares}:
            day = self._spent_in_a_day(visitor, table)
            for plan in plans:
                share = plan.table_shares.get(table, Fraction(0))
                for name, amount in plan.cost.amounts().items():
                    day[name] = day.get(name, Fraction(0)) + amount * share
            if any(name in daily and amount > daily[name] for name, amount in day.items()):
                return True
        return False

    def _spent_in_a_day(self, visitor: Visitor, table: str) -> dict[str, Fraction]:
        """Return what a visitor's share was charged for a table within 24 hours, and what its jobs under way will be."""
        since = text_of_time(self.store.clock() - datetime.timedelta(days=1))
        amounts: dict[str, Fraction] = {}
        for charge in self.ledger(self.project.tables[table].budget).charges_since(since):
            share = share_of_table(charge.note, table)
            if charge.spender == visitor.spender and share:
                for name, amount in charge.amounts.items():
                    amounts[name] = amounts.get(name, Fraction(0)) + amount * share
        running = select(JOBS.c.asked).where((JOBS.c.account == visitor.account) & (JOBS.c.state == "running"))
        with self.store.read() as db:
            jobs = [json.loads(text) for text in db.execute(running).scalars()]
        # Charged already or not, a job under way counts in full, of whichever table an evaluation is.
        for job in jobs:
            if job.get("table", table) == table:
                for name in ("epsilon", "delta", "rho"):
                    if name in job:
                        amounts[name] = amounts.get(name, Fraction(0)) + to_fraction(job[name], name=name)
        return amounts

    # ---- budgets, shares and past releases

    def ledger(self, budget: str) -> Ledger:
        """Return the ledger of a declared budget; raises UnknownName."""
        return self._base.ledger(budget)

    def share_of(self, spender: str, budget: str) -> Loss | None:
        """Return the share of a budget that a spender has on record, or by the project file; None without one."""
        on_record = self.ledger(budget).shares()
        declared = self.project.budget(budget).shares.get(spender)
        return on_record[spender].cap if spender in on_record else declared

    def budgets(self, visitor: Visitor, name: str | None = None) -> list[dict[str, Any]]:
        """Return how budgets stand, as `sordino budget --format json`; to an analyst of all shares its own alone."""
        check_access(visitor, "budget.read")
        statuses = [self._status(one.name) for one in self.project.budgets_named(name)]
        return [self._shown_status(visitor, one) for one in statuses]

    def _status(self, budget: str) -> BudgetStatus:
        """Return how a budget stands; the whole chain is replayed once for each state of the ledger."""
        head = self.ledger(budget).head()
        cached = self._statuses.get(budget)
        if cached is None or cached[0] != head:
            cached = self._statuses[budget] = head, budget_status(self.project.budget(budget))
        # an allowance stands otherwise in another month, though nothing was charged
        return replace(cached[1], time=self.ledger(budget).writer.now())

    def _shown_status(self, visitor: Visitor, status: BudgetStatus) -> dict[str, Any]:
        plain = status.to_dict()
        if sees_all(visitor, "budget.read"):
            return {**plain, "ledger": str(self.ledger(status.budget.name).path)}
        own_share = {who: share for who, share in plain["shares"].items() if who == visitor.spender}
        return {**plain, "ledger": None, "mark": None, "shares": own_share}

    def set_share(self, who: Visitor | str, spender: str, budget: str, share: Callable[[Loss], Loss]) -> None:
        """Give a spender a share of a budget, or change it; `share` makes it for the budget's cap.

        `who` is a visitor, or the name of what acts without an account, such as the command line. Raises DeclarationError
        where the share is of another kind than the cap, or too large, or below what was spent of it.
        """
        if isinstance(who, Visitor):
            check_access(who, "share.change")
        declared = self.project.budget(budget)
        ledger = self.ledger(budget)
        if spender not in declared.shares and spender not in ledger.shares():
            check_name(spender, key="the spender")
        loss = share(ledger.cap)
        if spender in declared.shares and declared.shares[spender].amounts() != loss.amounts():
            raise DeclarationError(
                f"the share of {spender!r} is declared in the project file: change it there, then `sordino ledger amend`"
            )
        if spender in ledger.shares():
            by = who.name if isinstance(who, Visitor) else who
            ledger.amend(reason=f"share of {spender} set by {by}", shares={spender: loss})
        else:
            ledger.declare_share(spender, loss)
        if isinstance(who, Visitor):
            self.account_service.two_person.note(who, "funded", spender=spender)
        self.account_service.audit_log.append(who, "share.change", f"{spender} of {declared.name}: {loss.describe()}")

    def charges(self, visitor: Visitor, *, budget: str | None = None) -> list[tuple[str, Charge]]:
        """Return the charges that a visitor may see, each with its budget's name, oldest first."""
        check_access(visitor, "release.read")
        everything = sees_all(visitor, "release.read")
        return [
            (one.name, charge)
            for one in self.project.budgets_named(budget)
            for charge in self.ledger(one.name).charges()
            if everything or charge.spender == visitor.spender
        ]

    def release(self, visitor: Visitor, charge: str, *, budget: str | None = None) -> Release:
        """Return a past release as it was, at no cost; raises NotThere for another's and for one that is not there."""
        matches = [(name, c) for name, c in self.charges(visitor, budget=budget) if c.id == charge]
        if not matches:
            raise NotThere
        if len(matches) > 1:
            raise DeclarationError(
                f"is missing; several have a charge {charge}: {', '.join(n for n, _ in matches)}", key="budget"
            )
        return Release.from_dict(json.loads(self.ledger(matches[0][0]).answer(charge)))

    def asked_text(self, visitor: Visitor, charge: str, *, budget: str | None = None) -> dict[str, Any] | None:
        """Return what asks a past release again: the question and its loss as JSON data; None where they were not noted."""
        release = self.release(visitor, charge, budget=budget)
        return self._texts.find(self.project.tables[release.table_name].budget, release)

    def explain(self, visitor: Visitor, charge: str, *, budget: str | None = None) -> str:
        """Return what a past release reveals at most."""
        release = self.release(visitor, charge, budget=budget)
        table = self.project.tables.get(release.table_name)
        return explain(release) if table is None else explain_charge(self.ledger(table.budget), release)

    def sums(self) -> list[tuple[str, Loss, Loss]]:
        """Return each budget's name, its cap and what is spent of it: public facts, for metrics."""
        ledgers = {name: self.ledger(name) for name in self.project.budgets}
        return [(name, ledger.cap, ledger.spent()) for name, ledger in ledgers.items()]

    def check_ready(self) -> None:
        """Raise DeclarationError where the store cannot be used, LedgerError where a ledger cannot."""
        self.store.setting("session_key", lambda: "")
        self.sums()

    def close(self) -> None:
        """Close the store; ledgers and engines need no closing."""
        self.store.close()

    def _check_threshold(self, project: Project) -> None:
        """Raise DeclarationError where questions above a stated loss wait, but a budget counts another kind of loss."""
        above = self.settings.approve_above
        daily = self.settings.approve_above_daily
        for name, budget in project.budgets.items():
            kind = next(iter(budget.cap.amounts()))
            if above and kind not in above:
                raise DeclarationError(
                    f"[serve] approve_above states no {kind}, which the budget {name!r} counts: state it too, so that it is "
                    "known which questions wait"
                )
            if daily and kind not in daily:
                raise DeclarationError(
                    f"[serve] approve_above_daily states no {kind}, which the budget {name!r} counts"
                )


def _plans_of(plan: Plan | Batch) -> Sequence[Plan]:
    return plan.plans if isinstance(plan, Batch) else [plan]
