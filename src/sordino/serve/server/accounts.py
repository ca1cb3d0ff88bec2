"""Accounts, their passwords and tokens: who there is, and who a secret belongs to. Secrets are stored as hashes.

It knows no questions; what an account may do is the word of access.py.

Of a token the server also keeps the keys of SCRAM-SHA-256 (RFC 5802, RFC 7677), by which it checks a SQL client's proof.
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
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION
from sqlalchemy import ColumnElement, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from sordino.core.errors import DeclarationError, SignInNeeded
from sordino.core.noise.rng import Rng
from sordino.serve.server.access import OWNER, NotThere, Role, Visitor, check_role
from sordino.serve.server.account_schema import ACCOUNTS, SCRAM_KEYS, SESSIONS, TOKENS
from sordino.serve.server.database import ServerDatabase

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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,79}")
_PEOPLE = ACCOUNTS.c.id != OWNER.account
# Characters of a password.
_SHORTEST = 12
_LONGEST = 1024
_WRONG = "the name or the password is wrong, or the account is disabled"
# The tokens of an account that a sign-in by SCRAM tries.
_MOST_KEYS = 64
_NO_TOKEN = "this token is unknown, has expired, or its account is disabled"


@dataclass(frozen=True, slots=True)
class Account:
    """An account: its number, which is never used again, its name and role, and whether it may sign in."""

    id: int
    name: str
    role: Role
    disabled: bool
    created: str
    has_password: bool
    subject: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON data, without any secret."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "disabled": self.disabled,
            "created": self.created,
            "password": self.has_password,
            "openid": self.subject is not None,
        }


@dataclass(frozen=True, slots=True)
class Token:
    """A token as listed: never the secret itself."""

    id: int
    account: int
    name: str
    spender: str
    created: str
    expires: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the token as JSON data, without the secret."""
        return {key: getattr(self, key) for key in ("id", "name", "spender", "created", "expires")}


def check_name(name: str, *, key: str) -> None:
    """Raise DeclarationError for what is no name of an account or a spender: both stay on record for good."""
    if _NAME.fullmatch(name) is None:
        raise DeclarationError(
            "must be letters, digits and . _ @ + -, 80 at most, and start with a letter or digit", key=key
        )


def make_secret(kind: str) -> str:
    """Return a new secret of 32 random bytes, with a word before it that scanners for leaked secrets can look for."""
    return f"sordino_{kind}_" + base64.urlsafe_b64encode(Rng.secure().bytes(32)).decode().rstrip("=")


def secret_hash(secret: str) -> str:
    """Return what is kept of a secret: it is 32 random bytes, so a plain hash of it cannot be turned back.

    Secrets are looked up by it, so a comparison takes no time that tells a near guess from a far one.
    """
    return hashlib.sha256(b"sordino server secret " + secret.encode("utf-8", "surrogatepass")).hexdigest()


