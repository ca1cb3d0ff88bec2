"""Spenders that die at a chosen point while they charge and answer, and what must hold of their ledger afterwards.

A spender is a fork of the program that watches: it opens the ledger anew, or goes on with the one that was open before the
fork, and says through a pipe what it has been granted and what it would have sent. What it said is compared with the file.
"""

from __future__ import annotations

import inspect
import itertools
import os
import random
import select
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from types import FrameType
from typing import Any

from core.ledger.faulty_disk import Fault, FaultyDisk, interpose
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.location import Place
from sordino.core.ledger.records import Charge
from sordino.core.loss import PureDP
from sordino.errors import BudgetExhausted, InDoubt, LedgerError, SordinoError

EPSILON = Fraction(1, 1000)
FILES = inspect.getfile(Ledger).removesuffix("ledger.py")
MOST = 15  # charges of one spender, which then kills itself
KINDS = ("at a random moment", "at a line of the ledger", "at a write or sync", "in the middle of a write")


@dataclass
class Toll:
    """Count what was tried and seen; `violations` says what did not hold."""

    points: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    charges: int = 0
    in_doubt: int = 0
    unsaid: int = 0
    full: int = 0
    doubts: int = 0
    refused: int = 0
    replayed: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Toll) -> None:
        """Count what another toll counts."""
        self.points.update(other.points)
        self.violations += other.violations
        for name in ("answers", "charges", "in_doubt", "unsaid", "full", "doubts", "refused", "replayed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class LineTrap:
    """Kill this process at the n-th line that it runs of the ledger's files, wherever they lie."""

    left: int

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Count lines, as sys.settrace asks."""
        if not frame.f_code.co_filename.startswith(FILES):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace

    def set(self) -> None:
        """Watch this thread and those it starts."""
        threading.settrace(self.trace)
        sys.settrace(self.trace)


def jumping_clock(draw: random.Random) -> Callable[[], str]:
    """Return a clock that goes back and forth by up to centuries."""
    return lambda: f"{draw.randrange(1970, 9999):04}-{draw.randrange(1, 13):02}-28T23:59:{draw.randrange(60):02}.999Z"


@dataclass(frozen=True, slots=True)
class Spender:
    """State how one spender lives and dies; `at` is the number of the line, of the operation, or microseconds."""

    name: str
    kind: str
    at: int
    threads: int = 1
    jumps: bool = False
    fault: Fault | None = None

    def start(self, ledger: Ledger | Place) -> tuple[int, int]:
        """Fork it, and return its process and the pipe that it speaks through."""
        reading, writing = os.pipe()
        process = os.fork()
        if process:
            os.close(writing)
            return process, reading
        try:
            os.close(reading)
            os.write(writing, b"ready\n")
            self._live(ledger, writing)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def kill_at(self, process: int, pipe: int) -> None:
        """Kill it at its moment, where it does not die by itself."""
        if self.kind == "at a random moment":
            select.select([pipe], [], [])
            time.sleep(self.at / 1e6)
            os.kill(process, signal.SIGKILL)

    def _live(self, ledger: Ledger | Place, pipe: int) -> None:
        if self.kind == "at a line of the ledger":
            LineTrap(self.at).set()
        if self.kind not in KINDS[2:] and self.fault is None:
            self._spend(ledger, pipe)
            return
        tear = self.kind == "in the middle of a write"
        with interpose(FaultyDisk(self.at, self.fault or ("tear" if tear else "kill"))):
            self._spend(ledger, pipe)

    def _spend(self, ledger: Ledger | Place, pipe: int) -> None:
        if not isinstance(ledger, Ledger):
            jumping = jumping_clock(random.Random(self.name))
            ledger = Ledger.existing(ledger, clock=jumping) if self.jumps else Ledger.existing(ledger)
        count = itertools.count()
        threads = [threading.Thread(target=self._loop, args=(ledger, pipe, count)) for _ in range(self.threads - 1)]
        for thread in threads:
            thread.start()
        self._loop(ledger, pipe, count)
        for thread in threads:
            thread.join()

    def _loop(self, ledger: Ledger, pipe: int, count: itertools.count[int]) -> None:
        while (number := next(count)) < MOST:
            try:
                self._ask(ledger, pipe, f"{self.name}-{number}")
            except BudgetExhausted:
                os.write(pipe, b"full\n")
                return
            except InDoubt:
                os.write(pipe, b"doubt\n")
            except LedgerError:
                os.write(pipe, b"refused\n")

    def _ask(self, ledger: Ledger, pipe: int, request: str) -> None:
        charge = ledger.charge(LaplaceEvent(EPSILON), note="", question="q", request=request)
        assert isinstance(charge, Charge)
        os.write(pipe, f"charged {charge.id} {request}\n".encode())
        ledger.commit(charge, f'"{request}"')
        os.write(pipe, f"answered {charge.id} {request}\n".encode())


@dataclass
class Scene:
    """Watch one ledger: what its spenders said, and whether the ledger agrees. `most` charges fill its cap."""

    place: Place
    most: int
    held: Ledger | None = None
    charged: dict[str, str] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    full: bool = False  # a charge was refused
    allowed: int = 0  # charges that nobody was told of: one a thread and death
    toll: Toll = field(default_factory=Toll)

    @classmethod
    def open(cls, place: Place, most: int) -> Scene:
        """Make its ledger."""
        Ledger.open(place, cap=PureDP(EPSILON * most)).close()
        return cls(place, most)

    def run(self, spenders: list[Spender]) -> None:
        """Start spenders together, kill each, and hear what they said."""
        under_way = []
        for spender in spenders:
            under_way.append((spender, *spender.start(self.held or self.place)))
            self.toll.points[spender.kind] += 1
            self.allowed += spender.threads
        for spender, process, pipe in under_way:
            spender.kill_at(process, pipe)
        for _, process, pipe in under_way:
            self._hear(pipe)
            os.waitpid(process, 0)

    def _hear(self, pipe: int) -> None:
        with os.fdopen(pipe, "rb") as stream:
            for line in stream.read().decode().splitlines():
                word, *rest = line.split(" ")
                if word in ("charged", "answered"):
                    (self.charged if word == "charged" else self.answered)[rest[0]] = rest[1]
                self.toll.answers += word == "answered"
                self.toll.full += word == "full"
                self.toll.refused += word == "refused"
                self.toll.doubts += word == "doubt"
                self.full = self.full or word == "full"

    def check(self, *, replay: bool) -> None:
        """Compare the ledger with what was said, and replay its chain; note what does not hold."""
        try:
            ledger = self.held or Ledger.existing(self.place)
            if replay:
                ledger.verify()
                self.toll.replayed += 1
            self._compare(ledger)
            if ledger is not self.held:
                ledger.close()
        except (SordinoError, AssertionError, KeyError) as error:
            self.toll.violations.append(f"{type(error).__name__} {error}")

    def _compare(self, ledger: Ledger) -> None:
        found = {charge.id: charge for charge in ledger.charges()}
        lost = [name for name in (*self.charged, *self.states) if name not in found]
        wrong = [n for n, request in self.answered.items() if ledger.answer(n) != f'"{request}"']
        undone = [n for n, state in self.states.items() if state == "committed" and found[n].state != state]
        assert not [*lost, *wrong, *undone], f"lost {lost}, wrong {wrong}, undone {undone}"
        assert ledger.spent() == PureDP(EPSILON * len(found)), "spent is not the sum of the charges"
        assert len(found) <= self.most, "spent is above the cap"
        assert not self.full or len(found) == self.most, "a charge was refused below the cap"
        unsaid = len(found) - len(self.charged)
        assert unsaid <= self.allowed, f"{unsaid} charges that nobody was told of, {self.allowed} may be in doubt"
        self._ask_again(ledger, found)
        self.states = {name: charge.state for name, charge in found.items()}

    def _ask_again(self, ledger: Ledger, found: dict[str, Charge]) -> None:
        """Ask the last charge again: the stored answer, or a refusal while it is in doubt."""
        if not found:
            return
        last = list(found.values())[-1]
        request = str(last.request)
        try:
            again = ledger.charge(LaplaceEvent(EPSILON), note="", question="q", request=request)
            assert last.state == "committed", "a charge in doubt was granted again"
            assert not isinstance(again, Charge), "a request was charged twice"
            assert again.answer == f'"{request}"', "a stored answer is another's"
        except InDoubt:
            assert last.state == "reserved", "an answer on record was said to be in doubt"

    def end(self) -> Toll:
        """Replay once more, count, and return the toll."""
        self.check(replay=True)
        states = Counter(self.states.values())
        self.toll.charges += sum(states.values())
        self.toll.in_doubt += states["reserved"]
        self.toll.unsaid += sum(states.values()) - len(self.charged)
        if self.held is not None:
            self.held.close()
        return self.toll
