"""Project files: what they declare, where each problem stands, and what `sordino init` writes. Knows no engine."""

from __future__ import annotations

import datetime
import tomllib
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
from hypothesis import strategies as st

from sordino.ask.project.load import Diagnostic, check_file, find_project, load_project
from sordino.ask.project.positions import positions
from sordino.ask.project.proposal import write_template
from sordino.ask.project.schema import json_schema
from sordino.core.domain import Boolean, Category, Date, Fill, Identifier, Integer, Real
from sordino.core.loss import ZCDP, ApproxDP, PureDP
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.source import Csv
from sordino.errors import DeclarationError
from trying import examples

SAMPLE = """\
# sordino.toml; found upward from the working directory, paths relative to it
[budgets.people]                           # a budget belongs to the people in it
cap = {epsilon = 2.0}                      # or {epsilon = 1.0, delta = 1e-9}
ledger = "people.ledger"                   # SQLite
[tables.adult]
source = "adult.data"                      # CSV, Parquet (a file, a glob), a DuckDB file
budget = "people"
neighbors = "add_remove"                   # or "replace": must be stated
privacy_unit = "row"                       # or {column = "user_id", max_rows = 5}
[tables.adult.csv]
header = false
names = ["age", "capital_gain", "occupation", "name"]
delimiter = ","                            # cells are trimmed
null_values = ["?"]
[tables.adult.columns]                     # columns that are not declared cannot be asked about
age = {type = "integer", lower = 0, upper = 125}
capital_gain = {type = "real", lower = 0, upper = 100000, resolution = 0.01}
occupation = {type = "category", values = ["Adm-clerical", "Sales"], missing = "keep"}
name = {type = "identifier"}               # equality in WHERE, or the privacy unit, nothing else
"""

