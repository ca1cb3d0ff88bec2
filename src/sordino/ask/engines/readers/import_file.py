"""A file as people have it to typed Parquet, with a recipe of what was done. For the curator: NOT PRIVATE.

First every cell is copied as text. Then each column's cells are held against the formats that the curator states, or, where
nothing is stated, against the usual ones; a column whose cells all match one is converted. Nothing is charged, since nothing
here is an answer, and what is printed is for the curator's eyes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.instances import SpillDirectory
from sordino.ask.engines.readers.cell_formats import matches, read_cell
from sordino.ask.engines.readers.text_tables import Layout, open_text_table
from sordino.ask.engines.sql_text import quote_name, quote_text
from sordino.core.cell_formats import (
    KINDS,
    CellFormat,
    conflicting,
    day_formats,
    number_formats,
    truth_formats,
)
from sordino.core.cell_grammar import FALSE, TRUE
from sordino.core.errors import DeclarationError, SourceError, nearest

if TYPE_CHECKING:
    import duckdb

# Keys of Parquet's metadata: the labels of a codebook by column, which `sordino init` proposes as declared values, and the
# columns whose types were read in the cells, which it says.
LABELS = "sordino_labels"
GUESSED = "sordino_guessed"
# Cells of a column that rule out formats before all of its cells are read.
_SAMPLE = 200
# Formats of columns that one statement tests.
_TESTS = 200
# The row's number in the view of cells.
_ROW = "sordino row"
# Odd rows at the top of a table that may belong to its header.
_FEW_ROWS = 3
# Different cells of a column that may mean missing.
_FEW_MARKS = 5
# Words of truths in the languages around, of which a column holds two; what an import takes for truths by itself is TRUE, FALSE.
_YES = frozenset([*TRUE, "j", "ja", "o", "oui", "s", "si", "sí", "sì", "sim", "tak", "wahr", "vrai", "verdadero", "x"])
_NO = frozenset([*FALSE, "nein", "nee", "nej", "non", "não", "nao", "nie", "falsch", "faux", "falso", "-"])
_BY_COLUMN = ("null", "decimal", "thousands", "date", "true", "false")
_RECIPE_HEAD = """\
# How a table was imported. `sordino import THIS.toml` does it again, and guesses nothing.
# It holds how cells are written, never a cell, a count, or a value that was seen in the data.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRules:
    """How cells are written, as the curator states it: each a value for all columns, or COLUMN=value for one.

    `null` are texts that mean missing, beside empty cells; `date` a format such as %d.%m.%Y, or several with | between them, of
    which the first that a cell has reads it; `types` says of a column
    what it is (`Kosten=text`). What is not stated is guessed from the cells.
    """

    null: tuple[str, ...] = ()
    decimal: tuple[str, ...] = ()
    thousands: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedColumn:
    """A column of an import: its name, how its cells are written, whether that is a guess, and the labels of a codebook."""

    name: str
    format: CellFormat
    guessed: bool = False
    labels: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """What an import did: its columns, notes in words, and the recipe that repeats it."""

    columns: tuple[ImportedColumn, ...]
    notes: tuple[str, ...]
    recipe: str

    @property
    def guesses(self) -> tuple[ImportedColumn, ...]:
        """The columns whose format nobody stated."""
        return tuple(column for column in self.columns if column.guessed and column.format.kind != "text")


