"""Ports of loopback: one that nobody listens on, and a wait until somebody does."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[str] | None = None) -> None:
    """Wait until a server listens on a port, which it does once it can answer; raises AssertionError where it has ended."""
    # A request by httpx takes 12 ms of processor time, and a server that starts on a busy machine is tried a hundred times.
    for _ in range(12_000):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=300):
            return
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError(f"nobody listens on port {port}")