PARQUET = """\
[budgets.people]
cap = {epsilon = 1}
ledger = "people.ledger"
[tables.visits]
source = "visits-*.parquet"
budget = "people"
neighbors = "replace"
privacy_unit = {column = "user_id", max_rows = 5}
[tables.visits.columns]
user_id = {type = "identifier"}
stay = {type = "real", lower = "-1/3", upper = 0.1, resolution = 1e-3, missing = {fill = 0.05}}
ok = {type = "boolean", missing = {fill = false}}
day = {type = "date", lower = 2020-01-01, upper = "2029-12-31"}
code = {type = "category", values = [1, 2, 3], other = 9}
free = {type = "integer"}
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "sordino.toml"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def problems(directory: Path, text: str) -> list[Diagnostic]:
    return check_file(write(directory, text))


def only(directory: Path, text: str) -> Diagnostic:
    found = problems(directory, text)
    assert len(found) == 1, "\n".join(map(str, found))
    return found[0]


def assert_points_at(problem: Diagnostic, text: str, words: str) -> None:
    """The problem stands exactly where `words` (which the text holds once) begin."""
    assert text.count(words) == 1
    assert problem.line is not None
    assert problem.column is not None
    line = text.splitlines()[problem.line - 1]
    assert line[problem.column - 1 :].startswith(words.splitlines()[0]), (problem, line)


def test_the_sample_of_the_manual(tmp_path: Path) -> None:
    project = load_project(write(tmp_path, SAMPLE))
    budget, table = project.budgets["people"], project.tables["adult"]
    assert budget.cap == PureDP(2)
    assert budget.ledger == tmp_path / "people.ledger"
    assert budget.reason is None
    assert table.source.path == str(tmp_path / "adult.data")
    assert table.source.format == "csv"
    assert table.source.csv == Csv(False, ("age", "capital_gain", "occupation", "name"), ",", ("?",))
    assert table.neighbors == Neighbors("add_remove", None)
    assert table.budget == "people"
    assert table.domain["age"] == Integer(0, 125)
    assert table.domain["capital_gain"] == Real(0, 100000, resolution=0.01)
    assert table.domain["occupation"] == Category(["Adm-clerical", "Sales"], missing="keep")
    assert table.domain["name"] == Identifier()
    assert table.domain.unreadable_rows
    assert check_file(tmp_path / "sordino.toml") == []


def test_parquet_units_and_exact_numbers(tmp_path: Path) -> None:
    table = load_project(write(tmp_path, PARQUET)).tables["visits"]
    assert table.source.format == "parquet"
    assert not table.domain.unreadable_rows
    assert table.neighbors == Neighbors("replace", PrivacyUnit("user_id", 5))
    stay = table.domain["stay"]
    assert stay == Real(Fraction(-1, 3), Fraction(1, 10), resolution=Fraction(1, 1000), missing=Fill(Fraction(1, 20)))
    assert table.domain["ok"] == Boolean(missing=Fill(False))
    assert table.domain["day"] == Date(datetime.date(2020, 1, 1), datetime.date(2029, 12, 31))
    assert table.domain["code"] == Category([1, 2, 3], other=9)
    assert table.domain["free"] == Integer()


@pytest.mark.parametrize(
    ("cap", "loss"),
    [
        ('{epsilon = "1/3"}', PureDP("1/3")),
        ("{epsilon = 0.1}", PureDP(Fraction(1, 10))),
        ("{epsilon = 1.0, delta = 1e-9}", ApproxDP(1, Fraction(1, 10**9))),
        ("{rho = 0.5, delta = 1e-6}", ZCDP(Fraction(1, 2), Fraction(1, 10**6))),
    ],
)
def test_caps_are_exact(tmp_path: Path, cap: str, loss: object) -> None:
    text = SAMPLE.replace("{epsilon = 2.0}", cap)
    assert load_project(write(tmp_path, text)).budgets["people"].cap == loss


@pytest.mark.parametrize(
    ("cap", "at", "says"),
    [
        ("{rho = 0.5}", "cap =", "delta is the target at which rho"),
        ("{epsilon = 1, rho = 1}", "cap =", "must be {epsilon = ...}"),
        ("{delta = 1e-9}", "cap =", "not {delta}"),
        ("{}", "cap =", "not {}"),
        ("{epsilon = 0}", "cap =", "epsilon must be above 0"),
        ("{epsilon = -1}", "cap =", "epsilon must be above 0"),
        ("{epsilon = 1, delta = 1}", "cap =", "below 1"),
        ("{epsilon = inf}", "epsilon = inf", "finite"),
        ("{epsilon = nan}", "epsilon = nan", "finite"),
        ("{epsilon = true}", "epsilon = true", "must be a number"),
        ('{epsilon = "lots"}', 'epsilon = "lots"', "must be a number"),
        ("{epsilom = 1}", "epsilom", "did you mean 'epsilon'?"),
        ("2.0", "cap =", "must be a table {...}, not 2.0"),
    ],
)
def test_other_caps_are_refused_where_they_stand(tmp_path: Path, cap: str, at: str, says: str) -> None:
    text = SAMPLE.replace("{epsilon = 2.0}", cap)
    problem = only(tmp_path, text)
    assert says in problem.message
    assert_points_at(problem, text, at)


@pytest.mark.parametrize(
    ("old", "new", "at", "key", "says"),
    [
        ("lower = 0, upper = 125", "lowr = 0", "lowr", "tables.adult.columns.age.lowr", "did you mean 'lower'?"),
        ("neighbors =", "neighbours =", None, "", "did you mean 'neighbors'?"),
        ('"add_remove"  ', '"add-remove"', "neighbors =", "tables.adult.neighbors", "did you mean 'add_remove'?"),
        ('budget = "people"', 'budget = "peeple"', "budget = ", "tables.adult.budget", "did you mean 'people'?"),
        ('"identifier"}', '"identifer"}', 'type = "identifer"', "tables.adult.columns.name.type", "'identifier'?"),
        ('{type = "identifier"}', "{}", "name = {}", "tables.adult.columns.name.type", "state one of: integer"),
        ('{type = "identifier"}', '"identifier"', 'name = "iden', "tables.adult.columns.name.type", "state one of"),
        ("header = false", 'header = "no"', "header", "tables.adult.csv.header", 'true or false, not "no"'),
        ("header = false", "headr = true", None, "", "did you mean 'header'?"),
        ('delimiter = ","', 'delimiter = "||"', "delimiter", "tables.adult.csv.delimiter", "one character"),
        ('"row"   ', '"rows"', "privacy_unit", "tables.adult.privacy_unit", 'must be "row" or {column'),
        ('missing = "keep"', 'missing = "kep"', "missing", "tables.adult.columns.occupation.missing", "'keep'?"),
        ('missing = "keep"', "missing = {fil = 1}", None, "", "did you mean 'fill'?"),
        ('missing = "keep"', 'missing = {fill = "X"}', "missing", "tables.adult.columns.occupation.missing", "values"),
        (
            '["Adm-clerical", "Sales"]',
            '["A", "A"]',
            'values = ["A", "A"]',
            "tables.adult.columns.occupation.values",
            "repeat",
        ),
        ('["Adm-clerical", "Sales"]', '["A", "?"]', "occupation =", "tables.adult.columns.occupation", "means missing"),
        ('["Adm-clerical", "Sales"]', '["A", " B"]', "occupation =", "tables.adult.columns.occupation", "trimmed"),
        ('["Adm-clerical", "Sales"]', '"A"', 'values = "A"', "tables.adult.columns.occupation.values", "list of texts"),
        ("lower = 0, upper = 125", "lower = 9, upper = 1", "lower = 9", "tables.adult.columns.age.lower", "swap them"),
        ("lower = 0, upper = 125", "lower = 0.5", "lower = 0.5", "tables.adult.columns.age.lower", "must be whole"),
        ("resolution = 0.01", "resolution = 0", "resolution = 0", "tables.adult.columns.capital_gain.resolution", "0"),
        ("age = {type", "aeg = {type", "aeg =", "tables.adult.columns.aeg", "did you mean 'age'?"),
        (
            'source = "adult.data"',
            'source = "gs://x/a.csv"',
            "source =",
            "tables.adult.source",
            "not an address of another kind",
        ),
        ("[tables.adult.csv]", "[tables.adult.cvs]", "cvs]", "tables.adult.cvs", "did you mean 'csv'?"),
        ('ledger = "people.ledger"', 'ledger = ""', "ledger =", "budgets.people.ledger", "must not be empty"),
    ],
)
def test_a_problem_stands_at_its_key(tmp_path: Path, old: str, new: str, at: str | None, key: str, says: str) -> None:
    text = SAMPLE.replace(old, new, 1)
    assert text != SAMPLE
    found = problems(tmp_path, text)
    assert any(says in p.message for p in found), found
    if at is not None:
        first = found[0]
        assert first.key == key
        assert says in first.message
        assert_points_at(first, text, at)


def test_neighbors_and_unit_are_never_guessed(tmp_path: Path) -> None:
    text = SAMPLE.replace('neighbors = "add_remove"', "").replace('privacy_unit = "row"', "")
    neighbors, unit = problems(tmp_path, text)
    assert neighbors.key == "tables.adult.neighbors"
    assert unit.key == "tables.adult.privacy_unit"
    for word in ("add_remove", "replace", "hides"):
        assert word in neighbors.message
    assert '"row"' in unit.message
    assert "max_rows" in unit.message
    assert_points_at(neighbors, text, "adult]\nsource")


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ('{column = "user", max_rows = 5}', "did you mean 'user_id'?"),
        ('{column = "stay", max_rows = 5}', 'must be declared {type = "identifier"}'),
        ('{column = "user_id", max_rows = 0}', "from 1 to 10^9"),
        ('{column = "user_id"}', "state the most rows"),
        ('{column = "user_id", max_rows = 5, max_groups = 0}', "from 1 to 10^9"),
        ('{column = "user_id", max_row = 5}', "did you mean 'max_rows'?"),
        ('{column = "user_id", max_rows = "5"}', "a whole number"),
    ],
)
def test_units_that_cannot_be(tmp_path: Path, unit: str, says: str) -> None:
    found = problems(tmp_path, PARQUET.replace('{column = "user_id", max_rows = 5}', unit))
    assert any(says in p.message for p in found)
    assert all(p.line == 8 and p.key.startswith("tables.visits.privacy_unit.") for p in found)


def test_every_problem_is_reported_and_load_raises_the_first(tmp_path: Path) -> None:
    text = SAMPLE.replace("lower = 0, upper = 125", "lowr = 0").replace("epsilon = 2.0", "epsilon = -1")
    path = write(tmp_path, text.replace('"Sales"', '"Sales", "Sales"') + "extra = 1\n")
    found = check_file(path)
    assert [p.line for p in found] == sorted(p.line or 0 for p in found)
    assert len(found) == 4
    with pytest.raises(DeclarationError) as caught:
        load_project(path)
    assert str(caught.value).startswith(f"{path}:3:1: budgets.people.cap: epsilon must be above 0")
    assert "(and 3 more problems" in str(caught.value)


def test_a_misspelt_key_is_not_missing_as_well(tmp_path: Path) -> None:
    text = SAMPLE.replace("neighbors =", "neighbours =")
    problem = only(tmp_path, text)
    assert_points_at(problem, text, "neighbours =")
    assert problem.message == "a table has no such key; did you mean 'neighbors'?"


def test_one_more_problem_is_singular(tmp_path: Path) -> None:
    text = SAMPLE.replace("lower = 0, upper = 125", "lowr = 0, upprr = 1")
    with pytest.raises(DeclarationError, match=r"\(and 1 more problem: "):
        load_project(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[budgets.people\n", 1, "is not TOML"),
        ("a = 1\nb = \n", 2, "is not TOML"),
        ("a = 1\na = 2\n", 2, "is not TOML"),
        ("a = " + "9" * 5000, 1, "is not TOML"),
        ("a = " + "[" * 5000, 1, "nested too deeply"),
        ("", 1, "is missing"),
        ("budgets = 3\ntables = []\n", 1, "a table of names"),
    ],
)
def test_files_that_are_no_project(tmp_path: Path, text: str, line: int, says: str) -> None:
    first = problems(tmp_path, text)[0]
    assert first.line == line
    assert says in first.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in str(check_file(tmp_path / "none.toml")[0])
    assert "is a directory" in str(check_file(tmp_path)[0])
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    assert "not UTF-8" in str(check_file(tmp_path / "latin.toml")[0])


def test_names_that_sql_could_not_say(tmp_path: Path) -> None:
    text = SAMPLE.replace("tables.adult", "tables.adult-data")
    problem = only(tmp_path, text)
    assert "try 'adult_data'" in problem.message
    assert problem.key == "tables.adult-data"
    twice = PARQUET + PARQUET[PARQUET.index("[tables") :].replace("tables.visits", "tables.Visits")
    assert "only in case" in only(tmp_path, twice).message


def test_code_lists_are_public_files_beside_the_project(tmp_path: Path) -> None:
    text = PARQUET.replace("values = [1, 2, 3], other = 9", 'values_from = "codes.csv"')
    assert "no such file" in only(tmp_path, text).message.lower()
    assert_points_at(only(tmp_path, text), text, "values_from")
    (tmp_path / "codes.csv").write_text('A1,first\n\n"B, 2",second\n C3 \n')
    assert load_project(write(tmp_path, text)).tables["visits"].domain["code"] == Category(["A1", "B, 2", "C3"])
    headed = text.replace('"codes.csv"', '"codes.csv", values_header = true')
    assert load_project(write(tmp_path, headed)).tables["visits"].domain["code"] == Category(["B, 2", "C3"])
    both = text.replace('"codes.csv"', '"codes.csv", values = ["A"]')
    assert "only one of them" in only(tmp_path, both).message
    (tmp_path / "codes.csv").write_text("A\nA\n")
    assert "must not repeat" in only(tmp_path, text).message


def test_sources_and_their_rules(tmp_path: Path) -> None:
    def source(lines: str) -> str:
        return PARQUET.replace('source = "visits-*.parquet"', lines)

    made = load_project(write(tmp_path, source('source = "v.duckdb"\nrelation = "visits"'))).tables["visits"].source
    assert made.format == "duckdb"
    assert made.relation == "visits"
    assert load_project(write(tmp_path, source('source = "v.bin"\nformat = "parquet"'))).tables["visits"]
    headed = source('source = "v.csv"\ncsv = {header = true}')
    assert load_project(write(tmp_path, headed)).tables["visits"].source.csv == Csv(True)
    for lines, says in (
        ('source = "v.bin"', "must end in .csv"),
        ('source = "v.csv"', "is CSV: declare"),
        ('source = "v.duckdb"', "relation"),
        ('source = "v.parquet"\nrelation = "x"\nformat = "parquet"', "relation"),
        ('source = "v.csv"\ncsv = {header = false}', "must list every column"),
    ):
        problem = only(tmp_path, source(lines))
        assert says in problem.message, problem
        assert str(tmp_path) not in problem.message


def test_tables_on_one_budget_protect_the_same_people(tmp_path: Path) -> None:
    second = PARQUET[PARQUET.index("[tables") :].replace("tables.visits", "tables.stays")
    assert check_file(write(tmp_path, PARQUET + second.replace("max_rows = 5", "max_rows = 9"))) == []
    replace = second.replace('"replace"', '"add_remove"')
    assert "must be \"replace\", as table 'visits' has" in only(tmp_path, PARQUET + replace).message
    row = second.replace('{column = "user_id", max_rows = 5}', '"row"')
    problem = only(tmp_path, PARQUET + row)
    assert problem.key == "tables.stays.privacy_unit"
    assert "user_id" in problem.message
    column = second.replace('{column = "user_id"', '{column = "member_id", of = "user_id"')
    column = column.replace('user_id = {type = "identifier"}', 'member_id = {type = "identifier"}')
    assert check_file(write(tmp_path, PARQUET + column)) == []
    other = only(tmp_path, PARQUET + column.replace('of = "user_id"', 'of = "member"'))
    assert 'of = "user_id"' in other.message
    assert only(tmp_path, PARQUET + column.replace('of = "user_id"', 'of = ""')).key == "tables.stays.privacy_unit.of"
    own = PARQUET.replace("[tables", '[budgets.other]\ncap = {epsilon = 1}\nledger = "o.ledger"\n[tables', 1)
    assert check_file(write(tmp_path, own + row.replace('budget = "people"', 'budget = "other"'))) == []
    shared = own.replace('"o.ledger"', '"people.ledger"')
    assert "ledger of budget 'people' too" in only(tmp_path, shared).message


def test_no_two_budgets_keep_one_ledger(tmp_path: Path) -> None:
    """Each would count what was charged to both against its own cap, and know nothing of the other's."""
    text = SAMPLE + '\n[budgets.others]\ncap = {epsilon = 1}\nledger = "./people.ledger"\n'
    (found,) = problems(tmp_path, text)
    assert (found.key, "is the ledger of budget 'people' too" in found.message) == ("budgets.others.ledger", True)


