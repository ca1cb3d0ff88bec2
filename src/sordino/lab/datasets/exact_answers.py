"""One column of a file as known answers among declared labels, for simulations: NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.domain import Category
from sordino.core.errors import QuestionRefused, SourceError, nearest
from sordino.lab.datasets.adult import adult_domain, load_adult

if TYPE_CHECKING:
    import pyarrow as pa


# Labels that are read from a file.
MOST_LABELS = 1000


def load_known_answers(
    name: str, path: Path, *, labels: Sequence[str] | None, value: str | None
) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the answers of known people to a question, and the labels that an answer may have.

    The question asks for column `name` of a file with declared `labels`; without (None), of the Adult extract, or of a file
    with a header, whose labels are then those that occur in it. None among the labels stands for a missing cell. With a
    `value` it asks yes or no: is it this one? NOT PRIVATE. Raises QuestionRefused for a column or value that is not declared,
    or of more than 1,000 values, SourceError as `load_answers` and `load_adult` do.
    """
    headed = path.suffix.lower() in (".csv", ".parquet", ".pq") and name not in adult_domain()
    if labels is None and (headed or name in _header(path)):
        cells = load_answers(name, path, labels=None)
        declared: tuple[Any, ...] = tuple(sorted({cell for cell in cells if cell is not None}))
        if len(declared) > MOST_LABELS:
            raise QuestionRefused(
                f"column {name!r} has {len(declared):,} values, of which at most {MOST_LABELS:,} are taken for labels; other "
                "files take --labels V,V,.. or --alphabet"
            )
        if len(declared) < 2:
            raise QuestionRefused(f"column {name!r} has one value alone: an answer must have two labels at least")
    elif labels is None:
        declared = _adult_labels(name)
        cells = load_adult(path)[name].to_pylist()
    else:
        declared = tuple(labels)
        cells = load_answers(name, path, labels=labels)
    if value is None:
        # as in a plan, a missing cell is a label only where there is one
        return cells, (*declared, None) if None in cells else declared
    if value not in declared:
        raise QuestionRefused(f"{value!r} is not a declared value; {nearest(value, map(str, declared))}")
    return [cell == value for cell in cells], (False, True)


def _header(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file, or of a Parquet file; none of what is neither."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() == ".csv":
            return list(csv.open_csv(path).schema.names)
        return list(parquet.read_schema(path).names) if path.suffix.lower() in (".parquet", ".pq") else []
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return []


def _adult_labels(name: str) -> tuple[Any, ...]:
    domain = adult_domain()
    if name not in domain:
        raise QuestionRefused(f"the Adult extract has no column {name!r}; other files take --labels V,V,..")
    column = domain[name]
    if not isinstance(column, Category):
        raise QuestionRefused(f"column {name!r} holds no categories; occupation, education and sex do")
    return column.values


def load_answers(name: str, path: Path, *, labels: Sequence[str] | None) -> list[str | None]:
    """Return the cells of one column of a CSV (with a header line) or Parquet file as text, None where one is missing.

    The labels are declared, never read from the file; None accepts any text. Numbers and truth values are compared as text
    (`7`, `true`). NOT PRIVATE: for simulations only, and marked so wherever it shows. Raises SourceError where the file or
    the column is missing, or a cell is none of the labels; no cell is ever in an error.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, parquet

    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet", ".pq"):
        raise SourceError(f"{path} must end in .csv or .parquet where labels are declared")
    try:
        if ending == ".csv":
            names = csv.open_csv(path).schema.names
            options = csv.ConvertOptions(include_columns=[name], column_types={name: pa.string()})
            table = csv.read_csv(path, convert_options=options) if name in names else None
        else:
            names = parquet.read_schema(path).names
            table = parquet.read_table(path, columns=[name]) if name in names else None
        cells = None if table is None else _text(table[name])
    # Names that are not UTF-8 are an error of Python's.
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise SourceError(
            f"{path} cannot be read as {ending[1:]}: a CSV file is UTF-8 with names in its first line, and a column holds one "
            "value a cell; `sordino import` reads other encodings, separators and formats"
        ) from None
    if cells is None:
        # The header line is not quoted: it may be a row.
        hint = (
            ": check its header line, and that commas part its cells"
            if ending == ".csv"
            else f"; {nearest(name, names)}"
        )
        raise SourceError(f"{path} has no column {name!r}{hint}")
    trimmed = pc.utf8_trim_whitespace(cells)
    answers_or_null = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    allowed = answers_or_null if labels is None else pa.array(labels, pa.string())
    strange = pc.sum(pc.invert(pc.is_in(answers_or_null.drop_null(), value_set=allowed))).as_py() or 0
    if strange:
        raise SourceError(f"{strange:,} cells of column {name!r} are none of the declared labels; declare them too")
    answers: list[str | None] = answers_or_null.to_pylist()
    if not answers:
        raise SourceError(f"{path} has no rows")
    return answers


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.string())
