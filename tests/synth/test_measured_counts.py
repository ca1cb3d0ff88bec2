"""Answers from measured counts: the variance is that of the estimate, the least of its kind, and questions get its interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.core.estimates.model_estimate import ModelEstimate
from sordino.core.neighbors import Neighbors
from sordino.synth.encoded_column import encode_columns
from sordino.synth.error_law import ColumnNoise, ErrorLaw
from sordino.synth.measurement import KeyShares, MeasuredCounts, NoisyTable, Question, rake_pairs
from sordino.synth.model import Model
from sordino.synth.one_way_marginals import DomainCompression, combine_one_way, estimate_one_way
from synth.support import Source

CODES = [DomainCompression(np.array([0, 1, 1, 2, 3]), 4), *(DomainCompression(np.arange(n), n) for n in (6, 4))]
NOISES = {(0,): 50.0, (1,): 20.0, (2,): 80.0, (0, 1): 10.0, (1, 2): 30.0, (0, 2): 5.0}


def _keys(unmeasured: float = 0.0) -> KeyShares:
    columns = [ColumnNoise(np.full(n, 1 / n), np.ones(n), np.zeros(n), np.zeros(n)) for n in (5, 6, 4)]
    law = ErrorLaw(tuple(columns), frozenset(), 1.0, 1.0, unmeasured, 1.0, 3.0)
    return KeyShares(CODES, [np.array([1, 0.5, 0.5, 1, 1]), np.ones(6), np.ones(4)], law, 0.0)


def _measure(truth: Any, rng: Any) -> MeasuredCounts:
    """Measure every column over its keys, every pair over its codes."""
    found = {}
    for table, variance in NOISES.items():
        cells = truth.sum(axis=tuple(a for a in range(3) if a not in table))
        if len(table) > 1 and table[0] == 0:
            cells = np.stack([cells[CODES[0].codes == k].sum(axis=0) for k in range(4)])
        found[table] = NoisyTable(cells + rng.normal(0.0, np.sqrt(variance), cells.shape), variance)
    return MeasuredCounts(tuple(found.pop((c,)) for c in range(3)), found)


@pytest.mark.each(8)
@pytest.mark.parametrize(
    ("columns", "members"),
    [
        ((0,), [[0, 1, 1, 1, 0]]),
        ((0,), [[0, 1, 2, 3, 4]]),  # parts a code: its column's own counts know better
        ((1, 0), [[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0]]),
        ((2, 1), [[0, 1, 2, 3], [0, 0, 1, 1, 1, 0]]),
    ],
)
def test_the_stated_variance_is_that_of_the_estimate(columns: tuple[int, ...], members: list[Any]) -> None:
    """1,000 draws of all tables: no bias, and the deviation stated, by group, less the share for whole counts."""
    rng = np.random.default_rng(1)
    truth = rng.poisson(30, size=(5, 6, 4)).astype(float)
    shape = tuple(max(m) + 1 for m in members)
    values, groups = rng.normal(size=shape), np.arange(int(np.prod(shape))).reshape(shape) % 3 - 1
    exact = truth.sum(axis=tuple(a for a in range(3) if a not in columns))
    exact = exact.T if list(columns) != sorted(columns) else exact
    each = np.zeros(shape)
    np.add.at(each, np.ix_(*members), exact)
    right = [float((values * each)[groups == g].sum()) for g in (0, 1)]
    asked = Question(columns, [np.array(m) for m in members], values, groups, 2)
    missed, stated = [], np.zeros(2)
    for _ in range(1000):
        found = _measure(truth, rng).estimate(asked, _keys())
        assert found is not None
        missed.append(found[0] - right)
        stated = found[1]
    largest = np.array([np.abs(values[groups == g]).max(initial=0.0) for g in (0, 1)])
    plain = np.sqrt(np.square(stated) - 0.25 * np.square(largest))
    assert np.std(missed, axis=0) == pytest.approx(plain, rel=0.1)
    assert np.all(np.abs(np.mean(missed, axis=0)) <= 4.5 * plain / np.sqrt(1000) + 1e-9)


def test_every_table_that_holds_a_column_sharpens_its_counts() -> None:
    truth, rng = np.full((5, 6, 4), 30.0), np.random.default_rng(2)
    whole = _measure(truth, rng)
    asked = Question((1,), [np.array([0, 1, 1, 1, 1, 1])], np.array([1.0, 0.0]), None, 1)
    deviations = []
    for counts in (MeasuredCounts(whole.one_way), whole):
        found = counts.estimate(asked, _keys())
        assert found is not None
        deviations.append(float(found[1][0]))
    assert deviations[1] < deviations[0] < np.sqrt(20.0 + 0.25) + 1e-9  # one count's own noise is 20


def test_a_parted_code_adds_what_its_shares_may_miss() -> None:
    truth = np.full((5, 6, 4), 30.0)
    parting, along = np.array([0, 1, 0, 0, 0]), np.array([0, 1, 1, 0])
    asked = Question((0, 2), [parting, along], np.array([[0.0, 0.0], [0.0, 1.0]]), None, 1)
    counts = _measure(truth, np.random.default_rng(3))
    sure, unsure = (counts.estimate(asked, _keys(t)) for t in (0.0, 900.0))
    assert sure is not None
    assert unsure is not None
    assert float(unsure[1][0]) > float(sure[1][0])


@pytest.mark.parametrize("share", [0.0, 1e-12, 0.5])
def test_a_key_whose_rows_the_noise_hid_is_not_known_to_have_none(share: float) -> None:
    """A tail's key got no share of its code, so margins of pairs said 0, give or take half a row, where 158 rows were."""
    truth = np.full((5, 6, 4), 30.0)
    counts = _measure(truth, np.random.default_rng(3))
    keys = replace(_keys(), within=[np.array([1.0, share, 1.0 - share, 1, 1]), np.ones(6), np.ones(4)])
    inside = np.array([0, 1, 0, 0, 0])
    one = counts.estimate(Question((0,), [inside], np.array([0.0, 1.0]), None, 1), keys)
    assert one is not None
    assert float(one[1][0]) >= 0.9 * np.sqrt(NOISES[(0,)])
    assert abs(float(one[0][0]) - 24 * 30.0) <= 5 * float(one[1][0])
    pair = Question((0, 2), [inside, np.array([0, 1, 0, 0])], np.array([[0.0, 0.0], [0.0, 1.0]]), None, 1)
    both = counts.estimate(pair, keys)
    assert both is not None
    # A quarter of the rows has the other column's value: so much of the noise in the key's own count is in theirs.
    assert float(both[1][0]) >= 0.25


