"""The day of a moment with a time zone is its day in UTC, whatever the machine's own time zone is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import datetime, pyarrow as pa, sordino as sd
moment = datetime.datetime(2020, 1, 1, 23, 0, tzinfo=datetime.timezone.utc)
days = sd.Domain({"t": sd.Date(datetime.date(2019, 1, 1), datetime.date(2021, 1, 1))})
held = sd.protect(pa.table({"t": [moment] * 100}), domain=days, neighbors="add_remove", privacy_unit="row",
                  budget=sd.PureDP(1000), ledger=None)
print(held.ask(sd.sql("SELECT COUNT(*) FROM data WHERE t = '2020-01-01'"), epsilon=100).value)
"""


@pytest.mark.each(3)
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def test_the_day_of_a_moment_is_that_of_utc(zone: str) -> None:
    environment = {**os.environ, "TZ": zone}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "100"
