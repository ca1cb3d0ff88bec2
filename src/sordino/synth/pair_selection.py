"""Which pairs and triples are measured: selection, and the gate of independence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from sordino.synth.encoded_column import EncodedColumn, Floats
from sordino.synth.fitted_model import Measured
from sordino.synth.junction_tree import Pair, grow_clique
from sordino.synth.markov_random_field import MarkovRandomField, marginal
from sordino.synth.measurement import FitSession, LossShares, Step
from sordino.synth.one_way_marginals import CompressedMarginals
from sordino.synth.sampler import draw_codes, spacings

# ---- Which pairs of columns to measure: noisy scores, what they mean, what a measurement would gain, and the
# measurements
#
# A score is the l1 distance between a pair's table and the model's, less what sampling and the noise of the model's own
# margins account for. All here is post-processing of released scores. Knows no data.

Columns = tuple[int, ...]

# E|Z| of a standard normal, about sqrt(2 / pi).
_MEAN = 0.8
_THRESHOLDS = np.arange(0.5, 4.25, 0.25)
_LOG_FACTORIALS = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, 1002.0)))])
_SAMPLE = 200_000
# The part of the gain that counts where no clique can hold a pair: it shapes the rows, but not what other tables say of it.
_OUTSIDE = 0.4
# How much more a pair counts that has a column to predict: that column's relation to each other one is what is asked for.
_PREDICTED = 8.0
# What one number, how much two columns with an order rise together, counts for beside the distance of the pair: as much, more
# pairs than that cost the strong ones their distance.
_RISING = 1.0
# E|x y| of two independent standard normals, 2 / pi: a correlation of r among n rows is a distance of about (2 / pi) r n.
_MOMENT = 2.0 / math.pi
# Larger correlations are farther than that: of two normal columns, each cut into eight parts of equal mass, the distance from
# independence in shares of the rows.
_CORRELATIONS = np.array([0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])
_DISTANCES = np.array([0.0, 0.129, 0.276, 0.364, 0.462, 0.578, 0.734, 0.967, 1.163, 1.288])

# No rows are all out of place, as far as a noisy score tells.
_FARTHEST = 1.95

# The share of the rows by which a field must pass what a pair's score allows, before the pair is restrained.
_OVERREACHING = 0.01


def score_independence(
    session: FitSession, compressed: CompressedMarginals, pairs: Sequence[Pair], share: Fraction
) -> tuple[Floats, float]:
    """Return the scores of the pairs against independent columns, and the deviation of the scores."""
    models = [compressed.independent(p) for p in pairs]
    # One at a time: those of all pairs of a hundred columns take 70 MB.
    margins = (compressed.independent_variance(p) for p in pairs)
    return score_pairs(session, compressed, pairs, models, share, margins=margins)


def score_pairs(
    session: FitSession,
    compressed: CompressedMarginals,
    pairs: Sequence[Columns],
    models: Sequence[Floats],
    share: Fraction,
    *,
    margins: Iterable[Floats | float] | None = None,
) -> tuple[Floats, float]:
    """Return how much farther each pair's table lies from its model than noise explains, and the deviation of the scores.

    `margins` are the variances of the models' own cells.
    """
    raw, variance = session.measure_distances([compressed.table(p) for p in pairs], models, share)
    floors = [mean_distance(m, v) for m, v in zip(models, margins or [0.0] * len(models), strict=True)]
    return raw - np.array(floors), math.sqrt(variance)


def measure_pairs(
    session: FitSession,
    compressed: CompressedMarginals,
    pairs: Sequence[Columns],
    share: Fraction,
    known: Measured,
    distances: Sequence[float] = (),
) -> Measured:
    """Return noisy tables of the pairs, or of more columns, with more of the share for those with more cells above the noise.

    `distances` are those from independence, as scored, one a pair, where they are known: rows of a far pair lie in few cells.
    """
    each = session.variance(share)
    floor = _MEAN * math.sqrt(each * max(len(pairs), 1))
    apart = distances or [0.0] * len(pairs)
    cells = [_cells_above(compressed.independent(p), floor, d) for p, d in zip(pairs, apart, strict=True)]
    weights = allocation(cells, [1.0 / known[p].variance if p in known else 0.0 for p in pairs], 1.0 / each)
    tables = session.measure_weighted([compressed.table(p) for p in pairs], share, weights)
    return {pairs[i]: counts for i, counts in tables.items()}


def _cells_above(means: Floats, floor: float, score: float) -> float:
    """Return how many cells of a pair of this score are expected to pass the floor.

    By their means, or, where that is more, as many as hold the rows of columns that follow each other (`few_cells`): of two
    columns of 300 values no mean may pass.
    """
    above = float((means > floor).sum())
    if (few := few_cells(means, score)) is None:
        return above
    share, away = few
    return max(above, (1.0 - share / 2.0) * float(np.exp(-floor / away[away > floor / 30.0]).sum()))


def score_ranges(
    compressed: CompressedMarginals, pairs: Sequence[Pair], scores: Floats, deviation: float
) -> dict[Pair, tuple[float, float]]:
    """Return for each pair the l1 distance from independence that its score shows, and the most that its noise allows.

    What sampling adds to a distance of its own, e, adds up in squares: a score s above it is a distance sqrt(s (s + 2 e)).
    """
    ranges: dict[Pair, tuple[float, float]] = {}
    for pair, score in zip(pairs, scores.tolist(), strict=True):
        floor = mean_distance(compressed.independent(pair), compressed.independent_variance(pair))
        shown, most = (math.sqrt(s * (s + 2.0 * floor)) for s in (max(score, 0.0), max(score, 0.0) + deviation))
        ranges[pair] = shown, most
    return ranges


def restrain_pairs(
    session: FitSession,
    compressed: CompressedMarginals,
    field: MarkovRandomField,
    ranges: Mapping[Pair, tuple[float, float]],
) -> dict[Pair, Floats]:
    """Return tables of the pairs outside of all cliques that the field takes to depend by more than their scores allow.

    Two columns that a third depends on, each by itself, depend on each other in a tree: their scores, which are paid for,
    say that they do not. A table is the field's, drawn to independence until it is as far from it as the score shows; those
    that are drawn the most come first.
    """
    outside = [p for p in ranges if field.tree.home(p, compressed.sizes) is None]
    restrained: dict[Pair, tuple[float, Floats]] = {}
    for pair, model in zip(outside, model_pairs(session, compressed, field, outside), strict=True):
        shown, most = ranges[pair]
        product = np.outer(model.sum(axis=1), model.sum(axis=0)) / max(float(model.sum()), 1e-9)
        distance = float(np.abs(model - product).sum())
        if distance - most > _OVERREACHING * compressed.rows:
            restrained[pair] = distance - shown, product + (model - product) * (shown / distance)
    return {p: table for p, (_, table) in sorted(restrained.items(), key=lambda one: -one[1][0])}


def model_pairs(
    session: FitSession, compressed: CompressedMarginals, field: MarkovRandomField, pairs: Sequence[Columns]
) -> list[Floats]:
    """Return the model's table of each set of columns: exact within a clique, else counted in rows drawn from the model."""
    sizes = compressed.sizes
    tree = field.tree
    rows = int(max(min(2 * compressed.rows, _SAMPLE), 1000))
    sampled_codes = None
    tables: list[Floats] = []
    for columns in pairs:
        home = tree.home(columns, sizes)
        if home is not None:
            tables.append(marginal(field.tables[home], tree.cliques[home], columns))
            continue
        if sampled_codes is None:
            sampled_codes = draw_codes(field, sizes, rows=rows, alphas=spacings(), rng=session.rng)
        shape = [sizes[c] for c in columns]
        # Codes lie within their sizes: checking that, as ravel_multi_index does, takes as long as counting them.
        place = sampled_codes[columns[0]]
        for column in columns[1:]:
            place = place * sizes[column] + sampled_codes[column]
        counts = np.bincount(place, minlength=math.prod(shape))
        tables.append(np.asarray(counts.reshape(shape) * (compressed.rows / rows), dtype=np.float64))
    return tables


