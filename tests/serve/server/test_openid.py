"""Sign-in by an OpenID provider that runs in the test: who is bound to an account comes in, and no forged answer does."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from joserfc import jwt
from joserfc.jwk import RSAKey

from serving import Served, served

CLIENT = "sordino"


@dataclass
class Provider:
    """A provider: what it says of whom, and what it was asked."""

    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k1"}))
    url: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)  # what differs in its next token
    signs: RSAKey | None = None

    def sign_in(self, address: str, subject: str) -> dict[str, str]:
        """Do what a person does at the provider's page; return what the browser brings back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code{len(self.codes)}"
        self.codes[code] = asked | {"sub": subject}
        return {"code": code, "state": asked["state"]}

    def token(self, given: dict[str, str]) -> Response:
        asked = self.codes.pop(given.get("code", ""), None)  # a code is good once
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest()).rstrip(
            b"="
        )
        if (
            asked is None
            or asked["code_challenge"] != challenge.decode()
            or asked["redirect_uri"] != given["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": asked["sub"],
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 60,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "k1"}, claims | self.claims, self.signs or self.key)
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": signed})


def provider_app(provider: Provider) -> FastAPI:
    app = FastAPI()

    @app.get("/.well-known/openid-configuration")
    def describe() -> dict[str, str]:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": provider.url, **{name: f"{provider.url}/{end}" for name, end in ends.items()}}

    @app.get("/keys")
    def keys() -> dict[str, Any]:
        return {"keys": [provider.key.as_dict(private=False)]}

    @app.post("/token")
    async def token(request: Request) -> Response:
        body = (await request.body()).decode()
        return provider.token({name: values[0] for name, values in parse_qs(body).items()})

    return app


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    server = uvicorn.Server(uvicorn.Config(provider_app(made), port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield made
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def organisation(provider: Provider, tmp_path: Path) -> Iterator[Served]:
    provider.claims, provider.signs = {}, None
    openid = f'origin = "http://test"\nopenid = {{issuer = "{provider.url}", client = "{CLIENT}"}}'
    with served(tmp_path, serve=openid) as made:
        made.service.account_service.accounts.add("eva", "analyst", subject=f"{provider.url} eva-at-work")
        yield made


def begin(server: Served) -> tuple[str, dict[str, str]]:
    sent = server.send("GET", "/v1/openid/login", who=None)
    assert sent.status_code == 303
    return sent.headers["location"], {"cookie": sent.headers["set-cookie"].split(";")[0]}


def come_back(server: Served, brought: dict[str, str], cookie: dict[str, str]) -> httpx.Response:
    return server.send("GET", "/v1/openid/return", who=None, params=brought, headers=cookie)


def test_who_is_bound_to_an_account_comes_in(organisation: Served, provider: Provider) -> None:
    address, cookie = begin(organisation)
    brought = provider.sign_in(address, "eva-at-work")
    arrived = come_back(organisation, brought, cookie)
    assert arrived.status_code == 200
    session = {"cookie": arrived.headers["set-cookie"].split(";")[0]}
    assert organisation.send("GET", "/v1/session", who=None, headers=session).json()["name"] == "eva"
    assert come_back(organisation, brought, cookie).status_code == 401  # a code is good once


def test_who_is_bound_to_none_does_not(organisation: Served, provider: Provider) -> None:
    address, cookie = begin(organisation)
    refused = come_back(organisation, provider.sign_in(address, "somebody"), cookie)
    assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
    organisation.service.account_service.accounts.change(
        organisation.service.account_service.accounts.find("eva"), disabled=True
    )
    address, cookie = begin(organisation)
    assert come_back(organisation, provider.sign_in(address, "eva-at-work"), cookie).status_code == 403


def forge_last_digit(cookie: str) -> str:
    """Give the cookie with another last digit of its signature."""
    return cookie[:-1] + ("1" if cookie[-1] == "0" else "0")


def test_a_browser_brings_back_its_own_sign_in(organisation: Served, provider: Provider) -> None:
    address, cookie = begin(organisation)
    brought = provider.sign_in(address, "eva-at-work")
    _, other = begin(organisation)
    assert come_back(organisation, brought, {}).status_code == 401
    assert come_back(organisation, brought, other).status_code == 401  # an attacker's answer in a victim's browser
    assert come_back(organisation, brought | {"state": "x"}, cookie).status_code == 401
    assert come_back(organisation, brought, {"cookie": forge_last_digit(cookie["cookie"])}).status_code == 401
    assert come_back(organisation, brought, cookie).status_code == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"iss": "https://evil.example"},
        {"nonce": "n"},
        {"exp": 1},
        {"aud": [CLIENT, "b"], "azp": "b"},
    ],
    ids=str,
)
def test_a_token_for_another_purpose_is_refused(
    organisation: Served, provider: Provider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    address, cookie = begin(organisation)
    assert come_back(organisation, provider.sign_in(address, "eva-at-work"), cookie).status_code == 401


def test_a_token_that_another_key_signed_is_refused(organisation: Served, provider: Provider) -> None:
    provider.signs = RSAKey.generate_key(2048, {"kid": "k1"})
    address, cookie = begin(organisation)
    assert come_back(organisation, provider.sign_in(address, "eva-at-work"), cookie).status_code == 401


def test_without_a_provider_there_is_no_such_sign_in(server: Served) -> None:
    assert server.send("GET", "/v1/openid/login", who=None).status_code == 400
