"""`sordino plan`: what a question would cost and how wrong its answer would be. Nothing is spent, no data is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sordino.cli.shared.options import (
    AssumeRows,
    Confidence,
    Delta,
    Dialect,
    Epsilon,
    ProjectPath,
    QueryFile,
    Question,
    Quiet,
    Rho,
    TextForm,
    TextFormat,
)
from sordino.cli.shared.terminal import note, paint, say, wrap
from sordino.reporting.text_table import plain

if TYPE_CHECKING:
    from sordino.curator.curator import Curator
    from sordino.curator.plan import Plan

__all__ = ["plan"]

_GUESS = "(--assume-rows, a public guess, makes it a number)"


def plan(
    sql: Question = None,
    file: QueryFile = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    assume_rows: AssumeRows = None,
    dialect: Dialect = None,
    confidence: Confidence = 0.95,
    form: TextForm = TextFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Price a question: its cost, noise and expected error. This is free and does not use the data."""
    from sordino.cli.ask.question import plan_question, text_of

    curator, made = plan_question(
        text_of(sql, file), project, epsilon=epsilon, delta=delta, rho=rho, assume_rows=assume_rows, dialect=dialect
    )
    if form is TextFormat.json:
        say(json.dumps(made.to_dict(confidence=confidence), ensure_ascii=False, indent=2))
        return
    for label, text in made.entries(confidence):
        head, *rest = wrap(label, text.replace("(give assume_rows, a public guess)", _GUESS))
        name = plain(label)
        say(head.replace(name, paint(name, "bold"), 1) if label in made.names else head)
        for line in rest:
            say(line)
    for line in _budget_lines(made, curator):
        note(line, quiet=quiet, aside=False)


def _budget_lines(made: Plan, curator: Curator) -> list[str]:
    from sordino.cli.ask.render_release import left_of

    left, cost = curator.remaining, made.cost.amounts()
    covered = all(amount <= left.amounts()[name] for name, amount in cost.items())
    lines = wrap("budget", f"{left_of(left, curator.spent)} left{'' if covered else ': not enough for this'}")
    if made.earlier:
        last = made.earlier[-1]
        lines += wrap("earlier", f"answered before as {last}: `sordino show {last}` shows it at no cost")
    return [*lines, "nothing was spent; `sordino ask` with the same words spends it"]
