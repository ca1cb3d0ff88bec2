"""Sums of products as matrices are those of Python's integers, and those of SQL, to the last digit."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example
from hypothesis import strategies as st
from sqlglot import exp

import sordino as sd
from planning import data_access_of
from protecting import protect
from sordino.ask.curator import plan
from sordino.ask.engines import product_sums
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.instances import fetch_blocks
from sordino.ask.engines.kept_numbers import MOST_KEPT, KeptNumbers, KeptReading, reading_of
from sordino.ask.engines.product_sums import AddingProducts, KeepingNumbers, NumberLayout
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
from sordino.core.errors import ChargedError
from sordino.core.noise.lattice import scale_of
from sordino.core.primitives import MOST_FACTOR, MOST_WEIGHT, FloatSteps, ProductSums, ShrunkWeight
from sordino.models.moments import PreparedMoments
from trying import examples


def add_up(sums: ProductSums, blocks: list[pa.RecordBatch], *, keeps: bool = False) -> pa.Table:
    """Return the sums over blocks of rows; where it `keeps`, what was read for squares alone is taken from memory."""
    layout = NumberLayout(sums)
    first = AddingProducts(
        replace(sums, shrunk=None, squares_alone=True) if keeps else sums, layout, has_products=keeps
    )
    keeping = KeepingNumbers(layout, MOST_KEPT)
    for block in blocks:
        for columns, totals in layout.read(block):
            keeping.add(columns)
            first.add(columns, totals)
    if not keeps:
        return first.table()
    assert keeping.blocks is not None
    halves = [AddingProducts(sums, layout, alike=first.alike), AddingProducts(sums, layout, alike=0 * first.alike)]
    for place, kept in enumerate(keeping.blocks):
        for start in range(0, kept.shape[1], layout.at_once):
            halves[place % 2].add(kept[:, start : start + layout.at_once])
    halves[0].join(halves[1])
    return halves[0].table()


@pytest.mark.each(8)
@pytest.mark.parametrize("most", [MOST_FACTOR // 2 - 1, 1 << 17, 1 << 11])
@pytest.mark.parametrize(
    ("columns", "blocks"), [(1, [0, 1]), (3, [255, 0, 257]), (31, [256]), (32, [8193]), (70, [300, 9])]
)
def test_sums_are_those_of_whole_numbers(columns: int, blocks: list[int], most: int) -> None:
    """Of the largest products, 2^54, no float adds up two; those of numbers of 2^18 pass a float together; small ones never."""
    rng = np.random.default_rng(columns)
    names = ["w", *(f"z{i}" for i in range(columns)), "fold"]
    ends = ((-most, most),) * columns
    sums = ProductSums(exp.Select(), ((2, 1),) * columns, ends, 2, MOST_WEIGHT * (2 * most + 1) ** 2)
    batches = []
    expected: Any = np.zeros((2, columns + 1, columns + 1), dtype=object)
    for count in blocks:
        read = rng.choice([-most, most - 1, 1, most], (columns, count)).astype(np.int32)
        weights = rng.integers(MOST_WEIGHT - 1, MOST_WEIGHT + 1, count).astype(np.int32)
        folds = rng.integers(0, 2, count).astype(np.int32)
        # A row that lacks a number takes no part.
        lacking = np.arange(count) % 100 == 7
        columns_read = [weights, *read[:-1], pa.array(read[-1], mask=lacking), folds]
        batches.append(pa.record_batch([pa.array(cells) for cells in columns_read], names))
        counted = weights.astype(np.int64) * ~lacking
        # Fifty products of 2^54 are whole in 64 bits; Python's integers add them up.
        for start in range(0, count, 50):
            block = slice(start, start + 50)
            cells = np.vstack([np.ones(len(counted[block]), np.int64), 2 * read[:, block].astype(np.int64) - 1])
            for fold in (0, 1):
                expected[fold] += ((cells * (counted[block] * (folds[block] == fold))) @ cells.T).astype(object)
    for answer in add_up(sums, batches).to_pylist():
        totals = expected[answer["fold"]]
        assert int(answer["t0"]) == totals[0, 0]
        for i in range(columns):
            assert int(answer[f"s{i}"]) == totals[0, 1 + i]
            for j in range(i, columns):
                assert int(answer[f"s{i}_{j}"]) == totals[1 + i, 1 + j]


@examples(
    30,
    100,
    seed=st.integers(0, 10**6),
    count=st.integers(1, 600),
    columns=st.integers(1, 6),
    folds=st.integers(1, 3),
    weighted=st.booleans(),
    squares_alone=st.booleans(),
    missing=st.sampled_from([0.0, 0.01, 0.5]),
)
@example(seed=0, count=0, columns=1, folds=1, weighted=False, squares_alone=False, missing=0.0)
@example(seed=1, count=300, columns=3, folds=2, weighted=True, squares_alone=False, missing=1.0)
@example(seed=2, count=300, columns=2, folds=1, weighted=False, squares_alone=True, missing=1.0)
@example(seed=3, count=17_000, columns=3, folds=1, weighted=False, squares_alone=False, missing=0.001)
@example(seed=4, count=17_000, columns=3, folds=1, weighted=True, squares_alone=True, missing=0.001)
@example(seed=5, count=16_384, columns=2, folds=1, weighted=False, squares_alone=True, missing=0.0)
def test_doubles_are_read_weighed_and_added_up_as_whole_numbers(
    seed: int, count: int, columns: int, folds: int, weighted: bool, squares_alone: bool, missing: float
) -> None:
    """Of any bounds, steps, centers, scales and limits, with what is no number, infinite or beyond: what Python adds up."""
    rng = np.random.default_rng(seed)
    floats: list[FloatSteps | None] = []
    lines = []
    ends = []
    cells: list[Any] = []
    reach = []
    for place in range(columns):
        step = [Fraction(1, 1000), Fraction(1, 2), Fraction(3), Fraction(1)][int(rng.integers(4))]
        low = int(rng.integers(-2000, 2000))
        width = int(rng.integers(1, 1 << int(rng.integers(3, 20))))
        by = int(rng.choice([1, 1, 7]))
        origin = low if by > 1 else int(rng.choice([0, low]))
        center = int(rng.integers(-width, width + 1))
        lines.append((2, 2 * (low - origin) + width // by + center))
        reach.append(2 * width + 2)
        ends.append((low - origin, low - origin + width // by))
        value = np.float64(low) + rng.uniform(-0.2, 1.2, count) * width
        if place % 3 == 2 and missing < 1:
            # This one is a whole number already, clipped in SQL.
            floats.append(None)
            whole = np.clip(np.floor(value), low, low + width) - origin
            cells.append(pa.array((whole // by).astype(np.int32), mask=rng.random(count) < missing))
            continue
        floats.append(
            FloatSteps(exp.Null(), float(low * step), float((low + width) * step), *scale_of(step), origin, by)
        )
        value = value * float(step)
        value[rng.random(count) < 0.02] = np.inf
        value[rng.random(count) < 0.02] = -np.inf
        value[rng.random(count) < missing] = np.nan
        cells.append(pa.array(value, mask=rng.random(count) < missing / 2))
    own = rng.integers(0, MOST_WEIGHT + 1, count).astype(np.int32)
    fold_of = rng.integers(0, folds, count).astype(np.int32)
    shrunk = None
    most = (1 if squares_alone and not weighted else MOST_WEIGHT) * max(reach) ** 2
    if not squares_alone:
        scales = [max(1, r >> int(rng.integers(0, 10))) for r in reach]
        limit = int(rng.integers(1, 100)) * LENGTH * WEIGHT
        shrunk = ShrunkWeight(LENGTH + columns, LENGTH, tuple(s**2 for s in scales), limit)
    weight = None if weighted else 1 if squares_alone else MOST_WEIGHT
    arrays = [*([pa.array(own)] if weighted else []), *cells, *([pa.array(fold_of)] if folds > 1 else [])]
    names = [f"c{i}" for i in range(len(arrays))]
    sums = ProductSums(
        exp.Select(), tuple(lines), tuple(ends), folds, most, weight, shrunk, tuple(floats), squares_alone
    )
    batch = pa.record_batch(arrays, names)
    expected: Any = np.zeros((folds, columns + 1, columns + 1), dtype=object)
    for row, *read in zip(range(count), *(column.to_pylist() for column in cells), strict=True):
        if any(cell is None or math.isnan(cell) for cell in read):
            continue
        z = [1]
        for cell, steps, (times, less) in zip(read, floats, lines, strict=True):
            if steps is not None:
                within = min(max(cell, steps.first), steps.last)
                scaled = within * steps.factor if steps.op == "*" else within / steps.factor
                cell = (math.floor(scaled + 0.5) - steps.origin) // steps.by
            z.append(times * int(cell) - less)
        w = int(own[row]) if weighted else int(weight or 0)
        if shrunk is not None:
            squares = zip(z[1:], shrunk.squares, strict=True)
            length = shrunk.least + sum(shrunk.parts * number**2 // square for number, square in squares)
            w = min(w, shrunk.limit // length)
        for i, one in enumerate(z):
            for j in range(i, columns + 1):
                expected[fold_of[row], i, j] += w * one * z[j]
    for keeps in (False, True):
        for answer in add_up(sums, [batch], keeps=keeps).to_pylist():
            totals = expected[answer["fold"]]
            assert int(answer["t0"]) == totals[0, 0]
            for i in range(columns):
                assert int(answer[f"s{i}"]) == totals[0, 1 + i]
                for j in range(i, i + 1 if squares_alone else columns):
                    assert int(answer[f"s{i}_{j}"]) == totals[1 + i, 1 + j]


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


@pytest.mark.deep
@pytest.mark.parametrize("count", [0, 700])
@pytest.mark.parametrize("limit", [None, 1 << 20])
@pytest.mark.parametrize(("weight", "folds"), [(None, 1), ("u", 3)])
@pytest.mark.parametrize("categories", [(), ("kind",)])
@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=1000)])
def test_an_engine_answers_what_its_sql_would(
    count: int,
    limit: int | None,
    weight: str | None,
    folds: int,
    categories: tuple[str, ...],
    unit: Any,
    monkeypatch: Any,
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
    # And what was kept of the first scan of a text answers the same.
    with access.keep_numbers(statements[:3] * 2) as keeping:
        for query, statement, exact in zip(queries * 2, statements[:3] * 2, answers[0] * 2, strict=True):
            if len(query.scans(DOMAIN)) == 1:
                assert query.exact_vectors([keeping.run(statement)], DOMAIN) == exact
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


# ---- What the first look has read is kept for the moments of the same fit

NUMBERS = {name: sd.Real(-4, 4, resolution="0.01") for name in ("x", "y", "z")}


def fit(path: Path, seed: int = 0) -> list[float]:
    curator = protect(str(path), sd.Domain(NUMBERS), budget=sd.ApproxDP(10**6, "1e-3"), seed=seed)
    model = sd.models.linear_regression(curator, y="y", x=["x", "z"], epsilon=1, delta="1e-6")
    return [model.intercept, *model.values.tolist()]


def write_rows(path: Path, shift: float = 0.0) -> None:
    """Write rows with cells that are missing, no numbers, or infinite, over the file that is there."""
    rng = np.random.default_rng(4)
    cells = rng.normal(shift, 1.5, (3, 9000))
    cells[0, ::97] = np.nan
    cells[1, ::89] = np.inf
    lacking = np.arange(9000) % 83 == 0
    pq.write_table(pa.table({name: pa.array(c, mask=lacking) for name, c in zip(NUMBERS, cells, strict=True)}), path)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts whose rows are fetched from now on, one by one."""
    texts: list[str] = []

    def fetch(connection: Any, text: str, rows: int) -> Any:
        texts.append(text)
        return fetch_blocks(connection, text, rows)

    monkeypatch.setattr(product_sums, "fetch_blocks", fetch)
    return texts


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[KeptNumbers]:
    """Return what runs keep from now on, one by one."""
    all_kept: list[KeptNumbers] = []

    def keep(scans: Any, room: int) -> KeptNumbers:
        all_kept.append(KeptNumbers(scans, room))
        return all_kept[-1]

    monkeypatch.setattr(plan, "KeptNumbers", keep)
    return all_kept


