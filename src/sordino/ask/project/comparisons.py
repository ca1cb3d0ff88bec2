"""Which tables were compared with their data once: an act of the curator, remembered on this machine beside the ledgers' marks.

What is remembered is that it was done and when, never what was found. It holds for the source and the declaration as they
were then: another path, relation, column, bound or unit is another table. Whether the rows have changed since is not known.
"""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from pathlib import Path

from sordino.ask.project.load import DeclaredTable
from sordino.core.errors import SourceError
from sordino.core.ledger.declarations import declaration_of
from sordino.core.ledger.high_water_mark import marks_directory
from sordino.core.ledger.records import canonical, hash_of
from sordino.core.source import Source


def compared_on(table: DeclaredTable) -> str | None:
    """Return the day on which a declared table was compared with its data, None where it never was."""
    place = _place(table)
    try:
        return None if place is None else str(json.loads(place.read_text(encoding="utf-8"))["compared"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record_comparison(table: DeclaredTable) -> None:
    """Remember, durably, that a declared table was compared with its data today; raises SourceError where it cannot be."""
    place = _place(table)
    if place is None:
        return
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    written = False
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file, draft = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            json.dump({"table": table.name, "compared": day}, opened)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(draft, place)
        written = True
    except OSError:
        pass
    if not written:
        raise SourceError(
            f"that the data were compared cannot be recorded in {place.parent}; set SORDINO_STATE to a directory that can "
            "be written"
        )


def _place(table: DeclaredTable) -> Path | None:
    """Return the file that remembers a table; None for one that is held in memory, and so was never declared in a file."""
    source = table.source
    if not isinstance(source, Source):
        return None
    far = source.is_far or source.format == "postgresql" or source.on_spark
    where = [source.path if far else source.place, source.format, source.relation]
    declared = declaration_of(table.domain, table.neighbors, source)
    return marks_directory().parent / "compared" / hash_of(canonical([table.name, where, declared]))
