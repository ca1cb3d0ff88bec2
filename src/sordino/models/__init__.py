"""Models in one scan: regression, classification, components and clusters, priced, with intervals.

    model = sd.models.linear_regression(houses, y="price", x=["area", "rooms", "zone"], epsilon=1, delta="1e-6")
    model.coefficients; model.interval("area", confidence=0.95, of="noise"); model.predict(frame)

Every name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.models.classification import LogisticModel as LogisticModel
    from sordino.models.classification import NaiveBayesModel as NaiveBayesModel
    from sordino.models.classification import logistic_regression as logistic_regression
    from sordino.models.classification import naive_bayes as naive_bayes
    from sordino.models.clusters import ClustersModel as ClustersModel
    from sordino.models.clusters import kmeans as kmeans
    from sordino.models.components import ComponentsModel as ComponentsModel
    from sordino.models.components import pca as pca
    from sordino.models.histograms import HistogramsModel as HistogramsModel
    from sordino.models.histograms import boosted_histograms as boosted_histograms
    from sordino.models.linear import LinearModel as LinearModel
    from sordino.models.linear import linear_regression as linear_regression
    from sordino.models.median_lines import TheilSenModel as TheilSenModel
    from sordino.models.median_lines import theil_sen as theil_sen
    from sordino.models.planning import ModelPlan as ModelPlan
    from sordino.models.planning import plan as plan
    from sordino.models.poisson import PoissonModel as PoissonModel
    from sordino.models.poisson import poisson_regression as poisson_regression
    from sordino.models.record import ModelCard as ModelCard
    from sordino.models.record import load as load
    from sordino.models.tree import TreeModel as TreeModel
    from sordino.models.tree import decision_tree as decision_tree
    from sordino.models.validation import ModelChoice as ModelChoice
    from sordino.models.validation import choose as choose

__getattr__, __dir__, __all__ = export_lazily(__name__)
