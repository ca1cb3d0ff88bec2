"""Fitting: plan first, then one charge, then a model - the same for every synthesizer. Sees data through a Queryable only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Unpack

from sordino.ask.queries.queryable import Adaptive, Draws, Queryable, ReleaseContent
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, arg, nearest
from sordino.core.loss import ZCDP, ApproxDP, LossArguments, PureDP, read_loss, show_arguments
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.synth.answers import ModelParts
from sordino.synth.contrasts import measure_errors
from sordino.synth.derived_columns import add_derived
from sordino.synth.encoded_column import EncodedColumn, encode_columns, round_sets_of
from sordino.synth.fitted_model import FittedModel, independent_model
from sordino.synth.measurement import (
    EDGES,
    HEAPS,
    FitSession,
    LossShares,
    MeasuredCounts,
    NoisyTable,
    Step,
    describe_steps,
    edge_noise,
    open_session,
    rest,
    split_loss,
)
from sordino.synth.methods import ALL_PAIRS, method_name
from sordino.synth.model import Model
from sordino.synth.pair_selection import one_way_noise
from sordino.synth.released_tables import fit_released
from sordino.synth.rule_cells import RuleCells, rule_cells
from sordino.synth.rule_completion import check_rules
from sordino.synth.rules import Rule
from sordino.synth.sources import require_table
from sordino.synth.trees import (
    AIM_STEPS,
    AUTO_STEPS,
    MARGINALS_STEPS,
    MST_STEPS,
    TREE_STEPS,
    fit_adaptive,
    fit_aim,
    fit_marginals,
    fit_mst,
    fit_tree,
    require_cells,
)

Algorithm = Callable[[FitSession, Sequence[EncodedColumn]], FittedModel]


@show_arguments(LossArguments)
def fit(
    source: Adaptive | Release,
    *,
    columns: Sequence[str] | None = None,
    workload: str | Sequence[Sequence[str]] = ALL_PAIRS,
    constraints: Sequence[Rule] = (),
    cap: int | None = None,
    assume_rows: int | None = None,
    predict: str | Sequence[str] = (),
    rng: Rng | None = None,
    **loss: Unpack[LossArguments],
) -> Model:
    """Return a model of the table, as rich as the loss can pay: independent columns, a small tree, or a clique tree.

    `columns` are all but identifiers unless named. `workload` is "all 2-way", or the sets of columns whose pairs matter.
    `cap` bounds the cells of the model. A part of the loss counts rows: with few of them for the loss, all goes to
    independent columns, with Laplace noise where that is less; `assume_rows` is a public guess in place of that count. The
    choice above it is made from noisy scores. The last part of the loss measures the model's own error (`AUTO_STEPS`).
    `predict` names the columns that others will predict from the rows: what depends on them is kept first, above all where
    the loss is small. `rng` serves sampling inside the fit, which is post-processing.

    A `source` may also be the release of a tabulation that counts rows: the model is fitted to its tables, for no loss. Then
    `columns`, `constraints`, `cap` and `rng` are all that may go with it, and columns that no table holds are not drawn.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    if isinstance(source, Release):
        options = {"workload": workload != ALL_PAIRS, "assume_rows": assume_rows is not None, "predict": predict != ()}
        refused = [name for name, stated in options.items() if stated] + [n for n, v in loss.items() if v is not None]
        if refused:
            raise DeclarationError(
                f"{arg(f'{refused[0]}=')} goes with a table; a model of released tables is free: leave it out"
            )
        _check_cap(cap)
        return fit_released(source, columns=columns, constraints=constraints, cap=cap, rng=rng)
    return Automatic(columns, constraints, workload, cap, assume_rows, predict).fit(source, **loss, rng=rng)


