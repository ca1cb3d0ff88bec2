"""One library in a process of its own, in its own environment: reads a request a line as JSON, and answers each with a line.

bench/peers/side_by_side.py starts it as `python ask_LIBRARY.py` and asks alternately of two such processes, so that what is
compared is measured in the same minute. A library cannot do what its class has no method for; `NO` says why. Only what a
release takes is on the clock: imports and the reading of the table are measured apart.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Value = float | dict[str, float]
Interval = tuple[Value | None, Value]  # without a lower end: an error in rows
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Question:
    """One question of a column; `keys` None asks for groups whose names are not public."""

    kind: str
    column: str
    epsilon: float
    lower: float = 0
    upper: float = 0
    keys: tuple[str, ...] | None = None
    delta: float = 0


@dataclass(frozen=True)
class Opening:
    """What a library is told before it is asked: the table, the public facts of its columns, each later question's epsilon.

    `relation` is "add_remove" or "replace" where a library has both. `releases` is how many such questions its budget is to
    hold, None where none need be stated; `ledger` is where it may keep its account.
    """

    path: str
    bounds: dict[str, tuple[float, float] | None]
    epsilon: float
    releases: int | None
    relation: str
    ledger: str | None = None


@dataclass(frozen=True)
class Answer:
    """A released value, or one a group; `interval` is what the library itself says of its error at 95%, off the clock."""

    value: Any
    interval: Callable[[], Interval] | None = field(default=None)


def serve(library: type) -> None:
    """Answer requests until there are no more."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    warnings.simplefilter("ignore")
    peer: Any = library()
    channel.write(json.dumps({"cpu": processor_seconds(), "mb": peak_memory()}) + "\n")
    channel.flush()
    for line in sys.stdin:
        request = json.loads(line)
        channel.write(json.dumps(reply(peer, request.pop("do"), request)) + "\n")
        channel.flush()


def reply(peer: Any, verb: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request, what the library cannot do, or the error that it raised."""
    wanted = request["kind"] if verb == "ask" else verb
    if verb not in REQUESTS or (verb not in ("memory", "fork") and not hasattr(peer, wanted)):
        return {"no": getattr(peer, "NO", {}).get(wanted, "has no such thing")}
    try:
        return REQUESTS[verb](peer, request)
    except NotImplementedError as absent:
        return {"no": str(absent)}
    except Exception as raised:
        return {"error": type(raised).__name__, "says": str(raised)[:300]}


def _open(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    bounds = {n: None if b is None else tuple(b) for n, b in request.pop("bounds").items()}
    return _clock(lambda: peer.open(Opening(bounds=bounds, **request)))[1]


def _ask(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Ask a question `times` times over, or until `limit` seconds are over; values only where they are wanted."""
    times, limit, wanted = request.pop("times"), request.pop("limit"), request.pop("values")
    seed = request.pop("seed", None)
    question = Question(**{**request, "keys": None if request.get("keys") is None else tuple(request["keys"])})
    if seed is not None:
        _seed_generators(seed)
    release = getattr(peer, question.kind)
    given: list[Answer] = []
    until = time.monotonic() + limit

    def ask() -> dict[str, str]:
        while len(given) < times and (not given or time.monotonic() < until):
            try:
                given.append(release(question))
            except NotImplementedError:
                raise
            except Exception as raised:
                return {"error": type(raised).__name__, "says": str(raised)[:300]}
        return {}

    stopped, cost = _clock(ask)
    asked = max(len(given), 1)
    found: dict[str, Any] = {"times": len(given), "cpu": cost["cpu"] / asked, "wall": cost["wall"] / asked, **stopped}
    if wanted:
        found["values"] = [plain(a.value) for a in given]
        found["intervals"] = []
        until = time.monotonic() + limit
        for answer in given:
            if answer.interval is not None and time.monotonic() < until:
                found["intervals"].append([plain(end) for end in answer.interval()])
    return found


def _draw(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Draw noise of a scale, `size` numbers, and return how long it took."""
    peer.draw(request["law"], request["scale"], 10)
    found = _clock(lambda: peer.draw(request["law"], request["scale"], request["size"]))
    return {**found[1], "kind": found[0]}


def _compose(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the epsilon that a library states for a list of releases."""
    stated, cost = _clock(lambda: peer.compose(request["law"], request["scale"], request["times"], request["delta"]))
    return {**cost, "epsilon": plain(stated)}


def _local(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the estimated shares of a survey, and what client and server took."""
    peer.clipped = request["clipped"]  # whether shares are to be nonnegative and sum to one, where a library has both
    reports, client = _clock(
        lambda: peer.local(request["protocol"], request["labels"], request["epsilon"], request["answers"])
    )
    shares, server = _clock(reports)
    return {"client": client["cpu"], "server": server["cpu"], "shares": [float(s) for s in shares]}


def _fork(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return six answers to the same question of each of two children of this process, forked one after the other."""
    if getattr(peer, "THREADS", False):
        return {"no": "runs in a process of another language, which a fork does not copy"}
    answers = []
    question = Question(**request)
    for _ in range(2):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            signal.alarm(60)  # a lock that another thread had when it was copied is never given back
            try:
                release = getattr(peer, question.kind)
                os.write(theirs, json.dumps([plain(release(question).value) for _ in range(6)]).encode())
            except Exception as raised:
                os.write(theirs, json.dumps(type(raised).__name__).encode())
            finally:
                os._exit(0)
        os.close(theirs)
        os.wait()
        with os.fdopen(ours, "rb") as found:
            answers.append(json.loads(found.read() or b"null"))
    return {"values": answers}


REQUESTS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "open": _open,
    "ask": _ask,
    "draw": _draw,
    "compose": _compose,
    "local": _local,
    "fork": _fork,
    "memory": lambda _peer, _request: {"mb": peak_memory()},
}


def plain(value: Any) -> Any:
    """Return a value as JSON has it; nan and the infinities as Python writes them."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if value is None or isinstance(value, int | float | str):
        return value
    return float(value)


def _seed_generators(seed: int) -> None:
    """Seed the generators that a whole process shares, as another part of a program may."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _clock(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    cpu, wall = processor_seconds(), time.perf_counter()
    found = work()
    return found, {"cpu": processor_seconds() - cpu, "wall": time.perf_counter() - wall}


def processor_seconds() -> float:
    """Return the processor seconds of this process, to the nanosecond, and of its children, to the tick."""
    return time.process_time() + sum(_ticks(child) for child in _descendants(os.getpid()))


def ticked_seconds(process: int) -> float:
    """Return the processor seconds of a process and its children, to the tick."""
    return sum(_ticks(each) for each in (process, *_descendants(process)))


def peak_memory(process: int | None = None) -> float:
    """Return the most megabytes that a process, this one if none is named, and its children have held, each at its own peak."""
    first = process or os.getpid()
    return math.fsum(_peak(each) for each in (first, *_descendants(first)))


def _descendants(process: int) -> list[int]:
    found, new = [], [process]
    while new:
        children = Path(f"/proc/{new.pop()}/task").glob("*/children")
        for listed in children:
            new += (born := [int(p) for p in listed.read_text().split()])
            found += born
    return found


def _ticks(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(f) for f in fields[11:15]) / TICKS


def _peak(process: int) -> float:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return int(found.group(1)) / 1024 if found else 0.0
