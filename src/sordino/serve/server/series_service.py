"""SeriesService: series over the network - one is opened for one charge, approved as a question is; its periods are jobs.

A series is of the spender that it was charged to: others learn nothing of it but that its name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sordino.ask.curator.plan import Plan
from sordino.ask.queries.series import OPTIONS, SeriesHandle
from sordino.ask.queries.sql.parse import sql
from sordino.core.errors import DeclarationError, QuestionRefused, SordinoError, nearest
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.series_ledger import SeriesLedger, SeriesRecord
from sordino.core.loss import loss_to_numbers
from sordino.core.release import Release
from sordino.serve.server.access import NotThere, Visitor, check_access, sees_all
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.jobs import SERIES_RELEASE, Job, Jobs

_LOSS = ("epsilon", "delta", "rho")
_WHOLE = ("horizon", "max_periods", "window", "max_rows_per_period")
_NEEDED = ("name", "table", "sql", "over", "every")
_KEYS = (*_NEEDED, *OPTIONS, *_LOSS)

SERIES_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "integer" if name in _WHOLE else "string"} for name in _KEYS},
    "required": list(_NEEDED),
    "additionalProperties": False,
}


class _Priced(Exception):
    """Stops the opening of a series once its plan is known."""


@dataclass(frozen=True, slots=True)
class _Found:
    budget: str
    ledger: Ledger
    record: SeriesRecord

    @property
    def spender(self) -> str | None:
        return self.ledger.find(self.record.charge).spender


class SeriesService:
    """Open series for accounts of a service, and let them release and read the periods of their own."""

    def __init__(self, service: CuratorService, jobs: Jobs) -> None:
        self.service = service
        self.jobs = jobs

    def open(self, visitor: Visitor, asked: Mapping[str, Any], *, request: str | None = None) -> dict[str, Any]:
        """Open a series, charged once: the same name and arguments again are the same series, at no cost.

        It is refused, or waits for an officer, as a question is: before anything is charged.
        """
        check_access(visitor, "series.open", owner=visitor.account)
        options = _read(asked)
        table = self.service.project.table(options.pop("table")).name
        name = options.pop("name")
        question = sql(options.pop("sql"))
        curator = self.service.curator(visitor, table)
        taken = self._find(name)
        if taken is not None and not self._is_own(visitor, taken):
            raise QuestionRefused(f"the name {name!r:.60} is taken: give the series another one")
        bound = self.service.bind(visitor, request)
        plans: list[Plan] = []

        def stop(plan: Plan) -> None:
            plans.append(plan)
            raise _Priced

        outcome = "failed"
        try:
            with self.service.summing(visitor):
                try:
                    series = curator.series(question, name=name, confirm=stop, **options)
                except _Priced:
                    if bound is not None:
                        self.service.request_ids.claim(bound, [(self.service.project.tables[table].budget, plans[0])])
                    self.service.require_approval(visitor, bound, plans)
                    series = curator.series(question, name=name, **options)
            outcome = series.opening.charge
        except SordinoError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.service.account_service.audit_log.append_if_able(visitor, "series.open", f"{table}: {name}", outcome)
        found = self._get(visitor, name)
        return {**self._describe(found), "cost": loss_to_numbers(series.opening.cost)}

    def release(self, visitor: Visitor, name: str, asked: Mapping[str, Any], *, request: str | None = None) -> Job:
        """Begin to release a period, {"period": "2026-11-24"}: the job says when it is on record; nothing is charged.

        One that was released before is done at once. What cannot be released is refused before the job begins.
        """
        check_access(visitor, "series.release", owner=visitor.account)
        if set(asked) != {"period"} or not isinstance(asked["period"], str):
            raise DeclarationError('is missing; state the period alone, such as "2026-11-24"', key="period")
        period = asked["period"]
        series = self._open_again(visitor, name)
        series.check(period)
        bound = self.service.bind(visitor, request)
        if bound is not None:
            self.service.request_ids.claim_job(bound)

        def work(enter: Callable[[str], None]) -> int:
            enter("releasing the period")
            outcome = "failed"
            try:
                series.release(period)
                outcome = "released"
            except SordinoError as error:
                outcome = type(error).__name__
                raise
            finally:
                log = self.service.account_service.audit_log
                log.append_if_able(visitor, "series.release", f"{name}: {period}", outcome)
            return series.step(period)

        return self.jobs.begin(visitor.account, SERIES_RELEASE, {"series": name, "period": period}, work, request=bound)

    def list_series(self, visitor: Visitor) -> list[dict[str, Any]]:
        """Return the series that a visitor may see: name, table, charge, periods released, and whether one has ended."""
        check_access(visitor, "series.read")
        found = []
        for budget in self.service.project.budgets:
            ledger = self.service.ledger(budget)
            series = SeriesLedger(ledger)
            found += [_Found(budget, ledger, series.get(name)) for name in series.names()]
        everything = sees_all(visitor, "series.read")
        return [self._describe(one) for one in found if everything or self._is_own(visitor, one)]

    def show(self, visitor: Visitor, name: str) -> dict[str, Any]:
        """Return a series with all released periods as rows, as `sordino series show --format json`."""
        series = self._open_again(visitor, name)
        rows = series.table.to_pylist() if series.periods else []
        return {**self._describe(self._get(visitor, name)), "periods": series.periods, "rows": rows}

    def find_release(self, visitor: Visitor, name: str, period: str) -> Release:
        """Return the release of a period that was released; raises NotThere for another."""
        series = self._open_again(visitor, name)
        if SeriesLedger(self._get(visitor, name).ledger).step(name, series.step(period)) is None:
            raise NotThere
        return series.release(period)

    def window(self, visitor: Visitor, name: str, first: str, last: str) -> Release:
        """Return the total of a window of periods, at no cost."""
        return self._open_again(visitor, name).window(first, last)

    def _open_again(self, visitor: Visitor, name: str) -> SeriesHandle:
        found = self._get(visitor, name)
        table = found.record.arguments["table"]
        # who reads what others released has no share to spend, and needs none
        reads = not self._is_own(visitor, found)
        return (self.service.read_table(table) if reads else self.service.curator(visitor, table)).series(name=name)

    def _get(self, visitor: Visitor, name: str) -> _Found:
        """Return a series that a visitor may see; raises NotThere."""
        check_access(visitor, "series.read")
        found = self._find(name)
        if found is None or not (sees_all(visitor, "series.read") or self._is_own(visitor, found)):
            raise NotThere
        return found

    def _is_own(self, visitor: Visitor, found: _Found) -> bool:
        return visitor.role == "owner" or found.spender == visitor.spender

    def _find(self, name: str) -> _Found | None:
        for budget in self.service.project.budgets:
            ledger = self.service.ledger(budget)
            record = SeriesLedger(ledger).find(name)
            if record is not None:
                return _Found(budget, ledger, record)
        return None

    def _describe(self, found: _Found) -> dict[str, Any]:
        record = found.record
        last = SeriesLedger(found.ledger).last(record.name)
        arguments = record.arguments
        return {
            "schema": 1,
            "series": record.name,
            "spender": found.spender,
            "budget": found.budget,
            "table": arguments["table"],
            "every": arguments["every"],
            "charge": record.charge,
            "last": None if last is None else last.period,
            "step": 0 if last is None else last.step,
            "horizon": arguments["horizon"],
            "ended": record.ended,
        }


def _read(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an opening; raises DeclarationError for a key that it does not have, or a value of another kind."""
    options = {name: value for name, value in asked.items() if value is not None}
    for name, value in options.items():
        if name not in _KEYS:
            raise DeclarationError(f"a series has no such key; {nearest(name, _KEYS)}", key=name[:40])
        if name in _WHOLE and (isinstance(value, bool) or not isinstance(value, int)):
            raise DeclarationError("must be a whole number", key=name)
        if name in _LOSS and (isinstance(value, bool) or not isinstance(value, (str, int, float))):
            raise DeclarationError("must be text or a number", key=name)
        if name not in (*_WHOLE, *_LOSS) and not isinstance(value, str):
            raise DeclarationError("must be text", key=name)
    missing = next((name for name in _NEEDED if name not in options), None)
    if missing is not None:
        raise DeclarationError(f"is missing; a series states {', '.join(_NEEDED)} and its loss", key=missing)
    if "/" in options["name"]:
        raise DeclarationError("has no / over the network, where it is a part of an address", key="name")
    return options
