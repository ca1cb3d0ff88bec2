"""`sordino local plan`: which protocol, how many respondents. It sees public parameters only and charges nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared.options import PictureFile, TextFormat
from sordino.cli.shared.terminal import columns_of, paint, say, wrap
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.local import CollectionPlan
    from sordino.local.labels import Label

__all__ = ["Form", "LocalEpsilon", "Malicious", "local_plan"]

LocalEpsilon = Annotated[
    str, typer.Option("--epsilon", metavar="E", help='What one report may reveal: 0.5, 1 or "1/3".', show_default=False)
]
Malicious = Annotated[
    float, typer.Option("--malicious", metavar="S", help="Weigh what this share of lying respondents can add.")
]
Respondents = Annotated[
    int, typer.Option("--respondents", metavar="N", help="How many will answer.", show_default=False)
]
LabelList = Annotated[
    str | None, typer.Option("--labels", metavar="V,V,..", help="The values an answer may have.", show_default=False)
]
LabelCount = Annotated[
    int | None, typer.Option("--size", metavar="K", help="Instead: how many values.", show_default=False)
]
Margin = Annotated[float, typer.Option("--margin", metavar="M", help="The error of a share to reach, at 95%.")]
ShuffleDelta = Annotated[
    str | None,
    typer.Option(
        "--shuffled", metavar="DELTA", help="Also: the amplified epsilon, if a shuffler mixes.", show_default=False
    ),
]
Form = Annotated[TextFormat, typer.Option("--format", help="How it is written.")]


def local_plan(
    epsilon: LocalEpsilon,
    respondents: Respondents,
    labels: LabelList = None,
    size: LabelCount = None,
    margin: Margin = 0.01,
    malicious: Malicious = 0.0,
    shuffled: ShuffleDelta = None,
    plot: PictureFile = None,
    form: Form = TextFormat.table,
) -> None:
    """Plan a collection from people who trust nobody: the best protocol, its error, the respondents needed.

    It sees public parameters only and charges nothing.
    """
    from sordino.local import plan_collection

    plan = plan_collection(
        _labels(labels, size),
        epsilon=epsilon,
        respondents=respondents,
        margin=margin,
        malicious=malicious,
        shuffle_delta=shuffled,
    )
    if plot is not None:
        from sordino.report.charts import plot as draw

        draw(plan.choice).save(plot)
    if form is TextFormat.json:
        say(json.dumps(plan.to_dict(), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _print(plan)


def _labels(text: str | None, size: int | None) -> tuple[Label, ...]:
    if (text is None) == (size is None):
        raise DeclarationError("state --labels V,V,.. or --size K: how many values an answer may have decides")
    if text is not None:
        return tuple(part.strip() for part in text.split(","))
    if size is None or not 2 <= size <= 1 << 19:
        raise DeclarationError("--size must be from 2 to 2^19 values")
    return tuple(range(size))


def _print(plan: CollectionPlan) -> None:
    from sordino.loss import round_up

    choice, needed, mixed = plan.choice, plan.needed, plan.shuffled
    rows = [
        [r["protocol"], round_up(100 * r["error"], digits=3), round_up(100 * r["shift"], digits=3), f"{r['bytes']:,}"]
        for r in choice.table.to_pylist()
    ]
    head = ["protocol", "error", f"{100 * choice.malicious:g}% malicious clients add", "bytes"]
    lines = columns_of(head, rows, right=[False, True, True, True])
    say(paint(lines[0], "bold"))
    for line in lines[1:]:
        say(line)
    say()
    texts = {"best": choice.why, "needed": f"to be within {100 * needed.margin:g} points: {needed.advice}"}
    if mixed is not None:
        epsilon = round_up(mixed.epsilon, digits=4)
        texts["shuffled"] = f"epsilon {epsilon} at delta {mixed.delta:g}, {mixed.condition}"
    for label, text in texts.items():
        for line in wrap(label, text):
            say(line)
