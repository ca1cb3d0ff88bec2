"""Where a chosen epsilon goes: the project file, a picture, words. It knows texts and files; not how one is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.terminal import note, paint, say, wrap

if TYPE_CHECKING:
    from sordino.ask.project.budget import CapChange

INDENT = 20


def write_both(plot: Path | None, draw: Callable[[], Any], change: CapChange | None) -> dict[str, str] | None:
    """Write the picture of what `draw` returns and the cap, or neither; return what went into the project file.

    Both are made, and both places are known to be writable, before anything is put in its place.
    """
    from sordino.cli.shared.atomic_file import open_if_named
    from sordino.reporting.charts import plot as picture_of
    from sordino.reporting.picture import encode_picture

    target = None if change is None else change.path.resolve()
    with open_if_named(plot) as drawing, open_if_named(target) as project:
        if drawing is not None:
            drawing.write(encode_picture(picture_of(draw()), drawing.target.suffix))
        if project is not None and change is not None:
            project.write(change.text.encode())
    return None if change is None else change.stated


def print_labelled(label: str, text: str) -> None:
    """Print a labelled text."""
    head, *rest = wrap(label, text, indent=INDENT)
    say(head.replace(label, paint(label, "bold"), 1))
    for more in rest:
        say(more)


def print_written(written: dict[str, str] | None) -> None:
    """Say what was written where, if anything."""
    if written is not None:
        cap = ", ".join(f"{key} = {written[key]}" for key in ("epsilon", "rho", "delta") if key in written)
        print_labelled("written", f"cap = {{{cap}}} of budget {written['budget']} in {written['project']}")
        note("an existing ledger keeps its cap: `sordino ledger amend` records the new one, with the reason")
