"""Neighbor pairs through real CSV: nothing is sniffed, so one odd line cannot change how any other is read."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.core.source import Csv
from sordino.errors import SourceError

S = Selection()
NAMES = ("age", "occ", "gain")
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "occ": sd.Category(["Sales", "Tech"], missing="keep"),
        "gain": sd.Real(0, 100, resolution=0.5, missing=sd.Fill(7)),
    },
    unreadable_rows=True,
)
QUESTIONS: list[Any] = [
    sd.count(),
    sd.sum("age"),
    sd.sum("gain"),
    S.group_by("occ").agg(sd.count(), sd.mean("age")),
    S.where((col("age") > 30) & ~col("occ").is_null()).agg(sd.count(), sd.sum("gain")),
]
BASE = [b"%d, %s, %d" % (20 + i % 50, [b"Sales", b"Tech", b"?"][i % 3], i % 100) for i in range(500)]
LINES = {
    "another delimiter": b"30; Sales; 1",
    "an opening quote": b'"',
    "an open field": b'"30, Sales, 1',
    "many quotes": b'"' * 1001,
    "like a header": b"age, occ, gain",
    "too many fields": b"1,2,3,4,5,6",
    "100,000 fields": b"," * 100_000,
    "too few fields": b"30",
    "empty": b"",
    "blank": b"   ",
    "a trailing CR": b"30, Sales, 1\r",
    "NUL": b"30\x00, Sales, 1",
    "only NUL": b"\x00",
    "not UTF-8": b"30, \xff\xfe, 1",
    "cut UTF-8": b"30, \xe2\x82",
    "UTF-16": b"\xff\xfe3\x000\x00",
    "a byte order mark": b"\xef\xbb\xbf30, Sales, 1",
    "a comment": b"# 30, Sales, 1",
    "backslashes": b"30\\, Sales\\, 1\\",
    "other line ends": "30\u2028Sales\x0b\x0c\x85".encode(),
    "control Z": b"\x1a",
    "100 kB": b"x" * 100_000,
    "3 MB": b"x" * 3_000_000,
    "20 MB": b"x" * 20_000_000,
}


def write(path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    path.write_bytes(end.join(lines))
    return path


def answers(path: Path, rules: Csv) -> list[list[list[Fraction]]]:
    engine = engine_of(path, DOMAIN, csv=rules)
    try:
        return [ask(engine, DOMAIN, q) for q in QUESTIONS]
    finally:
        engine.close()


@pytest.mark.deep
@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_one_added_line_moves_no_other(tmp_path: Path, line: bytes) -> None:
    rules = Csv(header=False, names=NAMES)
    before = answers(write(tmp_path / "d.csv", BASE), rules)
    for place in (0, 250, 500) if len(line) < 2_000_000 else (250,):
        after = answers(write(tmp_path / "e.csv", [*BASE[:place], line, *BASE[place:]]), rules)
        for asked, was, now in zip(QUESTIONS, before, after, strict=True):
            assert_within_sensitivity(DOMAIN, asked, was, now, Neighbors("add_remove", None))
    assert before[0] == [[500]]


@pytest.mark.deep
@pytest.mark.parametrize("sixth", range(6))
@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["CRLF", "CR"])
@pytest.mark.parametrize("header", [True, False])
def test_with_other_line_ends_and_headers(tmp_path: Path, end: bytes, header: bool, sixth: int) -> None:
    rules = Csv(header=header, names=None if header else NAMES)
    head = [b"age,occ,gain"] if header else []
    base = BASE[:40]
    before = answers(write(tmp_path / "d.csv", head + base, end), rules)
    assert before[0] == [[40]]
    place = 0 if header else 20
    for line in list(LINES.values())[sixth::6]:
        if len(line) < 90_000:
            after = answers(write(tmp_path / "e.csv", head + base[:place] + [line] + base[place:], end), rules)
            for asked, was, now in zip(QUESTIONS[:3], before, after, strict=False):
                assert_within_sensitivity(DOMAIN, asked, was, now, Neighbors("add_remove", None))


@pytest.mark.deep
@pytest.mark.parametrize("longest", [2, 3])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_stray_line_ends_make_rows_of_their_own_and_take_none_away(tmp_path: Path, end: bytes, longest: int) -> None:
    """A row is a parsed row: a stray CR ends one. The rows of others are read as they were, whatever comes before."""
    rules = Csv(header=False, names=NAMES)
    base = [b"10, Sales, 1"] * 30
    for stray in itertools.chain.from_iterable(itertools.product(b"\r\n", repeat=n) for n in range(1, longest + 1)):
        line = b"100, Tech, 1" + bytes(stray)
        path = write(tmp_path / "e.csv", [*base[:15], line, *base[15:]], end)
        found = exact(path, DOMAIN, S.group_by("occ").agg(sd.count(), sd.sum("age")), csv=rules)
        assert [x[:2] for x in found] == [[30, 1], [300, 100]], bytes(stray)


def test_a_text_only_file_without_a_header_keeps_its_first_row(tmp_path: Path) -> None:
    domain = sd.Domain({"w": sd.Category(["ann", "bob"])}, unreadable_rows=True)
    path = write(tmp_path / "d.csv", [b"ann", b"bob", b"ann"])
    found = exact(path, domain, S.group_by("w").agg(sd.count()), csv=Csv(header=False, names=("w",)))
    assert found == [[2, 1]]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert exact(write(tmp_path / "d.csv", []), DOMAIN, sd.count(), csv=Csv(header=False, names=NAMES)) == [[0]]


@pytest.mark.each(10)
@pytest.mark.parametrize("delimiter", [*"\t;| #\\^\x01§"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    lines = [line.replace(b", ", delimiter.encode()) for line in BASE]
    rules = Csv(header=False, names=NAMES, delimiter=delimiter)
    assert exact(write(tmp_path / "d.csv", lines), DOMAIN, [sd.count(), sd.count("age")], csv=rules) == [[500], [500]]


def test_null_values_are_trimmed_tokens_and_exact(tmp_path: Path) -> None:
    rules = Csv(header=False, names=("age",), null_values=("-1", " NA "))
    domain = sd.Domain({"age": sd.Integer(-5, 5)}, unreadable_rows=True)
    path = write(tmp_path / "d.csv", [b"-1", b" NA", b"-1 ", b"1", b"na", b"", b"-2"])
    assert exact(path, domain, [sd.count("age"), sd.sum("age")], csv=rules) == [[2], [-1]]


@pytest.mark.deep
@pytest.mark.parametrize(
    "name", ["a[1].csv", "a*.csv", "a?.csv", "a'b.csv", 'a"b.csv', "a b.csv", "ü{a}.csv", "x=1.csv"]
)
def test_odd_file_names_read_that_file_alone(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a1.csv", BASE)
    path = write(tmp_path / name, BASE[:3])
    assert exact(path, DOMAIN, sd.count(), csv=Csv(header=False, names=NAMES)) == [[3]]


@pytest.mark.deep
@pytest.mark.parametrize("names", [("select", "o c", "g'n"), ('a"; DROP TABLE x; --', "ü", "{g}"), ("a\\", "b,c", "'")])
def test_odd_column_names(tmp_path: Path, names: tuple[str, str, str]) -> None:
    domain = sd.Domain(dict(zip(names, DOMAIN.columns.values(), strict=True)), unreadable_rows=True)
    path = write(tmp_path / "d.csv", BASE)
    found = exact(path, domain, [sd.count(), sd.sum(names[0]), sd.count(names[1])], csv=Csv(header=False, names=names))
    assert found == [[500], [sum(20 + i % 50 for i in range(500))], [334]]


@pytest.mark.parametrize("head", [b"", b"age,,gain", b"age,age,gain", b"age,occ"])
def test_a_header_that_names_too_little_is_an_error_of_the_source(tmp_path: Path, head: bytes) -> None:
    path = write(tmp_path / "d.csv", [head, b"S3CRET-9f,1,2"])
    with pytest.raises(ValueError, match=r"header|no such column") as error:
        exact(path, DOMAIN, sd.count(), csv=Csv(header=True))
    assert "S3CRET" not in str(error.value)
    with pytest.raises(SourceError, match="no such file"):
        exact(tmp_path / "absent.csv", DOMAIN, sd.count(), csv=Csv(header=True))
