"""Where a chosen epsilon goes: the project file, a picture, words. It knows texts and files; not how one is chosen."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.terminal import note, paint, say, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sordino.project.cap_change import CapChange
    from sordino.report.odds_icons import Tradeoff
    from sordino.report.risks import Densities, Risks
    from sordino.risk.worlds import Worlds

__all__ = [
    "end_of",
    "line",
    "number_of",
    "numbers_of",
    "percent",
    "risks_of",
    "tell_written",
    "written",
]

_FEW = 100_000  # worlds up to which a curve has many points


def written(
    plot: Path | None, picture: Risks | Sequence[Risks] | Tradeoff | None, target: CapChange | None
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
            project.write(target.text.encode())
    return None if target is None else target.stated


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
