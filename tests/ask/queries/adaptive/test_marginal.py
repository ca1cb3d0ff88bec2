"""Marginals and Distances: sensitivities that brute force never beats, and exact vectors that DuckDB and NumPy agree on."""

from __future__ import annotations

import datetime
import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.adaptive.marginal import (
    PARTS,
    Axis,
    ContingencyTable,
    Distances,
    MarginalQuery,
    select_groupings,
)
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.errors import QuestionRefused
from sordino.synth.encoded_column import encode_columns, encode_table

DOMAIN = sd.Domain({"a": sd.Integer(0, 2), "b": sd.Category(["x", "y"], missing="keep"), "c": sd.Boolean()})
TABLES = (
    ContingencyTable((Axis("a"), Axis("b"))),
    ContingencyTable((Axis("a", None, (0, 1, 1)),)),
    ContingencyTable((Axis("c"), Axis("b", None, (0, 1, 1)), Axis("a"))),
)
NONE = Neighbors("add_remove", None)


def counted(rows: list[tuple[int, ...]], table: ContingencyTable) -> tuple[np.ndarray, np.ndarray]:
    place = {"a": 0, "b": 1, "c": 2}
    keys = np.array([[r[place[x.column]] for x in table.axes] for r in rows], dtype=np.int64).reshape(
        -1, len(table.axes)
    )
    return keys, np.ones(len(rows), dtype=np.int64)


@pytest.mark.each(3)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
def test_no_neighbor_moves_further_than_the_sensitivity(relation: Relation, rows: int) -> None:
    neighbors = Neighbors(relation, None if rows == 1 else PrivacyUnit("u", max_rows=rows))
    rng = np.random.default_rng(3)
    models = tuple(rng.integers(0, 3 * PARTS, int(np.prod(t.shape(DOMAIN)))) for t in TABLES)
    possible = list(itertools.product((0, 1, 2), (0, 1, 2), (0, 1, -1)))  # -1: left out of what uses c
    most = {"marginals": (0.0, 0.0), "distances": (0.0, 0.0)}
    distances = Distances(TABLES, models, floors=(5 * PARTS, 0, -3))
    for query, name in ((MarginalQuery(TABLES), "marginals"), (distances, "distances")):
        bound = query.sensitivity(DOMAIN, neighbors)
        for _ in range(150):
            base = [possible[i] for i in rng.integers(0, len(possible), 4)]
            one = [possible[i] for i in rng.integers(0, len(possible), rows)]
            two = [possible[i] for i in rng.integers(0, len(possible), rows)] if relation == "replace" else []
            before, after = (
                query.from_counts([counted(base + extra, t) for t in TABLES], DOMAIN) for extra in (one, two)
            )
            move = np.concatenate([(x - y).ravel() for x, y in zip(before, after, strict=True)]) * float(query.unit)
            l1, l2 = float(np.abs(move).sum()), float(np.square(move).sum())
            assert l1 <= float(bound.l1)
            assert l2 <= float(bound.l2_squared)
            most[name] = max(most[name][0], l1), max(most[name][1], l2)
        assert most["marginals"][0] >= float(
            MarginalQuery(TABLES).sensitivity(DOMAIN, neighbors).l1
        )  # the bound is met


def test_floors_are_taken_from_distances() -> None:
    models = tuple(np.zeros(int(np.prod(t.shape(DOMAIN))), dtype=np.int64) for t in TABLES)
    tables = [counted([(0, 1, 0), (2, 0, 1)], t) for t in TABLES]
    (plain,) = Distances(TABLES, models).from_counts(tables, DOMAIN)
    (less,) = Distances(TABLES, models, floors=(7, 0, -7)).from_counts(tables, DOMAIN)
    assert plain.tolist() == [2 * PARTS] * 3
    assert (plain - less).tolist() == [7, 0, -7]


