"""`sordino bounds` and `sordino caps`: choose bounds of a column, or caps of a unit, privately. They see the Release alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sordino.ask.clipping import METHODS, Method
from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import ChargedError

if TYPE_CHECKING:
    from sordino.core.release import Release


def deliver_search(
    search: Callable[[], Release], *, plot: Path | None, form: given.TextFormat, confidence: float, quiet: bool
) -> Release:
    """Search, charged once, print what was chosen and draw it; the picture's place is taken before the charge."""
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.atomic_file import open_if_named
    from sordino.reporting.charts import plot as draw
    from sordino.reporting.picture import encode_picture

    with open_if_named(plot) as target:
        release = search()
        if form is given.TextFormat.json:
            sys.stdout.write(json.dumps(release.to_dict(confidence=confidence), ensure_ascii=False, indent=2) + "\n")
        else:
            width = max(len(name) for name, _ in release.chosen)
            for name, value in (release.value or {}).items():
                say(f"{name:<{width}}  {value:,}")
        for line in cost_lines(release):
            note(line, quiet=quiet and release.private, aside=form is given.TextFormat.json)
        if target is not None:
            target.write(encode_picture(draw(release, confidence=confidence), target.target.suffix))
            note(f"wrote {plot}", quiet=quiet)
    return release


def bounds(
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A declared column of numbers.")],
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    method: Annotated[
        str, given.one_of("--method", METHODS, "`histogram` or `quantile`; for teaching, `ladder` or `sparse_vector`.")
    ] = "histogram",
    ladder: Annotated[
        str | None,
        given.option("--ladder", "B1,B2,...", "For --method ladder: ascending upper bounds, one clipped sum for each."),
    ] = None,
    plot: given.PictureFile = None,
    confidence: given.Confidence = 0.95,
    form: given.TextForm = given.TextFormat.table,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Find clipping bounds of a column privately: noise hides the few rows beyond them.

    The search is charged once, before data is touched. Exit 5 means that nothing was found: the charge stands, and there
    are no bounds to use.
    """
    from sordino.cli.shared.opening import table_at

    curator = table_at(project, table, spender=spender)
    cuts = None if ladder is None else [b.strip() for b in ladder.split(",")]
    release = deliver_search(
        lambda: curator.find_bounds(
            column, method=cast(Method, method), ladder=cuts, epsilon=epsilon, delta=delta, rho=rho
        ),
        plot=plot,
        form=form,
        confidence=confidence,
        quiet=quiet,
    )
    if not release.found:
        raise ChargedError(release.notes[0], charge=release.charge)


KeyColumn = Annotated[str | None, given.option("--by", "COLUMN", "Also cap the keys of this column.")]
CapNames = Annotated[
    str | None,
    given.option("--choose", "NAMES", "The caps to choose, comma-separated: max_rows, max_groups, max_rows_per_group."),
]
KeysGuess = Annotated[
    int | None,
    given.option("--assume-keys", "N", "With --by: a public guess at the number of keys, if they are not declared."),
]
QuestionEpsilon = Annotated[
    str | None,
    given.option("--question-epsilon", "E", "The epsilon of one later question; by default, that of this search."),
]


def caps(
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    by: KeyColumn = None,
    choose: CapNames = None,
    assume_keys: KeysGuess = None,
    question_epsilon: QuestionEpsilon = None,
    plot: given.PictureFile = None,
    confidence: given.Confidence = 0.95,
    form: given.TextForm = given.TextFormat.table,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Choose max_rows, how many rows of a unit count, privately: weigh lost rows against added noise.

    Charged once, before data is touched. Declare the caps in the project file; `sordino ledger amend` records them.
    """
    from sordino.cli.shared.opening import table_at

    curator = table_at(project, table, spender=spender)
    deliver_search(
        lambda: curator.find_contribution_bounds(
            by=by,
            choose=None if choose is None else [name.strip() for name in choose.split(",")],
            assume_keys=assume_keys,
            question_epsilon=question_epsilon,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
        ),
        plot=plot,
        form=form,
        confidence=confidence,
        quiet=quiet,
    )
