"""JOIN: which public tables a SELECT is joined with, by which columns, and what the names of theirs stand for.

It knows declared names only; whether the column compared is the declared key, the curator says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sordino.errors import QuestionRefused, UnknownName, nearest
from sordino.queries.expressions.expr import Expr, col
from sordino.queries.expressions.nodes import Name
from sordino.queries.joins import Join, qualify
from sordino.queries.sql.text import Place, trees

__all__ = ["JoinedTable", "joins_of"]

_WRITE = "write JOIN regions ON adult.state = regions.state, with a table declared as [public.NAME]"


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A joined table in a scope: the name it goes by, and its columns by their names in lower case."""

    table: str
    alias: str
    columns: Mapping[str, str]
    same: tuple[str, ...] = ()  # the columns that equal the private column of the same name, in lower case

    def has(self, name: str) -> bool:
        """Return whether a column of this name is declared."""
        return name.lower() in self.columns

    def column(self, place: Place, item: Any) -> Expr:
        """Return what a name that is qualified by this table stands for."""
        if item.name.lower() not in self.columns:
            hint = nearest(item.name, self.columns.values())
            raise UnknownName(f"{place.of(item)}column {item.name!r} is not declared in {self.table}; {hint}")
        return col(qualify(self.table, self.columns[item.name.lower()]))

    def every(self) -> dict[str, tuple[str, Expr]]:
        """Return all declared columns, as a sub-query's * makes them."""
        return {low: (name, col(qualify(self.table, name))) for low, name in self.columns.items()}


def joins_of(
    place: Place,
    select: Any,
    private: Callable[[Any], Expr],
    public: Mapping[str, tuple[str, ...]],
    owns: Callable[[str], bool],
) -> list[tuple[Join, JoinedTable]]:
    """Return the joins of a SELECT; `private` says what a name of the private side stands for, `owns` if it has one."""
    found: list[tuple[Join, JoinedTable]] = []
    for item in select.args.get("joins") or ():
        how = _how(place, item)
        source = item.this
        if not isinstance(source, trees().Table) or not isinstance(source.this, trees().Identifier):
            raise QuestionRefused(f"{place.word('JOIN')}JOIN takes the name of a public table: {_WRITE}")
        for name, value in source.args.items():
            if value and name not in ("this", "alias", "db", "catalog"):
                word = name.strip("_").upper().replace("SAMPLE", "TABLESAMPLE")
                raise QuestionRefused(f"{place.word(word)}{word} of a joined table is not supported: join it whole")
        table = next((t for t in public if t.lower() == source.name.lower()), None)
        if table is None:
            raise UnknownName(
                f"{place.of(source)}JOIN with {source.name!r} is not supported: it is not declared as [public.NAME], and two "
                "private tables, or one and itself, are not joined, since one person's rows could meet many others'; "
                f"{nearest(source.name, public)}"
            )
        columns = {c.lower(): c for c in public[table]}
        alias = source.alias_or_name.lower()
        if alias in {t.alias for _, t in found}:
            raise QuestionRefused(f"{place.of(source)}{source.alias_or_name!r} is joined twice: join it once")
        joined = JoinedTable(table, alias, columns)
        on, key = _condition(place, item, joined, private, owns)
        same = tuple(k.lower() for o, k in zip(on, key, strict=True) if o.lower() == k.lower())
        made = JoinedTable(table, alias, columns, same)
        found.append((Join(table, on, how, key), made))
    return found


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
        if not isinstance(ours.node, Name) or "." in ours.node.name:
            raise QuestionRefused(
                f"{at}JOIN compares a declared column of the private table, not one that is computed or joined"
            )
    keys = [column.node for _, column in pairs]
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
        raise QuestionRefused(f"{at}JOIN compares columns with a key, nothing else, and filters in WHERE: {_WRITE}")
    theirs = [s for s in sides if _is_of(s, joined, owns)]
    if len(theirs) != 1:
        raise QuestionRefused(f"{at}JOIN compares a column of the table with the key of {joined.table}: {_WRITE}")
    ours = sides[1] if sides[0] is theirs[0] else sides[0]
    return private(ours), joined.column(place, theirs[0])


def _is_of(item: Any, joined: JoinedTable, owns: Callable[[str], bool]) -> bool:
    if item.table:
        return bool(item.table.lower() == joined.alias)
    return joined.has(item.name) and not owns(item.name)
