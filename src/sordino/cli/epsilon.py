"""`sordino epsilon`: from a risk or an error that people understand to the number, and into the project file.

It never opens a table: universes, sizes, priors and row counts are public statements of whoever asks.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.epsilon_out import Writing, densities_of, drawn, number_of, numbers_of, percent, tradeoff_of
from sordino.cli.options import BudgetName, ProjectPath, TextFormat
from sordino.cli.terminal import columns_of, note, paint, say, wrapped
from sordino.errors import DeclarationError, UnknownName, nearest

if TYPE_CHECKING:
    from sordino.project import Project, Table
    from sordino.report.risks import Risks
    from sordino.risk.choice import Choice, Requirement
    from sordino.risk.worlds import Worlds

__all__ = ["choose", "worlds"]

_INDENT = 20
_SCREEN_WORLDS = 40
_FEW = 100_000  # worlds up to which a curve has many points

Write = Annotated[bool, typer.Option("--write", help="Write the cap and its reason into the project file.")]


def _text(name: str, metavar: str, words: str) -> Any:
    return typer.Option(name, metavar=metavar, help=words, show_default=False)


# ---- possible worlds


def worlds(
    universe: Annotated[str, _text("--universe", "V,V,..", "The public values, one a person.")],
    size: Annotated[int, _text("--size", "M", "How many of them are in the release.")],
    query: Annotated[str, _text("--query", "Q", "count, sum, mean, median, var, std, min, max or quantile:0.9.")],
    risk: Annotated[str, _text("--risk", "R", "The most that any world's posterior may be: 0.25 or 1/4.")],
    prior: Annotated[str | None, _text("--prior", "P,P,..", "A probability a world, in combination order.")] = None,
    epsilon: Annotated[str | None, _text("--epsilon", "E", "Tell the risk at this epsilon too.")] = None,
    output: Annotated[str | None, _text("--output", "X", "With --epsilon: the posteriors at this answer.")] = None,
    plot: Annotated[Path | None, _text("--plot", "FILE", "Draw it: .svg, .png, .html or .json.")] = None,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
    write: Write = False,
    budget: BudgetName = None,
    project: ProjectPath = None,
) -> None:
    """Turn a risk into epsilon: an attacker knows everyone's value, but not who is in the release.

    The values are public; nothing is charged and no table is read.
    """
    from sordino.cli.universe import values_from
    from sordino.risk.worlds import Worlds

    if output is not None and epsilon is None:
        raise DeclarationError("--output X is seen at an epsilon: state --epsilon E too")
    if plot is not None:
        _check_picture(plot)
    values = values_from(universe, None).values
    given = None if prior is None else numbers_of(prior, "--prior")
    made = Worlds(values, size=size, query=query, prior=given)
    told = _worked(made, number_of(risk, "--risk"), people=len(values))
    if epsilon is not None:
        seen = None if output is None else number_of(output, "--output")
        told["at"] = _seen(made, number_of(epsilon, "--epsilon"), seen)
    target = _target_of_worlds(told, budget, project) if write else None
    if plot is not None:
        drawn(plot, _risks(made, told))
    if target is not None:
        told["written"] = target.write(told["epsilon"], told["sentence"])
    if form is TextFormat.json:
        say(json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _tell_worlds(told)


def _worked(made: Worlds, risk: Any, *, people: int) -> dict[str, Any]:
    """Return what a risk comes to: both epsilons, and the risk at each."""
    from sordino.risk.arguments import said

    found, bound = made.epsilon_for(risk=risk), made.epsilon_bound_for(risk=risk)
    told = {
        "schema": 1,
        "people": people,
        "size": made.size,
        "query": made.query,
        "worlds": made.count if made.count < 2**53 else said(made.count),
        "sensitivity": made.sensitivity,
        "spread": made.spread,
        "relation": "add_remove",
        "risk": float(risk),
        "exact": made.exact,
        "epsilon": _finite(found),
        "epsilon_bound": _finite(bound),
        "risk_at_epsilon": made.risk(epsilon=found) if 0 < found < math.inf else None,
        "risk_at_epsilon_bound": made.risk(epsilon=bound) if 0 < bound < math.inf else None,
    }
    return {**told, "sentence": _sentence(told)}


def _sentence(told: dict[str, Any]) -> str:
    who = f"an attacker who knows all {told['people']:,} values and that {told['size']:,} of them are in the release"
    what = f"one answer to the {told['query']} (Laplace noise of scale {told['sensitivity']:.6g} / epsilon, add/remove)"
    limit = f"none of the {told['worlds']} possible releases more than {percent(told['risk'])}"
    if told["epsilon"] is None:
        return f"At any epsilon, {who} gives {limit} after {what} (Lee & Clifton 2011)."
    how = "exact risk" if told["exact"] else "closed-form bound"
    return f"At epsilon {_down(told['epsilon'])}, {who} gives {limit} after {what} (Lee & Clifton 2011, {how})."


def _seen(made: Worlds, epsilon: Any, output: Any) -> dict[str, Any]:
    """Return the risk at an epsilon, and the posterior of each world where an output is given."""
    told: dict[str, Any] = {
        "epsilon": float(epsilon),
        "risk": made.risk(epsilon=epsilon),
        "risk_bound": made.risk_bound(epsilon=epsilon),
    }
    if output is not None:
        after = made.posterior(output=output, epsilon=epsilon).tolist()
        rows = zip(made.worlds, made.answers.tolist(), made.prior.tolist(), after, strict=True)
        told["output"] = float(output)
        told["posterior_gain"] = made.posterior_gain(output=output, epsilon=epsilon)
        told["posteriors"] = [{"world": list(w), "answer": a, "prior": p, "posterior": q} for w, a, p, q in rows]
    return told


def _target_of_worlds(told: dict[str, Any], budget: str | None, project: Path | None) -> Writing:
    if not told["epsilon"]:
        raise DeclarationError("every epsilon keeps this risk, so that there is no cap to write: state a lower --risk")
    return Writing(project, budget, relation="add_remove")


def _risks(made: Worlds, told: dict[str, Any]) -> Risks:
    """Return what the picture shows: a curve past both epsilons, and the beliefs at an output."""
    from sordino.report.risks import Risks

    at = told.get("at", {})
    marked = [e for e in (told["epsilon"], told["epsilon_bound"], at.get("epsilon")) if e]
    end = 2 * max(marked, default=2.0)
    steps = 60 if made.count <= _FEW else 16
    points = [end * step / steps for step in range(1, steps + 1)]
    beliefs = [
        (", ".join(f"{v:.6g}" for v in row["world"]), row["prior"], row["posterior"])
        for row in at.get("posteriors", ())
    ]
    densities, why = densities_of(at, made.sensitivity)
    return Risks(
        subject=f"the {made.query} of {made.size:,} of {told['people']:,} people",
        curve=[(e, made.risk(epsilon=e), made.risk_bound(epsilon=e)) for e in points],
        requirement=told["risk"],
        exact=told["epsilon"],
        bound=told["epsilon_bound"],
        counted=made.exact,
        beliefs=beliefs,
        seen=f"output {at['output']:.6g} at epsilon {at['epsilon']:.6g}" if beliefs else "",
        densities=densities,
        remarks=[why] if why else [],
    )


def _tell_worlds(told: dict[str, Any]) -> None:
    how = "from the exact risk" if told["exact"] else "the worlds are too many to count: from the closed-form bound"
    _line("worlds", f"{told['worlds']:,}" if isinstance(told["worlds"], int) else told["worlds"])
    _line("sensitivity Df", f"{told['sensitivity']:.10g} (add/remove, distance 1)")
    _line("spread Dv", f"{told['spread']:.10g}")
    for label, key, words in (("epsilon", "epsilon", how), ("epsilon (bound)", "epsilon_bound", "from the bound")):
        if told[key] is None:
            _line(label, f"any: the risk never passes {told['risk']:.6g}")
        else:
            least = told[f"risk_at_{key}"]
            known = "" if least is None else f"; {'' if told['exact'] else 'at most '}{least:.10g} is the risk there"
            _line(label, f"{told[key]:.10g} {words}{known}")
    for line in _seen_lines(told.get("at")):
        say(line)
    _line("report", told["sentence"])
    _tell_written(told.get("written"))


def _seen_lines(at: dict[str, Any] | None) -> list[str]:
    if at is None:
        return []
    head = f"risk {at['risk']:.10g}, bound {at['risk_bound']:.10g}"
    lines = wrapped(f"at epsilon {at['epsilon']:.6g}", head, indent=_INDENT)
    rows = at.get("posteriors")
    if rows is None:
        return lines
    lines += wrapped(f"at output {at['output']:.6g}", f"posterior gain {at['posterior_gain']:.10g}", indent=_INDENT)
    cells = [
        [", ".join(f"{v:.6g}" for v in r["world"]), *(f"{r[name]:.8g}" for name in ("answer", "prior", "posterior"))]
        for r in rows[:_SCREEN_WORLDS]
    ]
    lines += columns_of(["world", "answer", "prior", "posterior"], cells, right=[False, True, True, True])
    more = len(rows) - len(cells)
    return [*lines, f"and {more:,} more: --format json has all"] if more else lines


# ---- requirements together


def choose(
    table: Annotated[str | None, _text("--table", "NAME", "The declared table, where there are several.")] = None,
    query: Annotated[str | None, _text("--query", "SQL", "The question whose error matters: one aggregate.")] = None,
    error: Annotated[str | None, _text("--error", "T", "The most it may be wrong by.")] = None,
    confidence: Annotated[str, typer.Option("--confidence", metavar="C", help="With this probability.")] = "0.95",
    rows: Annotated[int | None, _text("--rows", "N", "A public guess at the rows; never counted here.")] = None,
    attacker_prior: Annotated[str | None, _text("--attacker-prior", "P", "What an attacker suspects before.")] = None,
    max_posterior: Annotated[str | None, _text("--max-posterior", "P", "The most to be suspected after.")] = None,
    test_level: Annotated[str | None, _text("--test-level", "A", "The false-alarm rate of a test.")] = None,
    max_power: Annotated[str | None, _text("--max-power", "B", "The most that such a test may detect.")] = None,
    relative_risk: Annotated[
        str | None, _text("--relative-risk", "R", "How many times as likely a disclosure may become.")
    ] = None,
    plot: Annotated[Path | None, _text("--plot", "FILE", "Draw error against risk: .svg, .png, .html, .json.")] = None,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
    write: Write = False,
    budget: BudgetName = None,
    project: ProjectPath = None,
) -> None:
    """Find the interval of epsilon that meets every requirement, or the two that conflict.

    Requirements follow from the declared domain alone: the data is never read, and nothing is charged.
    """
    from sordino.cli.opening import project_at
    from sordino.risk.choice import choose_epsilon

    if plot is not None:
        _check_picture(plot)
        if query is None or error is None:
            raise DeclarationError("--plot draws accuracy against risk: state --query SQL and --error T too")
    found = _table_of(project_at(project), table)
    asked = _accuracy(found, query, error, confidence, rows)
    asked += _readings(found, attacker_prior, max_posterior, test_level, max_power)
    if relative_risk is not None:
        from sordino.risk.requirements import relative

        asked.append(relative(ratio=number_of(relative_risk, "--relative-risk")))
    if not asked:
        raise DeclarationError("state a requirement: --error, --max-posterior, --max-power or --relative-risk")
    made = choose_epsilon(requirements=asked)
    if made.relation not in (None, found.neighbors.relation):
        raise DeclarationError(f"--relative-risk is proved for {made.relation}; table {found.name!r} states replace")
    told = made.to_dict()
    if plot is not None:
        _draw_choice(plot, made, found, query, confidence, rows, attacker_prior)
    if write and made.epsilon is not None:
        told["written"] = _cap_of_choice(made, found, budget, project)
    if form is TextFormat.json:
        say(json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False))
    elif made.conflict is None:
        _tell_choice(made, told)
    if made.conflict is not None:
        raise DeclarationError(made.conflict.describe())


def _table_of(project: Project, name: str | None) -> Table:
    tables = project.tables
    if name is None:
        if len(tables) != 1:
            raise DeclarationError(f"say which table with --table ({', '.join(tables) or 'none is declared'})")
        return next(iter(tables.values()))
    if name not in tables:
        raise UnknownName(f"table {name!r} is not declared in {project.path}; {nearest(name, tables)}")
    return tables[name]


def _accuracy(
    table: Table, query: str | None, error: str | None, confidence: str, rows: int | None
) -> list[Requirement]:
    from sordino.queries.sql import table_of
    from sordino.risk.requirements import accuracy

    if query is None and error is None:
        return []
    if query is None or error is None:
        raise DeclarationError("--query SQL and --error T go together: the question, and how wrong it may be")
    if table_of(query).lower() != table.name.lower():
        raise DeclarationError(f"the question asks table {table_of(query)!r}; state its --table, not {table.name!r}")
    made = accuracy(
        error=number_of(error, "--error"),
        confidence=number_of(confidence, "--confidence"),
        query=query,
        domain=table.domain,
        neighbors=table.neighbors.relation,
        privacy_unit="row" if table.neighbors.unit is None else table.neighbors.unit,
        n=rows,
    )
    return [made]


def _readings(
    table: Table, prior: str | None, most: str | None, level: str | None, power: str | None
) -> list[Requirement]:
    from sordino.risk.requirements import posterior, test_power

    made, relation = [], table.neighbors.relation
    if (prior is None) != (most is None):
        raise DeclarationError("--attacker-prior P and --max-posterior P go together: before, and at most after")
    if prior is not None and most is not None:
        before, after = number_of(prior, "--attacker-prior"), number_of(most, "--max-posterior")
        made.append(posterior(prior=before, most=after, neighbors=relation))
    if (level is None) != (power is None):
        raise DeclarationError("--test-level A and --max-power B go together: false alarms, and detections at most")
    if level is not None and power is not None:
        alarms, detected = number_of(level, "--test-level"), number_of(power, "--max-power")
        made.append(test_power(level=alarms, most=detected, neighbors=relation))
    return made


def _draw_choice(
    path: Path, made: Choice, table: Table, query: str | None, confidence: str, rows: int | None, prior: str | None
) -> None:
    """Draw accuracy against the posterior from what an attacker suspects, even odds where nothing is said."""
    from sordino.neighbors import neighbors_from
    from sordino.risk.precision import precision_of

    unit = "row" if table.neighbors.unit is None else table.neighbors.unit
    near = neighbors_from(neighbors=table.neighbors.relation, privacy_unit=unit)
    likely = number_of(confidence, "--confidence")
    precision = precision_of(query, domain=table.domain, neighbors=near, confidence=likely)
    before = 0.5 if prior is None else float(number_of(prior, "--attacker-prior"))
    drawn(path, tradeoff_of(made, precision, rows, before))


def _cap_of_choice(made: Choice, table: Table, budget: str | None, project: Path | None) -> dict[str, str]:
    if budget is not None and budget != table.budget:
        raise DeclarationError(f"table {table.name!r} draws on budget {table.budget!r}, not {budget!r}")
    if made.epsilon is None:
        raise DeclarationError("these requirements bound epsilon at neither end: there is no cap to write")
    target = Writing(project, table.budget, relation=table.neighbors.relation)
    return target.write(made.epsilon, made.sentence())


def _tell_choice(made: Choice, told: dict[str, Any]) -> None:
    least = f"{made.lower:.10g}" if made.lower else "0"
    most = "any" if made.upper == math.inf else f"{made.upper:.10g}"
    _line("interval", f"epsilon from {least} to {most}")
    for label, by in (("lower end", made.lower_by), ("upper end", made.upper_by)):
        _line(label, "nothing bounds it" if by is None else f"{by.kind.replace('_', ' ')}: {by.says}")
    _line("choice", "any epsilon" if made.epsilon is None else f"{made.epsilon:.10g}")
    _line("report", made.sentence())
    _tell_written(told.get("written"))
    if made.lower > 0 and "written" in told:
        note("the cap is rounded down, a hair below the least epsilon for this error: ask at the cap itself")


# ---- shared


def _tell_written(written: dict[str, str] | None) -> None:
    if written is not None:
        _line(
            "written", f"cap = {{epsilon = {written['epsilon']}}} of budget {written['budget']} in {written['project']}"
        )
        note("a ledger that is there already holds to its cap: `sordino ledger amend` tells it why it changed")


def _line(label: str, text: str) -> None:
    head, *rest = wrapped(label, text, indent=_INDENT)
    say(head.replace(label, paint(label, "bold"), 1))
    for line in rest:
        say(line)


def _check_picture(path: Path) -> None:
    from sordino.report.picture import PICTURE_ENDINGS, need_plots

    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise DeclarationError(f"--plot FILE ends in {', '.join(PICTURE_ENDINGS)}")
    need_plots()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _down(epsilon: float) -> str:
    from sordino.project_write import rounded_down

    return rounded_down(epsilon) if epsilon > 0 else "0"
