"""How many durable charges a second the ledger grants, and how evenly, beside a naive check-then-spend on plain SQLite.

Run `python bench/ledger.py [--json]`. Both sides write to the same disk with WAL and synchronous=FULL, in the same run;
processes start together and spend for a fixed time. The naive side keeps one sum and one row a charge: no chain of
hashes, no high-water mark, no answers. Fairness is the fewest grants of a process over the most. Where PostgreSQL is
installed (scripts/system-packages, and psycopg), a server of its own on the same disk holds both sides as well.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import pytest

import postgres_server as postgres
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import PureDP

SECONDS = 3.0
SPENDERS = (1, 8, 32)
SERVER_SPENDERS = (1, 8)
THREADS = 32
ROUNDS = 3
FORK = multiprocessing.get_context("fork")
CAP = 10**9


def run() -> dict[str, Any]:
    """Measure both sides with each number of processes, and the ledger with threads; return plain figures."""
    figures: dict[str, Any] = {"seconds": SECONDS, "rounds": ROUNDS, "cores": os.cpu_count(), "processes": {}}
    with tempfile.TemporaryDirectory(prefix="sordino-bench-", dir=os.environ.get("TMPDIR")) as place:
        os.environ["SORDINO_STATE"] = str(Path(place) / "state")
        for spenders in SPENDERS:
            ours, naive = [], []
            for turn in range(ROUNDS):
                first = Path(place) / f"{spenders}-{turn}.ledger"
                Ledger.open(first, cap=PureDP(CAP)).close()
                ours.append(_measured(_spend_ledger, first, spenders))
                second = Path(place) / f"{spenders}-{turn}.sqlite"
                _naive_open(second).execute("INSERT INTO budget VALUES (1, 0)").connection.close()
                naive.append(_measured(_spend_naive, second, spenders))
            figures["processes"][str(spenders)] = {"ledger": _summary(ours), "naive": _summary(naive)}
        figures["threads"] = {str(THREADS): _threads(Path(place) / "threads.ledger")}
        figures["server"] = _measure_server(Path(place) / "server")
    for row in (*figures["processes"].values(), *figures["server"].values()):
        row["ratio"] = round(row["ledger"]["grants_per_second"] / row["naive"]["grants_per_second"], 2)
    return figures


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    figures_as_json = parser.parse_args().json
    figures = run()
    if figures_as_json:
        print(json.dumps(figures, indent=2))
        return
    head = ("processes", "ledger /s", "min/max", "naive /s", "min/max", "ratio")
    print("".join(f"{word:>12}" for word in head))
    on_server = {f"{spenders} (server)": row for spenders, row in figures["server"].items()}
    for spenders, row in {**figures["processes"], **on_server}.items():
        ours, naive = row["ledger"], row["naive"]
        cells = (
            ours["grants_per_second"],
            ours["fairness"],
            naive["grants_per_second"],
            naive["fairness"],
            row["ratio"],
        )
        print(f"{spenders:>12}" + "".join(f"{cell:>12}" for cell in cells))
    for threads, rate in figures["threads"].items():
        print(f"{threads} threads of one process: {rate} grants a second")
    if not figures["server"]:
        print("PostgreSQL was left out: scripts/system-packages installs it")


def _measure_server(place: Path) -> dict[str, Any]:
    """Measure a ledger on a PostgreSQL server beside a naive check-then-spend there; nothing where none is installed."""
    place.mkdir()
    place.parent.chmod(0o755)  # where the server runs as another user
    try:
        server = postgres.start(place)
    except pytest.skip.Exception:
        return {}
    found = {}
    try:
        for spenders in SERVER_SPENDERS:
            ours, naive = [], []
            for turn in range(ROUNDS):
                address = f"{server.url}/postgres#b{spenders}_{turn}"
                Ledger.open(address, cap=PureDP(CAP)).close()
                ours.append(_measured(_spend_ledger, address, spenders))
                server.execute(
                    "DROP TABLE IF EXISTS budget, charges",
                    "CREATE TABLE budget AS SELECT 0 AS spent",
                    "CREATE TABLE charges (number SERIAL PRIMARY KEY, amount INTEGER)",
                )
                naive.append(_measured(_spend_naive_server, f"{server.url}/postgres", spenders))
            found[str(spenders)] = {"ledger": _summary(ours), "naive": _summary(naive)}
    finally:
        server.stop()
    return found


def _spend_naive_server(url: str, end: float) -> int:
    import psycopg

    granted = 0
    with psycopg.connect(url, autocommit=True) as db:
        while time.monotonic() < end:
            db.execute("BEGIN")
            row = db.execute("SELECT spent FROM budget FOR UPDATE").fetchone()
            if row is not None and row[0] + 1 <= CAP * 1000:
                db.execute("UPDATE budget SET spent = spent + 1")
                db.execute("INSERT INTO charges (amount) VALUES (1)")
                granted += 1
            db.execute("COMMIT")
    return granted


def _measured(spend: Callable[[Any, float], int], path: Path | str, spenders: int) -> list[int]:
    start, results = FORK.Barrier(spenders), FORK.SimpleQueue()

    def work() -> None:
        start.wait()
        results.put(spend(path, time.monotonic() + SECONDS))

    processes = [FORK.Process(target=work) for _ in range(spenders)]
    for process in processes:
        process.start()
    granted = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return granted


def _summary(rounds: list[list[int]]) -> dict[str, float]:
    return {
        "grants_per_second": round(statistics.median(sum(granted) for granted in rounds) / SECONDS, 1),
        "fairness": round(statistics.median(min(granted) / max(granted) for granted in rounds), 3),
        "fewest": min(min(granted) for granted in rounds),
    }


def _spend_ledger(path: Path | str, end: float) -> int:
    ledger, granted = Ledger.existing(path), 0
    while time.monotonic() < end:
        ledger.charge(LaplaceEvent("0.001"), note="bench", question="q")
        granted += 1
    return granted


def _threads(path: Path) -> float:
    ledger, granted = Ledger.open(path, cap=PureDP(CAP)), []
    end = time.monotonic() + SECONDS

    def work() -> None:
        count = 0
        while time.monotonic() < end:
            ledger.charge(LaplaceEvent("0.001"), note="bench", question="q")
            count += 1
        granted.append(count)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return round(sum(granted) / SECONDS, 1)


def _naive_open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS budget (one INTEGER PRIMARY KEY, spent INTEGER)")
    db.execute("CREATE TABLE IF NOT EXISTS charges (number INTEGER PRIMARY KEY, amount INTEGER)")
    return db


def _spend_naive(path: Path, end: float) -> int:
    db, granted = _naive_open(path), 0
    while time.monotonic() < end:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT spent FROM budget").fetchone()[0] + 1 <= CAP * 1000:
            db.execute("UPDATE budget SET spent = spent + 1")
            db.execute("INSERT INTO charges (amount) VALUES (1)")
            granted += 1
        db.execute("COMMIT")
    db.close()
    return granted


if __name__ == "__main__":
    main()
