"""The tables of the server's own store: accounts, tokens, sessions, approvals, jobs, models, the audit log. No data, no answers.

Answers lie in ledgers. Tokens and sessions are stored as hashes, passwords as argon2id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)

_STORE = MetaData()


def _number() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _account() -> Column[int]:
    return Column("account", Integer, ForeignKey("accounts.id"), nullable=False, index=True)


def _words(name: str, *, empty: bool = False, unique: bool = False, most: int = 200) -> Column[str]:
    return Column(name, String(most), nullable=empty, unique=unique)


SETTINGS = Table(
    "settings", _STORE, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False)
)
ACCOUNTS = Table(
    "accounts",
    _STORE,
    _number(),
    _words("name", unique=True),
    _words("role"),
    _words("password", empty=True),
    _words("subject", empty=True, unique=True, most=600),
    Column("disabled", Boolean, nullable=False),
    _words("created"),
    # A number is never used again, since requests are bound to it.
    sqlite_autoincrement=True,
)
TOKENS = Table(
    "tokens",
    _STORE,
    _number(),
    _account(),
    _words("name"),
    _words("hash", unique=True),
    _words("spender"),
    _words("created"),
    _words("expires", empty=True),
    sqlite_autoincrement=True,
)
SCRAM_KEYS = Table(
    "scram_keys",
    _STORE,
    Column("token", Integer, ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    Column("stored_key", LargeBinary, nullable=False),
    Column("server_key", LargeBinary, nullable=False),
)
SESSIONS = Table(
    "sessions", _STORE, Column("hash", String(64), primary_key=True), _account(), _words("created"), _words("expires")
)
APPROVALS = Table(
    "approvals",
    _STORE,
    _number(),
    _account(),
    _words("spender"),
    _words("request", unique=True, most=2000),
    _words("digest"),
    Column("question", Text, nullable=False),
    Column("cost", Text, nullable=False),
    Column("plans", Text, nullable=False),
    Column("reveals", Text, nullable=False),
    _words("state"),
    _words("officer", empty=True),
    Column("reason", Text),
    _words("created"),
    _words("decided", empty=True),
    # What was asked, as it was stated, and the form of the page that asked it, which gets the answer: JSON.
    Column("asked", Text),
    Column("form", Text),
    sqlite_autoincrement=True,
)
JOBS = Table(
    "jobs",
    _STORE,
    _number(),
    _account(),
    _words("kind"),
    _words("state"),
    Column("stages", Text, nullable=False),
    _words("request", empty=True, unique=True, most=2000),
    Column("asked", Text, nullable=False),
    Column("problem", Text),
    Column("model", Integer),
    _words("started"),
    _words("ended", empty=True),
    # When its server last said that it is at work.
    _words("seen", empty=True),
    sqlite_autoincrement=True,
)
MODELS = Table(
    "models",
    _STORE,
    _number(),
    _account(),
    _words("name"),
    _words("source"),
    _words("charge"),
    Column("bytes", LargeBinary, nullable=False),
    _words("created"),
    sqlite_autoincrement=True,
)
# Pages about models: released figures, and specifications of pictures of them.
EVALUATIONS = Table(
    "evaluations",
    _STORE,
    _number(),
    Column("model", Integer, ForeignKey("models.id"), nullable=False, index=True),
    _words("charge"),
    Column("figures", Text, nullable=False),
    Column("sheet", Text, nullable=False),
    _words("created"),
    sqlite_autoincrement=True,
)
AUDIT = Table(
    "audit",
    _STORE,
    _number(),
    _words("time"),
    _words("account"),
    _words("role"),
    _words("via"),
    _words("action"),
    _words("object", most=2000),
    _words("outcome", most=2000),
    sqlite_autoincrement=True,
)
# Questions as they were written, so that an analysis can be repeated; no answers.
TEXTS = Table(
    "texts",
    _STORE,
    Column("budget", String(200), primary_key=True),
    Column("charge", String(200), primary_key=True),
    _words("time"),
    Column("asked", Text, nullable=False),
)
# The lists of questions that request ids stand for: a digest alone.
REQUESTS = Table("requests", _STORE, Column("request", String(2000), primary_key=True), _words("digest"))

# Which account made, reset or funded what, so that it does not approve questions of it.
HANDS = Table(
    "hands",
    _STORE,
    _number(),
    Column("officer", Integer, ForeignKey("accounts.id"), nullable=False, index=True),
    _words("did"),
    Column("account", Integer, ForeignKey("accounts.id")),
    Column("spender", Text),
    _words("time"),
    sqlite_autoincrement=True,
)


def _make_first(db: Connection) -> None:
    _STORE.create_all(db)
    for event in ("UPDATE", "DELETE"):
        for statement in _guards(db.dialect.name, event):
            db.execute(text(statement))


def _add_texts(db: Connection) -> None:
    TEXTS.create(db, checkfirst=True)


def _guards(dialect: str, event: str) -> Sequence[str]:
    """Return what lets nobody change or remove a line of the audit log by a statement."""
    if dialect == "sqlite":
        return [
            f"CREATE TRIGGER audit_{event.lower()} BEFORE {event} ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END"
        ]
    return [
        "CREATE OR REPLACE FUNCTION sordino_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'append only'; END $$",
        f"CREATE TRIGGER audit_{event.lower()} BEFORE {event} ON audit FOR EACH ROW EXECUTE FUNCTION sordino_append_only()",
    ]


def _add_scram_keys(db: Connection) -> None:
    SCRAM_KEYS.create(db, checkfirst=True)


def _add_evaluations(db: Connection) -> None:
    EVALUATIONS.create(db, checkfirst=True)


def _add_seen(db: Connection) -> None:
    if "seen" not in {column["name"] for column in inspect(db).get_columns("jobs")}:
        db.execute(text("ALTER TABLE jobs ADD COLUMN seen VARCHAR(200)"))


def _add_requests(db: Connection) -> None:
    REQUESTS.create(db, checkfirst=True)


def _add_hands(db: Connection) -> None:
    HANDS.create(db, checkfirst=True)


def _add_asked(db: Connection) -> None:
    columns = {column["name"] for column in inspect(db).get_columns("approvals")}
    for name in ("asked", "form"):
        if name not in columns:
            db.execute(text(f"ALTER TABLE approvals ADD COLUMN {name} TEXT"))


# the version of a store is how many it has seen
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _make_first,
    _add_texts,
    _add_scram_keys,
    _add_evaluations,
    _add_seen,
    _add_requests,
    _add_hands,
    _add_asked,
)
