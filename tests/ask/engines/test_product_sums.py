"""Sums of products as matrices are those of Python's integers, and those of SQL, to the last digit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import sordino as sd
from planning import data_access_of
from protecting import protect
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.product_sums import AddingProducts
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.gradient_vector import COEFFICIENT, CurvatureMatrix, SteppedRegression
from sordino.ask.queries.moment_matrix import (
    LENGTH,
    WEIGHT,
    FirstLook,
    Frame,
    MomentMatrix,
    MomentVector,
    compile_moments,
)
from sordino.core.primitives import MOST_FACTOR, MOST_WEIGHT, ProductSums


@pytest.mark.each(4)
@pytest.mark.parametrize("most", [MOST_FACTOR // 2 - 1, 1 << 17, 1 << 11])
@pytest.mark.parametrize(
    ("columns", "blocks"), [(1, [0, 1]), (3, [255, 0, 257]), (31, [256]), (32, [8193]), (70, [300, 9])]
)
def test_sums_are_those_of_whole_numbers(columns: int, blocks: list[int], most: int) -> None:
    """Of the largest products, 2^54, no float adds up two; those of numbers of 2^18 pass a float together; small ones never."""
    rng = np.random.default_rng(columns)
    names = ["w", *(f"z{i}" for i in range(columns)), "fold"]
    adding = AddingProducts(ProductSums(exp.Select(), ((2, 1),) * columns, 2, MOST_WEIGHT * (2 * most + 1) ** 2))
    expected: Any = np.zeros((2, columns + 1, columns + 1), dtype=object)
    for count in blocks:
        read = rng.choice([-most, most - 1, 1, most], (columns, count)).astype(np.int32)
        weights = rng.integers(MOST_WEIGHT - 1, MOST_WEIGHT + 1, count).astype(np.int32)
        folds = rng.integers(0, 2, count).astype(np.int32)
        # A row that lacks a number takes no part.
        lacking = np.arange(count) % 100 == 7
        columns_read = [weights, *read[:-1], pa.array(read[-1], mask=lacking), folds]
        adding.add(pa.record_batch([pa.array(cells) for cells in columns_read], names))
        counted = weights.astype(np.int64) * ~lacking
        # Fifty products of 2^54 are whole in 64 bits; Python's integers add them up.
        for start in range(0, count, 50):
            block = slice(start, start + 50)
            cells = np.vstack([np.ones(len(counted[block]), np.int64), 2 * read[:, block].astype(np.int64) - 1])
            for fold in (0, 1):
                expected[fold] += ((cells * (counted[block] * (folds[block] == fold))) @ cells.T).astype(object)
    for answer in adding.table().to_pylist():
        sums = expected[answer["fold"]]
        assert int(answer["t0"]) == sums[0, 0]
        for i in range(columns):
            assert int(answer[f"s{i}"]) == sums[0, 1 + i]
            for j in range(i, columns):
                assert int(answer[f"s{i}_{j}"]) == sums[1 + i, 1 + j]


DOMAIN = sd.Domain(
    {
        "id": sd.Integer(0, 99),
        "few": sd.Integer(0, 4),
        "part": sd.Real(-1, 1, resolution="0.5"),
        "wide": sd.Real(0, 10**9, resolution="0.001"),
        "day": sd.Integer(0, 10**6, missing="keep"),
        "u": sd.Real(0, "2.5", resolution="0.01"),
        "kind": sd.Category(["p", "q", "r"]),
        "yes": sd.Boolean(),
    }
)


def table(count: int) -> pa.Table:
    """Return rows with cells that are missing, not numbers, or beyond their bounds."""
    rng = np.random.default_rng(count)
    few = rng.integers(-1, 7, count).astype(object)
    few[::17] = None
    part = rng.normal(0, 1, count)
    part[::23] = np.nan
    part[::29] = np.inf
    wide = 10 ** rng.uniform(-3, 11, count)
    day = rng.integers(0, 10**6, count).astype(object)
    day[::7] = None
    return pa.table(
        {
            "id": rng.integers(0, 100, count),
            "few": pa.array(list(few), pa.int64()),
            "part": part,
            "wide": wide,
            "day": pa.array(list(day), pa.int64()),
            "u": rng.uniform(-1, 4, count),
            "kind": rng.choice(["p", "q", "other"], count).tolist(),
            "yes": (rng.random(count) < 0.3).tolist(),
        }
    )


def of(*names: str) -> tuple[Grouping, ...]:
    return tuple(Grouping(name, Name(name)) for name in names)


# Six of the sixteen, in which each two values of two parameters come together.
@pytest.mark.each(13)
@pytest.mark.parametrize("count", [0, 700])
@pytest.mark.parametrize("limit", [None, 1 << 20])
@pytest.mark.parametrize(("weight", "folds"), [(None, 1), ("u", 3)])
@pytest.mark.parametrize("categories", [(), ("kind",)])
def test_an_engine_answers_what_its_sql_would(
    count: int, limit: int | None, weight: str | None, folds: int, categories: tuple[str, ...], monkeypatch: Any
) -> None:
    """Rows that are missing, cut, weighted and held out, in a frame of narrow and wide scales: the same whole numbers."""
    by = None if weight is None else of(weight)[0]
    question = MomentMatrix(of("few", "part", "wide", "day"), of(*categories), folds, by)
    stepped = SteppedRegression(of("yes")[0], "logistic", of("few", "part", "wide", "day"), of(*categories), folds, by)
    numbers = compile_moments(question, DOMAIN).numbers
    # Scales from the least to the widest, and centers at the ends.
    scales = tuple(max(number.least_scale, number.width >> 3 * i) for i, number in enumerate(numbers))
    frame = Frame((numbers[0].width, -numbers[1].width, 0, 5), scales, Fraction(limit or 1 + len(categories)))
    coefficients = tuple((-1) ** i * COEFFICIENT // (i + 2) for i in range(5 + 3 * len(categories)))
    queries: list[Any] = [
        FirstLook(question),
        MomentVector(question, frame),
        CurvatureMatrix(stepped, frame, coefficients),
    ]
    unit = sd.PrivacyUnit("id", max_rows=1000)
    access = data_access_of(protect(table(count), DOMAIN, unit=unit, budget=sd.ApproxDP(1, "1e-6")))
    statements: list[Statement] = []
    answers = []
    write = DuckDBEngine.write

    def write_sql(engine: DuckDBEngine, select: Any) -> Statement:
        select.meta.pop("products", None)
        return write(engine, select)

    for writer in (write, write_sql):
        monkeypatch.setattr(DuckDBEngine, "write", writer)
        exact: list[Any] = []
        for query in queries:
            written = [access.write(scan.select(access.primitives())) for scan in query.scans(DOMAIN)]
            statements.append(written[0])
            exact.append(query.exact_vectors([access.run(statement) for statement in written], DOMAIN))
        answers.append(exact)
    assert [statement.products is not None for statement in statements] == [True] * 3 + [False] * 3
    assert answers[0] == answers[1]
    assert any(answers[0][0][0]) == (count > 0)


@pytest.mark.parametrize(
    ("scale_part", "center", "limit"), [(1, 0, 1), (8, 7, 20), (1000, -2000, 1000), (1000, 0, 1 << 20)]
)
def test_no_weighted_product_passes_what_the_engine_is_told(scale_part: int, center: int, limit: int) -> None:
    """Every step of a number, weighted as the SQL weighs it: the largest product is at most what is said, and near it."""
    compiled = compile_moments(MomentMatrix(of("few")), DOMAIN)
    (number,) = compiled.numbers
    scale = max(number.width // scale_part, number.least_scale)
    steps = [step - center for step in range(-number.width, number.width + 1)]
    products = []
    for z in steps:
        length = LENGTH + 1 + z * z * LENGTH // scale**2
        weight = WEIGHT if length <= limit * LENGTH else limit * LENGTH * WEIGHT // length
        products.append(weight * z * z)
    most = compiled.most_product(Frame((center,), (scale,), Fraction(limit)))
    assert 0.49 * most <= max(products) <= most
