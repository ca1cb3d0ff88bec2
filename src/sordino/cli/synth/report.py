"""`sordino synth report`: how far a synthetic table lies from its original - privately, or openly and then it says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import Delta, Epsilon, ProjectPath, Quiet, Rho, ends_in
from sordino.cli.shared.terminal import columns_of, note, say
from sordino.cli.synth.arguments import ModelFile, TableName
from sordino.errors import ChargedError, DeclarationError

if TYPE_CHECKING:
    from sordino.cli.shared.atomic_file import Draft
    from sordino.cli.synth.evaluation import Found, Wanted
    from sordino.source import Csv

__all__ = ["synth_report"]


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
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page: how far synthetic rows of a model lie from the table, with what each figure cost.

    Against a declared table it is private and charged once; against a file it is NOT PRIVATE, and says so on its face.
    """
    from sordino.cli.shared.atomic_file import draft
    from sordino.cli.shared.opening import table_at
    from sordino.cli.synth.arguments import condition_of, model_at, sets_of, taken
    from sordino.cli.synth.evaluation import compared_openly, compared_privately, wanted_of
    from sordino.cli.synth.progress import stages

    loss = {"epsilon": epsilon, "delta": delta, "rho": rho}
    _one_way_or_the_other(against, non_private=non_private, loss=loss)
    if rows is not None and not 1 <= rows <= 10**7:
        raise DeclarationError("--rows must be a whole number from 1 to 10^7")
    taken(output, force=force)
    held = model_at(model)
    sets = None if workload is None else sets_of(workload, option="--workload")
    condition = None if predict is None else condition_of(held, predict)
    with ExitStack() as stack:
        target = stack.enter_context(draft(output))
        with stages(quiet=quiet) as watch:
            watch.enter("drawing synthetic rows")
            wanted = wanted_of(held, sets=sets, condition=condition, words=predict, rows=rows)
            if against is not None:
                note("NOT PRIVATE: computed on the rows of a file; do not publish the page")
                watch.enter("comparing with the file")
                found = compared_openly(wanted, against, csv=_csv(project, table))
            else:
                curator = table_at(project, table)
                found = compared_privately(wanted, curator, watch, loss=loss)
            watch.enter("writing the page")
            _written(wanted, found, target, subject=model)
    note(f"wrote {output}", quiet=quiet)
    _told(found, quiet=quiet)
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


def _written(wanted: Wanted, found: Found, target: Draft, *, subject: Path) -> None:
    from sordino.cli.synth.sheet import sheet_of
    from sordino.report.synth_page import sheet_page

    done = False
    try:
        target.write(sheet_page(sheet_of(wanted, found, subject=str(subject))).encode("utf-8", "backslashreplace"))
        done = True
    except Exception:
        if found.release is None:
            raise
    if not done and found.release is not None:
        charge = found.release.charge
        rule = f"the evaluation was charged ({charge}), but the page cannot be written"
        raise ChargedError(f"{rule}; `sordino show {charge}` has its figures", charge=charge)


def _told(found: Found, *, quiet: bool) -> None:
    """Print the figures, and what they cost."""
    from sordino.cli.ask.rendering import cost_lines

    seal = [] if found.private else ["NOT PRIVATE"]
    for line in seal:
        say(line)
    evaluation: Any = found.evaluation
    rows = [
        [
            f"{w} column{'s' * (w != 1)}",
            f"{evaluation.mean(w):.4f}",
            f"{evaluation.error(w, 0.95):.4f}" if found.release is not None else "exact",
            f"{evaluation.floor(w):.4f}",
        ]
        for w in found.ways
    ]
    for line in columns_of(["distance over", "mean", "95% error", "floor"], rows, right=[False, True, True, True]):
        say(line)
    if found.correlations is not None:
        c = found.correlations
        asked = f", error of asking {c.error:.2f}" if found.release is not None else ""
        say(f"correlations: differ by {c.largest:.2f} at most{asked}")
    w = found.workload
    say(f"workload: counts err by {w.error:,.0f} rows (root mean square); 95% intervals held {100 * w.held:.0f}%")
    if found.hits is not None:
        score = found.hits
        error = f", error {score.error(1.96):.3f}" if found.release is not None else ""
        say(f"prediction: {score.accuracy:.3f} right{error}; {score.base:.3f} by the larger side alone")
    if found.release is not None:
        for line in (told for told in cost_lines(found.release) if not told.startswith("note: ")):  # shown above
            note(line, quiet=quiet and found.release.private, aside=False)
