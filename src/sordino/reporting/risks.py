"""Risk against epsilon, and what an attacker believes after an answer: curves with a requirement, bars beside a prior.

It draws figures that others computed; not what a world is, nor how a risk follows from an epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.reporting.picture import COLORS, add_title, data_of

if TYPE_CHECKING:
    from sordino.lab.risk.assessment import RiskAssessment
    from sordino.lab.risk.worlds import Worlds
    from sordino.reporting.picture import AnyChart

# More densities than these nobody can distinguish.
MOST_LINES = 12
# Worlds up to which a curve has many points.
_FEW = 100_000
# Values of a universe that a panel names one by one.
_FEW_VALUES = 8
# More worlds than these nobody reads.
_BARS = 40
# Beyond so many worlds they are drawn by their answers, where those are known.
_MOST_BARS = 24
# Scales of the noise that are drawn past the outermost answers.
_REACH = 4
# characters of a label in a legend of two columns
_LONG = 30
_BOUND = "closed-form upper bound"
_EXACT = "exact risk"


@dataclass(frozen=True, slots=True)
class Densities:
    """Hold the answers that Laplace noise of `scale` is added to: (what is meant, answer, posterior at `output`) each."""

    worlds: Sequence[tuple[str, float, float]]
    scale: float
    output: float


@dataclass(frozen=True, slots=True)
class Risks:
    """Hold what a picture of risks shows.

    `curve` holds (epsilon, exact risk, upper bound), `requirement` the risk asked for (None: none was), `exact` and `bound`
    the epsilon that each of them gives (None: it is never reached), `marks` points of the curve that are looked at, `beliefs`
    (world, prior, posterior) at what `seen` says, `densities` what the noisy answer is like in each world; `remarks` go
    below the title. `column` names the panel where the risks of several universes are drawn side by side.
    """

    subject: str
    curve: Sequence[tuple[float, float, float]]
    requirement: float | None
    exact: float | None
    bound: float | None
    counted: bool = True
    beliefs: Sequence[tuple[str, float, float]] = ()
    # The answer of each world of `beliefs`, where it is known.
    answers: Sequence[float] = ()
    seen: str = ""
    densities: Densities | None = None
    remarks: Sequence[str] = ()
    column: str = ""
    marks: Sequence[tuple[float, float, float]] = ()


def risks_of(assessments: Sequence[RiskAssessment]) -> Risks | list[Risks]:
    """Return what a picture of assessed risks shows: each a curve up to the same epsilon, and the beliefs at an output.

    A list of them where there are several columns.
    """
    marked = [(one.epsilon, one.epsilon_bound, one.at) for one in assessments]
    end = 2 * max((e for three in marked for e in three if e), default=2.0)
    risks = [_risks(one, end=one.up_to or end) for one in assessments]
    return risks if len(risks) > 1 else risks[0]


def draw_worlds(thing: Worlds | Sequence[Worlds], confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of the risks of worlds that nothing is required of, up to where the bound has nine tenths of its way."""
    several = list(thing) if isinstance(thing, Sequence) else [thing]
    ends = [w.epsilon_bound_for(risk=1 - (1 - float(w.risk(epsilon=0))) / 10) for w in several if w.count > 1]
    end = max((e for e in ends if math.isfinite(e)), default=2.0)
    names = [f"{w.query} of {_values(w.universe)}" for w in several]
    names = [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]
    risks = [
        Risks(_subject(w), _curve(w, end), None, None, None, counted=w.exact, column=name)
        for w, name in zip(several, names, strict=True)
    ]
    return draw(risks[0], confidence, title) if len(risks) == 1 else draw_columns(risks, confidence, title)


def draw_assessments(
    thing: RiskAssessment | Sequence[RiskAssessment], confidence: float, title: str | None
) -> tuple[AnyChart, str]:
    """Return the chart of assessed risks, a panel a column."""
    risks = risks_of(thing if isinstance(thing, Sequence) else [thing])
    return draw_columns(risks, confidence, title) if isinstance(risks, list) else draw(risks, confidence, title)


def _values(universe: Sequence[float]) -> str:
    """Return the values of a universe as a panel names them.

    >>> _values((1.0, 2.0, 10.0))
    '1, 2, 10'
    """
    if len(universe) <= _FEW_VALUES:
        return ", ".join(f"{v:.6g}" for v in universe)
    return f"{len(universe):,} values from {min(universe):.6g} to {max(universe):.6g}"


def _subject(worlds: Worlds) -> str:
    return f"the {worlds.query} of {worlds.size:,} of {len(worlds.universe):,} people"


def _curve(worlds: Worlds, end: float) -> list[tuple[float, float, float]]:
    steps = 240 if not worlds.exact else 60 if worlds.count <= _FEW else 16
    return [_point(worlds, end * step / steps) for step in range(steps + 1)]


