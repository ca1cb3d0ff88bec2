"""What an epsilon means to an attacker, to a person and to an analyst, and the epsilon that meets it.

It may not know engines, curators or data: universes, sizes and requirements are public. Every name is imported when it
is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.lab.risk.assessment import RiskAssessment as RiskAssessment
    from sordino.lab.risk.assessment import assess_risk as assess_risk
    from sordino.lab.risk.odds import AnswerOdds as AnswerOdds
    from sordino.lab.risk.odds import answer_odds as answer_odds
    from sordino.lab.risk.requirement_choice import Choice as Choice
    from sordino.lab.risk.requirement_choice import Requirement as Requirement
    from sordino.lab.risk.requirement_choice import accuracy as accuracy
    from sordino.lab.risk.requirement_choice import advantage as advantage
    from sordino.lab.risk.requirement_choice import choose_epsilon as choose_epsilon
    from sordino.lab.risk.requirement_choice import disclosure as disclosure
    from sordino.lab.risk.requirement_choice import economic as economic
    from sordino.lab.risk.requirement_choice import gain as gain
    from sordino.lab.risk.requirement_choice import identifiability as identifiability
    from sordino.lab.risk.requirement_choice import posterior as posterior
    from sordino.lab.risk.requirement_choice import relative as relative
    from sordino.lab.risk.requirement_choice import test_power as test_power
    from sordino.lab.risk.table_choice import TableChoice as TableChoice
    from sordino.lab.risk.table_choice import choose_for_table as choose_for_table
    from sordino.lab.risk.worlds import InfeasibleRisk as InfeasibleRisk
    from sordino.lab.risk.worlds import Simulation as Simulation
    from sordino.lab.risk.worlds import Worlds as Worlds

__getattr__, __dir__, __all__ = export_lazily(__name__)

# A package to importlib, so that the old paths of modules in it are found (core/moved.py).
__path__: list[str] = []
