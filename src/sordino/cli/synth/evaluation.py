"""An evaluation whole: distances, correlations, a workload, a score - in one charge, or openly on the rows of a file.

What is asked is fixed before anything is charged; all of it goes through one Queryable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.cli.synth.quality import Correlations, Open, Paid, Workload, correlated, cut_columns, halves, worked
from sordino.cli.synth.score import Card, Hits, hits_of, question_of_hits, trained
from sordino.errors import DeclarationError
from sordino.noise.rng import Rng
from sordino.synth.evaluation import Evaluation, evaluate

if TYPE_CHECKING:
    from sordino.cli.synth.progress import Stages
    from sordino.domain import Domain
    from sordino.loss import Loss
    from sordino.neighbors import Neighbors
    from sordino.queries.expressions.expr import Expr
    from sordino.queries.queryable import Queryable
    from sordino.release import Release
    from sordino.report.synth import Histograms
    from sordino.source import Csv
    from sordino.synth.model import Model
    from sordino.synth.sampler import Codes

__all__ = ["Found", "Wanted", "compared_openly", "compared_privately", "wanted_of"]

T = TypeVar("T")

_WEIGHTS = {"distances": 5, "correlations": 2, "workload": 2, "score": 1}
_QUESTIONS = 24
_PAIRS = 12
_OPEN = "NOT PRIVATE: no loss was charged"
_MOST_ROWS = 1_000_000
_DRAWN = 12  # columns


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is compared, all of it public: the model, synthetic rows by keys, questions, and a scorecard if one is asked."""

    model: Model
    rows: int
    keys: Sequence[Codes]
    cut: Sequence[Any]
    questions: Sequence[Any]
    card: Card | None
    predicted: str | None
    rng: Rng

    def shares(self) -> dict[str, Fraction]:
        """Return the share of the loss that each part gets; a part that is not asked gets none."""
        asked = {"distances": True, "correlations": bool(self.cut), "workload": True, "score": self.card is not None}
        whole = sum(_WEIGHTS[name] for name, on in asked.items() if on)
        return {name: Fraction(_WEIGHTS[name], whole) for name, on in asked.items() if on}


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it; `costs` tells each part's, `reference` the hits of a card trained on the table itself (openly)."""

    evaluation: Evaluation
    correlations: Correlations | None
    workload: Workload
    hits: Hits | None
    costs: dict[str, str]
    private: bool
    release: Release | None = None
    reference: Hits | None = None
    histograms: tuple[Histograms, ...] = ()

    @property
    def ways(self) -> list[int]:
        """The numbers of columns that distances are over."""
        return sorted({len(d.columns) for d in self.evaluation.distances})


