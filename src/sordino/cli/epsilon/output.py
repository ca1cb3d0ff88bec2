"""Where a chosen epsilon goes: the project file, a picture, words. It knows texts and files; not how one is chosen."""

from __future__ import annotations

import math
from contextlib import ExitStack
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sordino.cli.shared.terminal import note, paint, say, wrap
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sordino.neighbors import Relation
    from sordino.report.odds_icons import Tradeoff
    from sordino.report.risks import Densities, Risks
    from sordino.risk.precision import Precision
    from sordino.risk.requirement_choice import Choice
    from sordino.risk.worlds import Worlds

__all__ = [
    "Writing",
    "end_of",
    "line",
    "number_of",
    "numbers_of",
    "option",
    "percent",
    "risks_of",
    "rounded_up",
    "tell_written",
    "tradeoff_of",
    "written",
]

_NAMED = 9  # epsilons named along a curve, at most
_REACH = 100.0  # how far below the least error asked a curve is drawn
_FEW = 100_000  # worlds up to which a curve has many points
_DIGITS = range(6, 18)  # of a cap: as few as leave it within the interval


class Writing:
    """A cap to be written into a project file: what can be wrong is found out first, and nothing is written by halves."""

    def __init__(
        self, project: Path | None, budget: str | None, *, relation: Relation | None, kind: frozenset[str]
    ) -> None:
        """Find the project file and the budget in it, whose cap must be of a kind."""
        from sordino.cli.shared.opening import project_path
        from sordino.project.edit import budget_in

        self.path = project_path(project)
        try:
            self.text = self.path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            raise DeclarationError(f"{self.path} cannot be read as UTF-8 text; name the project file") from None
        self.budget = budget_in(self.text, name=budget, relation=relation, kind=kind)
        self.made = self.text
        self.told: dict[str, str] = {}

    def cap(self, amounts: Mapping[str, Decimal], reason: str) -> None:
        """Put the cap and its reason into the text, and write nothing yet.

        Raises DeclarationError where the ledger has spent more than that: such a cap could not come to hold.
        """
        from sordino.project.edit import with_cap

        self._check_spent(amounts)
        self.made = with_cap(self.text, budget=self.budget, cap=amounts, reason=reason)
        stated = {key: f"{amount:f}" for key, amount in amounts.items()}
        self.told = {"project": str(self.path), "budget": self.budget, **stated, "reason": reason}

    def _check_spent(self, amounts: Mapping[str, Decimal]) -> None:
        from sordino.cli.shared.opening import open_ledger
        from sordino.loss import format_number
        from sordino.project.load import load_project

        try:
            declared = load_project(self.path).budgets[self.budget]
        except DeclarationError:
            return  # half a project file has no ledger that could be opened
        with open_ledger(declared) as ledger:
            spent = {} if ledger is None else ledger.spent().amounts()
        for key, gone in spent.items():
            if key in amounts and Fraction(amounts[key]) < gone:
                raise DeclarationError(
                    f"budget {self.budget!r} has spent {key} {format_number(gone)} already, more than a cap of "
                    f"{amounts[key]:f}: what was spent does not return; write it into a new budget"
                )


def rounded_up(least: Decimal, *, most: Decimal) -> Decimal:
    """Return a number of 6 significant digits, never below `least`; of as many more as keep it within `most`.

    >>> rounded_up(Decimal("0.03183184"), most=Decimal(1)), rounded_up(Decimal("0.03183184"), most=Decimal("0.031831849"))
    (Decimal('0.0318319'), Decimal('0.03183184'))
    """
    for digits in _DIGITS:
        found = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(least)
        if found <= most:
            return found.normalize()
    return least


