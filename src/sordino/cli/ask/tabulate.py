"""`sordino tabulate`: release many tables by one plan file, and write each as CSV beside what is known of all of them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.ask.curator.curator import Curator
    from sordino.ask.curator.plan import Plan
    from sordino.ask.queries.tabulation import Tabulation
    from sordino.core.release import Release

_LOSS = ("epsilon", "delta", "rho")
# Characters of a plan file.
_LARGEST = 2_000_000


class TablesFormat(StrEnum):
    """How a plan is shown, and how tables are written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


_SHOWN = (TablesFormat.table, TablesFormat.json)
_TYPES = {"bool": "boolean", "int64": "integer", "double": "number", "date32[day]": "date"}


def tabulate(
    plan_file: Annotated[
        Path,
        typer.Argument(metavar="PLAN", help="TOML: tables, and measures, where, levels and others; table; a loss."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="The folder to write, new or empty; or one workbook, FILE.xlsx, or one page that prints, FILE.html.",
        ),
        not_with("--plan"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the cost and the error of every table, and stop: it is free.")
    ] = False,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    spender: given.Spender = None,
    confidence: given.Confidence = 0.95,
    request_id: Annotated[
        str | None,
        given.option(
            "--request-id",
            "ID",
            "Make the command safe to repeat: the same ID is charged once and returns the same answer.",
        ),
        not_with("--plan"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Ask a made-up table of the declared shape instead: nothing is charged or read."
        ),
        not_with("--plan"),
    ] = False,
    form: Annotated[
        TablesFormat | None,
        typer.Option("--format", help="Of a plan: table or json. Of a folder: csv or parquet, a file a table."),
    ] = None,
    picture: given.PictureFile = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Release many tables of the same rows together: one charge, the least noise, and tables that agree.

    PLAN states them: tables = [["region", "sex"], ["year"]], and if wanted [measures] such as income = "SUM(income)",
    where = "age >= 18", finish = "whole", "linear" or "raw", and the loss, such as rho = "0.01".

    FOLDER gets a CSV file a table with intervals, csv-metadata.json (CSV on the Web), and release.json, the whole release; or
    Parquet files, --format parquet. A workbook gets a sheet a table, its notes below it, and a sheet of contents; a page the
    same, with the keys of the last column side by side.
    """
    from sordino.cli.ask.plan_question import plans_around
    from sordino.cli.shared.atomic_file import open_picture

    _check_format(form, output, plan=plan)
    stated = _read_plan_file(plan_file)
    loss = _read_loss(stated, {"epsilon": epsilon, "delta": delta, "rho": rho})
    if plan:
        curator, question = _open(stated, project, spender, plan_file.parent)
        priced = curator.plan(question, **loss)
        _show_plan(priced, form, confidence=confidence, quiet=quiet)
        with open_picture(picture, confidence=confidence, quiet=quiet) as draw:
            if picture is not None:
                draw([priced, *plans_around(priced, lambda scaled: curator.plan(question, **scaled))])
        return
    if output is None:
        raise DeclarationError(
            "is missing: name a new folder for the tables, or --plan to see their errors", key="--output"
        )
    from sordino.cli.shared.atomic_file import after_charge, open_atomic, open_folder
    from sordino.reporting.workbook import need_workbooks

    curator, question = _open(stated, project, spender, plan_file.parent)
    is_file = output.suffix.lower() in _ENCODERS
    if output.suffix.lower() == ".xlsx":
        need_workbooks()
    with ExitStack() as stack:
        # the place is known to be writable before the charge
        file = stack.enter_context(open_atomic(output)) if is_file else None
        folder = None if is_file else stack.enter_context(open_folder(output))
        draw = stack.enter_context(open_picture(picture, confidence=confidence, quiet=quiet))
        release = curator.ask(question, request_id=request_id, on="dummy" if dry_run else "data", **loss)
        rule = f"the tables were released and charged ({release.charge}), but they cannot be written to {output}"
        with after_charge(release.charge, lambda: f"{rule}; `sordino show {release.charge}` shows them at no cost"):
            if file is not None:
                file.write(_ENCODERS[output.suffix.lower()](release, confidence=confidence))
            if folder is not None:
                _write(release, folder.path, form, confidence=confidence)
                folder.commit()
            draw(release)
    _report(release, output, quiet=quiet)


def _check_format(form: TablesFormat | None, output: Path | None, *, plan: bool) -> None:
    """Raise DeclarationError for a format that would change nothing."""
    if form is None or (form in _SHOWN) == plan:
        if form is not None and output is not None and output.suffix.lower() in _ENCODERS:
            raise DeclarationError(f"{form} is of a folder of tables: leave it out, or name a folder", key="--format")
        return
    needed = "goes with --plan" if form in _SHOWN else "is of a folder of tables, -o FOLDER"
    raise DeclarationError(f"{form} {needed}: leave it out, or state that too", key="--format")


def _read_plan_file(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            return tomllib.loads(lines.read(_LARGEST))
    except OSError as error:
        raise DeclarationError(f"the plan in {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeclarationError(f"the plan in {path} is not TOML: {error}") from None


def _read_loss(stated: dict[str, Any], flags: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the loss, which the plan file states, or the command line, but not both."""
    inside = {name: stated.pop(name) for name in _LOSS if name in stated}
    beside = {name: value for name, value in flags.items() if value is not None}
    if inside and beside:
        named = next(iter(beside))
        raise DeclarationError("is stated beside the loss of the plan file: leave one of them out", key=f"--{named}")
    for name, value in inside.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DeclarationError('must be a number, or text such as "1/3"', key=name)
    return inside or beside


def _open(
    stated: dict[str, Any], project: Path | None, spender: str | None, beside: Path
) -> tuple[Curator, Tabulation]:
    """Return the table and the question that a plan file in the folder `beside` names."""
    from sordino.ask.queries.sql.tabulation_plan import read_tabulation
    from sordino.cli.shared.opening import table_at

    name = stated.pop("table", None)
    if name is not None and not isinstance(name, str):
        raise DeclarationError("must be the name of a table", key="table")
    question = read_tabulation(stated, beside=beside)
    return table_at(project, name, spender=spender), question


def _show_plan(priced: Plan, form: TablesFormat | None, *, confidence: float, quiet: bool) -> None:
    from sordino.cli.shared.terminal import wrap

    if form is TablesFormat.json:
        say(json.dumps(priced.to_dict(confidence=confidence), ensure_ascii=False, indent=2))
        return
    for label, text in priced.entries(confidence):
        for line in wrap(label, text):
            say(line)
    note("nothing was spent; `sordino tabulate` with -o FOLDER in place of --plan spends it", quiet=quiet, aside=False)


def _write(release: Release, folder: Path, form: TablesFormat | None, *, confidence: float) -> None:
    """Write a file a table, the metadata of all where they are CSV, and the release."""
    from sordino.core.release_exports import write_csv, write_parquet
    from sordino.reporting.released_tables import describe_table, title_of

    record = json.dumps(release.to_record(), ensure_ascii=False)
    described: list[dict[str, Any]] = []
    for columns, stem in name_files(list(release.tables)).items():
        table = release.tables.to_arrow(columns, confidence=confidence)
        notes = describe_table(release, columns, confidence=confidence)
        if form is TablesFormat.parquet:
            facts = {"title": title_of(columns), "notes": notes}
            write_parquet(table, folder / f"{stem}.parquet", about=json.dumps(facts, ensure_ascii=False))
            continue
        write_csv(table, folder / f"{stem}.csv")
        described.append(_describe_table(table, columns, f"{stem}.csv", notes))
    texts = {"release.json": record}
    if described:
        about: dict[str, Any] = {
            "@context": "http://www.w3.org/ns/csvw",
            "dc:title": release.question,
            "dc:created": release.time,
            "dc:description": f"Intervals (_low, _high) are at {100 * confidence:g}%.",
            "notes": [release.summary(), *release.remarks],
            "tables": described,
        }
        texts["csv-metadata.json"] = json.dumps(about, indent=2, ensure_ascii=False)
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _encode_workbook(release: Release, *, confidence: float) -> bytes:
    """Return the tables as the bytes of a workbook: a sheet each, with what is to be known of it below."""
    from sordino.reporting.released_tables import describe_table, title_of
    from sordino.reporting.workbook import Sheet, encode_workbook

    sheets = [
        Sheet(
            stem,
            title_of(columns),
            release.tables.to_arrow(columns, confidence=confidence),
            tuple(describe_table(release, columns, confidence=confidence)),
        )
        for columns, stem in name_files(list(release.tables)).items()
    ]
    return encode_workbook(sheets, title=release.question)


def _encode_page(release: Release, *, confidence: float) -> bytes:
    """Return the tables as the bytes of one page."""
    from sordino.reporting.released_tables import tables_page

    return tables_page(release, confidence=confidence).encode()


# What is written as one file, by its ending.
_ENCODERS: Mapping[str, Callable[..., bytes]] = {".xlsx": _encode_workbook, ".html": _encode_page}


def _describe_table(table: Any, columns: Sequence[str], name: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return what CSV on the Web says of a table: its file, its notes, and the name and type of each column."""
    from sordino.reporting.released_tables import title_of

    schema = [
        {"name": field.name, "titles": field.name, "datatype": _TYPES.get(str(field.type), "string")}
        for field in table.schema
    ]
    return {"url": name, "dc:title": title_of(columns), "notes": list(notes), "tableSchema": {"columns": schema}}


def name_files(tables: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a file's name for each table: its columns, the total's "total", numbered where two would be alike.

    >>> name_files([("region", "sex"), ("a b",), ("a-b",), ()])
    {('region', 'sex'): 'region_sex', ('a b',): 'a-b', ('a-b',): 'a-b-2', (): 'total'}
    """
    names: dict[tuple[str, ...], str] = {}
    taken: set[str] = set()
    for table in tables:
        stem = "_".join(re.sub(r"[^\w-]+", "-", column).strip("-") or "column" for column in table)[:120] or "total"
        name = stem
        number = 2
        while name.lower() in taken:
            name = f"{stem}-{number}"
            number += 1
        taken.add(name.lower())
        names[table] = name
    return names


def _report(release: Release, target: Path, *, quiet: bool) -> None:
    from sordino.cli.ask.render_release import cost_lines

    note(f"wrote {len(release.tables):,} tables to {target}", quiet=quiet)
    for line in cost_lines(release):
        note(line, quiet=quiet and release.private, aside=True)
