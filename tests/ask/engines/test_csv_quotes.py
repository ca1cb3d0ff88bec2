"""CSV under quoting: cells as RFC 4180 writes them, one line at most one row, and no line that changes another."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from ask.engines.test_csv_neighbors import BASE, DOMAIN, LINES, NAMES, QUESTIONS, write
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.core.source import Csv
from sordino.errors import DeclarationError, SourceError

S = Selection()
RULES = Csv(header=False, names=NAMES, quote='"')
TEXTS = ["Sales", "Smith, John", 'the "old" one', '"', ",", 'a""b', "", " x "]
TEXT_DOMAIN = sd.Domain({"n": sd.Integer(0, 10**6), "t": sd.Category(["x", *TEXTS[:6]], missing="keep")})
QUOTED = {
    "a stray quote": b'30, "Sales, 1',
    "a quote at the end": b'30, Sales, 1"',
    "text after a quote": b'30, "Sales"x, 1',
    "a quote in a cell": b'30, 5" pipe, 1',
    "a quoted line end": b'30, "Sales\nTech", 1',
    "half a row, quoted": b'"',
    "1,001 quotes": b'"' * 1001,
    "1,002 quotes": b'"' * 1002,
    "all cells quoted": b'"30","Sales","1"',
    "blanks around": b' "30" , "Sales" , "1" ',
    "masks": b'"0"0","1"1","x"',
}


def rows(path: Path, rules: Csv, domain: sd.Domain) -> list[tuple[object, ...]]:
    """Return the cells of every row as text, straight from the engine."""
    from sqlglot import exp

    engine = engine_of(path, domain, csv=rules)
    on = engine.primitives
    cells = [exp.alias_(on.raw(name), f"c{i}") for i, name in enumerate(domain)]
    found = engine.run(exp.Select(expressions=cells).from_(on.source()))
    engine.close()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


@pytest.mark.each(22)
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "0", "§"])
def test_cells_come_back_as_they_were_written(tmp_path: Path, quoting: Literal[0, 1, 2], delimiter: str) -> None:
    place = tmp_path / "d.csv"
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=quoting, delimiter=delimiter)
        writer.writerow(["n", "t"])
        writer.writerows([7 + i % 2, TEXTS[i % 8]] for i in range(800))
    rules = Csv(header=True, quote='"', delimiter=delimiter)
    found = rows(place, rules, TEXT_DOMAIN)
    assert {t for _, t in found} == {t.strip() or None for t in TEXTS}
    assert len(found) == 800
    assert {n for n, _ in found} == {"7", "8"}


@pytest.mark.deep
def test_a_quoted_comma_loses_no_rows(tmp_path: Path) -> None:
    """3,000 people, every third name with a comma in it: all of them count, as pandas wrote them."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"name": ["Smith, John", "Ann", "Bob"] * 1000, "age": [20, 24, 28] * 1000})
    domain = sd.Domain({"name": sd.Identifier(), "age": sd.Integer(0, 125)}, unreadable_rows=True)
    for how in ({}, {"quoting": csv.QUOTE_ALL}):
        frame.to_csv(tmp_path / "p.csv", index=False, **how)
        found = exact(tmp_path / "p.csv", domain, [sd.count(), sd.sum("age")], csv=Csv(header=True, quote='"'))
        assert found == [[3000], [72000]]


LINE = st.text(alphabet=st.sampled_from(list('""",, x0\'1')), max_size=20)


@pytest.mark.deep
@settings(max_examples=6, deadline=None)
@given(st.lists(LINE, min_size=20, max_size=80), LINE, st.integers(0, 30))
def test_each_line_is_read_by_itself(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], odd: str, at: int
) -> None:
    """The rows of a file are those of its lines, each read alone by the grammar in Python; one line is one row at most."""
    domain = sd.Domain({"a": sd.Identifier(), "b": sd.Identifier()}, unreadable_rows=True)
    rules = Csv(header=False, names=("a", "b"), quote='"')
    place = tmp_path_factory.mktemp("lines") / "d.csv"
    for chosen in (lines, [*lines[:at], odd, *lines[at:]]):
        place.write_text("".join(f"{line}\n" for line in chosen))
        apart = [rules.cells(line) for line in chosen]
        wanted = sorted((tuple(c or None for c in cells) for cells in apart if cells and len(cells) == 2), key=repr)
        assert rows(place, rules, domain) == wanted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from(list("\"',; x01é")), max_size=8), min_size=2, max_size=5))
