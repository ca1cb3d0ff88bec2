"""What `sordino bounds` and `sordino caps` share: a search is charged, printed and drawn. It sees the Release alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.cli.shared.options import TextFormat
from sordino.cli.shared.terminal import note, say

if TYPE_CHECKING:
    from sordino.release import Release

__all__ = ["deliver_search"]


def deliver_search(
    search: Callable[[], Release], *, plot: Path | None, form: TextFormat, confidence: float, quiet: bool
) -> Release:
    """Search, charged once, print what was chosen and draw it; the picture's place is taken before the charge."""
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.atomic_file import open_if_named
    from sordino.reporting.charts import plot as draw
    from sordino.reporting.picture import encode_picture

    with open_if_named(plot) as target:
        release = search()
        if form is TextFormat.json:
            sys.stdout.write(json.dumps(release.to_dict(confidence=confidence), ensure_ascii=False, indent=2) + "\n")
        else:
            width = max(len(name) for name, _ in release.chosen)
            for name, value in (release.value or {}).items():
                say(f"{name:<{width}}  {value:,}")
        for line in cost_lines(release):
            note(line, quiet=quiet and release.private, aside=form is TextFormat.json)
        if target is not None:
            target.write(encode_picture(draw(release, confidence=confidence), target.target.suffix))
            note(f"wrote {plot}", quiet=quiet)
    return release
