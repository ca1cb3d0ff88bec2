"""Open files: how many connections a server may hold, so that data, ledgers and stores can always be opened beside them."""

from __future__ import annotations

from contextlib import suppress

BACKLOG = 128
"""Connections that the system accepts ahead of a server, which cannot refuse them before it holds them."""
_RESERVE = 256  # for what is no connection: data, ledgers, stores, temporary files, and connections being refused
_UNLIMITED = 1 << 16
_FEWEST = 16


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, and return the limit that holds now."""
    try:
        import resource
    except ImportError:  # Windows states no such limit
        return _UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def most_connections(*, http: int, sql: int) -> tuple[int, int]:
    """Return how many connections of each kind fit beside the reserve: no more than stated, and SQL has a quarter at most."""
    spare = raise_open_files() - _RESERVE
    most_sql = min(sql, max(_FEWEST, spare // 4))
    return min(http, max(_FEWEST, spare - most_sql)), most_sql
