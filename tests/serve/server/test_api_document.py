"""The OpenAPI document describes each route whole, and a misspelt name is refused; `serving` compares each answer with it."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from answer_schemas import document_of
from serving import COUNT, Served

# Whoever asks these needs no account.
OPEN_TO_ALL = {"/healthz", "/readyz", "/metrics", "/v1/openid/login", "/v1/openid/return"}


def test_an_address_says_every_method_that_it_takes(server: Served) -> None:
    paths = document_of(server.app)["paths"]
    for path, operations in paths.items():
        filled = re.sub(r"\{\w+\}", "1", path)
        taken = {method.upper() for method in operations}
        other = next(method for method in ("PUT", "PATCH", "DELETE") if method not in taken)
        answer = server.send(other, filled)
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == taken


def test_a_misspelt_parameter_is_named_and_refused(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    """A parameter that nobody reads would be left out in silence: all budgets' releases in place of one's."""
    with caplog.at_level(logging.INFO, logger="sordino.server"):
        answer = server.send("GET", "/v1/releases?budgte=people")
        assert (answer.status_code, answer.json()["exit_code"]) == (400, 2)
        assert (
            answer.json()["detail"] == "budgte is unknown: this address has no such parameter; did you mean 'budget'?"
        )
        for path, body, words in (
            ("/v1/ask", {"sqll": COUNT, "epsilon": 1}, "a question has no such key; did you mean 'sql'?"),
            ("/v1/models", {"tabel": "people"}, "a fit has no such key; did you mean 'table'?"),
            ("/v1/models/1/sample", {"row": 3}, "a sample has no such key; did you mean 'rows'?"),
            ("/v1/models/1/evaluations", {"row": 3}, "an evaluation has no such key; did you mean 'rows'?"),
            ("/v1/tokens", {"nam": "t"}, "this request has no such key; did you mean 'name'?"),
        ):
            answer = server.send("POST", path, json=body)
            assert (answer.status_code, answer.json()["detail"].partition(": ")[2]) == (400, words)
        # What does not look like a name could be anything, and is in no log.
        server.send("GET", "/v1/releases?Sordino_token_4711=x")
    unknown = [getattr(record, "unknown", None) for record in caplog.records]
    assert unknown == ["parameter budgte", "key sqll", "key tabel", "key row", "key row", "key nam", "a parameter"]


def test_the_document_describes_each_answer(server: Served) -> None:
    """So a client that is generated from it has a class of each body and each answer, and knows how to sign in."""
    document = document_of(server.app)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = f"{method} {path}"
            good = [response for status, response in operation["responses"].items() if status[0] == "2"]
            kinds = [kind for response in good for kind in response.get("content", {}).items()]
            assert kinds or path == "/v1/openid/login", route
            assert all(content["schema"] for _, content in kinds), route
            assert set(operation["responses"]) >= {"4XX", "5XX"}, route
            ways = operation["security"]
            assert [set(way) for way in ways] in ([], [{"token"}, {"session"}], [{"token"}, {"session", "csrf"}]), route
            assert (ways == []) == (path in OPEN_TO_ALL or route == "post /v1/session"), route
    charged = ("/v1/ask", "/v1/models", "/v1/models/{number}/evaluations")
    assert all("202" in document["paths"][path]["post"]["responses"] for path in charged)
    metrics = document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    assert list(metrics) == ["text/plain"]
    assert without_items(document) == []


def without_items(node: Any, place: str = "") -> list[str]:
    """Return where an array does not say of what: generators of clients leave such routes out."""
    if isinstance(node, list):
        return [found for i, one in enumerate(node) for found in without_items(one, f"{place}/{i}")]
    if not isinstance(node, dict):
        return []
    kinds = node.get("type", ())
    lacking = "items" not in node and (kinds == "array" or (isinstance(kinds, list) and "array" in kinds))
    below = [found for key, one in node.items() for found in without_items(one, f"{place}/{key}")]
    return [place, *below] if lacking else below


@pytest.mark.parametrize("most", [1, pytest.param(6, marks=pytest.mark.deep)])
def test_a_value_of_another_type_is_refused_by_its_key(server: Served, most: int) -> None:
    """Of each body and each key: what the document does not allow there is refused, and never an unexpected error."""
    document = document_of(server.app)
    examples: dict[str, Any] = {"string": "x", "number": 2, "integer": 2, "boolean": True, "object": {}, "array": []}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            for key, of in schema.get("properties", {}).items():
                stated = {
                    name: schema["properties"][name].get("enum", ["x" * 12])[0] for name in schema.get("required", ())
                }
                if key == "question":
                    continue
                wrong = [e for e in examples.values() if not Draft202012Validator(of).is_valid(e)]
                for example in wrong[:most]:
                    answer = server.send(
                        method.upper(), re.sub(r"\{\w+\}", "1", path), who="ola", json={**stated, key: example}
                    )
                    assert 400 <= answer.status_code < 500, (method, path, key, example)
