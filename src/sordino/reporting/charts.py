"""`plot`: the picture of a thing - a release, a table of sensitivities, the tables of a small universe.

It knows which chart draws which type; not how a thing was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.core.estimates.table_cells import BY_COLUMNS
from sordino.core.release import Release
from sordino.reporting.picture import Picture, encode_picture, need_plots, unchecked

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart


def plot(thing: Any, *, confidence: float = 0.95, title: str | None = None) -> Picture:
    """Return the picture of a thing; what it can draw:

    - a Release: its values with their intervals at `confidence`, one panel an answered column; of `find_bounds`, the
      clipped sum against the bound with its error band, and the bound chosen; of `find_contribution_bounds`, what a
      cap loses against the noise it costs; of a tabulation, its tables beside each other;
    - a sensitivity profile (a table with the columns query, distance, scope, relation, value, exact, and perhaps
      column): sensitivity against distance, one line a query, panels for scope, relation and column;
    - a Representation, or several of one column: the released histogram with its error band; `[representation, rows]` puts
      drawn rows, an Arrow table, beside it as shares; one of two columns is a table of colors; a Model: each column of it;
      Histograms: an original beside a synthetic one; a table of accuracies (the columns method, epsilon, distance);
    - risk.Worlds, or several: exact risk and bound against epsilon; what `risk.assess_risk` found: also the risk asked for,
      the epsilons that keep it, and what is looked at;
    - Neighborhoods: the local sensitivity of every table of a small universe, and the global one as their maximum;
    - LocalNoise: what noise as wide as local sensitivity reveals of two neighbors, NOT PRIVATE;
    - learn.NoiseShape: the law of a bare mechanism's noise, and where `confidence` of its draws lie;
    - HistogramPlan: the error of bins together; a Plan, or several of one question at several losses (the first is marked):
      expected error against the loss;
    - a fitted model: what each column moves, with its interval (of boosted histograms its whole shape), or components and
      centers as a table of colors;
    - a Series: its released numbers and running totals over time, each with its band; a Ledger: what was spent over time,
      under its cap and its allowance; a Belief (`explain --plot`): how sure anybody can become, by how sure they were;
    - of the local model: an estimate, a distribution, a choice of protocol, or a simulation;
    - an Audit: claimed against shown epsilon, and the outputs of both neighbors; an Attack, or Attacks: achieved, guessing
      and allowed; ClosestRecords: how far published rows lie from the closest ones.

    It shows itself in a notebook; `.save("picture.svg")` writes it (.svg, .png, .html, .json), `.chart` is the Altair
    chart. What is NOT PRIVATE says so in the title. Raises DeclarationError for anything else, or without the extra
    `plots`.
    """
    need_plots()
    import altair as alt

    draw = _drawer(thing)
    with unchecked():
        chart, caption = draw(thing, confidence, title)
        # Set, not by methods: each of Altair's would copy the whole chart.
        chart.config = alt.Config(view=alt.ViewConfig(stroke="#dddddd"), axis=alt.AxisConfig(gridColor="#eeeeee"))
        return Picture(chart, caption)


def is_drawn(thing: Any) -> bool:
    """Return whether `plot` draws a thing by its type."""
    return type(thing) in _drawers()[0]


def svg_drawer() -> Callable[[Any], str] | None:
    """Return a function that draws a thing as SVG text for a page, None where the extra `plots` is not installed."""
    try:
        need_plots()
    except DeclarationError:
        return None
    return lambda thing: encode_picture(plot(thing), ".svg").decode()


def spec_drawer() -> Callable[[Any], str] | None:
    """Return a function that draws a thing as its specification, which `read_picture` reads; None without the extra `plots`."""
    try:
        need_plots()
    except DeclarationError:
        return None
    return lambda thing: encode_picture(plot(thing), ".json").decode()


Drawer = Callable[[Any, float, str | None], "tuple[AnyChart, str]"]


def _drawer(thing: Any) -> Drawer:
    from sordino.reporting import (
        audit_charts,
        price_charts,
        profiles,
        release_charts,
        representations,
        search_charts,
        synth,
    )
    from sordino.reporting.attack_charts import Attacking, Distant, Together, draw, draw_closest, draw_together

    if isinstance(thing, Release):
        if any(name.startswith("max_") for name, _ in thing.chosen):
            return search_charts.draw_caps
        if thing.is_tabulation and thing.keys[:1] and thing.keys[0].name == BY_COLUMNS:
            return release_charts.draw_tables
        return search_charts.draw_bounds if thing.is_search else release_charts.draw
    of_one, of_several = _drawers()
    several = isinstance(thing, (list, tuple))
    kinds = {type(one) for one in thing} if several else {type(thing)}
    drawer = (of_several if several else of_one).get(kinds.pop()) if len(kinds) == 1 else None
    if drawer is not None:
        return drawer
    if several and representations.is_compared(thing):
        return representations.draw_several
    if isinstance(thing, price_charts.Priced):
        return price_charts.draw_plan
    if several and thing and all(isinstance(one, price_charts.Priced) for one in thing):
        return price_charts.draw_plans
    if isinstance(thing, audit_charts.Audited):
        return audit_charts.draw
    for kind, way in ((Attacking, draw), (Together, draw_together), (Distant, draw_closest)):
        if isinstance(thing, kind):
            return way
    if profiles.is_profile(thing):
        return profiles.draw
    if synth.is_accuracy(thing):
        return synth.draw_accuracy
    missing = profiles.missing_columns(thing)
    lack = f"; this table lacks the column {missing[0]!r}" if missing else f", not {type(thing).__name__}"
    raise DeclarationError(f"sd.plot draws a Release, a sensitivity profile or the worlds of a universe{lack}")


@cache
def _drawers() -> tuple[dict[type, Drawer], dict[type, Drawer]]:
    """Return what draws a thing of each type, and what draws a list of them."""
    from sordino.core.accounting.belief import Belief
    from sordino.core.ledger.ledger import Ledger
    from sordino.lab.learn.bare_noise import NoiseShape
    from sordino.lab.risk.assessment import RiskAssessment
    from sordino.lab.risk.worlds import Worlds
    from sordino.lab.sensitivity.empirical import LocalNoise
    from sordino.lab.sensitivity.neighborhoods import Neighborhoods
    from sordino.local import BloomEstimate, CollectionPlan, DistributionEstimate, FrequencyEstimate, ProtocolChoice
    from sordino.local.estimates.noisy_sums import NoisySumEstimate
    from sordino.local.simulation import CollectionSimulation
    from sordino.models.classification import LogisticModel, NaiveBayesModel
    from sordino.models.clusters import ClustersModel
    from sordino.models.components import ComponentsModel
    from sordino.models.histograms import HistogramsModel
    from sordino.models.linear import LinearModel
    from sordino.models.median_lines import TheilSenModel
    from sordino.reporting import (
        budget_charts,
        local_charts,
        model_charts,
        neighborhood_charts,
        odds_icons,
        price_charts,
        representations,
        risks,
        series_charts,
        synth,
        synth_shapes,
    )
    from sordino.series.series import Series
    from sordino.synth.evaluation.evaluation import Evaluation
    from sordino.synth.histogram import HistogramPlan, Representation
    from sordino.synth.model import Model

    of_one: dict[type, Drawer] = {
        Neighborhoods: neighborhood_charts.draw,
        Series: series_charts.draw,
        Ledger: budget_charts.draw,
        Belief: odds_icons.draw_belief,
        LocalNoise: neighborhood_charts.draw_local_noise,
        NoiseShape: neighborhood_charts.draw_noise,
        risks.Risks: risks.draw,
        Worlds: risks.draw_worlds,
        RiskAssessment: risks.draw_assessments,
        odds_icons.Tradeoff: odds_icons.draw,
        CollectionSimulation: local_charts.draw_simulation,
        ProtocolChoice: local_charts.draw_weighed,
        CollectionPlan: local_charts.draw_plan,
        FrequencyEstimate: local_charts.draw,
        NoisySumEstimate: local_charts.draw,
        BloomEstimate: local_charts.draw,
        DistributionEstimate: local_charts.draw_spread,
        synth.Histograms: synth.draw_histograms,
        synth.Ways: synth.draw_ways,
        synth.Matrices: synth.draw_matrices,
        synth_shapes.Densities: synth_shapes.draw_densities,
        synth_shapes.Heat: synth_shapes.draw_heat,
        Representation: representations.draw,
        Evaluation: synth.draw_evaluation,
        Model: synth.draw_model,
        HistogramPlan: price_charts.draw_histogram_plan,
        LinearModel: model_charts.draw_linear,
        TheilSenModel: model_charts.draw_linear,
        LogisticModel: model_charts.draw_logistic,
        NaiveBayesModel: model_charts.draw_naive_bayes,
        ComponentsModel: model_charts.draw_components,
        HistogramsModel: model_charts.draw_histograms,
        ClustersModel: model_charts.draw_clusters,
    }
    several: dict[type, Drawer] = {risks.Risks: risks.draw_columns, Representation: representations.draw_several}
    return of_one, {**several, **{of: of_one[of] for of in (Worlds, RiskAssessment)}}
