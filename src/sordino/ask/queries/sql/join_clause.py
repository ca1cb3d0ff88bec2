"""What a SELECT joins in SQL: equi-joins of public tables, EXISTS, and CROSS JOIN UNNEST. It knows no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.joins import Join, Unnest
from sordino.ask.queries.sql.text import Place, trees
from sordino.core.errors import QuestionRefused, UnknownName, nearest

_WRITE = "write JOIN regions ON adult.state = regions.state, with a table declared as [public.NAME]"
_WRITE_UNNEST = "write FROM posts CROSS JOIN UNNEST(tags) AS t(tag), and conditions in WHERE"


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A joined table in a scope: the name it goes by, and what its columns stand for, by their names in lower case."""

    table: str
    alias: str
    columns: Mapping[str, tuple[str, Expr]]
    same: tuple[str, ...] = ()  # the columns that equal the private column of the same name, in lower case

    def has(self, name: str) -> bool:
        """Return whether a column of this name is declared."""
        return name.lower() in self.columns

    def column(self, place: Place, item: Any) -> Expr:
        """Return what a name that is qualified by this table stands for."""
        if item.name.lower() not in self.columns:
            hint = nearest(item.name, [name for name, _ in self.columns.values()])
            raise UnknownName(f"{place.of(item)}column {item.name!r} is not declared in {self.table}; {hint}")
        return self.columns[item.name.lower()][1]

    def every(self) -> dict[str, tuple[str, Expr]]:
        """Return all columns, as a sub-query's * makes them."""
        return dict(self.columns)


def read_join(
    place: Place, item: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[Join, JoinedTable]:
    """Return one JOIN of a SELECT; `private` says what a name of the rows before it stands for, `owns` if they have one."""
    how = _how(place, item)
    on, key = _condition(place, item, joined, private, owns)
    same = tuple(k.lower() for o, k in zip(on, key, strict=True) if o.lower() == k.lower())
    return Join(joined.table, on, how, key), replace(joined, same=same)


def _how(place: Place, item: Any) -> Any:
    """Return "inner" or "left"; raises QuestionRefused for any other kind of join, by its name."""
    words = [str(item.args.get(n) or "").upper() for n in ("method", "side", "kind")]
    if not any(words) and not item.args.get("on") and not item.args.get("using"):
        at = place.word(",") or place.word("JOIN")
        raise QuestionRefused(f"{at}JOIN without a condition is not supported: {_WRITE}")
    if words in (["", "", ""], ["", "", "INNER"]):
        return "inner"
    if words in (["", "LEFT", ""], ["", "LEFT", "OUTER"]):
        return "left"
    said = " ".join(w for w in words if w)
    raise QuestionRefused(f"{place.word(said)}{said} JOIN is not supported, JOIN and LEFT JOIN are: {_WRITE}")


def _condition(
    place: Place, item: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the private columns and the public ones that a join compares, pair by pair."""
    kinds = trees()
    at = place.word("ON") or place.word("USING") or place.word("JOIN")
    using, on = item.args.get("using"), item.args.get("on")
    if using:
        columns = [kinds.column(u.name) for u in using]
        pairs = [(private(column), joined.column(place, column)) for column in columns]
    else:
        parts = [part.unnest() for part in on.flatten()] if isinstance(on, kinds.And) else [on]
        pairs = [_sides(place, at, part, joined, private, owns) for part in parts]
    for ours, _ in pairs:
        if not isinstance(ours.node, Name):
            raise QuestionRefused(f"{at}JOIN compares a declared column of the private table, not one that is computed")
    keys = [column.node for _, column in pairs]
    if not all(isinstance(key, Name) for key in keys):
        raise QuestionRefused(f"{at}JOIN compares declared columns of {joined.table}, not computed ones")
    return (
        tuple(ours.node.name for ours, _ in pairs if isinstance(ours.node, Name)),
        tuple(key.name.removeprefix(f"{joined.table}.") for key in keys if isinstance(key, Name)),
    )


def _sides(
    place: Place, at: str, part: Any, joined: JoinedTable, private: Callable[[Any], Expr], owns: Callable[[str], bool]
) -> tuple[Expr, Expr]:
    """Return the private column and the public one that an equality in ON compares."""
    kinds = trees()
    sides = [part.this, part.expression] if isinstance(part, kinds.EQ) else []
    if len(sides) != 2 or not all(isinstance(s, kinds.Column) for s in sides):
        raise QuestionRefused(f"{at}JOIN only compares columns with a key; write filters in WHERE: {_WRITE}")
    theirs = [s for s in sides if _is_of(s, joined, owns)]
    if len(theirs) != 1:
        raise QuestionRefused(f"{at}JOIN compares a column of the table with the key of {joined.table}: {_WRITE}")
    ours = sides[1] if sides[0] is theirs[0] else sides[0]
    return private(ours), joined.column(place, theirs[0])


def _is_of(item: Any, joined: JoinedTable, owns: Callable[[str], bool]) -> bool:
    if item.table:
        return bool(item.table.lower() == joined.alias)
    return joined.has(item.name) and not owns(item.name)


def read_unnest(place: Place, item: Any, meaning: Callable[[Any], Expr]) -> tuple[Unnest, JoinedTable, str]:
    """Return the step, what its item goes by, and the list's name in the scope, in lower case."""
    kinds, source = trees(), item.this
    at = place.word("UNNEST")
    words = [str(item.args.get(n) or "").upper() for n in ("method", "side", "kind")]
    condition = item.args.get("using") or item.args.get("on")
    if words not in (["", "", ""], ["", "", "CROSS"]) or condition:
        raise QuestionRefused(
            f"{at}UNNEST is joined without a condition, and drops rows without items: {_WRITE_UNNEST}"
        )
    if source.args.get("offset"):
        raise QuestionRefused(f"{at}UNNEST with an offset or ordinality is not supported: {_WRITE_UNNEST}")
    if len(source.expressions) != 1 or not isinstance(source.expressions[0], kinds.Column):
        raise QuestionRefused(f"{at}UNNEST takes one column of lists, nothing else: {_WRITE_UNNEST}")
    column = source.expressions[0]
    found = meaning(column).node
    names = source.alias_column_names
    alias = source.alias or (names[0] if names else "")
    if not isinstance(found, Name) or not alias or len(names) > 1:
        raise QuestionRefused(
            f"{at}UNNEST names its items, and takes a column that is declared as a list: {_WRITE_UNNEST}"
        )
    name = names[0] if names else alias
    columns = {name.lower(): (name, Expr(found))}
    return Unnest(found.name), JoinedTable(alias, alias.lower(), columns), column.name.lower()
