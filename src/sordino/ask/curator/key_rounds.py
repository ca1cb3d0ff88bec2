"""Private keys by weights: the rounds, each a scan of the rows whose keys do not show yet. The engine adds the weights up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sordino.ask.curator.data_access import DataAccess
from sordino.ask.curator.noise_answer import key_places
from sordino.ask.queries.aggregation import CompiledQuery
from sordino.ask.queries.expressions.keys import MOST_LISTED, Keys, list_shown
from sordino.ask.queries.expressions.sql_trees import Build, sql
from sordino.ask.queries.query import SqlAggregate
from sordino.core.mechanisms.threshold import sort_keys
from sordino.core.mechanisms.weighted_selection import WeightedRound, WeightedSelection
from sordino.core.noise.rng import Rng
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

    from sordino.ask.engines.engine import Statement


def round_select(on: Primitives, compiled: CompiledQuery, one: WeightedRound, shown: Keys | None) -> exp.Select:
    """Return the SQL tree of a round: each key with the weights of its units, of the rows whose keys are not `shown`.

    Which rows of a unit count follows from its own rows and from the keys shown, which are released.
    """
    weight = SqlAggregate("weight", None, weights=(one.starts[1:], one.weights))
    condition = compiled.condition
    if shown is not None:
        condition = _without(shown, condition)
    return replace(compiled, terms=(weight,), totals=True, condition=condition).select(on)


def select_in_rounds(
    first: Statement,
    rows: DataAccess,
    rng: Rng,
    *,
    compiled: CompiledQuery,
    selection: WeightedSelection,
) -> list[tuple[Any, ...]]:
    """Return the keys that show, in their own order; `first` is the statement of the first round."""
    found: list[tuple[Any, ...]] = []
    for i, one in enumerate(selection.rounds):
        shown = list_shown(compiled.keys, found) if found else None
        table = rows.run(rows.write(round_select(rows.primitives(), compiled, one, shown)) if i else first)
        exact_weights = table.column("t0").to_pylist()
        exact = {key: int(exact_weights[place] or 0) for key, place in key_places(table, compiled).items()}
        found = sort_keys({*found, *one.release(exact, rng)})[:MOST_LISTED]
    return found


def _without(shown: Keys, condition: Build | None) -> Build:
    def build(on: Primitives) -> exp.Expression:
        hidden = _is_not_listed(on, shown)
        return hidden if condition is None else sql().and_(condition(on), hidden)

    return build


def _is_not_listed(on: Primitives, keys: Keys) -> exp.Expression:
    kinds = sql()
    cell = keys.build(on)
    place = cell if keys.code is None else keys.code(on, cell)
    made: exp.Expression = kinds.Is(this=kinds.paren(place), expression=kinds.Null())
    return made
