"""What the tests of `sordino epsilon` share."""

from __future__ import annotations

from cli.support import Ran, Run


def run_worlds(run: Run, universe: str, query: str, *more: str) -> Ran:
    """Ask for the epsilon at which an attacker picks the world of three values with chance 1/3 at most."""
    return run("epsilon", "worlds", "--universe", universe, "--size", "3", "--query", query, "--risk", "1/3", *more)
