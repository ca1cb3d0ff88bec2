"""The project and the command runner of the command line's tests, for the command that audits."""

from __future__ import annotations
