"""The ledger on a PostgreSQL server: the promises of the file, for several processes and hosts; and moving one there."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import sordino as sd
from ask.curator.support import curator
from core.ledger.support import spend
from places import ROOT
from postgres_server import Server
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.location import ServerPlace, locate
from sordino.core.ledger.postgres_ledger import connect_server
from sordino.core.ledger.records import Charge, StoredAnswer
from sordino.core.ledger.restoration import move_ledger
from sordino.core.loss import PureDP
from sordino.errors import BudgetExhausted, ChargedError, DeclarationError, InDoubt, LedgerError, QuestionRefused

FORK = multiprocessing.get_context("fork")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
NAMES = itertools.count()


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> str:
    return make(postgres_server, "ledgers")


def make(server: Server, name: str, options: str = "ENCODING 'UTF8'") -> str:
    """Make a database, and return its address."""
    server.execute(f"CREATE DATABASE {name} {options} TEMPLATE template0")
    return f"{server.url}/{name}"


@pytest.fixture
def address(database: str) -> str:
    """A ledger's address that no other test uses."""
    return f"{database}#l{next(NAMES)}"


def run_sql(address: str, *statements: str) -> None:
    """Run statements as its owner might, past the ledger."""
    import psycopg

    place = locate(address)
    assert isinstance(place, ServerPlace)
    with psycopg.connect(place.address) as db:
        db.execute(f'SET search_path = "{place.schema}"')
        for statement in statements:
            db.execute(statement.encode())


def test_charges_answers_and_declarations_come_back_as_from_a_file(address: str, tmp_path: Path) -> None:
    """The same calls on both, compared entry by entry but for the times and the hashes that hold them."""
    told = []
    for place in (address, tmp_path / "people.ledger"):
        with Ledger.open(place, cap=PureDP(1), clock=lambda: "2026-11-28T00:00:00.000000+00:00") as ledger:
            ledger.declare("people", {"columns": {"age": "x"}, "neighbors": "add_remove", "privacy_unit": "row"})
            ledger.declare_share("research", PureDP("0.5"))
            first = ledger.charge(
                LaplaceEvent(0.1), note="é \U0001f600 'quoted' %s ?", question="q", request="r" * 2000
            )
            assert isinstance(first, Charge)
            ledger.commit(first, '{"value": 17}')
            second = ledger.charge(LaplaceEvent(0.2), note="", question="q", spender="research")
            ledger.fail(second, "the engine failed")
            ledger.charge(LaplaceEvent(0.05), note="", question="other")
            ledger.amend(reason="more", cap=PureDP(2))
        with Ledger.existing(place) as ledger:
            again = ledger.charge(LaplaceEvent(0.1), note="", question="q", request="r" * 2000)
            assert isinstance(again, StoredAnswer)
            assert again.answer == '{"value": 17}' == ledger.answer("c-0001")
            with pytest.raises(QuestionRefused):
                ledger.charge(LaplaceEvent(0.1), note="", question="z", request="r" * 2000)
            with pytest.raises(ChargedError):
                ledger.answer("c-0002")
            with pytest.raises(BudgetExhausted, match="share of 'research'"):
                ledger.charge(LaplaceEvent(0.4), note="", question="q", spender="research")
            report = ledger.verify()
            assert report.mark == "agrees"
            entries = [
                (e.kind, {k: v for k, v in e.payload.items() if k not in ("after", "ledger")}) for e in ledger.entries()
            ]
            told.append((ledger.charges(), entries, report.describe(), ledger.declarations(), ledger.shares()))
            assert repr(ledger).startswith(f"Ledger({place}; spent epsilon 0.35")
    assert told[0] == told[1]


