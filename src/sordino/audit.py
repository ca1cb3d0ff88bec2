"""Audits: how much loss samples, exact laws and replayed noise show of a mechanism, a question or anybody's function.

from sordino import audit
audit.audit_question(sd.count(), here, there, domain=..., neighbors=..., privacy_unit="row", epsilon=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.lab.audit.answer_attack import average_answers as average_answers
    from sordino.lab.audit.answer_attack import infer_answers as infer_answers
    from sordino.lab.audit.answer_attack import take_differences as take_differences
    from sordino.lab.audit.attack import Attack as Attack
    from sordino.lab.audit.attack_collection import Attacks as Attacks
    from sordino.lab.audit.attack_suites import attack_kind as attack_kind
    from sordino.lab.audit.attack_suites import attack_local as attack_local
    from sordino.lab.audit.attack_suites import attack_release as attack_release
    from sordino.lab.audit.attack_suites import attack_synth as attack_synth
    from sordino.lab.audit.canary_run import CanaryAudit as CanaryAudit
    from sordino.lab.audit.canary_run import audit_canaries as audit_canaries
    from sordino.lab.audit.exact_laws import audit_laws as audit_laws
    from sordino.lab.audit.exact_laws import audit_protocol as audit_protocol
    from sordino.lab.audit.question_audit import Replay as Replay
    from sordino.lab.audit.question_audit import audit_plan as audit_plan
    from sordino.lab.audit.question_audit import audit_question as audit_question
    from sordino.lab.audit.question_audit import neighbor_tables as neighbor_tables
    from sordino.lab.audit.question_audit import replay_function as replay_function
    from sordino.lab.audit.question_audit import replay_plan as replay_plan
    from sordino.lab.audit.question_audit import telling_tables as telling_tables
    from sordino.lab.audit.sampled_audit import audit_function as audit_function
    from sordino.lab.audit.sampled_audit import audit_mechanism as audit_mechanism
    from sordino.lab.audit.table_attacks import ClosestRecords as ClosestRecords
    from sordino.lab.audit.table_attacks import closest_records as closest_records
    from sordino.lab.audit.table_attacks import infer_attribute as infer_attribute
    from sordino.lab.audit.table_attacks import infer_membership as infer_membership
    from sordino.lab.audit.table_attacks import reconstruct as reconstruct
    from sordino.lab.audit.table_attacks import reconstruct_from_counts as reconstruct_from_counts
    from sordino.lab.audit.verdict import Audit as Audit
    from sordino.lab.audit.verdict import largest_epsilon as largest_epsilon
    from sordino.lab.audit.verdict import least_epsilon as least_epsilon
    from sordino.lab.audit.verdict import typical_epsilon as typical_epsilon

__getattr__, __dir__, __all__ = export_lazily(__name__)

# A package to importlib, so that the old paths of modules in it are found (core/moved.py).
__path__: list[str] = []
