"""The options that commands share: each a type with its name, its words and its panel. It knows no command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared.option_rules import goes_with
from sordino.core.errors import DeclarationError, instead_of, nearest


def option(name: str, metavar: str, words: str, *, panel: str | None = None) -> Any:
    """Return an option that takes a value: its name, what stands for the value, and its words."""
    return typer.Option(name, metavar=metavar, help=words, rich_help_panel=panel)


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


def one_of(name: str, names: Iterable[str], words: str) -> Any:
    """Return an option that takes one of these names, read from the registry that holds them: help, completion, refusal."""
    values = list(names)

    def check(given: str | None) -> str | None:
        if given is not None and given not in values:
            raise DeclarationError(f"{name}: {given!r} is none of its values; {nearest(given, values)}")
        return given

    return typer.Option(
        name, metavar=f"[{'|'.join(values)}]", help=words, callback=check, autocompletion=lambda: list(values)
    )


def output_ending(*endings: str) -> Any:
    """Return the option of a file that an answer of one kind goes to."""
    words = "Write to FILE, completely or not at all."
    return typer.Option("--output", "-o", metavar="FILE", help=words, callback=ends_in(*endings) if endings else None)


def refuse_existing(path: Path, *, force: bool, hint: str = "--force replaces it") -> None:
    """Raise DeclarationError where a file is there and may not be replaced."""
    if path.exists() and not path.is_dir() and not force:
        raise DeclarationError(f"{path} exists already; {hint}")


def _check_drawable(path: Path | None) -> Path | None:
    """Check where a picture goes, and that one can be drawn, before all else."""
    if path is not None:
        from sordino.reporting.picture import need_plots, writer_of

        writer_of(path.suffix)
        need_plots()
    return path


def _check_confidence(confidence: float | None) -> float | None:
    if confidence is not None and not 0 < confidence < 1:
        raise DeclarationError(f"--confidence must lie between 0 and 1: {instead_of(confidence)}")
    return confidence


def _read_delimiter(given: str | None) -> str | None:
    return "\t" if given == "\\t" else given


# How an answer, a list and a text are written.
AnswerFormat = StrEnum("AnswerFormat", "table json csv parquet xlsx")
ListFormat = StrEnum("ListFormat", "table json csv")
TextFormat = StrEnum("TextFormat", "table json")


class ShareBy(StrEnum):
    """How a loss is split."""

    equal = "equal"
    relative = "relative"
    error = "error"


_LOSS = "What may be lost"

# what is asked, and at what loss
Question = Annotated[str | None, typer.Argument(metavar="SQL", help="The question; - reads standard input.")]
QueryFile = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="QUERY.SQL", help="Read the question from a file.")
]
Epsilon = Annotated[
    str | None, option("--epsilon", "E", 'The loss: an exact number such as 0.5 or "1/3".', panel=_LOSS)
]
Delta = Annotated[
    str | None,
    option(
        "--delta",
        "D",
        "With --epsilon: the delta of (epsilon, delta), such as 1e-9; with --rho: what private keys spend.",
        panel=_LOSS,
    ),
]
Rho = Annotated[str | None, option("--rho", "R", "Instead of --epsilon: a zero-concentrated loss.", panel=_LOSS)]
AssumeRows = Annotated[
    int | None, option("--assume-rows", "N", "A public guess at the rows in a group, for the expected error of a mean.")
]
Weights = Annotated[
    str | None,
    option(
        "--weights",
        "N=1,TOTAL=3",
        "Shares of the loss, by a column's name or in order. By default they are equal.",
        panel=_LOSS,
    ),
]
Share = Annotated[
    ShareBy,
    typer.Option(
        "--share",
        help="How weights are used: as shares, or to minimize the sum of errors, absolute or relative to the answers.",
        rich_help_panel=_LOSS,
    ),
]
Scale = Annotated[
    str | None,
    option(
        "--scale", "INCOME=50000", "With --share relative: how large a column or an answer is, by name.", panel=_LOSS
    ),
    goes_with("--share", "relative"),
]
Spender = Annotated[
    str | None,
    option(
        "--spender", "NAME", "Also charge a declared share of the budget, such as a team's or a program's.", panel=_LOSS
    ),
]

# how much one unit contributes
MaxRows = Annotated[int | None, option("--max-rows", "N", "Count at most N rows of one unit, fewer than declared.")]
MaxGroups = Annotated[int | None, option("--max-groups", "N", "Count each unit in at most N groups.")]
MaxRowsPerGroup = Annotated[
    int | None, option("--max-rows-per-group", "N", "Count at most N rows of one unit in each group.")
]

# of what
ProjectPath = Annotated[
    Path | None,
    option(
        "--project", "PATH", "The project file, or its directory. Without it: the sordino.toml found here or above."
    ),
]
TableName = Annotated[str | None, option("--table", "NAME", "The table, if several are declared.")]
BudgetName = Annotated[str | None, option("--budget", "NAME", "The budget, if the project has several.")]
ChargeId = Annotated[str, typer.Argument(metavar="ID", help="A charge, such as c-0001.")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="CSV, JSON lines: the first line has names.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="CSV: the delimiter between cells; \\t is a tab. Default: a tab in a .tsv file, else a comma.",
        callback=_read_delimiter,
    ),
]

# how it is written, and where
AnswerForm = Annotated[
    AnswerFormat | None, typer.Option("--format", help="Default: by the ending of FILE, else a table.")
]
ListForm = Annotated[ListFormat, typer.Option("--format", help="The format of the list.")]
TextForm = Annotated[TextFormat, typer.Option("--format", help="Text or JSON.")]
Confidence = Annotated[
    float,
    typer.Option(
        "--confidence",
        metavar="C",
        help="The probability that an interval contains the true value.",
        callback=_check_confidence,
    ),
]
ConfidenceOfCounts = Annotated[
    float | None,
    typer.Option(
        "--confidence",
        metavar="C",
        help="With a loss: the probability that an interval contains the true count, 0.95 if none is stated.",
        callback=_check_confidence,
    ),
]
OutputFile = Annotated[Path | None, output_ending()]
PageFile = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.", callback=ends_in(".html", ".htm"))
]
PictureFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw a picture: .svg, .png, .html, .json.", callback=_check_drawable),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Dialect = Annotated[
    str | None,
    option(
        "--dialect",
        "NAME",
        "The SQL dialect: duckdb, postgres, bigquery, spark, tsql, ... By default it is recognised by its quotes.",
    ),
]
KeysFile = Annotated[
    Path | None,
    option(
        "--keys",
        "FILE.csv",
        "A public list of keys, with a header line: exactly these rows appear, in this order. The word weighted or threshold "
        "says how private keys are selected.",
    ),
]
MinUnits = Annotated[int, option("--min-units", "N", "Show a private key only if it also has at least N units.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result, without notes or hints.")]

# what changes on record
Reason = Annotated[str, option("--reason", "TEXT", "The reason; it stays on record.")]
WriteCap = Annotated[bool, typer.Option("--write", help="Write the cap and its reason into the project file.")]