class Fitter(ABC):
    """A synthesizer: what it models is in its fields, and `run` is its algorithm. `synth.methods` lists them by name.

    A subclass states its `label` for people, its `title` on the ledger, and the `steps` of its algorithm with their shares.
    """

    __slots__ = ()

    label: ClassVar[str]
    title: ClassVar[str]
    steps: ClassVar[tuple[Step, ...]]
    constraints: Sequence[Rule]

    @classmethod
    def describe(cls) -> str:
        """Return the steps of the algorithm, each with its share of the loss.

        A model of one column has no pairs: all but the check goes to its marginal.
        """
        lines = describe_steps(cls.steps)
        width = max(len(share) for _, share in lines)
        return "\n".join([f"{cls.label}:", *(f"  {share:>{width}}  {name}" for name, share in lines)])

    @show_arguments(LossArguments)
    def fit(
        self,
        source: Adaptive,
        *,
        rng: Rng | None = None,
        **loss: Unpack[LossArguments],
    ) -> Model:
        """Return the model of a table, charged once: epsilon, (epsilon, delta) or rho; `rng` serves sampling in the fit.

        Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as
        ask does.
        """
        require_table(source)
        on_server = _server_fit(source, self.constraints, rng)
        if on_server is not None:
            return on_server(method_name(type(self)), **self.options(), **loss)
        plan = plan_fit(source, self.modelled(), self.constraints, **loss)
        return self.run(plan, rng)

    def options(self) -> dict[str, Any]:
        """Return what goes with the method's name in a request to a server."""
        itself: Any = self
        return {field.name: getattr(itself, field.name) for field in fields(itself) if field.name != "constraints"}

    def modelled(self) -> Sequence[str] | None:
        """Return the columns that are modelled; None is all but identifiers."""
        columns: Sequence[str] | None = getattr(self, "columns", None)
        return columns

    @abstractmethod
    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit."""


@dataclass(frozen=True, slots=True)
class Automatic(Fitter):
    """Model the table as richly as the loss can pay; see `fit`."""

    columns: Sequence[str] | None = None
    constraints: Sequence[Rule] = ()
    workload: str | Sequence[Sequence[str]] = ALL_PAIRS
    cap: int | None = None
    assume_rows: int | None = None
    predict: str | Sequence[str] = ()

    label = "chosen for the loss (auto)"
    title = "fit"
    steps = AUTO_STEPS

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Check the options, charge and fit; one column has no pairs, so it takes the noise that errs less for it."""
        _check_cap(self.cap)
        pairs = _workload(self.workload, plan)
        predict = _predicted(self.predict, plan)
        if self.assume_rows is not None and self.assume_rows < 1:
            raise DeclarationError(f"{arg('assume_rows')} must be a whole number of 1 or more")
        if len(plan.columns) == 1:
            return plan.run_independent("independent columns", self.title, rng)
        return plan.run(
            lambda session, columns: fit_adaptive(
                session, columns, cap=self.cap, pairs=pairs, rows=self.assume_rows, predict=predict
            ),
            self.title,
            rng,
            draws="either" if plan.laplace_errs_less else "vectors",
        )


@dataclass(frozen=True, slots=True)
class Independent(Fitter):
    """Model each column by itself: cheap and steady, but correlation is lost.

    `columns` None takes all but identifiers. With delta the noise is Laplace or Gaussian, whichever errs less by public
    parameters.
    """

    columns: Sequence[str] | None = None
    constraints: Sequence[Rule] = ()

    label = "each column by itself (independent)"
    title = "Independent"
    steps = (rest("measure the one-way marginals"),)

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit."""
        return plan.run_independent("independent columns", self.title, rng)


@dataclass(frozen=True, slots=True)
class Marginals(Fitter):
    """Model the tables that a person names, such as [("age", "occupation"), ("sex", "income")], and one-way counts.

    A table of n columns keeps their relation whole, but its counts shrink against the same noise as n grows.
    """

    cliques: Sequence[Sequence[str]]
    constraints: Sequence[Rule] = ()
    cap: int = 2_000_000

    label = "the tables that you name (marginals)"
    title = "Marginals"
    steps = MARGINALS_STEPS

    def options(self) -> dict[str, Any]:
        """Return the tables and the cap."""
        return {"marginals": self._sets(), "cap": self.cap}

    def modelled(self) -> Sequence[str]:
        """Return the columns of the tables."""
        return list(dict.fromkeys(name for clique in self._sets() for name in clique))

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit; raises DeclarationError, before anything is spent, where the tables pass the cap."""
        sets = [plan.roots(names) for names in self._sets()]
        require_cells(plan.columns, sets, self.cap)
        return plan.run(lambda session, columns: fit_marginals(session, columns, sets), self.title, rng)

    def _sets(self) -> list[tuple[str, ...]]:
        return [(clique,) if isinstance(clique, str) else tuple(clique) for clique in self.cliques]


@dataclass(frozen=True, slots=True)
class Tree(Fitter):
    """Model the columns as a Bayesian network of one parent a column, after PrivBayes."""

    columns: Sequence[str] | None = None
    constraints: Sequence[Rule] = ()

    label = "a tree of pairs (tree)"
    title = "Tree"
    steps = TREE_STEPS

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit."""
        return plan.run(fit_tree, self.title, rng)


@dataclass(frozen=True, slots=True)
class MST(Fitter):
    """Model the columns by the tree of the pairs that lie farthest from independence (McKenna, Miklau, Sheldon 2021)."""

    columns: Sequence[str] | None = None
    constraints: Sequence[Rule] = ()

    label = "maximum spanning tree (MST)"
    title = "MST"
    steps = MST_STEPS

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit."""
        return plan.run(fit_mst, self.title, rng)


