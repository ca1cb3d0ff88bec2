"""`sordino synth fit`: charge once, model a table, write the model. It sees the Model, never the data."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import Delta, Epsilon, Force, ProjectPath, Quiet, Rho, ends_in
from sordino.cli.shared.terminal import note, say, wrap
from sordino.cli.synth.arguments import TableName
from sordino.errors import ChargedError, DeclarationError

if TYPE_CHECKING:
    from sordino.cli.shared.atomic_file import AtomicFile
    from sordino.synth.constraints import Constraint
    from sordino.synth.model import Model

__all__ = ["synth_fit"]

_ALL_PAIRS = "all 2-way"


class Method(StrEnum):
    """How a table is modelled."""

    auto = "auto"
    independent = "independent"
    tree = "tree"
    mst = "mst"
    aim = "aim"
    marginals = "marginals"


def synth_fit(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The model to write.", callback=ends_in(".model"), show_default=False
        ),
    ],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: TableName = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,..", help="Without it: all but identifiers.", show_default=False),
    ] = None,
    method: Annotated[
        Method, typer.Option("--method", help="`auto` takes what the loss can pay: independent, tree or clique tree.")
    ] = Method.auto,
    marginals: Annotated[
        str | None,
        typer.Option(
            "--marginals", metavar="A,B;C,D", help="The tables of --method marginals, joined whole.", show_default=False
        ),
    ] = None,
    workload: Annotated[
        str, typer.Option("--workload", metavar="W", help='What matters: "all 2-way", or sets such as "a,b;b,c".')
    ] = _ALL_PAIRS,
    cap: Annotated[
        int | None,
        typer.Option("--cap", metavar="N", help="The cells that the model may have, at most.", show_default=False),
    ] = None,
    assume_rows: Annotated[
        int | None,
        typer.Option("--assume-rows", metavar="N", help="A public guess at the rows.", show_default=False),
    ] = None,
    never: Annotated[
        list[str] | None,
        typer.Option("--never", metavar="CONDITION", help="No drawn row meets it; repeat it.", show_default=False),
    ] = None,
    at_most: Annotated[
        list[str] | None,
        typer.Option("--at-most", metavar="A,B", help="A <= B in each drawn row; repeat it.", show_default=False),
    ] = None,
    determines: Annotated[
        list[Path] | None,
        typer.Option(
            "--determines",
            metavar="FILE",
            help="A CSV of two columns: the first decides the second in each drawn row; repeat it.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Model a table for synthetic data: charged once, then sampled and asked at no cost.

    What is refused (exit 2, 3, 4) is never charged, and leaves no file. A terminal shows the stage and the time.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import table_at
    from sordino.cli.synth.arguments import constraints_of, listed_columns, taken
    from sordino.cli.synth.progress import WatchedTable, stages

    taken(output, force=force)
    _consistent(method, marginals=marginals, workload=workload, cap=cap, columns=columns, assume_rows=assume_rows)
    with ExitStack() as stack:
        held = table_at(project, table)
        named = listed_columns(columns)
        for name in named or ():
            _ = held.domain[name]
        rules = constraints_of(never or (), at_most or (), determines or (), tuple(held.domain))
        target = stack.enter_context(open_atomic(output))  # before the charge: it can be written
        with stages(quiet=quiet) as watch:
            model = _fitted(
                WatchedTable(held, watch),
                method,
                columns=named,
                marginals=marginals,
                workload=workload,
                cap=cap,
                assume_rows=assume_rows,
                constraints=rules,
                loss={"epsilon": epsilon, "delta": delta, "rho": rho},
            )
            watch.enter("writing the model")
            _written(model, target)
        _told(model, held, output, seconds=watch.seconds, quiet=quiet)


def _consistent(
    method: Method,
    *,
    marginals: str | None,
    workload: str,
    cap: int | None,
    columns: str | None,
    assume_rows: int | None,
) -> None:
    """Refuse options that another option makes mean nothing."""
    if (method is Method.marginals) != (marginals is not None):
        raise DeclarationError('--method marginals and --marginals "a,b;c,d" go together: state both or neither')
    if method is not Method.auto and workload != _ALL_PAIRS:
        raise DeclarationError("--workload guides --method auto only; name the tables with --method marginals instead")
    if cap is not None and method not in (Method.auto, Method.aim, Method.marginals):
        raise DeclarationError(f"--cap bounds auto, aim and marginals; {method.value} has no cliques to bound")
    if method is Method.marginals and columns is not None:
        raise DeclarationError("--marginals names the columns already: leave out --columns")
    if assume_rows is not None and method is not Method.auto:
        raise DeclarationError("--assume-rows is for --method auto, which decides by it what the loss can pay")


def _fitted(
    source: Any,
    method: Method,
    *,
    columns: list[str] | None,
    marginals: str | None,
    workload: str,
    cap: int | None,
    assume_rows: int | None,
    constraints: list[Constraint],
    loss: dict[str, str | None],
) -> Model:
    """Return the model; everything is refused before it is charged."""
    from sordino.cli.synth.arguments import sets_of
    from sordino.synth import fitting

    epsilon, delta, rho = loss["epsilon"], loss["delta"], loss["rho"]
    if method is Method.auto:
        wanted = workload if workload == _ALL_PAIRS else sets_of(workload, option="--workload")
        for name in (n for names in wanted if not isinstance(wanted, str) for n in names):
            _ = source.domain[name]
        return fitting.fit(
            source,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            columns=columns,
            workload=wanted,
            constraints=constraints,
            cap=cap,
            assume_rows=assume_rows,
        )
    if method is Method.marginals:
        cliques = sets_of(marginals, option="--marginals")
        made: Any = (
            fitting.Marginals(cliques, constraints) if cap is None else fitting.Marginals(cliques, constraints, cap)
        )
    elif method is Method.aim:
        made = fitting.AIM(columns, constraints) if cap is None else fitting.AIM(columns, constraints, cap)
    else:
        kinds: dict[Method, Any] = {Method.independent: fitting.Independent, Method.tree: fitting.Tree}
        made = kinds.get(method, fitting.MST)(columns, constraints)
    fitted: Model = made.fit(source, epsilon=epsilon, delta=delta, rho=rho)
    return fitted


def _written(model: Model, target: AtomicFile) -> None:
    """Put the model in its place; where that fails it is kept elsewhere, since it was paid for."""
    failed = False
    try:
        model.save(target.path)
        target.write(target.path.read_bytes())
    except Exception:
        failed = True
    if failed:
        charge = model.facts.get("charge", "")
        rule = f"the model was fitted and charged ({charge}), but {target.target} cannot be written"
        raise ChargedError(f"{rule}; {_kept(model)}", charge=charge)


def _kept(model: Model) -> str:
    """Save a model in the directory for temporary files, and say where, or that it is lost."""
    try:
        path = Path(tempfile.mkdtemp(prefix="sordino-")) / "kept.model"
        model.save(path)
    except Exception:
        return "nor could it be kept anywhere else, so it is lost"
    return f"it is kept at {path}: move it to a safe place"


def _told(model: Model, held: Any, output: Path, *, seconds: float, quiet: bool) -> None:
    """Say what was made, what it cost and which charge it is."""
    from sordino.cli.ask.render_release import cost_lines

    release = held.release(model.facts["charge"])
    note(f"wrote {output}, in {seconds:.1f} s", quiet=quiet)
    if not quiet:
        for line in wrap("model", model.describe()):
            say(line)
    for line in cost_lines(release):
        note(line, quiet=quiet and release.private, aside=False)
