"""`sordino epsilon choose`: from requirements taken together to an interval of epsilon, or the two that conflict.

It never opens a table: the domain is the project file's, row counts are public guesses of whoever asks.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

from sordino.cli.epsilon.output import print_labelled, print_written, write_both
from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import goes_with
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.lab.risk.requirement_choice import Choice, Requirement

Query = Annotated[str | None, given.option("--query", "SQL", "The question whose error matters: one aggregate.")]
Error = Annotated[str | None, given.option("--error", "T", "The largest error allowed.")]
Likely = Annotated[
    str,
    given.option("--confidence", "C", "The probability that the error is not exceeded."),
    goes_with("--query"),
]
Rows = Annotated[
    int | None,
    given.option("--rows", "N", "A public guess at the number of rows; it is never counted."),
    goes_with("--query"),
]
Questions = Annotated[
    int | None,
    given.option(
        "--questions", "N", "How many questions, each as exact as that one, are to be paid for; --write needs it."
    ),
    goes_with("--query"),
]
NoiseDelta = Annotated[
    str | None, given.option("--delta", "D", "Also consider Gaussian noise, at this delta; in rho if the budget is.")
]
AttackerPrior = Annotated[str | None, given.option("--attacker-prior", "P", "The attacker's probability beforehand.")]
MaxPosterior = Annotated[str | None, given.option("--max-posterior", "P", "The largest probability afterwards.")]
TestLevel = Annotated[str | None, given.option("--test-level", "A", "The false-alarm rate of a test.")]
MaxPower = Annotated[str | None, given.option("--max-power", "B", "The largest power of such a test.")]
RelativeRisk = Annotated[
    str | None, given.option("--relative-risk", "R", "The factor by which a disclosure may become more likely.")
]


def choose(
    table: given.TableName = None,
    query: Query = None,
    error: Error = None,
    confidence: Likely = "0.95",
    rows: Rows = None,
    questions: Questions = None,
    delta: NoiseDelta = None,
    attacker_prior: AttackerPrior = None,
    max_posterior: MaxPosterior = None,
    test_level: TestLevel = None,
    max_power: MaxPower = None,
    relative_risk: RelativeRisk = None,
    plot: given.PictureFile = None,
    form: given.TextForm = given.TextFormat.table,
    write: given.WriteCap = False,
    budget: Annotated[given.BudgetName, goes_with("--write")] = None,
    project: given.ProjectPath = None,
) -> None:
    """Find the interval of epsilon that meets every requirement, or the two that conflict.

    Requirements follow from the declared domain alone: the data is never read, and nothing is charged.
    """
    from sordino.cli.shared.opening import project_at, project_path
    from sordino.reporting.odds_icons import tradeoff_of
    from sordino.risk import choose_for_table

    if plot is not None and (questions or 1) > 1:
        raise DeclarationError("--plot draws the error of one question: leave out --questions, or state 1")
    if plot is not None and (query is None or error is None):
        raise DeclarationError("--plot draws accuracy against risk: state --query SQL and --error T too")
    arguments: dict[str, Any] = {"query": query, "error": error, "confidence": confidence, "rows": rows, "delta": delta}
    arguments |= {"attacker_prior": attacker_prior, "max_posterior": max_posterior, "test_level": test_level}
    arguments |= {"max_power": max_power, "relative_risk": relative_risk, "questions": questions}
    table_choice = choose_for_table(project_at(project), table, **arguments)
    writes = write and table_choice.choice.conflict is None
    change = table_choice.cap_change(project_path(project), budget=budget) if writes else None
    content = table_choice.to_dict()
    if (files := write_both(plot, lambda: tradeoff_of(table_choice), change)) is not None:
        content["written"] = files
    if form is given.TextFormat.json:
        say(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False))
    elif table_choice.choice.conflict is None:
        _print(table_choice.choice, content, questions or 1)
    if table_choice.choice.conflict is not None:
        raise DeclarationError(table_choice.choice.conflict.describe())


def _print(made: Choice, told: dict[str, Any], questions: int) -> None:
    least = f"{made.lower:.10g}" if made.lower else "0"
    most = "any" if made.upper == math.inf else f"{made.upper:.10g}"
    print_labelled("interval", f"epsilon from {least} to {most}")
    for label, by in (("lower end", made.lower_by), ("upper end", made.upper_by)):
        print_labelled(label, "nothing bounds it" if by is None else _describe_end(by))
    print_labelled("choice", "any epsilon" if made.epsilon is None else f"{made.epsilon:.10g}")
    if made.delta:
        in_rho = "" if made.rho is None else f"; together rho {float(made.rho):.10g}"
        print_labelled("delta", f"{made.delta:g}{in_rho}")
    if told["noise"] is not None:
        print_labelled("noise", told["noise"])
    print_labelled("report", made.sentence())
    print_written(told.get("written"))
    if made.lower > 0 and "written" in told:
        amount = next(f"{key} {told['written'][key]}" for key in ("epsilon", "rho") if key in told["written"])
        batch = f"all {questions:,} questions in one batch, at {amount}"
        where = f"at the cap itself, {amount}" if questions == 1 else batch
        note(f"ask {where}, for an error within what was asked")


def _describe_end(by: Requirement) -> str:
    """Return what binds an end, and the relation that it is proved for."""
    relation = "any relation" if by.relation is None else by.relation.replace("_", "/")
    return f"{by.kind.replace('_', ' ')}: {by.says} ({relation})"
