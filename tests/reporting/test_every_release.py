"""Every kind of release that a curator can make has a picture, a page, JSON, a file and a table in a notebook."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import sordino as sd
from markup import Page
from places import ROOT
from sordino.cli.ask.render_release import encode_release as file_of
from sordino.cli.main import main
from sordino.cli.shared.options import AnswerFormat
from sordino.core.noise.rng import Rng
from sordino.core.release import show_number
from sordino.datasets import write_census_project
from sordino.reporting.picture import encode_picture

_LOSS: dict[str, Any] = {"epsilon": "0.5", "delta": "1e-9"}


def _cross(table: Any) -> Any:
    with table.above_threshold(count=1, epsilon=1) as session:
        session.above(sd.count(), threshold=10)
    return table.releases()[-1]


def _fit(table: Any) -> Any:
    model = sd.synth.fit(table, columns=["age", "sex"], **_LOSS)
    return table.release(model.facts["charge"])


def _ask(*question: Any) -> Callable[[Any], Any]:
    return lambda table: table.ask(question[0] if len(question) == 1 else list(question), **_LOSS)


KINDS: dict[str, Callable[[Any], Any]] = {
    "count": _ask(sd.count()),
    "several": _ask(sd.count(), sd.mean("age"), sd.sum("gain"), sd.std("age"), sd.variance("age")),
    "two of two columns": _ask(sd.covariance("age", "hours_per_week"), sd.correlation("age", "hours_per_week")),
    "median": _ask(sd.median("age")),
    "quantiles": _ask(sd.quantiles("age", ["0.1", "0.5", "0.9"])),
    "iqr": _ask(sd.iqr("hours_per_week")),
    "most common": _ask(sd.most_common("occupation")),
    "most common of words that are numbers": _ask(sd.most_common("education_num")),
    "MODE in SQL": _ask(sd.sql("SELECT MODE(sex) AS s FROM people")),
    "grouped": lambda t: t.ask(t.group_by("sex", "region").agg(sd.count(), sd.mean("age")), **_LOSS),
    "grouped medians": lambda t: t.ask(t.group_by("sex").agg(sd.median("age")), **_LOSS),
    "histogram": lambda t: t.ask(sd.histogram("age", width=5), **_LOSS),
    "many keys": lambda t: t.ask(t.group_by("region", "occupation").agg(sd.count()), **_LOSS),
    "private keys": lambda t: t.ask(t.group_by("household").agg(sd.count()), **_LOSS),
    "having": _ask(sd.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > 1000000")),
    "smooth": _ask(sd.smooth("median", "age")),
    "propose, test, release": _ask(sd.propose_test_release("median", "age", bound=1)),
    "sample and aggregate": _ask(sd.sample_and_aggregate("median", "age", chunks=20, default=40)),
    "bounds by histogram": lambda t: t.find_bounds("gain", **_LOSS),
    "bounds by quantile": lambda t: t.find_bounds("gain", method="quantile", **_LOSS),
    "bounds by sparse vector": lambda t: t.find_bounds("gain", method="sparse_vector", epsilon=1),
    "bounds of both signs": lambda t: t.find_bounds("age", **_LOSS),
    "a crossing": _cross,
    "a synthetic fit": _fit,
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each kind asked once of a project, and the page of the last ones."""
    patch = pytest.MonkeyPatch()
    place = tmp_path_factory.mktemp("kinds")
    patch.setenv("SORDINO_STATE", str(place / "state"))
    file = write_census_project(place / "census", 800, Rng.seeded(3))
    words = file.read_text().replace("cap = {epsilon = 2.0}", "cap = {epsilon = 50.0, delta = 1e-3}")
    units = (
        words[words.index("[budgets.people]") :].replace("s.people", "s.homes").replace("census.ledger", "homes.ledger")
    )
    units = units.replace('budget = "people"', 'budget = "homes"')
    file.write_text(
        words + units.replace('privacy_unit = "row"', 'privacy_unit = {column = "household", max_rows = 6}')
    )
    people, homes = (sd.connect(file).table(name) for name in ("people", "homes"))
    made = {name: kind(people) for name, kind in KINDS.items()}
    people.close()
    made["caps"] = homes.find_contribution_bounds(epsilon="0.5")
    made["caps by key"] = homes.find_contribution_bounds(by="sex", epsilon="0.5")
    homes.close()
    assert main(["report", "--project", str(file), "-o", str(place / "board.html")]) == 0
    yield made, (place / "board.html").read_text(encoding="utf-8")
    patch.undo()


@pytest.mark.each(9)
@pytest.mark.parametrize("name", [*KINDS, "caps", "caps by key"])
def test_each_has_a_picture_that_the_schema_allows(asked: Any, name: str) -> None:
    """All of them are drawn in each run, on the page; by the schema and by themselves a third."""
    picture = sd.plot(asked[0][name])
    assert "NaN" not in encode_picture(picture, ".svg").decode()
    assert "NaN" not in json.dumps(picture.spec())
    # By Vega-Lite's schema, to which drawing does not hold it.
    assert picture.chart.to_dict(validate=True) == picture.spec()


def test_each_has_json_files_and_a_table(asked: Any) -> None:
    for name, release in asked[0].items():
        again = sd.Release.from_dict(json.loads(release.to_json()))
        assert again == release, name
        assert again.to_dict() == release.to_dict(), name
        assert ("<table>" in release._repr_html_()) == bool(release.parts), name
        assert str(release.charge) in str(release), name
        for form in (AnswerFormat.table, AnswerFormat.json):
            assert file_of(release, form, confidence=0.95), name


def test_each_is_on_the_page(asked: Any) -> None:
    made, text = asked
    page = Page(text)
    assert "NaN" not in text
    for release in made.values():
        assert release.charge in page.words
    assert 2 <= page.tags.count("img") <= 24
    for name in ("most common", "median", "count"):
        value = made[name].value
        assert (value if isinstance(value, str) else show_number(value)) in page.words, name
    assert page.words.count("Anyone who knew everything else") <= 2  # once a budget, not once a row


def test_a_chosen_label_is_drawn_as_text(asked: Any) -> None:
    for name in ("most common", "MODE in SQL"):
        release = asked[0][name]
        svg = encode_picture(sd.plot(release), ".svg").decode()
        assert f">{release.value}<" in svg
        assert "no interval of values can be stated" in svg.replace("\n", " ")


def test_one_phrase_marks_what_is_not_private() -> None:
    pages = [p for where in ("src", "docs", "examples", "changes") for p in (ROOT / where).rglob("*.[pm][yd]")]
    assert len(pages) > 300
    assert not [p.name for p in pages if "NON-PRIVATE" in p.read_text(encoding="utf-8")]


def test_print_shows_the_table(asked: Any) -> None:
    made = asked[0]["grouped"]
    said = str(made)
    assert made.question in said
    assert len(said.splitlines()) >= 12 + 3
    assert all(row[0] in said for row in made.display_rows(0.95))
    assert made.summary() in said


def test_a_question_in_a_notebook_is_words() -> None:
    class Printer:
        said = ""

        def text(self, words: str) -> None:
            self.said += words

    printer = Printer()
    sd.histogram("age", width=5)._repr_pretty_(printer, cycle=False)
    assert printer.said.startswith("<Question: the number of rows")
