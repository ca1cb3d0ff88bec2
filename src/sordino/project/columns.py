"""One declared part at a time: a cap, a column or a public list of codes, out of its words in sordino.toml.

It knows neither where a part stands in the file nor any other part of it, and opens nothing but lists of codes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.domain import Boolean, Category, Column, Date, Identifier, Integer, Real
from sordino.errors import DeclarationError
from sordino.loss import ZCDP, ApproxDP, Loss, PureDP, to_fraction
from sordino.project.schema import (
    BooleanShape,
    CategoryShape,
    DateShape,
    IdentifierShape,
    IntegerShape,
    column_shape,
)

__all__ = ["LARGEST_FILE", "cap_from", "column_from"]

LARGEST_FILE = 16 * 2**20  # bytes of a project file or of a list of codes


def cap_from(raw: Mapping[str, Any]) -> Loss:
    """Return the loss that {epsilon}, {epsilon, delta} or {rho, delta} states; raises DeclarationError for others.

    >>> cap_from({"epsilon": "1/3"})
    PureDP(epsilon='1/3')
    """
    keys = set(raw)
    if keys not in ({"epsilon"}, {"epsilon", "delta"}, {"rho", "delta"}):
        why = "; delta is where rho is told as an epsilon" if keys == {"rho"} else ""
        rule = "must be {epsilon = ...}, {epsilon = ..., delta = ...} or {rho = ..., delta = ...}"
        raise DeclarationError(f"{rule}, not {{{', '.join(raw)}}}{why}")
    amounts: dict[str, Fraction] = {key: to_fraction(value, name=key) for key, value in raw.items()}
    for key, amount in amounts.items():
        if amount <= 0:
            raise DeclarationError("must be above 0: a budget of nothing answers nothing", key=key)
    if "rho" in keys:
        return ZCDP(amounts["rho"], amounts["delta"])
    return ApproxDP(amounts["epsilon"], amounts["delta"]) if "delta" in keys else PureDP(amounts["epsilon"])


def column_from(raw: Mapping[str, Any], *, beside: Path) -> Column:
    """Return the column that words of a right shape declare; `values_from` is relative to the directory `beside`.

    Raises DeclarationError, its message beginning with the key at fault where one key is.

    >>> column_from({"type": "integer", "lower": 0, "upper": 125}, beside=Path()).upper
    125
    """
    shape = column_shape(raw)
    given = {key: value for key, value in raw.items() if key != "type"}
    match shape:
        case CategoryShape():
            return _category(shape, beside)
        case IntegerShape():
            return Integer(**given)
        case DateShape():
            return Date(**given)
        case BooleanShape():
            return Boolean(**given)
        case IdentifierShape():
            return Identifier()
    return Real(**given)


def _category(shape: CategoryShape, beside: Path) -> Category:
    if (shape.values is None) == (shape.values_from is None):
        raise DeclarationError('needs values = [...] or values_from = "codes.csv", and only one of them')
    if shape.values_from is None and shape.values_header:
        raise DeclarationError("is about the file of values_from, which is not given", key="values_header")
    values = shape.values
    if shape.values_from is not None:
        values = _code_list(beside / shape.values_from, header=shape.values_header)
    missing = shape.missing if isinstance(shape.missing, str) else {"fill": shape.missing.fill}
    return Category(values, missing=missing, other=shape.other)


def _code_list(path: Path, *, header: bool) -> list[str]:
    """Return the first cells of the lines of a public CSV file, trimmed, empty ones left out."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DeclarationError(f"{path.name!r} is too large for a list of values", key="values_from")
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except OSError as error:
        raise DeclarationError(f"{path.name!r} cannot be read: {error.strerror}", key="values_from") from None
    except (UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{path.name!r} is not a CSV file in UTF-8", key="values_from") from None
    return [row[0].strip() for row in rows[1 if header else 0 :] if row and row[0].strip()]
