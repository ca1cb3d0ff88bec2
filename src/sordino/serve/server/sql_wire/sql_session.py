"""The session of one SQL client: what each statement does, through CuratorService. It knows no network and no frames' order.

A question is planned, charged and answered by the service, for whoever the session's token lets in at that moment. What
is asked of the catalog is answered from declarations. Everything else changes settings of the session, or is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sordino.ask.curator.batch import Batch
from sordino.core.ledger.records import Charge
from sordino.core.release import Release
from sordino.serve.server.access import Visitor
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.question_request import QuestionRequest, read_question_request
from sordino.serve.server.sql_wire.answer_rows import answer_columns, answer_rows, notices_of
from sordino.serve.server.sql_wire.declared_catalog import DeclaredCatalog
from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_cursors import CopyForm, WireCursors, read_copy, read_declare, read_fetch
from sordino.serve.server.sql_wire.wire_frames import Column
from sordino.serve.server.sql_wire.wire_settings import WireSettings
from sordino.serve.server.sql_wire.wire_statements import Statement
from sordino.serve.server.sql_wire.wire_values import ELEMENTS, column_of_kind

_SET = re.compile(r"SET\s+(?:(SESSION|LOCAL)\s+)?([A-Za-z_][\w.]*)\s*(?:=|\s+TO\s+)\s*(.+)", re.I | re.S)
_NO_EFFECT = ("DISCARD", "DEALLOCATE", "UNLISTEN", "LISTEN", "SAVEPOINT", "RELEASE", "ANALYZE", "VACUUM")
_ENDS = {"COMMIT": False, "END": False, "ROLLBACK": True, "ABORT": True}
_SAMPLES = {16: "TRUE", 20: "1", 21: "1", 23: "1", 26: "1", 700: "1.0", 701: "1.0", 1700: "1.0", 1082: "'2000-01-01'"}
_WRAPS = ("DECLARE", "COPY")
_READS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_MOST_KNOWN = 64
_OTHERS = ("EXPLAIN", "FETCH", "MOVE", "CLOSE", "SET", "RESET", "SHOW", "BEGIN", "START")
VERBS = frozenset({*_NO_EFFECT, *_ENDS, *_WRAPS, *_READS, *_OTHERS})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement came to: columns and rows, None where it has none, the tag of its completion, and notices."""

    tag: str
    columns: Sequence[Column] | None = None
    rows: Sequence[Sequence[Any]] = ()
    notices: Sequence[str] = field(default=())
    # How the rows are written where they are copied.
    copy: CopyForm | None = None


