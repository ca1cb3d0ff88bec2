"""Where a chosen epsilon goes: the project file, a picture, words. It knows texts and files; not how one is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.neighbors import Relation
    from sordino.report.risks import Risks

__all__ = ["Writing", "drawn", "number_of", "numbers_of", "percent"]


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


def drawn(path: Path, risks: Risks) -> None:
    """Write the picture of risks to a file."""
    from sordino.cli.writing import draft
    from sordino.report.charts import plot
    from sordino.report.picture import encoded

    with draft(path) as target:
        target.write(encoded(plot(risks), path.suffix))


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
