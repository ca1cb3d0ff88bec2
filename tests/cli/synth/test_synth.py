"""`synth fit`, `sample`, `answer`, `show`: a generated census is modelled once, then drawn from and asked."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from cli.support import Run, enter_copy
from sordino.ask.project.load import load_project
from sordino.cli.main import main
from sordino.core.ledger.ledger import Ledger
from sordino.core.noise.rng import Rng
from sordino.datasets import write_census_project
from sordino.synth import load
from sordino.synth.methods import METHODS, load_method

COLUMNS = ["region", "sex", "age", "education_num", "hours_per_week", "gain", "occupation"]
FEW = "region,sex,age,occupation"


@pytest.fixture(scope="session")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with room in its budget, and a model of four columns, fitted on the command line."""
    directory = tmp_path_factory.mktemp("modelled")
    write_census_project(directory, 3_000, Rng.seeded(11))
    file = directory / "sordino.toml"
    file.write_text(file.read_text().replace("cap = {epsilon = 2.0} ", "cap = {epsilon = 500, delta = 1e-3} "))
    words = ["--epsilon", "20", "--delta", "1e-9", "--columns", FEW, "-q"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_STATE", str(directory / "state"))
        assert main(["synth", "fit", *words, "--project", str(directory), "-o", str(directory / "people.model")]) == 0
    return directory


@pytest.fixture
def here(modelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(modelled, tmp_path / "here", monkeypatch)


def spent(directory: Path) -> tuple[str, int]:
    with Ledger.existing(str(load_project(directory / "sordino.toml").budgets["people"].ledger)) as ledger:
        return ledger.spent().describe(), len(ledger.charges())


def list_files() -> list[str]:
    """Return the files here but those that the ledger's database keeps beside it."""
    return sorted(n for n in os.listdir() if not n.startswith("census.ledger"))


# ---- fit


@pytest.mark.deep
@pytest.mark.usefixtures("here")
def test_a_fit_is_charged_once_and_can_be_shown(run: Run) -> None:
    fitted = run("synth", "fit", "--table", "people", "--epsilon", "1", "--columns", FEW, "-o", "new.model")
    assert fitted.code == 0, fitted.err
    assert "charge c-0002" in fitted.out
    assert "cost: epsilon 1" in fitted.out
    assert "wrote new.model" in fitted.err
    shown = run("show", "c-0002")
    assert shown.code == 0
    assert "cost: epsilon 1" in shown.out
    assert spent(Path())[1] == 2
    assert load("new.model").columns == tuple(FEW.split(","))
    assert sorted(p.name for p in Path().glob("*.model*")) == ["new.model", "people.model"]
    assert list(Path().glob(".*")) == []


@pytest.mark.each(3)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("method", [name for name in METHODS if name != "marginals"])
def test_methods(run: Run, method: str) -> None:
    words = ["--workload", "age,sex;sex,occupation"] if method == "auto" else []
    words += ["--method", method, "--columns", "sex,age,occupation"]
    done = run("synth", "fit", "--epsilon", "5", *words, "-o", "m.model", "-q")
    assert done.code == 0, done.err
    assert (done.out, done.err) == ("", "")
    assert load("m.model").facts["method"] == load_method(method).title


@pytest.mark.usefixtures("here")
def test_named_marginals(run: Run) -> None:
    words = ["--method", "marginals", "--marginals", "sex,occupation; age"]
    assert run("synth", "fit", "--epsilon", "5", *words, "-o", "m.model").code == 0
    model = load("m.model")
    assert sorted(model.columns) == ["age", "occupation", "sex"]
    assert {model.columns[c] for c in next(iter(model.parts.measured))} == {"sex", "occupation"}


@pytest.mark.usefixtures("here")
def test_a_budget_for_nothing_but_independence_says_so(run: Run) -> None:
    said = []
    # in one fit of twenty a pair's noise is so large that it is taken for a dependence
    for i in range(4):
        done = run("synth", "fit", "--epsilon", "0.001", "--delta", "1e-9", "--columns", FEW, "-o", f"{i}.model")
        assert done.code == 0, done.err
        said.append("independent columns" in done.out)
        assert said[-1] == all(len(c) == 1 for c in load(f"{i}.model").parts.field.tree.cliques)
        if said[-1]:
            break
    assert any(said)


REFUSED = [
    (["--columns", "agee"], 3, "did you mean 'age'"),
    (["--columns", "age,household"], 3, "'household' is declared as an identifier"),
    (["--columns", "age,,sex"], 2, "names separated by commas"),
    (["--workload", "age,sexx"], 3, "did you mean 'sex'"),
    (["--never", "agee > 3"], 3, "error: column 'agee'"),
    (["--never", "age"], 3, "condition"),
    (["--at-most", "age,education_num"], 2, "cannot hold"),
    (["--at-most", "age"], 2, "LOWER,UPPER"),
    (["--never", "age >= 17"], 2, "cannot hold"),
    (["--never", "age > 30", "--never", "age <= 30"], 2, "cannot hold"),
    (["--never", "1) OR (age > 3"], 3, "condition"),
    (["--determines", "missing.csv"], 2, "missing.csv cannot be read"),
    (["--determines", "half.csv"], 2, "no entry for"),
    (["--method", "marginals"], 2, "the method marginals needs --marginals"),
    (["--marginals", "age,sex"], 2, "--marginals goes with the method marginals, not with auto"),
    (["--method", "mst", "--workload", "age,sex"], 2, "--workload goes with the method auto, not with mst"),
    (["--method", "tree", "--assume-rows", "10"], 2, "--assume-rows goes with the method auto, not with tree"),
    (["--method", "marginals", "--marginals", "age,gain,occupation,hours_per_week"], 2, "Name fewer columns together"),
    (["--method", "tree", "--cap", "1000"], 2, "--cap goes with the method auto or aim or marginals, not with tree"),
    (["--cap", "5"], 2, "100 or more"),
    (["--table", "peple"], 3, "'peple'"),
    (["--epsilon", "100000"], 4, "does not cover"),
    (["--epsilon", "0"], 2, "above 0"),
    (["-o", "nowhere/m.model"], 2, "directory is missing"),
    (["-o", "people.model"], 2, "--force replaces it"),
]


@pytest.mark.parametrize(("words", "code", "said"), REFUSED, ids=[" ".join(w) for w, _, _ in REFUSED])
def test_what_is_refused_costs_and_leaves_nothing(here: Path, run: Run, words: list[str], code: int, said: str) -> None:
    Path("half.csv").write_text("sex,occupation\nMale,Care\n")
    files, before = list_files(), spent(here)
    done = run("synth", "fit", "--epsilon", "1", "-o", "m.model", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert spent(here) == before
    assert list_files() == files


def test_a_model_that_cannot_be_written_is_kept(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sordino.cli.shared.atomic_file import AtomicFile

    monkeypatch.setenv("TMPDIR", str(here))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(AtomicFile, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    done = run("synth", "fit", "--epsilon", "1", "--columns", "sex,age", "-o", "m.model")
    assert done.code == 5
    assert "charged (c-0002)" in done.err
    kept = Path(done.err.split("saved at ")[1].split(":")[0])
    assert load(kept).columns == ("sex", "age")
    assert not Path("m.model").exists()


@pytest.mark.deep
@pytest.mark.usefixtures("here")
def test_constraints_hold_in_what_is_drawn(run: Run) -> None:
    words = [
        "--columns",
        "sex,age,education_num",
        "--never",
        "age > 60 AND sex = 'Male'",
        "--at-most",
        "education_num,age",
    ]
    assert run("synth", "fit", "--epsilon", "5", *words, "-o", "m.model").code == 0
    assert run("synth", "sample", "m.model", "--rows", "2000", "-o", "m.parquet").code == 0
    rows = pq.read_table("m.parquet").to_pylist()
    assert len(rows) == 2000
    assert [r for r in rows if (r["age"] or 0) > 60 and r["sex"] == "Male"] == []
    assert [r for r in rows if None not in (r["education_num"], r["age"]) and r["education_num"] > r["age"]] == []
    assert "never age > 60 and sex = 'Male'" in run("synth", "show", "m.model").out


@pytest.mark.usefixtures("here")
def test_one_column_follows_from_another(run: Run) -> None:
    regions = ["North", "East", "South", "West", "Capital", "Islands"]
    sexes = ["Female", "Male"] * 3
    Path("map.csv").write_text("region,sex\n" + "".join(f"{a},{b}\n" for a, b in zip(regions, sexes, strict=True)))
    words = ["--columns", "sex,region,age", "--determines", "map.csv"]
    assert run("synth", "fit", "--epsilon", "5", *words, "-o", "m.model").code == 0
    assert run("synth", "sample", "m.model", "--rows", "1000", "-o", "m.parquet").code == 0
    # noise may draw a missing cell, which another follows
    rows = {(r["region"], r["sex"]) for r in pq.read_table("m.parquet").to_pylist()} - {(None, None)}
    assert rows <= set(zip(regions, sexes, strict=True))
    assert len(rows) > 3


@pytest.mark.deep
def test_progress_is_for_terminals_only(here: Path, run: Run) -> None:
    words = ["synth", "fit", "--epsilon", "1", "--columns", "sex,age", "-o"]
    piped = run(*words, "piped.model")
    assert piped.err.splitlines() == [line for line in piped.err.splitlines() if line.startswith("wrote piped.model")]
    outer, inner = pty.openpty()
    script = "import sys; from sordino.cli.main import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", script, *words, "seen.model"], stdout=subprocess.DEVNULL, stderr=inner, cwd=here
    ) as process:
        os.close(inner)
        seen = b""
        while True:
            try:
                chunk = os.read(outer, 65536)
            except OSError:
                break
            if not chunk:
                break
            seen += chunk
    os.close(outer)
    assert process.returncode == 0
    text = seen.decode()
    assert "0:00:0" in text
    assert "wrote seen.model" in text
    assert any(stage in text for stage in ("asking for the counts", "fitting the model", "charging the budget"))


def test_an_interrupted_fit_leaves_no_file(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sordino.synth import fitting

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting.Automatic, "fit", interrupted)
    files = list_files()
    assert run("synth", "fit", "--epsilon", "1", "-o", "m.model").code == 130
    assert list_files() == files
    assert spent(here)[1] == 1


# ---- sample


@pytest.mark.usefixtures("here")
def test_rows_are_as_declared(run: Run) -> None:
    assert run("synth", "sample", "people.model", "--rows", "500", "-o", "p.parquet").code == 0
    table = pq.read_table("p.parquet")
    assert table.column_names == FEW.split(",")
    assert table.num_rows == 500
    assert table.schema.field("age").type == pa.int64()
    ages = table["age"].drop_null().to_pylist()
    assert 17 <= min(ages) <= max(ages) <= 90
    # noise may draw a missing cell
    assert set(table["sex"].to_pylist()) <= {"Female", "Male", None}
    jobs = sd.connect("sordino.toml").table("people").domain["occupation"]
    assert isinstance(jobs, sd.Category)
    assert set(table["occupation"].to_pylist()) <= {*jobs.values, None}


@pytest.mark.usefixtures("here")
def test_sampling_is_free_and_repeats_with_a_seed(here: Path, run: Run) -> None:
    before = spent(here)
    first = run("synth", "sample", "people.model", "--rows", "50", "--seed", "7")
    again = run("synth", "sample", "people.model", "--rows", "50", "--seed", "7", "-o", "again.csv")
    other = run("synth", "sample", "people.model", "--rows", "50", "--seed", "8")
    assert first.out == Path("again.csv").read_text()
    assert first.out != other.out
    assert "free" in first.err
    assert "wrote again.csv" in again.err
    rows = list(csv.DictReader(io.StringIO(first.out)))
    assert len(rows) == 50
    assert '"' not in first.out  # so that Sordino reads it as it is
    assert spent(here) == before


@pytest.mark.usefixtures("here")
def test_independent_rows_are_those_of_the_library(run: Run) -> None:
    """`--independent` draws what `independent=True` draws, and the help says how the default differs."""
    drawn = run("synth", "sample", "people.model", "--rows", "300", "--seed", "7", "--independent", "-o", "own.parquet")
    assert drawn.code == 0, drawn.err
    model = sd.synth.load("people.model")
    assert pq.read_table("own.parquet").equals(model.sample(300, rng=sd.Rng.seeded(7), independent=True))
    assert not pq.read_table("own.parquet").equals(model.sample(300, rng=sd.Rng.seeded(7)))
    assert "much closer than those of independent rows" in " ".join(run("synth", "sample", "--help").out.split())


@pytest.mark.usefixtures("here")
def test_a_condition_holds_in_every_row(run: Run) -> None:
    out = run("synth", "sample", "people.model", "--rows", "80", "--where", "age > 60 AND sex = 'Female'").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 80
    assert all(int(r["age"]) > 60 and r["sex"] == "Female" for r in rows)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--where", "agee > 3"], 3, "error: column 'agee'"),
        (["--where", "age > 3; SELECT"], 3, "what follows WHERE"),
        (["--where", "age > 300"], 3, "no rows that meet"),
        (["--where", "age >"], 3, "cannot be parsed"),
        (["--rows", "-1"], 2, "0 to 10^9"),
        (["-o", "rows.xlsx"], 2, ".csv or .parquet"),
        (["-o", "nowhere/rows.csv"], 2, "directory is missing"),
    ],
)
def test_a_bad_sample_leaves_no_file(run: Run, words: list[str], code: int, said: str) -> None:
    files = list_files()
    done = run("synth", "sample", "people.model", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert list_files() == files


# ---- answer


@pytest.mark.usefixtures("here")
def test_an_answer_comes_from_the_model_with_its_interval(here: Path, run: Run) -> None:
    before = spent(here)
    truth = pq.read_table("census.parquet").group_by("sex").aggregate([([], "count_all")]).to_pylist()
    done = run(
        "synth", "answer", "people.model", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "--format", "json"
    )
    told = json.loads(done.out)
    assert "free" in done.err
    assert told["from"] == "a model, not the table"
    exact = {r["sex"]: r["count_all"] for r in truth}
    for row, ends in zip(told["rows"], told["intervals"], strict=True):
        assert row["n"] == pytest.approx(exact[row["sex"]], abs=150)  # epsilon 20: the noise is below a row or two
        assert ends["n"][0] <= row["n"] <= ends["n"][1]
    assert spent(here) == before


@pytest.mark.usefixtures("here")
def test_answers_in_every_form(run: Run) -> None:
    sql = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people WHERE age < 60 GROUP BY sex ORDER BY n DESC"
    shown = run("synth", "answer", "people.model", sql)
    assert "from the model of people, not from the table" in shown.out
    assert "95% interval" in shown.out
    assert run("synth", "answer", "people.model", sql, "-o", "a.csv").code == 0
    assert Path("a.csv").read_text().startswith("sex,n,n_lower,n_upper,age,age_lower,age_upper\n")
    assert run("synth", "answer", "people.model", sql, "-o", "a.parquet").code == 0
    assert pq.read_table("a.parquet").num_rows == 2
    one = run("synth", "answer", "people.model", sql + " LIMIT 1", "--format", "csv")
    assert len(one.out.splitlines()) == 2
    assert run("synth", "answer", "people.model", "SELECT COUNT(*) AS n FROM model", "-q").out.startswith("n  ")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COUNT(*) AS n FROM other", "'other'"),
        ("SELECT COUNT(*) AS n FROM people WHERE gain > 3", "'gain' is not declared"),
        ("SELECT MEDIAN(age) AS m FROM people", "counts, sums and means"),
        ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY m", "'m'"),
        ("DROP TABLE people", "SELECT"),
    ],
)
def test_what_a_model_cannot_answer(run: Run, sql: str, said: str) -> None:
    done = run("synth", "answer", "people.model", sql)
    assert (done.code, done.out) == (3, "")
    assert said in done.err