def _point(worlds: Worlds, epsilon: float) -> tuple[float, float, float]:
    return epsilon, worlds.risk(epsilon=epsilon), worlds.risk_bound(epsilon=epsilon)


def _risks(one: RiskAssessment, *, end: float) -> Risks:
    worlds = one.worlds
    at = one.to_dict().get("at", {})
    rows = at.get("posteriors", ())
    densities, why = _densities_at(at, worlds.sensitivity) if rows else (None, "")
    return Risks(
        subject=_subject(worlds),
        curve=_curve(worlds, end),
        requirement=one.risk,
        exact=one.epsilon,
        bound=one.epsilon_bound,
        counted=worlds.exact,
        beliefs=[(_name(row), row["prior"], row["posterior"]) for row in rows],
        answers=[row["answer"] for row in rows],
        seen=f"output {at['output']:.6g} at epsilon {at['epsilon']:.6g}" if rows else "",
        densities=densities,
        remarks=[why] if why else [],
        column=one.column or "",
        marks=[] if one.at is None else [_point(worlds, one.at)],
    )


def _densities_at(at: dict[str, Any], sensitivity: float) -> tuple[Densities | None, str]:
    """Return the densities at an output, one an answer (worlds of equal answers share one), or why there are none."""
    alike: dict[float, list[dict[str, Any]]] = {}
    for row in at["posteriors"]:
        alike.setdefault(row["answer"], []).append(row)
    if len(alike) > MOST_LINES:
        return None, f"{len(alike):,} different answers: too many to draw their densities ({MOST_LINES} at most)"
    if at["epsilon"] == 0:
        return None, "at epsilon 0 the noise has no scale: it has no density, and the prior stands"
    if sensitivity == 0:
        return None, "the answer never changes, so it has no noise and no density"
    lines = []
    for answer, same in alike.items():
        name = _name(same[0]) if len(same) == 1 else f"{len(same)} worlds of answer {answer:.6g}, together"
        lines.append((name, answer, math.fsum(row["posterior"] for row in same)))
    return Densities(lines, sensitivity / at["epsilon"], at["output"]), ""


def _name(row: dict[str, Any]) -> str:
    return ", ".join(f"{v:.6g}" for v in row["world"])


