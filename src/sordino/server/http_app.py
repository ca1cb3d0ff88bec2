"""The server as an ASGI application, of a CuratorService. Routes decode and encode; what may be done is the service's word."""

from __future__ import annotations

from fastapi import FastAPI

from sordino.server.curator_service import CuratorService
from sordino.server.http_questions import QUESTIONS
from sordino.server.http_request import add_error_handlers

__all__ = ["curator_app"]


def curator_app(service: CuratorService) -> FastAPI:
    """Return the application that serves a project to its accounts."""
    app = FastAPI(title="Sordino curator", version="1", docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")
    app.state.service = service
    add_error_handlers(app)
    app.include_router(QUESTIONS)
    return app
