"""Keys that are made of many parts take no more memory than others: a look-up among them is planned once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from places import ROOT


@pytest.mark.deep
def test_a_median_by_two_keys_of_a_date_fits_in_two_gigabytes(tmp_path: Path) -> None:
    """In a process of its own, as memory that others took would count: 15 GB were taken, for 600 rows."""
    program = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        import sordino as sd
        from answers.town_tables import open_tables
        from places import peak_memory
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        connection, _ = open_tables("csv", Path(sys.argv[1]), seed=600, rows=600)
        text = (
            "SELECT DAYOFWEEK(joined) AS d, DATE_TRUNC('month', joined) AS m, QUANTILE_CONT(NULLIF(level, 3), 0.5) AS q "
            "FROM people WHERE member GROUP BY 1, 2"
        )
        assert len(connection.ask(sd.sql(text), epsilon=2).rows) > 50
        assert peak_memory() < 2 * 2**20
    """)
    command = [sys.executable, "-c", program, str(tmp_path), str(ROOT / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
