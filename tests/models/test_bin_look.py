"""Counts of bins as a question: exact counts against plain ones, sensitivity by brute force; and where they say numbers lie."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from binding import BoundVectors
from planning import data_access_of
from protecting import protect
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.bin_counts import BinCounts, bins_of, values_of
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.moment_matrix import PARTS, FirstLook, MomentMatrix, compile_moments
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.models.bin_look import LEAST_BINS, MOST_BINS, choose_bins, find_spreads

DOMAIN = sd.Domain(
    {
        "a": sd.Integer(0, 4),
        "b": sd.Real(-1, 1, resolution="0.25"),
        "wide": sd.Real(0, 10**9, resolution="0.001"),
        "c": sd.Category(["p", "q", "r"]),
        "u": sd.Real(0, 3, resolution="0.5"),
    }
)


def question(numbers: str, categories: str = "", weight: str | None = None) -> MomentMatrix:
    def groups(names: str) -> tuple[Grouping, ...]:
        return tuple(Grouping(name, Name(name)) for name in names.split())

    return MomentMatrix(groups(numbers), groups(categories), 1, None if weight is None else groups(weight)[0])


def exact_of(table: pa.Table, query: Any, domain: sd.Domain) -> list[int]:
    access = data_access_of(protect(table, domain))
    tables = [access.run(access.write(scan.select(access.primitives()))) for scan in query.scans(domain)]
    (vector,) = query.exact_vectors(tables, domain)
    return [int(x) for x in vector]


@pytest.mark.deep
@pytest.mark.parametrize("bins", [0, 2, 3, 8, 32])
@pytest.mark.parametrize("places", [(), (0,)])
@pytest.mark.parametrize("weight", [None, "u"])
def test_counts_are_those_of_plain_bins(bins: int, places: tuple[int, ...], weight: str | None) -> None:
    draws = np.random.default_rng(1)
    a = draws.integers(0, 5, 400)
    b = draws.integers(-4, 5, 400) / 4
    wide = draws.integers(0, 10**12, 400) / 1000
    c = draws.choice(["p", "q", "r"], 400)
    u = draws.choice([0.0, 0.5, 3.0], 400)
    table = pa.table({"a": a, "b": b, "wide": wide, "c": c, "u": u})
    query = BinCounts(question("a b wide", "c", weight), bins, places)
    own = np.ones(400) if weight is None else u / 3
    expected: list[Any] = []
    if bins:
        # Values of each column from 0, and how many there are.
        for values, count in ((a, 5), (((b + 1) * 4).astype(int), 9)):
            size = min(bins, count)
            expected.append(np.bincount(values * size // count, weights=own, minlength=size))
        expected.append(np.bincount(np.minimum((wide * bins / 10**9).astype(int), bins - 1), own, bins))
    if places:
        expected.append([own[c == value].sum() for value in ("p", "q", "r")])
    plain = np.concatenate(expected or [[own.sum()]])
    assert np.array(exact_of(table, query, DOMAIN)) / PARTS == pytest.approx(plain, abs=0.001 * 400)


SMALL = sd.Domain(
    {"a": sd.Integer(0, 2), "b": sd.Integer(-1, 1), "c": sd.Category(["p", "q"]), "u": sd.Real(0, 3, resolution="0.01")}
)
KINDS = {"a": pa.int64(), "b": pa.int64(), "c": pa.string(), "u": pa.float64()}
CELLS: list[tuple[Any, ...]] = [
    *itertools.product([0, 1, 2], [-1, 1], ["p", "q"], [0.0, 1.25, 3.0, 9.0]),
    (None, 0, "p", 1.0),
    (0, 0, "p", None),
]


@pytest.mark.deep
@pytest.mark.parametrize("bins", [0, 2, 3])
@pytest.mark.parametrize("places", [(), (0,)])
@pytest.mark.parametrize("weight", [None, "u"])
def test_no_row_moves_the_counts_further(bins: int, places: tuple[int, ...], weight: str | None) -> None:
    query = BinCounts(question("a b", "c", weight), bins, places)
    tables = []
    for cells in [None, *CELLS]:
        one = {
            name: pa.array([] if cells is None else [cells[i]], kind) for i, (name, kind) in enumerate(KINDS.items())
        }
        tables.append(pa.table(one))
    bound: Any = BoundVectors(protect(tables[0], SMALL), tables[0], query, SMALL)
    vectors = [[int(x) for x in bound.of(table)[0]] for table in tables]
    # One of them is asked as users open it.
    assert vectors[5] == exact_of(tables[5], query, SMALL)
    moved = np.array(vectors, dtype=np.float64)
    relations: tuple[Relation, ...] = ("add_remove", "replace")
    for relation in relations:
        ((stated, share),) = query.parts(SMALL, Neighbors(relation, None))
        assert share == 1
        moves = moved[1:] - moved[0] if relation == "add_remove" else moved[1:, None] - moved[None, 1:]
        l1 = np.abs(moves).sum(axis=-1).max()
        assert l1 <= float(stated.l1)
        assert np.sqrt((moves**2).sum(axis=-1).max()) <= stated.l2
        assert np.abs(moves).max() <= float(stated.linf)
        assert np.count_nonzero(moves, axis=-1).max() <= stated.l0
        # Some row comes near it, so that no needless noise is drawn.
        assert l1 > 0.99 * float(stated.l1)


def test_a_unit_of_several_rows_moves_as_many_times_as_far() -> None:
    query = BinCounts(question("a b", "c"), 3, (0,))
    ((one, _),) = query.parts(DOMAIN, Neighbors("replace", None))
    domain = sd.Domain({**DOMAIN.columns, "id": sd.Identifier()})
    ((five, _),) = query.parts(domain, Neighbors("replace", PrivacyUnit("id", max_rows=5)))
    assert float(five.l1 / one.l1) == pytest.approx(5, rel=1e-4)
    assert five.l2 / one.l2 == pytest.approx(5, rel=1e-4)


def test_more_bins_than_there_are_is_refused() -> None:
    with pytest.raises(QuestionRefused, match="at most 1024 bins"):
        BinCounts(question("a"), 1025).parts(DOMAIN, Neighbors("add_remove", None))


@pytest.mark.parametrize("bins", [8, 16, 32])
@pytest.mark.parametrize(("center", "spread"), [(-0.7, 0.05), (0.0, 0.15), (0.4, 0.3)])
def test_spreads_are_those_of_the_rows(bins: int, center: float, spread: float) -> None:
    """Without noise to speak of: a mean within half a bin, a spread within a step of the shapes, half a bin at least."""
    draws = np.random.default_rng(2)
    cells = np.clip(draws.normal(center, spread, 20_000), -1, 1)
    domain = sd.Domain({"x": sd.Real(-1, 1, resolution="0.001")})
    compiled = compile_moments(question("x"), domain)
    (number,) = compiled.numbers
    values = np.round((cells + 1) * 1000).astype(int)
    counts = np.bincount(values * bins_of(number, bins) // values_of(number), minlength=bins).astype(float)
    means, spreads = find_spreads(counts, compiled, bins, 20_000, 50.0)
    assert abs(means[0] - cells.mean()) <= 1 / bins
    assert max(spread, 1 / bins) / 1.5 <= spreads[0] <= max(spread, 1 / bins) * 1.5


def test_few_values_have_a_bin_each() -> None:
    domain = sd.Domain({"x": sd.Integer(1, 5)})
    compiled = compile_moments(question("x"), domain)
    # Two thirds are 3, a quarter 4.
    means, _ = find_spreads(np.array([0.0, 200.0, 6500.0, 2600.0, 700.0]), compiled, 16, 10_000, 100.0)
    assert abs(means[0] - 0.2) < 0.15


def test_bins_are_as_many_as_rows_show() -> None:
    assert choose_bins(100, 100, 36) == LEAST_BINS
    assert choose_bins(10**6, 100, 36) == MOST_BINS
    assert choose_bins(2400, 100, 36) == 16


def test_a_hidden_column_may_lie_anywhere() -> None:
    compiled = compile_moments(question("x"), sd.Domain({"x": sd.Real(-1, 1, resolution="0.001")}))
    means, spreads = find_spreads(np.array([500.0] * 8), compiled, 8, 100, 10**6)
    assert abs(means[0]) < 0.05
    assert 0.2 < spreads[0] < 0.5


def test_a_small_look_asks_bins_and_a_larger_one_sums() -> None:
    """What decides is public: the loss, and a noisy count of the rows."""
    draws = np.random.default_rng(3)
    rows = pa.table({"b": np.round(draws.normal(0.5, 0.05, 20_000) * 4) / 4, "a": draws.integers(0, 5, 20_000)})
    table = protect(
        rows, sd.Domain({"a": sd.Integer(0, 4), "b": sd.Real(-1, 1, resolution="0.25")}), budget=sd.PureDP(10)
    )
    for epsilon, asked in (("0.1", True), ("5", False)):
        plan: Any = table.plan(question("a b"), epsilon=epsilon)
        queries = plan.procedure.prepared.queries()
        assert any(isinstance(query, BinCounts) for query in queries) is asked
        assert any(isinstance(query, FirstLook) for query in queries)
        before = table.spent
        table.ask(question("a b"), epsilon=epsilon)
        assert table.spent == sd.PureDP(Fraction(epsilon) + (before.epsilon if isinstance(before, sd.PureDP) else 0))
