"""Operations: what is said to a far server, without a network. A transport sends each Call and waits for each Pause.

The synchronous and the asynchronous client run the same operations, so what is retried, and what never is, stands once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from sordino.core.errors import InDoubt, SourceError, TooManyRequests
from sordino.serve.remote.far_errors import error_of

T = TypeVar("T")
_FIRST, _LONGEST = 0.1, 3.0  # seconds between tries


@dataclass(frozen=True, slots=True)
class Call:
    """One request: a method, a path, the JSON of its body, and headers besides the token's."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the status and the JSON of the body, the bytes of a file, None for anything else."""

    status: int
    data: Any


Operation: TypeAlias = Generator[Call | Pause, Reply | None, T]  # a Reply is None where the connection was lost


def exchange(call: Call, *, patience: float, where: str) -> Operation[Any]:
    """Return the JSON that a call is answered with; a lost connection is tried again until `patience` seconds were waited.

    To be used for what may be said twice: a question carries a request id, by which it is charged once. Raises the error
    that the server states; InDoubt, with the request id, where a question was sent and no answer came back at all.
    """
    waited, pause, lost = 0.0, _FIRST, False
    request = call.headers.get("idempotency-key")
    while True:
        reply = yield call
        gone = reply is None or (reply.status in (502, 503, 504) and not _is_problem(reply.data))
        if reply is not None and not gone:
            if reply.status in (200, 201):
                return reply.data
            if not _is_problem(reply.data):
                raise SourceError(f"what answers at {where} is no Sordino server")
            error = error_of(reply.data)
            busy = isinstance(error, TooManyRequests) or (lost and isinstance(error, InDoubt))
            pause = max(pause, error.wait) if isinstance(error, TooManyRequests) else pause
            if not busy or waited + pause > patience:
                raise error
        elif waited + pause > patience:
            if request is None:
                raise SourceError(f"the server at {where} cannot be reached")
            raise InDoubt(
                f"no answer came from {where}, so it is not known whether this was charged: ask the same again with "
                f"request_id={request!r}, which charges nothing twice"
            )
        lost = lost or gone
        yield Pause(pause)
        waited, pause = waited + pause, min(2 * pause, _LONGEST)


def _is_problem(data: Any) -> bool:
    return isinstance(data, dict) and "exit_code" in data and "detail" in data
