"""`sordino series ...`: counts and sums released period after period for one charge."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import goes_with, not_with
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import UnknownName, nearest

if TYPE_CHECKING:
    from sordino.ask.curator.plan import Plan
    from sordino.ask.project.load import Budget
    from sordino.ask.queries.series import SeriesHandle

SeriesName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the series.")]
Period = Annotated[
    str, typer.Argument(metavar="PERIOD", help="A day, such as 2026-11-24; a month 2026-11; 2026-Q4; 2026.")
]


class EveryPeriod(StrEnum):
    """The kinds of periods."""

    day = "day"
    week = "week"
    month = "month"
    quarter = "quarter"
    year = "year"


def open_series(
    name: SeriesName,
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One count or sum by declared keys: SELECT ward, COUNT(*) AS count ...")
    ],
    over: Annotated[
        str, given.option("--over", "COLUMN", "The column of days or moments that places a row in its period.")
    ],
    every: Annotated[EveryPeriod, typer.Option("--every", help="The length of a period.")],
    horizon: Annotated[
        int | None, given.option("--horizon", "N", "The most periods: fewer have less noise; 10,000 if left out.")
    ] = None,
    start: Annotated[
        str | None, given.option("--start", "PERIOD", "The first period; if left out, the first that is released.")
    ] = None,
    max_periods: Annotated[
        int | None,
        given.option("--max-periods", "N", "Where a column names people: the most periods in which one counts."),
    ] = None,
    window: Annotated[
        int | None,
        given.option("--window", "N", "The periods of which --max-periods count; all of the series if left out."),
        goes_with("--max-periods"),
    ] = None,
    max_rows_per_period: Annotated[
        int | None,
        given.option("--max-rows-per-period", "N", "The most rows of one person that count in a period."),
        goes_with("--max-periods"),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the cost and the errors, and stop: it is free.")] = False,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    spender: given.Spender = None,
    confidence: Annotated[
        float,
        given.option("--confidence", "P", "The probability with which a planned error holds."),
        goes_with("--plan"),
    ] = 0.95,
    project: given.ProjectPath = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result, without notes or hints."), not_with("--plan")
    ] = False,
) -> None:
    """Open a series: one charge pays for the numbers and running totals of all its periods.

    The same name and arguments open it again, at no cost. A loss is --rho, or --epsilon with --delta.
    """
    import sordino as sd
    from sordino.cli.shared.opening import table_at

    curator = table_at(project, table, spender=spender)
    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
    shown: list[Plan] = []

    def confirm(priced: Plan) -> None:
        shown.append(priced)
        if plan:
            raise typer.Exit

    try:
        series = curator.series(
            sd.sql(sql),
            over=over,
            every=every.value,
            horizon=horizon,
            start=start,
            max_periods=max_periods,
            window=window,
            max_rows_per_period=max_rows_per_period,
            name=name,
            confirm=confirm,
            **loss,
        )
    except typer.Exit:
        say(shown[0].describe(confidence))
        return
    if not shown:
        note(f"the series {name} goes on: {_describe(series)}", quiet=quiet, aside=False)
        return
    cost = series.opening.cost.describe()
    say(f"opened the series {name}: {cost} for all of its periods ({series.opening.charge})")
    note(f"`sordino series release {name} PERIOD` releases one", quiet=quiet, aside=False)


def release_period(
    name: SeriesName,
    period: Period,
    form: given.AnswerForm = None,
    output: given.OutputFile = None,
    plot: given.PictureFile = None,
    confidence: given.Confidence = 0.95,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Release a period of a series; one that was released before is shown again, the same. It charges nothing."""
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_if_named, open_picture

    answer_format = chosen_format(form, output)
    series = _open_again(project, name, spender)
    with open_if_named(output) as target, open_picture(plot, confidence=confidence, quiet=quiet) as draw:
        release = series.release(period)
        deliver([release], answer_format, confidence=confidence, target=target, quiet=quiet)
        draw(release)


