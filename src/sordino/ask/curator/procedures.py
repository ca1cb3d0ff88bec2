"""How each kind of question is planned: a registry, which code in the curator's own process may add to.

A procedure that is registered here is trusted as all code of the curator's process is: nothing checks its proof. What it
is handed before the charge writes statements and cannot run them. When it may register, core/registration.py says. Plans,
records and releases name a procedure that is not Sordino's own, and so does the error where it fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from sordino.ask.curator.plan import Plan, PlannedQuestion, TableContext, price
from sordino.core.errors import DeclarationError
from sordino.core.loss import Loss
from sordino.core.registration import check_registering, is_own, name_provider


class PlanQuestion(Protocol):
    """Plans a question of one class at a loss; raises QuestionRefused where its theorem does not hold for the table."""

    def __call__(self, question: Any, table: TableContext, *, asked: Loss) -> Plan: ...


@dataclass(frozen=True, slots=True)
class RegisteredProcedure:
    """How questions of one class are planned, and whose code that is: empty for Sordino's own."""

    plan: PlanQuestion
    provider: str

    def plan_question(self, question: Any, table: TableContext, *, asked: Loss) -> Plan:
        """Return the plan, which names its provider.

        What foreign code states of its cost is not taken: its procedure is priced anew. Raises DeclarationError where the
        plan states another question, event or cost than that.
        """
        plan = self.plan(question, table, asked=asked)
        if not self.provider:
            return plan
        priced = price(plan.procedure, table, asked=asked)
        stated = (plan.question, plan.asked, plan.event, plan.cost)
        if plan.table is not table or stated != (question, asked, priced.event, priced.cost):
            raise DeclarationError(
                f"the plan of {self.provider} is not that of its procedure: it states another question, event or cost; make it "
                "with price(procedure, table, asked=asked), and report this to its authors"
            )
        return replace(priced, provider=self.provider)


_PROCEDURES: dict[type, RegisteredProcedure] = {}


def register_procedure(
    question: type[PlannedQuestion], plan: PlanQuestion, *, module: str = "", version: str = ""
) -> None:
    """Let questions of a class be planned by `plan`, which makes a `Procedure` and prices it with `price`.

    `module` and `version` say whose code it is: plans, records and releases name them, and only Sordino's own modules leave
    them out. Raises DeclarationError for a class that is planned already, for foreign code without a name, and once a table is
    open.
    """
    if question in _PROCEDURES:
        raise DeclarationError(f"questions of class {question.__name__} have a procedure already")
    check_registering(plan, f"a procedure for {question.__name__}")
    if is_own(question) and not is_own(plan):
        raise DeclarationError(
            f"{question.__name__} is Sordino's own question: register a procedure for a class of yours"
        )
    _PROCEDURES[question] = RegisteredProcedure(plan, name_provider(plan, "a procedure", module, version))


def registered_procedure(question: object) -> RegisteredProcedure | None:
    """Return how a question is planned; None where its class is not registered."""
    return _PROCEDURES.get(type(question))
