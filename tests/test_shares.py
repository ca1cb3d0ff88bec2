"""The shares in which tests go to workers: all that take the Java machine are one, so that one worker starts one machine."""

from __future__ import annotations

import pytest


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
