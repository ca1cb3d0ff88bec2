"""The pages of live collections: reports so far, estimates with intervals, and an officer's end to one."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError
from sordino.serve.server.collection_service import CollectionService
from sordino.serve.workbench.page_route import Changing, PageRoute, Reading, fragment, go, page, pick

COLLECTION_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


def _collection_service(request: Request) -> CollectionService:
    collection_service: CollectionService = request.app.state.collections
    return collection_service


@COLLECTION_PAGES.get("/collections")
async def show_collections(request: Request, session: Reading) -> Response:
    """Show the collections of the project."""
    collections = await run_in_threadpool(_collection_service(request).list_collections, session.visitor)
    return page(request, "collections.html", session, collections=collections)


@COLLECTION_PAGES.get("/collections/{name}")
async def show_collection(request: Request, session: Reading, name: str) -> Response:
    """Show one collection as it stands; its script looks again and again."""
    collection = await run_in_threadpool(_collection_service(request).estimate, session.visitor, name)
    words: dict[str, Any] = {"one": collection, "labels": [_bar(label) for label in collection["labels"]]}
    if request.headers.get("x-fragment") == "1":
        return fragment("collection_state.html", **words)
    return page(request, "collection.html", session, **words)


@COLLECTION_PAGES.post("/collections/{name}/close")
async def close_collection(request: Request, session: Changing, name: str) -> Response:
    """Close a collection for ever."""
    if (await pick(request, "sure"))["sure"] != "on":
        raise DeclarationError("tick that it is to be closed: this cannot be undone", key="sure")
    await run_in_threadpool(_collection_service(request).close, session.visitor, name)
    return go(f"/collections/{quote(name, safe='')}")


def _bar(label: dict[str, Any]) -> dict[str, Any]:
    """Return a label's estimate as shares in percent, as far as they are finite."""
    names = ("frequency", "lower", "upper", "adversarial_lower", "adversarial_upper")
    shares = {name: None if label[name] is None else 100 * label[name] for name in names}
    return {**shares, "label": label["label"], "count": label["count"]}