def test_row_ceiling_and_reason(tmp_path: Path) -> None:
    text = PARQUET.replace('budget = "people"', 'budget = "people"\nrow_ceiling = 1000')
    text = text.replace("[tables.visits]", 'reason = "ethics board"\n[tables.visits]')
    project = load_project(write(tmp_path, text))
    assert project.tables["visits"].domain.row_ceiling == 1000
    assert project.budgets["people"].reason == "ethics board"
    assert only(tmp_path, text.replace("1000", "0")).key == "tables.visits.row_ceiling"


def test_found_upward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, SAMPLE)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project(deep) == path
    monkeypatch.chdir(deep)
    assert find_project() == path
    path.unlink()
    with pytest.raises(DeclarationError, match="sordino init"):
        find_project(deep)


@pytest.mark.deep
def test_json_schema_accepts_what_is_accepted() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)

    def plain(text: str) -> object:
        return tomllib.loads(text.replace("2020-01-01", '"2020-01-01"'))

    checker.validate(plain(SAMPLE))
    checker.validate(plain(PARQUET))
    for bad in (
        SAMPLE.replace("lower = 0, upper = 125", "lowr = 0"),
        SAMPLE.replace('neighbors = "add_remove"', ""),
        SAMPLE.replace("{epsilon = 2.0}", "{rho = 1}"),
        SAMPLE.replace("tables.adult", "tables.adult-data"),
    ):
        assert not checker.is_valid(plain(bad))


