"""SCRAM-SHA-256 (RFC 5802, RFC 7677): what the server keeps of a token to know whoever has it, and the check of a proof.

Passwords have no such keys: their argon2 hash would be worth no more than the faster hash of SCRAM beside it. A token is 32
random bytes, which no hash makes easier to find. All tokens of an account share a salt, since a SCRAM client states an
account, not which token it has; whichever token's keys fit its proof is the one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass

from sordino.core.errors import SignInNeeded

# The least that clients accept; more rounds would add nothing to 32 random bytes.
ROUNDS = 4096
# the name within is not read: libpq leaves it empty, and the connection has stated it already
_FIRST = re.compile(
    r"(?P<gs2>(?P<flag>n|y|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]{1,256}))"
)
_FINAL = re.compile(
    r"(?P<without>c=(?P<bound>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]{1,512})),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_BINDING = "tls-server-end-point"
_REFUSED = "the account and the token do not fit, or it may not sign in: the user is an account, the password its token"


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """Hold the two keys of RFC 5802, section 3, that a server stores; neither lets anyone in."""

    stored_key: bytes
    server_key: bytes


def salt_of(secret: str, name: str) -> bytes:
    """Return the salt of an account's name: by a secret of the store, so that names without an account have one as well."""
    return hmac.digest(secret.encode(), b"salt " + name.encode("utf-8", "surrogatepass"), "sha256")[:16]


def keys_of(token: str, salt: bytes) -> ScramKeys:
    """Return the keys of a token, which is ASCII and so needs no SASLprep."""
    salted = hashlib.pbkdf2_hmac("sha256", token.encode("ascii"), salt, ROUNDS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return ScramKeys(hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))


class ScramExchange:
    """The server's side of one sign-in. `nonce` is its random part; `binding` the hash of its certificate, where TLS is on.

    `wants_binding` says that the client chose the mechanism that is bound to the certificate.
    """

    def __init__(self, first: str, *, nonce: str, salt: bytes, binding: bytes | None, wants_binding: bool) -> None:
        message = _FIRST.fullmatch(first)
        if message is None:
            raise SignInNeeded(_REFUSED)
        flag = message["flag"]
        bound = flag == f"p={_BINDING}" and wants_binding and binding is not None
        # "y" says that the server offers no binding: with one, somebody between has taken it out of the offer
        unbound = not wants_binding and (flag == "n" or (flag == "y" and binding is None))
        if not (bound or unbound):
            raise SignInNeeded(_REFUSED)
        self._bound = base64.b64encode(
            message["gs2"].encode() + (binding if bound and binding is not None else b"")
        ).decode()
        self._nonce = message["nonce"] + nonce
        self._bare = message["bare"]
        self.challenge = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={ROUNDS}"

    def proof(self, final: str, keys: dict[int, ScramKeys]) -> tuple[int, str]:
        """Return the number of the keys that a client's proof fits, and the server's own proof; raises SignInNeeded."""
        message = _FINAL.fullmatch(final)
        try:
            proof = base64.b64decode(message["proof"], validate=True) if message is not None else b""
        except binascii.Error:
            proof = b""
        if message is None or len(proof) != 32 or message["bound"] != self._bound or message["nonce"] != self._nonce:
            raise SignInNeeded(_REFUSED)
        auth_message = f"{self._bare},{self.challenge},{message['without']}".encode()
        fits = None
        # All keys are tried, so that the time does not reveal which of them fits.
        for number, one in keys.items():
            mask = hmac.digest(one.stored_key, auth_message, "sha256")
            client = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
            if hmac.compare_digest(hashlib.sha256(client).digest(), one.stored_key):
                fits = number, one
        if fits is None:
            raise SignInNeeded(_REFUSED)
        signature = hmac.digest(fits[1].server_key, auth_message, "sha256")
        return fits[0], f"v={base64.b64encode(signature).decode()}"
