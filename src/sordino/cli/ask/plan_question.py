"""`sordino plan`: what a question would cost and how wrong its answer would be. Nothing is spent, no data is used."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import as_flag, note, paint, say, wrap
from sordino.core.errors import DeclarationError
from sordino.core.text_table import plain

if TYPE_CHECKING:
    from sordino.ask.curator.curator import Curator
    from sordino.ask.curator.plan import Plan
    from sordino.core.loss import Loss

Error = Annotated[
    float | None,
    given.option(
        "--error", "E", "Instead of a loss: the error at --confidence to stay below; the least loss is found."
    ),
]
_GUESS = f"({as_flag('assume_rows', False)}, a public guess, makes it a number)"


def plan(
    sql: given.Question = None,
    file: given.QueryFile = None,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    weights: given.Weights = None,
    share: given.Share = given.ShareBy.equal,
    scale: given.Scale = None,
    spender: given.Spender = None,
    assume_rows: given.AssumeRows = None,
    dialect: given.Dialect = None,
    max_rows: given.MaxRows = None,
    max_groups: given.MaxGroups = None,
    max_rows_per_group: given.MaxRowsPerGroup = None,
    key_file: given.KeysFile = None,
    min_units: given.MinUnits = 1,
    confidence: given.Confidence = 0.95,
    error: Error = None,
    form: given.TextForm = given.TextFormat.table,
    plot: given.PictureFile = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Price a question, or several with semicolons between them: cost, noise and expected error. It is free and reads no data.

    Without a loss, --error says which error you can live with, and the plan which loss that takes.
    """
    from sordino.ask.curator.batch import compare_tabulation
    from sordino.cli.ask.question import plans_of, read_question, text_of
    from sordino.cli.shared.atomic_file import open_picture

    split: dict[str, Any] = {"weights": weights, "share": share.value, "scale": scale}
    bounds = {"max_rows": max_rows, "max_groups": max_groups, "max_rows_per_group": max_rows_per_group}
    rest: dict[str, Any] = {"dialect": dialect, "keys": key_file, "spender": spender, "min_units": min_units}
    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "assume_rows": assume_rows}
    connection, question, shares = read_question(text_of(sql, file), project, bounds=bounds, **split, **rest)
    if error is not None and any(amount is not None for amount in (epsilon, delta, rho)):
        raise DeclarationError("state a loss, or --error for the least loss that keeps it: not both")
    wanted: dict[str, Any] = {} if error is None else {"error": error, "confidence": confidence}
    priced = connection.plan(question, **loss, **shares, **wanted)
    plans = plans_of(priced)
    if plot is not None and len(plans) > 1:
        raise DeclarationError("--plot draws one question, and these are several: plan them one by one")
    rows: dict[str, Any] = {"assume_rows": assume_rows}
    with open_picture(plot, confidence=confidence, quiet=quiet) as draw:
        if plot is not None:
            draw(
                [
                    plans[0],
                    *plans_around(plans[0], lambda scaled: connection.plan(question, **scaled, **rows, **shares)),
                ]
            )
    if form is given.TextFormat.json:
        data = (plans[0] if len(plans) == 1 else priced).to_dict(confidence=confidence)
        say(json.dumps(data, ensure_ascii=False, indent=2))
        return
    _print_plans(plans, priced.cost, confidence)
    saving = compare_tabulation(plans, confidence)
    for line in () if saving is None else wrap("note", saving.describe()):
        say(line)
    for line in _budget_lines(plans, priced.cost, connection.table(plans[0].table_name)):
        note(line, quiet=quiet, aside=False)


def plans_around(plan: Plan, replan: Callable[[dict[str, Any]], Any]) -> list[Plan]:
    """Return the same question planned at a tenth of its loss to ten times it, without those losses that are refused."""
    from sordino.core.errors import SordinoError
    from sordino.reporting.price_charts import FACTORS

    plans = []
    for factor in map(Fraction, FACTORS):
        amounts = plan.asked.amounts()
        # A delta is no amount of noise: it stays as it was stated.
        scaled = {name: amount if name == "delta" else amount * factor for name, amount in amounts.items()}
        with suppress(SordinoError):
            plans.append(replan(scaled))
    return plans


def _print_plans(plans: Sequence[Plan], cost: Loss, confidence: float) -> None:
    for place, one in enumerate(plans):
        if place:
            say()
        _print_plan(one, confidence)
    if len(plans) > 1:
        say()
        say(f"{'in all'.ljust(10)} {cost.describe()}")


def _print_plan(plan: Plan, confidence: float) -> None:
    for label, text in plan.entries(confidence, hint=_GUESS):
        head, *rest = wrap(label, text)
        name = plain(label)
        say(head.replace(name, paint(name, "bold"), 1) if label in plan.names else head)
        for line in rest:
            say(line)


def _budget_lines(plans: Sequence[Plan], cost: Loss, curator: Curator) -> list[str]:
    from sordino.cli.ask.render_release import left_of

    left = curator.remaining
    covered = all(amount <= left.amounts()[name] for name, amount in cost.amounts().items())
    whose = "" if curator.spender is None else f" to {curator.spender}, whose share it counts against"
    rest = left_of(left, curator.spent) if curator.spender is None else left.describe()
    lines = wrap("budget", f"{rest} left{whose}{'' if covered else ': not enough for this'}")
    for last in (plan.earlier[-1] for plan in plans if plan.earlier):
        lines += wrap("earlier", f"answered before as {last}: `sordino show {last}` shows it at no cost")
    for unknown in {plan.unknown for plan in plans if plan.unknown}:
        lines += wrap("ledger", unknown)
    return [*lines, "nothing was spent; `sordino ask` with the same words spends it"]
