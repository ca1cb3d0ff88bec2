"""`sordino attack`: what attacks get out of figures with noise and without, beside what theory allows. NOT PRIVATE."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import goes_with
from sordino.cli.shared.terminal import note, say

Target = StrEnum("Target", "release synth local")
On = Annotated[
    Target,
    typer.Argument(metavar="release|synth|local", help="Counts, a synthetic table, or reports of the local model."),
]
Epsilons = Annotated[str, given.option("--epsilon", "E,E", "The epsilon of noisy figures: one or several, 1,10.")]
Secret = Annotated[
    str | None,
    given.option("--secret", "S", "For release: such as 'age > 45' or 'sex = Female'; for synth and local: a column."),
]
Table = Annotated[
    str | None, given.option("--table", "NAME", "Read true rows of a declared table. Without it: a generated census.")
]
People = Annotated[int | None, given.option("--people", "N", "How many people to draw at random.")]
Rounds = Annotated[
    int | None,
    given.option("--rounds", "N", "For local: the reports of each device; default 20."),
    goes_with("on", "local"),
]
Seed = Annotated[int, given.option("--seed", "N", "The seed of people, noise and attacks.")]
Page = Annotated[Path | None, given.output_ending(".html", ".htm")]


def attack(
    on: On,
    secret: Secret = None,
    epsilon: Epsilons = "1",
    people: People = None,
    rounds: Rounds = None,
    seed: Seed = 1,
    form: given.TextForm = given.TextFormat.table,
    picture: given.PictureFile = None,
    output: Page = None,
    table: Table = None,
    project: given.ProjectPath = None,
    force: given.Force = False,
    quiet: given.Quiet = False,
) -> None:
    """Attack figures about the same people, with and without noise; print what theory allows beside what was achieved.

    release: differencing, averaging with and without the ledger, reconstruction from many counts. synth: membership,
    attribute inference, the distance to the closest record. local: answers guessed from one report, from many, from those
    of a permanent answer. --output writes one page for a board. NOT PRIVATE: true rows decide whether an attack was right.
    """
    import sordino as sd
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_at
    from sordino.cli.shared.terminal import stages

    for path in (p for p in (picture, output) if p is not None):
        given.refuse_existing(path, force=force)
    rows = None if table is None and project is None else project_at(project).table(table)
    stated = {"epsilon": epsilon, "people": people, "rounds": rounds, "seed": seed}
    with stages(quiet=quiet) as watch:
        attacks = sd.audit.attack_kind(cast("Any", on.value), rows, secret=secret, watch=watch.enter, **stated)
    if picture is not None:
        sd.plot(attacks).save(picture)
    if output is not None:
        with open_atomic(output) as target:
            target.write(attacks.page().encode())
        note(f"wrote {output}", quiet=quiet)
    say(attacks.to_json() if form is given.TextFormat.json else attacks.describe())