def choose_pairs(
    compressed: CompressedMarginals,
    pairs: Sequence[Pair],
    distances: Floats,
    *,
    variance_each: float,
    cap: float,
    start: Sequence[Pair] = (),
    kept: Sequence[Pair] = (),
    kept_distances: Sequence[float] = (),
    predict: Sequence[int] = (),
    by_cells: bool = False,
) -> tuple[list[Pair], float]:
    """Return the new pairs to measure, the best first, and the gain expected: how many is chosen by the total gain.

    Cliques within the `cap` of cells, grown from the pairs `start`, hold some of the pairs; others count for less.
    `variance_each` is the variance of a cell where one table gets the whole loss; m tables get m times that.
    `kept` are pairs measured before, which are measured again. Pairs with a column to `predict` count for more. `by_cells`
    leaves out that ordered columns may rise together (`expected_gains`).
    """
    rows = compressed.rows
    means, kept_means = ([compressed.independent(p) for p in some] for some in (pairs, kept))
    # What others will predict comes first: correlations of other pairs would take from it.
    by_cells = by_cells or bool(predict)
    rising, kept_rising = (
        [not by_cells and all(compressed.columns[c].ordered for c in p) for p in some] for some in (pairs, kept)
    )
    # Codes of columns that are cut at released edges are runs of values: what chance adds to pairs is less there than what a
    # finer reading of those that depend gains.
    categories = not any(c.released for c in compressed.columns)

    def gains(
        distances: Sequence[float] | Floats, means: Sequence[Floats], rising: Sequence[bool], deviation: float
    ) -> Floats:
        of_dependence = expected_gains(distances, means, rows, deviation, rising=rising)
        return of_dependence + sampling_gains(means, deviation) if categories else of_dependence

    best: tuple[list[Pair], float] = [], 0.0
    deviation = math.sqrt(variance_each * (2 * len(compressed.sizes) + len(kept)))
    first = gains(distances, means, rising, deviation)
    favored = np.array([_PREDICTED if set(p) & set(predict) else 1.0 for p in pairs])
    best_first = [pairs[i] for i in np.argsort(-first * favored, kind="stable").tolist() if first[i] > 0]
    inside = set(grow_clique(best_first, compressed.sizes, cap=cap, start=start)[0])
    weight = favored * np.array([1.0 if p in inside else _OUTSIDE for p in pairs])
    counts = sorted({max(1, round(f * len(compressed.sizes))) for f in (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)})
    for count in [0, *counts] if kept else counts:
        deviation = math.sqrt(variance_each * (count + len(kept)))
        worth = gains(distances, means, rising, deviation) * weight
        order = [i for i in np.argsort(-worth, kind="stable").tolist() if worth[i] > 0][:count]
        again = gains(kept_distances, kept_means, kept_rising, deviation)
        gain = float(worth[order].sum() + again.sum())
        if gain > best[1]:
            best = [pairs[i] for i in order], gain
        if len(order) < count:
            break
    return best


