"""FROM posts, UNNEST(tags) AS t(tag): which list is read item by item, and by which name an item goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino.errors import QuestionRefused
from sordino.queries.expressions.expr import Expr
from sordino.queries.expressions.nodes import Name
from sordino.queries.sql.join_clause import JoinedTable
from sordino.queries.sql.text import Place, trees
from sordino.queries.unnest import Unnest

__all__ = ["read_unnest"]

_WRITE = "write FROM posts CROSS JOIN UNNEST(tags) AS t(tag), and conditions in WHERE"


def read_unnest(place: Place, item: Any, meaning: Callable[[Any], Expr]) -> tuple[Unnest, JoinedTable, str]:
    """Return the step, what its item goes by, and the list's name in the scope, in lower case."""
    kinds, source = trees(), item.this
    at = place.word("UNNEST")
    words = [str(item.args.get(n) or "").upper() for n in ("method", "side", "kind")]
    condition = item.args.get("using") or item.args.get("on")
    if words not in (["", "", ""], ["", "", "CROSS"]) or condition:
        raise QuestionRefused(f"{at}UNNEST is joined without a condition, and drops rows without items: {_WRITE}")
    if source.args.get("offset"):
        raise QuestionRefused(f"{at}UNNEST with an offset or ordinality is not supported: {_WRITE}")
    if len(source.expressions) != 1 or not isinstance(source.expressions[0], kinds.Column):
        raise QuestionRefused(f"{at}UNNEST takes one column of lists, nothing else: {_WRITE}")
    column = source.expressions[0]
    found = meaning(column).node
    names = source.alias_column_names
    alias = source.alias or (names[0] if names else "")
    if not isinstance(found, Name) or not alias or len(names) > 1:
        raise QuestionRefused(f"{at}UNNEST names its items, and takes a column that is declared as a list: {_WRITE}")
    name = names[0] if names else alias
    columns = {name.lower(): (name, Expr(found))}
    return Unnest(found.name), JoinedTable(alias, alias.lower(), columns), column.name.lower()
