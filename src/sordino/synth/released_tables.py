"""A model of the released tables of a tabulation, for no further loss: their counts are what a fit would have measured.

It knows released numbers only. The tables are one least-squares estimate, whose noise is known from the release; columns that
no table holds are not drawn, and columns that no table holds together are as independent as the tables leave them.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sordino.core.domain import Boolean, Category, Date, Domain, Fill, Integer
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.estimates.table_cells import TableCells
from sordino.core.lazy import load_feature
from sordino.core.noise.rng import Rng
from sordino.core.release import Label, Release
from sordino.synth.answers import ModelParts
from sordino.synth.contrasts import infer_errors
from sordino.synth.encoded_column import EncodedColumn, model_column
from sordino.synth.fitted_model import FittedModel, Measured, fit_field
from sordino.synth.junction_tree import Pair, grow_clique
from sordino.synth.measurement import MeasuredCounts, NoisyTable
from sordino.synth.model import Model
from sordino.synth.one_way_marginals import CompressedMarginals, DomainCompression, estimate_one_way
from sordino.synth.rule_completion import check_rules
from sordino.synth.rules import Rule

Axes = tuple[int, ...]

# Cells of all cliques, where no cap is stated.
_CAP = 150_000
_SWEEPS = 30
# The least variance of a table: public counts that entered a tabulation have none.
_LEAST = 1e-9
# E|Z| of a standard normal.
_MEAN = math.sqrt(2.0 / math.pi)


def fit_released(
    release: Release,
    *,
    columns: Sequence[str] | None = None,
    constraints: Sequence[Rule] = (),
    cap: int | None = None,
    rng: Rng | None = None,
) -> Model:
    """Return the model of a release's tables; `columns` are all that they have, unless named.

    Raises QuestionRefused for a release that holds no tables of counts of rows, UnknownName for a column that they lack.
    """
    measure = _counts_of(release)
    names, domain = _read_columns(release, measure, columns)
    encoded = tuple(model_column(name, domain) for name in names)
    check_rules(constraints, encoded, domain)
    all_names = list(dict.fromkeys(name for table in measure.tables for name in table))
    all_sizes = [len(_labels_of(release, measure, name)) for name in all_names]
    place = {name: i for i, name in enumerate(names)}
    parts = {
        tuple(sorted(place[all_names[axis]] for axis in axes)): _turn(part, [all_names[axis] for axis in axes], place)
        for axes, part in load_feature("parts_of_cells")(measure, all_names, all_sizes).items()
        if all(all_names[axis] in place for axis in axes)
    }
    tables = _largest([tuple(sorted(place[n] for n in table if n in place)) for table in measure.tables])
    fitted, counts = _fit(encoded, parts, tables, _CAP if cap is None else cap, laplace=_has_laplace(measure))
    within = fitted.one_way.shares_within(fitted.compressed.codes)
    fit_rng = Rng.secure() if rng is None else rng
    errors = infer_errors(fitted, counts, within, fitted.one_way.rows_deviation, fit_rng)
    model_parts = ModelParts(
        domain,
        fitted.compressed.columns,
        fitted.compressed.codes,
        within,
        fitted.field,
        frozenset(counts.tables),
        errors,
        counts,
    )
    return Model(model_parts, tuple(constraints), _describe(release, len(measure.tables), fitted))


def _counts_of(release: Release) -> TableCells:
    """Return the measure that counts rows; raises QuestionRefused where there is none."""
    measures = [output.estimate for output in release.outputs]
    cells = [m for m in measures if isinstance(m, TableCells) and m.is_whole_release]
    if not cells or len(cells) < len(measures):
        raise QuestionRefused(
            "a model is fitted to the tables of a tabulation, and this release has none: ask for them by sd.tabulate(...), "
            "or fit the table itself, synth.fit(table, epsilon=...)"
        )
    counts = [m for m in cells if m.counts_rows]
    if not counts:
        raise QuestionRefused(
            "the released tables hold no counts of rows, which rows are drawn by: tabulate sd.count() beside the other measures"
        )
    if counts[0].suppressed:
        raise QuestionRefused("cells of the released tables are not shown: tabulate without suppress_below and largest")
    strategy = counts[0].strategy
    if strategy is not None and strategy.form == "levels":
        raise QuestionRefused(
            "the released tables are of nested areas, of which rows would be drawn in areas that do not nest: tabulate by the "
            "smallest areas, without levels"
        )
    if not any(counts[0].tables):
        raise QuestionRefused("the release holds the total alone: a model needs a table by one column or more")
    return counts[0]


def _read_columns(release: Release, measure: TableCells, columns: Sequence[str] | None) -> tuple[list[str], Domain]:
    """Return the columns of the model, and the domain that the labels of the tables make."""
    held = list(dict.fromkeys(name for table in measure.tables for name in table))
    if isinstance(columns, str):
        raise DeclarationError(f"columns is a list of names, such as [{columns!r}]")
    names = held if columns is None else list(columns)
    for name in names:
        if name not in held:
            raise UnknownName(
                f"no released table holds the column {name!r}, so it cannot be drawn; {nearest(name, held)}"
            )
    if not names or len(set(names)) < len(names):
        raise QuestionRefused("a synthetic table takes one column or more, each once")
    return names, Domain({name: _declare(_labels_of(release, measure, name)) for name in names})


def _labels_of(release: Release, measure: TableCells, name: str) -> list[Label]:
    """Return the declared keys of a column, in order: those of the first table that has it."""
    key = next(key for key in release.keys if key.name == name)
    table = next(i for i, columns in enumerate(measure.tables) if name in columns)
    starts = measure.starts()
    return list(dict.fromkeys(key.labels[starts[table] : starts[table + 1]]))


def _declare(labels: Sequence[Label]) -> Any:
    """Return a column whose keys are these labels, in this order; a missing one, where there is one, is the last.

    Rows without a key are in no table: a column without a missing label has no missing cells, whatever is declared of it.
    """
    keys: list[Any] = [label for label in labels if label is not None]
    missing: Any = "keep" if len(keys) < len(labels) else Fill(keys[0])
    if all(isinstance(key, bool) for key in keys):
        if keys == [False, True]:
            return Boolean(missing=missing)
    elif all(type(key) is int for key in keys):
        if keys == list(range(keys[0], keys[0] + len(keys))) and len(keys) > 1:
            return Integer(keys[0], keys[-1], missing=missing)
        return Category(keys, missing=missing)
    elif all(type(key) is datetime.date for key in keys):
        days = [key.toordinal() for key in keys]
        if days == list(range(days[0], days[0] + len(days))) and len(keys) > 1:
            return Date(keys[0], keys[-1], missing=missing)
    # Numbers that are no whole ones, the first days of months and moments are drawn as their text.
    texts = [key if isinstance(key, str) else _write_label(key) for key in keys]
    return Category(texts, missing="keep" if missing == "keep" else Fill(texts[0]))


def _write_label(label: Any) -> str:
    return label.isoformat() if isinstance(label, datetime.date) else str(label)


def _turn(part: Any, names: Sequence[str], place: Mapping[str, int]) -> NoisyTable:
    """Return a part with its axes in the order of the model's columns."""
    order = sorted(range(len(names)), key=lambda i: place[names[i]])
    return NoisyTable(np.transpose(part.cells, order), part.variance)