def allocation(cells: Sequence[float], known: Sequence[float], total: float) -> list[float]:
    """Return the information (1 / variance) to add to each table so that sum n / sqrt(info) is least.

    At the optimum info is proportional to n^(2/3), but not below what is known already: water-filling by bisection.
    `total` is the information to hand out.
    """
    weights = np.maximum(np.asarray(cells, dtype=np.float64), 1.0) ** (2.0 / 3.0)
    have = np.asarray(known, dtype=np.float64)
    low, high = 0.0, (total + float(have.sum())) / float(weights.min()) + 1.0
    for _ in range(100):
        level = (low + high) / 2
        spent = float(np.maximum(weights * level - have, 0.0).sum())
        low, high = (low, level) if spent > total else (level, high)
    extra = np.maximum(weights * low - have, 0.0)
    scale = total / float(extra.sum()) if extra.sum() > 0 else 0.0
    information: list[float] = (extra * scale).tolist()
    return information


def mean_distance(model: Floats, margin_variance: Floats | float = 0.0) -> float:
    """Return the l1 distance to the model of a table whose cells are Poisson with the model's means.

    E|X - m| = 2 m^(k+1) e^-m / k! with k = floor(m) (Crow 1958); `margin_variance` is that of the model's cells, combined
    in squares.
    """
    means = np.asarray(model, dtype=np.float64).ravel()
    spread = _poisson_deviation(means)
    variance = np.minimum(np.broadcast_to(margin_variance, model.shape).ravel(), means**2)
    return float(np.sqrt(spread**2 + _MEAN**2 * variance).sum())


