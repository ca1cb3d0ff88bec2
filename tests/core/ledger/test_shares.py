"""Shares of spenders: a charge counts against the cap and the share, durably, whatever the number of processes."""

import json
import multiprocessing
import random
import shutil
import sqlite3
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from core.ledger.support import spend
from forking import Fork
from sordino.core.accounting.events import GaussianEvent, LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, Sums, canonical
from sordino.core.ledger.store import LedgerFile, Transaction
from sordino.core.loss import ZCDP, ApproxDP, Loss, Number, PureDP
from sordino.errors import (
    BudgetExhausted,
    DeclarationChanged,
    DeclarationError,
    LedgerError,
    UnknownName,
)

FORK = multiprocessing.get_context("fork")


def charge(ledger: Ledger, epsilon: Number, spender: str | None = None) -> None:
    ledger.commit(ledger.charge(LaplaceEvent(epsilon), note="", question="q", spender=spender), "7")


@pytest.fixture
def ledger(path: Path) -> Ledger:
    made = Ledger.open(path, cap=PureDP(1))
    made.declare_share("research", PureDP("0.5"))
    return made


def test_a_charge_counts_against_the_cap_and_the_share(path: Path, ledger: Ledger) -> None:
    charge(ledger, "0.3", "research")
    charge(ledger, "0.1")
    assert ledger.shares()["research"].spent == PureDP("0.3")
    assert ledger.shares()["research"].remaining == PureDP("0.2")
    assert ledger.spent() == PureDP("0.4")
    with pytest.raises(BudgetExhausted, match="the share of 'research' does not cover this") as no:
        charge(ledger, "0.3", "research")
    assert (no.value.asked, no.value.left) == (PureDP("0.3"), PureDP("0.2"))
    charge(ledger, "0.3")
    assert ledger.spent() == PureDP("0.7")
    charge(ledger, "0.2", "research")
    charge(ledger, "0.1")
    with pytest.raises(BudgetExhausted, match="the budget does not cover"):
        charge(ledger, "0.1", "research")
    report = ledger.verify()
    assert report.shares == ledger.shares() == Ledger.existing(path).shares()
    assert "research has spent epsilon 0.5 of a share of epsilon 0.5" in report.describe()
    assert report.to_dict()["shares"] == {"research": {"cap": {"epsilon": "1/2"}, "spent": {"epsilon": "1/2"}}}
    made = Ledger.existing(path).charges()
    assert [c.spender for c in made] == ["research", None, None, "research", None]
    assert [c.share and c.share.spent for c in made] == [PureDP("0.3"), None, None, PureDP("0.5"), None]


def test_the_cap_binds_where_a_share_leaves_more(ledger: Ledger) -> None:
    ledger.declare_share("teaching", PureDP("0.75"))  # shares may sum to more than the cap: they reserve nothing
    charge(ledger, "0.75", "teaching")
    with pytest.raises(BudgetExhausted, match="the budget does not cover"):
        charge(ledger, "0.3", "research")
    assert ledger.shares()["research"].spent == PureDP(0)


@pytest.mark.parametrize(
    ("cap", "share"),
    [
        (PureDP(1), PureDP("1.1")),
        (PureDP(1), ZCDP(1)),
        (ApproxDP(1, "1e-6"), ApproxDP(1, "1e-5")),
        (ZCDP(1), PureDP(1)),
    ],
    ids=str,
)
def test_a_share_is_a_part_of_its_cap(cap: Loss, share: Loss) -> None:
    ledger = Ledger.open(None, cap=cap)
    with pytest.raises(DeclarationError, match=r"larger than the cap|of the cap's kind"):
        ledger.declare_share("research", share)
    assert (ledger.shares(), len(ledger.entries())) == ({}, 1)


def test_a_declared_share_stays_unless_amended(path: Path, ledger: Ledger) -> None:
    ledger.declare_share("research", PureDP("1/2"))
    assert [e.kind for e in ledger.entries()] == ["open", "share"]
    with pytest.raises(DeclarationChanged, match="put it back, or to accept it"):
        ledger.declare_share("research", PureDP("0.6"))
    charge(ledger, "0.4", "research")
    for wrong, message in (
        ({"research": PureDP("0.3")}, "below what was spent"),
        ({"research": PureDP(2)}, "larger than the cap"),
        ({"others": PureDP("0.1")}, "no share of 'others'"),
        ({"research": PureDP("0.5")}, "nothing would change"),
    ):
        with pytest.raises(DeclarationError, match=message):
            ledger.amend(reason="more", shares=wrong)
    ledger.amend(reason="the board agreed", cap=PureDP(3), shares={"research": PureDP(2)})
    ledger.declare_share("research", PureDP(2))
    charge(ledger, "1.6", "research")
    assert ledger.entries()[-3].payload["shares"] == {"research": {"epsilon": "2"}}
    assert Ledger.existing(path).verify().shares["research"].spent == PureDP(2)
    ledger.amend(reason="lower", cap=PureDP(2))  # the cap may fall below a share: it binds by itself
    assert ledger.verify().cap == PureDP(2)
    with pytest.raises(UnknownName, match=r"no share of 'reserch'.*research"):
        charge(ledger, "0.1", "reserch")


