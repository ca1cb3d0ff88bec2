"""The ledger under fire: kills, hot caps, failing disks, lost power, copies put back; writes bench/results/ledger-under-fire.md.

Run `python scripts/ledger_under_fire.py [--kills N] [--seed S] [--only TRIAL ...] [--json FILE] [--write]`. Spenders charge and
answer on ledgers in a temporary directory (TMPDIR) and die; after each death what they said is held against the file. `--write`
writes the page, and its figures beside it. Where PostgreSQL is installed (scripts/system-packages), a server of its own takes a
share.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import pytest

import postgres_server as postgres
import sordino as sd
from core.ledger.failpoints import kill_at_failpoints
from core.ledger.fire import cut_power, fail_disks, kill_spenders, put_back_copies, spend_hot_cap
from core.ledger.spenders_under_fire import KINDS, Toll
from sordino.core.ledger.location import Place, locate
from sordino.lab.datasets.census import write_census_project

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "bench" / "results" / "ledger-under-fire.json"
PAGE = ROOT / "bench" / "results" / "ledger-under-fire.md"
TRIALS = {
    "kills": "kill -9 of a spender, alone or two at once, on a SQLite ledger",
    "failpoints": "kill -9 of `sordino ask` between its reservation and its answer",
    "hot": "64 spenders on a cap for 100 charges, every third of them killed",
    "disks": "a disk that fails under a spender, which goes on and is then killed",
    "power": "a loss of power: any sectors that were not synced are gone",
    "copies": "a file put back, deleted or torn behind the ledger's back",
    "server": "kill -9 of a spender on a PostgreSQL ledger",
}


def run(kills: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Run trials, each in a directory of its own, and return plain figures; a share of `kills` goes to each."""
    share = kills / 10_000
    trials: dict[str, Callable[[Path], Toll]] = {
        "kills": lambda place: kill_spenders(kills, seed=seed, make=lambda turn: place / f"{turn}.ledger"),
        "failpoints": lambda place: _kill_asks(place, every=max(1, round(1 / share))),
        "hot": lambda place: _add_up([_hot(place / str(i), seed + i) for i in range(max(1, round(20 * share)))]),
        "disks": lambda place: fail_disks(round(1000 * share), seed=seed, make=lambda turn: place / f"{turn}.ledger"),
        "power": lambda place: _add_up([_cut(place / str(i), seed + i) for i in range(max(1, round(40 * share)))]),
        "copies": lambda place: _put_back(place / "here", round(1000 * share), seed),
        "server": lambda place: _kill_on_server(place, round(500 * share), seed),
    }
    found: dict[str, Any] = {"trials": {}}
    for name in names:
        before = _cpu_seconds()
        with tempfile.TemporaryDirectory(prefix="sordino-fire-") as place:
            os.environ["SORDINO_STATE"] = str(Path(place) / "state")
            toll = trials[name](Path(place))
        found["trials"][name] = vars(toll) | {"cpu_seconds": round(_cpu_seconds() - before)}
        found["trials"][name]["command"] = f"--kills {kills} --seed {seed} --only {name} --write"
        print(f"{name}: {_words(found['trials'][name])}", flush=True)
    return found


def _kill_asks(place: Path, *, every: int) -> Toll:
    return kill_at_failpoints(write_census_project(place / "census", 200, sd.Rng.seeded(1)).parent, every=every)


def _hot(place: Path, seed: int) -> Toll:
    place.mkdir()
    return spend_hot_cap(place / "l", seed=seed)


def _cut(place: Path, seed: int) -> Toll:
    place.mkdir()
    os.environ["SORDINO_STATE"] = str(place / "state")
    return cut_power(place / "l", seed=seed, cuts=50)


def _put_back(place: Path, times: int, seed: int) -> Toll:
    place.mkdir()
    return put_back_copies(place / "l", seed=seed, times=times)


def _kill_on_server(place: Path, kills: int, seed: int) -> Toll:
    data = place / "server"
    data.mkdir()
    place.chmod(0o755)
    try:
        server = postgres.start(data)
    except pytest.skip.Exception as missing:
        print(missing)
        return Toll()

    def make(turn: int) -> Place:
        return locate(f"{server.url}/postgres#fire{turn}")

    try:
        return kill_spenders(kills, seed=seed, make=make, kinds=KINDS[:2])
    finally:
        server.stop()


