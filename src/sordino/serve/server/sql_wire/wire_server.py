"""The port for SQL clients: who may connect, how long the start may take, TLS, the sign-in, and how many at once."""

from __future__ import annotations

import asyncio
import hmac
import shlex
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import SupportsIndex

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from sordino.core.errors import DeclarationError, SignInNeeded, SordinoError
from sordino.core.noise.rng import Rng
from sordino.local.collector.service import ACCEPTED_AT_ONCE, lengthen_queue, most_connections
from sordino.serve.server.accounts import ScramExchange
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.jobs import WorkQueue
from sordino.serve.server.sql_wire import wire_frames as wire
from sordino.serve.server.sql_wire.declared_catalog import DeclaredCatalog
from sordino.serve.server.sql_wire.sql_session import SqlSession
from sordino.serve.server.sql_wire.sqlstates import WireError, error_fields
from sordino.serve.server.sql_wire.wire_connection import WireConnection

_PLAIN = "SCRAM-SHA-256"
_BOUND = "SCRAM-SHA-256-PLUS"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Limits:
    """State how many connections there are at once, of all and of one account, and how long a start may take in seconds.

    `workers` are the statements that run at once, and `each` those of one account.
    """

    connections: int = 256
    account: int = 16
    start: float = 15.0
    workers: int = 48
    each: int = 8


@dataclass(frozen=True, slots=True)
class WireTls:
    """Name the files of a certificate (with its chain) and of its key, in PEM."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS; raises DeclarationError where the files do not fit."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError):
            raise DeclarationError("the certificate and its key cannot be read, or do not fit each other") from None
        return context

    def binding(self) -> bytes | None:
        """Return what channel binding ties a sign-in to (RFC 5929, section 4.1): the certificate's hash, None without one."""
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        stated = certificate.signature_hash_algorithm
        if stated is None:
            return None
        weak = isinstance(stated, (hashes.MD5, hashes.SHA1))
        return certificate.fingerprint(hashes.SHA256() if weak else stated)


@contextmanager
def serving_sql(service: CuratorService, *, host: str, port: int | None = None) -> Iterator[str | None]:
    """Serve SQL clients while the block runs, where the project or `port` states a port; yields where they find it."""
    settings = service.settings
    number = settings.postgres_port if port is None else port
    if number is None:
        yield None
        return
    if not 0 <= number < 65536:
        raise DeclarationError(f"must be from 0 to 65535, not {number}", key="the port for SQL clients")
    files = settings.postgres_certificate, settings.postgres_key
    tls = None if files[0] is None or files[1] is None else WireTls(files[0], files[1])
    with WireServer(service, tls=tls).serving(host=host, port=number) as server:
        yield f"postgresql://{host}:{server.port}/sordino"


class _Reader(asyncio.StreamReader):
    """Count the bytes that came, so that none that came before TLS is taken for one that came within it."""

    came = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.came += len(bytes(data))
        super().feed_data(data)


