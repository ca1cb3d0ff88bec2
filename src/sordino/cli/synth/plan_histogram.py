"""`sordino synth plan`: what a histogram would cost and how far its counts would err. Nothing is spent, no data is used."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, say, wrap
from sordino.core.text_table import columns_of

Names = Annotated[str, typer.Argument(metavar="A,B,..", help="The columns; for several, all combinations are counted.")]


def synth_plan(
    columns: Names,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    confidence: given.Confidence = 0.95,
    form: given.TextForm = given.TextFormat.table,
    plot: given.PictureFile = None,
    project: given.ProjectPath = None,
) -> None:
    """Price a histogram of one or more columns: cost, bins, and the error of some of them together. It is free."""
    from sordino import synth
    from sordino.cli.shared.atomic_file import open_picture
    from sordino.cli.shared.opening import table_at
    from sordino.cli.synth.arguments import column_names

    histogram = synth.Histogram(column_names(columns) or ())
    priced = histogram.plan(table_at(project, table), epsilon=epsilon, delta=delta, rho=rho)
    with open_picture(plot, confidence=confidence) as draw:
        draw(priced)
    data = priced.to_dict(confidence)
    if form is given.TextFormat.json:
        say(json.dumps(data, ensure_ascii=False, indent=2))
        return
    rows = [[f"{int(bins):,}", f"{error:,.0f}"] for bins, error in data["errors"].items()]
    head = [*wrap("histogram", f"of {' and '.join(data['columns'])}"), *wrap("cost", data["cost"])]
    for line in [*head, *columns_of(["bins together", f"{100 * confidence:g}% error"], rows, right=[True, True])]:
        say(line)
    named = shlex.quote(",".join(data["columns"]))
    losses = {"--table": table, "--epsilon": epsilon, "--delta": delta, "--rho": rho}
    stated = " ".join(f"{flag} {shlex.quote(str(value))}" for flag, value in losses.items() if value is not None)
    where = "" if project is None else f" --project {shlex.quote(str(project))}"
    fit = f"sordino synth fit --method marginals --marginals {named} {stated}{where} -o rows.model"
    say()
    # One line each, so that they can be copied.
    note(
        "nothing was spent; this spends it, and draws as many rows as you like from what it made:",
        quiet=False,
        aside=False,
    )
    say(fit)
    say("sordino synth sample rows.model -o rows.csv")
    note(f"`sordino ask` with GROUP BY {', '.join(data['columns'])} gives the counts alone", quiet=False, aside=False)
