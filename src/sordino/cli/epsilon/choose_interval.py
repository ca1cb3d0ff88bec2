"""`sordino epsilon choose`: from requirements taken together to an interval of epsilon, or the two that conflict.

It never opens a table: the domain is the project file's, row counts are public guesses of whoever asks.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.epsilon.output import (
    line,
    number_of,
    tell_written,
    written,
)
from sordino.cli.shared.options import BudgetName, PictureFile, ProjectPath, TextForm, TextFormat, WriteCap, option
from sordino.cli.shared.terminal import note, say
from sordino.errors import DeclarationError, UnknownName, nearest

if TYPE_CHECKING:
    from sordino.project.cap_change import CapChange
    from sordino.project.load import DeclaredTable, Project
    from sordino.report.odds_icons import Tradeoff
    from sordino.risk.precision import Currency
    from sordino.risk.requirement_choice import Choice, Requirement

__all__ = ["choose"]

_INDENT = 20


def choose(
    table: Annotated[str | None, option("--table", "NAME", "The declared table, where there are several.")] = None,
    query: Annotated[str | None, option("--query", "SQL", "The question whose error matters: one aggregate.")] = None,
    error: Annotated[str | None, option("--error", "T", "The most it may be wrong by.")] = None,
    confidence: Annotated[str, typer.Option("--confidence", metavar="C", help="With this probability.")] = "0.95",
    rows: Annotated[int | None, option("--rows", "N", "A public guess at the rows; never counted here.")] = None,
    delta: Annotated[
        str | None, option("--delta", "D", "Gaussian noise too, at this delta; in rho where the budget is.")
    ] = None,
    attacker_prior: Annotated[str | None, option("--attacker-prior", "P", "What an attacker suspects before.")] = None,
    max_posterior: Annotated[str | None, option("--max-posterior", "P", "The most to be suspected after.")] = None,
    test_level: Annotated[str | None, option("--test-level", "A", "The false-alarm rate of a test.")] = None,
    max_power: Annotated[str | None, option("--max-power", "B", "The most that such a test may detect.")] = None,
    relative_risk: Annotated[
        str | None, option("--relative-risk", "R", "How many times as likely a disclosure may become.")
    ] = None,
    plot: PictureFile = None,
    form: TextForm = TextFormat.table,
    write: WriteCap = False,
    budget: BudgetName = None,
    project: ProjectPath = None,
) -> None:
    """Find the interval of epsilon that meets every requirement, or the two that conflict.

    Requirements follow from the declared domain alone: the data is never read, and nothing is charged.
    """
    from sordino.cli.shared.opening import project_at
    from sordino.risk.requirement_choice import choose_epsilon
    from sordino.risk.requirements import relative

    if plot is not None and (query is None or error is None):
        raise DeclarationError("--plot draws accuracy against risk: state --query SQL and --error T too")
    asking = _Asking.of(project_at(project), table, query=query, confidence=confidence, rows=rows, delta=delta)
    asked = asking.accuracy(error) + asking.readings(attacker_prior, max_posterior, test_level, max_power)
    if relative_risk is not None:
        asked.append(relative(ratio=number_of(relative_risk, "--relative-risk")))
    if not asked:
        raise DeclarationError("state a requirement: --error, --max-posterior, --max-power or --relative-risk")
    made = choose_epsilon(requirements=asked)
    if made.relation not in (None, asking.table.neighbors.relation):
        raise DeclarationError(
            f"--relative-risk is proved for {made.relation}; table {asking.table.name!r} states replace"
        )
    told = made.to_dict() | {"noise": asking.noise()}
    target = _target(made, asking, budget, project) if write and made.conflict is None else None
    done = written(plot, None if plot is None else asking.tradeoff(made, attacker_prior), target)
    if done is not None:
        told["written"] = done
    if form is TextFormat.json:
        say(json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False))
    elif made.conflict is None:
        _tell(made, told)
    if made.conflict is not None:
        raise DeclarationError(made.conflict.describe())


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question about a declared table, and what its answer is to be asked in."""

    table: DeclaredTable
    query: str | None
    confidence: Any
    rows: int | None
    delta: Any
    currency: Currency

    @classmethod
    def of(
        cls,
        project: Project,
        name: str | None,
        *,
        query: str | None,
        confidence: str,
        rows: int | None,
        delta: str | None,
    ) -> _Asking:
        from sordino.loss import ZCDP

        table = _table_of(project, name)
        slack = 0 if delta is None else number_of(delta, "--delta")
        rho = slack and isinstance(project.budgets[table.budget].cap, ZCDP)
        likely = number_of(confidence, "--confidence")
        return cls(table, query, likely, rows, slack, "rho" if rho else "epsilon")

    def stated(self) -> dict[str, Any]:
        return {
            "confidence": self.confidence,
            "query": self.query,
            "domain": self.table.domain,
            "delta": self.delta,
            "currency": self.currency,
        }

    def accuracy(self, error: str | None) -> list[Requirement]:
        from sordino.queries.sql.parse import sql
        from sordino.risk.requirements import accuracy

        if self.query is None and error is None:
            return []
        if self.query is None or error is None:
            raise DeclarationError("--query SQL and --error T go together: the question, and how wrong it may be")
        asked = sql(self.query).parse().table
        if asked.lower() != self.table.name.lower():
            raise DeclarationError(f"the question asks table {asked!r}; state its --table, not {self.table.name!r}")
        near = self.table.neighbors
        unit = "row" if near.unit is None else near.unit
        wanted = number_of(error, "--error")
        return [accuracy(error=wanted, n=self.rows, neighbors=near.relation, privacy_unit=unit, **self.stated())]

    def readings(self, prior: str | None, most: str | None, level: str | None, power: str | None) -> list[Requirement]:
        from sordino.risk.requirements import posterior, test_power

        made, relation = [], self.table.neighbors.relation
        if (prior is None) != (most is None):
            raise DeclarationError("--attacker-prior P and --max-posterior P go together: before, and at most after")
        if prior is not None and most is not None:
            before, after = number_of(prior, "--attacker-prior"), number_of(most, "--max-posterior")
            made.append(posterior(prior=before, most=after, neighbors=relation))
        if (level is None) != (power is None):
            raise DeclarationError("--test-level A and --max-power B go together: false alarms, and detections at most")
        if level is not None and power is not None:
            alarms, detected = number_of(level, "--test-level"), number_of(power, "--max-power")
            made.append(test_power(level=alarms, most=detected, delta=self.delta, neighbors=relation))
        return made

    def noise(self) -> str | None:
        """Return what the error was reckoned for; None where none was asked for."""
        from sordino.risk.precision import precision_of

        if self.query is None:
            return None
        return precision_of(neighbors=self.table.neighbors, **self.stated()).noise()

    def tradeoff(self, made: Choice, prior: str | None) -> Tradeoff:
        """Return accuracy against the posterior from what an attacker suspects, even odds where nothing is said."""
        from sordino.risk.precision import precision_of

        precision = precision_of(neighbors=self.table.neighbors, **self.stated())
        before = 0.5 if prior is None else float(number_of(prior, "--attacker-prior"))
        from sordino.report.odds_icons import tradeoff_of

        return tradeoff_of(made, precision, self.rows, before)


