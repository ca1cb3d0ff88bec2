"""CollectionService: the collections that a project names in [serve], as their collectors' stores hold them by now.

It reads counts of randomised reports, which reveal no more than the reports do. Access is checked as in CuratorService.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.local.collector.report_store import Store, StoredTask
from sordino.local.collector.results import estimate_task
from sordino.local.collector.task_state import counts_from
from sordino.local.task import Task, read_task
from sordino.serve.server.access import NotThere, Visitor, check_access
from sordino.serve.server.curator_service import CuratorService


class CollectionService:
    """Show collections and close them. A collector is started where its signed task is, never from here."""

    def __init__(self, service: CuratorService) -> None:
        self._stores = service.settings.collections
        self._log = service.account_service.audit_log

    @property
    def any(self) -> bool:
        """Whether the project names a store of reports at all."""
        return bool(self._stores)

    def list_collections(self, visitor: Visitor) -> list[dict[str, Any]]:
        """Return every collection: name, question, how many reports, epsilons, whether it is closed."""
        check_access(visitor, "collection.read")
        return [
            _describe(stored, read_task(stored.manifest, key=None))
            for url in self._stores
            for stored in self._tasks_of(url)
        ]

    def estimate(
        self, visitor: Visitor, name: str, *, confidence: float = 0.95, malicious: float = 0.01
    ) -> dict[str, Any]:
        """Return the estimates of a collection with their intervals, as `sordino local estimate --format json`."""
        check_access(visitor, "collection.read")
        if not 0 < confidence < 1 or not 0 <= malicious < 1:
            raise DeclarationError("must lie between 0 and 1, such as 0.95", key="confidence or malicious")
        with _open(self._find(name)) as store:
            return estimate_task(store, name, confidence=confidence, malicious=malicious, recount=False)

    def close(self, visitor: Visitor, name: str) -> None:
        """Close a collection for ever: its collector accepts no more reports, from a second later on."""
        check_access(visitor, "collection.close")
        with _open(self._find(name)) as store:
            store.close_task(name)
        self._log.append(visitor, "collection.close", name)

    def _find(self, name: str) -> str:
        urls = [url for url in self._stores for stored in self._tasks_of(url) if stored.task == name]
        if not urls:
            raise NotThere
        if len(urls) > 1:
            raise DeclarationError("several stores of [serve] collections hold a collection of this name; rename one")
        return urls[0]

    def _tasks_of(self, url: str) -> list[StoredTask]:
        with _open(url) as store:
            return store.tasks()


@contextmanager
def _open(url: str) -> Iterator[Store]:
    """Open a store that is there; the path of one that is not stays on this machine."""
    if "://" not in url and not Path(url).is_file():
        raise DeclarationError("a store of [serve] collections is not there: start its collector first")
    try:
        store = Store.open(url)
    except DeclarationError:
        raise DeclarationError("a store of [serve] collections cannot be used: see that it is a collector's") from None
    with closing(store):
        yield store


def _describe(stored: StoredTask, task: Task) -> dict[str, Any]:
    manifest = task.manifest
    return {
        "task": stored.task,
        "question": manifest.question,
        "reports": counts_from(stored.counts, task).n,
        "closed": stored.closed,
        "epsilon": format_number(manifest.epsilon),
        "lifetime_epsilon": format_number(manifest.lifetime_epsilon),
        "permanent": task.permanent,
        "expires": manifest.expires.isoformat(),
        "origin": manifest.origin,
    }
