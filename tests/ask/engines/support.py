"""What the tests of engines share: exact answers of a source, straight from the engine, without charge or noise."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import sordino as sd
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.cells import refine_times
from sordino.ask.engines.duckdb import DuckDBEngine, _fetch_row
from sordino.ask.engines.frames import arrow_of
from sordino.ask.engines.instances import fetch_table
from sordino.ask.engines.parquet import mend_arrow
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.row_steps import apply_steps, step_domain, step_neighbors
from sordino.core.neighbors import Neighbors, PrivacyUnit, Sensitivity
from sordino.core.noise.lattice import scale_of
from sordino.core.source import Csv, Source, source_from


def engine_of(
    source: Any,
    domain: sd.Domain,
    *,
    unit: PrivacyUnit | None = None,
    csv: Csv | None = None,
    relation: str | None = None,
) -> DuckDBEngine:
    """Return the engine over a path, a Source or a frame."""
    if isinstance(source, (str, Path)):
        source = source_from(source, relation=relation, csv=csv)
    elif not isinstance(source, Source):
        source = arrow_of(source, domain)
    return DuckDBEngine(source, domain=domain, unit=unit)


def exact(source: Any, domain: sd.Domain, question: Any, **how: Any) -> list[list[Fraction]]:
    """Return the exact parts of a question, in its own units."""
    engine = engine_of(source, domain, **how)
    try:
        return ask(engine, domain, question)
    finally:
        engine.close()


Exact = list[list[Fraction]]


def ask(engine: DuckDBEngine, domain: sd.Domain, question: Any) -> Exact:
    """Return the exact parts of a question from an open engine, in its own units."""
    asked = as_aggregation(question)
    compiled = compile_query(asked, step_domain(domain, asked.steps))
    return exact_parts(engine.run(compiled.select(apply_steps(engine.primitives, asked.steps, domain))), compiled)


def exact_parts(answer: pa.Table, compiled: CompiledQuery) -> Exact:
    """Return the exact parts in an engine's answer, in their own units."""
    units = [part.unit for several in compiled.parts for part in several]
    return [[x * unit for x in v] for unit, v in zip(units, exact_vectors(answer, compiled), strict=True)]


class _Held:
    """A table that DuckDB reads through its Arrow stream, anew by each scan."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class BoundQuestions:
    """Questions that are bound once and asked of one table after another.

    DuckDB takes four times as long to bind one as to run it on a few rows. The engine is opened on tables in memory, one for each
    of its views, in whose place `ask` puts others.
    """

    def __init__(
        self, engine: DuckDBEngine, domain: sd.Domain, questions: Sequence[Aggregation], **views: pa.Table
    ) -> None:
        self._connection = engine._connection
        self._compiled = [compile_query(asked, step_domain(domain, asked.steps)) for asked in questions]
        self._held = {view: _Held(mend_arrow(refine_times(table))) for view, table in views.items()}
        for view, held in self._held.items():
            self._connection.unregister(view)
            self._connection.register(view, held)
        self._fetch: list[Any] = []
        for i, (compiled, asked) in enumerate(zip(self._compiled, questions, strict=True)):
            statement = engine.write(compiled.select(apply_steps(engine.primitives, asked.steps, domain)))
            self._connection.execute(f"PREPARE question{i} AS {statement.text}")
            self._fetch.append(_fetch_row if statement.one_row else fetch_table)

    def ask(self, **tables: pa.Table) -> list[Exact]:
        """Return the exact parts of each question, in its own units, of tables by the names of their views."""
        for view, table in tables.items():
            self._held[view].table = mend_arrow(refine_times(table))
        answers = [fetch(self._connection, f"EXECUTE question{i}") for i, fetch in enumerate(self._fetch)]
        return [exact_parts(answer, compiled) for answer, compiled in zip(answers, self._compiled, strict=True)]


_BOUNDS: dict[tuple[int, str, Neighbors], tuple[sd.Domain, list[Sensitivity]]] = {}


def bounds(domain: sd.Domain, question: Aggregation, neighbors: Neighbors) -> list[Sensitivity]:
    """Return how far one unit moves each part of a question, computed once."""
    key = (id(domain), question.identity(), neighbors)
    if key not in _BOUNDS:
        found = compile_query(question, step_domain(domain, question.steps))
        wider = step_neighbors(neighbors, question.steps)
        _BOUNDS[key] = domain, [s for several in found.bound(wider).sensitivities for s in several]
    return _BOUNDS[key][1]


def assert_within_sensitivity(
    domain: sd.Domain, question: Any, one: list[list[Fraction]], other: list[list[Fraction]], neighbors: Neighbors
) -> list[Fraction]:
    """Require that two neighbors' exact parts differ by no more than declared, in every norm; return the shares of l1."""
    shares = []
    for bound, a, b in zip(bounds(domain, as_aggregation(question), neighbors), one, other, strict=True):
        moved = [abs(x - y) for x, y in zip(a, b, strict=True)]
        assert sum(moved) <= bound.l1, bound
        assert sum(m * m for m in moved) <= bound.l2_squared
        assert max(moved) <= bound.linf
        assert sum(m > 0 for m in moved) <= bound.l0
        shares.append(sum(moved, Fraction(0)) / bound.l1 if bound.l1 else Fraction(0))
    return shares


FLOAT_BOUNDS = [  # steps and bounds in steps, among them some whose float has other steps
    ("1/100", 0, 11100),
    ("1/100", -7, 10**15),
    ("1/100", 5, 3975788528954945),
    ("1/3", -10, 10),
    ("5", 0, 20),
    ("1/1000000", -(2**52), 2**52),
    ("7/10", -3, 3),
]


def float_cells(unit: Fraction, lower: int, upper: int) -> list[float]:
    """Return floats at and beside bounds in steps, beside the ties of steps next to them, and all over."""
    ends = [float(n * unit) for n in (lower, upper)]
    half = [float((n + Fraction(1, 2)) * unit) for n in (lower - 1, lower, upper - 1, upper)]
    near = [math.nextafter(x, way) for x in ends for way in (-math.inf, math.inf)]
    far = [-0.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]
    draws = random.Random(str(unit))
    return [
        *ends,
        *near,
        *half,
        *(math.nextafter(x, 0) for x in half),
        *far,
        *(draws.uniform(*ends) for _ in range(300)),
    ]


def float_steps(x: float, unit: Fraction, lower: int, upper: int) -> int | None:
    """Return the steps of a float, clipped; None of NaN."""
    op, factor = scale_of(unit)
    scaled = x * factor if op == "*" else x / factor
    clipped = upper if scaled > upper + 1 else lower if scaled < lower - 1 else scaled
    return None if math.isnan(x) else max(lower, min(upper, math.floor(clipped + 0.5)))
