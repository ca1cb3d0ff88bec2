"""Sessions: an adaptive algorithm can only query, is charged as a whole first, and cannot pass its loss."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sordino as sd
from ask.curator.support import TABLE, S, curator
from sordino.ask.queries.adaptive.marginal import PARTS, Axis, ContingencyTable, Distances, MarginalQuery
from sordino.ask.queries.queryable import Queryable, ReleaseContent
from sordino.core.loss import ZCDP, PureDP
from sordino.errors import BudgetExhausted, ChargedError, QuestionRefused

PAIR = ContingencyTable((Axis("age", edges=(0, 40, 60, 100)), Axis("occ")))
MIRRORED = ContingencyTable((Axis("occ"), Axis("age", edges=(0, 40, 60, 100))))
ALONE = ContingencyTable((Axis("occ", codes=(0, 0, 1)),))


def _exact() -> Any:
    cells = np.zeros((3, 3))
    for age, occ in zip(TABLE["age"].to_pylist(), TABLE["occ"].to_pylist(), strict=True):
        cells[0 if age < 40 else 1 if age < 60 else 2, {"Sales": 0, "Tech": 1, None: 2}[occ]] += 1
    return cells


def test_marginals_are_the_counts_plus_small_noise_in_any_order_of_axes() -> None:
    held = curator(budget=PureDP(1000))

    def ask(q: Queryable) -> Any:
        return q.release(MarginalQuery((PAIR, MIRRORED, ALONE)), PureDP(300))

    found, release = held.adapt(ask, describe="tables", epsilon=300)
    pair, mirrored, alone = (list(out.estimate.values()) for out in found.outputs)
    assert np.abs(np.array(pair).reshape(3, 3) - _exact()).max() <= 2
    assert np.abs(np.array(mirrored).reshape(3, 3).T - _exact()).max() <= 2
    assert np.abs(np.array(alone) - [_exact()[:, :2].sum(), _exact()[:, 2].sum()]).max() <= 2
    assert release.cost == PureDP(300)
    assert held.spent == PureDP(300)


def test_distances_follow_from_the_same_counts() -> None:
    model = (_exact().astype(np.int64) * PARTS).ravel()

    def ask(q: Queryable) -> Any:
        return q.release(Distances((PAIR, PAIR), (model, model * 0)), ZCDP(200)).outputs[0].estimate.values()

    (near, far), _ = curator(budget=ZCDP(1000)).adapt(ask, describe="distances", rho=200)
    assert abs(near) < 2
    assert abs(far - 600) < 2


@pytest.mark.parametrize(
    "candidates",
    [[], [S.agg(sd.count())], [MarginalQuery((PAIR,)), S.agg(sd.count())], [MarginalQuery((PAIR, ALONE))]],
    ids=["none", "an aggregate", "an aggregate beside a vector", "two vectors"],
)
def test_candidates_are_vector_queries_of_one_number(candidates: list[Any]) -> None:
    def ask(q: Any) -> None:
        with pytest.raises(QuestionRefused, match="candidate"):
            q.select(candidates, PureDP(1))
        with pytest.raises(QuestionRefused, match="candidate"):
            q.above(candidates, 0, PureDP(1))
        assert q._spent == {"epsilon": 0}

    curator(budget=PureDP(10)).adapt(ask, describe="candidates", epsilon=2)


def test_a_session_cannot_pass_its_loss_nor_outlive_its_run() -> None:
    kept: list[Queryable] = []

    def greedy(q: Queryable) -> list[Any]:
        kept.append(q)
        answers = [q.release(S.agg(sd.count()), PureDP("1/2")).value]
        with pytest.raises(QuestionRefused, match=r"0\.5 of this session's loss is left"):
            q.release(S.agg(sd.count()), PureDP("2/3"))
        answers.append(q.release(S.agg(sd.count()), PureDP("1/2")).value)
        with pytest.raises(QuestionRefused, match="0 of this session's loss is left"):
            q.release(S.agg(sd.count()), PureDP("1e-9"))
        return answers

    held = curator(budget=PureDP(2))
    answers, _ = held.adapt(greedy, describe="greedy", epsilon=1)
    assert len(answers) == 2
    with pytest.raises(QuestionRefused, match="ended"):
        kept[0].release(S.agg(sd.count()), PureDP("1e-9"))
    assert held.spent == PureDP(1)


def test_the_whole_is_charged_before_the_algorithm_runs_and_stays_charged_when_it_fails() -> None:
    held = curator(budget=PureDP(1))

    def failing(q: Queryable) -> None:
        del q
        assert held.spent == PureDP(1)
        raise ValueError("words of private data")

    with pytest.raises(ChargedError) as caught:
        held.adapt(failing, describe="failing", epsilon=1)
    assert "private data" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(BudgetExhausted):
        held.adapt(failing, describe="failing", epsilon="1e-9")


def test_epsilon_with_delta_counts_the_rho_it_pays_for_and_is_charged_as_asked() -> None:
    held = curator(budget=sd.ApproxDP(1, "1e-6"))
    seen: list[Any] = []

    def ask(q: Queryable) -> Any:
        seen.append(q.loss)
        assert isinstance(q.loss, ZCDP)
        return q.release(MarginalQuery((ALONE,)), q.loss).outputs[0].estimate.values()

    _, release = held.adapt(
        ask, describe="one table", epsilon=1, delta="1e-6", record=lambda v: ReleaseContent(notes=(str(v),))
    )
    assert 0 < seen[0].rho < Fraction(1, 20)
    assert release.cost == sd.ApproxDP(1, "1e-6")
    assert held.release(release.charge).notes == release.notes


def test_a_cell_that_holds_nobody_has_noise_as_any_other() -> None:
    """Which cells are empty is the data's. At epsilon .1 one is 0 with chance .05: nine of nine of them, of one scan, never."""
    empty = MarginalQuery((ContingencyTable((Axis("age", edges=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),)),))

    def ask(q: Queryable) -> Any:
        return q.release(empty, PureDP("0.1")).outputs[0].estimate.values()

    found, _ = curator(budget=PureDP(1)).adapt(ask, describe="tables", epsilon="0.1")
    assert len(found) == 9
    assert sum(cell != 0 for cell in found) > 4
