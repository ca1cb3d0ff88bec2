"""The server's own store: SQLite, or PostgreSQL where several processes serve; opened, migrated, and read in transactions.

It knows no questions and no answers, only what account_schema.py names.
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import Engine
from sqlalchemy.engine.url import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sordino.core.errors import DeclarationError
from sordino.serve.server.account_schema import MIGRATIONS, SETTINGS
from sordino.serve.server.locks import DatabaseTurns, FileTurns, Presence, SharedWrites

Clock = Callable[[], datetime.datetime]
# The lock of migrations on a PostgreSQL database.
_LOCK = 0x536F7253
_VERSION = "version"
_CONNECTIONS = 20


def utc_now() -> datetime.datetime:
    """Return the moment, in UTC."""
    return datetime.datetime.now(datetime.UTC)


class ForwardClock:
    """Tell the time, which runs on where the machine's clock is set back: so nothing that has expired, or will, lives longer."""

    def __init__(self, wall: Clock = utc_now, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._last = wall(), steady()

    def __call__(self) -> datetime.datetime:
        """Return the machine's time, or where that went back the last one and what has passed since by its steady clock."""
        with self._lock:
            last, last_steady = self._last
            now = self._steady()
            self._last = max(self._wall(), last + datetime.timedelta(seconds=now - last_steady)), now
            return self._last[0]


def text_of_time(moment: datetime.datetime) -> str:
    """Return a moment as text that sorts as time does."""
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class StoreUnusable(DeclarationError):
    """Say that the store cannot be used now."""

    def __init__(self) -> None:
        super().__init__("the server's store cannot be used now: see its disk, or that its database server runs")


class ServerDatabase:
    """Hold the store of one server. Made by `ServerDatabase.open(url)`; `url` is a path, sqlite:///PATH or postgresql://..."""

    def __init__(
        self,
        engine: Engine,
        *,
        turns: FileTurns | DatabaseTurns,
        clock: Clock | None = None,
        presence: Presence | None = None,
    ) -> None:
        self._engine = engine
        self._turns = turns
        self._presence = presence
        self.clock = ForwardClock() if clock is None else clock
        self.shared = SharedWrites(self.transact)

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> ServerDatabase:
        """Open the store, made or brought to this version where needed; raises DeclarationError where it cannot be used."""
        if url.startswith(("postgresql://", "postgres://")):
            engine = _open_server(url)
            opened = cls(engine, turns=DatabaseTurns(engine.url), clock=clock)
        else:
            path = Path(url.removeprefix("sqlite:///")).expanduser().absolute()
            opened = cls(_open_file(path, url), turns=FileTurns(path), clock=clock, presence=Presence(path))
        with opened.transact() as db:
            _migrate(db)
        return opened

    @contextmanager
    def transact(self) -> Iterator[Connection]:
        """Give a connection within a transaction, written at the end; StoreUnusable where that cannot be."""
        failed = False
        try:
            with self._engine.begin() as db:
                yield db
        except IntegrityError:
            raise
        # The error is not chained: its text may name the machine's paths.
        except (DBAPIError, PoolTimeout):
            failed = True
        if failed:
            raise StoreUnusable

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that only reads, one state of the store, beside whoever writes; StoreUnusable as above."""
        failed = False
        try:
            with self._engine.connect().execution_options(sordino_reads=True) as db:
                yield db
        except (DBAPIError, PoolTimeout):
            failed = True
        if failed:
            raise StoreUnusable

    def arrive(self) -> AbstractContextManager[bool]:
        """Give whether no other process serves from this store, which is never known of one on a server: see `Presence`."""
        return nullcontext(False) if self._presence is None else self._presence.arrive()

    @property
    def note(self) -> str | None:
        """What whoever starts a process on this store is told: that another one served from its file before."""
        if self._presence is None or not self._presence.taken:
            return None
        return "another process serves from this store already: both answer, and what it has under way goes on"

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold what has this name against all threads and processes that serve from the store; StoreUnusable as above."""
        with ExitStack() as locks:
            failed = False
            try:
                locks.enter_context(self._turns.hold(name))
            except (DBAPIError, PoolTimeout):
                failed = True
            if failed:
                raise StoreUnusable
            yield

    def now(self) -> str:
        """Return the moment as text."""
        return text_of_time(self.clock())

    def setting(self, name: str, make: Callable[[], str]) -> str:
        """Return a setting of the store, made the first time that anyone asks."""
        statement = select(SETTINGS.c.value).where(SETTINGS.c.name == name)
        with self.read() as db:
            value = db.execute(statement).scalar()
        if value is not None:
            return str(value)
        # Another process may be first.
        with suppress(IntegrityError), self.transact() as db:
            db.execute(insert(SETTINGS).values(name=name, value=make()))
        with self.read() as db:
            return str(db.execute(statement).scalar_one())

    def close(self) -> None:
        """Close the connections, and no longer count among those that serve from the store."""
        self._engine.dispose()
        if self._presence is not None:
            self._presence.leave()


def _open_file(path: Path, url: str) -> Engine:
    if "://" in url and not url.startswith("sqlite:///"):
        raise DeclarationError("the store must be a path, sqlite:///PATH or postgresql://USER@HOST/NAME")
    if not path.parent.is_dir():
        raise DeclarationError(f"the store {path} cannot be made: its directory is missing; make the directory first")
    try:
        # The file is made for the server's own user alone.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise DeclarationError(f"the store {path} cannot be opened: {error.strerror}") from None
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, pool_size=_CONNECTIONS)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        # The driver begins no transactions: they are begun below, at once for writing.
        connection.isolation_level = None
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("sordino_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _open_server(url: str) -> Engine:
    try:
        address = make_url(url).set(drivername="postgresql+psycopg")
    except ArgumentError:
        raise DeclarationError("the store's address cannot be read: write postgresql://USER@HOST/NAME") from None
    if address.password is not None:
        raise DeclarationError(
            "the store's address holds a password: leave it out, and give it by PGPASSWORD, ~/.pgpass or a service file"
        )
    return create_engine(address, pool_pre_ping=True, pool_size=_CONNECTIONS)


def _migrate(db: Connection) -> None:
    """Bring a store to this version; raise DeclarationError for one that a newer Sordino wrote, or another program."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    names = set(inspect(db).get_table_names())
    if names and "settings" not in names:
        raise DeclarationError("the store is a database of another program: name a file or a database of its own")
    version = 0
    if names:
        version = int(db.execute(select(SETTINGS.c.value).where(SETTINGS.c.name == _VERSION)).scalar_one())
    if version > len(MIGRATIONS):
        raise DeclarationError(
            f"the store is of version {version}, and this Sordino knows {len(MIGRATIONS)}: upgrade it"
        )
    for migrate in MIGRATIONS[version:]:
        migrate(db)
    if not version:
        db.execute(insert(SETTINGS).values(name=_VERSION, value=str(len(MIGRATIONS))))
    elif version < len(MIGRATIONS):
        db.execute(update(SETTINGS).where(SETTINGS.c.name == _VERSION).values(value=str(len(MIGRATIONS))))
