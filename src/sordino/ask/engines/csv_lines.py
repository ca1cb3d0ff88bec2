"""A CSV or JSON lines file as a relation of text columns: each physical line is read by itself, nothing is detected.

DuckDB reads lines without quotes itself. Where quotes are declared it reads whole lines only, which are taken apart in
SQL, since its own reader lets a quote that is never closed swallow the lines after it.

Its reader loses every line with a byte that is not UTF-8, without a word. So a file that holds one is read from a copy, in
which such bytes are marked (`copy_marked`): the cell that they lie in is missing, and the line keeps its other cells. So is
a file in another encoding, or one with a title (`Csv.is_plain`): its copy has the lines below the header alone.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO

from sordino.ask.engines.readers.cell_formats import matches, read_cell
from sordino.ask.engines.sql_text import quote_name, quote_text
from sordino.core.cell_formats import NUMBERS, CellFormat
from sordino.core.cell_grammar import BLANKS
from sordino.core.source import LONGEST_LINE, Csv, header_names, open_unpacked, read_raw_lines, split_ending

WILD = "*?["

# code points that are no characters: the first, unless it is the delimiter
_MARKS = "\U0010ffff\U0010fffe"
# Python's surrogates for bytes that are not UTF-8
_UNDECODED = re.compile("[\udc80-\udcff]+")


def is_utf8(path: str, *, at: str = "") -> bool:
    """Return whether all of a file, decompressed, is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_unpacked(path, at=at) as file:
            while chunk := file.read(2**20):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def copy_marked(path: str, copy: str, rules: Csv | None, *, at: str = "") -> None:
    """Copy a file, decompressed, with a mark and 1 for bytes that are not UTF-8, and a mark and 0 for the mark itself.

    Theorem. Let each cell of the copy be missing where it holds a mark and 1, else itself with each mark and 0 made a mark.
    A line without bad bytes has the cells that the file gives it, so one line decides nothing of another. Proof: marking is
    one-to-one on such a line, changes neither delimiters, quotes nor line ends, which are no marks, and is undone in each
    cell. In JSON a mark may also be written as an escape, which is marked as well.
    """
    mark = _mark(rules)
    escape = "".join(
        f"\\\\u{unit:04x}" for unit in (0xD800 + (ord(mark) - 0x10000 >> 10), 0xDC00 + (ord(mark) & 0x3FF))
    )
    escaped = re.compile(rf"(?<!\\)((?:\\\\)*){escape}", re.IGNORECASE)
    encoding = "utf-8" if rules is None else rules.encoding
    with open_unpacked(path, at=at) as file, open(copy, "wb") as marked:
        for line in _table_lines(file, rules):
            text = line.decode(encoding, "surrogateescape").replace(mark, f"{mark}0")
            if rules is None:
                text = escaped.sub(rf"\g<1>{mark}0", text)
            marked.write(_UNDECODED.sub(f"{mark}1", text).encode())


def _table_lines(file: IO[bytes], rules: Csv | None) -> Iterator[bytes]:
    """Yield the lines of a file; where it is not plain those below its header alone.

    Lines above are counted and not looked at. They are a title and the header that stands below it (`skip_first` needs one),
    whose names the declaration must fit, and no rows. Nothing is counted from the end, where only rows stand.
    """
    lines = read_raw_lines(file)
    if rules is None or rules.is_plain:
        yield from lines
        return
    yield from itertools.islice(lines, rules.lines_aside, None)


def _mark(rules: Csv | None) -> str:
    return next(mark for mark in _MARKS if rules is None or rules.between != mark)


def _unmarked(cell: str, mark: str) -> str:
    """Return a cell of a marked copy as the file has it, missing where bytes of it are not UTF-8."""
    return f"CASE WHEN NOT contains({cell}, '{mark}1') THEN replace({cell}, '{mark}0', '{mark}') END"