def test_24_spenders_on_a_hot_cap_never_overspend(address: str) -> None:
    """Each with a connection of its own."""
    Ledger.open(address, cap=PureDP(1)).close()
    ledgers = [Ledger.existing(address) for _ in range(24)]
    granted: list[int] = []
    threads = [threading.Thread(target=lambda own=own: granted.append(spend(own, "0.006"))) for own in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ledger in ledgers:
        ledger.close()
    assert sum(granted) == 166
    assert Ledger.existing(address).verify().spent == PureDP("0.996")


def _spender(address: str, state: Path, results: multiprocessing.SimpleQueue[int]) -> None:
    os.environ["SORDINO_STATE"] = str(state)
    try:
        results.put(spend(Ledger.existing(address), "0.007"))
    except LedgerError:
        results.put(-1000)


def test_processes_on_several_hosts_never_overspend(address: str, tmp_path: Path) -> None:
    """A host is a directory of high-water marks of its own."""
    ledger = Ledger.open(address, cap=PureDP("0.4"))
    results = FORK.SimpleQueue()
    processes = [FORK.Process(target=_spender, args=(address, tmp_path / f"h{i % 3}", results)) for i in range(6)]
    for process in processes:
        process.start()
    granted = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert sum(granted) == 57
    assert ledger.verify().spent == PureDP("0.399")  # the parent's connection was closed for the fork and opened anew


_LOOP = """
import sys, itertools
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
ledger = Ledger.existing(sys.argv[1])
for i in itertools.count():
    charge = ledger.charge(LaplaceEvent(0.001), note="", question="q", request=f"{sys.argv[2]}-{i}")
    print(charge.id, "charged", flush=True)
    ledger.commit(charge, "1")
    print(charge.id, "answered", flush=True)
"""


def _kill(address: str, kills: int) -> None:
    """Kill a spender -9 while it charges and answers; what it said stands, and the chain is whole after each."""
    Ledger.open(address, cap=PureDP(100)).close()
    draw, charged, answered = random.Random(1), set(), set()
    for i in range(kills):
        command = [sys.executable, "-c", _LOOP, address, str(i)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            time.sleep(draw.random() * 0.2)
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read()
        lines = [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]
        charged |= {line[0] for line in lines}
        answered |= {line[0] for line in lines if line[1] == "answered"}
        with Ledger.existing(address) as ledger:
            report = ledger.verify()
            states = {c.id: c.state for c in ledger.charges()}
        assert charged <= set(states)
        assert all(states[name] == "committed" for name in answered)
        assert report.spent.amounts()["epsilon"] * 1000 == len(states)
    assert len(charged) >= kills


@pytest.mark.deep
def test_a_few_kills(address: str) -> None:
    _kill(address, 1)


@pytest.mark.deep
def test_many_kills(address: str) -> None:
    _kill(address, 60)


def test_a_restart_of_the_server_loses_no_charge(postgres_server: Server, address: str) -> None:
    """Spenders go on by themselves; a charge that could not be confirmed is in doubt, and counts."""
    ledger, granted, doubted = Ledger.open(address, cap=PureDP(10**6)), [0], [0]
    refused: list[str] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                ledger.charge(LaplaceEvent(1), note="", question="q")
                granted[0] += 1
            except InDoubt:
                doubted[0] += 1
            except LedgerError as error:
                refused.append(str(error))
                time.sleep(0.02)

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(0.3)
    postgres_server.stop()
    postgres_server.start()
    before = granted[0]
    time.sleep(0.5)
    stop.set()
    worker.join()
    assert granted[0] > before > 0
    assert all("its server" in text for text in refused)
    spent = ledger.verify().spent.amounts()["epsilon"]
    assert granted[0] <= spent <= granted[0] + doubted[0]


def test_a_program_that_holds_the_lock_is_waited_for_and_then_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sordino.core.ledger.postgres_ledger._SETTINGS", ("lock_timeout = '300ms'",))
    ledger = Ledger.open(address, cap=PureDP(1))
    place = locate(address)
    assert isinstance(place, ServerPlace)
    other = connect_server(place)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(LedgerError, match="another program holds it"):
            ledger.charge(LaplaceEvent(0.1), note="", question="q")
    assert ledger.spent() == PureDP(0)  # reading waits for nobody
    other.execute("ROLLBACK")
    ledger.charge(LaplaceEvent(0.1), note="", question="q")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="another program holds it"):
        ledger.charge(LaplaceEvent(0.1), note="", question="q")
    other.close()  # as when that program dies
    ledger.charge(LaplaceEvent(0.1), note="", question="q")
    assert ledger.verify().spent == PureDP("0.2")


def test_what_another_host_added_must_follow_what_this_one_saw(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    monkeypatch.setenv("SORDINO_STATE", str(here))
    ledger = Ledger.open(address, cap=PureDP(1))
    monkeypatch.setenv("SORDINO_STATE", str(there))
    with Ledger.existing(address) as other:
        for _ in range(3):
            other.charge(LaplaceEvent(0.1), note="", question="q")
    run_sql(
        address,
        "ALTER TABLE entries DISABLE TRIGGER entries_stay",
        "UPDATE entries SET payload = replace(payload, 'laplace', 'gaussian') WHERE seq = 3",
        "ALTER TABLE entries ENABLE TRIGGER entries_stay",
    )
    with pytest.raises(LedgerError, match="entry 3 is not what was written"):
        ledger.charge(LaplaceEvent(0.1), note="", question="q")


def test_another_database_put_in_its_place_is_refused(postgres_server: Server) -> None:
    """A copy of an older state: this host has seen more, and the chain of entries shows it."""
    url = make(postgres_server, "rolled")
    with Ledger.open(url, cap=PureDP(1)) as ledger:
        ledger.charge(LaplaceEvent(0.1), note="", question="q")
    postgres_server.execute("CREATE DATABASE older TEMPLATE rolled")
    with Ledger.existing(url) as ledger:
        ledger.charge(LaplaceEvent(0.1), note="", question="q")
    postgres_server.execute("DROP DATABASE rolled WITH (FORCE)", "ALTER DATABASE older RENAME TO rolled")
    for attempt in (Ledger.existing, lambda at: Ledger.open(at, cap=PureDP(1))):
        with pytest.raises(LedgerError, match="rolled back: it has 2 entries, 3 were seen"):
            attempt(url)
    postgres_server.execute("DROP SCHEMA sordino CASCADE", database="rolled")
    with pytest.raises(LedgerError, match=r"is gone, and this machine remembers it: 3 entries, epsilon 0\.2 spent"):
        Ledger.open(url, cap=PureDP(1))
    with Ledger.new(url, cap=PureDP(1), reason="the disk was lost") as again:
        assert again.spent() == PureDP("0.2")


ALTERED = [  # guards that let more through than ours
    "DROP TRIGGER entries_follow ON entries",
    "ALTER TABLE budget DROP CONSTRAINT budget_check",
    "ALTER TABLE charges ADD COLUMN more TEXT",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "ALTER TABLE budget DROP CONSTRAINT budget_check, ADD CONSTRAINT budget_check CHECK (spent_units <= cap_units + 1)",
    "ALTER TABLE shares DROP CONSTRAINT shares_check, ADD CONSTRAINT shares_check CHECK (true)",
    "ALTER TABLE budget DROP CONSTRAINT budget_check, ADD CONSTRAINT budget_check "
    "CHECK (spent_units BETWEEN 0 AND cap_units) NOT VALID",
    "ALTER TABLE charges DROP CONSTRAINT charges_pkey, ADD PRIMARY KEY (number) DEFERRABLE",
    "ALTER TABLE charges ALTER COLUMN closed SET DEFAULT 1",
    "ALTER TABLE entries ALTER COLUMN payload DROP NOT NULL",
    "DROP TRIGGER entries_stay ON entries; CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries "
    "WHEN (false) EXECUTE FUNCTION refuse_change()",
    "DROP TRIGGER entries_stay ON entries; CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON format "
    "EXECUTE FUNCTION refuse_change()",
    "CREATE RULE quiet AS ON UPDATE TO budget DO INSTEAD NOTHING",
    "ALTER TABLE entries SET UNLOGGED",
    "ALTER TABLE charges ENABLE ROW LEVEL SECURITY",
    "CREATE VIEW extra AS SELECT 1 AS one",
]


@pytest.mark.each(3)
@pytest.mark.parametrize("statement", ALTERED)
def test_guards_that_were_altered_are_refused_when_the_ledger_is_opened(address: str, statement: str) -> None:
    Ledger.open(address, cap=PureDP(1)).close()
    Ledger.existing(address).close()
    run_sql(address, statement)
    for attempt in (Ledger.existing, lambda at: Ledger.open(at, cap=PureDP(1))):
        with pytest.raises(LedgerError, match="tables or triggers were altered"):
            attempt(address)


@pytest.mark.each(3)
@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE budget SET spent = '0', spent_units = 0"],
        ["UPDATE state SET cap = replace(cap, '1', '9')"],
        ["ALTER TABLE entries DISABLE TRIGGER entries_stay", "DELETE FROM entries WHERE seq = 3"],
        [
            "ALTER TABLE entries DISABLE TRIGGER entries_stay",
            "UPDATE entries SET payload = replace(payload, '0.1', '0.0')",
        ],
        ["DELETE FROM declarations"],
        ["UPDATE charges SET state = 'failed'"],
        *([statement] for statement in ALTERED[:4]),
    ],
)
def test_what_was_edited_on_the_server_is_found(address: str, statements: list[str]) -> None:
    with Ledger.open(address, cap=PureDP(1)) as ledger:
        ledger.declare("people", {"columns": {}, "neighbors": "add_remove", "privacy_unit": "row"})
        ledger.charge(LaplaceEvent(0.1), note="", question="q")
        ledger.verify()
        run_sql(address, *statements)
        with pytest.raises(LedgerError):
            ledger.verify()


