"""Options that a command would ignore beside others are refused by name, before anything is read."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
import xlsxwriter

from cli.option_walk import all_commands, flags_of, watch_reads
from cli.support import Ran, Run, enter_copy
from sordino.cli.main import main

PLAN = ("local", "plan", "--epsilon", "1", "--respondents", "1000")
SIMULATE = ("local", "simulate", "--data", "missing.csv", "--column", "c", "--epsilon", "1")
TEXTS = ("--alphabet", "ab", "--length", "2")
WORLDS = ("epsilon", "worlds", "--universe", "1,2,3", "--size", "2", "--query", "mean", "--risk", "0.6")
CHOOSE = ("epsilon", "choose", "--relative-risk", "3")
REPORT = ("synth", "report", "missing.model", "--against", "missing.csv", "--non-private", "-o", "out.html")
TASK = (
    "local",
    "task",
    "create",
    "t",
    "--key",
    "missing.key",
    "--question",
    "Q",
    "--label",
    "a",
    "--label",
    "b",
    "--epsilon",
    "1",
    "--permanent-epsilon",
    "2",
    "--epoch",
    "2026",
    "--expires",
    "2027-01-01",
    "--origin",
    "https://survey.example",
    "-o",
    "t.json",
)

# the command as it works, and the options that it would ignore, each with a value
IGNORED: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (
        (*PLAN, *TEXTS),
        {
            "--labels": "a,b",
            "--size": "5",
            "--margin": "0.02",
            "--malicious": "0.1",
            "--shuffled": "1e-6",
            "--plot": "p.svg",
        },
    ),
    ((*PLAN, "--size", "5"), {"--length": "3"}),
    (
        (*SIMULATE, *TEXTS),
        {
            "--labels": "a,b",
            "--p": "0.75",
            "--q": "0.25",
            "--value": "a",
            "--malicious": "0.1",
            "--protocol": "unary",
            "--plot": "p.svg",
        },
    ),
    ((*SIMULATE, "--labels", "a,b"), {"--length": "3"}),
    (WORLDS, {"--up-to": "3", "--budget": "people", "--output": "2"}),
    (CHOOSE, {"--rows": "100", "--budget": "people", "--questions": "2"}),
    (REPORT, {"--spender": "ana", "--epsilon": "1", "--delta": "1e-6", "--rho": "1"}),
    (TASK, {"--length": "3"}),
    (("budget",), {"--delta": "1e-6"}),
]


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize(
    ("command", "option", "value"),
    [(command, option, value) for command, options in IGNORED for option, value in options.items()],
)
def test_an_option_that_would_be_ignored_is_refused_by_name(
    run: Run, command: tuple[str, ...], option: str, value: str
) -> None:
    ended = run(*command, option, value)
    assert ended.code == 2, ended.out
    assert option in ended.err
    assert ended.out == ""


# ---- Every command, every option: stated in a way in which it is read, and refused in every way in which it is not

# Ways to call each command, each with as many options as go together. In every one of them each stated option must be read,
# and each other option, added, must be read or refused. A new option has to be put into one.
_Q = ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",)
_ASK = (
    "--epsilon",
    "0.01",
    "--weights",
    "1",
    "--dialect",
    "duckdb",
    "--confidence",
    "0.9",
    "--project",
    ".",
    "--quiet",
)
_EVERY_ASK = (*_ASK, "--spender", "ana", "--assume-rows", "100", "--keys", "keys.csv")
_HOMES = ("--project", "homes", "--delta", "1e-9")
# of units with several rows
_BOUNDED = ("--rho", "0.01", "--max-groups", "1", "--max-rows-per-group", "2", "--min-units", "2")
_OF_HOMES = (
    ("-f", "keys.sql", *_HOMES, *_BOUNDED),
    ("-f", "q.sql", "--project", "homes", "--epsilon", "0.01", "--max-rows", "2"),
)
_CAPPED = ("--table", "people", "--project", "homes", "--quiet", "--spender", "ana", "--epsilon", "0.01")
_FIT = ("--table", "people", "--epsilon", "0.1", "--columns", "age,sex", "--force", "--project", ".", "--quiet")
_COLUMN = ("--neighbors", "replace", "--query", "var", "--ddof", "1", "--format", "json")
_TASK = (
    "t",
    "--key",
    "collector.key",
    "--question",
    "Q",
    "--epsilon",
    "1",
    "--epoch",
    "2026",
    "--expires",
    "2035-01-01",
)
_TASK_TO = ("--origin", "https://survey.example", "-o", "new.json", "--quiet")
_WRITTEN = ("--write", "--budget", "people", "--project", ".", "--format", "json", "--plot", "p.svg")
_PEOPLE = ("--project", ".")
_VISITS = ("--project", "visits")
_BY_WARD = ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "--over", "day", "--every", "day", *_VISITS)
_SERIES = ("new", *_BY_WARD, "--max-periods", "2", "--window", "7", "--max-rows-per-period", "1")
_MODEL = ("--table", "people", "--project", ".", "--quiet")

# persons with a day
_OF_VISITS = """
[budgets.people]
cap = { rho = 9, delta = 1e-6 }
ledger = "visits.ledger"
[budgets.people.shares]
ana = { rho = 5 }
[tables.visits]
source = "visits.csv"
csv = { header = true }
budget = "people"
neighbors = "add_remove"
privacy_unit = { column = "id", max_rows = 9 }
[tables.visits.columns]
id = { type = "identifier" }
day = { type = "date", lower = 2026-01-01, upper = 2027-12-31 }
ward = { type = "category", values = ["a", "b"] }
"""

WAYS: dict[str, list[tuple[str, ...]]] = {
    "init": [
        ("raw.csv", "--header", "--delimiter", ";", "--quote", '"', "--output", "new.toml", "--force", "--quiet"),
        ("raw.csv", "--no-header", "--columns", "2", "--output", "new.toml"),
        ("census.parquet", "--output", "new.toml"),
        ("tables.duckdb", "--relation", "t", "--output", "new.toml"),
        ("census.parquet", "--codebook", "book.csv", "--output", "new.toml"),
        ("census.parquet", "--adult", "--output", "new.toml"),
    ],
    "check": [
        ("--schema",),
        ("--against-data", "--format", "json", "--project", ".", "--quiet"),
        ("sordino.toml", "--against-data", "--output", "fit.html"),
        ("sordino.toml",),
    ],
    "import": [
        (
            *("raw.csv", "raw.parquet", "--header", "--header-rows", "1", "--delimiter", ";", "--quote", '"'),
            *("--encoding", "utf-8", "--null", "NA", "--skip-first", "0", "--skip-last", "0", "--force", "--quiet"),
        ),
        (
            *("raw.csv", "raw.parquet", "--no-header", "--delimiter", ";", "--names", "a,b", "--decimal", "a=,"),
            *("--thousands", "a=.", "--date", "b=%d.%m.%Y", "--true", "b=J", "--false", "b=N", "--type", "a=text"),
            *("--type", "b=text", "--strict", "--force"),
        ),
        ("labels.txt", "raw.parquet", "--no-header", "--widths", "1", "--force"),
        ("book.xlsx", "raw.parquet", "--sheet", "people", "--force"),
        ("tables.db", "raw.parquet", "--relation", "t", "--force"),
        ("files.zip", "raw.parquet", "--header", "--member", "a.csv", "--force"),
        ("wor*.csv", "raw.parquet", "--header", "--file-column", "file", "--force"),
    ],
    "dummy": [("--table", "people", "--rows", "5", "--seed", "1", "--output", "d.csv", "--project", ".", "--quiet")],
    "plan": [
        (*_Q, *_EVERY_ASK, "--share", "relative", "--scale", "n=10"),
        (*_Q, *_EVERY_ASK, "--format", "json"),
        (*_Q, "--error", "20", "--confidence", "0.9", "--plot", "p.svg"),
        *_OF_HOMES,
    ],
    "ask": [
        (*_Q, *_EVERY_ASK, "--request-id", "r1", "--format", "json", "--output", "a.json", "--plot", "a.svg"),
        (*_Q, *_ASK, "--share", "relative", "--scale", "n=10", "--dry-run"),
        *_OF_HOMES,
    ],
    "tabulate": [
        ("tables.toml", "--plan", "--epsilon", "0.01", "--format", "json", "--confidence", "0.9", *_PEOPLE),
        (
            "tables.toml",
            "--rho",
            "0.01",
            "--delta",
            "1e-9",
            "--plan",
            "--project",
            "homes",
            "--spender",
            "ana",
            "--quiet",
        ),
        (
            "tables.toml",
            "--epsilon",
            "0.01",
            "--output",
            "tables",
            "--request-id",
            "r2",
            "--confidence",
            "0.9",
            "--quiet",
        ),
        ("tables.toml", "--epsilon", "0.01", "--output", "practice", "--dry-run", "--plot", "t.svg"),
    ],
    "bounds": [
        ("gain", *("--epsilon", "0.1", "--table", "people", "--method", "histogram", "--plot", "b.svg"), *_PEOPLE),
        ("gain", "--epsilon", "0.1", "--method", "ladder", "--ladder", "10,100", "--confidence", "0.9", "--quiet"),
        ("gain", "--rho", "0.1", "--delta", "1e-9", "--project", "homes", "--spender", "ana", "--format", "json"),
    ],
    "caps": [
        (*_CAPPED, "--plot", "c.svg", "--question-epsilon", "0.1", "--choose", "max_rows", "--confidence", "0.9"),
        (*_CAPPED, "--by", "sex", "--format", "json"),
        (*_CAPPED, "--by", "household", "--assume-keys", "9"),
        (*_HOMES, "--rho", "0.1"),
    ],
    "mcp": [("sordino.toml", "--account", "bot"), ("sordino.toml", "--account", "bot", "--http", "--port", "8101")],
    "workbench": [("sordino.toml", "--port", "8400")],
    "budget": [
        ("--budget", "people", "--format", "json", "--tight", "--delta", "1e-6", "--plot", "p.svg", *_PEOPLE, "--quiet")
    ],
    "releases": [("--last", "1", "--budget", "people", "--format", "json", *_PEOPLE, "--quiet")],
    "show": [
        (
            *("c-0001", "--format", "json", "--output", "s.json", "--confidence", "0.9", "--budget", "people"),
            *("--plot", "s.svg", *_PEOPLE),
        ),
        ("c-0001", "--quiet"),
    ],
    "report": [("--output", "r.html", "--budget", "people", "--force", *_PEOPLE, "--quiet")],
    "explain": [("c-0001", "--format", "table", "--plot", "p.svg", "--budget", "people", *_PEOPLE, "--quiet")],
    "demo": [("--rows", "50", "--keep", "kept")],
    "sql": [()],
    "sensitivity": [
        (*_COLUMN, "--universe", "1,2,3,9", "--size", "2", "--within", "1", "--worlds", "--plot", "s.svg"),
        (*_COLUMN, "--column", "x", "numbers.csv", "--local", "first:2", "--within", "1"),
        (
            *("--neighbors", "add_remove", "--query", "max", "--universe", "1,2,3", "--size", "2"),
            *("--exactly", "1", "--direction", "add"),
        ),
        ("--neighbors", "both", "--query", "max", "--universe", "1,2,3,9", "--size", "2", "--profile", "1:2"),
    ],
    "audit": [
        (
            *_Q,
            *("--epsilon", "0.5", "--samples", "100", "--seed", "1", "--format", "json", "--plot", "a.svg"),
            *_PEOPLE,
        ),
        ("-f", "q.sql", "--rho", "0.5", "--delta", "1e-6", "--samples", "100", "--project", "homes"),
    ],
    "attack": [
        ("release", "--secret", "sex = Female", "--epsilon", "1", "--people", "60", "--seed", "1", "--format", "json"),
        (
            "local",
            "--epsilon",
            "1",
            "--people",
            "40",
            "--rounds",
            "2",
            "--output",
            "l.html",
            "--plot",
            "l.svg",
            "--force",
        ),
        ("release", "--table", "people", *_PEOPLE, "--people", "60", "--quiet"),
    ],
    "ledger verify": [("--format", "table", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger export": [("--output", "e.jsonl", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger amend": [("--reason", "why", "--rename", "old=people", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger new": [("--reason", "why", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger backup": [("copies", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger restore": [("old.ledger", "--reason", "why", "--budget", "people", *_PEOPLE, "--quiet")],
    "ledger move": [("postgresql://127.0.0.1:9/none#x", "--budget", "people", *_PEOPLE, "--quiet")],
    "series open": [
        (*_SERIES, "--horizon", "30", "--start", "2026-11-01", "--rho", "0.1", "--table", "visits", "--quiet"),
        (*_SERIES, "--epsilon", "0.1", "--delta", "1e-9", "--plan", "--confidence", "0.9", "--spender", "ana"),
    ],
    "series release": [
        ("wards", "2026-11-24", "--format", "json", "--output", "s.json", "--confidence", "0.9", *_VISITS, "--quiet"),
        ("wards", "2026-11-24", *_VISITS, "--spender", "ana", "--plot", "w.svg"),
    ],
    "series show": [
        ("wards", "--from", "2026-11-01", "--to", "2026-11-23", "--format", "json", *_VISITS, "--quiet"),
        ("--format", "table", *_VISITS, "--quiet"),
        ("wards", "--plot", "w.svg", "--export", "w.csv", *_VISITS),
    ],
    "epsilon worlds": [
        (*("--universe", "1,2,3", "--size", "2", "--query", "mean", "--risk", "0.6", "--one-question"), *_WRITTEN),
        (
            *("--universe", "1,2,3", "--size", "2", "--query", "mean", "--risk", "0.6", "--prior", "0.2,0.3,0.5"),
            *("--epsilon", "1", "--output", "2", "--plot", "w.svg", "--up-to", "3"),
        ),
    ],
    "epsilon choose": [
        ("--table", "people", "--attacker-prior", "0.5", "--max-posterior", "0.75", *_WRITTEN[:-2]),
        (
            *("--query", "SELECT AVG(age) FROM people", "--error", "5", "--confidence", "0.9", "--rows", "2000"),
            *("--delta", "1e-9", "--test-level", "0.05", "--max-power", "0.5", "--plot", "c.svg", "--questions", "1"),
        ),
        ("--relative-risk", "3", *_PEOPLE),
    ],
    "local plan": [
        (
            *("--epsilon", "1", "--respondents", "900", "--labels", "a,b", "--margin", "0.1", "--malicious", "0.1"),
            *("--shuffled", "1e-6", "--plot", "l.svg", "--format", "json"),
        ),
        ("--epsilon", "1", "--respondents", "900", "--size", "5"),
        ("--epsilon", "1", "--respondents", "900", "--alphabet", "ab", "--length", "2", "--format", "json"),
    ],
    "local simulate": [
        (
            *("--data", "words.csv", "--column", "c", "--epsilon", "1", "--labels", "a,b", "--malicious", "0.1"),
            *("--seed", "1", "--plot", "l.svg", "--format", "json"),
        ),
        (
            *("--data", "words.csv", "--column", "c", "--labels", "a,b", "--protocol", "unary"),
            "--p",
            "0.75",
            "--q",
            "0.25",
        ),
        (*("--data", "words.csv", "--column", "c", "--labels", "a,b", "--protocol", "coins"), "--value", "a"),
        (
            *("--data", "words.csv", "--column", "c", "--labels", "a,b", "--protocol", "rappor"),
            *("--f", "1/2", "--p", "1/2", "--q", "3/4"),
        ),
        (
            *("--data", "words.csv", "--column", "c", "--epsilon", "1", "--alphabet", "ab", "--length", "2"),
            "--seed",
            "1",
        ),
    ],
    "local keygen": [("--output", "new.key", "--quiet")],
    "local token": [("--store", "reports.db", "--role", "respondent", "--count", "2")],
    "local serve": [
        (
            *("t.json", "--store", "reports.db", "--host", "127.0.0.1", "--port", "8123", "--per-minute", "60"),
            *("--burst", "9", "--per-token", "1", "--quiet"),
        ),
        ("t.json", "--store", "reports.db", "--open"),
    ],
    "local estimate": [
        (
            *("--store", "reports.db", "--task", "t", "--confidence", "0.9", "--malicious", "0.1", "--simultaneous"),
            *("--format", "json", "--recount", "--quiet"),
        ),
        ("--store", "reports.db", "--plot", "e.svg"),
    ],
    "local close": [("--store", "reports.db", "--task", "t", "--quiet")],
    "local export": [("--store", "reports.db", "--output", "r.reports", "--task", "t", "--quiet")],
    "local task create": [
        (*_TASK, *_TASK_TO, "--label", "a", "--label", "b", "--method", "grr", "--permanent-epsilon", "2"),
        (*_TASK, *_TASK_TO, "--labels-file", "labels.txt", "--lifetime-epsilon", "9"),
        (*_TASK, *_TASK_TO, "--alphabet", "ab", "--length", "2", "--lifetime-epsilon", "9"),
    ],
    "local task show": [("t.json", "--key", "PUBLIC", "--cap", "20", "--format", "json")],
    "serve start": [
        ("sordino.toml", "--host", "127.0.0.1", "--port", "8300", "--postgres-port", "0", "--quiet"),
        ("--demo", "--port", "8300"),
    ],
    "learn serve": [
        (
            *(
                "--students",
                "2",
                "--epsilon",
                "1",
                "--seed",
                "3",
                "--rows",
                "1000",
                "--host",
                "0.0.0.0",
                "--port",
                "8301",
            ),
            *("--address", "http://10.0.0.7", "--cards", "cards.html", "--force", "--quiet"),
        )
    ],
    "learn slides": [("lesson", "--dark", "--quiet")],
    "serve account add": [
        ("eva", "--role", "analyst", "--by", "ola", *_PEOPLE),
        ("eva", "--role", "analyst", "--openid", "s", *_PEOPLE),
    ],
    "serve account list": [("--format", "json", *_PEOPLE)],
    "serve account disable": [("bot", "--enable", "--by", "ola", *_PEOPLE)],
    "serve account token": [("bot", "--name", "n", "--share", "s", "--by", "ola", *_PEOPLE)],
    "serve account password": [("bot", "--by", "ola", *_PEOPLE)],
    "serve account share": [
        ("bot", "--epsilon", "0.1", "--budget", "people", "--by", "ola", *_PEOPLE),
        ("bot", "--rho", "0.1", "--project", "homes"),
        ("bot", "--epsilon", "0.1", "--delta", "0", "--project", "homes"),
    ],
    "synth plan": [
        ("age", "--epsilon", "0.1", "--table", "people", "--confidence", "0.9", "--format", "json", *_PEOPLE),
        ("age", "--rho", "0.1", "--delta", "1e-9", "--project", "homes", "--plot", "a.svg"),
    ],
    "synth fit": [
        (*_FIT, *("-o", "n.model", "--method", "auto", "--cap", "500", "--assume-rows", "2000", "--never", "age < 18")),
        ("-o", "n.model", "--epsilon", "0.1", "--method", "marginals", "--marginals", "age,sex"),
        (*_FIT, *("-o", "n.model", "--method", "mst", "--at-most", "age,age", "--determines", "pairs.csv")),
        (
            *("-o", "n.model", "--rho", "0.1", "--delta", "1e-9", "--columns", "age,sex", "--workload", "age,sex"),
            *_PEOPLE,
        ),
        ("-o", "n.model", "--epsilon", "0.1", "--columns", "age,sex", "--spender", "ana", "--predict", "sex"),
        (*_FIT, "-o", "n.model", "--rule", "never age < 18"),
    ],
    "synth rules": [
        (
            "--table",
            "people",
            "--epsilon",
            "0.1",
            "--confidence",
            "0.9",
            "--spender",
            "ana",
            "--project",
            ".",
            "--quiet",
        ),
        ("--table", "people", "--rho", "0.1", "--delta", "1e-9", "--project", "homes"),
        ("--table", "people", "--codebook", "pairs.csv"),
    ],
    "synth sample": [
        ("m.model", "--rows", "9", "--independent", "--seed", "1", "--output", "s.csv", "--quiet"),
        ("m.model", "--rows", "9", "--where", "age > 30", "--seed", "1"),
    ],
    "synth answer": [
        (
            *("m.model", *_Q, "--confidence", "0.9", "--format", "json", "--output", "a.json", "--plot", "a.svg"),
            "--quiet",
        ),
        ("m.model", "--file", "q.sql"),
    ],
    "synth report": [
        (
            *(
                "m.model",
                "-o",
                "r.html",
                "--table",
                "people",
                "--epsilon",
                "0.1",
                "--workload",
                "age,sex",
                "--rows",
                "99",
            ),
            *("--predict", "age > 40", "--force", "--spender", "ana", "--project", ".", "--quiet"),
        ),
        ("m.model", "-o", "r.html", "--against", "census.parquet", "--non-private", "--rows", "99", "--quiet"),
        ("m.model", "-o", "r.html", "--rho", "0.1", "--delta", "1e-9", "--rule", "never age < 18", "--format", "json"),
    ],
    "model fit": [
        (
            "linear_regression",
            *_MODEL,
            "--y",
            "age",
            "--x",
            "sex",
            "--validate",
            "4",
            "--weights",
            "hours_per_week",
            "-o",
            "r.model",
            "--epsilon",
            "0.1",
        ),
        (
            "logistic_regression",
            *_MODEL,
            "--y",
            "sex",
            "--x",
            "age",
            "--epsilon",
            "0.1",
            "-o",
            "r.model",
            "--spender",
            "ana",
        ),
        ("pca", *_MODEL, "--columns", "age", "--components", "1", "--scale", "--epsilon", "0.1", "-o", "r.model"),
        ("kmeans", *_MODEL, "--columns", "age", "--clusters", "2", "--epsilon", "0.1", "-o", "r.model", "--force"),
        ("naive_bayes", *_MODEL, "--y", "sex", "--x", "age", "--rho", "0.1", "--delta", "1e-9", "-o", "r.model"),
        ("naive_bayes", *_MODEL, "--y", "sex", "--x", "age", "--epsilon", "0.1", "--plan"),
        ("decision_tree", *_MODEL, "--y", "sex", "--x", "age", "--depth", "2", "--epsilon", "0.1", "-o", "r.model"),
    ],
    "model choose": [
        (
            *("naive_bayes", "decision_tree", *_MODEL, "--y", "sex", "--x", "age", "--validate", "4", "--depth", "2"),
            *("--epsilon", "0.1", "-o", "r.model", "--force", "--spender", "ana"),
        ),
        (
            *("naive_bayes", "logistic_regression", *_MODEL, "--y", "sex", "--x", "age", "--validate", "4"),
            *("--epsilon", "0.1", "--delta", "1e-9", "--plan"),
        ),
        (
            *("naive_bayes", "logistic_regression", *_MODEL, "--y", "sex", "--x", "age", "--validate", "4"),
            *("--rho", "0.1", "-o", "r.model"),
        ),
    ],
    "model show": [("regression.model", "--format", "json", "--plot", "r.svg")],
    "synth show": [("m.model", "--confidence", "0.9", "--format", "json", "--plot", "m.svg")],
}

# A value for an option that is put beside a way which leaves it out.
VALUES = {"--neighbors": "replace", "--direction": "add", "--method": "grr", "--role": "analyst", "--share": "error"}

# What asks for less holds by itself where there is nothing to leave out or to replace.
_STANDING = ("--quiet", "--force")


@pytest.mark.parametrize("words", sorted(all_commands()), ids=" ".join)
def test_every_option_of_every_command_stands_in_a_way_to_call_it(words: tuple[str, ...]) -> None:
    stated = {word for way in WAYS[" ".join(words)] for word in way}
    short = {"-o": "--output", "-f": "--file", "--no-header": "--header"}
    assert set(flags_of(all_commands()[words])) <= stated | {short[one] for one in stated if one in short}


@pytest.fixture(scope="module")
def stocked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with all that the commands above name: a model, a task, a store, a share, a table by households."""
    place = tmp_path_factory.mktemp("stocked") / "here"
    shutil.copytree(made, place)
    here = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("SORDINO_STATE", str(place / "state"))
        declared = place / "sordino.toml"
        text = declared.read_text()
        declared.write_text(f"{text}\n[budgets.people.shares]\nana = {{epsilon = 1}}\n")
        (place / "homes").mkdir()
        homes = text.replace('"census.parquet"', '"../census.parquet"').replace(
            "cap = {epsilon = 2.0}", "cap = {rho = 9, delta = 1e-6, slack = 1e-3}"
        )
        homes = homes.replace('privacy_unit = "row"', 'privacy_unit = {column = "household", max_rows = 6}')
        (place / "homes" / "sordino.toml").write_text(
            f"{homes}\n[budgets.people.shares]\nana = {{rho = 5, delta = 5e-7}}\n"
        )
        (place / "visits").mkdir()
        (place / "visits" / "sordino.toml").write_text(_OF_VISITS)
        (place / "visits" / "visits.csv").write_text("id,day,ward\n1,2026-11-01,a\n2,2026-11-24,b\n")
        files = {
            "raw.csv": "a;b\n1;NA\n2;3\n",
            "q.sql": "SELECT COUNT(*) AS n FROM people",
            "tables.toml": 'tables = [["sex"]]\n',
            "keys.sql": "SELECT household, COUNT(*) AS n FROM people GROUP BY household",
            "keys.csv": "sex\nFemale\n",
            "numbers.csv": "x\n1\n2\n9\n",
            "words.csv": "c\na\nb\na\n",
            "labels.txt": "a\nb\n",
            "book.csv": "name,min,max\nage,0,125\n",
            "pairs.csv": "region,sex\nNorth,Male\n",
        }
        for name, content in files.items():
            (place / name).write_text(content)
        with duckdb.connect(place / "tables.duckdb") as db:
            db.execute("CREATE TABLE t (a INTEGER)")
        with contextlib.closing(sqlite3.connect(place / "tables.db")) as lite:
            lite.execute("CREATE TABLE t (a)")
        with xlsxwriter.Workbook(place / "book.xlsx") as book:
            book.add_worksheet("people").write_row(0, 0, ["a", "b"])
        with zipfile.ZipFile(place / "files.zip", "w") as archive:
            archive.writestr("a.csv", "a\n1\n")
            archive.writestr("b.csv", "a\n1\n")
        for words in (
            ("ask", *_Q, "--epsilon", "0.01"),
            ("synth", "fit", "--epsilon", "0.1", "--columns", "age,sex", "-o", "m.model"),
            (
                *("model", "fit", "linear_regression", "--y", "age", "--x", "sex"),
                "--epsilon",
                "0.01",
                "-o",
                "regression.model",
            ),
            ("local", "keygen", "-o", "collector.key"),
            (
                "local",
                "task",
                "create",
                *_TASK,
                *_TASK_TO[:2],
                "-o",
                "t.json",
                "--label",
                "a",
                "--label",
                "b",
                "--lifetime-epsilon",
                "9",
            ),
            ("series", "open", "wards", *_BY_WARD, "--max-periods", "2", "--rho", "0.1", "--spender", "ana"),
            *(("series", "release", "wards", day, *_VISITS) for day in ("2026-11-01", "2026-11-23")),
            ("serve", "account", "add", "bot", "--role", "analyst"),
            ("serve", "account", "add", "ola", "--role", "officer"),
        ):
            assert main(words) == 0, words
        shutil.copy(place / "census.ledger", place / "old.ledger")
        patch.setattr("sordino.local.collector.service.serve_app", lambda *_, **__: None)
        assert main(("local", "serve", "t.json", "--store", "reports.db")) == 0
    assert Path.cwd() == here
    return place


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that listen end at once."""
    for place in (
        "sordino.local.collector.service.serve_app",
        "sordino.serve.assistant.tools.listen_http",
        "sordino.serve.assistant.tools.run_stdio",
        "sordino.serve.workbench.local_service.serve_owner",
    ):
        monkeypatch.setattr(place, lambda *_, **__: None)
    monkeypatch.setattr("sys.stdin", io.StringIO("a long password of somebody\n"))


def run_watched(command: Any, words: tuple[str, ...], run: Run) -> tuple[Ran, set[str]]:
    with watch_reads(command) as reads:
        ended = run(*words)
    return ended, reads


def stated_in(command: Any, way: tuple[str, ...]) -> dict[str, str]:
    """Return the arguments' names of the options that a way states, by their flags."""
    spelled = {
        spelling: p for p in command.params for spelling in (*p.opts, *p.secondary_opts) if spelling.startswith("-")
    }
    return {word: spelled[word].name for word in way if word in spelled}