def beyond_forest(
    distances: Mapping[Pair, float], forest: Sequence[Pair], columns: int, rows: float
) -> dict[Pair, float]:
    """Return for each pair how much of its l1 distance from independence does not follow from the pairs of a forest.

    A pair of the forest keeps its own distance, which is read as the correlation of two normal columns at that distance.
    Between columns with others on the path from one to the other, each independent of those before it given its neighbor, the
    correlation is the product of those along the path (Wright 1934, The method of path coefficients).
    """
    strength = np.eye(columns)
    joined = [{c} for c in range(columns)]
    for a, b in forest:
        r = float(np.interp(distances[(a, b)] / rows, _DISTANCES, _CORRELATIONS))
        left = sorted(joined[a])
        right = sorted(joined[b])
        across = r * np.outer(strength[left, a], strength[b, right])
        strength[np.ix_(left, right)] = across
        strength[np.ix_(right, left)] = across.T
        together = joined[a] | joined[b]
        for c in together:
            joined[c] = together
    implied = rows * np.interp(strength, _CORRELATIONS, _DISTANCES)
    kept = set(forest)
    return {pair: d if pair in kept else max(d - float(implied[pair]), 0.0) for pair, d in distances.items()}


def shrink_scores(scores: Floats, deviation: float) -> Floats:
    """Return max(x - t, 0), t chosen among multiples of the noise by Stein's unbiased risk estimate.

    Risk(t) = P s^2 + sum over x > t of t^2, over others of x^2 - 2 s^2 (Donoho & Johnstone 1995).
    """
    if deviation <= 0 or not len(scores):
        return np.maximum(scores, 0.0)
    variance = deviation**2
    risks = [float(np.where(scores > t, t * t, scores**2 - 2 * variance).sum()) for t in deviation * _THRESHOLDS]
    threshold = deviation * float(_THRESHOLDS[int(np.argmin(risks))])
    return np.maximum(scores - threshold, 0.0)


def expected_gains(
    distances: Sequence[float] | Floats,
    means: Sequence[Floats],
    rows: float,
    deviation: float,
    *,
    rising: Sequence[bool] | None = None,
) -> Floats:
    """Return for each pair how much l1 distance a measurement with noise of this deviation would take away.

    A cell's distance from the model is taken to be exponential with mean r m, r = distance / rows and m the model's cell;
    what exceeds the noise .8 s is kept: the sum of r m exp(-.8 s / (r m)). Of two columns with an order (`rising`) most of
    the distance d may be one number, how much they rise together: a correlation r = d / ((2 / pi) rows), whose noise is about
    s sqrt(cells) / rows, so it hides only where (2 / pi) s sqrt(cells) is as large as d. Columns that follow each other have
    their rows in `few_cells`, which noise hides less.
    """
    gains = np.zeros(len(distances))
    for i, (distance, cells) in enumerate(zip(distances, means, strict=True)):
        if distance <= 0:
            continue
        spread = cells * (distance / rows)
        live = spread[spread > _MEAN * deviation / 30.0]
        gains[i] = float((live * np.exp(-_MEAN * deviation / live)).sum())
        if (few := few_cells(cells, distance)) is not None:
            share, away = few
            seen = away > _MEAN * deviation / 30.0
            gains[i] = max(gains[i], share * float((cells[seen] * np.exp(-_MEAN * deviation / away[seen])).sum()))
        if rising is not None and rising[i]:
            moment = _RISING * distance
            noise = _MEAN * _MOMENT * deviation * math.sqrt(cells.size)
            gains[i] = max(gains[i], moment * math.exp(-noise / moment))
    return gains