def test_entries_are_only_appended(address: str) -> None:
    import psycopg

    Ledger.open(address, cap=PureDP(1)).close()
    row = "(5, 'open', '', '', '', '')"
    for statement in (
        "DELETE FROM entries",
        "UPDATE entries SET kind = ''",
        "TRUNCATE entries",
        f"INSERT INTO entries VALUES {row}",
    ):
        with pytest.raises(psycopg.errors.RaiseException):
            run_sql(address, statement)


def test_addresses_with_a_password_are_refused_and_not_shown() -> None:
    for url in (
        "postgresql://me:topsecret@db/people",
        "postgresql://db/people?password=topsecret",
        "postgres://me:topsecret@[db/x",
    ):
        with pytest.raises(DeclarationError) as caught:
            sd.Ledger.open(url, cap=PureDP(1))
        assert "topsecret" not in str(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(DeclarationError, match="small letters"):
        locate("postgresql:///db#a b")


def test_a_password_of_the_environment_is_in_no_error_repr_or_ledger(
    postgres_server: Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "topsecret")
    ledger = Ledger.open(address, cap=PureDP(1))
    texts = [repr(ledger), str(ledger.path), *(str(e) for e in ledger.entries()), ledger.verify().describe()]
    monkeypatch.setenv("PGUSER", "nobody")
    for bad in (
        f"{postgres_server.url}/missing",
        postgres_server.url.replace("sordino@", "nobody@") + "/ledgers",
        "postgresql://127.0.0.1:1/x",
    ):
        with pytest.raises(LedgerError, match="cannot be reached, or refuses this user") as caught:
            Ledger.open(bad, cap=PureDP(1))
        texts.append(str(caught.value))
    assert not any("topsecret" in text for text in texts)


def test_a_moved_ledger_goes_on_and_its_file_spends_no_more(address: str, tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    old = Ledger.open(path, cap=PureDP(1))
    old.declare_share("research", PureDP("0.5"))
    charge = old.charge(LaplaceEvent(0.1), note="", question="q", spender="research", request="one")
    assert isinstance(charge, Charge)
    old.commit(charge, "17")
    before = old.entries()
    new = move_ledger(old, address)
    assert [e.hash for e in new.entries()[: len(before)]] == [e.hash for e in before]
    assert [e.payload.get("reason") for e in new.entries()[len(before) :]] == [
        f"moved to {address}",
        f"moved from {path}",
    ]
    assert (new.id, new.cap, new.spent(), new.answer(charge.id)) == (old.id, PureDP(1), PureDP("0.1"), "17")
    assert isinstance(new.charge(LaplaceEvent(0.1), note="", question="q", request="one"), StoredAnswer)
    assert isinstance(new.charge(LaplaceEvent(0.1), note="", question="q", spender="research"), Charge)
    for attempt in (old, lambda: Ledger.existing(path), lambda: Ledger.open(path, cap=PureDP(1))):
        with pytest.raises((LedgerError, BudgetExhausted)):
            (attempt if isinstance(attempt, Ledger) else attempt()).charge(LaplaceEvent(0.1), note="", question="q")
    with pytest.raises(LedgerError, match="was moved from this file to a server"):
        Ledger.existing(path)
    with pytest.raises(DeclarationError, match="there is a ledger at"):
        move_ledger(Ledger.open(tmp_path / "other.ledger", cap=PureDP(1)), address)
    with pytest.raises(DeclarationError, match="from its file to a server"):
        move_ledger(new, address)


def test_a_move_that_fails_leaves_a_file_that_cannot_be_spent_twice(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Ledger.open(tmp_path / "people.ledger", cap=PureDP(1))
    old.charge(LaplaceEvent(0.1), note="", question="q")
    monkeypatch.setattr("sordino.core.ledger.restoration.read_end", lambda _: None)
    with pytest.raises(DeclarationError, match="nothing was moved"):
        move_ledger(old, address)
    monkeypatch.undo()
    place = locate(address)
    assert isinstance(place, ServerPlace)
    with pytest.raises(LedgerError, match="missing"):
        connect_server(place)
    assert old.remaining() == PureDP(0)
    old.amend(reason="the move failed", cap=PureDP(1))
    assert old.verify().spent == PureDP("0.1")


def test_a_curator_asks_through_a_ledger_on_a_server(address: str) -> None:
    for spent in ("0.1", "0.2"):
        people = curator(budget=sd.PureDP(1), ledger=address)
        release = people.ask(sd.count(), epsilon="0.1")
        assert people.spent == sd.PureDP(spent)
        assert people.release(release.charge) == release


def test_a_server_that_is_no_place_for_a_ledger_is_refused(postgres_server: Server) -> None:
    latin = make(postgres_server, "latin", "ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(LedgerError, match="a primary with fsync = on, and its database in UTF8"):
        Ledger.open(latin, cap=PureDP(1))
