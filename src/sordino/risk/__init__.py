"""What an epsilon means to an attacker, to a person and to an analyst, and the epsilon that meets it.

It may not know engines, curators or data: universes, sizes and requirements are public. Every name is imported when it
is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.risk.assessment import RiskAssessment as RiskAssessment
    from sordino.risk.assessment import assess_risk as assess_risk
    from sordino.risk.attacker import Simulation as Simulation
    from sordino.risk.likelihood_ratio import AnswerOdds as AnswerOdds
    from sordino.risk.likelihood_ratio import answer_odds as answer_odds
    from sordino.risk.requirement_choice import Choice as Choice
    from sordino.risk.requirement_choice import Requirement as Requirement
    from sordino.risk.requirement_choice import choose_epsilon as choose_epsilon
    from sordino.risk.requirements import accuracy as accuracy
    from sordino.risk.requirements import advantage as advantage
    from sordino.risk.requirements import disclosure as disclosure
    from sordino.risk.requirements import economic as economic
    from sordino.risk.requirements import gain as gain
    from sordino.risk.requirements import identifiability as identifiability
    from sordino.risk.requirements import posterior as posterior
    from sordino.risk.requirements import relative as relative
    from sordino.risk.requirements import test_power as test_power
    from sordino.risk.table_choice import TableChoice as TableChoice
    from sordino.risk.table_choice import choose_for_table as choose_for_table
    from sordino.risk.worlds import InfeasibleRisk as InfeasibleRisk
    from sordino.risk.worlds import Worlds as Worlds

_EXPORTS = {
    "sordino.risk.assessment": "RiskAssessment assess_risk",
    "sordino.risk.attacker": "Simulation",
    "sordino.risk.likelihood_ratio": "AnswerOdds answer_odds",
    "sordino.risk.requirement_choice": "Choice Requirement choose_epsilon",
    "sordino.risk.requirements": (
        "accuracy advantage disclosure economic gain identifiability posterior relative test_power"
    ),
    "sordino.risk.table_choice": "TableChoice choose_for_table",
    "sordino.risk.worlds": "InfeasibleRisk Worlds",
}

__getattr__, __dir__, __all__ = export_lazily(__name__, _EXPORTS)