def few_cells(means: Floats, score: float) -> tuple[float, Floats] | None:
    """Return the distance of columns that follow each other, in shares of the rows, and how far their cells lie above `means`.

    None of columns that lie no farther apart than all rows. What sampling adds to a distance of its own adds up in squares
    (`score_ranges`): where most cells have no row it hides half of it. A distance of t rows leaves 2 - t of the rows in
    place, so the rows that moved lie in cells that had (2 - t) / 2 of all, each of which is t / (2 - t) times its mean above it.
    """
    rows = max(float(means.sum()), 1e-9)
    # Sampling adds two rows a row at most.
    if score * (score + 4.0 * rows) <= rows**2:
        return None
    share = min(math.sqrt(score * (score + 2.0 * mean_distance(means))) / rows, _FARTHEST)
    return (share, means * (share / (2.0 - share))) if share > 1.0 else None


def sampling_gains(means: Sequence[Floats], deviation: float) -> Floats:
    """Return for each pair how much of the l1 distance that chance gives it a measurement with noise s takes away.

    Of columns that do not depend on each other the table still lies off the product of its margins: a cell of mean m, in a row
    with the share p and a column with the share q of all, by about the root of m (1 - p) (1 - q). The estimate of least squared
    error leaves the share s^2 / (m + s^2) of the square.
    """
    gains = np.zeros(len(means))
    for i, cells in enumerate(means):
        total = max(float(cells.sum()), 1e-9)
        free = np.outer(1.0 - cells.sum(axis=1) / total, 1.0 - cells.sum(axis=0) / total)
        by_chance = _poisson_deviation(cells.ravel()).reshape(cells.shape) * np.sqrt(np.maximum(free, 0.0))
        gains[i] = float((by_chance * (1.0 - deviation / np.sqrt(np.maximum(cells + deviation**2, 1e-12)))).sum())
    return gains


def _poisson_deviation(means: Floats) -> Floats:
    """Return E|X - m| for X Poisson of mean m; by its limit sqrt(2 m / pi) above a thousand."""
    small = means < 1000.0
    deviations = np.sqrt(2.0 * means / math.pi)
    m = np.maximum(means[small], 1e-300)
    k = np.floor(m).astype(np.int64)
    deviations[small] = 2.0 * np.exp((k + 1) * np.log(m) - m - _LOG_FACTORIALS[k])
    return deviations


# ---- Which triples of columns to measure: those whose noisy score shows what no pair of them does. Knows no data
#
# A score is the l1 distance between a triple's table and the model's. Few triples are looked at, those with the fewest cells:
# each costs noise in every score, and a scan.

SCORE_TRIPLES = Step("score triples of columns against the model", 0.005, of="loss")
# The noise of a score, in shares of the rows, up to which triples are looked at.
_CLEAR = 0.03
# Deviations of its noise above which a score shows a dependence.
_SHOWN = 4.0
# The share of the rows below which a distance is left to pairs.
_STRONG = 0.05
# A triple must be so many times as far as the farthest of its pairs.
_BEYOND = 3.0
# The share of a distance that a measurement must take away.
_VISIBLE = 0.5
# The fewest and the most triples that are looked at, unless there are fewer.
_FEWEST = 8
_MOST = 60
# Rows counted for all triples together, above the fewest: it bounds the time.
_ROWS = 2_000_000
# The most cells of one triple.
_CELLS = 20_000


