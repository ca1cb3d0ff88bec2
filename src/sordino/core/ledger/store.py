"""The ledger's SQLite file: durable writes, the chain of entries, and moves between versions."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from sordino.core.errors import ChargedError, InDoubt, LedgerError, QuestionRefused, UnknownName
from sordino.core.ledger.allowance import AllowanceSums
from sordino.core.ledger.high_water_mark import Checkpoint
from sordino.core.ledger.records import (
    GENESIS,
    SOUND,
    Charge,
    Entry,
    ShareSums,
    StoredAnswer,
    Sums,
    amounts_from_dict,
    amounts_to_dict,
    canonical,
    charge_id,
    charge_number,
    entry_hash,
    loss_from_dict,
    loss_of,
    loss_to_dict,
    remaining_of,
    share_after,
    texts_digest,
    units,
)
from sordino.core.ledger.replay import LedgerState
from sordino.core.loss import Loss, loss_from

# ---- A SQLite file whose commits are on disk when they return: private to its owner, recognized by its format, written in
# whole transactions
#
# It knows no tables: the ledger, a device's ledger and a collector's store each have a format of their own.


class Database(Protocol):
    """What a ledger needs of a connection: SQLite's own, or one that runs the same statements on a server."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, values: Any = ..., /) -> Any: ...
    def executemany(self, sql: str, rows: Any, /) -> Any: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of SQLite file: its application id, its version, and the statements that create its tables."""

    application: int
    version: int
    schema: Sequence[str]


def make_private(path: Path) -> None:
    """Create an empty file that its owner alone can read and write, unless one exists; raise OSError where that fails.

    An existing file is never opened here: closing a descriptor of it would drop the locks that this process holds on it
    through SQLite, and the next program to close it would then remove the write-ahead log.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def open_sqlite(
    path: Path, *, patience: float, check_same_thread: bool, kind: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open an existing file; `patience` is how many seconds to wait for another program that holds it."""
    name = path.absolute().as_uri() + "?mode=rw"
    return kind(name, uri=True, isolation_level=None, check_same_thread=check_same_thread, timeout=patience)


def read_format(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return the application id, the version, and whether the file is empty; raise sqlite3.Error if it is no database."""
    application, version, pages = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version", "page_count")
    )
    return application, version, not pages


