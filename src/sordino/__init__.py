"""Sordino: ask a sensitive table questions; publish answers that hide each person.

    import sordino as sd
    people = sd.connect("sordino.toml").table("people")
    plan = people.plan(sd.mean("age"), epsilon=0.5, assume_rows=30_000)   # free
    answer = people.ask(plan)                                             # charged once

Every name here is imported when it is first used, so that `import sordino` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino import datasets as datasets
    from sordino import local as local
    from sordino import risk as risk
    from sordino import sensitivity as sensitivity
    from sordino import synth as synth
    from sordino.curator.against_data import check_against_data as check_against_data
    from sordino.curator.batch import Batch as Batch
    from sordino.curator.connect import Connection as Connection
    from sordino.curator.connect import connect as connect
    from sordino.curator.connect import protect as protect
    from sordino.curator.curator import Curator as Curator
    from sordino.curator.explain import explain as explain
    from sordino.curator.plan import Plan as Plan
    from sordino.domain import Boolean as Boolean
    from sordino.domain import Category as Category
    from sordino.domain import Date as Date
    from sordino.domain import Domain as Domain
    from sordino.domain import Fill as Fill
    from sordino.domain import Identifier as Identifier
    from sordino.domain import Integer as Integer
    from sordino.domain import Real as Real
    from sordino.ledger.ledger import Ledger as Ledger
    from sordino.loss import ZCDP as ZCDP
    from sordino.loss import ApproxDP as ApproxDP
    from sordino.loss import PureDP as PureDP
    from sordino.neighbors import Neighbors as Neighbors
    from sordino.neighbors import PrivacyUnit as PrivacyUnit
    from sordino.neighbors import Sensitivity as Sensitivity
    from sordino.noise.rng import Rng as Rng
    from sordino.queries.aggregates.most_common import most_common as most_common
    from sordino.queries.aggregates.quantile import iqr as iqr
    from sordino.queries.aggregates.quantile import median as median
    from sordino.queries.aggregates.quantile import quantile as quantile
    from sordino.queries.aggregates.quantile import quantiles as quantiles
    from sordino.queries.aggregates.robust import propose_test_release as propose_test_release
    from sordino.queries.aggregates.robust import sample_and_aggregate as sample_and_aggregate
    from sordino.queries.aggregates.robust import smooth as smooth
    from sordino.queries.build import correlation as correlation
    from sordino.queries.build import count as count
    from sordino.queries.build import count_distinct as count_distinct
    from sordino.queries.build import covariance as covariance
    from sordino.queries.build import histogram as histogram
    from sordino.queries.build import mean as mean
    from sordino.queries.build import std as std
    from sordino.queries.build import sum as sum
    from sordino.queries.build import variance as variance
    from sordino.queries.expressions.expr import Expr as Expr
    from sordino.queries.expressions.expr import col as col
    from sordino.queries.expressions.expr import when as when
    from sordino.queries.sql.parse import sql as sql
    from sordino.release import Release as Release
    from sordino.report.charts import plot as plot
    from sordino.source import Csv as Csv
    from sordino.source import public as public

__version__ = "0.1.0"

_EXPORTS = {
    "ApproxDP": "sordino.loss",
    "Batch": "sordino.curator.batch",
    "Boolean": "sordino.domain",
    "Category": "sordino.domain",
    "Connection": "sordino.curator.connect",
    "Csv": "sordino.source",
    "Curator": "sordino.curator.curator",
    "Date": "sordino.domain",
    "Domain": "sordino.domain",
    "Expr": "sordino.queries.expressions.expr",
    "Fill": "sordino.domain",
    "Identifier": "sordino.domain",
    "Integer": "sordino.domain",
    "Ledger": "sordino.ledger.ledger",
    "Neighbors": "sordino.neighbors",
    "Plan": "sordino.curator.plan",
    "PrivacyUnit": "sordino.neighbors",
    "PureDP": "sordino.loss",
    "Real": "sordino.domain",
    "Release": "sordino.release",
    "Rng": "sordino.noise.rng",
    "Sensitivity": "sordino.neighbors",
    "ZCDP": "sordino.loss",
    "check_against_data": "sordino.curator.against_data",
    "col": "sordino.queries.expressions.expr",
    "connect": "sordino.curator.connect",
    "correlation": "sordino.queries.build",
    "count": "sordino.queries.build",
    "count_distinct": "sordino.queries.build",
    "covariance": "sordino.queries.build",
    "explain": "sordino.curator.explain",
    "histogram": "sordino.queries.build",
    "iqr": "sordino.queries.aggregates.quantile",
    "mean": "sordino.queries.build",
    "median": "sordino.queries.aggregates.quantile",
    "most_common": "sordino.queries.aggregates.most_common",
    "plot": "sordino.report.charts",
    "propose_test_release": "sordino.queries.aggregates.robust",
    "protect": "sordino.curator.connect",
    "public": "sordino.source",
    "quantile": "sordino.queries.aggregates.quantile",
    "quantiles": "sordino.queries.aggregates.quantile",
    "sample_and_aggregate": "sordino.queries.aggregates.robust",
    "smooth": "sordino.queries.aggregates.robust",
    "sql": "sordino.queries.sql.parse",
    "std": "sordino.queries.build",
    "sum": "sordino.queries.build",
    "variance": "sordino.queries.build",
    "when": "sordino.queries.expressions.expr",
}
_ROOMS = ("datasets", "errors", "local", "risk", "sensitivity", "synth")

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Batch",
    "Boolean",
    "Category",
    "Connection",
    "Csv",
    "Curator",
    "Date",
    "Domain",
    "Expr",
    "Fill",
    "Identifier",
    "Integer",
    "Ledger",
    "Neighbors",
    "Plan",
    "PrivacyUnit",
    "PureDP",
    "Real",
    "Release",
    "Rng",
    "Sensitivity",
    "__version__",
    "check_against_data",
    "col",
    "connect",
    "correlation",
    "count",
    "count_distinct",
    "covariance",
    "datasets",
    "explain",
    "histogram",
    "iqr",
    "local",
    "mean",
    "median",
    "most_common",
    "plot",
    "propose_test_release",
    "protect",
    "public",
    "quantile",
    "quantiles",
    "risk",
    "sample_and_aggregate",
    "sensitivity",
    "smooth",
    "sql",
    "std",
    "sum",
    "synth",
    "variance",
    "when",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        found = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _ROOMS:
        found = importlib.import_module(f"sordino.{name}")
    else:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
