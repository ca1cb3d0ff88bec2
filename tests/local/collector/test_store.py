"""The store in SQLite and in PostgreSQL: the same behavior, whole or not at all, tokens hashed, other files left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from collecting import LABELS, reports_of, running, task_of, with_tokens
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local.collector.report_store import Addition, Chunk, Store, token_hash
from sordino.local.collector.task_state import TaskState


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'reports.db'}"
    return str(request.getfixturevalue("postgres_database"))


def _chunk(number: int) -> Chunk:
    return Chunk(bytes([number]) * 16, bytes([number]))


@pytest.mark.deep
def test_what_is_appended_comes_back_with_its_counts(url: str) -> None:
    store = Store.open(url)
    first, second = store.add_task("a", "manifest a", "0"), store.add_task("b", "manifest b", "0")
    store.append([Addition(first.number, _chunk(1), "1"), Addition(second.number, _chunk(2), "1")])
    store.append([Addition(first.number, _chunk(3), "2")])
    store.close()
    again = Store.open(url)
    assert list(again.chunks(first.number)) == [_chunk(1), _chunk(3)]
    assert list(again.chunks(second.number)) == [_chunk(2)]
    assert [(t.task, t.counts, t.closed) for t in again.tasks()] == [("a", "2", False), ("b", "1", False)]
    assert again.add_task("a", "manifest a", "0") == again.task("a")
    again.close()


def test_an_addition_to_a_closed_task_leaves_nothing_of_its_commit(url: str) -> None:
    store = Store.open(url)
    first, second = store.add_task("a", "a", "0"), store.add_task("b", "b", "0")
    store.close_task("b")
    with pytest.raises(DeclarationError, match="closed"):
        store.append([Addition(first.number, _chunk(1), "1"), Addition(second.number, _chunk(2), "1")])
    assert list(store.chunks(first.number)) == []
    assert store.task("a").counts == "0"
    assert store.list_closed() == {second.number}
    store.close()


def test_tokens_are_kept_as_hashes(url: str) -> None:
    store = Store.open(url)
    store.add_tokens("respondent", ["secret one", "secret two"])
    first = store.tokens(after=0)
    store.add_tokens("admin", ["secret three"])
    assert [(role, digest) for _, role, digest in first] == [
        ("respondent", token_hash("secret one")),
        ("respondent", token_hash("secret two")),
    ]
    assert all(len(digest) == 32 and b"secret" not in digest for _, _, digest in first)
    assert [role for _, role, _ in store.tokens(after=first[-1][0])] == ["admin"]
    with pytest.raises(DeclarationError, match="cannot be written"):
        store.add_tokens("king", ["x"])
    store.close()


def test_one_collector_holds_a_store(url: str) -> None:
    first, second = Store.open(url), Store.open(url)
    first.hold()
    with pytest.raises(DeclarationError, match="another collector"):
        second.hold()
    first.close()
    second.hold()
    second.close()


def test_unknown_tasks_and_changed_manifests_are_refused(url: str) -> None:
    store = Store.open(url)
    with pytest.raises(DeclarationError, match="no task 'a'; it holds: none"):
        store.task("a")
    store.add_task("a", "manifest", "0")
    with pytest.raises(DeclarationError, match="another manifest"):
        store.add_task("a", "changed", "0")
    with pytest.raises(DeclarationError, match="no task 'b'; it holds: 'a'"):
        store.close_task("b")
    store.close()


@pytest.mark.deep
def test_a_collector_serves_from_either_store(url: str) -> None:
    task, rng = task_of(), Rng.seeded(3)
    with_tokens(url)
    batch = reports_of(task, [LABELS[n % 4] for n in range(500)], rng)
    for turn in range(2):
        with running(url, [task]) as service:
            assert service.post(batch).status_code == (409 if turn else 200)
            assert service.estimate()["reports"] == 500
            assert len(service.get("/v1/tasks/drinks/export").content) == 48 + 500


def test_a_store_that_fails_refuses_and_recovers_without_counting_twice(tmp_path: Path) -> None:
    """Another program holds the file's write lock for longer than the collector waits, as a full disk would."""
    store = with_tokens(str(tmp_path / "reports.db"))
    task, rng = task_of(), Rng.seeded(4)
    bodies = [reports_of(task, ["tea"], rng) for _ in range(6)]
    with running(store, [task]) as service:
        assert service.post(bodies[0]).status_code == 200
        breaker = sqlite3.connect(store, isolation_level=None)
        breaker.execute("CREATE TRIGGER broken BEFORE INSERT ON chunks BEGIN SELECT RAISE(ABORT, 'disk'); END")
        answers = [service.post(body) for body in bodies[1:4]]
        assert {a.status_code for a in answers} == {503}
        assert all("disk" not in a.text for a in answers)
        breaker.execute("DROP TRIGGER broken")
        assert [service.post(body).status_code for body in bodies] == [409, 200, 200, 200, 200, 200]
        assert service.estimate()["reports"] == 6