def test_a_template_must_be_filled_in(tmp_path: Path) -> None:
    columns = [("age", "int64"), ("gain", "double"), ("job title", "VARCHAR"), ("ok", "bool"), ("day", "date32[day]")]
    text = write_template(columns, source="people.parquet", table="people")
    found = problems(tmp_path, text)
    assert all("still to be filled in" in p.message for p in found)
    keys = {p.key for p in found}
    assert keys == {
        "budgets.people.cap.epsilon",
        "tables.people.neighbors",
        "tables.people.privacy_unit",
        *(f"tables.people.columns.age.{k}" for k in ("lower", "upper")),
        *(f"tables.people.columns.gain.{k}" for k in ("lower", "upper", "resolution")),
        'tables.people.columns."job title".values',
        *(f"tables.people.columns.day.{k}" for k in ("lower", "upper")),
    }
    filled = text
    for old, new in (
        ('{epsilon = "FILL IN"}', "{epsilon = 1}"),
        ('neighbors = "FILL IN"', 'neighbors = "replace"'),
        ('privacy_unit = "FILL IN"', 'privacy_unit = "row"'),
        ('"date", lower = "FILL IN", upper = "FILL IN"', '"date", lower = 2020-01-01, upper = 2020-12-31'),
        ('"FILL IN", upper = "FILL IN"', "0, upper = 10"),
        ('resolution = "FILL IN"', "resolution = 1"),
        ('["FILL IN"]', '["a", "b"]'),
    ):
        filled = filled.replace(old, new)
    assert list(load_project(write(tmp_path, filled)).tables["people"].domain)[2] == "job title"


