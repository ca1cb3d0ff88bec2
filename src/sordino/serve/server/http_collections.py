"""The routes of collections: what their collectors have by now. Reports go to a collector, never here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.serve.server.access import Visitor
from sordino.serve.server.collection_desk import CollectionDesk
from sordino.serve.server.http_request import PROBLEMS, respond, visitor_of

COLLECTIONS = APIRouter(prefix="/v1", tags=["collections"], responses=PROBLEMS)
Who = Annotated[Visitor, Depends(visitor_of)]


def _desk(request: Request) -> CollectionDesk:
    desk: CollectionDesk = request.app.state.collections
    return desk


@COLLECTIONS.get("/collections")
async def list_collections(request: Request, visitor: Who) -> Response:
    """Return the collections of the project: name, question, reports so far, epsilons, whether each is closed."""
    found = await run_in_threadpool(_desk(request).list_collections, visitor)
    return respond({"schema": 1, "collections": found})


@COLLECTIONS.get("/collections/{name}")
async def estimate(request: Request, visitor: Who, name: str, confidence: float = 0.95) -> Response:
    """Return the estimates of a collection with their intervals, as `sordino local estimate --format json`."""
    return respond(await run_in_threadpool(lambda: _desk(request).estimate(visitor, name, confidence=confidence)))


@COLLECTIONS.post("/collections/{name}/close")
async def close(request: Request, visitor: Who, name: str) -> Response:
    """Close a collection for ever."""
    await run_in_threadpool(_desk(request).close, visitor, name)
    return respond({"schema": 1})
