"""Moments as a question: exact vectors against plain sums, sensitivity by brute force, and the whole corridor."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from binding import BoundVectors
from planning import data_access_of
from protecting import protect
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.moment_matrix import (
    PARTS,
    FirstLook,
    Frame,
    MomentMatrix,
    MomentVector,
    check_moments,
    compile_moments,
)
from sordino.ask.queries.queryable import Queryable
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.core.errors import QuestionRefused, UnknownName
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import PureDP
from sordino.core.neighbors import Neighbors, Relation
from sordino.core.noise.laws import ContinuousLaw, DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.staircase import best_staircase
from sordino.core.release import Release
from sordino.models.moments import Floats, join_moments, moments_of, read_moments
from sordino.models.moments import NoisyMoments as Moments

DOMAIN = sd.Domain(
    {
        "a": sd.Integer(0, 4),
        "b": sd.Real(-1, 1, resolution="0.5"),
        "wide": sd.Real(0, 10**9, resolution="0.001"),
        "c": sd.Category(["p", "q", "r"]),
        "d": sd.Boolean(),
        "id": sd.Identifier(),
        "u": sd.Real(0, "2.5", resolution="0.5"),
    }
)
BUDGET = sd.ApproxDP(10**7, "0.1")


def question(numbers: str = "a b", categories: str = "", folds: int = 1, weight: str | None = None) -> MomentMatrix:
    def groups(names: str) -> tuple[Grouping, ...]:
        return tuple(Grouping(name, Name(name)) for name in names.split())

    by = None if weight is None else Grouping(weight, Name(weight))
    return MomentMatrix(groups(numbers), groups(categories), folds, by)


def rows(count: int = 300, *, seed: int = 3) -> pa.Table:
    """Return rows of the domain, some with a cell that is missing or outside of its bounds."""
    draws = np.random.default_rng(seed)
    a = draws.integers(0, 5, count).astype(object)
    a[::41] = None
    b = draws.choice([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0], count)
    return pa.table(
        {
            "a": pa.array(list(a), pa.int64()),
            "b": pa.array(b),
            "wide": pa.array(draws.uniform(0, 10**9, count).round(3)),
            "c": pa.array(draws.choice(["p", "q", "r"], count).tolist()),
            "d": pa.array((draws.random(count) < 0.3).tolist()),
            "id": pa.array([f"u{i % 60}" for i in range(count)]),
            "u": pa.array([(i * 7 % 6) / 2 for i in range(count)]),
        }
    )


def exact_of(table: pa.Table, query: FirstLook | MomentVector, domain: sd.Domain = DOMAIN, **opened: Any) -> list[int]:
    """Return the exact vector of a query, as the curator sees it."""
    access = data_access_of(protect(table, domain, **opened))
    tables = [access.run(access.write(scan.select(access.primitives()))) for scan in query.scans(domain)]
    (vector,) = query.exact_vectors(tables, domain)
    return [int(x) for x in vector]


def standardised(table: pa.Table, moments: Moments) -> Floats:
    """Return the rows (1, standardised numbers, indicators), times the root of their weight, of complete rows."""
    compiled = moments.compiled
    columns: list[Any] = [np.ones(len(table))]
    for number, center, scale in zip(compiled.numbers, moments.frame.centers, moments.frame.scales, strict=True):
        cells = np.array(table.column(number.alias).to_pylist(), dtype=float)
        declared_column: Any = DOMAIN[number.alias]
        low, high = float(declared_column.lower), float(declared_column.upper)
        columns.append(((np.clip(cells, low, high) - number.middle) / number.step - center) / scale)
    for column, declared in zip(compiled.question.categories, compiled.categories, strict=True):
        cells = table.column(column.alias).to_pylist()
        columns += [np.array([cell == label for cell in cells], dtype=float) for label in declared.labels]
    whole = np.column_stack(columns)
    own = np.ones(len(table)) if compiled.weight is None else table.column("u").to_numpy() / 2.5
    own = own[~np.isnan(whole).any(axis=1)]
    whole = whole[~np.isnan(whole).any(axis=1)]
    weights = np.minimum(own, float(moments.frame.limit) / (whole**2).sum(axis=1))
    result: Floats = whole * np.sqrt(weights)[:, None]
    return result


@pytest.mark.each(3)
@pytest.mark.parametrize("folds", [1, 3])
@pytest.mark.parametrize(("numbers", "categories"), [("a b", ""), ("a", "c d"), ("b wide a", "c"), ("", "c d")])
@pytest.mark.parametrize("weight", [None, "u"])
def test_the_moments_are_those_of_plain_sums(numbers: str, categories: str, folds: int, weight: str | None) -> None:
    asked = question(numbers, categories, folds, weight)
    release = protect(rows(), DOMAIN, budget=BUDGET).ask(asked, epsilon=10**6)
    moments = join_moments(read_moments(release, asked, DOMAIN))
    whole = standardised(rows(), moments)
    # Weights are cut to 1/4096, and a wide number to a millionth of its range.
    assert np.abs(moments.matrix - whole.T @ whole).max() < 0.002 * len(whole)
    again = Release.from_dict(json.loads(release.to_json()))
    assert np.array_equal(join_moments(read_moments(again, asked, DOMAIN)).matrix, moments.matrix)


def test_a_fold_holds_whole_units() -> None:
    asked = question("a b", "c", folds=4)
    release = protect(rows(), DOMAIN, budget=BUDGET, unit=sd.PrivacyUnit("id", max_rows=10)).ask(asked, epsilon=10**6)
    held, others = read_moments(release, asked, DOMAIN)
    # Of 60 units about 15 are held out, each with 5 rows of which hardly any is missing.
    assert 20 < held.rows < 150
    assert held.rows + others.rows == pytest.approx(292, abs=8)


# ---- Sensitivity: every row, and every two rows, of a small domain

SMALL = sd.Domain(
    {"a": sd.Integer(0, 2), "b": sd.Integer(-1, 1), "c": sd.Category(["p", "q"]), "u": sd.Real(0, 3, resolution="0.01")}
)
CELLS: list[tuple[Any, ...]] = [*itertools.product([0, 2], [-1, 0, 1], ["p", "q"], [3.0]), (None, 0, "p", 1.0)]
# Weights at the ends, in the middle, beyond the bounds, and missing.
WEIGHED: list[tuple[Any, ...]] = [
    *itertools.product([0, 2], [-1, 1], ["p", "q"], [0.0, 1.25, 3.0, 9.0]),
    (0, 0, "p", None),
]


def vectors_of_rows(query: FirstLook | MomentVector) -> Floats:
    """Return the exact vector of each table of one row, and of the empty one, first."""
    kinds = {"a": pa.int64(), "b": pa.int64(), "c": pa.string(), "u": pa.float64()}
    tables = []
    for cells in [None, *(CELLS if query.question.weight is None else WEIGHED)]:
        one = {
            name: pa.array([] if cells is None else [cells[i]], kind) for i, (name, kind) in enumerate(kinds.items())
        }
        tables.append(pa.table(one))
    bound = BoundVectors(protect(tables[0], SMALL), tables[0], query, SMALL)
    vectors = [[int(x) for x in bound.of(table)[0]] for table in tables]
    # One of them is asked as users open it.
    assert vectors[-1] == exact_of(tables[-1], query, SMALL)
    # rows of the same vector move it alike: one of each, after the empty table's
    result: Floats = np.vstack([vectors[:1], np.unique(np.array(vectors[1:], dtype=np.float64), axis=0)])
    return result


FRAMES = [
    Frame((0, 0), (4096, 4096), Fraction(4)),
    Frame((1000, -2000), (900, 2500), Fraction(9, 2)),
    Frame((4096, -4096), (300, 300), Fraction(60)),
]


@pytest.mark.each(3)
@pytest.mark.parametrize("weight", [None, "u"])
@pytest.mark.parametrize("categories", ["", "c"])
@pytest.mark.parametrize("frame", [*FRAMES, None], ids=str)
def test_no_row_moves_the_vector_further(frame: Frame | None, categories: str, weight: str | None) -> None:
    asked = question("a b", categories, weight=weight)
    query = FirstLook(asked) if frame is None else MomentVector(asked, frame)
    vectors = vectors_of_rows(query)
    relations: tuple[Relation, ...] = ("add_remove", "replace")
    for relation in relations:
        neighbors = Neighbors(relation, None)
        ((stated, share),) = query.parts(SMALL, neighbors)
        assert share == 1
        moves = vectors[1:] - vectors[0] if relation == "add_remove" else vectors[1:, None] - vectors[None, 1:]
        l1 = np.abs(moves).sum(axis=-1).max()
        l2 = np.sqrt((moves**2).sum(axis=-1).max())
        assert l1 <= float(stated.l1)
        assert l2 <= stated.l2
        assert np.abs(moves).max() <= float(stated.linf)
        assert np.count_nonzero(moves, axis=-1).max() <= stated.l0
        # Rows in the corners come near it, so that no needless noise is drawn.
        if frame is None or frame.limit < 9:
            assert l2 > 0.6 * stated.l2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_shortened_rows_stay_within_the_limit(data: st.DataObject) -> None:
    """Draw a frame and rows far beyond those of a table: the theorem in floats, by the formula of the docstring."""
    p = data.draw(st.integers(0, 4), label="numbers")
    c = data.draw(st.integers(0 if p else 1, 3), label="categories")
    limit = data.draw(st.floats(1 + c, 200), label="limit")

    def draw_row(name: str) -> tuple[Floats, list[int]]:
        numbers = data.draw(st.lists(st.floats(-50, 50), min_size=p, max_size=p), label=name)
        values = data.draw(st.lists(st.integers(0, 1), min_size=c, max_size=c), label=f"values of {name}")
        z = np.array([1.0, *numbers, *(float(v == k) for v in values for k in (0, 1))])
        weight = min(data.draw(st.floats(0, 1), label=f"weight of {name}"), limit / float(z @ z))
        products = [z[i] * z[j] for i in range(len(z)) for j in range(i + 1, len(z))]
        squares = [0.7 * z[i] ** 2 for i in range(1 + p)]
        return weight * np.array(products + squares), values

    one, _ = draw_row("one row")
    other, _ = draw_row("another row")
    assert np.linalg.norm(one) <= limit / math.sqrt(2) * (1 + 1e-9)
    assert np.abs(one).sum() <= limit * (1.4 + p + c) / 2 * (1 + 1e-9)
    assert np.linalg.norm(one - other) <= math.sqrt(1.02 * limit**2 + c) * (1 + 1e-9)


def test_a_unit_of_several_rows_moves_as_many_times_as_far() -> None:
    frame = FRAMES[0]
    one = MomentVector(question("a b", "c"), frame).parts(DOMAIN, Neighbors("add_remove", None))[0][0]
    unit = sd.PrivacyUnit("id", max_rows=5)
    five = MomentVector(question("a b", "c"), frame).parts(DOMAIN, Neighbors("add_remove", unit))[0][0]
    assert five.l1 == pytest.approx(5 * one.l1, rel=1e-5)
    assert five.l2 == pytest.approx(5 * one.l2, rel=1e-5)


def test_rows_beyond_a_units_bound_do_not_count() -> None:
    table = rows()
    query = MomentVector(question("a b"), FRAMES[0])
    ((exact_rows, *_),) = [exact_of(table, query, DOMAIN, unit=sd.PrivacyUnit("id", max_rows=2))]
    # 60 units of two rows, each row of which weighs 1 at most; .7 of it is released.
    assert exact_rows <= 0.7 * 120 * PARTS


# ---- Refused before the charge

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"numbers": "open"}, "has no bounded sensitivity"),
    ({"numbers": "constant"}, "declared as constant"),
    ({"numbers": "a", "categories": "one"}, "declared with one value"),
    ({"numbers": "a a"}, "named twice"),
    ({"numbers": ""}, "moments are of 1 to"),
    ({"numbers": "a", "folds": 101}, "folds"),
    ({"numbers": "a", "folds": 0}, "folds"),
    ({"numbers": "a", "categories": "id"}, "id"),
    ({"numbers": "a", "weight": "open"}, "no bounded sensitivity"),
    ({"numbers": "a", "weight": "b"}, "0 or more"),
    ({"numbers": "a", "weight": "none"}, "above 0"),
]


@pytest.mark.parametrize(("parts", "words"), REFUSED)
def test_what_has_no_answer_is_refused_at_no_cost(parts: dict[str, Any], words: str) -> None:
    more: dict[str, Any] = {"open": sd.Integer(), "constant": sd.Integer(3, 3), "one": sd.Category(["x"])}
    more["none"] = sd.Integer(0, 0)
    table = rows(10)
    for name in more:
        table = table.append_column(name, pa.array([3] * 10 if name != "one" else ["x"] * 10))
    curator = protect(table, sd.Domain({**DOMAIN.columns, **more}), budget=BUDGET)
    with pytest.raises(QuestionRefused, match=words):
        curator.ask(question(**parts), epsilon=1)
    assert curator.spent == BUDGET.__class__(0, 0)


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(UnknownName, match="nothing"):
        compile_moments(question("nothing"), DOMAIN)


@pytest.mark.parametrize(
    "frame",
    [
        Frame((0,), (4096, 4096), Fraction(4)),
        Frame((0, 9999), (4096, 4096), Fraction(4)),
        Frame((0, 0), (1, 1), Fraction(4)),
        Frame((0, 0), (4096, 4096), Fraction(1, 2)),
        Frame((0, 0), (4096, 4096), Fraction(2**21)),
    ],
)
def test_a_frame_that_engines_could_not_hold_is_refused(frame: Frame) -> None:
    with pytest.raises(QuestionRefused):
        MomentVector(question("a b"), frame).parts(DOMAIN, Neighbors("add_remove", None))


# ---- Through the corridor


def test_it_is_sent_to_servers_as_json() -> None:
    asked = question("a b", "c", folds=5, weight="u")
    assert question_from_json(json.loads(json.dumps(question_to_json(asked)))) == asked
    assert check_moments(asked) is asked
    sent = question_to_json(asked) | {"folds": 1000}
    with pytest.raises(QuestionRefused, match="folds"):
        question_from_json(sent)


@pytest.mark.deep
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"rho": "0.05"}], ids=str)
def test_it_is_planned_and_charged_as_a_whole(loss: dict[str, Any]) -> None:
    budget = sd.ZCDP(10) if "rho" in loss else BUDGET
    curator = protect(rows(), DOMAIN, budget=budget)
    plan = curator.plan(question("a b", "c"), **loss)
    release = curator.ask(plan)
    assert release.cost == plan.cost
    assert curator.spent.amounts() == plan.cost.amounts()
    assert plan.procedure.error(0.95) > 0


def test_every_vector_stays_within_the_session() -> None:
    curator = protect(rows(), DOMAIN, budget=PureDP(10))
    curator.ask(question("a b"), epsilon=10)
    assert curator.remaining == PureDP(0)


@dataclass(frozen=True)
class ForeignLaw:
    """A law from outside, whose name says nothing of its tails."""

    variance_of_steps: float
    laplace_scale: float | None

    def variance(self) -> float:
        return self.variance_of_steps

    def continuous(self) -> ContinuousLaw:
        return ContinuousLaw(self.variance_of_steps, self.laplace_scale)


@pytest.mark.parametrize(
    ("law", "laplace"),
    [
        (DiscreteLaplace(Fraction(3)), True),
        (best_staircase(3, Fraction(2)), True),
        (ForeignLaw(18.0, 3.0), True),
        (DiscreteGaussian(Fraction(18)), False),
        (ForeignLaw(18.0, None), False),
    ],
    ids=["Laplace", "staircase", "foreign, heavy", "Gaussian", "foreign, light"],
)
def test_a_law_says_itself_how_heavy_its_tails_are(law: Any, laplace: bool) -> None:
    """By the name of its class a staircase, or a law registered from outside, had the intervals of Gaussian noise."""
    compiled = compile_moments(question("a b"), DOMAIN)
    estimate = Noisy(tuple(range(1, compiled.cells + 1)), Fraction(1), law)
    (moments,) = moments_of(estimate, compiled, Frame((0, 0), (4096, 4096), Fraction(5)))
    assert moments.laplace is laplace
    assert moments.variance == pytest.approx(law.variance())


@pytest.mark.deep
def test_noise_has_the_stated_variance() -> None:
    """Of 100 vectors of 36 Laplace noises: a mean square further than 20% from 1 has odds below 1 in 10^6."""
    query = MomentVector(question("a b", "c d"), Frame((0, 0), (4096, 4096), Fraction(5)))
    exact = np.array(exact_of(rows(), query), dtype=float)
    curator = protect(rows(), DOMAIN, budget=BUDGET, seed=5)

    def ask_often(data: Queryable) -> list[Any]:
        return [data.release(query, PureDP(1)).outputs[0].estimate for _ in range(100)]

    estimates, _ = curator.adapt(ask_often, describe="a test", epsilon=100)
    variance = float(estimates[0].law.variance())
    ratios = [((np.array(estimate.steps, dtype=float) - exact) ** 2 / variance).mean() for estimate in estimates]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.2)
