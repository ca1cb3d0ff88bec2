"""`sordino model fit`, `choose` and `show`: fit a model, or the best of several, and write it; its card. They never see data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared import options as given
from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError
from sordino.models.registry import MODELS, load_fit, require_model


class CardFormat(StrEnum):
    """How a card is written."""

    text = "text"
    json = "json"
    html = "html"


def _require_kind(name: str) -> str:
    require_model(name)
    return name


def model_fit(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=f"Which model to fit: {', '.join(MODELS)}.",
            callback=_require_kind,
            autocompletion=lambda: list(MODELS),
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The model to write.", callback=given.ends_in(".model")),
        not_with("--plan"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the cost and what is known of the error, and stop.")
    ] = False,
    y: Annotated[str | None, given.option("--y", "COLUMN", "The column to predict.")] = None,
    x: Annotated[
        str | None,
        given.option("--x", "A,B,..", "The columns to predict it from; A*B is a product."),
    ] = None,
    columns: Annotated[
        str | None,
        given.option("--columns", "A,B,..", "The columns of components or clusters."),
    ] = None,
    components: Annotated[int | None, given.option("--components", "N", "How many components.")] = None,
    clusters: Annotated[int | None, given.option("--clusters", "N", "How many clusters.")] = None,
    depth: Annotated[
        int | None,
        given.option("--depth", "N", "How many splits a path of a tree has."),
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="Measure columns by their spread, or range.")] = False,
    validate: Annotated[
        int | None,
        given.option("--validate", "N", "Hold one unit in N out, and say how well the others predict it."),
    ] = None,
    weights: Annotated[
        str | None, given.option("--weights", "COLUMN", "A number of 0 or more that each row counts by.")
    ] = None,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists."), not_with("--plan")] = False,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Fit a model to a table. It is charged once; predictions are free.

    Regressions, classifiers and trees take --y and --x; pca takes --columns and --components, kmeans --columns and --clusters.
    A refused fit (exit 2, 3, 4) is never charged and leaves no file.
    """
    from sordino.cli.shared.opening import table_at
    from sordino.models.planning import plan as plan_model

    arguments: dict[str, Any] = {
        "y": y,
        "x": None if x is None else _read_terms(x),
        "columns": None if columns is None else [name.strip() for name in columns.split(",")],
        "components": components,
        "clusters": clusters,
        "depth": depth,
        "scale": scale or None,
        "validate": validate,
        "weights": weights,
    }
    stated = {name: value for name, value in arguments.items() if value is not None}
    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
    curator = table_at(project, table, spender=spender)
    priced = plan_model(kind, curator, **stated, **loss)
    if plan:
        say(str(priced))
        return
    fit = load_fit(kind)
    _write_fitted(output, lambda: ("", fit(curator, **stated, **loss)), force=force, quiet=quiet)


def model_choose(
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL..", help="The models to choose among, two or more.", autocompletion=lambda: list(MODELS)
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The chosen model to write.", callback=given.ends_in(".model")
        ),
        not_with("--plan"),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the cost and that of each part, and stop.")] = False,
    y: Annotated[str | None, given.option("--y", "COLUMN", "The column to predict.")] = None,
    x: Annotated[str | None, given.option("--x", "A,B,..", "The columns to predict it from; A*B is a product.")] = None,
    validate: Annotated[
        int | None, given.option("--validate", "N", "Hold one unit in N out, by which to choose.")
    ] = None,
    depth: Annotated[int | None, given.option("--depth", "N", "How many splits a path of a tree has.")] = None,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    table: given.TableName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists."), not_with("--plan")] = False,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Fit several models, and keep the one that predicts units best that none was fitted to.

    85% of the loss fits them, 10% chooses, 5% scores the chosen one, all by one charge.
    A refused choice (exit 2, 3, 4) is never charged and leaves no file.
    """
    from sordino.cli.shared.opening import table_at
    from sordino.models.validation import choose, plan_choice

    if validate is None:
        raise DeclarationError(
            "is missing: it holds one unit in N out, by which to choose, such as 4", key="--validate"
        )
    shared: dict[str, Any] = {"y": y, "x": None if x is None else _read_terms(x), "depth": depth}
    loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
    stated = {name: value for name, value in (shared | loss).items() if value is not None}
    curator = table_at(project, table, spender=spender)
    if plan:
        say(str(plan_choice(candidates, curator, validate=validate, **stated)))
        return

    def fit() -> tuple[str, Any]:
        choice = choose(candidates, curator, validate=validate, **stated)
        return f"chose {choice.name}; ", choice.model

    _write_fitted(output, fit, force=force, quiet=quiet)


def _write_fitted(output: Path | None, fit: Callable[[], tuple[str, Any]], *, force: bool, quiet: bool) -> None:
    """Write what `fit` returns with a word before it, and print its card; raises what opening a file raises before the charge."""
    from sordino.cli.shared.atomic_file import after_charge, open_atomic
    from sordino.models.record import encode_model

    if output is None:
        raise DeclarationError("is missing: name a file for the model, or --plan to see its price", key="--output")
    given.refuse_existing(output, force=force)
    with ExitStack() as stack:
        # Opened before the charge, so that a file that cannot be written is refused at no cost.
        target = stack.enter_context(open_atomic(output))
        words, model = fit()
        charge = model.provenance.charge
        rule = f"the model was fitted and charged ({charge}), but {output} cannot be written"
        with after_charge(charge, lambda: f"{rule}; `sordino show {charge}` has what it was fitted to"):
            target.write(encode_model(model).encode())
    note(f"{words}wrote {output}", quiet=quiet)
    if not quiet or not model.provenance.private:
        say(model.card.to_text())


def model_show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model, as `sordino model fit` wrote it.")],
    form: Annotated[
        CardFormat, typer.Option("--format", help="The card as text, json, or an html page.")
    ] = CardFormat.text,
    plot: given.PictureFile = None,
) -> None:
    """Show the card of a model: what it predicts, its cost, and what is to be known of it."""
    from sordino.cli.shared.atomic_file import open_picture
    from sordino.models.record import load

    model = load(file)
    with open_picture(plot) as draw:
        draw(model)
    card = model.card
    say({"text": card.to_text, "json": card.to_json, "html": card.to_html}[form.value]())


def _read_terms(text: str) -> list[Any]:
    """Return columns between commas, products of numbers as tuples."""
    terms: list[Any] = []
    for part in text.split(","):
        names = tuple(name.strip() for name in part.split("*"))
        terms.append(names[0] if len(names) == 1 else names)
    return terms
