"""Rules and how many rows break them: of synthetic rows, and of the table, by one count each.

It sees released counts, or NOT PRIVATE ones.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.build import Selection, count
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.core.errors import DeclarationError
from sordino.core.estimates.curve import normal_quantile
from sordino.synth.condition_text import parse_condition
from sordino.synth.encoded_column import encode_table
from sordino.synth.evaluation.cuts import encode_steps
from sordino.synth.evaluation.figure import CONFIDENCE, Figure
from sordino.synth.expression_eval import column_cells, evaluate_condition, names_in

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.loss import Loss
    from sordino.synth.encoded_column import Codes
    from sordino.synth.model import Model


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A rule in words and the condition of the rows that break it."""

    words: str
    condition: Expr


@dataclass(frozen=True, slots=True)
class Violation:
    """The share of rows that break a rule: of synthetic rows, exactly, and of the original."""

    rule: str
    synthetic: float
    original: Figure

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        return {"rule": self.rule, "synthetic": self.synthetic, "original": self.original.to_dict()}


def check_rules(rules: Sequence[Any], model: Model) -> tuple[RuleCheck, ...]:
    """Return what breaks each rule; raises DeclarationError for one that names a column that the model has not."""
    checks = []
    for rule in rules:
        condition = _broken(rule, model.columns)
        for name in names_in(condition.node):
            if name not in model.columns:
                raise DeclarationError(f"{rule.describe()}: {name!r} is not a column of the synthetic table")
        checks.append(RuleCheck(rule.describe(), condition))
    return tuple(checks)


def count_violations(
    model: Model, checks: Sequence[RuleCheck], keys: Sequence[Codes], steps: Sequence[Codes]
) -> list[float]:
    """Return the share of rows, given by keys and steps, that break each rule; a row with a dropped cell (-1) breaks none."""
    shares = []
    for check in checks:
        names = set(names_in(check.condition.node))
        cells = {}
        complete = np.ones(keys[0].shape, dtype=bool)
        for column, key, step in zip(model.parts.columns, keys, steps, strict=True):
            if column.name in names:
                complete &= key >= 0
                cells[column.name] = column_cells(column, np.maximum(key, 0), steps=step)
        broken = np.broadcast_to(evaluate_condition(check.condition.node, cells)[0], keys[0].shape) >= 0.5
        shares.append(float((broken & complete).mean()) if len(broken) else 0.0)
    return shares


def exact_violations(model: Model, checks: Sequence[RuleCheck], table: pa.Table) -> list[Figure]:
    """Return the share of a table's rows that break each rule, NOT PRIVATE: exact."""
    columns = model.parts.columns
    keys: list[Codes] = []
    steps: list[Codes] = []
    for column in columns:
        keys += encode_table(table, [column])
        steps.append(encode_steps(table, column)[0] if column.ordered else keys[-1])
    return [Figure(share) for share in count_violations(model, checks, keys, steps)]


def release_violations(model: Model, checks: Sequence[RuleCheck], data: Any, losses: Sequence[Loss]) -> list[Figure]:
    """Return the noisy share of a table's rows that break each rule: one count a rule, over the model's number of rows."""
    figures = []
    for check, loss in zip(checks, losses, strict=True):
        estimate: Any = data.release(violations_question(check), loss).outputs[0].estimate
        rows = max(model.rows, 1)
        value = float(estimate.steps[0]) * float(estimate.unit) / rows
        deviation = math.sqrt(float(estimate.law.variance())) * float(estimate.unit) / rows
        figures.append(Figure(value, normal_quantile(CONFIDENCE) * deviation))
    return figures


def violations_question(check: RuleCheck) -> Any:
    """Return the question that counts the rows that break a rule."""
    return Selection().where(check.condition).agg(count())


def _broken(rule: Any, columns: Sequence[str]) -> Expr:
    """Return the condition of a row that breaks a rule: in the rule's own words where it has some, else from its list."""
    violation = getattr(rule, "violation", None)
    text = violation() if callable(violation) else None
    if text is not None:
        return parse_condition(text, columns)
    if hasattr(rule, "condition"):
        return Expr(rule.condition)
    if hasattr(rule, "combinations"):
        rows = [_conjunction([_is(n, v) for n, v in zip(rule.columns, row, strict=True)]) for row in rule.combinations]
        present = _conjunction([~col(n).is_null() for n in rule.columns])
        return present & ~functools.reduce(operator.or_, rows)
    if hasattr(rule, "values") and hasattr(rule, "of"):
        return functools.reduce(operator.or_, _mismatches(rule.of, rule.column, rule.values))
    raise DeclarationError(f"{rule.describe()}: there is no way to count the rows that break this rule: leave it out")


def _mismatches(of: str, column: str, values: Sequence[tuple[Any, Any]]) -> list[Expr]:
    """Return for each value of `column` that the rows of the values that lead to it have another one."""
    sources: dict[Any, list[Any]] = {}
    for source, target in values:
        sources.setdefault(target, []).append(source)
    return [
        functools.reduce(operator.or_, [_is(of, source) for source in several]) & ~_is(column, target)
        for target, several in sources.items()
    ]


def _is(name: str, value: Any) -> Expr:
    """Return that a column has a value; None is a missing one."""
    return col(name).is_null() if value is None else ~col(name).is_null() & (col(name) == value)


def _conjunction(parts: Sequence[Expr]) -> Expr:
    return functools.reduce(operator.and_, parts)
