"""Synthetic data: tables of the same shape that answer the questions of the original, at a stated loss.

    model = sd.synth.fit(adult, epsilon=1.0, delta=1e-9)
    model.sample(rows=100_000); model.answer(sd.count()); model.save("adult.model")

Every name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.synth.comparison import compare_frames as compare_frames
    from sordino.synth.comparison import percent_error as percent_error
    from sordino.synth.condition_text import parse_condition as parse_condition
    from sordino.synth.evaluation.evaluation import Evaluation as Evaluation
    from sordino.synth.evaluation.evaluator import evaluate as evaluate
    from sordino.synth.fitting import AIM as AIM
    from sordino.synth.fitting import MST as MST
    from sordino.synth.fitting import Independent as Independent
    from sordino.synth.fitting import Marginals as Marginals
    from sordino.synth.fitting import Tree as Tree
    from sordino.synth.fitting import fit as fit
    from sordino.synth.histogram import Histogram as Histogram
    from sordino.synth.histogram import HistogramPlan as HistogramPlan
    from sordino.synth.histogram import RangePlan as RangePlan
    from sordino.synth.histogram import Representation as Representation
    from sordino.synth.histogram import plan_ranges as plan_ranges
    from sordino.synth.model import Model as Model
    from sordino.synth.model import load as load
    from sordino.synth.rule_proposals import count_violations as count_violations
    from sordino.synth.rule_proposals import propose_rules as propose_rules
    from sordino.synth.rule_text import declared_rules as declared_rules
    from sordino.synth.rule_text import read_allowed as read_allowed
    from sordino.synth.rule_text import read_determines as read_determines
    from sordino.synth.rule_text import read_rule as read_rule
    from sordino.synth.rules import allowed as allowed
    from sordino.synth.rules import at_most as at_most
    from sordino.synth.rules import below as below
    from sordino.synth.rules import blank as blank
    from sordino.synth.rules import determines as determines
    from sordino.synth.rules import equal as equal
    from sordino.synth.rules import never as never

__getattr__, __dir__, __all__ = export_lazily(__name__)
