"""UNION ALL of rows of persons: aggregates over it are added up from those of its parts.

Each part is a question of its own about the rows of one SELECT, so a person who has rows in several parts moves each of their
answers, and the losses of the parts add up (sequential composition; Dwork & Roth 2014, Theorem 3.14): no bound on a person's
rows in the union is needed, nor would any be as large as the sum of those in the parts. A number of rows, and a sum, of the union
is the sum of the parts' own; a mean is a quotient of the two. Persons are counted once: in each part those who are in none
of the parts before it. All else, such as a median, does not follow from the parts and is refused. It knows trees alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.ask.queries.expressions.sql_trees import trees
from sordino.core.errors import QuestionRefused

_KEY = "sordino_united_key_"
_PART = "sordino_united_"


@dataclass(frozen=True, slots=True)
class RowUnion:
    """SELECTs of rows, with columns of the same names; `distinct` says that equal rows count once."""

    selects: tuple[Any, ...]
    distinct: bool


def unite_rows(query: Any, is_of_rows: Callable[[Any], bool]) -> RowUnion | None:
    """Return the SELECTs of rows that UNION or UNION ALL joins, each with the names of the first; None for any other query.

    Raises QuestionRefused where rows of persons are united with what is none, or the columns are not listed.
    """
    exp = trees()
    kinds: set[bool] = set()
    selects: list[Any] = []

    def visit(node: Any) -> bool:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            if isinstance(node, exp.Subquery) and node.args.get("alias"):
                return False
            node = node.this
        if not isinstance(node, exp.Union):
            selects.append(node)
            return True
        if any(node.args.get(part) for part in ("order", "limit", "offset", "with_", "with")):
            return False
        kinds.add(bool(node.args.get("distinct")))
        return visit(node.this) and visit(node.expression)

    if not visit(query) or not any(map(is_of_rows, selects)):
        return None
    if len(kinds) > 1 or not all(map(is_of_rows, selects)):
        raise QuestionRefused(
            "UNION joins rows of persons with rows of persons, by UNION ALL, or answers with answers: ask about each by itself, "
            "and unite what is answered"
        )
    first = selects[0].expressions
    names = [item.output_name or f"{_PART}column_{i}" for i, item in enumerate(first)]
    if len({len(select.expressions) for select in selects}) != 1:
        raise QuestionRefused("the SELECTs of UNION ALL have the same number of columns")
    if any(item.is_star for select in selects for item in select.expressions):
        if len({select.sql() for select in map(_without_rows, selects)}) > 1:
            raise QuestionRefused("UNION ALL of rows of several tables lists their columns: * is one of the same table")
        return RowUnion(tuple(select.copy() for select in selects), kinds == {True})
    renamed = []
    for select in selects:
        one = select.copy()
        one.set(
            "expressions",
            [exp.alias_(item.unalias(), name, quoted=True) for item, name in zip(one.expressions, names, strict=True)],
        )
        renamed.append(one)
    return RowUnion(tuple(renamed), kinds == {True})


def _without_rows(select: Any) -> Any:
    """Return a SELECT without its conditions: which columns of which table it has."""
    bare = select.copy()
    bare.set("where", None)
    return bare


def put_source(select: Any, source: Any, rows: Any) -> Any:
    """Return a SELECT that reads the rows of another one in the place of a source."""
    exp = trees()
    place = next(i for i, node in enumerate(select.walk()) if node is source)
    rewritten = select.copy()
    at = next(node for i, node in enumerate(rewritten.walk()) if i == place)
    name = source.alias_or_name or f"{_PART}rows"
    at.replace(exp.Subquery(this=rows.copy(), alias=exp.TableAlias(this=exp.to_identifier(name))))
    return rewritten


def add_up_parts(
    select: Any, source: Any, union: RowUnion, keys: Sequence[Any], aggregates: Sequence[Any], *, units: Collection[str]
) -> Any:
    """Return a SELECT over rows of several others as one over what aggregates of each give.

    SELECT k, COUNT(*) FROM (a UNION ALL b) GROUP BY k is SELECT k, SUM(n) FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k UNION
    ALL the same of b) GROUP BY k. `units` are the columns of privacy units. Raises QuestionRefused for what does not follow.
    """
    exp = trees()
    if not aggregates:
        raise QuestionRefused(
            "rows of single persons are never released: ask for COUNT, SUM or AVG over UNION ALL, or for the keys of each SELECT"
        )
    items = [{item.output_name.lower(): item.unalias() for item in part.expressions} for part in union.selects]
    if any(_is_unit(key, items, units) for key in keys):
        raise QuestionRefused(
            "values of one person over UNION ALL of rows are not supported: JOIN the values of each table by the privacy unit"
        )
    constants = [[_constant(key, columns) for key in keys] for columns in items]
    parts: list[Any] = []
    instead: dict[Any, Any] = {}
    wanted: list[tuple[Any, str, bool]] = []
    for node in aggregates:
        instead[node] = _combine(node, wanted, union, items, units)
    apart = len({tuple(c.sql() for c in row if c is not None) for row in constants}) == len(constants)
    for place, rows in enumerate(union.selects):
        part = put_source(select, source, rows)
        for name in ("having", "qualify", "order", "limit", "offset", "distinct", "group", "windows"):
            part.set(name, None)
        own = [(i, key) for i, key in enumerate(keys) if constants[place][i] is None]
        counted = [(node.copy(), name) for node, name, _ in wanted]
        if any(once for _, _, once in wanted) and place and not (apart and keys):
            if keys or any(not once for _, _, once in wanted):
                raise QuestionRefused(
                    "persons over UNION ALL are counted by themselves, and in all groups together: ask for their number alone, "
                    "or for that of each SELECT"
                )
            _leave_out(part, select, source, union.selects[:place], items[place], units)
        part.set(
            "expressions",
            [
                *(exp.alias_(key.copy(), f"{_KEY}{i}") for i, key in own),
                *(exp.alias_(node, name) for node, name in counted),
            ],
        )
        if own:
            part.set("group", exp.Group(expressions=[key.copy() for _, key in own]))
        if "weight" in select.meta:
            part.meta["weight"] = select.meta["weight"]
        if len(own) < len(keys):
            # What a part has one value of stays outside of its question.
            keys_of_part = [
                exp.alias_(constant.copy(), f"{_KEY}{i}") if constant is not None else exp.column(f"{_KEY}{i}")
                for i, constant in enumerate(constants[place])
            ]
            named = exp.TableAlias(this=exp.to_identifier(f"{_PART}part"))
            part = exp.Select(expressions=[*keys_of_part, *(exp.column(name) for _, name, _ in wanted)]).from_(
                exp.Subquery(this=part, alias=named)
            )
        parts.append(part)
    instead |= {key: exp.column(f"{_KEY}{i}") for i, key in enumerate(keys)}
    return _put_over(select, parts, instead)


def _put_over(select: Any, parts: Sequence[Any], instead: dict[Any, Any]) -> Any:
    """Return the SELECT over the parts, with what aggregates and keys are there."""
    exp = trees()
    outer = select.copy()
    for place, item in enumerate(outer.expressions):
        if not isinstance(item, exp.Alias):
            name = exp.to_identifier(item.output_name or item.sql("duckdb").lower(), quoted=True)
            outer.expressions[place].replace(exp.alias_(item.copy(), name))
    for name in ("from_", "from", "joins", "where", "laterals", "sample"):
        outer.set(name, None)

    def swap(node: Any) -> None:
        if isinstance(node, exp.Query) and node is not outer:
            return
        if node in instead:
            node.replace(instead[node].copy())
            return
        for part in list(node.iter_expressions()):
            swap(part)

    swap(outer)
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.union(whole, part, distinct=False)
    return outer.from_(exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier(f"{_PART}parts"))))


def _combine(
    node: Any,
    wanted: list[tuple[Any, str, bool]],
    union: RowUnion,
    items: Sequence[dict[str, Any]],
    units: Collection[str],
) -> Any:
    """Return what an aggregate over the union is of the parts' aggregates, which are added to `wanted`."""
    exp = trees()
    condition = node.expression if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node

    def total(aggregate: Any, *, once: bool = False) -> Any:
        filtered = aggregate if condition is None else exp.Filter(this=aggregate, expression=condition.copy())
        name = next((name for other, name, _ in wanted if other == filtered), f"{_PART}{len(wanted)}")
        if all(other != filtered for other, _, _ in wanted):
            wanted.append((filtered, name, once))
        return exp.Sum(this=exp.column(name))

    def whole(count: Any, *, once: bool = False) -> Any:
        return exp.cast(total(count, once=once), "BIGINT")

    counts = isinstance(inner, (exp.Count, exp.CountIf))
    person = inner.this.expressions[0] if counts and isinstance(inner.this, exp.Distinct) else inner.this
    one_column = len(items[0]) == 1
    if counts and union.distinct and one_column:
        person = exp.column(next(iter(items[0]))) if isinstance(person, exp.Star) else person
    counts_once = counts and (union.distinct or isinstance(inner.this, exp.Distinct))
    if counts_once and (not union.distinct or one_column) and _is_unit(person, items, units):
        return whole(exp.Count(this=exp.Distinct(expressions=[person.copy()])), once=True)
    if union.distinct:
        raise QuestionRefused(
            "UNION of rows of persons counts equal rows once, which is asked of the privacy unit alone: COUNT(*) of SELECT "
            "person FROM a UNION SELECT person FROM b; or write UNION ALL"
        )
    if counts and not isinstance(inner.this, exp.Distinct):
        return whole(inner.copy())
    if isinstance(inner, exp.Sum) and not isinstance(inner.this, exp.Distinct):
        return total(inner.copy())
    if isinstance(inner, exp.Avg) and not isinstance(inner.this, exp.Distinct):
        number = exp.Nullif(this=total(exp.Count(this=inner.this.copy())), expression=exp.Literal.number(0))
        return exp.paren(exp.Div(this=exp.cast(total(exp.Sum(this=inner.this.copy())), "DOUBLE"), expression=number))
    word = (
        "COUNT(DISTINCT x)"
        if counts
        else inner.sql_name()
        if isinstance(inner, exp.Func)
        else type(inner).__name__.upper()
    )
    raise QuestionRefused(
        f"{word} over UNION ALL of rows does not follow from its SELECTs, which are asked one by one: COUNT, SUM, AVG and "
        "COUNT(DISTINCT person) do; ask for it in each of them, or of one table with OR in WHERE"
    )