class WireServer:
    """Serve a project's tables to SQL clients. Over a network it needs TLS; without it, it listens on loopback alone."""

    def __init__(self, service: CuratorService, *, tls: WireTls | None = None, limits: Limits | None = None) -> None:
        self.service = service
        stated = Limits() if limits is None else limits
        self.limits = replace(stated, connections=most_connections(http=0, sql=stated.connections)[1])
        # statements of one account leave threads for others, and neither keeps anybody from signing in
        self.workers = WorkQueue(threads=self.limits.workers, each=self.limits.each, waiting=self.limits.account + 1)
        self._sign_ins = ThreadPoolExecutor(4, thread_name_prefix="sql sign-in")
        self.port = 0
        self._tls = None if tls is None else tls.context()
        self._binding = None if tls is None else tls.binding()
        self._database = "sordino"
        tables = service.declared_tables()
        self._catalog = DeclaredCatalog(tables, database=self._database)
        # Connections that have not signed in, the oldest first.
        self._starting: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._accounts: Counter[str] = Counter()
        self._running: dict[int, tuple[int, WireConnection]] = {}
        self._numbers = 0
        # Those that count as connections, and those that were ended for newer ones and are not done yet.
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    @contextmanager
    def serving(self, *, host: str, port: int) -> Iterator[WireServer]:
        """Listen on a port while the block runs, in a thread of its own; port 0 chooses a free one, named by `port`."""
        if self._tls is None and host not in _LOOPBACK:
            raise DeclarationError(
                f"SQL clients over {host} need TLS: state postgres_certificate and postgres_key in [serve], or --host 127.0.0.1"
            )
        started: list[BaseException | None] = []
        ready = threading.Event()
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()

        async def listen() -> None:
            try:
                server = await loop.create_server(self._protocol, host, port, backlog=ACCEPTED_AT_ONCE)
                lengthen_queue(server.sockets)
            except OSError as error:
                started.append(error)
                ready.set()
                return
            self.port = server.sockets[0].getsockname()[1]
            started.append(None)
            ready.set()
            await stop.wait()
            server.close()
            await self._end()

        thread = threading.Thread(target=lambda: loop.run_until_complete(listen()), name="sql wire", daemon=True)
        thread.start()
        ready.wait()
        try:
            if started[0] is not None:
                raise DeclarationError(f"SQL clients cannot be served on port {port}: see that the port is free")
            yield self
        finally:
            if started[0] is None:
                loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()
            self.workers.close()
            self._sign_ins.shutdown(wait=True, cancel_futures=True)

    async def _end(self) -> None:
        tasks = self._tasks | self._ending
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_Reader(limit=1 << 16), self._begin)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Attend to a client; where there are too many, in place of the oldest that has not signed in, or else not at all."""
        if len(self._tasks) >= self.limits.connections and not self._end_oldest_start():
            refused = WireError("53300", "too many connections: try again later", fatal=True)
            writer.write(wire.report("E", error_fields(refused)))
            writer.close()
            return
        task = asyncio.ensure_future(self._attend(reader, writer))
        self._tasks.add(task)
        self._starting[writer] = task
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._ending.discard)

    def _end_oldest_start(self) -> bool:
        """End the connection that has been starting for longest; say whether there was one."""
        for writer, task in list(self._starting.items()):
            del self._starting[writer]
            self._tasks.discard(task)
            self._ending.add(task)
            writer.transport.abort()
            return True
        return False

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._admit(reader, writer)
        except (wire.BrokenFrame, TimeoutError, OSError, EOFError):
            # There is nobody to tell.
            pass
        except (SordinoError, WireError) as error:
            writer.write(wire.report("E", error_fields(error) | {"S": "FATAL", "V": "FATAL"}))
        # The error's words leave only where they are Sordino's own.
        except Exception as error:
            writer.write(wire.report("E", error_fields(error)))
        finally:
            self._starting.pop(writer, None)
            try:
                async with asyncio.timeout(2):
                    writer.close()
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                writer.transport.abort()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self.limits.start):
            startup = await self._start(reader, writer)
            if startup is None:
                return
            token, name = await self._sign_in(startup, reader, writer)
        self._starting.pop(writer, None)
        # It was ended for a newer one while it signed in.
        if writer.is_closing():
            return
        if self._accounts[name] >= self.limits.account:
            raise WireError("53300", f"an account has {self.limits.account} connections at most: close some")
        session = SqlSession(self.service, self._catalog, token=token, database=startup.get("database", name))
        for setting, value in _settings(startup):
            session.settings.start_with(setting, value)
        connection = WireConnection(
            session,
            reader,
            writer,
            workers=self.workers,
            clock=self.service.public_clock,
            account=name,
            count=self.service.metrics.observe,
        )
        self._numbers += 1
        number = self._numbers
        secret = int.from_bytes(Rng.secure().bytes(4), "big")
        self._accounts[name] += 1
        self._running[number] = (secret, connection)
        try:
            await connection.serve((number, secret))
        finally:
            del self._running[number]
            self._accounts[name] -= 1

    async def _start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str] | None:
        """Return what a client states at its start, after TLS where it asks for that; None for one that only cancels."""
        read = 0
        secure = False
        for _ in range(4):
            size, code = struct.unpack("!iI", await reader.readexactly(8))
            if not 8 <= size <= wire.LONGEST_STARTUP:
                raise wire.BrokenFrame
            body = await reader.readexactly(size - 8)
            read = read + size
            if code == wire.TLS and self._tls is not None and not secure:
                if not isinstance(reader, _Reader) or reader.came != read:
                    # Bytes came in plain text before TLS, so they may not be the client's.
                    raise wire.BrokenFrame
                writer.write(b"S")
                await _start_tls(writer, self._tls, seconds=self.limits.start)
                secure = True
            elif code in (wire.TLS, wire.GSS):
                writer.write(b"N")
            elif code == wire.CANCEL:
                self._cancel(body)
                return None
            elif code >> 16 == wire.VERSION:
                startup = wire.read_startup(body)
                _negotiate(writer, code, startup)
                if self._tls is not None and not secure:
                    raise WireError(
                        "28000", "this server is reached by TLS alone: connect with sslmode=require or stricter"
                    )
                return startup
            else:
                raise WireError("0A000", "only version 3 of the protocol is understood")
        raise wire.BrokenFrame

    async def _sign_in(
        self, startup: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, str]:
        """Return the number of the token that a client has shown to have, and the account's name."""
        name = startup.get("user", "")
        accounts = self.service.account_service.accounts
        loop = asyncio.get_running_loop()
        binding = self._binding if writer.get_extra_info("ssl_object") is not None else None
        offered = (_PLAIN,) if binding is None else (_BOUND, _PLAIN)
        names = b"".join(one.encode() + b"\0" for one in offered)
        writer.write(wire.frame("R", struct.pack("!i", 10) + names + b"\0"))
        mechanism, first = wire.read_sasl_first(await _password(reader))
        if mechanism not in offered:
            raise WireError("28000", "sign in by SCRAM-SHA-256")
        salt = await loop.run_in_executor(self._sign_ins, accounts.salt, name)
        nonce = Rng.secure().bytes(18).hex()
        bound = mechanism == _BOUND
        exchange = ScramExchange(_ascii(first), nonce=nonce, salt=salt, binding=binding, wants_binding=bound)
        writer.write(wire.frame("R", struct.pack("!i", 11) + exchange.challenge.encode()))
        final = _ascii(await _password(reader))
        keys = await loop.run_in_executor(self._sign_ins, accounts.scram_keys, name)
        try:
            token, proof = exchange.proof(final, keys)
        except SignInNeeded:
            address = str((writer.get_extra_info("peername") or ("",))[0])
            await loop.run_in_executor(
                self._sign_ins, lambda: self.service.account_service.record_refusal(name, address=address, by="sql")
            )
            raise
        await loop.run_in_executor(self._sign_ins, lambda: accounts.visitor_of_number(token, via="sql"))
        writer.write(wire.frame("R", struct.pack("!i", 12) + proof.encode()) + wire.frame("R", struct.pack("!i", 0)))
        return token, name

    def _cancel(self, body: bytes) -> None:
        if len(body) != 8:
            raise wire.BrokenFrame
        number, _ = struct.unpack("!II", body)
        secret, connection = self._running.get(number, (None, None))
        if connection is not None and hmac.compare_digest(struct.pack("!I", secret or 0), body[4:]):
            connection.cancel()


