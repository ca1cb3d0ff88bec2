"""`sordino caps`: choose privately how many rows of one unit should count. It sees the Release, never the data."""

from __future__ import annotations

from typing import Annotated

from sordino.cli.shared.options import (
    Confidence,
    Delta,
    Epsilon,
    PictureFile,
    ProjectPath,
    Quiet,
    Rho,
    Spender,
    TableName,
    TextForm,
    TextFormat,
    option,
)

__all__ = ["caps"]


def caps(
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: TableName = None,
    by: Annotated[str | None, option("--by", "COLUMN", "Also cap the keys of this column.")] = None,
    choose: Annotated[
        str | None,
        option(
            "--choose", "NAMES", "Which to choose: max_rows, max_groups, max_rows_per_group, with commas between them."
        ),
    ] = None,
    assume_keys: Annotated[
        int | None,
        option("--assume-keys", "N", "With --by: a public guess at the number of keys, if they are not declared."),
    ] = None,
    question_epsilon: Annotated[
        str | None,
        option("--question-epsilon", "E", "The epsilon of one later question; by default, that of this search."),
    ] = None,
    plot: PictureFile = None,
    confidence: Confidence = 0.95,
    form: TextForm = TextFormat.table,
    spender: Spender = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Choose max_rows, the rows of one unit that count, privately: lost rows against added noise.

    Charged once, before data is touched. Declare the caps in the project file; `sordino ledger amend` records them.
    """
    from sordino.cli.ask.search import deliver_search
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