def import_file(
    source: str | Path,
    target: str | Path,
    *,
    layout: Layout | None = None,
    rules: CellRules | None = None,
    strict: bool = False,
    confirm: Callable[[Sequence[ImportedColumn]], bool] | None = None,
) -> ImportRecord:
    """Write a file, a folder or a database's table as typed Parquet; return what was done, with the recipe that repeats it.

    Cells are trimmed, and empty ones are missing. A column becomes numbers, days, moments or truths where all of its cells
    are written so; else it stays text, as a number with a leading zero does. Where cells can be read in two ways (01/02/2024)
    it stays text, with a note, until one is stated. Percent becomes a fraction, an amount loses its currency.

    With `strict` a guess is refused; `confirm` sees the guesses, and what it does not confirm stays text. NOT PRIVATE: an
    error names the row that it stands in. Raises SourceError where the file cannot be read or a cell does not fit what is
    stated, DeclarationError where the layout or the rules do not fit the file; then no target is written.
    """
    layout = layout or Layout()
    rules = rules or CellRules()
    with contextlib.ExitStack() as stack:
        # raw rows lie beside the target, where there is room: locked, so that what a killed import leaves is known as such
        spill = _spill_beside(Path(target))
        folder = Path(stack.enter_context(spill))
        table = stack.enter_context(open_text_table(str(source), layout))
        text = folder / "text.parquet"
        _write_text(text, table.names, table.batches)
        stated = _read_rules(rules, table.names)
        with _open(text, stated) as connection:
            columns = _choose_formats(connection, table.names, stated, table.labels)
            guesses = [column for column in columns if column.guessed and column.format.kind != "text"]
            if strict and guesses:
                _refuse_guesses(guesses)
            if confirm is not None and guesses and not confirm(guesses):
                columns = [_as_text(column) if column.guessed else column for column in columns]
            _convert(connection, columns, folder / "values.parquet")
        _put_in_place(folder / "values.parquet", Path(target))
    notes = [*table.notes, *(f"{column.name}: {column.note}" for column in columns if column.note)]
    if spill.leftovers:
        notes.append(
            f"removed what an import left beside {target} when it was killed: {spill.leftovers} folder of raw rows"
        )
    recipe = write_recipe(str(source), str(target), layout, rules, columns)
    return ImportRecord(tuple(columns), tuple(notes), recipe)


def _spill_beside(target: Path) -> SpillDirectory:
    """Return a new directory for raw rows; raises DeclarationError where the target cannot be written."""
    if target.is_dir():
        raise DeclarationError(f"{target} is a directory: name a file in it")
    try:
        return SpillDirectory(str(target.absolute().parent))
    except OSError as error:
        raise DeclarationError(
            f"{target} cannot be written: {error.strerror}; make the directory, or name another"
        ) from None


def _put_in_place(whole: Path, target: Path) -> None:
    """Put a whole file in the place of a target, with the rights of what is there."""
    with contextlib.suppress(OSError):
        whole.chmod(target.stat().st_mode & 0o777)
    whole.replace(target)


# ---- The rules of each column


@dataclass(frozen=True, slots=True)
class _Stated:
    """What is stated of one column: None, or nothing, where it is to be guessed."""

    null: tuple[str, ...]
    decimal: str | None
    thousands: str | None
    date: str | None
    true: tuple[str, ...]
    false: tuple[str, ...]
    kind: str | None


def _read_rules(rules: CellRules, names: Sequence[str]) -> dict[str, _Stated]:
    """Return what is stated of each column: what names a column is for it alone, and goes before what is for all."""
    by_column: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for rule in (*_BY_COLUMN, "types"):
        for text in getattr(rules, rule):
            name, sign, value = text.partition("=")
            if sign and name in by_column:
                by_column[name].setdefault(rule, []).append(value)
            elif rule == "types":
                raise DeclarationError(f"--type takes COLUMN=TYPE, such as Kosten=text: {nearest(name, names)}")
    everywhere = {
        rule: [text for text in getattr(rules, rule) if text.partition("=")[0] not in by_column] for rule in _BY_COLUMN
    }
    return {name: _state(name, by_column[name], everywhere) for name in names}


def _state(name: str, own: Mapping[str, list[str]], everywhere: Mapping[str, list[str]]) -> _Stated:
    def one(rule: str) -> str | None:
        values = own.get(rule) or everywhere[rule]
        if len(values) > 1:
            raise DeclarationError(f"--{rule} is stated {len(values)} times for column {name!r}: state it once")
        return values[0] if values else None

    kind = own.get("types", [None])[0]
    if kind is not None and kind not in KINDS:
        raise DeclarationError(f"column {name!r}: {nearest(kind, KINDS)}")
    return _Stated(
        null=(*own.get("null", ()), *everywhere["null"]),
        decimal=one("decimal"),
        thousands=one("thousands"),
        # a stated format of dates is tried on every column, and binds the one that is named with it
        date=one("date"),
        true=tuple(own.get("true") or everywhere["true"]),
        false=tuple(own.get("false") or everywhere["false"]),
        kind=kind or ("date" if "date" in own else None),
    )


