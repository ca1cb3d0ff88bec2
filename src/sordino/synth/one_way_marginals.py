"""One-way marginals: noisy counts over keys, projected to the simplex, and over fewer codes where noise hides keys.

Knows released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.synth.denoising import normal_scores, smooth
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
from sordino.synth.junction_tree import Pair
from sordino.synth.rule_cells import RuleCells, Structure
from sordino.synth.value_edges import weigh_runs

# E|Z| of a standard normal.
_MEAN = 0.8
# The most codes of a column, where its noise is large and where it is small.
_MOST_BINS = 64
_MOST_CODES = 512
# Codes of an ordered column in pairs: this times the root of rows over noise, the fewest, and for columns of values.
_SPREAD = 0.4
_SPREAD_OF_VALUES = 0.7
_FEWEST_RUNS = 8
# Deviations of noise in the mean count of a code, above the least number of codes.
_CLEAR = 25.0
# Deviations of noise below which a value's count cannot be distinguished from none.
_RARE = 2.0
# The same for missing values that the declaration drops: a table without any should show none. Laplace noise is above three
# deviations in one column of 140, so that a tenth of all fits of fourteen columns would draw blank cells, and above five in one
# of 2,400.
_ABSENT = 5.0
# The same for all of a tail of released runs: one of some sixty sums above it would put rows where none are.
_TAIL = 4.0
# The power of the distance from the median by which the share of such a tail beyond it falls: above 2 a column's deviation does
# not depend on how far its bounds were declared, and with 3 correlations that lie in two tails lost a twentieth more.
_FALLING = 4.0
# The share of the rows that the tails may hold.
_MOST_IN_TAILS = 0.25
# The variances of noise that are taken from the square of what such a tail holds.
_SHRUNKEN = 2.0
# The same for single values, and stretches of them, that are kept wherever they lie: of ten thousand one may be noise.
_STANDS_OUT = 4.5
# The same for a run of values that is denser than its column: below it an even column may be cut.
_DENSER = 5.0
# How many widths of runs are looked at, at most.
_WIDTHS = 128


@dataclass(frozen=True, slots=True)
class DomainCompression:
    """Which code each declared key has, and how many codes there are."""

    codes: Codes
    size: int

    @property
    def whole(self) -> bool:
        """Whether each key is a code of its own, in order."""
        return self.size == len(self.codes)

    def values_in(self, missing: bool) -> int:
        """Return how many codes hold values: all but the last, where that holds a missing value alone."""
        return self.size - (missing and int((self.codes == self.codes[-1]).sum()) == 1)

    def sum_by_code(self, counts: Floats) -> Floats:
        """Return counts by code."""
        sums: Floats = np.asarray(np.bincount(self.codes, weights=counts, minlength=self.size), dtype=np.float64)
        return sums


@dataclass(frozen=True, slots=True)
class OneWayMarginals:
    """The noisy one-way counts of all columns over their keys, with the variance of each column's cells.

    `rows` is the estimated number of rows, with its deviation; `projected` the counts, smoothed where a column is ordered,
    projected to the simplex of as many, and `left` about the variance that smoothing leaves. `rules` are those declared.
    """

    columns: tuple[EncodedColumn, ...]
    noisy: tuple[Floats, ...]
    variances: tuple[float, ...]
    rows: float
    rows_deviation: float
    projected: tuple[Floats, ...]
    left: tuple[float, ...]
    rules: RuleCells | None = None

    def with_columns(self, columns: Mapping[int, EncodedColumn]) -> OneWayMarginals:
        """Return the marginals with some columns, by place, of which more is known: their keys are the same."""
        return replace(self, columns=tuple(columns.get(i, c) for i, c in enumerate(self.columns)))

    def errors(self) -> Floats:
        """Return the expected distance of each column's counts from the truth, as a share of rows: E|noise| up to the count."""
        distances = [
            float(np.minimum(_MEAN * math.sqrt(v), c).sum()) / (2.0 * self.rows)
            for c, v in zip(self.projected, self.left, strict=True)
        ]
        return np.array(distances)

    def compress(
        self,
        codes: Sequence[DomainCompression] | None = None,
        *,
        pair_deviation: float | None = None,
        merge_rare: bool = False,
    ) -> CompressedMarginals:
        """Return the marginals over codes: those given, or as few as noise allows.

        That is the noise of each column and, for ordered ones, that of a cell of a pair (`pair_deviation`), if it is stated;
        with `merge_rare` categories whose count hides in the noise of a pair share a code as well.
        """
        if codes is None:
            codes = [self._compress(i, pair_deviation, merge_rare) for i in range(len(self.columns))]
        both = list(zip(codes, self.projected, self.left, strict=True))
        return CompressedMarginals(
            self.columns,
            tuple(codes),
            tuple(k.sum_by_code(p) for k, p, _ in both),
            tuple(k.sum_by_code(np.full(len(p), v)) for k, p, v in both),
            self.rows,
            Structure()
            if self.rules is None
            else self.rules.structure(self.columns, [k.codes for k in codes], self.projected),
            tuple(code_values(c, k, p) for c, (k, p, _) in zip(self.columns, both, strict=True)),
        )

    def _compress(self, place: int, pair_deviation: float | None, merge_rare: bool) -> DomainCompression:
        column = self.columns[place]
        deviation = math.sqrt(self.variances[place])
        most = most_codes(self.rows, deviation)
        if merge_rare and pair_deviation is not None:
            deviation = max(deviation, pair_deviation)
        if column.ordered and pair_deviation is not None:
            most = most_runs(self.rows, pair_deviation, values=not column.released)
        compressed = compress_domain(
            self.projected[place],
            deviation,
            middles=column.middles if column.ordered else None,
            missing=column.missing,
            dropped=column.dropped,
            most=most,
        )
        if self.rules is None:
            return compressed
        codes = self.rules.part(column, compressed.codes)
        return DomainCompression(codes, int(codes.max()) + 1)

    def named_codes(self, pair_deviation: float) -> list[DomainCompression]:
        """Return the codes of tables that a person names: a code a key, but fewer for long ordered columns, as noise allows.

        A missing value that the declaration drops, and that does not show, has none of its own.
        """
        identity: list[DomainCompression] = []
        for column, fewer in zip(self.columns, self.compress(pair_deviation=pair_deviation).codes, strict=True):
            if column.ordered and column.size > _MOST_BINS:
                identity.append(fewer)
                continue
            shared = column.dropped and int((fewer.codes == fewer.codes[-1]).sum()) > 1
            codes = np.minimum(np.arange(column.size), column.size - 1 - shared)
            identity.append(DomainCompression(codes, column.size - shared))
        return identity

    def shares_within(self, codes: Sequence[DomainCompression]) -> tuple[Floats, ...]:
        """Return each key's share of its code's count."""
        return tuple(
            shares_within(k.codes, p if c.ordered else n, 0.0 if c.ordered else v, k.sum_by_code(p), missing=c.missing)
            for c, k, n, v, p in zip(self.columns, codes, self.noisy, self.variances, self.projected, strict=True)
        )


