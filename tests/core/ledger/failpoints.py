"""kill -9 of a real `sordino ask` at every line between its reservation and its answer, and at every write of its ledger.

The points are found by a first run, so a line that is new is a point that is new. An ask is a fork of this program with
everything imported; its standard output is the pipe that stands for whoever waits for the answer.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

from core.ledger.faulty_disk import Fault, FaultyDisk, interpose
from core.ledger.spenders_under_fire import Toll
from sordino.cli.main import main
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import PureDP
from sordino.core.release import Release
from sordino.errors import InDoubt, SordinoError

SQL = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex"
EPSILON = Fraction(1, 1000)
SOURCE = "/src/sordino/"

Point = tuple[str, int]  # a file of the source, and a line


@dataclass
class Road:
    """Note each line once that runs after the reservation began; kill the process at `last`."""

    last: Point | None = None
    lines: dict[Point, None] = field(default_factory=dict)
    begun: bool = False

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Look at one event of the interpreter, as sys.settrace asks."""
        file = frame.f_code.co_filename
        if SOURCE not in file:
            return None
        if not self.begun:
            if not file.endswith("/ledger/ledger.py") or frame.f_code.co_name != "charge":
                return None
            self.begun, caller = True, frame.f_back
            while caller is not None:  # the lines of its callers that are still to come
                caller.f_trace, caller = self.trace, caller.f_back
        elif event == "line":
            point = file.partition(SOURCE)[2], frame.f_lineno
            if point == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.lines.setdefault(point)
        return self.trace


def _ask(project: Path, request: str, *, road: Road | None, disk: FaultyDisk | None) -> tuple[str, str]:
    """Ask in a fork; return what it printed, and what it noted if it came to its end."""
    (reading, writing), (noted, note) = os.pipe(), os.pipe()
    process = os.fork()
    if not process:
        try:
            os.dup2(writing, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            os.chdir(project)
            with ExitStack() as stack:
                if disk is not None:
                    stack.enter_context(interpose(disk))
                if road is not None:
                    sys.settrace(road.trace)
                code = main(["ask", SQL, "--epsilon", str(float(EPSILON)), "--format", "json", "--request-id", request])
                sys.settrace(None)
                sys.stdout.flush()
            found = {"code": code, "lines": list(road.lines) if road else [], "operations": disk.count if disk else 0}
            found["modules"] = list(sys.modules)
            with os.fdopen(note, "w") as stream:
                stream.write(json.dumps(found))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    os.close(note)
    with os.fdopen(noted) as second, os.fdopen(reading) as first:
        kept = second.read()  # short: the pipe of the answer holds the answer meanwhile
        said = first.read()
    os.waitpid(process, 0)
    return said, kept


def kill_at_failpoints(project: Path, *, every: int) -> Toll:
    """Kill an ask at each `every`-th line and operation of the disk, and hold what was printed against the ledger."""
    road = json.loads(_ask(project, "whole", road=Road(), disk=FaultyDisk())[1])
    for name in road["modules"]:  # so that no fork has to
        with suppress(ImportError):
            importlib.import_module(name)
    toll, said = Toll(), dict[str, str]()
    faults: tuple[Fault, Fault] = ("kill", "tear")
    for i, (file, line) in list(enumerate(road["lines"]))[::every]:
        name = "at a line of the ledger" if file.startswith("core/ledger/") else "at a line after the reservation"
        said[f"l{i}"] = _ask(project, f"l{i}", road=Road((file, line)), disk=None)[0]
        toll.points[name] += 1
        _compare(project, said, f"l{i}", toll)
    for i in range(1, road["operations"] + 1, every):
        for fault in faults:
            said[f"{fault}{i}"] = _ask(project, f"{fault}{i}", road=None, disk=FaultyDisk(i, fault))[0]
            toll.points["at a write or sync" if fault == "kill" else "in the middle of a write"] += 1
            _compare(project, said, f"{fault}{i}", toll)
    with Ledger.existing(next(project.glob("*.ledger"))) as ledger:
        ledger.verify()
        states = [charge.state for charge in ledger.charges()]
        toll.charges, toll.in_doubt, toll.replayed = len(states), states.count("reserved"), toll.replayed + 1
        if ledger.spent() != PureDP(EPSILON * len(states)):
            toll.violations.append("spent is not the sum of the charges")
    return toll


def _compare(project: Path, said: dict[str, str], request: str, toll: Toll) -> None:
    """Hold what one ask printed against its charge: an answer that was seen is on record, word for word."""
    try:
        with Ledger.existing(next(project.glob("*.ledger"))) as ledger:
            found = [charge for charge in ledger.charges() if charge.request == request]
            assert len(found) <= 1, f"{request} was charged {len(found)} times"
            answer = said[request]
            if answer.endswith("}\n"):
                toll.answers += 1
                assert found, f"{request} was answered without a charge"
                stored = Release.from_dict(json.loads(ledger.answer(found[0].id)))
                assert stored.to_dict()["rows"] == json.loads(answer)["rows"], f"{request} differs"
            elif found and found[0].state == "reserved":
                assert not answer, f"{request} printed before its answer was on record"
                try:
                    ledger.answer(found[0].id)
                    toll.violations.append(f"{request}: an answer of a charge in doubt")
                except InDoubt:
                    toll.doubts += 1
            else:
                toll.unsaid += bool(found)
    except (SordinoError, AssertionError) as error:
        toll.violations.append(f"{type(error).__name__} {error}")
