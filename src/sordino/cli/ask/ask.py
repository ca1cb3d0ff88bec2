"""`sordino ask`: charge a question once and print its private answer. It sees the Release, never the data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import in_terminal, note, paint, say
from sordino.core.errors import DeclarationError
from sordino.reporting.workbook import describe_total

if TYPE_CHECKING:
    from sordino.ask.curator.plan import Plan
    from sordino.cli.shared.atomic_file import AtomicFile
    from sordino.core.release import Release

# Rows shown in a terminal; pipes and files get all.
_SCREEN = 40


def ask(
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
    form: given.AnswerForm = None,
    output: given.OutputFile = None,
    plot: given.PictureFile = None,
    request_id: Annotated[
        str | None,
        given.option(
            "--request-id",
            "ID",
            "Make the command safe to repeat: the same ID is charged once and returns the same answer.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Ask a made-up table of the declared shape instead: nothing is charged or read."
        ),
    ] = False,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Ask a question. It is charged to the budget first, then answered with noise.

    Several SELECTs with semicolons between them are a batch: they share the loss, each is charged by itself, and nothing
    is asked if the budget does not cover all of them.

    A refused question (exit 2, 3) is never charged, nor is one that the budget does not cover (4). Exit 5 means that
    the charge stands without an answer: do not repeat such a command blindly.
    """
    from sordino.cli.ask.question import read_question, text_of
    from sordino.cli.ask.render_release import chosen_format, folder_of, write_folder
    from sordino.cli.shared.atomic_file import after_charge, open_folder, open_if_named, open_picture

    answer_format = chosen_format(form, output)
    split: dict[str, Any] = {"weights": weights, "share": share.value, "scale": scale}
    bounds = {"max_rows": max_rows, "max_groups": max_groups, "max_rows_per_group": max_rows_per_group}
    rest: dict[str, Any] = {"dialect": dialect, "keys": key_file, "spender": spender, "bounds": bounds}
    rest["min_units"] = min_units
    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "assume_rows": assume_rows}
    connection, question, shares = read_question(text_of(sql, file), project, **split, **rest)
    once: dict[str, Any] = {"request_id": request_id, "on": "dummy" if dry_run else "data"}
    silent = quiet or request_id is not None or dry_run
    several = len(question.statements()) > 1
    folder = folder_of(answer_format, output, several=several)
    if plot is not None and several:
        raise DeclarationError("--plot draws one answer, and these are several questions: ask them one by one")
    confirm = _confirm(answer_format, silent=silent, dry=dry_run)
    with (
        open_if_named(None if folder else output) as target,
        open_folder(folder) if folder else nullcontext() as place,
        open_picture(plot, confidence=confidence, quiet=quiet) as draw,
    ):
        answer = connection.ask(question, **loss, **shares, **once, confirm=confirm)
        releases = answer if isinstance(answer, list) else [answer]
        charges = ", ".join(r.charge for r in releases)
        rule = f"the question was answered and charged ({charges}), but the answer cannot be written"
        with after_charge(releases[-1].charge, lambda: f"{rule}; `sordino show {charges}` shows it at no cost"):
            if place is None:
                deliver(releases, answer_format, confidence=confidence, target=target, quiet=quiet)
            else:
                write_folder(releases, place.path, answer_format, confidence=confidence)
                place.commit()
            draw(releases[0])
    if folder:
        _close(releases, f"wrote {folder}", quiet=quiet)


def deliver(
    releases: Sequence[Release], form: given.AnswerFormat, *, confidence: float, target: AtomicFile | None, quiet: bool
) -> None:
    """Print a release or several, or write them to their file; what each cost goes beside it unless `quiet`."""
    from sordino.cli.ask.render_release import cost_lines, encode_releases

    if target is not None:
        target.write(encode_releases(releases, form, confidence=confidence))
        note(f"wrote {target.target}", quiet=quiet)
    elif form is not given.AnswerFormat.table:
        sys.stdout.write(encode_releases(releases, form, confidence=confidence).decode())
    aside = target is not None or form is not given.AnswerFormat.table
    if len(releases) > 1 and aside:
        _close(releases, "", quiet=quiet)
        sys.stdout.flush()
        return
    for place, release in enumerate(releases):
        if place and not aside:
            say()
        if not aside:
            _print_table(release, confidence=confidence)
        for line in cost_lines(release):
            note(line, quiet=quiet and release.private, aside=aside)
    if len(releases) > 1:
        note(describe_total(releases), quiet=quiet, aside=False)
    sys.stdout.flush()


def _close(releases: Sequence[Release], wrote: str, *, quiet: bool) -> None:
    """Print what several answers that went to a file or a folder have in common: once, and not under each of them."""
    if wrote:
        note(wrote, quiet=quiet)
    for line in dict.fromkeys(line for release in releases for line in release.remarks):
        note(f"note: {line}", quiet=quiet)
    if not all(release.private for release in releases):
        note("NOT PRIVATE: noise was seeded")
    note(f"{describe_total(releases)}; {releases[0].charge} to {releases[-1].charge}", quiet=quiet)


def _print_table(release: Release, *, confidence: float) -> None:
    from sordino.reporting.release_text import table_lines

    for i, line in enumerate(table_lines(release, confidence=confidence, most=_SCREEN if in_terminal() else None)):
        say(paint(line, "bold") if i == 0 and release.keys else line)


def _confirm(form: given.AnswerFormat, *, silent: bool, dry: bool) -> Callable[[Plan], None]:
    """Return what looks at a plan before the charge: at what cannot be written, and for earlier answers."""

    def confirm(plan: Plan) -> None:
        _check_writable(plan, form)
        if plan.unknown:
            note(f"note: of the ledger: {plan.unknown}", quiet=dry)
        if plan.earlier:
            last = plan.earlier[-1]
            note(f"note: this was answered before as {last}; `sordino show {last}` shows it at no cost", quiet=silent)

    return confirm


def _check_writable(plan: Plan, form: given.AnswerFormat) -> None:
    """Refuse, before the charge, what cannot be written: two columns of one name, and a workbook without its library."""
    from sordino.cli.ask.render_release import distinct_names
    from sordino.reporting.workbook import need_workbooks

    if form is given.AnswerFormat.xlsx:
        need_workbooks()
    if form in (given.AnswerFormat.csv, given.AnswerFormat.parquet, given.AnswerFormat.xlsx):
        keys = len(plan.groups)
        distinct_names(plan.names[:keys], plan.names[keys:])
