"""HTTP connections that may not keep a server waiting: headers arrive whole, in seconds and a stated size, and answers are read.

There is a limit of connections, and none that only lies there keeps others out. It knows bytes and moments, no request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
_READ_SECONDS = 20.0  # to read the tens of kilobytes that wait to be sent
_ANSWER_SECONDS = 600.0  # to read a whole answer, once it had to wait
_MOST_BYTES = 1 << 15  # of a request's first line and headers


class PatientHttp(HttpToolsProtocol):
    """Close a connection whose next request has not sent all of its headers in time, or sends too many.

    Time counts from the connection, and on one that is kept from the first byte after a response; until then uvicorn's own
    time for idle connections counts. The body's time is the application's to count. A client that leaves an answer lying, or
    reads it so slowly that it would be held for hours, is cut off.

    Where there are `most` connections and one more comes, the oldest that is not being answered ends; where all of them are, the
    new one does, before anything of it is read.
    """

    patience: ClassVar[float] = HEADER_SECONDS
    reading: ClassVar[tuple[float, float]] = (_READ_SECONDS, _ANSWER_SECONDS)
    most: ClassVar[int] = 4096
    held: ClassVar[OrderedDict[PatientHttp, None]] = OrderedDict()
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _unread_since: float | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count."""
        super().connection_made(transport)
        if len(self.held) >= self.most and not self._end_oldest():
            transport.abort()
            return
        self.held[self] = None
        self._wait()

    def _end_oldest(self) -> bool:
        """End the oldest connection that is not being answered; say whether there was one."""
        for one in list(self.held):
            if not one.is_answering:
                del self.held[one]
                one.transport.abort()
                return True
            # it is looked at again last, so that a long answer does not cost every new connection a look
            self.held.move_to_end(one)
        return False

    @property
    def is_answering(self) -> bool:
        """Whether a request has arrived whole, and its answer has not been sent."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Count what arrives before the headers are whole."""
        if self._waiting is None and self.cycle is not None and self.cycle.response_complete:
            self._wait()
        if self._waiting is not None:
            self._head += len(data)
            if self._head > _MOST_BYTES and b"\r\n\r\n" not in data:
                self._stop()
                self.send_400_response("the headers are too long")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Stop counting: the request is there."""
        self._stop()
        self._unread_since = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting."""
        self.held.pop(self, None)
        self._stop()
        self._stop_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to count how long what waits to be sent stays unread."""
        super().pause_writing()
        now = self.loop.time()
        self._unread_since = now if self._unread_since is None else self._unread_since
        most, whole = self.reading
        self._unread = self.loop.call_later(min(most, self._unread_since + whole - now), self.transport.abort)

    def resume_writing(self) -> None:
        """Stop counting: it was read."""
        self._stop_unread()
        super().resume_writing()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait(self) -> None:
        self._head = 0
        self._waiting = self.loop.call_later(self.patience, self._cut)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cut(self) -> None:
        self._waiting = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def limited_http(most: int) -> type[PatientHttp]:
    """Return the connections of a server of its own, which holds this many."""

    class LimitedHttp(PatientHttp):
        held: ClassVar[OrderedDict[PatientHttp, None]] = OrderedDict()

    LimitedHttp.most = most
    return LimitedHttp
