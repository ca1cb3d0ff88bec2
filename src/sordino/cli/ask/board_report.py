"""`sordino report`: one page for a board, from the project file and the ledgers. It never reads the data."""

from __future__ import annotations

from sordino.cli.shared.options import BudgetName, Force, PageFile, ProjectPath, Quiet, refuse_existing
from sordino.cli.shared.terminal import note

__all__ = ["report"]


def report(
    output: PageFile, budget: BudgetName = None, force: Force = False, project: ProjectPath = None, quiet: Quiet = False
) -> None:
    """Write one HTML page for a board: what was asked, and what all of it reveals. It costs nothing.

    It is made from the project file and the ledger. The data is not needed, and the page loads nothing.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_at
    from sordino.reporting.board import board_page

    declared = project_at(project)
    refuse_existing(output, force=force)
    with open_atomic(output) as target:
        target.write(board_page(declared, budget=budget).encode("utf-8", "backslashreplace"))
    note(f"wrote {output}", quiet=quiet)
