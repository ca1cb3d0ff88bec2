"""A byte that is not UTF-8 takes its own cell and nothing else, in CSV and JSON lines, and decides nothing of other lines."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from ask.engines.support import engine_of
from protecting import protect
from sordino.ask.curator.project_check import check_against_data

DOMAIN = sd.Domain({"town": sd.Identifier(), "x": sd.Identifier(), "day": sd.Identifier()})
MARK, OTHER_MARK = "\U0010ffff", "\U0010fffe"
BAD = [b"\xff", b"Gyn\xe4k", b"\xc3", b"\xed\xa0\x80", b"a\xf0\x9fb", b"\xc0\x80"]
GOOD = [
    "Chir",
    "",
    "Gynäk",
    "日本",
    MARK,
    MARK + "0",
    MARK + "1",
    MARK + MARK + "1",
    OTHER_MARK + "1",
    "30",
    "a b",
    "é\u2028e",
]
COMMA, QUOTED = sd.Csv(header=True), sd.Csv(header=True, quote='"')
RULES = {
    "comma": COMMA,
    "quoted": QUOTED,
    "no header": sd.Csv(header=False, names=("town", "x", "day")),
    "non-ASCII delimiter": sd.Csv(header=True, delimiter="§"),
    "delimiter that is the mark": sd.Csv(header=True, delimiter=MARK),
}


def cells_of(path: Path, csv: sd.Csv | None) -> list[tuple[str | None, ...]]:
    """Return each row's cells as they are read, in any order."""
    from sqlglot import exp

    engine = engine_of(path, DOMAIN, csv=csv)
    try:
        on = engine.primitives
        select = exp.Select(expressions=[exp.alias_(on.raw(name), name) for name in DOMAIN]).from_(on.source())
        return [tuple(row.values()) for row in engine.run(select).to_pylist()]
    finally:
        engine.close()


def line_of(cells: list[bytes], csv: sd.Csv | None) -> bytes:
    if csv is None:
        return b"{" + b", ".join(b'"%s": "%s"' % (n.encode(), c) for n, c in zip(DOMAIN, cells, strict=True)) + b"}"
    if csv.quote:
        cells = [b'"%s"' % c for c in cells]
    return csv.between.encode().join(cells)


def write(path: Path, lines: list[bytes], csv: sd.Csv | None) -> Path:
    head = [csv.between.join(DOMAIN).encode()] if csv is not None and csv.header else []
    whole = b"".join(line + b"\n" for line in [*head, *lines])
    path.write_bytes(gzip.compress(whole) if path.suffix == ".gz" else whole)
    return path


@pytest.mark.each(20)
@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize("name", [*RULES, "jsonl"])
def test_a_bad_line_changes_no_other_and_keeps_its_other_cells(name: str, packing: str, tmp_path: Path) -> None:
    csv, ending = RULES.get(name), f".jsonl{packing}" if name == "jsonl" else f".csv{packing}"
    rng = random.Random(name + packing)
    good = [g for g in GOOD if csv is None or csv.between not in g]
    rows = [[rng.choice(good).encode() for _ in DOMAIN] for _ in range(60)]
    lines = [line_of(row, csv) for row in rows]
    before = Counter(cells_of(write(tmp_path / f"good{ending}", lines, csv), csv))
    for bad in BAD:
        place = rng.randrange(3)
        row = [b"Chir", b"7", b"z"]
        row[place] = bad
        mixed = [*lines, line_of(row, csv)]
        rng.shuffle(mixed)
        after = Counter(cells_of(write(tmp_path / f"bad{ending}", mixed, csv), csv))
        kept = tuple(None if i == place else cell.decode() for i, cell in enumerate(row))
        assert after - before == Counter([kept])
        assert not before - after


def test_escapes_of_json_that_spell_the_mark_are_read_as_they_were(tmp_path: Path) -> None:
    odd = [r"\udbff\udfff1", r"\uDBFF\uDFFF0", r"\\udbff\\udfff1", r"\\\udbff\udfff\udbff\udfff1", r"a\udbff\udfff"]
    lines = [line_of([o.encode(), b"1", b"z"], None) for o in odd]
    before = Counter(cells_of(write(tmp_path / "good.jsonl", lines, None), None))
    after = Counter(cells_of(write(tmp_path / "bad.jsonl", [*lines, line_of([b"\xff", b"1", b"z"], None)], None), None))
    assert after - before == Counter([(None, "1", "z")])
    assert not before - after


@pytest.mark.deep
def test_a_file_in_another_encoding_is_counted_and_its_other_cells_are_read(tmp_path: Path) -> None:
    path = tmp_path / "stay.csv"
    text = "ward,age\n" + "Gynäkologie,30\nChirurgie,40\n" * 1000
    path.write_bytes(text.encode("cp1252"))
    domain = sd.Domain({"ward": sd.Category(["Chirurgie"], missing="keep"), "age": sd.Integer(0, 100)})
    stays = protect(path, domain, csv=COMMA)
    value: Any = stays.ask([sd.count().alias("n"), sd.mean("age").alias("age")], epsilon=10**4).value
    assert (round(value["n"]), round(value["age"])) == (2000, 35)
    found = check_against_data(path, domain=domain, csv=COMMA)
    assert [(m.count, m.key) for m in found.misfits] == [(1000, "csv")]
    assert "not UTF-8" in found.misfits[0].what