def test_a_missing_value_without_a_share_parts_no_code() -> None:
    keys = replace(_keys(), codes=[DomainCompression(np.array([0, 1, 1, 2, 2]), 3), *CODES[1:]])
    keys = replace(keys, within=[np.array([1, 0.5, 0.5, 1, 0.0]), np.ones(6), np.ones(4)])
    inside = np.array([0, 0, 0, 1, 0])
    assert not keys.aligned(0, inside)
    assert replace(keys, missing=(True, False, False)).aligned(0, inside)


def test_raking_takes_over_what_a_measured_pair_shows() -> None:
    """A model of independent columns, a measured pair that is dependent: the pair is met, one-way counts stay."""
    loose: dict[tuple[int, ...], NoisyTable] = {(0, 1): NoisyTable(np.array([[400.0, 100.0], [100.0, 400.0]]), 1.0)}
    made = rake_pairs(np.full((2, 2, 2), 125.0), (1, 2, 0), [np.eye(2)] * 3, loose, [])
    assert made.sum(axis=1) == pytest.approx(np.array([[400.0, 100.0], [100.0, 400.0]]), rel=0.01)
    assert made.sum(axis=(0, 1)) == pytest.approx([500.0, 500.0])
    noise: dict[tuple[int, ...], NoisyTable] = {(0, 1): NoisyTable(np.array([[255.0, 245.0], [245.0, 255.0]]), 400.0)}
    assert rake_pairs(np.full((2, 2), 250.0), (0, 1), [np.eye(2)] * 2, noise, []) == pytest.approx(250.0, abs=2.5)


def test_raking_to_a_pair_keeps_those_that_the_model_knows() -> None:
    """1,895 rows became 2,029: a table of two columns was raked to a third's, and what it had of the two was lost."""
    rng = np.random.default_rng(6)
    table = rng.gamma(0.5, 500.0, size=(6, 4, 5))
    pair = table.sum(axis=1) * rng.gamma(2.0, 0.5, size=(6, 5))
    loose: dict[tuple[int, ...], NoisyTable] = {(0, 2): NoisyTable(pair * (table.sum() / pair.sum()), 1.0)}
    shares = [np.eye(n) for n in table.shape]
    free, made = (rake_pairs(table, (0, 1, 2), shares, loose, known) for known in ([], [(0, 1), (1, 2)]))
    # what is raked to is met as far as the pairs that are kept leave it
    goal = free.sum(axis=1)
    assert np.abs(made.sum(axis=1) - goal).sum() < np.abs(table.sum(axis=1) - goal).sum() / 2
    for axis in (0, 2):
        known = table.sum(axis=axis)
        assert made.sum(axis=axis) == pytest.approx(known, rel=0.06, abs=2.0)
        assert np.abs(free.sum(axis=axis) - known).max() > 50
    for axes in ((0, 1), (0, 2), (1, 2)):
        assert made.sum(axis=axes) == pytest.approx(table.sum(axis=axes), rel=3e-3)


