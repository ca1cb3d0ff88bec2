"""Synthesizers by name, and a fit as it is requested."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Unpack

from sordino.core.errors import DeclarationError, arg, nearest
from sordino.core.loss import LossArguments
from sordino.core.registration import check_registering

if TYPE_CHECKING:
    from sordino.ask.queries.queryable import Adaptive
    from sordino.synth.model import Model
    from sordino.synth.rules import Rule

# ---- The synthesizers by name: the one place that lists them, for Python, the command line, servers and the workbench
#
# A synthesizer from outside joins by `register_synthesizer`, in the curator's own process.

ALL_PAIRS = "all 2-way"

# Text names a class that is imported when it is first used, since the command line lists the names without numpy.
METHODS: dict[str, str | type[Any]] = {
    "auto": "sordino.synth.fitting.Automatic",
    "independent": "sordino.synth.fitting.Independent",
    "tree": "sordino.synth.fitting.Tree",
    "mst": "sordino.synth.fitting.MST",
    "aim": "sordino.synth.fitting.AIM",
    "marginals": "sordino.synth.fitting.Marginals",
}


def register_synthesizer(name: str, fitter: type[Any]) -> None:
    """Add a synthesizer from outside: a frozen dataclass with `fit(source, *, epsilon, delta, rho, rng)` and a `label`.

    With `steps`, as `sordino.synth.measurement.Step`, its price is shown with what each step spends.
    Its fields are among those of a `FitRequest`: columns, constraints, cap, workload, assume_rows, predict, and cliques
    for marginals. It sees a Queryable only, so its privacy is the curator's. Raises DeclarationError where the name is taken,
    and once a table is open.
    """
    if name in METHODS:
        raise DeclarationError(f"{name!r}: a synthesizer of this name exists; choose another name")
    check_registering(fitter, f"synthesizer {name!r}")
    METHODS[name] = fitter


def load_method(name: str) -> type[Any]:
    """Return the class of a synthesizer; raises DeclarationError for another name."""
    if name not in METHODS:
        raise DeclarationError(f"has no such value; {nearest(name, METHODS)}", key="method")
    entry = METHODS[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.rpartition(".")
    fitter: type[Any] = getattr(importlib.import_module(module), attribute)
    return fitter


def method_name(fitter: type[Any]) -> str:
    """Return the name of a synthesizer, by which requests ask for it."""
    path = f"{fitter.__module__}.{fitter.__qualname__}"
    return next(name for name, entry in METHODS.items() if entry in (fitter, path))


def method_steps(name: str) -> list[tuple[str, str]]:
    """Return the steps of a synthesizer's algorithm, each with its share of the loss; none for a foreign one without `steps`.

    >>> method_steps("mst")[0]
    ('measure the one-way marginals', '31.7%')
    """
    from sordino.synth.measurement import describe_steps

    steps = getattr(load_method(name), "steps", ())
    return describe_steps(steps) if steps else []


def methods_with(option: str) -> list[str]:
    """Return the names of the synthesizers that take an option, a field of theirs.

    >>> methods_with("assume_rows")
    ['auto']
    """
    return [name for name in METHODS if option in {field.name for field in fields(load_method(name))}]


# ---- FitRequest: which model of a table is wanted, as data - what the command line's options and a server's JSON
# both state

_AS_ASKED = {"cliques": "marginals"}


@dataclass(frozen=True, slots=True)
class FitRequest:
    """A method by its name and what goes with it; `marginals` are the tables of the method of that name."""

    method: str = "auto"
    columns: Sequence[str] | None = None
    marginals: Sequence[Sequence[str]] | None = None
    workload: str | Sequence[Sequence[str]] = ALL_PAIRS
    constraints: tuple[Rule, ...] = ()
    cap: int | None = None
    assume_rows: int | None = None
    predict: Sequence[str] = ()

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
            "predict": self.predict or None,
        }
        options = {name: value for name, value in stated.items() if value is not None}
        parameters = {field.name: field for field in fields(fitter)}
        for name in [name for name in options if name not in parameters]:
            others = " or ".join(methods_with(name))
            raise DeclarationError(f"{_spell(name)} goes with the method {others}, not with {self.method}")
        for name, field in parameters.items():
            if field.default is MISSING and name not in options:
                raise DeclarationError(f"the method {self.method} needs {_spell(name)}")
        return fitter(**options)


def _spell(name: str) -> str:
    """Return an option as whoever asks for a fit names it."""
    return arg(f"{_AS_ASKED.get(name, name)}=")
