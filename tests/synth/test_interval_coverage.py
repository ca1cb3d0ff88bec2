"""Intervals of a model's answers: their coverage over tables of other shapes, losses and kinds of questions; the law behind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.core.neighbors import Neighbors
from sordino.synth import contrasts
from sordino.synth.encoded_column import encode_columns
from sordino.synth.error_law import ColumnNoise, ErrorLaw, measure_interactions, vary_coupled
from synth.support import Source

ROWS = 20_000
SLACK = (
    0.05  # four binomial deviations of 360 questions at .94: a chance of 3 in 100,000 a cell if they were independent
)
KNOWN = {("half missing", "1"): 0.03, ("half missing", "3"): 0.03}  # few rows in boxes beside a large missing share
# where a loss is too small to look at pairs, it is also too small to tell that none depends: a width of 9 errors, else
WIDE = {("independent", "0.1"): 30}
# half widths of wide columns in errors: most where runs of two or three values are cut, as of delays at epsilon 10 (6.6)
WIDEST = 8
KINDS = {"one": 1, "two": 2, "many": 3}


def _independent(rng: np.random.Generator) -> dict[str, Any]:
    return {f"c{i}": rng.choice(s, ROWS, p=rng.dirichlet(np.ones(s) * 2)) for i, s in enumerate((3, 5, 8, 12, 2, 20))}


def _xor(rng: np.random.Generator) -> dict[str, Any]:
    a, b, d = rng.integers(0, 4, ROWS), rng.integers(0, 4, ROWS), rng.integers(0, 10, ROWS)
    c = np.where(rng.random(ROWS) < 0.8, (a + b) % 4, rng.integers(0, 4, ROWS))
    return {"a": a, "b": b, "c": c, "d": d, "e": np.where(rng.random(ROWS) < 0.5, d, rng.integers(0, 10, ROWS))}


def _factor(rng: np.random.Generator) -> dict[str, Any]:
    hidden = rng.normal(size=ROWS)
    sizes = [4 + 4 * (i % 5) for i in range(10)]
    values = [(0.7 * hidden + 0.7 * rng.normal(size=ROWS) + 3) / 6 * s for s in sizes]
    return {f"c{i}": np.clip(v.astype(np.int64), 0, s - 1) for i, (v, s) in enumerate(zip(values, sizes, strict=True))}


def _skewed(rng: np.random.Generator) -> dict[str, Any]:
    hidden = rng.gamma(0.5, size=ROWS)
    sizes = (200, 300, 50, 100, 20, 400)
    drawn: list[Any] = [rng.pareto(1.2, ROWS) * (1 + 3 * hidden * (i % 2)) for i in range(len(sizes))]
    return {f"c{i}": np.minimum(v.astype(np.int64), s - 1) for i, (v, s) in enumerate(zip(drawn, sizes, strict=True))}


def _forty(rng: np.random.Generator) -> dict[str, Any]:
    keys, before = {}, rng.integers(0, 2, ROWS)
    for i in range(40):
        size = 2 + i % 9
        before = np.where(rng.random(ROWS) < 0.4, before % size, rng.integers(0, size, ROWS))
        keys[f"c{i}"] = before
    return keys


def _gaps(rng: np.random.Generator) -> dict[str, Any]:
    hidden, keys = rng.random(ROWS), {}
    for i, size in enumerate((2, 4, 8, 16, 6, 30, 3, 10)):
        value = ((hidden + rng.random(ROWS)) / 2 * size).astype(np.int64)
        gone = rng.random(ROWS) < 0.2 + 0.6 * value / (size - 1)
        keys[f"c{i}"] = np.where(gone & (i < 6), -1, value)
    return keys


TABLES = {
    "independent": _independent,
    "xor of three": _xor,
    "one factor": _factor,
    "skewed wide": _skewed,
    "40 columns": _forty,
    "half missing": _gaps,
}


Ends = Callable[[np.random.Generator, Any], tuple[int, int]]


def measure(
    keys: dict[str, Any], models: Iterable[tuple[int, synth.Model]], questions: int, ends: Ends
) -> dict[str, tuple[float, float, float]]:
    """Return, for each kind of question, the coverage of intervals at 95%, their mean half width, and the rms error.

    Counts are of rows between the `ends` that are drawn for each column; models come with a seed of their questions.
    """
    found: dict[str, list[tuple[bool, float, float]]] = {k: [] for k in KINDS}
    for seed, model in models:
        rng = np.random.default_rng(seed)
        for kind, count in KINDS.items():
            for _ in range(questions):
                asked, kept = Selection(), np.ones(ROWS, dtype=bool)
                for column in rng.choice(list(keys), count, replace=False):
                    low, high = ends(rng, keys[column])
                    asked = asked.where(col(column).is_between(low, high))
                    kept &= (keys[column] >= low) & (keys[column] <= high)
                answer = model.answer(asked.agg(sd.count()))
                interval = answer.interval(0.95)
                assert interval[0] >= 0
                assert interval[1] - interval[0] <= 2 * ROWS  # cut at the number of rows and its own interval
                missed = answer.value - kept.sum()
                within = interval[0] <= kept.sum() <= interval[1]
                found[kind].append((within, (interval[1] - interval[0]) / 2, missed**2))
    means = {k: np.mean(np.array(v, dtype=np.float64), axis=0) for k, v in found.items()}
    return {k: (float(m[0]), float(m[1]), float(np.sqrt(m[2]))) for k, m in means.items()}


def any_keys(rng: np.random.Generator, values: Any) -> tuple[int, int]:
    low, high = sorted(int(v) for v in rng.integers(0, values.max() + 1, 2))
    return low, high


def ask(name: str, epsilon: str, seeds: range, questions: int) -> dict[str, tuple[float, float, float]]:
    keys = TABLES[name](np.random.default_rng(7))
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    cache: dict[Any, Any] = {}

    def fit(seed: int) -> synth.Model:
        data = Source(domain, keys, sd.Rng.seeded(seed), cache=cache)
        return synth.fit(data, epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(seed))

    return measure(keys, ((seed, fit(seed)) for seed in seeds), questions, any_keys)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "epsilon"), [("xor of three", "8"), ("half missing", "1"), ("independent", "0.1")])
def test_intervals_of_answers_cover(name: str, epsilon: str) -> None:
    """Six fits of 20 questions a kind at nominal 95%; questions about a column share the noise of its counts.

    For 40 such noises, of 6 fits and 5 columns or more, a share below .84 is under 1 in 1,000 by chance.
    """
    for kind, (share, width, error) in ask(name, epsilon, range(6), 20).items():
        assert share >= 0.84, kind
        assert width <= WIDE.get((name, epsilon), 9) * error + 2, kind


# Columns that rules of each kind join, and the rules.
RULED: dict[str, list[tuple[str, ...]]] = {
    "equal": [("above", "living"), ("basement", "living"), ("above", "basement")],
    "order": [("start", "end")],
    "blank": [("age", "income")],
    "never": [("age", "hours"), ("hours", "income")],
    "one column": [(name,) for name in ("above", "living", "start", "end", "age", "income", "hours")],
}


def _ruled(size: int) -> tuple[sd.Domain, dict[str, Any], list[synth.Rule]]:
    """Return a table of columns of about `size` values that keep to a sum, an order, a blank and a condition no row meets."""
    rng = np.random.default_rng(5)
    above = rng.integers(0, size, ROWS)
    basement = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(0, size, ROWS))
    start = rng.integers(0, size, ROWS)
    age = rng.integers(0, 2 * size, ROWS)
    young = age < size // 3
    hours = np.where(young, 0, np.minimum(rng.poisson(size / 2, ROWS), size))
    pay = np.minimum(rng.gamma(2.0, size / 6, ROWS) + hours / 3, 2 * size).astype(np.int64)
    keys = {
        "above": above,
        "basement": basement,
        "living": above + basement,
        "start": start,
        "end": np.minimum(start + rng.geometric(0.15, ROWS) - 1, 2 * size),
        "age": age,
        "hours": hours,
        "income": np.where(young, 2 * size + 1, pay),
    }
    most = {n: size if n in ("above", "basement", "start", "hours") else 2 * size for n in keys}
    domain = sd.Domain({n: sd.Integer(0, m, missing="keep" if n == "income" else "drop") for n, m in most.items()})
    rules: list[synth.Rule] = [
        synth.equal("above + basement", "living"),
        synth.at_most("start", "end"),
        synth.blank("income", when=f"age < {size // 3}"),
        synth.never(f"age < {size // 3} and hours > 0"),
    ]
    return domain, keys, rules


def ask_ruled(size: int, epsilon: str, seeds: range, questions: int) -> dict[str, tuple[float, float, float]]:
    """Return, for each kind of rule, the coverage, mean half width and rms error of ranges of columns that it joins."""
    domain, keys, rules = _ruled(size)
    cache: dict[Any, Any] = {}
    shown: dict[str, list[tuple[bool, float, float]]] = {kind: [] for kind in RULED}
    for seed in seeds:
        data = Source(domain, keys, sd.Rng.seeded(seed), cache=cache)
        model = synth.fit(data, epsilon=epsilon, delta="1e-6", constraints=rules, rng=sd.Rng.seeded(seed))
        rng = np.random.default_rng(seed)
        for kind, joined in RULED.items():
            for _ in range(questions):
                question = Selection()
                kept = np.ones(ROWS, dtype=bool)
                for name in joined[rng.integers(len(joined))]:
                    low, high = sorted(rng.choice(keys[name][keys[name] <= 2 * size], 2).tolist())
                    question = question.where(col(name).is_between(low, high))
                    kept &= (keys[name] >= low) & (keys[name] <= high)
                answer = model.answer(question.agg(sd.count()))
                low, high = answer.interval(0.95)
                shown[kind].append((low <= kept.sum() <= high, (high - low) / 2, (answer.value - kept.sum()) ** 2))
    means = {k: np.mean(np.array(v, dtype=np.float64), axis=0) for k, v in shown.items()}
    return {k: (float(m[0]), float(m[1]), float(np.sqrt(m[2]))) for k, m in means.items()}


def _under_a_sum(questions: Sequence[tuple[str, ...]]) -> list[tuple[float, float]]:
    """Return the errors, and the half widths, of ranges of columns that a sum or an order joins, in two fits at epsilon 1."""
    domain, keys, rules = _ruled(10)
    names = ("above", "basement", "living", "start", "end")
    answers: list[tuple[float, float]] = []
    for seed in (1, 2):
        data = Source(sd.Domain({n: domain[n] for n in names}), {n: keys[n] for n in names}, sd.Rng.seeded(seed))
        model = synth.fit(data, epsilon=1, delta="1e-6", constraints=rules[:2], rng=sd.Rng.seeded(seed))
        for columns in questions:
            question = Selection()
            kept = np.ones(ROWS, dtype=bool)
            for name in columns:
                question = question.where(col(name).is_between(2, 8))
                kept &= (keys[name] >= 2) & (keys[name] <= 8)
            answer = model.answer(question.agg(sd.count()))
            low, high = answer.interval(0.95)
            answers.append((abs(float(answer.value) - int(kept.sum())), (high - low) / 2))
    return answers


@pytest.mark.deep
def test_an_interval_under_a_rule_is_that_of_all_rows_that_keep_to_it() -> None:
    """The law of errors took the few cells that a sum leaves for a few rows: half widths of 9 to 20 rows about 5,000."""
    pairs = [("above", "living"), ("basement", "living"), ("above", "basement"), ("start", "end")]
    for error, half in _under_a_sum(pairs):
        assert 25 < half < 400
        assert error <= 2 * half


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "fits", "questions"), [("1", 8, 10), ("10", 4, 20)])
def test_intervals_under_rules_cover(epsilon: str, fits: int, questions: int) -> None:
    """400 ranges of columns that rules join: .98 and .97 when this was written, .91 and .85 before.

    A kind is 80 questions of 4 to 8 noises a pair: .8 is about four binomial deviations below .95.
    """
    kinds = ask_ruled(30, epsilon, range(fits), questions)
    for kind, (share, width, error) in kinds.items():
        assert share >= 0.8, kind
        assert width <= 8 * error + 2, kind
    assert np.mean([share for share, _, _ in kinds.values()]) >= 0.94 - SLACK / 2


Wide = dict[str, tuple[Any, tuple[int, int]]]


def _heavy(rng: np.random.Generator) -> Wide:
    hidden = rng.normal(size=ROWS)

    def skewed(scale: float, shared: float) -> Any:
        return np.exp(scale * (shared * hidden + math.sqrt(1 - shared**2) * rng.normal(size=ROWS)))

    return {
        "income": (30_000 * skewed(1.0, 0.8), (0, 1_500_000)),
        "wealth": (80_000 * skewed(1.6, 0.8), (0, 10_000_000)),
        "rent": (900 * skewed(0.6, 0.6), (0, 50_000)),
        "debt": (5_000 * skewed(1.8, 0.3), (0, 5_000_000)),
        "age": (40 + 15 * hidden, (0, 99)),
    }


def _atoms(rng: np.random.Generator) -> Wide:
    hidden = rng.normal(size=ROWS)
    pay = np.where(rng.random(ROWS) < 0.4, 0, 2_000 * np.exp(1.3 * (0.7 * hidden + 0.7 * rng.normal(size=ROWS))))
    limit = np.round(np.exp(11.5 + 0.8 * hidden) / 10_000) * 10_000
    return {
        "pay": (pay, (0, 2_000_000)),
        "limit": (limit, (0, 2_000_000)),
        "bill": (np.where(rng.random(ROWS) < 0.1, 0, limit * rng.beta(0.6, 1, ROWS)), (0, 2_000_000)),
        "late": (np.where(pay < 1, rng.integers(0, 4, ROWS), rng.integers(0, 2, ROWS)), (0, 8)),
        "edu": (rng.integers(0, 5, ROWS), (0, 4)),
    }


def _houses(rng: np.random.Generator) -> Wide:
    hidden = rng.normal(size=ROWS)
    area = 2_000 * np.exp(0.4 * hidden)
    lot = 7_000 * np.exp(0.9 * rng.normal(size=ROWS) + 0.3 * hidden) + rng.pareto(1.2, ROWS) * 500
    price = 450_000 * np.exp(0.5 * (0.8 * hidden + 0.6 * rng.normal(size=ROWS)))
    return {
        "area": (area, (0, 20_000)),
        "lot": (lot, (0, 2_000_000)),
        "price": (np.round(price / 1_000) * 1_000, (0, 20_000_000)),
        "basement": (np.where(rng.random(ROWS) < 0.6, 0, area * rng.beta(2, 4, ROWS)), (0, 20_000)),
        "beds": (area / 700 + rng.normal(size=ROWS), (0, 40)),
    }


def _signed(rng: np.random.Generator) -> Wide:
    hidden = rng.normal(size=ROWS)
    departure = np.where(rng.random(ROWS) < 0.7, rng.normal(-5, 8, ROWS), rng.exponential(60, ROWS))
    return {
        "departure": (departure, (-100, 2_999)),
        "arrival": (departure + rng.normal(-3, 15, ROWS), (-100, 2_999)),
        "gain": (rng.standard_cauchy(ROWS) * 50, (-100_000, 100_000)),
        "distance": (np.exp(6.5 + 0.7 * hidden), (0, 5_999)),
        "carrier": (rng.geometric(0.3, ROWS) - 1, (0, 13)),
    }


# Tables whose columns are cut at released edges.
WIDE_TABLES: dict[str, Callable[[np.random.Generator], Wide]] = {
    "heavy tails": _heavy,
    "atoms": _atoms,
    "houses": _houses,
    "delays": _signed,
}


def quantiles(rng: np.random.Generator, values: Any) -> tuple[int, int]:
    """Return two quantiles, moved by up to 6% in half of all cases: many are values that rows share."""
    low, high = sorted(int(v) for v in np.quantile(values, rng.random(2)))
    if rng.random() < 0.5:
        moves = rng.integers(-3, 4, 2)
        low, high = sorted(v + int(m) * max(1, abs(v) // 50) for v, m in zip((low, high), moves, strict=True))
    return low, high


def ask_wide(name: str, epsilon: str, seeds: range, questions: int) -> dict[str, tuple[float, float, float]]:
    columns = WIDE_TABLES[name](np.random.default_rng(7))
    keys = {n: np.clip(v.astype(np.int64), *bounds) for n, (v, bounds) in columns.items()}
    domain = sd.Domain({n: sd.Integer(*bounds) for n, (_, bounds) in columns.items()})
    table = protect(pa.table(keys), domain, budget=sd.ApproxDP(10**6, "1e-2"), seed=seeds[0])
    models = ((s, synth.fit(table, epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(s))) for s in seeds)
    return measure(keys, models, questions, quantiles)


@pytest.mark.deep
@pytest.mark.parametrize(("fits", "questions"), [(1, 60), pytest.param(6, 20, marks=pytest.mark.deep)])
def test_intervals_cover_where_conditions_cut_through_runs(fits: int, questions: int) -> None:
    """Fits of some questions a kind; before lumps were known, half widths were six times the error for one column."""
    for kind, (share, width, error) in ask_wide("houses", "1", range(1, 1 + fits), questions).items():
        assert share >= 0.85, kind
        assert width <= 4.5 * error, kind


@pytest.mark.deep
# Of three losses each table has one, in turn.
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        (name, e)
        for place, name in enumerate(WIDE_TABLES)
        for turn, e in enumerate(("0.1", "1", "10"))
        if turn == place % 3
    ],
)
def test_coverage_over_skewed_tables(name: str, epsilon: str) -> None:
    """Six fits of 60 questions a kind, as above."""
    for kind, (share, width, error) in ask_wide(name, epsilon, range(6), 60).items():
        assert share >= 0.94 - SLACK, kind
        assert width <= WIDEST * error + 2, kind


@pytest.mark.deep
@pytest.mark.parametrize(("fits", "least"), [(1, 0.75), pytest.param(4, 0.8, marks=pytest.mark.deep)])
def test_intervals_cover_the_rows_of_tails_that_noise_hides(fits: int, least: float) -> None:
    """Prefixes of 1% of the rows and less: .60 of their intervals held the true count, as margins of pairs claimed to know it.

    Four fits of two columns are eight noises of 34 at least: coverage below .8 is rarer than 1 in 1,000.
    """
    keys = TABLES["one factor"](np.random.default_rng(7))
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    cache: dict[Any, Any] = {}
    covered: list[bool] = []
    for seed in range(10, 10 + fits):
        model = synth.fit(
            Source(domain, keys, sd.Rng.seeded(seed), cache=cache), epsilon=1, delta="1e-9", rng=sd.Rng.seeded(seed)
        )
        for name in ("c3", "c4", "c8", "c9"):
            for last in range(3):
                rows = int((keys[name] <= last).sum())
                low, high = model.answer(Selection().where(col(name) <= last).agg(sd.count())).interval(0.95)
                covered.append(low <= rows <= high)
    assert np.mean(covered) >= least


@pytest.mark.deep
# Of six losses each table has one, in turn.
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        *((name, e) for place, name in enumerate(TABLES) for e in ("0.1", "0.3", "1", "3", "8", "20")[place % 6 :: 6]),
        # where most of the tails hide
        ("skewed wide", "0.1"),
    ],
)
def test_coverage_over_tables_losses_and_kinds(name: str, epsilon: str) -> None:
    """Six fits of 60 questions a kind: at least .94, less SLACK, and less what is known of a table; no width beyond use."""
    for kind, (share, width, error) in ask(name, epsilon, range(10, 16), 60).items():
        assert share >= 0.94 - SLACK - KNOWN.get((name, epsilon), 0.0), kind
        assert width <= WIDE.get((name, epsilon), 9) * error + 2, kind


def _law(sizes: tuple[int, ...], pairs: float, higher: float) -> tuple[ErrorLaw, list[Any]]:
    rng = np.random.default_rng(3)
    shares = [rng.dirichlet(np.ones(n) * 3) for n in sizes]
    noises = [ColumnNoise(p, np.full(len(p), 50.0), np.zeros(len(p)), np.zeros(len(p))) for p in shares]
    return ErrorLaw(tuple(noises), frozenset(), 1.0, pairs, pairs, higher, 3.0), shares


@pytest.mark.parametrize("sizes", [(5,), (4, 3), (3, 4, 5), pytest.param((2, 3, 2, 3), marks=pytest.mark.deep)])
def test_the_law_of_errors_is_that_of_the_errors_it_describes(sizes: tuple[int, ...]) -> None:
    """Errors drawn order by order, in cells: the variance of any weighted sum of them is the one stated and by group."""
    errors, shares = _law(sizes, 400.0, 900.0)
    rng = np.random.default_rng(5)
    values, groups = rng.normal(size=sizes), np.arange(int(np.prod(sizes))).reshape(sizes) % 3 - 1
    members = [np.arange(n) for n in sizes]
    whole = shares[0]
    for share in shares[1:]:
        whole = np.multiply.outer(whole, share)
    seen = []
    for _ in range(1500):
        miss = whole * rng.normal(0, 3.0)
        for axis in range(len(sizes)):
            noise = rng.normal(0, np.sqrt(50.0), sizes[axis])
            along = [-1 if i == axis else 1 for i in range(len(sizes))]
            own = (noise - noise.mean()) / shares[axis]
            miss = miss + whole * own.reshape(along)
        cells = rng.normal(size=sizes) * np.sqrt(whole) / whole  # white under the product measure
        for order in range(2, len(sizes) + 1):
            scale = np.sqrt(400.0 if order == 2 else 900.0)
            for chosen in itertools.combinations(range(len(sizes)), order):
                miss = miss + scale * whole * _part(cells, shares, chosen)
        seen.append([float((miss * values)[groups == g].sum()) for g in (0, 1)])
    stated = errors.deviation(range(len(sizes)), members, values, groups, 2)
    largest = np.array([np.abs(values[groups == g]).max() for g in (0, 1)])
    plain = np.sqrt((np.square(stated) - 0.25 * np.square(largest)) / 1.3)  # the two safety terms taken back
    assert np.std(seen, axis=0) == pytest.approx(plain, rel=0.09)


def _part(cells: Any, shares: list[Any], chosen: tuple[int, ...]) -> Any:
    """Return the Hoeffding part of a function on the cells that is of these columns and no fewer."""
    for axis, share in enumerate(shares):
        along = [-1 if i == axis else 1 for i in range(len(shares))]
        mean = (cells * share.reshape(along)).sum(axis=axis, keepdims=True)
        cells = cells - mean if axis in chosen else mean
    return cells


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_dependence_within_a_cell_moves_no_count_further_than_stated(seed: int, sizes: tuple[int, int]) -> None:
    """Cauchy and Schwarz, for one cell of any dependence: |miss| <= phi ||f||, which a dependence that f itself makes attains."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=sizes)
    shares = [rng.dirichlet(np.ones(n))[None, :] for n in sizes]
    product = shares[0].T * shares[1]
    square = float(measure_interactions(values, (shares[0], shares[1]))[0, 0])

    def both(any_dependence: Any) -> tuple[float, float]:
        beyond = product * _part(any_dependence, [share[0] for share in shares], (0, 1))
        contingency = float((np.square(beyond) / product.clip(1e-300)).sum())
        return float((beyond * values).sum()), math.sqrt(contingency * square)

    moved, most = both(rng.normal(size=sizes))
    assert abs(moved) <= most * (1 + 1e-9) + 1e-9
    moved, most = both(values)
    assert moved == pytest.approx(most, abs=1e-7)