def _model(loss: dict[str, Any], seed: int = 0) -> tuple[Model, Any]:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 6, 10_000)
    keys = {"a": a, "b": (a + rng.integers(0, 2, 10_000)) % 6, "c": rng.integers(0, 4, 10_000)}
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    return synth.fit(Source(domain, keys, sd.Rng.seeded(seed)), rng=sd.Rng.seeded(seed), **loss), keys


@pytest.mark.deep
@pytest.mark.each(2)
@pytest.mark.parametrize("loss", [{"epsilon": 1, "delta": "1e-9"}, {"epsilon": 1}])
def test_questions_within_a_table_have_the_interval_of_its_noise(loss: dict[str, Any]) -> None:
    covered: list[bool] = []
    for seed in range(8):
        model, keys = _model(loss, seed)
        answer = model.answer(Selection().where(col("a").is_between(1, 2)).agg(sd.count()))
        assert "noise" in str(answer.model.remark() if answer.model else "")
        groups = model.answer(Selection().group_by("b").agg(sd.count().alias("n"))).outputs[0].estimate
        right = [int(np.isin(keys["a"], [1, 2]).sum()), *np.bincount(keys["b"]).tolist()]
        ends = [answer.interval(0.95), *groups.intervals(0.95)]
        covered += [low <= n <= high for (low, high), n in zip(ends, right, strict=True)]
        assert answer.interval(0.95)[1] - answer.interval(0.95)[0] < 400
    assert np.mean(covered) >= 0.8  # 56 intervals at .95, those of a fit alike


def test_laplace_noise_reaches_as_far_as_one_draw_of_it() -> None:
    plain, heavy = (ModelEstimate((50.0,), (10.0,), 0.0, (1000.0, 0.0), laplace=x) for x in (False, True))
    for confidence in (0.5, 0.9, 0.95, 0.99):
        exact = -np.log1p(-confidence) * 10.0 / np.sqrt(2.0)
        assert heavy.errors(confidence)[0] >= max(exact, plain.errors(confidence)[0]) - 1e-9


def test_a_saved_model_answers_alike_and_a_former_file_by_its_model(tmp_path: Any) -> None:
    model, _ = _model({"epsilon": 1})
    model.save(tmp_path / "x.model")
    read = synth.load(tmp_path / "x.model")
    asked = Selection().where(col("a") > 2).agg(sd.count())
    assert read.answer(asked).interval(0.95) == model.answer(asked).interval(0.95)
    assert read.parts.counts.laplace
    former = MeasuredCounts()
    assert former.estimate(Question((0,), [np.arange(6)], np.ones(6), None, 1), _keys()) is None


def test_two_measurements_of_a_column_have_the_variance_of_their_combination() -> None:
    """2,000 draws of two measurements of two columns, one four times as noisy: no bias, and the variance that is stated."""
    truth, rng = [np.array([50.0, 20.0, 30.0]), np.array([60.0, 40.0])], np.random.default_rng(5)
    domain = sd.Domain({"a": sd.Category(["x", "y", "z"]), "b": sd.Boolean()})
    columns = encode_columns(domain, None, Neighbors("add_remove", None))
    counts = [np.append(c, 0.0) for c in truth]  # a missing value is a key of its own

    def measure(variance: float) -> Any:
        noisy = [c + rng.normal(0.0, np.sqrt(variance), len(c)) for c in counts]
        return estimate_one_way(columns, noisy, [variance] * 2)

    found = [combine_one_way(measure(4.0), measure(16.0)) for _ in range(2000)]
    assert found[0].variances == pytest.approx((3.2, 3.2))
    for column, exact in enumerate(counts):
        missed = np.array([one.noisy[column] - exact for one in found])
        assert np.var(missed) == pytest.approx(found[0].variances[column], rel=0.1)
    assert np.std([one.rows - 100.0 for one in found]) == pytest.approx(found[0].rows_deviation, rel=0.1)


@pytest.mark.parametrize(("loss", "laplace"), [({"epsilon": 1}, True), ({"epsilon": 1, "delta": "1e-9"}, False)])
def test_a_fit_states_which_noise_its_counts_have(loss: dict[str, Any], laplace: bool) -> None:
    model, _ = _model(loss)
    assert model.parts.counts.laplace is laplace
    answer = model.answer(Selection().where(col("a").is_between(1, 2)).agg(sd.count()))
    estimate = answer.outputs[0].estimate
    assert isinstance(estimate, ModelEstimate)
    assert estimate.laplace is laplace