def test_a_lost_server_refuses_and_comes_back(postgres_database: str) -> None:
    import psycopg

    url, _, name = postgres_database.rpartition("/")
    with psycopg.connect(f"{url}/postgres", autocommit=True) as db:
        task, rng, url = task_of(), Rng.seeded(5), postgres_database
        bodies = [reports_of(task, ["tea"], rng) for _ in range(4)]
        with_tokens(url)
        with running(url, [task]) as service:
            assert service.post(bodies[0]).status_code == 200
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            first = service.post(bodies[1]).status_code
            assert first in (200, 503)
            codes = [service.post(body).status_code for body in bodies]
            assert codes == [409, 409 if first == 200 else 200, 200, 200]
            assert service.estimate()["reports"] == 4


def test_posts_that_wait_are_stored_when_the_service_ends(tmp_path: Path) -> None:
    store = with_tokens(str(tmp_path / "reports.db"))
    task, rng = task_of(), Rng.seeded(6)
    codes: list[int] = []
    # Posts that wait have a client that outlives the service's: one that is closed under them leaves them to its timeout.
    with httpx.Client(timeout=60) as client:
        with running(store, [task]) as service:
            sender = replace(service, client=client)
            bodies = [reports_of(task, ["tea"], rng) for _ in range(20)]

            def send(body: bytes) -> None:
                try:
                    codes.append(sender.post(body).status_code)
                except httpx.HTTPError:
                    codes.append(0)

            threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join()
    stored = sum(len(chunk.ids) // 16 for chunk in Store.open(store).chunks(1))
    assert stored >= codes.count(200)
    assert set(codes) <= {200, 0, 503}


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("only notes " * 500)
    with pytest.raises(DeclarationError, match="is not a store"):
        Store.open(str(text))
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.commit()
    with pytest.raises(DeclarationError, match="not a collector's store"):
        Store.open(str(tmp_path / "other.db"))
    with pytest.raises(DeclarationError, match="directory is missing"):
        Store.open(str(tmp_path / "no" / "store.db"))
    with pytest.raises(DeclarationError, match="path, sqlite"):
        Store.open("mysql://a@b/c")
    with pytest.raises(DeclarationError, match="cannot be reached"):
        Store.open("postgresql://sordino@127.0.0.1:1/none")


def test_counts_that_are_not_those_of_the_reports_are_noticed(tmp_path: Path) -> None:
    store = with_tokens(str(tmp_path / "reports.db"))
    task = task_of()
    with running(store, [task]) as service:
        service.post(reports_of(task, ["tea"] * 3, Rng.seeded(1)))
    sqlite3.connect(store, isolation_level=None).execute("DELETE FROM chunks")
    opened = Store.open(store)
    state = TaskState(task, opened.task("drinks"))
    with pytest.raises(DeclarationError, match="has 0 reports, but its counts say 3"):
        state.load(opened)


def test_the_store_is_for_its_owner_only(tmp_path: Path) -> None:
    Store.open(str(tmp_path / "reports.db")).close()
    assert (tmp_path / "reports.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.deep
def test_a_program_that_looks_and_leaves_takes_no_log_away(tmp_path: Path) -> None:
    """SQLite's locks fall when a process closes any descriptor of the file: then another one removes the log in use."""
    path = str(tmp_path / "reports.db")
    first, second = Store.open(path), Store.open(path)
    task = first.add_task("a", "a", "0")
    script = (
        "import sys\nfrom sordino.local.collector.report_store import Store\n"
        "s = Store.open(sys.argv[1]); s.tasks(); s.close()"
    )
    for number in range(3):
        subprocess.run([sys.executable, "-c", script, path], check=True)
        second.append([Addition(task.number, _chunk(number), str(number))])
        Store.open(path).close()
    beside = (
        "import sys\nfrom sordino.local.collector.report_store import Store\n"
        "print(len(list(Store.open(sys.argv[1]).chunks(1))))"
    )
    done = subprocess.run([sys.executable, "-c", beside, path], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "3"
