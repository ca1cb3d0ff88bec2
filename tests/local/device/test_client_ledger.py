"""The lifetime ledger of a device: sums are exact, the cap holds across tasks, threads and restarts."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.errors import BudgetExhausted, DeclarationError, LedgerError
from sordino.local.device.client_ledger import ClientCharge, ClientLedger


def charge(task: str = "a", *, epoch: str = "1", epsilon: Fraction | int = 1, manifest: bytes = b"m") -> ClientCharge:
    return ClientCharge("key", task, epoch, manifest, Fraction(epsilon))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device"


def open_ledger(path: Path, cap: Number = 3) -> ClientLedger:
    return ClientLedger.open(path, cap=cap, rng=Rng.seeded(5))


def test_ten_tenths_fill_a_cap_of_one(path: Path) -> None:
    lifetime = open_ledger(path, 1)
    for _ in range(10):
        lifetime.charge(charge(epsilon=Fraction(1, 10)), limit=Fraction(1))
    assert lifetime.spent() == 1
    with pytest.raises(BudgetExhausted):
        lifetime.charge(charge("b", epsilon=Fraction(1, 10**12)), limit=Fraction(1))


def test_the_cap_holds_over_tasks_and_restarts(path: Path) -> None:
    first = open_ledger(path)
    first.charge(charge("a", epsilon=2), limit=Fraction(2))
    first.close()
    again = open_ledger(path)
    with pytest.raises(BudgetExhausted, match="1 of your cap of 3 is left"):
        again.permanent(charge("b", epsilon=2), b"x")
    assert again.find_permanent(charge("b")) is None
    again.permanent(charge("b", epsilon=1), b"x")
    assert again.spent() == 3
    assert first.secret == again.secret
    assert len(again.secret) == 32


def test_a_task_has_a_limit_of_its_own_within_an_epoch(path: Path) -> None:
    lifetime = open_ledger(path, 10)
    for _ in range(2):
        lifetime.charge(charge(), limit=Fraction(2))
    with pytest.raises(BudgetExhausted, match="may reveal epsilon 2 in this epoch, 2 is spent"):
        lifetime.charge(charge(), limit=Fraction(2))
    lifetime.charge(charge(epoch="2"), limit=Fraction(2))
    assert lifetime.spent() == 3
    lifetime.charge(charge(epoch="3"), limit=Fraction(3, 2))
    with pytest.raises(BudgetExhausted, match="1 is spent"):  # half of what it asks for is left
        lifetime.charge(charge(epoch="3"), limit=Fraction(3, 2))
    assert lifetime.spent() == 4


def test_a_permanent_answer_is_charged_once_and_stays_the_first(path: Path) -> None:
    lifetime = open_ledger(path)
    assert lifetime.permanent(charge(epsilon=2), b"first") == b"first"
    assert lifetime.permanent(charge(epsilon=2), b"second") == b"first"
    assert lifetime.spent() == 2
    assert lifetime.find_permanent(charge()) == b"first"


def test_a_changed_manifest_is_refused_within_an_epoch(path: Path) -> None:
    lifetime = open_ledger(path)
    lifetime.permanent(charge(), b"x")
    for act in (
        lambda: lifetime.permanent(charge(manifest=b"n"), b"y"),
        lambda: lifetime.charge(charge(manifest=b"n"), limit=Fraction(9)),
    ):
        with pytest.raises(DeclarationError, match="changed within the epoch"):
            act()
    with pytest.raises(DeclarationError, match="had a permanent answer"):
        lifetime.charge(charge(), limit=Fraction(9))
    assert lifetime.spent() == 1


def test_threads_never_pass_the_cap_together(path: Path) -> None:
    open_ledger(path, 7).close()
    granted: list[int] = []

    def spend(number: int) -> None:
        mine = open_ledger(path, 7)
        for turn in range(4):
            try:
                mine.charge(charge(f"t{number}-{turn}"), limit=Fraction(1))
                granted.append(1)
            except BudgetExhausted:
                pass
        mine.close()

    threads = [threading.Thread(target=spend, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 7
    assert open_ledger(path, 7).spent() == 7


def test_charges_cannot_be_changed_or_removed(path: Path) -> None:
    open_ledger(path).charge(charge(), limit=Fraction(1))
    db = sqlite3.connect(path)
    for statement in ("DELETE FROM charges", "UPDATE charges SET epsilon = '0'"):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    open_ledger(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_cap_or_file_is_refused(path: Path, tmp_path: Path) -> None:
    open_ledger(path).close()
    with pytest.raises(DeclarationError, match="holds a cap of 3, not 4"):
        open_ledger(path, 4)
    other = tmp_path / "notes.txt"
    other.write_text("no ledger of a device, only notes" * 100)
    with pytest.raises(LedgerError, match="not a device's ledger"):
        open_ledger(other)
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("CREATE TABLE t (x)")
    plain.commit()
    with pytest.raises(LedgerError, match="not a device's ledger"):
        open_ledger(tmp_path / "plain.db")
    with pytest.raises(DeclarationError, match="above 0"):
        open_ledger(tmp_path / "new", 0)


def test_a_charge_costs_the_same_work_however_many_came_before(path: Path) -> None:
    lifetime, steps = open_ledger(path, 10**6), [0]

    def counted() -> int:
        steps[0] += 1
        return 0

    def work(task: str) -> int:
        steps[0] = 0
        lifetime._db.set_progress_handler(counted, 1)
        lifetime.charge(charge(task, epsilon=Fraction(1, 7)), limit=Fraction(10**6))
        lifetime._db.set_progress_handler(None, 0)
        return steps[0]

    few = [work("a"), work("b"), work("a")]
    for i in range(150):
        lifetime.charge(charge("a" if i % 2 else f"t{i}", epsilon=Fraction(1, 7)), limit=Fraction(10**6))
    many = [work("a"), work("c")]
    assert max(many) <= 1.5 * max(few)
    assert lifetime.spent() == Fraction(155, 7) == sum(one.epsilon for one in lifetime.charges())


@pytest.mark.parametrize("seed", range(4))
def test_no_older_copy_of_a_device_answers(path: Path, tmp_path: Path, seed: int) -> None:
    """Whatever is charged, copied and put back: what was sent is spent, or the device refuses."""
    draw, sent, copies = random.Random(seed), Fraction(0), []
    for turn in range(25):
        act = draw.choice(["charge", "charge", "copy", "restore"])
        if act == "charge":
            try:
                lifetime = open_ledger(path, 1000)
            except LedgerError:
                continue
            assert lifetime.spent() == sent
            lifetime.charge(charge(f"t{turn}", epsilon=Fraction(draw.randrange(1, 9), 7)), limit=Fraction(9))
            sent = lifetime.spent()
            lifetime.close()
        elif act == "copy" and path.exists():
            copies.append(shutil.copy(path, tmp_path / f"copy-{turn}"))
        elif act == "restore" and copies:
            shutil.copy(draw.choice(copies), path)
    assert sent > 0


def test_a_mark_in_a_place_of_its_own_and_none_on_a_new_machine(path: Path, tmp_path: Path, state: Path) -> None:
    mark = tmp_path / "safe" / "mark"
    lifetime = ClientLedger.open(path, cap=3, rng=Rng.seeded(5), mark=mark)
    lifetime.charge(charge(), limit=Fraction(1))
    lifetime.close()
    assert mark.exists()
    assert not state.exists()
    assert open_ledger(path).spent() == 1
    (tmp_path / "other").mkdir()
    other = ClientLedger.open(tmp_path / "other" / "device", cap=3, rng=Rng.seeded(6), mark=tmp_path / "other" / "mark")
    other.close()
    with pytest.raises(LedgerError, match="another's"):
        ClientLedger.open(tmp_path / "other" / "device", cap=3, rng=Rng.seeded(6), mark=mark)


def test_a_device_file_of_the_former_format_is_refused_in_words(path: Path) -> None:
    open_ledger(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 0")
    db.close()
    with pytest.raises(LedgerError, match="former format"):
        open_ledger(path)
