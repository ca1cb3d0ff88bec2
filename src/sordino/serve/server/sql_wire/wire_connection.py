"""One connection of a SQL client: the order of frames, from the first byte to the last. What statements do is SqlSession's.

Nothing is waited for without an end: the start, a frame once begun, a silent client and a slow reader all have a limit.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sordino.core.errors import DeclarationError
from sordino.serve.server.answer_time import PublicClock
from sordino.serve.server.jobs import WorkQueue
from sordino.serve.server.logs import log_statement
from sordino.serve.server.sql_wire import wire_frames as wire
from sordino.serve.server.sql_wire.sql_session import VERBS, Outcome, SqlSession
from sordino.serve.server.sql_wire.sqlstates import WireError, error_fields
from sordino.serve.server.sql_wire.wire_cursors import copy_lines
from sordino.serve.server.sql_wire.wire_settings import REPORTED
from sordino.serve.server.sql_wire.wire_statements import Statement, split_statements
from sordino.serve.server.sql_wire.wire_values import encode_cell, literal_of

Read = TypeVar("Read")
# Prepared statements, and portals, of a session.
_MOST_NAMED = 200
# Seconds that a connection may be idle, that the rest of a frame may take, and that a client may take to read what is sent.
_IDLE = 3600.0
_FRAME = 30.0
_DRAIN = 60.0
_COPY = frozenset("dcf")


@dataclass
class _Portal:
    statement: Statement | None
    formats: tuple[int, ...]
    columns: Sequence[wire.Column] | None = None
    outcome: Outcome | None = None
    sent: int = 0


@dataclass
class _Prepared:
    statement: Statement | None
    types: tuple[int, ...] = ()


class WireConnection:
    """Serve the frames of a client that has signed in, until it leaves."""

    def __init__(
        self,
        session: SqlSession,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        workers: WorkQueue,
        clock: PublicClock,
        account: str = "",
        count: Callable[[str, str, float], None] | None = None,
    ) -> None:
        self._workers = workers
        self._account = account
        self._count = count
        self._clock = clock
        self._session = session
        self._reader = reader
        self._writer = writer
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        # After an error frames are skipped until Sync.
        self._failed = False
        self._cancelled = asyncio.Event()
        self._pending: asyncio.Future[Any] | None = None

    def cancel(self) -> None:
        """Let the statement that runs now end with an error."""
        self._cancelled.set()

    async def serve(self, key: tuple[int, int]) -> None:
        """Greet the client and answer its frames."""
        for name, value in REPORTED.items():
            self._send(wire.frame("S", f"{name}\0{value}\0".encode()))
        self._send(wire.frame("K", struct.pack("!II", *key)))
        await self._ready()
        while True:
            kind, body = await self._next()
            if kind == "X":
                return
            if self._failed and kind != "S":
                continue
            try:
                await self._handle(kind, body)
            except wire.BrokenFrame:
                raise
            # The error's words leave only where they are Sordino's own.
            except Exception as error:
                await self._refuse(error, simple=kind == "Q")

    # ---- frames

    async def _next(self) -> tuple[str, bytes]:
        async with asyncio.timeout(_IDLE):
            first = await self._reader.readexactly(1)
        async with asyncio.timeout(_FRAME):
            size = struct.unpack("!i", await self._reader.readexactly(4))[0]
            if not 4 <= size <= wire.LONGEST_FRAME:
                raise wire.BrokenFrame
            return first.decode("latin-1"), await self._reader.readexactly(size - 4)

    def _send(self, message: bytes) -> None:
        self._writer.write(message)

    async def _flush(self) -> None:
        async with asyncio.timeout(_DRAIN):
            await self._writer.drain()

    async def _ready(self) -> None:
        self._send(wire.frame("Z", self._session.status.encode()))
        await self._flush()

    async def _refuse(self, error: Exception, *, simple: bool) -> None:
        fields = error_fields(error)
        self._send(wire.report("E", fields))
        if fields["S"] == "FATAL":
            await self._flush()
            raise wire.BrokenFrame
        if simple:
            await self._ready()
        else:
            self._failed = True

    async def _handle(self, kind: str, body: bytes) -> None:
        if kind == "Q":
            await self._simple(wire.read_text(body))
        elif kind == "P":
            self._parse(wire.read_parse(body))
        elif kind == "B":
            self._bind(wire.read_bind(body))
        elif kind == "D":
            await self._describe(wire.read_target(body))
        elif kind == "E":
            await self._execute(wire.read_execute(body))
        elif kind == "C":
            self._close(wire.read_target(body))
        elif kind == "S":
            self._failed = False
            self._portals.clear() if self._session.status == "I" else None
            await self._ready()
        elif kind == "H":
            await self._flush()
        elif kind not in _COPY:
            raise WireError("08P01", "this kind of message is not understood", fatal=True)

    # ---- the simple query

    async def _simple(self, text: str) -> None:
        statements = split_statements(text)
        if not statements:
            self._send(wire.frame("I"))
        for statement in statements:
            if statement.parameters:
                raise WireError("42P02", "there is no parameter $1 here")
            outcome = await self._run(statement)
            if outcome.copy is not None:
                await self._copy(outcome)
            elif outcome.columns is not None:
                self._send(wire.row_description(outcome.columns, ()))
                await self._rows(outcome, outcome.columns, (), 0, len(outcome.rows))
            self._send(wire.command_complete(outcome.tag))
        await self._ready()

    # ---- the extended query

    def _parse(self, message: wire.Parse) -> None:
        if message.name in self._prepared and message.name:
            raise WireError("42P05", "there is a prepared statement of this name already")
        if len(self._prepared) >= _MOST_NAMED:
            raise WireError("53400", f"a session holds {_MOST_NAMED} prepared statements: close some")
        statements = split_statements(message.text)
        if len(statements) > 1:
            raise WireError("42601", "a prepared statement is one statement")
        statement = statements[0] if statements else None
        types = () if statement is None else self._session.types(statement, message.types)
        self._prepared[message.name] = _Prepared(statement, types)
        self._send(wire.frame("1"))

    def _bind(self, message: wire.Bind) -> None:
        if message.portal and message.portal in self._portals:
            raise WireError("42P03", "there is a portal of this name already")
        if len(self._portals) >= _MOST_NAMED:
            raise WireError("53400", f"a session holds {_MOST_NAMED} portals: close some")
        prepared = self._find(message.statement)
        if len(message.values) != len(prepared.types):
            raise WireError(
                "08P01", f"the statement has {len(prepared.types)} parameters, and {len(message.values)} were sent"
            )
        bound = prepared.statement
        if bound is not None and message.values:
            literals = [
                literal_of(value, form, oid) for (form, value), oid in zip(message.values, prepared.types, strict=True)
            ]
            bound = _one(bound, bound.bind(literals))
        self._portals[message.portal] = _Portal(bound, message.results)
        self._send(wire.frame("2"))

    async def _describe(self, message: wire.Close) -> None:
        if message.kind == "S":
            prepared = self._find(message.name)
            self._send(wire.parameter_description([oid or 25 for oid in prepared.types]))
            statement = prepared.statement
            if statement is not None and prepared.types:
                statement = _one(statement, self._session.sample(statement, prepared.types))
            columns = await self._columns(statement)
            self._send(wire.frame("n") if columns is None else wire.row_description(columns, ()))
            return
        # A cursor is a portal, and is described as one.
        if message.name and message.name not in self._portals:
            self._send(wire.row_description(self._session.cursors.columns(message.name), ()))
            return
        portal = self._portal(message.name)
        if portal.columns is None:
            portal.columns = await self._columns(portal.statement)
        described = portal.columns
        self._send(wire.frame("n") if described is None else wire.row_description(described, portal.formats))

    async def _execute(self, message: wire.Execute) -> None:
        portal = self._portal(message.portal)
        if portal.statement is None:
            self._send(wire.frame("I"))
            return
        if portal.outcome is None:
            portal.outcome = await self._run(portal.statement)
        outcome = portal.outcome
        if outcome.copy is not None:
            await self._copy(outcome)
            self._send(wire.command_complete(outcome.tag))
            return
        left = len(outcome.rows) - portal.sent
        count = min(left, message.most) if message.most else left
        if outcome.columns is not None:
            fits = portal.columns is not None and len(portal.columns) == len(outcome.columns)
            columns = portal.columns if fits and portal.columns is not None else outcome.columns
            await self._rows(outcome, columns, portal.formats, portal.sent, count)
        portal.sent += count
        self._send(wire.frame("s") if count < left else wire.command_complete(outcome.tag))

    def _close(self, message: wire.Close) -> None:
        named: dict[str, Any] = self._prepared if message.kind == "S" else self._portals
        named.pop(message.name, None)
        self._send(wire.frame("3"))

    def _find(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise WireError("26000", "there is no prepared statement of this name")
        return self._prepared[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise WireError("34000", "there is no portal of this name")
        return self._portals[name]

    async def _columns(self, statement: Statement | None) -> Sequence[wire.Column] | None:
        return None if statement is None else await self._work(lambda: self._session.columns(statement))

    # ---- running

    async def _rows(
        self, outcome: Outcome, columns: Sequence[wire.Column], formats: Sequence[int], start: int, count: int
    ) -> None:
        forms = formats if len(formats) == len(columns) else (formats[0] if formats else 0,) * len(columns)
        for row in outcome.rows[start : start + count]:
            cells = zip(row, columns, forms, strict=True)
            self._send(wire.data_row([encode_cell(cell, column.oid, form) for cell, column, form in cells]))
            if self._writer.transport.get_write_buffer_size() > 1 << 16:
                await self._flush()

    async def _copy(self, outcome: Outcome) -> None:
        """Send all rows as lines of text, or as binary tuples."""
        assert outcome.copy is not None
        columns = outcome.columns or ()
        self._send(wire.copy_start(len(columns), binary=outcome.copy.is_binary))
        for line in copy_lines(outcome.copy, columns, outcome.rows):
            self._send(wire.frame("d", line))
            if self._writer.transport.get_write_buffer_size() > 1 << 16:
                await self._flush()
        self._send(wire.frame("c"))

    async def _run(self, statement: Statement) -> Outcome:
        started = time.monotonic()
        sqlstate = "00000"
        unknown = ""
        try:
            outcome = await self._interruptible(statement)
        except Exception as error:
            sqlstate = error_fields(error)["C"]
            unknown = error.unknown if isinstance(error, WireError) else ""
            raise
        finally:
            self._note(statement, sqlstate, time.monotonic() - started, unknown)
        for text in outcome.notices:
            self._send(wire.report("N", {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": text}))
        return outcome

    def _note(self, statement: Statement, sqlstate: str, seconds: float, unknown: str) -> None:
        """Take note of a statement that ended; of its text, only a first word that is one of SQL's."""
        verb = statement.verb if statement.verb in VERBS else "other"
        log_statement(verb=verb, sqlstate=sqlstate, seconds=seconds, account=self._account, unknown=unknown)
        if self._count is not None:
            self._count("SQL", verb, seconds)

    async def _interruptible(self, statement: Statement) -> Outcome:
        """Run a statement; where the client cancels it, go on at once: what it is doing ends by itself.

        A question's answer, and its error, come at a tick of the public clock, and a cancel is heard until then: so
        neither tells when the work was done.
        """
        self._cancelled.clear()
        running = asyncio.ensure_future(self._time(statement))
        stopped = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            self._pending = running
            self._session.fail()
            raise WireError("57014", "canceled; if it was charged, the charge stands: SHOW sordino.releases")
        finally:
            stopped.cancel()

    async def _time(self, statement: Statement) -> Outcome:
        clock = self._clock
        started = clock.start()
        if not await self._work(lambda: self._session.is_question(statement)):
            return await self._work(lambda: self._session.run(statement))

        def ask() -> Outcome:
            try:
                return self._session.run(statement)
            finally:
                # the thread waits too: were it free before the answer leaves, the next statement of the account would tell
                # when the work ended
                clock.sleep(started)

        return await self._work(ask)

    async def _work(self, work: Callable[[], Read]) -> Read:
        """Run in a thread, after what a cancelled statement may still be doing."""
        pending = self._pending
        self._pending = None
        if pending is not None:
            await asyncio.wait({pending})
            pending.exception()
        return await asyncio.wrap_future(self._workers.submit(self._account, work))


def _one(statement: Statement, text: str) -> Statement:
    """Return a bound text as a statement, with the loss that the comments of the first stated."""
    statements = split_statements(text)
    if len(statements) != 1:
        raise DeclarationError("cannot be written as a literal: send another value", key="a parameter")
    statements[0].__dict__["loss"] = statement.loss
    return statements[0]
