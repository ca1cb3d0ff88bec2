"""Moments of a person: the first and the last of all of a unit's rows, by a stated zone's clock."""

from __future__ import annotations

import datetime

import pyarrow as pa

import sordino as sd

START = datetime.datetime(2024, 3, 30, 22, 0)
TABLE = pa.table(
    {
        "person": [f"p{i // 4}" for i in range(400)],
        "at": [START + datetime.timedelta(hours=i % 60) for i in range(396)] + [None] * 4,
    }
)


def test_moments_of_a_person_are_answered_across_a_change_of_clocks() -> None:
    domain = sd.Domain(
        {
            "person": sd.Identifier(),
            "at": sd.DateTime("2024-03-30", "2024-04-02", zone="Europe/Berlin", resolution="minute"),
        }
    )
    table = sd.protect(
        TABLE,
        domain=domain,
        neighbors="replace",
        privacy_unit=sd.PrivacyUnit("person", max_rows=1),
        budget=sd.PureDP(10**6),
        ledger=None,
    )
    people = "(SELECT person, MIN(at) AS first, MAX(at) AS last FROM data GROUP BY person)"
    rows = table.ask(sd.sql(f"SELECT MEDIAN(first) AS m, COUNT(first) AS n FROM {people}"), epsilon=10_000).rows
    firsts = sorted(t for t in TABLE["at"].to_pylist()[::4] if t is not None)
    assert rows[0]["n"] == 99
    found = rows[0]["m"]
    assert abs(found.replace(tzinfo=None) - firsts[49]) <= datetime.timedelta(hours=4)
    assert found.tzinfo is not None
    late = table.ask(sd.sql(f"SELECT COUNT(*) AS n FROM {people} WHERE last >= '2024-03-31T12:00'"), epsilon=10_000)
    noon = datetime.datetime(2024, 3, 31, 12)
    lasts = [t for t in TABLE["at"].to_pylist()[3::4] if t is not None]
    assert late.value == sum(t >= noon for t in lasts)
