"""Rules together: whether some row keeps to all of them, and how drawn rows are completed so that every row does.

Rules that share columns are a group. Of a row that breaks one, each rule in turn changes what it may (`Rule.complete`),
sums and orders together, a few times over. A row that still breaks one takes the group's columns from a drawn row that does
not, one with the same cells missing where there is one, and where none is drawn, from the row by which the rules were found
to be possible when they were declared: so there always is one, and nothing is drawn for ever. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sordino.ask.queries.expressions.nodes import IsNull
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.synth.drawn_rows import DrawnRows, Mask, empty_rows
from sordino.synth.encoded_column import Codes, EncodedColumn
from sordino.synth.equivalence_classes import Dependencies, class_grid
from sordino.synth.expression_eval import names_in
from sordino.synth.rules import (
    Allowed,
    Columns,
    Determines,
    Linear,
    Rule,
    complete_sums,
    expand_rules,
    functional_dependencies,
    laws_of,
    require_rules,
)

# How often the rules of a group complete a row in turn.
_TURNS = 4
# Rows in which one is looked for that keeps to all rules, and how often rules complete those.
_TRIED = 400
_TURNS_TRIED = 12
# The most cells that are searched for one that the rules leave.
_MOST_CELLS = 4_000_000


def check_rules(rules: Sequence[Rule], columns: Sequence[EncodedColumn], domain: Domain) -> None:
    """Raise DeclarationError where a rule names what is not there, or where rules contradict each other: it names those."""
    by_name = {c.name: c for c in columns}
    fixed: dict[str, Rule] = {}
    for rule in require_rules(rules):
        rule.check(by_name, domain)
        if isinstance(rule, Determines) and rule.of == rule.column:
            raise DeclarationError(f"{rule.describe()}: {rule.column!r} follows from itself")
        if rule.fixes is not None and fixed.setdefault(rule.fixes, rule) is not rule:
            raise DeclarationError(
                f"{rule.describe()}: {rule.fixes!r} follows from something else already "
                f"({fixed[rule.fixes].describe()}); leave one out"
            )
    _require_no_circle(rules)
    dependencies = functional_dependencies(rules, by_name)
    for group in rule_groups(rules, dependencies):
        if find_row(group, by_name, dependencies) is None:
            raise DeclarationError(_contradiction(group, by_name))


def complete_rows(rules: Sequence[Rule], rows: DrawnRows, columns: Columns) -> None:
    """Change rows, in place, so that every one keeps to every rule, which `check_rules` has found to be possible."""
    dependencies = functional_dependencies(rules, columns)
    for name in {of for of, _ in dependencies.values()} & rows.steps.keys():
        rows.derive(name, np.arange(rows.count))
    for group in rule_groups(rules, dependencies):
        good = _take_turns(group, rows, _TURNS)
        if good.all():
            continue
        names = list(laws_of(group, columns, dependencies))
        names += [n for n, (of, _) in dependencies.items() if of in names and n not in names and n in rows.steps]
        bad = np.flatnonzero(~good)
        if good.any():
            rows.copy_from(rows, names, bad, _draw_alike(rows, names, bad, np.flatnonzero(good)))
            continue
        row = find_row(group, columns, dependencies)
        if row is None:
            raise ValueError("rules that were not checked")
        rows.copy_from(row, list(row.steps), bad, np.zeros(len(bad), dtype=np.int64))
        for name in row.steps:
            rows.derive(name, bad)


def _draw_alike(rows: DrawnRows, names: Sequence[str], at: Codes, good: Codes) -> Codes:
    """Return for each row `at` one of the rows `good`, with the same cells missing and the same categories if there is one.

    Rows that rules settle easily would be copied too often otherwise, such as those that have the column blank.
    """
    labels: list[Codes] = [rows.missing[n].astype(np.int64) for n in names]
    labels += [rows.keys(n) for n in names if not rows.laws[n].encoded.ordered]
    _, kind = np.unique(np.stack(labels, axis=1), axis=0, return_inverse=True)
    kind = kind.ravel()
    ordered = good[np.argsort(kind[good], kind="stable")]
    start = np.searchsorted(kind[ordered], kind[at], side="left")
    end = np.searchsorted(kind[ordered], kind[at], side="right")
    start, end = np.where(end > start, start, 0), np.where(end > start, end, len(good))
    alike: Codes = ordered[start + (rows.rng.uniform_doubles(len(at)) * (end - start)).astype(np.int64)]
    return alike


def rule_groups(rules: Sequence[Rule], dependencies: Dependencies) -> list[list[Rule]]:
    """Return the parts of the rules by groups that share columns, or columns that follow from the same one."""
    groups: list[tuple[set[str], list[Rule]]] = []
    for rule in expand_rules(rules):
        roots = {dependencies[n][0] if n in dependencies else n for n in rule.names}
        near = [group for group in groups if group[0] & roots]
        groups = [group for group in groups if not group[0] & roots]
        merged = [one for _, several in near for one in several]
        groups.append((roots.union(*(names for names, _ in near)), [*merged, rule]))
    return [sorted(group, key=lambda rule: rule.order) for _, group in groups]


def find_row(group: Sequence[Rule], columns: Columns, dependencies: Dependencies) -> DrawnRows | None:
    """Return one row of declared values that keeps to all rules of a group, None where none was found.

    It is looked for among random rows that the rules complete, then, in groups of at most 4,000,000 cells, among all.
    """
    laws = laws_of(group, columns, dependencies)
    inside = {n: d for n, d in dependencies.items() if n in laws and d[0] in laws}
    rows = empty_rows(laws, inside, _TRIED, Rng.seeded(0))
    good = _take_turns(group, rows, _TURNS_TRIED)
    if not good.any():
        return _search_cells(group, columns, dependencies, rows)
    return rows.take(np.flatnonzero(good)[:1])


def _take_turns(group: Sequence[Rule], rows: DrawnRows, turns: int) -> Mask:
    """Let the rules complete the rows in turn, and return which rows keep to all of them."""
    good = np.ones(rows.count, dtype=bool)
    sums = [rule for rule in group if isinstance(rule, Linear)]
    others = [rule for rule in group if not isinstance(rule, Linear)]
    for _ in range(turns):
        settled: frozenset[str] = frozenset()
        for rule in others:
            at = np.flatnonzero(~rule.holds(rows))
            if len(at):
                rule.complete(rows, at, settled)
            settled |= set(rule.names)
        if sums:
            complete_sums(sums, rows, np.arange(rows.count), settled)
        good = np.ones(rows.count, dtype=bool)
        for rule in group:
            good &= rule.holds(rows)
        if good.all():
            break
    return good


def _search_cells(
    group: Sequence[Rule], columns: Columns, dependencies: Dependencies, rows: DrawnRows
) -> DrawnRows | None:
    """Return a row in the first cell that keeps to all rules of a group, None where there is none, or there are too many."""
    names = list(dict.fromkeys(n for rule in group for n in rule.names))
    predicates = [p for rule in group for p in rule.predicates()]
    whole = [n for rule in group if not rule.predicates() for n in rule.names]
    grid = class_grid(columns, names, predicates=predicates, whole=whole, dependencies=dependencies)
    if math.prod(grid.shape) > _MOST_CELLS:
        return None
    left = np.ones(grid.shape, dtype=bool)
    # Rules that only blank cells keep to contradict each other, unless they say when a cell is blank.
    listed = {n for rule in group if isinstance(rule, (Allowed, Determines)) for n in rule.names}
    listed |= {n for p in predicates if isinstance(p, IsNull) for n in names_in(p)}
    for cells in grid.cells.values():
        name = cells.encoded.name
        blank = any(rule.fixes == name for rule in group if not isinstance(rule, Determines))
        if cells.encoded.missing and not blank and (cells.encoded.dropped or name not in listed):
            left = left & ~cells.missing
    for rule in group:
        left = left & (rule.possible(grid.cells, columns) > 0.0)
    found = np.argwhere(left)[:_TRIED]
    if not len(found):
        return None
    some = rows.take(np.arange(len(found)))
    for axis, name in enumerate(grid.names):
        firsts = np.array([int(np.flatnonzero(grid.members[axis] == c)[0]) for c in range(grid.shape[axis])])
        some.set_keys(name, np.arange(len(found)), firsts[found[:, axis]])
    good = np.ones(len(found), dtype=bool)
    for rule in group:
        good &= rule.holds(some)
    return some.take(np.flatnonzero(good)[:1]) if good.any() else None


def _contradiction(group: Sequence[Rule], columns: Columns) -> str:
    """Return which few rules of a group no row keeps to: none of them can be left out."""
    few = list(group)
    for rule in group:
        others = [one for one in few if one is not rule]
        if not others:
            continue
        dependencies = functional_dependencies(others, columns)
        if any(find_row(one, columns, dependencies) is None for one in rule_groups(others, dependencies)):
            few = others
    words = "; ".join(dict.fromkeys(rule.describe() for rule in few))
    return f"no declared values keep to all of: {words}; that cannot hold: leave one out"


def _require_no_circle(rules: Sequence[Rule]) -> None:
    of = {rule.column: rule.of for rule in rules if isinstance(rule, Determines)}
    for start in of:
        at = start
        visited = {start}
        while at in of:
            at = of[at]
            if at in visited:
                raise DeclarationError(f"{start!r} follows from itself by a circle of rules: leave one out")
            visited.add(at)