@dataclass(frozen=True, slots=True)
class AIM(Fitter):
    """Model the columns in rounds, each measuring what the model answers worst (McKenna, Mullins, Sheldon, Miklau 2022)."""

    columns: Sequence[str] | None = None
    constraints: Sequence[Rule] = ()
    cap: int = 500_000

    label = "adaptive and iterative (AIM)"
    title = "AIM"
    steps = AIM_STEPS

    def run(self, plan: FitPlan, rng: Rng | None) -> Model:
        """Charge and fit."""
        return plan.run(lambda session, columns: fit_aim(session, columns, cap=self.cap), self.title, rng)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """What is known before anything is spent: columns, rules, the loss as it was asked; `run` charges and fits.

    `columns` are those that are fitted: of all `declared`, those that follow from no other by a rule.
    """

    source: Adaptive
    columns: tuple[EncodedColumn, ...]
    constraints: tuple[Rule, ...]
    split: LossShares
    loss: LossArguments
    declared: tuple[EncodedColumn, ...]
    rules: RuleCells | None = None

    def roots(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are fitted for some of the declared ones, each once."""
        dependencies = {} if self.rules is None else self.rules.dependencies
        return tuple(dict.fromkeys(dependencies[n][0] if n in dependencies else n for n in names))

    def run_independent(self, tier: str, method: str, rng: Rng | None) -> Model:
        """Return independent columns, with Laplace noise of the same epsilon where that errs less."""
        loss: LossArguments = {"epsilon": self.loss.get("epsilon")} if self.laplace_errs_less else self.loss
        return replace(self, loss=loss).run(
            lambda session, columns: independent_model(session.measure_one_way(columns, session.left), tier),
            method,
            rng,
        )

    @property
    def laplace_errs_less(self) -> bool:
        """Whether Laplace noise errs less than Gaussian in one-way counts, by public parameters: it needs no delta.

        A budget of rho counts no epsilon.
        """
        requested = read_loss(**self.loss)
        if not isinstance(requested, ApproxDP) or not requested.delta or not requested.epsilon:
            return False
        if isinstance(getattr(self.source, "remaining", None), ZCDP):
            return False
        sizes = [c.size for c in self.columns]
        pure = split_loss(PureDP(requested.epsilon), self.source.neighbors)
        return (
            one_way_noise(pure, sizes) < one_way_noise(self.split, sizes)
            # Edges are found in rounds, of which Laplace noise has the sum where Gaussian noise has its root.
            and edge_noise(pure, self.columns) <= edge_noise(self.split, self.columns)
        )

    def run(self, algorithm: Algorithm, method: str, rng: Rng | None, *, draws: Draws = "vectors") -> Model:
        """Charge the whole loss, fit, measure the model's error with what was kept for it, and return the model."""
        declared = self.source.domain
        fit_rng = Rng.secure() if rng is None else rng
        domain = Domain(
            {c.name: declared[c.name] for c in self.declared},
            row_ceiling=declared.row_ceiling,
            unreadable_rows=declared.unreadable_rows,
        )
        caps = self.source.neighbors.describe_caps()
        (parts, tier), release = self.source.adapt(
            lambda data: _fit_parts(data, self, domain, algorithm, fit_rng),
            describe=f"a synthetic table ({method}) of {', '.join(domain)}",
            record=lambda found: ReleaseContent(notes=(found[1], *caps)),
            draws=draws,
            **self.loss,
        )
        facts = {
            **({"caps": "; ".join(caps)} if caps else {}),
            "method": method,
            "tier": tier,
            **_edge_facts(parts),
            "loss": release.cost.describe(),
            "neighbors": f"{release.privacy_unit}, {release.neighbors.replace('_', '/')}",
            "private": "true" if release.private else "false",
            "charge": release.charge,
            "table": release.table_name,
        }
        return Model(parts, self.constraints, facts)


def _check_cap(cap: int | None) -> None:
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 100):
        raise DeclarationError("cap, the cells that the model may have, must be a whole number of 100 or more")


