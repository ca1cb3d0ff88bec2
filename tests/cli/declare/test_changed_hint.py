"""A declaration that changed: the hint names a way that works, for what may be amended and for what may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ASK = ("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon", "0.1")


@pytest.mark.parametrize(
    ("old", "new", "amendable"),
    [
        ('"add_remove"', '"replace"', False),
        ('privacy_unit = "row"', 'privacy_unit = {column = "household", max_rows = 6}', False),
        ("upper = 90", "upper = 99", True),
    ],
)
def test_the_hint_works(old: str, new: str, amendable: bool, census: Path, run: Callable[..., Any]) -> None:
    assert run(*_ASK).code == 0
    file = census / "sordino.toml"
    text = file.read_text().replace(old, new)
    file.write_text(text)
    refused = run(*_ASK)
    assert refused.code == 2
    assert ("ledger amend" in refused.err) is amendable
    if amendable:
        assert run("ledger", "amend", "--reason", "why").code == 0
    else:
        assert run("ledger", "amend", "--reason", "why").code == 2
        assert "new ledger" in refused.err
        file.write_text(text.replace("census.ledger", "second.ledger"))
    assert run(*_ASK).code == 0
