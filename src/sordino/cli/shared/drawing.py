"""The picture of --plot: its file is opened before anything is charged, and drawn once there is something to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sordino.cli.shared.terminal import note


@contextmanager
def open_picture(
    plot: Path | None, *, confidence: float = 0.95, quiet: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Give what draws a thing into the file `plot` and notes it; it draws nothing where no file is named.

    Raises DeclarationError where the file cannot be written, before what follows is done.
    """
    from sordino.cli.shared.atomic_file import open_if_named

    with open_if_named(plot) as target:

        def draw(thing: Any) -> None:
            if target is None or plot is None:
                return
            from sordino.reporting.charts import plot as picture_of
            from sordino.reporting.picture import encode_picture

            target.write(encode_picture(picture_of(thing, confidence=confidence), plot.suffix))
            note(f"wrote {plot}", quiet=quiet)

        yield draw
