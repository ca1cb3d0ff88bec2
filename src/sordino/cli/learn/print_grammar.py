"""`sordino sql`: the SQL that is read, as a page. It knows no table."""

from __future__ import annotations

from sordino.cli.shared.terminal import say


def sql() -> None:
    """Print the SQL that Sordino reads, as a Markdown page: every form with an example."""
    from sordino.ask.queries.sql.grammar import page

    say(page().rstrip("\n"))
