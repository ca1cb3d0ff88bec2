"""A format of files from outside: protected, planned, asked, stored, read again, replaced and refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.engines.frames import LOADERS, register_format
from sordino.core.source import FORMATS, Format, Source, open_unpacked
from sordino.errors import DeclarationError, SourceError

DOMAIN = sd.Domain({"age": sd.Integer(0, 120), "sex": sd.Category(["f", "m"])})
COLUMNS = Format("fixed", "a file of fixed columns", endings=(".fwf",), of_lines=True)
MINE: dict[str, Any] = {"module": "columnar", "version": "0.3"}
LINES = [f"{i % 90:3}{'fm'[i % 2]}" for i in range(400)]


def load_columns(source: Source, domain: sd.Domain) -> list[dict[str, str]]:
    """Return a row for each line: three characters of age, one of sex."""
    del domain
    with open_unpacked(source.place) as file:
        return [{"age": text[:3], "sex": text[3:4]} for text in file.read().decode().splitlines()]


@pytest.fixture
def registered(before_tables: None) -> Iterator[None]:
    assert before_tables is None
    register_format(COLUMNS, load_columns, **MINE)
    yield
    del FORMATS["fixed"], LOADERS["fixed"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "people.fwf"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.mark.usefixtures("registered")
def test_what_it_reads_is_planned_asked_stored_and_read_again(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.fwf.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    for path in (file, packed):
        ledger = tmp_path / f"{path.name}.ledger"
        people = protect(path, DOMAIN, ledger=ledger, name="people")
        release = people.ask(
            people.plan(sd.sql("SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY sex"), epsilon=1e5)
        )
        sums = {sex: sum(i % 90 for i in range(400) if "fm"[i % 2] == sex) for sex in "fm"}
        assert release.table.to_pylist() == [{"sex": sex, "n": 200, "s": s} for sex, s in sums.items()]
        assert any("columnar 0.3" in note for note in release.notes)
        assert release.charge is not None
        again = protect(path, DOMAIN, ledger=ledger, name="people")
        assert again.release(release.charge).to_dict() == release.to_dict()


@pytest.mark.usefixtures("registered")
def test_a_file_that_is_replaced_is_read_anew(file: Path) -> None:
    people = protect(file, DOMAIN)
    assert people.ask(sd.count(), epsilon=1e5).value == 400
    other = file.with_suffix(".new")
    other.write_text("\n".join(LINES[:300]) + "\n")
    other.replace(file)
    assert people.ask(sd.count(), epsilon=1e5).value == 300


@pytest.mark.usefixtures("registered")
def test_one_odd_cell_changes_no_other(file: Path) -> None:
    """Cells are read one by one as declared, and lists of dicts have no types to be inferred."""
    file.write_text("\n".join([*LINES, "oddx", "1.5f", ""]) + "\n")
    people = protect(file, DOMAIN, name="data")
    question = sd.sql("SELECT COUNT(*) AS n, COUNT(age) AS ages, SUM(age) AS s FROM data")
    total = sum(i % 90 for i in range(400))
    assert people.ask(question, epsilon=1e6).table.to_pylist() == [{"n": 403, "ages": 400, "s": total}]
    counts = sd.check_against_data(str(file), domain=DOMAIN)
    assert counts.rows == 403


@pytest.mark.usefixtures("registered")
def test_a_project_file_names_it_by_its_ending_or_its_format(file: Path) -> None:
    for stated in ('source = "people.fwf"', 'source = "people.txt"\nformat = "fixed"'):
        project = file.with_name("sordino.toml")
        file.with_suffix(".txt").write_text(file.read_text())
        project.write_text(
            f"""
[budgets.all]
cap = {{epsilon = 100}}
ledger = "all.ledger"

[tables.people]
{stated}
budget = "all"
neighbors = "add_remove"
privacy_unit = "row"

[tables.people.columns]
age = {{type = "integer", lower = 0, upper = 120}}
"""
        )
        assert sd.check_project(project) == []
        assert sd.connect(project).table("people").ask(sd.count(), epsilon=20).value == pytest.approx(400, abs=3)
    project.write_text(project.read_text().replace('"fixed"', '"fixt"'))
    (problem,) = sd.check_project(project)
    assert (problem.key, "did you mean 'fixed'?" in problem.message) == ("tables.people.format", True)


@pytest.mark.usefixtures("registered")
def test_what_its_reader_says_of_a_file_is_not_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Source, domain: sd.Domain) -> list[Any]:
        raise ValueError(f"cell p17 of {source} is odd for {domain}")

    def lack(source: Source, domain: sd.Domain) -> pa.Table:
        del source, domain
        return pa.table({"age": [1]})

    monkeypatch.setitem(LOADERS, "fixed", fail)
    with pytest.raises(SourceError, match="cannot be opened as a file of fixed columns") as failed:
        protect(file, DOMAIN)
    assert "p17" not in str(failed.value)
    monkeypatch.setitem(LOADERS, "fixed", lack)
    with pytest.raises(DeclarationError, match="'sex' is declared but the source has no such column"):
        protect(file, DOMAIN)


@pytest.mark.usefixtures("registered")
def test_what_is_taken_or_without_a_name_is_refused(file: Path) -> None:
    for kept in (COLUMNS, Format("csv", "CSV of mine"), Format("other", "a file", endings=(".parquet",))):
        with pytest.raises(DeclarationError, match="choose another"):
            register_format(kept, load_columns, **MINE)
    with pytest.raises(DeclarationError, match="module and version"):
        register_format(Format("other", "a file", endings=(".other",)), load_columns)
    protect(file, DOMAIN, name="people")
    with pytest.raises(DeclarationError, match="table 'people' is open"):
        register_format(Format("other", "a file", endings=(".other",)), load_columns, **MINE)


def test_without_registering_its_ending_is_no_source(file: Path) -> None:
    with pytest.raises(DeclarationError, match="must end in"):
        protect(file, DOMAIN)
