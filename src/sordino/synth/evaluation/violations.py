"""Rules and how many rows break them: of synthetic rows, and of the table, by one count each.

It sees released counts, or NOT PRIVATE ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.build import Selection, count
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.noise.rng import Rng
from sordino.synth.drawn_rows import DrawnRows, column_law
from sordino.synth.encoded_column import encode_table
from sordino.synth.evaluation.cuts import encode_steps
from sordino.synth.evaluation.figure import CONFIDENCE, Figure
from sordino.synth.rules import Linear, require_rules

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.loss import Loss
    from sordino.synth.encoded_column import Codes
    from sordino.synth.model import Model
    from sordino.synth.rules import Rule


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A rule and the condition of the rows that break it."""

    rule: Rule
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


def check_rules(rules: Sequence[Rule], model: Model) -> tuple[RuleCheck, ...]:
    """Return what breaks each rule; raises DeclarationError for one that cannot be of the model's columns."""
    columns = {c.name: c for c in model.parts.columns}
    checks = []
    for rule in require_rules(rules):
        rule.check(columns, model.parts.domain)
        condition = rule.violation()
        if isinstance(rule, Linear) and not _is_question(condition, model):
            # Days added to a date are no question of a table: rows drawn keep to such a rule all the same.
            continue
        checks.append(RuleCheck(rule, condition))
    return tuple(checks)


def count_violations(
    model: Model, checks: Sequence[RuleCheck], keys: Sequence[Codes], steps: Sequence[Codes]
) -> list[float]:
    """Return the share of rows, given by keys and steps, that break each rule; a row with a dropped cell (-1) breaks none."""
    place = {c.name: i for i, c in enumerate(model.parts.columns)}
    shares = []
    for check in checks:
        names = check.rule.names
        columns = {n: model.parts.columns[place[n]] for n in names}
        missing = {n: columns[n].missing & (keys[place[n]] == columns[n].size - 1) for n in names}
        laws = {n: column_law(columns[n]) for n in names}
        # a step must lie in its column where the cell is missing, too
        inside = {n: np.where(missing[n], laws[n].first, steps[place[n]]) for n in names}
        # nothing is drawn: rows are only looked at
        rows = DrawnRows(laws, inside, missing, {}, {}, {}, Rng.seeded(0))
        complete = np.all([keys[place[n]] >= 0 for n in names], axis=0)
        broken = ~np.asarray(check.rule.holds(rows)) & complete
        shares.append(float(broken.mean()) if len(broken) else 0.0)
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


def _is_question(condition: Expr, model: Model) -> bool:
    """Return whether a table can be asked how many rows meet a condition."""
    try:
        bind_condition(condition.node, model.parts.domain)
    except QuestionRefused:
        return False
    return True


def violations_question(check: RuleCheck) -> Any:
    """Return the question that counts the rows that break a rule."""
    return Selection().where(check.condition).agg(count())
