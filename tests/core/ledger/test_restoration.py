"""Going on from an older copy: whatever was lost, what is spent is never less than what was, and no charge is answered twice."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.high_water_mark import HighWaterMark, marks_directory
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, StoredAnswer
from sordino.core.ledger.restoration import restore_ledger
from sordino.core.loss import PureDP
from sordino.errors import BudgetExhausted, ChargedError, DeclarationError, LedgerError


def back_up(path: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def lose(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def ask(ledger: Ledger, epsilon: str, request: str, spender: str | None = None) -> Charge | StoredAnswer:
    event = LaplaceEvent(epsilon)
    return ledger.charge(event, note="", question=request, request=request, spender=spender)


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.each(6)
@pytest.mark.parametrize("seed", range(6))
def test_what_was_spent_never_returns(seed: int, path: Path, tmp_path: Path) -> None:
    """Random walks of charges, shares, caps, copies, losses and restorations; the truth is kept beside them."""
    draw, names, copies = random.Random(seed), itertools.count(), list[Path]()
    cap = PureDP(100)
    true_spent = 0
    true_shares: dict[str, int] = {}
    Ledger.open(path, cap=cap).close()
    for turn in range(60):
        act = draw.choice(["ask", "ask", "ask", "share", "cap", "copy", "lose", "put back"])
        if act in ("lose", "put back") and copies:
            lose(path)
            backup = draw.choice(copies)
            if act == "put back":
                shutil.copy(backup, path)
            with suppress(DeclarationError):  # it was the newest: nothing is lost
                restore_ledger(path, reason="lost", backup=backup if act == "lose" else None).close()
            with Ledger.existing(path) as ledger:
                report = ledger.verify()
                assert report.spent.amounts()["epsilon"] >= true_spent
                for who, least in true_shares.items():
                    if who in report.shares:
                        share = report.shares[who]
                        assert share.spent.amounts()["epsilon"] >= min(Fraction(least), share.cap.amounts()["epsilon"])
            continue
        with Ledger.existing(path) as ledger:
            if act == "copy":
                copies.append(tmp_path / f"copy{turn}.ledger")
                back_up(path, copies[-1])
            elif act == "cap":
                ledger.amend(reason="more", cap=PureDP(ledger.cap.amounts()["epsilon"] + 5))
            elif act == "share" and len(ledger.shares()) < 3:
                who = f"s{next(names)}"
                ledger.declare_share(who, PureDP(20))
            else:
                spender = draw.choice([None, *ledger.shares()])
                try:
                    charge = ask(ledger, "1", f"r{next(names)}", spender)
                except BudgetExhausted:
                    continue
                true_spent += 1
                if spender is not None:
                    true_shares[spender] = true_shares.get(spender, 0) + 1
                assert isinstance(charge, Charge)
                if draw.random() < 0.7:
                    ledger.commit(charge, "1")


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.parametrize("state", ["in doubt", "resumable"])
def test_no_charge_is_answered_a_second_time(state: str, path: Path, tmp_path: Path) -> None:
    """A charge that had no answer in the copy was answered in the entries that are lost: its request is never resumed."""
    backup = tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        charge = ask(ledger, "0.1", "r")
        assert isinstance(charge, Charge)
        if state == "resumable":
            ledger.fail(charge, "no descriptor was left", resumable=True)
        back_up(path, backup)
        ledger.commit(charge, "17")
    lose(path)
    with restore_ledger(path, reason="lost", backup=backup) as ledger:
        with pytest.raises(ChargedError, match="lost with later entries") as refused:
            ask(ledger, "0.1", "r")
        assert type(refused.value) is ChargedError  # and not in doubt
        assert not refused.value.resumable
        assert ledger.verify().failed == 1


def test_the_newest_file_that_turns_up_is_refused(path: Path, tmp_path: Path) -> None:
    newest, backup = tmp_path / "newest.ledger", tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        back_up(path, backup)
        for request in ("a", "b", "c"):
            ask(ledger, "0.1", request)
    back_up(path, newest)
    lose(path)
    restore_ledger(path, reason="lost", backup=backup).close()
    for copy in (newest, backup):
        lose(path)
        shutil.copy(copy, path)
        with pytest.raises(LedgerError, match="ledger restore --reason"):
            Ledger.existing(path)


def test_without_a_mark_nothing_is_guessed(path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        back_up(path, backup)
        ask(ledger, "0.1", "a")
    lose(path)
    for mark in marks_directory().iterdir():
        mark.unlink()
    with pytest.raises(LedgerError, match="no high-water mark"):
        restore_ledger(path, reason="lost", backup=backup)
    assert not path.exists()


def test_what_another_user_charged_to_the_copy_comes_on_top(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks of two users differ: one saw 0.5 before the loss; the other charged the copy unaware."""
    backup = tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        ask(ledger, "0.1", "a")
        back_up(path, backup)
        ask(ledger, "0.4", "b")
    state = os.environ["SORDINO_STATE"]
    lose(path)
    shutil.copy(backup, path)
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "other"))
    with Ledger.existing(path) as ledger:
        ask(ledger, "0.2", "c")
    monkeypatch.setenv("SORDINO_STATE", state)
    with restore_ledger(path, reason="lost") as ledger:
        assert ledger.verify().spent == PureDP("0.7")


def test_a_crash_before_the_mark_counts_nothing_twice(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        back_up(path, backup)
        ask(ledger, "0.4", "b")
    lose(path)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HighWaterMark, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            restore_ledger(path, reason="lost", backup=backup)
    with restore_ledger(path, reason="lost") as ledger:
        report = ledger.verify()
        assert (report.spent, report.restored) == (PureDP("0.4"), 1)


def test_a_ledger_begun_after_it_is_not_forgotten(path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.ledger"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        back_up(path, backup)
        ask(ledger, "0.4", "b")
    lose(path)
    with Ledger.new(path, cap=PureDP(1), reason="lost") as ledger:
        ask(ledger, "0.1", "c")
    lose(path)
    with pytest.raises(LedgerError, match="another ledger"):
        restore_ledger(path, reason="found", backup=backup)


def test_a_server_put_back_to_an_older_state_goes_on(postgres_database: str) -> None:
    place = f"{postgres_database}#people"
    with Ledger.open(place, cap=PureDP(1)) as ledger:
        ask(ledger, "0.1", "a")
        tables = ("entries", "state", "budget", "charges", "declarations", "shares")
        db = ledger._writer._connection()
        kept = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        ask(ledger, "0.3", "b")
        db.execute("ALTER TABLE entries DISABLE TRIGGER ALL")
        for name, rows in kept.items():
            db.execute(f"DELETE FROM {name}")
            for row in rows:
                db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        db.execute("ALTER TABLE entries ENABLE TRIGGER ALL")
    with pytest.raises(LedgerError, match="ledger restore --reason"):
        Ledger.existing(place)
    with restore_ledger(place, reason="the server's disk was lost") as ledger:
        assert ledger.verify().spent == PureDP("0.4")
        ask(ledger, "0.6", "c")
