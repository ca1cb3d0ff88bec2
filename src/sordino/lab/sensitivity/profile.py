"""A table of sensitivities over queries, distances, scopes and relations, for plots. It may not know how to draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.lab.sensitivity.empirical import Change, global_sensitivity, local_sensitivity
from sordino.lab.sensitivity.statistics import TableFunction, name_query
from sordino.lab.sensitivity.universe import columns_of_table, exact_universe_from

if TYPE_CHECKING:
    import pyarrow


def sensitivity_profile(
    universe: Any,
    table: Any,
    *,
    queries: Iterable[str | TableFunction],
    distances: Iterable[int] = range(1, 5),
    moves: Literal["within", "exactly"] = "within",
    ddof: int = 0,
) -> pyarrow.Table:
    """Return the sensitivity of each query at each distance, global and local, under add_remove and replace.

    The columns are query, distance, scope ("global", "local"), relation ("add_remove", "replace"), value (in the unit of
    the values, squared for var) and exact (False: a bound). Global is over all tables as large as `table`. With
    moves="within" a distance k is at most k moves, so that no line falls; "exactly" is the published reading of
    add_remove: exactly k records in either direction (replace stays within k). The universe and the size are public; the
    local rows depend on the table and are not. Where `universe` is a mapping or a table of columns, `table` has the same
    columns, and a first column, named column, says which each row is about. Raises DeclarationError for bad input, and
    for a distance at which a neighbor has no answer.

    >>> sensitivity_profile([1, 2, 3, 10, 11], [1, 3, 10], queries=["median"], distances=[1]).column("value").to_pylist()
    [4.5, 8.0, 3.5, 7.0]
    """
    if moves not in ("within", "exactly"):
        raise DeclarationError(f'moves must be "within" or "exactly", not {moves!r}')
    listed = _list(queries, argument="queries")
    by_name = {name_query(query): query for query in listed}
    if len(by_name) < len(set(listed)):
        raise DeclarationError("queries must have names of their own: define each function with def")
    steps = _list(distances, argument="distances")
    wholes = columns_of_table(universe)
    parts = columns_of_table(table)
    if set(wholes) != set(parts):
        names = ", ".join(map(str, wholes)) if None not in wholes else "one flat sequence"
        raise DeclarationError(f"table must have the columns of universe: {names}")
    each = {name: _profile(values, parts[name], by_name, steps, moves, ddof) for name, values in wholes.items()}
    return join_columns(each)


def join_columns(profiles: Mapping[str | None, pyarrow.Table | None]) -> pyarrow.Table:
    """Return the profiles of several columns as one, its first column their names; that of a single, nameless one as it is."""
    import pyarrow as pa

    present = {name: profile for name, profile in profiles.items() if profile is not None}
    if None in present:
        return present[None]
    named = [
        table.add_column(0, "column", pa.array([name] * len(table), pa.string())) for name, table in present.items()
    ]
    return pa.concat_tables(named)


def _profile(
    universe: Any,
    table: Any,
    queries: Mapping[str, str | TableFunction],
    distances: Sequence[int],
    moves: str,
    ddof: int,
) -> pyarrow.Table:
    """Return the profile of one column."""
    exact_universe = exact_universe_from(universe)
    values: Any = (
        exact_universe.floats if exact_universe.is_plain else exact_universe.values(np.arange(exact_universe.size))
    )
    inside = [values[place] for place in exact_universe.places(table)]

    def change(query: str, scope: str, relation: str, distance: int) -> Change:
        how: dict[str, Any] = {"neighbors": relation, "within": distance, "ddof": ddof}
        if moves == "exactly" and relation == "add_remove":
            how |= {"within": None, "exactly": distance, "direction": "either"}
        if scope == "global":
            return global_sensitivity(queries[query], values, size=len(inside), **how)
        return local_sensitivity(queries[query], values, inside, **how)

    return tabulate(product(queries, ("global", "local"), ("add_remove", "replace"), distances), change)


def tabulate(
    cells: Iterable[tuple[str, str, str, int]], change: Callable[[str, str, str, int], Change | None]
) -> pyarrow.Table:
    """Return a row for each (query, scope, relation, distance): what `change` returns for them, null for None."""
    import pyarrow as pa

    rows = [(cell, change(*cell)) for cell in cells]
    columns: dict[str, tuple[Any, list[Any]]] = {
        "query": (pa.string(), [query for (query, _, _, _), _ in rows]),
        "distance": (pa.int64(), [distance for (_, _, _, distance), _ in rows]),
        "scope": (pa.string(), [scope for (_, scope, _, _), _ in rows]),
        "relation": (pa.string(), [relation for (_, _, relation, _), _ in rows]),
        "value": (pa.float64(), [None if result is None else float(result.value) for _, result in rows]),
        "exact": (pa.bool_(), [None if result is None else result.exact for _, result in rows]),
    }
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


def _list(values: Iterable[Any], *, argument: str) -> list[Any]:
    if isinstance(values, str | bytes):
        raise DeclarationError(f"{argument} must be a sequence, such as [{str(values)!r}], not text")
    try:
        listed = list(values)
    except TypeError:
        raise DeclarationError(f"{argument} must be a sequence, not {type(values).__name__}") from None
    if not listed:
        raise DeclarationError(f"{argument} must not be empty")
    return listed
