"""How each kind of question is planned: a registry, which code in the curator's own process may add to.

A procedure that is registered here sees exact values after the charge, through its DataAccess, and nothing checks its proof:
registering is an act of the curator, in code, before the first table is opened. No entry point, project file, SQL, request or
stored record registers anything. Plans, records and releases name a procedure that is not Sordino's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from sordino.ask.curator.plan import Plan, PlannedQuestion, TableContext
from sordino.core.errors import DeclarationError
from sordino.core.loss import Loss


class PlanQuestion(Protocol):
    """Plans a question of one class at a loss; raises QuestionRefused where its theorem does not hold for the table."""

    def __call__(self, question: Any, table: TableContext, *, asked: Loss) -> Plan: ...


@dataclass(frozen=True, slots=True)
class RegisteredProcedure:
    """How questions of one class are planned, and whose code that is: empty for Sordino's own."""

    plan: PlanQuestion
    provider: str

    def plan_question(self, question: Any, table: TableContext, *, asked: Loss) -> Plan:
        """Return the plan, which names its provider."""
        return replace(self.plan(question, table, asked=asked), provider=self.provider)


_PROCEDURES: dict[type, RegisteredProcedure] = {}


def register_procedure(
    question: type[PlannedQuestion], plan: PlanQuestion, *, module: str = "", version: str = ""
) -> None:
    """Let questions of a class be planned by `plan`, which makes a `Procedure` and prices it with `price`.

    `module` and `version` say whose code it is: plans, records and releases name them, and only Sordino's own modules leave
    them out. Raises DeclarationError for a class that is planned already, and for foreign code without a name.
    """
    if question in _PROCEDURES:
        raise DeclarationError(f"questions of class {question.__name__} have a procedure already")
    own = question.__module__.startswith("sordino.")
    if not own and not (module and version):
        raise DeclarationError(
            "a procedure that is not Sordino's own states its module and version, such as module='mypackage', version='1.0': "
            "plans and releases name them"
        )
    _PROCEDURES[question] = RegisteredProcedure(plan, f"{module} {version}".strip())


def registered_procedure(question: object) -> RegisteredProcedure | None:
    """Return how a question is planned; None where its class is not registered."""
    return _PROCEDURES.get(type(question))
