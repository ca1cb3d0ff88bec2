"""Columns that follow from others by a rule: no loss is spent on them, and a model holds them as exactly as those others.

A fit sees the other columns only. What it returns gets each of these back as a table with the column that it follows from.
Knows released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sordino.core.domain import Domain
from sordino.synth.answers import ModelParts
from sordino.synth.encoded_column import EncodedColumn, Floats
from sordino.synth.equivalence_classes import Dependencies
from sordino.synth.error_law import ColumnNoise
from sordino.synth.junction_tree import JunctionTree, Link
from sordino.synth.markov_random_field import MarkovRandomField, marginal
from sordino.synth.measurement import MeasuredCounts, NoisyTable
from sordino.synth.one_way_marginals import DomainCompression


def add_derived(
    parts: ModelParts, domain: Domain, columns: Sequence[EncodedColumn], dependencies: Dependencies
) -> ModelParts:
    """Return the parts of a model over all `columns`; those of `dependencies` are not in `parts`."""
    if not dependencies:
        return parts
    fitted = {c.name: i for i, c in enumerate(parts.columns)}
    place = {c.name: i for i, c in enumerate(columns)}
    moved = [place[c.name] for c in parts.columns]
    cliques = [tuple(moved[c] for c in clique) for clique in parts.field.tree.cliques]
    links = [Link(n.parent, n.child, tuple(moved[c] for c in n.separator)) for n in parts.field.tree.links]
    tables = list(parts.field.tables)
    separators = list(parts.field.separators)
    sizes = [c.size for c in parts.codes]
    made: dict[str, tuple[DomainCompression, Floats, ColumnNoise, NoisyTable]] = {}
    for name, (root, table) in dependencies.items():
        of = fitted[root]
        size = columns[place[name]].size
        codes = parts.codes[of]
        home = parts.field.tree.require_home((of,), sizes)
        counts = marginal(parts.field.tables[home], parts.field.tree.cliques[home], (of,))
        both = np.zeros((codes.size, size))
        np.add.at(both, (codes.codes, table), counts[codes.codes] * parts.within[of])
        ascending = place[root] < place[name]
        cliques.append((place[root], place[name]) if ascending else (place[name], place[root]))
        links.append(Link(home, len(cliques) - 1, (place[root],)))
        tables.append(both if ascending else both.T)
        separators.append(np.asarray(counts, dtype=np.float64))
        noise = parts.errors.columns[of]
        target = DomainCompression(table, size)
        by_key = [target.sum_by_code(one) for one in (noise.variance, noise.lean, noise.drift)]
        share = target.sum_by_code(noise.share)
        own = parts.counts.one_way[of] if parts.counts.one_way else NoisyTable(np.zeros(len(table)), 1.0)
        released = NoisyTable(target.sum_by_code(own.cells), own.variance * len(table) / size)
        identity = DomainCompression(np.arange(size), size)
        made[name] = (identity, np.ones(size), ColumnNoise(share, *by_key), released)
    names = [c.name for c in columns]
    measured = {tuple(moved[c] for c in t): n for t, n in parts.counts.tables.items()}
    several = frozenset(tuple(moved[c] for c in t) for t in parts.measured)
    one_way = tuple(made[n][3] if n in made else parts.counts.one_way[fitted[n]] for n in names if parts.counts.one_way)
    return ModelParts(
        domain,
        tuple(c if c.name in made else parts.columns[fitted[c.name]] for c in columns),
        tuple(made[n][0] if n in made else parts.codes[fitted[n]] for n in names),
        tuple(made[n][1] if n in made else parts.within[fitted[n]] for n in names),
        MarkovRandomField(JunctionTree(tuple(cliques), tuple(links)), tables, separators),
        several,
        replace(
            parts.errors,
            columns=tuple(made[n][2] if n in made else parts.errors.columns[fitted[n]] for n in names),
            pairs=several,
        ),
        MeasuredCounts(one_way, measured, laplace=parts.counts.laplace),
    )