def _edge_facts(parts: ModelParts) -> dict[str, str]:
    """Return which columns have edges and heaps that were found, and what of the loss found them; none without wide columns."""
    wide = [c.name for c in parts.columns if c.released]
    if not wide:
        return {}
    heaps = []
    for column in parts.columns:
        if column.heaps is not None:
            sets = round_sets_of(column)
            heaps.append(f"{column.name} ({', '.join(sets[n - 1].words for n in column.heaps.sets if n)})")
    share = HEAPS["epsilon" if parts.counts.laplace else "rho"]
    return {
        "edges": f"up to {EDGES:.0%} of the loss found the edges of {', '.join(wide)}",
        "heaps": f"up to {share:.0%} of the loss looked for round values that many rows share: "
        + ("; ".join(heaps) if heaps else "none shows"),
    }


def plan_fit(
    source: Adaptive,
    names: Sequence[str] | None,
    constraints: Sequence[Rule],
    **loss: Unpack[LossArguments],
) -> FitPlan:
    """Return the plan of a fit; raises UnknownName, QuestionRefused or DeclarationError for what cannot be fitted."""
    if isinstance(names, str):
        raise DeclarationError(f"columns is a list of names, such as [{names!r}]")
    columns = tuple(encode_columns(source.domain, names, source.neighbors))
    check_rules(constraints, columns, source.domain)
    split = split_loss(read_loss(**loss), source.neighbors)
    rules = rule_cells(constraints, columns)
    fitted = columns if rules is None else tuple(c for c in columns if c.name not in rules.dependencies)
    return FitPlan(source, fitted, tuple(constraints), split, loss, columns, rules)


def _server_fit(source: Adaptive, constraints: Sequence[Rule], rng: Rng | None) -> Callable[..., Model] | None:
    """Return what fits a model of a remote table on its server; None for a table at hand, whose algorithm runs here."""
    on_server: Callable[..., Model] | None = getattr(source, "fit_model", None)
    if on_server is not None and (constraints or rng is not None):
        raise QuestionRefused(
            "a server fits with bits of its own, and takes constraints as text: "
            "table.fit_model('mst', never=[\"age < 18 AND job = 'driver'\"], at_most=[('paid', 'billed')], epsilon=1)"
        )
    return on_server


def _fit_parts(
    data: Queryable, plan: FitPlan, domain: Domain, algorithm: Algorithm, rng: Rng
) -> tuple[ModelParts, str]:
    """Return what answering needs of the model, and the name of its tier."""
    session = open_session(data, rng, plan.rules)
    fitted = algorithm(session, plan.columns)
    session.left = session.kept
    codes = fitted.compressed.codes
    within = fitted.one_way.shares_within(codes)
    errors = measure_errors(session, fitted, within)
    one_way = zip(fitted.one_way.noisy, fitted.one_way.variances, strict=True)
    counts = MeasuredCounts(
        tuple(NoisyTable(n, v) for n, v in one_way), fitted.measured, laplace=session.split.currency == "epsilon"
    )
    measured = frozenset(fitted.measured)
    parts = ModelParts(domain, fitted.compressed.columns, codes, within, fitted.field, measured, errors, counts)
    dependencies = {} if plan.rules is None else plan.rules.dependencies
    return add_derived(parts, domain, plan.declared, dependencies), fitted.tier


def _predicted(predict: str | Sequence[str], plan: FitPlan) -> list[int]:
    """Return the places of the columns to predict, of one that a rule gives its source's; raises UnknownName for others."""
    declared = [c.name for c in plan.declared]
    names = [predict] if isinstance(predict, str) else predict
    if not isinstance(names, Sequence):
        raise DeclarationError(f"{arg('predict')} is a column's name or a list of names, such as {declared[-1]!r}")
    for name in names:
        if name not in declared:
            raise UnknownName(
                f"predict names {name!r}, which is no column of the synthetic table; {nearest(name, declared)}"
            )
    place = {c.name: i for i, c in enumerate(plan.columns)}
    return [place[name] for name in plan.roots(names)]


def _workload(workload: str | Sequence[Sequence[str]], plan: FitPlan) -> list[tuple[int, int]] | None:
    """Return the pairs of a workload, None for all; raises DeclarationError for what is none."""
    if isinstance(workload, str):
        if workload != ALL_PAIRS:
            raise DeclarationError('workload is "all 2-way", or a list of sets of columns, such as [("age", "sex")]')
        return None
    place = {c.name: i for i, c in enumerate(plan.columns)}
    pairs: set[tuple[int, int]] = set()
    for names in workload:
        if isinstance(names, str) or any(n not in {c.name for c in plan.declared} for n in names):
            raise DeclarationError("a workload names columns of the synthetic table, such as [('age', 'sex')]")
        chosen = sorted(place[n] for n in plan.roots(names))
        pairs |= {(a, b) for i, a in enumerate(chosen) for b in chosen[i + 1 :]}
    return sorted(pairs) or None
