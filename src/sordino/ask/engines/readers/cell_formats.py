"""The SQL of DuckDB that reads cells of text by their format (`core/cell_formats.py`)."""

from __future__ import annotations

from sordino.ask.engines.sql_text import quote_text
from sordino.core.cell_formats import AFFIX, ISO_FORMATS, SPACES, THOUSANDS, CellFormat


def matches(form: CellFormat, cell: str) -> str:
    """Return the SQL of whether a cell, the SQL of a text, is written in a format; the value may still not exist."""
    return f"regexp_full_match({cell}, {quote_text(form.pattern)})"


def read_cell(form: CellFormat, cell: str) -> str:
    """Return the SQL that reads a cell, the SQL of a text that matches the format; NULL where the value does not exist."""
    if form.kind == "text":
        return cell
    if form.kind == "boolean":
        words = ", ".join(quote_text(word.lower()) for word in form.true_words)
        return f"CASE WHEN {cell} IS NULL THEN NULL ELSE lower({cell}) IN ({words}) END"
    if form.date in ISO_FORMATS:
        return f"TRY_CAST({cell} AS {form.stored})"
    if form.kind in ("date", "moment"):
        # of several formats the first that a cell has
        ways = (f"try_strptime({cell}, {quote_text(date)})" for date in form.date.split("|"))
        return f"CAST(coalesce({', '.join(ways)}) AS {form.stored})"
    # 12- and (12) are -12
    plain = (
        f"CASE WHEN starts_with({cell}, '(') OR ends_with({cell}, '-') THEN '-' || trim({cell}, '()-') ELSE {cell} END"
    )
    if form.kind in ("percent", "amount") or form.thousands == " ":
        plain = f"regexp_replace({plain}, {quote_text(f'{AFFIX}|%|{SPACES}')}, '', 'g')"
    if form.thousands and form.thousands != " ":
        plain = f"regexp_replace({plain}, {quote_text(THOUSANDS[form.thousands])}, '', 'g')"
    if form.decimal == ",":
        plain = f"replace({plain}, ',', '.')"
    if form.kind == "integer":
        return f"TRY_CAST(split_part({plain}, '.', 1) AS BIGINT)"
    number = f"TRY_CAST({plain} AS DOUBLE)"
    # 60% is .6, as spreadsheets hold it; the division is by a power of ten, so it is the nearest double
    return f"{number} / 100" if form.kind == "percent" else number
