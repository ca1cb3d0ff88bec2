"""Sordino: ask a sensitive table questions; publish answers that hide each person.

    import sordino as sd
    people = sd.connect("sordino.toml").table("people")
    plan = people.plan(sd.mean("age"), epsilon=0.5, assume_rows=30_000)   # free
    answer = people.ask(plan)                                             # charged once

Every name here is imported when it is first used, so that `import sordino` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily, register_features
from sordino.core.moved import find_moved_modules

if TYPE_CHECKING:
    from sordino import audit as audit
    from sordino import datasets as datasets
    from sordino import errors as errors
    from sordino import learn as learn
    from sordino import local as local
    from sordino import models as models
    from sordino import risk as risk
    from sordino import sensitivity as sensitivity
    from sordino import synth as synth
    from sordino.ask.curator.batch import Batch as Batch
    from sordino.ask.curator.connect import Connection as Connection
    from sordino.ask.curator.curator import Curator as Curator
    from sordino.ask.curator.declare_tables import protect as protect
    from sordino.ask.curator.dummy_table import dummy as dummy
    from sordino.ask.curator.explain import explain as explain
    from sordino.ask.curator.plan import Plan as Plan
    from sordino.ask.curator.project_check import check_against_data as check_against_data
    from sordino.ask.curator.project_check import check_project as check_project
    from sordino.ask.project.proposal import propose_project as propose_project
    from sordino.ask.queries.aggregates.most_common import most_common as most_common
    from sordino.ask.queries.aggregates.quantile import iqr as iqr
    from sordino.ask.queries.aggregates.quantile import median as median
    from sordino.ask.queries.aggregates.quantile import quantile as quantile
    from sordino.ask.queries.aggregates.quantile import quantiles as quantiles
    from sordino.ask.queries.build import correlation as correlation
    from sordino.ask.queries.build import count as count
    from sordino.ask.queries.build import count_distinct as count_distinct
    from sordino.ask.queries.build import covariance as covariance
    from sordino.ask.queries.build import histogram as histogram
    from sordino.ask.queries.build import mean as mean
    from sordino.ask.queries.build import std as std
    from sordino.ask.queries.build import sum as sum
    from sordino.ask.queries.build import variance as variance
    from sordino.ask.queries.expressions.cases import exists as exists
    from sordino.ask.queries.expressions.cases import when as when
    from sordino.ask.queries.expressions.expr import Expr as Expr
    from sordino.ask.queries.expressions.expr import col as col
    from sordino.ask.queries.sql.parse import sql as sql
    from sordino.ask.queries.tabulation import tabulate as tabulate
    from sordino.ask.queries.unit_aggregates import all as all
    from sordino.ask.queries.unit_aggregates import any as any
    from sordino.ask.queries.unit_aggregates import first as first
    from sordino.ask.queries.unit_aggregates import last as last
    from sordino.ask.queries.unit_aggregates import max as max
    from sordino.ask.queries.unit_aggregates import min as min
    from sordino.core.domain import Boolean as Boolean
    from sordino.core.domain import Category as Category
    from sordino.core.domain import Date as Date
    from sordino.core.domain import DateTime as DateTime
    from sordino.core.domain import Domain as Domain
    from sordino.core.domain import Fill as Fill
    from sordino.core.domain import Identifier as Identifier
    from sordino.core.domain import Integer as Integer
    from sordino.core.domain import List as List
    from sordino.core.domain import Real as Real
    from sordino.core.ledger.allowance import Allowance as Allowance
    from sordino.core.ledger.ledger import Ledger as Ledger
    from sordino.core.loss import ZCDP as ZCDP
    from sordino.core.loss import ApproxDP as ApproxDP
    from sordino.core.loss import PureDP as PureDP
    from sordino.core.neighbors import Neighbors as Neighbors
    from sordino.core.neighbors import PrivacyUnit as PrivacyUnit
    from sordino.core.neighbors import Sensitivity as Sensitivity
    from sordino.core.noise.rng import Rng as Rng
    from sordino.core.release import Release as Release
    from sordino.core.source import Csv as Csv
    from sordino.core.source import public as public
    from sordino.lab.robust import propose_test_release as propose_test_release
    from sordino.lab.robust import sample_and_aggregate as sample_and_aggregate
    from sordino.lab.robust import smooth as smooth
    from sordino.reporting.charts import plot as plot
    from sordino.serve.connections import connect as connect
    from sordino.serve.connections import report as report
    from sordino.serve.notebook import load_ipython_extension as load_ipython_extension
    from sordino.serve.remote.async_connection import AsyncConnection as AsyncConnection
    from sordino.serve.remote.async_connection import connect_async as connect_async
    from sordino.serve.remote.connection import RemoteConnection as RemoteConnection

__version__ = "0.1.0"

# What users of other libraries type, and what it is here.
_MEANT = {
    **dict.fromkeys(("avg", "average"), "write sd.mean(column)"),
    **dict.fromkeys(("len", "size"), "write sd.count()"),
    **dict.fromkeys(("stddev", "var"), "write sd.std(column), or sd.variance(column)"),
    **dict.fromkeys(("concat_str", "concat"), 'write col("a").concat(col("b"))'),
    **dict.fromkeys(("lit", "Literal"), 'write 5 or "text" as they are'),
    "corr": "write sd.correlation(x, y)",
    "cov": "write sd.covariance(x, y)",
    "hist": "write sd.histogram(column)",
    **dict.fromkeys(("nunique", "n_unique", "countDistinct"), "write sd.count_distinct(column)"),
    **dict.fromkeys(("mode", "value_counts"), "write table.value_counts(column), or sd.most_common(column)"),
    **dict.fromkeys(("percentile", "percentiles"), "write sd.quantile(column, level)"),
    **dict.fromkeys(
        ("Session", "Context", "PrivateTable", "Table", "Dataset", "DataFrame", "PrivateReader", "PrivateSession"),
        "use sd.protect(source, ...) for a table, or sd.connect(project)",
    ),
    **dict.fromkeys(
        (
            "read_csv",
            "read_parquet",
            "read_table",
            "scan_csv",
            "scan_parquet",
            "from_pandas",
            "from_polars",
            "from_arrow",
            "from_dict",
        ),
        "use sd.protect(source, ...), which takes the file or the frame itself",
    ),
    **dict.fromkeys(
        ("read_sql", "from_sql", "execute"),
        'use sd.sql("SELECT ...") for a question, sd.connect(project) for a database',
    ),
    **dict.fromkeys(
        ("laplace", "Laplace", "gaussian", "Gaussian", "make_laplace", "make_gaussian", "geometric", "exponential"),
        "use table.ask(question, epsilon=...), which chooses the noise; the bare mechanisms, to learn with, are in sordino.learn",
    ),
    **dict.fromkeys(
        ("Budget", "PrivacyBudget", "BudgetAccountant", "privacy_loss", "EpsilonDelta"),
        "use sd.PureDP(epsilon), sd.ApproxDP(epsilon, delta) or sd.ZCDP(rho)",
    ),
}

__getattr__, __dir__, __all__ = export_lazily(__name__, meant=_MEANT)
register_features(
    {
        "attack_page": "sordino.reporting.attack_charts",
        "board_page": "sordino.reporting.board",
        "draw_table_noise": "sordino.tables.replicated_noise",
        "encode_workbook_of": "sordino.reporting.workbook",
        "find_rule_problems": "sordino.synth.rule_text",
        "item_names": "sordino.ask.engines.outer",
        "parts_of_cells": "sordino.tables.least_squares",
        "prepare_moments": "sordino.models.moments",
        "prepare_steps": "sordino.models.steps",
        "prepare_tabulation": "sordino.tables.tabulating",
        "query_release": "sordino.ask.curator.released_query",
        "run_replicates": "sordino.ask.engines.outer",
        "Selection": "sordino.ask.queries.build",
        "Series": "sordino.series.series",
        "tables_html": "sordino.reporting.released_tables",
    }
)
find_moved_modules()