def test_how_far_columns_depend_within_cells_is_told_by_the_cells_beside() -> None:
    """On a diagonal all rows of a cell may lie at its corners: n^2 (1/4)^2. Where nothing depends, or no cell is cut: 0."""
    halves = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    wholes = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])[:, [0, 2]]
    corner = np.zeros((4, 4))
    corner[0, 0] = 1.0
    assert vary_coupled(corner, np.diag([100.0, 100.0]), (halves, halves)) == pytest.approx(100.0**2 / 16)
    assert vary_coupled(corner, np.full((2, 2), 50.0), (halves, halves)) == 0.0
    assert vary_coupled(corner[:, [0, 2]], np.diag([100.0, 100.0]), (halves, wholes)) == 0.0
    assert vary_coupled(np.ones((4, 4)), np.diag([100.0, 100.0]), (halves, halves)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.deep
def test_a_fitted_model_counts_the_rows_that_all_columns_estimate() -> None:
    """Soft tables that disagree pulled the total 73 rows away from an estimate that errs by 6."""
    keys = TABLES["one factor"](np.random.default_rng(7))
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(0)), epsilon=8, delta="1e-9", rng=sd.Rng.seeded(0))
    tables = model.parts.field.tables
    assert [float(t.sum()) for t in tables] == pytest.approx([float(tables[0].sum())] * len(tables))
    assert abs(float(tables[0].sum()) - ROWS) <= 5 * model.parts.errors.rows


