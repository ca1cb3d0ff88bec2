"""Compare answers of the server with its OpenAPI document: status, content type, and JSON against the schema."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from sordino.serve.server.http_guard import HttpGuard

# The document of each application of this process; it is the same for all, and slow to make.
_DOCUMENTS: list[dict[str, Any]] = []


def document_of(app: HttpGuard) -> dict[str, Any]:
    """Return the OpenAPI document of the server's API."""
    if not _DOCUMENTS:
        _DOCUMENTS.append(app.app.openapi())
    return _DOCUMENTS[0]


def check_answer(app: HttpGuard, method: str, path: str, answer: httpx.Response) -> None:
    """Fail where an answer of a route of the API is not as the document says."""
    document = document_of(app)
    template = _template(tuple(document["paths"]), path.partition("?")[0])
    operation = None if template is None else document["paths"][template].get(method.lower())
    if operation is None:
        return
    status = str(answer.status_code)
    stated = operation["responses"].get(status) or operation["responses"].get(f"{status[0]}XX")
    assert stated is not None, f"{method} {template} answers {status}, which its document does not say"
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if not answer.content:
        assert "content" not in stated, f"{method} {template} answers {status} with nothing"
        return
    assert kind in stated.get("content", {}), f"{method} {template} answers {status} as {kind}"
    if kind.endswith("json"):
        error = next(
            _validator(template, method.lower(), _key(stated, operation), kind).iter_errors(answer.json()), None
        )
        assert error is None, (
            f"{method} {template} {status}: {error and error.json_path} {error and error.message[:300]}"
        )


def _key(stated: dict[str, Any], operation: dict[str, Any]) -> str:
    status: str = next(status for status, response in operation["responses"].items() if response is stated)
    return status


@cache
def _template(templates: tuple[str, ...], path: str) -> str | None:
    exact = [one for one in templates if one == path]
    fitting = [one for one in templates if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one)), path)]
    return next(iter([*exact, *fitting]), None)


@cache
def _validator(template: str, method: str, status: str, kind: str) -> Draft202012Validator:
    document = _DOCUMENTS[0]
    schema = document["paths"][template][method]["responses"][status]["content"][kind]["schema"]
    return Draft202012Validator({**schema, "components": document["components"]})
