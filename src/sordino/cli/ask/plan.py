"""`sordino plan`: what a question would cost and how wrong its answer would be. Nothing is spent, no data is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import (
    Confidence,
    Delta,
    Epsilon,
    ProjectPath,
    QueryFile,
    Question,
    Quiet,
    Rho,
    TextFormat,
)
from sordino.cli.shared.terminal import note, paint, plain, say, wrapped

if TYPE_CHECKING:
    from sordino.curator.choice import ChoicePlan
    from sordino.curator.curator import Curator
    from sordino.curator.plan import Plan

__all__ = ["plan"]


def plan(
    sql: Question = None,
    file: QueryFile = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    assume_rows: Annotated[
        int | None,
        typer.Option(
            "--assume-rows",
            metavar="N",
            help="A public guess at the rows in a group: what a mean's expected error depends on.",
            show_default=False,
        ),
    ] = None,
    confidence: Confidence = 0.95,
    form: Annotated[TextFormat, typer.Option("--format", help="How the plan is written.")] = TextFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Price a question: its cost, noise and expected error. Free, and nothing of the data is used."""
    from sordino.cli.ask.question import checked_confidence, planned, text_of
    from sordino.curator.plan import Plan

    confidence = checked_confidence(confidence)
    text = text_of(sql, file)
    curator, made = planned(text, project, epsilon=epsilon, delta=delta, rho=rho, assume_rows=assume_rows)
    if form is TextFormat.json:
        say(json.dumps(made.to_dict(confidence=confidence), ensure_ascii=False, indent=2))
        return
    for line in _lines(made, confidence) if isinstance(made, Plan) else made.describe(confidence).splitlines():
        say(line)
    for line in _budget(made, curator):
        note(line, quiet=quiet, aside=False)


def _lines(made: Plan, confidence: float) -> list[str]:
    from sordino.release import other_currencies

    told = made.to_dict(confidence=confidence)
    lines = [
        *wrapped("question", told["question"]),
        *wrapped("cost", " ".join([made.cost.describe(), *other_currencies(made.event, made.cost)])),
        *wrapped("protects", made.neighbors.describe()),
    ]
    if made.resolved.keys:
        lines += wrapped("rows", made.rows_told())
    for column in told["columns"]:
        head, *rest = wrapped(column["name"], _expected(made, column, confidence))
        name = plain(column["name"])
        lines += [head.replace(name, paint(name, "bold"), 1), *rest]
        for part in column["parts"]:
            step = "" if part.get("unit", "1") == "1" else f" of {part['unit']}"
            lines += wrapped("", f"{part['role']}: {part['mechanism']}{step}")
            lines += wrapped("", f"({part['because']})") if "because" in part else []
    for words in told["notes"]:
        lines += wrapped("note", words)
    return lines


def _expected(made: Plan, column: dict[str, Any], confidence: float) -> str:
    from sordino.estimates.ranks import Ranks
    from sordino.release import show_number, show_rows

    error, at = column["expected_error"], f"at {100 * confidence:g}%"
    if column["error_unit"] == Ranks.error_unit and error is not None:
        return f"error {show_rows(error, column['error_unit'])} {at}"
    mean = len(column["parts"]) > 1
    if error is None:
        scaled = made.error_times_rows(confidence).get(column["name"])
        if scaled is None:
            return "error: depends on the rows; --assume-rows, a public guess, makes it a number"
        return f"error at most {show_number(scaled)} / rows {at}; --assume-rows, a public guess, makes it a number"
    guess = f", if {made.assume_rows:,} rows" if mean and made.assume_rows is not None else ""
    if column["error_supposes"]:
        return f"error {show_number(error)} {at}{guess}, {column['error_supposes']}"
    return f"error {'at most ' if mean else ''}{show_number(error)} {at}{guess}"


def _budget(made: Plan | ChoicePlan, curator: Curator) -> list[str]:
    from sordino.cli.ask.rendering import left_of

    left, cost = curator.remaining, made.cost.amounts()
    covered = all(amount <= left.amounts()[name] for name, amount in cost.items())
    lines = wrapped("budget", f"{left_of(left, curator.spent)} left{'' if covered else ': not enough for this'}")
    if made.earlier:
        last = made.earlier[-1]
        lines += wrapped("earlier", f"answered before as {last}: `sordino show {last}` shows it at no cost")
    return [*lines, "nothing was spent; `sordino ask` with the same words spends it"]
