"""`sordino epsilon worlds`: from the risk that a release is named to epsilon, for one public column or several.

It never opens a table: universes, sizes and priors are public statements of whoever asks.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sordino.cli.epsilon.output import INDENT, print_labelled, print_written, write_both
from sordino.cli.shared.option_rules import goes_with
from sordino.cli.shared.options import (
    BudgetName,
    PictureFile,
    ProjectPath,
    TextForm,
    TextFormat,
    WriteCap,
    option,
)
from sordino.cli.shared.terminal import say, wrap
from sordino.core.text_table import columns_of

_SCREEN_WORLDS = 40

Universes = Annotated[
    list[str],
    option("--universe", "V,V,..", "The public values, one per person; NAME=V,V,.. for each of several columns."),
]
Size = Annotated[int, option("--size", "M", "How many of them are in the release.")]
Query = Annotated[str, option("--query", "Q", "count, sum, mean, median, var, std, min, max or quantile:0.9.")]
Risk = Annotated[str, option("--risk", "R", "The largest posterior that any world may have: 0.25 or 1/4.")]
Prior = Annotated[str | None, option("--prior", "P,P,..", "One probability per world, in combination order.")]
AtEpsilon = Annotated[str | None, option("--epsilon", "E", "Also report the risk at this epsilon.")]
Output = Annotated[
    str | None,
    option("--output", "X", "With --epsilon: also report the posteriors at this answer."),
    goes_with("--epsilon"),
]
UpTo = Annotated[
    str | None, option("--up-to", "E", "With --plot: the largest epsilon on its axis."), goes_with("--plot")
]
OneQuestion = Annotated[
    bool,
    typer.Option("--one-question", help="With --write: the epsilon for this one answer, not for all questions."),
    goes_with("--write"),
]


def worlds(
    universe: Universes,
    size: Size,
    query: Query,
    risk: Risk,
    prior: Prior = None,
    epsilon: AtEpsilon = None,
    output: Output = None,
    up_to: UpTo = None,
    plot: PictureFile = None,
    form: TextForm = TextFormat.table,
    write: WriteCap = False,
    one_question: OneQuestion = False,
    budget: Annotated[BudgetName, goes_with("--write")] = None,
    project: Annotated[ProjectPath, goes_with("--write")] = None,
) -> None:
    """Compute epsilon from a risk: an attacker knows everyone's value, but not who is in the release.

    The values are public; nothing is charged and no table is read.
    """
    from sordino.cli.shared.opening import project_path
    from sordino.cli.shared.universe_options import universes_from
    from sordino.lab.risk.assessment import assess_risk, assessments_to_dict, cap_change_for
    from sordino.reporting.risks import risks_of

    priors = None if prior is None else [float(_number(word.strip(), "--prior")) for word in prior.split(",")]
    arguments: dict[str, Any] = {"size": size, "query": query, "prior": priors, "risk": _number(risk, "--risk")}
    more = {"epsilon": epsilon, "output": output, "up_to": up_to}
    arguments |= {key: text and _number(text, "--" + key.replace("_", "-")) for key, text in more.items()}
    assessments = assess_risk(universes_from(universe), **arguments)
    content = assessments_to_dict(assessments)
    change = (
        cap_change_for(assessments, project_path(project), budget=budget, one_question=one_question) if write else None
    )
    if (files := write_both(plot, lambda: risks_of(assessments), change)) is not None:
        content["written"] = files
    if form is TextFormat.json:
        say(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _print(content)


def _number(text: str, option: str) -> Any:
    """Return the exact number that an option states, as 0.25 or 1/4."""
    from sordino.core.loss import to_fraction

    return to_fraction(text, name=option)


def _print(told: dict[str, Any]) -> None:
    for one in told.get("columns", [told]):
        _print_column(one)
    if "columns" in told:
        binding = "any: the risk is never exceeded" if told["epsilon"] is None else f"{told['epsilon']:.10g}"
        print_labelled("all columns", binding if told["binding"] is None else f"{binding}, by {told['binding']}")
    print_written(told.get("written"))


def _print_column(told: dict[str, Any]) -> None:
    if "column" in told:
        print_labelled("column", told["column"])
    how = "from the exact risk" if told["exact"] else "from the closed-form bound: there are too many worlds to count"
    print_labelled("worlds", f"{told['worlds']:,}" if isinstance(told["worlds"], int) else told["worlds"])
    print_labelled("sensitivity Df", f"{told['sensitivity']:.10g} (add/remove, distance 1)")
    print_labelled("spread Dv", f"{told['spread']:.10g}")
    for label, key, words in (
        ("epsilon", "epsilon", how),
        ("epsilon (bound)", "epsilon_bound", "from the closed-form bound"),
    ):
        if told[key] is None:
            print_labelled(label, f"any: the risk never exceeds {told['risk']:.6g} ({told['method']})")
        else:
            least = told[f"risk_at_{key}"]
            risk_there = (
                "" if least is None else f"; {'' if told['exact'] else 'at most '}{least:.10g} is the risk there"
            )
            print_labelled(label, f"{told[key]:.10g} {words}{risk_there}")
    if "epsilon_all_questions" in told:
        every = f"{told['epsilon_all_questions']:.10g} in all, whatever is asked: what --write writes"
        print_labelled("all questions", every)
    for text in _seen_lines(told.get("at")):
        say(text)
    print_labelled("report", told["sentence"])
    if "sentence_all_questions" in told:
        print_labelled("for a cap", told["sentence_all_questions"])


def _seen_lines(at: dict[str, Any] | None) -> list[str]:
    """Return the risk at an epsilon, and what is believed of each world at an output, as lines."""
    if at is None:
        return []
    head = f"risk {at['risk']:.10g} (exact), bound {at['risk_bound']:.10g}"
    if at["method"] != "exact risk":
        head = f"risk at most {at['risk_bound']:.10g} (closed-form bound: there are too many worlds to count)"
    lines = wrap(f"at epsilon {at['epsilon']:.6g}", head, indent=INDENT)
    rows = at.get("posteriors")
    if rows is None:
        return lines
    lines += wrap(f"at output {at['output']:.6g}", f"posterior gain {at['posterior_gain']:.10g}", indent=INDENT)
    head, *figures = names = ["world", "answer", "prior", "posterior"]
    cells = [[", ".join(f"{v:.6g}" for v in r[head]), *(f"{r[f]:.8g}" for f in figures)] for r in rows[:_SCREEN_WORLDS]]
    lines += columns_of(names, cells, right=[False, True, True, True])
    more = len(rows) - len(cells)
    return [*lines, f"and {more:,} more: --format json has all"] if more else lines
