"""Attacks that repeat: asking again and averaging, replaying a request, spending between the look at a budget and the charge."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from serving import COUNT, served
from sordino.errors import BudgetExhausted, LedgerError, QuestionRefused, SordinoError

ROWS, DOMAIN = 1234, sd.Domain({"x": sd.Integer(0, 1)})
TABLE = pa.table({"x": [1] * ROWS})


def naive(rng: np.random.Generator, epsilon: float) -> float:
    """Answer the same count with noise each time, and keep no account."""
    return ROWS + float(rng.laplace(0, 1 / epsilon))


@pytest.mark.deep
@pytest.mark.attack("average many answers to one question", source="Dinur, Nissim 2003; Denning 1980")
def test_averaging_wins_without_a_ledger_and_wins_nothing_with_one() -> None:
    """With a budget of 1 the mean of k answers at 1/k errs more than one answer at 1, and there is no further answer."""
    rng = np.random.default_rng(1)
    assert round(np.mean([naive(rng, 0.1) for _ in range(10_000)])) == ROWS  # epsilon 1,000 in truth
    errors = []
    for seed in range(8):
        curator = protect(TABLE, DOMAIN, budget=sd.PureDP(1), seed=seed)
        answers = [curator.ask(sd.count(), epsilon="0.05").value for _ in range(20)]
        with pytest.raises(BudgetExhausted):
            curator.ask(sd.count(), epsilon="0.05")
        assert curator.spent == sd.PureDP(1)
        errors.append(np.mean(answers) - ROWS)
        curator.close()
    # The mean of 20 draws of Lap(20) has a standard deviation of 6.3; one draw of Lap(1) has 1.4. Seeds are fixed.
    assert 3 < np.sqrt(np.mean(np.square(errors))) < 12


@pytest.mark.deep
@pytest.mark.attack(
    "subtract two answers that one person sets apart", source="Denning, Denning, Schwartz 1979, The tracker"
)
def test_a_difference_finds_a_person_in_exact_counts_and_is_a_guess_in_ours() -> None:
    """Two counts of epsilon 1/2 let nobody guess her presence better than e / (1 + e) = .731: 80 guesses, 5 deviations more."""
    texts = ("SELECT COUNT(*) AS n FROM data", "SELECT COUNT(*) AS n FROM data WHERE age <> 77")
    domain, right, exact = sd.Domain({"age": sd.Integer(0, 120)}), 0, 0
    for there in (False, True):
        ages = [20 + i % 50 for i in range(200)] + [77] * there
        curator = protect(pa.table({"age": ages}), domain, name="data", seed=5 + there)
        # Read once: what is attacked are the answers.
        questions = [curator.plan(sd.sql(text), epsilon="0.5") for text in texts]
        for _ in range(40):
            every, others = (curator.ask(question).value for question in questions)
            right += (every - others > 0.5) == there
        exact += (len(ages) - sum(age != 77 for age in ages) > 0.5) == there
        curator.close()
    assert exact == 2  # the same difference of exact counts is never wrong
    assert 0.5 < right / 80 < math.e / (1 + math.e) + 5 * math.sqrt(0.2 / 80)


@pytest.mark.attack("replay a request id", source="Haeberlen, Pierce, Narayan 2011; CWE-294")
def test_a_replayed_request_is_the_stored_answer_and_no_other_question(tmp_path: Path) -> None:
    curator = protect(TABLE, DOMAIN, budget=sd.PureDP(1), ledger=tmp_path / "a.ledger", name="people")
    first = curator.ask(sd.count(), epsilon="0.5", request_id="r1")
    assert {curator.ask(sd.count(), epsilon="0.5", request_id="r1").value for _ in range(20)} == {first.value}
    assert curator.spent == sd.PureDP("0.5")
    others: list[Any] = [
        (sd.count(), "0.4"),
        (sd.count(), "0.6"),
        (sd.sum("x"), "0.5"),
        (sd.sql("SELECT COUNT(*) AS n FROM people WHERE x = 0"), "0.5"),
    ]
    for question, epsilon in others:
        with pytest.raises((LedgerError, QuestionRefused)):
            curator.ask(question, epsilon=epsilon, request_id="r1")
    assert curator.spent == sd.PureDP("0.5")
    curator.close()
    again = protect(TABLE, DOMAIN, budget=sd.PureDP(1), ledger=tmp_path / "a.ledger", name="people")
    assert (
        again.ask(sd.count(), epsilon="0.5", request_id="r1").value == first.value
    )  # another process, the same answer
    again.close()


@pytest.mark.deep
@pytest.mark.attack("replay a request id")
def test_a_key_of_another_account_opens_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        first = server.ask(epsilon="0.5", key="k1").json()
        assert server.ask(epsilon="0.5", key="k1").json() == first
        hers = server.ask(epsilon="0.5", key="k1", who="ben")
        assert hers.json()["charge"] != first["charge"]  # an answer of ben's own, paid by ben
        for sql, epsilon in ((COUNT, "0.4"), (COUNT.replace("64", "65"), "0.5")):
            assert server.ask(sql, epsilon=epsilon, key="k1").status_code in (400, 409, 422)


class CheckThenSpend:
    """The account of a textbook: it looks, then it spends."""

    def __init__(self, cap: float) -> None:
        self.cap, self.spent, self.gate = cap, 0.0, threading.Barrier(8)

    def charge(self, amount: float) -> bool:
        if self.spent + amount > self.cap:
            return False
        self.gate.wait()  # the scheduler, at its worst
        self.spent += amount
        return True


@pytest.mark.attack(
    "spend between the look at a budget and the charge",
    source="CWE-367; seen elsewhere: 102 of 100 granted to 32 threads",
)
def test_eight_who_look_at_once_overspend_a_textbook_and_not_the_ledger(tmp_path: Path) -> None:
    naive_account = CheckThenSpend(1)
    curator = protect(TABLE, DOMAIN, budget=sd.PureDP(1), ledger=tmp_path / "a.ledger")
    gate, granted = threading.Barrier(8), [0]

    def spend() -> None:
        assert naive_account.charge(1)
        gate.wait()
        try:
            curator.ask(sd.count(), epsilon=1)
        except SordinoError:
            return
        granted[0] += 1

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert naive_account.spent > 1
    assert granted == [1]
    assert curator.spent == sd.PureDP(1)
    curator.close()
