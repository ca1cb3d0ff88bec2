"""An engine from outside, no subclass of ours: protected, planned, asked, stored, read again, joined, checked and refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

import sordino as sd
from protecting import protect
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.opening import ENGINES, EngineKind, register_engine
from sordino.ask.engines.sql_text import public_name
from sordino.ask.engines.table_layout import TableLayout
from sordino.core.primitives import Primitives
from sordino.core.source import FORMATS, Format, Source
from sordino.errors import ChargedError, DeclarationError, QuestionRefused, SourceError

SHELVES: dict[str, pa.Table] = {}
DOMAIN = sd.Domain({"who": sd.Identifier(), "sex": sd.Category(["f", "m"]), "age": sd.Integer(0, 120)})


@dataclass(frozen=True)
class Shelf:
    """What a library of somebody else hands on for a table."""

    name: str


class Warehouse:
    """Answers trees over one shelf, in a database of its own."""

    def __init__(self, source: Source | Shelf, *, domain: sd.Domain, unit: Any, public: Any, people: Any) -> None:
        del people
        name = source.path.removeprefix("warehouse:") if isinstance(source, Source) else source.name
        if name not in SHELVES:
            raise SourceError(f"the warehouse has no shelf {name!r}")
        self._connection = duckdb.connect(":memory:")
        self._connection.register("source", SHELVES[name])
        for table, cells in (public or {}).items():
            self._connection.register(public_name(table), cells)
        joined = {table: self._types(public_name(table)) for table in public or {}}
        self._layout = TableLayout(self._types("source"), domain, unit, None, public=joined)

    def _types(self, relation: str) -> dict[str, str]:
        rows = self._connection.execute(f'DESCRIBE "{relation}"').fetchall()
        return {name: kind for name, kind, *_ in rows if not name.startswith("sordino_key_")}

    @property
    def primitives(self) -> Primitives:
        return DuckDBPrimitives(self._layout)

    @property
    def physical(self) -> Mapping[str, str]:
        return self._layout.physical

    @property
    def unreadable_rows(self) -> bool:
        return False

    def open_tables(self, names: Collection[str]) -> Warehouse:
        if names:
            raise SourceError("the warehouse reads one table at a time")
        return self

    def snapshot(self) -> AbstractContextManager[Warehouse]:
        return nullcontext(self)

    def write(self, select: exp.Select) -> Statement:
        return Statement(select.sql(dialect="duckdb"))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        text = select.text if isinstance(select, Statement) else self.write(select).text
        return self._connection.sql(text).to_arrow_table()

    # It draws no samples.
    sample: Any = None

    def close(self) -> None:
        self._connection.close()


WAREHOUSE = EngineKind(Warehouse, takes=lambda frame: isinstance(frame, Shelf))
FORMAT = Format("warehouse", "a shelf of the warehouse", prefixes=("warehouse:",))


@pytest.fixture
def registered(before_tables: None) -> Iterator[None]:
    assert before_tables is None
    SHELVES["people"] = pa.table(
        {"who": [f"p{i // 2}" for i in range(400)], "sex": ["f", "m"] * 200, "age": [i % 90 for i in range(400)]}
    )
    register_engine("warehouse", WAREHOUSE, FORMAT, module="shelving", version="2.1")
    yield
    del ENGINES["warehouse"], FORMATS["warehouse"]
    SHELVES.clear()


@pytest.mark.each(6)
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("source", ["warehouse:people", Shelf("people")])
@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("who", max_rows=2)])
def test_what_it_reads_is_planned_asked_stored_and_read_again(
    source: Any, unit: str | sd.PrivacyUnit, tmp_path: Path
) -> None:
    ledger = tmp_path / "shelf.ledger"
    people = protect(source, DOMAIN, unit=unit, ledger=ledger, budget=sd.PureDP(10**6), name="people")
    plan = people.plan(
        sd.sql("SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age < 45 GROUP BY sex"), epsilon=1e5
    )
    release = people.ask(plan)
    young = {sex: [i % 90 for i in range(400) if i % 90 < 45 and "fm"[i % 2] == sex] for sex in "fm"}
    assert release.table.to_pylist() == [{"sex": sex, "n": len(ages), "s": sum(ages)} for sex, ages in young.items()]
    assert people.ask(sd.median("age"), epsilon=1e4).value == pytest.approx(42, abs=3)
    assert any("shelving 2.1" in note for note in release.notes)
    assert release.charge is not None
    again = protect(source, DOMAIN, unit=unit, ledger=ledger, budget=sd.PureDP(10**6), name="people")
    assert again.release(release.charge).to_dict() == release.to_dict()
    assert again.spent == people.spent


@pytest.mark.usefixtures("registered")
def test_a_project_file_names_it_and_is_checked(tmp_path: Path) -> None:
    project = tmp_path / "sordino.toml"
    project.write_text(
        """
[budgets.all]
cap = {epsilon = 100}
ledger = "all.ledger"

[tables.people]
source = "warehouse:people"
budget = "all"
neighbors = "add_remove"
privacy_unit = "row"

