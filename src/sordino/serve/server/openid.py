"""Sign-in by an OpenID provider: the authorization code flow with PKCE, state and nonce. It learns who someone is, nothing else.

An account is bound to issuer and subject; no name and no address that a provider states lets anyone in.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sordino.core.errors import DeclarationError, SignInNeeded
from sordino.serve.server.accounts import make_secret
from sordino.serve.server.database import Clock, text_of_time

TRY_SECONDS = 600
# Seconds for the provider to answer.
_SECONDS = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# No algorithm without a key, and none with a shared one.
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
_REFUSED = "the provider's answer does not hold: sign in again"


@dataclass(frozen=True, slots=True)
class OpenIdTry:
    """What a browser has to bring back, sealed, when it returns from the provider."""

    state: str
    nonce: str
    verifier: str
    expires: str

    def to_text(self) -> str:
        """Return it as text to seal."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> OpenIdTry:
        """Return what `to_text` wrote."""
        return cls(**json.loads(text))


class OpenIdProvider:
    """Send people to one provider, and read who came back. The provider's own description is fetched when first used."""

    def __init__(self, issuer: str, client: str, *, secret: str, back: str, clock: Clock) -> None:
        self.issuer = issuer
        self._client = client
        self._secret = secret
        self._back = back
        self._clock = clock
        self._about: Mapping[str, Any] | None = None

    def begin(self) -> tuple[str, OpenIdTry]:
        """Return the provider's address to send a browser to, and what it has to bring back."""
        expires = text_of_time(self._clock() + datetime.timedelta(seconds=TRY_SECONDS))
        attempt = OpenIdTry(make_secret("state"), make_secret("nonce"), make_secret("verifier"), expires)
        with self._session() as session:
            url, _ = session.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return str(url), attempt

    def finish(self, begun: OpenIdTry, *, state: str, code: str) -> str:
        """Return the subject who came back with a code, as accounts are bound to it; raises SignInNeeded."""
        if state != begun.state or begun.expires <= text_of_time(self._clock()):
            raise SignInNeeded(_REFUSED)
        try:
            with self._session() as session:
                token = session.fetch_token(self._endpoint("token_endpoint"), code=code, code_verifier=begun.verifier)
            keys = KeySet.import_key_set(self._fetch(self._endpoint("jwks_uri")))
            read = jwt.decode(str(token["id_token"]), keys, algorithms=_ALGORITHMS)
            now = int(self._clock().timestamp())
            rules = jwt.JWTClaimsRegistry(
                now=now,
                leeway=30,
                iss={"essential": True, "value": self.issuer},
                aud={"essential": True, "value": self._client},
                nonce={"essential": True, "value": begun.nonce},
                exp={"essential": True},
                sub={"essential": True},
            )
            rules.validate(read.claims)
        except (JoseError, OAuthError, httpx.HTTPError, KeyError, ValueError, TypeError):
            raise SignInNeeded(_REFUSED) from None
        audience = read.claims["aud"]
        subject = read.claims["sub"]
        if isinstance(audience, list) and read.claims.get("azp", self._client) != self._client:
            raise SignInNeeded(_REFUSED)
        return self.bind(str(subject))

    def bind(self, subject: str) -> str:
        """Return what an account holds of a subject: with its issuer, since two providers may know one by the same name."""
        return f"{self.issuer} {subject}"

    def _session(self) -> OAuth2Client:
        return OAuth2Client(
            self._client,
            self._secret,
            scope="openid",
            redirect_uri=self._back,
            code_challenge_method="S256",
            timeout=_SECONDS,
            trust_env=False,
        )

    def _endpoint(self, name: str) -> str:
        """Return an address of the provider, from its own description; raises DeclarationError where that does not hold."""
        if self._about is None:
            try:
                description = self._fetch(f"{self.issuer}/.well-known/openid-configuration")
            except (httpx.HTTPError, ValueError):
                raise DeclarationError("the OpenID provider cannot be reached now") from None
            if not isinstance(description, dict) or description.get("issuer") != self.issuer:
                raise DeclarationError(
                    "the OpenID provider calls itself otherwise than [serve] does: state its own issuer"
                )
            self._about = description
        address = str(self._about.get(name, ""))
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise DeclarationError(f"the OpenID provider states no https address as its {name}")
        return address

    def _fetch(self, address: str) -> Any:
        answer = httpx.get(address, timeout=_SECONDS, follow_redirects=False, trust_env=False)
        answer.raise_for_status()
        return answer.json()
