"""The service in OpenAPI: what FastAPI knows of itself, and the endpoint of reports, which is not one of its routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sordino.collector.report_endpoint import ERRORS

__all__ = ["describe_service"]


def describe_service(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the whole service."""
    if app.openapi_schema is None:
        plain = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_ABOUT)
        plain["paths"]["/v1/tasks/{task}/reports"] = {"post": _reports()}
        parts = plain.setdefault("components", {})
        parts.setdefault("schemas", {})["Error"] = _ERROR
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = plain
    return app.openapi_schema


_ABOUT = "Collects reports that were randomised on the sender's device. No address is stored or logged."
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string", "enum": sorted(ERRORS)}, "says": {"type": "string"}},
            "required": ["code", "says"],
        }
    },
    "required": ["error"],
}


def _reports() -> dict[str, Any]:
    stored = {"type": "object", "properties": {"stored": {"type": "integer"}, "repeated": {"type": "integer"}}}
    codes_of: dict[int, list[str]] = {}
    for code, (status, _) in ERRORS.items():
        codes_of.setdefault(status, []).append(code)
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": "Store one report or several; answered when they are on disk",
        "description": "The body: the 32-byte hash of the manifest, then for each report a random 16-byte id and its bytes.",
        "security": [{"token": []}],
        "parameters": [{"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "200": {"description": "Stored", "content": {"application/json": {"schema": stored}}},
            **{
                str(status): {
                    "description": "; ".join(f"{code}: {ERRORS[code][1]}" for code in codes),
                    "content": failed,
                }
                for status, codes in sorted(codes_of.items())
            },
        },
    }