@dataclass(frozen=True, slots=True)
class CompressedMarginals:
    """The columns with their codes: how rows are estimated to spread over each, and with what noise."""

    columns: tuple[EncodedColumn, ...]
    codes: tuple[DomainCompression, ...]
    counts: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    rows: float
    structure: Structure = field(default_factory=Structure)
    values: tuple[Floats, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each column."""
        return tuple(c.size for c in self.codes)

    def independent(self, columns: Sequence[int]) -> Floats:
        """Return the counts of some columns if they were independent but for what rules say."""
        table: Floats = np.array(self.rows, dtype=np.float64)
        for c in columns:
            table = np.multiply.outer(table, self.counts[c] / self.rows)
        return self.structure.apply(table, tuple(columns), [self.counts[c] for c in columns])

    def scores(self, column: int) -> tuple[Floats, ...]:
        """Return scores by which an ordered column may rise with another: each code's normal score, and its mean value.

        That of a missing value is 0. There are none for a column without an order.
        """
        encoded = self.columns[column]
        if not encoded.ordered:
            return ()
        counts = self.counts[column]
        values = self.codes[column].values_in(encoded.missing)
        rest = np.zeros(len(counts) - values)
        return np.append(normal_scores(counts[:values]), rest), np.append(self.values[column][:values], rest)

    def independent_variance(self, pair: Pair) -> Floats:
        """Return the variance of those counts that comes of the noise of the one-way counts."""
        a, b = pair
        first = np.multiply.outer(self.variances[a], np.square(self.counts[b] / self.rows))
        variance: Floats = first + np.multiply.outer(np.square(self.counts[a] / self.rows), self.variances[b])
        return variance

    def table(self, columns: Sequence[int]) -> ContingencyTable:
        """Return the question for the counts over the codes of some columns."""
        return ContingencyTable(tuple(self.columns[c].axis(self.codes[c].codes) for c in columns))


def code_values(column: EncodedColumn, codes: DomainCompression, projected: Floats) -> Floats:
    """Return the mean step of each code of an ordered column, from its middle, in half of its range; 0 for another column."""
    if not column.ordered:
        return np.zeros(codes.size)
    middles = column.middles
    middles = (middles - middles.mean()) / max(float(np.ptp(middles)) / 2.0, 1e-9)
    steps = np.append(middles, np.zeros(column.size - len(middles)))
    # a key without rows counts for next to nothing, unless its code has no other
    weights = projected + 1e-9
    means: Floats = codes.sum_by_code(weights * steps) / codes.sum_by_code(weights)
    return means


def estimate_one_way(
    columns: Sequence[EncodedColumn],
    noisy: Sequence[Floats],
    variances: Sequence[float],
    rules: RuleCells | None = None,
) -> OneWayMarginals:
    """Return the marginals; their sums, weighted by how little noise each has, estimate the number of rows, at least 1.

    Every table counts every row, since a missing value is a key of its own.
    """
    weights = [1.0 / (v * len(c)) for c, v in zip(noisy, variances, strict=True)]
    sums = [float(c.sum()) for c in noisy]
    rows = max(sum(s * w for s, w in zip(sums, weights, strict=True)) / sum(weights), 1.0)
    less = [_denoise(*one) for one in zip(columns, noisy, variances, strict=True)]
    projected = tuple(
        _project_shown(*one, rows, 1.0 / sum(weights))
        for one in zip(columns, noisy, variances, (c for c, _ in less), strict=True)
    )
    left = tuple(v for _, v in less)
    return OneWayMarginals(
        tuple(columns), tuple(noisy), tuple(variances), rows, 1.0 / math.sqrt(sum(weights)), projected, left, rules
    )


def _denoise(column: EncodedColumn, noisy: Floats, variance: float) -> tuple[Floats, float]:
    """Return the counts of an ordered column smoothed, its missing value apart, and about the variance left in each."""
    if not column.ordered:
        return noisy, variance
    last = len(noisy) - 1 if column.missing else len(noisy)
    smoothed, left = smooth(noisy[:last], variance)
    return np.concatenate([smoothed, noisy[last:]]), left


def _project_shown(
    column: EncodedColumn, noisy: Floats, variance: float, counts: Floats, rows: float, rows_variance: float
) -> Floats:
    """Return the counts projected to the simplex; of an ordered column, no rows go to values where noise alone shows.

    The few rows that noise would put there lie farthest from all others: they would double the column's deviation. Of a wide
    column, what the runs of a tail show together is spread over it (`spread_tail`).
    """
    if not column.ordered or variance <= 0:
        return project(counts, rows)
    last = len(noisy) - 1 if column.missing else len(noisy)
    deviation = math.sqrt(variance)
    shown = np.ones(len(noisy), dtype=bool)
    tails = np.zeros(len(noisy))
    if column.released:
        # Runs that follow the rows hold many each.
        from_below, from_above = (_hidden_tail(c, deviation) for c in (noisy[:last], noisy[:last][::-1]))
        end = last - from_above
        if from_below < end:
            shown[:from_below] = False
            shown[end:last] = False
            lows, highs = column.runs
            inside = np.cumsum(np.maximum(counts[from_below:end], 0.0))
            middle = from_below + min(int(np.searchsorted(inside, inside[-1] / 2.0)), end - from_below - 1)
            median = (lows[middle] + highs[middle]) / 2.0
            tails[:from_below] = spread_tail(
                noisy[:from_below], median - highs[:from_below], median - lows[:from_below] + 1, variance
            )
            tails[end:last] = spread_tail(noisy[end:last], lows[end:] - median, highs[end:] + 1 - median, variance)
            tails *= min(_MOST_IN_TAILS * rows / max(float(tails.sum()), 1e-9), 1.0)
    elif last > 1:
        first, end = _shown_run(noisy, last, int(np.argmax(counts[:last])), variance, rows, rows_variance)
        shown[:last] = noisy[:last] > _STANDS_OUT * deviation
        shown[first:end] = True
    projected = np.zeros(len(noisy))
    projected[shown] = project(counts[shown], rows - float(tails.sum()))
    with_tails: Floats = projected + tails
    return with_tails


def spread_tail(noisy: Floats, near: Floats, far: Floats, variance: float) -> Floats:
    """Return the rows in each run of a tail that hides in noise, run by run: those of a power law, as many as all runs show.

    A run that reaches from `near` to `far` of the median has the part w of the tail's rows, in proportion to
    near^-4 - far^-4. Runs with independent noise of one variance v show T = sum w n / sum w^2 rows, by least squares, with the
    variance v / sum w^2: most of a tail lies in the runs at its near end, and those beyond add little noise. T is drawn to 0
    as a positive-part James-Stein estimate is, so that tails of noise hold next to nothing.
    """
    if not len(noisy):
        return noisy
    # Runs at the median's own side are at least half a step away.
    scale = max(float(near.min()), 0.5)
    parts = np.power(np.maximum(near, 0.5) / scale, -_FALLING) - np.power(np.maximum(far, 0.5) / scale, -_FALLING)
    parts /= max(float(parts.sum()), 1e-300)
    information = max(float(parts @ parts), 1e-300)
    rows = float(parts @ noisy) / information
    if not rows > 0.0:
        return np.zeros(len(noisy))
    tail: Floats = max(rows - _SHRUNKEN * variance / (information * rows), 0.0) * parts
    return tail


def _hidden_tail(counts: Floats, deviation: float) -> int:
    """Return how many counts from the first on hold no more than noise does, one by one and summed."""
    noise = deviation * np.sqrt(np.arange(1, len(counts) + 1))
    hidden = (np.cumsum(counts) <= _TAIL * noise) & (counts <= _TAIL * deviation)
    return len(hidden) if hidden.all() else int(hidden.argmin())


def _shown_run(
    noisy: Floats, last: int, mode: int, variance: float, rows: float, rows_variance: float
) -> tuple[int, int]:
    """Return the run of values, by its first and its end, that holds all rows as far as noise can tell.

    It is the likeliest by exp(-T^2 / 2 Var T) / width, T being the rows outside if above 0 (`_rows_outside`): no width is
    favored by a scale of its own. It holds the `mode`, and a part of each stretch of values that stands out. All values, up to
    `last`, are taken where no run is clearly denser than the column. A missing value, beyond `last`, counts as inside.
    """
    first_of_last, last_of_first = _outermost_stretches(noisy[:last], math.sqrt(variance))
    sums = np.concatenate([[0.0], np.cumsum(noisy[:last])])
    total = float(noisy.sum())
    missing = float(noisy[last:].sum())
    best = (math.log(last), 0, last)
    # Widths that differ by a share of themselves, as their likelihoods do.
    for width in np.unique(np.geomspace(1.0, last, _WIDTHS).astype(np.int64))[:-1].tolist():
        lowest = max(mode + 1 - width, first_of_last + 1 - width, 0)
        starts = np.arange(lowest, min(mode, last_of_first, last - width) + 1)
        if not len(starts):
            continue
        share = (width + len(noisy) - last) / len(noisy)
        excess = sums[starts + width] - sums[starts] + missing - share * total
        excess_variance = share * (1.0 - share) * len(noisy) * variance
        outside, outside_variance = _rows_outside(excess, excess_variance, share, rows, rows_variance)
        cost = np.square(np.maximum(outside, 0.0)) / (2.0 * outside_variance) + math.log(width)
        cost = np.where(excess > _DENSER * math.sqrt(excess_variance), cost, math.inf)
        at = int(np.argmin(cost))
        best = min(best, (float(cost[at]), int(starts[at]), int(starts[at]) + width))
    return best[1:]


def _rows_outside(
    excess: Floats, excess_variance: float, share: float, rows: float, rows_variance: float
) -> tuple[Floats, float]:
    """Return the best linear estimate of the rows outside of a run of values, and its variance.

    Of n counts with the sum S and independent noise of variance v, the run has k, with the sum B; `share` is s = k / n, and the
    `excess` E = B - s S varies by s (1 - s) n v. R, the rows by the counts of all columns, varies by V. The estimate is
    (1 - s) R - E. As E and S are independent, and R depends on S alone, it varies by (1 - s)^2 V + s (1 - s) n v. It is the one
    by least squares (Gauss, Markov), from the counts and what other columns say of the rows: where n is large and k is small,
    that is about k v + V, while the counts outside have the noise of n - k.
    """
    outside = (1.0 - share) * rows - excess
    return outside, (1.0 - share) ** 2 * rows_variance + excess_variance


def _outermost_stretches(counts: Floats, deviation: float) -> tuple[int, int]:
    """Return the first of the last, and the last of the first, stretch of several counts whose sum stands out."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    first_of_last = -1
    last_of_first = len(counts)
    width = 2
    while 2 * width <= len(counts):
        starts = np.flatnonzero(sums[width:] - sums[:-width] > _STANDS_OUT * deviation * math.sqrt(width))
        if len(starts):
            first_of_last = max(first_of_last, int(starts[-1]))
            last_of_first = min(last_of_first, int(starts[0]) + width - 1)
        width *= 2
    return first_of_last, last_of_first


def combine_one_way(first: OneWayMarginals, second: OneWayMarginals) -> OneWayMarginals:
    """Return the combination of two independent measurements with the least variance."""
    noisy = []
    variances = []
    for a, va, b, vb in zip(first.noisy, first.variances, second.noisy, second.variances, strict=True):
        noisy.append((a * vb + b * va) / (va + vb))
        variances.append(va * vb / (va + vb))
    return estimate_one_way(first.columns, noisy, variances, first.rules)


def project(counts: Floats, total: float) -> Floats:
    """Return the nearest counts, in least squares, that are not negative and sum to `total`.

    Clipping each cell at zero instead adds up to .4 deviations of noise to every empty cell. Sort-based (Held, Wolfe,
    Crowder 1974).

    >>> project(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
    [2.5, 0.0, 1.5]
    """
    flat = np.asarray(counts, dtype=np.float64).ravel()
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - max(float(total), 0.0)) / np.arange(1, len(flat) + 1)
    positive = int(np.count_nonzero(falling > excess))
    nearest: Floats = np.maximum(flat - excess[max(positive, 1) - 1], 0.0).reshape(np.shape(counts))
    return nearest