class SqlSession:
    """Hold a client's settings and transaction, and run its statements one after the other."""

    def __init__(self, service: CuratorService, catalog: DeclaredCatalog, *, token: int, database: str) -> None:
        self._service = service
        self._catalog = catalog
        self._token = token
        self._database = database
        self.settings = WireSettings()
        self.status: Literal["I", "T", "E"] = "I"
        self.cursors = WireCursors()
        # The charges within the transaction.
        self._charged: list[str] = []
        # The columns of questions that were described.
        self._known: dict[tuple[str, bool], Sequence[Column]] = {}

    def is_question(self, statement: Statement) -> bool:
        """Return whether a statement is asked of a table: its answer leaves on the public clock."""
        try:
            question = self._question_in(statement)
        # `run` raises it again.
        except WireError:
            return False
        return question.verb in _READS and not self._is_of_catalog(question)

    def run(self, statement: Statement) -> Outcome:
        """Run a statement; raises SordinoError or WireError, and then a transaction has failed."""
        visitor = self._visitor()
        if self.status == "E" and statement.verb not in _ENDS:
            raise WireError("25P02", "the transaction has failed: end it by ROLLBACK")
        try:
            return self._dispatch(visitor, statement)
        except Exception:
            if self.status == "T":
                self.status = "E"
            raise

    def columns(self, statement: Statement) -> Sequence[Column] | None:
        """Return the columns that a statement's answer will have, at no cost: of a question by asking the dummy table."""
        visitor = self._visitor()
        if statement.verb in _WRAPS:
            return None
        if statement.verb == "FETCH":
            return self.cursors.columns(read_fetch(statement)[0])
        if self.is_question(statement):
            question = replace(self._read(statement), on="dummy")
            key = repr(question), self.settings.intervals
            # Clients describe a statement each time that they run it.
            if key not in self._known:
                (release,) = self._service.ask(visitor, question)
                self._known = dict([*self._known.items()][1 - _MOST_KNOWN :])
                self._known[key] = answer_columns(release, intervals=self.settings.intervals)
            return self._known[key]
        if statement.verb in (*_READS, "SHOW", "EXPLAIN"):
            return self._dispatch(visitor, statement).columns
        return None

    def types(self, statement: Statement, stated: Sequence[int]) -> tuple[int, ...]:
        """Return the types of a statement's parameters."""
        return statement.types(stated, self._catalog.types)

    def sample(self, statement: Statement, types: Sequence[int]) -> str:
        """Return the text of a statement with a plausible literal for each parameter, to see which columns it answers."""
        beside = statement.beside(self._catalog.types)
        literals = []
        for number, oid in enumerate(types, 1):
            literal = (
                self._catalog.samples[beside[number]]
                if number in beside
                else _SAMPLES.get(ELEMENTS.get(oid, oid), "'1'")
            )
            literals.append(f"ARRAY[{literal}]" if oid in ELEMENTS else literal)
        return statement.bind(literals)

    def fail(self) -> None:
        """Take note that a transaction has failed outside of a statement."""
        self.status = "E" if self.status == "T" else self.status

    def _visitor(self) -> Visitor:
        return self._service.account_service.accounts.visitor_of_number(self._token, via="sql")

    def _dispatch(self, visitor: Visitor, statement: Statement) -> Outcome:
        verb = statement.verb
        if verb in _READS:
            return (
                self._catalog_rows(visitor, statement)
                if self._is_of_catalog(statement)
                else self._ask(visitor, statement)
            )
        if verb == "EXPLAIN":
            return self._explain(visitor, statement)
        if verb in _WRAPS:
            return self._wrap(statement)
        if verb in ("FETCH", "MOVE"):
            columns, rows = self.cursors.fetch(statement)
            return Outcome(f"{verb} {len(rows)}", *((columns, rows) if verb == "FETCH" else ()))
        if verb == "CLOSE":
            self.cursors.close(statement)
            return Outcome("CLOSE CURSOR")
        if verb in ("SET", "RESET"):
            return self._set(statement)
        if verb == "SHOW":
            return self._show(visitor, statement)
        if verb in ("BEGIN", "START"):
            return self._begin()
        if verb in _ENDS:
            return self._end(statement)
        if verb in _NO_EFFECT:
            return Outcome(" ".join(statement.words[:2]) if verb == "DISCARD" else verb)
        raise WireError(
            "0A000", "only SELECT is answered here: tables are asked, never changed",
            hint="SELECT, EXPLAIN, SET sordino.epsilon, SHOW sordino.budgets, SHOW sordino.releases.",
        )  # fmt: skip

    # ---- questions

    def _question_in(self, statement: Statement) -> Statement:
        """Return the question that a DECLARE or COPY holds; any other statement as it is."""
        if statement.verb not in _WRAPS:
            return statement
        return (read_declare if statement.verb == "DECLARE" else read_copy)(statement)[1]

    def _wrap(self, statement: Statement) -> Outcome:
        """Ask what a DECLARE or COPY holds, once: the answer is kept under the cursor's name, or copied out."""
        if statement.verb == "COPY":
            form, inner = read_copy(statement)
            outcome = self._dispatch(self._visitor(), inner)
            return replace(outcome, tag=f"COPY {len(outcome.rows)}", copy=form)
        named, inner = read_declare(statement)
        self.cursors.check_free(named.name)
        if self.status == "I" and not named.outlives:
            raise WireError(
                "25P01",
                "a cursor without hold lives in a transaction alone",
                hint="BEGIN first, or DECLARE ... WITH HOLD.",
            )
        outcome = self._dispatch(self._visitor(), inner)
        self.cursors.open(named, outcome.columns or (), outcome.rows)
        return Outcome("DECLARE CURSOR", notices=outcome.notices)

    def _is_of_catalog(self, statement: Statement) -> bool:
        names = self._catalog.names(statement.text)
        return names is not None and self._catalog.knows(names)

    def _read(self, statement: Statement) -> QuestionRequest:
        return read_question_request(
            {"sql": statement.text, "dialect": "postgres", **self.settings.words(statement.loss)}
        )

    def _ask(self, visitor: Visitor, statement: Statement) -> Outcome:
        question = self._read(statement)
        (release,) = self._service.ask(visitor, question, request=self.settings.request)
        if not release.practice:
            self._charged.append(release.charge)
        return _answer(release, question, intervals=self.settings.intervals)

    def _explain(self, visitor: Visitor, statement: Statement) -> Outcome:
        words = statement.words
        skip = 1
        if words[1:2] == ("(",):
            skip = words.index(")") + 1 if ")" in words else len(words)
        while words[skip : skip + 1] and words[skip] in ("VERBOSE", "ANALYZE"):
            skip += 1
        if "ANALYZE" in words[:skip]:
            raise WireError("0A000", "EXPLAIN ANALYZE would ask, and spend", hint="EXPLAIN alone says the price.")
        explained = statement.part(skip)
        if self._is_of_catalog(explained):
            return Outcome("EXPLAIN", [column_of_kind("QUERY PLAN", "text")], [["the catalog: free"]])
        priced = self._read(explained)
        plan = self._service.plan(visitor, priced)
        if "JSON" in words[:skip]:
            lines = [
                json.dumps([plan.to_dict() if isinstance(plan, Batch) else plan.to_dict(confidence=priced.confidence)])
            ]
        else:
            lines = (plan.describe() if isinstance(plan, Batch) else plan.describe(priced.confidence)).splitlines()
        return Outcome("EXPLAIN", [column_of_kind("QUERY PLAN", "text")], [[line] for line in lines])

    def _catalog_rows(self, visitor: Visitor, statement: Statement) -> Outcome:
        values = {name.lower(): value for name, value in self.settings.all().items()} | {
            "version": "PostgreSQL 15.0 (Sordino: answers are private, and cost)",
            "current_database": self._database,
            "current_schema": "public",
            "current_user": visitor.name,
            "pg_backend_pid": "0",
        }
        columns, rows = self._catalog.answer(statement.text, values)
        return Outcome(f"SELECT {len(rows)}", columns, rows)

    # ---- settings

    def _set(self, statement: Statement) -> Outcome:
        text = statement.text
        words = statement.words
        if statement.verb == "RESET":
            if words[1:] == ("ALL",):
                self.settings.reset_all()
            else:
                self.settings.set("".join(words[1:]), None)
            return Outcome("RESET")
        if "TRANSACTION" in words or "CHARACTERISTICS" in words:
            # Every answer is isolated, whatever level is set.
            return Outcome("SET")
        if words[1:3] == ("TIME", "ZONE") or words[1:4] == ("SESSION", "TIME", "ZONE"):
            return Outcome("SET")
        match = _SET.fullmatch(text)
        if match is None:
            raise WireError("42601", "write SET name = value", hint="SET sordino.epsilon = 0.1")
        value = match[3].strip()
        plain = value[1:-1].replace("''", "'") if len(value) > 1 and value[0] == value[-1] == "'" else value
        local = (match[1] or "").upper() == "LOCAL"
        if local and self.status == "I":
            return Outcome("SET", notices=["SET LOCAL has an effect within a transaction alone"])
        self.settings.set(match[2], None if value.upper() == "DEFAULT" else plain, local=local)
        return Outcome("SET")

    def _show(self, visitor: Visitor, statement: Statement) -> Outcome:
        name = "".join(statement.words[1:]).lower()
        if name in ("sordino.budget", "sordino.budgets"):
            return _table("SHOW", _BUDGETS, _budget_rows(self._service.budgets(visitor)))
        if name == "sordino.releases":
            return _table("SHOW", _RELEASES, _charge_rows(self._service.charges(visitor)))
        if name == "all":
            return _table("SHOW", ("name", "setting"), list(self.settings.all().items()))
        name = {"transactionisolationlevel": "transaction_isolation", "timezone": "timezone"}.get(name, name)
        return Outcome("SHOW", [column_of_kind(name, "text")], [[self.settings.show(name)]])

    # ---- transactions: each question is charged at once, so there is nothing to take back

    def _begin(self) -> Outcome:
        if self.status == "I":
            self.status = "T"
            self._charged = []
            self.settings.begin()
        return Outcome("BEGIN")

    def _end(self, statement: Statement) -> Outcome:
        undo = _ENDS[statement.verb] or self.status == "E"
        notices = []
        if undo and self._charged and self.status != "I":
            stand = (
                f"charge {self._charged[0]} stands"
                if len(self._charged) == 1
                else f"charges {', '.join(self._charged)} stand"
            )
            notices = [f"ROLLBACK gives no loss back: {stand}"]
        # Nothing is kept of a savepoint.
        if "TO" in statement.words[1:3]:
            self.status = "I" if self.status == "I" else "T"
            return Outcome("ROLLBACK", notices=notices)
        self.settings.end(undo=undo)
        self.cursors.end(undo=undo)
        self.status = "I"
        self._charged = []
        return Outcome("ROLLBACK" if undo else "COMMIT", notices=notices)


def _answer(release: Release, asked: QuestionRequest, *, intervals: bool) -> Outcome:
    rows = answer_rows(release, intervals=intervals, confidence=asked.confidence)
    columns = answer_columns(release, intervals=intervals)
    return Outcome(f"SELECT {len(rows)}", columns, rows, notices_of(release, asked.confidence))


# The columns of what SHOW lists.
_BUDGETS = ("budget", "share", "cap", "spent", "remaining")
_RELEASES = ("budget", "charge", "spender", "note", "cost", "time", "state")


def _table(tag: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Outcome:
    return Outcome(tag, [column_of_kind(name, "text") for name in names], rows)


def _budget_rows(budgets: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for one in budgets:
        parts = [("", one), *one.get("shares", {}).items()]
        for who, part in parts:
            rows.append([str(one["budget"]), who, *(json.dumps(part.get(name)) for name in _BUDGETS[2:])])
    return rows


def _charge_rows(charges: Sequence[tuple[str, Charge]]) -> list[list[str]]:
    return [
        [name, each.id, each.spender or "", each.note, each.loss.describe(), each.time, str(each.state)]
        for name, each in charges
    ]
