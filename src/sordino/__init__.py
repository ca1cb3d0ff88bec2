"""Sordino: ask a sensitive table questions; publish answers that hide each person.

    import sordino as sd
    people = sd.connect("sordino.toml").table("people")
    plan = people.plan(sd.mean("age"), epsilon=0.5, assume_rows=30_000)   # free
    answer = people.ask(plan)                                             # charged once

Every name here is imported when it is first used, so that `import sordino` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.lazy import export_lazily, register_features

if TYPE_CHECKING:
    from sordino import audit as audit
    from sordino import datasets as datasets
    from sordino import local as local
    from sordino import risk as risk
    from sordino import sensitivity as sensitivity
    from sordino import synth as synth
    from sordino.connections import connect as connect
    from sordino.connections import report as report
    from sordino.curator.against_data import check_against_data as check_against_data
    from sordino.curator.batch import Batch as Batch
    from sordino.curator.connect import Connection as Connection
    from sordino.curator.curator import Curator as Curator
    from sordino.curator.declare_tables import protect as protect
    from sordino.curator.explain import explain as explain
    from sordino.curator.plan import Plan as Plan
    from sordino.curator.project_check import check_project as check_project
    from sordino.datasets.dummy_table import dummy as dummy
    from sordino.domain import Boolean as Boolean
    from sordino.domain import Category as Category
    from sordino.domain import Date as Date
    from sordino.domain import DateTime as DateTime
    from sordino.domain import Domain as Domain
    from sordino.domain import Fill as Fill
    from sordino.domain import Identifier as Identifier
    from sordino.domain import Integer as Integer
    from sordino.domain import List as List
    from sordino.domain import Real as Real
    from sordino.ledger.ledger import Ledger as Ledger
    from sordino.loss import ZCDP as ZCDP
    from sordino.loss import ApproxDP as ApproxDP
    from sordino.loss import PureDP as PureDP
    from sordino.neighbors import Neighbors as Neighbors
    from sordino.neighbors import PrivacyUnit as PrivacyUnit
    from sordino.neighbors import Sensitivity as Sensitivity
    from sordino.noise.rng import Rng as Rng
    from sordino.notebook import load_ipython_extension as load_ipython_extension
    from sordino.project.proposal import propose_project as propose_project
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
    from sordino.queries.expressions.cases import exists as exists
    from sordino.queries.expressions.cases import when as when
    from sordino.queries.expressions.expr import Expr as Expr
    from sordino.queries.expressions.expr import col as col
    from sordino.queries.sql.parse import sql as sql
    from sordino.queries.unit_aggregates import all as all
    from sordino.queries.unit_aggregates import any as any
    from sordino.queries.unit_aggregates import first as first
    from sordino.queries.unit_aggregates import last as last
    from sordino.queries.unit_aggregates import max as max
    from sordino.queries.unit_aggregates import min as min
    from sordino.release import Release as Release
    from sordino.remote.async_connection import AsyncConnection as AsyncConnection
    from sordino.remote.async_connection import connect_async as connect_async
    from sordino.remote.connection import RemoteConnection as RemoteConnection
    from sordino.reporting.charts import plot as plot
    from sordino.source import Csv as Csv
    from sordino.source import public as public

__version__ = "0.1.0"

_EXPORTS = {
    "sordino.curator.against_data": "check_against_data",
    "sordino.curator.batch": "Batch",
    "sordino.connections": "connect report",
    "sordino.curator.connect": "Connection",
    "sordino.curator.curator": "Curator",
    "sordino.curator.declare_tables": "protect",
    "sordino.curator.explain": "explain",
    "sordino.curator.plan": "Plan",
    "sordino.curator.project_check": "check_project",
    "sordino.datasets.dummy_table": "dummy",
    "sordino.domain": "Boolean Category Date DateTime Domain Fill Identifier Integer List Real",
    "sordino.ledger.ledger": "Ledger",
    "sordino.loss": "ApproxDP PureDP ZCDP",
    "sordino.neighbors": "Neighbors PrivacyUnit Sensitivity",
    "sordino.noise.rng": "Rng",
    "sordino.notebook": "load_ipython_extension",
    "sordino.project.proposal": "propose_project",
    "sordino.queries.aggregates.most_common": "most_common",
    "sordino.queries.aggregates.quantile": "iqr median quantile quantiles",
    "sordino.queries.aggregates.robust": "propose_test_release sample_and_aggregate smooth",
    "sordino.queries.build": "correlation count count_distinct covariance histogram mean std sum variance",
    "sordino.queries.expressions.cases": "exists when",
    "sordino.queries.expressions.expr": "Expr col",
    "sordino.queries.sql.parse": "sql",
    "sordino.queries.unit_aggregates": "all any first last max min",
    "sordino.release": "Release",
    "sordino.remote.async_connection": "AsyncConnection connect_async",
    "sordino.remote.connection": "RemoteConnection",
    "sordino.reporting.charts": "plot",
    "sordino.source": "Csv public",
}

__getattr__, __dir__, __all__ = export_lazily(
    __name__, _EXPORTS, packages=("audit", "datasets", "errors", "local", "risk", "sensitivity", "synth")
)
register_features(
    {
        "attack_page": "sordino.reporting.attack_page",
        "board_page": "sordino.reporting.board",
    }
)