def test_a_share_of_rho_outlives_another_target_delta(path: Path) -> None:
    ledger = Ledger.open(path, cap=ZCDP(1, "1e-6"))
    ledger.declare_share("research", ZCDP("0.5"))
    ledger.charge(GaussianEvent(Fraction(1, 4)), note="", question="q", spender="research")
    ledger.amend(reason="another target", cap=ZCDP(1, "1e-9"))
    assert ledger.verify().shares["research"].spent == ZCDP("1/4")
    pair = Ledger.open(path.with_name("pair"), cap=ApproxDP(1, "1e-6"))
    pair.declare_share("research", ApproxDP("0.5", 0))
    with pytest.raises(BudgetExhausted, match="share"):
        pair.charge(
            GaussianEvent(Fraction(1, 100), (Fraction(1, 4), Fraction(1, 10**7))),
            note="",
            question="q",
            spender="research",
        )
    charge(pair, "0.25", "research")
    assert pair.verify().shares["research"].remaining == ApproxDP("0.25", 0)


def test_a_repeated_request_is_charged_once_to_the_share(ledger: Ledger) -> None:
    made = ledger.charge(LaplaceEvent("0.1"), note="", question="q", request="r", spender="research")
    assert isinstance(made, Charge)
    ledger.commit(made, "7")
    ledger.charge(LaplaceEvent("0.1"), note="", question="q", request="r", spender="research")
    assert ledger.shares()["research"].spent == PureDP("0.1") == ledger.spent()


# ---- old ledgers


def test_a_ledger_without_shares_is_written_as_before(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP(1))
    charge(ledger, "0.1")
    db = sqlite3.connect(path)
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names == {"entries", "state", "budget", "charges", "declarations"}
    payload = json.loads(db.execute("SELECT payload FROM entries WHERE seq = 2").fetchone()[0])
    assert set(payload) == {"after", "amounts", "charge", "event", "note", "question", "request"}
    assert set(payload["after"]) == {"ledger", "cap", "spent", "carried", "charges", "tables"}
    db.close()
    ledger.declare_share("research", PureDP("0.5"))  # a ledger that was begun without any takes one
    charge(ledger, "0.4", "research")
    assert Ledger.existing(path).verify().spent == PureDP("0.5")