[tables.people.columns]
age = {type = "integer", lower = 0, upper = 50}
"""
    )
    assert sd.check_project(project) == []
    people = sd.connect(project).table("people")
    assert people.ask(sd.count(), epsilon=50).value == pytest.approx(400, abs=3)
    found = sd.check_against_data("warehouse:people", domain=people.domain)
    assert (found.rows, [misfit.key for misfit in found.misfits]) == (400, ["columns.age"])
    project.write_text(project.read_text().replace("warehouse:people", "warehouse:no-such"))
    assert [problem.message for problem in sd.check_project(project)] == ["the warehouse has no shelf 'no-such'"]


@pytest.mark.usefixtures("registered")
def test_public_tables_are_joined_and_read_by_it() -> None:
    names = sd.public(
        pa.table({"sex": ["f", "m"], "word": ["woman", "man"]}),
        key="sex",
        columns=sd.Domain({"sex": sd.Category(["f", "m"]), "word": sd.Category(["man", "woman"])}),
    )
    people = protect("warehouse:people", DOMAIN, public={"names": names}, name="people")
    question = sd.sql("SELECT word, COUNT(*) AS n FROM people JOIN names ON people.sex = names.sex GROUP BY word")
    assert people.ask(question, epsilon=1e5).table.to_pylist() == [
        {"word": "man", "n": 200},
        {"word": "woman", "n": 200},
    ]
    SHELVES["words"] = pa.table({"sex": ["f", "m"], "word": ["woman", "man"]})
    shelved = sd.public("warehouse:words", key="sex", columns=names.columns)
    ours = protect(SHELVES["people"], DOMAIN, public={"names": shelved}, name="people")
    assert ours.ask(question, epsilon=1e5).table.num_rows == 2


@pytest.mark.usefixtures("registered")
def test_two_private_tables_are_not_read_together_unless_it_says_so() -> None:
    unit = sd.PrivacyUnit("who", max_rows=2, of="person")
    both = sd.protect(
        {"people": "warehouse:people", "others": SHELVES["people"]},
        domain={"people": DOMAIN, "others": DOMAIN},
        neighbors="add_remove",
        privacy_unit={"people": unit, "others": unit},
        budget=sd.PureDP(10),
        ledger=None,
    )
    with pytest.raises(QuestionRefused, match="lies elsewhere"):
        both.plan(sd.sql("SELECT COUNT(*) AS n FROM people JOIN others ON people.who = others.who"), epsilon=1)


@pytest.mark.usefixtures("registered")
def test_a_sample_that_it_cannot_draw_is_refused_before_the_charge() -> None:
    people = protect(Shelf("people"), DOMAIN, name="people")
    sampled = "SELECT COUNT(*) FROM people TABLESAMPLE BERNOULLI (50 PERCENT)"
    for asked in (sampled, f"SELECT 2 * n FROM ({sampled.replace('(*)', '(*) AS n', 1)}) AS t"):
        for ask in (people.plan, people.ask):
            with pytest.raises(QuestionRefused, match="draws no samples: ask of all rows"):
                ask(sd.sql(asked), epsilon=1)
    assert people.spent == sd.PureDP(0)
    assert people.ask(sd.sql(sampled.replace("50", "100")), epsilon=1e5).value == pytest.approx(400, abs=1)


@pytest.mark.usefixtures("registered")
def test_its_failure_after_the_charge_shows_nothing_and_is_no_defect_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    people = protect("warehouse:people", DOMAIN)

    def fail(self: Warehouse, select: object) -> pa.Table:
        raise ValueError(f"row p17 is odd: {self}, {select}")

    monkeypatch.setattr(Warehouse, "run", fail)
    with pytest.raises(ChargedError, match="cause is not shown") as failed:
        people.ask(sd.count(), epsilon=1)
    assert "p17" not in str(failed.value)
    assert "defect" not in str(failed.value)
    assert people.spent == sd.PureDP(1)


@pytest.mark.usefixtures("registered")
def test_what_is_taken_or_without_a_name_is_refused() -> None:
    mine: dict[str, Any] = {"module": "shelving", "version": "2.1"}
    for name, formats in (
        ("duckdb", []),
        ("warehouse", []),
        ("other", [Format("csv", "CSV of mine")]),
        ("other", [Format("other", "a table", prefixes=("postgresql://mine/",))]),
        ("other", [Format("other", "a table", prefixes=("s3://mine/",))]),
        ("other", [Format("other", "a file", endings=(".csv",))]),
    ):
        with pytest.raises(DeclarationError, match="choose another"):
            register_engine(name, WAREHOUSE, *formats, **mine)
    with pytest.raises(DeclarationError, match="module and version"):
        register_engine("other", WAREHOUSE)
    assert "other" not in ENGINES
    assert "other" not in FORMATS
    protect(SHELVES["people"], DOMAIN, name="people")
    with pytest.raises(DeclarationError, match="table 'people' is open"):
        register_engine("other", WAREHOUSE, **mine)


def test_without_registering_its_address_is_no_source() -> None:
    with pytest.raises(DeclarationError, match="must end in"):
        protect("warehouse:people", DOMAIN)
    with pytest.raises(DeclarationError, match="a source is a path"):
        protect(Shelf("people"), DOMAIN)
