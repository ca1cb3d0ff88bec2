"""The workbench: the pages beside the routes of the server, in one application."""

from __future__ import annotations

from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_app import add_routes, curator_app
from sordino.serve.server.http_guard import HttpGuard
from sordino.serve.workbench.account_pages import ACCOUNT_PAGES, SESSION_PAGES
from sordino.serve.workbench.collection_pages import COLLECTION_PAGES
from sordino.serve.workbench.declare_pages import DECLARE_PAGES
from sordino.serve.workbench.desk_pages import DESK_PAGES
from sordino.serve.workbench.epsilon_pages import EPSILON_PAGES
from sordino.serve.workbench.model_pages import MODEL_PAGES
from sordino.serve.workbench.question_pages import QUESTION_PAGES
from sordino.serve.workbench.release_pages import RELEASE_PAGES
from sordino.serve.workbench.waiting_pages import WAITING_PAGES

PAGE_ROUTERS = (
    SESSION_PAGES,
    QUESTION_PAGES,
    WAITING_PAGES,
    RELEASE_PAGES,
    MODEL_PAGES,
    COLLECTION_PAGES,
    ACCOUNT_PAGES,
    DESK_PAGES,
    EPSILON_PAGES,
    DECLARE_PAGES,
)


def workbench_app(service: CuratorService) -> HttpGuard:
    """Return the application that serves a project over HTTP, with pages for people."""
    guard = curator_app(service)
    add_routes(guard.app, *PAGE_ROUTERS)
    return guard
