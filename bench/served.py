"""How many plans and asks a server answers: over HTTP on loopback, 64 analysts at once, beside the same asks in process.

Run `python bench/served.py [--json] [--seconds 5] [--rows 1000000]`. The server runs in a process of its own, the ledger and
the store on this disk; `answer_every` is 1 ms, so that what is measured is the work. CPU is the server's own, by request.
"""

from __future__ import annotations

import argparse
import asyncio
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

from sordino.ask.queries.sql.parse import sql
from sordino.core.loss import PureDP
from sordino.core.noise.rng import Rng
from sordino.lab.datasets.census import write_census_project
from sordino.serve.server.opening import open_service
from sordino.serve.server.question_request import QuestionRequest

ANALYSTS = 64
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > 64"
BODY = json.dumps({"sql": COUNT, "epsilon": "1e-6"})


def run(seconds: float = 5.0, rows: int = 1_000_000) -> dict[str, Any]:
    """Measure plans and asks; return plain figures."""
    with tempfile.TemporaryDirectory(prefix="sordino-bench-", dir=os.environ.get("TMPDIR")) as place:
        os.environ["SORDINO_STATE"] = str(Path(place) / "state")
        project = write_census_project(Path(place), rows, Rng.seeded(1))
        project.write_text(project.read_text(encoding="utf-8") + '\n[serve]\nanswer_every = "1ms"\n', encoding="utf-8")
        service = open_service(project)
        tokens = []
        for i in range(ANALYSTS):
            account = service.account_service.accounts.add(f"a{i}", "analyst")
            tokens.append(service.account_service.accounts.make_token(account, "bench")[1])
            service.set_share("bench", f"a{i}", "people", lambda _: PureDP(1))
        visitor, asked = service.account_service.enter(tokens[0]), QuestionRequest(sql(COUNT), epsilon="1e-6")
        beside = []
        for _ in range(100):
            start = time.perf_counter()
            service.ask(visitor, asked)
            beside.append(time.perf_counter() - start)
        service.close()
        figures: dict[str, Any] = {"cores": os.cpu_count(), "load before": os.getloadavg()[0], "rows": rows}
        figures["ask in process p99 ms"] = 1000 * sorted(beside)[98]
        return figures | _measure_served(project, tokens, seconds)


def _measure_served(project: Path, tokens: list[str], seconds: float) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "sordino", "serve", str(project), "--port", str(port), "-q"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": sys.path[0]})
    try:
        figures: dict[str, Any] = {}
        for name in ("plan", "ask"):
            figures |= asyncio.run(_load(port, f"/v1/{name}", tokens, seconds, process.pid, name))
        return figures
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


async def _load(port: int, path: str, tokens: list[str], seconds: float, pid: int, name: str) -> dict[str, Any]:
    """Let each analyst send one request after another over its own connection, and return rate and times."""
    streams = [await _connect(port) for _ in tokens]
    await _send(*streams[0], path, tokens[0])
    cpu, end, took = _cpu_seconds(pid), time.perf_counter() + seconds, list[float]()

    async def one(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], token: str) -> None:
        while time.perf_counter() < end:
            start = time.perf_counter()
            await _send(*stream, path, token)
            took.append(time.perf_counter() - start)
        stream[1].close()

    await asyncio.gather(*(one(stream, token) for stream, token in zip(streams, tokens, strict=True)))
    took.sort()
    return {
        f"{name}s a second": len(took) / seconds,
        f"{name} p50 ms": 1000 * took[len(took) // 2],
        f"{name} p99 ms": 1000 * took[len(took) * 99 // 100],
        f"{name} CPU ms": 1000 * (_cpu_seconds(pid) - cpu) / len(took),
    }


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for _ in range(1200):
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the server did not start")


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, token: str) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    writer.write((head + BODY).encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line[15:]) for line in answer.lower().splitlines() if line.startswith("content-length:"))
    body = await reader.readexactly(length)
    if " 200 " not in answer.splitlines()[0]:
        raise RuntimeError(body.decode())


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(figures: dict[str, Any]) -> None:
    """Print the figures."""
    for name, value in figures.items():
        print(f"  {name:<24} {value:,.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    figures = run(options.seconds, options.rows)
    print(json.dumps(figures, indent=2)) if options.json else report(figures)


if __name__ == "__main__":
    main()
