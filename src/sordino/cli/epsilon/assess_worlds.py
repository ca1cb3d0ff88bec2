"""`sordino epsilon worlds`: from the risk that a release is named to epsilon, for one public column or several.

It never opens a table: universes, sizes and priors are public statements of whoever asks.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.epsilon.output import (
    end_of,
    line,
    number_of,
    numbers_of,
    percent,
    risks_of,
    tell_written,
    written,
)
from sordino.cli.shared.options import BudgetName, PictureFile, ProjectPath, TextForm, TextFormat, WriteCap, option
from sordino.cli.shared.terminal import columns_of, say, wrap
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.project.cap_change import CapChange
    from sordino.risk.worlds import Worlds

__all__ = ["worlds"]

_INDENT = 20
_SCREEN_WORLDS = 40

Told = dict[str, Any]


def worlds(
    universe: Annotated[
        list[str],
        option("--universe", "V,V,..", "The public values, one a person; NAME=V,V,.. for each of several columns."),
    ],
    size: Annotated[int, option("--size", "M", "How many of them are in the release.")],
    query: Annotated[str, option("--query", "Q", "count, sum, mean, median, var, std, min, max or quantile:0.9.")],
    risk: Annotated[str, option("--risk", "R", "The most that any world's posterior may be: 0.25 or 1/4.")],
    prior: Annotated[str | None, option("--prior", "P,P,..", "A probability a world, in combination order.")] = None,
    epsilon: Annotated[str | None, option("--epsilon", "E", "Tell the risk at this epsilon too.")] = None,
    output: Annotated[str | None, option("--output", "X", "With --epsilon: the posteriors at this answer.")] = None,
    plot: PictureFile = None,
    form: TextForm = TextFormat.table,
    write: WriteCap = False,
    one_question: Annotated[
        bool, typer.Option("--one-question", help="With --write: the epsilon of that one answer, not of all questions.")
    ] = False,
    budget: BudgetName = None,
    project: ProjectPath = None,
) -> None:
    """Turn a risk into epsilon: an attacker knows everyone's value, but not who is in the release.

    The values are public; nothing is charged and no table is read.
    """
    from sordino.cli.shared.universe_options import universes_from
    from sordino.risk.worlds import Worlds

    if output is not None and epsilon is None:
        raise DeclarationError("--output X is seen at an epsilon: state --epsilon E too")
    if one_question and not write:
        raise DeclarationError("--one-question chooses what --write writes: state both")
    given = None if prior is None else numbers_of(prior, "--prior")
    asked, at = number_of(risk, "--risk"), None if epsilon is None else number_of(epsilon, "--epsilon")
    seen = None if output is None else number_of(output, "--output")
    several: list[tuple[Worlds, Told]] = []
    for name, values in universes_from(universe):
        made = Worlds(values, size=size, query=query, prior=given)
        several.append((made, _worked(made, asked, people=len(values), column=name, at=at, seen=seen, prior=given)))
    told = several[0][1] if len(several) == 1 else _together([one for _, one in several])
    target = _target(told, budget, project, one_question=one_question) if write else None
    end = end_of([one for _, one in several])
    pictures = [risks_of(made, one, end=end) for made, one in several] if plot is not None else []
    done = written(plot, pictures if len(pictures) > 1 else next(iter(pictures), None), target)
    if done is not None:
        told["written"] = done
    if form is TextFormat.json:
        say(json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _tell(told)


def _worked(
    made: Worlds, risk: Any, *, people: int, column: str | None, at: Any, seen: Any, prior: list[float] | None
) -> Told:
    """Return what a risk comes to: the epsilon of one answer and of all, the risk there, and what is seen at another."""
    from sordino.risk.arguments import format_count
    from sordino.risk.hypotheses import epsilon_for_tables

    found, bound = made.epsilon_for(risk=risk), made.epsilon_bound_for(risk=risk)
    told: Told = {"schema": 1} | ({} if column is None else {"column": column})
    told |= {
        "people": people,
        "size": made.size,
        "query": made.query,
        "worlds": made.count if made.count < 2**53 else format_count(made.count),
        "sensitivity": made.sensitivity,
        "spread": made.spread,
        "relation": "add_remove",
        "risk": float(risk),
        "exact": made.exact,
        "method": made.method,
        "epsilon": _finite(found),
        "epsilon_bound": _finite(bound),
        "risk_at_epsilon": made.risk(epsilon=found) if 0 < found < math.inf else None,
        "risk_at_epsilon_bound": made.risk(epsilon=bound) if 0 < bound < math.inf else None,
    }
    told["sentence"] = _sentence(told)
    if people > made.size:
        heaviest = None if prior is None else max(prior) / math.fsum(prior)
        told["epsilon_all_questions"] = epsilon_for_tables(risk, people=people, size=made.size, heaviest=heaviest)
        told["sentence_all_questions"] = _sentence_all(told)
    if at is not None:
        told["at"] = _seen(made, at, seen)
    return told


def _together(each: list[Told]) -> Told:
    """Return several columns with the least of their epsilons, which keeps the risk in every one of them."""
    bounded = [one for one in each if one["epsilon"] is not None]
    binding = min(bounded, key=lambda one: one["epsilon"], default=None)
    return {
        "schema": 1,
        "columns": [{key: value for key, value in one.items() if key != "schema"} for one in each],
        "relation": "add_remove",
        "epsilon": None if binding is None else binding["epsilon"],
        "binding": None if binding is None else binding["column"],
        "sentence": " ".join(f"{one['column']}: {one['sentence']}" for one in each),
    }


def _who(told: Told) -> str:
    return f"an attacker who knows all {told['people']:,} values and that {told['size']:,} of them are in the release"


def _sentence_all(told: Told) -> str:
    return (
        f"At epsilon {_down(told['epsilon_all_questions'])} in all, {_who(told)}, but not which, gives none of the "
        f"{told['worlds']} possible releases more than {percent(told['risk'])}, whatever is asked and however often (Lee & "
        "Clifton 2012, for tables two steps apart for each person exchanged)."
    )


def _sentence(told: Told) -> str:
    who = _who(told)
    what = f"one answer to the {told['query']} (Laplace noise of scale {told['sensitivity']:.6g} / epsilon, add/remove)"
    limit = f"none of the {told['worlds']} possible releases more than {percent(told['risk'])}"
    source = f"Lee & Clifton 2011, {told['method']}"
    if told["epsilon"] is None:
        return f"At any epsilon, {who} gives {limit} after {what} ({source})."
    return f"At epsilon {_down(told['epsilon'])}, {who} gives {limit} after {what} ({source})."


def _seen(made: Worlds, epsilon: Any, output: Any) -> Told:
    """Return the risk at an epsilon, and the posterior of each world where an output is given."""
    told: Told = {
        "epsilon": float(epsilon),
        "risk": made.risk(epsilon=epsilon),
        "risk_bound": made.risk_bound(epsilon=epsilon),
        "method": made.method,
    }
    if output is not None:
        after = made.posterior(output=output, epsilon=epsilon).tolist()
        rows = zip(made.worlds, made.answers.tolist(), made.prior.tolist(), after, strict=True)
        told["output"] = float(output)
        told["posterior_gain"] = made.posterior_gain(output=output, epsilon=epsilon)
        told["posteriors"] = [{"world": list(w), "answer": a, "prior": p, "posterior": q} for w, a, p, q in rows]
    return told


def _target(told: Told, budget: str | None, project: Path | None, *, one_question: bool) -> CapChange:
    """Find where the cap goes: the epsilon of all questions, or where it was asked for the one of a single answer.

    A budget pays for any question, so only the first is a promise about all that it pays for. Of several columns the one
    that allows the least is named.
    """
    from sordino.cli.shared.opening import project_path
    from sordino.project.cap_change import CapChange

    key, words = ("epsilon", "sentence") if one_question else ("epsilon_all_questions", "sentence_all_questions")
    each = told.get("columns", [told])
    bounded = [one for one in each if one.get(key)]
    if not bounded:
        raise DeclarationError("every epsilon keeps this risk, so that there is no cap to write: state a lower --risk")
    binding = min(bounded, key=lambda one: one[key])
    reason = binding[words]
    if len({one[key] for one in bounded}) > 1:
        reason = f"Of {len(each)} columns, {binding['column']} allows the least. {reason}"
    cap = _down(binding[key])
    reason += f" The cap is that epsilon, rounded down to {cap}"
    reason += (
        "; it holds for that one answer only: another question, or a second one, may pass the risk." * one_question
    )
    target = CapChange(project_path(project), budget, relation="add_remove", kind=frozenset({"epsilon"}))
    target.cap({"epsilon": Decimal(cap)}, reason if one_question else f"{reason}.")
    return target


def _tell(told: Told) -> None:
    for one in told.get("columns", [told]):
        _tell_column(one)
    if "columns" in told:
        binding = "any: the risk is never passed" if told["epsilon"] is None else f"{told['epsilon']:.10g}"
        line("all columns", binding if told["binding"] is None else f"{binding}, by {told['binding']}", indent=_INDENT)
    tell_written(told.get("written"), indent=_INDENT)


def _tell_column(told: Told) -> None:
    if "column" in told:
        line("column", told["column"], indent=_INDENT)
    how = "from the exact risk" if told["exact"] else "from the closed-form bound: the worlds are too many to count"
    line("worlds", f"{told['worlds']:,}" if isinstance(told["worlds"], int) else told["worlds"], indent=_INDENT)
    line("sensitivity Df", f"{told['sensitivity']:.10g} (add/remove, distance 1)", indent=_INDENT)
    line("spread Dv", f"{told['spread']:.10g}", indent=_INDENT)
    for label, key, words in (
        ("epsilon", "epsilon", how),
        ("epsilon (bound)", "epsilon_bound", "from the closed-form bound"),
    ):
        if told[key] is None:
            line(label, f"any: the risk never passes {told['risk']:.6g} ({told['method']})", indent=_INDENT)
        else:
            least = told[f"risk_at_{key}"]
            known = "" if least is None else f"; {'' if told['exact'] else 'at most '}{least:.10g} is the risk there"
            line(label, f"{told[key]:.10g} {words}{known}", indent=_INDENT)
    if "epsilon_all_questions" in told:
        every = f"{told['epsilon_all_questions']:.10g} in all, whatever is asked: what --write writes"
        line("all questions", every, indent=_INDENT)
    for text in _seen_lines(told.get("at")):
        say(text)
    line("report", told["sentence"], indent=_INDENT)
    if "sentence_all_questions" in told:
        line("for a cap", told["sentence_all_questions"], indent=_INDENT)


def _seen_lines(at: Told | None) -> list[str]:
    if at is None:
        return []
    exact = at["method"] == "exact risk"
    head = f"risk {at['risk']:.10g} (exact), bound {at['risk_bound']:.10g}"
    if not exact:
        head = f"risk at most {at['risk_bound']:.10g} (closed-form bound: the worlds are too many to count)"
    lines = wrap(f"at epsilon {at['epsilon']:.6g}", head, indent=_INDENT)
    rows = at.get("posteriors")
    if rows is None:
        return lines
    lines += wrap(f"at output {at['output']:.6g}", f"posterior gain {at['posterior_gain']:.10g}", indent=_INDENT)
    cells = [
        [", ".join(f"{v:.6g}" for v in r["world"]), *(f"{r[name]:.8g}" for name in ("answer", "prior", "posterior"))]
        for r in rows[:_SCREEN_WORLDS]
    ]
    lines += columns_of(["world", "answer", "prior", "posterior"], cells, right=[False, True, True, True])
    more = len(rows) - len(cells)
    return [*lines, f"and {more:,} more: --format json has all"] if more else lines


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _down(epsilon: float) -> str:
    from sordino.project.edit import round_cap_down

    return round_cap_down(epsilon) if epsilon > 0 else "0"