def most_codes(rows: float, deviation: float) -> int:
    """Return how many codes a column may have: as many as leave a code's mean count well above the noise, within bounds."""
    return int(min(max(rows / (_CLEAR * max(deviation, 1e-9)), _MOST_BINS), _MOST_CODES))


def most_runs(rows: float, deviation: float, *, values: bool) -> int:
    """Return how many codes an ordered column may have in pairs whose cells have noise of this deviation.

    Of k codes, two columns that rise together fill k cells with rows / k each, and noise fills k^2: both count alike where
    k^2 is in proportion to rows / deviation. A column whose codes are single `values` loses less by fewer rows a code.
    """
    spread = _SPREAD_OF_VALUES if values else _SPREAD
    return int(min(max(spread * math.sqrt(rows / max(deviation, 1e-9)), _FEWEST_RUNS), _MOST_CODES))


def compress_domain(
    counts: Floats,
    deviation: float,
    *,
    middles: Floats | None,
    missing: bool,
    dropped: bool = False,
    most: int = _MOST_BINS,
) -> DomainCompression:
    """Return codes for the keys of a column from its projected noisy counts.

    Ordered columns are cut into runs of keys, each with a mass above the noise of its sum; of others the keys with counts
    below two deviations share one code. `missing` says that the last key is a missing value, which keeps its own code; one
    that the declaration drops (`dropped`) does so only where its count is above five, see `shares_within`.
    """
    last = len(counts) - 1 if missing else len(counts)
    if last <= 2:
        codes = np.arange(last)
    else:
        shown = counts[:last]
        codes = _frequent(shown, deviation, most) if middles is None else _runs(shown, middles, deviation, most)
    if missing:
        has_code = last == 0 or not dropped or counts[last] >= _ABSENT * deviation
        codes = np.append(codes, codes[-1] if not has_code else codes.max() + 1 if last else 0)
    return DomainCompression(codes, int(codes.max()) + 1)


