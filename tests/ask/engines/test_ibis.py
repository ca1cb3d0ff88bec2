"""Tables and expressions of ibis are read as Arrow: the exact answers are those of the same rows in DuckDB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sordino as sd
from ask.engines.sql_texts import print_texts
from ask.engines.support import exact
from ask.engines.test_frames import ASKED, DOMAIN, TABLE, S
from protecting import protect
from sordino import col
from sordino.errors import DeclarationError, SourceError

OLD = S.where(col("gain") > 3).where(col("age") > 30).group_by("occ").agg(sd.count(), sd.mean("age"), sd.sum("gain"))


@pytest.fixture(scope="module")
def ibis() -> Any:
    """The package with its dialects of SQL, imported by the one worker that runs these tests."""
    library = pytest.importorskip("ibis", reason="ibis is missing: pip install 'ibis-framework[duckdb]'")
    pytest.importorskip("ibis.backends.sql.dialects")
    return library


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A DuckDB file of the rows."""
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as made:
        made.register("given", TABLE)
        made.execute("CREATE TABLE people AS SELECT * FROM given")
    return tmp_path / "rows.duckdb"


@pytest.mark.deep
def test_a_table_and_an_expression_give_the_exact_answers_of_their_rows_in_duckdb(ibis: Any, store: Path) -> None:
    whole, old = (exact(store, DOMAIN, asked, relation="people") for asked in (ASKED, OLD))
    people = ibis.duckdb.connect(str(store), read_only=True).table("people")
    assert hasattr(people, "__arrow_c_stream__")
    assert exact(people, DOMAIN, ASKED) == exact(ibis.memtable(TABLE), DOMAIN, ASKED) == whole
    assert whole != old
    assert exact(people.filter(people.age > 30), DOMAIN, ASKED) == old
    assert exact(people.mutate(more=people.age * 2), DOMAIN, ASKED) == whole


@pytest.mark.deep
def test_a_protected_table_is_answered_as_the_same_rows_in_duckdb_are(ibis: Any, store: Path) -> None:
    people = ibis.duckdb.connect(str(store), read_only=True).table("people")
    own, other = protect(people, DOMAIN), protect(store, DOMAIN, relation="people")
    assert own.ask(ASKED, epsilon=1).to_dict()["rows"] == other.ask(ASKED, epsilon=1).to_dict()["rows"]


def test_an_expression_that_fails_says_nothing_of_its_cells(ibis: Any, store: Path) -> None:
    people = ibis.duckdb.connect(str(store), read_only=True).table("people")
    with pytest.raises(SourceError) as failed:
        protect(people.mutate(age=people.occ.cast("int64")), DOMAIN)
    assert "Sales" not in repr(failed.value)
    assert failed.value.__cause__ is failed.value.__context__ is None
    with pytest.raises(DeclarationError, match="no such column"):
        protect(people.drop("gain"), DOMAIN)


@pytest.mark.usefixtures("ibis")
def test_sql_is_read_and_written_alike_where_ibis_has_changed_sqlglot_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Sordino came first in this process, and comes after it in the other."""
    print_texts(60)
    after = capsys.readouterr().out.splitlines()
    lines = "import ibis.backends.sql.dialects; from ask.engines.sql_texts import print_texts; print_texts(60)"
    run = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert any("POWER(" in line for line in after)  # which ibis writes otherwise
    assert run.stdout.splitlines() == after


@pytest.mark.deep
@pytest.mark.usefixtures("ibis")
@pytest.mark.parametrize("each", [60, 1])
def test_sql_is_read_and_written_alike_wherever_ibis_has_changed_sqlglot(each: int) -> None:
    changed, ours = "import ibis.backends.sql.dialects", "from ask.engines.sql_texts import print_texts"
    never, before, after = (
        subprocess.run(
            [sys.executable, "-c", f"{lines}; print_texts({each})"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout.splitlines()
        for lines in (ours, f"{changed}; {ours}", f"{ours}; {changed}")
    )
    assert any("POWER(" in line for line in never)  # which ibis writes otherwise
    assert never == before == after
