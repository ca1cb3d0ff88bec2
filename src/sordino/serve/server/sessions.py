"""Sessions of people in a browser: begun by a password or a provider, carried by a signed cookie, guarded against forgery.

It knows accounts and moments, nothing of what is asked. The store keeps a hash of each session; a copy of it lets nobody in.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from sordino.core.errors import NotAllowed, SignInNeeded, TooManyRequests
from sordino.core.noise.rng import Rng
from sordino.local.collector.service import Buckets, Limits
from sordino.serve.server.access import Visitor, check_role
from sordino.serve.server.account_schema import ACCOUNTS, SESSIONS
from sordino.serve.server.accounts import Account, make_secret, secret_hash
from sordino.serve.server.database import ServerDatabase, text_of_time

SESSION_HOURS = 12
_ENDED = "sign in: there is no session, or it has ended"


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was found: who it is, and the token that each of its changes has to carry."""

    visitor: Visitor
    csrf: str

    def check_csrf(self, given: str | None) -> None:
        """Raise NotAllowed unless a request that changes something carries the session's own token."""
        if given is None or not hmac.compare_digest(given.encode("utf-8", "replace"), self.csrf.encode()):
            raise NotAllowed("this request does not carry the session's CSRF token: reload the page and try again")


class Sessions:
    """Begin, find and end the sessions of one store. The key that signs cookies is made once and lies in the store."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store
        self._key = bytes.fromhex(store.setting("session_key", lambda: Rng.secure().bytes(32).hex()))

    def begin(self, account: Account) -> str:
        """Return the cookie of a new session; nothing that a browser brought is taken over into it."""
        secret = make_secret("session")
        ends = text_of_time(self._store.clock() + datetime.timedelta(hours=SESSION_HOURS))
        row = {"hash": secret_hash(secret), "account": account.id, "created": self._store.now(), "expires": ends}
        with self._store.transact() as db:
            db.execute(delete(SESSIONS).where(SESSIONS.c.expires <= self._store.now()))
            db.execute(insert(SESSIONS).values(row))
        return f"{secret}.{self._sign('cookie', secret)}"

    def find(self, cookie: str) -> Session:
        """Return the session of a cookie; raises SignInNeeded where it is not signed, not known, or over."""
        secret = self._secret(cookie)
        statement = select(ACCOUNTS, SESSIONS.c.expires).join_from(SESSIONS, ACCOUNTS)
        with self._store.read() as db:
            row = db.execute(statement.where(SESSIONS.c.hash == secret_hash(secret))).first()
        if row is None or row.disabled or row.expires <= self._store.now():
            raise SignInNeeded(_ENDED)
        visitor = Visitor(row.id, row.name, check_role(row.role), row.name, "session")
        return Session(visitor, self._sign("csrf", secret))

    def end(self, cookie: str) -> None:
        """End a session: its cookie lets nobody in any more."""
        with self._store.transact() as db:
            db.execute(delete(SESSIONS).where(SESSIONS.c.hash == secret_hash(self._secret(cookie))))

    def seal(self, purpose: str, text: str) -> str:
        """Return a short text with a signature, for a browser to bring back."""
        return f"{text}.{self._sign(purpose, text)}"

    def unseal(self, purpose: str, sealed: str) -> str:
        """Return the text that was sealed for this purpose; raises SignInNeeded for any other."""
        text, _, signature = sealed.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(purpose, text).encode()):
            raise SignInNeeded(_ENDED)
        return text

    def _secret(self, cookie: str) -> str:
        return self.unseal("cookie", cookie[:500])

    def _sign(self, purpose: str, text: str) -> str:
        message = f"{purpose}:{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


class SignInThrottle:
    """Limit tries at passwords, of a name and of an address, and unknown tokens from one address."""

    def __init__(self) -> None:
        self._names = Buckets(Limits(per_minute=6, burst=10))
        self._passwords = Buckets(Limits(per_minute=20, burst=30))
        self._tokens = Buckets(Limits(per_minute=60, burst=30))

    def take_password(self, name: str, address: str) -> None:
        """Count a try at a password; raises TooManyRequests where its address or its name had too many.

        The address comes first: whoever is refused by it cannot use up the tries of names. An empty one is not counted.
        """
        if address:
            _refuse_if(self._passwords.take(_network(address), 1))
        _refuse_if(self._names.take(name.encode("utf-8", "replace"), 1))

    def give_back(self, address: str) -> None:
        """Uncount a try of an address at a password: it was right."""
        if address:
            self._passwords.give_back(_network(address), 1)

    def take_address(self, address: str) -> None:
        """Count an unknown token of an address; raises TooManyRequests where it had too many. An empty one is not counted."""
        if address:
            _refuse_if(self._tokens.take(_network(address), 1))


def _network(address: str) -> bytes:
    """Return what counts as one address: of IPv6 the /64 that one household or one machine has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address.encode("utf-8", "replace")
    if isinstance(parsed, ipaddress.IPv6Address):
        return b"6" + (parsed.packed if parsed.ipv4_mapped else parsed.packed[:8])
    return b"4" + parsed.packed


def _refuse_if(wait: float) -> None:
    if wait:
        raise TooManyRequests("too many tries: wait for as many seconds as Retry-After says", wait=wait)
