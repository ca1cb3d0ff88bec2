"""The ledger under fire: kills, a hot cap, disks that fail and lose their power, copies put back; each returns its toll.

`scripts/ledger_under_fire.py` runs them at their full sizes and writes down what they found; the tests run shares of them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from core.ledger.faulty_disk import FaultyDisk, interpose, lose_power
from core.ledger.spenders_under_fire import EPSILON, KINDS, Scene, Spender, Toll
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.location import Place, locate
from sordino.core.loss import PureDP
from sordino.errors import LedgerError

A_LEDGER = 50  # kills on one ledger
LONGEST = {KINDS[0]: 12_000, KINDS[1]: 3_000, KINDS[2]: 60, KINDS[3]: 60}  # microseconds, lines, operations


def _draw_spender(draw: random.Random, name: str, kinds: tuple[str, ...]) -> Spender:
    kind = draw.choice(kinds)
    threads = 3 if kind == KINDS[0] and draw.random() < 0.2 else 1
    return Spender(name, kind, draw.randrange(1, LONGEST[kind]), threads, jumps=draw.random() < 0.3)


def watch_in(state: Path, work: Callable[[], Toll]) -> Toll:
    """Return the toll of some work whose marks lie in a directory of state."""
    os.environ["SORDINO_STATE"] = str(state)
    return work()


def name_ledger(directory: Path, turn: int) -> Place:
    """Return where the ledger of a turn lies."""
    return directory / f"{turn}.ledger"


def name_server_ledger(url: str, turn: int) -> Place:
    """Return where the ledger of a turn lies on a server."""
    return locate(f"{url}#fire{turn}")


def kill_spenders(
    kills: int, *, seed: int, make: Callable[[int], Place], kinds: tuple[str, ...] = KINDS, replay: int = 10
) -> Toll:
    """Kill spenders one or two at a time, on one ledger after another; check after each death."""
    draw, toll, dead, turn = random.Random(seed), Toll(), 0, 0
    while dead < kills:
        scene, here = Scene.open(make(turn), draw.randrange(60, 400)), 0
        if turn % 2:  # every other ledger stays open in the program that watches, whose forks go on with it
            scene.held = Ledger.existing(scene.place)
        while here < A_LEDGER and dead < kills:
            pair = min(2 if draw.random() < 0.25 else 1, kills - dead)
            scene.run([_draw_spender(draw, f"{turn}-{here + i}", kinds) for i in range(pair)])
            here, dead = here + pair, dead + pair
            scene.check(replay=here // replay > (here - pair) // replay)
        toll.add(scene.end())
        turn += 1
    return toll


def spend_hot_cap(place: Place, *, seed: int, spenders: int = 64) -> Toll:
    """Let 64 processes spend a cap for 100 charges at once; every third dies on the way; the others go on until refused."""
    draw, scene = random.Random(seed), Scene.open(place, 100)
    mortal = [_draw_spender(draw, f"m{i}", KINDS) for i in range(spenders // 3)]
    immortal = [Spender(f"i{i}", "at the end", 0) for i in range(spenders - len(mortal))]
    scene.run(draw.sample(mortal + immortal, spenders))
    scene.check(replay=True)
    toll = scene.end()
    if toll.charges != 100:
        toll.violations.append(f"64 spenders left {100 - toll.charges} charges of a cap of 100")
    return toll


def fail_disks(points: int, *, seed: int, make: Callable[[int], Place]) -> Toll:
    """Let a write or a sync fail once, half done, or the disk be full from it on; the spender goes on, and is killed."""
    draw, toll = random.Random(seed), Toll()
    for turn in range(-(-points // 20)):
        scene = Scene.open(make(turn), 400)
        for i in range(min(20, points - 20 * turn)):
            fault = draw.choice(["full", "error"])
            kind = "a disk that is full" if fault == "full" else "a write or sync that fails"
            at = draw.randrange(1, 80)
            scene.run([Spender(f"{turn}-{i}", kind, at, fault="full" if fault == "full" else "error")])
            scene.check(replay=i % 5 == 0)
        toll.add(scene.end())
    return toll


def cut_power(place: Path, *, seed: int, cuts: int) -> Toll:
    """Record a spender's writes and what it was told, and open what a loss of power may have left of them.

    What was told before the cut stands, whether the mark kept up or fell behind: it is not synced.
    """
    draw, toll = random.Random(seed), Toll()
    Ledger.open(place, cap=PureDP(EPSILON * 10**6)).close()
    mark = next((Path(os.environ["SORDINO_STATE"]) / "marks").glob("*"))
    for _ in range(draw.randrange(3)):
        _spend_some(Ledger.existing(place), 3, [], [])
    log_name = place.name + "-wal"
    start = {place.name: place.read_bytes(), log_name: b""}
    disk, told, marks = FaultyDisk(log=[]), [(0, "")], [(0, mark.read_bytes())]
    with interpose(disk), Ledger.existing(place) as ledger:
        for _ in range(draw.choice([2, 12, 130])):
            _spend_some(ledger, 1, told, marks, disk, mark)
    for _ in range(cuts):
        cut = draw.randrange(len(disk.log or []) + 1)
        files = lose_power(start, (disk.log or [])[:cut], draw)
        place.with_name(place.name + "-shm").unlink(missing_ok=True)
        for name, data in files.items():
            (place.parent / name).write_bytes(data)
        seen = [data for at, data in marks if at <= cut]
        mark.write_bytes(seen[draw.choice([0, -1, -1, -1])])
        after = Scene(place, 10**6, allowed=1)
        after.charged = {name: "" for at, name in told if at <= cut and name}
        after.toll.points["a loss of power"] += 1
        _check_found(after)
        toll.add(after.toll)
    return toll


def _spend_some(
    ledger: Ledger,
    times: int,
    told: list[tuple[int, str]],
    marks: list[tuple[int, bytes]],
    disk: FaultyDisk | None = None,
    mark: Path | None = None,
) -> None:
    """Charge and answer, and note after how many operations of the disk each was granted."""
    for _ in range(times):
        charge = ledger.charge(LaplaceEvent(EPSILON), note="", question="q")
        if disk is not None and mark is not None:
            told.append((len(disk.log or []), charge.id))
            marks.append((len(disk.log or []), mark.read_bytes()))
        ledger.commit(charge, "1")


def _check_found(scene: Scene) -> None:
    """Check that a ledger opens, holds what was told, and grants another charge."""
    try:
        with Ledger.existing(scene.place) as ledger:
            found = {charge.id for charge in ledger.charges()}
            assert set(scene.charged) <= found, f"lost {sorted(set(scene.charged) - found)}"
            ledger.charge(LaplaceEvent(EPSILON), note="", question="q")
            ledger.verify()
            scene.toll.replayed += 1
    except (LedgerError, AssertionError) as error:
        scene.toll.violations.append(f"{type(error).__name__} {error}")


def put_back_copies(place: Path, *, seed: int, times: int) -> Toll:
    """Put back older copies, delete the file or its log, tear its last page: never is a charge granted beside what was told."""
    draw, toll = random.Random(seed), Toll()
    directory, kept = place.parent, place.parent / "kept"
    Ledger.open(place, cap=PureDP(EPSILON * 10**6)).close()
    mark = next((Path(os.environ["SORDINO_STATE"]) / "marks").glob("*"))
    with Ledger.existing(place) as ledger:
        _spend_some(ledger, 5, [], [])
    for turn in range(times):
        _copy(directory, kept, place.name)
        with Ledger.existing(place) as ledger:
            _spend_some(ledger, draw.randrange(1, 4), [], [])
            spent = ledger.spent().amounts()["epsilon"]
        whole, seen = directory / "whole", mark.read_bytes()
        _copy(directory, whole, place.name)
        act = draw.choice(list(_ACTS))
        _ACTS[act](place, kept, draw)
        toll.points[act] += 1
        try:
            with Ledger.open(place, cap=PureDP(EPSILON * 10**6)) as ledger:
                ledger.charge(LaplaceEvent(EPSILON), note="", question="q")
                if ledger.spent().amounts()["epsilon"] != spent + EPSILON:
                    toll.violations.append(f"{act}: granted from a ledger that forgets (turn {turn})")
                toll.charges += 1
        except LedgerError:
            toll.refused += 1
        mark.write_bytes(seen)
        _copy(whole, directory, place.name)
    return toll


def _copy(source: Path, target: Path, name: str) -> None:
    """Copy a ledger and its log over another one."""
    target.mkdir(exist_ok=True)
    for ending in ("", "-wal", "-shm"):
        (target / (name + ending)).unlink(missing_ok=True)
        if (source / (name + ending)).exists() and ending != "-shm":
            shutil.copy(source / (name + ending), target / (name + ending))


def _restore(place: Path, kept: Path, _: random.Random) -> None:
    _copy(kept, place.parent, place.name)


def _delete(place: Path, _: Path, __: random.Random) -> None:
    place.unlink()


def _tear(place: Path, _: Path, draw: random.Random) -> None:
    """Leave of the last page what comes before a random byte."""
    data = place.read_bytes()
    place.write_bytes(data[: -draw.randrange(1, 4097)])


def _spoil(place: Path, _: Path, draw: random.Random) -> None:
    """Put zeros over half of the last page."""
    data = place.read_bytes()
    place.write_bytes(data[: -draw.choice([2048, 512])].ljust(len(data), b"\0"))


_ACTS: dict[str, Callable[[Path, Path, random.Random], None]] = {
    "an older copy put back": _restore,
    "a file that is deleted": _delete,
    "a last page that is cut short": _tear,
    "a last page that is half zeros": _spoil,
}
