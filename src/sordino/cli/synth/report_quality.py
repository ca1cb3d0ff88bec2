"""`sordino synth report`: how far a synthetic table lies from its original - privately, or openly and then it says so."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.terminal import note, say
from sordino.cli.synth.arguments import ModelFile
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from sordino.core.source import Csv
    from sordino.synth.evaluation.evaluation import Evaluation

# Synthetic rows that are drawn unless more are asked for.
_MOST_ROWS = 1_000_000

RowsFile = Annotated[
    Path | None, given.option("--against", "FILE", "Instead of a declared table: a file of rows, with --non-private.")
]
NonPrivate = Annotated[
    bool, typer.Option("--non-private", help="Compare openly: the page is NOT PRIVATE, and must not be published.")
]
WorkloadSets = Annotated[
    str | None,
    given.option("--workload", "A,B;B,C", "The sets of columns whose counts are compared; by default, random pairs."),
]
Prediction = Annotated[
    str | None,
    given.option(
        "--predict",
        "CONDITION",
        "Train on synthetic rows, test on the table: how often is the prediction right, and how well does it rank? With "
        "--non-private also a column of numbers.",
    ),
]
RuleLines = Annotated[
    list[str] | None,
    given.option("--rule", "RULE", "Beside the model's rules: how many rows break this one? May be repeated."),
]
Rows = Annotated[
    int | None, given.option("--rows", "N", "Synthetic rows to compare; by default as many as the model estimates.")
]


def synth_report(
    model: ModelFile,
    output: given.PageFile,
    table: given.TableName = None,
    epsilon: Annotated[given.Epsilon, not_with("--non-private")] = None,
    delta: Annotated[given.Delta, not_with("--non-private")] = None,
    rho: Annotated[given.Rho, not_with("--non-private")] = None,
    against: RowsFile = None,
    non_private: NonPrivate = False,
    workload: WorkloadSets = None,
    predict: Prediction = None,
    rule: RuleLines = None,
    rows: Rows = None,
    form: given.TextForm = given.TextFormat.table,
    force: given.Force = False,
    spender: Annotated[given.Spender, not_with("--against")] = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Write one HTML page: how far a model's synthetic rows are from the table, and what each figure cost.

    Distances, correlations, quantiles and tails, round values, random counts, rules, a prediction. Against a declared table it
    is private and charged once; against a file it is NOT PRIVATE, and says so at the top. --format json prints every figure as
    JSON.
    """
    from sordino import synth
    from sordino.cli.shared.atomic_file import after_charge, open_atomic
    from sordino.cli.shared.opening import table_at
    from sordino.cli.shared.terminal import stages
    from sordino.cli.synth.arguments import constraints_of, sets_of
    from sordino.reporting.synth_evaluation import evaluation_page
    from sordino.synth.watched_table import WatchedTable

    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
    _check_openness(against, non_private=non_private)
    if rows is not None and not 1 <= rows <= 10**7:
        raise DeclarationError("--rows must be a whole number from 1 to 10^7")
    given.refuse_existing(output, force=force)
    source = synth.load(model)
    options: dict[str, Any] = {
        "rows": min(max(source.rows, 1), _MOST_ROWS) if rows is None else rows,
        "correlations": True,
        "workload": "pairs" if workload is None else sets_of(workload, option="--workload"),
        "predict": predict,
        "distributions": True,
        "heaps": True,
        "auc": predict is not None and predict not in source.columns,
        "rules": [*source.constraints, *constraints_of((), (), (), source.columns, lines=rule or ())],
    }
    with ExitStack() as stack:
        target = stack.enter_context(open_atomic(output))
        watch = stack.enter_context(stages(quiet=quiet))
        watch.enter("drawing synthetic rows")
        if against is not None:
            note("NOT PRIVATE: computed on the rows of a file; do not publish the page")
            report = synth.evaluate(
                source, against=against, non_private=True, csv=_csv(against, project, table), **options
            )
        else:
            report = synth.evaluate(
                source, against=WatchedTable(table_at(project, table, spender=spender), watch), **options, **loss
            )
        watch.enter("writing the page")
        if report.release is not None:
            charge = report.release.charge
            words = f"the evaluation was charged ({charge}), but the page cannot be written"
            stack.enter_context(after_charge(charge, lambda: f"{words}; `sordino show {charge}` has its figures"))
        page = evaluation_page(source, report, subject=str(model))
        target.write(page.encode("utf-8", "backslashreplace"))
    note(f"wrote {output}", quiet=quiet)
    _print(report, form, quiet=quiet)
    if against is not None and "caps" in source.facts:
        note(f"note: the model has fewer rows than the file, since {source.facts['caps']}", quiet=quiet, aside=False)


def _check_openness(against: Path | None, *, non_private: bool) -> None:
    """Refuse a comparison that is private by one option and open by another."""
    if (against is not None) != non_private:
        raise DeclarationError(
            "--against FILE and --non-private go together: a comparison with raw rows is NOT PRIVATE and must be asked for "
            "by that word; without both, state a loss, and the declared table is compared with privately"
        )


def _csv(against: Path, project: Path | None, table: str | None) -> Csv:
    """Return how a CSV file is written: as the declared table's where there is one, else with names in its first line."""
    from sordino.cli.shared.opening import project_at
    from sordino.core.source import Csv, ending_format, split_ending

    stated = "--table" if table is not None else "--project" if project is not None else ""
    kind = ending_format(split_ending(against)[0])
    if stated and kind is not None and kind.name != "csv":
        raise DeclarationError(f"{stated} says how a CSV file is written, and {against} is none: leave it out")

    try:
        tables = project_at(project).tables
    except DeclarationError:
        if project is not None or table is not None:
            raise
        return Csv(header=True)
    if table is not None and table not in tables:
        raise DeclarationError(f"table {table!r} is not declared; declared are {', '.join(tables)}")
    named = tables[table] if table is not None else next(iter(tables.values())) if len(tables) == 1 else None
    return Csv(header=True) if named is None or named.source.csv is None else named.source.csv


def _print(report: Evaluation, form: given.TextFormat, *, quiet: bool) -> None:
    from sordino.cli.ask.render_release import cost_lines

    if form is given.TextFormat.json:
        say(json.dumps(report.to_dict(), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        if not report.private:
            say("NOT PRIVATE")
        head, *rows = report.table()
        for line in [*columns_of(head, rows, right=[False, True, True, True]), *report.figures()]:
            say(line)
    if report.release is not None:
        # The notes are shown above.
        for line in (words for words in cost_lines(report.release) if not words.startswith("note: ")):
            note(line, quiet=quiet and report.release.private, aside=False)
