"""Aggregation: aggregates over the rows that pass a condition, in all, or in each group of declared keys."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.domain import Domain
from sordino.errors import QuestionRefused
from sordino.neighbors import Neighbors, Sensitivity
from sordino.primitives import Primitives
from sordino.queries.condition import Predicate, predicate
from sordino.queries.expr import Node, describe, plain
from sordino.queries.keys import Keys, keys
from sordino.queries.query import Aggregate, Part, Term
from sordino.queries.rules import stacked

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Aggregation", "Grouping", "Resolved", "resolve"]

_MOST_CELLS = 1_000_000
_MOST_AGGREGATES = 256


@dataclass(frozen=True, slots=True)
class Grouping:
    """One group-by column: the expression whose declared keys make the rows, and its name."""

    alias: str
    of: Node


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Ask for `aggregates` over the rows where `where` is true, one row for each combination of declared keys.

    Every declared key appears, also where no row has it, so the shape of the answer is public.
    """

    where: Node | None
    groups: tuple[Grouping, ...]
    aggregates: tuple[Aggregate, ...]

    def exact(self, on: Primitives, domain: Domain) -> exp.Select:
        """Return the SQL tree of the exact answer: columns k0.. (key codes, NULL for dropped rows) and t0.. (terms)."""
        return resolve(self, domain).select(on)

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves all noisy parts together."""
        found = resolve(self, domain)
        return stacked([found.sensitivity(p, neighbors) for parts in found.parts for p in parts])

    def describe(self) -> str:
        """Return the question as a sentence."""
        what = _listed([a.describe() for a in self.aggregates])
        where = "" if self.where is None else f", where {describe(self.where)}"
        per = "" if not self.groups else f", for each {_listed([describe(g.of) for g in self.groups])}"
        return f"{what}{per}{where}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions, whatever their spelling in Python or SQL."""
        data: dict[str, Any] = {
            "where": plain(self.where),
            "groups": [[g.alias, plain(g.of)] for g in self.groups],
            "aggregates": [[a.alias, a.plain()] for a in self.aggregates],
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Resolved:
    """An aggregation with its meaning over a domain: declared keys, the condition, the parts of each aggregate."""

    keys: tuple[Keys, ...]
    condition: Predicate | None
    parts: tuple[tuple[Part, ...], ...]
    terms: tuple[Term, ...]
    unreadable_rows: bool

    @property
    def cells(self) -> int:
        """The number of groups: the product of the numbers of declared keys."""
        return math.prod(len(k.labels) for k in self.keys)

    def sensitivity(self, part: Part, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves one part."""
        droppable = self.condition is not None or self.unreadable_rows or bool(self.keys)
        return part.sensitivity(neighbors, cells=self.cells, droppable=droppable)

    def select(self, on: Primitives) -> exp.Select:
        """Return the SQL tree: one scan for all parts, columns k0.. (key codes, NULL for dropped rows) and t0.. (terms)."""
        from sqlglot import exp

        if self.condition is not None:
            on.keep(self.condition.build(on))  # first: what follows is computed for the rows kept alone
        chosen = [exp.alias_(k.build(on), f"k{i}") for i, k in enumerate(self.keys)]
        chosen += [exp.alias_(t.sql(on), f"t{i}") for i, t in enumerate(self.terms)]
        made = exp.Select(expressions=chosen).from_(on.source())  # last: by now every step has its name
        if self.keys:
            made = made.group_by(*_ordinals(len(self.keys)))
        return self._by_code(made, on) if any(k.code for k in self.keys) else made

    def _by_code(self, cells: exp.Select, on: Primitives) -> exp.Select:
        """Return the SQL tree that makes codes of the raw cells that rows were grouped by, and adds those groups up."""
        from sqlglot import exp

        chosen: list[Any] = []
        for i, key in enumerate(self.keys):
            cell = exp.column(f"k{i}")
            chosen.append(exp.alias_(cell if key.code is None else key.code(on, cell), f"k{i}"))
        chosen += [exp.alias_(exp.Sum(this=exp.column(f"t{i}")), f"t{i}") for i in range(len(self.terms))]
        made = exp.Select(expressions=chosen).from_(cells.subquery("sordino_cells"))
        return made.group_by(*_ordinals(len(self.keys)))


def _ordinals(count: int) -> list[exp.Expression]:
    from sqlglot import exp

    return [exp.Literal.number(i + 1) for i in range(count)]


def resolve(question: Aggregation, domain: Domain) -> Resolved:
    """Return what a question means over a domain; raises QuestionRefused where it has no private answer."""
    if not question.aggregates:
        raise QuestionRefused("a question needs at least one aggregate, such as count(), sum(...) or mean(...)")
    if len(question.aggregates) > _MOST_AGGREGATES:
        raise QuestionRefused(f"a question may have {_MOST_AGGREGATES} aggregates, not {len(question.aggregates)}")
    _distinct([*(g.alias for g in question.groups), *(a.alias for a in question.aggregates)])
    found = tuple(keys(g.of, domain) for g in question.groups)
    cells = math.prod(len(k.labels) for k in found)
    if cells > _MOST_CELLS:
        raise QuestionRefused(f"the declared keys make {cells} groups, above {_MOST_CELLS}: group by fewer, or by bins")
    condition = None if question.where is None else predicate(question.where, domain)
    _writable(question)
    parts = tuple(tuple(a.parts(domain)) for a in question.aggregates)
    terms = tuple(dict.fromkeys(t for several in parts for p in several for _, t in p.terms))
    return Resolved(found, condition, parts, terms, domain.unreadable_rows)


def _writable(question: Aggregation) -> None:
    words = [question.describe(), *(g.alias for g in question.groups), *(a.alias for a in question.aggregates)]
    try:
        "".join(words).encode()
        written = True
    except UnicodeEncodeError:
        written = False
    if not written:
        raise QuestionRefused("the question holds half of a character (a lone surrogate): write it as whole text")


def _distinct(names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name.lower() in (n.lower() for n in names[:i]):
            raise QuestionRefused(
                f"two columns of the answer are named {name!r}: give one another name with .alias(...)"
            )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