@pytest.mark.deep
@pytest.mark.parametrize(("room", "scans"), [(MOST_KEPT, 1), (1 << 12, 2), (0, 2)])
def test_a_fit_reads_its_numbers_once_where_there_is_room(
    room: int, scans: int, tmp_path: Path, monkeypatch: Any, fetches: list[str], kept: list[KeptNumbers]
) -> None:
    write_rows(tmp_path / "t.parquet")
    monkeypatch.setattr(plan, "MOST_KEPT", 0)
    expected = fit(tmp_path / "t.parquet")
    del fetches[:]
    monkeypatch.setattr(plan, "MOST_KEPT", room)
    assert fit(tmp_path / "t.parquet") == expected
    assert len(fetches) == scans
    assert [numbers.size for numbers in kept] == [0, 0]


def test_a_fit_that_fails_midway_drops_what_it_kept(tmp_path: Path, monkeypatch: Any, kept: list[KeptNumbers]) -> None:
    write_rows(tmp_path / "t.parquet")
    sizes = []

    def fail(*_: Any) -> Any:
        sizes.append(kept[0].size)
        raise RuntimeError

    monkeypatch.setattr(PreparedMoments, "choose_frame", fail)
    with pytest.raises(ChargedError):
        fit(tmp_path / "t.parquet")
    assert sizes[0] > 0
    assert kept[0].size == 0