def show_series(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A series; all of them if left out.")] = None,
    first: Annotated[str | None, given.option("--from", "PERIOD", "The first period of a window.")] = None,
    last: Annotated[str | None, given.option("--to", "PERIOD", "The last period of a window.")] = None,
    form: given.TextForm = given.TextFormat.table,
    plot: given.PictureFile = None,
    export: Annotated[
        Path | None,
        given.option("--export", "FILE", "Write the released periods to a .csv or .parquet file, with their records."),
    ] = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """List the series, or what one has released: every period, or the total of a window. It costs nothing."""
    from sordino.cli.shared.atomic_file import open_picture
    from sordino.core.errors import DeclarationError

    if (first is None) != (last is None):
        raise DeclarationError("a window has a first and a last period: state --from and --to")
    if name is None:
        if first is not None:
            raise DeclarationError("a window is of one series: name it", key="--from")
        if plot is not None:
            raise DeclarationError("draws one series over time: name it", key="--plot")
        if export is not None:
            raise DeclarationError("is a file of one series: name it", key="--export")
        _list_series(project, form, quiet=quiet)
        return
    series = _open_again(project, name, None)
    if first is not None and last is not None:
        if plot is not None:
            raise DeclarationError(
                "draws all that was released, and a window is one number: leave one out", key="--plot"
            )
        if export is not None:
            raise DeclarationError(
                "is a file of all that was released, and a window is one number: leave one out", key="--export"
            )
        window = series.window(first, last)
        say(window.to_json() if form is given.TextFormat.json else str(window))
        return
    if not series.periods:
        note(f"nothing of the series {name} was released so far", quiet=quiet, aside=False)
        return
    if export is not None:
        series.export(export)
        periods = len(series.periods)
        words = f"wrote {export}: {periods:,} period{'' if periods == 1 else 's'}, with the record of each"
        note(words, quiet=quiet, aside=True)
    _show_rows(series.table.to_pylist(), form)
    with open_picture(plot, quiet=quiet) as draw:
        draw(series)


def _show_rows(rows: list[dict[str, Any]], form: given.TextFormat) -> None:
    from sordino.core.release import show_number
    from sordino.core.text_table import columns_of

    if form is given.TextFormat.json:
        say(json.dumps({"schema": 1, "rows": rows}, ensure_ascii=False, indent=2, default=str))
        return
    names = list(rows[0])
    cells = [[show_number(v) if isinstance(v, (int, float)) else str(v) for v in row.values()] for row in rows]
    for line in columns_of(names, cells, right=[isinstance(v, (int, float)) for v in rows[0].values()]):
        say(line)


def _list_series(project: Path | None, form: given.TextFormat, *, quiet: bool) -> None:
    rows: list[dict[str, Any]] = []
    for budget, series in _ledgers(project):
        for name in series.names():
            record = series.get(name)
            last = series.last(name)
            about = record.arguments
            rows.append(
                {
                    "series": name,
                    "budget": budget.name,
                    "table": about["table"],
                    "every": about["every"],
                    "charge": record.charge,
                    "last": "" if last is None else last.period,
                    "step": 0 if last is None else last.step,
                    "horizon": about["horizon"],
                    "ended": record.ended,
                }
            )
    if form is given.TextFormat.table and not rows:
        note("no series was opened so far", quiet=quiet, aside=False)
        return
    if form is given.TextFormat.json:
        say(json.dumps({"schema": 1, "series": rows}, ensure_ascii=False, indent=2))
        return
    _show_rows(rows, form)


def _ledgers(project: Path | None) -> list[tuple[Budget, Any]]:
    """Return the series of each budget that has a ledger."""
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.ledger import Ledger
    from sordino.core.ledger.series_ledger import SeriesLedger

    found = []
    for budget in project_at(project).budgets_named(None):
        ledger = Ledger.existing_or_none(str(budget.ledger))
        if ledger is not None:
            found.append((budget, SeriesLedger(ledger)))
    return found


def _open_again(project: Path | None, name: str, spender: str | None) -> SeriesHandle:
    """Return a series by its name, with the table that it is of."""
    from sordino.cli.shared.opening import table_at

    names: list[str] = []
    for _, series in _ledgers(project):
        record = series.find(name)
        if record is not None:
            return table_at(project, record.arguments["table"], spender=spender).series(name=name)
        names += series.names()
    raise UnknownName(f"there is no series {name!r:.60}; {nearest(name, names)}; `sordino series show` lists them")


def _describe(series: SeriesHandle) -> str:
    periods = series.periods
    return f"{len(periods):,} released, the last {periods[-1]}" if periods else "nothing released so far"
