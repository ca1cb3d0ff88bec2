"""The public 1994 census extract known as "Adult", read from a path the caller gives. NOT PRIVATE: for laboratories.

It knows the columns that the extract's public description names; it never downloads, and declares nothing from data.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sordino.core.domain import Category, Column, Domain, Integer
from sordino.core.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


def load_adult(path: Path | str) -> pa.Table:
    """Return the extract at `path` as it is: NOT PRIVATE, raw rows, for laboratories and non-private evaluation.

    The file has no header, ", " between cells and "?" for missing ones. The table's schema metadata says NOT PRIVATE.
    Raises SourceError where the file is missing or of another shape; nothing of a row is in the message.

    >>> load_adult("no.data")
    Traceback (most recent call last):
        ...
    sordino.errors.SourceError: no.data: no such file
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    where = Path(path)
    if not where.is_file():
        raise SourceError(f"{where}: no such file")
    names = list(adult_columns())
    try:
        raw = csv.read_csv(
            where,
            read_options=csv.ReadOptions(column_names=names),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        domain = adult_domain()
        columns = []
        for name in names:
            text = pc.utf8_trim_whitespace(raw[name])
            cells = pc.if_else(pc.is_in(text, value_set=pa.array(["?", ""])), pa.scalar(None, pa.string()), text)
            columns.append(cells.cast(pa.int64()) if isinstance(domain[name], Integer) else cells)
    # PyArrow raises these also where threads or memory run out.
    except (pa.ArrowException, OSError):
        raise SourceError(f"{where}: not the Adult extract: 15 cells a line, {', '.join(names[:3])}, ...") from None
    marker = {"sordino": "NOT PRIVATE: raw rows of the Adult census extract"}
    return pa.table(columns, names=names).replace_schema_metadata(marker)


def adult_columns() -> tuple[str, ...]:
    """Return the names of the 15 columns, in the order of the file.

    >>> adult_columns()[:2]
    ('age', 'workclass')
    """
    return tuple(adult_domain())


def adult_domain() -> Domain:
    """Return the public declaration of the extract: bounds from common knowledge, values from its description.

    >>> adult_domain()["capital_gain"].upper
    100000
    """
    numbers: dict[str, Column] = {
        "age": Integer(0, 125),
        "fnlwgt": Integer(0, 2_000_000),
        "education_num": Integer(1, 16),
        "capital_gain": Integer(0, 100_000),
        "capital_loss": Integer(0, 5_000),
        "hours_per_week": Integer(0, 100),
    }
    words: dict[str, Column] = {name: Category(text.split(), missing="keep") for name, text in _VALUES.items()}
    return Domain({name: numbers[name] if name in numbers else words[name] for name in _ORDER})


_ORDER = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]

_VALUES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm "
    "Bachelors Masters Prof-school Doctorate",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Adm-clerical Exec-managerial Handlers-cleaners Prof-specialty Other-service Sales Craft-repair "
    "Transport-moving Farming-fishing Machine-op-inspct Tech-support Protective-serv Armed-Forces Priv-house-serv",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan "
    "Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
    "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    "income": "<=50K >50K",
}