def _has_laplace(measure: TableCells) -> bool:
    """Return whether the noise has heavier tails than a normal variable."""
    laws = [noise.own for noise in measure.noise if noise.own is not None]
    heavy = any(law.continuous().laplace_scale is not None for law in laws)
    return heavy or any(noise.excess > 0 for noise in measure.noise)


def _largest(tables: Sequence[Axes]) -> list[Axes]:
    """Return the tables that no other one has as a margin."""
    distinct = sorted(dict.fromkeys(tables), key=lambda table: -len(table))
    kept: list[Axes] = []
    for table in distinct:
        if not any(set(table) <= set(other) for other in kept):
            kept.append(table)
    return kept


def _join(parts: Mapping[Axes, NoisyTable], table: Axes, sizes: Sequence[int]) -> NoisyTable:
    """Return a table as the sum of its parts, each spread evenly over the axes that it has not."""
    wide = [axis for axis in table if sizes[axis] > 1]
    whole = math.prod(sizes[axis] for axis in table)
    cells = np.zeros([sizes[axis] for axis in table])
    variance = 0.0
    for number in range(len(wide) + 1):
        for axes in itertools.combinations(wide, number):
            share = math.prod(sizes[axis] for axis in axes) / whole
            shape = [sizes[axis] if axis in axes else 1 for axis in table]
            cells = cells + parts[axes].cells.reshape(shape) * share
            variance += parts[axes].variance * share**2 * math.prod(1.0 - 1.0 / sizes[axis] for axis in axes)
    return NoisyTable(cells, max(variance, _LEAST))