def draw(risks: Risks, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of risks, and its title; raises DeclarationError where there is no curve."""
    import altair as alt

    del confidence
    if not risks.curve:
        raise DeclarationError("these risks have no curve to draw: give a few values of epsilon")
    requested = [] if risks.requirement is None else [f"dotted line: the requested risk, {risks.requirement:.6g}"]
    notes = [*requested, *_notes(risks), *risks.remarks]
    panels = [_curves(risks)]
    if risks.beliefs:
        panels.append(alt.vconcat(*_belief_panels(risks)).resolve_scale(color="independent"))
        if _is_crowded(risks):
            notes.append(f"circles: {len(risks.beliefs):,} worlds by their answer, larger where more worlds share it")
        elif len(risks.beliefs) > _BARS:
            notes.append(f"bars: the {_BARS} most likely of {len(risks.beliefs):,} worlds")
    chart = alt.hconcat(*panels).resolve_scale(color="independent")
    title = title or f"What an attacker can learn from {risks.subject}"
    return add_title(chart, title, ["; ".join(notes)] if notes else [], width=420 + 340 * (len(panels) - 1))


def draw_columns(several: Sequence[Risks], confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return several universes side by side, a panel a column - its curves, below them its beliefs - and the title.

    Raises DeclarationError where one has no curve, or no column of its own.
    """
    import altair as alt

    del confidence
    names = [risks.column for risks in several]
    if not all(risks.curve for risks in several):
        raise DeclarationError("these risks have no curve to draw: give a few values of epsilon")
    if "" in names or len(set(names)) < len(names):
        raise DeclarationError("risks side by side need a column each, by a name of its own: Risks(..., column=...)")
    notes = ["dotted line: the requested risk"] if any(r.requirement is not None for r in several) else []
    remarks = [(risks.column, "; ".join([*_notes(risks), *risks.remarks])) for risks in several]
    notes += [f"{column}: {words}" for column, words in remarks if words]
    panels = [_column(risks) for risks in several]
    chart = alt.hconcat(*panels).resolve_scale(color="independent")
    title = title or f"What an attacker can learn from {', '.join(dict.fromkeys(r.subject for r in several))}"
    return add_title(chart, title, notes, width=340 * len(panels))


def _column(risks: Risks) -> Any:
    """Return the panel of one column: its curves, and below them what is believed at an output."""
    import altair as alt

    title = alt.TitleParams(text=risks.column, anchor="start")
    curves = _curves(risks, width=300)
    if not risks.beliefs:
        return curves.properties(title=title)
    return alt.vconcat(curves, *_belief_panels(risks)).resolve_scale(color="independent").properties(title=title)


def _belief_panels(risks: Risks) -> list[Any]:
    """Return the bars of what is believed, below the densities where there are any."""
    bars = _by_answer(risks) if _is_crowded(risks) else _bars(risks)
    return [bars] if risks.densities is None else [_densities(risks.densities), bars]


def _notes(risks: Risks) -> list[str]:
    notes = []
    if not risks.counted:
        notes.append(
            "there are too many worlds to count: only the closed-form bound is drawn, and the exact risk is below it"
        )
    notes += [f"{name}: reached at epsilon {at:.6g}" for name, at in _marks(risks)]
    if risks.exact is None and risks.requirement is not None:
        notes.append("no epsilon reaches the risk: some worlds hide each other")
    for epsilon, exact, bound in risks.marks:
        figures = f"exact risk {exact:.6g}, bound {bound:.6g}" if risks.counted else f"risk at most {bound:.6g}"
        notes.append(f"dashed line at epsilon {epsilon:.6g}: {figures}")
    return notes


def _marks(risks: Risks) -> list[tuple[str, float]]:
    """Return the epsilon at which each figure comes to the requested risk."""
    epsilons = [(_BOUND, risks.bound)]
    if risks.counted:
        epsilons.append((_EXACT, risks.exact))
    return [(name, at) for name, at in epsilons if at is not None]


def _curves(risks: Risks, width: int = 380) -> Any:
    """Return both curves, the requirement as a line, and a mark with a line down where each meets it."""
    import altair as alt

    rows = [{"epsilon": e, "risk": b, "figure": _BOUND} for e, _, b in risks.curve]
    if risks.counted:
        rows += [{"epsilon": e, "risk": x, "figure": _EXACT} for e, x, _ in risks.curve]
    marks: list[dict[str, Any]] = []
    if risks.requirement is not None:
        marks = [{"epsilon": at, "risk": risks.requirement, "figure": name} for name, at in _marks(risks)]
    marked = [{"epsilon": e, "risk": r, "figure": n} for e, x, b in risks.marks for n, r in ((_BOUND, b), (_EXACT, x))]
    names = [_BOUND, _EXACT] if risks.counted else [_BOUND]
    color = alt.Color(
        field="figure",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=names, range=[COLORS[1], COLORS[0]][: len(names)]),
        legend=alt.Legend(orient="bottom"),
    )
    x = alt.X(field="epsilon", type="quantitative", title="epsilon", scale=alt.Scale(zero=True, nice=False))
    y = alt.Y(field="risk", type="quantitative", title="largest posterior of a world", scale=alt.Scale(domain=[0, 1]))
    tips = [alt.Tooltip(field=name) for name in ("figure", "epsilon", "risk")]
    lines = alt.Chart(data_of(rows)).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color, tooltip=tips)
    layers: list[Any] = [lines]
    if risks.requirement is not None:
        requirement = alt.Chart(data_of([{"risk": risks.requirement}]))
        layers.append(requirement.mark_rule(strokeDash=[2, 3], color="#555555").encode(y=y))
    if marks:
        drops = alt.Chart(data_of(marks)).mark_rule(strokeDash=[5, 3])
        layers.append(drops.encode(x=x, y=y, y2=alt.Y2Datum(0), color=color))
    if marked:
        layers.append(alt.Chart(data_of(marked[:1])).mark_rule(strokeDash=[5, 3], color="#555555").encode(x=x))
    if dots_shown := marks + [row for row in marked if row["figure"] in names]:
        dots = alt.Chart(data_of(dots_shown)).mark_point(filled=True, size=70, opacity=1)
        layers.append(dots.encode(x=x, y=y, color=color, tooltip=tips))
    return alt.layer(*layers, width=width, height=260)


def _is_crowded(risks: Risks) -> bool:
    """Return whether there are more worlds than bars can be read, and their answers are known."""
    return len(risks.beliefs) > _MOST_BARS and len(risks.answers) == len(risks.beliefs)


