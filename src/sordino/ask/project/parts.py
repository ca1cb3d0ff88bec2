"""One declared part at a time: a cap, a column, a source or the neighbors, out of its keys in sordino.toml.

It knows neither where a part stands in the file nor any other part of it, and opens nothing but lists of codes. Each
takes keys of the right shape (project/schema.py); a DeclarationError names the key at fault, dotted, where one key is.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from sordino.core.domain import COLUMN_TYPES, Column, Identifier, List
from sordino.core.errors import DeclarationError, nearest
from sordino.core.ledger.allowance import Allowance
from sordino.core.ledger.records import check_share
from sordino.core.loss import ZCDP, Loss, loss_from, to_fraction
from sordino.core.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.core.source import FAR, FORMATS, Csv, Source, address_format, source_from

# The most bytes of a project file or of a list of codes.
LARGEST_FILE = 16 * 2**20


def cap_from(raw: Mapping[str, Any]) -> Loss:
    """Return the loss that {epsilon}, {epsilon, delta}, {rho, delta} or {rho, delta, slack} states, or refuse.

    >>> cap_from({"epsilon": "1/3"})
    PureDP(epsilon='1/3')
    """
    keys = set(raw)
    if keys not in ({"epsilon"}, {"epsilon", "delta"}, {"rho", "delta"}, {"rho", "delta", "slack"}):
        why = "; delta is the target at which rho is converted to an epsilon" if keys == {"rho"} else ""
        rule = "must be {epsilon = ...}, {epsilon = ..., delta = ...} or {rho = ..., delta = ...}, here with slack = ... or not"
        raise DeclarationError(f"{rule}, not {{{', '.join(raw)}}}{why}")
    amounts: dict[str, Fraction] = {key: to_fraction(value, name=key) for key, value in raw.items()}
    for key, amount in amounts.items():
        if amount <= 0:
            raise DeclarationError(f"{key} must be above 0: a budget of nothing answers nothing")
    try:
        if "rho" in amounts:
            return ZCDP(**amounts)
        return loss_from(amounts)
    except DeclarationError as error:
        # Without its key: it is a problem of the cap as one value.
        raise DeclarationError(str(error)) from None


def share_from(raw: Mapping[str, Any], spender: str, *, cap: Loss) -> Loss:
    """Return the share that {epsilon}, {epsilon, delta} or {rho} states of a cap; raises DeclarationError for others.

    >>> share_from({"epsilon": "1/3"}, "research", cap=cap_from({"epsilon": 1}))
    PureDP(epsilon='1/3')
    """
    keys = set(cap.amounts())
    if set(raw) != keys:
        raise DeclarationError(f"must be of the cap's kind: {{{', '.join(f'{key} = ...' for key in cap.amounts())}}}")
    amounts = {key: to_fraction(value, name=key) for key, value in raw.items()}
    if any(amounts[key] <= 0 for key in keys - {"delta"}):
        raise DeclarationError("must be above 0: a share of nothing answers nothing")
    try:
        return check_share(spender, loss_from(amounts), of=cap)
    except DeclarationError as error:
        # Without its key: it is a problem of the share as one value.
        raise DeclarationError(str(error)) from None


def allowance_from(raw: Mapping[str, Any], *, cap: Loss) -> Allowance:
    """Return the allowance that {every = "year", rho} and the like state of a cap; raises DeclarationError for others.

    >>> allowance_from({"every": "year", "epsilon": 1}, cap=cap_from({"epsilon": 5})).describe()
    'epsilon 1 a year'
    """
    if not set(raw) & set(cap.amounts()):
        raise DeclarationError(f"must be of the cap's kind: {{{', '.join(f'{key} = ...' for key in cap.amounts())}}}")
    try:
        allowance = Allowance(**raw)
        allowance.check(cap)
    except DeclarationError as error:
        # Without its key: it is a problem of the allowance as one value.
        raise DeclarationError(str(error)) from None
    return allowance


def column_from(raw: Mapping[str, Any], *, beside: Path) -> Column | List:
    """Return the column that its keys declare; `values_from` is relative to the directory `beside`.

    >>> column_from({"type": "integer", "lower": 0, "upper": 125}, beside=Path()).upper
    125
    """
    if raw["type"] == "list":
        item = column_from(raw["of"], beside=beside)
        # The schema allows no list of lists.
        return List(cast(Column, item), max_items=raw["max_items"])
    arguments = {key: value for key, value in raw.items() if key not in ("type", "values_from", "values_header")}
    if raw["type"] == "category":
        arguments["values"] = _values(raw, beside)
    try:
        return COLUMN_TYPES[raw["type"]](**arguments)
    except DeclarationError as error:
        if error.key == "fill":
            raise DeclarationError(str(error), key="missing") from None
        if error.key == "values" and "values" not in raw:
            raise DeclarationError(error.rule, key="values_from") from None
        raise


def expand_variables(text: str, *, key: str) -> str:
    """Return text with each ${NAME} as the environment has it; raises DeclarationError for one that is not set.

    >>> expand_variables("people.parquet", key="source")
    'people.parquet'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise DeclarationError(f"names ${{{name}}}, and the environment has no variable {name}: set it", key=key)
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