def test_entries_that_spell_out_every_share_are_read_as_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries once held all shares in place of their hash, and no `share` of their own."""
    plain = Sums.to_dict
    with monkeypatch.context() as patched:
        patched.setattr(Sums, "to_dict", lambda sums, **_: plain(sums, spells=True))
        ledger = Ledger.open(path, cap=PureDP(1))
        for spender in ("research", "press"):
            ledger.declare_share(spender, PureDP("0.5"))
        append = Transaction.append

        def append_without(step: Transaction, kind: str, payload: dict[str, Any], **sums: Any) -> tuple[int, str]:
            return append(step, kind, {name: part for name, part in payload.items() if name != "share"}, **sums)

        patched.setattr(Transaction, "append", append_without)
        charge(ledger, "0.3", "research")
        was = ledger.charges()
        assert set(ledger.entries()[-1].payload["after"]["shares"]) == {"research", "press"}
    ledger = Ledger.existing(path)
    assert ledger.charges() == was
    assert ledger.verify().shares["research"].spent == PureDP("0.3")
    charge(ledger, "0.1", "press")
    assert len(ledger.entries()[-1].payload["after"]["shares"]) == 64
    assert ledger.charges()[0] == was[0]
    assert {who: share.spent for who, share in ledger.verify().shares.items()} == {
        "research": PureDP("0.3"),
        "press": PureDP("0.1"),
    }


def test_an_entry_is_no_longer_with_more_shares(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP(1))
    lengths = []
    for i in range(30):
        ledger.declare_share(f"team{i:02}", PureDP("0.5"))
        charge(ledger, "0.01", f"team{i:02}")
        lengths.append(len(canonical(ledger.entries()[-2].payload)) + len(canonical(ledger.entries()[-1].payload)))
    assert max(lengths) - min(lengths) < 20


# ---- tampering and rollback


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shares SET spent = '0', spent_units = 0",
        "UPDATE shares SET cap = '1', cap_units = 1000000000000000",
        "DELETE FROM shares",
        "DROP TABLE shares",
        "UPDATE shares SET spender = 'others'",
        "INSERT INTO shares VALUES ('others', 'epsilon', '1', '0', 0, 1000000000000000)",
    ],
)
def test_an_edited_share_is_refused_at_the_next_charge(path: Path, ledger: Ledger, statement: str) -> None:
    charge(ledger, "0.4", "research")
    ledger.close()
    edit(path, statement)
    with pytest.raises(LedgerError, match=r"restore a sound copy|damaged"):
        Ledger.existing(path)
    with pytest.raises(LedgerError, match=r"restore a sound copy|damaged"):
        Ledger.open(path, cap=PureDP(1))


@pytest.mark.parametrize("by", ["another connection", "its own connection"])
def test_an_open_ledger_sees_an_edit_at_the_next_charge(path: Path, ledger: Ledger, by: str) -> None:
    """The end of a ledger is read anew as soon as anyone has written to its file."""
    charge(ledger, "0.4", "research")
    forged = "UPDATE shares SET spent = '0', spent_units = 0"
    if by == "another connection":
        edit(path, forged)
    else:
        ledger._writer.read(lambda db: db.execute("COMMIT") and db.execute(forged) and db.execute("BEGIN"))
    for tried in (lambda: charge(ledger, "0.4", "research"), ledger.remaining, ledger.head):
        with pytest.raises(LedgerError, match="restore a sound copy"):
            tried()


def test_what_was_rolled_back_is_not_remembered(path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(db: LedgerFile, sql: str, *values: Any) -> Any:
        if sql == "COMMIT":
            raise sqlite3.OperationalError("no room")
        return sqlite3.Connection.execute(db, sql, *values)

    charge(ledger, "0.1", "research")
    before = ledger.head()
    with monkeypatch.context() as patched:
        patched.setattr(LedgerFile, "execute", fail)
        with pytest.raises(LedgerError):
            charge(ledger, "0.4", "research")
    assert (ledger.head(), ledger.spent()) == (before, PureDP("0.1"))
    charge(ledger, "0.4", "research")
    assert Ledger.existing(path).verify().spent == PureDP("0.5")


def test_two_open_ledgers_see_what_the_other_charged(path: Path, ledger: Ledger) -> None:
    other = Ledger.existing(path)
    for spent in ("0.1", "0.2", "0.3", "0.4"):
        charge(*((ledger,) if float(spent) * 10 % 2 else (other,)), "0.1", "research")
        assert ledger.spent() == other.spent() == PureDP(spent)
        assert ledger.shares()["research"].spent == other.shares()["research"].spent == PureDP(spent)


def test_an_altered_table_of_shares_is_found(path: Path, ledger: Ledger) -> None:
    charge(ledger, "0.4", "research")
    ledger.close()
    edit(path, "CREATE TABLE copy AS SELECT * FROM shares", "DROP TABLE shares", "ALTER TABLE copy RENAME TO shares")
    with pytest.raises(LedgerError, match="altered"):
        Ledger.existing(path).verify()


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_an_older_copy_does_not_refill_a_share(path: Path, ledger: Ledger, tmp_path: Path) -> None:
    ledger.close()
    shutil.copy(path, tmp_path / "copy")
    charge(Ledger.existing(path), "0.4", "research")
    shutil.copy(tmp_path / "copy", path)
    for log in ("-wal", "-shm"):
        path.with_name(path.name + log).unlink(missing_ok=True)
    with pytest.raises(LedgerError, match="rolled back"):
        Ledger.existing(path)


def test_what_a_lost_ledger_spent_counts_against_every_share(path: Path, ledger: Ledger) -> None:
    charge(ledger, "0.3", "research")
    ledger.close()
    for file in path.parent.glob("people.ledger*"):
        file.unlink()
    anew = Ledger.new(path, cap=PureDP(1), reason="the disk was lost")
    for spender, share, left in (("research", "0.5", "0.2"), ("teaching", "0.2", 0)):
        anew.declare_share(spender, PureDP(share))
        assert anew.shares()[spender].remaining == PureDP(left)
    assert anew.verify().spent == PureDP("0.3")


# ---- threads, processes and kill -9


@pytest.mark.parametrize("kind", ["disk", pytest.param("memory", marks=pytest.mark.deep)])
def test_64_threads_pass_neither_the_share_nor_the_cap(path: Path, kind: str) -> None:
    ledger = Ledger.open(path if kind == "disk" else None, cap=PureDP("0.7"))
    granted: dict[str, list[int]] = {"research": [], "teaching": []}
    for name in granted:
        ledger.declare_share(name, PureDP("0.5"))

    def work(name: str) -> None:
        granted[name].append(spend(ledger, "0.003", name))

    threads = [threading.Thread(target=work, args=(name,)) for name in list(granted) * 32]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sums = {name: sum(several) for name, several in granted.items()}
    assert sum(sums.values()) == 233
    assert max(sums.values()) <= 166
    shares = ledger.verify().shares
    assert {name: s.spent for name, s in shares.items()} == {n: PureDP(Fraction(3 * k, 1000)) for n, k in sums.items()}


def _spender(path: Path, name: str, results: "multiprocessing.SimpleQueue[tuple[str, int]]") -> None:
    ledger = Ledger.existing(path)
    ledger.declare_share(name, PureDP("0.4"))  # the first of each name records it
    results.put((name, spend(ledger, "0.007", name)))


@pytest.mark.deep
def test_64_processes_pass_neither_the_share_nor_the_cap(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP("0.7"))
    results = FORK.SimpleQueue()
    names = ["research", "teaching"] * 32
    processes = [FORK.Process(target=_spender, args=(path, name, results)) for name in names]
    for process in processes:
        process.start()
    granted = [results.get() for _ in processes]
    for process in processes:
        process.join()
    sums = {name: sum(count for who, count in granted if who == name) for name in set(names)}
    assert sum(sums.values()) == 100
    assert max(sums.values()) <= 57
    report = ledger.verify()
    assert report.spent == PureDP("0.7")
    assert {n: s.spent for n, s in report.shares.items()} == {n: PureDP(Fraction(7 * k, 1000)) for n, k in sums.items()}
    assert [e.kind for e in ledger.entries()].count("share") == 2


def charge_for_ever(path: Path) -> int:
    """Charge the share and the budget in turn until the process is killed, and say so after each."""
    print("ready", flush=True)
    ledger = Ledger.open(path, cap=PureDP(5))
    ledger.declare_share("research", PureDP(1))
    while True:
        for spender in ("research", None):
            try:
                charge = ledger.charge(LaplaceEvent("0.001"), note="", question="q", spender=spender)
            except BudgetExhausted:
                print("full", flush=True)
                sys.stdin.read()
            assert isinstance(charge, Charge)
            print(charge.id, spender, flush=True)
            ledger.commit(charge, '"an answer"')


def kill_spenders(path: Path, *, kills: int, seed: int) -> None:
    """Kill a process that charges a share and the budget in turn; after each death both sums are those of the charges."""
    draw = random.Random(seed)
    printed: dict[str, str] = {}
    for death in range(kills):
        child = Fork(lambda: charge_for_ever(path))
        head = "".join(child.stdout.readline() for _ in range(1 + death % 2))
        time.sleep(draw.uniform(0, 0.3))
        child.kill()
        for line in (head + child.communicate()[0]).rpartition("\n")[0].splitlines():
            name, _, spender = line.partition(" ")
            printed |= {} if name in ("ready", "full") else {name: spender}
        if not path.exists():
            continue
        with Ledger.existing(path) as ledger:
            report, charges = ledger.verify(), {c.id: str(c.spender) for c in ledger.charges()}
        assert printed.items() <= charges.items()
        assert report.spent == PureDP(Fraction(len(charges), 1000))
        counted = sum(spender == "research" for spender in charges.values())
        assert counted <= 1000
        if report.shares:
            assert report.shares["research"].spent == PureDP(Fraction(counted, 1000))
    assert printed


def test_killed_processes_leave_share_and_budget_in_step(path: Path) -> None:
    kill_spenders(path, kills=2, seed=21)


@pytest.mark.deep
def test_100_killed_processes_leave_share_and_budget_in_step(path: Path) -> None:
    kill_spenders(path, kills=100, seed=22)


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_a_forged_entry_that_charges_no_share_is_found(path: Path, ledger: Ledger) -> None:
    from sordino.core.ledger.records import canonical, entry_hash
    from sordino.core.ledger.replay import replay

    charge(ledger, "0.3", "research")
    db = sqlite3.connect(path)
    rows: list[Any] = list(db.execute("SELECT seq, kind, time, payload, prev, hash FROM entries ORDER BY seq"))
    db.close()
    for forged in ("spender", "spent", "cap", "share", "hash"):
        made, before = [], "0" * 64
        for seq, kind, at, payload, _, _ in rows:
            plain = json.loads(payload)
            if forged == "spender":
                plain.pop("spender", None) if kind == "reserve" else None
            elif kind == "reserve" and forged == "share":
                del plain["share"]
            elif kind == "reserve" and forged == "hash":
                plain["after"]["shares"] = "0" * 64
            elif kind == "reserve":
                plain["share"][forged] = {"epsilon": "1/10" if forged == "spent" else "1"}
            text = canonical(plain)
            digest = entry_hash(seq, kind, at, text, before)
            made.append((seq, kind, at, text, before, digest))
            before = digest
        with pytest.raises(LedgerError, match="cannot follow"):
            replay(made)
    replay(rows)
