"""The stage and the time of a fit on standard error, in a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sordino.cli.shared.terminal import in_terminal
from sordino.synth.watched_table import Stages


@contextmanager
def stages(*, quiet: bool) -> Iterator[Stages]:
    """Show stage and elapsed time on standard error where that is a terminal; nothing elsewhere, nor when `quiet`."""
    if quiet or not in_terminal(sys.stderr):
        yield Stages(lambda _: None)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield Stages(lambda stage: progress.update(task, description=stage))