def test_shares_split_the_loss_and_sum_to_one() -> None:
    parts = MarginalQuery(TABLES, (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))).parts(DOMAIN, NONE)
    assert [s for _, s in parts] == [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    for wrong in ((Fraction(1, 2),), (Fraction(1), Fraction(1), Fraction(-1)), (Fraction(1, 2),) * 3):
        with pytest.raises(QuestionRefused, match="shares"):
            MarginalQuery(TABLES, wrong).parts(DOMAIN, NONE)


def test_codes_models_and_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(QuestionRefused, match="codes"):
        Axis("a", None, (0, 1)).size(DOMAIN)
    with pytest.raises(QuestionRefused, match="each once"):
        ContingencyTable((Axis("a"), Axis("a"))).shape(DOMAIN)
    with pytest.raises(QuestionRefused, match="one number a cell"):
        Distances(TABLES[:1], (np.zeros(3, dtype=np.int64),)).sensitivity(DOMAIN, NONE)
    with pytest.raises(QuestionRefused, match="too large"):
        Distances(TABLES[:1], (np.full(9, 2**55),)).sensitivity(DOMAIN, NONE)
    for floors, words in (((1, 2), "a floor of each table"), ((2**60,), "too large")):
        with pytest.raises(QuestionRefused, match=words):
            Distances(TABLES[:1], (np.zeros(9, dtype=np.int64),), floors).sensitivity(DOMAIN, NONE)


def test_duckdb_counts_what_numpy_counts_for_every_kind_of_column() -> None:
    domain = sd.Domain(
        {
            "i": sd.Integer(-3, 4, missing="keep"),
            "wide": sd.Integer(0, 99_999),
            "r": sd.Real(-1, 5, resolution="0.25"),
            "d": sd.Date("2000-01-01", "2000-02-10", missing="keep"),
            "long": sd.Date("1900-01-01", "2010-01-01"),
            "k": sd.Category(["p", "q"], other="z"),
            "t": sd.Boolean(missing=sd.Fill(True)),
        }
    )
    rng = np.random.default_rng(8)
    days = [None, *(datetime.date(1999, 12, 30) + datetime.timedelta(days=int(n)) for n in rng.integers(0, 60, 20))]
    table = pa.table(
        {
            "i": pa.array([None if v == 7 else int(v) for v in rng.integers(-5, 8, 200)]),
            "wide": pa.array([None if v < 3000 else int(v) for v in rng.integers(0, 120_000, 200)]),
            "r": pa.array([float("nan") if v > 5.5 else float(v) for v in rng.uniform(-2, 6, 200)]),
            "d": pa.array([days[i] for i in rng.integers(0, len(days), 200)], type=pa.date32()),
            "long": pa.array([datetime.date(1950, 1, 1) + datetime.timedelta(days=int(n)) for n in rng.integers(0, 9999, 200)]),
            "k": pa.array([["p", "q", "w", None][i] for i in rng.integers(0, 4, 200)]),
            "t": pa.array([[True, False, None][i] for i in rng.integers(0, 3, 200)]),
        }
    )  # fmt: skip
    columns = encode_columns(domain, None, NONE)
    keys = dict(zip((c.name for c in columns), encode_table(table, tuple(columns)), strict=True))
    tables = [ContingencyTable((a.axis(), b.axis())) for a, b in itertools.combinations(columns, 2)]
    engine = DuckDBEngine(table, domain=domain, unit=None)
    try:
        found = engine.run(select_groupings([t.grouping() for t in tables], engine.primitives, domain))
        axes = list(dict.fromkeys(a for t in tables for a in t.grouping()))
        rows = found.to_pylist()
        for one in tables:
            places = [axes.index(a) for a in one.grouping()]
            mask = sum(1 << (len(axes) - 1 - i) for i in range(len(axes)) if i not in places)
            cells = [
                ([r[f"k{i}"] for i in places], r["t0"])
                for r in rows
                if r["left_out"] == mask and all(r[f"k{i}"] is not None for i in places)
            ]
            sparse = (np.array([c for c, _ in cells]), np.array([n for _, n in cells]))
            held = [keys[a.column] for a in one.axes]
            kept = np.all([k >= 0 for k in held], axis=0)
            ours = np.stack([k[kept] for k in held], axis=1), np.ones(int(kept.sum()), dtype=np.int64)
            assert np.array_equal(one.encode(sparse, domain), one.encode(ours, domain))
            if one is not tables[0] and one is not tables[-1]:
                continue
            by_one = engine.run(select_groupings([one.grouping()], engine.primitives, domain))
            whole = by_one.filter(pa.compute.and_(*(by_one.column(f"k{i}").is_valid() for i in (0, 1))))
            assert sum(whole.column("t0").to_pylist()) == int(kept.sum())
    finally:
        engine.close()
