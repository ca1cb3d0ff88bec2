"""Draws of the intervals of a sample's answers: each is for what the sample itself would say, which is read behind the ask."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from curator_intervals import cell_ends, say
from interval_check import Draws

import sordino as sd
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.plan import DataAccess
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.noise.rng import Rng

LOSSES: tuple[dict[str, str], ...] = ({"epsilon": "0.1"}, {"epsilon": "1"}, {"epsilon": "5"})
RATES = ("1/10", "1/2")
ROWS = (10, 100)
HIGHEST = 100


def sample_draws(size: int) -> Iterator[Draws]:
    """Yield what each place draws: `size` equal groups of one table, of which one ask draws one sample."""
    groups = max(50, size)
    units: tuple[tuple[Any, int], ...] = (("row", 1), (sd.PrivacyUnit("id", max_rows=2), 2))
    for rows, (unit, owner) in itertools.product(ROWS, units):
        x = np.tile((37 * np.arange(rows) + 11) % (HIGHEST + 1), groups)
        ids = (np.arange(groups * rows) // owner).astype(str)
        table = pa.table({"k": np.repeat(np.arange(groups), rows), "x": x, "id": ids})
        columns: dict[str, Any] = {"k": sd.Integer(0, groups - 1), "x": sd.Integer(0, HIGHEST), "id": sd.Identifier()}
        held = sd.protect(
            table, domain=sd.Domain(columns), neighbors="add_remove", privacy_unit=unit, budget=sd.PureDP(10**9), ledger=None,
            rng=sd.Rng.seeded(23),
        )  # fmt: skip
        for loss, rate in itertools.product(LOSSES, RATES):
            place = say(loss, f"rate {rate}", f"{rows} rows, {owner} a unit")
            for kind, asked in (("count", sd.count()), ("sum", sd.sum("x")), ("mean", sd.mean("x"))):
                yield from _draw(held, f"{kind} of a sample", asked, loss, rate, place)


def _draw(held: Any, kind: str, asked: Any, loss: dict[str, str], rate: str, place: str) -> Iterator[Draws]:
    exact = Selection().group_by("k").agg(sd.count(), sd.sum("x"))
    with _watch(compile_query(as_aggregation(exact), held.domain)) as seen:
        release = held.ask(held.sample(rate).group_by("k").agg(asked), **loss)
    counts, sums = (np.array([float(cell) for cell in vector]) for vector in seen[-1])
    mean = kind.startswith("mean")
    truth = sums / np.maximum(counts, 1) if mean else sums if kind.startswith("sum") else counts
    known = np.flatnonzero(counts > 0) if mean else np.arange(len(counts))  # a mean of no rows has no truth
    estimate = release.outputs[0].estimate
    values = np.array([np.nan if value is None else float(value) for value in estimate.values()])[known]
    every = cell_ends(estimate, slice(None))

    def ends(confidence: float) -> tuple[Any, Any]:
        low, high = every(confidence)
        return low[known], high[known]

    yield Draws(kind, place, truth[known], values, ends, least=0, most=HIGHEST if mean else np.inf)


@contextmanager
def _watch(exact: Any) -> Iterator[list[Any]]:
    """Give a list of what an exact question says of each sample that is drawn meanwhile."""
    seen: list[Any] = []
    draw = DataAccess.sample

    @contextmanager
    def sample(self: DataAccess, rate: Fraction, rng: Rng) -> Iterator[DataAccess]:
        with draw(self, rate, rng) as drawn:
            seen.append(exact_vectors(drawn.run(exact.select(drawn.primitives())), exact))
            yield drawn

    with patch.object(DataAccess, "sample", sample):
        yield seen
