"""Any sequence of calls to a ledger, from two connections and forks, comes to what the reference says."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from core.ledger.reference_ledger import Outcome, ReferenceLedger
from core.ledger.spenders_under_fire import jumping_clock
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, StoredAnswer
from sordino.core.loss import PureDP
from sordino.errors import DeclarationError, SordinoError

LOSSES = st.sampled_from(
    [Fraction(1, 3), Fraction(1, 7), Fraction(1, 10), Fraction(2, 5), Fraction(1), Fraction(1, 10**9)]
)
QUESTIONS, REQUESTS, SPENDERS = (st.sampled_from(list(text)) for text in ("qr", "abcdefgh", "xyz"))
WHICH = st.integers(0, 1)


class LedgerMachine(RuleBasedStateMachine):
    """Do the same to a ledger, through either of two connections, and to the reference."""

    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=os.environ["SORDINO_STATE"]))
        self.path, self.model = self.place / "l", ReferenceLedger(Fraction(2))
        self.open: list[Ledger] = []
        with Ledger.open(self.path, cap=PureDP(2), mark=self.place / "mark"):
            self.open = [self._connect(), self._connect()]

    def _connect(self) -> Ledger:
        return Ledger.existing(self.path, mark=self.place / "mark", clock=jumping_clock(random.Random(1)))

    @rule(
        which=WHICH,
        epsilon=LOSSES,
        question=QUESTIONS,
        request=st.none() | REQUESTS,
        spender=st.none() | SPENDERS,
        forked=st.sampled_from([False] * 49 + [True]),
    )
    def charge(
        self, which: int, epsilon: Fraction, question: str, request: str | None, spender: str | None, forked: bool
    ) -> None:
        def ask() -> Outcome:
            return _say(
                lambda: self.open[which].charge(
                    LaplaceEvent(epsilon), note="", question=question, request=request, spender=spender
                )
            )

        want = self.model.charge(epsilon, question, request, spender)
        assert (_ask_in_fork(ask) if forked else ask()) == want

    @precondition(lambda self: self.model.charges)
    @rule(which=WHICH, number=st.integers(0, 10**6), fails=st.booleans())
    def close(self, which: int, number: int, fails: bool) -> None:
        number %= len(self.model.charges)
        charge = self.open[which].find(f"c-{number + 1:04d}")
        state, answer = ("failed", "") if fails else ("committed", f'"{number}"')
        found = _say(
            lambda: self.open[which].fail(charge, "why") if fails else self.open[which].commit(charge, answer), state
        )
        assert found == self.model.close(number, state, answer)

    @rule(which=WHICH, request=REQUESTS, question=QUESTIONS)
    def recall(self, which: int, request: str, question: str) -> None:
        found = _say(lambda: self.open[which].recall(request, question), "nothing")
        assert found == (self.model.recall(request, question) or ("nothing", ""))

    @rule(which=WHICH, spender=SPENDERS, cap=st.sampled_from([Fraction(1, 2), Fraction(1)]))
    def share(self, which: int, spender: str, cap: Fraction) -> None:
        want = self.model.share(spender, cap)
        assert _say(lambda: self.open[which].declare_share(spender, PureDP(cap)), "shared") == want

    @rule(which=WHICH, more=st.sampled_from([Fraction(-1), Fraction(-1, 3), Fraction(1, 3), Fraction(1)]))
    def amend(self, which: int, more: Fraction) -> None:
        cap = self.model.cap + more
        fits = cap >= self.model.spent  # a share may be above it: the cap binds by itself
        try:
            self.open[which].amend(reason="more, or less", cap=PureDP(cap))
            assert fits
            self.model.cap = cap
        except DeclarationError:
            assert not fits

    @rule(which=WHICH)
    def reopen(self, which: int) -> None:
        self.open[which].close()
        self.open[which] = self._connect()

    @invariant()
    def sums_agree(self) -> None:
        LedgerMachine.steps += 1
        for ledger in self.open:
            assert ledger.spent() == PureDP(self.model.spent)
            assert ledger.remaining() == PureDP(self.model.cap - self.model.spent)

    def teardown(self) -> None:
        """Compare all that the ledger holds."""
        try:
            if self.open:
                report, ledger = self.open[0].verify(), self.open[1]
                states = [charge.state for charge in ledger.charges()]
                assert states == [state for state, _, _ in self.model.charges]
                assert report.spent == PureDP(self.model.spent)
                assert {n: (s.cap, s.spent) for n, s in ledger.shares().items()} == {
                    n: (PureDP(cap), PureDP(spent)) for n, (cap, spent) in self.model.shares.items()
                }
        finally:
            for ledger in self.open:
                ledger.close()
            shutil.rmtree(self.place)


def _say(call: Callable[[], object], word: str = "") -> Outcome:
    """Return what a call comes to in the reference's words."""
    try:
        found: Any = call()
    except SordinoError as error:
        return type(error).__name__, ""
    if isinstance(found, Charge):
        return "charged", found.id
    return ("answered", found.answer) if isinstance(found, StoredAnswer) else (word, "")


def _ask_in_fork(ask: Callable[[], Outcome]) -> Outcome:
    """Return what a forked process is told."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.write(writing, " ".join(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        word, _, rest = stream.read().partition(" ")
    os.waitpid(process, 0)
    return word, rest


def _run(sequences: int, steps: int) -> int:
    """Run so many sequences of so many calls, the same in every run; return how many calls were compared."""
    LedgerMachine.steps = 0
    Path(os.environ["SORDINO_STATE"]).mkdir(exist_ok=True)
    health = list(HealthCheck)
    plan = settings(
        max_examples=sequences, stateful_step_count=steps, deadline=None, derandomize=True, suppress_health_check=health
    )
    run_state_machine_as_test(LedgerMachine, settings=plan)
    return LedgerMachine.steps


def test_a_ledger_does_what_the_reference_says() -> None:
    assert _run(5, 25) > 75


@pytest.mark.deep
def test_100_000_calls_come_to_what_the_reference_says() -> None:
    assert _run(1200, 100) >= 100_000