def hash_of_nobody(hasher: PasswordHasher) -> str:
    """Return a hash in the form of the hasher's own that fits no password that anyone knows.

    A try at an account that is not there is checked against it, at the cost of any other. It is random bytes: making a
    hash of a password would take each start of a server a tenth of a second and 64 MiB.
    """
    salt, digest = (
        base64.b64encode(Rng.secure().bytes(count)).decode().rstrip("=") for count in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2{hasher.type.name.lower()}$v={ARGON2_VERSION}${costs}${salt}${digest}"


class Accounts:
    """Read and change the accounts of one store."""

    def __init__(
        self, store: ServerDatabase, *, hasher: PasswordHasher | None = None, reserved: Collection[str] = ()
    ) -> None:
        self._store = store
        self._reserved = frozenset(reserved)
        self._hasher = PasswordHasher() if hasher is None else hasher
        self._nobody = hash_of_nobody(self._hasher)

    def add(self, name: str, role: str, *, password: str | None = None, subject: str | None = None) -> Account:
        """Add an account; raises DeclarationError for a bad or taken name, an unknown role or a short password."""
        check_name(name, key="name")
        if name in self._reserved:
            raise DeclarationError(
                f"{name!r} names a share that the project file declares, and the account would spend it: take another",
                key="name",
            )
        row = {
            "name": name,
            "role": check_role(role),
            "password": None if password is None else self._hash(password),
            "subject": subject,
            "disabled": False,
            "created": self._store.now(),
        }
        try:
            with self._store.transact() as db:
                db.execute(insert(ACCOUNTS).values(row))
        except IntegrityError:
            raise DeclarationError(f"there is an account {name!r} already, or one of this subject") from None
        return self.find(name)

    def add_owner(self) -> None:
        """Let jobs and models belong to the owner, who has no account: a row that is never listed, found or let in."""
        row = {"id": OWNER.account, "name": "", "role": OWNER.role, "disabled": True, "created": self._store.now()}
        with suppress(IntegrityError), self._store.transact() as db:
            db.execute(insert(ACCOUNTS).values(row))

    def all(self) -> list[Account]:
        """Return every account, in the order in which they were made."""
        with self._store.read() as db:
            return [_account(row) for row in db.execute(select(ACCOUNTS).where(_PEOPLE).order_by(ACCOUNTS.c.id))]

    def find(self, name: str) -> Account:
        """Return the account of this name; raises NotThere."""
        with self._store.read() as db:
            row = db.execute(select(ACCOUNTS).where(_PEOPLE, ACCOUNTS.c.name == name)).first()
        if row is None:
            raise NotThere
        return _account(row)

    def with_subject(self, subject: str) -> Account | None:
        """Return the account that an OpenID subject signs in to, if there is one."""
        with self._store.read() as db:
            row = db.execute(select(ACCOUNTS).where(ACCOUNTS.c.subject == subject)).first()
        return None if row is None else _account(row)

    def change(
        self, account: Account, *, role: str | None = None, disabled: bool | None = None, subject: str | None = None
    ) -> Account:
        """Change an account; one that is disabled loses its sessions, and its tokens are refused."""
        values: dict[str, Any] = {}
        values |= {} if role is None else {"role": check_role(role)}
        values |= {} if disabled is None else {"disabled": disabled}
        values |= {} if subject is None else {"subject": subject}
        if not values:
            raise DeclarationError("nothing would change: state a role, whether it is disabled, or a subject")
        with self._store.transact() as db:
            db.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account.id).values(values))
            db.execute(
                delete(SESSIONS).where(SESSIONS.c.account == account.id)
            )  # a session has the rights it began with
        return self.find(account.name)

    def set_password(self, account: Account, password: str) -> None:
        """Set a password; all sessions of the account end."""
        hashed = self._hash(password)
        with self._store.transact() as db:
            db.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account.id).values(password=hashed))
            db.execute(delete(SESSIONS).where(SESSIONS.c.account == account.id))

    def check_password(self, name: str, password: str) -> Account:
        """Return the account that name and password fit; raises SignInNeeded, in the same words and time for every failure."""
        with self._store.read() as db:
            row = db.execute(select(ACCOUNTS).where(ACCOUNTS.c.name == name)).first()
        stored = self._nobody if row is None or row.password is None else row.password
        try:
            fits = len(password) <= _LONGEST and self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            fits = False
        if not fits or row is None or row.password is None or row.disabled:
            raise SignInNeeded(_WRONG)
        if self._hasher.check_needs_rehash(stored):
            with self._store.transact() as db:
                new = self._hasher.hash(password)
                db.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == row.id).values(password=new))
        return _account(row)

    def make_token(
        self, account: Account, name: str, *, spender: str | None = None, expires: str | None = None
    ) -> tuple[Token, str]:
        """Make a token and return it with its secret, which is shown this once; it spends the share of `spender`."""
        if not 0 < len(name) <= 80 or not name.isprintable():
            raise DeclarationError("must be 1 to 80 printable characters", key="name")
        secret = make_secret("token")
        created = self._store.now()
        spends = account.name if spender is None else spender
        row = {
            "account": account.id,
            "name": name,
            "hash": secret_hash(secret),
            "spender": spends,
            "created": created,
            "expires": expires,
        }
        keys = keys_of(secret, self.salt(account.name))
        with self._store.transact() as db:
            number = db.execute(insert(TOKENS).values(row)).inserted_primary_key
            assert number is not None
            key_row = {"token": number[0], "stored_key": keys.stored_key, "server_key": keys.server_key}
            db.execute(insert(SCRAM_KEYS).values(key_row))
        return Token(number[0], account.id, name, spends, created, expires), secret

    def tokens(self, account: Account) -> list[Token]:
        """Return the tokens of an account, oldest first."""
        with self._store.read() as db:
            rows = db.execute(select(TOKENS).where(TOKENS.c.account == account.id).order_by(TOKENS.c.id)).all()
        return [_token(row) for row in rows]

    def token(self, number: int) -> Token:
        """Return a token by its number; raises NotThere."""
        with self._store.read() as db:
            row = db.execute(select(TOKENS).where(TOKENS.c.id == number)).first()
        if row is None:
            raise NotThere
        return _token(row)

    def revoke_token(self, token: Token) -> None:
        """Remove a token: from now on it is unknown."""
        with self._store.transact() as db:
            db.execute(delete(TOKENS).where(TOKENS.c.id == token.id))

    def visitor_of_token(self, secret: str, *, via: str = "token") -> Visitor:
        """Return who a token lets in; raises SignInNeeded."""
        return self._visitor(TOKENS.c.hash == secret_hash(secret), via)

    def visitor_of_number(self, token: int, *, via: str) -> Visitor:
        """Return who a token lets in now, where it was shown before; raises SignInNeeded once it lets nobody in."""
        return self._visitor(TOKENS.c.id == token, via)

    def salt(self, name: str) -> bytes:
        """Return the salt of an account's SCRAM keys, and one like it for a name that no account has."""
        return salt_of(self._store.setting("scram_salt", lambda: make_secret("salt")), name)

    def scram_keys(self, name: str) -> dict[int, ScramKeys]:
        """Return what shows, of each of an account's tokens, that someone has it: the newest, by the token's number."""
        joined = select(SCRAM_KEYS).join_from(SCRAM_KEYS, TOKENS).join(ACCOUNTS)
        newest = joined.where(ACCOUNTS.c.name == name).order_by(TOKENS.c.id.desc()).limit(_MOST_KEYS)
        with self._store.read() as db:
            return {row.token: ScramKeys(row.stored_key, row.server_key) for row in db.execute(newest)}

    def _visitor(self, where: ColumnElement[bool], via: str) -> Visitor:
        joined = select(ACCOUNTS, TOKENS.c.spender, TOKENS.c.expires).join_from(TOKENS, ACCOUNTS)
        with self._store.read() as db:
            row = db.execute(joined.where(where)).first()
        if row is None or row.disabled or (row.expires is not None and row.expires <= self._store.now()):
            raise SignInNeeded(_NO_TOKEN)
        return Visitor(row.id, row.name, check_role(row.role), row.spender, via)

    def _hash(self, password: str) -> str:
        if not _SHORTEST <= len(password) <= _LONGEST:
            raise DeclarationError(f"must have {_SHORTEST} to {_LONGEST} characters", key="password")
        return self._hasher.hash(password)


def visitor_of_account(account: Account, *, via: str) -> Visitor:
    """Return the visitor that an account is, where another way than a token has shown who it is."""
    return Visitor(account.id, account.name, account.role, account.name, via)


def _account(row: Row[Any]) -> Account:
    return Account(
        row.id, row.name, check_role(row.role), row.disabled, row.created, row.password is not None, row.subject
    )


def _token(row: Row[Any]) -> Token:
    return Token(row.id, row.account, row.name, row.spender, row.created, row.expires)
