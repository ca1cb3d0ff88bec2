"""Forks of a worker: they collect no garbage, or each would copy all that the worker holds (see conftest.py)."""

from __future__ import annotations

import gc
import os


def test_a_fork_collects_nothing() -> None:
    process = os.fork()
    if not process:
        os._exit(int(gc.isenabled() or gc.get_freeze_count() == 0))
    assert os.waitpid(process, 0)[1] == 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
