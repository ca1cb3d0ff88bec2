"""Conditions that choose rows: what meets them is what SQL's three-valued logic calls true, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.domain import Domain
from sordino.queries.expressions.compile import bind_condition
from sordino.queries.expressions.nodes import Node
from sordino.queries.expressions.sql_trees import Build

__all__ = ["Predicate", "predicate"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on a row, in SQL's three-valued logic."""

    build: Build


def predicate(node: Node, domain: Domain) -> Predicate:
    """Return what a condition means; raises QuestionRefused for what is none."""
    return Predicate(bind_condition(node, domain))