def choose_triples(
    session: FitSession,
    compressed: CompressedMarginals,
    field: MarkovRandomField | None,
    scores: Mapping[Pair, float],
    tables: int,
) -> list[Columns]:
    """Return the triples to measure beside `tables` pairs, the best first; `field` None compares with independent columns.

    `scores` are the distances of pairs from the same model: a triple is at least as far as its pairs, and only what is
    beyond the farthest of them shows a dependence that no pair has.

    Theorem: one unit of C rows moves each distance by at most C (2C under replace), as it moves the triple's table by that
    in l1 and | |H - M| - |H' - M| | <= |H - H'|; so T scores have an l2 sensitivity of sqrt(T) C: `Distances`. How many are
    asked follows from released numbers, what they are compared with likewise; the choice among them is post-processing.
    """
    candidates = _candidates(session, compressed)
    if not candidates:
        return []
    share = session.share(SCORE_TRIPLES)
    if field is None:
        models = [compressed.independent(t) for t in candidates]
    else:
        models = model_pairs(session, compressed, field, candidates)
    excess, deviation = score_pairs(session, compressed, candidates, models, share)
    within = [max(scores.get(pair, 0.0) for pair in itertools.combinations(t, 2)) for t in candidates]
    excess = np.where(excess > _BEYOND * np.array(within), excess, 0.0)
    significant = [i for i, x in enumerate(excess.tolist()) if x > max(_SHOWN * deviation, _STRONG * compressed.rows)]
    return _worthwhile(
        session,
        [candidates[i] for i in significant],
        excess[significant],
        [models[i] for i in significant],
        compressed,
        tables,
    )


def edges_of(triples: Sequence[Columns]) -> list[Pair]:
    """Return the pairs of the triples: a clique that holds all three of one holds the triple."""
    return list(dict.fromkeys((a, b) for t in triples for a, b in itertools.combinations(t, 2)))


def _candidates(session: FitSession, compressed: CompressedMarginals) -> list[Columns]:
    """Return the triples to score: as many as keep the noise of each score clear, none where that is too few."""
    sizes = compressed.sizes
    rows = compressed.rows
    live = [c for c, size in enumerate(sizes) if size > 1]
    every = math.comb(len(live), 3)
    share = session.share(SCORE_TRIPLES)
    clear = (_CLEAR * rows) ** 2 / session.variance(share)
    # Laplace noise grows with the number of scores, Gaussian noise with its root
    if session.split.currency == "epsilon":
        clear = math.sqrt(clear)
    count = int(min(clear, max(_ROWS / rows, _FEWEST), _MOST))
    if share >= session.left or not every or count < min(_FEWEST, every):
        return []
    cells = [(sizes[a] * sizes[b] * sizes[c], (a, b, c)) for a, b, c in itertools.combinations(live, 3)]
    return [columns for n, columns in sorted(cells)[:count] if n <= _CELLS]