def _candidates(stated: _Stated) -> Iterator[CellFormat]:
    """Yield the formats that a column is held against, the preferred ones first."""
    if stated.kind == "text":
        return
    formats = [
        *(truth_formats(stated.true, stated.false) if stated.true else ()),
        *number_formats(stated.decimal, stated.thousands),
        *day_formats(stated.date),
        *(day_formats(None) if stated.date is not None and stated.kind != "date" else ()),
        *truth_formats((), ()),
    ]
    wanted = {"date": ("date", "moment")}.get(stated.kind or "", (stated.kind,))
    for form in dict.fromkeys(formats):
        if stated.kind is None or form.kind in wanted:
            yield form


# ---- Text, formats, values


def _write_text(path: Path, names: Sequence[str], batches: Iterator[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _open(text: Path, stated: Mapping[str, _Stated]) -> duckdb.DuckDBPyConnection:
    """Return a connection with the view `cells`: trimmed texts, NULL where they are empty or mean missing, and `row`, from 1."""
    import duckdb

    connection = duckdb.connect()
    # its search for common parts compares all expressions with each other: of 1,000 columns that takes ten times the work
    connection.execute("SET disabled_optimizers = 'common_subexpressions'")
    cells = []
    for name, of_column in stated.items():
        cell = f"nullif({quote_name(name)}, '')"
        for mark in of_column.null:
            cell = f"nullif({cell}, {quote_text(mark)})"
        cells.append(f"{cell} AS {quote_name(name)}")
    connection.execute(
        f"CREATE VIEW cells AS SELECT {', '.join(cells)}, file_row_number + 1 AS {quote_name(_ROW)} "
        f"FROM read_parquet({quote_text(str(text))}, file_row_number = true)"
    )
    return connection


def _fits(cell: str, form: CellFormat) -> str:
    """Return the SQL of whether a cell is missing or is written in a format and has a value."""
    return f"({cell} IS NULL OR ({matches(form, cell)} AND ({read_cell(form, cell)}) IS NOT NULL))"


def _choose_formats(
    connection: duckdb.DuckDBPyConnection,
    names: Sequence[str],
    stated: Mapping[str, _Stated],
    labels: Mapping[str, tuple[str, ...]],
) -> list[ImportedColumn]:
    """Return each column with the first format that all of its cells have; as text where none does, or a codebook labels it."""
    tried = [name for name in names if name not in labels and stated[name].kind != "text"]
    samples = _samples(connection, tried)
    formats = {name: list(_candidates(stated[name])) for name in tried}
    # a handful of cells rules out nearly every format, so that few are held against the whole column
    few = {
        name: [form for form in formats[name] if all(map(form.has, samples[name]))] for name in tried if samples[name]
    }
    # most columns have the first format left, and then only those matter that would read the same cells as other values
    first = {
        name: [forms[0], *(other for other in forms[1:] if conflicting(forms[0], other))]
        for name, forms in few.items()
        if forms
    }
    matching: dict[str, list[CellFormat]] = {name: [] for name in few}
    matching |= _matching(connection, first)
    rest = {name: few[name] for name in first if matching[name][:1] != few[name][:1]}
    matching |= _matching(connection, rest)
    truths = _truth_notes(connection, {name: samples[name] for name, forms in matching.items() if not forms})
    columns = []
    for name in names:
        if name not in samples:
            guessed = stated[name].kind is None and name not in labels
            columns.append(ImportedColumn(name, CellFormat("text"), guessed=guessed, labels=labels.get(name, ())))
        elif not samples[name]:
            note = "every cell is missing, so it stays text"
            columns.append(ImportedColumn(name, CellFormat("text"), guessed=True, note=note))
        elif matching[name]:
            columns.append(_with_format(name, stated[name], matching[name]))
        else:
            if stated[name].kind is not None:
                _refuse_cell(connection, name, quote_name(name), formats[name])
            note = truths.get(name, "")
            fitting = [] if note else [sum(map(form.has, samples[name])) for form in formats[name]]
            if fitting and max(fitting) * 2 > len(samples[name]):
                most_fitting = formats[name][fitting.index(max(fitting))]
                note = _describe_misfits(connection, name, quote_name(name), most_fitting)
            columns.append(ImportedColumn(name, CellFormat("text"), guessed=True, note=note))
    return columns


def _samples(connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> dict[str, list[str]]:
    """Return some cells of each column: those of the first rows, or the first there are where those have none."""
    if not names:
        return {}
    rows = connection.execute(f"SELECT {', '.join(map(quote_name, names))} FROM cells LIMIT {_SAMPLE}").fetchall()
    samples: dict[str, list[str]] = {}
    for name, column in zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True):
        samples[name] = [cell for cell in column if cell is not None]
        if not samples[name] and len(rows) == _SAMPLE:
            first = f"SELECT {quote_name(name)} FROM cells WHERE {quote_name(name)} IS NOT NULL LIMIT {_SAMPLE}"
            samples[name] = [cell for (cell,) in connection.execute(first).fetchall()]
    return samples


def _matching(
    connection: duckdb.DuckDBPyConnection, formats: Mapping[str, Sequence[CellFormat]]
) -> dict[str, list[CellFormat]]:
    """Return, of each column, those of some formats that all of its cells have."""
    tests = [(name, form) for name, forms in formats.items() for form in forms]
    matching: dict[str, list[CellFormat]] = {name: [] for name in formats}
    fitting = _hold(connection, [_fits(quote_name(name), form) for name, form in tests])
    for (name, form), fits in zip(tests, fitting, strict=True):
        if fits:
            matching[name].append(form)
    return matching


def _hold(connection: duckdb.DuckDBPyConnection, conditions: Sequence[str]) -> list[bool]:
    """Return which conditions hold in every row."""
    answers: list[bool] = []
    for start in range(0, len(conditions), _TESTS):
        items = ", ".join(f"bool_and({condition})" for condition in conditions[start : start + _TESTS])
        answers += connection.execute(f"SELECT {items} FROM cells").fetchone() or ()
    return answers


def _with_format(name: str, stated: _Stated, matching: Sequence[CellFormat]) -> ImportedColumn:
    """Return a column with the first of the formats that it has; as text where another reads its cells as other values."""
    form = matching[0]
    states = stated.kind is not None or (form.kind in ("date", "moment") and form.date == stated.date)
    other = next((another for another in matching[1:] if conflicting(form, another)), None)
    if other is not None and not states:
        ways = f"{form.describe()} or {other.describe()}"
        return ImportedColumn(
            name, CellFormat("text"), guessed=True, note=f"stays text, since its cells can be {ways}: state which"
        )
    marked = form.decimal == stated.decimal and form.kind != "integer"
    return ImportedColumn(name, form, guessed=not (states or (marked and form.thousands in ("", stated.thousands))))


def _refuse_cell(connection: duckdb.DuckDBPyConnection, name: str, cell: str, formats: Sequence[CellFormat]) -> None:
    """Raise SourceError with the first row whose cell is not written as it is stated."""
    fitting = " OR ".join(f"({_fits(cell, form)})" for form in formats)
    row = connection.execute(
        f"SELECT {quote_name(_ROW)}, {cell} FROM cells WHERE NOT ({fitting}) ORDER BY 1 LIMIT 1"
    ).fetchone()
    kind = formats[0].describe()
    where = (
        "the rows cannot be read in one way" if row is None else f"row {row[0]} of the table holds {str(row[1])[:60]!r}"
    )
    raise SourceError(
        f"column {name!r} is stated as {kind}, and {where} (NOT PRIVATE): state --null TEXT if it means missing, or "
        f"--type {name}=text; nothing was written"
    )


def _truth_notes(connection: duckdb.DuckDBPyConnection, samples: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return what reads a column as truths, for columns that hold two words of which one alone means yes, or no."""
    pairs: dict[str, tuple[str, str]] = {}
    for name, sample in samples.items():
        words = sorted(set(sample))
        if len(words) == 1 and words[0].lower() in _YES | _NO:
            # the other word lies below the sample
            cell = quote_name(name)
            other = f"SELECT {cell} FROM cells WHERE {cell} <> {quote_text(words[0])} LIMIT 1"
            words += [str(word) for (word,) in connection.execute(other).fetchall()]
        yes = [word for word in words if word.lower() in _YES]
        no = [word for word in words if word.lower() in _NO]
        if len(words) != 2 or not yes + no or len(yes) == 2 or len(no) == 2:
            continue
        true = yes[0] if yes else next(word for word in words if word not in no)
        pairs[name] = (true, next(word for word in words if word != true))
    conditions = [
        f"({quote_name(name)} IS NULL OR {quote_name(name)} IN ({quote_text(true)}, {quote_text(false)}))"
        for name, (true, false) in pairs.items()
    ]
    notes = {}
    for (name, pair), is_all in zip(pairs.items(), _hold(connection, conditions), strict=True):
        if is_all:
            stated = (json.dumps(f"{name}={word}", ensure_ascii=False) for word in pair)
            notes[name] = "stays text, since its two words may be truths: --true {} --false {}".format(*stated)
    return notes


def _describe_misfits(connection: duckdb.DuckDBPyConnection, name: str, cell: str, form: CellFormat) -> str:
    """Return how many cells of a column of text have a format, and which is the first without; nothing where most are."""
    fits = _fits(cell, form)
    counts = connection.execute(
        f"SELECT count(*), count({cell}), count(*) FILTER (WHERE {cell} IS NOT NULL AND {fits}), "
        f"count(DISTINCT {cell}) FILTER (WHERE NOT {fits}) FROM cells"
    ).fetchone()
    rows, filled, fitting, different = counts or (0, 0, 0, 0)
    if fitting * 2 <= filled:
        return ""
    row, text = connection.execute(
        f"SELECT {quote_name(_ROW)}, {cell} FROM cells WHERE NOT {fits} ORDER BY 1 LIMIT 1"
    ).fetchone() or (0, "")
    rest = filled - fitting
    are = "is not, in" if rest == 1 else "are not, the first in"
    first = (
        f"stays text: {fitting:,} of {filled:,} cells are {form.describe()}, {rest:,} {are} row {row} ({text[:40]!r})"
    )
    null = f"--null {json.dumps(f'{name}={text[:40]}', ensure_ascii=False)} if that means missing"
    other = _other_days(connection, cell, form)
    if other:
        return f"{first}: --date {json.dumps(f'{name}={form.date}|{other}', ensure_ascii=False)} reads either"
    if rest == 1 and row == rows and any(sign.isalpha() for sign in text):
        return f"{first}: --skip-last 1 if the last row is a total and no row of the table, {null}"
    if rest <= _FEW_ROWS and row == 1:
        return f"{first}: --header-rows {rest + 1} if it has names, --skip-first if the rows above are a title, {null}"
    # many different cells are no marks of missing ones
    if different > _FEW_MARKS:
        return f"{first}; {different:,} different ones, so they are no marks of what is missing: correct the file"
    return f"{first}: {null}"


def _other_days(connection: duckdb.DuckDBPyConnection, cell: str, form: CellFormat) -> str:
    """Return the format of days that all cells have which have not a first one; nothing where there is none."""
    if form.kind != "date":
        return ""
    others = [other for other in day_formats(None) if other.kind == "date" and not conflicting(form, other)]
    tests = ", ".join(f"bool_and({_fits(cell, other)})" for other in others)
    answers = connection.execute(f"SELECT {tests} FROM cells WHERE NOT {_fits(cell, form)}").fetchone() or ()
    return next((other.date for other, fits in zip(others, answers, strict=True) if fits), "")


def _as_text(column: ImportedColumn) -> ImportedColumn:
    return ImportedColumn(column.name, CellFormat("text"), labels=column.labels)


def _refuse_guesses(guesses: Sequence[ImportedColumn]) -> None:
    ways = ", ".join(
        f"--type {json.dumps(f'{column.name}={column.format.kind}', ensure_ascii=False)}" for column in guesses
    )
    raise DeclarationError(f"with --strict nothing is guessed: state {ways}, or =text for any of them")


def _convert(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ImportedColumn],
    target: Path,
) -> None:
    """Write the values as Parquet, in the order of the rows, with the labels of a codebook in its metadata."""
    import duckdb

    values = ", ".join(
        f"{read_cell(column.format, quote_name(column.name))} AS {quote_name(column.name)}" for column in columns
    )
    labels = {column.name: list(column.labels) for column in columns if column.labels}
    guessed = [column.name for column in columns if column.guessed and column.format.kind != "text"]
    about = ", ".join(
        f"{key}: {quote_text(json.dumps(value, ensure_ascii=False))}"
        for key, value in ((LABELS, labels), (GUESSED, guessed))
    )
    copied = False
    try:
        connection.execute(
            f"COPY (SELECT {values} FROM cells) "
            f"TO {quote_text(str(target))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{about}}})"
        )
        copied = True
    except duckdb.Error:
        copied = False
    if not copied:
        raise SourceError(f"{target} cannot be written: check the place, and that the disk has room")


# ---- The recipe


def write_recipe(source: str, target: str, layout: Layout, rules: CellRules, columns: Sequence[ImportedColumn]) -> str:
    """Return the recipe of an import as TOML: the file, how it is laid out, and how the cells of each column are written."""
    import tomlkit

    document = tomlkit.document()
    document["source"] = source
    document["target"] = target
    table = tomlkit.table()
    defaults = Layout()
    for field in fields(layout):
        value = getattr(layout, field.name)
        if value != getattr(defaults, field.name):
            table[field.name] = list(value) if isinstance(value, tuple) else value
    document["layout"] = table
    missing = tomlkit.table()
    missing["null"] = list(rules.null)
    document["cells"] = missing
    described = tomlkit.table()
    for column in columns:
        form = column.format
        line = tomlkit.inline_table()
        line["type"] = form.kind
        plain = CellFormat("text")
        for name in ("decimal", "thousands", "date", "true", "false"):
            value = getattr(form, name)
            if value != getattr(plain, name):
                line[name] = list(value) if isinstance(value, tuple) else value
        described[column.name] = line
    document["columns"] = described
    return _RECIPE_HEAD + tomlkit.dumps(document)


def read_recipe(path: str | Path) -> tuple[str, str, Layout, CellRules]:
    """Return source, target, layout and rules of a recipe that `write_recipe` wrote; raises DeclarationError for anything else.

    Places in it are relative to the recipe's own folder.
    """
    import tomllib

    folder = Path(path).parent
    rules: dict[str, list[str]] = {rule: [] for rule in (*_BY_COLUMN, "types")}
    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
        source, target = data["source"], data["target"]
        layout: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.get("layout", {}).items()
        }
        rules["null"] = list(data.get("cells", {}).get("null", ()))
        for name, line in data["columns"].items():
            rules["types"].append(f"{name}={line['type']}")
            for rule in ("decimal", "thousands", "date", "true", "false"):
                given = line.get(rule, ())
                rules[rule] += [f"{name}={value}" for value in ([given] if isinstance(given, str) else given)]
        made = Layout(**layout)
    except OSError as error:
        raise DeclarationError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise DeclarationError(f"{path} is no recipe of an import: it lacks source, target or columns") from None
    places = [place if "://" in place else str(folder / place) for place in (source, target)]
    return places[0], places[1], made, CellRules(**{rule: tuple(texts) for rule, texts in rules.items()})
