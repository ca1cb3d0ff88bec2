"""From the words of `sordino synth` to sets of columns and constraints. It knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.synth.rules import Rule

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model, as `sordino synth fit` wrote it.")]


def sets_of(text: str | None, *, option: str) -> list[tuple[str, ...]]:
    """Return sets of columns: between semicolons the sets, between commas the names.

    >>> sets_of("age,sex; job", option="--marginals")
    [('age', 'sex'), ('job',)]
    """
    sets = [tuple(n.strip() for n in part.split(",")) for part in (text or "").split(";") if part.strip()]
    if not sets or any(not n for names in sets for n in names):
        raise DeclarationError(f'{option} takes sets of columns, such as "age,sex;age,occupation"')
    return sets


def column_names(text: str | None) -> list[str] | None:
    """Return the names between commas, None without any."""
    if text is None:
        return None
    names = [n.strip() for n in text.split(",")]
    if not all(names):
        raise DeclarationError('--columns takes names separated by commas, such as "age,sex,occupation"')
    return names


def constraints_of(
    never: Sequence[str],
    at_most: Sequence[str],
    determines: Sequence[Path],
    columns: Sequence[str],
    *,
    lines: Sequence[str] = (),
) -> list[Rule]:
    """Return the rules of the options: never, at most, determines, and `lines`, each a rule as a project file states it."""
    from sordino.synth import parse_condition, read_determines, read_rule
    from sordino.synth import rules as made

    declared: list[Rule] = [made.never(parse_condition(text, columns)) for text in never]
    for text in at_most:
        names = [n.strip() for n in text.split(",")]
        if len(names) != 2 or not all(names):
            raise DeclarationError(
                "--at-most takes two columns, LOWER,UPPER: the first is at most the second in each row"
            )
        declared.append(made.at_most(names[0], names[1]))
    return [
        *declared,
        *map(read_determines, determines),
        *(read_rule(line, columns, beside=Path()) for line in lines),
    ]
