"""FitRequest: which model of a table is wanted, as data - what the command line's options and a server's JSON both state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sordino.errors import DeclarationError, nearest
from sordino.loss import Number
from sordino.queries.queryable import Adaptive
from sordino.synth import fitting
from sordino.synth.constraints import Constraint
from sordino.synth.fitting import AIM, MST, Independent, Marginals, Tree
from sordino.synth.model import Model

__all__ = ["METHODS", "FitRequest"]

METHODS = ("auto", "independent", "tree", "mst", "aim", "marginals")


@dataclass(frozen=True, slots=True)
class FitRequest:
    """State a method by its name and what goes with it; `marginals` are the tables of the method of that name."""

    method: str = "auto"
    columns: Sequence[str] | None = None
    marginals: Sequence[Sequence[str]] | None = None
    workload: str | Sequence[Sequence[str]] = "all 2-way"
    constraints: tuple[Constraint, ...] = ()
    cap: int | None = None
    assume_rows: int | None = None

    def fit(
        self, source: Adaptive, *, epsilon: Number | None = None, delta: Number | None = None, rho: Number | None = None
    ) -> Model:
        """Return the model; raises DeclarationError, UnknownName or QuestionRefused before anything is spent."""
        loss: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
        if self.method == "auto":
            for name in () if isinstance(self.workload, str) else (n for names in self.workload for n in names):
                _ = source.domain[name]
            given: dict[str, Any] = {
                "columns": self.columns,
                "workload": self.workload,
                "constraints": self.constraints,
            }
            return fitting.fit(source, **given, cap=self.cap, assume_rows=self.assume_rows, **loss)
        bound = {} if self.cap is None else {"cap": self.cap}
        made: Any
        if self.method == "marginals":
            made = Marginals(self.marginals or [], self.constraints, **bound)
        elif self.method == "aim":
            made = AIM(self.columns, self.constraints, **bound)
        elif self.method in _PLAIN:
            made = _PLAIN[self.method](self.columns, self.constraints)
        else:
            raise DeclarationError(f"has no such value; {nearest(self.method, METHODS)}", key="method")
        model: Model = made.fit(source, **loss)
        return model


_PLAIN: dict[str, Any] = {"independent": Independent, "tree": Tree, "mst": MST}