def shares_within(codes: Codes, noisy: Floats, variance: float, totals: Floats, *, missing: bool) -> Floats:
    """Return for each key its share of its code's count: noisy counts shrunken to their mean, then projected.

    A missing value, the last key, that shares a code does not show above the noise: it has no share of it.
    """
    shares = np.ones(len(codes), dtype=np.float64)
    for code in np.flatnonzero(np.bincount(codes) > 1).tolist():
        members = np.flatnonzero(codes == code)
        if missing and members[-1] == len(codes) - 1:
            shares[members[-1]] = 0.0
            members = members[:-1]
        counts = noisy[members]
        if len(members) > 1 and variance == 0.0 and counts.sum() > 0:
            # They are projected already: what a missing value beside them was given must not go to keys without rows.
            shares[members] = counts / counts.sum()
        elif len(members) > 1:
            goal = max(float(totals[code]), 1e-9)
            shares[members] = project(_shrink(noisy[members], variance), goal) / goal
    return shares


def _shrink(counts: Floats, variance: float) -> Floats:
    """Return counts drawn towards their mean by as much as their noise explains (James & Stein 1961), same total."""
    mean = counts.mean()
    spread = float(np.square(counts - mean).sum())
    factor = 0.0 if spread <= 0 else max(0.0, 1.0 - max(len(counts) - 3, 1) * variance / spread)
    shrunken: Floats = mean + factor * (counts - mean)
    return shrunken


