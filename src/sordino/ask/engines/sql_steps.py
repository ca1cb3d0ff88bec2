"""The steps of one SELECT: each cell that is used more than once is named in a sub-query, and conditions stand between.

It knows whole numbers, and how an engine writes them; no column, no unit and no cell.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sordino.ask.engines.moment_cells import bisect_steps
from sordino.ask.engines.own_sql import case_bounds, whole_text
from sordino.core.primitives import WIDEST

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import DialectType

_STEP = re.compile(r"\bsordino_[0-9]+_\b")


class SqlSteps:
    """Name the steps of one SELECT (`sordino_0_`, ...), so that the text stays as long as the question.

    An engine's own words override what it writes differently. `//` is the whole quotient, HUGEINT a type of 38 digits.
    """

    dialect: ClassVar[DialectType] = "duckdb"
    fence: ClassVar[str] = ""  # ends a sub-query whose steps an engine would otherwise compute where they are used

    def __init__(self) -> None:
        self._stages: list[dict[str, str]] = []
        self._levels: dict[str, int] = {}
        self._conditions: list[tuple[int, str]] = []
        self._joins: list[tuple[int, str, str, str]] = []
        self._floor = 0
        self._clips: dict[str, tuple[str, int, int]] = {}  # the step that clips a cell: the cell, and its bounds

    def _words(self, tree: exp.Expression) -> str:
        """Return the engine's text of a tree."""
        return tree.name if tree.key == "var" else tree.sql(dialect=self.dialect)

    def _tree(self, text: str) -> exp.Expression:
        """Return the tree of a text of the engine's, which is written as it is: parsing it would take longer than the scan."""
        from sqlglot import exp

        return exp.Var(this=text)

    def _relation(self, text: str) -> exp.Expression:
        """Return the tree of a relation, such as a sub-query with its name."""
        return self._tree(text)

    def let(self, text: str) -> str:
        """Return the name of a step, computed once in the first sub-query where all that it uses has a name."""
        if _STEP.fullmatch(text) or (text.startswith('"') and text.endswith('"') and '"' not in text[1:-1]):
            return text  # a step, or a column as it is
        for stage in self._stages:
            if text in stage:
                return stage[text]
        level = max((self._levels.get(n, -1) + 1 for n in _STEP.findall(text)), default=0)
        level = max(level, self._floor)
        while len(self._stages) <= level:
            self._stages.append({})
        name = f"sordino_{len(self._levels)}_"
        self._stages[level][text] = name
        self._levels[name] = level
        return name

    def _column(self, text: str) -> exp.Expression:
        return self._tree(self.let(text))

    def _stage(self, relation: str) -> str:
        """Return the relation with each stage's steps, the conditions in their places between them."""
        for i in range(len(self._stages) + 1):
            for level, named, on, name in self._joins:
                if level == i:
                    left = f"(SELECT * FROM {relation}) AS sordino_l"
                    relation = f"(SELECT sordino_l.*{named} FROM {left} {on}) AS {name}"
            for level, condition in self._conditions:
                if level == i:
                    relation = f"(SELECT * FROM {relation} WHERE {condition}) AS sordino_w{i}"
            if i < len(self._stages) and self._stages[i]:
                steps = ", ".join(f"{text} AS {name}" for text, name in self._stages[i].items())
                relation = f"(SELECT *, {steps} FROM {relation}{self.fence}) AS sordino_s{i}"
        return relation

    def keep(self, condition: exp.Expression) -> None:
        """Keep only rows that meet `condition`; steps named from now on are computed for those alone."""
        self._restrict(self._words(condition))

    def _restrict(self, condition: str) -> None:
        self._conditions.append((len(self._stages), condition))
        self._floor = len(self._stages)

    def clip(self, value: exp.Expression, lower: int | None, upper: int | None) -> exp.Expression:
        """Return a whole number clipped; NULL stays NULL, as comparisons with it are not true."""
        return self._clip(self._words(value), lower, upper)

    def _clip(self, text: str, lower: int | None, upper: int | None) -> exp.Expression:
        cell = self.let(text)
        if lower is None or upper is None:
            return self._column(f"CASE {case_bounds(cell, lower, upper)} ELSE {cell} END")
        inside = f"WHEN {cell} BETWEEN {whole_text(lower)} AND {whole_text(upper)} THEN {cell}"  # first: it is the common case
        clipped = self.let(f"CASE {inside} {case_bounds(cell, lower, upper)} END")
        self._clips[clipped] = cell, lower, upper
        return self._tree(clipped)

    def unclip(self, value: exp.Expression, op: str, steps: int) -> exp.Expression:
        """Return the cell before it was clipped, where that compares alike with a number of steps: it need not be clipped then.

        Theorem: a cell beyond a bound lies on the same side of `steps` as the bound, where the bound itself is not `steps`;
        where it is, > and <= still agree at the lower bound, >= and < at the upper.
        """
        cell, lower, upper = self._clips.get(self._words(value), ("", 0, 0))
        first, last = lower + (op not in (">", "<=")), upper - (op not in (">=", "<"))
        return self._tree(cell) if cell and first <= steps <= last else value

    def present(self, value: exp.Expression) -> exp.Expression:
        """Return a value that is missing where this one is, as cheap as can be."""
        return value

    def wide(self, value: exp.Expression) -> exp.Expression:
        """Return a whole number as HUGEINT."""
        return self._tree(f"CAST({self._words(value)} AS HUGEINT)")

    def look_up(self, value: exp.Expression, starts: Sequence[int], results: Sequence[int]) -> exp.Expression:
        """Return the result of the last start that is not above the value, by halving."""
        cell = self.let(self._words(value))
        found = self.bisect(cell, starts, [whole_text(r) for r in results])
        return self._column(f"CASE WHEN {cell} IS NOT NULL THEN {found} END")

    def bisect(self, cell: str, starts: Sequence[int], results: Sequence[str]) -> str:
        """Return the result of the last start that is not above a cell that is not missing."""
        return bisect_steps(cell, starts, results)

    def total(self, value: exp.Expression, largest: Fraction | None) -> exp.Expression:
        """Return the sum, which engines compute in more than 64 bits."""
        from sqlglot import exp

        del largest
        return exp.Sum(this=value)

    def bin(self, value: exp.Expression, edges: Sequence[int]) -> exp.Expression:
        """Return the bin's place: by division where all but the ends are as wide, by comparison otherwise.

        A cell held in 64 bits lies within 2^62, so 64 bits hold its distance from a start within 2^61; else it is wide.
        """
        cell = self.let(self._words(value))
        first, last, count = edges[0], edges[-1], len(edges) - 1
        inside = f"{cell} >= {whole_text(first)} AND {cell} <= {whole_text(last)}"
        inner = edges[1:-1]
        width = inner[1] - inner[0] if len(inner) > 1 else 0
        even = 0 < width <= inner[0] + WIDEST and all(b - a == width for a, b in itertools.pairwise(inner))
        if even and inner[0] - first <= width and last - inner[-1] <= width:
            start, moved, step = inner[0] - width, cell, whole_text(width)
            if max(abs(start), abs(last)) >= 2**61:
                moved, step = f"CAST({cell} AS HUGEINT)", f"CAST({step} AS HUGEINT)"
            place = f"LEAST(({moved} - {whole_text(start)}) // {step}, {count - 1})"
            return self._column(f"CASE WHEN {inside} THEN CAST({place} AS BIGINT) END")
        return self._column(
            f"CASE WHEN {inside} THEN CAST({self.bisect(cell, edges[1:-1], [str(i) for i in range(count)])} AS BIGINT) END"
        )
