"""Worst cases over a finite universe: found, shown as tables, and checked against a bound."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import cast

import numpy as np

from sordino.ask.curator.plan import PlannedQuestion, registered_procedure
from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, require_bounds
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.sensitivity_rules import stack
from sordino.ask.queries.sql.parse import SqlText, parse_question
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, PrivacyUnit, Sensitivity, neighbors_from
from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, Places
from sordino.lab.sensitivity.variance import exact_running_sums

# ---- The pair of neighbors of a given size whose monotone answers differ most, over a whole universe. It may not
# know var
#
# Let D = C + A and D' = C + B (A removed, B added, C common) and let the answer rise. Exchanging a record of B for a
# larger one that is free, in A or in C never shrinks the rise; likewise a record of A for a smaller one. So B are the top
# of the universe and A the bottom, and the rise is linear in the order statistics of C, which is chosen from the middle:
# a programme "choose c of m in sorted order". A mean weighs all of C alike, so C is a bottom or a top; a quantile weighs at
# most four order statistics, so a running maximum for each of them is the whole programme. O(N) for each (removed, added).


def farthest_pair(
    universe: Floats, statistic: Statistic, moves: Moves, *, offset: Fraction = Fraction(0)
) -> tuple[Places, Places]:
    """Return the places of a table of `moves.size` records and of its neighbor whose answers differ most.

    The values are those of `universe`, each `offset` higher: that matters to sums of tables of two sizes alone.
    """
    # An offset moves no difference of means, but would cost digits in running sums.
    if statistic.kind == "mean":
        universe = universe - universe.mean()
    best: float | Fraction = -np.inf
    pair = (np.arange(0), np.arange(0))
    # In the mirror a fall of the answer is a rise.
    for mirror in (False, True):
        values = -universe[::-1] if mirror else universe
        totals = np.append(0.0, np.cumsum(values))
        if statistic.kind == "sum":
            own_offset = -offset if mirror else offset
            lowest = exact_running_sums(values[: max(removed for removed, _ in moves.pairs)].tolist(), own_offset)
            highest = exact_running_sums(values[::-1][: max(added for _, added in moves.pairs)].tolist(), own_offset)
        for removed, added in moves.pairs:
            common = moves.size - removed
            score: float | Fraction
            steps: _Steps
            if statistic.kind == "sum":
                score = highest[added] - lowest[removed]
                steps = []
            elif statistic.kind == "quantile":
                score, steps = _rise_of_quantile(values, statistic, removed, added, common, mirror)
            else:
                score, steps = _rise_of_mean(totals, statistic, removed, added, common)
            if score > best:
                best = score
                common_places = np.arange(common) + removed
                for rank, shift in steps:
                    common_places[rank:] = np.arange(rank, common) + removed + shift
                first = np.concatenate([np.arange(removed), common_places])
                second = np.concatenate([common_places, np.arange(values.size - added, values.size)])
                pair = (values.size - 1 - first[::-1], values.size - 1 - second[::-1]) if mirror else (first, second)
    return pair


# From this rank in C on, the records lie `shift` places above the lowest choice.
_Steps = list[tuple[int, int]]


def _rise_of_mean(totals: Floats, statistic: Statistic, removed: int, added: int, common: int) -> tuple[float, _Steps]:
    """Return the largest rise of a count or a mean when the bottom leave and the top come, and C."""
    before = common + removed
    after = common + added
    if statistic.kind == "count":
        return float(abs(after - before)), []
    free = totals.size - 1 - removed - added - common
    # A mean over more records wants C low, over fewer high.
    shift = free if after < before else 0
    body = totals[removed + shift + common] - totals[removed + shift]
    rise = body + totals[-1] - totals[-1 - added], body + totals[removed]
    return float(rise[0] / after - rise[1] / before), [(0, shift)]


def _rise_of_quantile(
    values: Floats, statistic: Statistic, removed: int, added: int, common: int, mirror: bool
) -> tuple[float, _Steps]:
    """Return the largest rise of a quantile when the bottom leave and the top come, and C.

    C's record of rank i stands at place i + y_i of the middle, 0 <= y_0 <= y_1 <= ... <= free.
    """
    fixed = 0.0
    weights: dict[int, float] = {}
    for size, sign, lead in ((common + added, 1.0, 0), (common + removed, -1.0, removed)):
        low, high, share = statistic.positions(size)
        for position, weight in ((low, sign * (1 - share)), (high, sign * share)):
            rank = (size - 1 - position if mirror else position) - lead
            if 0 <= rank < common:
                weights[rank] = weights.get(rank, 0.0) + weight
            else:
                fixed += weight * float(values[rank + removed if rank < 0 else values.size - added + rank - common])
    choices = values.size - removed - added - common + 1
    ranks = sorted(weights)
    score = np.zeros(choices)
    traces = []
    for rank in ranks:
        score = score + weights[rank] * values[removed + rank : removed + rank + choices]
        highest = np.maximum.accumulate(score)
        traces.append((score, highest))
        score = highest
    shift = choices - 1
    steps = []
    for rank, (here, highest) in zip(reversed(ranks), reversed(traces), strict=True):
        shift = int(np.argmax(here[: shift + 1] == highest[shift]))
        steps.append((rank, shift))
    return fixed + float(score[-1]), steps[::-1]


# ---- Worst-case sensitivity of a question: how far one unit moves its answer, over all tables that a domain allows
#
# It knows declared bounds, never data; the rules of counts and sums stand in `sordino.ask.queries.sensitivity_rules`.


def _read_noisy(question: object, domain: Domain) -> Aggregation:
    """Return the question whose numbers get noise of a sensitivity; raises QuestionRefused for what is released otherwise."""
    if isinstance(question, SqlText):
        # Its table is whichever it names: only declarations are needed of it.
        question = parse_question(question, table=question.parse(tuple(domain)).table, columns=tuple(domain))
    own = question if not isinstance(question, Aggregation) and registered_procedure(question) is not None else None
    aggregation = Aggregation(None, (), ()) if own is not None else as_aggregation(question)
    selections = [a for a in aggregation.aggregates if isinstance(a, Quantile)]
    if not selections and aggregation.aggregates:
        return aggregation
    what = selections[0].describe() if selections else aggregation.describe()
    if own is not None:
        what = cast(PlannedQuestion, own).describe()
    are = "are" if what.startswith("the quantiles") else "is"
    how = "released by a procedure of its own" if own is not None else "chosen by a selection"
    raise QuestionRefused(
        f"{what} {are} {how}, and no noise of a sensitivity is added to it: ask for the sensitivity of counts, sums or means"
    )


def worst_case_sensitivity(
    question: object, domain: Domain, *, neighbors: str, privacy_unit: str | PrivacyUnit, n: int | None = None
) -> Sensitivity:
    """Return how far one unit can move the exact answer, over all neighboring tables of the domain.

    With C rows a unit, M = max(|l|, |u|): a count C, under both relations; a sum of values in [l, u] C M under
    add_remove and C (max(u, 0) - min(l, 0)) under replace, where a row may be filtered or dropped, u - l where it cannot;
    grouped counts 2C (l1), sqrt(2) C (l2), C (linf) under replace. Several answers add. Exact; l0 in cells, the others
    in the question's units. A mean has a figure only where its size is public: (u - l)/n under replace, for a unit of
    one row, where nothing is filtered, grouped, missing or unreadable; `n` is then the public number of rows.

    Raises QuestionRefused for a number without bounds, for what is chosen, such as a quantile, and for a mean whose size is
    private (release a sum and a count,
    and divide), DeclarationError for a relation, a unit or an n that break a rule.

    >>> from sordino.core.domain import Integer
    >>> from sordino.ask.queries.build import sum as total
    >>> worst_case_sensitivity(total("x"), Domain({"x": Integer(-5, 3)}), neighbors="add_remove", privacy_unit="row").l1
    Fraction(5, 1)

    Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private Data Analysis" (2006), section 2.
    """
    between = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    aggregation = _read_noisy(question, domain)
    means = [a for a in aggregation.aggregates if isinstance(a, Average)]
    if not means:
        if n is not None:
            raise DeclarationError("n is the public size for a mean, and no mean is asked: leave it out")
        return aggregation.sensitivity(domain, between)
    compiled = compile_query(aggregation, domain)
    for mean in means:
        private = _private_size(aggregation, compiled, mean, domain, between)
        if private:
            raise QuestionRefused(
                f"{mean.describe()} has no finite useful sensitivity, because {private}: release a sum and a count, "
                "and divide"
            )
    if n is None:
        raise QuestionRefused(
            f"{means[0].describe()} has the sensitivity (u - l)/n: give the public number of rows, n="
        )
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise DeclarationError(f"n must be a whole number of rows from 1, not {n!r}")
    parts: list[Sensitivity] = []
    for aggregate, several in zip(aggregation.aggregates, compiled.bound(between).sensitivities, strict=True):
        if isinstance(aggregate, Average):
            parts.append(_mean(aggregate, domain, n))
        else:
            parts += several
    return stack(parts)


def _private_size(
    aggregation: Aggregation, compiled: CompiledQuery, mean: Average, domain: Domain, between: Neighbors
) -> str:
    """Return why the number of rows averaged depends on private data, or nothing where it is public."""
    if between.relation == "add_remove":
        return "add_remove changes the number of rows, so one row may be all of them"
    if between.unit is not None:
        return f"one {between.id_column or 'unit'} may be replaced by one with another number of rows"
    if aggregation.where is not None:
        return "a filter may drop a row, so the number of rows averaged is private"
    if aggregation.groups:
        return "a row may change its group, so the sizes of the groups are private"
    if compiled.unreadable_rows:
        return "a row of the source may be unreadable, so the number of rows is private"
    if require_bounds(mean.of, domain, "mean")[0].missable:
        return "the number may be missing from a row, so the number of rows averaged is private"
    return ""


def _mean(mean: Average, domain: Domain, n: int) -> Sensitivity:
    measured, low, high = require_bounds(mean.of, domain, "mean")
    move = Fraction(high - low, n) * measured.unit
    span = f"[{format_number(low * measured.unit)}, {format_number(high * measured.unit)}]"
    because = f"replace of one row moves a mean of {n} values in {span} by {format_number(move)}"
    return Sensitivity(1, move, move**2, move, because)


# ---- The oracle: sensitivities by enumeration of all tables. Slow, plain, and knows none of the algorithms it checks


def cost(universe_size: int, moves: Moves, *, table: bool = False) -> int:
    """Return how many pairs of tables `enumerated` compares."""
    sizes = {moves.size - removed + added for removed, added in moves.pairs}
    return (1 if table else math.comb(universe_size, moves.size)) * sum(math.comb(universe_size, s) for s in sizes)


def enumerate_pairs(
    universe: Floats, statistic: Statistic, moves: Moves, *, table: Places | None = None
) -> tuple[float, Places, Places]:
    """Return the largest change of an answer over all pairs of neighbors, and the pair; `table` fixes the first.

    >>> from sordino.lab.sensitivity.moves import moves_from
    >>> from sordino.lab.sensitivity.statistics import statistic_from
    >>> moves = moves_from(neighbors="replace", within=1, exactly=None, direction=None, size=3, universe_size=5)
    >>> enumerate_pairs(np.array([1.0, 2, 3, 10, 11]), statistic_from("median", ddof=0), moves)[0]
    8.0
    """
    starts = _tables(universe.size, moves.size) if table is None else np.asarray([table], dtype=np.intp)
    before = _answers(universe, statistic, starts)
    inside = _members(starts, universe.size)
    best = (-1.0, starts[0], starts[0])
    for size in sorted({moves.size - removed + added for removed, added in moves.pairs}):
        ends = _tables(universe.size, size)
        after = _answers(universe, statistic, ends)
        removals = [removed for removed, added in moves.pairs if moves.size - removed + added == size]
        reached = _members(ends, universe.size)
        rows = max(1, 2_000_000 // len(ends))
        for first in range(0, len(starts), rows):
            removed = moves.size - inside[first : first + rows] @ reached.T
            change = np.abs(before[first : first + rows, None] - after[None, :])
            change[~np.isin(removed, removals)] = -1.0
            row, column = np.unravel_index(int(change.argmax()), change.shape)
            if change[row, column] > best[0]:
                best = (float(change[row, column]), starts[first + row], ends[column])
    return best


def _tables(universe_size: int, size: int) -> Places:
    return np.array(list(combinations(range(universe_size), size)), dtype=np.intp).reshape(
        math.comb(universe_size, size), size
    )


def _members(tables: Places, universe_size: int) -> Floats:
    members = np.zeros((len(tables), universe_size))
    np.put_along_axis(members, tables, 1.0, axis=1)
    return members


def _answers(universe: Floats, statistic: Statistic, tables: Places) -> Floats:
    values = universe[tables]
    if statistic.kind == "count":
        return np.full(len(tables), float(tables.shape[1]))
    if statistic.kind == "sum":
        return np.asarray(values.sum(axis=1))
    if statistic.kind == "mean":
        return np.asarray(values.mean(axis=1))
    if statistic.kind == "quantile":
        return np.asarray(np.quantile(values, statistic.q, axis=1))
    measure = np.var if statistic.kind == "var" else np.std
    return np.asarray(measure(values, axis=1, ddof=statistic.ddof))