def _fit(
    columns: tuple[EncodedColumn, ...],
    parts: Mapping[Axes, NoisyTable],
    tables: Sequence[Axes],
    cap: int,
    *,
    laplace: bool,
) -> tuple[FittedModel, MeasuredCounts]:
    """Return the field fitted to as many tables as the cap allows, the clearest first, and all tables with their noise."""
    sizes = [column.size for column in columns]
    single = [_join(parts, (c,), sizes) for c in range(len(columns))]
    one_way = estimate_one_way(columns, [one.cells for one in single], [one.variance for one in single])
    one_way = replace(one_way, rows_deviation=math.sqrt(max(parts[()].variance, _LEAST)))
    compressed = one_way.compress([DomainCompression(np.arange(size), size) for size in sizes])
    several = {table: _join(parts, table, sizes) for table in tables if len(table) > 1}
    pairs = {
        pair: several.get(pair) or _join(parts, pair, sizes)
        for table in several
        for pair in itertools.combinations(table, 2)
    }
    excess = {table: _excess(compressed, table, counts) for table, counts in (several | pairs).items()}
    held: list[Pair] = []
    measured: Measured = {}
    for table in sorted((t for t in several if len(t) > 2), key=lambda t: -excess[t]):
        edges = list(itertools.combinations(table, 2))
        if len(grow_clique(edges, sizes, cap=cap, start=held)[0]) == len(edges):
            held += edges
            measured[table] = several[table]
    clear = sorted(pairs, key=lambda pair: -excess[pair])
    cliques = grow_clique(clear, sizes, cap=cap, start=held)[1]
    # What a table that is held has as its margin is known by it.
    measured |= {pair: pairs[pair] for pair in clear if not any(set(pair) <= set(table) for table in measured)}
    field = fit_field(compressed, measured, cliques, sweeps=_SWEEPS, potentials={})
    tier = f"{len(measured):,} of the released tables and their margins" if measured else "independent columns"
    fitted = FittedModel(one_way, compressed, field, measured, tier)
    counts = MeasuredCounts(
        tuple(single),
        several | measured,
        laplace=laplace,
        parts={axes: part.variance for axes, part in parts.items()},
    )
    return fitted, counts


def _excess(compressed: CompressedMarginals, table: Axes, counts: NoisyTable) -> float:
    """Return how far a table lies from independent columns beyond its noise, in rows."""
    far = float(np.abs(counts.cells - compressed.independent(table)).sum())
    return far - _MEAN * math.sqrt(counts.variance) * counts.cells.size


def _describe(release: Release, count: int, fitted: FittedModel) -> dict[str, str]:
    """Return the facts of the model: whose tables it was fitted to, and what these had cost."""
    return {
        "method": "tables",
        "tier": f"fitted to {count:,} released table{'s' * (count != 1)}: {fitted.tier}",
        "loss": f"{release.cost.describe()} in all, which its tables had cost",
        "neighbors": f"{release.privacy_unit}, {release.neighbors.replace('_', '/')}",
        "private": "true" if release.private else "false",
        "charge": release.charge,
        "table": release.table_name,
        "assumed": (
            "no loss measured the model's own error: intervals of what no released table holds take it that columns depend on "
            "each other there as much as in the tables"
        ),
    }
