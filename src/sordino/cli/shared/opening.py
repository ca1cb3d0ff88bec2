"""From --project to a project or the curator of its table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.ask.curator.curator import Curator
    from sordino.ask.project.load import Project


def project_path(given: Path | None) -> Path:
    """Return the project file that --project names, or the one found upward; short where it lies below here."""
    from sordino.ask.project.load import find_project

    if given is None:
        path = find_project()
    elif given.is_dir():
        path = given / "sordino.toml"
        if not path.is_file():
            raise DeclarationError(f"no sordino.toml in {given}; `sordino init FILE` writes one")
    elif not given.exists():
        raise DeclarationError(f"there is no file or directory {given}; `sordino init FILE` writes a project file")
    else:
        path = given
    near = os.path.relpath(path)
    return path if near.startswith("..") else Path(near)


def project_at(given: Path | None) -> Project:
    """Return the project that --project names, or the one found upward."""
    from sordino.ask.project.load import load_project

    return load_project(project_path(given))


def table_at(given: Path | None, name: str | None, *, spender: str | None = None) -> Curator:
    """Return the curator of the table of this name, or of the only one that is declared; a `spender` charges its share too.

    It is for commands that price or charge without a plan to show: what is not known of the ledger is noted here.
    """
    import sordino as sd
    from sordino.cli.shared.terminal import note

    curator = sd.connect(project_path(given), spender=spender).table(name)
    unknown = curator.ledger.unknown()
    if unknown:
        note(f"note: of the ledger: {unknown}")
    return curator
