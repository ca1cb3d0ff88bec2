"""`sordino local plan` and `local simulate`: which protocol, how many respondents, and what it looks like on known people.

It charges nothing. A simulation reads the true values of a public extract; its output is marked NOT PRIVATE.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import PictureFile, TextFormat
from sordino.cli.shared.terminal import columns_of, paint, plain, say, wrap
from sordino.errors import DeclarationError, QuestionRefused

if TYPE_CHECKING:
    from sordino.local.choice import Choice, Needed
    from sordino.local.estimates.frequency import Estimate
    from sordino.local.labels import Label
    from sordino.local.protocols.catalog import Protocols
    from sordino.report.local import Comparison

__all__ = ["local_plan", "local_simulate"]

MARK = "true values of known people are shown"


class ProtocolName(StrEnum):
    """A protocol by name, or the best of all."""

    best = "best"
    coins = "coins"
    grr = "grr"
    sue = "sue"
    oue = "oue"
    olh = "olh"
    hadamard = "hadamard"
    subset = "subset"


LocalEpsilon = Annotated[
    str, typer.Option("--epsilon", metavar="E", help='What one report may reveal: 0.5, 1 or "1/3".', show_default=False)
]
Malicious = Annotated[
    float, typer.Option("--malicious", metavar="S", help="Weigh what this share of lying respondents can add.")
]


def local_plan(
    epsilon: LocalEpsilon,
    respondents: Annotated[
        int, typer.Option("--respondents", metavar="N", help="How many will answer.", show_default=False)
    ],
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="V,V,..", help="The values an answer may have.", show_default=False),
    ] = None,
    size: Annotated[
        int | None, typer.Option("--size", metavar="K", help="Instead: how many values.", show_default=False)
    ] = None,
    margin: Annotated[
        float, typer.Option("--margin", metavar="M", help="The error of a share to reach, at 95%.")
    ] = 0.01,
    malicious: Malicious = 0.0,
    shuffled: Annotated[
        str | None,
        typer.Option(
            "--shuffled", metavar="DELTA", help="Also: the amplified epsilon, if a shuffler mixes.", show_default=False
        ),
    ] = None,
    plot: PictureFile = None,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
) -> None:
    """Plan a collection from people who trust nobody: the best protocol, its error, the respondents needed.

    It sees public parameters only and charges nothing.
    """
    from sordino import local
    from sordino.loss import round_up

    names = _labels(labels, size)
    choice = local.best(names, epsilon=epsilon, respondents=respondents, malicious=malicious)
    needed = local.respondents_needed(names, epsilon=epsilon, margin=margin)
    mixed = None if shuffled is None else local.shuffled(epsilon, respondents, shuffled)
    if plot is not None:
        from sordino.report.charts import plot as draw

        draw(choice).save(plot)
    if form is TextFormat.json:
        say(json.dumps(_plan_data(choice, needed, mixed), ensure_ascii=False, indent=2, allow_nan=False))
        return
    rows = [
        [r["protocol"], round_up(100 * r["error"], digits=3), round_up(100 * r["shift"], digits=3), f"{r['bytes']:,}"]
        for r in choice.table.to_pylist()
    ]
    malicious_head = f"{100 * malicious:g}% malicious clients add"
    lines = columns_of(["protocol", "error", malicious_head, "bytes"], rows, right=[False, True, True, True])
    say(paint(lines[0], "bold"))
    for line in lines[1:]:
        say(line)
    say()
    for label, text in (("best", choice.why), ("needed", f"to be within {100 * margin:g} points: {needed.advice}")):
        for line in wrap(label, text):
            say(line)
    if mixed is not None:
        text = f"epsilon {round_up(mixed.epsilon, digits=4)} at delta {mixed.delta:g}, {mixed.condition}"
        for line in wrap("shuffled", text):
            say(line)


def local_simulate(
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FILE",
            help="The Adult extract, adult.data; with --labels any CSV or Parquet file. NOT PRIVATE.",
            show_default=False,
        ),
    ],
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="Its column of categories.", show_default=False)
    ],
    epsilon: LocalEpsilon,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="V,V,..", help="The values an answer may have; not for the extract.", show_default=False
        ),
    ] = None,
    protocol: Annotated[
        ProtocolName, typer.Option("--protocol", help="How respondents randomise.")
    ] = ProtocolName.best,
    value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="V", help="Ask yes or no: is it this value? For --protocol coins.", show_default=False
        ),
    ] = None,
    malicious: Malicious = 0.0,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Draw the same noise again.", show_default=False)
    ] = None,
    plot: PictureFile = None,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
) -> None:
    """Simulate a collection on known people: the truth, what the local model finds, and a trusted curator beside it.

    NOT PRIVATE: it shows true counts. The curator adds Laplace noise at the same epsilon. Of other files than the Adult
    extract --labels declares the values.
    """
    from sordino.noise.rng import Rng

    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    answers, names = _column(data, column, value, labels)
    made = _protocol(protocol, names, epsilon, len(answers), malicious)
    estimate = made.estimate(made.count(made.perturb(answers, rng)))
    compared = _compare(column, answers, names, estimate, made, rng)
    if plot is not None:
        from sordino.report.charts import plot as draw

        draw(compared).save(plot)
    if form is TextFormat.json:
        say(json.dumps(_simulation_data(compared, made, estimate), ensure_ascii=False, indent=2, allow_nan=False))
        return
    say(paint(f"NOT PRIVATE: {MARK}", "red"))
    head = [column, "true", "local model", "95% interval", "trusted curator"]
    rows = [
        [label, f"{true:,.0f}", f"{found:,.1f}", f"{low:,.0f} - {high:,.0f}", f"{central:,.0f}"]
        for label, true, found, low, high, central in compared.rows
    ]
    lines = columns_of(head, rows, right=[False, True, True, True, True])
    say(paint(lines[0], "bold"))
    for line in lines[1:]:
        say(line)
    say()
    for remark in compared.remarks:
        for line in wrap("", remark, indent=0):
            say(line)


def _labels(text: str | None, size: int | None) -> tuple[Label, ...]:
    if (text is None) == (size is None):
        raise DeclarationError("state --labels V,V,.. or --size K: how many values an answer may have decides")
    if text is not None:
        return tuple(part.strip() for part in text.split(","))
    if size is None or not 2 <= size <= 1 << 19:
        raise DeclarationError("--size must be from 2 to 2^19 values")
    return tuple(range(size))


def _column(data: Path, column: str, value: str | None, labels: str | None) -> tuple[list[Any], tuple[Label, ...]]:
    """Return the answers of a column and the public labels; yes or no where a value is asked about."""
    declared: tuple[Label, ...]
    cells: list[Any]
    if labels is None:
        declared, cells = _extract(data, column)
    else:
        from sordino.datasets.exact_answers import load_answers

        named = [part.strip() for part in labels.split(",")]
        declared, cells = tuple(named), list(load_answers(column, data, labels=named))
    if value is None:
        return cells, (*declared, None)
    if value not in declared:
        from sordino.errors import nearest

        raise QuestionRefused(f"{value!r} is no declared value; {nearest(value, map(str, declared))}")
    return [cell == value for cell in cells], (False, True)


def _extract(data: Path, column: str) -> tuple[tuple[Label, ...], list[Any]]:
    """Return the declared values and the cells of a column of the Adult extract."""
    from sordino.datasets import adult_domain, load_adult
    from sordino.domain import Category

    domain = adult_domain()
    if column not in domain:
        raise QuestionRefused(f"the Adult extract has no column {column!r}; other files take --labels V,V,..")
    declared = domain[column]
    if not isinstance(declared, Category):
        raise QuestionRefused(f"column {column!r} holds no categories; occupation, education and sex do")
    return declared.values, load_adult(data)[column].to_pylist()


def _protocol(name: ProtocolName, labels: tuple[Label, ...], epsilon: str, n: int, malicious: float) -> Protocols:
    from sordino import local

    if name is ProtocolName.best:
        return local.best(labels, epsilon=epsilon, respondents=n, malicious=malicious).protocol
    if name is ProtocolName.coins:
        from sordino.loss import to_fraction

        coins = local.fair_coins(labels) if len(labels) == 2 else None
        if coins is None or not math.isclose(float(to_fraction(epsilon, name="epsilon")), coins.epsilon, rel_tol=1e-3):
            raise DeclarationError("--protocol coins answers yes or no at epsilon ln 3: --value V --epsilon 1.0986")
        return coins
    if name is ProtocolName.sue:
        return local.SUE(labels, epsilon=epsilon)
    if name is ProtocolName.oue:
        return local.OUE(labels, epsilon=epsilon)
    if name is ProtocolName.grr:
        return local.GRR(labels, epsilon=epsilon)
    if name is ProtocolName.olh:
        return local.OLH(labels, epsilon=epsilon)
    if name is ProtocolName.hadamard:
        return local.Hadamard(labels, epsilon=epsilon)
    return local.SubsetSelection(labels, epsilon=epsilon)


def _compare(
    column: str, answers: list[Any], labels: tuple[Label, ...], estimate: Estimate, made: Protocols, rng: Any
) -> Comparison:
    """Return truth and estimates side by side; the curator's histogram moves by 2 where one answer is replaced."""
    from collections import Counter

    from sordino.mechanisms.laplace import Laplace
    from sordino.report.local import Comparison

    held = Counter(answers)
    truth = [held[label] for label in labels]
    curator = Laplace(Fraction(2), made.claim)
    central = curator.release(truth, rng)
    table, n = estimate.interval(0.95).to_pydict(), estimate.n
    rows = [
        (_format_label(label), float(true), float(found), n * low, n * high, float(noisy))
        for label, true, found, low, high, noisy in zip(
            labels, truth, estimate.counts, table["lower"], table["upper"], central, strict=True
        )
    ]
    error = n * float(estimate.errors(0.95).max())
    return Comparison(
        f"{column} of {n:,} people by {made.name}, epsilon {made.epsilon:.4g}",
        rows,
        MARK,
        (
            f"{made.name} at epsilon {made.epsilon:.4g}, {made.width} bytes a report: each count within {error:,.0f} at "
            f"95%; a trusted curator's within {curator.law.error(0.95):,.0f} at the same epsilon",
            f"1% of malicious clients could add {n * estimate.shift(0.01)[0]:,.0f} to one count",
        ),
    )