def _is_unit(node: Any, items: Sequence[dict[str, Any]], units: Collection[str]) -> bool:
    """Return whether a column of the union is a privacy unit's in each of its parts."""
    exp = trees()
    if not isinstance(node, exp.Column):
        return False
    meant = [columns.get(node.name.lower()) for columns in items]
    return all(isinstance(one, exp.Column) and one.name.lower() in units for one in meant)


def _constant(key: Any, columns: dict[str, Any]) -> Any:
    """Return a key as it is in all rows of a part, where the part's columns that it is made of are constants; None if not."""
    exp = trees()
    if key.find(exp.Query) is not None:
        return None
    replaced = exp.paren(key.copy())
    for column in list(replaced.find_all(exp.Column)):
        value = columns.get(column.name.lower())
        if value is None or value.find(exp.Column, exp.Query, exp.AggFunc) is not None:
            return None
        column.replace(value.copy())
    return replaced.this


def _leave_out(
    part: Any, select: Any, source: Any, before: Sequence[Any], columns: dict[str, Any], units: Collection[str]
) -> None:
    """Leave out of a part the persons who are in one of the parts before it."""
    exp = trees()
    name = next(name for name, item in columns.items() if isinstance(item, exp.Column) and item.name.lower() in units)
    unit = exp.column(name, table=source.alias_or_name or f"{_PART}rows", quoted=True)
    for rows in before:
        other = put_source(select, source, rows)
        for clause in ("having", "qualify", "order", "limit", "offset", "distinct", "group", "windows"):
            other.set(clause, None)
        other.set("expressions", [unit.copy()])
        part.where(exp.Not(this=exp.In(this=unit.copy(), query=exp.Subquery(this=other))), copy=False)
