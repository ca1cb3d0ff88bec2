"""What a model costs, and how wrong it will be, before anything is spent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import Loss, read_loss
from sordino.models.columns import Table, domain_of
from sordino.models.registry import LOSS_ARGUMENTS, arguments_of, load_fit


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The price of a model: its `cost`, the question that it is answered from, None where its queries follow from answers.

    `error` is what is known of its error from public facts, in words.
    """

    model: str
    cost: Loss
    question: Any
    error: str

    def __repr__(self) -> str:
        return f"<plan of {self.model}: {self.cost.describe()}>"

    def __str__(self) -> str:
        queries = (
            "queries that follow from answers to earlier ones" if self.question is None else self.question.describe()
        )
        lines = {"model": self.model, "cost": self.cost.describe(), "asks": queries, "error": self.error}
        return "\n".join(f"{name:<7}{text}" for name, text in lines.items())


def plan(model: str, table: Table, **arguments: Any) -> ModelPlan:
    """Return what a model would cost, by the name of its function; spends nothing, and raises what that function would.

    `arguments` are those of the function: y and x, or columns, what else it takes, and epsilon, delta or rho. Raises
    DeclarationError for another name, for an argument that the model does not have, and for one that it lacks.
    """
    stated = {name: value for name, value in arguments.items() if value is not None}
    loss = {name: stated.pop(name) for name in LOSS_ARGUMENTS if name in stated}
    check_arguments(model, stated)
    # Of the table itself, before the fit sees one whose calls end it.
    domain_of(table)
    try:
        load_fit(model)(_UnaskedTable(table), **stated, **loss)
    except _FirstQuestion as first:
        question = first.question
        cost = first.cost
    if question is None:
        return ModelPlan(model, read_loss(**loss) if cost is None else cost, None, "depends on data")
    priced = table.plan(question, **loss)
    words = "; ".join(f"{column.names[0]}: {column.words[0]}" for column in priced.procedure.columns(0.95))
    return ModelPlan(model, priced.cost, question, f"{words}; that of what the model says depends on data")


def check_arguments(model: str, stated: Collection[str]) -> None:
    """Raise DeclarationError for an argument that a model does not have, and for one that it needs and that is not stated."""
    takes = arguments_of(model)
    for name in stated:
        if name not in takes:
            raise DeclarationError(f"{arg(f'{name}=')} does not go with {model}, which takes {', '.join(takes)}")
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in stated:
            raise DeclarationError(f"is missing: {model} needs it", key=name)


class _FirstQuestion(Exception):
    """The question that a fit would have asked, None for an algorithm, and the cost where it is that of several parts."""

    def __init__(self, question: Any, cost: Loss | None = None) -> None:
        super().__init__()
        self.question = question
        self.cost = cost


class _UnaskedTable:
    """A table whose first question ends the fit: so a plan refuses what the fit refuses, by the same code."""

    def __init__(self, table: Any, *, asks: bool = True) -> None:
        self._table = table
        self._asks = asks

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._table, name)
        return _stop if name in ("adapt", "fit_model", "fit_prediction") else attribute

    def over(self, selection: Any) -> _UnaskedTable:
        """Return some rows of the table, of which nothing is asked either: what is asked of them is an algorithm's."""
        return _UnaskedTable(self._table.over(selection), asks=False)

    def adapt_parts(self, algorithm: Any, *, parts: Any, describe: str, **options: Any) -> NoReturn:
        """End the fit, once its parts are priced: they refuse what they would before a charge."""
        del algorithm, options
        raise _FirstQuestion(None, self._table.plan_parts(parts, describe=describe).cost)

    def ask(self, question: Any, **loss: Any) -> NoReturn:
        """End the fit."""
        del loss
        raise _FirstQuestion(question if self._asks else None)


def _stop(*arguments: Any, **options: Any) -> NoReturn:
    del arguments, options
    raise _FirstQuestion(None)
