"""CSV as people write it, through `init`, `check` and `ask`: quotes, delimiters, files that are something else."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path

import pytest

from cli.support import Run
from sordino.ask.engines.readers.raw import load_column
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


def test_header_cells_without_a_name_of_their_own_get_one(run: Run) -> None:
    """As pandas writes an index: the names are those that an import gives, and a question reads them."""
    Path("i.csv").write_text(",age,age\n0,30,1\n1,40,2\n")
    done = run("init", "i.csv", "--header")
    assert "column 1 has no name in the header, so it is 'column_1' here" in done.err
    assert "'age_2'" in done.err
    Path("sordino.toml").write_text(PROJECT.format(source="i.csv", more="").replace("age =", "age_2 ="))
    assert run("check").code == 0
    done = run("check", "--against-data", "--format", "json")
    assert json.loads(done.out)["against_data"]["people"]["columns"]["age_2"]["missing"] == 0


def test_the_line_in_which_excel_reads_the_delimiter_is_no_header(run: Run) -> None:
    Path("s.csv").write_text("sep=;\nid;age\n1;30\n")
    assert run("init", "s.csv", "--header").code == 0
    assert (declare()["skip_first"], declare()["delimiter"]) == (1, ";")


def test_a_recipe_is_declared_and_its_file_asked_as_it_is(run: Run) -> None:
    lines = [
        "Bericht;;;;",
        "Alter;Kosten;Tag;Privat;Wort",
        "30;1.234,50 €;31.12.2024;J;a",
        "-9;2,00 €;01.02.2024;N;b",
        "Summe;;;;",
    ]
    Path("de.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    options = ("--header", "--delimiter", ";", "--encoding", "cp1252", "--skip-first", "1", "--skip-last", "1")
    assert (
        run("import", "de.csv", "de.parquet", *options, "--null", "Alter=-9", "--true", "J", "--false", "N").code == 0
    )
    assert run("init", "de.import.toml").code == 0
    document = tomllib.loads(Path("sordino.toml").read_text())
    (table,) = document["tables"].values()
    assert table["source"] == "de.csv"
    assert table["csv"] == {
        "header": True, "delimiter": ";", "quote": '"', "null_values": [], "encoding": "cp1252", "skip_first": 1,
        "totals": "FILL IN", "columns": {
            "Kosten": {"type": "amount", "decimal": ",", "thousands": "."}, "Alter": {"null_values": ["-9"]},
            "Tag": {"date": "%d.%m.%Y"}, "Privat": {"true": "J", "false": "N"},
        },
    }  # fmt: skip
    blanks = {
        "totals": '"Summe"',
        "epsilon": "100",
        "neighbors": '"add_remove"',
        "privacy_unit": '"row"',
        "resolution": "0.01",
        "values": '["a", "b"]',
    }
    text = Path("sordino.toml").read_text()
    for key, value in blanks.items():
        text = text.replace(f'{key} = "FILL IN"', f"{key} = {value}").replace(
            f'{key} = ["FILL IN"]', f"{key} = {value}"
        )
    text = text.replace(
        '"date", lower = "FILL IN", upper = "FILL IN"', '"date", lower = 2020-01-01, upper = 2029-12-31'
    )
    Path("sordino.toml").write_text(text.replace('lower = "FILL IN", upper = "FILL IN"', "lower = 0, upper = 5000"))
    assert run("check").code == 0
    columns = json.loads(run("check", "--against-data", "--format", "json").out)["against_data"]["de"]["columns"]
    assert {name: counts["missing"] for name, counts in columns.items()} == {
        "Alter": 1, "Kosten": 0, "Tag": 0, "Privat": 0, "Wort": 0,
    }  # fmt: skip
    assert not any(counts["unreadable"] for counts in columns.values())


def test_many_csv_files_name_what_makes_one_table_of_them(run: Run) -> None:
    Path("many").mkdir()
    for name in ("a", "b"):
        Path(f"many/{name}.csv").write_text("age\n30\n")
    Path("sordino.toml").write_text(PROJECT.format(source="many/*.csv", more=""))
    done = run("check")
    assert done.code == 2
    assert "/many/*.csv' all.parquet makes one table" in done.out
    for source in ("many", "many/"):
        done = run("init", source, "--force")
        assert done.code == 2
        assert f"sordino import {source} all.parquet makes one table" in done.err
    done = run("init", "many/*.csv", "--header", "--force")
    assert "sordino import 'many/*.csv' all.parquet" in done.err


def test_what_is_wrong_with_how_a_file_is_written_is_named_by_its_key(run: Run) -> None:
    Path("q.csv").write_text("age\n30\n")
    for more, key in (
        ('encoding = "utf-16"', "csv.encoding"),
        ('decimal = ";"', "csv.decimal"),
        ("skip_last = 1", "csv.skip_last"),
        ('totals = [""]', "csv.totals"),
        ('columns = {age = {date = "%d.%m.%Y"}}', "csv.columns.age.date"),
        ('columns = {agee = {decimal = ","}}', "csv.columns.agee"),
        ('columns = {age = {typ = "amount"}}', "csv.columns.age.typ"),
    ):
        Path("sordino.toml").write_text(PROJECT.format(source="q.csv", more=more))
        done = run("check")
        assert done.code == 2, more
        assert f": tables.people.{key}: " in done.out, (more, done.out)


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
    assert table[0] == ["column", "type", "read", "clipped", "missing", "why", "missing", "first", "lines"]
    assert ["age", "integer", "2", "1", "2", "1", "empty,", "1", "no", "integer", "3,", "4"] in table
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
