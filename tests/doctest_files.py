"""Look for doctests only in files that hold some: a plugin of pytest.

With --doctest-modules pytest imports each file and walks through all that it defines, which took each worker four seconds.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the doctests of a file of Python without a prompt."""
    collectors = yield
    if file_path.suffix == ".py":
        text = file_path.read_bytes()
        # A face shows examples of the file that it re-exports.
        if b">>> " not in text and b" import *" not in text:
            return [one for one in collectors if not isinstance(one, DoctestModule)]
    return collectors