def test_a_template_without_names_or_types(tmp_path: Path) -> None:
    columns = [(f"c{i}", None) for i in range(1, 16)]
    names = tuple(name for name, _ in columns)
    text = write_template(columns, source="adult.data", table="adult", csv=Csv(False, names))
    csv = tomllib.loads(text)["tables"]["adult"]["csv"]
    assert csv["names"][0] == "c1"
    assert csv["names"][-1] == "c15"
    assert csv["header"] is False
    assert {p.key for p in problems(tmp_path, text)} >= {f"tables.adult.columns.c{i}.type" for i in range(1, 16)}


@examples(10, 50, st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique_by=str.lower))
def test_a_template_is_toml_whatever_the_names(names: list[str]) -> None:
    columns = [(name, None) for name in names if max(name) < "\ud800" or min(name) > "\udfff"]
    text = write_template(columns, source='odd "name".parquet', table="people")
    table = tomllib.loads(text)["tables"]["people"]
    assert list(table["columns"]) == [name for name, _ in columns]
    assert table["source"] == 'odd "name".parquet'
    found = positions(text)
    for name, _ in columns:
        assert ("tables", "people", "columns", name, "type") in found


TRICKY = '''\
"quoted \\u00e9 key" . 'lit.eral' = """ a = [1] ""\\"
[x] "" """ # [not.a.table]
a.b = [ # comment ]
  {c = 1, d = [[2], '}']}, "]",
]
t = { u.v = "#", w = 2020-01-01 07:00:00 }
m = \'\'\'
z = 1\'\'\'
[ s . "t u" ] # c
k = true
[[arr]]
q = 1
[[arr]]
q = 2
[arr.sub]
r = -inf
'''