def written(
    plot: Path | None, picture: Risks | Sequence[Risks] | Tradeoff | None, target: Writing | None
) -> dict[str, str] | None:
    """Write the picture and the cap, or neither; return what was written into the project file.

    Both are made, and both places are known to be writable, before anything is put in its place.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.report.charts import plot as plotted
    from sordino.report.picture import encode_picture

    with ExitStack() as stack:
        drawing = None if plot is None else stack.enter_context(open_atomic(plot))
        project = None if target is None else stack.enter_context(open_atomic(target.path.resolve()))
        if drawing is not None and plot is not None:
            drawing.write(encode_picture(plotted(picture), plot.suffix))
        if project is not None and target is not None:
            project.write(target.made.encode())
    return None if target is None else target.told


def option(name: str, metavar: str, words: str) -> Any:
    """Return an option that takes a text."""
    return typer.Option(name, metavar=metavar, help=words, show_default=False)


def line(label: str, text: str, *, indent: int) -> None:
    """Print a labelled text."""
    head, *rest = wrap(label, text, indent=indent)
    say(head.replace(label, paint(label, "bold"), 1))
    for more in rest:
        say(more)


def tell_written(told: dict[str, str] | None, *, indent: int) -> None:
    """Say what was written where, if anything."""
    if told is not None:
        cap = ", ".join(f"{key} = {told[key]}" for key in ("epsilon", "rho", "delta") if key in told)
        line("written", f"cap = {{{cap}}} of budget {told['budget']} in {told['project']}", indent=indent)
        note("a ledger that is there already holds to its cap: `sordino ledger amend` tells it why it changed")


def end_of(several: Sequence[dict[str, Any]]) -> float:
    """Return up to which epsilon risks are drawn: past all that are marked, the same for every column."""
    marked = [(one["epsilon"], one["epsilon_bound"], one.get("at", {}).get("epsilon")) for one in several]
    return 2 * max((e for three in marked for e in three if e), default=2.0)


def risks_of(made: Worlds, told: dict[str, Any], *, end: float) -> Risks:
    """Return what the picture shows: a curve up to the epsilon `end`, and the beliefs at an output."""
    from sordino.report.risks import Risks

    at = told.get("at", {})
    steps = 240 if not made.exact else 60 if made.count <= _FEW else 16
    points = [end * step / steps for step in range(1, steps + 1)]
    beliefs = [
        (", ".join(f"{v:.6g}" for v in row["world"]), row["prior"], row["posterior"])
        for row in at.get("posteriors", ())
    ]
    densities, why = _densities_of(at, made.sensitivity)
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
        column=told.get("column", ""),
    )


def _densities_of(at: dict[str, Any], sensitivity: float) -> tuple[Densities | None, str]:
    """Return the densities at an output, one an answer (worlds of equal answers share one), or why there are none."""
    from sordino.report.risks import MOST_LINES, Densities

    rows = at.get("posteriors", ())
    if not rows:
        return None, ""
    alike: dict[float, list[dict[str, Any]]] = {}
    for row in rows:
        alike.setdefault(row["answer"], []).append(row)
    if len(alike) > MOST_LINES:
        return None, f"{len(alike):,} different answers: densities are drawn of {MOST_LINES} at most"
    if sensitivity == 0:
        return None, "the answer never moves, so that it has no noise and no density"
    lines = []
    for answer, same in alike.items():
        name = ", ".join(f"{v:.6g}" for v in same[0]["world"])
        name = name if len(same) == 1 else f"{len(same)} worlds of answer {answer:.6g}, together"
        lines.append((name, answer, math.fsum(row["posterior"] for row in same)))
    return Densities(lines, sensitivity / at["epsilon"], at["output"]), ""


def tradeoff_of(made: Choice, precision: Precision, rows: int | None, prior: float) -> Tradeoff:
    """Return accuracy against risk over epsilon, with the interval of a choice and the odds at it."""
    from sordino.report.odds_icons import Tradeoff
    from sordino.risk.hypotheses import posterior_bounds

    def point(epsilon: float) -> tuple[float, float, float]:
        return epsilon, precision.error(epsilon, rows=rows), posterior_bounds(epsilon, prior=prior)[1]

    ends = [e for e in (made.lower, made.upper) if 0 < e < math.inf] or [1.0]
    low, high = min(ends) / 4, max(max(ends) * 4, min(ends) * 40)
    even = [point(low * (high / low) ** (step / 80)) for step in range(81)]
    marked = [point(e) for e in ends]
    least = (
        min(error for _, error, _ in marked) / _REACH
    )  # where an error is far below all that is asked, nothing is seen
    points = sorted([*(p for p in even if p[1] >= least), *marked])
    high = points[-1][0]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [e for power in decades for e in (float(f"1e{power}"), float(f"3e{power}")) if low <= e <= high]
    ticks = ticks[:: math.ceil(len(ticks) / _NAMED)]
    odds = None if made.epsilon is None or precision.delta else posterior_bounds(made.epsilon, prior=prior)
    but = f"at delta {float(precision.delta):g}: the posterior reads epsilon alone, and is passed more often than delta"
    return Tradeoff(
        subject=precision.describe(),
        prior=prior,
        curve=points,
        labels=[point(e) for e in ticks],
        least=point(made.lower) if made.lower > 0 else None,
        most=point(made.upper) if made.upper < math.inf else None,
        chosen=made.epsilon,
        odds=None if odds is None else (odds[1], odds[0]),
        remarks=[but] if precision.delta else [],
    )


def number_of(text: str, option: str) -> Any:
    """Return the exact number that an option states, as 0.25 or 1/4."""
    from sordino.loss import to_fraction

    return to_fraction(text, name=option)


def numbers_of(text: str, option: str) -> list[float]:
    """Return the numbers, with commas between, that an option states."""
    return [float(number_of(word.strip(), option)) for word in text.split(",")]


def percent(share: float) -> str:
    """Return a share as a percentage.

    >>> percent(1 / 3)
    '33.3333%'
    """
    return f"{100 * share:.6g}%"
