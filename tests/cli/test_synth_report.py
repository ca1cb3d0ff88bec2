"""`synth report`: a page about a model, private or NOT PRIVATE, and what its figures are made of."""

from __future__ import annotations

import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.cli.main import main
from sordino.cli.synth.evaluation import _all as everything
from sordino.cli.synth.evaluation import compared_openly, compared_privately, wanted_of
from sordino.cli.synth.progress import Stages
from sordino.cli.synth.score import hits_of, question_of_hits, trained
from sordino.datasets import write_census_project
from sordino.domain import Boolean, Category, Date, Domain, Integer, Real
from sordino.noise.rng import Rng
from sordino.source import Csv

VOID = {"meta", "img", "br"}
SECTIONS = ("How far it lies", "The worst ten", "Correlations", "A workload of counts", "Column by column")


class Page(HTMLParser):
    """Check that every tag is closed in turn, and keep tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def loads_nothing(page: Page, text: str) -> None:
    assert "script" not in page.tags
    assert "http" not in text.replace("http-equiv", "")
    assert next(v for k, v in page.attributes if k == "content").startswith("default-src 'none'")
    assert all((value or "").startswith("data:") for name, value in page.attributes if name in ("src", "href"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a generated census and a model of four of its columns, fitted on the command line."""
    directory = tmp_path_factory.mktemp("project")
    write_census_project(directory, 2_000, Rng.seeded(11))
    file = directory / "sordino.toml"
    file.write_text(file.read_text().replace("cap = {epsilon = 2.0} ", "cap = {epsilon = 500, delta = 1e-3} "))
    words = ["--epsilon", "10", "--columns", "sex,age,hours_per_week,occupation", "-q", "--project", str(directory)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_STATE", str(directory / "state"))
        assert main(["synth", "fit", *words, "-o", str(directory / "p.model")]) == 0
    return directory


@pytest.fixture
def fitted(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "fitted"
    shutil.copytree(project, directory)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("SORDINO_STATE", str(directory / "state"))
    return directory


@pytest.mark.usefixtures("fitted")
def test_a_private_page_states_its_cost(run) -> None:
    words = ["--epsilon", "2", "--delta", "1e-6", "--predict", "sex = 'Male'", "-o", "r.html"]
    done = run("synth", "report", "p.model", "--table", "people", *words)
    assert done.code == 0, done.err
    assert "cost: epsilon 2, delta 1e-6" in done.out
    assert "charge c-0002" in done.out
    assert "prediction: " in done.out
    assert "NOT PRIVATE" not in done.out + done.err
    text = Path("r.html").read_text()
    page = Page(text)
    loads_nothing(page, text)
    for words_in in (
        *SECTIONS,
        "Train on synthetic",
        "charge c-0002",
        "floor of sampling",
        "cost rho",
        "one row, add/remove",
    ):
        assert words_in in page.words, words_in
    assert "NOT PRIVATE" not in page.words
    assert page.tags.count("img") == 3  # distances, correlations, the model
    shown = run("show", "c-0002")
    assert "mean distance over 2" in shown.out
    assert run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html").code == 2  # it is there


@pytest.mark.usefixtures("fitted")
def test_an_open_page_says_so_on_its_face(run) -> None:
    done = run("synth", "report", "p.model", "--against", "census.parquet", "--non-private", "-o", "n.html", "-q")
    assert done.code == 0, done.err
    assert done.out.startswith("NOT PRIVATE\n")
    assert "NOT PRIVATE: computed on the rows of a file" in done.err
    text = Path("n.html").read_text()
    page = Page(text)
    loads_nothing(page, text)
    assert page.words.split("<h1>")[0].find("NOT PRIVATE") < 300
    assert text.index('class="alarm"') < text.index("<h1>")
    assert re.search(r"<title>NOT PRIVATE: ", text)
    assert text.count("NOT PRIVATE: no loss was charged") >= 3
    assert page.tags.count("img") == 2 + 4  # distances, correlations, four columns beside their originals
    assert len(run("releases", "--format", "csv").out.splitlines()) == 2  # only the fit was charged


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--against", "census.parquet"], 2, "go together"),
        (["--non-private"], 2, "go together"),
        (["--against", "census.parquet", "--non-private", "--epsilon", "1"], 2, "costs no loss"),
        ([], 2, "state what may be lost"),
        (["--epsilon", "9999"], 4, "does not cover"),
        (["--epsilon", "1", "--workload", "age,seks"], 3, "'seks'"),
        (["--epsilon", "1", "--predict", "gain > 3"], 3, "'gain' is not declared"),
        (["--epsilon", "1", "--predict", "age < 10"], 3, "all on one side"),
        (["--epsilon", "1", "--rows", "0"], 2, "--rows"),
        (["--epsilon", "1", "--table", "peple"], 3, "'peple'"),
        (["--against", "gone.csv", "--non-private"], 2, "no such file"),
        (["--against", "short.csv", "--non-private"], 2, "has no column 'hours_per_week'"),
        (["--against", "odd.csv", "--non-private"], 2, "cannot be read"),
    ],
)
def test_what_is_refused_leaves_nothing(fitted: Path, run, words: list[str], code: int, said: str) -> None:
    Path("short.csv").write_text("sex,age\nMale,30\n")
    Path("odd.csv").write_text("sex,age\nMale,30,7\n")
    files = sorted(n for n in os.listdir(fitted) if "ledger" not in n)
    done = run("synth", "report", "p.model", "-o", "r.html", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert sorted(n for n in os.listdir(fitted) if "ledger" not in n) == files
    assert len(run("releases", "--format", "csv").out.splitlines()) == 2


@pytest.mark.usefixtures("fitted")
def test_without_altair_the_page_says_so(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html").code == 0
    page = Page(Path("r.html").read_text())
    assert "Without pictures" in page.words
    assert "img" not in page.tags


def test_a_changed_declaration_is_noticed(fitted: Path, run) -> None:
    file = fitted / "sordino.toml"
    file.write_text(file.read_text().replace("lower = 17, upper = 90", "lower = 17, upper = 95"))
    run("ledger", "amend", "--reason", "older people")
    done = run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html")
    assert done.code == 2
    assert "'age' is declared otherwise" in done.err


# ---- what the figures are made of


def related(rows: int, seed: int) -> pa.Table:
    """A table where pay follows age, and a choice follows pay."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    pay = np.clip(age * 100 + rng.integers(0, 3000, rows), 0, 12000)
    rich = (pay > 6500) ^ (rng.random(rows) < 0.05)
    town = np.where(rng.random(rows) < 0.1, None, rng.choice(["a", "b", "c"], rows))
    born = np.datetime64("2000-01-01") + (age - 18) * 3
    values = {"age": age, "pay": pay / 100.0, "rich": rich, "town": town, "born": born.astype("datetime64[D]")}
    return pa.table({n: pa.array(v) for n, v in values.items()})


DOMAIN = Domain(
    {
        "age": Integer(18, 90),
        "pay": Real(0, 120, resolution="0.01"),
        "rich": Boolean(),
        "town": Category(["a", "b", "c"], missing="keep"),
        "born": Date("2000-01-01", "2000-12-31"),
    }
)


def protected(table: pa.Table, budget: object = None) -> sd.Curator:
    return sd.protect(
        table,
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit="row",
        budget=budget or sd.PureDP(10**9),
        ledger=None,
        rng=Rng.seeded(5),
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, sd.synth.Model, Path]:
    table = related(4000, 1)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    model = sd.synth.MST().fit(protected(table), epsilon=200, rng=Rng.seeded(3))
    return table, model, path


def test_private_and_open_figures_agree_without_noise(both) -> None:
    """At an epsilon of a million noise is none, so what goes through the Queryable is what rows give."""
    table, model, path = both
    condition = sd.col("rich") == True  # noqa: E712
    wanted = wanted_of(
        model, sets=[("age", "pay"), ("rich", "town", "born")], condition=condition, words="rich", rows=4000
    )
    open_found = compared_openly(wanted, path, csv=Csv(header=True))
    loss: dict[str, str | None] = {"epsilon": "1000000", "delta": None, "rho": None}
    private = compared_privately(wanted, protected(table), Stages(lambda _: None), loss=loss)
    for a, b in zip(open_found.workload.missed, private.workload.missed, strict=True):
        assert (a.columns, a.cells) == (b.columns, b.cells)
        assert a.error == pytest.approx(b.error, abs=0.01)
        assert a.held == b.held
    assert open_found.correlations is not None
    assert private.correlations is not None
    for one, other in zip(open_found.correlations.original, private.correlations.original, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert open_found.hits is not None
    assert private.hits is not None
    assert np.allclose(open_found.hits.cells, private.hits.cells, atol=0.5)
    for ways in (1, 2, 3):
        assert open_found.evaluation.mean(ways) == pytest.approx(private.evaluation.mean(ways), abs=0.05)


class Strict:
    """A Queryable's face with nothing else on it, that adds up what is asked: any other access fails the test."""

    def __init__(self, inner: object) -> None:
        self.inner, self.asked = inner, []

    def __getattr__(self, name: str) -> object:
        assert name in ("domain", "neighbors", "loss", "release"), f"an evaluation used {name!r} of its Queryable"
        if name == "release":
            return self._release
        return getattr(self.inner, name)

    def _release(self, query: object, loss: sd.PureDP) -> sd.Release:
        self.asked.append(loss.epsilon)
        return self.inner.release(query, loss)


def test_an_evaluation_only_queries_and_spends_the_whole(both) -> None:
    table, model, _ = both
    condition = sd.col("rich") == True  # noqa: E712
    wanted = wanted_of(model, sets=[("age", "pay")], condition=condition, words="rich", rows=1000)
    faces: list[Strict] = []

    def through(data: object) -> None:
        faces.append(Strict(data))
        everything(wanted, faces[-1])

    protected(table).adapt(through, describe="an evaluation", epsilon=1)
    assert len(faces[0].asked) == 4  # distances, correlations, the workload, the score
    assert sum(faces[0].asked) == 1


def test_correlations_see_what_is_there(both) -> None:
    _, model, path = both
    found = compared_openly(
        wanted_of(model, sets=None, condition=None, words=None, rows=2000), path, csv=Csv(header=True)
    )
    made = found.correlations
    assert made is not None
    assert set(made.columns) == {"age", "pay", "rich", "born"}
    at = {n: i for i, n in enumerate(made.columns)}
    assert made.original[at["age"]][at["born"]] == pytest.approx(1.0, abs=0.05)  # born follows age exactly
    assert made.original[at["age"]][at["pay"]] > 0.7
    assert made.synthetic[at["age"]][at["pay"]] > 0.5
    assert made.error == 0


def test_a_score_learns_and_tests(both) -> None:
    table, model, path = both
    condition = sd.col("rich") == True  # noqa: E712
    wanted = wanted_of(model, sets=None, condition=condition, words="rich", rows=4000)
    found = compared_openly(wanted, path, csv=Csv(header=True))
    assert found.hits is not None
    assert found.reference is not None
    exact = table["rich"].to_pylist()
    assert sum(map(sum, found.hits.cells)) == 4000
    assert found.hits.base == pytest.approx(max(sum(exact), 4000 - sum(exact)) / 4000)
    assert 0.8 < found.hits.accuracy <= 1
    assert 0.85 < found.reference.accuracy <= 1


def test_the_question_of_a_score_is_the_scorecard(both) -> None:
    """DuckDB adds the points as the scorecard does: noise of scale 1e-6 leaves the counts as they are."""
    table, model, _ = both
    keys = model.drawn_keys(4000, Rng.seeded(9))
    card = trained(model, sd.col("pay") > 65, keys)
    from sordino.synth.encoding import keys_of_table

    exact = hits_of(card, model, keys_of_table(table, model.parts.columns, model.parts.domain))
    asked = protected(table).ask(question_of_hits(card, model), epsilon=10**6)
    told = {
        (g, t): n
        for g, t, n in zip(*asked.table.columns, strict=True)
        for g, t, n in [(g.as_py(), t.as_py(), n.as_py())]
    }
    words = ("no", "yes")
    # a run of pay that the condition cuts counts by its larger part: at most the rows of one run of keys differ
    assert sum(abs(told[words[g], words[t]] - exact.cells[g][t]) for g in (0, 1) for t in (0, 1)) <= 2 * 4000 / 100
    assert sum(told.values()) == 4000


def test_a_csv_is_read_as_declared(both, tmp_path: Path) -> None:
    table, model, path = both
    text = table.set_column(2, "rich", pa.array(["True" if v else "0" for v in table["rich"].to_pylist()]))
    pa_csv.write_csv(text, tmp_path / "rows.csv")
    wanted = wanted_of(model, sets=[("rich", "town"), ("pay", "born")], condition=None, words=None, rows=2000)
    first = compared_openly(wanted, path, csv=Csv(header=True)).workload
    assert compared_openly(wanted, tmp_path / "rows.csv", csv=Csv(header=True, quote='"')).workload == first