def make_durable(db: sqlite3.Connection) -> bool:
    """Make each commit wait for the disk, with a write-ahead log; False where the disk allows no such log."""
    for setting in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1", "trusted_schema = 0"):
        db.execute(f"PRAGMA {setting}")
    return bool(db.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")


def create_tables(db: sqlite3.Connection, kind: FileFormat) -> None:
    """Create the tables of a format and stamp the file with it, within the open transaction."""
    for statement in kind.schema:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {kind.application}")
    db.execute(f"PRAGMA user_version = {kind.version}")


@contextmanager
def transact(db: Any, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[Any]:
    """Yield a cursor whose work is on disk, all or nothing, when the block ends; a PostgreSQL connection works as well."""
    cursor = db.cursor()
    cursor.execute(begin)
    try:
        yield cursor
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")


# ---- A ledger's SQLite file: its tables, how it is created and opened, and one write transaction on it
#
# It knows what a ledger stores, not who may write it when (writer.py) nor what a charge means (ledger.py). WAL with
# synchronous=FULL: a commit is on disk before it returns. Entries can only be appended: triggers refuse all else.
#
# Functions that read its tables take an open connection; their caller holds the mutex and the transaction.

ENTRIES = "SELECT seq, kind, time, payload, prev, hash FROM entries ORDER BY seq"

_CHARGES = """SELECT charges.number, charges.request, charges.question, charges.state, made.time, made.payload,
    CASE charges.state WHEN 'failed' THEN ended.payload END
    FROM charges JOIN entries AS made ON made.seq = charges.reserved
    LEFT JOIN entries AS ended ON ended.seq = charges.closed"""


def entries_of(db: Database) -> list[Entry]:
    """Return the chain, oldest first."""
    rows = db.execute(ENTRIES)
    return [Entry(seq, kind, time, json.loads(text), prev, digest) for seq, kind, time, text, prev, digest in rows]


def charges_where(db: Database, where: str, *values: str | int) -> list[Charge]:
    """Return the charges for which an SQL condition holds, oldest first; its text is never a user's."""
    rows = db.execute(f"{_CHARGES} WHERE {where} ORDER BY charges.number", values)
    return [_charge(tuple(row)) for row in rows]


def charge_of(db: Database, name: str) -> Charge:
    """Return the charge with this id; raise UnknownName where there is none."""
    charges = charges_where(db, "charges.number = ?", charge_number(name))
    if not charges:
        raise _no_charge(db, name)
    return charges[0]


def open_charge(db: Database, name: str) -> int:
    """Return the number of a charge that may still be closed; raise UnknownName or LedgerError for any other.

    It has no outcome yet, or failed so that it may be resumed.
    """
    number = charge_number(name)
    row = db.execute("SELECT state FROM charges WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise _no_charge(db, name)
    if row[0] != "reserved" and not charge_of(db, name).resumable:
        raise LedgerError(f"charge {name} is {row[0]} already, and that is final; make a new charge")
    return number


def answer_of(db: Database, charge: Charge) -> str:
    """Return the stored answer of a charge; raise InDoubt or ChargedError where it has none."""
    name = charge.id
    if charge.resumable:
        rule = f"charge {name} failed ({charge.reason}) and stands; there is no answer"
        raise ChargedError(
            f"{rule} yet; ask again under its request id: that charges nothing", charge=name, resumable=True
        )
    if charge.state == "failed":
        rule = f"charge {name} failed ({charge.reason}) and stands; there is no answer"
        raise ChargedError(f"{rule}; ask again as a new request, which charges again", charge=name)
    if charge.state == "reserved":
        rule = f"charge {name} stands but has no outcome yet: it is being answered now, or its process stopped"
        raise InDoubt(f"{rule}; wait, or ask again as a new request, which charges again", charge=name)
    query = "SELECT payload FROM entries WHERE seq = (SELECT closed FROM charges WHERE number = ?)"
    return str(json.loads(db.execute(query, (charge_number(name),)).fetchone()[0])["answer"])


def find_answer(db: Database, request: str, question: str) -> StoredAnswer | None:
    """Return the answer of a request made before, None where it is new; `question` is a hash.

    Raises QuestionRefused where it asked another question, InDoubt or ChargedError where it has no answer.
    """
    charge = find_charge(db, request, question)
    return None if charge is None else StoredAnswer(charge, answer_of(db, charge))


def find_charge(db: Database, request: str, question: str) -> Charge | None:
    """Return the charge of a request made before, None where it is new; raise QuestionRefused where it asked another question."""
    charges = charges_where(db, "charges.request = ?", request)
    if not charges:
        return None
    charge = charges[0]
    if charge.question != question:
        rule = f"this request id was used for another question (charge {charge.id})"
        raise QuestionRefused(f"{rule}; one id means one question: use a new id for a new question")
    return charge


def declarations_of(db: Database) -> dict[str, Any]:
    """Return the declaration of each table."""
    rows = db.execute("SELECT name, declaration FROM declarations ORDER BY name")
    return {name: json.loads(text) for name, text in rows}


def lost_of(db: Database) -> dict[str, Fraction]:
    """Return what was spent in lost entries, by the entries that record a restoration from an older copy."""
    lost: dict[str, Fraction] = {}
    for (payload,) in db.execute("SELECT payload FROM entries WHERE kind = 'restore'"):
        for name, amount in amounts_from_dict(json.loads(payload)["lost"]).items():
            lost[name] = lost.get(name, Fraction(0)) + amount
    return lost


def _no_charge(db: Database, name: str) -> UnknownName:
    last = db.execute("SELECT charges FROM state").fetchone()[0]
    hint = f"the last is {charge_id(last)}" if last else "none was made yet"
    return UnknownName(f"there is no charge {name}; {hint}")


# A plan names the last answers of its question, mostly the same ones.
@lru_cache(maxsize=4096)
def _charge(row: tuple[int, str | None, str, Any, str, str, str | None]) -> Charge:
    number, request, question, state, time, reserved, failed = row
    payload = json.loads(reserved)
    failure = {} if failed is None else json.loads(failed)
    cap = loss_from_dict(payload["after"]["cap"])
    spent = amounts_from_dict(payload["after"]["spent"])
    return Charge(
        id=charge_id(number),
        amounts=amounts_from_dict(payload["amounts"]),
        event=payload["event"],
        note=payload["note"],
        question=question,
        request=request,
        time=time,
        state=state,
        spent=loss_of(spent, cap),
        remaining=remaining_of(spent, cap),
        reason=failure.get("reason"),
        spender=payload.get("spender"),
        share=share_after(payload),
        resumable=failure.get("resumable", False),
    )


# the sums, the last entry's number and its hash
LedgerEnd = tuple[Sums, int, str]

RESTORE = 'sordino ledger restore --reason "..."'
_NEWEST = f"Put back the copy that was written to last; if the newest is lost, go on from this one: {RESTORE}"
# seconds to wait for a program that holds the file without the ledger's lock
_PATIENCE = 60.0

# The application id is "Sord"; version 1 stored sums that no entry of its chain recorded.
FORMAT = FileFormat(
    0x536F7264,
    2,
    (
        """CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, payload TEXT NOT NULL,
    prev TEXT NOT NULL, hash TEXT NOT NULL)""",
        """CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1), ledger TEXT NOT NULL, cap TEXT NOT NULL,
    carried TEXT NOT NULL, head INTEGER NOT NULL, hash TEXT NOT NULL, charges INTEGER NOT NULL)""",
        """CREATE TABLE budget (
    name TEXT PRIMARY KEY, spent TEXT NOT NULL, spent_units INTEGER NOT NULL, cap_units INTEGER NOT NULL,
    CHECK (spent_units BETWEEN 0 AND cap_units))""",
        """CREATE TABLE charges (
    number INTEGER PRIMARY KEY, request TEXT UNIQUE, question TEXT NOT NULL, state TEXT NOT NULL
    CHECK (state IN ('reserved', 'committed', 'failed')), reserved INTEGER NOT NULL, closed INTEGER)""",
        "CREATE INDEX charges_by_question ON charges (question)",
        "CREATE TABLE declarations (name TEXT PRIMARY KEY, declaration TEXT NOT NULL)",
        """CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END""",
        """CREATE TRIGGER entries_last BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END""",
        """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
    WHEN NEW.seq IS NOT 1 + (SELECT coalesce(max(seq), 0) FROM entries)
    BEGIN SELECT RAISE(ABORT, 'entries are only appended'); END""",
    ),
)

# created with the first share: a ledger without shares has the same file as before shares existed
SHARES = """CREATE TABLE shares (
    spender TEXT NOT NULL, name TEXT NOT NULL, cap TEXT NOT NULL, spent TEXT NOT NULL,
    spent_units INTEGER NOT NULL, cap_units INTEGER NOT NULL, PRIMARY KEY (spender, name),
    CHECK (spent_units BETWEEN 0 AND cap_units))"""
# created with the first series
SERIES = (
    """CREATE TABLE series (
    name TEXT PRIMARY KEY, charge BIGINT NOT NULL, opened BIGINT NOT NULL, secret TEXT NOT NULL, seal TEXT NOT NULL)""",
    """CREATE TABLE series_steps (
    series TEXT NOT NULL, step BIGINT NOT NULL, entry BIGINT NOT NULL, PRIMARY KEY (series, step))""",
)
_SET_SHARE = (
    "INSERT INTO shares VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (spender, name) DO UPDATE SET cap = excluded.cap, "
    "spent = excluded.spent, spent_units = excluded.spent_units, cap_units = excluded.cap_units"
)


class LedgerFile(sqlite3.Connection):
    """A connection to a ledger's file, or to one in memory, which caches the end of the ledger until anything is written.

    Another connection's commit changes SQLite's data_version, and a row written by this one its own count of rows.
    """

    _known: tuple[tuple[int, int], LedgerEnd] | None = None

    def end(self) -> LedgerEnd:
        """Return the end of the ledger, read once for each state of the file."""
        version = (int(self.execute("PRAGMA data_version").fetchone()[0]), self.total_changes)
        if self._known is None or self._known[0] != version:
            self._known = (version, read_end(self))
        return self._known[1]

    def remember(self, end: LedgerEnd) -> None:
        """Cache the end that this connection has committed, in a transaction that began by reading it.

        Its own commits leave the data_version unchanged.
        """
        if self._known is not None:
            self._known = (self._known[0][0], self.total_changes), end


class Transaction:
    """Writes to a ledger within one SQLite transaction, which its owner begins and ends.

    It begins with `end_of`, so nothing is granted on sums that no entry records. Jobs check first and append last, so a job
    that raises has written nothing. `finish` writes the sums and the head.
    """

    def __init__(self, db: Database, clock: Callable[[], str]) -> None:
        self.db = db
        self._clock = clock
        self.sums, self.head, self.hash = end_of(db)
        self._before = self.sums
        self.changed = False

    def now(self) -> str:
        """Return the present moment by the ledger's clock."""
        return self._clock()

    def append(
        self, kind: str, payload: Mapping[str, Any], *, sums: Sums | None = None, time: str | None = None
    ) -> tuple[int, str]:
        """Append an entry to the chain, with the sums after it if it changes them, and return its number and time.

        `time` is the moment that the sums were computed for, the present one if left out.
        """
        after = self.sums if sums is None else sums
        seq = self.head + 1
        if time is None:
            time = self._clock()
        text = canonical({**payload, "after": after.to_dict()})
        digest = entry_hash(seq, kind, time, text, self.hash)
        self.db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (seq, kind, time, text, self.hash, digest))
        self.head = seq
        self.hash = digest
        self.sums = after
        self.changed = True
        return seq, time

    def finish(self) -> None:
        """Write the head, and the cap and the sums if an entry changed them; the CHECK on units refuses sums above the cap."""
        # an answer, which costs nothing, leaves the sums as they were
        if self.sums is self._before:
            self.db.execute("UPDATE state SET head = ?, hash = ?", (self.head, self.hash))
            return
        cap = canonical(self.sums.to_dict()["cap"])
        spent = self.sums.spent
        most = self.sums.cap.amounts()
        state = (cap, self.head, self.hash, self.sums.charges)
        self.db.execute("UPDATE state SET cap = ?, head = ?, hash = ?, charges = ?", state)
        rows = [(str(spent[n]), units(spent[n]), units(most[n]), n) for n in spent]
        self.db.executemany("UPDATE budget SET spent = ?, spent_units = ?, cap_units = ? WHERE name = ?", rows)
        if self.sums.shares != self._before.shares:
            self._finish_shares()

    def remember(self) -> None:
        """Cache the end that this transaction, just committed, has written, so that the next one need not read it."""
        if isinstance(self.db, LedgerFile):
            self.db.remember((self.sums, self.head, self.hash))

    def _finish_shares(self) -> None:
        """Write the shares that changed; their CHECK refuses sums above a share once more."""
        before = self._before.shares
        changed = {who: share for who, share in self.sums.shares.items() if share != before.get(who)}
        if changed and not _has_shares(self.db):
            self.db.execute(SHARES)
        for who, share in changed.items():
            spent = share.spent.amounts()
            rows = [
                (who, name, str(most), str(spent[name]), units(spent[name]), units(most))
                for name, most in share.cap.amounts().items()
            ]
            self.db.executemany(_SET_SHARE, rows)


def create_file(path: Path, payload: Mapping[str, Any], *, cap: Loss, time: str) -> str:
    """Create a ledger whose first entry has this payload, whole or not at all, and return the hash of that entry.

    It is built beside its path and renamed to it, so a crash leaves no half of a ledger. The caller holds the lock.
    """
    logs = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    if any(log.exists() and log.stat().st_size for log in logs):
        rule = f"the ledger {path} is missing but its write-ahead log exists"
        raise LedgerError(f"{rule}; put the ledger back, or move the log away to begin anew")
    draft = path.with_name(path.name + "-new")
    for leftover in (*logs, draft, draft.with_name(draft.name + "-wal"), draft.with_name(draft.name + "-journal")):
        leftover.unlink(missing_ok=True)
    # it holds questions, spenders and answers, so it and the logs that SQLite creates beside it are private to its owner
    make_private(draft)
    db = sqlite3.connect(draft, isolation_level=None)
    try:
        digest = _fill(db, payload, cap=cap, time=time)
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()
    sync_path(draft)
    os.rename(draft, path)
    sync_path(path.parent)
    return digest


def in_memory(payload: Mapping[str, Any], *, cap: Loss, time: str) -> sqlite3.Connection:
    """Return a ledger that exists in this connection only."""
    db = LedgerFile(":memory:", isolation_level=None, check_same_thread=False)
    _fill(db, payload, cap=cap, time=time)
    return db


def connect_file(path: Path) -> sqlite3.Connection:
    """Open an existing ledger file, ready for durable writes; raise LedgerError where it is not one."""
    _check_readable(path)
    db = open_sqlite(path, patience=_PATIENCE, check_same_thread=False, kind=LedgerFile)
    try:
        wrong = _find_fault(db)
        if wrong is not None:
            raise LedgerError(f"the ledger {path} cannot be opened: {wrong}")
    except BaseException:
        db.close()
        raise
    return db


def _check_readable(path: Path) -> None:
    """Raise LedgerError where no file can be read; by name alone, since closing a descriptor drops SQLite's locks."""
    try:
        wrong = None if path.stat().st_size else "it is empty"
        if wrong is None and not (path.is_file() and os.access(path, os.R_OK)):
            wrong = "it cannot be read"
    except FileNotFoundError:
        wrong = "it is missing; put it back"
    except OSError:
        wrong = "it cannot be read"
    if wrong is not None:
        raise LedgerError(f"the ledger {path} cannot be opened: {wrong}")


def _find_fault(db: sqlite3.Connection) -> str | None:
    """Make an open file durable; return why this program cannot read it as a ledger, None where it can."""
    try:
        application, version, _ = read_format(db)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            return "it is no ledger"
        raise
    if application != FORMAT.application:
        return "it is a database, but not a ledger"
    if version != FORMAT.version:
        rule = f"it is of format {version}, and this Sordino reads format {FORMAT.version}"
        return f"{rule}: keep it as a record, with what it spent, and begin a new ledger at another path, its cap reduced by that"
    return None if make_durable(db) else "its disk does not allow a write-ahead log; keep it on a local disk"


def quick_check(db: Database, seen: Checkpoint | None, *, whole_schema: bool = False) -> None:
    """Raise LedgerError where the last entry, the head and the mark disagree (cheap: nothing is replayed)."""
    sums, head, _ = read_end(db)
    if whole_schema and not isinstance(db, sqlite3.Connection):
        from sordino.core.ledger.postgres_ledger import ServerConnection, check_schema

        assert isinstance(db, ServerConnection)
        check_schema(db)
    elif whole_schema:
        statements = {row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if statements - {SHARES, *SERIES} != set(FORMAT.schema):
            raise LedgerError("the ledger's tables or triggers were altered; restore a sound copy of the ledger")
        if db.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise LedgerError("the ledger's file is damaged; restore a sound copy of the ledger")
    check_mark(db, seen, ledger=sums.ledger, head=head)


def read_sums(db: Database) -> Sums:
    """Return the sums that the tables hold; raise LedgerError where the last entry has others: see `read_end`."""
    return end_of(db)[0]


def end_of(db: Database) -> LedgerEnd:
    """Return the end of the ledger as `read_end` does; that of a file is read once for each state of it."""
    return db.end() if isinstance(db, LedgerFile) else read_end(db)


def read_end(db: Database) -> LedgerEnd:
    """Return the sums that the tables hold, and the last entry's number and hash.

    Raises LedgerError where that entry's hash does not fit, or it holds other sums. Only one entry is read: each begins with
    the sums after it, under its hash, so the two are compared as text.
    """
    last = db.execute("SELECT seq, kind, time, payload, prev, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    state = db.execute("SELECT ledger, cap, carried, charges, head, hash FROM state").fetchall()
    if last is None or len(state) != 1:
        raise LedgerError(f"the ledger has no entries; {SOUND}")
    ledger, cap, carried, charges, head, digest = state[0]
    declarations = dict(db.execute("SELECT name, declaration FROM declarations"))
    spent = {name: Fraction(text) for name, text in db.execute("SELECT name, spent FROM budget ORDER BY name")}
    most, before = _parse(cap, carried)
    shares = _read_shares(db)
    if (last[0], last[5]) != (head, digest) or entry_hash(*last[:5]) != digest:
        raise LedgerError(f"entry {max(last[0], head)} is not what was written; {SOUND}")
    allowance = _read_allowance(last[3])
    sums = Sums(ledger, most, before, spent, charges, texts_digest(declarations), shares, allowance)
    # an entry of an older version has the shares written out
    forms = (sums.to_dict(spells=spells) for spells in ((False, True) if shares else (False,)))
    if not any(last[3].startswith(f'{{"after":{canonical(form)},') for form in forms):
        rule = "the sums of what was spent, the cap or the declarations of tables are not what"
        raise LedgerError(f"{rule} entry {head} says; {SOUND}")
    return sums, head, digest


def _read_allowance(text: str) -> AllowanceSums | None:
    """Return the allowance of the sums that an entry, whose hash fits, begins with; None where it has none."""
    head = '{"after":{"allowance":'
    if not text.startswith(head):
        return None
    return AllowanceSums.from_dict(json.JSONDecoder().raw_decode(text, len(head))[0])


def has_series(db: Database) -> bool:
    """Return whether the tables of series are there: they are made with the first."""
    select = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'series'"
    if not isinstance(db, sqlite3.Connection):
        select = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'series'"
    return db.execute(select).fetchone() is not None


def check_series(db: Database, state: LedgerState) -> None:
    """Raise LedgerError where the tables of series are not what the replayed entries say."""
    opened: dict[str, tuple[int, int, dict[int, int]]] = {}
    if has_series(db):
        for name, charge, entry in db.execute("SELECT name, charge, opened FROM series").fetchall():
            opened[name] = (charge, entry, {})
        for name, step, entry in db.execute("SELECT series, step, entry FROM series_steps").fetchall():
            opened.setdefault(name, (0, 0, {}))[2][step] = entry
    for name in {*opened, *state.series}:
        if opened.get(name) != state.series.get(name):
            raise LedgerError(f"the steps of the series {name!r} are not as its entries say; restore a sound copy")


def _has_shares(db: Database) -> bool:
    # a server's ledger has the table from the start
    if not isinstance(db, sqlite3.Connection):
        return True
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'shares'").fetchone() is not None


def _read_shares(db: Database) -> dict[str, ShareSums]:
    """Return the shares that the tables hold, by spender."""
    if not _has_shares(db):
        return {}
    caps: dict[str, dict[str, Fraction]] = {}
    sums: dict[str, dict[str, Fraction]] = {}
    for who, name, most, spent in db.execute("SELECT spender, name, cap, spent FROM shares ORDER BY spender, name"):
        caps.setdefault(who, {})[name] = Fraction(most)
        sums.setdefault(who, {})[name] = Fraction(spent)
    return {who: ShareSums(loss_from(caps[who]), loss_from(sums[who])) for who in caps}


@lru_cache(maxsize=64)
def _parse(cap: str, carried: str) -> tuple[Loss, Mapping[str, Fraction]]:
    """Parse a cap and the amounts carried over, which seldom change."""
    return loss_from_dict(json.loads(cap)), amounts_from_dict(json.loads(carried))


def check_mark(db: Database, seen: Checkpoint | None, *, ledger: str, head: int) -> None:
    """Raise LedgerError where the ledger has fewer entries than were seen of it, or another entry in that place."""
    if seen is None:
        return
    if seen.ledger != ledger:
        raise LedgerError("the mark given is that of another ledger; give each ledger its own, or name none")
    if seen.seq > head:
        last = db.execute("SELECT payload FROM entries WHERE seq = ?", (head,)).fetchone()
        if last is not None and '"reason":"moved to postgres' in last[0]:
            raise LedgerError(
                "the ledger was moved from this file to a server: where the file is named, name postgresql://HOST/DATABASE#NAME"
            )
        rule = f"the ledger was rolled back: it has {head} entries, {seen.seq} were seen"
        raise LedgerError(f"{rule}; what was spent does not return. {_NEWEST}")
    row = db.execute("SELECT hash FROM entries WHERE seq = ?", (seen.seq,)).fetchone()
    if row is None or row[0] != seen.hash:
        rule = f"the ledger was rolled back or copied: entry {seen.seq} is not the one that was seen"
        raise LedgerError(f"{rule}. {_NEWEST}")


def fill_tables(db: Database, payload: Mapping[str, Any], *, cap: Loss, time: str) -> str:
    """Write a new ledger's first entry and sums into its empty tables, and return the hash of that entry."""
    carried = dict.fromkeys(cap.amounts(), Fraction(0))
    if "carried" in payload:
        carried = amounts_from_dict(payload["carried"])
    sums = Sums(payload["ledger"], cap, carried, carried, 0, texts_digest({}))
    text = canonical({**payload, "after": sums.to_dict()})
    digest = entry_hash(1, "open", time, text, GENESIS)
    db.execute("INSERT INTO entries VALUES (1, 'open', ?, ?, ?, ?)", (time, text, GENESIS, digest))
    state = (payload["ledger"], canonical(loss_to_dict(cap)), canonical(amounts_to_dict(carried)), digest)
    db.execute("INSERT INTO state VALUES (1, ?, ?, ?, 1, ?, 0)", state)
    rows = [(name, str(carried[name]), units(carried[name]), units(most)) for name, most in cap.amounts().items()]
    db.executemany("INSERT INTO budget VALUES (?, ?, ?, ?)", rows)
    return digest


def _fill(db: sqlite3.Connection, payload: Mapping[str, Any], *, cap: Loss, time: str) -> str:
    with transact(db):
        create_tables(db, FORMAT)
        return fill_tables(db, payload, cap=cap, time=time)


def sync_path(path: Path) -> None:
    """Wait until a file, or what a directory lists, is on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