def read_csv(
    path: str,
    rules: Csv,
    *,
    formats: Mapping[str, Sequence[CellFormat]] = MappingProxyType({}),
    at: str = "",
    marked: bool = False,
) -> str:
    """Return the relation of a CSV file, every cell as text, those of columns with `formats` as they are written everywhere.

    Theorem. Lines are read apart: a line is at most one row, and which one depends on that line alone. Unquoted, a line
    with too few cells lacks the last ones, one with too many has the first ones, and a blank line is none; quoted, a line
    that breaks the grammar or has another number of cells is lost. A line whose first cell is one of `Csv.totals` is lost
    wherever it stands, so a row less takes that row alone, also where the cell of a person is such a word.

    `at` is the path of the open file, or of its `marked` copy. Raises SourceError where the header line cannot be read.
    """
    names = header_names(path, rules, at="" if marked else at)
    mark = _mark(rules)
    if rules.quote:
        texts = [_cell(f"cells[{i}]", rules) for i in range(1, len(names) + 1)]
        relation = (
            f"{read_lines(path, rules, at=at, marked=marked)} WHERE length(cells) = {len(names)} AND NOT is_total"
        )
    else:
        texts = [quote_name(name) for name in names]
        relation = _read(path, rules, names, rules.between, at, marked=marked)
        if not marked and not formats and not rules.totals:
            return relation
        relation = f"{relation} WHERE NOT {_is_total(texts[0], rules)}"
    if marked:
        texts = [_unmarked(f"({text})" if rules.quote else text, mark) for text in texts]
    cells = [
        _plain_cell(text, formats[name], rules.missing_cells(name)) if name in formats else text
        for name, text in zip(names, texts, strict=True)
    ]
    items = ", ".join(f"{cell} AS {quote_name(name)}" for cell, name in zip(cells, names, strict=True))
    return f"(SELECT {items} FROM {relation})"


def _plain_cell(text: str, formats: Sequence[CellFormat], missing: Sequence[str]) -> str:
    """Return a cell as it is written everywhere, by the first of some formats that it has; NULL where it means missing.

    A number that has none of them is none, and keeps its text behind a sign that no reading takes; a day or a truth may still
    be written as it is everywhere.
    """
    cell = f"trim({text}, {quote_text(BLANKS)})"
    unread = f"'? ' || {cell}"
    ways = "".join(
        f" WHEN {matches(form, cell)} THEN coalesce(CAST({read_cell(form, cell)} AS VARCHAR), {unread})"
        for form in formats
    )
    otherwise = unread if formats[0].kind in NUMBERS else cell
    return f"CASE WHEN {cell} IN ({', '.join(map(quote_text, missing))}) THEN NULL{ways} ELSE {otherwise} END"


def read_lines(path: str, rules: Csv, *, at: str = "", marked: bool = False) -> str:
    """Return the relation of a CSV file's lines, in their order: `line`, `undecoded`, `cells` and `is_total`.

    `cells` are NULL where a line breaks the rules of quoting. `is_total` says that it is no row by `Csv.totals`.
    """
    undecoded = f"contains(line, '{_mark(rules)}1')" if marked else "false"
    lines = f"(SELECT coalesce(line, '') AS line FROM {_read(path, rules, ['line'], '', at, marked=marked)})"
    sign = quote_text(rules.between)
    mark = quote_text(rules.quote)
    plain = f"string_split(line, {sign})"
    if not rules.quote:
        total = _is_total(f"{plain}[1]", rules)
        return f"(SELECT line, {undecoded} AS undecoded, {plain} AS cells, {total} AS is_total FROM {lines})"
    # Split at the quotes: every second part lies inside a cell, and an empty part between two of those is a doubled quote.
    # What a cell holds is written with the quote as escape, as no part has one, and the line is split at the delimiters left.
    delimiter, quote = (quote_text(rules.quote + code) for code in _codes(rules))
    masked = (
        f"array_to_string(list_transform(string_split(line, {mark}), lambda part, i: CASE "
        f"WHEN i % 2 = 0 THEN replace(part, {sign}, {delimiter}) WHEN part = '' AND i > 1 THEN {quote} ELSE part END), '')"
    )
    # The last part is empty where the line ends in a quote: as no cell goes on after it, that code is cut off again.
    masked = f"left({masked}, CASE WHEN ends_with(line, {mark}) THEN -2 ELSE 2147483647 END)"
    whole = f"regexp_full_match(line, {quote_text(rules.grammar())})"
    cells = f"CASE WHEN NOT contains(line, {mark}) THEN {plain} WHEN {whole} THEN string_split({masked}, {sign}) END"
    total = _is_total(_cell("cells[1]", rules), rules)
    return f"(SELECT line, {undecoded} AS undecoded, {cells} AS cells, {total} AS is_total FROM {lines})"