@pytest.mark.deep
@pytest.mark.parametrize("room", [MOST_KEPT, 0])
def test_a_table_that_is_written_to_between_the_scans_gives_no_model(
    room: int, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "t.parquet"
    write_rows(path)
    monkeypatch.setattr(plan, "MOST_KEPT", room)
    choose = PreparedMoments.choose_frame

    def change(self: Any, look: Any) -> Any:
        write_rows(path, shift=1.0)
        return choose(self, look)

    monkeypatch.setattr(PreparedMoments, "choose_frame", change)
    with pytest.raises(ChargedError, match="changed while it was read"):
        fit(path)


@pytest.mark.deep
def test_fits_at_once_keep_their_own_numbers(tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for shift, path in enumerate(paths):
        write_rows(path, shift=float(shift))
    alone = [fit(path) for path in paths]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fit, paths * 4)) == alone * 4


def test_what_was_read_by_other_steps_is_read_again() -> None:
    """The text of the rows is the same for any steps and bounds of doubles: these tell apart what was read."""
    text = "SELECT x AS z0 FROM t"
    of_steps = [
        ProductSums(exp.Select(), ((2, 1),), (ends,), 1, 1, 1, floats=(FloatSteps(exp.Null(), 0.0, last, "*", per),))
        for last, per, ends in [(1.0, 10.0, (0, 10)), (1.0, 100.0, (0, 100)), (2.0, 10.0, (0, 20))]
    ]
    kept = KeptNumbers([(text, sums) for sums in of_steps * 2], MOST_KEPT)
    for count, sums in enumerate(of_steps):
        assert kept.take(reading_of(text, sums)) is None
        kept.keep(reading_of(text, sums), KeptReading([np.zeros((1, 1), np.int16)], None))
        assert kept.size == 2 * (count + 1)
    for sums in of_steps:
        assert kept.take(reading_of(text, sums)) is not None
        assert kept.take(reading_of(text, sums)) is None
    assert kept.size == 0