def _add_up(tolls: list[Toll]) -> Toll:
    whole = Toll()
    for toll in tolls:
        whole.add(toll)
    return whole


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _words(trial: dict[str, Any]) -> str:
    figures = {name: value for name, value in trial.items() if isinstance(value, int) and value}
    counts = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in figures.items())
    return f"{sum(trial['points'].values()):,} points, {counts}, {len(trial['violations'])} violations"


def render(found: dict[str, Any]) -> str:
    """Return the page that says what was tried and found."""
    rows, points = [], Counter[str]()
    for name, trial in found["trials"].items():
        points.update(trial["points"])
        tried = sum(trial["points"].values())
        if tried:
            cells = (trial["answers"], trial["charges"], trial["in_doubt"], trial["replayed"], len(trial["violations"]))
            rows.append(f"| {TRIALS[name]} | {tried:,} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    kinds = "\n".join(f"| {kind} | {count:,} |" for kind, count in sorted(points.items()))
    commands = "\n".join(
        f"    python scripts/ledger_under_fire.py {trial['command']}"
        for trial in found["trials"].values()
        if trial["points"]
    )
    return TEXT.format(rows="\n".join(rows), kinds=kinds, commands=commands)


TEXT = """# The ledger under fire

The [promises of the ledger](../../docs/ledger.md#what-it-promises) were tested by killing processes, tearing writes and cutting
power. These commands write this page:

{commands}

| What was tried | points | answers seen | charges | in doubt | chains replayed | violations |
|---|---:|---:|---:|---:|---:|---:|
{rows}

A violation is any of these:

- an answer or a grant was sent, but the ledger does not hold it;
- the answer on record is not the one that was sent;
- a charge or an answer disappears later;
- the amount spent is above the cap, or is not the sum of the charges, or a charge is refused below the cap;
- there are more unreported charges than threads that died;
- a request is charged twice, or is answered while in doubt;
- the chain does not replay.

A charge is "in doubt" if it has no outcome; it counts as spent. A trial with 0 answers looks at the file alone.

| Where the failure struck | points |
|---|---:|
{kinds}

- **Kills.** A spender opens the ledger anew, or continues after a fork with the ledger that was open. It is killed after a random
  time, at a random line of `sordino/ledger`, before a random write or sync of SQLite, or when half of a write is done. Of the
  spenders killed at a random moment, a fifth have three threads. A third of all spenders run on a clock that jumps by centuries.
- **Between reservation and answer.** A first ask lists every line of Sordino that runs after the reservation begins, and every
  write and sync of its ledger. Then one ask is killed at each of these points (with `--kills 1000`, at every tenth). An answer
  counts as sent if it appears on the standard output of the command.
- **A hot cap.** The spenders that are not killed continue until they are refused. The cap must then be full to the last charge.
- **Disks.** In half of the failures, the disk is full from some write on. In the other half, one write or sync fails halfway.
- **Power.** The trial records what SQLite writes and syncs. Each point is a moment at which the power fails: a random share of
  the sectors (512 bytes) written since the last sync of their file survives, and the rest is lost. The high-water mark is not
  synced, so in some points only its first version survives.
- **Files.** An older copy is put back, the file is deleted, or its last page is cut short or half filled with zeros. Either the
  ledger is refused, or the next charge is added to all that was spent before.

Two failures were not tried: a disk that reports a sync that it has not done, and a loss of power under PostgreSQL, which makes
the same promise itself. `make test-deep` runs 10,000 kills, 20 hot caps, a thousand failing disks, a thousand cuts of power, and
every third line between reservation and answer. In it, a state machine also compares 100,000 calls, through two connections and
forks, with a reference of a few dozen lines.
"""


def main() -> None:
    """Run the trials, and print or write what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--kills", type=int, default=10_000, help="kills on the SQLite ledger; the other trials go with it"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=TRIALS, nargs="*", default=list(TRIALS), help="these trials")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--write", action="store_true", help="write the page and its figures")
    parser.add_argument("--render", action="store_true", help="write the page from the figures as they are")
    asked = parser.parse_args()
    found = json.loads(FIGURES.read_text()) if asked.render else run(asked.kills, asked.seed, asked.only)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    if asked.write:  # trials that were not run now stay as they were
        older = json.loads(FIGURES.read_text())["trials"] if FIGURES.exists() else {}
        trials = older | found["trials"]
        found = {"trials": {name: trials[name] for name in TRIALS if name in trials}}
        FIGURES.write_text(json.dumps(found, indent=1) + "\n")
    if asked.write or asked.render:
        PAGE.write_text(render(found))
    sys.exit(any(trial["violations"] for trial in found["trials"].values()))


if __name__ == "__main__":
    main()
