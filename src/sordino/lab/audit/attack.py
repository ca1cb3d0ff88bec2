"""What attacks achieved on several releases of the same rows, beside guessing and what theory allows: results alone.

An attack needs the true rows to know where it was right: all that it says is NOT PRIVATE.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from fractions import Fraction

# Of one private release, or of several: 1, [1, 10] or "1,10".
Epsilons = Number | tuple[Number, ...] | list[Any]
HEAD = ("release", "loss", "achieved", "guessing", "theory allows")


@dataclass(frozen=True, slots=True)
class Attacked:
    """Hold what an attack achieved on one release, what guessing does, and the most that its epsilon allows.

    Where members are told from others, `found` is the rate of members found, `accused` that of others accused, and
    `most_found` the most that may be found at that rate of false alarms.
    """

    release: str
    epsilon: float | None
    achieved: float
    guessing: float
    allowed: float
    found: float | None = None
    accused: float | None = None
    most_found: float | None = None

    @property
    def loss(self) -> str:
        """What all of the release loses."""
        return "not private" if self.epsilon is None else f"epsilon {self.epsilon:g}"

    def cells(self) -> list[str]:
        """Return a line of a table."""
        return [self.release, self.loss, *(f"{x:.3f}" for x in (self.achieved, self.guessing, self.allowed))]

    def describe_rates(self) -> str | None:
        """Return in words how many were found at how many false alarms, None where that was not asked."""
        if self.found is None or self.accused is None or self.most_found is None:
            return None
        return (
            f"{self.release}: {self.found:.1%} of members found with {self.accused:.1%} of others accused; "
            f"at so many false alarms theory allows {self.most_found:.1%}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Attack:
    """Hold an attack on several releases of the same rows; `measure` says what its numbers are, `way` how it goes."""

    name: str
    measure: str
    results: tuple[Attacked, ...]
    way: str = ""

    def describe(self) -> str:
        """Return what was achieved, a line a release."""
        lines = [f"{self.name}, NOT PRIVATE (true rows say where it was right): {self.measure}"]
        for r in self.results:
            figures = f"achieved {r.achieved:.3f}; guessing {r.guessing:.3f}; theory allows {r.allowed:.3f}"
            lines.append(f"  {r.release} ({r.loss}): {figures}")
        return "\n".join(lines)

    def lines(self) -> list[str]:
        """Return the attack as a table for a terminal."""
        table = columns_of(HEAD, [r.cells() for r in self.results], right=[False, False, True, True, True])
        return [f"{self.name}: {self.measure}", *(f"  {line}" for line in [*table, *self.remarks()])]

    def remarks(self) -> list[str]:
        """Return what is said besides the table."""
        rates = (r.describe_rates() for r in self.results)
        return [*(words for words in rates if words is not None), *([self.way] if self.way else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "private": False}

    def to_json(self) -> str:
        """Return all of it as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return f"<p><b>NOT PRIVATE.</b> {escape(self.name)}: {escape(self.measure)}</p>{self.html_table()}"

    def html_table(self) -> str:
        """Return the table in HTML, escaped."""
        rows = [f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in r.cells())}</tr>" for r in self.results]
        remarks = "".join(f"<p>{escape(words)}</p>" for words in self.remarks())
        return f"<table><tr>{''.join(f'<th>{name}</th>' for name in HEAD)}</tr>{''.join(rows)}</table>{remarks}"


def claims_from(epsilon: Epsilons) -> list[Fraction]:
    """Return the epsilons of the private releases: one or several, each above 0; raises DeclarationError for none."""
    texts = epsilon.split(",") if isinstance(epsilon, str) else epsilon
    several = texts if isinstance(texts, (list, tuple)) else (texts,)
    epsilons = [to_fraction(one, name="epsilon") for one in several]
    if not epsilons or min(epsilons) <= 0:
        raise DeclarationError("a private release needs an epsilon above 0, or several: 1, or [0.5, 1]")
    return epsilons


def guess_bound(share: float, epsilon: float) -> float:
    """Return how often a guess is right at the most: the commoner value has `share`, the release loses `epsilon`.

    Theorem: s / (s + (1 - s) e^-epsilon), on average over people drawn by these shares (proved in `answer_attack`).
    """
    return share / (share + (1 - share) * math.exp(-epsilon))