def _runs(counts: Floats, middles: Floats, deviation: float, most: int) -> Codes:
    """Return a code a run of keys of about equal weight (`weigh_runs`), each with a mass above the noise of its sum."""
    weights = weigh_runs(counts, middles)
    codes = np.zeros(len(counts), dtype=np.int64)
    left = 1.0
    mass = float(counts[0])
    weight = float(weights[0])
    width = 1
    code = 0
    for i in range(1, len(counts)):
        goal = left / max(most - code, 1)
        # A key that weighs as much as a run has a code of its own.
        full = weight >= goal or weight + weights[i] / 2.0 > goal
        if full and mass >= _RARE * deviation * math.sqrt(width) and code + 1 < most:
            left -= weight
            mass = weight = 0.0
            width = 0
            code += 1
        codes[i] = code
        mass += float(counts[i])
        weight += float(weights[i])
        width += 1
    # The tail alone is noise: join it to the run before.
    if code > 0 and mass < _RARE * deviation * math.sqrt(max(width, 1)):
        codes[codes == code] = code - 1
    return codes


def _frequent(counts: Floats, deviation: float, most: int) -> Codes:
    frequent = np.flatnonzero(counts >= _RARE * deviation)
    if len(frequent) > most - 1:
        frequent = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")[: most - 1]])
    if len(frequent) >= len(counts) - 1 and len(counts) <= most:
        return np.arange(len(counts))
    codes = np.full(len(counts), len(frequent), dtype=np.int64)
    codes[frequent] = np.arange(len(frequent))
    return codes
