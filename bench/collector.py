"""How many reports the collector takes: single posts and batches, durable, with a load generator on the other core.

Run `python bench/collector.py [--json] [--seconds 5]`. The collector runs in a process of its own on loopback, with its
store on this disk; the load generator is this process, over keep-alive connections, each waiting for its answer before it
sends the next. Every acknowledged report is then found in the store and counted once. At last a million reports are
stored, and an estimate of all of them is asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import uvloop

from sordino.core.noise.rng import Rng
from sordino.local.collector.report_store import Store
from sordino.local.protocols.unary import OUE
from sordino.local.task import SigningKey, Task, create_task

LABELS = [f"label {i}" for i in range(128)]
SINGLES, BATCHES = 128, 4  # connections
BATCH = 500
WARM = 0.5  # seconds not measured
STORED = 1_000_000

SERVE = """
import sys
from sordino.local.collector.app import collector_app
from sordino.local.collector.service import Limits
from sordino.local.collector.service import serve_app
from sordino.local.task import read_task
url, envelope, port = sys.argv[1], open(sys.argv[2]).read(), int(sys.argv[3])
app = collector_app(url, [read_task(envelope, key=None)], limits=Limits(per_minute=1e12, burst=10**9))
serve_app(app, host="127.0.0.1", port=port)
"""


def run(seconds: float = 5.0) -> dict[str, Any]:
    """Measure single posts, batches and a large estimate; return plain figures."""
    with tempfile.TemporaryDirectory(prefix="sordino-bench-", dir=os.environ.get("TMPDIR")) as place:
        directory, task = Path(place), _task()
        (directory / "task.json").write_text(task.envelope, encoding="utf-8")
        store = Store.open(str(directory / "reports.db"))
        store.add_tokens("respondent", ["respondent"])
        store.add_tokens("admin", ["admin"])
        store.close()
        port = _free_port()
        command = [sys.executable, "-c", SERVE, str(directory / "reports.db"), str(directory / "task.json"), str(port)]
        service = subprocess.Popen(command)
        try:
            return uvloop.run(_measure(task, port, seconds, service.pid))
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(30)


async def _measure(task: Task, port: int, seconds: float, pid: int) -> dict[str, Any]:
    await _ready(port)
    figures: dict[str, Any] = {"cores": os.cpu_count(), "load before": os.getloadavg()[0]}
    bodies = _bodies(task, 1, 80_000)
    spent = _cpu(pid)
    figures["single posts"] = await _load(task, port, bodies, connections=SINGLES, reports=1, seconds=seconds)
    singles = _cpu(pid)
    bodies = _bodies(task, BATCH, 2_000)
    figures["batches"] = await _load(task, port, bodies, connections=BATCHES, reports=BATCH, seconds=seconds)
    for name, used in (("single posts", singles - spent), ("batches", _cpu(pid) - singles)):
        figures[name]["service CPU, microseconds a report"] = round(1e6 * used / figures[name]["stored"], 1)
    before = (await _estimate(task, port))[1]["reports"]
    sent = figures["single posts"].pop("stored") + figures["batches"].pop("stored")
    figures["acknowledged and stored alike"] = sent == before
    more = -(-max(0, STORED - before) // BATCH)
    if more:
        await _load(task, port, _bodies(task, BATCH, more), connections=BATCHES, reports=BATCH, seconds=600, warm=0.0)
    took, found = await _estimate(task, port)
    figures["estimate"] = {"reports": found["reports"], "seconds": round(took, 4)}
    return figures


async def _load(
    task: Task, port: int, bodies: list[bytes], *, connections: int, reports: int, seconds: float, warm: float = WARM
) -> dict[str, Any]:
    """Send bodies, each changed to fresh ids when they are used again, and return the rate and the waits."""
    head = (
        f"POST /v1/tasks/{task.manifest.task}/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer respondent\r\n"
        f"Content-Length: {len(bodies[0])}\r\n\r\n"
    ).encode()
    left = iter(range(len(bodies)))
    start = time.perf_counter()
    waits: list[tuple[float, float]] = []
    stored = 0

    async def one() -> None:
        nonlocal stored
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            begun = time.perf_counter()
            if begun - start > seconds + warm:
                break
            writer.write(head + bodies[number])
            answer = await reader.readuntil(b"}")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(answer.decode("latin-1"))
            waits.append((begun, time.perf_counter() - begun))
            stored += reports
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    measured = np.array([wait for begun, wait in waits if begun >= start + warm])
    span = max(begun + wait for begun, wait in waits) - (start + warm)
    return {
        "reports a second": round(measured.size * reports / span),
        "requests a second": round(measured.size / span),
        "median ms": round(1e3 * float(np.median(measured)), 1),
        "p99 ms": round(1e3 * float(np.quantile(measured, 0.99)), 1),
        "stored": stored,
    }


def _bodies(task: Task, reports: int, count: int) -> list[bytes]:
    """Return bodies of random reports with random ids, made before the clock starts."""
    rng = Rng.secure()
    step = 16 + task.protocol.width
    raw, head = rng.bytes(step * reports * count), task.manifest.hash
    return [head + raw[at : at + step * reports] for at in range(0, len(raw), step * reports)]


async def _estimate(task: Task, port: int) -> tuple[float, dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    path = f"/v1/tasks/{task.manifest.task}/estimate"
    start = time.perf_counter()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    writer.close()
    return time.perf_counter() - start, found


def _cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used: unlike a rate, the same on a busy machine (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _ready(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit("the collector did not start")


def _task() -> Task:
    return create_task(
        SigningKey.make(Rng.seeded(1)),
        OUE(LABELS, epsilon=1),
        task="bench",
        question="Which label?",
        lifetime_epsilon=1,
        epoch="once",
        expires=datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC),
        origin="http://127.0.0.1",
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    figures = run(options.seconds)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