def _table_of(project: Project, name: str | None) -> DeclaredTable:
    tables = project.tables
    if name is None:
        if len(tables) != 1:
            raise DeclarationError(f"say which table with --table ({', '.join(tables) or 'none is declared'})")
        return next(iter(tables.values()))
    if name not in tables:
        raise UnknownName(f"table {name!r} is not declared in {project.path}; {nearest(name, tables)}")
    return tables[name]


def _target(made: Choice, asking: _Asking, budget: str | None, project: Path | None) -> CapChange:
    """Find where the cap goes: epsilon alone, with its delta, or for a budget in rho the rho that it comes to."""
    from sordino.cli.shared.opening import project_path
    from sordino.project.cap_change import CapChange, round_up_within
    from sordino.project.edit import round_cap_down

    table = asking.table
    if budget is not None and budget != table.budget:
        raise DeclarationError(f"table {table.name!r} draws on budget {table.budget!r}, not {budget!r}")
    if made.epsilon is None:
        raise DeclarationError("these requirements bound epsilon at neither end: there is no cap to write")
    slack = {"delta": Decimal(repr(made.delta))} if made.delta else {}
    key, wanted, most = "epsilon", Decimal(repr(made.epsilon)), Decimal(repr(made.upper))
    if slack and asking.currency == "rho":
        key, wanted, most = "rho", _rho(made.epsilon, slack["delta"]), _rho(made.upper, slack["delta"])
    target = CapChange(
        project_path(project), table.budget, relation=table.neighbors.relation, kind=frozenset({key, *slack})
    )
    up = made.lower > 0
    cap = round_up_within(wanted, most=most) if up else Decimal(round_cap_down(float(wanted)))
    why = made.sentence()
    if cap != wanted:
        why += f" The cap is that {key}, rounded {'up' if up else 'down'} to {cap:f}."
    target.cap({key: cap, **slack}, why)
    return target


def _rho(epsilon: float, delta: Decimal) -> Decimal:
    """Return the largest rho that implies (epsilon, delta)."""
    from sordino.accounting.zcdp import rho_for
    from sordino.loss import format_number

    return Decimal(format_number(rho_for(epsilon, delta))) if math.isfinite(epsilon) else Decimal("inf")


def _end(by: Requirement) -> str:
    """Return what binds an end, and the relation that it is proved for."""
    relation = "any relation" if by.relation is None else by.relation.replace("_", "/")
    return f"{by.kind.replace('_', ' ')}: {by.says} ({relation})"


def _tell(made: Choice, told: dict[str, Any]) -> None:
    least = f"{made.lower:.10g}" if made.lower else "0"
    most = "any" if made.upper == math.inf else f"{made.upper:.10g}"
    line("interval", f"epsilon from {least} to {most}", indent=_INDENT)
    for label, by in (("lower end", made.lower_by), ("upper end", made.upper_by)):
        line(label, "nothing bounds it" if by is None else _end(by), indent=_INDENT)
    line("choice", "any epsilon" if made.epsilon is None else f"{made.epsilon:.10g}", indent=_INDENT)
    if made.delta:
        in_rho = "" if made.rho is None else f"; together rho {float(made.rho):.10g}"
        line("delta", f"{made.delta:g}{in_rho}", indent=_INDENT)
    if told["noise"] is not None:
        line("noise", told["noise"], indent=_INDENT)
    line("report", made.sentence(), indent=_INDENT)
    tell_written(told.get("written"), indent=_INDENT)
    if made.lower > 0 and "written" in told:
        amount = next(f"{key} {told['written'][key]}" for key in ("epsilon", "rho") if key in told["written"])
        note(f"ask at the cap itself, {amount}, for an error within what was asked")
