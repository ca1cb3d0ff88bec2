"""What a synthetic table can be made of: a table that adaptive algorithms run on; for anything else, the way that works."""

from __future__ import annotations

from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import Selection
from sordino.core.errors import DeclarationError, QuestionRefused


def require_table(source: object) -> None:
    """Raise DeclarationError or QuestionRefused for what is no table: a connection, a selection, rows.

    >>> require_table(Selection())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sordino.errors.QuestionRefused: a selection is a question without its table. Fit the table itself, and ask the model of ...
    """
    if callable(getattr(source, "adapt", None)) or callable(getattr(source, "fit_model", None)):
        return
    if isinstance(source, (Selection, Aggregation)):
        raise QuestionRefused(
            "a selection is a question without its table. Fit the table itself, and ask the model of some rows: "
            'model.sample(where="age > 30"); or fit rows that are joined: table.over(table.join("regions", on="region"))'
        )
    tables = getattr(getattr(source, "project", None), "tables", None)
    if callable(getattr(source, "table", None)):
        name = f'"{next(iter(tables))}"' if tables else ""
        raise DeclarationError(f"a model is of one table, and this is a connection: give connection.table({name})")
    raise DeclarationError(
        f"a model is of a table of connect(...) or protect(...), not of {type(source).__name__}: raw rows have no budget; "
        "declare them with sd.protect(rows, domain=..., ...)"
    )
