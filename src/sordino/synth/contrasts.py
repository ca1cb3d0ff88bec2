"""Random tables asked to find how wrong a model is: the scale of each order of its errors, by Bayes' rule. Knows no data.

A part of the loss is kept for tables of three random columns, each cut in two at random. All eight cells of one move by one
row in all, so a table informs about three columns, three pairs and a triple at the price of one question.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
from sordino.synth.error_law import ColumnNoise, ErrorLaw
from sordino.synth.fitted_model import FittedModel
from sordino.synth.inference import joint
from sordino.synth.markov_random_field import marginal
from sordino.synth.measurement import FitSession, MeasuredCounts, Question, rake_pairs

# The fewest and the most tables that are asked.
_FEWEST = 8
_MOST = 40
# Distinct sets of columns: each is a scan of its own.
_SETS = 20
# Columns of a table.
_ORDER = 3
# As many tables are asked as leave the noise of eight cells this many times the rows for its variance.
_CLEAR = 5.0
# Contrasts of each order that are taken of released tables.
_RELEASED = 120
# The least share of the rows on either side of a cut, in the scale of a contrast.
_EDGE = 1e-3
# Contrasts below which measured and other pairs are taken together.
_FEW = 6
_NORMAL = NormalDist()
_CUTS = np.linspace(0.0, 4.0, 81)
# E[max(Z - cut, 0)] for each cut.
_BEYOND = np.array([_NORMAL.pdf(c) - c * (1.0 - _NORMAL.cdf(c)) for c in _CUTS.tolist()])
# Deviations at which a count is taken to be none of those that are noise alone.
_LARGE = 2.0

# The columns; the square, the variance per unit of scale, and the variance of the noise.
Contrast = tuple[tuple[int, ...], tuple[float, float, float]]


def measure_errors(session: FitSession, fitted: FittedModel, within: Sequence[Floats]) -> ErrorLaw:
    """Return the law of the model's errors, spending all that is left on random tables.

    A contrast of a table, the sum of its residuals times a product of standardised indicators, has the variance
    scale * unit + noise, with the noise of asking known. Each order's scale is its mean under the likelihood of its
    contrasts as normal: over a prior log-uniform between half the rows (what a smooth model of a sample misses) and their
    square, or, for columns' own counts, whose noise is known, one about 1 with a flat tail above.

    Where a rule joins the columns of a contrast, the model is taken as answers take it: held to the rule (`_ruled`). Such pairs
    have a scale of their own where no table was measured of them: what the rule leaves open is not what other pairs miss.
    """
    columns = tuple(_column_noise(fitted, within, c) for c in range(len(fitted.compressed.columns)))
    contrasts = list(_contrasts(session, fitted, within, columns))
    rows = fitted.compressed.rows
    measured = frozenset(fitted.measured)
    column_scales = np.geomspace(0.25, 64.0, 80)
    about = np.maximum(np.exp(-0.5 * np.square(np.log(column_scales) / math.log(1.6))), 0.02 / np.sqrt(column_scales))
    wide = np.geomspace(0.5 * rows, max(rows, 2.0) ** 2, 120)
    orders: dict[int, list[Contrast]] = {n: [c for c in contrasts if len(c[0]) == n] for n in (1, 2, 3)}
    measured_pairs = [c for c in orders[2] if any(set(c[0]) <= set(m) for m in measured)]
    rules = () if session.rules is None else session.rules.joined([c.name for c in fitted.compressed.columns])
    unmeasured = [c for c in orders[2] if c not in measured_pairs]
    joined_pairs = [c for c in unmeasured if any(rule.issuperset(c[0]) for rule in rules)]
    other_pairs = [c for c in unmeasured if c not in joined_pairs]
    flat = np.ones(len(wide))
    measured_pairs, other_pairs, joined_pairs = (
        one if len(one) >= _FEW else orders[2] for one in (measured_pairs, other_pairs, joined_pairs)
    )
    return ErrorLaw(
        columns,
        measured,
        own=_scale(orders[1], column_scales, about),
        measured=_scale(measured_pairs, wide, flat),
        unmeasured=_scale(other_pairs, wide, flat),
        higher=_scale(orders[3], wide, flat),
        rows=fitted.one_way.rows_deviation,
        joined=_scale(joined_pairs, wide, flat) if rules else None,
    )


def infer_errors(
    fitted: FittedModel, counts: MeasuredCounts, within: Sequence[Floats], rows_deviation: float, rng: Rng
) -> ErrorLaw:
    """Return the law of the errors of a model of released tables: no loss is left that could ask random tables.

    Contrasts are taken of the released tables instead, between random halves of their columns. Against the model, they say how
    far it lies from what it was fitted to; against independence, how far columns depend on each other, which is what a model
    misses of columns that no table holds together. Of triples the same is taken, and where no table has three columns, triples
    are taken to add no more than pairs.
    """
    columns = tuple(_column_noise(fitted, within, c) for c in range(len(fitted.compressed.columns)))
    against_model: list[Contrast] = []
    against_independence: list[Contrast] = []
    orders = {order: _tables_of(counts, order) for order in (2, 3)}
    for several in orders.values():
        for chosen, _ in zip(itertools.cycle(several), range(_RELEASED), strict=False):
            halves = [_half(fitted.compressed.columns[c], columns[c].share, rng) for c in chosen]
            sides = [_standard_half(columns[c].share, half) for c, half in zip(chosen, halves, strict=True)]
            values = functools.reduce(np.multiply.outer, sides)
            known = counts.estimate_agreeing(Question(chosen, halves, values, None, 1))
            # A column of one key has no halves.
            if known is not None and all(half.any() for half in halves):
                released = float(known[0][0])
                deviation = float(known[1][0])
                model = float((_model(fitted, within, chosen, halves) * values).sum())
                against_model.append((chosen, ((released - model) ** 2, 1.0, deviation**2)))
                against_independence.append((chosen, (released**2, 1.0, deviation**2)))
    rows = fitted.compressed.rows
    scales = np.geomspace(0.5 * rows, max(rows, 2.0) ** 2, 120)
    flat = np.ones(len(scales))
    of_order = {n: [c for c in against_independence if len(c[0]) == n] for n in (2, 3)}
    unmeasured = _scale(of_order[2], scales, flat)
    return ErrorLaw(
        columns,
        frozenset(counts.tables),
        own=1.0,
        measured=_scale([c for c in against_model if len(c[0]) == 2], scales, flat),
        unmeasured=unmeasured,
        higher=_scale(of_order[3], scales, flat) if of_order[3] else unmeasured,
        rows=rows_deviation,
    )


def _tables_of(counts: MeasuredCounts, order: int) -> list[tuple[int, ...]]:
    """Return the sets of so many columns that a released table holds, each once."""
    held = {part for table in counts.tables for part in itertools.combinations(table, order)}
    return sorted(held)


def _standard_half(share: Floats, half: Codes) -> Floats:
    """Return the standardised indicator of a half of the keys."""
    inside = float((share * half).sum())
    return _standard(min(max(inside, _EDGE), 1.0 - _EDGE))


def _scale(contrasts: Sequence[Contrast], grid: Floats, prior: Floats) -> float:
    """Return the posterior root mean square of a scale."""
    squares, units, noises = np.array([numbers for _, numbers in contrasts]).reshape(-1, 3).T
    variance = np.maximum(np.outer(grid, units) + noises, 1e-12)
    log = np.log(prior) - 0.5 * (np.log(variance) + squares / variance).sum(axis=1)
    weights = np.exp(log - log.max())
    # The root of the mean square: intervals cover as stated over what the contrasts leave open of the scale.
    return math.sqrt(float((weights * np.square(grid)).sum() / weights.sum()))


def _contrasts(
    session: FitSession, fitted: FittedModel, within: Sequence[Floats], columns: Sequence[ColumnNoise]
) -> Iterator[Contrast]:
    encoded = fitted.compressed.columns
    clear = _CLEAR * fitted.compressed.rows / (2**_ORDER * session.variance())
    sets = _sets(len(encoded), min(max(int(clear), _FEWEST), _MOST), session.rng)
    random_tables = [(chosen, [_half(encoded[c], columns[c].share, session.rng) for c in chosen]) for chosen in sets]
    tables = [ContingencyTable(tuple(encoded[c].axis(h) for c, h in zip(*one, strict=True))) for one in random_tables]
    answers = session.measure(tables, session.left)
    for (chosen, halves), table in zip(random_tables, answers, strict=True):
        model = _model(fitted, within, chosen, halves)
        residual = table.cells - model
        shares = [float((columns[c].share * h).sum()) for c, h in zip(chosen, halves, strict=True)]
        sides = [_standard(min(max(p, _EDGE), 1.0 - _EDGE)) for p in shares]
        for order in range(1, len(chosen) + 1):
            for part in itertools.combinations([i for i, n in enumerate(model.shape) if n == 2], order):
                weights = np.ones(())
                for i, n in enumerate(model.shape):
                    weights = np.multiply.outer(weights, sides[i] if i in part else np.ones(n))
                unit = 1.0
                if order == 1:
                    of_sides = columns[chosen[part[0]]].by_class(halves[part[0]], 2)
                    unit = float(of_sides.spread(sides[part[0]], np.arange(2), np.zeros(2, dtype=np.int64), 1)[0])
                columns_of_part = tuple(chosen[i] for i in part)
                missed = float((residual * weights).sum())
                ruled = _ruled(fitted, within, columns_of_part, [halves[i] for i in part])
                if ruled is not None:
                    of_part = functools.reduce(np.multiply.outer, [sides[i] for i in part])
                    missed += float((model * weights).sum()) - float((ruled * of_part).sum())
                square = missed**2
                noise = table.variance * float(np.square(weights).sum())
                yield columns_of_part, (square, unit, noise)


def _standard(share: float) -> Floats:
    """Return the indicator of a share of the rows, less its mean, in its own deviations: outside, inside."""
    return np.array([-share, 1.0 - share]) / math.sqrt(share * (1.0 - share))


def _column_noise(fitted: FittedModel, within: Sequence[Floats], column: int) -> ColumnNoise:
    """Return what is known of a column's counts.

    Counts are cut at 0 after a common amount is taken off, so that they keep their sum: where many keys hold noise alone,
    the large ones lose `cut` each, and the others gain as much together. Keys of an ordered column that were given no rows may
    hold some: as many, together, as the noise of the keys that have rows.
    """
    compressed = fitted.compressed
    one_way = fitted.one_way
    projected = one_way.projected[column]
    noise = math.sqrt(one_way.variances[column])
    home = fitted.field.tree.require_home((column,), compressed.sizes)
    modeled = marginal(fitted.field.tables[home], fitted.field.tree.cliques[home], (column,))
    codes = compressed.codes[column]
    counts = modeled[codes.codes] * within[column]
    # By as much as measured tables moved a code's count, the counts that the model was fitted to lie from the column's own, and
    # have less noise: the whole code's, so one key of several has the less of it.
    sharper = compressed.counts[column] - codes.sum_by_code(projected)
    own = codes.sum_by_code(np.full(len(projected), one_way.left[column]))
    saved = 1.0 - np.minimum(compressed.variances[column] / np.maximum(own, 1e-12), 1.0)
    noise_left = 1.0 - (saved / np.bincount(codes.codes, minlength=codes.size))[codes.codes]
    large = projected > _LARGE * noise
    lean = np.zeros(len(projected))
    if not large.all():
        gained = _BEYOND * float((~large).sum())
        at = int(np.argmin(np.abs(gained - _CUTS * float(large.sum()))))
        lean = np.where(large, -_CUTS[at], _BEYOND[at]) * noise
    shown = projected > 0
    without = int(np.count_nonzero(~shown))
    least = 0.25 / len(projected)
    hidden = 0.0
    if one_way.columns[column].ordered and without:
        hidden = noise**2 * min((len(projected) - without) / without, 1.0)
        least = max(least, math.sqrt(hidden / without))
    return ColumnNoise(
        share=np.maximum(counts / max(float(counts.sum()), 1e-9), least / compressed.rows),
        variance=np.where(shown, noise**2 * noise_left, hidden),
        lean=lean,
        drift=counts - projected - sharper[codes.codes] * within[column],
    )


def _sets(columns: int, count: int, rng: Rng) -> list[tuple[int, ...]]:
    """Return `count` sets of three columns (all, where there are fewer), distinct while there are others to take."""
    order = min(_ORDER, columns)
    distinct = min(count, _SETS, math.comb(columns, order))
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < distinct:
        places = np.argsort(rng.uniform_doubles(columns), kind="stable")[:order]
        sets[tuple(sorted(places.tolist()))] = None
    return [one for one, _ in zip(itertools.cycle(sets), range(count), strict=False)]


def _half(column: EncodedColumn, share: Floats, rng: Rng) -> Codes:
    """Return 0 or 1 for each key: a random run of an ordered column, or random keys, with about half of the rows.

    `share` is the keys' of the rows; a column of one key has no halves. The noise of a contrast grows with 1 / (p (1 - p))
    for each column of which a share p is inside, so runs of a long tail's keys, whatever rows these have, tell nothing.
    """
    inside = np.zeros(column.size, dtype=np.int64)
    if column.size == 1:
        return inside
    order = np.arange(column.size)
    if not column.ordered:
        order = np.argsort(rng.uniform_doubles(column.size), kind="stable")
    middles = np.cumsum(share[order]) - share[order] / 2.0
    start = float(rng.uniform_doubles(1)[0]) * float(share.sum()) / 2.0
    # Neighboring middles are half of all apart at most, and the outermost at least: some keys are inside, some outside.
    inside[order] = (middles >= start) & (middles < start + float(share.sum()) / 2.0)
    return inside


def _model(fitted: FittedModel, within: Sequence[Floats], chosen: tuple[int, ...], halves: Sequence[Codes]) -> Floats:
    """Return the model's counts of a question's cells, outside and inside of each column's half."""
    classes = _half_shares(fitted, within, chosen, halves)
    cells = joint(fitted.field, chosen, fitted.compressed.sizes, classes)
    return rake_pairs(cells, chosen, classes, fitted.outside, _known(fitted))


