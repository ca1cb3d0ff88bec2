"""Gather changes/ into CHANGELOG.md: `make release` does it. Between releases the notes are the change log.

The notes of one number are one chapter, the newest first. A note is written for the person who uses Sordino and stands as it is.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "CHANGELOG.md"


def read_version() -> str:
    """Return the version, which stands in `sordino/__init__.py` alone."""
    found = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "src/sordino/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found is not None
    return found[1]


def write_changelog() -> str:
    """Return the text of the change log: a chapter for each number, a section for each note."""
    notes = sorted((path for path in (ROOT / "changes").glob("[0-9]*.md")), key=lambda path: path.name)
    chapters = [(number, list(group)) for number, group in groupby(notes, key=lambda path: path.name[:4])]
    lines = [
        f"# What changed, up to {read_version()}",
        "",
        "Gathered from the notes in `changes/`, the newest first.",
        "",
    ]
    for number, paths in reversed(chapters):
        lines += [f"## {int(number)}", ""]
        for path in paths:
            text = re.sub(r"^#+ ", "", path.read_text(encoding="utf-8").strip(), flags=re.MULTILINE)
            lines += [f"### {path.stem[5:].replace('-', ' ').capitalize()}", "", flatten_links(text), ""]
    return "\n".join(lines)


def flatten_links(text: str) -> str:
    """Return a note whose links, written from `changes/`, lead on from the root."""
    return text.replace("](../", "](")


if __name__ == "__main__":
    TARGET.write_text(write_changelog(), encoding="utf-8")