def _worthwhile(
    session: FitSession,
    triples: Sequence[Columns],
    distances: Floats,
    models: Sequence[Floats],
    compressed: CompressedMarginals,
    tables: int,
) -> list[Columns]:
    """Return those of which a measurement beside the others is expected to take away half of the distance and more."""
    order = np.argsort(-distances, kind="stable").tolist()[: 1 + len(compressed.sizes) // 4]
    while order:
        deviation = math.sqrt(session.variance(tables=tables + len(order)))
        chosen_models = [models[i] for i in order]
        gains = expected_gains(distances[order], chosen_models, compressed.rows, deviation)
        if float((gains / distances[order]).min()) >= _VISIBLE:
            break
        order = order[:-1]
    return [triples[i] for i in order]


# ---- Whether dependence can be afforded: a decision from public facts and a noisy number of rows. Knows no data
#
# Independent columns want no more than one round of noise, and for few columns Laplace noise is less than Gaussian. A look at
# pairs costs both. It pays where the noise of a pair's score is small beside the rows, and where what the one-way counts lose
# by it is small: beside the pairs that are found, and beside what a sample of so many rows misses of its pairs anyway.

SCORE_PAIRS = Step("score the pairs against independent columns", 0.01, of="loss", most=0.03)
# The noise of a score, in shares of the rows, up to which a look pays, and up to which one that costs nothing does.
_LOOK_PAYS = 0.066
_FREE_LOOK_PAYS = 0.2
# The same where columns are wide: strong pairs of such lie as far as all rows from independence, and one number, how much they
# rise together, is seen where no cell is. On 16,000 houses of 20 columns at epsilon .1 (.31) a look keeps half of the strong
# correlations that independent columns lose.
_FREE_LOOK_PAYS_WIDE = 0.35
# Keys of an ordered column that count for its noise: neighbors are smoothed, and share codes.
_RUNS = 64
# A look that costs less than this share of the noise of one-way counts is free.
_FREE = 0.03
# What a pair's distance may lose: of all, and of what a sample's pairs miss by.
_GAP = 0.017
_GAP_IN_SAMPLES = 0.48
# The share of the information of one round that the three rounds hold in which Laplace noise is drawn.
_ONCE = 0.35


def one_way_noise(split: LossShares, sizes: Sequence[int]) -> float:
    """Return the sum of the mean absolute noise of all one-way counts, if they get the whole loss in one round.

    With the shares of `FitSession.measure_one_way` it is (sum n^(1/2))^2 times the mean of one table's for Laplace noise,
    and (sum n^(2/3))^(3/2) times it for Gaussian noise.
    """
    variance = split.variance(1.0, tables=1)
    if split.currency == "epsilon":
        return float(sum(math.sqrt(n) for n in sizes) ** 2) * math.sqrt(variance / 2.0)
    return _MEAN * math.pow(sum(math.pow(n, 2.0 / 3.0) for n in sizes), 1.5) * math.sqrt(variance)


def noisy_keys(columns: Sequence[EncodedColumn]) -> list[int]:
    """Return how many keys of each column count for the noise of its one-way counts."""
    return [min(c.size, _RUNS) if c.ordered else c.size for c in columns]


def look_pays(
    alone: LossShares,
    looking: LossShares,
    columns: Sequence[EncodedColumn],
    *,
    pairs: int,
    rows: float,
    predict: bool = False,
) -> bool:
    """Return whether to score pairs, at the loss `looking`, rather than spend the loss `alone` on one-way counts.

    A look that costs one-way counts nothing pays at noisier scores, but not where columns are to `predict`: a forest of few
    pairs with these keeps more of what they depend on.

    The bounds were found on nine tables of 4 to 40 columns and 1,000 to 100,000 rows, at epsilon .05 to 10.
    """
    sizes = noisy_keys(columns)
    score = math.sqrt(looking.variance(SCORE_PAIRS.most, tables=pairs)) / rows
    least = one_way_noise(alone, sizes)
    remaining = _ONCE if looking.currency == "epsilon" else 1.0 - SCORE_PAIRS.most
    loss = one_way_noise(looking, sizes) / math.sqrt(remaining) - least
    if loss <= _FREE * least and not predict:
        return score <= (_FREE_LOOK_PAYS_WIDE if any(c.equally_cut for c in columns) else _FREE_LOOK_PAYS)
    gap = loss / (2.0 * rows * len(sizes))
    free = [math.sqrt(max(c.value_count - 1, 0)) for c in columns]
    missed = [a * b for a, b in itertools.combinations(free, 2)]
    sampled = _MEAN / 2.0 * sum(missed) / len(missed) / math.sqrt(rows)
    return score <= _LOOK_PAYS and gap <= _GAP and 2.0 * gap <= _GAP_IN_SAMPLES * sampled
