"""Worst-case sensitivity of a question: how far one unit moves its answer, over all tables that a domain allows.

It knows declared bounds, never data; the rules of counts and sums stand in `sordino.ask.queries.sensitivity_rules`.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.ask.queries.aggregates.quantile import Quantile
from sordino.ask.queries.aggregates.sums import Average, require_bounds
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.sensitivity_rules import stack
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, PrivacyUnit, Sensitivity, neighbors_from


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
    asked = as_aggregation(question)
    between = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    chosen = [a for a in asked.aggregates if isinstance(a, Quantile)]
    if chosen or not asked.aggregates:
        what = chosen[0].describe() if chosen else asked.describe()
        raise QuestionRefused(
            f"{what} is chosen by a selection, and no noise of a sensitivity is added to it: ask for the sensitivity of counts, "
            "sums or means"
        )
    means = [a for a in asked.aggregates if isinstance(a, Average)]
    if not means:
        if n is not None:
            raise DeclarationError("n is the public size for a mean, and no mean is asked: leave it out")
        return asked.sensitivity(domain, between)
    found = compile_query(asked, domain)
    for mean in means:
        private = _private_size(asked, found, mean, domain, between)
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
    for aggregate, several in zip(asked.aggregates, found.parts, strict=True):
        if isinstance(aggregate, Average):
            parts.append(_mean(aggregate, domain, n))
        else:
            parts += [found.sensitivity(p, between) for p in several]
    return stack(parts)


def _private_size(asked: Aggregation, found: CompiledQuery, mean: Average, domain: Domain, between: Neighbors) -> str:
    """Return why the number of rows averaged depends on private data, or nothing where it is public."""
    if between.relation == "add_remove":
        return "add_remove changes the number of rows, so one row may be all of them"
    if between.unit is not None:
        return f"one {between.id_column or 'unit'} may be replaced by one with another number of rows"
    if asked.where is not None:
        return "a filter may drop a row, so the number of rows averaged is private"
    if asked.groups:
        return "a row may change its group, so the sizes of the groups are private"
    if found.unreadable_rows:
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
