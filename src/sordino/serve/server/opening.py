"""From a project file to the service that serves it, and to its accounts alone. It opens the store and the ledgers."""

from __future__ import annotations

from pathlib import Path

from sordino.ask.project.load import Project, load_project
from sordino.ask.project.serve_settings import ServeSettings, serve_settings
from sordino.core.errors import DeclarationError
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import ServerDatabase


def open_service(path: Path | str) -> CuratorService:
    """Return the service of a project file, its store made or migrated; raises DeclarationError."""
    project = load_project(path)
    return CuratorService(project, open_store(project))


def open_store(project: Project) -> ServerDatabase:
    """Return the store that a project's [serve] names, or the one beside the project file."""
    return ServerDatabase.open(_settings(project).store)


def _settings(project: Project) -> ServeSettings:
    if project.serve is not None:
        return project.serve
    if project.path is None:
        raise DeclarationError("a project without a file has no [serve]: state a store")
    return serve_settings({}, beside=project.path.parent)