@pytest.mark.deep
def test_means_and_sums_err_by_their_own_values() -> None:
    """The interval of a mean over many rows is that of its noise, not of the count times the largest value."""
    keys = TABLES["independent"](np.random.default_rng(7))
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    covered: list[bool] = []
    cache: dict[Any, Any] = {}
    for seed in range(12):
        model = synth.Independent().fit(
            Source(domain, keys, sd.Rng.seeded(seed), cache=cache), epsilon=1, rng=sd.Rng.seeded(seed)
        )
        answer = model.answer(Selection().agg(sd.mean("c3"), sd.sum("c5")))
        (ends,) = answer.interval(0.95).to_pylist()
        low, high = ends["mean_c3_lower"], ends["mean_c3_upper"]
        least, most = ends["sum_c5_lower"], ends["sum_c5_upper"]
        covered += [low <= keys["c3"].mean() <= high, least <= keys["c5"].sum() <= most]
        assert high - low < 1.0
        assert most - least < 0.05 * keys["c5"].sum()
    assert np.mean(covered) >= 0.75  # 24 intervals at .95 or more: below is under 1 in 10,000 by chance


@settings(max_examples=50)
@given(st.integers(2, 400), st.floats(0.02, 3.0), st.booleans(), st.integers(0, 10**6))
def test_random_halves_hold_half_of_the_rows_but_for_one_key(
    size: int, evenness: float, ordered: bool, seed: int
) -> None:
    """However the rows lie over the keys: the share inside is a half, give or take the largest key; some are outside."""
    column = sd.Integer(0, size - 1) if ordered else sd.Category(list(range(size)))
    (encoded,) = encode_columns(sd.Domain({"c": column}), None, Neighbors("add_remove", None))
    share = np.maximum(np.random.default_rng(seed).dirichlet(np.full(encoded.size, evenness)), 1e-6)
    half = contrasts._half(encoded, share, sd.Rng.seeded(seed))
    assert 0 < half.sum() < encoded.size
    assert abs(float(share @ half) / share.sum() - 0.5) <= float(share.max()) / share.sum() + 1e-9


@pytest.mark.deep
def test_a_check_of_columns_with_long_tails_rules_large_errors_out() -> None:
    """Random runs of keys held next to no rows, and contrasts were noise: errors of 6e7 a cell were left open."""
    rng = np.random.default_rng(3)
    keys = {f"c{i}": np.minimum(rng.pareto(1.2, ROWS).astype(np.int64), 199) for i in range(6)}
    domain = sd.Domain({n: sd.Integer(0, 199) for n in keys})
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(1)), epsilon=1, delta="1e-9", rng=sd.Rng.seeded(1))
    assert model.parts.errors.higher <= 50 * ROWS
    assert model.parts.errors.unmeasured <= 50 * ROWS