def test_positions_in_a_tricky_text() -> None:
    tomllib.loads(TRICKY)
    lines = TRICKY.splitlines()
    for text in (TRICKY, TRICKY.replace("\n", "\r\n")):
        found = positions(text)
        for path, words in {
            ("quoted é key", "lit.eral"): "'lit.eral'",
            ("a", "b"): "b = [",
            ("a", "b", 0, "c"): "c = 1",
            ("a", "b", 0, "d", 0, 0): "2]",
            ("a", "b", 0, "d", 1): "'}'",
            ("a", "b", 1): '"]"',
            ("t", "u", "v"): 'v = "#"',
            ("t", "w"): "w = 2020",
            ("m",): "m = '",
            ("s", "t u"): '"t u" ]',
            ("s", "t u", "k"): "k = true",
            ("arr", 1, "q"): "q = 2",
            ("arr", 1, "sub", "r"): "r = -inf",
        }.items():
            line, column = found[path]
            assert lines[line - 1][column - 1 :].startswith(words), path
        assert ("z",) not in found
        assert ("not", "a", "table") not in found


def test_of_very_many_problems_the_first_thousand_are_told(tmp_path: Path) -> None:
    """To suggest a key for each of 300,000 took seconds, and nobody reads so many."""
    path = tmp_path / "sordino.toml"
    path.write_text("".join(f"k{i} = {i}\n" for i in range(5_000)))
    found = check_file(path)
    assert len(found) == 1_001
    assert "more than 1,000 keys are wrong" in str(found[-1])
    with pytest.raises(DeclarationError, match="k0: the project has no such key"):
        load_project(path)


def test_places_may_name_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PARQUET.replace("visits-*.parquet", "${DATA}/visits.parquet").replace(
        '"people.ledger"', '"${STATE_OF}/p.ledger"'
    )
    (tmp_path / "sordino.toml").write_text(text)
    places = [(problem.key, problem.message) for problem in check_file(tmp_path / "sordino.toml")]
    assert [key for key, _ in places] == ["budgets.people.ledger", "tables.visits.source"]
    assert "the environment has no variable DATA: set it" in places[1][1]
    monkeypatch.setenv("DATA", "/srv/data")
    monkeypatch.setenv("STATE_OF", "state")
    project = load_project(tmp_path / "sordino.toml")
    source = project.tables["visits"].source
    assert getattr(source, "path", "") == "/srv/data/visits.parquet"
    assert str(project.budgets["people"].ledger) == str(tmp_path / "state" / "p.ledger")
    # what the ledger holds of a declaration is the same wherever the data lies
    monkeypatch.setenv("DATA", "/elsewhere")
    assert load_project(tmp_path / "sordino.toml").tables["visits"].declaration == project.tables["visits"].declaration
