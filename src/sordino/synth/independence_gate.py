"""Whether dependence can be afforded: a decision from public facts and a noisy number of rows. Knows no data.

Independent columns want no more than one round of noise, and for few columns Laplace noise is less than Gaussian. A look at
pairs costs both. It pays where the noise of a pair's score is small beside the rows, and where what the one-way counts lose
by it is small: beside the pairs that are found, and beside what a sample of so many rows misses of its pairs anyway.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.measurement import LossShares

SCORES = 0.03  # of the loss, for each round of scores
_CLEAR, _CLEAR_FREE = (
    0.066,
    0.2,
)  # noise of a score, in shares of the rows, up to which a look pays; where it costs nothing
_FREE = 0.03  # of the noise of one-way counts: a look that costs less is free
_GAP, _GAP_IN_SAMPLES = 0.017, 0.48  # what a pair's distance may lose: of all, and of what a sample's pairs miss by
_MEAN = 0.8  # E|Z| of a standard normal
_ONCE = 0.35  # of the information of one round is in the three rounds that Laplace noise is drawn in


def one_way_noise(split: LossShares, sizes: Sequence[int]) -> float:
    """Return the sum of the mean absolute noise of all one-way counts, if they get the whole loss in one round.

    With the shares of `FitSession.measure_one_way` it is (sum n^(1/2))^2 times the mean of one table's for Laplace noise,
    and (sum n^(2/3))^(3/2) times it for Gaussian noise.
    """
    variance = split.variance(1.0, tables=1)
    if split.currency == "epsilon":
        return float(sum(math.sqrt(n) for n in sizes) ** 2) * math.sqrt(variance / 2.0)
    return _MEAN * math.pow(sum(math.pow(n, 2.0 / 3.0) for n in sizes), 1.5) * math.sqrt(variance)


def look_pays(
    alone: LossShares, looking: LossShares, columns: Sequence[EncodedColumn], *, pairs: int, rows: float
) -> bool:
    """Return whether to score pairs, at the loss `looking`, rather than spend the loss `alone` on one-way counts.

    The bounds were found on nine tables of 4 to 40 columns and 1,000 to 100,000 rows, at epsilon .05 to 10.
    """
    sizes = [c.size for c in columns]
    score = math.sqrt(looking.variance(SCORES, tables=pairs)) / rows
    least = one_way_noise(alone, sizes)
    kept = _ONCE if looking.currency == "epsilon" else 1.0 - SCORES
    loss = one_way_noise(looking, sizes) / math.sqrt(kept) - least
    if loss <= _FREE * least:
        return score <= _CLEAR_FREE
    gap = loss / (2.0 * rows * len(sizes))
    free = [math.sqrt(max(c.value_count - 1, 0)) for c in columns]
    missed = [a * b for a, b in itertools.combinations(free, 2)]
    sampled = _MEAN / 2.0 * sum(missed) / len(missed) / math.sqrt(rows)
    return score <= _CLEAR and gap <= _GAP and 2.0 * gap <= _GAP_IN_SAMPLES * sampled