def wanted_of(
    model: Model, *, sets: Sequence[tuple[str, ...]] | None, condition: Expr | None, words: str | None, rows: int | None
) -> Wanted:
    """Return what to compare; raises QuestionRefused before anything is charged."""
    rng = Rng.secure()
    count = min(max(model.rows, 1), _MOST_ROWS) if rows is None else rows
    chosen = _random_pairs(model, rng) if sets is None else list(sets)
    questions = halves(model, chosen, each=max(1, _QUESTIONS // len(chosen)), rng=rng)
    keys = model.drawn_keys(count, rng)
    card = None if condition is None else trained(model, condition, keys)
    return Wanted(model, count, keys, cut_columns(model), questions, card, words, rng)


def compared_openly(wanted: Wanted, path: Path, *, csv: Csv) -> Found:
    """Return the comparison with the rows of a file, NOT PRIVATE."""
    from sordino.datasets.raw import load_rows
    from sordino.synth.encoding import keys_of_table

    model = wanted.model
    names = None if csv.header else csv.names
    table = load_rows(
        path,
        model.parts.domain,
        names=names,
        delimiter=csv.between,
        null_values=csv.null_values,
        quote=csv.quote,
    )
    keys = keys_of_table(table, model.parts.columns, model.parts.domain)
    answers = Open(model, keys)
    card, hits, reference = wanted.card, None, None
    if card is not None:
        hits, reference = hits_of(card, model, keys), _reference(model, card, keys)
    return Found(
        evaluation=evaluate(model, against=table, non_private=True, rows=wanted.rows, rng=wanted.rng),
        correlations=correlated(model, wanted.cut, answers) if wanted.cut else None,
        workload=worked(model, wanted.questions, answers),
        hits=hits,
        costs=dict.fromkeys(wanted.shares(), _OPEN),
        private=False,
        reference=reference,
        histograms=_beside(wanted, keys),
    )


def compared_privately(wanted: Wanted, curator: Any, watch: Stages, *, loss: dict[str, str | None]) -> Found:
    """Return the comparison with a declared table, charged once; its parts share the loss in fixed proportions."""
    from sordino.cli.synth.progress import Watched
    from sordino.queries.queryable import Told

    model = wanted.model
    for name in model.columns:
        if curator.domain[name] != model.parts.domain[name]:
            raise DeclarationError(
                f"column {name!r} is declared otherwise than when the model was fitted: compare with the table it is of"
            )
    if wanted.card is not None:
        curator.plan(question_of_hits(wanted.card, model), **loss)  # refused now rather than after the charge
    count = len(model.columns)
    made, release = Watched(curator, watch).adapt(
        lambda data: _all(wanted, data),
        describe=f"an evaluation of a synthetic table of {count} column{'s' * (count != 1)}",
        tell=lambda found: Told(notes=_notes(found)),
        epsilon=loss["epsilon"],
        delta=loss["delta"],
        rho=loss["rho"],
    )
    return Found(*made, private=release.private, release=release)


def _all(
    wanted: Wanted, data: Queryable
) -> tuple[Evaluation, Correlations | None, Workload, Hits | None, dict[str, str]]:
    from sordino.synth.loss_shares import purse

    money = purse(data.loss, data.neighbors)
    losses = {name: money.loss(share) for name, share in wanted.shares().items()}
    model = wanted.model
    evaluation = evaluate(
        model,
        against=_Within(data, losses["distances"]),
        rows=wanted.rows,
        rng=wanted.rng,
    )
    correlations = correlated(model, wanted.cut, Paid(data, losses["correlations"])) if wanted.cut else None
    workload = worked(model, wanted.questions, Paid(data, losses["workload"]))
    hits = None
    if wanted.card is not None:
        made = data.release(question_of_hits(wanted.card, model), losses["score"])
        hits = _hits(made)
    return evaluation, correlations, workload, hits, {n: f"cost {loss.describe()}" for n, loss in losses.items()}


def _hits(made: Release) -> Hits:
    """Return the noisy counts of a released question of hits, by the labels of its rows."""
    estimate: Any = made.outputs[0].estimate
    values = {
        (guess, truth): float(step) * float(estimate.unit)
        for guess, truth, step in zip(made.keys[0].labels, made.keys[1].labels, estimate.steps, strict=True)
    }
    cells = tuple(tuple(values[g, t] for t in ("no", "yes")) for g in ("no", "yes"))
    return Hits(cells, float(estimate.law.variance()) * float(estimate.unit) ** 2)  # type: ignore[arg-type]  # two by two


def _notes(found: tuple[Evaluation, Correlations | None, Workload, Hits | None, dict[str, str]]) -> tuple[str, ...]:
    """Return the figures in words, for the record: released numbers alone."""
    evaluation, correlations, workload, hits, _ = found
    ways = sorted({len(d.columns) for d in evaluation.distances})
    told = [f"mean distance over {w}: {evaluation.mean(w):.4f} within {evaluation.error(w, 0.95):.4f}" for w in ways]
    told.append(f"counts err by {workload.error:,.0f} rows")
    if correlations is not None:
        told.append(
            f"correlations differ by {correlations.largest:.2f} at most, error of asking {correlations.error:.2f}"
        )
    if hits is not None:
        told.append(f"predicted right: {hits.accuracy:.3f} within {hits.error(1.96):.3f}")
    return tuple(told)


def _random_pairs(model: Model, rng: Rng) -> list[tuple[str, ...]]:
    """Return at most twelve random pairs of columns, or the one column there is."""
    names = model.columns
    pool: list[tuple[str, ...]] = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]] or [(names[0],)]
    chosen: list[tuple[str, ...]] = []
    while pool and len(chosen) < _PAIRS:
        chosen.append(pool.pop(rng.below(len(pool))))
    return sorted(chosen)


def _reference(model: Model, card: Card, keys: Sequence[Codes]) -> Hits | None:
    """Return the hits, on one half of the rows, of a card trained on the other: what the table itself could do."""
    from sordino.errors import QuestionRefused

    whole = [k.clip(min=0) for k in keys]
    try:
        own = trained(model, card.condition, [k[0::2] for k in whole])
    except QuestionRefused:
        return None
    return hits_of(own, model, [k[1::2] for k in keys])


def _beside(wanted: Wanted, keys: Sequence[Codes]) -> tuple[Histograms, ...]:
    """Return, for the first twelve columns, the counts of the original beside those of the synthetic rows."""
    import numpy as np

    from sordino.report.synth import Histograms, bins_of

    found: list[Histograms] = []
    for i, column in list(enumerate(wanted.model.parts.columns))[:_DRAWN]:
        real, made = (np.bincount(k[k >= 0], minlength=column.size) for k in (keys[i], wanted.keys[i]))
        scaled = made * (real.sum() / max(int(made.sum()), 1))
        bins, ordered = bins_of(column, wanted.model.parts.domain)
        series = [("original", real.tolist()), ("synthetic", scaled.tolist())]
        found.append(Histograms(column.name, bins, series, ordered=ordered, mark="an original is shown"))
    return tuple(found)


class _Within:
    """A part of a session as a table that one algorithm can be run on: nothing more is charged."""

    def __init__(self, data: Queryable, loss: Loss) -> None:
        self._data, self._loss = data, loss
        self.domain: Domain = data.domain
        self.neighbors: Neighbors = data.neighbors

    def adapt(self, algorithm: Callable[[Any], T], *, describe: str, tell: Any, **_: None) -> tuple[T, Release]:
        """Run an algorithm on a part of the session, and return its last release as the one on record."""
        del describe, tell
        part = _Part(self._data, self._loss)
        return algorithm(part), part.last()


class _Part:
    """A Queryable with less to spend; the session itself counts and refuses."""

    def __init__(self, data: Queryable, loss: Loss) -> None:
        self._data, self.loss = data, loss
        self.domain, self.neighbors = data.domain, data.neighbors
        self._made: list[Release] = []

    def release(self, query: Any, loss: Loss) -> Release:
        """Return the session's answer."""
        self._made.append(self._data.release(query, loss))
        return self._made[-1]

    def last(self) -> Release:
        """Return the last answer."""
        return self._made[-1]