def test_the_grammar_reads_what_the_standard_writer_writes(cells: list[str]) -> None:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(cells)
    assert Csv(header=True, quote='"').cells(file.getvalue()) == [cell.strip(" ") for cell in cells]


@pytest.mark.deep
@pytest.mark.parametrize("line", [*QUOTED.values(), *list(LINES.values())[::2]], ids=[*QUOTED, *list(LINES)[::2]])
def test_one_added_line_moves_no_other_under_quoting(tmp_path: Path, line: bytes) -> None:
    def answers(lines: list[bytes]) -> list[list[list[Fraction]]]:
        engine = engine_of(write(tmp_path / "d.csv", lines), DOMAIN, csv=RULES)
        try:
            return [ask(engine, DOMAIN, q) for q in QUESTIONS]
        finally:
            engine.close()

    before = answers(BASE[:200])
    assert before[0] == [[200]]
    for place in (0, 100, 200) if len(line) < 90_000 else (100,):
        after = answers([*BASE[:place], line, *BASE[place:200]])
        for asked, was, now in zip(QUESTIONS, before, after, strict=True):
            assert_within_sensitivity(DOMAIN, asked, was, now, Neighbors("add_remove", None))


def test_a_line_of_another_length_is_no_row_under_quoting(tmp_path: Path) -> None:
    lines = [b'1,"a",2', b"1,a", b"1,a,2,3", b'1,"a,2', b"", b"1,,"]
    found = exact(write(tmp_path / "d.csv", lines), DOMAIN, [sd.count(), sd.count("gain")], csv=RULES)
    assert found == [[2], [2]]  # gain is filled where it is missing


def test_quotes_of_one_kind_only(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"csv\.quote must be"):
        Csv(header=True, quote="|")
    place = write(tmp_path / "d.csv", [b"'it''s','\"x\"'"])
    domain = sd.Domain({"a": sd.Identifier(), "b": sd.Identifier()})
    assert rows(place, Csv(header=False, names=("a", "b"), quote="'"), domain) == [("it's", '"x"')]


def test_a_ledger_from_before_quotes_holds_the_same_declaration() -> None:
    assert "quote" not in Csv(header=True).to_dict()
    assert Csv(header=True, quote='"').to_dict()["quote"] == '"'
    assert Csv(header=True).to_dict()["delimiter"] == ","


def test_a_tsv_file_has_tabs(tmp_path: Path) -> None:
    place = write(tmp_path / "d.tsv", [b"age\tocc\tgain", b"30\tSales\t1"])
    assert exact(place, DOMAIN, sd.sum("age"), csv=Csv(header=True)) == [[30]]


@pytest.mark.parametrize("ending", ["csv.bz2", "tsv.xz", "csv.zip"])
def test_compressed_files_are_refused(tmp_path: Path, ending: str) -> None:
    place = write(tmp_path / f"d.{ending}", [b"\x1f\x8b\x08\x00secret"])
    with pytest.raises(DeclarationError, match="compressed: unpack it first") as told:
        engine_of(place, DOMAIN, csv=Csv(header=True))
    assert "secret" not in str(told.value)


@pytest.mark.deep
@pytest.mark.parametrize(
    "first",
    [
        b"\x1f\x8b\x08\x00secret,a",
        b"jane doe,52.752,secret",
        b"secret,secret",
        b"sordino_secret,b",
        b"name,,secret",
        b"",
    ],
)
def test_no_error_names_what_a_first_line_holds(tmp_path: Path, first: bytes) -> None:
    """Where `header = true` is wrong the first line is a row, or the bytes of some other file: it is in no error."""
    from sordino.ask.engines.readers.raw import load_column, load_rows
    from sordino.lab.datasets.exact_answers import load_answers

    place = write(tmp_path / "d.csv", [first, b"1,2,3"])
    tries: list[Callable[[], object]] = [
        lambda: engine_of(place, DOMAIN, csv=Csv(header=True)),
        lambda: load_rows(place, DOMAIN),
        lambda: load_column("age", place),
        lambda: load_answers("age", place, labels=["x"]),
    ]
    for attempt in tries:
        with pytest.raises((SourceError, DeclarationError)) as told:
            attempt()
        assert not [word for word in ("secret", "jane", "52.752", "\x1f") if word in str(told.value)]
