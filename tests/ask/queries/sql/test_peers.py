"""Questions as they are written for other systems: each is answered, as plain DuckDB answers it, or refused with a reason.

`peers/*.sql` holds them, apart by blank lines. Comments beside one say which table it asks about, the dialect, and, if it
has no private answer, a word of the reason.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import sordino as sd
from ask.queries.sql.peer_tables import PUBLIC_ROWS, TABLES, make_rows, open_table
from sordino.ask.queries.sql.text import parse_select
from sordino.core.domain import Identifier
from sordino.core.estimates.choices import Ranks
from sordino.errors import QuestionRefused, UnknownName

_PEERS = Path(__file__).parent / "peers"
_SPELLINGS = {
    "STD": exp.Stddev,
    "STDEV": exp.Stddev,
    "STDEVP": exp.StddevPop,
    "VAR": exp.Variance,
    "VARP": exp.VariancePop,
}
_MACROS = (
    "clip(x, l, u) AS CASE WHEN x IS NULL THEN NULL ELSE greatest(l, least(x, u)) END",
    "width_bucket(x, l, u, n) AS CASE WHEN x < l THEN 0 WHEN x >= u THEN n + 1 ELSE 1 + floor((x - l) * n / (u - l)) END",
)
_EXACT = 1e-6  # relative: roots and logarithms are rounded to 10^12 steps of their largest value


@dataclass(frozen=True)
class Peer:
    """One question of another system: its text, and what the comments beside it say."""

    file: str
    text: str
    table: str
    dialect: str | None
    refused: str | None

    def __str__(self) -> str:
        return " ".join(self.text.split())[:90]


def read_peers() -> Iterator[Peer]:
    for path in sorted(_PEERS.glob("*.sql")):
        table = ""
        for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            notes = dict(re.findall(r"^-- (table|dialect|refused): (.*)$", block, re.MULTILINE))
            text = "\n".join(line for line in block.splitlines() if not line.startswith("--")).strip()
            if not text:
                table = notes["table"]
                continue
            yield Peer(path.name, text, notes.get("table", table), notes.get("dialect"), notes.get("refused"))


PEERS = list(read_peers())
ANSWERED = [p for p in PEERS if p.refused is None]
REFUSED = [p for p in PEERS if p.refused is not None]


def test_there_are_several_hundred() -> None:
    assert len(PEERS) >= 500
    assert len(ANSWERED) >= 450


@pytest.mark.each(2)
@pytest.mark.parametrize("peer", REFUSED, ids=str)
def test_what_has_no_private_answer_is_refused_with_the_reason(peer: Peer) -> None:
    with pytest.raises((QuestionRefused, UnknownName)) as refusal:
        open_table(peer.table).plan(sd.sql(peer.text, dialect=peer.dialect), epsilon=1, delta="1e-6")
    said = str(refusal.value)
    assert (peer.refused or "").lower() in said.lower()
    assert "\n" not in said
    assert re.search(r"[:;,] ", said.split(": ", 1)[-1]) or ":" in said, "a refusal says what to do instead"


@pytest.mark.each(111)
@pytest.mark.parametrize("peer", ANSWERED, ids=str)
def test_what_has_a_private_answer_is_answered_as_duckdb_does(peer: Peer) -> None:
    compare(open_table(peer.table).ask(sd.sql(peer.text, dialect=peer.dialect), epsilon=10_000, delta="1e-6"), peer)


def compare(release: sd.Release, peer: Peer) -> None:
    """Hold every released value against what plain DuckDB answers to the same text."""
    width, exact = ask_duckdb(peer)
    shown = release.columns[len(release.columns) - width :]  # groups that SELECT leaves out come first
    labels = {k.name for k in release.keys}
    keys = [i for i, name in enumerate(shown) if name in labels]
    found: dict[tuple[Any, ...], list[list[Any]]] = {}
    for truth in exact:
        found.setdefault(tuple(truth[i] for i in keys), []).append(truth)
    answered: set[tuple[Any, ...]] = set()
    bounds = {o.name: error_bounds(o) for o in release.outputs}
    for at, row in enumerate(release.rows):
        key = tuple(as_number(row[shown[i]]) for i in keys)
        answered.add(key)
        for name, bound in bounds.items():
            if key not in found:  # a declared group that has no rows
                assert name not in ("n", "count") or abs(row[name]) <= (bound[at] or 0), (key, row)
            elif len(release.columns) == width:
                truths = [truth[shown.index(name)] for truth in found[key]]
                assert any(agrees(row[name], truth, bound[at]) for truth in truths), (key, name, row[name], truths)
    if not is_cut(peer) and not has_private_keys(peer):
        lacking = [key for key in found if key not in answered and None not in key]
        assert not lacking, lacking


def error_bounds(output: Any) -> list[float | None]:
    """Return how far each value may lie from the truth; None for ranks, which have no such error.

    It is twice the error at 0.999, or that at 1 - 10^-9 if it is larger: thousands of cells are compared.
    """
    if isinstance(output.estimate, Ranks):
        return [None] * len(output.estimate.values())
    usual, rare = (output.estimate.errors(c) for c in (0.999, 1 - 1e-9))
    return [None if u is None else max(2 * float(u), float(r or 0)) for u, r in zip(usual, rare, strict=True)]


def agrees(value: Any, truth: Any, bound: float | None) -> bool:
    if truth is None or value is None or isinstance(truth, str):
        return value == truth or truth is None
    if bound is None:  # a quantile, whose neighbors in the table are near
        return abs(float(value) - float(truth)) <= 1.0 + 0.03 * abs(float(truth))
    return abs(float(value) - float(truth)) <= bound + _EXACT * max(1.0, abs(float(truth)))


@functools.cache
def plain_duckdb() -> Any:
    connection = duckdb.connect()
    for name in TABLES:
        connection.register(name, make_rows(name))
    for name, rows in PUBLIC_ROWS.items():
        connection.register(name, rows)
    for macro in _MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    return connection


def ask_duckdb(peer: Peer) -> tuple[int, list[list[Any]]]:
    """Return the number of columns, and the rows of the same text asked of plain DuckDB, without LIMIT."""
    text = plain_tree(peer).sql(dialect="duckdb")
    cursor = plain_duckdb().execute(text)
    return len(cursor.description), [[as_number(cell) for cell in row] for row in cursor.fetchall()]


def plain_tree(peer: Peer) -> Any:
    tree: Any = parse_select(peer.text, dialect=peer.dialect).copy()

    def simplify(node: Any) -> Any:
        if isinstance(node, (exp.Table, exp.Column)):
            for part in ("db", "catalog"):
                node.set(part, None)
        if isinstance(node, exp.Table) and node.args.get("sample") is not None:
            node.set("sample", None)
        if isinstance(node, (exp.Least, exp.Greatest)):  # here a missing value stays missing
            inner = [e for e in (node.this, *node.expressions) if e.find(exp.Column)]
            if len(inner) == 1:
                missing = exp.Is(this=inner[0].copy(), expression=exp.Null())
                return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=node.copy())
        if isinstance(node, exp.ApproxDistinct):
            return exp.Count(this=exp.Distinct(expressions=[node.this]))
        if isinstance(node, exp.Anonymous) and node.name.upper() in _SPELLINGS:
            return _SPELLINGS[node.name.upper()](this=node.expressions[0])
        if isinstance(node, exp.WidthBucket):
            return exp.Anonymous(this="width_bucket", expressions=list(node.args.values()))
        if isinstance(node, exp.Concat):  # here a missing value stays missing
            return functools.reduce(lambda a, b: exp.DPipe(this=a, expression=b), node.expressions)
        return node

    for node in reversed(list(tree.find_all(exp.Expression))):
        changed = simplify(node)
        if changed is not node:
            node.replace(changed)
    for clause in ("limit", "offset"):
        tree.set(clause, None)
    return tree


def is_cut(peer: Peer) -> bool:
    tree = parse_select(peer.text, dialect=peer.dialect)
    return any(tree.args.get(clause) is not None for clause in ("limit", "offset"))


def has_private_keys(peer: Peer) -> bool:
    group: Any = parse_select(peer.text, dialect=peer.dialect).args.get("group")
    names = {c.name.lower() for c in group.find_all(exp.Column)} if group is not None else set()
    return any(isinstance(column, Identifier) and name in names for name, column in TABLES[peer.table].items())


def as_number(cell: Any) -> Any:
    if isinstance(cell, Decimal):
        return float(cell)
    return cell.date() if isinstance(cell, datetime.datetime) else cell