def _is_total(cell: str, rules: Csv) -> str:
    """Return the condition that a line with this first cell is no row: never NULL.

    Theorem. A file has the rows that its lines have alone, whichever of them are totals. Proof: the condition reads the first
    cell of its own line and declared words, never how many lines there are or where this one stands; so to take a line away
    takes its own row, if it had one, and no other.
    """
    if not rules.totals:
        return "false"
    words = ", ".join(map(quote_text, rules.totals))
    return f"(coalesce(trim({cell}, {quote_text(BLANKS)}), '') IN ({words}))"


def read_json(path: str, columns: Iterable[str], *, at: str = "", marked: bool = False) -> str:
    """Return the relation of a JSON lines file: each line an object whose values are these columns, every cell as text.

    Theorem. Lines are read apart, as of CSV: a line that is no JSON object is no row. A cell is the text of a value, a
    number in its shortest form; missing where the object has no such name, null, an object or a list. Of a name that
    stands twice in one object the first counts.
    """
    rules = Csv(header=False, names=("line",))
    whole = (
        f"(SELECT TRY_CAST(line AS JSON) AS sordino_json FROM {_read(path, rules, ['line'], '', at, marked=marked)})"
    )
    mark = _mark(None)
    cells = []
    for name in columns:
        key = name.replace(mark, f"{mark}0") if marked else name
        pointer = quote_text("/" + key.replace("~", "~0").replace("/", "~1"))
        plain = f"json_type(sordino_json, {pointer}) NOT IN ('OBJECT', 'ARRAY', 'NULL')"
        cell = f"CASE WHEN {plain} THEN json_extract_string(sordino_json, {pointer}) END"
        cells.append(f"{_unmarked(f'({cell})', mark) if marked else cell} AS {quote_name(name)}")
    return f"(SELECT {', '.join(cells)} FROM {whole} WHERE json_type(sordino_json) = 'OBJECT')"


def literal_path(path: str) -> str:
    """Return the pattern that one file alone meets: a name with * ? [ in it would otherwise read others."""
    return "".join(f"[{c}]" if c in WILD else c for c in path)


def _read(path: str, rules: Csv, names: Sequence[str], delimiter: str, at: str, *, marked: bool) -> str:
    """Return the call that reads every cell as text, with nothing detected; a marked copy is not compressed."""
    columns = ", ".join(f"{quote_text(n)}: 'VARCHAR'" for n in names)
    # the copy of a file that is not plain has the lines of the table alone
    header = rules.header and (rules.is_plain or not marked)
    return (
        f"read_csv({quote_text(literal_path(at or path))}, auto_detect = false, header = {str(header).lower()}, "
        f"columns = {{{columns}}}, delim = {quote_text(delimiter)}, quote = '', escape = '', comment = '', "
        "nullstr = '', null_padding = true, strict_mode = false, ignore_errors = true, "
        f"compression = '{('' if marked else split_ending(path)[1]) or 'none'}', "
        f"max_line_size = {LONGEST_LINE}, encoding = 'utf-8', hive_partitioning = false, union_by_name = false)"
    )


def _cell(at: str, rules: Csv) -> str:
    """Return a cell's own text: delimiters and quotes that it holds are put back."""
    delimiter, quote = _codes(rules)
    mark = rules.quote
    back = f"replace({at}, {quote_text(mark + delimiter)}, {quote_text(rules.between)})"
    back = f"replace({back}, {quote_text(mark + quote)}, {quote_text(mark)})"
    return f"CASE WHEN contains({at}, {quote_text(mark)}) THEN {back} ELSE {at} END"


def _codes(rules: Csv) -> tuple[str, str]:
    """Return two characters that are not the delimiter: after a quote they stand for a delimiter and for a quote."""
    first, second, *_ = (c for c in "012" if c != rules.between)
    return first, second
