"""Triples of columns whose dependence no pair shows: found by a noisy score, measured, and drawn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.ask.queries.adaptive.marginal import PARTS, ContingencyTable, Distances, MarginalQuery
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.synth.encoded_column import EncodedColumn, encode_columns
from sordino.synth.evaluation.distances import table_distance
from synth.support import Source

Keys = dict[str, Any]


def _xor(rows: int, columns: int = 7, values: int = 2) -> tuple[sd.Domain, Keys]:
    rng = np.random.default_rng(8)
    names = "abcdefghijklmnopqrstuvwxyz"[:columns]
    keys: Keys = {c: rng.integers(0, values, rows) for c in names}
    keys["c"] = (keys["a"] + keys["b"]) % values
    return sd.Domain({c: sd.Category(list(range(values))) for c in names}), keys


def _fit(domain: sd.Domain, keys: Keys, seed: int = 1, **loss: Any) -> tuple[Any, Any]:
    data = Source(domain, keys, sd.Rng.seeded(seed))
    model = synth.fit(data, **(loss or {"epsilon": 1, "delta": "1e-9"}), rng=sd.Rng.seeded(seed))
    return model, data.sessions[0]


def _distance(model: Any, keys: Keys, columns: tuple[int, ...], values: int) -> float:
    names = list(keys)
    drawn = model.draw_keys(len(keys["a"]), sd.Rng.seeded(3))
    sizes = [values + 1] * len(columns)
    return table_distance([keys[names[c]] for c in columns], [drawn[c] for c in columns], sizes)


@pytest.mark.each(12)
@pytest.mark.parametrize(("columns", "values", "loss"), [
    (7, 2, {"epsilon": 1, "delta": "1e-9"}), (4, 3, {"rho": "0.02"}), (7, 2, {"epsilon": 8}),
    (7, 2, {"epsilon": 10, "delta": "1e-9"}), (4, 3, {"rho": 10}),
])  # fmt: skip
def test_a_triple_without_pairs_is_found_and_drawn(columns: int, values: int, loss: dict[str, Any]) -> None:
    """Its distance was .47 at any loss; below .05 is asked of 20,000 rows at epsilon 1, and .02 is met.

    Rows that were moved by pairs alone left .03 where noise is small: they are held to the triple.
    """
    domain, keys = _xor(20_000, columns, values)
    model, session = _fit(domain, keys, **loss)
    assert _distance(model, keys, (0, 1, 2), values) < (
        0.02 if loss.get("epsilon") == 1 or "0.02" in loss.values() else 0.002
    )
    measured = [t for q, _ in session.accesses if isinstance(q, MarginalQuery) for t in q.tables]
    assert any({a.column for a in t.axes} == {"a", "b", "c"} and a_codes(t) for t in measured)
    assert "triples" in model.facts["tier"]
    others = [t for t in itertools.combinations(range(columns), 3) if t != (0, 1, 2)]
    assert np.mean([_distance(model, keys, t, values) for t in others[:4]]) < 0.03


def a_codes(table: Any) -> bool:
    """Return whether a table is over all codes, not a random cut in two."""
    return all(a.codes is None or len(set(a.codes)) > 1 for a in table.axes)


@pytest.mark.parametrize("fits", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_no_triple_is_measured_where_none_depends(fits: int) -> None:
    rng = np.random.default_rng(2)
    keys = {c: rng.integers(0, 3, 20_000) for c in "abcdef"}
    domain = sd.Domain({c: sd.Category([0, 1, 2]) for c in keys})
    for seed in range(fits):
        model, _ = _fit(domain, keys, seed)
        assert "triples" not in model.facts["tier"]


@pytest.mark.deep
def test_a_triple_is_no_more_than_its_pairs_where_they_explain_it() -> None:
    """A chain a, b, c: the triple lies far from independence, and no farther than its pairs."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 4, 20_000)
    b = np.where(rng.random(20_000) < 0.8, a, rng.integers(0, 4, 20_000))
    c = np.where(rng.random(20_000) < 0.8, b, rng.integers(0, 4, 20_000))
    keys = {"a": a, "b": b, "c": c, "d": rng.integers(0, 4, 20_000)}
    model, _ = _fit(sd.Domain({n: sd.Category([0, 1, 2, 3]) for n in keys}), keys)
    assert model.facts["tier"] == "a clique tree of pairs"


@pytest.mark.deep
def test_scores_of_triples_are_few_and_within_the_loss() -> None:
    """Forty columns have 9,880 triples: no more than 60 are scored, for a two-hundredth of the loss."""
    domain, keys = _xor(4_000, 26)
    _, session = _fit(domain, keys, rho="0.5")
    scored = [(q, loss) for q, loss in session.accesses if isinstance(q, Distances) and len(q.tables[0].axes) == 3]
    assert scored
    for query, loss in scored:
        assert len(query.tables) <= 60
        assert loss.amounts()["rho"] <= session.allowed() / 200
    assert session.spent() <= session.allowed()


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [1, 3])
def test_one_unit_moves_the_scores_no_farther_than_stated(relation: Any, rows: int) -> None:
    """Brute force over every pair of rows put in, or exchanged, on a small table of three columns."""
    domain = sd.Domain({c: sd.Category([0, 1]) for c in "abcd"})
    neighbors = Neighbors(relation, PrivacyUnit("unit", max_rows=rows) if rows > 1 else None)
    columns = synth_columns(domain)
    triples = tuple(t for t in itertools.combinations(range(4), 3))
    tables = tuple(ContingencyTable(tuple(columns[c].axis() for c in t)) for t in triples)
    rng = np.random.default_rng(1)
    models = tuple((rng.random(int(np.prod(t.shape(domain)))) * 5 * PARTS).astype(np.int64) for t in tables)
    query = Distances(tables, models)
    ((stated, _),) = query.parts(domain, neighbors)  # in whole steps, as the vectors are

    def vector(table: Any) -> Any:
        counted = [np.unique(table[:, t], axis=0, return_counts=True) for t in triples]
        return query.from_counts([(k, n) for k, n in counted], domain)[0].astype(float)

    base = rng.integers(0, 2, (12, 4))
    worst = 0.0
    for row in itertools.product((0, 1), repeat=4):
        more = vector(np.vstack([base, np.tile(row, (rows, 1))]))
        less = vector(base)
        for other in itertools.product((0, 1), repeat=4) if relation == "replace" else [None]:
            from_ = less if other is None else vector(np.vstack([base, np.tile(other, (rows, 1))]))
            worst = max(worst, float(np.square(more - from_).sum()))
    assert worst <= float(stated.l2_squared)
    assert worst >= float(stated.l2_squared) / 4


def synth_columns(domain: sd.Domain) -> list[EncodedColumn]:
    return encode_columns(domain, None, Neighbors("add_remove", None))
