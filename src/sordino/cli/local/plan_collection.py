"""`sordino local plan`: which protocol, how many respondents. It uses public parameters only and charges nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from sordino.cli.shared.option_rules import goes_with, not_with
from sordino.cli.shared.options import PictureFile, TextForm, TextFormat, option
from sordino.cli.shared.terminal import paint, say, wrap
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from sordino.local import CollectionPlan
    from sordino.local.labels import Label

LocalEpsilon = Annotated[str, option("--epsilon", "E", 'What one report may reveal: 0.5, 1 or "1/3".')]
Malicious = Annotated[
    float,
    option("--malicious", "S", "Include what this share of malicious respondents can add."),
    not_with("--alphabet"),
]
Respondents = Annotated[int, option("--respondents", "N", "How many will answer.")]
LabelList = Annotated[
    str | None, option("--labels", "V,V,..", "The values an answer may have."), not_with("--alphabet")
]
LabelCount = Annotated[int | None, option("--size", "K", "Instead: how many values."), not_with("--alphabet")]
Alphabet = Annotated[str | None, option("--alphabet", "CHARS", "Instead: any text of these characters; see --length.")]
Length = Annotated[
    int | None,
    option("--length", "N", "With --alphabet: the largest number of characters in a text; by default 10."),
    goes_with("--alphabet"),
]
Margin = Annotated[
    float | None,
    option("--margin", "M", "The largest error of a share, at 95%; by default 0.01."),
    not_with("--alphabet"),
]

DEFAULT_LENGTH = 10
ShuffleDelta = Annotated[
    str | None,
    option("--shuffled", "DELTA", "Also report the amplified epsilon under a shuffler."),
    not_with("--alphabet"),
]


def local_plan(
    epsilon: LocalEpsilon,
    respondents: Respondents,
    labels: LabelList = None,
    size: LabelCount = None,
    alphabet: Alphabet = None,
    length: Length = None,
    margin: Margin = None,
    malicious: Malicious = 0.0,
    shuffled: ShuffleDelta = None,
    plot: Annotated[PictureFile, not_with("--alphabet")] = None,
    form: TextForm = TextFormat.table,
) -> None:
    """Plan a local collection: the best protocol, its error, and the number of respondents needed.

    With --alphabet, plan a search for frequent texts. It uses public parameters only and charges nothing.
    """
    from sordino.local import plan_collection, plan_heavy_hitters

    if alphabet is not None:
        search = plan_heavy_hitters(
            alphabet, length=DEFAULT_LENGTH if length is None else length, epsilon=epsilon, respondents=respondents
        )
        _say_plan(search.to_dict(), search.lines, form)
        return

    plan = plan_collection(
        _labels(labels, size),
        epsilon=epsilon,
        respondents=respondents,
        margin=0.01 if margin is None else margin,
        malicious=malicious,
        shuffle_delta=shuffled,
    )
    if plot is not None:
        from sordino.reporting.charts import plot as draw

        draw(plan.choice).save(plot)
    _say_plan(plan.to_dict(), _lines(plan) if form is not TextFormat.json else {}, form)


def _labels(text: str | None, size: int | None) -> tuple[Label, ...]:
    if (text is None) == (size is None):
        raise DeclarationError(
            "state --labels V,V,.., --size K or --alphabet: the plan depends on how many values an answer may have"
        )
    if text is not None:
        return tuple(part.strip() for part in text.split(","))
    if size is None or not 2 <= size <= 1 << 19:
        raise DeclarationError("--size must be from 2 to 2^19 values")
    return tuple(range(size))


def _say_plan(plain: dict[str, Any], lines: dict[str, str], form: TextFormat) -> None:
    if form is TextFormat.json:
        say(json.dumps(plain, ensure_ascii=False, indent=2, allow_nan=False))
        return
    for label, text in lines.items():
        for line in wrap(label, text):
            say(line)


def _lines(plan: CollectionPlan) -> dict[str, str]:
    from sordino.core.loss import round_up

    choice = plan.choice
    needed = plan.needed
    mixed = plan.shuffled
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
    return texts