def _ruled(
    fitted: FittedModel, within: Sequence[Floats], chosen: tuple[int, ...], halves: Sequence[Codes]
) -> Floats | None:
    """Return the same where a rule joins the columns, that rule held; None where none does, or a table has them together.

    A fitted table holds to rules already; columns that none has together are held to them in answers, and so are they here.
    """
    compressed = fitted.compressed
    structure = compressed.structure
    joined = structure.within(chosen) if len(chosen) == 2 else [c for c in [chosen] if c in structure.shares]
    if len(chosen) < 2 or not joined or fitted.field.tree.home(chosen, compressed.sizes) is not None:
        return None
    sizes = compressed.sizes
    table = joint(fitted.field, chosen, sizes, [np.eye(sizes[c]) for c in chosen])
    cells = structure.apply(table, chosen, [compressed.counts[c] for c in chosen])
    for axis, shares in enumerate(_half_shares(fitted, within, chosen, halves)):
        cells = np.moveaxis(np.tensordot(cells, shares, axes=(axis, 0)), -1, axis)
    return rake_pairs(cells, chosen, _half_shares(fitted, within, chosen, halves), fitted.outside, _known(fitted))


def _known(fitted: FittedModel) -> list[tuple[int, ...]]:
    """Return the tables measured, and those that rules are about, that a clique holds."""
    tables = [*fitted.measured, *fitted.compressed.structure.shares]
    return [columns for columns in tables if fitted.field.tree.home(columns, fitted.compressed.sizes) is not None]


def _half_shares(
    fitted: FittedModel, within: Sequence[Floats], chosen: Sequence[int], halves: Sequence[Codes]
) -> list[Floats]:
    """Return, by column, the share of each code outside and inside of its half."""
    classes: list[Floats] = []
    for c, half in zip(chosen, halves, strict=True):
        codes = fitted.compressed.codes[c]
        inside = codes.sum_by_code(within[c] * half)
        sides = [codes.sum_by_code(within[c]) - inside, inside] if half.any() else [codes.sum_by_code(within[c])]
        classes.append(np.stack(sides, axis=1))
    return classes
