"""A CSV or JSON lines file as a relation of text columns: each physical line is read by itself, nothing is detected.

DuckDB reads lines without quotes itself. Where quotes are declared it reads whole lines only, which are taken apart in
SQL, since its own reader lets a quote that is never closed swallow the lines after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordino.engines.quoting import quote_name, quote_text
from sordino.source import Csv, header_names, split_ending

__all__ = ["literal_path", "read_csv", "read_json", "read_lines"]

WILD = "*?["


def read_csv(path: str, rules: Csv, *, at: str = "") -> str:
    """Return the relation of a CSV file, every cell as text.

    Theorem. Lines are read apart: a line is at most one row, and which one depends on that line alone. Unquoted, a line
    with too few cells lacks the last ones and one with too many is lost; quoted, a line that breaks the grammar or has
    another number of cells is lost. `at` is where the file is held open, if it is. Raises SourceError where the header
    line cannot be read.
    """
    names = header_names(path, rules, at=at)
    if not rules.quote:
        return _read(path, rules, names, rules.between, at)
    chosen = ", ".join(f"{_cell(f'cells[{i}]', rules)} AS {quote_name(name)}" for i, name in enumerate(names, 1))
    return f"(SELECT {chosen} FROM {read_lines(path, rules, at=at)} WHERE length(cells) = {len(names)})"


def read_lines(path: str, rules: Csv, *, at: str = "") -> str:
    """Return the relation of a CSV file's lines: `line`, and `cells`, NULL where it breaks the rules of quoting."""
    lines = f"(SELECT coalesce(line, '') AS line FROM {_read(path, rules, ['line'], '', at)})"
    sign, mark = quote_text(rules.between), quote_text(rules.quote)
    plain = f"string_split(line, {sign})"
    if not rules.quote:
        return f"(SELECT line, {plain} AS cells FROM {lines})"
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
    return f"(SELECT line, {cells} AS cells FROM {lines})"


def read_json(path: str, columns: Iterable[str], *, at: str = "") -> str:
    """Return the relation of a JSON lines file: each line an object whose values are these columns, every cell as text.

    Theorem. Lines are read apart, as of CSV: a line that is no JSON object is no row. A cell is the text of a value, a
    number in its shortest form; missing where the object has no such name, null, an object or a list. Of a name that
    stands twice in one object the first counts.
    """
    rules = Csv(header=False, names=("line",))
    whole = f"(SELECT TRY_CAST(line AS JSON) AS sordino_json FROM {_read(path, rules, ['line'], '', at)})"
    cells = []
    for name in columns:
        at = quote_text("/" + name.replace("~", "~0").replace("/", "~1"))
        plain = f"json_type(sordino_json, {at}) NOT IN ('OBJECT', 'ARRAY', 'NULL')"
        cells.append(f"CASE WHEN {plain} THEN json_extract_string(sordino_json, {at}) END AS {quote_name(name)}")
    return f"(SELECT {', '.join(cells)} FROM {whole} WHERE json_type(sordino_json) = 'OBJECT')"


def literal_path(path: str) -> str:
    """Return the pattern that one file alone meets: a name with * ? [ in it would otherwise read others."""
    return "".join(f"[{c}]" if c in WILD else c for c in path)


def _read(path: str, rules: Csv, names: Sequence[str], delimiter: str, at: str) -> str:
    """Return the call that reads every cell as text, with nothing detected."""
    columns = ", ".join(f"{quote_text(n)}: 'VARCHAR'" for n in names)
    return (
        f"read_csv({quote_text(literal_path(at or path))}, auto_detect = false, header = {str(rules.header).lower()}, "
        f"columns = {{{columns}}}, delim = {quote_text(delimiter)}, quote = '', escape = '', comment = '', "
        "nullstr = '', null_padding = true, strict_mode = false, ignore_errors = true, "
        f"compression = '{split_ending(path)[1] or 'none'}', "
        "max_line_size = 16777216, encoding = 'utf-8', hive_partitioning = false, union_by_name = false)"
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
