"""`sordino audit`: what the answers to a question reveal at least, on invented neighbors. Nothing is spent, no data is read."""

from __future__ import annotations

import json
from typing import Annotated

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import say, wrap

Samples = Annotated[int, given.option("--samples", "N", "How many answers are drawn on each of the two tables.")]
Seed = Annotated[int, given.option("--seed", "N", "The seed of tables and noise.")]


def audit(
    sql: given.Question = None,
    file: given.QueryFile = None,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    samples: Samples = 4000,
    seed: Seed = 1,
    form: given.TextForm = given.TextFormat.table,
    picture: given.PictureFile = None,
    project: given.ProjectPath = None,
) -> None:
    """Audit a question on two made-up neighboring tables: the epsilon that its answers demonstrate, beside the one claimed."""
    import sordino as sd
    from sordino.cli.ask.question import text_of
    from sordino.cli.shared.opening import project_path

    plan = sd.connect(project_path(project)).plan(sd.sql(text_of(sql, file)), epsilon=epsilon, delta=delta, rho=rho)
    report = sd.audit.audit_plan(plan, at_delta=None if rho is None else 1e-3, samples=samples, seed=seed)
    if picture is not None:
        sd.plot(report).save(picture)
    for line in [json.dumps(report.to_dict())] if form is given.TextFormat.json else wrap("NOT PRIVATE", str(report)):
        say(line)
