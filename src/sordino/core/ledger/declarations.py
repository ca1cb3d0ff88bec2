"""What a ledger remembers of the declarations its charges were made under, and which changes it accepts.

Declarations are plain data; of a recorded one, only the two words are read that fix what a charge protects: the neighbor
relation and the privacy unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.core.domain import Domain
from sordino.core.errors import DeclarationChanged, DeclarationError, nearest
from sordino.core.loss import Loss
from sordino.core.neighbors import Neighbors
from sordino.core.source import Source

_AMEND = 'to accept it, with a reason that stays on record: sordino ledger amend --reason "..."'

_PROMISED = "unit (promised, not named by a column)"

_ANEW = "name a new ledger: what was spent was stated for the old neighbors and unit, so these cannot be amended"


def declaration_of(domain: Domain, neighbors: Neighbors, source: object) -> dict[str, Any]:
    """Return what a ledger holds of a declaration: columns, neighbors, unit, and how CSV cells are written."""
    csv = source.csv.to_dict() if isinstance(source, Source) and source.csv is not None else None
    return {**domain.to_dict(), **neighbors.to_dict(), "csv": csv}


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any], *, under: str = "") -> dict[str, tuple[Any, Any]]:
    """Return what differs, by dotted path: the old value and the new, None where there is none.

    >>> list_changes({"columns": {"age": {"upper": 99}}}, {"columns": {"age": {"upper": 125}}})
    {'columns.age.upper': (99, 125)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found |= list_changes(before, after, under=f"{under}{key}.")
        elif before != after or (key in old) != (key in new) or type(before) is not type(after):
            found[f"{under}{key}"] = (before, after)
    return found


def refuse_changed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise DeclarationChanged where the declaration of a table is not the one that the ledger holds."""
    paths = list(list_changes(old, new))
    if paths:
        more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
        what = f"table {name!r} is declared differently from its ledger: {', '.join(paths[:8])}{more} changed"
        same = _unit_of(name, old) == _unit_of(name, new)  # else an amendment would be refused
        raise DeclarationChanged(f"{what}; put it back, or {_AMEND if same else _ANEW}")


def refuse_changed_share(spender: str, old: Loss, new: Loss) -> None:
    """Raise DeclarationChanged where the share of a spender is not the one that the ledger holds."""
    if old.amounts() != new.amounts():
        what = f"the ledger holds a share of {old.describe()} for {spender!r}, not {new.describe()}"
        raise DeclarationChanged(f"{what}; put it back, or {_AMEND}")


def accept_new(name: str, declaration: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise DeclarationError unless a new table counts the same unit, by the same relation, as those declared before."""
    own = _people_of(name, declaration)
    for other, theirs in known.items():
        if _people_of(other, theirs) != own:
            rule = "one budget protects one kind of unit under one neighbor relation"
            words = f"table {name!r} ({_words(own)}) and table {other!r} ({_words(_people_of(other, theirs))})"
            raise DeclarationError(f"{words} cannot share a ledger: {rule}; {_instead(own, _people_of(other, theirs))}")


def accept_amended(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise DeclarationError where an amendment would change the neighbor relation or the kind of privacy unit."""
    if _unit_of(name, old) != _unit_of(name, new):
        rule = "the neighbor relation and the privacy unit cannot be amended: what was spent was stated for them"
        raise DeclarationError(f"table {name!r}: {rule}; keep them, or start a new ledger at another path")


def table_among(name: str, known: Mapping[str, Any]) -> None:
    """Raise DeclarationError unless a table of this name is declared."""
    if name not in known:
        raise DeclarationError(
            f"no table {name!r} is declared in this ledger, so none can be amended; {nearest(name, known)}"
        )


def _unit_of(name: str, declaration: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Return the relation, the unit's column, None for a row, and whose it is; how many rows count may be amended."""
    relation, unit = declaration.get("neighbors"), declaration.get("privacy_unit")
    if relation not in ("add_remove", "replace"):
        raise DeclarationError(f'table {name!r} must declare neighbors = "add_remove" or "replace"')
    if isinstance(unit, Mapping) and isinstance(unit.get("column"), str):
        return relation, str(unit["column"]), unit.get("of")
    if isinstance(unit, Mapping) and "max_rows" in unit and "column" not in unit:
        return relation, _PROMISED, None
    if unit != "row":
        raise DeclarationError(f'table {name!r} must declare privacy_unit = "row" or a column with max_rows')
    return relation, None, None


def _people_of(name: str, declaration: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the relation and whose unit it is: what `of` says, else the unit's column; None for a row."""
    relation, column, of = _unit_of(name, declaration)
    return relation, of or column


def _instead(own: tuple[str, str | None], other: tuple[str, str | None]) -> str:
    alone = "give the new table a ledger of its own"
    if own[0] != other[0] or None in (own[1], other[1]):
        return alone
    return f'{alone}, or, where both hold the same people, declare that: PrivacyUnit(..., of="person") in each'


def _words(protected: tuple[str, str | None]) -> str:
    relation, column = protected
    return f"{'one row' if column is None else f'all rows of one {column}'}, {relation}"


def amend_tables(
    tables: dict[str, Any], renamed: Mapping[str, str], changed: Mapping[str, Any], payload: dict[str, Any]
) -> dict[str, Any]:
    """Return the declarations under other names and words, and state in the entry's payload what differs."""
    for old, new in renamed.items():
        table_among(old, tables)
        if new in tables:
            raise DeclarationError(f"table {old!r} cannot be renamed {new!r}: that name is declared; use another")
        tables[new] = tables.pop(old)
    if renamed:
        payload["renamed"] = dict(renamed)
    differs = {}
    for table, words in changed.items():
        table_among(table, tables)
        accept_amended(table, tables[table], words)
        if found := list_changes(tables[table], words):
            differs[table] = found
    if differs:
        payload["declarations"] = {table: changed[table] for table in differs}
        payload["changed"] = differs
        tables |= payload["declarations"]
    return tables
