"""A declaration by form: its fields become the text of a project file, checked as such. It opens no source and sees no data."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from sordino.errors import DeclarationError
from sordino.loss import to_fraction
from sordino.project.load import check_file
from sordino.project.positions import quote_text, write_key

__all__ = ["COLUMNS", "TYPES", "write_declaration"]

COLUMNS = 8
TYPES: Mapping[str, str] = {  # what each type takes beside its name
    "integer": "bounds",
    "real": "bounds",
    "date": "bounds",
    "category": "values",
    "boolean": "",
    "identifier": "",
}
_MISSING = ("drop", "keep")


def write_declaration(form: Mapping[str, str]) -> str:
    """Return the project file that a form states; raises DeclarationError with every problem that `sordino check` finds.

    Nothing is filled in: what the form leaves out is a problem. Bounds and values are what a person knows without the data.
    """
    lines = [
        f"[budgets.{write_key(_text(form, 'budget'))}]",
        f"cap = {{epsilon = {quote_text(str(to_fraction(_text(form, 'epsilon'), name='epsilon')))}}}",
        f"ledger = {quote_text(_text(form, 'budget') + '.ledger')}",
        *([f"reason = {quote_text(form['reason'])}"] if form.get("reason") else []),
        "",
        f"[tables.{write_key(_text(form, 'name'))}]",
        f"source = {quote_text(_text(form, 'source'))}",
        f"budget = {quote_text(_text(form, 'budget'))}",
        f"neighbors = {quote_text(_text(form, 'neighbors'))}",
        f"privacy_unit = {_unit(form)}",
        "",
        f"[tables.{write_key(form['name'])}.columns]",
    ]
    lines += [_column(form, place) for place in range(1, COLUMNS + 1) if form.get(f"name:{place}")]
    text = "\n".join([*lines, ""])
    _check(text)
    return text


def _text(form: Mapping[str, str], name: str) -> str:
    if not form.get(name, "").strip():
        raise DeclarationError("is missing; state it", key=name)
    return form[name].strip()


def _unit(form: Mapping[str, str]) -> str:
    """Return the privacy unit: a row, or the rows of one value of a column, at most so many of them."""
    if not form.get("unit"):
        return '"row"'
    most = _text(form, "max_rows")
    if not most.isascii() or not most.isdigit():
        raise DeclarationError("is a whole number: so many rows of one person count at most", key="max_rows")
    return f"{{column = {quote_text(form['unit'])}, max_rows = {int(most)}}}"


def _column(form: Mapping[str, str], place: int) -> str:
    name, kind = form[f"name:{place}"], form.get(f"type:{place}", "")
    if kind not in TYPES:
        raise DeclarationError(f"is one of {', '.join(TYPES)}", key=f"the type of {name}")
    parts = [f"type = {quote_text(kind)}"]
    if TYPES[kind] == "bounds":
        parts += [f"{end} = {_bound(form.get(f'{end}:{place}', ''), kind, name, end)}" for end in ("lower", "upper")]
    if TYPES[kind] == "values":
        values = [line.strip() for line in form.get(f"values:{place}", "").splitlines() if line.strip()]
        parts.append(f"values = [{', '.join(quote_text(value) for value in values)}]")
    missing = form.get(f"missing:{place}", "")
    if missing and missing not in _MISSING:
        raise DeclarationError(f"is one of {', '.join(_MISSING)}", key=f"missing of {name}")
    parts += [f"missing = {quote_text(missing)}"] if missing and kind != "identifier" else []
    return f"{write_key(name)} = {{{', '.join(parts)}}}"


def _bound(text: str, kind: str, name: str, end: str) -> str:
    """Return a bound as TOML writes it: a day as text, a number as it was stated."""
    if not text.strip():
        raise DeclarationError(
            "is missing; state what is publicly known, never what the data holds", key=f"{name}, {end}"
        )
    if kind == "date":
        return quote_text(text.strip())
    number = to_fraction(text, name=f"{name}, {end}")
    if number.denominator == 1:
        return str(number.numerator)
    if not text.strip().replace(".", "", 1).removeprefix("-").isdigit():
        raise DeclarationError("is a number, such as 12.5", key=f"{name}, {end}")
    return text.strip()


def _check(text: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sordino.toml"
        path.write_text(text, encoding="utf-8")
        problems = check_file(path)
    if problems:
        raise DeclarationError("; ".join(f"{one.key}: {one.message}" if one.key else one.message for one in problems))