def source_of(raw: Mapping[str, Any], *, beside: Path, spark: Mapping[str, str]) -> Source:
    """Return the source that the keys of a table state; its path is relative to the directory `beside`.

    `spark` are the settings of a session, where it is Spark that reads it.
    """
    stated = expand_variables(raw["source"], key="source")
    address = address_format(stated)
    engine = raw.get("engine", "" if address is None else address.engine)
    kind = raw.get("format", ("parquet" if engine else "") if address is None else address.name)
    reader = engine or (FORMATS[kind].engine if kind in FORMATS else "")
    if "://" in stated and address is None and not stated.startswith(FAR) and not reader:
        raise DeclarationError(
            "must be a file on this machine, in S3 or behind HTTP, or the URL of a PostgreSQL server, not an address of "
            'another kind; Spark reads those that it knows: engine = "spark"',
            key="source",
        )
    rules = raw.get("csv")
    if rules is not None:
        lists = {key: tuple(rules[key]) for key in ("names", "null_values") if key in rules}
        rules = Csv(**{**rules, **lists})
    path = (
        stated
        if address is not None or "://" in stated
        else str(beside / stated) + ("/" if stated.endswith("/") else "")
    )
    try:
        if not kind:
            return source_from(path, relation=raw.get("relation"), csv=rules)
        settings = tuple(spark.items()) if reader == "spark" else ()
        return Source(path, kind, raw.get("relation"), rules, engine, settings)
    except DeclarationError as error:
        if error.key in ("format", "engine"):
            raise
        raise DeclarationError(str(error).replace(path, raw["source"]), key="source") from None


def neighbors_of(raw: Mapping[str, Any], *, columns: Mapping[str, Column | List]) -> Neighbors:
    """Return the neighbors that the keys of a table with these columns state."""
    unit = raw["privacy_unit"]
    if isinstance(unit, str):
        return neighbors_from(neighbors=raw["neighbors"], privacy_unit=unit)
    name = unit.get("column")
    if name is None and "max_rows" not in unit:
        raise DeclarationError("is missing; state the identifier column whose values are the units", key="column")
    if name is None:
        return neighbors_from(neighbors=raw["neighbors"], privacy_unit=PrivacyUnit(None, **unit))
    if name not in raw["columns"]:
        identifiers = [n for n, column in columns.items() if isinstance(column, Identifier)]
        hint = nearest(name, identifiers) if identifiers else 'add it as {type = "identifier"}'
        raise DeclarationError(f"column {name!r} is not declared in columns; {hint}", key="column")
    if not isinstance(columns.get(name, Identifier()), Identifier):
        raise DeclarationError(
            f'column {name!r} must be declared {{type = "identifier"}} to be the privacy unit', key="column"
        )
    return neighbors_from(neighbors=raw["neighbors"], privacy_unit=PrivacyUnit(**unit))


def _values(raw: Mapping[str, Any], beside: Path) -> list[Any]:
    """Return the values of a category, stated here or as the first cells of a public CSV file, trimmed."""
    if ("values" in raw) == ("values_from" in raw):
        raise DeclarationError('needs values = [...] or values_from = "codes.csv", and only one of them')
    if "values" in raw:
        if raw.get("values_header"):
            raise DeclarationError("is about the file of values_from, which is not given", key="values_header")
        return list(raw["values"])
    path = beside / expand_variables(raw["values_from"], key="values_from")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DeclarationError(f"{path.name!r} is too large for a list of values", key="values_from")
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except OSError as error:
        raise DeclarationError(f"{path.name!r} cannot be read: {error.strerror}", key="values_from") from None
    except (UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{path.name!r} is not a CSV file in UTF-8", key="values_from") from None
    return [row[0].strip() for row in rows[bool(raw.get("values_header")) :] if row and row[0].strip()]


def spark_settings(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a Spark session; raises DeclarationError for one that holds a secret."""
    for name in raw:
        if re.search(r"(?i)password|secret|token|credential|access\.key|account\.key", name):
            raise DeclarationError(
                "is a secret, which does not stand in a project file: state it in spark-defaults.conf or in the environment, "
                "or open the session yourself",
                key=name,
            )
    return {name: str(value) for name, value in raw.items()}
