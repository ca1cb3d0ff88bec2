"""CSV as people write it, through `init`, `check` and `ask`: quotes, delimiters, files that are something else."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path

import pytest

from cli.support import Run
from sordino.ask.engines.readers.column import load_column
from sordino.errors import SourceError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def declare() -> dict[str, object]:
    document = tomllib.loads(Path("sordino.toml").read_text())
    (table,) = document["tables"].values()
    return dict(table["csv"])


def test_init_proposes_quotes_where_the_header_line_has_them(run: Run) -> None:
    Path("q.csv").write_text('"id","full, name"\n1,"Doe, Jane"\n')
    done = run("init", "q.csv", "--header")
    assert done.code == 0
    assert "is quoted" in done.out + done.err
    assert declare()["quote"] == '"'
    assert '"full, name"' in Path("sordino.toml").read_text()


def test_init_takes_the_quote_that_is_named(run: Run) -> None:
    Path("q.csv").write_text("id,name\n1,'Doe, Jane'\n")
    assert run("init", "q.csv", "--header", "--quote", "'").code == 0
    assert declare()["quote"] == "'"
    assert run("init", "q.csv", "--header", "--force").code == 0
    assert declare()["quote"] == ""
    assert run("init", "q.csv", "--header", "--force", "--quote", "|").code == 2


@pytest.mark.parametrize(("line", "sign"), [("id;city", "';'"), ("id\tcity", r"'\t'"), ("id|city", "'|'")])
def test_init_asks_for_the_delimiter_that_it_sees(run: Run, line: str, sign: str) -> None:
    Path("semi.csv").write_text(f"{line}\n")
    done = run("init", "semi.csv", "--header")
    assert done.code == 2
    assert f"--delimiter {sign}," in done.err
    assert not Path("sordino.toml").exists()
    assert run("init", "semi.csv", "--header", "--delimiter", ",").code == 0


def test_a_tsv_file_is_read_by_tabs(run: Run) -> None:
    Path("t.tsv").write_text("a\tb\n1\t2\n")
    assert run("init", "t.tsv", "--header").code == 0
    assert declare()["delimiter"] == "\t"


@pytest.mark.parametrize("options", [["--header"], ["--no-header", "--columns", "2"]])
def test_init_refuses_a_gzip_file_under_another_name(run: Run, options: list[str]) -> None:
    Path("z.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    done = run("init", "z.csv", *options)
    assert done.code == 2
    assert "not text" in done.err
    assert not Path("sordino.toml").exists()
    Path("z.csv.bz2").write_bytes(b"BZh91")
    done = run("init", "z.csv.bz2", *options)
    assert done.code == 2
    assert "unpack it first" in done.err


PROJECT = """\
[budgets.people]
cap = {{epsilon = 100}}
ledger = "p.ledger"
[tables.people]
source = "{source}"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.people.csv]
header = true
{more}
[tables.people.columns]
age = {{type = "integer", lower = 0, upper = 125}}
"""


def test_check_finds_quotes_that_are_not_declared(run: Run) -> None:
    Path("q.csv").write_text('"name","age"\n"Doe, Jane",30\n')
    Path("sordino.toml").write_text(PROJECT.format(source="q.csv", more=""))
    done = run("check")
    assert done.code == 2
    assert "tables.people.csv.quote" in done.out
    assert "Doe" not in done.out + done.err
    Path("sordino.toml").write_text(PROJECT.format(source="q.csv", more="quote = '\"'"))
    assert run("check").code == 0
    done = run("ask", "SELECT SUM(age) AS s FROM people", "--epsilon", "50", "--format", "json")
    assert done.code == 0
    assert '"s"' in done.out


def test_a_project_with_a_compressed_source_is_refused(run: Run) -> None:
    Path("q.csv.bz2").write_bytes(b"BZh91")
    Path("sordino.toml").write_text(PROJECT.format(source="q.csv.bz2", more=""))
    done = run("check")
    assert done.code == 2
    assert "compressed: unpack it first" in done.out


def test_check_says_that_data_were_not_compared_and_compares_them_when_asked(run: Run) -> None:
    Path("q.csv").write_text("name,age\nAnn,21.0\nBob,twenty\nEve,130731\nJoe\n")
    Path("sordino.toml").write_text(PROJECT.format(source="q.csv", more=""))
    plain = run("check")
    assert plain.out.rstrip().splitlines()[-1].endswith("sordino check --against-data (NOT PRIVATE)")
    assert "130731" not in plain.out
    done = run("check", "--against-data")
    assert done.code == 0
    assert "NOT PRIVATE" in done.out
    line = Path("sordino.toml").read_text().splitlines().index("[tables.people.columns]") + 2
    assert f"sordino.toml:{line}: tables.people.columns.age: cells that cannot be read as integer" in done.out
    assert f"sordino.toml:{line}: tables.people.columns.age: cells above upper, which count as it: 1;" in done.out
    assert "too few cells" in done.out
    assert "twenty" not in done.out
    table = [line.split() for line in done.out.splitlines() if line.startswith("  ")]
    assert table[0] == ["column", "type", "read", "clipped", "missing", "why", "missing"]
    assert ["age", "integer", "2", "1", "2", "1", "empty,", "1", "no", "integer"] in table
    assert "not looked at: that bounds and values are public knowledge" in done.out
    assert run("check", "--against-data", "-o", "fit.html").code == 0
    page = Path("fit.html").read_text()
    assert "NOT PRIVATE" in page
    assert "twenty" not in page
    assert run("check", "-o", "fit.html").code == 2
    told = json.loads(run("check", "--against-data", "--format", "json").out)
    assert told["ok"]
    assert told["against_data"]["people"]["mark"].startswith("NOT PRIVATE")
    assert told["against_data"]["people"]["columns"]["age"]["above"] == 1
    assert not Path("p.ledger").exists()  # nothing is recorded


def test_import_notes_types_that_init_proposes(run: Run) -> None:
    """What all cells of a column can be read as becomes its type, which `init` proposes, and says where it is from."""
    lines = ["n;x;d;b;code;word;none", '"1";1.5;2013-01-01;yes;007;"a', 'b";', "21.0;.5;2013-01-02;No;012;2;"]
    Path("odd.csv").write_text("\n".join([*lines, ";;;;;;"]) + "\n")
    done = run("import", "odd.csv", "odd.parquet", "--header", "--delimiter", ";")
    assert done.code == 0
    assert "  d: date as %Y-%m-%d  (a guess)" in done.out
    assert "NOT PRIVATE" in done.err
    assert "read types in the cells: change what is not public" in run("init", "odd.parquet").err
    (table,) = tomllib.loads(Path("sordino.toml").read_text())["tables"].values()
    kinds = {name: column["type"] for name, column in table["columns"].items()}
    assert kinds == {
        "n": "integer",
        "x": "real",
        "d": "date",
        "b": "boolean",
        "code": "category",
        "word": "category",
        "none": "category",
    }


def test_the_laboratory_reads_numbers_of_an_imported_file(run: Run) -> None:
    Path("odd.csv").write_text("n,word\n1,a\n21.0,b\n,c\n+3,d\n")
    assert run("import", "odd.csv", "odd.parquet", "--header").code == 0
    told = load_column("n", Path("odd.parquet"))
    assert told == ((1, 21, 3), 1)
    with pytest.raises(SourceError, match="holds string that is not all numbers"):
        load_column("word", Path("odd.parquet"))
