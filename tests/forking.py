"""Processes that are forks of the worker: a new interpreter takes a second of processor time to import Sordino, a fork none."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TextIO


class Fork:
    """A process that runs `work` and ends with the exit code that it returns; what it prints is read here, and it reads `send`.

    It holds what the worker holds, so that it shows nothing of how a program starts: such a test starts a program.
    """

    def __init__(self, work: Callable[[], int]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        self.pid = os.fork()
        if not self.pid:
            (reads, _), (_, out), (_, err) = pipes
            code = 70
            try:
                for place, descriptor in enumerate((reads, out, err)):
                    os.dup2(descriptor, place)
                for pipe in pipes:
                    for descriptor in pipe:
                        os.close(descriptor)
                sys.stdin = os.fdopen(0, closefd=False)
                sys.stdout = os.fdopen(1, "w", closefd=False)
                sys.stderr = os.fdopen(2, "w", closefd=False)
                code = work()
            except BaseException:
                traceback.print_exc()
            finally:
                # What pytest would do at the end of a process is the worker's.
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(code)
        (reads, writes), (out, out_end), (err, err_end) = pipes
        for descriptor in (reads, out_end, err_end):
            os.close(descriptor)
        self._input = writes
        self.stdout: TextIO = os.fdopen(out)
        self._stderr: TextIO = os.fdopen(err)
        self._status: int | None = None

    def send(self, text: str) -> None:
        """Write a text to what the process reads."""
        os.write(self._input, text.encode())

    def kill(self) -> None:
        """End it as `kill -9` does, wherever it is."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> tuple[str, str, int]:
        """Wait for the end, and return the rest of what it printed, what it printed as errors (under 64 kB), and its code.

        The code of a process that was ended by a signal is minus the signal's number.
        """
        if self._status is None:
            os.close(self._input)
            self._out = self.stdout.read()
            self._err = self._stderr.read()
            self.stdout.close()
            self._stderr.close()
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._out, self._err, self._status
