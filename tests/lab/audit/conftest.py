"""The project and the command runner of the command line's tests, for the command that audits."""

from __future__ import annotations

from cli.conftest import apart as apart
from cli.conftest import census as census
from cli.conftest import made as made
from cli.conftest import run as run
