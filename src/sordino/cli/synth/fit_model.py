"""`sordino synth fit`: charge once, model a table, write the model. It sees the Model, never the data."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, say, wrap
from sordino.synth.methods import ALL_PAIRS, METHODS

if TYPE_CHECKING:
    from sordino.synth.model import Model

ModelOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The model to write.", callback=given.ends_in(".model"))
]
Columns = Annotated[str | None, given.option("--columns", "A,B,..", "Default: all but identifiers.")]
MethodName = Annotated[
    str, given.one_of("--method", METHODS, "`auto` uses what the loss can pay for: independent, tree or clique tree.")
]
MarginalSets = Annotated[str | None, given.option("--marginals", "A,B;C,D", "The tables of --method marginals.")]
WorkloadSets = Annotated[str, given.option("--workload", "W", 'Column sets that matter: "all 2-way" or "a,b;b,c".')]
Cap = Annotated[int | None, given.option("--cap", "N", "The largest number of cells of the model.")]
RowsGuess = Annotated[int | None, given.option("--assume-rows", "N", "A public guess at the number of rows.")]
Predicted = Annotated[
    str | None,
    given.option("--predict", "A,B,..", "Columns to be predicted from rows: what they depend on is kept first."),
]
NeverRules = Annotated[
    list[str] | None, given.option("--never", "CONDITION", "A condition that no drawn row satisfies; may be repeated.")
]
AtMostRules = Annotated[
    list[str] | None, given.option("--at-most", "A,B", "A <= B in each drawn row; may be repeated.")
]
DeterminesFiles = Annotated[
    list[Path] | None,
    given.option("--determines", "FILE", "A CSV of two columns: the first determines the second in each drawn row."),
]
RuleLines = Annotated[
    list[str] | None,
    given.option("--rule", "RULE", 'A rule of every drawn row, such as "above + basement = living"; may be repeated.'),
]


def synth_fit(
    output: ModelOutput,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    columns: Columns = None,
    method: MethodName = "auto",
    marginals: MarginalSets = None,
    workload: WorkloadSets = ALL_PAIRS,
    cap: Cap = None,
    assume_rows: RowsGuess = None,
    predict: Predicted = None,
    never: NeverRules = None,
    at_most: AtMostRules = None,
    determines: DeterminesFiles = None,
    rule: RuleLines = None,
    force: given.Force = False,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Model a table for synthetic data. It is charged once; sampling and asking the model are free.

    A refused fit (exit 2, 3, 4) is never charged and leaves no file. A terminal shows the stage and the time.
    """
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.atomic_file import after_charge, open_atomic
    from sordino.cli.shared.opening import project_at, table_at
    from sordino.cli.shared.terminal import stages
    from sordino.cli.synth.arguments import column_names, constraints_of, sets_of
    from sordino.synth import declared_rules
    from sordino.synth.methods import FitRequest
    from sordino.synth.watched_table import WatchedTable

    given.refuse_existing(output, force=force)
    with ExitStack() as stack:
        curator = table_at(project, table, spender=spender)
        names = column_names(columns)
        for name in names or ():
            _ = curator.domain[name]
        sets = None if marginals is None else sets_of(marginals, option="--marginals")
        modelled = names if sets is None else [n for columns_of_set in sets for n in columns_of_set]
        rules = [
            *declared_rules(project_at(project), curator.name, columns=modelled),
            *constraints_of(never or (), at_most or (), determines or (), tuple(curator.domain), lines=rule or ()),
        ]
        # Opened before the charge, so that a file that cannot be written is refused at no cost.
        target = stack.enter_context(open_atomic(output))
        loss = {"epsilon": epsilon, "delta": delta, "rho": rho}
        with stages(quiet=quiet) as watch:
            source = WatchedTable(curator, watch)
            request = FitRequest(
                method,
                names,
                sets,
                workload if workload == ALL_PAIRS else sets_of(workload, option="--workload"),
                tuple(rules),
                cap,
                assume_rows,
                column_names(predict) or (),
            )
            model = request.fit(source, **loss)
            watch.enter("writing the model")
            charge = model.facts["charge"]
            unwritten = f"the model was fitted and charged ({charge}), but {output} cannot be written"
            with after_charge(charge, lambda: f"{unwritten}; {_keep(model)}"):
                target.write(model.to_bytes())
        release = curator.release(charge)
    note(f"wrote {output}, in {watch.seconds:.1f} s", quiet=quiet)
    for line in [] if quiet else wrap("model", model.describe()):
        say(line)
    for line in cost_lines(release):
        note(line, quiet=quiet and release.private, aside=False)


def _keep(model: Model) -> str:
    """Save a model in the directory for temporary files, since it was paid for, and return where, or that it is lost."""
    try:
        path = Path(tempfile.mkdtemp(prefix="sordino-")) / "kept.model"
        model.save(path)
    except Exception:
        return "it could not be saved anywhere else either, so it is lost"
    return f"it is saved at {path}: move it to a safe place"
