"""`sordino synth report`: how far a synthetic table lies from its original - privately, or openly and then it says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import Delta, Epsilon, Force, ProjectPath, Quiet, Rho, ends_in
from sordino.cli.shared.terminal import columns_of, note, say
from sordino.cli.synth.arguments import ModelFile, TableName
from sordino.errors import ChargedError, DeclarationError

if TYPE_CHECKING:
    from sordino.cli.shared.atomic_file import AtomicFile
    from sordino.source import Csv
    from sordino.synth.evaluation.evaluation import Evaluation
    from sordino.synth.model import Model

__all__ = ["synth_report"]

_MOST_ROWS = 1_000_000  # synthetic rows that are drawn unless more are asked for


def synth_report(
    model: ModelFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The page to write.",
            callback=ends_in(".html", ".htm"),
            show_default=False,
        ),
    ],
    table: TableName = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Instead of a declared table: a file of rows, with --non-private.",
            show_default=False,
        ),
    ] = None,
    non_private: Annotated[
        bool, typer.Option("--non-private", help="Compare openly: the page is NOT PRIVATE, and must not be published.")
    ] = False,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="A,B;B,C",
            help="The sets of columns whose counts are compared; without it, random pairs.",
            show_default=False,
        ),
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            metavar="CONDITION",
            help="Train on synthetic rows, test on the table: how often is it told right?",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", metavar="N", help="Synthetic rows to compare; as many as estimated.", show_default=False
        ),
    ] = None,
    force: Force = False,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page: how far synthetic rows of a model lie from the table, with what each figure cost.

    Against a declared table it is private and charged once; against a file it is NOT PRIVATE, and says so on its face.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import table_at
    from sordino.cli.synth.arguments import model_at, sets_of, taken
    from sordino.cli.synth.progress import WatchedTable, stages
    from sordino.synth import evaluate

    loss = {"epsilon": epsilon, "delta": delta, "rho": rho}
    _one_way_or_the_other(against, non_private=non_private, loss=loss)
    if rows is not None and not 1 <= rows <= 10**7:
        raise DeclarationError("--rows must be a whole number from 1 to 10^7")
    taken(output, force=force)
    held = model_at(model)
    asked: dict[str, Any] = {
        "rows": min(max(held.rows, 1), _MOST_ROWS) if rows is None else rows,
        "correlations": True,
        "workload": "pairs" if workload is None else sets_of(workload, option="--workload"),
        "predict": predict,
    }
    with ExitStack() as stack:
        target = stack.enter_context(open_atomic(output))
        with stages(quiet=quiet) as watch:
            watch.enter("drawing synthetic rows")
            if against is not None:
                note("NOT PRIVATE: computed on the rows of a file; do not publish the page")
                made = evaluate(held, against=against, non_private=True, csv=_csv(project, table), **asked)
            else:
                made = evaluate(held, against=WatchedTable(table_at(project, table), watch), **asked | loss)
            watch.enter("writing the page")
            _write(held, made, target, subject=model)
    note(f"wrote {output}", quiet=quiet)
    _print(made, quiet=quiet)
    if against is not None and "caps" in held.facts:
        note(f"note: the model is of fewer rows than the file, since {held.facts['caps']}", quiet=quiet, aside=False)


def _one_way_or_the_other(against: Path | None, *, non_private: bool, loss: dict[str, str | None]) -> None:
    if (against is not None) != non_private:
        raise DeclarationError(
            "--against FILE and --non-private go together: a comparison with raw rows is NOT PRIVATE and must be asked for "
            "by that word; without both, state a loss, and the declared table is compared with privately"
        )
    if non_private and any(v is not None for v in loss.values()):
        raise DeclarationError("a comparison with --non-private costs no loss: leave out --epsilon, --delta and --rho")


def _csv(project: Path | None, table: str | None) -> Csv:
    """Return how a CSV file is written: as the declared table's where there is one, else with names in its first line."""
    from sordino.cli.shared.opening import project_at
    from sordino.source import Csv

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


def _write(model: Model, made: Evaluation, target: AtomicFile, *, subject: Path) -> None:
    from sordino.report.synth_evaluation import evaluation_sheet
    from sordino.report.synth_page import sheet_page

    done = False
    try:
        sheet = evaluation_sheet(model, made, subject=str(subject))
        target.write(sheet_page(sheet).encode("utf-8", "backslashreplace"))
        done = True
    except Exception:
        if made.release is None:
            raise
    if not done and made.release is not None:
        charge = made.release.charge
        rule = f"the evaluation was charged ({charge}), but the page cannot be written"
        raise ChargedError(f"{rule}; `sordino show {charge}` has its figures", charge=charge)


def _print(made: Evaluation, *, quiet: bool) -> None:
    """Print the figures, and what they cost."""
    from sordino.cli.ask.render_release import cost_lines

    if not made.private:
        say("NOT PRIVATE")
    head = ["distance over", "mean", "95% error", "floor"]
    for line in [*columns_of(head, made.table(), right=[False, True, True, True]), *made.figures()]:
        say(line)
    if made.release is not None:
        for line in (words for words in cost_lines(made.release) if not words.startswith("note: ")):  # shown above
            note(line, quiet=quiet and made.release.private, aside=False)
