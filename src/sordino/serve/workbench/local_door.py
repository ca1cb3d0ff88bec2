"""The door of `sordino workbench`: one person at their own machine, let in by a link that works once. It has no accounts.

The link's secret is in its fragment, which no browser sends; whoever brings it gets a cookie, which ends with the process.
"""

from __future__ import annotations

import hmac
import threading

from sordino.core.errors import SignInNeeded
from sordino.core.noise.rng import Rng
from sordino.serve.server.access import OWNER
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.sessions import Session, Sessions


class LocalSessions(Sessions):
    """Let the owner in, and nobody else: its cookies are signed with a key that is made when the process starts."""

    def __init__(self, store: ServerDatabase) -> None:
        super().__init__(store)
        self._key = bytes.fromhex(make_key())
        self._lock = threading.Lock()
        self._secret_of_link: str | None = make_key()

    @property
    def link_secret(self) -> str:
        """The secret of the link, until it has been used."""
        return self._secret_of_link or ""

    def enter(self, secret: str) -> str:
        """Return the cookie of a session for the secret of the link, which then lets nobody in any more."""
        with self._lock:
            expected = self._secret_of_link
            if expected is None or not hmac.compare_digest(secret.encode("utf-8", "replace"), expected.encode()):
                raise SignInNeeded("this link was used before, or is not the one that the terminal shows: start again")
            self._secret_of_link = None
        return self.seal("local", make_key())

    def find(self, cookie: str) -> Session:
        """Return the owner's session; raises SignInNeeded for any other cookie."""
        self.unseal("local", cookie[:500])
        return Session(OWNER, self.seal("csrf", cookie).rpartition(".")[2])

    def end(self, cookie: str) -> None:
        """End all sessions: the key is another one from now on."""
        del cookie
        self._key = bytes.fromhex(make_key())


def make_key() -> str:
    """Return 32 secret bytes as text."""
    return Rng.secure().bytes(32).hex()


def open_door(service: CuratorService) -> str:
    """Let the owner of the project in, by the secret that is returned, in place of accounts."""
    service.account_service.accounts.add_owner()
    door = LocalSessions(service.store)
    service.account_service.sessions = door
    return door.link_secret