async def _start_tls(writer: asyncio.StreamWriter, context: ssl.SSLContext, *, seconds: float) -> None:
    """Go on in TLS; raises OSError or EOFError where the client is gone by then."""
    plain = writer.transport
    try:
        await writer.start_tls(context, ssl_handshake_timeout=seconds)
    except AttributeError:
        # a connection that ends during the handshake leaves asyncio's writer without a transport, which it cannot even close
        writer.__dict__["_transport"] = plain
        raise EOFError from None


async def _password(reader: asyncio.StreamReader) -> bytes:
    kind, size = struct.unpack("!ci", await reader.readexactly(5))
    if kind != b"p" or not 4 <= size <= wire.LONGEST_STARTUP:
        raise wire.BrokenFrame
    return await reader.readexactly(size - 4)


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise wire.BrokenFrame from None


def _negotiate(writer: asyncio.StreamWriter, code: int, startup: dict[str, str]) -> None:
    """Tell a client of a later minor version, or with options of the protocol, that there are none here."""
    unknown = [name for name in startup if name.startswith("_pq_.")]
    if code & 0xFFFF or unknown:
        names = b"".join(name.encode() + b"\0" for name in unknown)
        writer.write(wire.frame("v", struct.pack("!ii", 0, len(unknown)) + names))


def _settings(startup: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that a client states at its start, those of `options` (-c NAME=VALUE) too."""
    for name, value in startup.items():
        if name == "options":
            yield from _options(value)
        elif name not in ("user", "database", "replication") and not name.startswith("_pq_."):
            yield name, value


def _options(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError:
        raise WireError("22023", "the connection's options cannot be read: write -c sordino.epsilon=0.1") from None
    for word in words:
        if word == "-c":
            continue
        name, equals, value = word.removeprefix("-c").removeprefix("--").partition("=")
        if not equals:
            raise WireError("22023", "the connection's options cannot be read: write -c sordino.epsilon=0.1")
        yield name.replace("-", "_"), value