# ---- show, and files that are none


@pytest.mark.usefixtures("here")
def test_show_says_what_it_is(run: Run) -> None:
    out = run("synth", "show", "people.model").out
    for words in ("epsilon 20", "charge c-0001", "one row, add/remove", "region", "occupation", "a value", "95% error"):
        assert words in out, words
    told = json.loads(run("synth", "show", "people.model", "--format", "json").out)
    assert [c["name"] for c in told["columns"]] == FEW.split(",")
    assert told["private"] is True
    assert {c for clique in told["cliques"] for c in clique} == set(FEW.split(","))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "damage"),
    [
        *((["show"], d) for d in ("number", "cut", "text", "gone")),
        *(([c], "number") for c in ("sample", "answer", "report")),
    ],
)
def test_an_altered_model_is_refused(run: Run, command: list[str], damage: str) -> None:
    bad = Path("bad.model")
    if damage == "number":
        with np.load("people.model", allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        arrays["table0"] = arrays["table0"] + 1
        with bad.open("wb") as file:
            np.savez_compressed(file, **arrays)
    elif damage != "gone":
        bad.write_bytes(b"hello" if damage == "text" else Path("people.model").read_bytes()[:2000])
    more = {"answer": ["SELECT COUNT(*) FROM people"], "report": ["--epsilon", "1", "-o", "r.html"]}.get(command[0], [])
    files = list_files()
    done = run("synth", *command, "bad.model", *more)
    assert (done.code, done.out) == (2, "")
    assert "bad.model" in done.err
    assert list_files() == files


def test_a_model_of_another_cut_is_refused(here: Path, run: Run) -> None:
    whole = load(here / "people.model")
    parts = whole.parts
    noise = ("share", "variance", "lean", "drift")
    columns = tuple(replace(c, **{n: np.append(getattr(c, n), 0.0) for n in noise}) for c in parts.errors.columns)
    longer = replace(
        parts,
        codes=tuple(replace(k, codes=np.append(k.codes, 0)) for k in parts.codes),
        within=tuple(np.append(cells, 0) for cells in parts.within),
        errors=replace(parts.errors, columns=columns),
        counts=replace(
            parts.counts, one_way=tuple(replace(t, cells=np.append(t.cells, 0)) for t in parts.counts.one_way)
        ),
    )
    replace(whole, parts=longer).save("other.model")
    done = run("synth", "show", "other.model")
    assert (done.code, done.out) == (2, "")
    assert "by a version that cut its columns otherwise" in done.err


def test_a_histogram_is_priced_before_it_is_asked_for(here: Path, run: Run) -> None:
    before = spent(here)
    done = run("synth", "plan", "age,sex", "--epsilon", "1", "--format", "json")
    shown = json.loads(done.out)
    people = sd.connect(here / "sordino.toml").table("people")
    plan = sd.synth.Histogram(("age", "sex")).plan(people, epsilon=1)
    assert (shown["columns"], shown["bins"], shown["cost"]) == (["age", "sex"], plan.bins, "epsilon 1")
    assert shown["errors"] == {str(n): plan.error(0.95, bins=n) for n in (1, 10, 100, plan.bins)}
    text = run("synth", "plan", "age", "--rho", "0.1", "--confidence", "0.5")
    assert "cost       rho 0.1" in text.out
    assert "50% error" in text.out
    assert "GROUP BY age" in text.out + text.err
    assert run("synth", "plan", "nothing", "--epsilon", "1").code == 3
    assert run("synth", "plan", "age").code == 2
    assert spent(here) == before


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize(("columns", "loss"), [("age,region", ("--epsilon", "1/10")), ("sex", ("--epsilon", "0.1"))])
def test_a_priced_histogram_leads_to_the_calls_that_draw_its_rows(
    columns: str, loss: tuple[str, ...], run: Run
) -> None:
    """What is printed runs as it stands, costs what was priced, and draws rows of the priced columns."""
    priced = run("synth", "plan", columns, *loss, "--table", "people")
    calls = [shlex.split(line) for line in priced.out.splitlines() if line.startswith("sordino synth ")]
    assert [call[2] for call in calls] == ["fit", "sample"]
    for call in calls:
        ended = run(*call[1:])
        assert ended.code == 0, ended.err
    assert "epsilon 0.1" in run("releases").out
    assert Path("rows.csv").read_text().splitlines()[0] == columns
