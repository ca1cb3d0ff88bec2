"""DuckDB and the evaluator in plain Python give the same exact parts, for random questions over rows full of odd cells."""

from __future__ import annotations

import random

import pytest

from queries import reference
from queries.support import DOMAIN, arrow, duckdb_exact, question, rows
from sordino.queries.aggregation import Aggregation, resolve
from sordino.queries.sums import Mean


def centred(asked: Aggregation, table: list[dict[str, object]]) -> list[list[object]]:
    """Return the oracle's parts, the sums of means centred as the package does: at a public middle."""
    parts, made, at = reference.exact(asked, table, DOMAIN), [], 0
    for aggregate, several in zip(asked.aggregates, resolve(asked, DOMAIN).parts, strict=True):
        if isinstance(aggregate, Mean):
            total, count = parts[at], parts[at + 1]
            weight = several[0].terms[1][0] * several[0].unit  # minus the middle
            made += [[t + weight * n for t, n in zip(total, count, strict=True)], count]
            at += 2
        else:
            made.append(parts[at])
            at += 1
    return made


@pytest.mark.parametrize("seed", range(8))
def test_exact_parts_agree(seed: int) -> None:
    rng = random.Random(seed)
    table = rows(150, rng)
    for _ in range(10):
        asked = question(rng)
        assert duckdb_exact(asked, arrow(table)) == centred(asked, table), asked.describe()


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
