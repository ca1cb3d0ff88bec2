"""FitRequest: which model of a table is wanted, as data - what the command line's options and a server's JSON both state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Unpack

from sordino.ask.queries.queryable import Adaptive
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import LossArguments
from sordino.synth.constraints import Constraint
from sordino.synth.methods import ALL_PAIRS, METHODS, load_method
from sordino.synth.model import Model

_AS_ASKED = {"cliques": "marginals"}


@dataclass(frozen=True, slots=True)
class FitRequest:
    """A method by its name and what goes with it; `marginals` are the tables of the method of that name."""

    method: str = "auto"
    columns: Sequence[str] | None = None
    marginals: Sequence[Sequence[str]] | None = None
    workload: str | Sequence[Sequence[str]] = ALL_PAIRS
    constraints: tuple[Constraint, ...] = ()
    cap: int | None = None
    assume_rows: int | None = None

    def fit(self, source: Adaptive, **loss: Unpack[LossArguments]) -> Model:
        """Return the model; raises DeclarationError, UnknownName or QuestionRefused before anything is spent."""
        fitter = self._fitter()
        for name in () if isinstance(self.workload, str) else (n for names in self.workload for n in names):
            _ = source.domain[name]
        model: Model = fitter.fit(source, **loss)
        return model

    def _fitter(self) -> Any:
        """Return the synthesizer with its options; raises DeclarationError for one that it does not take, or lacks."""
        fitter = load_method(self.method)
        stated = {
            "columns": self.columns,
            "cliques": self.marginals,
            "workload": None if self.workload == ALL_PAIRS else self.workload,
            "constraints": self.constraints or None,
            "cap": self.cap,
            "assume_rows": self.assume_rows,
        }
        options = {name: value for name, value in stated.items() if value is not None}
        taken = {field.name: field for field in fields(fitter)}
        for name in [name for name in options if name not in taken]:
            others = [method for method in METHODS if name in {field.name for field in fields(load_method(method))}]
            raise DeclarationError(f"{_spell(name)} goes with the method {' or '.join(others)}, not with {self.method}")
        for name, field in taken.items():
            if field.default is MISSING and name not in options:
                raise DeclarationError(f"the method {self.method} needs {_spell(name)}")
        return fitter(**options)


def _spell(name: str) -> str:
    """Return an option as whoever asks for a fit names it."""
    return arg(f"{_AS_ASKED.get(name, name)}=")