@pytest.mark.deep
@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("name", sorted(WAYS))
def test_no_option_is_ignored_in_any_way_to_call_a_command(
    name: str, run: Run, stocked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tuple(name.split())
    command = all_commands()[words]
    ignored = []
    for number, way in enumerate(WAYS[name]):
        place = enter_copy(stocked, tmp_path / str(number), monkeypatch)
        if name in ("ledger new", "ledger restore"):
            (place / "census.ledger").unlink()
        public = json.loads((place / "collector.key").read_text())["public"]
        called = (*words, *(public if word == "PUBLIC" else word for word in way))
        ended, reads = run_watched(command, called, run)
        # what a budget or a server does not take is read, and then refused; so is a picture of no reports
        may_fail = name in ("ledger move", "ledger amend", "local estimate") or {
            "--openid",
            "--rho",
            "--delta",
            "--determines",
        } & {*way}
        assert ended.code == 0 or may_fail, (way, ended.err)
        stated = stated_in(command, way)
        ignored += [
            (way, flag)
            for flag, argument in stated.items()
            if ended.code == 0 and argument not in reads and flag not in _STANDING
        ]
        for flag, argument in flags_of(command).items():
            if argument in stated.values() or flag in _STANDING:
                continue
            added = (*called, flag) if is_flag(command, argument) else (*called, flag, value_of(command, flag))
            again, reads = run_watched(command, added, run)
            # a refusal comes before anything is read, or by what reads the option
            if again.code == 0 and argument not in reads:
                ignored.append((way, flag))
    assert not ignored


def is_flag(command: Any, argument: str) -> bool:
    return bool(next(p for p in command.params if p.name == argument).is_flag)


def value_of(command: Any, flag: str) -> str:
    """Return a value for an option: one that some way states, else one of its kind."""
    for name, ways in WAYS.items():
        if all_commands()[tuple(name.split())] is command:
            for way in ways:
                if flag in way:
                    return way[way.index(flag) + 1]
    return VALUES.get(flag, "1")
