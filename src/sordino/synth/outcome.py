"""What a fit comes to, whatever the algorithm: coded columns, a fitted tree, and what was measured. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.synth.access import Counts
from sordino.synth.calibrate import Beliefs
from sordino.synth.compress import Compressed
from sordino.synth.pairs import Coding, fitted
from sordino.synth.ways import OneWayMarginals

__all__ = ["Outcome", "coded", "independent_outcome", "keep_codes"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The one-way counts, the codes, the fitted tree, the tables measured, and the name of the tier in words."""

    ways: OneWayMarginals
    coding: Coding
    beliefs: Beliefs
    measured: dict[tuple[int, ...], Counts]
    tier: str


def coded(ways: OneWayMarginals, codes: Sequence[Compressed]) -> Coding:
    """Return the columns in codes, with their counts and variances."""
    projected = ways.projected()
    return Coding(
        columns=ways.columns,
        codes=tuple(codes),
        ways=tuple(k.summed(p) for k, p in zip(codes, projected, strict=True)),
        variances=tuple(k.summed(np.full(len(p), v)) for k, p, v in zip(codes, projected, ways.variances, strict=True)),
        rows=ways.rows,
    )


def keep_codes(ways: OneWayMarginals) -> list[Compressed]:
    """Return a code a key; a missing value that the declaration drops, and that does not show, has none of its own."""
    made: list[Compressed] = []
    for column, merged in zip(ways.columns, ways.compress_domain(), strict=True):
        shared = column.dropped and int((merged.codes == merged.codes[-1]).sum()) > 1
        made.append(Compressed(np.minimum(np.arange(column.size), column.size - 1 - shared), column.size - shared))
    return made


def independent_outcome(ways: OneWayMarginals, tier: str) -> Outcome:
    """Return the model in which columns are independent."""
    coding = coded(ways, ways.compress_domain())
    beliefs = fitted(coding, {}, [1 << i for i in range(len(ways.columns))], sweeps=0, kept={})
    return Outcome(ways, coding, beliefs, {}, tier)
