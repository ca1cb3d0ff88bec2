"""The options that commands share: each with its name, its words and its panel. It knows no command."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.errors import DeclarationError

__all__ = [
    "AnswerFormat",
    "BudgetName",
    "ChargeId",
    "Confidence",
    "Delimiter",
    "Delta",
    "Epsilon",
    "Force",
    "Header",
    "ListFormat",
    "OutputFile",
    "PictureFile",
    "ProjectPath",
    "QueryFile",
    "Question",
    "Quiet",
    "Rho",
    "TableName",
    "TextFormat",
    "delimiter_from",
    "ends_in",
    "output_ending",
]


def ends_in(*endings: str) -> Callable[[Path | None], Path | None]:
    """Return the check of an option that names a file to write: it ends so, or in nothing, and is refused before all else.

    >>> ends_in(".html")(Path("board.html")).name
    'board.html'
    """

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix and path.suffix.lower() not in endings:
            ways = f"{path.with_suffix(endings[0])} works"
            raise DeclarationError(f"{path} cannot be written: the file ends in {' or '.join(endings)}; {ways}")
        return path

    return check


def output_ending(*endings: str) -> Any:
    """Return the option of a file that an answer of one kind goes to."""
    told = "Write to FILE, whole or not at all."
    return typer.Option(
        "--output", "-o", metavar="FILE", help=told, callback=ends_in(*endings) if endings else None, show_default=False
    )


def drawable(path: Path | None) -> Path | None:
    """Check where a picture goes, and that one can be drawn, before all else."""
    if path is not None:
        from sordino.report.picture import need_plots, writer_of

        writer_of(path.suffix)
        need_plots()
    return path


class AnswerFormat(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


class ListFormat(StrEnum):
    """How a list is written."""

    table = "table"
    json = "json"
    csv = "csv"


class TextFormat(StrEnum):
    """How a text is written."""

    table = "table"
    json = "json"


ProjectPath = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="PATH",
        help="The project file, or its directory. Without it: the sordino.toml found here or above.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what was asked for: no notes, no hints.")]
OutputFile = Annotated[Path | None, output_ending()]
PictureFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw it: .svg, .png, .html or .json.",
        callback=drawable,
        show_default=False,
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", metavar="C", help="The probability that an interval holds the true value."),
]
TableName = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", help="Needed where several are declared.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
BudgetName = Annotated[
    str | None,
    typer.Option("--budget", metavar="NAME", help="The budget, where the project has several.", show_default=False),
]
ChargeId = Annotated[str, typer.Argument(metavar="ID", help="A charge, such as c-0001.", show_default=False)]

Question = Annotated[
    str | None, typer.Argument(metavar="SQL", help="The question; - reads standard input.", show_default=False)
]
QueryFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="QUERY.SQL", help="Read the question from a file.", show_default=False),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="E",
        help='What may be lost: an exact number such as 0.5 or "1/3".',
        rich_help_panel="What may be lost",
        show_default=False,
    ),
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        metavar="D",
        help="With --epsilon: the chance of losing more, such as 1e-9.",
        rich_help_panel="What may be lost",
        show_default=False,
    ),
]
Rho = Annotated[
    str | None,
    typer.Option(
        "--rho",
        metavar="R",
        help="Instead of --epsilon: a zero-concentrated loss.",
        rich_help_panel="What may be lost",
        show_default=False,
    ),
]

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="CSV: whether the first line holds names.", show_default=False),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="CSV: what stands between cells; \\t is a tab. Without it: a tab in a .tsv file, else a comma.",
        show_default=False,
    ),
]


def delimiter_from(given: str | None) -> str | None:
    """Return the character that --delimiter names."""
    return "\t" if given == "\\t" else given