def _plan_data(choice: Choice, needed: Needed, mixed: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "best": choice.protocol.name,
        "why": choice.why,
        "error": choice.error,
        "candidates": choice.table.to_pylist(),
        "needed": {
            "margin": needed.margin,
            "confidence": needed.confidence,
            "local": needed.local,
            "protocol": needed.protocol,
            "curator": needed.curator,
            "advice": needed.advice,
        },
        "parameters": choice.parameters(),
        "shuffled": None
        if mixed is None
        else {
            "epsilon": mixed.epsilon,
            "delta": mixed.delta,
            "closed_form": mixed.closed_form,
            "condition": mixed.condition,
        },
    }


def _simulation_data(compared: Comparison, made: Protocols, estimate: Estimate) -> dict[str, Any]:
    names = ("label", "true", "estimate", "lower", "upper", "curator")
    added, taken = estimate.shift(0.01)
    return {
        "schema": 1,
        "private": False,
        "mark": f"NOT PRIVATE: {compared.mark}",
        "protocol": made.name,
        "parameters": made.parameters(),
        "n": estimate.n,
        "rows": [dict(zip(names, row, strict=True)) for row in compared.rows],
        "malicious": {"share": 0.01, "add": estimate.n * added, "take": estimate.n * taken},
        "remarks": list(compared.remarks),
    }


def _format_label(label: Label) -> str:
    return "(missing)" if label is None else plain(str(label))
