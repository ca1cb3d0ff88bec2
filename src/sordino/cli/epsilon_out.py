"""Where a chosen epsilon goes: the project file, a picture, words. It knows texts and files; not how one is chosen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.neighbors import Relation
    from sordino.report.odds_icons import Tradeoff
    from sordino.report.risks import Densities, Risks
    from sordino.risk.choice import Choice
    from sordino.risk.precision import Precision

__all__ = ["Writing", "densities_of", "drawn", "number_of", "numbers_of", "percent", "tradeoff_of"]

_NAMED = 9  # epsilons named along a curve, at most


class Writing:
    """A cap to be written into a project file: what can be wrong is found out first, and nothing is written by halves."""

    def __init__(self, project: Path | None, budget: str | None, *, relation: Relation | None) -> None:
        """Find the project file and the budget in it."""
        from sordino.cli.opening import project_path
        from sordino.project_write import budget_in

        self.path = project_path(project)
        try:
            self.text = self.path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            raise DeclarationError(f"{self.path} cannot be read as UTF-8 text; name the project file") from None
        self.budget = budget_in(self.text, name=budget, relation=relation)

    def write(self, epsilon: float, reason: str) -> dict[str, str]:
        """Write the cap, rounded down, and its reason; return what was written."""
        from sordino.cli.writing import draft
        from sordino.project_write import rounded_down, with_cap

        cap = rounded_down(epsilon)
        why = f"{reason} The cap is that epsilon, rounded down to {cap}."
        made = with_cap(self.text, budget=self.budget, epsilon=epsilon, reason=why)
        with draft(self.path.resolve()) as target:
            target.write(made.encode())
        return {"project": str(self.path), "budget": self.budget, "epsilon": cap, "reason": why}


def drawn(path: Path, picture: Risks | Tradeoff) -> None:
    """Write a picture, of risks or of accuracy against them, to a file."""
    from sordino.cli.writing import draft
    from sordino.report.charts import plot
    from sordino.report.picture import encoded

    with draft(path) as target:
        target.write(encoded(plot(picture), path.suffix))


def densities_of(at: dict[str, Any], sensitivity: float) -> tuple[Densities | None, str]:
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
    points = sorted([*(low * (high / low) ** (step / 200) for step in range(201)), *ends])
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [e for power in decades for e in (float(f"1e{power}"), float(f"3e{power}")) if low <= e <= high]
    ticks = ticks[:: math.ceil(len(ticks) / _NAMED)]
    odds = None if made.epsilon is None else posterior_bounds(made.epsilon, prior=prior)
    return Tradeoff(
        subject=precision.describe(),
        prior=prior,
        curve=[point(e) for e in points],
        labels=[point(e) for e in ticks],
        least=point(made.lower) if made.lower > 0 else None,
        most=point(made.upper) if made.upper < math.inf else None,
        chosen=made.epsilon,
        odds=None if odds is None else (odds[1], odds[0]),
    )


def number_of(text: str, option: str) -> Any:
    """Return the exact number that an option states, as 0.25 or 1/4."""
    from sordino.loss import exact

    return exact(text, name=option)


def numbers_of(text: str, option: str) -> list[float]:
    """Return the numbers, with commas between, that an option states."""
    return [float(number_of(word.strip(), option)) for word in text.split(",")]


def percent(share: float) -> str:
    """Return a share as a percentage.

    >>> percent(1 / 3)
    '33.3333%'
    """
    return f"{100 * share:.6g}%"
