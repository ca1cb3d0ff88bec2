"""What all tests share: all that take the Java machine go to one worker, and drawn texts have the characters of UTF-8."""

from __future__ import annotations

import pytest
from hypothesis.internal.charmap import intervals_from_codec


def test_every_test_that_takes_the_java_machine_is_in_its_share(request: pytest.FixtureRequest) -> None:
    """Of all tests of this run, by what pytest itself finds that they take."""
    hooks = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "name_share"))
    taking = {
        item.nodeid
        for item in request.session.items
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames
    }
    assert [name for name in sorted(taking) if hooks.name_share(name) != "spark"] == []
    files = (
        "tests/ask/engines/test_spark.py",
        "tests/ask/queries/adaptive/test_round_values.py",
        "tests/test_shares.py",
    )
    assert [hooks.name_share(f"{file}::test") for file in files] == ["spark", "spark", files[-1]]


def test_drawn_texts_have_every_character_of_utf8_and_no_other() -> None:
    """As tests/conftest.py writes them down for hypothesis."""
    characters, lossy = intervals_from_codec("utf-8")
    assert list(characters.intervals) == [(0, 0xD7FF), (0xE000, 0x10FFFF)]
    assert len(lossy) == 0
    for code in (0xD800, 0xDFFF):
        with pytest.raises(UnicodeEncodeError):
            chr(code).encode("utf-8")
    assert all(chr(code).encode("utf-8").decode("utf-8") == chr(code) for code in (0xD7FF, 0xE000, 0x10FFFF))
