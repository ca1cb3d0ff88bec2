"""DuckDB and the evaluator in plain Python give the same exact parts, for random questions over rows full of odd cells."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from ask.queries import reference
from ask.queries.support import DOMAIN, arrow, duckdb_exact, question, rows
from sordino.ask.queries.aggregates.moments import MomentAggregate
from sordino.ask.queries.aggregates.sums import Average
from sordino.ask.queries.aggregation import Aggregation, compile_query


@functools.lru_cache(maxsize=4)
def parts_of(asked: Aggregation) -> Sequence[Sequence[Any]]:
    """Return the parts of a question, compiled once for all tables that it is asked of."""
    return compile_query(asked, DOMAIN).parts


def center(asked: Aggregation, table: list[dict[str, object]]) -> list[list[Fraction]]:
    """Return the oracle's parts, the sums of means centred as the package does: at a public middle."""
    parts, at = reference.exact(asked, table, DOMAIN), 0
    made: list[list[Fraction]] = []
    for aggregate, several in zip(asked.aggregates, parts_of(asked), strict=True):
        if isinstance(aggregate, Average):
            total, count = parts[at], parts[at + 1]
            weight = several[0].terms[1][0] * several[0].unit  # minus the middle
            made += [[t + weight * n for t, n in zip(total, count, strict=True)], count]
            at += 2
        elif isinstance(aggregate, MomentAggregate):
            made += spread(asked, aggregate, several, table)
        else:
            made.append(parts[at])
            at += 1
    return made


def spread(asked: Aggregation, aggregate: Any, several: Any, table: list[dict[str, object]]) -> list[list[Fraction]]:
    """Return the oracle's parts of a spread: sums and products of values less the public middles of the package."""
    of = [aggregate.of] if aggregate.other is None else [aggregate.of, aggregate.other]
    columns = len(of)
    centers = [-several[i].terms[1][0] * several[i].unit for i in range(columns)]
    powers = {3: [[1], [2], [0]], 4: [[1, 0], [0, 1], [1, 1], [0, 0]]}.get(
        len(several), [[1, 0], [0, 1], [2, 0], [0, 2], [1, 1], [0, 0]]
    )
    found = [reference.moments(asked, of, power, table, DOMAIN, centers) for power in powers]
    for i in range(columns, len(several) - 1):
        lift = several[i].terms[1][0] * several[i].unit
        found[i] = [x + lift * n for x, n in zip(found[i], found[-1], strict=True)]
    return found


@pytest.mark.each(8)
@pytest.mark.parametrize("seed", range(8))
def test_exact_parts_agree(seed: int) -> None:
    rng = random.Random(seed)
    table = rows(100, rng)
    for _ in range(8):
        asked = question(rng)
        assert duckdb_exact(asked, arrow(table)) == center(asked, table), asked.describe()


@pytest.mark.deep
def test_no_rows_at_all() -> None:
    rng = random.Random(99)
    for _ in range(10):
        asked = question(rng)
        assert all(x == 0 for part in duckdb_exact(asked, arrow([])) for x in part)


def test_the_answer_does_not_depend_on_the_order_of_rows() -> None:
    rng = random.Random(5)
    table, asked = rows(400, rng), question(rng)
    shuffled = rng.sample(table, len(table))
    assert duckdb_exact(asked, arrow(table)) == duckdb_exact(asked, arrow(shuffled))
