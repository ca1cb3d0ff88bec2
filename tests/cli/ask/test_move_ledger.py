"""`sordino ledger move`: a project's ledger goes to a PostgreSQL server, and the project goes on there."""

from __future__ import annotations

from pathlib import Path

from cli.support import Run

ASK = ("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon", "0.5")


def test_a_project_moves_its_ledger_and_asks_on(census: Path, run: Run, postgres_database: str) -> None:
    url = f"{postgres_database}#census"
    assert run("ledger", "move", url).code == 2  # nothing was asked: there is no ledger yet
    assert run(*ASK).code == 0
    moved = run("ledger", "move", url)
    assert moved.code == 0
    assert f'ledger = "{url}"' in moved.out
    old = run(*ASK)
    assert old.code != 0
    file = census / "sordino.toml"
    file.write_text(file.read_text().replace('"census.ledger"', f'"{url}"'))
    assert run(*ASK).code == 0
    assert "epsilon 1 spent of 2" in run("budget").out
    assert "sound: " in run("ledger", "verify").out
    assert url in run("budget", "--format", "json").out
    assert run("ledger", "move", url).code == 2


def test_a_password_in_the_project_is_refused_and_not_shown(census: Path, run: Run) -> None:
    file = census / "sordino.toml"
    file.write_text(file.read_text().replace('"census.ledger"', '"postgresql://me:topsecret@127.0.0.1/x"'))
    for command in (("check",), ("budget",), ASK, ("ledger", "verify")):
        found = run(*command)
        assert found.code == 2
        assert "holds a password" in found.out + found.err
        assert "topsecret" not in found.out + found.err
