"""Model: what a synthesizer releases - sample rows from it, ask it questions, save it. It holds released numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Connective, Node
from sordino.ask.queries.sql.parse import SqlText, parse_sql
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.model_estimate import KIND_WORDS
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.core.text_table import align_cells, html_table
from sordino.synth.answers import ModelParts, answer_question
from sordino.synth.condition_text import parse_condition
from sordino.synth.drawn_rows import DrawnRows, column_law
from sordino.synth.encoded_column import Codes, Floats, steps_of, values_of
from sordino.synth.expression_eval import ColumnCells, column_cells, evaluate_condition, names_in
from sordino.synth.inference import condition_on
from sordino.synth.junction_tree import Pair
from sordino.synth.latent_normal import correlations_within, draw_latent, fit_normal, hand_out_keys
from sordino.synth.markov_random_field import MarkovRandomField, column_counts, marginal
from sordino.synth.model_file import encode, read, write
from sordino.synth.one_way_marginals import code_values
from sordino.synth.pair_moments import standardize
from sordino.synth.row_refinement import expected_pairs, expected_wider, refine_rows
from sordino.synth.rule_cells import joined_columns
from sordino.synth.rule_completion import complete_rows
from sordino.synth.rules import Rule, functional_dependencies, laws_of
from sordino.synth.sampler import draw_codes, draw_within, spacings

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_ORDERED_BY = 6
# Rows that are refined at most: beyond it the noise of sampling is small, and the time is not.
_REFINED = 200_000
# Rows drawn at a time.
_CHUNK = 250_000
# The correlation of columns from which on their rows are not moved far from each other, see `refine_rows`.
_TOGETHER = 0.5
# Rounds of drawing again what a condition refuses.
_TRIES = 12


@dataclass(frozen=True, slots=True, repr=False)
class Model:
    """Hold a released model of a table: `.sample(...)`, `.answer(...)`, `.save(path)`; all of it is free post-processing.

    `facts` says how it was made: method, tier, loss, neighbors, and whether the noise was private.
    """

    parts: ModelParts
    constraints: tuple[Rule, ...]
    facts: Mapping[str, str]

    @property
    def rows(self) -> int:
        """The estimated number of rows, which the fit paid for."""
        return max(round(float(self.parts.field.tables[0].sum())), 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(c.name for c in self.parts.columns)

    @property
    def private(self) -> bool:
        """Whether the fit's noise was private: False for seeded test noise."""
        return self.facts.get("private") == "true"

    def sample(
        self,
        rows: int | None = None,
        *,
        where: Expr | str | None = None,
        rng: Rng | None = None,
        independent: bool = False,
    ) -> pa.Table:
        """Return rows drawn from the model as an Arrow table, columns as declared; the constraints hold in each.

        The rows are not independent: counts over them are close to what the model expects, much closer than those of
        independent rows, so a chi-square test, a bootstrap or a standard error over many draws comes out far too small.
        `independent=True` draws each row by itself, from the model's tree alone.

        Without `rows`, as many as the table is estimated to have. `where`, such as "age > 30" or `col("age") > 30`, draws
        from the rows that meet a condition, as many as asked: those that do not are drawn again. Raises QuestionRefused where
        the model has hardly any such rows. Rules need no drawing again: rows are completed within what they leave possible.
        """
        import pyarrow as pa

        source = Rng.secure() if rng is None else rng
        count = self.rows if rows is None else rows
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10**9:
            raise DeclarationError("rows must be a whole number from 0 to 10^9")
        node = None if where is None else _condition(where, self.parts.domain, self.columns)
        keys, steps = self._draw(count, node, source, independent)
        arrays = [values_of(c, k, s) for c, k, s in zip(self.parts.columns, keys, steps, strict=True)]
        return pa.table(dict(zip(self.columns, arrays, strict=True)))

    def draw_keys(self, rows: int, rng: Rng) -> list[Codes]:
        """Return the declared keys of drawn rows, one array a column."""
        return self._draw(rows, None, rng, False)[0] if self.constraints else self._keys(rows, {}, rng, False)

    def draw_rows(self, rows: int, rng: Rng) -> tuple[list[Codes], list[Codes]]:
        """Return drawn rows as declared keys and as steps of each column's lattice, one array a column."""
        return self._draw(rows, None, rng, False)

    def answer(self, question: object) -> Release:
        """Return the model's own answer to a question, in Python or as `sd.sql(...)`; free, with its stated error.

        It is computed from the model's tables, not from drawn rows; constraints on its columns hold in it as in rows. SQL
        names the table that was modelled, or `model`. Raises QuestionRefused for a column that the model does not have.
        """
        if not isinstance(question, SqlText):
            return answer_question(self.parts, as_aggregation(question), self.constraints, self.facts)
        table = self.facts.get("table", "model")
        name = "model" if question.parse().table.lower() == "model" else table
        aggregation = parse_sql(question.text, table=name, columns=self.columns)
        try:
            return answer_question(self.parts, aggregation, self.constraints, self.facts)
        except QuestionRefused as refused:
            raise refused.in_sql() from None

    def save(self, path: str | Path) -> None:
        """Write the model as an open file of arrays and JSON, with a checksum; no pickle."""
        write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return what `save` writes."""
        return encode(self.parts, self.constraints, self.facts)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return what the model is as JSON data: how it was made, its columns, cliques, and stated errors at `confidence`."""
        parts = self.parts
        names = self.columns
        facts = self.facts
        reach = normal_quantile(confidence)
        columns = [
            {
                "name": c.name,
                "type": type(c.column).__name__.lower(),
                "keys": c.size,
                "codes": k.size,
                "missing": c.missing and not c.dropped,
            }
            for c, k in zip(parts.columns, parts.codes, strict=True)
        ]
        return {
            "schema": 1,
            "table": facts.get("table"),
            "method": facts.get("method"),
            "tier": facts.get("tier"),
            "cost": facts.get("loss"),
            "charge": facts.get("charge"),
            "protects": facts.get("neighbors"),
            "note": facts.get("caps"),
            "private": self.private,
            "rows": self.rows,
            "columns": columns,
            "cliques": [[names[c] for c in clique] for clique in parts.field.tree.cliques],
            "cells": sum(t.size for t in parts.field.tables),
            "measured": [[names[c] for c in m] for m in sorted(parts.measured)],
            "constraints": [c.describe() for c in self.constraints],
            "confidence": confidence,
            "errors": {kind: reach * parts.errors.typical(kind) for kind in KIND_WORDS},
        }

    def describe(self) -> str:
        """Return how the model was made, in a sentence or two."""
        seal = "" if self.private else "NOT PRIVATE (seeded noise). "
        rules = f" Always: {'; '.join(c.describe() for c in self.constraints)}." if self.constraints else ""
        return (
            f"{seal}{len(self.columns)} columns and about {self.rows:,} rows; {self.facts.get('tier', 'a model')}; "
            f"{self.facts.get('loss', 'loss unknown')}; {self.facts.get('neighbors', '')}.{self._notes()}{rules}"
        )

    def _notes(self) -> str:
        return "".join(
            f" Note: {self.facts[name]}." for name in ("edges", "heaps", "caps", "assumed") if name in self.facts
        )

    def __repr__(self) -> str:
        return f"<Model: {self.describe()}>"

    def __str__(self) -> str:
        return "\n".join([self.describe(), align_cells(*self._cells())])

    def _repr_html_(self) -> str:
        head, rows = self._cells()
        foot = "free from here on: .sample(rows), .answer(question), .save(path)"
        return html_table("Synthetic model", head, rows, notes=[self.describe()], foot=foot)

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        columns = self.to_dict()["columns"]
        return ("column", "type", "keys"), [(c["name"], c["type"], f"{c['keys']:,}") for c in columns]

    # ---- drawing

    def _draw(self, rows: int, where: Node | None, rng: Rng, independent: bool) -> tuple[list[Codes], list[Codes]]:
        evidence = {} if where is None else self._evidence(where)
        kept_keys: list[list[Codes]] = []
        kept_steps: list[list[Codes]] = []
        have = 0
        attempt = rows
        for _ in range(_TRIES):
            keys = self._keys(attempt, evidence, rng, independent)
            steps = [steps_of(c, k, rng) for c, k in zip(self.parts.columns, keys, strict=True)]
            self._complete(keys, steps, rng)
            good = self._good(keys, steps, where, attempt)
            if not have and attempt == rows and good.all():
                return keys, steps
            accepted = np.flatnonzero(good)[: rows - have]
            kept_keys.append([k[accepted] for k in keys])
            kept_steps.append([s[accepted] for s in steps])
            have += len(accepted)
            if have >= rows:
                break
            share = max(float(good.mean()) if attempt else 0.0, 1.0 / 200.0)
            attempt = min(int((rows - have) / share * 1.1) + 100, 2_000_000)
        if have < rows:
            raise QuestionRefused(
                f"the model has hardly any rows that meet the condition and the constraints: {have} of {rows} were found; "
                "ask for fewer, or loosen the condition"
            )
        return [np.concatenate(k) for k in zip(*kept_keys, strict=True)], [
            np.concatenate(s) for s in zip(*kept_steps, strict=True)
        ]

    def _good(self, keys: list[Codes], steps: list[Codes], where: Node | None, rows: int) -> Any:
        if where is None:
            return np.ones(rows, dtype=bool)
        cells = {c.name: column_cells(c, k, steps=s) for c, k, s in zip(self.parts.columns, keys, steps, strict=True)}
        return _true(where, cells, rows)

    def _complete(self, keys: list[Codes], steps: list[Codes], rng: Rng) -> None:
        """Change keys and steps, in place, so that each row keeps to every rule."""
        if not self.constraints or not len(keys[0]):
            return
        parts = self.parts
        columns = {c.name: c for c in parts.columns}
        dependencies = functional_dependencies(self.constraints, columns)
        place = {c.name: i for i, c in enumerate(parts.columns)}
        names = list(laws_of(self.constraints, columns, dependencies))
        laws = {name: column_law(columns[name], self._key_counts(place[name])) for name in names}
        rows = DrawnRows(laws, {}, {}, {}, {}, dependencies, rng)
        for name in names:
            at = place[name]
            law = laws[name]
            rows.missing[name] = (keys[at] == columns[name].size - 1) & columns[name].missing
            rows.steps[name] = np.clip(steps[at], law.first, law.last)
            rows.low[name], rows.high[name] = law.runs_of(parts.codes[at].codes, keys[at])
        complete_rows(self.constraints, rows, columns)
        for name in names:
            keys[place[name]] = rows.keys(name)
            steps[place[name]] = rows.steps[name]

    def _key_counts(self, column: int) -> Floats:
        """Return the model's count of each key of one column."""
        parts = self.parts
        tree = parts.field.tree
        home = tree.require_home((column,), [c.size for c in parts.codes])
        counts: Floats = marginal(parts.field.tables[home], tree.cliques[home], (column,))
        by_key: Floats = counts[parts.codes[column].codes] * parts.within[column]
        return by_key

    def _evidence(self, where: Node) -> dict[int, Floats]:
        """Return for each column which keys can meet the conditions on it alone: 1, or 0.

        A key of which a part meets them counts in full, since rows of its other part are refused once they are drawn.
        """
        place = {c.name: i for i, c in enumerate(self.parts.columns)}
        for name in names_in(where):
            if name not in place:
                raise QuestionRefused(f"the model has no column {name!r}; it has {', '.join(place)}")
        evidence: dict[int, Floats] = {}
        dependencies = functional_dependencies(self.constraints, {c.name: c for c in self.parts.columns})
        for part in _chain(where):
            names = names_in(part)
            if len(names) == 1:
                encoded = self.parts.columns[place[names[0]]]
                cells = {encoded.name: column_cells(encoded, np.arange(encoded.size))}
                can_meet = np.broadcast_to(evaluate_condition(part, cells)[0], (encoded.size,)) > 0
                at = place[names[0]]
                if names[0] in dependencies:
                    root, table = dependencies[names[0]]
                    at, can_meet = place[root], can_meet[table]
                evidence[at] = evidence.get(at, 1.0) * can_meet.astype(np.float64)
        return evidence

    def _keys(self, rows: int, evidence: dict[int, Floats], rng: Rng, independent: bool) -> list[Codes]:
        """Return the keys of drawn rows: codes from the tree, given the evidence, then keys within codes."""
        parts = self.parts
        sizes = [c.size for c in parts.codes]
        weights = [w * evidence[i] if i in evidence else w for i, w in enumerate(parts.within)]
        field = parts.field
        if evidence:
            shares = {i: parts.codes[i].sum_by_code(weights[i]) for i in evidence}
            field = condition_on(field, shares, sizes)
            if float(field.tables[0].sum()) <= 0:
                raise QuestionRefused("the model has no rows that meet the condition")
        chunks = [min(_CHUNK, rows - start) for start in range(0, rows, _CHUNK)] or [0]
        drawn_chunks = [self._chunk(field, weights, n, rng, independent) for n in chunks]
        return (
            drawn_chunks[0]
            if len(drawn_chunks) == 1
            else [np.concatenate(several) for several in zip(*drawn_chunks, strict=True)]
        )

    def _chunk(
        self, field: MarkovRandomField, weights: Sequence[Floats], rows: int, rng: Rng, independent: bool
    ) -> list[Codes]:
        """Return the keys of some rows; many rows are drawn in chunks, whose sorts fit the cache."""
        parts = self.parts
        alphas = spacings()
        sizes = [c.size for c in parts.codes]
        codes = draw_codes(field, sizes, rows=rows, alphas=alphas, rng=rng, independent=independent)
        # refining moves rows towards the expected pairs, which is what makes rows depend on each other
        latent: dict[int, Floats] = {}
        if rows <= _REFINED and not independent:
            loose = parts.loose if field is parts.field else {}
            expected = expected_pairs(field, codes, loose, self._moment_scores() if loose else {})
            correlations = correlations_within(self._free_pairs(expected), self._ordered_sizes())
            together = {pair for pair, r in correlations.items() if abs(r) >= _TOGETHER}
            joined = joined_columns(self.constraints, parts.columns)
            wider = expected_wider(field, sizes, parts.measured | {tuple(sorted(columns)) for columns in joined})
            counts = column_counts(field, sizes)
            codes = refine_rows(codes, sizes, expected, rng, counts=counts, wider=wider, together=together)
            latent = self._latent(codes, correlations, rng)
        keys: list[Codes] = []
        largest = sorted(range(len(sizes)), key=lambda c: -sizes[c])
        for i, (code, merged, inside) in enumerate(zip(codes, parts.codes, weights, strict=True)):
            if merged.whole:
                keys.append(code)
                continue
            table = np.zeros((merged.size, len(inside)))
            table[merged.codes, np.arange(len(inside))] = inside
            if i in latent:
                keys.append(hand_out_keys(code, latent[i], table, rng))
                continue
            order = [(codes[c], sizes[c]) for c in largest if c != i][:_ORDERED_BY]
            keys.append(draw_within(table, code, order, alpha=next(alphas), rng=rng, independent=independent))
        return keys

    def _free_pairs(self, pairs: Mapping[Pair, Floats]) -> dict[Pair, Floats]:
        """Return the pairs of columns that no rule names together.

        What a rule makes impossible looks like a correlation, and rows are completed within their codes as the rule has it.
        """
        place = {column.name: i for i, column in enumerate(self.parts.columns)}
        ruled = [{place[name] for name in rule.names if name in place} for rule in self.constraints]
        return {pair: table for pair, table in pairs.items() if not any(set(pair) <= several for several in ruled)}

    def _ordered_sizes(self) -> dict[int, int]:
        """Return how many codes of each ordered column hold values."""
        both = zip(self.parts.columns, self.parts.codes, strict=True)
        return {i: codes.values_in(column.missing) for i, (column, codes) in enumerate(both) if column.ordered}

    def _moment_scores(self) -> dict[int, Floats]:
        """Return for each ordered column the values of its codes, of mean 0 and deviation 1 over the model's rows."""
        scores: dict[int, Floats] = {}
        for place, size in self._ordered_sizes().items():
            counts = self._key_counts(place)
            codes = self.parts.codes[place]
            values = code_values(self.parts.columns[place], codes, counts)
            values[size:] = 0.0
            scores[place] = standardize(values, codes.sum_by_code(counts))
        return scores

    def _latent(self, codes: Sequence[Codes], correlations: Mapping[Pair, float], rng: Rng) -> dict[int, Floats]:
        """Return the normal variables of rows in the columns that rise or fall with others, given the codes of the rows."""
        if not correlations:
            return {}
        columns, covariance = fit_normal(correlations)
        sizes = self._ordered_sizes()
        counts = {c: np.bincount(codes[c], minlength=sizes[c])[: sizes[c]].astype(np.float64) for c in columns}
        return draw_latent(columns, covariance, codes, counts, rng)


def load(path: str | Path) -> Model:
    """Return the model that `save` wrote.

    Raises SourceError where there is no file, DeclarationError for one that was altered, cut short or is something else.
    """
    return Model(*read(path))


def _condition(where: object, domain: Domain, columns: Sequence[str]) -> Node:
    if isinstance(where, str):
        where = parse_condition(where, columns)
    if not isinstance(where, Expr):
        raise QuestionRefused('where takes a condition, such as col("age") > 30')
    bind_condition(where.node, domain)
    return where.node


def _true(where: Node, cells: Mapping[str, ColumnCells], rows: int) -> Any:
    return np.broadcast_to(evaluate_condition(where, cells)[0], (rows,)) >= 0.5


def _chain(node: Node) -> Sequence[Node]:
    if isinstance(node, Connective) and node.op == "and":
        return [*_chain(node.left), *_chain(node.right)]
    return [node]
