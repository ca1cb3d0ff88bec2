"""What the tests of engines share: exact answers of a source, straight from the engine, without charge or noise."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import sordino as sd
from sordino.curator.noise_answer import exact_vectors
from sordino.engines.duckdb import DuckDBEngine
from sordino.engines.frames import arrow_of
from sordino.neighbors import Neighbors, PrivacyUnit
from sordino.queries.aggregation import compile_query
from sordino.queries.build import as_aggregation
from sordino.source import Csv, Source, source_from


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


def ask(engine: DuckDBEngine, domain: sd.Domain, question: Any) -> list[list[Fraction]]:
    """Return the exact parts of a question from an open engine, in its own units."""
    found = compile_query(as_aggregation(question), domain)
    flat = [p for several in found.parts for p in several]
    vectors = exact_vectors(engine.run(found.select(engine.primitives)), found)
    return [[x * p.unit for x in v] for p, v in zip(flat, vectors, strict=True)]


def assert_within_sensitivity(
    domain: sd.Domain, question: Any, one: list[list[Fraction]], other: list[list[Fraction]], neighbors: Neighbors
) -> None:
    """Require that two neighbors' exact parts differ by no more than declared, in every norm."""
    found = compile_query(as_aggregation(question), domain)
    parts = [p for several in found.parts for p in several]
    for part, a, b in zip(parts, one, other, strict=True):
        bound = found.sensitivity(part, neighbors)
        moved = [abs(x - y) for x, y in zip(a, b, strict=True)]
        assert sum(moved) <= bound.l1
        assert sum(m * m for m in moved) <= bound.l2_squared
        assert max(moved) <= bound.linf
