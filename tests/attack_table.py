"""Which tests try which published attack: the marker `attack`, and the table that `make attacks` prints at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

Row = tuple[str, str, str, str, str]


def label_attacks(items: Iterable[pytest.Item]) -> None:
    """Let the reports of marked tests say which attack they tried: they come home from other processes, markers do not."""
    for item in items:
        mark = item.get_closest_marker("attack")
        if mark is not None:
            item.user_properties += [("attack", mark.args[0]), ("source", mark.kwargs.get("source", ""))]


def summarize(reports: Iterable[tuple[str, pytest.TestReport]]) -> list[Row]:
    """Return a row for each attack of the reports: its name, source, what was tried, whether it held, and where."""
    outcomes: dict[str, list[str]] = defaultdict(list)
    sources: dict[str, str] = {}
    figures: dict[str, list[str]] = defaultdict(list)
    places: dict[str, list[str]] = defaultdict(list)
    for outcome, report in reports:
        properties = dict(report.user_properties)
        name = properties.get("attack")
        if name is None or (report.when != "call" and outcome == "passed"):
            continue
        outcomes[str(name)].append(outcome)
        sources[str(name)] = sources.get(str(name)) or str(properties.get("source", ""))
        figures[str(name)] += [str(text) for key, text in report.user_properties if key == "tried"]
        place = report.nodeid.partition("::")[0].removeprefix("tests/")
        if place not in places[str(name)]:
            places[str(name)].append(place)
    return [
        (name, sources[name], _tried(found, figures[name]), _verdict(found), ", ".join(places[name]))
        for name, found in sorted(outcomes.items())
    ]


def _tried(outcomes: Sequence[str], figures: Sequence[str]) -> str:
    cases = f"{len(outcomes)} case{'s' * (len(outcomes) != 1)}"
    return "; ".join([cases, *dict.fromkeys(figures)])


def _verdict(outcomes: Sequence[str]) -> str:
    if any(outcome in ("failed", "error") for outcome in outcomes):
        return "BROKE"
    return "held" if "passed" in outcomes else "not tried"