def _by_answer(risks: Risks) -> Any:
    """Return the posterior of a world against its answer: worlds of one answer and one prior are one circle."""
    import altair as alt

    alike: dict[tuple[float, float, float], int] = {}
    for (_, prior, posterior), answer in zip(risks.beliefs, risks.answers, strict=True):
        place = answer, prior, posterior
        alike[place] = alike.get(place, 0) + 1
    rows = [
        {"answer": answer, "prior": prior, "posterior": posterior, "worlds": count}
        for (answer, prior, posterior), count in alike.items()
    ]
    x = alt.X(field="answer", type="quantitative", title="answer of a world", scale=alt.Scale(zero=False))
    title = f"posterior of each world, {risks.seen}"
    axis = alt.Axis(tickCount=5, format="~g")
    y = alt.Y(field="posterior", type="quantitative", title=title, scale=alt.Scale(zero=True), axis=axis)
    tips = [alt.Tooltip(field=name) for name in ("answer", "worlds", "prior", "posterior")]
    size = alt.Size(
        field="worlds",
        type="quantitative",
        title="worlds",
        scale=alt.Scale(range=[20, 260]),
        legend=alt.Legend(orient="bottom"),
    )
    circles = alt.Chart(data_of(rows)).mark_point(filled=True, opacity=0.8, color=COLORS[0])
    priors = alt.Chart(data_of(rows)).mark_tick(color=COLORS[1], thickness=2, orient="horizontal", size=8)
    return alt.layer(
        circles.encode(x=x, y=y, size=size, tooltip=tips),
        priors.encode(x=x, y=alt.Y(field="prior", type="quantitative")),
    ).properties(width=300, height=240)


def _bars(risks: Risks) -> Any:
    """Return a bar a world, its posterior, with a tick at its prior."""
    import altair as alt

    likeliest = sorted(range(len(risks.beliefs)), key=lambda i: -risks.beliefs[i][2])[:_BARS]
    beliefs = [risks.beliefs[i] for i in likeliest]
    rows = [{"place": i, "world": w, "prior": p, "posterior": q} for i, (w, p, q) in enumerate(beliefs)]
    labels = f"{[row['world'] for row in rows]!r}[datum.value]"
    y = alt.Y(field="place", type="ordinal", title="world", axis=alt.Axis(labelExpr=labels))
    tips = [alt.Tooltip(field=name) for name in ("world", "prior", "posterior")]
    base = alt.Chart(data_of(rows)).encode(y=y, tooltip=tips)
    # of many worlds none is likely: on an axis from 0 to 1 their bars would have no length
    longest = max(max(prior, posterior) for _, prior, posterior in beliefs)
    scale = alt.Scale(domain=[0, 1 if longest > 0.25 else longest * 1.1])
    # Few enough that labels of five digits stand apart.
    axis = alt.Axis(tickCount=5)
    title = f"posterior (tick: prior), {risks.seen}"
    bars = base.mark_bar(color=COLORS[0]).encode(
        x=alt.X(field="posterior", type="quantitative", title=title, scale=scale, axis=axis)
    )
    ticks = base.mark_tick(color=COLORS[1], thickness=3).encode(x=alt.X(field="prior", type="quantitative"))
    return alt.layer(bars, ticks, width=300, height=alt.Step(22))


def _densities(densities: Densities) -> Any:
    """Return a Laplace density an answer, and a line at the output; the legend says the posteriors, first: they are never cut."""
    import altair as alt

    names = [f"{posterior:.4g}: {name}" for name, _, posterior in densities.worlds]
    rows = [
        {
            "output": x,
            "density": math.exp(-abs(x - answer) / densities.scale) / (2 * densities.scale),
            "world": name,
            "at": answer,
        }
        for name, (_, answer, _) in zip(names, densities.worlds, strict=True)
        for x in _places(densities)
    ]
    color = alt.Color(
        field="world",
        type="nominal",
        title=f"posterior at output {densities.output:.6g}: world",
        scale=alt.Scale(domain=names, range=list(COLORS[: len(names)])),
        legend=alt.Legend(
            orient="bottom", columns=1 if max(map(len, names)) > _LONG else 2, labelLimit=300, titleLimit=300
        ),
    )
    x = alt.X(field="output", type="quantitative", title="noisy answer", scale=alt.Scale(zero=False, nice=False))
    y = alt.Y(field="density", type="quantitative", title="density")
    tips = [alt.Tooltip(field="world"), alt.Tooltip(field="at", title="answer")]
    lines = (
        alt.Chart(data_of(rows))
        .mark_line(strokeWidth=1.6)
        .encode(x=x, y=y, color=color, detail=alt.Detail(field="at"), tooltip=tips)
    )
    mark = alt.Chart(data_of([{"output": densities.output}])).mark_rule(strokeDash=[5, 3], color="#000000").encode(x=x)
    return alt.layer(lines, mark, width=300, height=180)


def _places(densities: Densities) -> list[float]:
    """Return where a density is drawn: evenly past all answers and the output, and at each peak."""
    answers = [answer for _, answer, _ in densities.worlds]
    low = min([*answers, densities.output]) - _REACH * densities.scale
    high = max([*answers, densities.output]) + _REACH * densities.scale
    even = [low + (high - low) * step / 160 for step in range(161)]
    return sorted({*even, *answers})
