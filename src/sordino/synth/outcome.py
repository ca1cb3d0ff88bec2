"""What a fit comes to, whatever the algorithm: coded columns, a fitted tree, and what was measured. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.synth.access import NoisyTable
from sordino.synth.calibrate import MarkovRandomField
from sordino.synth.compress import DomainCompression
from sordino.synth.pairs import CompressedMarginals, fit_field
from sordino.synth.ways import OneWayMarginals

__all__ = ["FittedModel", "compress_columns", "independent_model", "keep_codes"]


@dataclass(frozen=True, slots=True)
class FittedModel:
    """The one-way counts, the codes, the fitted tree, the tables measured, and the name of the tier in words."""

    one_way: OneWayMarginals
    compressed: CompressedMarginals
    field: MarkovRandomField
    measured: dict[tuple[int, ...], NoisyTable]
    tier: str


def compress_columns(one_way: OneWayMarginals, codes: Sequence[DomainCompression]) -> CompressedMarginals:
    """Return the columns in codes, with their counts and variances."""
    projected = one_way.project()
    return CompressedMarginals(
        columns=one_way.columns,
        codes=tuple(codes),
        counts=tuple(k.sum_by_code(p) for k, p in zip(codes, projected, strict=True)),
        variances=tuple(
            k.sum_by_code(np.full(len(p), v)) for k, p, v in zip(codes, projected, one_way.variances, strict=True)
        ),
        rows=one_way.rows,
    )


def keep_codes(one_way: OneWayMarginals) -> list[DomainCompression]:
    """Return a code a key; a missing value that the declaration drops, and that does not show, has none of its own."""
    made: list[DomainCompression] = []
    for column, merged in zip(one_way.columns, one_way.compress_domain(), strict=True):
        shared = column.dropped and int((merged.codes == merged.codes[-1]).sum()) > 1
        made.append(
            DomainCompression(np.minimum(np.arange(column.size), column.size - 1 - shared), column.size - shared)
        )
    return made


def independent_model(one_way: OneWayMarginals, tier: str) -> FittedModel:
    """Return the model in which columns are independent."""
    compressed = compress_columns(one_way, one_way.compress_domain())
    field = fit_field(compressed, {}, [1 << i for i in range(len(one_way.columns))], sweeps=0, kept={})
    return FittedModel(one_way, compressed, field, {}, tier)
